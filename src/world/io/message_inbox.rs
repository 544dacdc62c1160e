//! The directory of `--inbox-dir`, in which scripts leave messages of the user for a run: one JSON
//! object in each file `msg_*.json`, in the format of the Python MassGen. A file is removed once it
//! has been read.

use std::collections::{BTreeSet, VecDeque};
use std::future::pending;
use std::io::{self, ErrorKind::NotFound};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::text::escape_name;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::inbox::{InboxChange, InboxDirectory, InboxExposure};

/// Maximum size of a file, in bytes: the longest message with every character escaped.
const FILE_BYTES_MAX: u64 = 128 * 1024;
/// Maximum number of files that are read one after the other.
const FILES_MAX: usize = 256;
/// Maximum number of files that cannot be removed; with more, the inbox is no longer read.
const UNREMOVABLE_MAX: usize = 64;
/// Maximum number of recipients of one message.
const TARGETS_MAX: usize = 64;

/// Why a directory that is gone is not read.
const REMOVED_REASON: &str = "it was removed or moved";

/// An inbox directory.
#[derive(Debug)]
pub struct MessageInbox {
    path: AbsPath,
    /// `None` if it is not read any more.
    directory: Option<InboxDirectory>,
    /// What was read and not returned yet.
    items: VecDeque<InboxItem>,
    /// Names of files that were read and could not be removed.
    unremovable_files: BTreeSet<String>,
    /// Whether the files that were there at the beginning have been read.
    has_read_existing_files: bool,
}

/// Something from the inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboxItem {
    /// A message.
    Message(InboxMessage),
    /// A warning about a file or the directory.
    Warning(String),
}

/// A message that was read from a file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct InboxMessage {
    /// The text.
    pub content: String,
    /// The agents that it is for; `None` for all.
    pub target_agents: Option<Vec<String>>,
    /// The name of its file.
    #[serde(skip)]
    pub file: String,
}

impl MessageInbox {
    /// Opens the directory at `path`, which is created if it does not exist, and reads nothing yet.
    pub fn open(path: &AbsPath) -> Result<Self> {
        dir::create_all(path, DirectoryAudience::User).map_err(|error| {
            error.with_hint("messages are read from a directory of files: name a directory")
        })?;
        let exposure_error = |reason: &str| {
            let message = format!("{reason} the inbox directory `{path}`");
            Error::new(ErrorKind::Config, message)
        };
        let directory = match InboxDirectory::open(path) {
            Ok(Ok(directory)) => directory,
            Ok(Err(InboxExposure::OpenToOthers)) => {
                return Err(exposure_error("all users may change")
                    .with_hint("use a directory that only you may write to"));
            }
            Ok(Err(InboxExposure::OfAnotherUser)) => {
                return Err(
                    exposure_error("another user owns").with_hint("use a directory that you own")
                );
            }
            Err(error) => {
                let message = format!("cannot watch the inbox directory `{path}`");
                return Err(Error::io(message, error)
                    .with_hint("see `fs.inotify.max_user_instances`, or use another directory"));
            }
        };
        Ok(Self {
            path: path.clone(),
            directory: Some(directory),
            items: VecDeque::new(),
            unremovable_files: BTreeSet::new(),
            has_read_existing_files: false,
        })
    }

    /// Waits for the next message or warning; forever once the directory is gone. Cancel-safe.
    pub async fn next(&mut self) -> InboxItem {
        if !self.has_read_existing_files {
            self.has_read_existing_files = true;
            self.read_all();
        }
        loop {
            if let Some(item) = self.items.pop_front() {
                return item;
            }
            let Some(directory) = &mut self.directory else {
                return pending().await;
            };
            match directory.wait_for_change().await {
                Ok(InboxChange::Added(names)) => self.read_files(names),
                Ok(InboxChange::Overflow) => self.read_all(),
                Ok(InboxChange::Gone) => self.close(REMOVED_REASON),
                Err(error) => self.close(&reading_error(&error)),
            }
        }
    }

    /// Reads and removes all files that are complete. One that is still being written is reported
    /// when its writer closes it.
    fn read_all(&mut self) {
        while let Some(directory) = &self.directory {
            let is_new =
                |name: &str| is_message_file(name) && !self.unremovable_files.contains(name);
            let names = match directory.names(is_new, FILES_MAX) {
                Ok(names) => names.into_iter(),
                Err(error) => return self.close(&reading_error(&error)),
            };
            let complete_files: BTreeSet<String> =
                names.filter(|name| !is_partial(directory, name)).collect();
            if complete_files.is_empty() {
                return;
            }
            self.read_files(complete_files);
        }
    }

    /// Reads and removes the files of these names that are messages.
    fn read_files(&mut self, names: BTreeSet<String>) {
        let Some(directory) = &self.directory else {
            return;
        };
        for name in names {
            if !is_message_file(&name) || self.unremovable_files.contains(&name) {
                continue;
            }
            self.items.extend(read_file(directory, &name));
            if directory
                .remove(&name)
                .is_err_and(|error| error.kind() != NotFound)
            {
                self.unremovable_files.insert(name);
            }
        }
        if self.unremovable_files.len() > UNREMOVABLE_MAX {
            self.close("files in it cannot be removed");
        }
    }

    /// Ends the reading.
    fn close(&mut self, reason: &str) {
        self.directory = None;
        let path = escape_name(&self.path.to_string());
        let warning = format!("messages in `{path}` are not read any more: {reason}");
        self.items.push_back(InboxItem::Warning(warning));
    }
}

/// Returns why the directory cannot be read.
fn reading_error(error: &io::Error) -> String {
    if error.kind() == NotFound {
        REMOVED_REASON.to_owned()
    } else {
        error.to_string()
    }
}

/// Returns whether a file of this name is a message.
fn is_message_file(name: &str) -> bool {
    let rest = name.strip_prefix("msg_");
    rest.is_some_and(|rest| rest.strip_suffix(".json").is_some())
}

/// Returns whether a file is the beginning of a JSON object.
fn is_partial(directory: &InboxDirectory, name: &str) -> bool {
    let bytes = directory.read(name, FILE_BYTES_MAX).ok().flatten();
    let parse_result = bytes.map(|bytes| serde_json::from_slice::<IgnoredAny>(&bytes));
    parse_result.is_some_and(|parsed| parsed.is_err_and(|error| error.is_eof()))
}

/// Reads a file; `None` if it has disappeared.
fn read_file(directory: &InboxDirectory, name: &str) -> Option<InboxItem> {
    let warning = |reason: String| {
        let file = escape_name(name);
        Some(InboxItem::Warning(format!(
            "`{file}` in the inbox is not a message: {reason}"
        )))
    };
    let bytes = match directory.read(name, FILE_BYTES_MAX) {
        Ok(bytes) => bytes?,
        Err(error) => return warning(error.to_string()),
    };
    match serde_json::from_slice::<InboxMessage>(&bytes) {
        Ok(message) if message.target_agents.as_ref().is_some_and(Vec::is_empty) => {
            warning("`target_agents` names no agent; expected names, or `null` for all".to_owned())
        }
        Ok(message) if message.target_agents.as_deref().is_some_and(is_too_long) => {
            warning(format!("it has more than {TARGETS_MAX} recipients"))
        }
        Ok(message) => Some(InboxItem::Message(InboxMessage {
            file: name.to_owned(),
            ..message
        })),
        Err(error) => warning(format!(
            "{error}; expected {{\"content\": \"text\", \"target_agents\": [\"name\"] or null}}"
        )),
    }
}

fn is_too_long(targets: &[String]) -> bool {
    targets.len() > TARGETS_MAX
}
