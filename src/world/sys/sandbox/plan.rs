//! Owns the order in which the sandbox's root is put together: what goes over what. It is worked
//! out from the confinement alone; nothing here looks at the disk.
//!
//! Pieces stand shallow before deep, so the deepest one speaks for a path. A piece that lies inside
//! something writable is pinned: each directory on the way down to it becomes a mount point of its
//! own, which the kernel lets nobody rename or remove. Without the pins a command could rename the
//! directory above a mask, make another in its place, and have the mask out of its way.

use std::collections::BTreeMap;

use crate::confinement::{Confinement, Layer};
use crate::path::AbsPath;
use crate::permissions::grant::Permission;

/// One thing that is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// A path of the machine, as it is.
    Open(Permission),
    /// A path of the machine, whose changes go elsewhere.
    Layer(&'a Layer),
    /// What stands there already, as a mount point.
    Pin,
    /// What stands there already, read-only.
    Mask,
    /// Nothing.
    Hide(Below),
}

/// What lies below a place that is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Below {
    /// Nothing that is open.
    Nothing,
    /// Something that is open.
    Openings,
}

impl Piece<'_> {
    fn is_writable(self) -> bool {
        match self {
            Piece::Open(Permission::Write) | Piece::Layer(_) | Piece::Pin => true,
            Piece::Open(Permission::Read) | Piece::Mask | Piece::Hide(_) => false,
        }
    }
}

/// A place: first its depth, so that shallow stands before deep, then its path.
type Place = (usize, AbsPath);

/// Everything of the user's that goes into the root, in the order of mounting.
pub(crate) fn pieces(confinement: &Confinement) -> Vec<(AbsPath, Piece<'_>)> {
    let mut placed: BTreeMap<Place, Piece<'_>> = BTreeMap::new();
    for (place, piece) in wanted(confinement) {
        let above = nearest_above(&placed, &place.1);
        let ground = above.as_ref().map(|(_, piece)| *piece);
        let has_effect = match piece {
            Piece::Mask => ground.is_some_and(Piece::is_writable),
            Piece::Hide(_) => ground.is_some_and(|ground| !matches!(ground, Piece::Hide(_))),
            Piece::Open(Permission::Read) => ground != Some(Piece::Open(Permission::Read)),
            Piece::Open(Permission::Write) | Piece::Layer(_) | Piece::Pin => true,
        };
        if !has_effect {
            continue;
        }
        if let Some((root, above)) = above
            && above.is_writable()
        {
            let pins = between(&root, &place.1);
            placed.extend(pins.into_iter().map(|pin| (pin, Piece::Pin)));
        }
        placed.insert(place, piece);
    }
    for path in &confinement.hidden {
        let is_below = |(_, other): &&Place| other != path && other.is_within(path);
        if placed.keys().any(|place| is_below(&place))
            && let Some(hide @ Piece::Hide(_)) = placed.get_mut(&place(path))
        {
            *hide = Piece::Hide(Below::Openings);
        }
    }
    let mounted = placed.into_iter().map(|((_, path), piece)| (path, piece));
    mounted.collect()
}

/// What is asked for, one piece for each place: where several are, the one that gives least.
fn wanted(confinement: &Confinement) -> BTreeMap<Place, Piece<'_>> {
    let mut wanted = BTreeMap::new();
    for opening in &confinement.open {
        wanted.insert(place(&opening.path), Piece::Open(opening.permission));
    }
    let home = wanted.entry(place(&confinement.home));
    home.or_insert(Piece::Open(Permission::Write));
    for layer in &confinement.layers {
        wanted.insert(place(&layer.root), Piece::Layer(layer));
    }
    for path in &confinement.masked {
        let masked = wanted.entry(place(path));
        masked
            .and_modify(|piece| *piece = Piece::Open(Permission::Read))
            .or_insert(Piece::Mask);
    }
    for path in &confinement.hidden {
        wanted.insert(place(path), Piece::Hide(Below::Nothing));
    }
    wanted
}

