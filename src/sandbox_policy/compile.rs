//! Derives the sandbox policy of an agent's commands from its grants. It asks the same permission
//! manager that decides about files, so that a command can never do what a file tool may not.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::path::{AbsPath, RealPath};
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, GrantScope, Permission};
use crate::sandbox_policy::NetworkAccess;
use crate::sandbox_policy::ResourceLimits;
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::sandbox_policy::{AccessiblePath, FileIdentity, OverlayLayer, SandboxPolicy};

/// What a command's policy needs in addition to the grants.
#[derive(Clone, Debug)]
pub struct CommandContext {
    /// The working directory.
    pub dir: AbsPath,
    /// The private home directory.
    pub home: AbsPath,
    /// The private directory for temporary files.
    pub scratch: AbsPath,
    /// Paths that toolchains are read from.
    pub toolchains: Vec<AbsPath>,
    /// The complete environment.
    pub env: BTreeMap<String, String>,
    /// The resource limits.
    pub limits: ResourceLimits,
    /// The network access.
    pub network: NetworkAccess,
    /// Where changes to writable paths go at level `overlay`.
    pub write_target: WriteTarget,
    /// The identity of each directory when grants were opened there.
    pub identities: BTreeMap<AbsPath, FileIdentity>,
    /// Existing paths that no command may change.
    pub masked: Vec<AbsPath>,
    /// Existing paths that no command may read, in addition to those that the grants hide.
    pub hidden: Vec<AbsPath>,
    /// The program and its arguments.
    pub program: Vec<String>,
}

impl CommandContext {
    /// Replaces the private home directory, also in the variables that name paths inside it.
    #[must_use]
    pub fn with_home(mut self, home: AbsPath) -> Self {
        for value in self.env.values_mut() {
            let inside = AbsPath::new(&*value).and_then(|path| path.below(&self.home));
            if let Some(inside) = inside {
                *value = home.join(inside.as_path()).to_string();
            }
        }
        Self { home, ..self }
    }
}

/// Where a command's writes to the user's paths go at level `overlay`. At other levels they go to
/// the paths themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteTarget {
    /// To these overlay layers; layers that belong to no writable path are ignored.
    Layers(Vec<OverlayLayer>),
    /// To the paths: they already show an overlay.
    Overlay,
}

/// The reason why no policy can be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SandboxPolicyError {
    /// Nothing on this machine can enforce it.
    #[error("nothing on this machine can hold a command to its grants")]
    NothingEnforces,
    /// The working directory is not readable.
    #[error("`{dir}` is not inside your directories")]
    DirectoryNotAccessible {
        /// The directory.
        dir: AbsPath,
    },
    /// At level `overlay` every writable path of the user needs a layer.
    #[error("the writable `{root}` has no layer of its own")]
    NoLayer {
        /// The writable path.
        root: AbsPath,
    },
    /// There is no program.
    #[error("there is no command")]
    NoProgram,
}

/// Compiles the policy for a command of an agent with the grants of `manager`, in its phase.
///
/// # Errors
/// See [`SandboxPolicyError`].
pub fn compile(
    manager: &PathPermissionManager,
    level: SandboxLevel,
    context: CommandContext,
) -> Result<SandboxPolicy, SandboxPolicyError> {
    if level == SandboxLevel::Unavailable {
        return Err(SandboxPolicyError::NothingEnforces);
    }
    if context.program.is_empty() {
        return Err(SandboxPolicyError::NoProgram);
    }
    let open_paths = accessible_paths(manager, level);
    let hidden_paths = hidden_paths(manager, context.hidden);
    let temporary = context.env.get("TMPDIR").and_then(AbsPath::new);
    let is_private =
        context.dir.is_within(&context.home) || temporary.as_ref() == Some(&context.dir);
    if !is_private && !is_open(&context.dir, &open_paths, &hidden_paths) {
        return Err(SandboxPolicyError::DirectoryNotAccessible { dir: context.dir });
    }
    let layers = overlay_layers(manager, level, &open_paths, context.write_target)?;
    let is_writable = |path: &AbsPath| {
        let deepest = deepest_accessible(path, &open_paths);
        deepest.is_some_and(|open_path| open_path.permission == Permission::Write)
    };
    let masked = context.masked.into_iter().filter(is_writable).collect();
    let toolchains = context.toolchains.into_iter();
    // Where a toolchain overlaps with what the grants name, they alone decide.
    let is_outside_grants = |toolchain: &AbsPath| {
        let touches = |path: &AbsPath| toolchain.is_within(path) || path.is_within(toolchain);
        let mut named_paths = open_paths
            .iter()
            .map(|open_path| &open_path.path)
            .chain(&hidden_paths);
        !named_paths.any(touches)
    };
    Ok(SandboxPolicy {
        level,
        identities: context.identities,
        masked,
        layers,
        toolchains: toolchains.filter(is_outside_grants).collect(),
        hidden: hidden_paths,
        open: open_paths,
        home: context.home,
        scratch: context.scratch,
        dir: context.dir,
        network: context.network,
        env: context.env,
        limits: context.limits,
        program: context.program,
    })
}

