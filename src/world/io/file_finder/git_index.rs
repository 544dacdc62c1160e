//! Parser for git's index file, which lists the tracked files (`gitformat-index(5)`, versions 2 to
//! 4). It must never run git: a repository may come from anywhere, and its config can name
//! programs.

/// Signature at the start of an index.
const SIGNATURE: &[u8] = b"DIRC";
/// Size of an entry before its name, in bytes: ten words of 32 bits, a SHA-1 hash and the flags.
const HEADER_BYTES: usize = 62;
/// Offset of the flags in an entry.
const FLAGS_OFFSET: usize = 60;
/// Flag of an entry that has two more bytes of flags.
const EXTENDED_FLAG: u16 = 0x4000;
/// Up to version 3, an entry is padded to a multiple of this many bytes.
const ALIGNMENT: usize = 8;

/// The names in an index, sorted.
#[derive(Debug, Default)]
pub(super) struct TrackedNames {
    names: Vec<Box<[u8]>>,
}

impl TrackedNames {
    /// Parses an index as far as possible. One with hashes other than SHA-1 yields only names that
    /// do not exist, which is harmless.
    pub(super) fn parse(index: &[u8]) -> Self {
        let mut names = parse_names(index).unwrap_or_default();
        names.sort_unstable();
        Self { names }
    }

    /// Returns whether `name`, relative to the top of the repository, is a tracked file.
    pub(super) fn contains_file(&self, name: &str) -> bool {
        let position = self
            .names
            .binary_search_by(|known| (**known).cmp(name.as_bytes()));
        position.is_ok()
    }

    /// Returns whether `name`, without a slash at its end, is a directory that contains tracked
    /// files.
    pub(super) fn contains_directory(&self, name: &str) -> bool {
        let prefix = format!("{name}/");
        let index = self
            .names
            .partition_point(|known| **known < *prefix.as_bytes());
        self.names
            .get(index)
            .is_some_and(|known| known.starts_with(prefix.as_bytes()))
    }
}

fn parse_names(index: &[u8]) -> Option<Vec<Box<[u8]>>> {
    let mut unparsed = index.strip_prefix(SIGNATURE)?;
    let version = read_u32(&mut unparsed)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let count = read_u32(&mut unparsed)?;
    let mut names: Vec<Box<[u8]>> = Vec::new();
    for _ in 0..count {
        let previous_name = names.last().map(|name| &**name);
        let Some((name, rest)) = parse_entry(unparsed, version, previous_name) else {
            break;
        };
        names.push(name);
        unparsed = rest;
    }
    Some(names)
}

/// Parses the entry at the start of `bytes`; returns its name and the remaining bytes.
fn parse_entry<'b>(
    bytes: &'b [u8],
    version: u32,
    previous_name: Option<&[u8]>,
) -> Option<(Box<[u8]>, &'b [u8])> {
    let flags = bytes.get(FLAGS_OFFSET..HEADER_BYTES)?;
    let flags = u16::from_be_bytes(flags.try_into().ok()?);
    let header_length = if flags & EXTENDED_FLAG == 0 {
        HEADER_BYTES
    } else {
        HEADER_BYTES + 2
    };
    let mut unparsed = bytes.get(header_length..)?;
    let cut_bytes = if version == 4 {
        read_varint(&mut unparsed)?
    } else {
        0
    };
    let length = unparsed.iter().position(|byte| *byte == 0)?;
    let suffix = unparsed.get(..length)?;
    if version == 4 {
        let previous_name = previous_name.unwrap_or_default();
        let prefix = previous_name.get(..previous_name.len().checked_sub(cut_bytes)?)?;
        let name = [prefix, suffix].concat();
        return Some((name.into(), unparsed.get(length.checked_add(1)?..)?));
    }
    let entry_length = header_length.checked_add(length)?;
    // At least one zero byte ends the name.
    let padded = entry_length
        .checked_div(ALIGNMENT)?
        .checked_add(1)?
        .checked_mul(ALIGNMENT)?;
    Some((suffix.into(), bytes.get(padded..)?))
}

/// Reads a number of 32 bits from the start of `bytes`.
fn read_u32(bytes: &mut &[u8]) -> Option<u32> {
    let (word, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    Some(u32::from_be_bytes(*word))
}

/// Reads a number of variable length from the start of `bytes`, in the encoding of offsets in git
/// packs.
fn read_varint(bytes: &mut &[u8]) -> Option<usize> {
    let mut value = 0_usize;
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value = value
            .checked_mul(128)?
            .checked_add(usize::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        value = value.checked_add(1)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds an index of `version` with these names.
    fn index(version: u32, names: &[&str]) -> Vec<u8> {
        let mut index = SIGNATURE.to_vec();
        index.extend(version.to_be_bytes());
        index.extend(u32::try_from(names.len()).unwrap().to_be_bytes());
        let mut previous_name = "";
        for name in names {
            let begin = index.len();
            index.extend([0; FLAGS_OFFSET]);
            index.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
            if version == 4 {
                let common = name
                    .bytes()
                    .zip(previous_name.bytes())
                    .take_while(|(a, b)| a == b)
                    .count();
                index.push(u8::try_from(previous_name.len() - common).unwrap());
                index.extend(&name.as_bytes()[common..]);
                index.push(0);
            } else {
                index.extend(name.as_bytes());
                let padding = ALIGNMENT - (index.len() - begin) % ALIGNMENT;
                index.extend(vec![0; padding]);
            }
            previous_name = name;
        }
        index.extend(b"TREE");
        index
    }

    #[test]
    fn names_are_read_in_all_versions() {
        let names = ["a.txt", "docs/one.md", "docs/only.md", "src/main.rs"];
        for version in [2, 3, 4] {
            let index = index(version, &names);
            let tracked_names = TrackedNames::parse(&index);
            assert!(
                names.iter().all(|name| tracked_names.contains_file(name)),
                "{version}"
            );
            assert!(
                tracked_names.contains_directory("docs") && tracked_names.contains_directory("src")
            );
            assert!(
                !tracked_names.contains_file("docs") && !tracked_names.contains_file("docs/on")
            );
            assert!(
                !tracked_names.contains_directory("do")
                    && !tracked_names.contains_directory("a.txt")
            );
            for cut in 0..index.len() {
                assert!(TrackedNames::parse(&index[..cut]).names.len() <= names.len());
            }
        }
    }

    #[test]
    fn anything_else_tracks_nothing() {
        for bytes in [
            &b""[..],
            b"DIRC",
            b"DIRC\0\0\0\x09\0\0\0\x01",
            b"not an index",
        ] {
            assert!(TrackedNames::parse(bytes).names.is_empty());
        }
    }
}
