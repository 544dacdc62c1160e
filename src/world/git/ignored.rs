//! Asks git which names in the user's tree it ignores.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::iter::successors;
use std::os::unix::ffi::OsStrExt;

use crate::error::Result;
use crate::path::{AbsPath, RelPath};
use crate::world::git::project::{NO_REPOSITORY_MESSAGE, NOT_FOUND_STATUS};
use crate::world::git::{GitInvocation, GitProgram, nul_separated};
use crate::world::sys::state_files::file;

impl GitProgram {
    /// Returns those of `names`, existing or not, that are not tracked and that the rules of the
    /// repository around `dir` ignore; `None` outside of every repository. Names in a submodule follow
    /// the rules of that; names below what is a symlink in `dir` are not ignored.
    ///
    /// # Errors
    /// Git fails.
    pub async fn ignored_names(
        &self,
        dir: &AbsPath,
        names: &[RelPath],
    ) -> Result<Option<BTreeSet<RelPath>>> {
        let mut asked = above_links(dir, names)?;
        let mut ignored = BTreeSet::new();
        loop {
            // Without the prefix, a name that begins with a colon would be a pattern; the command
            // refuses to take names literally.
            let bytes = asked
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
                    let names = nul_separated(&output.stdout)
                        .filter_map(|name| RelPath::new(OsStr::from_bytes(name)));
                    ignored.extend(names);
                    return Ok(Some(ignored));
                }
                _ if output.stderr.contains(NO_REPOSITORY_MESSAGE) => return Ok(None),
                _ => {}
            }
            let Some(submodule) = refused_submodule(&output.stderr, &asked) else {
                return Err(call.git_error(&output.stderr));
            };
            let (inside, outside) = asked
                .into_iter()
                .partition(|name| name.is_within(&submodule));
            asked = outside;
            ignored.extend(self.ignored_in_submodule(dir, &submodule, inside).await?);
        }
    }

    /// Returns those of `names` below `dir` that the rules of `submodule` ignore; none if it is not
    /// checked out.
    async fn ignored_in_submodule(
        &self,
        dir: &AbsPath,
        submodule: &RelPath,
        names: Vec<RelPath>,
    ) -> Result<Vec<RelPath>> {
        let submodule_dir = dir.join(submodule.as_path());
        if !file::exists(&submodule_dir.join(".git"))? {
            return Ok(Vec::new());
        }
        let paths = names.iter().map(|name| dir.join(name.as_path()));
        let names: Vec<RelPath> = paths
            .filter_map(|path| path.below(&submodule_dir))
            .collect();
        let ignored = Box::pin(self.ignored_names(&submodule_dir, &names)).await?;
        let ignored = ignored.unwrap_or_default().into_iter();
        Ok(ignored.map(|name| submodule.join(&name)).collect())
    }
}

/// Returns `names` without those below what is a symlink in `dir`: git answers nothing about them.
fn above_links(dir: &AbsPath, names: &[RelPath]) -> Result<Vec<RelPath>> {
    let ancestors = |name: &RelPath| successors(name.parent(), RelPath::parent);
    let mut links = BTreeSet::new();
    for ancestor in names.iter().flat_map(ancestors).collect::<BTreeSet<_>>() {
        if file::is_link(&dir.join(ancestor.as_path()))? {
            links.insert(ancestor);
        }
    }
    let is_above = |name: &&RelPath| !ancestors(name).any(|ancestor| links.contains(&ancestor));
    Ok(names.iter().filter(is_above).cloned().collect())
}

/// Returns the submodule, as an ancestor of one of `names`, because of which git gave no answer. Git
/// names it from the root of the repository.
fn refused_submodule(stderr: &str, names: &[RelPath]) -> Option<RelPath> {
    let (_, submodule) = stderr.trim_end().rsplit_once("is in submodule '")?;
    let submodule = RelPath::new(submodule.strip_suffix('\'')?)?;
    let ancestors = names
        .iter()
        .flat_map(|name| successors(name.parent(), RelPath::parent));
    ancestors
        .filter(|ancestor| !ancestor.is_root() && submodule.as_path().ends_with(ancestor.as_path()))
        .max_by_key(|ancestor| ancestor.names().count())
}