/// Returns the user's paths that are open to a command of an agent with the grants of `manager`,
/// and the paths among them that are hidden.
pub fn reachable_paths(
    manager: &PathPermissionManager,
    level: SandboxLevel,
) -> (Vec<AccessiblePath>, Vec<AbsPath>) {
    (
        accessible_paths(manager, level),
        hidden_paths(manager, Vec::new()),
    )
}

/// Returns one accessible path for each readable root; each directory comes before the paths inside
/// it. Of several grants with the same root the manager's first applies, as it does for files.
fn accessible_paths(manager: &PathPermissionManager, level: SandboxLevel) -> Vec<AccessiblePath> {
    let mut open_paths: BTreeMap<AbsPath, AccessiblePath> = BTreeMap::new();
    for grant in manager.grants() {
        if !manager.allows(&grant.root, Permission::Read) {
            continue;
        }
        let path = grant.root.to_abs();
        open_paths
            .entry(path.clone())
            .or_insert_with(|| AccessiblePath {
                path,
                permission: effective_permission(manager, grant, level),
                scope: grant.scope,
            });
    }
    open_paths.into_values().collect()
}

/// Returns the permission that commands get for a grant. A single file is read-only, because files
/// are replaced by renaming, which a mount of one file does not allow. Where nothing can stop
/// protected names from being created (level `landlock`), the user's paths are read-only.
fn effective_permission(
    manager: &PathPermissionManager,
    grant: &Grant,
    level: SandboxLevel,
) -> Permission {
    let is_tree = grant.scope == GrantScope::Tree;
    let is_own_directory = matches!(grant.kind, GrantKind::Workspace | GrantKind::BuiltIn);
    let is_writable = manager.allows(&grant.root, Permission::Write);
    if is_writable && is_tree && (level != SandboxLevel::Landlock || is_own_directory) {
        Permission::Write
    } else {
        Permission::Read
    }
}

/// Returns the unreadable paths among those that the grants name: their roots, which may be inside
/// another open tree, and what they hide; plus the `other_hidden` paths.
fn hidden_paths(manager: &PathPermissionManager, other_hidden: Vec<AbsPath>) -> Vec<AbsPath> {
    let paths_of_grant = |grant: &Grant| {
        let hidden_paths = grant.hidden.iter().map(|rel| grant.root.join(rel));
        let named_paths = std::iter::once(grant.root.clone()).chain(hidden_paths);
        named_paths.collect::<Vec<RealPath>>()
    };
    let hidden_by_grants = manager
        .grants()
        .iter()
        .flat_map(paths_of_grant)
        .filter(|path| !manager.allows(path, Permission::Read))
        .map(|path| path.to_abs());
    let hidden_paths: BTreeSet<AbsPath> = hidden_by_grants.chain(other_hidden).collect();
    hidden_paths.into_iter().collect()
}

