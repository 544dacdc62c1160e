//! Owns a tree of files on the disk that belongs to a hub. What git knows of the files is kept beside
//! the hub, never in the tree, so that nothing in the tree says how git is run.

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RelPath};
use crate::world::git::hub::{Hub, id};
use crate::world::git::object::ObjectId;
use crate::world::git::tree::{FILE, index_row};
use crate::world::sys::own::dir::{self, Audience};
use crate::world::sys::own::{clear, file};

/// How deep repositories may be in each other.
const NESTED_MAX: usize = 64;
/// The name of a file that git is told of and that need not exist.
const PLACEHOLDER: &[u8] = b".massgen-placeholder";

/// The name of the repository of an agent beside the files of its checkout.
pub const PRIVATE: &str = ".git";

/// Files of a commit, in a directory.
#[derive(Clone, Debug)]
pub struct Checkout {
    hub: Hub,
    dir: AbsPath,
    index: AbsPath,
}

impl Checkout {
    /// The files in `dir`; git's notes on them are in the file `index`, which no agent may write to.
    pub fn at(hub: Hub, dir: AbsPath, index: AbsPath) -> Self {
        Self { hub, dir, index }
    }

    /// Where the files are.
    pub fn dir(&self) -> &AbsPath {
        &self.dir
    }

    /// Makes the files those of `commit`. Other files that git was told to pass over stay.
    pub async fn show(&self, commit: &ObjectId) -> Result<()> {
        dir::create_all(&self.dir, Audience::User)?;
        if let Some(notes) = self.index.parent() {
            dir::create_all(&notes, Audience::User)?;
        }
        let words = ["read-tree", "--reset", "-u", commit.as_str()];
        self.ask(&words).await.map(drop)
    }

    /// Makes a directory among the files, if it is missing.
    ///
    /// # Errors
    /// Something else stands on the way to it, such as a link that leads elsewhere.
    pub fn make_directory(&self, below: &RelPath) -> Result<()> {
        let mut path = self.dir.clone();
        for name in below.as_path() {
            path = path.join(name);
            // Nothing is made past a link; where it leads is found out below.
            if file::is_link(&path) {
                break;
            }
            dir::create_all(&path, Audience::Umask)?;
        }
        self.expect_plain(below)
    }

    /// Refuses a directory among the files that a link leads to, or away from: what is opened there would
    /// be opened elsewhere.
    pub fn expect_plain(&self, below: &RelPath) -> Result<()> {
        let path = self.dir.join(below.as_path());
        let (real, root) = (dir::follow(&path)?, dir::follow(&self.dir)?);
        if real == root.join(below) {
            return Ok(());
        }
        let message = format!("`{below}` of the tree is a link that leads to `{real}`");
        Err(Error::new(ErrorKind::Environment, message)
            .hint("a role can be started afresh: massgen reset --role NAME"))
    }

    /// Removes the repository of an agent beside the files, if there is one.
    pub fn remove_private(&self) -> Result<()> {
        let git_dir = self.dir.join(PRIVATE);
        if file::is_there(&git_dir) {
            return clear::remove(&git_dir);
        }
        Ok(())
    }

    /// The tree that the files are now. Files that the tree's own `.gitignore` names and that are
    /// not part of it yet are left out. A repository that was made in it is taken as the plain files
    /// that it holds: its commits are nowhere else.
    pub async fn take_up(&self) -> Result<ObjectId> {
        for _ in 0..NESTED_MAX {
            let nested = self.nested().await?;
            if nested.is_empty() {
                self.ask(&["add", "--all", "."]).await?;
                return id(&self.ask(&["write-tree"]).await?);
            }
            self.open_up(&nested).await?;
        }
        let message = format!("repositories are in each other, {NESTED_MAX} deep");
        let hint = format!("look at the last of them below `{}`", self.dir);
        Err(Error::new(ErrorKind::Environment, message).hint(hint))
    }

    /// The directories that git takes for repositories of their own, and knows nothing of yet. Their
    /// paths end with `/`.
    async fn nested(&self) -> Result<Vec<Vec<u8>>> {
        let words = ["ls-files", "--others", "--exclude-standard", "-z"];
        let output = self.ask(&words).await?;
        let paths = output.split(|byte| *byte == 0);
        let nested = paths.filter(|path| path.ends_with(b"/"));
        Ok(nested.map(<[u8]>::to_owned).collect())
    }

    /// Has git look into these directories: it does where it knows a file. The file that it is told of
    /// is gone when the files are taken up.
    async fn open_up(&self, nested: &[Vec<u8>]) -> Result<()> {
        let words = ["hash-object", "-w", "--stdin"];
        let nothing = id(&self.ask(&words).await?)?;
        let rows = nested.iter().map(|dir| {
            let path = [dir, PLACEHOLDER].concat();
            index_row(FILE, &nothing, &path)
        });
        let rows = rows.collect::<Vec<_>>().concat();
        self.hub.fill_index((&self.dir, &self.index), &rows).await
    }

    async fn ask(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let files = (&self.dir, &self.index);
        self.hub.ask_of_files(files, arguments).await
    }
}
