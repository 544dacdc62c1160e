//! The documents, audio recordings and videos in a conversation: only those that its model accepts.
//! Notes replace the others.

use std::sync::Arc;

use crate::agent::ModelSession;
use crate::backend::conversation::ChatMessage;
use crate::config::uploads::{UploadSource, UploadedFile};
use crate::config::vendors::file_input::{FilePassing, ModelFileInput};
use crate::path::AbsPath;
use crate::prompts::media_notes::{omitted_files_note, task_files_heading};
use crate::text::count_noun;
use crate::tools::call::{ToolCall, UserPath};
use crate::tools::model_file::{ModelFile, ModelFileClass, ModelFileCollector, ModelFileSource};
use crate::tools::page_url::PageUrl;
use crate::world::access::gate::Gate;
use crate::world::exec;
use crate::world::io::page_fetcher::PageFetcher;

impl ModelSession {
    /// Adds `files`, which the config uploads, as far as the model accepts them. The gate reads
    /// those on this machine; `fetcher` reads those on servers that the vendor does not read
    /// itself. Returns why others are not sent.
    pub(crate) async fn add_uploads(
        &mut self,
        files: &[UploadedFile],
        fetcher: &PageFetcher,
    ) -> Vec<String> {
        let Some(model) = self.models.first() else {
            return Vec::new();
        };
        let (name, input) = (Arc::clone(&model.name), model.file_input);
        let mut collector = ModelFileCollector::default();
        let (mut sources, mut warnings) = (Vec::new(), Vec::new());
        for file in files {
            let (class, source) = (file.class, &file.source);
            let read_result = match (input.passing(class), source) {
                (FilePassing::Refused, _) => Err(format!(
                    "as far as massgen knows, `{name}` accepts no {class}"
                )),
                (FilePassing::Bytes | FilePassing::BytesOrUrl, UploadSource::Path(path)) => {
                    let gate = self.gate.as_ref().map(Gate::without_hooks);
                    read_file(gate, path, class).await
                }
                (FilePassing::BytesOrUrl, UploadSource::Url(url)) => {
                    Ok(ModelFile::from_url(class, url.clone()))
                }
                (FilePassing::Bytes, UploadSource::Url(url)) => {
                    let bytes = fetcher.fetch_file(url.clone(), ModelFile::BYTES_MAX).await;
                    bytes.and_then(|bytes| parse_download(class, url, &bytes))
                }
            };
            let addition = read_result.and_then(|content| {
                let addition = collector.add(content);
                addition.map_err(|rejection| rejection.to_string())
            });
            match addition {
                Ok(()) => sources.push(source.to_string()),
                Err(reason) => warnings.push(format!(
                    "`{source}` is not sent to {}: {reason}",
                    self.agent
                )),
            }
        }
        let files = collector.into_files();
        if !files.is_empty() {
            self.conversation.push(ChatMessage::Files {
                text: task_files_heading(&sources),
                files,
            });
        }
        warnings
    }

    /// Removes the files that a model with this `input` does not accept; returns whether there were
    /// any.
    pub(super) async fn drop_files(&mut self, input: ModelFileInput) -> bool {
        let is_kept = |file: &ModelFile| match (input.passing(file.class()), file.source()) {
            (FilePassing::Refused, _) | (FilePassing::Bytes, ModelFileSource::Url(_)) => false,
            (FilePassing::Bytes, ModelFileSource::Bytes(_)) | (FilePassing::BytesOrUrl, _) => true,
        };
        if files_in(self.conversation.messages()).all(is_kept) {
            return false;
        }
        let file_count = self
            .conversation
            .rewrite(|messages| replace_files_by_notes(messages, is_kept));
        self.report_compaction(count_noun(file_count, "uploaded file"))
            .await;
        true
    }
}

/// Reads the file at `path` through `gate`.
async fn read_file(
    gate: Option<Gate>,
    path: &AbsPath,
    class: ModelFileClass,
) -> Result<ModelFile, String> {
    let gate = gate.ok_or_else(|| "the agent may not read it".to_owned())?;
    let path = UserPath::parse(path.to_string()).map_err(|invalid| invalid.to_string())?;
    let read_file = move || {
        let permitted = gate
            .check(ToolCall::ReadMediaFile { path })
            .map_err(|error| error.reason())?;
        exec::read_model_file(permitted, class)
    };
    let read_result = tokio::task::spawn_blocking(read_file).await;
    read_result.map_err(|error| error.to_string())?
}

/// Parses the bytes of the file that was read from `url`.
fn parse_download(class: ModelFileClass, url: &PageUrl, bytes: &[u8]) -> Result<ModelFile, String> {
    let name = url.file_name().unwrap_or("file");
    ModelFile::from_bytes(class, name, bytes).map_err(|rejection| rejection.to_string())
}

/// Returns all files in `messages`.
fn files_in(messages: &[ChatMessage]) -> impl Iterator<Item = &ModelFile> {
    messages.iter().flat_map(|message| match message {
        ChatMessage::Files { files, .. } => files.as_slice(),
        ChatMessage::User(_)
        | ChatMessage::Assistant { .. }
        | ChatMessage::CallResult { .. }
        | ChatMessage::Images { .. } => &[],
    })
}

/// Returns the length of all files in `messages`, in bytes of base64.
pub(super) fn files_base64_bytes(messages: &[ChatMessage]) -> usize {
    files_in(messages).map(ModelFile::base64_bytes).sum()
}

/// Replaces the files for which `is_kept` is false by notes. Returns how many there were.
pub(super) fn replace_files_by_notes(
    messages: &mut [ChatMessage],
    is_kept: impl Fn(&ModelFile) -> bool,
) -> usize {
    let mut file_count = 0_usize;
    for message in messages {
        let ChatMessage::Files { text, files } = message else {
            continue;
        };
        let count_before = files.len();
        files.retain(&is_kept);
        let removed_count = count_before.saturating_sub(files.len());
        if removed_count == 0 {
            continue;
        }
        file_count = file_count.saturating_add(removed_count);
        let note = omitted_files_note(removed_count);
        if files.is_empty() {
            *message = ChatMessage::User(note.into());
        } else {
            text.push('\n');
            text.push_str(&note);
        }
    }
    file_count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_a_model_does_not_accept_are_replaced() {
        let file = |class, bytes: &[u8]| ModelFile::from_bytes(class, "a", bytes).unwrap();
        let document = file(ModelFileClass::Document, b"%PDF-1.7");
        let audio = file(ModelFileClass::Audio, b"ID3\x04");
        let mut messages = vec![
            ChatMessage::User("the task".into()),
            ChatMessage::Files {
                text: "two files".to_owned(),
                files: vec![document.clone(), audio.clone()],
            },
        ];
        let sum = document.base64_bytes() + audio.base64_bytes();
        assert_eq!(files_base64_bytes(&messages), sum);
        let is_document = |file: &ModelFile| file.class() == ModelFileClass::Document;
        assert_eq!(replace_files_by_notes(&mut messages, is_document), 1);
        assert_eq!(replace_files_by_notes(&mut messages, is_document), 0);
        let rest = ChatMessage::Files {
            text: "two files\n[massgen: 1 file of the task left out here]".to_owned(),
            files: vec![document],
        };
        assert_eq!(messages.get(1), Some(&rest));
        assert_eq!(replace_files_by_notes(&mut messages, |_| false), 1);
        let note = ChatMessage::User("[massgen: 1 file of the task left out here]".into());
        assert_eq!(messages.get(1), Some(&note));
    }
}
