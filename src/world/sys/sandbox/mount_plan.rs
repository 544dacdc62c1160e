//! Plans the order in which the sandbox's root is built: what is mounted over what. The plan is
//! computed from the policy alone; nothing here reads the disk.
//!
//! Pieces are ordered from shallow to deep, so the deepest one decides about a path. A piece inside
//! something writable is pinned: each directory on the way down to it becomes its own mount point,
//! which the kernel lets no process rename or remove. Without the pins, a command could rename the
//! directory above a mask, create another one in its place, and so get rid of the mask.

use std::collections::BTreeMap;

use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::sandbox_policy::{OverlayLayer, SandboxPolicy};

/// One thing that is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MountPiece<'a> {
    /// A path of the machine, as it is.
    Open(Permission),
    /// A path of the machine, whose changes go to a layer.
    Layer(&'a OverlayLayer),
    /// The existing directory, as a mount point.
    Pin,
    /// The existing file or directory, read-only.
    Mask,
    /// An empty file or directory over the existing one.
    Hide(HiddenContent),
}

/// What lies below a hidden path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HiddenContent {
    /// Nothing that is accessible.
    Nothing,
    /// Something that is accessible.
    Openings,
}

impl MountPiece<'_> {
    fn is_writable(self) -> bool {
        match self {
            MountPiece::Open(Permission::Write) | MountPiece::Layer(_) | MountPiece::Pin => true,
            MountPiece::Open(Permission::Read) | MountPiece::Mask | MountPiece::Hide(_) => false,
        }
    }
}

/// A path with its depth first, so that shallow paths sort before deep ones.
type PathByDepth = (usize, AbsPath);

/// Plans all of the user's paths that go into the root, in mount order.
pub(crate) fn plan_pieces(policy: &SandboxPolicy) -> Vec<(AbsPath, MountPiece<'_>)> {
    let mut planned_pieces: BTreeMap<PathByDepth, MountPiece<'_>> = BTreeMap::new();
    for (depth_path, piece) in pieces_by_path(policy) {
        let above = nearest_above(&planned_pieces, &depth_path.1);
        let surrounding = above.as_ref().map(|(_, piece)| *piece);
        let has_effect = match piece {
            MountPiece::Mask => surrounding.is_some_and(MountPiece::is_writable),
            MountPiece::Hide(_) => {
                surrounding.is_some_and(|piece| !matches!(piece, MountPiece::Hide(_)))
            }
            MountPiece::Open(Permission::Read) => {
                surrounding != Some(MountPiece::Open(Permission::Read))
            }
            MountPiece::Open(Permission::Write) | MountPiece::Layer(_) | MountPiece::Pin => true,
        };
        if !has_effect {
            continue;
        }
        if let Some((root, above)) = above
            && above.is_writable()
        {
            let pins = paths_between(&root, &depth_path.1);
            planned_pieces.extend(pins.into_iter().map(|pin| (pin, MountPiece::Pin)));
        }
        planned_pieces.insert(depth_path, piece);
    }
    for path in &policy.hidden {
        let is_below = |(_, other): &&PathByDepth| other != path && other.is_within(path);
        if planned_pieces
            .keys()
            .any(|depth_path| is_below(&depth_path))
            && let Some(hide @ MountPiece::Hide(_)) = planned_pieces.get_mut(&path_by_depth(path))
        {
            *hide = MountPiece::Hide(HiddenContent::Openings);
        }
    }
    let pieces = planned_pieces
        .into_iter()
        .map(|((_, path), piece)| (path, piece));
    pieces.collect()
}

/// Returns the requested pieces, one per path: what is hidden or masked comes before a layer, and a
/// layer before what is only open.
fn pieces_by_path(policy: &SandboxPolicy) -> BTreeMap<PathByDepth, MountPiece<'_>> {
    let mut requested_pieces = BTreeMap::new();
    for open_path in &policy.open {
        requested_pieces.insert(
            path_by_depth(&open_path.path),
            MountPiece::Open(open_path.permission),
        );
    }
    let home = requested_pieces.entry(path_by_depth(&policy.home));
    home.or_insert(MountPiece::Open(Permission::Write));
    for layer in &policy.layers {
        requested_pieces.insert(path_by_depth(&layer.root), MountPiece::Layer(layer));
    }
    for path in &policy.masked {
        let masked_entry = requested_pieces.entry(path_by_depth(path));
        masked_entry
            .and_modify(|piece| *piece = MountPiece::Open(Permission::Read))
            .or_insert(MountPiece::Mask);
    }
    for path in &policy.hidden {
        requested_pieces.insert(
            path_by_depth(path),
            MountPiece::Hide(HiddenContent::Nothing),
        );
    }
    requested_pieces
}

fn path_by_depth(path: &AbsPath) -> PathByDepth {
    (path.as_path().components().count(), path.clone())
}

/// Returns the deepest piece that contains `path`.
fn nearest_above<'a>(
    planned_pieces: &BTreeMap<PathByDepth, MountPiece<'a>>,
    path: &AbsPath,
) -> Option<(AbsPath, MountPiece<'a>)> {
    let mut ancestor = path.parent();
    while let Some(path) = ancestor {
        let depth_path = path_by_depth(&path);
        if let Some(piece) = planned_pieces.get(&depth_path) {
            return Some((path, *piece));
        }
        ancestor = path.parent();
    }
    None
}

