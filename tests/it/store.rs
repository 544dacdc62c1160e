//! Workspaces, snapshots and sessions on a real disk: what is stored, what is shared, and what is
//! never touched.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use massgen::id::{AgentId, AgentNumber, AnswerLabel};
use massgen::mentions::LookupResult;
use massgen::path::{AbsPath, RealPath};
use massgen::world::io::files;
use massgen::world::store;
use massgen::world::store::redact::Redactor;
use massgen::world::store::sessions::import::import;
use massgen::world::store::sessions::session::{FinishedTurn, LiveWorkspace, Session, TurnContext};
use massgen::world::store::snapshot::{AgentSnapshots, Snapshot};
use massgen::world::store::workspace::{self, RunWorkspace};
use rustix::fs::{CWD, Mode, RenameFlags, mkfifoat, renameat_with};
use tempfile::TempDir;

use crate::waiting::wait_until;

/// A workspace, a directory for its snapshots, and an outside directory that must not be touched.
struct SnapshotFixture {
    dir: TempDir,
    shared: AbsPath,
}

impl SnapshotFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("ws")).unwrap();
        fs::create_dir(dir.path().join("outside")).unwrap();
        fs::write(dir.path().join("outside/secret.txt"), "CANARY-OUTSIDE\n").unwrap();
        fs::write(dir.path().join("outside/victim.txt"), "original\n").unwrap();
        let shared = AbsPath::new(dir.path().join("temp/0a1b2c3d")).unwrap();
        workspace::make_new(&shared).unwrap();
        Self { dir, shared }
    }

    fn path(&self, rel: &str) -> PathBuf {
        self.dir.path().join(rel)
    }

    fn abs(&self, rel: &str) -> AbsPath {
        AbsPath::new(self.path(rel)).unwrap()
    }

    fn write(&self, rel: &str, content: &str) {
        fs::create_dir_all(self.path(rel).parent().unwrap()).unwrap();
        fs::write(self.path(rel), content).unwrap();
    }

    fn snapshots(&self) -> AgentSnapshots {
        let agent = AgentId::parse("gemini2.5flash").unwrap();
        AgentSnapshots::new(agent, self.shared.clone(), self.abs("snapshots"))
    }

    fn take(&self, snapshots: &mut AgentSnapshots, ordinal: u32) -> Option<Snapshot> {
        snapshots.take(&self.abs("ws"), label(ordinal)).unwrap()
    }

    /// Checks that the outside directory has not changed, and that none of it is in a snapshot.
    #[track_caller]
    fn assert_held(&self) {
        let outside = tree(&self.path("outside"));
        let expected = ["secret.txt = CANARY-OUTSIDE\n", "victim.txt = original\n"];
        assert_eq!(outside, expected);
        let copied = tree(&self.path("temp"));
        let leaked = copied.iter().find(|line| line.contains("CANARY"));
        assert_eq!(leaked, None);
    }
}

fn label(ordinal: u32) -> AnswerLabel {
    let agent = AgentNumber::from_index(0);
    AnswerLabel { agent, ordinal }
}

/// Returns every entry below `dir` as a line, sorted: content of files, targets of symlinks.
fn tree(dir: &Path) -> Vec<String> {
    fn collect(dir: &Path, root: &Path, lines: &mut Vec<String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            if kind.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                lines.push(format!("{name} -> {}", target.display()));
            } else if kind.is_dir() {
                lines.push(format!("{name}/"));
                collect(&path, root, lines);
            } else if kind.is_file() {
                let content = fs::read(&path).unwrap();
                lines.push(format!("{name} = {}", String::from_utf8_lossy(&content)));
            } else {
                lines.push(format!("{name} special"));
            }
        }
    }
    let mut lines = Vec::new();
    collect(dir, dir, &mut lines);
    lines.sort();
    lines
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Files that changed within the last tick of the kernel's clock are not shared yet.
fn let_the_clock_tick() {
    std::thread::sleep(Duration::from_millis(80));
}

