//! Reads trees and builds new ones from them, without files on the disk. Names in a tree are bytes
//! that agents chose: they are compared literally, and never interpreted as patterns.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use crate::error::Result;
use crate::path::RelPath;
use crate::world::git::bare_repository::{BareRepository, parse_id};
use crate::world::git::nul_separated;
use crate::world::git::object::ObjectId;
use crate::world::sys::state_files::dir::StagingDirectory;

/// The mode of a file that is not executable.
pub(super) const FILE_MODE: &str = "100644";
/// The mode by which `git update-index --index-info` removes a path from the index.
pub(super) const ABSENT_MODE: &str = "0";
/// The prefix of the modes of files; symlinks and directories have others.
const FILE_MODE_PREFIX: &[u8] = b"100";
/// The mode of a directory.
const DIRECTORY_MODE: &[u8] = b"040000";

/// A file to be put into a tree, or, without content, a path to be removed: a file, or a directory
/// with everything in it.
pub type TreeEdit = (RelPath, Option<Vec<u8>>);

/// The entry of a name in a tree.
struct TreeEntry {
    mode: Vec<u8>,
    object: ObjectId,
}

impl BareRepository {
    /// Returns the tree with these files added or removed. An entry that blocks a file is replaced;
    /// a name that git never accepts, such as `.git`, is skipped.
    pub async fn with_files(&self, tree: &ObjectId, files: &[TreeEdit]) -> Result<ObjectId> {
        let mut rows = Vec::new();
        for (path, content) in files {
            let path = path.as_path().as_os_str().as_bytes();
            match content {
                Some(content) => {
                    let arguments = ["hash-object", "-w", "--stdin"];
                    let object = parse_id(&self.run_git(&arguments, &[], content).await?)?;
                    rows.extend(index_row(FILE_MODE, &object, path));
                }
                None => rows.extend(self.removals(tree, path).await?),
            }
        }
        // The tree is built in an index of its own, so that no file is written.
        let staging = StagingDirectory::new(self.dir())?;
        let index = staging.path().join("index").to_string();
        let env = [("GIT_INDEX_FILE", index.as_str())];
        self.run_git(&["read-tree", tree.as_str()], &env, b"")
            .await?;
        let update_index = ["update-index", "-z", "--index-info"];
        self.run_git(&update_index, &env, &rows).await?;
        parse_id(&self.run_git(&["write-tree"], &env, b"").await?)
    }

    /// Reads the file at `path`: at most its first `bytes_max` bytes, and always less than 64 MiB.
    /// `None` if there is no file, or a symlink or a directory.
    pub async fn file(
        &self,
        tree: &ObjectId,
        path: &RelPath,
        bytes_max: u64,
    ) -> Result<Option<Vec<u8>>> {
        let entry = self.entry(tree, path).await?;
        let Some(entry) = entry.filter(|entry| entry.mode.starts_with(FILE_MODE_PREFIX)) else {
            return Ok(None);
        };
        let arguments = ["cat-file", "blob", entry.object.as_str()];
        self.output_prefix(&arguments, bytes_max).await.map(Some)
    }

    /// Returns the paths of all files below a directory of a tree, relative to that directory, in
    /// order. Names that are not valid UTF-8 are left out.
    pub async fn files_below(&self, tree: &ObjectId, dir: &RelPath) -> Result<Vec<String>> {
        let dir = dir.as_path().as_os_str().as_bytes();
        let names = self
            .names_below(tree, dir)
            .await?
            .into_iter()
            .map(String::from_utf8);
        Ok(names.filter_map(std::result::Result::ok).collect())
    }

    /// Returns the rows that remove `path` from an index, with everything below it.
    async fn removals(&self, tree: &ObjectId, path: &[u8]) -> Result<Vec<u8>> {
        let names = self.names_below(tree, path).await?;
        let paths_below = names.iter().map(|name| [path, b"/", name].concat());
        let paths = [path.to_owned()].into_iter().chain(paths_below);
        // Any object of the repository is accepted here.
        let rows = paths.map(|path| index_row(ABSENT_MODE, tree, &path));
        Ok(rows.collect::<Vec<_>>().concat())
    }

    /// Returns the paths of all files below a directory, relative to it, in order.
    async fn names_below(&self, tree: &ObjectId, dir: &[u8]) -> Result<Vec<Vec<u8>>> {
        let Some(top) = self.directory(tree, dir).await? else {
            return Ok(Vec::new());
        };
        let arguments = ["ls-tree", "-r", "-z", "--name-only", top.as_str()];
        let output = self.run_git(&arguments, &[], b"").await?;
        Ok(nul_separated(&output).map(<[u8]>::to_owned).collect())
    }

    async fn directory(&self, tree: &ObjectId, dir: &[u8]) -> Result<Option<ObjectId>> {
        let mut current = tree.clone();
        for name in dir.split(|byte| *byte == b'/') {
            if name.is_empty() {
                continue;
            }
            match self.find_entry(&current, name).await? {
                Some(entry) if entry.mode == DIRECTORY_MODE => current = entry.object,
                _ => return Ok(None),
            }
        }
        Ok(Some(current))
    }

    async fn entry(&self, tree: &ObjectId, path: &RelPath) -> Result<Option<TreeEntry>> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Ok(None);
        };
        let parent = parent.as_path().as_os_str().as_bytes();
        match self.directory(tree, parent).await? {
            Some(dir) => self.find_entry(&dir, name.as_bytes()).await,
            None => Ok(None),
        }
    }

    /// Returns the entries directly in a tree, as git prints them.
    async fn listing(&self, tree: &ObjectId) -> Result<Arc<[u8]>> {
        if let Some(listing) = self.objects().listing(tree) {
            return Ok(listing);
        }
        let arguments = ["ls-tree", "-z", tree.as_str()];
        let listing: Arc<[u8]> = self.run_git(&arguments, &[], b"").await?.into();
        self.objects().keep_listing(tree, &listing);
        Ok(listing)
    }

    /// Returns the entry `name` directly in a tree.
    async fn find_entry(&self, tree: &ObjectId, name: &[u8]) -> Result<Option<TreeEntry>> {
        let listing = self.listing(tree).await?;
        let mut rows = listing.split(|byte| *byte == 0);
        Ok(rows.find_map(|row| {
            // `MODE TYPE OBJECT`, a tab, and the name.
            let tab = row.iter().position(|byte| *byte == b'\t')?;
            let (fields, tab_and_name) = row.split_at_checked(tab)?;
            if tab_and_name.strip_prefix(b"\t") != Some(name) {
                return None;
            }
            let mut field_list = fields.split(|byte| *byte == b' ');
            let (mode, object) = (field_list.next()?.to_owned(), field_list.nth(1)?);
            let object = ObjectId::parse(std::str::from_utf8(object).ok()?)?;
            Some(TreeEntry { mode, object })
        }))
    }
}

/// Formats a row of `git update-index -z --index-info`.
pub(super) fn index_row(mode: &str, object: &ObjectId, path: &[u8]) -> Vec<u8> {
    let fields = format!("{mode} {object}\t");
    [fields.as_bytes(), path, b"\0"].concat()
}
