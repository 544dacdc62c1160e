//! Unpacks an untrusted archive. No entry can leave the directory that it is unpacked into, and
//! only files, directories and symlinks are accepted.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;
use tar::{Archive, Entry, EntryType};

use crate::path::AbsPath;
use crate::world::sys::state_files::file::open_named;
use crate::world::sys::state_files::tree::TreeLimits;

/// The longest path in an archive, in bytes.
const PATH_BYTES_MAX: u64 = 16 * 1024;

/// The result of unpacking.
#[derive(Debug, Default)]
pub(crate) struct UnpackReport {
    /// The name of the single top-level directory, which is stripped.
    pub(crate) top: String,
    /// Regular files.
    pub(crate) files: u64,
    /// Symlinks that lead out of the directory; they were left out.
    pub(crate) links_left_out: u64,
}

/// Unpacks the archive `from` (`tar`, then `gzip`), which contains a single top-level directory,
/// into the empty directory `target_dir`. Files for which `is_read_only` returns true get no write
/// permission and keep the execute permission of their owner; others get no execute permission.
pub(crate) fn unpack(
    from: &AbsPath,
    target_dir: &AbsPath,
    limits: TreeLimits,
    is_read_only: fn(&Path) -> bool,
) -> io::Result<UnpackReport> {
    // The archive itself is limited, too: its headers, and the bytes between its entries.
    let bytes_max = limits.bytes.saturating_mul(2);
    let file = GzDecoder::new(open_named(from)?).take(bytes_max);
    let mut unpacker = ArchiveUnpacker {
        target_dir: target_dir.as_path(),
        limits,
        is_read_only,
        entries: 0,
        bytes: 0,
        links: BTreeMap::new(),
        long_name: None,
        long_target: None,
        report: UnpackReport::default(),
    };
    // Entries are read raw: the extensions that give later entries longer names are limited here.
    for entry in Archive::new(file).entries()?.raw(true) {
        unpacker.unpack_entry(entry?)?;
    }
    unpacker.create_symlinks()
}

/// Unpacks the entries of one archive, and counts them against its limits.
struct ArchiveUnpacker<'a> {
    target_dir: &'a Path,
    limits: TreeLimits,
    is_read_only: fn(&Path) -> bool,
    entries: u64,
    bytes: u64,
    /// Symlinks are created last, so that nothing is ever written through one.
    links: BTreeMap<PathBuf, PathBuf>,
    /// The name and the target of the next entry, where they are too long for its header.
    long_name: Option<PathBuf>,
    long_target: Option<PathBuf>,
    report: UnpackReport,
}

