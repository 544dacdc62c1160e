//! Private home directory of an agent's commands, with the files that programs expect in one.

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::file;

/// Git refuses to commit without a name, and checks the owner of a repository: inside a sandbox
/// every file that is not the user's appears to belong to `nobody`.
pub(crate) const GIT_SETTINGS: &str = "[user]\n\tname = massgen agent\n\temail = agent@massgen.invalid\n\
    [init]\n\tdefaultBranch = main\n[safe]\n\tdirectory = *\n";

/// Creates `home` if it is missing, and adds the files that it lacks.
pub fn populate_home(home: &AbsPath) -> Result<()> {
    dir::create_all(home, DirectoryAudience::User)?;
    let settings = home.join(".gitconfig");
    if !file::exists(&settings)? {
        file::replace_unsynced(&settings, GIT_SETTINGS.as_bytes())?;
    }
    Ok(())
}
