//! Owns the private home of an agent's commands: what programs expect to find in one.

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::sys::own::dir::{self, Audience};
use crate::world::sys::own::file::{self, Durability};

/// Git commits only under a name, and asks who owns a repository: inside a sandbox every file that
/// is not the user's own seems to be nobody's.
pub(crate) const GIT_SETTINGS: &str = "[user]\n\tname = massgen agent\n\temail = agent@massgen.invalid\n\
    [init]\n\tdefaultBranch = main\n[safe]\n\tdirectory = *\n";

/// Makes `home` if it is missing, and puts into it what is not there yet.
pub fn furnish(home: &AbsPath) -> Result<()> {
    dir::create_all(home, Audience::User)?;
    let settings = home.join(".gitconfig");
    if file::kind(&settings).is_err() && !file::is_link(&settings) {
        file::replace(&settings, GIT_SETTINGS.as_bytes(), Durability::Process)?;
    }
    Ok(())
}
