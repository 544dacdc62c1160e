//! The images in a conversation: only those that its model accepts, and no more of them than
//! vendors accept. Notes replace the others.

use crate::agent::ModelSession;
use crate::agent::recorded_conversation::ToolResultContent;
use crate::agent::uploads::files_base64_bytes;
use crate::backend::conversation::ChatMessage;
use crate::config::vendors::ImageInput;
use crate::path::RealPath;
use crate::prompts::media_notes::{
    omitted_images_note, result_images_heading, task_images_heading, unshown_images_note,
};
use crate::prompts::untrusted_text::tool_result;
use crate::text::count_noun;
use crate::tools::CallRequest;
use crate::tools::call::{ToolCall, UserPath};
use crate::tools::image::{ImageCollector, ModelImage};
use crate::tools::page_url::PageUrl;
use crate::world::access::gate::Gate;
use crate::world::exec;
use crate::world::io::page_fetcher::PageFetcher;

/// Maximum number of images in a conversation. Above that, Anthropic accepts only smaller ones:
/// <https://platform.claude.com/docs/en/build-with-claude/vision>.
const IMAGES_MAX: usize = 20;
/// Maximum size of all images and files, in bytes of base64: a whole request to Google may have
/// 20 MB, which is the lowest limit:
/// <https://ai.google.dev/gemini-api/docs/image-understanding>.
const BASE64_BYTES_MAX: usize = 14 * 1024 * 1024;

impl ModelSession {
    /// Returns the message with a call's result. Its images are added with the next request.
    pub(super) fn result_message(
        &mut self,
        request: &CallRequest,
        result: ToolResultContent,
    ) -> ChatMessage {
        let ToolResultContent {
            content, images, ..
        } = result;
        let mut content = tool_result(content);
        match self.image_input() {
            _ if images.is_empty() => {}
            ImageInput::Accepted => self.pending_images.push(ChatMessage::Images {
                text: result_images_heading(&request.name, images.len()),
                images,
            }),
            ImageInput::Refused => content.push_str(&unshown_images_note(images.len())),
        }
        ChatMessage::CallResult {
            call_id: request.id.clone(),
            content,
        }
    }

    /// Adds the images of `files`, which the task mentions, if the model accepts images. The gate
    /// reads them. Returns why others are not shown.
    pub(crate) async fn add_task_images(&mut self, files: Vec<RealPath>) -> Vec<String> {
        let (ImageInput::Accepted, Some(gate), [_, ..]) = (self.image_input(), &self.gate, &*files)
        else {
            return Vec::new();
        };
        // The user's hooks decide about what the agent does, and this is done by massgen.
        let gate = gate.without_hooks();
        let read_images = move || TaskImages::read(&gate, &files);
        let Ok(task_images) = tokio::task::spawn_blocking(read_images).await else {
            return Vec::new();
        };
        self.show_task_images(task_images)
    }

    /// Adds the images at `urls`, which the config uploads and `fetcher` reads, if the model
    /// accepts images. Returns why others are not shown.
    pub(crate) async fn add_image_urls(
        &mut self,
        urls: &[PageUrl],
        fetcher: &PageFetcher,
    ) -> Vec<String> {
        if self.image_input() == ImageInput::Refused {
            return Vec::new();
        }
        let bytes_max = usize::try_from(ModelImage::BYTES_MAX).unwrap_or(usize::MAX);
        let mut task_images = TaskImages::default();
        for url in urls {
            let download = fetcher.fetch_file(url.clone(), bytes_max).await;
            let addition = download.and_then(|bytes| task_images.add_downloaded(&bytes));
            task_images.record(url.to_string(), addition);
        }
        self.show_task_images(task_images)
    }

    /// Adds these images to the conversation, and returns the warnings about those left out.
    fn show_task_images(&mut self, task_images: TaskImages) -> Vec<String> {
        let images = task_images.images.into_images();
        if !images.is_empty() {
            self.conversation.push(ChatMessage::Images {
                text: task_images_heading(&task_images.sources),
                images,
            });
        }
        task_images.warnings
    }

    /// Adds the images of the last results to the conversation, and removes the oldest if there are
    /// too many.
    pub(super) async fn show_images(&mut self) {
        if self.pending_images.is_empty() {
            return;
        }
        for message in std::mem::take(&mut self.pending_images) {
            self.conversation.push(message);
        }
        let first_kept = first_kept_message(self.conversation.messages());
        self.remove_images_before(first_kept, "older image").await;
    }

    /// Removes all images; returns whether there were any.
    pub(super) async fn drop_images(&mut self) -> bool {
        let message_count = self.conversation.messages().len();
        self.remove_images_before(message_count, "image").await
    }

    /// Removes the images before the message at `end`, and reports them as `noun`; returns whether
    /// there were any.
    async fn remove_images_before(&mut self, end: usize, noun: &str) -> bool {
        if count_images(self.conversation.messages().iter().take(end)) == 0 {
            return false;
        }
        let image_count = self
            .conversation
            .rewrite(|messages| replace_images_by_notes(messages, end));
        self.report_compaction(count_noun(image_count, noun)).await;
        true
    }

    /// Returns whether the current model accepts images.
    pub(super) fn image_input(&self) -> ImageInput {
        let model = self.models.first();
        model.map_or(ImageInput::Refused, |model| model.image_input)
    }
}

