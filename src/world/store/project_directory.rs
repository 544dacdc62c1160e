//! Finds the directory whose state massgen uses: the current one or the nearest above it that has a
//! state directory, and where that state is stored.

use std::os::unix::ffi::OsStrExt;

use sha2::{Digest, Sha256};

use crate::config::storage_path::STATE_DIR;
use crate::path::AbsPath;
use crate::text::to_hex;
use crate::world::io::locate::resolve_existing;
use crate::world::sys::state_files::dir;

/// Longest part of a project's name in the name of the directory with its state, in bytes.
const NAME_BYTES_MAX: usize = 100;
/// Length of the digest in that name, in bytes.
const DIGEST_BYTES: usize = 8;

/// The environment variable that names a directory for the state of all projects, for those that
/// cannot be written to.
pub const STATE_DIR_VARIABLE: &str = "MASSGEN_STATE_DIR";

/// The project of a user, and where its state is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectDirectory {
    /// The project's directory.
    pub project: AbsPath,
    /// The directory in which the state directory is.
    pub state_parent: AbsPath,
}

impl ProjectDirectory {
    /// Finds the project of a user in `cwd`, whose home is `home`. With `state_root`, a directory
    /// relative to `cwd`, state is stored there, apart for each project.
    ///
    /// Above `cwd`, only a state directory of this user counts, and none in a home directory or
    /// above it, or where every user may create one.
    pub fn find(cwd: &AbsPath, home: Option<&AbsPath>, state_root: Option<&str>) -> Self {
        let state_root = state_root.map(|name| resolve_existing(&cwd.join(name)));
        let state_dir = |project: &AbsPath| match &state_root {
            Some(state_root) => state_root.join(project_name(project)),
            None => project.clone(),
        };
        let has_state =
            |project: &AbsPath| dir::is_owned_by_user(&state_dir(project).join(STATE_DIR));
        // Only a state directory that is known to be missing here makes the one above count.
        let is_stateless = matches!(has_state(cwd), Ok(false));
        let is_candidate = |above: &AbsPath| {
            above.parent().is_some()
                && home.is_none_or(|home| !home.is_within(above))
                && !dir::is_writable_by_everyone(above)
        };
        let directory_above = std::iter::successors(cwd.parent(), AbsPath::parent)
            .take_while(is_candidate)
            .find(|project| matches!(has_state(project), Ok(true)));
        let project = directory_above
            .filter(|_| is_stateless)
            .unwrap_or_else(|| cwd.clone());
        Self {
            state_parent: state_dir(&project),
            project,
        }
    }
}

/// Returns the name of the directory with the state of `project`: the beginning of its own name,
/// and a digest of the bytes of its path.
fn project_name(project: &AbsPath) -> String {
    let name = project.as_path().file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    let end = name.floor_char_boundary(NAME_BYTES_MAX);
    let digest = Sha256::digest(project.as_path().as_os_str().as_bytes());
    let digits = to_hex(digest.get(..DIGEST_BYTES).unwrap_or_default());
    format!("{}-{digits}", name.get(..end).unwrap_or_default())
}
