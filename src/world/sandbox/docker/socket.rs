//! Finds Docker and Podman engines by querying daemons over their Unix sockets on this machine.
//! None of their programs is run.

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::config::execution_mode::ELSEWHERE_HINT;
use crate::path::AbsPath;

/// Timeout for a daemon's reply to a ping.
const PING_TIME_MAX: Duration = Duration::from_secs(5);
/// Timeout for a daemon's reply with its version.
const VERSION_TIME_MAX: Duration = Duration::from_secs(20);
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
    let ping = match timeout(PING_TIME_MAX, http_get(socket, "/_ping")).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return status_from_error(&error),
        Err(_) => return DaemonStatus::NoReply,
    };
    if ping.status != "200" {
        return DaemonStatus::NotADaemon(format!("it answers a ping with {}", ping.status));
    }
    if let Some(version) = podman_version(&ping.head) {
        return DaemonStatus::Answers(EngineKind::Podman, format!("Podman {version}"));
    }
    let version = match timeout(VERSION_TIME_MAX, http_get(socket, "/version")).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return status_from_error(&error),
        Err(_) => return DaemonStatus::NoReply,
    };
    let version: Value = serde_json::from_str(&version.body).unwrap_or_default();
    let field =
        |object: &Value, name: &str| object.get(name).and_then(Value::as_str).map(str::to_owned);
    let platform = version
        .get("Platform")
        .and_then(|platform| field(platform, "Name"));
    let name = platform
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "Docker".to_owned());
    match field(&version, "Version") {
        Some(version) => DaemonStatus::Answers(EngineKind::Docker, format!("{name} {version}")),
        None => DaemonStatus::NotADaemon("it does not report its version".to_owned()),
    }
}

/// Parses Podman's version from the head of a reply: `Server: Libpod/4.3.1 (linux)`. Its `/version`
/// endpoint first asks other programs for theirs, which can take half a minute.
fn podman_version(head: &str) -> Option<&str> {
    let server = head
        .lines()
        .find_map(|line| line.strip_prefix("Server: Libpod/"));
    server.and_then(|version| version.split_whitespace().next())
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

struct DaemonResponse {
    status: String,
    head: String,
    body: String,
}

/// Sends one HTTP/1.0 request, after which the daemon closes the connection.
async fn http_get(socket: &AbsPath, path: &str) -> std::io::Result<DaemonResponse> {
    let mut stream = UnixStream::connect(socket.as_path()).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.take(REPLY_BYTES_MAX).read_to_end(&mut bytes).await?;
    let text = String::from_utf8_lossy(&bytes);
    let malformed_error = || std::io::Error::other("its reply is not HTTP");
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(malformed_error)?;
    let status = head.split_whitespace().nth(1).ok_or_else(malformed_error)?;
    Ok(DaemonResponse {
        status: status.to_owned(),
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn podman_is_known_by_the_head_of_its_answers() {
        let head = "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nServer: Libpod/4.3.1 (linux)";
        assert_eq!(podman_version(head), Some("4.3.1"));
        assert_eq!(
            podman_version("HTTP/1.1 200 OK\r\nServer: Docker/20.10 (linux)"),
            None
        );
    }
}
