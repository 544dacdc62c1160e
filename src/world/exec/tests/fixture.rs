//! Fixture with a workspace, a writable context path, and an overlay layer over that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;

use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::permissions::history::{AccessHistory, ReadBeforeDelete};
use crate::sandbox_policy::OverlayLayer;
use crate::world::access::gate::Gate;
use crate::world::access::policy::{ConflictPolicy, GatePolicy};
use crate::world::exec::command_changes::CommandChanges;
use crate::world::exec::commit::commit;
use crate::world::io::file_change::ChangeKind;

/// Timeout for the clock of the file system to advance, which takes a few milliseconds.
const FILE_CLOCK_TIME_MAX: Duration = Duration::from_mins(2);

/// Mounts the layer over `rw`, runs the script in it, and exits.
pub(super) const MOUNT_SCRIPT: &str = r#"
cd "$1"
mount -t overlay overlay -o userxattr,lowerdir=rw,upperdir=layer/upper,workdir=layer/work seen
cd seen
eval "$2"
"#;

/// Directories with a workspace, a writable context path, and an overlay layer over that.
pub(super) struct OverlayFixture {
    root: PathBuf,
    _dir: Option<TempDir>,
    pub(super) reported: BTreeSet<RealPath>,
}

impl OverlayFixture {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fixture = Self {
            root: dir.path().canonicalize().unwrap(),
            _dir: Some(dir),
            reported: BTreeSet::new(),
        };
        for name in ["ws", "seen", "layer/upper", "layer/work"] {
            fs::create_dir_all(fixture.path(name)).unwrap();
        }
        for (name, text) in [
            ("rw/README.md", "readme\n"),
            ("rw/run.sh", "echo\n"),
            ("rw/src/app.py", "x = 1\n"),
            ("rw/src/old.py", "old\n"),
            ("rw/vendor/lib/code.c", "code\n"),
            ("rw/vendor/lib/.git/config", "[core]\n"),
            ("rw/plain/deep/one", "1\n"),
            ("rw/.git/config", "[core]\n"),
            ("rw/.env", "KEY=CANARY\n"),
            ("rw/LICENSE", "MIT\n"),
            ("rw/other/inner", "inner\n"),
            ("outside/secret", "CANARY\n"),
        ] {
            fixture.write(name, text);
        }
        fixture
    }

    /// Opens a fixture that another process has created.
    pub(super) fn at(root: &Path) -> Self {
        Self {
            root: root.canonicalize().unwrap(),
            _dir: None,
            reported: BTreeSet::new(),
        }
    }

    pub(super) fn path(&self, rel: impl AsRef<Path>) -> PathBuf {
        self.root.join(rel)
    }

    pub(super) fn real(&self, rel: &str) -> RealPath {
        RealPath::vouch(self.path(rel))
    }

    pub(super) fn write(&self, rel: &str, text: &str) {
        let path = self.path(rel);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn layer(&self) -> OverlayLayer {
        let path = |rel: &str| AbsPath::new(self.path(rel)).unwrap();
        OverlayLayer {
            root: path("rw"),
            upper: path("layer/upper"),
            work: path("layer/work"),
            between: None,
        }
    }

    /// Returns the gate of the final phase; `extra_grants` are for paths in `rw`.
    pub(super) fn gate(&self, conflicts: Option<ConflictPolicy>, extra_grants: Vec<Grant>) -> Gate {
        let mut context = Grant::tree(self.real("rw"), GrantKind::Context, Permission::Write);
        context.protected = vec![RelPath::new("LICENSE").unwrap()];
        context.hidden = vec![RelPath::new("keys").unwrap()];
        let workspace = Grant::tree(self.real("ws"), GrantKind::Workspace, Permission::Write);
        let mut grants = vec![workspace, context];
        grants.extend(extra_grants);
        let policy = GatePolicy {
            read_before_delete: ReadBeforeDelete::Enforced,
            conflicts,
            history: Arc::new(Mutex::new(AccessHistory::default())),
            ..GatePolicy::minimal(self.real("ws"))
        };
        Gate::open(PathPermissionManager::new(grants, Phase::Final), policy).unwrap()
    }

    /// Waits until the clock that stamps files advances, which it does every few milliseconds. A
    /// change with the same stamp as the mount of the overlay counts as made while the command ran.
    fn wait_for_next_stamp(&self) {
        let stamp = || {
            let path = self.path("stamp");
            fs::write(&path, "").unwrap();
            fs::metadata(path).unwrap().modified().unwrap()
        };
        let first_stamp = stamp();
        while stamp() == first_stamp {}
    }

    /// Runs `script` in the overlay, as a command would.
    #[track_caller]
    pub(super) fn run(&self, script: &str) {
        self.wait_for_next_stamp();
        let overlay = Command::new("unshare")
            .args(["-rm", "sh", "-ec", MOUNT_SCRIPT, "sh"])
            .arg(self.path(""))
            .arg(script)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&overlay.stderr);
        assert!(overlay.status.success(), "{script}: {error}");
    }

    #[track_caller]
    pub(super) fn commit(&mut self, gate: &Gate) -> CommandChanges {
        let layer = self.layer();
        commit(gate, &layer, &mut self.reported)
            .unwrap_or_else(|tool_error| panic!("{}", tool_error.message))
    }

    /// Runs `script`, commits, and compares the changes, one per line.
    #[track_caller]
    pub(super) fn check(&mut self, script: &str, expected: &[&str]) -> CommandChanges {
        let gate = self.gate(None, Vec::new());
        self.run(script);
        let command_changes = self.commit(&gate);
        assert_eq!(self.change_lines(&command_changes), expected, "{script}");
        command_changes
    }

    pub(super) fn change_lines(&self, command_changes: &CommandChanges) -> Vec<String> {
        let root = self.real("rw");
        let changes = command_changes.changes.iter().map(|change| {
            let path = change.path.below(&root).unwrap();
            let kind = match &change.kind {
                ChangeKind::Created => "created".to_owned(),
                ChangeKind::Changed | ChangeKind::PartlyChanged { .. } => "changed".to_owned(),
                ChangeKind::Deleted => "deleted".to_owned(),
                ChangeKind::Mode { .. } => "mode".to_owned(),
                ChangeKind::Conflict { .. } => "conflict".to_owned(),
                ChangeKind::Declined => "declined".to_owned(),
                ChangeKind::Denied { reason } => format!("denied: {reason}"),
                ChangeKind::Failed { reason } => format!("failed: {reason}"),
                ChangeKind::Reverted { reason } => format!("taken back: {reason}"),
                ChangeKind::Unlisted { reason } => format!("unlisted: {reason}"),
            };
            format!("{path} {kind}")
        });
        changes.collect()
    }

    pub(super) fn text(&self, rel: &str) -> String {
        fs::read_to_string(self.path(rel)).unwrap_or_else(|error| panic!("{rel}: {error}"))
    }

    pub(super) fn exists(&self, rel: &str) -> bool {
        fs::symlink_metadata(self.path(rel)).is_ok()
    }

    pub(super) fn mode(&self, rel: &str) -> u32 {
        fs::symlink_metadata(self.path(rel)).unwrap().mode() & 0o7777
    }

    /// Asserts that no file of the tree has content that only files outside have.
    #[track_caller]
    pub(super) fn assert_nothing_leaked(&self) {
        let state = self.state("rw");
        let is_leaked =
            |(path, text): &(&PathBuf, &String)| text.contains("CANARY") && !path.ends_with(".env");
        assert_eq!(state.iter().find(is_leaked), None);
    }

    /// Returns everything below `rel` by path, with its content.
    pub(super) fn state(&self, rel: &str) -> BTreeMap<PathBuf, String> {
        let mut state = BTreeMap::new();
        let mut paths_left = vec![self.path(rel)];
        while let Some(path) = paths_left.pop() {
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                paths_left.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
            let content = if meta.is_file() {
                fs::read_to_string(&path).unwrap()
            } else {
                String::new()
            };
            state.insert(path, format!("{:o} {} {content}", meta.mode(), meta.ino()));
        }
        state
    }
}

/// Waits until files that change get a later time than now: their times lag behind the time of day.
pub(super) fn wait_for_file_clock() {
    let (now, began) = (SystemTime::now(), Instant::now());
    let dir = tempfile::tempdir().unwrap();
    let probe = dir.path().join("probe");
    loop {
        fs::write(&probe, "changed").unwrap();
        if fs::metadata(&probe).unwrap().modified().unwrap() > now {
            return;
        }
        assert!(began.elapsed() < FILE_CLOCK_TIME_MAX);
        thread::sleep(Duration::from_millis(1));
    }
}

/// A thread that swaps two names as fast as it can until it is dropped.
pub(super) struct NameSwapper {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl NameSwapper {
    pub(super) fn start(first: PathBuf, second: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !is_stopped.load(Ordering::Relaxed) {
                let _raced = renameat_with(CWD, &first, CWD, &second, RenameFlags::EXCHANGE);
            }
        });
        let thread = Some(thread);
        Self { stop, thread }
    }
}

impl Drop for NameSwapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
