//! Connection to the engine of another machine: one process of the user's own `ssh`, with its
//! configuration, agent and jump hosts. It finds the engine's socket there and forwards a socket in
//! a private directory here to it. It ends when massgen does, for whatever reason: its standard
//! input closes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::config::engine_host::SshEngineHost;
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::prompts::untrusted_text::escape_notes;
use crate::text::{escape_line, single_line};
use crate::world::sandbox::docker::socket_directory::SocketDirectory;
use crate::world::sys::environment::ProcessEnvironment;
use crate::world::sys::process::{self, ProgramExit, ProgramInvocation};
use crate::world::sys::state_files::clear;

/// Timeout for `ssh` to connect, through all jump hosts.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(30);
/// Timeout of one connection attempt, as an option of `ssh`.
const CONNECT_OPTION: &str = "ConnectTimeout=10";
/// A host that answers nothing for 30 seconds is gone.
const ALIVE_OPTIONS: [&str; 2] = ["ServerAliveInterval=10", "ServerAliveCountMax=3"];
/// The process stays, keeps its standard input, and runs the command, whatever the user has
/// configured. `ssh` before 8.7 does not know these options. Only the first `IgnoreUnknown`
/// applies, so it must include what the user's own includes.
const SESSION_OPTIONS: [&str; 4] = [
    "IgnoreUnknown=*",
    "StdinNull=no",
    "ForkAfterAuthentication=no",
    "SessionType=default",
];
/// Timeout for `ssh` to open the socket here.
const FORWARD_TIME_MAX: Duration = Duration::from_secs(10);
/// Timeout for the rest of the messages of an `ssh` that ends.
const MESSAGES_TIME_MAX: Duration = Duration::from_secs(5);
/// Timeout for an `ssh` whose sockets have closed to be gone.
const EXIT_TIME_MAX: Duration = Duration::from_secs(3);
/// The most that is read of what the host prints while it logs in, in bytes.
const GREETING_BYTES_MAX: usize = 64 * 1024;
/// The most that is kept of the messages of `ssh`, in bytes.
const MESSAGES_BYTES_MAX: usize = 4096;
/// The longest reason that is shown, in characters.
const REASON_CHARS_MAX: usize = 300;
/// Parent of the private directory; the paths of sockets must be short.
const SOCKETS_PARENT: &str = "/tmp";
/// Beginning of the line with which the host reports its engine's socket.
const SOCKET_PREFIX: &str = "massgen-engine ";
/// Beginning of the line about a socket that the user may not use.
const DENIED_PREFIX: &str = "massgen-denied ";
/// The line of a host without a socket.
const NO_SOCKET_LINE: &str = "massgen-none";

/// A connection to a host. Its private directory and its process end on drop.
#[derive(Debug)]
pub(super) struct SshTunnel {
    host: SshEngineHost,
    program: AbsPath,
    env: ProcessEnvironment,
    dir: SocketDirectory,
    connection: Mutex<SshConnection>,
}

/// The last connection to a host.
#[derive(Debug, Default)]
struct SshConnection {
    /// `None` until the next one is established.
    process: Option<SshProcess>,
    /// What may be left of it on the host.
    session: Option<ServerSession>,
}

/// The processes of a connection on its host. If the link breaks, they may wait for hours, and the
/// engine with them for the rest of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ServerSession {
    /// The one that waits for the end of its standard input.
    waiting_pid: u32,
    /// Its parent, which is the server's process for this connection.
    server_pid: u32,
    /// When the first one started, in the units of `/proc`; 0 on a host without it.
    start_ticks: u64,
}

/// A running `ssh`.
#[derive(Debug)]
struct SshProcess {
    child: Child,
    /// Its standard input: when this closes, the connection ends. Waiting for a child closes its
    /// own.
    _stdin: Option<ChildStdin>,
    /// The end of what it has written to standard error.
    messages: Arc<StdMutex<Vec<u8>>>,
}

