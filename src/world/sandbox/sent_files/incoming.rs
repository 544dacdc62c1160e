//! Reads the archive of a directory that a container sends after a command. It is untrusted: names,
//! kinds, sizes and counts are checked before anything is kept, nothing is written outside a
//! temporary file, and the whole archive is refused if one entry is malformed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use sha2::{Digest, Sha256};
use tar::{Archive, Entry, EntryType, PaxExtensions};
use thiserror::Error;

use crate::path::AbsPath;
use crate::sandbox_policy::returned_entry::returned_path;
use crate::text::{escape_name, truncate};
use crate::world::sandbox::disk_watch::{DiskStatus, DiskWatch};
use crate::world::sandbox::sent_files::listing::{ListedKind, RemoteListing, is_large};
use crate::world::sandbox::sent_files::{RemoteEntry, SentEntries, SentEntry};
use crate::world::sys::meta::SECOND_NS;
use crate::world::sys::spool::SpoolFile;

/// The most entries of all archives after one command.
const ENTRIES_MAX: u64 = 200_000;
/// The most content of all archives after one command, in bytes.
const BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// The most names and targets of symlinks of all archives after one command, in bytes: they are
/// kept in memory.
const NAMES_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The most characters of a malformed name that are shown.
const SHOWN_CHARS_MAX: usize = 200;
/// The largest extension header, in bytes.
const EXTENSION_BYTES_MAX: u64 = 256 * 1024;
/// The longest target of a symlink, in bytes.
const TARGET_BYTES_MAX: usize = 4095;
/// Size of a chunk that is read, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;
/// The content that is kept between two checks of the free space, in bytes.
const DISK_CHECK_BYTES: usize = 16 * 1024 * 1024;
/// Assumed block size of a disk here, in bytes: every file and directory takes whole blocks.
const BLOCK_BYTES: u64 = 4096;
/// Permission bits that are kept: no setuid, setgid or sticky bit.
const KEPT_BITS: u32 = 0o777;

/// What was received of the trees that commands may write to.
#[derive(Debug)]
pub(super) struct IncomingFiles {
    entries: BTreeMap<AbsPath, IncomingEntry>,
    /// Pipes, devices and other special files, which are never written here, with their kind.
    special_files: Vec<(AbsPath, &'static str)>,
    spool: SpoolFile,
    entry_count: u64,
    bytes: u64,
    names_bytes: u64,
    entries_max: u64,
    bytes_max: u64,
    names_bytes_max: u64,
    /// Watches the disk of the temporary file.
    disk: Option<DiskWatch>,
    /// Content that was kept since the last check of the free space, in bytes.
    unchecked_bytes: usize,
}

/// Content cannot be kept in the temporary file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub(super) struct SpoolError(pub(super) String);

/// One name that was received.
#[derive(Clone, Debug)]
pub(super) struct IncomingEntry {
    /// What it is.
    pub(super) remote_entry: RemoteEntry,
    /// Where the content of a file is.
    pub(super) content: IncomingContent,
    /// Its modification time, in nanoseconds since 1970.
    pub(super) modified_ns: i128,
}

/// Where the content of a file that was received is.
#[derive(Clone, Debug)]
pub(super) enum IncomingContent {
    /// It has none.
    Nothing,
    /// In the temporary file.
    Spooled { offset: u64, size_bytes: u64 },
    /// In the local file that was sent from this path.
    AsSent(AbsPath),
}

/// What extension headers say about the next entry.
#[derive(Debug, Default)]
struct NextNames {
    name: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
}

impl NextNames {
    /// Reads an entry that only describes later ones; returns whether it was one.
    fn read_extension(
        &mut self,
        kind: EntryType,
        entry: &mut Entry<'_, impl Read>,
    ) -> io::Result<bool> {
        let is_extension = kind == EntryType::XHeader
            || kind == EntryType::XGlobalHeader
            || kind == EntryType::GNULongName
            || kind == EntryType::GNULongLink;
        if !is_extension {
            return Ok(false);
        }
        let size = entry.header().entry_size()?;
        if size > EXTENSION_BYTES_MAX {
            return Err(invalid_data("an extension header is larger than 256 KiB"));
        }
        let mut bytes = Vec::new();
        entry.take(size).read_to_end(&mut bytes)?;
        let without_nul = |bytes: &[u8]| bytes.strip_suffix(b"\0").unwrap_or(bytes).to_vec();
        if kind == EntryType::GNULongName {
            self.name = Some(without_nul(&bytes));
        } else if kind == EntryType::GNULongLink {
            self.target = Some(without_nul(&bytes));
        } else if kind == EntryType::XHeader {
            for extension in PaxExtensions::new(&bytes) {
                let extension = extension?;
                let value = || extension.value_bytes().to_vec();
                match extension.key_bytes() {
                    b"path" => self.name = Some(value()),
                    b"linkpath" => self.target = Some(value()),
                    b"size" => return Err(invalid_data("a file in it is too large")),
                    key if key.starts_with(b"GNU.sparse") => return Err(sparse_file_error()),
                    _ => {}
                }
            }
        }
        Ok(true)
    }
}

impl IncomingFiles {
    /// Keeps content in `spool`, which is empty, while the `disk` has room for it.
    pub(super) fn new(spool: SpoolFile, disk: DiskWatch) -> Self {
        Self {
            disk: Some(disk),
            // The free space is checked before the first content is kept.
            unchecked_bytes: DISK_CHECK_BYTES,
            ..Self::with_limits(spool, ENTRIES_MAX, BYTES_MAX)
        }
    }