/// Returns the overlay layers of writable paths. Only an agent's own workspace is written to
/// directly.
fn overlay_layers(
    manager: &PathPermissionManager,
    level: SandboxLevel,
    open: &[AccessiblePath],
    write_target: WriteTarget,
) -> Result<Vec<OverlayLayer>, SandboxPolicyError> {
    let (SandboxLevel::Overlay, WriteTarget::Layers(candidates)) = (level, write_target) else {
        return Ok(Vec::new());
    };
    let is_writable = |path: &AbsPath| {
        let mut writable = open
            .iter()
            .filter(|open_path| open_path.permission == Permission::Write);
        writable.any(|open_path| open_path.path == *path)
    };
    let layers: Vec<OverlayLayer> = candidates
        .into_iter()
        .filter(|layer| is_writable(&layer.root))
        .collect();
    let workspaces: BTreeSet<AbsPath> = manager
        .grants()
        .iter()
        .filter(|grant| grant.kind == GrantKind::Workspace)
        .map(|grant| grant.root.to_abs())
        .collect();
    let needs_layer = |open_path: &&AccessiblePath| {
        open_path.permission == Permission::Write
            && !workspaces.contains(&open_path.path)
            && !layers.iter().any(|layer| layer.root == open_path.path)
    };
    match open.iter().find(needs_layer) {
        Some(open_path) => Err(SandboxPolicyError::NoLayer {
            root: open_path.path.clone(),
        }),
        None => Ok(layers),
    }
}

/// Returns whether `dir` can be a working directory: inside an open tree and not hidden there.
fn is_open(dir: &AbsPath, open: &[AccessiblePath], hidden: &[AbsPath]) -> bool {
    let Some(deepest) = deepest_accessible(dir, open) else {
        return false;
    };
    let hides_dir = |path: &AbsPath| dir.is_within(path) && path.is_within(&deepest.path);
    !hidden.iter().any(hides_dir)
}