impl SshTunnel {
    /// Connects to a host with the user's `ssh`, which gets few variables of `env`.
    pub(super) async fn open(host: SshEngineHost, env: &BTreeMap<String, String>) -> Result<Self> {
        let env = ProcessEnvironment::inherit_for_ssh(env, &[]);
        let program = process::find("ssh", env.program_path()).ok_or_else(|| {
            let message = format!("`{host}` is reached with `ssh`, which is not in your `PATH`");
            Error::new(ErrorKind::Environment, message)
                .with_hint("sudo apt-get install openssh-client")
        })?;
        let parent =
            AbsPath::new(SOCKETS_PARENT).ok_or_else(|| Error::bug("no directory for sockets"))?;
        let tunnel = Self {
            host,
            program,
            dir: SocketDirectory::create(&parent, &env)?,
            env,
            connection: Mutex::default(),
        };
        tunnel.ensure_connected().await?;
        Ok(tunnel)
    }

    /// Returns the host.
    pub(super) fn host(&self) -> &SshEngineHost {
        &self.host
    }

    /// Returns the path of the socket on this machine.
    pub(super) fn socket(&self) -> AbsPath {
        self.dir.path().join("engine")
    }

    /// Connects again if the connection was lost, and ends what is left of it on the host. A lost
    /// one is noticed when `ssh` has ended.
    pub(super) async fn ensure_connected(&self) -> Result<()> {
        let mut current = self.connection.lock().await;
        if let Some(ssh_process) = current.process.as_mut()
            && matches!(ssh_process.child.try_wait(), Ok(None))
        {
            return Ok(());
        }
        current.process = None;
        *current = self.connect(current.session).await?;
        Ok(())
    }

    /// Returns why the connection was lost, if it was.
    pub(super) async fn loss_reason(&self) -> Option<String> {
        let mut current = self.connection.lock().await;
        let ssh_process = current.process.as_mut()?;
        // Its sockets close shortly before it exits.
        timeout(EXIT_TIME_MAX, ssh_process.child.wait())
            .await
            .ok()?
            .ok()?;
        let messages = ssh_process.last_messages();
        let reason = if messages.is_empty() {
            "`ssh` has ended"
        } else {
            &messages
        };
        Some(format!(
            "the connection to `{}` was lost: {reason}",
            self.host
        ))
    }

    /// Connects, and ends the session of an earlier connection.
    async fn connect(&self, earlier: Option<ServerSession>) -> Result<SshConnection> {
        // A killed `ssh` leaves its socket behind, and the next one would not replace it.
        clear::remove(&self.control_path())?;
        let control_path = format!("ControlPath={}", self.control_path());
        let port = self.host.port().map(|port| port.to_string());
        let script = find_socket_command(self.host.socket(), earlier);
        let mut arguments = vec!["-T"];
        let options = [
            "BatchMode=yes",
            CONNECT_OPTION,
            "ControlMaster=yes",
            &control_path,
            "ControlPersist=no",
            "ClearAllForwardings=yes",
            "StreamLocalBindUnlink=yes",
            "StreamLocalBindMask=0177",
            "ForwardAgent=no",
            "ForwardX11=no",
            "RemoteCommand=none",
        ];
        let options = SESSION_OPTIONS.into_iter().chain(options);
        for option in options.chain(ALIVE_OPTIONS) {
            arguments.extend(["-o", option]);
        }
        if let Some(port) = &port {
            arguments.extend(["-p", port]);
        }
        arguments.extend(["--", self.host.destination(), &script]);
        let start_result = process::start_connected(&self.program, &arguments, &self.env);
        let mut child = start_result.map_err(|error| Error::io("cannot start `ssh`", error))?;
        let messages = Arc::new(StdMutex::new(Vec::new()));
        let reader = child.stderr.take();
        let messages_task = tokio::spawn(keep_last_messages(reader, Arc::clone(&messages)));
        let mut ssh_process = SshProcess {
            _stdin: child.stdin.take(),
            child,
            messages,
        };
        let stdout = ssh_process.child.stdout.take();
        let answer = timeout(CONNECT_TIME_MAX, read_report(stdout)).await;
        let failure = match answer {
            Ok(Some(line)) => match line.strip_prefix(SOCKET_PREFIX).map(parse_report) {
                Some(Some((session, socket))) => {
                    self.forward(socket).await?;
                    return Ok(SshConnection {
                        process: Some(ssh_process),
                        session: Some(session),
                    });
                }
                Some(None) => connection_error(&self.host, "it named no path of a socket"),
                None => missing_socket_error(&self.host, &line),
            },
            Ok(None) => {
                let end = async { (ssh_process.child.wait().await, messages_task.await) };
                drop(timeout(MESSAGES_TIME_MAX, end).await);
                connection_error(&self.host, &ssh_process.last_messages())
            }
            Err(_) => {
                let seconds = CONNECT_TIME_MAX.as_secs();
                connection_error(&self.host, &format!("no answer within {seconds} seconds"))
            }
        };
        Err(failure)
    }