    pub(super) fn with_limits(spool: SpoolFile, entries_max: u64, bytes_max: u64) -> Self {
        Self {
            entries: BTreeMap::new(),
            special_files: Vec::new(),
            spool,
            entry_count: 0,
            bytes: 0,
            names_bytes: 0,
            entries_max,
            bytes_max,
            names_bytes_max: NAMES_BYTES_MAX,
            disk: None,
            unchecked_bytes: 0,
        }
    }

    /// Returns the entries, directories before what is in them.
    pub(super) fn entries(&self) -> &BTreeMap<AbsPath, IncomingEntry> {
        &self.entries
    }

    /// Returns the pipes, devices and other special files, which are never written here.
    pub(super) fn special_files(&self) -> &[(AbsPath, &'static str)] {
        &self.special_files
    }

    /// Returns how much space on a disk here is needed to write what is not in `sent_entries`, in
    /// bytes. A copy of a sent file counts as much as the file.
    pub(super) fn new_bytes(&self, sent_entries: &SentEntries) -> u64 {
        let sizes = self.entries.iter().map(|(path, entry)| {
            let size_bytes = match &entry.content {
                IncomingContent::Spooled { size_bytes, .. } => *size_bytes,
                IncomingContent::AsSent(original) if original != path => {
                    sent_size(sent_entries, original)
                }
                IncomingContent::Nothing if !sent_entries.contains_key(path) => BLOCK_BYTES,
                IncomingContent::Nothing | IncomingContent::AsSent(_) => 0,
            };
            let blocks = size_bytes.checked_next_multiple_of(BLOCK_BYTES);
            blocks.unwrap_or(u64::MAX)
        });
        sizes.fold(0, u64::saturating_add)
    }

    /// Returns how many names are not in `sent_entries`.
    pub(super) fn new_names(&self, sent_entries: &SentEntries) -> u64 {
        let names = self.entries.keys();
        let count = names
            .filter(|path| !sent_entries.contains_key(*path))
            .count();
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    /// Returns whether listing this much is cheaper than fetching it.
    pub(super) fn is_large(&self) -> bool {
        is_large(self.entries.len(), self.bytes)
    }

    /// Adds the directories and special files of `listing`, and the files that are as they were
    /// sent because they did not change since an `earlier` listing. Returns the other paths, whose
    /// content must be read.
    pub(super) fn add_listed<'l>(
        &mut self,
        listing: &'l RemoteListing,
        earlier: &'l RemoteListing,
        sent_entries: &SentEntries,
    ) -> Vec<&'l AbsPath> {
        let mut changed_paths = Vec::new();
        for (path, kind) in listing.compare(earlier) {
            match (kind, sent_entries.get(path)) {
                (ListedKind::Directory { bits }, _) => {
                    let directory = RemoteEntry::Directory { bits };
                    self.add_known(path, directory, IncomingContent::Nothing);
                }
                (ListedKind::Special, _) => {
                    let description = "it is a pipe, a socket or a device";
                    self.special_files.push((path.clone(), description));
                }
                (ListedKind::Unchanged, Some(sent_entry)) => self.add_as_sent(path, sent_entry),
                (ListedKind::Unchanged, None) | (ListedKind::Changed, _) => {
                    changed_paths.push(path);
                }
            }
        }
        changed_paths
    }

    fn add_as_sent(&mut self, path: &AbsPath, sent_entry: &SentEntry) {
        let content = IncomingContent::AsSent(path.clone());
        self.add_known(path, sent_entry.remote_entry.clone(), content);
    }

