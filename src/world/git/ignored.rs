//! Asks git which names in the user's tree it ignores.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::error::Result;
use crate::path::{AbsPath, RelPath};
use crate::world::git::project::{NO_REPOSITORY_MESSAGE, NOT_FOUND_STATUS};
use crate::world::git::{GitInvocation, GitProgram, nul_separated};

impl GitProgram {
    /// Returns those of `names`, existing or not, that are not tracked and that the rules of the
    /// repository around `dir` ignore; `None` outside of every repository.
    ///
    /// # Errors
    /// Git fails, for example because a name lies beyond a symlink.
    pub async fn ignored_names(
        &self,
        dir: &AbsPath,
        names: &[RelPath],
    ) -> Result<Option<BTreeSet<RelPath>>> {
        // Without the prefix, a name that begins with a colon would be a pattern; the command refuses
        // to take names literally.
        let bytes = names
            .iter()
            .map(|name| name.as_path().as_os_str().as_bytes());
        let input: Vec<u8> = bytes
            .flat_map(|name| [b"./", name, b"\0"].concat())
            .collect();
        let call = GitInvocation {
            input: &input,
            env: &[("GIT_LITERAL_PATHSPECS", "0")],
            ..GitInvocation::new(dir, &["check-ignore", "-z", "--stdin"])
        };
        let output = self.try_run(call).await?;
        match output.code {
            0 | NOT_FOUND_STATUS => {
                let ignored = nul_separated(&output.stdout)
                    .filter_map(|name| RelPath::new(OsStr::from_bytes(name)));
                Ok(Some(ignored.collect()))
            }
            _ if output.stderr.contains(NO_REPOSITORY_MESSAGE) => Ok(None),
            _ => Err(call.git_error(&output.stderr)),
        }
    }
}
