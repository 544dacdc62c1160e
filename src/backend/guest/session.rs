//! Owns one process of a guest: its lines in and out, each bounded in size and time.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::backend::guest::tongue::{Around, Life, Tongue, Trouble};
use crate::wording::{one_line, visible};
use crate::world::exec::guest::{Lodger, Lodging};
use crate::world::relay::Door;

/// The longest line, in bytes.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How long it may take to read what it is told.
const WRITE_TIME_MAX: Duration = Duration::from_mins(1);
/// How much of what it wrote last is told with a fault, in characters.
const LAST_WORDS_CHARS_MAX: usize = 600;

/// A process that runs.
#[derive(Debug)]
pub(super) struct Process {
    lodger: Option<Lodger>,
    input: Option<pipe::Sender>,
    output: BufReader<pipe::Receiver>,
    /// What has come of the next line.
    line: Vec<u8>,
}

/// What was started when, and how.
pub(super) async fn start(
    lodging: &Lodging,
    command: &[String],
    (tongue, around): (&dyn Tongue, &Around),
    door: &Arc<Door>,
) -> Result<Process, Trouble> {
    let launch = tongue.launch(around);
    let lasting = |why: String| Trouble::Lasting(format!("the program cannot be started: {why}"));
    for (path, text) in &launch.files {
        let left = lodging.leave(path, text);
        left.map_err(|error| lasting(error.to_string()))?;
    }
    let program: Vec<String> = command.iter().cloned().chain(launch.arguments).collect();
    let (lodging, door) = (lodging.clone(), Arc::clone(door));
    let started = spawn_blocking(move || lodging.start(program, &door)).await;
    let started = started.map_err(|_| lasting("massgen has a bug".to_owned()))?;
    Process::new(started.map_err(lasting)?).map_err(|error| lasting(error.to_string()))
}

impl Process {
    fn new(mut lodger: Lodger) -> std::io::Result<Self> {
        let gone = || std::io::Error::other("its pipes are gone");
        let input = lodger.input.take().ok_or_else(gone)?;
        let output = lodger.output.take().ok_or_else(gone)?;
        Ok(Self {
            input: Some(pipe::Sender::from_owned_fd(input)?),
            output: BufReader::new(pipe::Receiver::from_owned_fd(output)?),
            lodger: Some(lodger),
            line: Vec::new(),
        })
    }

    /// Writes lines. One whose process lasts one turn reads their end after them.
    pub(super) async fn tell(&mut self, lines: &[String], life: Life) -> Result<(), Trouble> {
        for line in lines {
            let Some(input) = &mut self.input else {
                return Err(self.ended().await);
            };
            let bytes = format!("{line}\n");
            match timeout(WRITE_TIME_MAX, input.write_all(bytes.as_bytes())).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(self.ended().await),
                Err(_) => {
                    let why = "the program does not read what it is told";
                    return Err(Trouble::Passing(why.to_owned()));
                }
            }
        }
        if life == Life::OneTurn {
            self.input = None;
        }
        Ok(())
    }

    /// The next line. What has come of it stays where nobody waits any more.
    pub(super) async fn hear(&mut self) -> Result<String, Trouble> {
        loop {
            let piece = match self.output.fill_buf().await {
                Ok([]) | Err(_) => return Err(self.ended().await),
                Ok(piece) => piece,
            };
            let end = piece.iter().position(|byte| *byte == b'\n');
            let length = end.map_or(piece.len(), |end| end.saturating_add(1));
            self.line
                .extend_from_slice(piece.get(..length).unwrap_or_default());
            self.output.consume(length);
            if self.line.len() > LINE_BYTES_MAX {
                let why = format!("the program wrote a line of more than {LINE_BYTES_MAX} bytes");
                return Err(Trouble::Lasting(why));
            }
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
        }
    }

    /// That the process is over, with how it ended and what it wrote last.
    async fn ended(&mut self) -> Trouble {
        self.input = None;
        let words = match self.lodger.take() {
            Some(lodger) => spawn_blocking(move || lodger.last_words()).await.ok(),
            None => None,
        };
        let (ended, errors) = words.unwrap_or_default();
        let chars = errors.chars().count();
        let last = errors.chars();
        let last: String = last
            .skip(chars.saturating_sub(LAST_WORDS_CHARS_MAX))
            .collect();
        let last = visible(&one_line(&last, LAST_WORDS_CHARS_MAX));
        let ended = ended.map_or_else(String::new, |ended| format!("; {ended}"));
        let wrote = if last.is_empty() {
            String::new()
        } else {
            format!("; it wrote: {last}")
        };
        Trouble::Passing(format!("the program is gone{ended}{wrote}"))
    }
}
