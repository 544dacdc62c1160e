//! Owns the opening of trees that commands wrote to, and closed to their owner: massgen reads and changes
//! what is in them.

use crate::path::{AbsPath, RelPath};
use crate::world::sys::dir::Dir;
use crate::world::sys::fault::Fault;
use crate::world::sys::layer::open_up;
use crate::world::sys::survey::{Keep, Survey};

/// Lets its owner read all files in `root`, and change the names in all of its directories. No link is
/// followed. What cannot be opened stays as it is: whoever needs it says so.
pub(crate) fn open_all(root: &AbsPath) -> Result<(), Fault> {
    let parent = Dir::own(&root.parent().unwrap_or_else(AbsPath::top))?;
    let name = root.as_path().file_name().and_then(RelPath::new);
    let name = name.unwrap_or_default();
    open_up(&parent, &name)?;
    let root = parent.dir(&name)?;
    Survey::of(&root, &mut |found| {
        let _opened = open_up(&root, &found.rel);
        Keep::Deep
    });
    Ok(())
}
