//! Owns what a delivery that comes from a tree of git says of files that are gone.

use crate::error::Result;
use crate::path::{AbsPath, RelPath};
use crate::world::delivery::place::cannot;
use crate::world::sys::dir::Dir;
use crate::world::sys::fault::Fault;
use crate::world::sys::layer::{replace, white_out};
use crate::world::sys::meta::Meta;
use crate::world::sys::own::dir::{self, Audience};
use crate::world::sys::own::file;

/// When the layer `upper` was made, by the clock that stamps files, in nanoseconds since 1970.
pub fn made_ns(upper: &AbsPath) -> Result<i64> {
    let made = Dir::own(upper).and_then(Meta::of);
    let made = made.map_err(|fault| cannot("open", upper, fault))?;
    Ok(i64::try_from(made.version.changed_ns).unwrap_or_default())
}

/// Says in the layer `upper` that these files are gone.
pub fn remove_from_layer(upper: &AbsPath, gone: &[RelPath]) -> Result<()> {
    let layer = Dir::own(upper).map_err(|fault| cannot("open", upper, fault))?;
    for path in gone {
        let changed = match instead(upper, path) {
            Instead::Nothing => remove(&layer, upper, path)?,
            Instead::Directory => replace(&layer, path),
            Instead::File => Ok(()),
        };
        changed.map_err(|fault| cannot("write to", &upper.join(path.as_path()), fault))?;
    }
    Ok(())
}

fn remove(layer: &Dir, upper: &AbsPath, path: &RelPath) -> Result<std::result::Result<(), Fault>> {
    let parent = path.parent().unwrap_or_default();
    dir::create_all(&upper.join(parent.as_path()), Audience::Umask)?;
    let name = path.name().unwrap_or_default();
    Ok(layer.dir(&parent).and_then(|dir| white_out(&dir, name)))
}

/// What a layer has in the place of a file that is gone.
enum Instead {
    Nothing,
    Directory,
    /// A file or a link, there or where the directory of the file was.
    File,
}

fn instead(upper: &AbsPath, path: &RelPath) -> Instead {
    let mut at = Some(path.clone());
    while let Some(here) = at.filter(|here| !here.is_root()) {
        let there = upper.join(here.as_path());
        if file::is_directory(&there) {
            let is_its = here == *path;
            return if is_its {
                Instead::Directory
            } else {
                Instead::Nothing
            };
        }
        if file::is_there(&there) {
            return Instead::File;
        }
        at = here.parent();
    }
    Instead::Nothing
}