#[test]
fn links_are_copied_as_links_and_never_followed() {
    let fixture = SnapshotFixture::new();
    fixture.write("ws/d/plain.txt", "plain");
    symlink(fixture.path("outside"), fixture.path("ws/d/l")).unwrap();
    symlink(fixture.path("outside/secret.txt"), fixture.path("ws/l")).unwrap();
    symlink(fixture.path("outside/secret.txt"), fixture.path("ws/d/f")).unwrap();
    symlink("nowhere", fixture.path("ws/dangling")).unwrap();
    symlink("..", fixture.path("ws/d/loop")).unwrap();

    let snapshot = fixture.take(&mut fixture.snapshots(), 1).unwrap();

    assert_eq!(tree(snapshot.path.as_path()), tree(&fixture.path("ws")));
    assert_eq!(snapshot.files, 1);
    fixture.assert_held();
}

#[test]
fn a_link_that_waits_at_the_destination_is_not_written_through() {
    let fixture = SnapshotFixture::new();
    fixture.write("ws/d/victim.txt", "pwn");
    let planted = fixture.shared.as_path().join("agent1.1");
    fs::create_dir(&planted).unwrap();
    symlink(fixture.path("outside"), planted.join("d")).unwrap();
    symlink(
        fixture.path("outside"),
        fixture.shared.as_path().join("agent1.2"),
    )
    .unwrap();

    let mut snapshots = fixture.snapshots();
    for ordinal in [1, 2] {
        let refused = snapshots.take(&fixture.abs("ws"), label(ordinal));
        let message = refused.unwrap_err().to_string();
        assert!(message.starts_with("cannot move into place"), "{message}");
    }
    fixture.assert_held();
    let control = fixture.take(&mut snapshots, 3).unwrap();
    assert_eq!(tree(control.path.as_path()), ["d/", "d/victim.txt = pwn"]);
}

#[test]
fn a_directory_that_is_swapped_for_a_link_does_not_lead_outside() {
    let fixture = SnapshotFixture::new();
    fixture.write("ws/d/secret.txt", "mine");
    fixture.write("ws/f", "mine");
    symlink(fixture.path("outside"), fixture.path("ws/d2")).unwrap();
    symlink(fixture.path("outside/secret.txt"), fixture.path("ws/f2")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for (left, right) in [("ws/d", "ws/d2"), ("ws/f", "ws/f2")] {
                    let (left, right) = (fixture.path(left), fixture.path(right));
                    renameat_with(CWD, &left, CWD, &right, RenameFlags::EXCHANGE).unwrap();
                }
            }
        });
        let mut snapshots = fixture.snapshots();
        for ordinal in 1..400 {
            // If all of it is swapped meanwhile, nothing can be copied, which is an error.
            drop(snapshots.take(&fixture.abs("ws"), label(ordinal)));
        }
        stop.store(true, Ordering::Relaxed);
    });
    fixture.assert_held();
}

#[test]
fn special_files_are_left_out_and_reported() {
    let fixture = SnapshotFixture::new();
    fixture.write("ws/a", "a");
    mkfifoat(CWD, fixture.path("ws/pipe"), Mode::RWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(fixture.path("ws/socket")).unwrap();

    let snapshot = fixture.take(&mut fixture.snapshots(), 1).unwrap();

    assert_eq!(tree(snapshot.path.as_path()), ["a = a"]);
    assert_eq!(snapshot.omissions, Vec::<String>::new());
    assert_eq!(snapshot.notes.len(), 1);
    assert!(snapshot.notes[0].starts_with("left 2 out of the copy"));
}

#[test]
fn holes_stay_holes() {
    let fixture = SnapshotFixture::new();
    let sparse = fs::File::create(fixture.path("ws/sparse")).unwrap();
    sparse.set_len(200 * 1024 * 1024 * 1024).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"data", 1024 * 1024 * 1024).unwrap();

    let snapshot = fixture.take(&mut fixture.snapshots(), 1).unwrap();

    let copy = fs::metadata(snapshot.path.as_path().join("sparse")).unwrap();
    assert_eq!(copy.len(), 200 * 1024 * 1024 * 1024);
    assert!(copy.blocks() <= 1024, "{} blocks", copy.blocks());
    let mut read = [0; 4];
    let copied = fs::File::open(snapshot.path.as_path().join("sparse")).unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&copied, &mut read, 1024 * 1024 * 1024).unwrap();
    assert_eq!(&read, b"data");
}

