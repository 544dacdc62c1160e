//! Owns the question to a program that listens at a socket of the user's: one line of JSON goes there,
//! one comes back. It must never take anything for a yes that is not one.

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

/// The longest answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// The longest reason that is passed on, in characters.
const REASON_CHARS_MAX: usize = 500;

/// What the program answers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalReply {
    /// What it says.
    pub answer: ApprovalAnswer,
    /// Why, if it refuses; the model reads it.
    #[serde(default)]
    pub reason: Option<String>,
}

/// What the program answers to a question of a server.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ElicitationReply {
    /// What it says; without it the server is told nothing.
    text: Option<String>,
}

/// Where `socket` leads, which has to be a socket: a link to one is followed once and for all. Whether
/// somebody listens shows with the first question: who listens would have to answer if they were tried.
///
/// # Errors
/// That there is none.
pub fn expect_socket(socket: &AbsPath) -> crate::error::Result<AbsPath> {
    let message = match file::kind(socket) {
        Ok(found) if found.is_socket() => return dir::resolve(socket).map(|real| real.to_abs()),
        Ok(_) => format!("`{socket}` is no socket"),
        Err(error) => format!("nobody listens at `{socket}`: {error}"),
    };
    Err(Error::new(ErrorKind::Usage, message).with_hint(
        "start the program that answers first; `--ask-file` names the socket that it made",
    ))
}

/// Sends `question` about a call to whoever listens at `socket`, and waits for the answer. The error
/// says why there is none, as the end of a sentence.
pub async fn request_approval(socket: &AbsPath, question: &str) -> Result<ApprovalReply, String> {
    let mut reply: ApprovalReply = exchange(socket, question).await?;
    if reply.answer == ApprovalAnswer::Nobody {
        return Err(format!("whoever listens at `{socket}` does not answer"));
    }
    reply.reason = reply
        .reason
        .map(|reason| single_line(&reason, REASON_CHARS_MAX));
    Ok(reply)
}

/// The same with a question of a server: what is answered in words, if anything is.
pub async fn request_elicitation(
    socket: &AbsPath,
    question: &str,
) -> Result<Option<String>, String> {
    let ElicitationReply { text } = exchange(socket, question).await?;
    Ok(text)
}

async fn exchange<R: DeserializeOwned>(socket: &AbsPath, question: &str) -> Result<R, String> {
    let stream = UnixStream::connect(socket.as_path()).await;
    let mut stream = stream.map_err(|error| format!("nobody listens at `{socket}`: {error}"))?;
    let broke = |error: std::io::Error| format!("the question to `{socket}` broke off: {error}");
    let line = format!("{question}\n");
    stream.write_all(line.as_bytes()).await.map_err(broke)?;
    let mut answer = String::new();
    let mut bounded = BufReader::new(stream.take(ANSWER_BYTES_MAX));
    bounded.read_line(&mut answer).await.map_err(broke)?;
    if answer.trim().is_empty() {
        return Err(format!("whoever listens at `{socket}` gave no answer"));
    }
    let reply = serde_json::from_str(answer.trim());
    reply.map_err(|error| format!("`{socket}` gave no answer: {error}"))
}
