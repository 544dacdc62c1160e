//! What is in a container on another machine by name, size and time, as the container lists it. It
//! decides only what is fetched: a listing that lies can hide changes, and nothing else.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::path::AbsPath;

/// The most names that are listed.
const NAMES_MAX: usize = 200_000;
/// The mask of the kind of a file in its mode, and the values below it (inode(7)).
const KIND_MASK: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
/// The permission bits of a mode.
const PERMISSION_BITS: u32 = 0o777;
/// With more names or bytes than these, listing is cheaper than fetching everything.
const SMALL_NAMES_MAX: usize = 500;
const SMALL_BYTES_MAX: u64 = 1024 * 1024;

/// The names below the trees that commands may write to.
#[derive(Debug, Default)]
pub(super) struct RemoteListing {
    /// When listing began, in seconds of the container's clock.
    start_seconds: u64,
    names: BTreeMap<AbsPath, ListedName>,
}

/// One name of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ListedName {
    mode: u32,
    inode: u64,
    size_bytes: u64,
    modified_seconds: u64,
    /// When its inode was changed: a time that no command can set.
    changed_seconds: u64,
}

/// What a name of a listing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListedKind {
    /// A directory with these permission bits.
    Directory { bits: u32 },
    /// A file or a symlink, as it was at the time of an earlier listing.
    Unchanged,
    /// A file or a symlink that is new or may have changed.
    Changed,
    /// A pipe, socket or device.
    Special,
}

impl RemoteListing {
    /// Parses the output of the script for listings; `None` if it is not a complete listing of
    /// `roots`, even if a name contains a line break.
    pub(super) fn parse(output: &[u8], roots: &[AbsPath]) -> Option<Self> {
        let output = output.strip_suffix(b"\n")?;
        let mut lines = output.split(|byte| *byte == b'\n');
        let start_seconds = parse_number(lines.next()?, 10)?;
        let mut names = BTreeMap::new();
        for line in lines {
            let (path, name) = parse_line(line)?;
            let is_below = roots.iter().any(|root| path.is_within(root));
            if !is_below || names.len() == NAMES_MAX || names.insert(path, name).is_some() {
                return None;
            }
        }
        let has_roots = roots.iter().all(|root| names.contains_key(root));
        let has_parents = names.keys().all(|path| {
            let parent = path.parent().and_then(|parent| names.get(&parent));
            roots.contains(path)
                || parent.is_some_and(|parent| parent.mode & KIND_MASK == DIRECTORY)
        });
        (has_roots && has_parents).then_some(Self {
            start_seconds,
            names,
        })
    }

    /// Returns whether listing these trees is cheaper than fetching them.
    pub(super) fn is_large(&self) -> bool {
        let sizes = self.names.values().map(|name| name.size_bytes);
        is_large(self.names.len(), sizes.fold(0, u64::saturating_add))
    }

    /// Returns all names, directories before what is in them, compared with an `earlier` listing.
    pub(super) fn compare<'a>(
        &'a self,
        earlier: &'a RemoteListing,
    ) -> impl Iterator<Item = (&'a AbsPath, ListedKind)> {
        self.names.iter().map(|(path, name)| {
            let kind = match name.mode & KIND_MASK {
                DIRECTORY => ListedKind::Directory {
                    bits: name.mode & PERMISSION_BITS,
                },
                FILE | LINK => {
                    let is_same = earlier.names.get(path) == Some(name);
                    // A file that changed within the second of a listing may have changed after it.
                    if is_same && name.changed_seconds < earlier.start_seconds {
                        ListedKind::Unchanged
                    } else {
                        ListedKind::Changed
                    }
                }
                _ => ListedKind::Special,
            };
            (path, kind)
        })
    }
}

/// Returns whether listing this much is cheaper than fetching it.
pub(super) fn is_large(names: usize, bytes: u64) -> bool {
    names > SMALL_NAMES_MAX || bytes > SMALL_BYTES_MAX
}