#[test]
fn unchanged_files_are_stored_once_and_never_shared_with_the_workspace() {
    let fixture = SnapshotFixture::new();
    fixture.write("ws/same/a.txt", "same");
    fixture.write("ws/b.txt", "before");
    let_the_clock_tick();
    let mut snapshots = fixture.snapshots();
    let first = fixture.take(&mut snapshots, 1).unwrap();
    assert_eq!((first.files, first.reused), (2, 0));
    let_the_clock_tick();
    fs::write(fixture.path("ws/b.txt"), "after!").unwrap();
    let second = fixture.take(&mut snapshots, 2).unwrap();
    assert_eq!((second.files, second.reused), (2, 1));

    let (first, second) = (first.path.as_path(), second.path.as_path());
    let same = Path::new("same/a.txt");
    assert_eq!(inode(&first.join(same)), inode(&second.join(same)));
    assert_ne!(
        inode(&second.join(same)),
        inode(&fixture.path("ws/same/a.txt"))
    );
    assert_eq!(fs::read(first.join("b.txt")).unwrap(), b"before");
    assert_eq!(fs::read(second.join("b.txt")).unwrap(), b"after!");
}

#[test]
fn a_change_of_the_same_length_in_the_same_tick_is_seen() {
    let fixture = SnapshotFixture::new();
    let mut snapshots = fixture.snapshots();
    for round in 1..200 {
        let content = format!("{round:04}");
        fs::write(fixture.path("ws/a"), &content).unwrap();
        let snapshot = fixture.take(&mut snapshots, round).unwrap();
        let copied = fs::read_to_string(snapshot.path.as_path().join("a")).unwrap();
        assert_eq!(copied, content);
    }
}

#[test]
fn a_snapshot_that_the_user_removed_is_not_missed() {
    let fixture = SnapshotFixture::new();
    fixture.write("ws/a.txt", "same");
    let_the_clock_tick();
    let mut snapshots = fixture.snapshots();
    let first = fixture.take(&mut snapshots, 1).unwrap();
    fs::remove_dir_all(first.path.as_path()).unwrap();
    let second = fixture.take(&mut snapshots, 2).unwrap();
    assert_eq!((second.files, second.reused), (1, 0));
}

#[test]
fn files_of_a_snapshot_cannot_be_written_but_the_user_can_remove_it() {
    let fixture = SnapshotFixture::new();
    fixture.write("ws/d/run.sh", "#!/bin/sh");
    fs::set_permissions(
        fixture.path("ws/d/run.sh"),
        PermissionsExt::from_mode(0o4755),
    )
    .unwrap();
    let modified = fs::metadata(fixture.path("ws/d/run.sh"))
        .unwrap()
        .mtime_nsec();

    let snapshot = fixture.take(&mut fixture.snapshots(), 1).unwrap();

    let copy = snapshot.path.as_path().join("d/run.sh");
    assert_eq!(mode(&copy), 0o555);
    assert_eq!(fs::metadata(&copy).unwrap().mtime_nsec(), modified);
    assert_eq!(mode(&snapshot.path.as_path().join("d")), 0o700);
    assert_eq!(mode(&fixture.path("ws/d/run.sh")), 0o4755);
}

