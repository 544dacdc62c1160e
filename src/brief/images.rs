//! Owns what a model reads beside images, and in their place.

use crate::wording::counted;

/// Stands before the images that a tool gave.
pub fn images_of(tool: &str, count: usize) -> String {
    match count {
        1 => format!("[the image that `{tool}` gave]"),
        _ => format!("[the {count} images that `{tool}` gave, in their order]"),
    }
}

/// Ends a result whose images are not passed on.
pub fn not_shown(count: usize) -> String {
    let images = counted(count, "image");
    format!("\n[{images} not shown: whoever asked is given text alone]")
}

/// Stands where images were.
pub fn left_out(count: usize) -> String {
    let images = counted(count, "image");
    format!(
        "[{images} of an earlier result left out here. Call the tool again if you need to look once more.]"
    )
}