    fn add_known(&mut self, path: &AbsPath, remote_entry: RemoteEntry, content: IncomingContent) {
        let entry = IncomingEntry {
            remote_entry,
            content,
            modified_ns: 0,
        };
        self.entries.insert(path.clone(), entry);
    }

    /// Returns the temporary file with the content.
    pub(super) fn spool(&self) -> &SpoolFile {
        &self.spool
    }

    /// Reads an archive of the directory or file `root`. The content of files that are as they were
    /// in `sent_entries` is not kept.
    pub(super) fn read(
        &mut self,
        root: &AbsPath,
        archive: impl Read,
        sent_entries: &SentEntries,
    ) -> io::Result<()> {
        let mut next_names = NextNames::default();
        let mut archive = EndWatch {
            inner: archive,
            has_ended: false,
        };
        // Entries are read raw: the extensions that give later entries longer names are limited
        // here.
        for entry in Archive::new(&mut archive).entries()?.raw(true) {
            let mut entry = entry?;
            self.entry_count = self.entry_count.saturating_add(1);
            if self.entry_count > self.entries_max {
                return Err(invalid_data(format!(
                    "it has more than {} entries",
                    self.entries_max
                )));
            }
            // The data after a header is received whatever its kind.
            self.count_bytes(entry.header().entry_size()?)?;
            let kind = entry.header().entry_type();
            if next_names.read_extension(kind, &mut entry)? {
                continue;
            }
            let names = std::mem::take(&mut next_names);
            self.add_entry(root, kind, &mut entry, names, sent_entries)?;
        }
        if !self.entries.contains_key(root) {
            return Err(invalid_data("it is not an archive of that path"));
        }
        // Reading stops at the mark; only without one the stream itself has ended.
        if archive.has_ended {
            return Err(invalid_data("it has no mark of its end"));
        }
        Ok(())
    }

    fn add_entry(
        &mut self,
        root: &AbsPath,
        kind: EntryType,
        entry: &mut Entry<'_, impl Read>,
        names: NextNames,
        sent_entries: &SentEntries,
    ) -> io::Result<()> {
        let name = names
            .name
            .unwrap_or_else(|| entry.path_bytes().into_owned());
        let path = returned_path(root, &name).map_err(|reason| {
            let name = truncate(&String::from_utf8_lossy(&name), SHOWN_CHARS_MAX);
            invalid_data(format!("the entry `{}`: {reason}", escape_name(&name)))
        })?;
        self.count_name(path.as_path().as_os_str())?;
        let shown_path = || escape_name(&path.to_string());
        let has_parent = path == *root || self.is_directory(path.parent().as_ref());
        if !has_parent {
            return Err(invalid_data(format!(
                "`{}` is in no directory",
                shown_path()
            )));
        }
        let bits = entry.header().mode()? & KEPT_BITS;
        let seconds = i128::from(entry.header().mtime()?.min(u64::from(u32::MAX)));
        let target = || {
            let short_target = entry.link_name_bytes().map(std::borrow::Cow::into_owned);
            names.target.clone().or(short_target).unwrap_or_default()
        };
        let (remote_entry, content) = if kind == EntryType::Directory {
            (RemoteEntry::Directory { bits }, IncomingContent::Nothing)
        } else if kind == EntryType::Symlink {
            (self.read_link(&target())?, IncomingContent::Nothing)
        } else if kind == EntryType::Link {
            self.read_hard_link(root, &target(), sent_entries)?
        } else if kind == EntryType::Regular || kind == EntryType::Continuous {
            self.read_file(&path, bits, entry, sent_entries)?
        } else if let Some(description) = describe_special(kind) {
            self.special_files.push((path, description));
            return Ok(());
        } else if kind == EntryType::GNUSparse {
            return Err(sparse_file_error());
        } else {
            return Err(invalid_data(format!(
                "`{}` is of an unknown kind",
                shown_path()
            )));
        };
        let keeps_root_kind = path != *root
            || sent_entries
                .get(root)
                .is_none_or(|sent_entry| sent_entry.remote_entry.has_kind_of(&remote_entry));
        if !keeps_root_kind {
            return Err(invalid_data(format!(
                "`{}` was replaced by something else",
                shown_path()
            )));
        }
        let incoming = IncomingEntry {
            remote_entry,
            content,
            modified_ns: seconds.saturating_mul(SECOND_NS),
        };
        match self.entries.insert(path.clone(), incoming) {
            None => Ok(()),
            Some(_) => Err(invalid_data(format!("`{}` is in it twice", shown_path()))),
        }
    }