#[test]
fn the_agents_name_leads_to_its_newest_snapshot() {
    let fixture = SnapshotFixture::new();
    fixture.write("ws/a", "1");
    let mut snapshots = fixture.snapshots();
    for ordinal in [1, 2] {
        let snapshot = fixture.take(&mut snapshots, ordinal).unwrap();
        let link = fixture.path("snapshots/gemini2.5flash");
        assert!(fs::read_link(&link).unwrap().is_relative());
        assert_eq!(fs::canonicalize(&link).unwrap(), snapshot.path.as_path());
        assert_eq!(snapshot.notes, [""; 0]);
    }
}

#[test]
fn a_directory_of_the_users_under_the_agents_name_stays() {
    let fixture = SnapshotFixture::new();
    fixture.write("ws/a", "1");
    fixture.write("snapshots/gemini2.5flash/theirs.txt", "theirs");

    let snapshot = fixture.take(&mut fixture.snapshots(), 1).unwrap();

    assert_eq!(tree(snapshot.path.as_path()), ["a = 1"]);
    assert!(snapshot.notes[0].contains("is not a symlink created by massgen"));
    let theirs = fixture.path("snapshots/gemini2.5flash");
    assert_eq!(tree(&theirs), ["theirs.txt = theirs"]);
}

#[test]
fn massgens_own_state_inside_a_workspace_is_left_out() {
    let fixture = SnapshotFixture::new();
    fixture.write("ws/a", "1");
    fixture.write("ws/.massgen/sessions/x", "state");
    fixture.write("ws/deep/.massgen/x", "state");
    fixture.write("ws/.massgenrc", "theirs");
    let shared = fixture.abs("ws/deep/temp/run");
    workspace::make_new(&shared).unwrap();
    let agent = AgentId::parse("a").unwrap();
    let mut snapshots = AgentSnapshots::new(agent, shared, fixture.abs("ws/deep/snapshots"));
    for ordinal in [1, 2] {
        let snapshot = fixture.take(&mut snapshots, ordinal).unwrap();
        let expected = [".massgenrc = theirs", "a = 1", "deep/", "deep/temp/"];
        assert_eq!(tree(snapshot.path.as_path()), expected);
    }
}

#[test]
fn a_workspace_without_files_has_no_snapshot() {
    let fixture = SnapshotFixture::new();
    fs::create_dir(fixture.path("ws/empty")).unwrap();
    let mut snapshots = fixture.snapshots();
    assert!(fixture.take(&mut snapshots, 1).is_none());
    assert_eq!(tree(fixture.shared.as_path()), [""; 0]);
    fixture.write("ws/empty/a", "1");
    assert!(fixture.take(&mut snapshots, 1).is_some());
}

#[test]
fn a_tree_that_is_too_deep_is_refused_and_leaves_nothing() {
    let fixture = SnapshotFixture::new();
    let deep = |depth: usize| format!("ws/{}file", "d/".repeat(depth));
    fixture.write(&deep(64), "control");
    let mut snapshots = fixture.snapshots();
    assert!(fixture.take(&mut snapshots, 1).is_some());
    fixture.write(&deep(65), "too deep");
    let refused = snapshots.take(&fixture.abs("ws"), label(2)).unwrap_err();
    let expected = format!(
        "`{}` is too large to be copied: it has more than 64 directories in each other",
        fixture.path("ws").display()
    );
    assert_eq!(refused.to_string(), expected);
    assert_eq!(fs::read_dir(fixture.path("temp")).unwrap().count(), 1);
}

#[test]
fn names_that_are_no_text_are_copied() {
    let fixture = SnapshotFixture::new();
    let name = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    fs::write(fixture.path("ws").join(name), "x").unwrap();
    let snapshot = fixture.take(&mut fixture.snapshots(), 1).unwrap();
    assert_eq!(fs::read(snapshot.path.as_path().join(name)).unwrap(), b"x");
}

