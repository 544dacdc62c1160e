//! Finds Docker and Podman engines by querying daemons over their Unix sockets on this machine.
//! None of their programs is run.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::config::execution_mode::ELSEWHERE_HINT;
use crate::path::AbsPath;

/// Timeout for a daemon's reply to a ping.
const PING_TIME_MAX: Duration = Duration::from_secs(5);
/// Largest reply that is read, in bytes.
const REPLY_BYTES_MAX: u64 = 256 * 1024;

/// Result of looking for an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineDiscovery {
    /// `DOCKER_HOST` names something that is not a socket of this machine.
    OtherAddress(String),
    /// There is no socket at any of these paths.
    NoSocket(Vec<AbsPath>),
    /// A socket and the state of its daemon.
    Socket(AbsPath, DaemonStatus),
}

impl EngineDiscovery {
    /// Describes the result in a sentence.
    pub fn describe(&self) -> String {
        let (socket, daemon) = match self {
            EngineDiscovery::OtherAddress(host) => {
                return format!(
                    "`DOCKER_HOST` is `{host}`: expected a Unix socket of this machine"
                );
            }
            EngineDiscovery::NoSocket(sockets) => {
                let paths: Vec<String> = sockets.iter().map(ToString::to_string).collect();
                let list = paths.join(", ");
                return format!("no Docker or Podman daemon found at {list}");
            }
            EngineDiscovery::Socket(socket, daemon) => (socket, daemon),
        };
        let state = match daemon {
            DaemonStatus::Answers(_, version) => format!("answers: {version}"),
            DaemonStatus::AccessDenied => "is not accessible to you".to_owned(),
            DaemonStatus::NoListener => "has no listener".to_owned(),
            DaemonStatus::NoReply => "accepts connections but does not answer".to_owned(),
            DaemonStatus::NotADaemon(reason) => reason.clone(),
            DaemonStatus::NoSocket => "does not exist".to_owned(),
        };
        format!("`{socket}` {state}")
    }

    /// Returns what the user can do about it; `None` if an engine answers.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            EngineDiscovery::OtherAddress(_) => Some(ELSEWHERE_HINT),
            EngineDiscovery::NoSocket(_) => Some("sudo apt-get install docker.io"),
            EngineDiscovery::Socket(_, DaemonStatus::Answers(..)) => None,
            EngineDiscovery::Socket(_, DaemonStatus::AccessDenied) => Some(
                "sudo usermod -aG docker \"$USER\"   # then log in again; the group is as good as root",
            ),
            EngineDiscovery::Socket(..) => Some("sudo systemctl restart docker"),
        }
    }
}

/// Result of querying one socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaemonStatus {
    /// There is no socket.
    NoSocket,
    /// The user has no permission to use it.
    AccessDenied,
    /// No daemon listens on it.
    NoListener,
    /// The daemon accepted the request but did not reply in time.
    NoReply,
    /// The reply is not that of a daemon, for this reason.
    NotADaemon(String),
    /// The daemon's kind, and its name and version.
    Answers(EngineKind, String),
}

/// Kind of an engine, where Docker and Podman differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// Docker or a compatible engine.
    #[default]
    Docker,
    /// Podman, which accepts seccomp profiles only as files on its own machine.
    Podman,
}

/// Looks for the engine that `DOCKER_HOST` names, or otherwise at every default socket. Returns the
/// first that answers, or else the first socket that exists.
pub async fn find_engine(host: Option<&str>) -> EngineDiscovery {
    let sockets = match host.map(|host| (host, host.strip_prefix("unix://"))) {
        None => default_sockets(),
        Some((_, Some(path))) => AbsPath::new(path).into_iter().collect(),
        Some((host, None)) => return EngineDiscovery::OtherAddress(host.to_owned()),
    };
    let mut first_existing = None;
    for socket in &sockets {
        let status = query_daemon(socket).await;
        match &status {
            DaemonStatus::NoSocket => {}
            DaemonStatus::Answers(..) => return EngineDiscovery::Socket(socket.clone(), status),
            DaemonStatus::AccessDenied
            | DaemonStatus::NoListener
            | DaemonStatus::NoReply
            | DaemonStatus::NotADaemon(_) => {
                first_existing =
                    first_existing.or(Some(EngineDiscovery::Socket(socket.clone(), status)));
            }
        }
    }
    first_existing.unwrap_or(EngineDiscovery::NoSocket(sockets))
}

/// Returns the default sockets of Docker and Podman, the system's and the user's.
fn default_sockets() -> Vec<AbsPath> {
    let of_user = format!("/run/user/{}", rustix::process::getuid().as_raw());
    let paths = [
        "/var/run/docker.sock".to_owned(),
        format!("{of_user}/docker.sock"),
        "/run/podman/podman.sock".to_owned(),
        format!("{of_user}/podman/podman.sock"),
    ];
    paths.iter().filter_map(AbsPath::new).collect()
}

/// Queries the daemon that listens on `socket`.
async fn query_daemon(socket: &AbsPath) -> DaemonStatus {
    let reply = match timeout(PING_TIME_MAX, ping(socket)).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => return status_from_error(&error),
        Err(_) => return DaemonStatus::NoReply,
    };
    match reply.split_whitespace().nth(1) {
        Some("200") => engine_version(&reply).unwrap_or_else(|| {
            DaemonStatus::NotADaemon("it does not report its version".to_owned())
        }),
        Some(status) => DaemonStatus::NotADaemon(format!("it answers a ping with {status}")),
        None => DaemonStatus::NotADaemon("its reply is not HTTP".to_owned()),
    }
}

/// Parses the kind and version of an engine from its reply to a ping, such as
/// `Server: Libpod/4.3.1 (linux)`. Podman takes up to half a minute to answer `/version`.
fn engine_version(reply: &str) -> Option<DaemonStatus> {
    let mut lines = reply.lines();
    let server = lines.find_map(|line| line.strip_prefix("Server: "))?;
    let (name, version) = server.split_whitespace().next()?.split_once('/')?;
    let (kind, name) = match name {
        "Libpod" => (EngineKind::Podman, "Podman"),
        name => (EngineKind::Docker, name),
    };
    Some(DaemonStatus::Answers(kind, format!("{name} {version}")))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the list of errors is open")]
fn status_from_error(error: &std::io::Error) -> DaemonStatus {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => DaemonStatus::NoSocket,
        ErrorKind::PermissionDenied => DaemonStatus::AccessDenied,
        ErrorKind::ConnectionRefused => DaemonStatus::NoListener,
        _ => DaemonStatus::NotADaemon(error.to_string()),
    }
}

/// Sends a ping in HTTP/1.0, after which the daemon closes the connection. Returns the reply.
async fn ping(socket: &AbsPath) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket.as_path()).await?;
    let request = b"GET /_ping HTTP/1.0\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).await?;
    let mut bytes = Vec::new();
    stream.take(REPLY_BYTES_MAX).read_to_end(&mut bytes).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_known_by_the_head_of_its_answers() {
        let check = |server: &str, expected: Option<(EngineKind, &str)>| {
            let reply = format!("HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\n{server}\r\n\r\nOK");
            let expected =
                expected.map(|(kind, version)| DaemonStatus::Answers(kind, version.to_owned()));
            assert_eq!(engine_version(&reply), expected);
        };
        let podman = Some((EngineKind::Podman, "Podman 4.3.1"));
        check("Server: Libpod/4.3.1 (linux)", podman);
        let docker = Some((EngineKind::Docker, "Docker 20.10.24"));
        check("Server: Docker/20.10.24 (linux)", docker);
        check("Date: now", None);
    }
}