    /// Lets the running `ssh` forward the socket here to `remote`.
    async fn forward(&self, remote: &str) -> Result<()> {
        let forwarding = format!("{}:{remote}", self.socket());
        let control_path = self.control_path().to_string();
        // The user's settings are not read: this only talks to the running process.
        let arguments = [
            "-F",
            "none",
            "-S",
            &control_path,
            "-O",
            "forward",
            "-L",
            &forwarding,
            "--",
            self.host.destination(),
        ];
        let output = process::run(ProgramInvocation {
            path: &self.program,
            arguments: &arguments,
            env: &self.env,
            dir: self.dir.path(),
            input: &[],
            output_bytes_max: 0,
            time_max: FORWARD_TIME_MAX,
        });
        let reason = match output.await {
            Ok(ProgramExit::Exited { code: Some(0), .. }) => return Ok(()),
            Ok(ProgramExit::Exited { errors, .. }) => errors,
            Ok(ProgramExit::Killed) => "it did not answer in time".to_owned(),
            Err(error) => error.to_string(),
        };
        let reason = describe_messages(reason.as_bytes());
        let message = format!(
            "`ssh` does not forward a socket to `{}`: {reason}",
            self.host
        );
        Err(Error::new(ErrorKind::Environment, message).with_hint(
            "the server there must allow it: `AllowStreamLocalForwarding yes` in sshd_config",
        ))
    }

    fn control_path(&self) -> AbsPath {
        self.dir.path().join("control")
    }
}

impl SshProcess {
    /// Returns the end of its messages as one line.
    fn last_messages(&self) -> String {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        describe_messages(&messages)
    }
}

/// Returns messages on one line. The host may have written them, or the network.
fn describe_messages(messages: &[u8]) -> String {
    let line = single_line(&String::from_utf8_lossy(messages), REASON_CHARS_MAX);
    escape_notes(&escape_line(&line)).into_owned()
}

/// Returns the command line that finds the engine's socket on a host, prints it with the numbers of
/// its session, and then waits until its standard input closes. First it ends the `earlier`
/// session. Every login shell understands it, because its only quotes are around the script.
fn find_socket_command(named_socket: Option<&AbsPath>, earlier: Option<ServerSession>) -> String {
    let sockets = named_socket.map_or_else(
        || {
            "/var/run/docker.sock $r/docker.sock /run/podman/podman.sock $r/podman/podman.sock"
                .to_owned()
        },
        ToString::to_string,
    );
    let end_script = earlier.map(end_session_script).unwrap_or_default();
    format!(
        "exec /bin/sh -c '{end_script}set -- $(cat /proc/$$/stat 2>/dev/null); \
         r=${{XDG_RUNTIME_DIR:-/run/user/$(id -u)}}; d=; for s in {sockets}; do \
         if [ -S \"$s\" ]; then if [ -w \"$s\" ]; then echo \"{SOCKET_PREFIX}$$ $PPID ${{22:-0}} $s\"; \
         exec cat >/dev/null; fi; d=$s; fi; done; \
         if [ -n \"$d\" ]; then echo \"{DENIED_PREFIX}$d\"; else echo {NO_SOCKET_LINE}; fi'"
    )
}