#[test]
fn a_users_directory_is_used_as_it_is_by_one_at_a_time() {
    let fixture = SnapshotFixture::new();
    fixture.write("ws/theirs.txt", "theirs");
    let before = tree(&fixture.path("ws"));
    let first = RunWorkspace::lock(&fixture.abs("ws")).unwrap();
    let second = RunWorkspace::lock(&fixture.abs("ws")).unwrap_err();
    let expected = format!(
        "workspace `{}` is in use by another agent or another run",
        fixture.path("ws").display()
    );
    assert_eq!(second.to_string(), expected);
    drop(first);
    // Until a process that another test starts has replaced its image, it has the lock too.
    wait_until("the workspace is free", Duration::from_mins(2), || {
        RunWorkspace::lock(&fixture.abs("ws")).is_ok()
    });
    assert_eq!(tree(&fixture.path("ws")), before);
    RunWorkspace::lock(&fixture.abs("new/cwd")).unwrap();
    assert_eq!(tree(&fixture.path("new/cwd")), [""; 0]);
}

#[test]
fn runs_at_the_same_time_never_share_a_directory() {
    let fixture = SnapshotFixture::new();
    let planned = fixture.abs("state/workspaces/team/w1_0a1b2c3d");
    let (sessions, workspaces): (Vec<PathBuf>, Vec<bool>) = std::thread::scope(|scope| {
        let begin = || {
            let sessions = fixture.abs("state/sessions");
            let session = Session::begin(&sessions, Redactor::default()).unwrap();
            let made = RunWorkspace::make(&planned, None).is_ok();
            (session.dir().as_path().to_owned(), made)
        };
        let runs: Vec<_> = (0..16).map(|_| scope.spawn(begin)).collect();
        runs.into_iter().map(|run| run.join().unwrap()).unzip()
    });
    let mut distinct = sessions.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 16);
    assert!(sessions.iter().all(|dir| mode(dir) == 0o700));
    let winners = workspaces.iter().filter(|made| **made).count();
    assert_eq!(winners, 1, "a name belongs to one run");
}

#[test]
fn the_next_turn_begins_with_files_that_can_be_changed() {
    let fixture = SnapshotFixture::new();
    fixture.write("ws/src/a.txt", "one");
    symlink("src", fixture.path("ws/link")).unwrap();
    let snapshot = fixture.take(&mut fixture.snapshots(), 1).unwrap();
    let next = RunWorkspace::make(&fixture.abs("state/w1"), Some(&snapshot.path)).unwrap();
    assert_eq!(tree(next.path().as_path()), tree(&fixture.path("ws")));
    let file = next.path().as_path().join("src/a.txt");
    assert_eq!(mode(&file) & 0o600, 0o600);
    fs::write(&file, "two").unwrap();
    let snapshot_text = fs::read_to_string(snapshot.path.as_path().join("src/a.txt")).unwrap();
    assert_eq!(snapshot_text, "one");
}

fn turn_context() -> TurnContext {
    TurnContext {
        cwd: AbsPath::new("/p").unwrap(),
        config: None,
        opened: Vec::new(),
    }
}

fn finished_turn<'a>(
    answer: &'a str,
    (winner, turn_context): (&'a AgentId, &'a TurnContext),
    live: Option<LiveWorkspace<'a>>,
) -> FinishedTurn<'a> {
    FinishedTurn {
        turn_context,
        log_dir: &turn_context.cwd,
        task: "write a.txt",
        winner,
        answer,
        workspace: live,
    }
}