/// Returns the paths below `root` on the way down to `path`.
fn paths_between(root: &AbsPath, path: &AbsPath) -> Vec<PathByDepth> {
    let mut paths = Vec::new();
    let mut ancestor = path.parent();
    while let Some(path) = ancestor.filter(|path| path != root) {
        ancestor = path.parent();
        paths.push(path_by_depth(&path));
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permissions::grant::GrantScope;
    use crate::sandbox_policy::AccessiblePath;
    use crate::sandbox_policy::NetworkAccess;
    use crate::sandbox_policy::ResourceLimits;
    use crate::sandbox_policy::sandbox_level::SandboxLevel;

    fn path(path: &str) -> AbsPath {
        AbsPath::new(path).unwrap()
    }

    /// Checks the mount order that results from `words`: `w`rite, `r`ead, `l`ayer, `m`ask, `h`ide;
    /// the result may also contain `p`in, and `H` for a hidden path with something accessible
    /// below.
    #[track_caller]
    fn check(words: &str, expected: &str) {
        let pieces: Vec<(&str, AbsPath)> = words
            .split_whitespace()
            .map(|word| word.split_once(':').unwrap())
            .map(|(kind, piece_path)| (kind, path(piece_path)))
            .collect();
        let of = |kind: &'static str| {
            let of_kind = pieces.iter().filter(move |(other, _)| *other == kind);
            of_kind.map(|(_, path)| path.clone())
        };
        let open = |kind, permission| {
            of(kind).map(move |path| AccessiblePath {
                path,
                permission,
                scope: GrantScope::Tree,
            })
        };
        let policy = SandboxPolicy {
            level: SandboxLevel::Overlay,
            open: open("w", Permission::Write)
                .chain(open("r", Permission::Read))
                .collect(),
            identities: BTreeMap::new(),
            masked: of("m").collect(),
            hidden: of("h").collect(),
            layers: of("l")
                .map(|root| OverlayLayer {
                    root,
                    upper: path("/u"),
                    work: path("/k"),
                    between: None,
                })
                .collect(),
            toolchains: Vec::new(),
            home: path("/home"),
            scratch: path("/scratch"),
            dir: path("/"),
            network: NetworkAccess::None,
            env: BTreeMap::new(),
            limits: ResourceLimits::default(),
            program: Vec::new(),
        };
        let word = |(path, piece): &(AbsPath, MountPiece<'_>)| {
            let kind = match piece {
                MountPiece::Open(Permission::Write) => "w",
                MountPiece::Open(Permission::Read) => "r",
                MountPiece::Layer(_) => "l",
                MountPiece::Pin => "p",
                MountPiece::Mask => "m",
                MountPiece::Hide(HiddenContent::Nothing) => "h",
                MountPiece::Hide(HiddenContent::Openings) => "H",
            };
            format!("{kind}:{path}")
        };
        let pieces = plan_pieces(&policy);
        let (home, others): (Vec<_>, Vec<_>) =
            pieces.iter().partition(|(path, _)| *path == policy.home);
        assert_eq!(home.len(), 1);
        let order: Vec<String> = others.into_iter().map(word).collect();
        assert_eq!(order.join(" "), expected);
    }

    #[test]
    fn the_deepest_piece_comes_last() {
        check("", "");
        check("w:/a/b r:/c w:/c/d", "r:/c w:/a/b w:/c/d");
        check("w:/a r:/a/b w:/a/b/c", "w:/a r:/a/b w:/a/b/c");
    }

    #[test]
    fn the_way_to_a_piece_inside_something_writable_is_pinned() {
        check("w:/a m:/a/.git", "w:/a m:/a/.git");
        check("w:/a m:/a/b/c/.git", "w:/a p:/a/b p:/a/b/c m:/a/b/c/.git");
        check("l:/a r:/a/b/c", "l:/a p:/a/b r:/a/b/c");
        check(
            "w:/a w:/a/b/c m:/a/b/c/d/e",
            "w:/a p:/a/b w:/a/b/c p:/a/b/c/d m:/a/b/c/d/e",
        );
        check("r:/a h:/a/b/c", "r:/a h:/a/b/c");
        check("w:/a h:/a/b/c", "w:/a p:/a/b h:/a/b/c");
        check("w:/a h:/a/b w:/a/b/c/d", "w:/a H:/a/b w:/a/b/c/d");
    }

    #[test]
    fn mounts_without_effect_are_left_out() {
        check("r:/a m:/a/b r:/a/c/d", "r:/a");
        check("m:/a h:/b", "");
        check("w:/a m:/a/b m:/a/b/c", "w:/a m:/a/b");
        check("w:/a h:/a/b h:/a/b/c m:/a/b/d", "w:/a h:/a/b");
    }

    #[test]
    fn the_strictest_of_two_mounts_at_one_path_counts() {
        check("w:/a l:/a", "l:/a");
        check("w:/a m:/a", "r:/a");
        check("r:/a w:/a/b h:/a/b", "r:/a h:/a/b");
    }
}
