//! A user's directory with files, symlinks, a home and a config, in which the real binary runs
//! without the machine's environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use massgen::config::machine_policy::MachinePolicy;
use massgen::dotenv::ConfigVariables;
use massgen::orchestrator::process_specs::HostEnvironment;
use massgen::path::AbsPath;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::Value;
use tempfile::TempDir;

/// Timeout of a run.
const RUN_TIME_MAX: Duration = Duration::from_mins(3);

/// A user's project, and the command line that will be run in it.
#[must_use]
pub(crate) struct Project {
    root: TempDir,
    arguments: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
    input: Vec<u8>,
}

/// A command of massgen that has ended, with its output.
pub(crate) struct FinishedCommand {
    project: Project,
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Project {
    /// Creates an empty project in an empty home.
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        let project = Self {
            root,
            arguments: Vec::new(),
            env: BTreeMap::new(),
            input: Vec::new(),
        };
        fs::create_dir(project.path("")).unwrap();
        fs::create_dir(project.home("")).unwrap();
        project
    }

    /// Returns the absolute path of `path` in the project. The root itself is a real path.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root
            .path()
            .canonicalize()
            .unwrap()
            .join("project")
            .join(path)
    }

    /// Returns the absolute path of `path` in the home.
    pub(crate) fn home(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root
            .path()
            .canonicalize()
            .unwrap()
            .join("home")
            .join(path)
    }

    /// Adds a file to the project, with its directories.
    pub(crate) fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        write(&self.path(path), content.as_ref());
        self
    }

    /// Adds a file to the home, with its directories.
    pub(crate) fn home_file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        write(&self.home(path), content.as_ref());
        self
    }

    /// Adds a directory to the project.
    pub(crate) fn dir(self, path: &str) -> Self {
        fs::create_dir_all(self.path(path)).unwrap();
        self
    }

    /// Adds a symlink to the project, with `target` as given.
    pub(crate) fn link(self, path: &str, target: impl AsRef<Path>) -> Self {
        symlink(target, self.path(path)).unwrap();
        self
    }

    /// Adds the config that a run without `--config` finds.
    pub(crate) fn config(self, yaml: &str) -> Self {
        self.file(".massgen/config.yaml", yaml)
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.insert(name.into(), value.as_ref().to_owned());
        self
    }

    /// Adds arguments to the command line.
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        let arguments = arguments.into_iter().map(|word| word.as_ref().to_owned());
        self.arguments.extend(arguments);
        self
    }

    /// Replaces the arguments.
    pub(crate) fn retyped<S: AsRef<OsStr>>(
        mut self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        self.arguments.clear();
        self.args(arguments)
    }

    /// Sets standard input, which is empty otherwise.
    pub(crate) fn stdin(mut self, input: impl AsRef<[u8]>) -> Self {
        self.input = input.as_ref().into();
        self
    }

    /// Runs, and expects exit status 0.
    #[track_caller]
    pub(crate) fn success(self) -> FinishedCommand {
        self.failure(0)
    }

    /// Runs, and expects this exit status.
    #[track_caller]
    pub(crate) fn failure(self, code: i32) -> FinishedCommand {
        let finished = self.run();
        assert_eq!(
            finished.code,
            Some(code),
            "exit status\n--- stdout\n{}\n--- stderr\n{}",
            finished.stdout,
            finished.stderr
        );
        assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
        finished
    }

    /// Runs with both streams as pipes, whatever the exit status.
    pub(crate) fn run(self) -> FinishedCommand {
        let output = assert_cmd::Command::from_std(self.command())
            .write_stdin(self.input.clone())
            .timeout(RUN_TIME_MAX)
            .output()
            .expect("the binary starts");
        let stdout = self.decode_output(&output.stdout);
        let stderr = self.decode_output(&output.stderr);
        FinishedCommand {
            project: self,
            code: output.status.code(),
            stdout,
            stderr,
        }
    }

    /// Returns the command, for tests that handle its streams themselves.
    pub(crate) fn command(&self) -> std::process::Command {
        let mut command = std::process::Command::new(binary());
        command
            .args(&self.arguments)
            .current_dir(self.path(""))
            .env_clear()
            .envs(self.environment());
        command
    }

    /// The same for a terminal.
    pub(crate) fn terminal_command(&self) -> CommandBuilder {
        let mut command = CommandBuilder::new(binary());
        command.args(&self.arguments);
        command.cwd(self.path(""));
        command.env_clear();
        for (name, value) in self.environment() {
            command.env(name, value);
        }
        command
    }

    /// The same environment for a shell, whose variable `massgen` is the binary.
    pub(crate) fn shell(&self) -> CommandBuilder {
        let mut command = CommandBuilder::new("/bin/bash");
        command.args(["--norc", "--noprofile", "-i"]);
        command.cwd(self.path(""));
        command.env_clear();
        for (name, value) in self.environment() {
            command.env(name, value);
        }
        command.env("PS1", "$ ");
        command.env("massgen", binary());
        command
    }

    /// Runs on a terminal of 80 columns, and returns what is shown there.
    pub(crate) fn on_terminal(self) -> FinishedCommand {
        let size = PtySize {
            rows: 24,
            cols: 80,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pty = native_pty_system().openpty(size).expect("a terminal");
        let command = self.terminal_command();
        let mut child = pty.slave.spawn_command(command).expect("the binary starts");
        drop(pty.slave);
        let mut shown = Vec::new();
        // Linux reports the end of a terminal's last process as an error.
        let _ended = pty
            .master
            .try_clone_reader()
            .unwrap()
            .read_to_end(&mut shown);
        let status = child.wait().unwrap();
        let stdout = self.decode_output(&shown);
        FinishedCommand {
            project: self,
            code: i32::try_from(status.exit_code()).ok(),
            stdout,
            stderr: String::new(),
        }
    }

    fn environment(&self) -> BTreeMap<OsString, OsString> {
        let mut env = BTreeMap::from([
            (OsString::from("PATH"), OsString::from("/usr/bin:/bin")),
            (OsString::from("HOME"), self.home("").into_os_string()),
        ]);
        env.extend(self.env.clone());
        env
    }

    /// Decodes `bytes`, with the changing paths of this project replaced by `[PROJECT]` and
    /// `[HOME]`.
    fn decode_output(&self, bytes: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(bytes).into_owned();
        for (path, name) in [(self.path(""), "[PROJECT]"), (self.home(""), "[HOME]")] {
            let path = path.to_str().unwrap().trim_end_matches('/');
            text = text.replace(path, name);
        }
        text
    }
}

