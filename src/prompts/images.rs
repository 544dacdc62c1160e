//! Texts for models before images, and in place of them.

use crate::prompts::untrusted_text::{UntrustedText, note};
use crate::text::{count_noun, escape_name};

/// Returns the text before the images that a tool returned.
pub fn result_images_heading(tool: &str, count: usize) -> String {
    let tool = UntrustedText::from(tool).in_backticks();
    match count {
        1 => note(format_args!("the image that {tool} gave")),
        _ => note(format_args!(
            "the {count} images that {tool} gave, in their order"
        )),
    }
}

/// Returns the text before the images of files that the task mentions.
pub fn task_images_heading(paths: &[String]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| escape_name(path)).collect();
    note(format_args!(
        "the images that the task mentions, in this order: {}",
        paths.join(", ")
    ))
}

/// Returns the end of a result whose images are not passed on.
pub fn unshown_images_note(count: usize) -> String {
    let images = count_noun(count, "image");
    let note = note(format_args!(
        "{images} not shown: the model accepts text only"
    ));
    format!("\n{note}")
}

/// Returns the text that replaces images.
pub fn omitted_images_note(count: usize) -> String {
    let images = count_noun(count, "image");
    note(format_args!(
        "{images} of an earlier result left out here. Call the tool again if you need to look once more."
    ))
}
