//! A disk with a workspace, two context paths and files that must never be touched, and the gates
//! of an agent on it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use massgen::path::{AbsPath, RealPath, RelPath};
use massgen::permissions::PathPermissionManager;
use massgen::permissions::grant::{Grant, GrantKind, Permission, Phase};
use massgen::permissions::history::{AccessHistory, ReadBeforeDelete};
use massgen::tools::call::ToolCall;
use massgen::tools::parse::parse;
use massgen::tools::served::ToolCatalogue;
use massgen::world::access::gate::{Action, Gate, Permitted};
use massgen::world::access::policy::{ConflictPolicy, GatePolicy};
use massgen::world::access::verdict::{Denial, PermitError};
use massgen::world::exec;
use massgen::world::exec::tool_result::{ActionOutcome, Observation};
use massgen::world::io::locate::{LocatedPath, locate};
use parking_lot::Mutex;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::Value;
use tempfile::TempDir;

/// A fresh directory: `ws` is the workspace, `ro` and `rw` are context paths, `outside` and `home`
/// are not open.
pub(crate) struct Disk {
    root: TempDir,
}

impl Disk {
    /// Creates the tree with which the cases of `cases/attacks.jsonl` begin.
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        let disk = Self { root };
        for (path, text) in [
            ("ro/readme.txt", "ro readme\nsecond line\n"),
            ("ro/src/main.py", "print(1)\n"),
            ("rw/README.md", "rw readme\n"),
            ("rw/src/app.py", "x = 1\n"),
            ("rw/.git/config", "[core]\n\tbare = false\n"),
            ("rw/.git/HEAD", "ref: refs/heads/main\n"),
            ("rw/.env", "KEY=CANARY-DOTENV\n"),
            ("outside/secret.txt", "CANARY-OUTSIDE\n"),
            ("outside/victim.txt", "original\n"),
            ("home/.ssh/id_rsa", "CANARY-SSHKEY\n"),
            ("home/.bashrc", "# bashrc\n"),
            ("home/.gitconfig", "[user]\n\tname = U\n"),
        ] {
            disk.file(path, text);
        }
        for path in ["ws", "rw/.git/hooks", "rw/.git/objects", "home/.config"] {
            fs::create_dir_all(disk.path(path)).unwrap();
        }
        disk
    }

    /// Returns the absolute path of `path`; the root is a real path.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(path)
    }

    /// Returns the real path of an existing directory or file.
    pub(crate) fn real(&self, path: impl AsRef<Path>) -> RealPath {
        match locate(&AbsPath::new(self.path(path)).unwrap()).unwrap() {
            LocatedPath::Directory(real) | LocatedPath::File(real) => real,
            LocatedPath::Missing(real) => panic!("`{real}` is not there"),
        }
    }

    /// Creates a file with its parent directories.
    pub(crate) fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Creates a symlink to `target`, in which `$ROOT` is replaced by the disk.
    pub(crate) fn link(&self, path: &str, target: &str) {
        let target = self.expand_placeholders(target);
        std::os::unix::fs::symlink(target, self.path(path)).unwrap();
    }

    /// Returns the content of the file.
    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Returns whether the name exists; a dangling symlink does.
    pub(crate) fn has(&self, path: &str) -> bool {
        fs::symlink_metadata(self.path(path)).is_ok()
    }

    /// Returns `text` with `$ROOT` replaced by the disk's path.
    pub(crate) fn expand_placeholders(&self, text: &str) -> String {
        text.replace(
            "$ROOT",
            self.path("").to_str().unwrap().trim_end_matches('/'),
        )
    }

    /// Returns everything below `path`.
    pub(crate) fn state(&self, path: &str) -> BTreeMap<PathBuf, String> {
        let mut state = BTreeMap::new();
        collect_state(&self.path(path), &mut state);
        state
    }

    /// Returns the grants that every case begins with.
    pub(crate) fn grants(&self) -> Vec<Grant> {
        let mut context = Grant::tree(self.real("rw"), GrantKind::Context, Permission::Write);
        context.protected = vec![RelPath::new("LICENSE").unwrap()];
        context.hidden = vec![
            RelPath::new(".massgen").unwrap(),
            RelPath::new("keys").unwrap(),
        ];
        vec![
            Grant::tree(self.real("ws"), GrantKind::Workspace, Permission::Write),
            Grant::tree(self.real("ro"), GrantKind::Context, Permission::Read),
            context,
        ]
    }

    /// Opens the gate of a single call in `phase`.
    pub(crate) fn gate(&self, phase: Phase) -> Gate {
        self.gate_with(self.grants(), phase)
    }

    /// Opens the gate of a single call with these grants.
    pub(crate) fn gate_with(&self, grants: Vec<Grant>, phase: Phase) -> Gate {
        let manager = PathPermissionManager::new(grants, phase);
        Gate::open(manager, GatePolicy::minimal(self.real("ws"))).unwrap()
    }

    /// Opens the gate of a run that begins now.
    pub(crate) fn run_gate_from_now(&self, phase: Phase) -> Gate {
        let conflicts_dir = self.path("home/kept");
        let _missing = fs::remove_dir_all(&conflicts_dir);
        fs::create_dir(conflicts_dir).unwrap();
        let conflicts = ConflictPolicy::from_now(self.real("home/kept")).unwrap();
        self.run_gate(phase, conflicts.run_started_ns)
    }

    /// Opens the gate of a run: unread files may not be destroyed, and what changed since
    /// `run_started_ns` belongs to the user.
    pub(crate) fn run_gate(&self, phase: Phase, run_started_ns: i128) -> Gate {
        let policy = GatePolicy {
            read_before_delete: ReadBeforeDelete::Enforced,
            conflicts: Some(ConflictPolicy {
                run_started_ns,
                dir: self.real("home").join(&RelPath::new("kept").unwrap()),
            }),
            history: Arc::new(Mutex::new(AccessHistory::default())),
            ..GatePolicy::minimal(self.real("ws"))
        };
        Gate::open(PathPermissionManager::new(self.grants(), phase), policy).unwrap()
    }
}

