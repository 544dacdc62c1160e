//! Client of an approval program that listens on a socket of the user's: it sends one line of JSON
//! and reads one line back. It must never treat anything as a yes that is not one.

use std::os::unix::fs::FileTypeExt;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::error::{Error, ErrorKind};
use crate::event::ApprovalAnswer;
use crate::path::AbsPath;
use crate::text::single_line;
use crate::world::sys::state_files::{dir, file};

/// Largest answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// Longest reason that is passed on, in characters.
const REASON_CHARS_MAX: usize = 500;

/// Reply of the program to an approval request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalReply {
    /// The decision.
    pub answer: ApprovalAnswer,
    /// Why the call is refused, if it is; the model reads it.
    pub reason: Option<String>,
}

/// Reply of the program to an elicitation request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ElicitationReply {
    /// The answer, which may be empty; without one, the request is declined.
    text: Option<String>,
}

/// Resolves `socket`, which must be a socket; a symlink to one is followed once, here. Whether a
/// program listens is not probed, because a listener would have to answer: the first request shows
/// it.
///
/// # Errors
/// There is no socket at the path.
pub fn expect_socket(socket: &AbsPath) -> crate::error::Result<AbsPath> {
    let message = match file::kind(socket) {
        Ok(Some(kind)) if kind.is_socket() => {
            return dir::resolve(socket).map(|real| real.to_abs());
        }
        Ok(Some(_)) => format!("`{socket}` is not a socket"),
        Ok(None) => format!("no program listens on `{socket}`: it does not exist"),
        Err(error) => error.to_string(),
    };
    Err(Error::new(ErrorKind::Usage, message).with_hint(
        "start the program that answers first; `--approval-socket` names the socket that it creates",
    ))
}

/// Sends the approval request `question` to the program that listens at `socket` and waits for its
/// reply. The error says why there is none, as the end of a sentence.
pub async fn request_approval(socket: &AbsPath, question: &str) -> Result<ApprovalReply, String> {
    let mut reply: ApprovalReply = exchange(socket, question).await?;
    if reply.answer == ApprovalAnswer::NoAnswer {
        return Err(format!("the program at `{socket}` does not answer"));
    }
    reply.reason = reply
        .reason
        .map(|reason| single_line(&reason, REASON_CHARS_MAX));
    Ok(reply)
}

/// Sends an elicitation request in the same way and returns the answer, if there is one.
pub async fn request_elicitation(
    socket: &AbsPath,
    question: &str,
) -> Result<Option<String>, String> {
    let ElicitationReply { text } = exchange(socket, question).await?;
    Ok(text)
}

async fn exchange<R: DeserializeOwned>(socket: &AbsPath, question: &str) -> Result<R, String> {
    let mut stream = UnixStream::connect(socket.as_path())
        .await
        .map_err(|error| format!("no program listens on `{socket}`: {error}"))?;
    let broke = |error: std::io::Error| format!("the request to `{socket}` failed: {error}");
    let line = format!("{question}\n");
    stream.write_all(line.as_bytes()).await.map_err(broke)?;
    let mut answer = String::new();
    let mut reader = BufReader::new(stream.take(ANSWER_BYTES_MAX));
    reader.read_line(&mut answer).await.map_err(broke)?;
    if answer.trim().is_empty() {
        return Err(format!("the program at `{socket}` gave no answer"));
    }
    let reply = serde_json::from_str(answer.trim());
    reply.map_err(|error| format!("`{socket}` gave no answer: {error}"))
}
