//! Owns the look at the user's own repository: where it is, what its head is, and what of it a
//! pipeline cannot take over. Nothing in it is changed, and nothing that it brings along is run.

use std::os::unix::ffi::OsStrExt;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::files::read_found;
use crate::world::git::hub::{Hub, lossy};
use crate::world::git::object::ObjectId;
use crate::world::git::ownership::FoundRepository;
use crate::world::git::{GitInvocation, GitOutput, GitProgram, nul_separated, text};
use crate::world::sys::state_files::dir::{self, StagingDirectory};
use crate::world::sys::state_files::file;
use crate::world::sys::state_files::lockfile::copy_with_mtime;

/// What the names of the files begin with in which git keeps parts of an index, where the user lets it.
const INDEX_PART: &str = "sharedindex.";
/// The longest list of commits at which a shallow repository ends, in bytes.
pub(super) const SHALLOW_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// What the name of each branch begins with.
pub(super) const BRANCHES: &str = "refs/heads/";
/// What git says of a repository of another user's that this one has not said to trust.
const DUBIOUS: &str = "dubious ownership";

/// A repository of the user's with a tree on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectRepository {
    /// The directory of its tree.
    pub root: AbsPath,
    /// Where its objects are.
    pub objects: AbsPath,
    /// The commit that is checked out; `None` as long as there is none at all.
    pub head: Option<ObjectId>,
    /// The branch that is checked out; `None` if none is.
    pub branch: Option<String>,
    /// How its objects are named: `sha1` or `sha256`.
    pub format: String,
    /// Where its notes on the tree are.
    pub(super) index: AbsPath,
    /// The commits at which a shallow repository ends, as git lists them; empty if it is whole.
    pub(super) shallow: Vec<u8>,
}

impl ProjectRepository {
    /// The repository around `dir`; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be worked on: it has no tree, or leaves objects on another machine.
    pub async fn discover(git: &GitProgram, dir: &AbsPath) -> Result<Option<Self>> {
        if dir.as_path().as_os_str().as_bytes().contains(&b'\n') {
            return Err(unusable_repository(
                dir,
                "a name on the way to it has two lines",
            ));
        }
        let asked = [
            "rev-parse",
            "--path-format=absolute",
            "--show-toplevel",
            "--absolute-git-dir",
            "--git-common-dir",
            "--git-path",
            "objects",
            "--git-path",
            "index",
            "--git-path",
            "shallow",
            "--show-object-format",
        ];
        let look = RepositoryProbe { git, dir };
        look.expect_trusted().await?;
        let answer = look.run(&asked).await?;
        if answer.code != 0 {
            return match look.run(&["rev-parse", "--is-bare-repository"]).await?.code {
                0 => Err(
                    unusable_repository(dir, "it is a repository without a tree of files")
                        .with_hint("begin in a clone of it that has one"),
                ),
                _ => Ok(None),
            };
        }
        let mut lines = text(&answer.output)?.lines();
        let mut path = || lines.next().and_then(AbsPath::new);
        let places = (path(), path(), path());
        let parts = (path(), path(), path());
        let (
            (Some(root), Some(git_dir), Some(common)),
            (Some(objects), Some(index), Some(shallow)),
        ) = (places, parts)
        else {
            return Err(unusable_repository(
                dir,
                "git does not tell where its parts are",
            ));
        };
        look.expect_own((&root, &git_dir, &common, &objects))
            .await?;
        let format = lines.next().unwrap_or("sha1").to_owned();
        if let Some(remote) = look.setting("extensions.partialClone").await? {
            let why = format!("some of its objects are only at `{remote}`");
            return Err(unusable_repository(&root, &why)
                .with_hint("fetch them: git fetch --refetch --no-filter"));
        }
        let head = look.line(&["rev-parse", "--quiet", "--verify", "HEAD^{commit}"]);
        let head = head.await?.as_deref().and_then(ObjectId::parse);
        let branch = look.line(&["symbolic-ref", "--quiet", "HEAD"]).await?;
        let branch = branch.as_deref().and_then(|at| at.strip_prefix(BRANCHES));
        Ok(Some(Self {
            head,
            branch: branch.map(str::to_owned),
            shallow: read_found(&shallow, SHALLOW_BYTES_MAX)?.unwrap_or_default(),
            root,
            objects,
            format,
            index,
        }))
    }

    /// Whether some of its objects are kept in another repository.
    pub fn has_alternates(&self) -> bool {
        file::exists(&self.objects.join("info/alternates"))
    }

