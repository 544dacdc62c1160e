//! Traces of a fixture on the machine: processes, mounts, control groups and files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::chaos::fixture::ChaosFixture;
use crate::waiting::wait_until;

/// Timeout of everything; what takes longer never happens.
const WAIT_TIME_MAX: Duration = Duration::from_mins(2);

/// A process, as described in `/proc`.
pub(super) struct Process {
    pub(super) number: i32,
    pub(super) parent: i32,
    words: String,
}

/// Returns the processes of a fixture: those that its mark shows, and their descendants. A user without
/// rights cannot read the environment and the working directory of a process in a sandbox.
pub(super) fn processes(fixture: &ChaosFixture) -> Vec<Process> {
    let mark = fixture.mark();
    let (mut found, mut others): (Vec<Process>, Vec<Process>) = each_process()
        .filter_map(|dir| process(&dir))
        .partition(|process| process.has_mark(&mark));
    loop {
        let is_child = |process: &mut Process| {
            let mut all = found.iter();
            all.any(|parent| parent.number == process.parent)
        };
        let children: Vec<Process> = others.extract_if(.., is_child).collect();
        if children.is_empty() {
            found.sort_by_key(|process| process.number);
            return found;
        }
        found.extend(children);
    }
}

fn each_process() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let is_number = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    };
    entries.map(|entry| entry.path()).filter(is_number)
}

/// Returns the process unless it has ended.
fn process(dir: &Path) -> Option<Process> {
    let stat = fs::read_to_string(dir.join("stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let number = dir.file_name()?.to_str()?.parse().ok()?;
    (state != "Z").then(|| Process {
        number,
        parent,
        words: text(&dir.join("cmdline")),
    })
}

/// Returns words that the kernel separates by zero bytes; empty for a process that has ended meanwhile.
fn text(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

impl Process {
    /// Returns whether `mark` is in its arguments, environment or working directory.
    fn has_mark(&self, mark: &str) -> bool {
        let dir = PathBuf::from(format!("/proc/{}", self.number));
        let is_in_scene = || {
            let working_dir = fs::read_link(dir.join("cwd")).unwrap_or_default();
            format!("{}/", working_dir.display()).contains(mark)
        };
        self.words.contains(mark) || text(&dir.join("environ")).contains(mark) || is_in_scene()
    }
}

/// Returns the mounts in any namespace of the machine that belong to a fixture.
fn mounts_of(fixture: &ChaosFixture) -> Vec<String> {
    let mark = fixture.mark();
    let mut seen = BTreeSet::new();
    let tables = each_process().filter_map(|dir| {
        // If the namespace is unknown, its table is read each time.
        let namespace = fs::read_link(dir.join("ns/mnt"));
        let is_new = namespace.map_or(true, |namespace| seen.insert(namespace));
        let table = is_new.then(|| fs::read_to_string(dir.join("mountinfo")));
        table?.ok()
    });
    let of_scene = |table: String| -> Vec<String> {
        let lines = table.lines().filter(|line| line.contains(&mark));
        lines.map(str::to_owned).collect()
    };
    tables.flat_map(of_scene).collect()
}

/// Returns the control groups of commands of a fixture.
fn control_groups(fixture: &ChaosFixture) -> Vec<PathBuf> {
    let started = fixture.started.lock().unwrap();
    let is_of_scene = |name: &str| {
        let owner = name
            .strip_prefix("massgen-")
            .and_then(|name| name.split('-').nth(1));
        owner.is_some_and(|owner| started.iter().any(|number| number.to_string() == owner))
    };
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name().to_str().is_some_and(is_of_scene) {
                found.push(entry.path());
            }
            open.push(entry.path());
        }
    }
    found
}

/// Waits until the kernel has ended all processes of a fixture and removed its mounts.
#[track_caller]
pub(super) fn await_end_of_all(fixture: &ChaosFixture) {
    let begun = Instant::now();
    loop {
        let mut left: Vec<String> = processes(fixture)
            .into_iter()
            .map(|process| process.words)
            .collect();
        if left.is_empty() {
            left = mounts_of(fixture);
        }
        if left.is_empty() {
            return;
        }
        assert!(
            begun.elapsed() < WAIT_TIME_MAX,
            "level {}: {left:#?}",
            fixture.level
        );
        thread::sleep(Duration::from_millis(10));
    }
}

/// Checks that a run or call that ended by itself has left nothing, nor anything of earlier ones.
#[track_caller]
pub(super) fn check_nothing_left(fixture: &ChaosFixture) {
    await_end_of_all(fixture);
    // Another process may have got the number of one that has ended.
    wait_until("no control groups", WAIT_TIME_MAX, || {
        control_groups(fixture).is_empty()
    });
    for dir in ["tmp", "project/.massgen/sandboxes"] {
        assert_eq!(
            fixture.names(dir),
            Vec::<String>::new(),
            "{dir}, level {}",
            fixture.level
        );
    }
    let mark = fixture.name();
    for shared in ["/tmp", "/dev/shm"] {
        let left: Vec<String> = fixture.names(shared);
        let left = left
            .iter()
            .filter(|name| name.contains(&mark) && **name != mark);
        assert_eq!(left.count(), 0, "{shared}, level {}", fixture.level);
    }
    assert_eq!(
        temporary_files(fixture),
        Vec::<PathBuf>::new(),
        "level {}",
        fixture.level
    );
}

/// Returns the entries in the user's directories with names that massgen uses only temporarily.
fn temporary_files(fixture: &ChaosFixture) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = ["src", "ws"]
        .map(|name| fixture.path("project").join(name))
        .to_vec();
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name().to_str().unwrap().starts_with(".massgen-") {
                found.push(entry.path());
            } else if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
        }
    }
    found
}
