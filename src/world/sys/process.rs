//! Starts programs, or prepares their start for others: each gets an environment built from
//! nothing. What `run` starts has a time limit, output limits and a process group of its own. What
//! an agent names is started elsewhere, in a sandbox, by a process that has confined itself.

use std::ffi::OsStr;
use std::io;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, Command};
use tokio::time::timeout;

use crate::path::AbsPath;
use crate::sandbox_policy::environment::PROGRAM_DIRECTORIES;
use crate::world::sys::environment::ProcessEnvironment;

/// The most that is read of a program's standard error, in bytes.
const ERRORS_BYTES_MAX: u64 = 64 * 1024;

/// A program that is about to be started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramInvocation<'a> {
    pub(crate) path: &'a AbsPath,
    pub(crate) arguments: &'a [&'a str],
    /// All of its environment.
    pub(crate) env: &'a ProcessEnvironment,
    /// The directory that it runs in.
    pub(crate) dir: &'a AbsPath,
    /// Its standard input.
    pub(crate) input: &'a [u8],
    /// The most that is read of its standard output, in bytes.
    pub(crate) output_bytes_max: u64,
    /// How long it may take.
    pub(crate) time_max: Duration,
}

/// How a program ended.
#[derive(Clone, Debug)]
pub(crate) enum ProgramExit {
    /// It exited by itself.
    Exited {
        /// Its exit status; `None` if a signal ended it.
        code: Option<i32>,
        /// The beginning of its standard output.
        output: Vec<u8>,
        /// The beginning of its standard error.
        errors: String,
    },
    /// It exceeded its time limit and was killed, with all processes that it had started.
    Killed,
}

/// Runs a program to completion.
pub(crate) async fn run(program: ProgramInvocation<'_>) -> io::Result<ProgramExit> {
    let mut child = Command::from(with_environment(program.path, program.env.variables()))
        .args(program.arguments)
        .current_dir(program.dir.as_path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let mut group = ProcessGroup::with_leader(child.id());
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let completion = async {
        let (output, errors, ()) = tokio::join!(
            read_beginning(stdout, program.output_bytes_max),
            read_beginning(stderr, ERRORS_BYTES_MAX),
            write_input(stdin, program.input),
        );
        let status = child.wait().await?;
        Ok::<ProgramExit, io::Error>(ProgramExit::Exited {
            code: status.code(),
            output: output?,
            errors: String::from_utf8_lossy(&errors?).into_owned(),
        })
    };
    match timeout(program.time_max, completion).await {
        Ok(exit_result) => {
            // Another process may have its PID now.
            group.disarm();
            exit_result
        }
        // The group is killed on drop.
        Err(_) => Ok(ProgramExit::Killed),
    }
}

/// Reads at most `bytes_max` bytes. Then the stream is closed, which ends a program that keeps
/// writing to it.
async fn read_beginning(
    stream: Option<impl AsyncRead + Unpin>,
    bytes_max: u64,
) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(bytes_max).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// Writes all of `input`, unless the program stops reading: then its exit shows why.
async fn write_input(stdin: Option<ChildStdin>, input: &[u8]) {
    if let Some(mut stdin) = stdin {
        stdin.write_all(input).await.unwrap_or_default();
    }
}

/// Runs one of the user's own programs to completion, on the user's terminal and with the user's
/// environment: it may ask for a password. Returns its exit status, or `None` if a signal ended it.
pub(crate) fn run_for_user(
    path: &AbsPath,
    arguments: &[&str],
    dir: &AbsPath,
    env: &ProcessEnvironment,
) -> io::Result<Option<i32>> {
    let mut command = user_command(path, arguments, env);
    let status = command.current_dir(dir.as_path()).status()?;
    Ok(status.code())
}

/// The standard streams of one of the user's own programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserProgramStreams {
    /// It reads what is sent to it, and writes to the user's terminal.
    InputPipe,
    /// It reads nothing, and its output is dropped.
    NullDevice,
    /// It has the user's terminal.
    Terminal,
}

/// Starts one of the user's own programs, with the user's environment, and does not wait for it.
pub(crate) fn start_for_user(
    path: &AbsPath,
    arguments: &[&str],
    env: &ProcessEnvironment,
    streams: UserProgramStreams,
) -> io::Result<Child> {
    let mut command = user_command(path, arguments, env);
    match streams {
        UserProgramStreams::InputPipe => command.stdin(Stdio::piped()),
        UserProgramStreams::NullDevice => command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
        UserProgramStreams::Terminal => &mut command,
    };
    command.spawn()
}

