//! Owns what a delivery that comes from a tree of git says of files that are gone.

use crate::error::Result;
use crate::path::{AbsPath, RelPath};
use crate::world::delivery::place::cannot;
use crate::world::sys::dir::Dir;
use crate::world::sys::layer::white_out;
use crate::world::sys::meta::Meta;
use crate::world::sys::own::dir::{self, Audience};

/// When the layer `upper` was made, by the clock that stamps files, in nanoseconds since 1970.
pub fn made_ns(upper: &AbsPath) -> Result<i64> {
    let made = Dir::own(upper).and_then(Meta::of);
    let made = made.map_err(|fault| cannot("open", upper, fault))?;
    Ok(i64::try_from(made.version.changed_ns).unwrap_or_default())
}

/// Says in the layer `upper` that these files are gone.
pub fn remove_from_layer(upper: &AbsPath, gone: &[RelPath]) -> Result<()> {
    for path in gone {
        let parent = upper.join(path.parent().unwrap_or_default().as_path());
        dir::create_all(&parent, Audience::Umask)?;
        let Some(name) = path.name() else {
            continue;
        };
        let opened = Dir::own(&parent).map_err(|fault| cannot("open", &parent, fault))?;
        white_out(&opened, name).map_err(|fault| cannot("write to", &parent, fault))?;
    }
    Ok(())
}