impl FinishedCommand {
    /// Returns what the run wrote to standard output, or showed on its terminal.
    pub(crate) fn stdout(&self) -> &str {
        &self.stdout
    }

    /// Returns what the run wrote to standard error.
    pub(crate) fn stderr(&self) -> &str {
        &self.stderr
    }

    /// Returns the exit status, unless a signal ended the process.
    pub(crate) fn code(&self) -> Option<i32> {
        self.code
    }

    /// Returns the project as the run left it, with these arguments for the next command.
    pub(crate) fn then<S: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = S>) -> Project {
        self.project.retyped(arguments)
    }

    /// Returns the project as the run left it.
    pub(crate) fn project(&self) -> &Project {
        &self.project
    }

    /// Checks that a file of the project has this content.
    #[track_caller]
    pub(crate) fn has_file(self, path: &str, content: &str) -> Self {
        let found = fs::read_to_string(self.project.path(path)).unwrap_or_default();
        assert_eq!(found, content, "{path}\n{}", self.stderr);
        self
    }

    /// Checks that nothing exists at a path of the project.
    #[track_caller]
    pub(crate) fn has_no(self, path: &str) -> Self {
        let found = fs::symlink_metadata(self.project.path(path));
        assert!(found.is_err(), "{path} exists\n{}", self.stderr);
        self
    }
}

/// Returns the events of the last run of one type.
pub(crate) fn events(finished: &FinishedCommand, kind: &str) -> Vec<Value> {
    let logs = finished.project().path(".massgen/massgen_logs");
    let turns = fs::read_dir(logs)
        .unwrap()
        .map(|log| log.unwrap().path().join("turn_1"));
    let newest = turns.max_by_key(|turn| fs::metadata(turn).unwrap().modified().unwrap());
    let text = fs::read_to_string(newest.unwrap().join("events.jsonl")).unwrap();
    let events = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["type"] == kind).collect()
}

/// Returns the event logs of all runs of a project, one after another, as far as they are written.
pub(crate) fn logged_events(project: &Project) -> String {
    let runs = fs::read_dir(project.path(".massgen/massgen_logs"))
        .into_iter()
        .flatten();
    let logs = runs.map(|run| run.unwrap().path().join("turn_1/events.jsonl"));
    logs.filter_map(|log| fs::read_to_string(log).ok())
        .collect()
}

/// Returns the host environment of commands of a run in this process.
pub(crate) fn machine() -> HostEnvironment {
    HostEnvironment {
        executable: AbsPath::new(binary()).unwrap(),
        cwd: AbsPath::root(),
        env: BTreeMap::new(),
        variables: ConfigVariables::default(),
        home: None,
        policy: MachinePolicy::default(),
        session_sandboxes: None,
    }
}

/// Returns whether something answers where massgen looks for local servers of models.
pub(crate) fn has_local_models() -> bool {
    let mut ports = [11434, 1234, 8000, 30000].iter();
    ports.any(|port| std::net::TcpStream::connect(("127.0.0.1", *port)).is_ok())
}

/// Returns the binary under test. `tests/all.sh` names a copy where an unprivileged user can run
/// it.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("MASSGEN_TEST_BINARY").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_massgen")),
        PathBuf::from,
    )
}

/// Creates a directory that is not below `/tmp`, which is private for commands. `tests/all.sh` names a
/// place in memory.
pub(crate) fn directory_outside_tmp() -> TempDir {
    let dir = std::env::var_os("MASSGEN_TEST_PLACE")
        .map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    tempfile::tempdir_in(dir).unwrap()
}

/// Copies a program that will be started, in a separate process. If this process had the copy open
/// for writing, a process that another test starts at the same moment could inherit it, and the
/// kernel does not start a program that is open for writing (`ETXTBSY`).
pub(crate) fn copy_program(program: &Path, to: &Path) {
    let status = std::process::Command::new("cp")
        .arg(program)
        .arg(to)
        .status();
    assert!(status.unwrap().success(), "{}", to.display());
}

/// Makes a file that a test has written a program that can be started: an executable copy of it, written
/// in a separate process for the same reason, takes its place.
pub(crate) fn make_program(path: &Path) {
    let replace = "cp \"$0\" \"$0.new\" && chmod 755 \"$0.new\" && mv \"$0.new\" \"$0\"";
    let status = std::process::Command::new("sh")
        .args(["-c", replace])
        .arg(path)
        .status();
    assert!(status.unwrap().success(), "{}", path.display());
}

/// Copies a directory with everything in it, like `cp -a`: into `to` if that is a directory,
/// otherwise as `to`.
pub(crate) fn copy_tree(from: &Path, to: &Path) {
    let status = std::process::Command::new("cp")
        .arg("-a")
        .args([from, to])
        .status();
    assert!(status.unwrap().success(), "{}", to.display());
}

fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}