fn place(path: &AbsPath) -> Place {
    (path.as_path().components().count(), path.clone())
}

/// The deepest piece that `path` lies inside of.
fn nearest_above<'a>(
    placed: &BTreeMap<Place, Piece<'a>>,
    path: &AbsPath,
) -> Option<(AbsPath, Piece<'a>)> {
    let mut above = path.parent();
    while let Some(path) = above {
        let place = place(&path);
        if let Some(piece) = placed.get(&place) {
            return Some((path, *piece));
        }
        above = path.parent();
    }
    None
}

/// The places below `root` on the way down to `path`.
fn between(root: &AbsPath, path: &AbsPath) -> Vec<Place> {
    let mut places = Vec::new();
    let mut above = path.parent();
    while let Some(path) = above.filter(|path| path != root) {
        above = path.parent();
        places.push(place(&path));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confinement::Opening;
    use crate::confinement::limits::Limits;
    use crate::confinement::network::Reach;
    use crate::confinement::tier::Tier;
    use crate::permissions::grant::Scope;

    fn path(path: &str) -> AbsPath {
        AbsPath::new(path).unwrap()
    }

    /// What `words` ask for, as the order of mounting: `w`rite, `r`ead, `l`ayer, `m`ask, `h`ide and
    /// in the answer also `p`in, and `H` for a hidden place with something open below.
    #[track_caller]
    fn check(words: &str, expected: &str) {
        let wanted: Vec<(&str, AbsPath)> = words
            .split_whitespace()
            .map(|word| word.split_once(':').unwrap())
            .map(|(kind, place)| (kind, path(place)))
            .collect();
        let of = |kind: &'static str| {
            let of_kind = wanted.iter().filter(move |(other, _)| *other == kind);
            of_kind.map(|(_, path)| path.clone())
        };
        let open = |kind, permission| {
            of(kind).map(move |path| Opening {
                path,
                permission,
                scope: Scope::Tree,
            })
        };
        let confinement = Confinement {
            tier: Tier::A,
            open: open("w", Permission::Write)
                .chain(open("r", Permission::Read))
                .collect(),
            identities: BTreeMap::new(),
            masked: of("m").collect(),
            hidden: of("h").collect(),
            layers: of("l")
                .map(|root| Layer {
                    root,
                    upper: path("/u"),
                    work: path("/k"),
                })
                .collect(),
            toolchains: Vec::new(),
            home: path("/home"),
            scratch: path("/scratch"),
            dir: path("/"),
            reach: Reach::None,
            env: BTreeMap::new(),
            limits: Limits::default(),
            program: Vec::new(),
        };
        let word = |(path, piece): &(AbsPath, Piece<'_>)| {
            let kind = match piece {
                Piece::Open(Permission::Write) => "w",
                Piece::Open(Permission::Read) => "r",
                Piece::Layer(_) => "l",
                Piece::Pin => "p",
                Piece::Mask => "m",
                Piece::Hide(Below::Nothing) => "h",
                Piece::Hide(Below::Openings) => "H",
            };
            format!("{kind}:{path}")
        };
        let pieces = pieces(&confinement);
        let (home, others): (Vec<_>, Vec<_>) = pieces
            .iter()
            .partition(|(path, _)| *path == confinement.home);
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
    fn what_would_change_nothing_is_left_out() {
        check("r:/a m:/a/b r:/a/c/d", "r:/a");
        check("m:/a h:/b", "");
        check("w:/a m:/a/b m:/a/b/c", "w:/a m:/a/b");
        check("w:/a h:/a/b h:/a/b/c m:/a/b/d", "w:/a h:/a/b");
    }

    #[test]
    fn of_two_for_one_place_the_one_that_gives_least_counts() {
        check("w:/a l:/a", "l:/a");
        check("w:/a m:/a", "r:/a");
        check("r:/a w:/a/b h:/a/b", "r:/a h:/a/b");
    }
}
