//! Both ends of the Unix socket by which an external agent reaches its run: for the workflow tools,
//! which `massgen mcp workflow` forwards, and for the queries of `massgen hook pre-tool-use`. The
//! messages themselves are handled elsewhere.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::world::sys::state_files::socket;

/// Name of the socket in its directory.
const SOCKET_NAME: &str = "agent";
/// First byte of a connection for the Model Context Protocol.
const PROTOCOL_BYTE: u8 = b'm';
/// First byte of a connection for one query of a hook.
const QUERY_BYTE: u8 = b'q';
/// Largest answer to a query, in bytes.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;
/// Timeout for an answer, which may wait for a person.
const ANSWER_TIME_MAX: Duration = Duration::from_mins(10);

/// Purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionPurpose {
    /// The Model Context Protocol follows.
    Protocol,
    /// One request of a hook follows; the connection ends with the answer.
    HookRequest,
}

impl ConnectionPurpose {
    /// Decodes the first byte of a connection.
    pub fn from_byte(first_byte: u8) -> Option<Self> {
        match first_byte {
            PROTOCOL_BYTE => Some(ConnectionPurpose::Protocol),
            QUERY_BYTE => Some(ConnectionPurpose::HookRequest),
            _ => None,
        }
    }
}

/// The run's end: a socket in a directory that the external agent can read but not write to.
#[derive(Debug)]
pub struct AgentSocket {
    listener: tokio::net::UnixListener,
    dir: AbsPath,
}

impl AgentSocket {
    /// Listens in `dir`, a directory of massgen's that has no such socket yet.
    pub fn bind(dir: &AbsPath) -> Result<Self> {
        let listen = || {
            let listener = socket::listen(dir, SOCKET_NAME)?;
            listener.set_nonblocking(true)?;
            tokio::net::UnixListener::from_std(listener)
        };
        let listener =
            listen().map_err(|error| Error::io(format!("cannot listen in `{dir}`"), error));
        Ok(Self {
            listener: listener?,
            dir: dir.clone(),
        })
    }

    /// Returns the directory of the socket.
    pub fn dir(&self) -> &AbsPath {
        &self.dir
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> AbsPath {
        self.dir.join(SOCKET_NAME)
    }

    /// Accepts the next connection.
    pub async fn accept(&self) -> io::Result<tokio::net::UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}

/// Asks the run whether a call may be made and returns its answer. The error says why there is
/// none.
pub fn query(socket: &AbsPath, query: &str) -> std::result::Result<String, String> {
    let exchange = || -> io::Result<String> {
        let mut stream = socket::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
        stream.write_all(&[QUERY_BYTE])?;
        stream.write_all(query.as_bytes())?;
        stream.shutdown(Shutdown::Write)?;
        let mut answer = String::new();
        stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer =
        exchange().map_err(|error| format!("cannot send a request to the run: {error}"))?;
    if answer.is_empty() {
        return Err("the run gave no answer".to_owned());
    }
    Ok(answer)
}

/// Forwards standard input to the run and the run's output to standard output, until either ends.
///
/// # Errors
/// The run cannot be reached, or the connection was lost.
pub fn forward_stdio(socket: &AbsPath) -> Result<()> {
    let connect_error = |error| Error::io(format!("cannot reach the run at `{socket}`"), error);
    let mut stream = socket::connect(socket).map_err(connect_error)?;
    stream.write_all(&[PROTOCOL_BYTE]).map_err(connect_error)?;
    let to_run = stream.try_clone().map_err(connect_error)?;
    let builder = thread::Builder::new().name("agent_socket".to_owned());
    // The thread ends with the process, since a blocking read of a line cannot be woken.
    let _forwarder = builder.spawn(move || forward_until_eof(to_run));
    copy(&mut stream, &mut io::stdout().lock()).map_err(connect_error)
}

fn forward_until_eof(mut to_run: UnixStream) {
    // The peer sees end of file whether copying succeeded or failed.
    let _copied = copy(&mut io::stdin().lock(), &mut to_run);
    let _result = to_run.shutdown(Shutdown::Write);
}

/// Copies in chunks and forwards each as soon as it is read.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    const CHUNK_BYTES: usize = 64 * 1024;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let length = match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(chunk.get(..length).unwrap_or_default())?;
        to.flush()?;
    }
}