    /// Gives a file that was received these permission bits.
    pub(super) fn set_bits(&mut self, path: &AbsPath, bits: u32) {
        let entry = self.entries.get_mut(path);
        if let Some(RemoteEntry::File { bits: received, .. }) =
            entry.map(|entry| &mut entry.remote_entry)
        {
            *received = bits;
        }
    }

    /// Returns whether a directory was received there.
    pub(super) fn is_directory(&self, path: Option<&AbsPath>) -> bool {
        let entry = path.and_then(|path| self.entries.get(path));
        entry.is_some_and(|entry| matches!(entry.remote_entry, RemoteEntry::Directory { .. }))
    }

    /// Reads a file, and keeps its content unless it is as it was sent.
    fn read_file(
        &mut self,
        path: &AbsPath,
        bits: u32,
        entry: &mut Entry<'_, impl Read>,
        sent_entries: &SentEntries,
    ) -> io::Result<(RemoteEntry, IncomingContent)> {
        let size_bytes = entry.header().entry_size()?;
        let offset = self.spool.size_bytes();
        let mut digest = Sha256::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let count = entry.read(&mut chunk)?;
            if count == 0 {
                break;
            }
            let bytes = chunk.get(..count).unwrap_or_default();
            digest.update(bytes);
            self.append_content(bytes)?;
        }
        if self.spool.size_bytes().checked_sub(offset) != Some(size_bytes) {
            return Err(invalid_data("it ends within a file"));
        }
        let digest: [u8; 32] = digest.finalize().into();
        let earlier_entry = sent_entries
            .get(path)
            .map(|sent_entry| &sent_entry.remote_entry);
        let is_as_sent = matches!(
            earlier_entry,
            Some(RemoteEntry::File { digest: sent_digest, .. }) if *sent_digest == digest
        );
        let content = if is_as_sent {
            self.spool.truncate(offset)?;
            IncomingContent::AsSent(path.clone())
        } else {
            IncomingContent::Spooled { offset, size_bytes }
        };
        Ok((RemoteEntry::File { digest, bits }, content))
    }

    /// Appends content to the temporary file.
    fn append_content(&mut self, bytes: &[u8]) -> io::Result<()> {
        let spool_error = |reason: String| io::Error::other(SpoolError(reason));
        self.unchecked_bytes = self.unchecked_bytes.saturating_add(bytes.len());
        if let Some(disk) = &self.disk
            && self.unchecked_bytes > DISK_CHECK_BYTES
        {
            self.unchecked_bytes = 0;
            if let DiskStatus::Full(shortage) = disk.check() {
                return Err(spool_error(shortage.to_string()));
            }
        }
        let append_result = self.spool.append(bytes);
        append_result.map_err(|error| spool_error(error.to_string()))
    }

    /// Returns the file that a hard link names: it must be an earlier entry of the same archive. It
    /// becomes a file of its own here, so its content counts each time.
    fn read_hard_link(
        &mut self,
        root: &AbsPath,
        target: &[u8],
        sent_entries: &SentEntries,
    ) -> io::Result<(RemoteEntry, IncomingContent)> {
        let path = returned_path(root, target)
            .map_err(|reason| invalid_data(format!("the target of a hard link: {reason}")))?;
        let earlier_entry = self.entries.get(&path);
        let file =
            earlier_entry.filter(|entry| matches!(entry.remote_entry, RemoteEntry::File { .. }));
        let Some(IncomingEntry {
            remote_entry,
            content,
            ..
        }) = file.cloned()
        else {
            return Err(invalid_data(
                "the target of a hard link is not an earlier file in it",
            ));
        };
        let size_bytes = match &content {
            IncomingContent::Nothing => 0,
            IncomingContent::Spooled { size_bytes, .. } => *size_bytes,
            IncomingContent::AsSent(original) => sent_size(sent_entries, original),
        };
        self.count_bytes(size_bytes)?;
        Ok((remote_entry, content))
    }

    fn read_link(&mut self, target: &[u8]) -> io::Result<RemoteEntry> {
        if target.is_empty() || target.len() > TARGET_BYTES_MAX || target.contains(&0) {
            return Err(invalid_data("the target of a symlink is malformed"));
        }
        let target = OsStr::from_bytes(target);
        self.count_name(target)?;
        Ok(RemoteEntry::Link {
            target: PathBuf::from(target),
        })
    }

    /// Counts a name that is kept in memory.
    fn count_name(&mut self, name: &OsStr) -> io::Result<()> {
        let count = u64::try_from(name.len()).unwrap_or(u64::MAX);
        self.names_bytes = self.names_bytes.saturating_add(count);
        if self.names_bytes > self.names_bytes_max {
            return Err(invalid_data(format!(
                "its names have more than {} bytes",
                self.names_bytes_max
            )));
        }
        Ok(())
    }