/// Parses `MODE INODE SIZE MODIFIED CHANGED PATH`.
fn parse_line(line: &[u8]) -> Option<(AbsPath, ListedName)> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut next_number = |radix| parse_number(fields.next()?, radix);
    let name = ListedName {
        mode: u32::try_from(next_number(16)?).ok()?,
        inode: next_number(10)?,
        size_bytes: next_number(10)?,
        modified_seconds: next_number(10)?,
        changed_seconds: next_number(10)?,
    };
    let path_text = OsStr::from_bytes(fields.next()?);
    let path = AbsPath::new(path_text)?;
    // A path that `AbsPath` normalizes is not one that was sent.
    (path.as_path().as_os_str() == path_text).then_some((path, name))
}

fn parse_number(digits: &[u8], radix: u32) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    u64::from_str_radix(text, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots() -> [AbsPath; 1] {
        [AbsPath::new("/ws").unwrap()]
    }

    fn kinds(now: &str, earlier: &str) -> Vec<(String, ListedKind)> {
        let parse = |text: &str| RemoteListing::parse(text.as_bytes(), &roots()).unwrap();
        let (now, earlier) = (parse(now), parse(earlier));
        let compared = now.compare(&earlier);
        compared
            .map(|(path, kind)| (path.to_string(), kind))
            .collect()
    }

    #[test]
    fn what_may_have_changed_is_known_by_size_time_and_inode() {
        let earlier = "100\n41ed 1 0 50 50 /ws\n81a4 2 5 50 50 /ws/old\n81a4 3 5 50 100 /ws/same second\n\
                       81a4 4 5 50 50 /ws/written\n81a4 5 5 50 50 /ws/replaced\n";
        let now = "200\n41ed 1 0 150 150 /ws\n81a4 2 5 50 50 /ws/old\n81a4 3 5 50 100 /ws/same second\n\
                   81a4 4 5 50 150 /ws/written\n81a4 9 5 50 50 /ws/replaced\na1ff 6 3 50 50 /ws/new\n\
                   11a4 7 0 50 50 /ws/pipe\n";
        let expected = [
            ("/ws", ListedKind::Directory { bits: 0o755 }),
            ("/ws/new", ListedKind::Changed),
            ("/ws/old", ListedKind::Unchanged),
            ("/ws/pipe", ListedKind::Special),
            ("/ws/replaced", ListedKind::Changed),
            ("/ws/same second", ListedKind::Changed),
            ("/ws/written", ListedKind::Changed),
        ];
        let expected = expected.map(|(path, kind)| (path.to_owned(), kind));
        assert_eq!(kinds(now, earlier), expected);
    }

    #[test]
    fn what_is_no_complete_listing_is_no_listing() {
        for text in [
            "",
            "100",
            "100\n",
            "x\n41ed 1 0 50 50 /ws\n",
            "100\n41ed 1 0 50 50 /ws",
            "100\n41ed 1 0 50 50 /ws\nbreak\n",
            "100\n41ed 1 0 50 50 /ws\n81a4 2 5 50 50\n",
            "100\n41ed 1 0 50 50 /ws\n81a4 2 5 50 50 /etc/passwd\n",
            "100\n41ed 1 0 50 50 /ws\n81a4 2 5 50 50 /ws/../etc/passwd\n",
            "100\n41ed 1 0 50 50 /ws\n81a4 2 5 50 50 /ws//a\n",
            "100\n41ed 1 0 50 50 /ws\n81a4 2 5 50 50 ws/a\n",
            "100\n41ed 1 0 50 50 /ws\n81a4 2 5 50 50 /ws/none/a\n",
            "100\n41ed 1 0 50 50 /ws\n81a4 2 5 50 50 /ws/a\n81a4 2 5 50 50 /ws/a\n",
            "100\n81a4 2 5 50 50 /ws/a\n",
        ] {
            assert!(
                RemoteListing::parse(text.as_bytes(), &roots()).is_none(),
                "{text}"
            );
        }
    }
}
