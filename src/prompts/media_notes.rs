//! Texts for models before images, documents, recordings and videos, and in place of them.

use crate::prompts::untrusted_text::{UntrustedText, note};
use crate::text::{count_noun, escape_name};
use crate::tools::model_file::ModelFileClass;

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

/// Returns the text before the files that belong to the task; `sources` are their paths and URLs.
pub fn task_files_heading(sources: &[String]) -> String {
    let sources: Vec<String> = sources.iter().map(|source| escape_name(source)).collect();
    note(format_args!(
        "the files that belong to the task, in this order: {}",
        sources.join(", ")
    ))
}

/// Returns the text that replaces files.
pub fn omitted_files_note(count: usize) -> String {
    let files = count_noun(count, "file");
    note(format_args!("{files} of the task left out here"))
}

/// Returns the text that replaces one file of `class` for a model that accepts none.
pub fn unaccepted_file_note(class: ModelFileClass) -> String {
    note(format_args!(
        "a file left out here: this model accepts no {class}"
    ))
}
