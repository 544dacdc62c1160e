//! Owns the way of a pipeline's work into a project of the user's: which files differ, which of them the
//! user has changed meanwhile, and at the end the commit. Nothing else writes to the repository of a user.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RelPath};
use crate::world::git::hub::{Hub, id};
use crate::world::git::object::{Author, Branch, ObjectId};
use crate::world::git::project::Project;
use crate::world::git::tree::index_row;
use crate::world::git::{Call, Git, OUTPUT_BYTES_MAX, names, text};
use crate::world::sys::own::dir::{self, Audience, Stage};
use crate::world::sys::own::file;
use crate::world::sys::process;

/// The mode of what a tree lacks.
const NOTHING: &str = "000000";

/// A file as a tree has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    mode: String,
    object: ObjectId,
}

/// What a file was and becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What it was, if it was there.
    pub before: Option<Version>,
    /// What it becomes, if it is there then.
    pub after: Option<Version>,
}

/// Files that change, by their paths in the tree.
pub type Changes = BTreeMap<RelPath, Change>;

impl Hub {
    /// The files in which two trees differ.
    ///
    /// # Errors
    /// A path is none that massgen can write to.
    pub async fn changes(&self, from: &ObjectId, to: &ObjectId) -> Result<Changes> {
        let changes = self.differing((from, to), change).await?;
        Ok(changes.into_iter().collect())
    }

    /// The files among `changes` that stand in `root` neither as they were nor as they become: somebody
    /// else has changed them.
    pub async fn foreign(&self, root: &AbsPath, changes: &Changes) -> Result<Vec<RelPath>> {
        let stage = Stage::new(self.dir())?;
        let before = (root, stage.path().join("before"));
        let after = (root, stage.path().join("after"));
        let unlike_before = self
            .unlike(before, changes, |change| change.before.as_ref())
            .await?;
        let unlike_after = self
            .unlike(after, changes, |change| change.after.as_ref())
            .await?;
        let both = unlike_before.intersection(&unlike_after);
        Ok(both.cloned().collect())
    }

    /// The files among `changes` that do not stand in `root` as they become.
    pub async fn missing(&self, root: &AbsPath, changes: &Changes) -> Result<Vec<RelPath>> {
        let stage = Stage::new(self.dir())?;
        let after = (root, stage.path().join("after"));
        let unlike = self.unlike(after, changes, |change| change.after.as_ref());
        Ok(unlike.await?.into_iter().collect())
    }

    /// The files that do not stand in `root` in a version of theirs; where that is nothing, those that
    /// stand there.
    async fn unlike(
        &self,
        (root, index): (&AbsPath, AbsPath),
        changes: &Changes,
        version: impl Fn(&Change) -> Option<&Version>,
    ) -> Result<BTreeSet<RelPath>> {
        let files = (root, &index);
        let mut rows = Vec::new();
        let mut unlike = BTreeSet::new();
        for (path, change) in changes {
            match version(change) {
                Some(version) => rows.extend(row(version, path)),
                None if is_there(root, path) => drop(unlike.insert(path.clone())),
                None => {}
            }
        }
        self.fill_index(files, &rows).await?;
        // Unlike `git diff-files`, it looks into files whose dates it does not know.
        let ask = [
            "diff",
            "--name-only",
            "-z",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
        ];
        let told = self.ask_of_files(files, &ask).await?;
        unlike.extend(paths(&told));
        Ok(unlike)
    }

    /// Writes what `changes` make of files into the empty directory `dir`.
    pub async fn lay_out(&self, changes: &Changes, dir: &AbsPath) -> Result<()> {
        dir::create_all(dir, Audience::User)?;
        let stage = Stage::new(self.dir())?;
        let index = stage.path().join("index");
        let after = changes
            .iter()
            .filter_map(|(path, change)| Some((path, change.after.as_ref()?)));
        let rows: Vec<u8> = after
            .flat_map(|(path, version)| row(version, path))
            .collect();
        self.fill_index((dir, &index), &rows).await?;
        let write = ["checkout-index", "--all", "--force", "--quiet"];
        self.ask_of_files((dir, &index), &write).await.map(drop)
    }
}

/// A project of the user's that takes a commit.
#[derive(Clone, Copy, Debug)]
pub struct Receiver<'a> {
    /// How git is run.
    pub git: &'a Git,
    /// The project.
    pub project: &'a Project,
}

