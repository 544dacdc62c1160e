//! Converts a server's reply to what a model reads: text, limited in size and without invisible or
//! misleading characters, and images that models accept. Other data is described by type and size.

use std::fmt::Display;

use rmcp::model::{
    CallToolResult, ContentBlock, GetPromptResult, Prompt, ReadResourceResult, Resource,
    ResourceContents,
};

use crate::prompts::untrusted_text::{escape_notes, note};
use crate::text::{escape_text, single_line};
use crate::tools::image::{ImageCollector, ImageRejection, ModelImage};

/// Largest reply that is passed on, in bytes.
const REPLY_BYTES_MAX: usize = 256 * 1024;
/// Largest number of parts of one reply, and of rows of one list.
const PARTS_MAX: usize = 500;
/// Longest name, description, address or type that is shown, in characters.
const LINE_CHARS_MAX: usize = 300;

/// A server's reply, as a model reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::world) struct ServerReply {
    /// Whether the server reports success.
    pub(in crate::world) status: ReplyStatus,
    /// The text, with a note instead of each image.
    pub(in crate::world) text: String,
    pub(in crate::world) images: Vec<ModelImage>,
}

/// Whether a server reports success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::world) enum ReplyStatus {
    /// The request succeeded.
    Done,
    /// The request failed; the text says why.
    Failed,
}

/// Converts a tool result.
pub(super) fn tool_reply(result: &CallToolResult) -> ServerReply {
    let mut images = ImageCollector::default();
    let mut parts: Vec<String> = result
        .content
        .iter()
        .map(|block| describe_block(block, &mut images))
        .collect();
    let has_text = result
        .content
        .iter()
        .any(|block| matches!(block, ContentBlock::Text(_)));
    // The protocol recommends structured content as text too, so it is read only without text.
    if let (Some(structured), false) = (&result.structured_content, has_text) {
        parts.push(sanitize(&structured.to_string()));
    }
    let status = match result.is_error {
        Some(true) => ReplyStatus::Failed,
        Some(false) | None => ReplyStatus::Done,
    };
    build_reply(status, &parts, images)
}

/// Describes a resource in one line of a list.
pub(super) fn resource_row(resource: &Resource) -> String {
    let description = resource.description.as_ref().unwrap_or(&resource.name);
    format!(
        "{}  {}",
        sanitized_line(&resource.uri),
        sanitized_line(description)
    )
}

/// Converts the contents of a resource.
pub(super) fn contents_reply(result: &ReadResourceResult) -> ServerReply {
    let mut images = ImageCollector::default();
    let parts: Vec<String> = result
        .contents
        .iter()
        .map(|contents| describe_contents(contents, &mut images))
        .collect();
    build_reply(ReplyStatus::Done, &parts, images)
}

/// Describes a prompt in one line of a list.
pub(super) fn prompt_row(prompt: &Prompt) -> String {
    let arguments = prompt.arguments.iter().flatten();
    let arguments: Vec<&str> = arguments.map(|argument| argument.name.as_str()).collect();
    let description = prompt.description.as_deref().unwrap_or_default();
    sanitized_line(&format!(
        "{}({})  {description}",
        prompt.name,
        arguments.join(", ")
    ))
}

/// Converts a prompt.
pub(super) fn prompt_reply(result: &GetPromptResult) -> ServerReply {
    let mut images = ImageCollector::default();
    let messages = result.messages.iter();
    let parts: Vec<String> = messages
        .map(|message| describe_block(&message.content, &mut images))
        .collect();
    build_reply(ReplyStatus::Done, &parts, images)
}

