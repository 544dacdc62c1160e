//! Owns the search for what the machine's settings keep from everybody but their owner. To a command
//! that root starts they would be open: it is their owner.
#![expect(clippy::disallowed_methods, reason = "this is where the disk is")]

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::confinement::Confinement;

/// What everybody may do with a file that is no secret: read it; and with such a directory: pass
/// through it too.
const READ: u32 = 0o4;
const READ_AND_PASS: u32 = 0o5;

/// The most entries that are looked at.
const ENTRIES_MAX: usize = 200_000;

/// Everything below `top` that others than its owner and its group cannot read. What the user opens
/// is left out, and what is on the way there.
pub(crate) fn kept_from_others(top: &Path, confinement: &Confinement) -> io::Result<Vec<PathBuf>> {
    let mut kept = Vec::new();
    let mut entries_left = ENTRIES_MAX;
    let mut directories = vec![top.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            entries_left = entries_left.checked_sub(1).ok_or_else(too_many)?;
            let meta = match entry.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                meta => meta?,
            };
            let wanted = if meta.is_dir() { READ_AND_PASS } else { READ };
            let is_kept = !meta.is_symlink() && meta.mode() & wanted != wanted;
            match opened(&path, confinement) {
                Opened::Nothing if is_kept => kept.push(path),
                Opened::Nothing | Opened::Below if meta.is_dir() => directories.push(path),
                Opened::Itself | Opened::Nothing | Opened::Below => {}
            }
        }
    }
    Ok(kept)
}

fn too_many() -> io::Error {
    io::Error::other(format!("it holds more than {ENTRIES_MAX} entries"))
}

/// What of a path the user opens.
enum Opened {
    Itself,
    Below,
    Nothing,
}

fn opened(path: &Path, confinement: &Confinement) -> Opened {
    let mut roots = confinement
        .open
        .iter()
        .map(|opening| opening.path.as_path());
    if roots.clone().any(|root| path.starts_with(root)) {
        Opened::Itself
    } else if roots.any(|root| root.starts_with(path)) {
        Opened::Below
    } else {
        Opened::Nothing
    }
}
