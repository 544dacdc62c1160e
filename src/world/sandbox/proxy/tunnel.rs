//! Copies bytes between a client and a server in both directions, without inspecting them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Longest time without data from either end.
const IDLE_TIME_MAX: Duration = Duration::from_mins(5);

/// Size of a chunk that is copied, in bytes.
const CHUNK_BYTES: usize = 16 * 1024;

/// The two ends of a tunnel.
#[derive(Clone, Copy, Debug)]
pub(super) struct TunnelEnds<'s> {
    /// The command.
    pub(super) client: &'s TcpStream,
    /// The host.
    pub(super) server: &'s TcpStream,
}

/// Copies in both directions until both ends have closed, or the tunnel is idle for too long.
pub(super) fn copy_both_ways(ends: TunnelEnds<'_>) -> io::Result<()> {
    let TunnelEnds { client, server } = ends;
    for socket in [client, server] {
        socket.set_read_timeout(Some(IDLE_TIME_MAX))?;
        socket.set_write_timeout(Some(IDLE_TIME_MAX))?;
    }
    let last_activity = Mutex::new(Instant::now());
    thread::scope(|scope| {
        let up_thread = thread::Builder::new()
            .spawn_scoped(scope, || copy_one_way(client, server, &last_activity))?;
        let down_result = copy_one_way(server, client, &last_activity);
        let up_result = up_thread
            .join()
            .unwrap_or_else(|_| Err(ErrorKind::Other.into()));
        up_result.and(down_result)
    })
}

/// Copies from one end to the other and closes that one's input at the end. An error here ends the
/// other direction too.
fn copy_one_way(
    from: &TcpStream,
    to: &TcpStream,
    last_activity: &Mutex<Instant>,
) -> io::Result<()> {
    let copy_result = copy_bytes(from, to, last_activity);
    let shutdown = match copy_result {
        Ok(()) => Shutdown::Write,
        Err(_) => Shutdown::Both,
    };
    // Errors are ignored: an end that is gone needs no shutdown.
    let _result = to.shutdown(shutdown);
    if copy_result.is_err() {
        let _result = from.shutdown(shutdown);
    }
    copy_result
}

fn copy_bytes(
    mut from: &TcpStream,
    mut to: &TcpStream,
    last_activity: &Mutex<Instant>,
) -> io::Result<()> {
    let mut chunk = [0; CHUNK_BYTES];
    loop {
        let length = match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let last_time = *last_activity.lock();
                if last_time.elapsed() < IDLE_TIME_MAX {
                    continue;
                }
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        to.write_all(chunk.get(..length).unwrap_or_default())?;
        *last_activity.lock() = Instant::now();
    }
}
