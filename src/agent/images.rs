//! Owns which images a conversation holds: those that its model takes, and of these no more than
//! vendors take. Where others were stands a text that says so.

use crate::agent::Mind;
use crate::agent::memory::Reading;
use crate::backend::conversation::Message;
use crate::brief::foreign::tool_result;
use crate::brief::images::{images_of, left_out, not_shown};
use crate::config::vendors::ImageInput;
use crate::event::Event;
use crate::tools::request::CallRequest;
use crate::wording::counted;

/// The most images of a conversation. Of more, Anthropic takes smaller ones only:
/// <https://platform.claude.com/docs/en/build-with-claude/vision>.
const IMAGES_MAX: usize = 20;
/// How long all of them may be, in bytes of base64: a whole request to Google may have 20 MB, which is
/// the least: <https://ai.google.dev/gemini-api/docs/image-understanding>.
const BASE64_BYTES_MAX: usize = 14 * 1024 * 1024;

impl Mind {
    /// The result of a call. Its images are shown with the next request.
    pub(super) fn take_reading(&mut self, request: &CallRequest, reading: Reading) -> Message {
        let Reading { content, images } = reading;
        let mut content = tool_result(content);
        match self.image_input() {
            _ if images.is_empty() => {}
            ImageInput::Taken => self.to_show.push(Message::Images {
                text: images_of(&request.name, images.len()),
                images,
            }),
            ImageInput::Refused => content.push_str(&not_shown(images.len())),
        }
        Message::CallResult {
            call_id: request.id.clone(),
            content,
        }
    }

    /// Adds the images of the last results to the conversation, and leaves out the oldest of those that
    /// are too many then.
    pub(super) async fn show_images(&mut self) {
        if self.to_show.is_empty() {
            return;
        }
        for message in std::mem::take(&mut self.to_show) {
            self.conversation.push(message);
        }
        let first = first_kept(self.conversation.messages());
        self.leave_images_out(first, "older image").await;
    }

    /// Leaves all images out; whether there were any.
    pub(super) async fn forget_images(&mut self) -> bool {
        let all = self.conversation.messages().len();
        self.leave_images_out(all, "image").await
    }

    /// Leaves out the images before the message at `end`, and tells of them as `noun`; whether there were
    /// any.
    async fn leave_images_out(&mut self, end: usize, noun: &str) -> bool {
        if count(self.conversation.messages().iter().take(end)) == 0 {
            return false;
        }
        let left = self
            .conversation
            .rewrite(|messages| leave_out(messages, end));
        self.emit(Event::Shortened {
            agent: self.agent.clone(),
            how: counted(left, noun),
        })
        .await;
        true
    }

    /// Whether the model that is asked next takes images.
    pub(super) fn image_input(&self) -> ImageInput {
        let model = self.models.first();
        model.map_or(ImageInput::Refused, |model| model.image_input)
    }
}

/// How many images `messages` hold.
fn count<'m>(messages: impl Iterator<Item = &'m Message>) -> usize {
    messages
        .map(|message| match message {
            Message::Images { images, .. } => images.len(),
            Message::User(_) | Message::Assistant { .. } | Message::CallResult { .. } => 0,
        })
        .sum()
}

/// The place of the first message from which on all images are kept.
fn first_kept(messages: &[Message]) -> usize {
    let (mut images, mut bytes) = (0_usize, 0_usize);
    let is_too_much = |message: &Message| {
        if let Message::Images { images: these, .. } = message {
            images = images.saturating_add(these.len());
            let these = these.iter().map(|image| image.base64().len());
            bytes = bytes.saturating_add(these.sum());
        }
        images > IMAGES_MAX || bytes > BASE64_BYTES_MAX
    };
    let last_left_out = messages.iter().rposition(is_too_much);
    last_left_out.map_or(0, |place| place.saturating_add(1))
}

/// Puts a text in the place of the images before the message at `end`. Gives how many there were.
pub(super) fn leave_out(messages: &mut [Message], end: usize) -> usize {
    let mut left = 0_usize;
    for message in messages.iter_mut().take(end) {
        if let Message::Images { images, .. } = message {
            left = left.saturating_add(images.len());
            *message = Message::User(left_out(images.len()).into());
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::image::Image;

    /// A message with so many images, which its number tells from others.
    fn images(number: usize, count: usize) -> Message {
        let gif = "R0lGODlhAwACAIAAAAAAAP///w==";
        Message::Images {
            text: number.to_string(),
            images: vec![Image::parse(gif.into()).unwrap(); count],
        }
    }

    #[test]
    fn the_newest_images_are_kept() {
        #[track_caller]
        fn check(counts: &[usize], expected: usize) {
            let messages = counts.iter().enumerate();
            let mut messages: Vec<_> = messages
                .map(|(number, count)| images(number, *count))
                .collect();
            let oldest = first_kept(&messages);
            assert_eq!(oldest, expected, "{counts:?}");
            let before: usize = counts.iter().take(oldest).sum();
            assert_eq!(leave_out(&mut messages, oldest), before);
            assert_eq!(
                count(messages.iter()),
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