/// Returns the accessible path that applies to `path`, the deepest one.
pub(crate) fn deepest_accessible<'a>(
    path: &AbsPath,
    open: &'a [AccessiblePath],
) -> Option<&'a AccessiblePath> {
    let covers = |open_path: &&AccessiblePath| match open_path.scope {
        GrantScope::Tree => path.is_within(&open_path.path),
        GrantScope::File => *path == open_path.path,
    };
    let depth = |open_path: &&AccessiblePath| open_path.path.as_path().components().count();
    open.iter().filter(covers).max_by_key(depth)
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::disallowed_methods,
        reason = "tests vouch for the paths that they make up"
    )]

    use std::sync::Arc;

    use super::*;
    use crate::path::RelPath;
    use crate::permissions::grant::Phase;
    use crate::permissions::path_rules::{PathGlob, PathRule, RuleAction};

    fn abs(path: &str) -> AbsPath {
        AbsPath::new(path).unwrap()
    }

    fn grant(root: &str, kind: GrantKind, permission: Permission) -> Grant {
        Grant::tree(RealPath::vouch(root), kind, permission)
    }

    fn workspace() -> Grant {
        grant("/p/.massgen/ws", GrantKind::Workspace, Permission::Write)
    }

    fn project(permission: Permission) -> Grant {
        let hidden = RelPath::new(".massgen").unwrap();
        Grant {
            hidden: vec![hidden],
            ..grant("/p", GrantKind::Context, permission)
        }
    }

    fn layer(root: &str) -> OverlayLayer {
        OverlayLayer {
            root: abs(root),
            upper: abs("/s/upper"),
            work: abs("/s/work"),
            between: None,
        }
    }

    fn context(dir: &str) -> CommandContext {
        CommandContext {
            dir: abs(dir),
            home: abs("/s/home"),
            scratch: abs("/s/tmp"),
            toolchains: Vec::new(),
            env: BTreeMap::new(),
            limits: ResourceLimits::default(),
            network: NetworkAccess::None,
            write_target: WriteTarget::Layers(vec![layer("/p")]),
            identities: BTreeMap::new(),
            masked: Vec::new(),
            hidden: Vec::new(),
            program: vec!["true".to_owned()],
        }
    }

    fn of(
        grants: Vec<Grant>,
        phase: Phase,
        level: SandboxLevel,
    ) -> Result<SandboxPolicy, SandboxPolicyError> {
        let dir = grants
            .first()
            .map_or("/".to_owned(), |grant| grant.root.to_string());
        compile(
            &PathPermissionManager::new(grants, phase),
            level,
            context(&dir),
        )
    }

    /// Lists what is open, hidden and layered, one entry per line.
    #[track_caller]
    fn check(grants: Vec<Grant>, phase: Phase, level: SandboxLevel, expected: &[&str]) {
        let policy = of(grants, phase, level).unwrap();
        let mut lines = Vec::new();
        for open_path in &policy.open {
            lines.push(format!(
                "{} {} {:?}",
                open_path.permission, open_path.path, open_path.scope
            ));
        }
        lines.extend(policy.hidden.iter().map(|path| format!("hidden {path}")));
        lines.extend(
            policy
                .layers
                .iter()
                .map(|layer| format!("layer {}", layer.root)),
        );
        assert_eq!(lines, expected);
    }

    #[test]
    fn writable_paths_depend_on_the_phase_and_the_sandbox_level() {
        let grants = || vec![workspace(), project(Permission::Write)];
        let closed = [
            "read /p Tree",
            "write /p/.massgen/ws Tree",
            "hidden /p/.massgen",
        ];
        let open = [
            "write /p Tree",
            "write /p/.massgen/ws Tree",
            "hidden /p/.massgen",
        ];
        let layered = [open.as_slice(), &["layer /p"]].concat();
        for level in [
            SandboxLevel::Overlay,
            SandboxLevel::Namespaces,
            SandboxLevel::Landlock,
            SandboxLevel::Off,
        ] {
            check(grants(), Phase::Coordination, level, &closed);
        }
        check(grants(), Phase::Final, SandboxLevel::Overlay, &layered);
        check(grants(), Phase::Final, SandboxLevel::Namespaces, &open);
        check(grants(), Phase::Final, SandboxLevel::Landlock, &closed);
        check(grants(), Phase::Final, SandboxLevel::Off, &open);
        let reading = || vec![workspace(), project(Permission::Read)];
        for level in [
            SandboxLevel::Overlay,
            SandboxLevel::Namespaces,
            SandboxLevel::Landlock,
        ] {
            check(reading(), Phase::Final, level, &closed);
        }
    }

    #[test]
    fn massgens_own_directories_are_writable_at_every_level() {
        let grants = || {
            vec![
                workspace(),
                grant("/d", GrantKind::BuiltIn, Permission::Write),
            ]
        };
        let expected = ["write /d Tree", "write /p/.massgen/ws Tree"];
        check(
            grants(),
            Phase::Coordination,
            SandboxLevel::Namespaces,
            &expected,
        );
        check(
            grants(),
            Phase::Coordination,
            SandboxLevel::Landlock,
            &expected,
        );
    }

    #[test]
    fn single_files_and_snapshots_of_others_are_read_only() {
        let grants = vec![
            workspace(),
            grant("/t", GrantKind::TempWorkspace, Permission::Write),
            Grant::file(RealPath::vouch("/f/a.txt"), Permission::Write),
        ];
        let expected = [
            "read /f/a.txt File",
            "write /p/.massgen/ws Tree",
            "read /t Tree",
        ];
        check(grants, Phase::Final, SandboxLevel::Namespaces, &expected);
    }

    #[test]
    fn the_first_grant_of_a_root_applies() {
        let grants = vec![
            workspace(),
            grant("/p/.massgen/ws", GrantKind::Context, Permission::Read),
        ];
        check(
            grants,
            Phase::Final,
            SandboxLevel::Overlay,
            &["write /p/.massgen/ws Tree"],
        );
    }

    #[test]
    fn a_hidden_path_does_not_hide_a_deeper_grant() {
        let outer = Grant {
            hidden: vec![RelPath::new("a/b").unwrap()],
            ..grant("/p", GrantKind::Context, Permission::Read)
        };
        let own = grant("/p/a", GrantKind::Workspace, Permission::Write);
        let expected = ["read /p Tree", "write /p/a Tree"];
        check(
            vec![own, outer],
            Phase::Final,
            SandboxLevel::Namespaces,
            &expected,
        );
    }

    /// Returns `grants` under rules of `permissions`, written as in a config.
    fn under_rules(grants: Vec<Grant>, rules: &[(Permission, &str)]) -> Vec<Grant> {
        let rule = |(access, glob): &(Permission, &str)| {
            let glob = PathGlob::parse(glob, None).unwrap();
            let anchor = glob.prefix().cloned().unwrap_or_else(|| abs("/p"));
            PathRule::new(RuleAction::Deny, *access, &glob, anchor)
        };
        let path_rules: Arc<[PathRule]> = rules.iter().map(rule).collect();
        let restricted = grants.into_iter().map(|grant| Grant {
            path_rules: Arc::clone(&path_rules),
            ..grant
        });
        restricted.collect()
    }

    #[test]
    fn a_root_is_open_as_far_as_the_rules_let_it_be() {
        let grants = || {
            vec![
                workspace(),
                project(Permission::Write),
                grant("/p/keys", GrantKind::Context, Permission::Read),
                Grant::file(RealPath::vouch("/p/a.pem"), Permission::Write),
                grant("/p/src", GrantKind::Context, Permission::Write),
            ]
        };
        let open = [
            "write /p Tree",
            "write /p/.massgen/ws Tree",
            "read /p/a.pem File",
            "read /p/keys Tree",
            "write /p/src Tree",
            "hidden /p/.massgen",
        ];
        check(grants(), Phase::Final, SandboxLevel::Namespaces, &open);
        let rules = [
            (Permission::Read, "keys"),
            (Permission::Read, "*.pem"),
            (Permission::Write, "src"),
        ];
        let existing = [
            "write /p Tree",
            "write /p/.massgen/ws Tree",
            "read /p/src Tree",
            "hidden /p/.massgen",
            "hidden /p/a.pem",
            "hidden /p/keys",
        ];
        check(
            under_rules(grants(), &rules),
            Phase::Final,
            SandboxLevel::Namespaces,
            &existing,
        );
    }

    #[test]
    fn an_unenforceable_policy_is_an_error() {
        let writable = || vec![workspace(), project(Permission::Write)];
        let nothing = Err(SandboxPolicyError::NothingEnforces);
        assert_eq!(
            of(writable(), Phase::Final, SandboxLevel::Unavailable),
            nothing
        );
        let manager = PathPermissionManager::new(writable(), Phase::Final);
        let with = |edit: fn(&mut CommandContext)| {
            let mut context = context("/p/.massgen/ws");
            edit(&mut context);
            compile(&manager, SandboxLevel::Overlay, context).map(|policy| policy.dir)
        };
        assert_eq!(with(|_| ()), Ok(abs("/p/.massgen/ws")));
        assert_eq!(
            with(|context| context.program.clear()),
            Err(SandboxPolicyError::NoProgram)
        );
        let root = abs("/p");
        assert_eq!(
            with(|context| context.write_target = WriteTarget::Layers(Vec::new())),
            Err(SandboxPolicyError::NoLayer { root })
        );
        for dir in ["/", "/q", "/p/.massgen", "/p/.massgen/other"] {
            let policy = compile(&manager, SandboxLevel::Overlay, context(dir));
            assert_eq!(
                policy,
                Err(SandboxPolicyError::DirectoryNotAccessible { dir: abs(dir) })
            );
        }
        assert!(compile(&manager, SandboxLevel::Overlay, context("/p/src")).is_ok());
    }

    #[test]
    fn only_what_a_command_could_change_is_masked() {
        let grants = vec![
            workspace(),
            project(Permission::Write),
            grant("/r", GrantKind::Context, Permission::Read),
        ];
        let masked = || CommandContext {
            masked: vec![abs("/p/.git"), abs("/r/.git"), abs("/elsewhere")],
            ..context("/p")
        };
        let manager = |phase| PathPermissionManager::new(grants.clone(), phase);
        let masked_in = |phase| {
            compile(&manager(phase), SandboxLevel::Namespaces, masked())
                .unwrap()
                .masked
        };
        assert_eq!(masked_in(Phase::Final), [abs("/p/.git")]);
        assert_eq!(masked_in(Phase::Coordination), []);
    }

    #[test]
    fn a_toolchain_opens_no_path_that_a_grant_covers() {
        let context = CommandContext {
            toolchains: vec![
                abs("/p/.massgen/bin"),
                abs("/"),
                abs("/h/.cargo/bin"),
                abs("/h/keys/bin"),
            ],
            ..context("/p")
        };
        let closed = grant("/h/keys", GrantKind::Context, Permission::Read);
        let grants = vec![workspace(), project(Permission::Read), closed];
        let grants = under_rules(grants, &[(Permission::Read, "/h/keys")]);
        let manager = PathPermissionManager::new(grants, Phase::Final);
        let policy = compile(&manager, SandboxLevel::Namespaces, context).unwrap();
        assert_eq!(policy.toolchains, [abs("/h/.cargo/bin")]);
    }
}