#[test]
fn a_turn_is_saved_with_its_workspace_and_its_conflicts() {
    let fixture = SnapshotFixture::new();
    fixture.write("ws/a.txt", "one");
    let mut snapshots = fixture.snapshots();
    let_the_clock_tick();
    let snapshot = fixture.take(&mut snapshots, 1).unwrap();
    fixture.write("ws/b.txt", "later");
    let sessions = fixture.abs("sessions");
    let mut session = Session::begin(&sessions, Redactor::default()).unwrap();
    let conflict = session
        .create_conflicts_dir()
        .unwrap()
        .as_path()
        .join("README.md");
    fs::write(&conflict, "our version").unwrap();
    let workspace = fixture.abs("ws");
    let answer = format!("see {workspace}/a.txt");
    let winner = AgentId::parse("a").unwrap();
    let live = LiveWorkspace {
        path: &workspace,
        snapshots: &snapshots,
    };

    let saved = session
        .save_turn(&finished_turn(
            &answer,
            (&winner, &turn_context()),
            Some(live),
        ))
        .unwrap();

    let dir = saved.dir.as_path();
    let moved = fs::read_to_string(dir.join("answer.txt")).unwrap();
    assert_eq!(moved, format!("see {}/workspace/a.txt", dir.display()));
    let expected = ["a.txt = one", "b.txt = later"];
    assert_eq!(tree(&dir.join("workspace")), expected);
    let stored = snapshot.path.as_path().join("a.txt");
    assert_eq!(inode(&dir.join("workspace/a.txt")), inode(&stored));
    assert_eq!(fs::read_to_string(&conflict).unwrap(), "our version");
    let metadata = fs::read_to_string(dir.join("metadata.json")).unwrap();
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    assert_eq!(metadata["session_id"], session.id());
    assert_eq!(metadata["winning_agent"], "a");
    let summary = session.dir().as_path().join("SESSION_SUMMARY.txt");
    let summary = fs::read_to_string(summary).unwrap();
    assert!(summary.contains("Task: write a.txt"), "{summary}");
    session.end();
    assert!(dir.is_dir());
}

#[test]
fn a_turn_that_cannot_be_saved_whole_leaves_nothing() {
    let fixture = SnapshotFixture::new();
    let sessions = fixture.abs("sessions");
    let mut session = Session::begin(&sessions, Redactor::default()).unwrap();
    let snapshots = fixture.snapshots();
    let missing = fixture.abs("missing");
    let live = LiveWorkspace {
        path: &missing,
        snapshots: &snapshots,
    };
    let winner = AgentId::parse("a").unwrap();
    let saved = session.save_turn(&finished_turn(
        "done",
        (&winner, &turn_context()),
        Some(live),
    ));
    assert!(saved.unwrap_err().to_string().contains("missing"));
    assert_eq!(tree(session.dir().as_path()), [""; 0]);
    session.end();
    assert_eq!(tree(sessions.as_path()), [""; 0]);
}

#[test]
fn the_state_directory_is_private_and_hides_itself_from_git() {
    let fixture = SnapshotFixture::new();
    let state = fixture.abs("project/.massgen");
    store::prepare_state_dir(&state, &[]).unwrap();
    assert_eq!(tree(state.as_path()), [".gitignore = *\n"]);
    assert_eq!(mode(state.as_path()), 0o700);
    fs::remove_file(state.as_path().join(".gitignore")).unwrap();
    store::prepare_state_dir(&state, &[]).unwrap();
    assert_eq!(tree(state.as_path()), [""; 0]);
}

#[test]
fn the_target_of_a_path_is_reported() {
    let fixture = SnapshotFixture::new();
    symlink("nowhere", fixture.path("dangling")).unwrap();
    symlink("loop", fixture.path("loop")).unwrap();
    symlink("outside/victim.txt", fixture.path("link")).unwrap();
    let check = |path: &str, expected: LookupResult| {
        assert_eq!(files::inspect(&fixture.abs(path)), expected, "{path}");
    };
    check("outside", LookupResult::Directory);
    check("outside/victim.txt", LookupResult::File);
    check("link", LookupResult::File);
    check("dangling", LookupResult::Missing);
    check("outside/victim.txt/x", LookupResult::Missing);
    check("loop", LookupResult::Unreadable);
    check("/dev/null", LookupResult::Unreadable);
}

