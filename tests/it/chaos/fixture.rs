//! A directory in which massgen runs, with processes, mounts and files that can be distinguished
//! from those of other tests: its path is in the arguments or the environment of each.
#![expect(
    clippy::disallowed_types,
    reason = "a process writes to a file of its own"
)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use massgen::sandbox_policy::sandbox_level::SandboxLevel;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::project::{binary, copy_program};
use crate::scripted_team::FINAL;

/// A directory with a project, a home, a directory for temporary files, and massgen itself.
pub(super) struct ChaosFixture {
    root: TempDir,
    pub(super) level: SandboxLevel,
    /// The ids of all massgen processes that were started here.
    pub(super) started: Mutex<Vec<u32>>,
    /// Keeps the copy of massgen for the scenes after this one.
    _program: Arc<TempDir>,
}

/// Returns the directory of a copy of massgen on the file system of the scenes, which those that exist at
/// the same time share: it is large.
fn shared_program() -> Arc<TempDir> {
    static SHARED: Mutex<Weak<TempDir>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let dir = tempfile::Builder::new().prefix("program").tempdir();
        let dir = Arc::new(dir.unwrap());
        copy_program(&binary(), &dir.path().join("massgen"));
        *shared = Arc::downgrade(&dir);
        dir
    })
}

impl ChaosFixture {
    pub(super) fn new(level: SandboxLevel) -> Self {
        let root = tempfile::Builder::new().prefix("chaos").tempdir().unwrap();
        let program = shared_program();
        let fixture = Self {
            root,
            level,
            started: Mutex::default(),
            _program: Arc::clone(&program),
        };
        for name in ["project/src", "project/ws", "home", "tmp"] {
            fs::create_dir_all(fixture.path(name)).unwrap();
        }
        // A name of its own, so that its path is in the fixture.
        fs::hard_link(program.path().join("massgen"), fixture.path("massgen")).unwrap();
        let grants = json!({
            "workspace": fixture.path("project/ws"),
            "context_paths": [{"path": fixture.path("project/src"), "permission": "write"}],
        });
        fs::write(fixture.path("project/grants.json"), grants.to_string()).unwrap();
        fixture
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    /// Returns the unique name of its directory.
    pub(super) fn name(&self) -> String {
        let path = self.path(".");
        path.file_name().unwrap().to_str().unwrap().to_owned()
    }

    /// Returns a text that is in the arguments, the environment or the mounts of everything that
    /// belongs to the fixture.
    pub(super) fn mark(&self) -> String {
        self.path("").display().to_string()
    }

    /// Writes the team of one agent that makes these `calls` and then answers, and makes the calls
    /// in `last` when it presents. `keys` are further keys of its backend.
    pub(super) fn team(&self, keys: &Value, calls: &[(&str, Value)], last: &[(&str, Value)]) {
        let replies = calls.iter().map(|called| reply(&json!({}), called));
        self.team_of(keys, replies.collect(), last);
    }

    /// The same, with the replies until it answers.
    pub(super) fn team_of(&self, keys: &Value, first: Vec<Value>, last: &[(&str, Value)]) {
        let presents = json!({"system": FINAL});
        let last = last.iter().map(|called| reply(&presents, called));
        let mut replies: Vec<Value> = last.collect();
        replies.push(json!({"when": presents, "text": "presented", "repeat": true}));
        replies.extend(first);
        let answer = ("new_answer", json!({"content": "answered"}));
        let vote = ("vote", json!({"agent_id": "solo", "reason": "good"}));
        replies.extend([answer, vote].map(|called| reply(&json!({}), &called)));
        let mut backend = json!({
            "type": "scripted",
            "cwd": "ws",
            "enable_mcp_command_line": true,
            "command_line_sandbox": self.level.to_string(),
            "replies": replies,
        });
        let keys = keys.as_object().unwrap().clone();
        backend.as_object_mut().unwrap().extend(keys);
        let writable = json!({"path": self.path("project/src"), "permission": "write"});
        let team = json!({
            "agents": [{"id": "solo", "backend": backend}],
            "orchestrator": {
                "coordination": {"write_mode": "legacy"},
                "context_paths": [writable],
            },
        });
        // JSON is YAML.
        fs::write(self.path("project/team.yaml"), team.to_string()).unwrap();
    }

    /// Returns massgen with these words; its output goes to files of the fixture.
    pub(super) fn massgen(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("massgen"));
        command
            .args(arguments)
            .current_dir(self.path("project"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"));
        self.capture_output(&mut command);
        command
    }

    /// Redirects a process's standard input from nothing, and its output to files of the fixture.
    pub(super) fn capture_output(&self, command: &mut Command) {
        command
            .stdin(Stdio::null())
            .stdout(File::create(self.path("stdout")).unwrap())
            .stderr(File::create(self.path("stderr")).unwrap());
    }

    pub(super) fn start(&self, mut command: Command) -> Child {
        let child = command.spawn().unwrap();
        self.started.lock().unwrap().push(child.id());
        child
    }

    /// Returns its standard error.
    pub(super) fn stderr(&self) -> String {
        let stderr = fs::read(self.path("stderr")).unwrap();
        String::from_utf8_lossy(&stderr).into_owned()
    }

    /// Returns the names in one of its directories; none if it does not exist.
    pub(super) fn names(&self, dir: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.path("").join(dir)).into_iter().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Returns a reply of a scripted agent that makes a call if the request matches `when`.
pub(super) fn reply(when: &Value, (name, arguments): &(&str, Value)) -> Value {
    json!({"when": when, "calls": [{"name": name, "arguments": arguments}]})
}
