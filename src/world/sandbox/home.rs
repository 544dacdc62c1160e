//! Owns the private home of an agent's commands: what programs expect to find in one.

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::file::{self, FileDurability};

/// Git commits only under a name, and asks who owns a repository: inside a sandbox every file that
/// is not the user's own seems to be nobody's.
pub(crate) const GIT_SETTINGS: &str = "[user]\n\tname = massgen agent\n\temail = agent@massgen.invalid\n\
    [init]\n\tdefaultBranch = main\n[safe]\n\tdirectory = *\n";

/// Makes `home` if it is missing, and puts into it what is not there yet.
pub fn populate_home(home: &AbsPath) -> Result<()> {
    dir::create_all(home, DirectoryAudience::User)?;
    let settings = home.join(".gitconfig");
    if file::kind(&settings).is_err() && !file::is_link(&settings) {
        file::replace(&settings, GIT_SETTINGS.as_bytes(), FileDurability::Process)?;
    }
    Ok(())
}