    fn count_bytes(&mut self, count: u64) -> io::Result<()> {
        self.bytes = self.bytes.saturating_add(count);
        if self.bytes > self.bytes_max {
            return Err(invalid_data(format!(
                "it has more than {} bytes",
                self.bytes_max
            )));
        }
        Ok(())
    }
}

/// Returns the size of a file that was sent, in bytes.
fn sent_size(sent_entries: &SentEntries, path: &AbsPath) -> u64 {
    let version = sent_entries
        .get(path)
        .and_then(|sent_entry| sent_entry.local_version);
    version.map_or(0, |version| version.size_bytes)
}

/// Describes a kind of file that is never written here.
fn describe_special(kind: EntryType) -> Option<&'static str> {
    if kind == EntryType::Fifo {
        Some("it is a named pipe")
    } else if kind == EntryType::Char || kind == EntryType::Block {
        Some("it is a device")
    } else {
        None
    }
}

fn sparse_file_error() -> io::Error {
    invalid_data("a file in it is sparse")
}

fn invalid_data(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

/// Notices whether a stream was read to its end.
struct EndWatch<R> {
    inner: R,
    has_ended: bool,
}

impl<R: Read> Read for EndWatch<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.has_ended |= count == 0 && !buffer.is_empty();
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use tar::{Builder, Header};

    use super::*;
    use crate::sandbox_policy::limits::ResourceLimits;

    #[test]
    fn names_are_kept_up_to_a_limit() {
        let mut archive = Builder::new(Vec::new());
        let mut header = Header::new_gnu();
        header.set_mode(0o755);
        header.set_size(0);
        header.set_entry_type(EntryType::Directory);
        archive
            .append_data(&mut header, "ws/", io::empty())
            .unwrap();
        header.set_entry_type(EntryType::Symlink);
        archive.append_link(&mut header, "ws/l", "there").unwrap();
        let archive = archive.into_inner().unwrap();
        let disk = tempfile::tempdir().unwrap();
        let spool_dir = AbsPath::new(disk.path()).unwrap();
        let root = AbsPath::new("/p/ws").unwrap();
        let receive = |names_bytes_max: u64| {
            let spool = SpoolFile::new_in(&spool_dir).unwrap();
            let mut incoming = IncomingFiles::with_limits(spool, 1000, 1 << 20);
            incoming.names_bytes_max = names_bytes_max;
            incoming.read(&root, archive.as_slice(), &SentEntries::new())
        };
        let needed = u64::try_from("/p/ws/p/ws/lthere".len()).unwrap();
        receive(needed).unwrap();
        for small in [needed - 1, needed - 6] {
            let error = receive(small).unwrap_err().to_string();
            assert!(error.contains("its names have more than"), "{error}");
        }
    }

    #[test]
    fn what_the_disk_has_no_room_for_is_not_kept() {
        let mut archive = Builder::new(Vec::new());
        for (kind, name, content) in [
            (EntryType::Directory, "ws/", ""),
            (EntryType::Regular, "ws/made", "made"),
        ] {
            let mut header = Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(0o755);
            header.set_size(content.len().try_into().unwrap());
            archive
                .append_data(&mut header, name, content.as_bytes())
                .unwrap();
        }
        let archive = archive.into_inner().unwrap();
        let disk = tempfile::tempdir().unwrap();
        let spool_dir = AbsPath::new(disk.path()).unwrap();
        let root = AbsPath::new("/p/ws").unwrap();
        let receive = |disk_free_bytes: u64| {
            let limits = ResourceLimits {
                disk_free_bytes,
                disk_free_files: 0,
                ..ResourceLimits::default()
            };
            let disk = DiskWatch::new(vec![spool_dir.clone()], &limits);
            let spool = SpoolFile::new_in(&spool_dir).unwrap();
            let mut incoming = IncomingFiles::new(spool, disk);
            let read_result = incoming.read(&root, archive.as_slice(), &SentEntries::new());
            read_result.map(|()| incoming.new_bytes(&SentEntries::new()))
        };
        assert_eq!(receive(0).unwrap(), 2 * BLOCK_BYTES);
        let full = receive(u64::MAX).unwrap_err();
        let spool_error = full
            .get_ref()
            .and_then(|error| error.downcast_ref::<SpoolError>());
        assert_eq!(
            spool_error,
            Some(&SpoolError("the disk was nearly full".to_owned()))
        );
    }
}
