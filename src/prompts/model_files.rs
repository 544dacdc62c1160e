//! Texts for models before documents, recordings and videos, and in place of them.

use crate::prompts::untrusted_text::note;
use crate::text::{count_noun, escape_name};
use crate::tools::model_file::ModelFileClass;

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
