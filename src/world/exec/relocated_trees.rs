//! Shows commands at level `landlock` the copies of the user's trees that their agent works on. Nothing
//! is mounted there, so a copy is at a path of its own, where commands start.

use crate::path::AbsPath;
use crate::permissions::grant::{GrantScope, Permission};
use crate::sandbox_policy::compile::deepest_accessible;
use crate::sandbox_policy::environment::VIRTUAL_ENV;
use crate::sandbox_policy::{AccessiblePath, SandboxPolicy};
use crate::world::access::gate::Gate;
use crate::world::exec::tool_result::{ToolError, cannot_run};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::meta::FileMetadata;

/// Opens in `policy` the copies that the agent of `gate` works on, in the place of the user's trees.
/// Everything in a copy may be changed: what may not be delivered is found when the changes are read.
pub(super) fn show_copies(gate: &Gate, policy: &mut SandboxPolicy) -> Result<(), ToolError> {
    let Some(overlay) = gate.overlay() else {
        return Ok(());
    };
    let start =
        deepest_accessible(&policy.dir, &policy.open).map(|open_path| open_path.path.clone());
    for (tree, copy) in overlay.relocations() {
        let root = tree.to_abs();
        let mut open_paths = policy.open.iter_mut();
        let open_path = open_paths.find(|open_path| open_path.path == root);
        let Some(open_path) = open_path.filter(|_| gate.allows(tree, Permission::Write)) else {
            continue;
        };
        open_path.path = copy.clone();
        open_path.permission = Permission::Write;
        let directory = DirectoryHandle::open_own(&copy);
        let meta = directory.and_then(|directory| FileMetadata::from_handle(&directory));
        let meta = meta.map_err(|error| cannot_run(&error))?;
        policy.identities.insert(copy.clone(), meta.identity());
        if let Some(below) = policy
            .dir
            .below(&root)
            .filter(|_| start.as_ref() == Some(&root))
        {
            policy.dir = copy.join(below.as_path());
        }
        // The programs of a virtual environment name it by its path.
        let venv = policy.env.get(VIRTUAL_ENV).and_then(AbsPath::new);
        let users_venv = venv.filter(|venv| {
            let below = venv.below(&root);
            let meta = below.and_then(|below| overlay.user_metadata(&tree.join(&below)));
            meta.is_some_and(|meta| meta.kind == FileKind::Directory)
        });
        policy.open.extend(users_venv.map(|path| AccessiblePath {
            path,
            permission: Permission::Read,
            scope: GrantScope::Tree,
        }));
    }
    policy.open.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(())
}

/// Returns the note for the model about a command line that names a tree by the path at which commands
/// do not find it.
pub(super) fn relocation_note(gate: &Gate, line: &str) -> Option<String> {
    let mut trees = gate.overlay()?.relocations();
    let (tree, copy) = trees.find(|(tree, _)| line.contains(&tree.to_string()))?;
    Some(format!(
        "commands find `{tree}` at `{copy}`: use relative paths, which start there"
    ))
}
