//! Owns what a model reads beside images, and in their place.

use crate::brief::foreign::{ForeignText, note};
use crate::wording::counted;

/// Stands before the images that a tool gave.
pub fn images_of(tool: &str, count: usize) -> String {
    let tool = ForeignText::from(tool).code();
    match count {
        1 => note(format_args!("the image that {tool} gave")),
        _ => note(format_args!(
            "the {count} images that {tool} gave, in their order"
        )),
    }
}

/// Ends a result whose images are not passed on.
pub fn not_shown(count: usize) -> String {
    let images = counted(count, "image");
    let note = note(format_args!(
        "{images} not shown: whoever asked is given text alone"
    ));
    format!("\n{note}")
}

/// Stands where images were.
pub fn left_out(count: usize) -> String {
    let images = counted(count, "image");
    note(format_args!(
        "{images} of an earlier result left out here. Call the tool again if you need to look once more."
    ))
}