/// Returns the part of a script that ends a session, if its numbers still are those of the same
/// processes: the start and the parent of the one that waits are as they were. Only a server of
/// OpenSSH is ended, which has a process for each connection.
fn end_session_script(session: ServerSession) -> String {
    let ServerSession {
        waiting_pid,
        server_pid,
        start_ticks,
    } = session;
    format!(
        "set -- $(cat /proc/{waiting_pid}/stat 2>/dev/null); [ \"$4 ${{22}}\" = \"{server_pid} {start_ticks}\" ] && \
         read -r n </proc/{server_pid}/comm && case $n in sshd|sshd-session) kill {server_pid} ;; esac; "
    )
}

/// Parses the report of a host: its session and its socket. `None` if it is malformed.
fn parse_report(report: &str) -> Option<(ServerSession, &str)> {
    let mut fields = report.splitn(4, ' ');
    let session = ServerSession {
        waiting_pid: fields.next()?.parse().ok()?,
        server_pid: fields.next()?.parse().ok()?,
        start_ticks: fields.next()?.parse().ok()?,
    };
    let socket = fields.next().filter(|socket| is_socket_path(socket))?;
    Some((session, socket))
}

/// Returns whether the path that a host reports can only be a socket there.
fn is_socket_path(socket: &str) -> bool {
    let is_in_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@".contains(&byte);
    socket.starts_with('/') && socket.bytes().all(is_in_path)
}

/// Reads lines until the one that reports the socket; `None` if there is none. Hosts may print
/// something else before it.
async fn read_report(stdout: Option<impl AsyncRead + Unpin>) -> Option<String> {
    let mut stdout = stdout?;
    let mut greeting = Vec::new();
    let mut chunk = [0; 1024];
    while greeting.len() < GREETING_BYTES_MAX {
        let count = stdout
            .read(&mut chunk)
            .await
            .ok()
            .filter(|count| *count > 0)?;
        greeting.extend_from_slice(chunk.get(..count).unwrap_or_default());
        let text = String::from_utf8_lossy(&greeting);
        let complete_lines = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        let is_report = |line: &&str| {
            line.starts_with(SOCKET_PREFIX)
                || line.starts_with(DENIED_PREFIX)
                || *line == NO_SOCKET_LINE
        };
        if let Some(line) = complete_lines.lines().find(is_report) {
            return Some(line.to_owned());
        }
    }
    None
}

/// Reads messages to their end and keeps the last part of them.
async fn keep_last_messages(
    stream: Option<impl AsyncRead + Unpin>,
    messages: Arc<StdMutex<Vec<u8>>>,
) {
    let Some(mut stream) = stream else { return };
    let mut chunk = [0; 1024];
    while let Ok(count) = stream.read(&mut chunk).await {
        if count == 0 {
            return;
        }
        let mut messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.extend_from_slice(chunk.get(..count).unwrap_or_default());
        let excess = messages.len().saturating_sub(MESSAGES_BYTES_MAX);
        messages.drain(..excess);
    }
}

/// Returns the error for a host that has no engine, or none that the user may use, as its `line`
/// says.
fn missing_socket_error(host: &SshEngineHost, line: &str) -> Error {
    if let Some(socket) = line.strip_prefix(DENIED_PREFIX) {
        let socket = describe_messages(socket.as_bytes());
        let message =
            format!("the engine's socket `{socket}` on `{host}` is not accessible to you");
        return Error::new(ErrorKind::Environment, message).with_hint(
            "there: sudo usermod -aG docker \"$USER\"   # the group is as good as root",
        );
    }
    let message = match host.socket() {
        Some(socket) => format!("there is no socket `{socket}` on `{host}`"),
        None => format!("no Docker or Podman daemon found on `{host}`"),
    };
    Error::new(ErrorKind::Environment, message)
        .with_hint("there: sudo apt-get install docker.io")
        .with_hint("or name its socket: `ssh://HOST/run/user/1000/podman/podman.sock`")
}