/// Returns what a model reads of a content block.
fn describe_block(block: &ContentBlock, images: &mut ImageCollector) -> String {
    match block {
        ContentBlock::Text(text) => sanitize(&text.text),
        ContentBlock::Image(image) => image_note(&image.data, images).unwrap_or_else(|reason| {
            unsupported_note("image", &image.mime_type, &image.data, &reason)
        }),
        ContentBlock::Audio(audio) => unsupported_note(
            "audio",
            &audio.mime_type,
            &audio.data,
            &"models are given none",
        ),
        ContentBlock::Resource(resource) => describe_contents(&resource.resource, images),
        ContentBlock::ResourceLink(link) => {
            let texts = [
                Some(&link.name),
                link.title.as_ref(),
                link.description.as_ref(),
            ];
            let mut about: Vec<String> = Vec::new();
            for text in texts.into_iter().flatten().map(|text| sanitized_line(text)) {
                if !text.is_empty() && !about.contains(&text) {
                    about.push(text);
                }
            }
            let uri = sanitized_line(&link.uri);
            note(format_args!("link to {uri}: {}", about.join("; ")))
        }
        _ => note("a part of a kind that is not known"),
    }
}

/// Returns what a model reads of the contents of a resource.
fn describe_contents(contents: &ResourceContents, images: &mut ImageCollector) -> String {
    match contents {
        ResourceContents::TextResourceContents { text, .. } => sanitize(text),
        ResourceContents::BlobResourceContents {
            blob, mime_type, ..
        } => {
            let mime_type = mime_type.as_deref().unwrap_or("unknown");
            image_note(blob, images)
                .unwrap_or_else(|reason| unsupported_note("data", mime_type, blob, &reason))
        }
        _ => note("a part of a kind that is not known"),
    }
}

/// Adds an image and returns the note that replaces it in the text.
fn image_note(base64: &str, images: &mut ImageCollector) -> Result<String, ImageRejection> {
    let (number, image) = images.add(base64)?;
    Ok(note(format_args!("image {number}: {image}")))
}

/// Describes content that is neither text nor an accepted image, by its type and its data.
fn unsupported_note(kind: &str, mime_type: &str, base64: &str, reason: &dyn Display) -> String {
    let bytes = base64.trim_end_matches('=').len().saturating_mul(3) / 4;
    let mime_type = sanitized_line(mime_type);
    note(format_args!(
        "{kind} {mime_type}, {bytes} bytes, not shown: {reason}"
    ))
}

/// Sanitizes a short text, such as a name or a description, and shortens it to one line.
fn sanitized_line(text: &str) -> String {
    sanitize(&single_line(text, LINE_CHARS_MAX))
}

/// Escapes invisible characters in a server's text, and anything that looks like a note of
/// massgen's.
fn sanitize(text: &str) -> String {
    escape_notes(&escape_text(text)).into_owned()
}

/// Creates the reply to a request for a list.
pub(super) fn list_reply(rows: &[String]) -> ServerReply {
    if rows.is_empty() {
        return build_reply(
            ReplyStatus::Done,
            &["there is nothing".to_owned()],
            ImageCollector::default(),
        );
    }
    build_reply(ReplyStatus::Done, rows, ImageCollector::default())
}

fn build_reply(status: ReplyStatus, parts: &[String], images: ImageCollector) -> ServerReply {
    let skipped_parts = parts.len().saturating_sub(PARTS_MAX);
    let mut text = String::new();
    let mut is_cut = false;
    for line in parts.iter().take(PARTS_MAX).flat_map(|part| part.lines()) {
        if text.len().saturating_add(line.len()) > REPLY_BYTES_MAX {
            is_cut = true;
            let bytes_left = REPLY_BYTES_MAX.saturating_sub(text.len());
            text.extend(
                line.char_indices()
                    .take_while(|(at, _)| *at < bytes_left)
                    .map(|(_, c)| c),
            );
            break;
        }
        text.push_str(line);
        text.push('\n');
    }
    if text.ends_with('\n') {
        text.pop();
    }
    let cut_note = is_cut.then(|| note(format_args!("cut: more than {REPLY_BYTES_MAX} bytes")));
    let skip_note =
        (skipped_parts > 0).then(|| note(format_args!("{skipped_parts} more parts left out")));
    for ending in [cut_note, skip_note].into_iter().flatten() {
        text.push('\n');
        text.push_str(&ending);
    }
    ServerReply {
        status,
        text,
        images: images.into_images(),
    }
}
