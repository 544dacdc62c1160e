//! Computes the digest of a directory that massgen created, from the names, kinds, permissions to
//! execute and contents of everything in it. Two trees with the same digest behave the same when
//! they are run.

use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::path::AbsPath;
use crate::text::to_hex;

/// Maximum number of files, directories and symlinks in a tree.
const ENTRIES_MAX: usize = 200_000;
/// Maximum size of all files of a tree together, in bytes.
const BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Maximum number of levels of directories below the root of a tree.
const LEVELS_MAX: usize = 64;
/// How much of a file is read at a time, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;
/// The permissions to execute, of anyone.
const EXECUTE_BITS: u32 = 0o111;

/// The digest of a tree, and its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeDigest {
    /// SHA-256 in hexadecimal digits.
    pub(crate) sha256: String,
    /// The number of files.
    pub(crate) files: usize,
    /// The bytes of all files.
    pub(crate) bytes: u64,
}

/// Digests everything below `root`, whose symlinks are not followed.
///
/// # Errors
/// Something cannot be read, is neither file, directory nor symlink, or exceeds a limit.
pub(crate) fn digest(root: &AbsPath) -> io::Result<TreeDigest> {
    let mut walk = DigestWalk {
        hasher: Sha256::new(),
        entries: 0,
        files: 0,
        bytes: 0,
    };
    walk.hash_directory(root.as_path(), 0)?;
    let digest = walk.hasher.finalize();
    Ok(TreeDigest {
        sha256: to_hex(&digest),
        files: walk.files,
        bytes: walk.bytes,
    })
}

struct DigestWalk {
    hasher: Sha256,
    entries: usize,
    files: usize,
    bytes: u64,
}

impl DigestWalk {
    fn hash_directory(&mut self, path: &Path, level: usize) -> io::Result<()> {
        if level > LEVELS_MAX {
            return Err(io::Error::other(format!(
                "it has more than {LEVELS_MAX} levels"
            )));
        }
        let entries = fs::read_dir(path)?;
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry?.file_name());
            self.entries = self.entries.saturating_add(1);
            if self.entries > ENTRIES_MAX {
                return Err(io::Error::other(format!(
                    "it has more than {ENTRIES_MAX} entries"
                )));
            }
        }
        names.sort();
        for name in names {
            let path = path.join(&name);
            let metadata = fs::symlink_metadata(&path)?;
            self.hash_text(name.as_bytes());
            // A letter says what has the name: a directory, symlink, executable or other file. The
            // `e` at the end of a directory tells its entries from those that follow it.
            if metadata.is_dir() {
                self.hasher.update(b"d");
                self.hash_directory(&path, level.saturating_add(1))?;
                self.hasher.update(b"e");
            } else if metadata.is_symlink() {
                self.hasher.update(b"l");
                self.hash_text(fs::read_link(&path)?.as_os_str().as_bytes());
            } else if metadata.is_file() {
                let is_executable = metadata.permissions().mode() & EXECUTE_BITS != 0;
                self.hasher.update(if is_executable { b"x" } else { b"f" });
                self.hash_file(&path)?;
            } else {
                let reason = format!("`{}` is not a file", path.display());
                return Err(io::Error::other(reason));
            }
        }
        Ok(())
    }

    fn hash_file(&mut self, path: &Path) -> io::Result<()> {
        let mut file = fs::File::open(path)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut content = Sha256::new();
        loop {
            let count = file.read(&mut chunk)?;
            if count == 0 {
                break;
            }
            content.update(chunk.get(..count).unwrap_or_default());
            self.bytes = self
                .bytes
                .saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
            if self.bytes > BYTES_MAX {
                return Err(io::Error::other(format!(
                    "it is larger than {BYTES_MAX} bytes"
                )));
            }
        }
        self.files = self.files.saturating_add(1);
        self.hasher.update(content.finalize());
        Ok(())
    }

    /// Adds a text with its length, so that no two lists of texts look the same.
    fn hash_text(&mut self, text: &[u8]) {
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        self.hasher.update(length.to_le_bytes());
        self.hasher.update(text);
    }
}
