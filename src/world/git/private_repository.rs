//! Private repositories of agents that may run commands: each checkout has its own, in which an
//! agent commits, rebases and stashes as it likes. Nothing that happens there affects another
//! repository.

use std::os::unix::ffi::OsStrExt;

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::git::bare_repository::BareRepository;
use crate::world::git::checkout::PRIVATE_GIT_DIR;
use crate::world::git::object::{BranchName, CommitAuthor, ObjectId};
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::{clear, file};

/// Settings that disable background maintenance in an agent's git: it would continue after the
/// agent has ended.
const NO_MAINTENANCE: [(&str, &str); 2] = [("gc.auto", "0"), ("maintenance.auto", "false")];

/// The initial state of a private repository.
#[derive(Clone, Copy, Debug)]
pub struct PrivateRepositorySpec<'a> {
    /// The branch that is checked out.
    pub branch: &'a BranchName,
    /// The commit of that branch.
    pub branch_tip: &'a ObjectId,
    /// The commit of the shared branch.
    pub main_tip: &'a ObjectId,
    /// The author of commits there.
    pub author: &'a CommitAuthor,
}

impl BareRepository {
    /// Creates the private repository of the checkout in `dir`; an existing one is removed,
    /// whatever its state. It reads the objects of the bare repository, and writes its own. The files
    /// of the checkout must already be there; none is written.
    pub async fn create_private_repository(
        &self,
        dir: &AbsPath,
        spec: PrivateRepositorySpec<'_>,
    ) -> Result<()> {
        let git_dir = dir.join(PRIVATE_GIT_DIR);
        if file::exists(&git_dir)? {
            clear::remove(&git_dir)?;
        }
        let format_option = format!("--object-format={}", self.format().await?);
        let init = [
            "init",
            "--quiet",
            "--template=",
            "--initial-branch=main",
            &format_option,
            ".",
        ];
        let index = git_dir.join("index");
        let repository = self.worktree_of(&git_dir, dir, &index);
        repository.run(&init, b"").await?;
        // Alternates: objects that it lacks are read from the bare repository.
        let info = git_dir.join("objects/info");
        dir::create_all(&info, DirectoryAudience::Umask)?;
        let objects = self.dir().join("objects");
        let line = [objects.as_path().as_os_str().as_bytes(), b"\n"].concat();
        file::replace_unsynced(&info.join("alternates"), &line)?;
        if let Some(shallow) = self.shallow()? {
            file::replace_unsynced(&git_dir.join("shallow"), &shallow)?;
        }
        let PrivateRepositorySpec {
            branch,
            branch_tip,
            main_tip,
            author,
        } = spec;
        let (name, address) = author.parts();
        let settings = [("user.name", name), ("user.email", address)];
        let reference = branch.reference();
        repository
            .run(&["update-ref", "refs/heads/main", main_tip.as_str()], b"")
            .await?;
        repository
            .run(&["update-ref", &reference, branch_tip.as_str()], b"")
            .await?;
        repository
            .run(&["symbolic-ref", "HEAD", &reference], b"")
            .await?;
        for (name, value) in settings.into_iter().chain(NO_MAINTENANCE) {
            repository.run(&["config", name, value], b"").await?;
        }
        // The files are in place already: only the index is filled, so that git status is clean.
        repository
            .run(&["read-tree", branch_tip.as_str()], b"")
            .await
            .map(drop)
    }
}