fn collect_state(path: &Path, state: &mut BTreeMap<PathBuf, String>) {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return;
    };
    let content = if meta.is_symlink() {
        fs::read_link(path).unwrap().display().to_string()
    } else if meta.is_file() {
        String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
    } else {
        String::new()
    };
    let line = format!("{:o} {} {content}", meta.mode(), meta.mtime_nsec());
    state.insert(path.to_owned(), line);
    if meta.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            collect_state(&entry.unwrap().path(), state);
        }
    }
}

/// Asks `gate` about a call.
pub(crate) fn permit(gate: &Gate, call: ToolCall) -> Result<Permitted<Action>, Denial> {
    gate.check(call).map_err(|error| match error {
        PermitError::Denied(denial) => denial,
        PermitError::Exhausted(_) => panic!("{error}"),
    })
}

/// Makes a call through `gate`, and carries it out if it is permitted.
pub(crate) fn call_tool(gate: &Gate, tool: &str, arguments: &Value) -> Result<Observation, Denial> {
    let call = parse(tool, &arguments.to_string(), &ToolCatalogue::default()).unwrap();
    permit(gate, call).map(exec::run)
}

/// Like [`call_tool`], for a call that must succeed; returns what the model reads.
#[track_caller]
pub(crate) fn call_successfully(gate: &Gate, tool: &str, arguments: &Value) -> String {
    let observation = call_tool(gate, tool, arguments).unwrap_or_else(|denial| panic!("{denial}"));
    assert_eq!(
        observation.outcome,
        ActionOutcome::Done,
        "{}",
        observation.content
    );
    observation.content
}

/// Like [`call_tool`], for a call that must not succeed; returns what the model reads.
#[track_caller]
pub(crate) fn call_refused(gate: &Gate, tool: &str, arguments: &Value) -> String {
    match call_tool(gate, tool, arguments) {
        Err(denial) => denial.to_string(),
        Ok(observation) => {
            assert_ne!(
                observation.outcome,
                ActionOutcome::Done,
                "{}",
                observation.content
            );
            observation.content
        }
    }
}

/// A thread that exchanges two names continuously until it is dropped.
pub(crate) struct NameExchange {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NameExchange {
    /// Starts to exchange `one` and `other`.
    pub(crate) fn of(one: PathBuf, other: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // While a call has removed one of them, there is nothing to exchange.
                let _raced = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for NameExchange {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
