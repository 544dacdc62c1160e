//! Owns the reading of both sides of a change, as far as a person or a merge can use it.

use std::ffi::OsStr;
use std::io::Read as _;

use crate::delivery::merge::{MERGE_BYTES_MAX, text};
use crate::delivery::plan::{Entry, Plan, Source};
use crate::delivery::stand::Stand;
use crate::error::Result;
use crate::path::{AbsPath, RelPath};
use crate::world::delivery::place::cannot;
use crate::world::delivery::store::Delivery;
use crate::world::sys::dir::Dir;
use crate::world::sys::fault::Fault;

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// All of it.
    Whole(Vec<u8>),
    /// It is too long to be looked at.
    TooLong,
    /// It is not there any more, or it is no file.
    None,
}

/// One side of a change, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// Nothing stands there.
    Nothing,
    /// A text.
    Text(String),
    /// A file that is no text, or too long to be shown.
    Binary,
    /// A link with this text.
    Link(String),
    /// A directory.
    Directory,
    /// A file whose content is not kept any more.
    Lost,
}

/// A change with both of its sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where.
    pub path: AbsPath,
    /// What stood there.
    pub before: Side,
    /// What stands there then.
    pub after: Side,
    /// The permission bits on both sides, of a file or a directory that stays one.
    pub modes: Option<(u32, u32)>,
}

/// Both sides of an entry of `plan`.
pub fn difference(delivery: &Delivery, plan: &Plan, entry: &Entry) -> Result<Difference> {
    let before = side(&entry.theirs, || theirs(plan, entry))?;
    let after = side(&entry.ours, || ours(delivery, plan, entry))?;
    Ok(Difference {
        path: plan.path(entry),
        before,
        after,
        modes: modes(&entry.theirs, &entry.ours),
    })
}

/// What the user's file holds at the name of `entry`.
pub(super) fn theirs(plan: &Plan, entry: &Entry) -> Result<Bytes> {
    let Some(root) = plan.roots.get(entry.root) else {
        return Ok(Bytes::None);
    };
    let dir = Dir::own(root).map_err(|fault| cannot("open", root, fault))?;
    bytes(&dir, &entry.rel).map_err(|fault| cannot("read", &plan.path(entry), fault))
}

/// What our file holds that is to stand at the name of `entry`.
pub(super) fn ours(delivery: &Delivery, plan: &Plan, entry: &Entry) -> Result<Bytes> {
    let (path, rel) = match entry.source {
        Source::Layer => match plan.origins.get(entry.root).cloned().flatten() {
            Some(origin) => (origin, entry.rel.clone()),
            None => return Ok(Bytes::None),
        },
        Source::Made { number, .. } => {
            let name = number.to_string();
            let rel = RelPath::default()
                .child(OsStr::new(&name))
                .unwrap_or_default();
            (delivery.place.made(), rel)
        }
    };
    let dir = Dir::own(&path).map_err(|fault| cannot("open", &path, fault))?;
    bytes(&dir, &rel).map_err(|fault| cannot("read", &path.join(rel.as_path()), fault))
}

/// What the file `rel` below `dir` holds.
pub(super) fn bytes(dir: &Dir, rel: &RelPath) -> std::result::Result<Bytes, Fault> {
    let (content, meta) = match dir.open_file(rel) {
        Ok(opened) => opened,
        Err(Fault::Missing | Fault::NotDirectory | Fault::IsDirectory | Fault::NotRegular(_)) => {
            return Ok(Bytes::None);
        }
        Err(fault) => return Err(fault),
    };
    let bytes_max = u64::try_from(MERGE_BYTES_MAX).unwrap_or(u64::MAX);
    if meta.version.size_bytes > bytes_max {
        return Ok(Bytes::TooLong);
    }
    let mut bytes = Vec::new();
    content
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() > MERGE_BYTES_MAX {
        return Ok(Bytes::TooLong);
    }
    Ok(Bytes::Whole(bytes))
}

/// One side, whose content `read` gives if it is a file.
pub(super) fn side(stand: &Stand, read: impl FnOnce() -> Result<Bytes>) -> Result<Side> {
    Ok(match stand {
        Stand::Nothing => Side::Nothing,
        Stand::Directory { .. } => Side::Directory,
        Stand::Link { target } => Side::Link(target.to_string_lossy().into_owned()),
        Stand::File(_) => match read()? {
            Bytes::Whole(bytes) => match text(&bytes) {
                Some(text) => Side::Text(text.to_owned()),
                None => Side::Binary,
            },
            Bytes::TooLong => Side::Binary,
            Bytes::None => Side::Lost,
        },
    })
}

/// The permission bits on both sides, where they differ.
pub(super) fn modes(theirs: &Stand, ours: &Stand) -> Option<(u32, u32)> {
    let modes = match (theirs, ours) {
        (Stand::File(theirs), Stand::File(ours)) => (theirs.mode, ours.mode),
        (Stand::Directory { mode: theirs }, Stand::Directory { mode: ours }) => (*theirs, *ours),
        _ => return None,
    };
    (modes.0 != modes.1).then_some(modes)
}
