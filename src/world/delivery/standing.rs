//! Owns looking at a name of the user's tree, in the words of a delivery.

use std::ffi::OsStr;

use crate::delivery::stand::{FileStand, Stand};
use crate::path::RelPath;
use crate::world::sys::dir::Dir;
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::{Kind, Meta};

/// What stands at `name` in `dir`. A pipe, a socket or a device is a fault.
pub(super) fn standing(dir: &Dir, name: &OsStr) -> Result<(Stand, Option<Meta>), Fault> {
    let meta = match Meta::named(dir, name) {
        Ok(meta) => meta,
        Err(Fault::Missing) => return Ok((Stand::Nothing, None)),
        Err(fault) => return Err(fault),
    };
    let stand = match meta.kind {
        Kind::File => file_stand(&meta),
        Kind::Directory => Stand::Directory {
            mode: mode_bits(&meta),
        },
        Kind::Link => {
            let rel = RelPath::default().child(name).ok_or(Fault::Missing)?;
            Stand::Link {
                target: dir.link_target(&rel)?,
            }
        }
        kind @ (Kind::Fifo | Kind::Socket | Kind::Device) => return Err(Fault::NotRegular(kind)),
    };
    Ok((stand, Some(meta)))
}

/// A regular file.
pub(super) fn file_stand(meta: &Meta) -> Stand {
    Stand::File(FileStand {
        inode: Some(meta.version.inode),
        size_bytes: meta.version.size_bytes,
        modified_ns: i64::try_from(meta.version.modified_ns).unwrap_or(i64::MAX),
        mode: mode_bits(meta),
    })
}

/// All permission bits.
pub(super) fn mode_bits(meta: &Meta) -> u32 {
    meta.mode.as_raw_mode() & 0o7777
}