impl Receiver<'_> {
    /// The files that the user has staged and not committed.
    pub async fn staged(self) -> Result<BTreeSet<RelPath>> {
        let told = match &self.project.head {
            Some(head) => {
                let words = ["diff-index", "--cached", "--name-only", "-z", head.as_str()];
                self.ask(&words).await?
            }
            None => self.ask(&["ls-files", "-z"]).await?,
        };
        Ok(paths(&told).collect())
    }

    /// Who the user is, as their git knows it; `None` if it does not.
    pub async fn identity(self, home: Option<&AbsPath>) -> Result<Option<Author>> {
        let name = self.setting("user.name", home).await?;
        let address = self.setting("user.email", home).await?;
        Ok(name
            .zip(address)
            .map(|(name, address)| Author::new(&name, &address)))
    }

    async fn setting(self, name: &str, home: Option<&AbsPath>) -> Result<Option<String>> {
        let global = home.map(|home| home.join(".gitconfig").to_string());
        let global = global.as_deref().map(|path| ("GIT_CONFIG_GLOBAL", path));
        let env: Vec<(&str, &str)> = global.into_iter().collect();
        let words = ["config", "--includes", "--get", name];
        let answer = self
            .git
            .try_to(Call {
                env: &env,
                ..self.call(&words)
            })
            .await?;
        match answer.code {
            0 => text(&answer.output).map(|value| Some(value.to_owned())),
            _ => Ok(None),
        }
    }

    /// Takes over all objects of a branch of `hub` that the project lacks.
    pub async fn take_objects(self, hub: &Hub, branch: &Branch) -> Result<()> {
        let (from, reference) = (hub.dir().to_string(), branch.reference());
        let words = [
            "-c",
            "protocol.file.allow=always",
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--no-recurse-submodules",
            &from,
            &reference,
        ];
        self.ask(&words).await.map(drop)
    }

    /// Points the branch that is checked out at `commit`, if it still points where it did, and lets the
    /// user's index follow.
    pub async fn advance(self, commit: &ObjectId, why: &str) -> Result<()> {
        let nothing = "0".repeat(commit.as_str().len());
        let head = self.project.head.as_ref();
        let from = head.map_or(nothing.as_str(), ObjectId::as_str);
        let words = [
            "-c",
            "core.logAllRefUpdates=true",
            "update-ref",
            "-m",
            why,
            "HEAD",
            commit.as_str(),
            from,
        ];
        self.ask(&words).await?;
        // The files are there already, and git need not look at them.
        let mut words = vec!["read-tree", "-m", "-i"];
        words.extend(head.map(ObjectId::as_str));
        words.push(commit.as_str());
        self.ask(&words).await?;
        // It says by its status what differs, which is the user's affair.
        let words = ["update-index", "-q", "--refresh"];
        self.git.try_to(self.call(&words)).await.map(drop)
    }

    /// Pushes a branch to a remote of the user's, by their own git with all of their settings: hooks and
    /// credentials are theirs.
    ///
    /// # Errors
    /// The push did not work; git has said why.
    pub fn push(
        self,
        (remote, branch): (&str, &str),
        env: &BTreeMap<String, String>,
    ) -> Result<()> {
        let words = ["push", "--", remote, branch];
        let place = (&self.project.root, env);
        let ended = process::run_for_user(&self.git.program, &words, place)
            .map_err(|error| Error::io("cannot start git", error))?;
        if ended == Some(0) {
            return Ok(());
        }
        let message = format!("`{branch}` could not be pushed to `{remote}`");
        Err(Error::new(ErrorKind::Environment, message).hint(format!(
            "what was applied is committed; push it yourself: git push {remote} {branch}"
        )))
    }

    async fn ask(self, words: &[&str]) -> Result<Vec<u8>> {
        self.git.ask(self.call(words)).await
    }

    fn call<'a>(&'a self, arguments: &'a [&'a str]) -> Call<'a> {
        Call {
            dir: &self.project.root,
            arguments,
            env: &[],
            input: b"",
            output_bytes_max: OUTPUT_BYTES_MAX,
        }
    }
}

/// A row of `git diff-tree --raw -z`: `:MODE MODE OBJECT OBJECT STATUS`, and the path.
fn change(about: &str, path: &[u8]) -> Option<(RelPath, Change)> {
    let mut words = about.strip_prefix(':')?.split(' ');
    let mut word = || words.next();
    let (before, after) = (word()?, word()?);
    let (old, new) = (word()?, word()?);
    let version = |mode: &str, object: &str| match mode {
        NOTHING => Some(None),
        mode => Some(Some(Version {
            mode: mode.to_owned(),
            object: id(object.as_bytes()).ok()?,
        })),
    };
    let change = Change {
        before: version(before, old)?,
        after: version(after, new)?,
    };
    let path = RelPath::new(OsStr::from_bytes(path)).filter(|path| !path.is_root())?;
    Some((path, change))
}

/// The paths of an answer that ends each with a NUL.
fn paths(answer: &[u8]) -> impl Iterator<Item = RelPath> {
    names(answer).filter_map(|name| RelPath::new(OsStr::from_bytes(name)))
}

fn row(version: &Version, path: &RelPath) -> Vec<u8> {
    index_row(
        &version.mode,
        &version.object,
        path.as_path().as_os_str().as_bytes(),
    )
}

fn is_there(root: &AbsPath, path: &RelPath) -> bool {
    let path = root.join(path.as_path());
    file::is_there(&path)
}