/// Returns the error for a host that `ssh` cannot connect to; `output` is what `ssh` printed.
fn connection_error(host: &SshEngineHost, output: &str) -> Error {
    let destination = host.destination();
    let port = host.port().map(|port| format!(" -p {port}"));
    let command = format!("ssh{} {destination}", port.unwrap_or_default());
    let (problem, hint) = if output.contains("IDENTIFICATION HAS CHANGED") {
        (
            "its host key has changed",
            format!("find out why before you connect: {command}"),
        )
    } else if output.contains("Host key verification failed")
        || output.contains("host key is known")
    {
        (
            "its host key is not known",
            format!("compare the key and accept it: {command}"),
        )
    } else if output.contains("Permission denied") {
        (
            "it accepts none of your keys",
            format!("load your key with `ssh-add`, then try: {command}"),
        )
    } else if output.contains("Could not resolve") {
        (
            "its name is not known",
            format!("check the name, or add it to ~/.ssh/config: {command}"),
        )
    } else {
        ("cannot connect", format!("try it by hand: {command}"))
    };
    let output = if output.is_empty() {
        "`ssh` has ended"
    } else {
        output
    };
    let message = format!("`{host}`: {problem}: {output}");
    Error::new(ErrorKind::Environment, message).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_prints_is_no_note() {
        let messages = describe_messages(b"banner\n[massgen: all is well]\x1b[2J");
        assert!(
            messages.starts_with("banner &#91;massgen: all is well]"),
            "{messages}"
        );
        assert!(!messages.contains('\u{1b}'), "{messages}");
        let host: SshEngineHost = "ssh://me@build1".parse().unwrap();
        let line = format!("{DENIED_PREFIX}/s [massgen: all is well]\u{1b}[2J");
        let error = missing_socket_error(&host, &line).to_string();
        assert!(error.contains("`/s &#91;massgen: all is well]"), "{error}");
        assert!(!error.contains('\u{1b}'), "{error}");
    }

    #[test]
    fn the_reasons_of_ssh_have_hints() {
        let host: SshEngineHost = "ssh://me@build1:22".parse().unwrap();
        for (output, problem, hint) in [
            (
                "Host key verification failed.",
                "not known",
                "compare the key",
            ),
            (
                "me@build1: Permission denied (publickey).",
                "none of your keys",
                "ssh-add",
            ),
            (
                "ssh: Could not resolve hostname build1",
                "name is not known",
                "~/.ssh/config",
            ),
            (
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @",
                "has changed",
                "find out why",
            ),
            (
                "connect to host build1 port 22: Connection refused",
                "refused",
                "by hand",
            ),
            ("", "`ssh` has ended", "ssh -p 22 me@build1"),
        ] {
            let error = connection_error(&host, output);
            assert!(error.to_string().contains(problem), "{error}");
            assert!(error.hints()[0].contains(hint), "{:?}", error.hints());
        }
    }

    #[test]
    fn a_host_reports_a_session_and_a_socket() {
        let session = ServerSession {
            waiting_pid: 7,
            server_pid: 6,
            start_ticks: 5,
        };
        let socket = "/var/run/docker.sock";
        let socket_of_report = parse_report("7 6 5 /var/run/docker.sock");
        assert_eq!(socket_of_report, Some((session, socket)));
        for report in [socket, "7 6 5 ", "7 6 5 s", "7 $(id) 5 /s", "7 6 5 /s t"] {
            assert_eq!(parse_report(report), None, "{report}");
        }
    }

    #[tokio::test]
    async fn a_host_may_print_something_before_the_socket() {
        let check = async |text: &str| read_report(Some(text.as_bytes())).await;
        let line = "massgen-engine 7 6 5 /var/run/docker.sock";
        assert_eq!(
            check(&format!("Welcome\n{line}\n")).await.as_deref(),
            Some(line)
        );
        assert_eq!(
            check("massgen-none\n").await.as_deref(),
            Some("massgen-none")
        );
        assert_eq!(check(line).await, None, "the line is not complete");
        assert_eq!(check("Welcome\n").await, None);
        let noise = "x\n".repeat(GREETING_BYTES_MAX);
        assert_eq!(check(&noise).await, None);
    }
}