impl ArchiveUnpacker<'_> {
    fn unpack_entry(&mut self, mut entry: Entry<'_, impl Read>) -> io::Result<()> {
        self.entries = self.entries.saturating_add(1);
        if self.entries > self.limits.entries {
            return Err(invalid_archive_error(format!(
                "it has more than {} entries",
                self.limits.entries
            )));
        }
        let kind = entry.header().entry_type();
        if kind == EntryType::GNULongName {
            self.long_name = Some(read_long_path(entry)?);
            return Ok(());
        }
        if kind == EntryType::GNULongLink {
            self.long_target = Some(read_long_path(entry)?);
            return Ok(());
        }
        let (name, target) = (self.long_name.take(), self.long_target.take());
        let path = name.map_or_else(|| entry.path().map(Cow::into_owned), Ok)?;
        let Some(path) = self.below_top(&path)? else {
            return Ok(());
        };
        if kind == EntryType::Directory {
            return self.create_directory(&path);
        }
        if kind == EntryType::Regular {
            return self.unpack_file(&path, &mut entry);
        }
        let short_target = entry.link_name()?.map(Cow::into_owned);
        if let Some(target) = target
            .or(short_target)
            .filter(|_| kind == EntryType::Symlink)
        {
            self.links.insert(path, target);
            return Ok(());
        }
        let path = path.display();
        Err(invalid_archive_error(format!(
            "`{path}` is not a file, directory or symlink"
        )))
    }

    /// Returns the path of an entry below the top-level directory; `None` for that directory
    /// itself.
    fn below_top(&mut self, path: &Path) -> io::Result<Option<PathBuf>> {
        let names: Option<Vec<OsString>> = path.components().map(component_name).collect();
        let outside_error =
            || invalid_archive_error(format!("`{}` points outside it", path.display()));
        let names = names.ok_or_else(outside_error)?;
        let (top, below) = names.split_first().ok_or_else(outside_error)?;
        let top = top
            .to_str()
            .ok_or_else(|| invalid_archive_error("its directory has no name in text"))?;
        if self.report.top.is_empty() {
            top.clone_into(&mut self.report.top);
        } else if self.report.top != top {
            return Err(invalid_archive_error("it contains more than one directory"));
        }
        if below.len() > self.limits.depth {
            let depth = self.limits.depth;
            return Err(invalid_archive_error(format!(
                "it has more than {depth} directories in each other"
            )));
        }
        Ok((!below.is_empty()).then(|| below.iter().collect()))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(self.target_dir.join(path))
    }

    fn unpack_file(&mut self, path: &Path, entry: &mut Entry<'_, impl Read>) -> io::Result<()> {
        self.create_directory(path.parent().unwrap_or(Path::new("")))?;
        let execute_bit = entry.header().mode()? & 0o100;
        let mode = if (self.is_read_only)(path) {
            0o400 | execute_bit
        } else {
            0o600
        };
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(self.target_dir.join(path))?;
        let bytes_left = self.limits.bytes.saturating_sub(self.bytes);
        let copied_bytes = io::copy(&mut entry.take(bytes_left.saturating_add(1)), &mut file)?;
        if copied_bytes > bytes_left {
            return Err(invalid_archive_error(format!(
                "it contains more than {} bytes",
                self.limits.bytes
            )));
        }
        self.bytes = self.bytes.saturating_add(copied_bytes);
        self.report.files = self.report.files.saturating_add(1);
        Ok(())
    }

    /// Creates the symlinks that stay inside, and returns the report.
    fn create_symlinks(mut self) -> io::Result<UnpackReport> {
        let links = std::mem::take(&mut self.links);
        for (path, target) in &links {
            if path
                .ancestors()
                .skip(1)
                .any(|above| links.contains_key(above))
            {
                let path = path.display();
                return Err(invalid_archive_error(format!(
                    "`{path}` is below a symlink"
                )));
            }
            if stays_inside(path, target) {
                self.create_directory(path.parent().unwrap_or(Path::new("")))?;
                symlink(target, self.target_dir.join(path))?;
            } else {
                self.report.links_left_out = self.report.links_left_out.saturating_add(1);
            }
        }
        Ok(self.report)
    }
}

/// Returns the name of a component; `None` for one that is not a name.
fn component_name(component: Component<'_>) -> Option<OsString> {
    match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::CurDir | Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
            None
        }
    }
}

/// Returns whether a symlink at `path` with this `target` stays in the directory that `path` is
/// relative to. Its target may go up only before it goes down, because what it goes down through
/// may be a symlink, too.
fn stays_inside(path: &Path, target: &Path) -> bool {
    let mut above = path.components().count().saturating_sub(1);
    let mut leads_down = false;
    for component in target.components() {
        match component {
            Component::Normal(_) => leads_down = true,
            Component::CurDir => {}
            Component::ParentDir if leads_down || above == 0 => return false,
            Component::ParentDir => above = above.saturating_sub(1),
            Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

/// Reads the path in an entry that only extends the header of the next one.
fn read_long_path(entry: Entry<'_, impl Read>) -> io::Result<PathBuf> {
    let mut bytes = Vec::new();
    entry.take(PATH_BYTES_MAX).read_to_end(&mut bytes)?;
    bytes.pop_if(|last| *last == 0);
    Ok(OsString::from_vec(bytes).into())
}

fn invalid_archive_error(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, target: &str, expected: bool) {
        let stays = stays_inside(Path::new(path), Path::new(target));
        assert_eq!(stays, expected, "{path} -> {target}");
    }

    #[test]
    fn a_symlink_may_not_lead_out_of_its_directory() {
        check("turn_1/workspace/a", "b", true);
        check("turn_1/workspace/a", "../answer.txt", true);
        check("turn_1/workspace/a", "../../../x", false);
        check("turn_1/workspace/a", "/etc/passwd", false);
        check("a", "..", false);
        check("turn_1/workspace/a", "b/../c", false);
    }
}