#[test]
fn files_are_read_up_to_their_limit() {
    let fixture = SnapshotFixture::new();
    let victim = fixture.abs("outside/victim.txt");
    let read = files::read_capped(&victim, 9).unwrap();
    assert_eq!(read.as_deref(), Some("original\n".as_bytes()));
    let refused = files::read_capped(&victim, 8).unwrap_err();
    assert_eq!(refused.to_string(), format!("cannot read `{victim}`"));
    assert_eq!(refused.hints(), ["expected a file of at most 8 bytes"]);
    assert!(files::read_capped(&fixture.abs("x"), 8).unwrap().is_none());
    let directory = files::read_capped(&fixture.abs("ws"), 8).unwrap_err();
    assert_eq!(directory.hints(), ["expected a file"]);
}

#[test]
fn the_output_file_replaces_a_file_but_no_link_and_no_device() {
    let fixture = SnapshotFixture::new();
    let written = |rel: &str| fs::read_to_string(fixture.path(rel)).unwrap();
    files::write_output_file(&fixture.abs("new.md"), "one").unwrap();
    assert_eq!(written("new.md"), "one");
    fs::set_permissions(fixture.path("new.md"), PermissionsExt::from_mode(0o640)).unwrap();
    symlink("new.md", fixture.path("link.md")).unwrap();
    files::write_output_file(&fixture.abs("link.md"), "two").unwrap();
    assert_eq!(written("new.md"), "two");
    assert_eq!(mode(&fixture.path("new.md")), 0o640);
    symlink("later.md", fixture.path("dangling.md")).unwrap();
    files::write_output_file(&fixture.abs("dangling.md"), "three").unwrap();
    assert_eq!(written("later.md"), "three");
    files::write_output_file(&fixture.abs("/dev/null"), "four").unwrap();
    assert!(!Path::new("/dev/null").is_file());
    let refused = files::write_output_file(&fixture.abs("no/dir.md"), "five").unwrap_err();
    assert_eq!(refused.hints(), ["check that the directory exists"]);
}

#[test]
fn a_named_pipe_is_refused_instead_of_waited_for() {
    let fixture = SnapshotFixture::new();
    mkfifoat(CWD, fixture.path("pipe"), Mode::RWXU).unwrap();
    let pipe = fixture.abs("pipe");
    symlink("pipe", fixture.path("link")).unwrap();
    for refused in [
        files::expect_output_file(&pipe).unwrap_err(),
        files::expect_output_file(&fixture.abs("link")).unwrap_err(),
        files::write_output_file(&pipe, "answer").unwrap_err(),
        files::read_secret(&pipe, 64).unwrap_err(),
        import(&pipe, &fixture.abs("sessions")).unwrap_err(),
    ] {
        let message = format!("{refused:#}");
        assert!(message.contains("it is a named pipe"), "{message}");
        assert!(!refused.hints().is_empty(), "{message}");
    }
    // A pipe that the process was given is written to.
    let (mut reader, writer) = std::io::pipe().unwrap();
    let own = fixture.abs(&format!("/dev/fd/{}", writer.as_raw_fd()));
    files::expect_output_file(&own).unwrap();
    files::write_output_file(&own, "answer").unwrap();
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "answer");
}

#[test]
fn real_paths_of_snapshots_cross_no_link() {
    let fixture = SnapshotFixture::new();
    fixture.write("ws/a", "1");
    symlink(fixture.path("temp"), fixture.path("temp_link")).unwrap();
    let run = fixture.shared.as_path().file_name().unwrap();
    let shared = fixture.abs("temp_link").join(run);
    let agent = AgentId::parse("a").unwrap();
    let mut snapshots = AgentSnapshots::new(agent, shared, fixture.abs("snapshots"));
    let snapshot = fixture.take(&mut snapshots, 1).unwrap();
    let real = fs::canonicalize(fixture.shared.as_path()).unwrap();
    assert_eq!(snapshot.path, RealPath::vouch(real.join("agent1.1")));
}