/// The images that a task mentions, or that a config uploads.
#[derive(Debug, Default)]
struct TaskImages {
    /// Their paths or addresses.
    sources: Vec<String>,
    /// The images, in the same order.
    images: ImageCollector,
    /// Why other files are not among them.
    warnings: Vec<String>,
}

impl TaskImages {
    /// Reads the images of `files` through `gate`.
    fn read(gate: &Gate, files: &[RealPath]) -> Self {
        let mut task_images = Self::default();
        for file in files {
            let path = file.to_string();
            let addition = task_images.read_image(gate, &path);
            task_images.record(path, addition);
        }
        task_images
    }

    /// Records the source of an image that was added, or why the image was not added.
    fn record(&mut self, source: String, addition: Result<(), String>) {
        match addition {
            Ok(()) => self.sources.push(source),
            Err(reason) => self
                .warnings
                .push(format!("`{source}` is not shown as an image: {reason}")),
        }
    }

    /// Adds the image whose file was read from a server.
    fn add_downloaded(&mut self, bytes: &[u8]) -> Result<(), String> {
        let image = ModelImage::from_bytes(bytes).map_err(|rejection| rejection.to_string())?;
        let addition = self.images.add(image.base64());
        addition
            .map(|_| ())
            .map_err(|rejection| rejection.to_string())
    }

    fn read_image(&mut self, gate: &Gate, path: &str) -> Result<(), String> {
        let path = UserPath::parse(path).map_err(|invalid| invalid.to_string())?;
        let call = ToolCall::ReadMediaFile { path };
        let permitted = gate.check(call).map_err(|error| error.reason())?;
        let observation = exec::run(permitted);
        let image = observation.images.first().ok_or(observation.content)?;
        let addition = self.images.add(image.base64());
        addition
            .map(|_| ())
            .map_err(|rejection| rejection.to_string())
    }
}

/// Returns the number of images in `messages`.
fn count_images<'m>(messages: impl Iterator<Item = &'m ChatMessage>) -> usize {
    messages
        .map(|message| match message {
            ChatMessage::Images { images, .. } => images.len(),
            ChatMessage::User(_)
            | ChatMessage::Assistant { .. }
            | ChatMessage::CallResult { .. }
            | ChatMessage::Files { .. } => 0,
        })
        .sum()
}

/// Returns the position of the first message from which on all images are kept. The files of the
/// task, which are always kept, leave them less room.
fn first_kept_message(messages: &[ChatMessage]) -> usize {
    let (mut images, mut bytes) = (0_usize, files_base64_bytes(messages));
    let is_too_much = |message: &ChatMessage| {
        if let ChatMessage::Images {
            images: message_images,
            ..
        } = message
        {
            images = images.saturating_add(message_images.len());
            let message_images = message_images.iter().map(|image| image.base64().len());
            bytes = bytes.saturating_add(message_images.sum());
        }
        images > IMAGES_MAX || bytes > BASE64_BYTES_MAX
    };
    let last_removed = messages.iter().rposition(is_too_much);
    last_removed.map_or(0, |position| position.saturating_add(1))
}

/// Replaces the images before the message at `end` by notes. Returns how many there were.
pub(super) fn replace_images_by_notes(messages: &mut [ChatMessage], end: usize) -> usize {
    let mut image_count = 0_usize;
    for message in messages.iter_mut().take(end) {
        if let ChatMessage::Images { images, .. } = message {
            image_count = image_count.saturating_add(images.len());
            *message = ChatMessage::User(omitted_images_note(images.len()).into());
        }
    }
    image_count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a message with this many images; `number` makes it distinguishable.
    fn images(number: usize, count: usize) -> ChatMessage {
        let gif = "R0lGODlhAwACAIAAAAAAAP///w==";
        ChatMessage::Images {
            text: number.to_string(),
            images: vec![ModelImage::parse(gif.into()).unwrap(); count],
        }
    }

    #[test]
    fn an_image_from_a_server_is_what_its_bytes_show() {
        let mut task_images = TaskImages::default();
        let gif = b"GIF89a\x03\x00\x02\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff;";
        let added = task_images.add_downloaded(gif);
        task_images.record("https://example.org/a.png".to_owned(), added);
        let added = task_images.add_downloaded(b"<html>no image</html>");
        task_images.record("https://example.org/b.png".to_owned(), added);
        assert_eq!(task_images.sources, ["https://example.org/a.png"]);
        let expected = "`https://example.org/b.png` is not shown as an image: it is no PNG, JPEG, \
                        GIF or WebP image";
        assert_eq!(task_images.warnings, [expected]);
        assert_eq!(task_images.images.into_images().len(), 1);
    }

    #[test]
    fn the_newest_images_are_kept() {
        #[track_caller]
        fn check(counts: &[usize], expected: usize) {
            let mut messages: Vec<_> = counts
                .iter()
                .enumerate()
                .map(|(number, count)| images(number, *count))
                .collect();
            let oldest = first_kept_message(&messages);
            assert_eq!(oldest, expected, "{counts:?}");
            let before: usize = counts.iter().take(oldest).sum();
            assert_eq!(replace_images_by_notes(&mut messages, oldest), before);
            assert_eq!(
                count_images(messages.iter()),
                counts.iter().sum::<usize>() - before
            );
        }

        check(&[], 0);
        check(&[8, 8, 4], 0);
        check(&[8, 8, 5], 1);
        check(&[1, 8, 8, 8], 2);
        check(&[8, 8, 8, 1], 1);
    }
}