    /// The files that git knows and that are not as they were committed, as far as that can be told
    /// from git's notes on them. `hub` is made on top of the repository.
    pub async fn uncommitted(&self, hub: &Hub) -> Result<Vec<String>> {
        let stage = StagingDirectory::new(hub.dir())?;
        let index = stage.path().join("index");
        let Some(head) = &self.head else {
            return Ok(Vec::new());
        };
        if !self.copy_index((hub, &index)).await? {
            return Ok(Vec::new());
        }
        // Looking into a submodule runs what its settings name.
        let submodules = "--ignore-submodules=dirty";
        let asked = ["diff-index", "--name-only", "-z", submodules, head.as_str()];
        let told = hub.query_worktree((&self.root, &index), &asked).await?;
        Ok(nul_separated(&told).map(lossy).collect())
    }

    /// The directory in which git keeps its notes on the tree and on what is half done.
    pub(super) fn worktree_git_dir(&self) -> AbsPath {
        self.index.parent().unwrap_or_else(AbsPath::top)
    }

    /// Copies git's notes on the tree to `to`, all of them into this one file; gives whether there are any.
    pub(super) async fn copy_index(&self, (hub, to): (&Hub, &AbsPath)) -> Result<bool> {
        if !copy_with_mtime(&self.index, to)? {
            return Ok(false);
        }
        let parts = dir::names(&self.worktree_git_dir())?;
        if parts.iter().any(|name| name.starts_with(INDEX_PART)) {
            let to = to.to_string();
            let join = [
                "-c",
                "core.splitIndex=false",
                "update-index",
                "--no-split-index",
            ];
            let call = GitInvocation {
                env: &[("GIT_INDEX_FILE", &to)],
                ..GitInvocation::new(&self.root, &join)
            };
            hub.git().ask_without_hooks(call).await?;
        }
        Ok(true)
    }
}

/// Questions about the repository around a directory.
#[derive(Clone, Copy)]
struct RepositoryProbe<'a> {
    git: &'a GitProgram,
    dir: &'a AbsPath,
}

impl RepositoryProbe<'_> {
    async fn run(self, words: &[&str]) -> Result<GitOutput> {
        self.git.try_ask(GitInvocation::new(self.dir, words)).await
    }

    /// The first line of the answer, if there is one.
    async fn line(self, words: &[&str]) -> Result<Option<String>> {
        let answer = self.run(words).await?;
        match answer.code {
            0 => text(&answer.output).map(|line| Some(line.to_owned())),
            _ => Ok(None),
        }
    }

    async fn setting(self, name: &str) -> Result<Option<String>> {
        self.line(&["config", "--local", "--get", name]).await
    }

    /// Refuses a tree that is elsewhere, and a repository that belongs elsewhere.
    async fn expect_own(
        self,
        (root, git_dir, common, objects): (&AbsPath, &AbsPath, &AbsPath, &AbsPath),
    ) -> Result<()> {
        let stood_in = dir::resolve(self.dir)?;
        if !stood_in.as_path().starts_with(root.as_path()) {
            let why = format!("its files are said to be in `{root}`, and this is not in there");
            return Err(
                unusable_repository(self.dir, &why).with_hint("see `git config core.worktree`")
            );
        }
        let found = FoundRepository {
            root,
            git_dir,
            common,
            objects,
            worktree: self.worktree(git_dir).await?,
        };
        match found.foreign_reason()? {
            None => Ok(()),
            Some(why) => Err(
                unusable_repository(root, &format!("{why}, which does not name it"))
                    .with_hint("begin where that repository is")
                    .with_hint(
                        "or let it name this directory: `git config core.worktree DIRECTORY`",
                    ),
            ),
        }
    }

    /// Where a repository says that its tree is.
    async fn worktree(self, git_dir: &AbsPath) -> Result<Option<AbsPath>> {
        let config = git_dir.join("config").to_string();
        let words = ["config", "--file", &config, "--get", "core.worktree"];
        Ok(self.line(&words).await?.map(|named| git_dir.join(named)))
    }

    /// Git asks of whoever stands in another's repository whether they trust it.
    async fn expect_trusted(self) -> Result<()> {
        let call = GitInvocation::new(self.dir, &["rev-parse", "--git-dir"]);
        let answer = self.git.try_as_user(call).await?;
        if answer.code == 0 || !answer.errors.contains(DUBIOUS) {
            return Ok(());
        }
        let why = "it belongs to another user, and you have not said that you trust it";
        Err(unusable_repository(self.dir, why)
            .with_hint("`git status` there says how that is said")
            .with_hint("or work without it: `project: none` under `workflow`"))
    }
}

fn unusable_repository(dir: &AbsPath, why: &str) -> Error {
    let message = format!("the repository at `{dir}` cannot be worked on: {why}");
    Error::new(ErrorKind::Environment, message)
}
