//! Owns what is read of trees and written into them without a checkout.

use crate::error::Result;
use crate::path::{AbsPath, RelPath};
use crate::world::git::hub::{Hub, id};
use crate::world::git::object::ObjectId;
use crate::world::sys::own::dir::Stage;

/// The mode of a plain file in a tree.
const FILE: &str = "100644";

/// A file to be put into a tree, or, without its bytes, what is to be taken out: a file, or a directory
/// with all that is in it.
pub type Put = (RelPath, Option<Vec<u8>>);

impl Hub {
    /// The tree with these files in it, or without them.
    pub async fn with_files(&self, tree: &ObjectId, files: &[Put]) -> Result<ObjectId> {
        let place = Stage::named(self.dir(), "index-")?;
        let index = place.path().join("index");
        self.ask_of_index(&index, &["read-tree", tree.as_str()], b"")
            .await?;
        let mut lines: Vec<u8> = Vec::new();
        for (path, bytes) in files {
            match bytes {
                Some(bytes) => {
                    let blob = self.blob(bytes).await?;
                    entry(&mut lines, &format!("{FILE} {blob} 0"), path);
                }
                None => {
                    for name in self.entries(tree, path).await? {
                        let nothing = format!("0 {}", "0".repeat(tree.as_str().len()));
                        lines.extend(nothing.as_bytes());
                        lines.push(b'\t');
                        lines.extend(&name);
                        lines.push(0);
                    }
                }
            }
        }
        let update = ["update-index", "-z", "--index-info"];
        self.ask_of_index(&index, &update, &lines).await?;
        id(&self.ask_of_index(&index, &["write-tree"], b"").await?)
    }

    /// The first `bytes_max` bytes of a file of a tree; `None` if there is no such file.
    pub async fn file(
        &self,
        tree: &ObjectId,
        path: &RelPath,
        bytes_max: u64,
    ) -> Result<Option<Vec<u8>>> {
        let words = [
            "ls-tree",
            "-z",
            "--format=%(objecttype) %(objectname)",
            tree.as_str(),
            "--",
        ];
        let text = path.to_string();
        let words: Vec<&str> = words.into_iter().chain([text.as_str()]).collect();
        let listed = self.ask(&words, &[], b"").await?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let Some(blob) = listed.trim_end_matches('\0').strip_prefix("blob ") else {
            return Ok(None);
        };
        let mut bytes = self.ask(&["cat-file", "blob", blob], &[], b"").await?;
        bytes.truncate(usize::try_from(bytes_max).unwrap_or(usize::MAX));
        Ok(Some(bytes))
    }

    /// The names of all files below a directory of a tree, from that directory on, in their order. Names
    /// that are no text are left out.
    pub async fn files_below(&self, tree: &ObjectId, dir: &RelPath) -> Result<Vec<String>> {
        let inside = self.entries(tree, dir).await?;
        let inside = inside
            .into_iter()
            .filter_map(|name| String::from_utf8(name).ok());
        let below = inside.filter_map(|name| {
            let path = RelPath::new(&name)?;
            let rest = path.as_path().strip_prefix(dir.as_path()).ok()?;
            Some(rest.to_str()?.to_owned()).filter(|rest| !rest.is_empty())
        });
        Ok(below.collect())
    }

    /// The whole paths of what a tree has at `path` and below it.
    async fn entries(&self, tree: &ObjectId, path: &RelPath) -> Result<Vec<Vec<u8>>> {
        let text = path.to_string();
        let mut words = vec!["ls-tree", "-r", "-z", "--name-only", tree.as_str()];
        if !path.is_root() {
            words.extend(["--", text.as_str()]);
        }
        let listed = self.ask(&words, &[], b"").await?;
        let names = listed
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty());
        Ok(names.map(<[u8]>::to_vec).collect())
    }

    async fn blob(&self, bytes: &[u8]) -> Result<ObjectId> {
        id(&self
            .ask(&["hash-object", "-w", "--stdin"], &[], bytes)
            .await?)
    }

    async fn ask_of_index(&self, index: &AbsPath, words: &[&str], input: &[u8]) -> Result<Vec<u8>> {
        let index = index.to_string();
        self.ask(words, &[("GIT_INDEX_FILE", &index)], input).await
    }
}

fn entry(lines: &mut Vec<u8>, about: &str, path: &RelPath) {
    use std::os::unix::ffi::OsStrExt as _;
    lines.extend(about.as_bytes());
    lines.push(b'\t');
    lines.extend(path.as_path().as_os_str().as_bytes());
    lines.push(0);
}