/// Starts massgen itself to work on something, with the user's environment and in a process group
/// of its own, so that it is not interrupted from the terminal. It reads nothing and prints only
/// errors. It outlives this process.
pub(crate) fn start_worker(
    path: &AbsPath,
    arguments: &[&str],
    dir: &AbsPath,
    env: &ProcessEnvironment,
) -> io::Result<tokio::process::Child> {
    let mut command = user_command(path, arguments, env);
    command
        .current_dir(dir.as_path())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    Command::from(command).process_group(0).spawn()
}

fn user_command(
    path: &AbsPath,
    arguments: &[&str],
    env: &ProcessEnvironment,
) -> std::process::Command {
    let mut command = with_environment(path, env.variables());
    command.args(arguments);
    command
}

/// Prepares to start the program at `path` with these variables and no others.
pub(crate) fn with_environment<N, V>(
    path: &AbsPath,
    variables: impl IntoIterator<Item = (N, V)>,
) -> std::process::Command
where
    N: AsRef<OsStr>,
    V: AsRef<OsStr>,
{
    let mut command = std::process::Command::new(path.as_path());
    command.env_clear().envs(variables);
    command
}

/// A process group; all its processes are killed on drop.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn with_leader(id: Option<u32>) -> Self {
        let id = id.and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }

    fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // A group that has exited already cannot be killed.
            kill_process_group(leader, Signal::KILL).unwrap_or_default();
        }
    }
}

/// Finds the program `name` in the directories of a `PATH`. Relative directories are skipped: they
/// mean whatever the current project put there.
pub(crate) fn find(name: &str, path_variable: &str) -> Option<AbsPath> {
    find_in(path_variable.split(':'), name)
}

/// Finds the program `name` as a sandbox does: in the directories of a `PATH`, or else in those of
/// the system, which a sandbox adds to it.
pub(crate) fn find_as_sandbox(name: &str, path_variable: &str) -> Option<AbsPath> {
    let directories = path_variable.split(':');
    find_in(directories.chain(PROGRAM_DIRECTORIES.iter().copied()), name)
}

fn find_in<'d>(directories: impl Iterator<Item = &'d str>, name: &str) -> Option<AbsPath> {
    let mut candidates = directories
        .filter_map(AbsPath::new)
        .map(|directory| directory.join(name));
    let is_program = |path: &AbsPath| {
        path.as_path().is_file() && access(path.as_path(), Access::EXEC_OK).is_ok()
    };
    candidates.find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(script: &str, time_max: Duration, expected: (&str, &str)) {
        let shell = find("sh", "relative:/nowhere:/bin:/usr/bin").unwrap();
        let env = ProcessEnvironment::from_variables([("GREETING", "hello")]);
        let program = ProgramInvocation {
            path: &shell,
            arguments: &["-c", script],
            env: &env,
            dir: &AbsPath::new("/").unwrap(),
            input: b"said",
            output_bytes_max: 4096,
            time_max,
        };
        let (exit, (end, output_part)) = (run(program).await.unwrap(), expected);
        let exit_and_output = match exit {
            ProgramExit::Killed => ("killed".to_owned(), String::new()),
            ProgramExit::Exited {
                code,
                output,
                errors,
            } => {
                let output = String::from_utf8(output).unwrap();
                (format!("{code:?}"), output + &errors)
            }
        };
        assert_eq!(exit_and_output.0, end, "{script}");
        assert!(
            exit_and_output.1.contains(output_part),
            "{script}: {exit_and_output:?}"
        );
    }

    #[tokio::test]
    async fn a_program_has_its_environment_a_limit_and_no_more() {
        let long_time = Duration::from_mins(2);
        check("echo $GREETING $HOME", long_time, ("Some(0)", "hello\n")).await;
        check("cat", long_time, ("Some(0)", "said")).await;
        check("echo no >&2; exit 3", long_time, ("Some(3)", "no\n")).await;
        check("kill -9 $$", long_time, ("None", "")).await;
        check(
            "sleep 60 & sleep 60",
            Duration::from_millis(50),
            ("killed", ""),
        )
        .await;
        // A program that writes endlessly ends because its output is no longer read.
        check("exec yes", long_time, ("None", "y\ny")).await;
    }

    #[test]
    fn a_program_is_looked_for_in_absolute_directories() {
        assert_eq!(find("sh", "bin:.:"), None);
        assert_eq!(find("no-such-program", "/bin:/usr/bin"), None);
        assert!(find("sh", "/bin:/usr/bin").is_some());
    }
}
