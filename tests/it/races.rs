//! Races: a directory is exchanged with a symlink to elsewhere while a call runs; nothing outside
//! is ever read or changed. Each race continues until calls have both succeeded and failed, so that
//! it cannot pass without racing.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use massgen::permissions::grant::Phase;
use massgen::world::exec::tool_result::ActionOutcome;
use rustix::fs::{CWD, Mode, OFlags, openat};
use serde_json::{Value, json};

use crate::disk::{Disk, NameExchange, call_tool};

/// Minimum duration of each race.
const RACE_TIME: Duration = Duration::from_millis(500);

/// Timeout until calls have both succeeded and failed.
const RACE_TIME_MAX: Duration = Duration::from_mins(2);

/// The two sides of a race.
struct RaceSides {
    /// The disk; `ws/d` and the symlink `ws/x` to `outside` are exchanged on it.
    disk: Disk,
    /// The directory that was initially `ws/d`, wherever it is now.
    inside: PathBuf,
}

impl RaceSides {
    /// Creates a file in the inside directory, where the call will look for it.
    fn make(&self, path: &str, text: &str) {
        let path = self.inside.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Repeats a call. `prepare` creates what each call consumes, and `escaped` returns whether the
/// answer or the workspace contains anything from outside.
#[track_caller]
fn race(
    tool: &str,
    arguments: &Value,
    prepare: impl Fn(&RaceSides),
    escaped: impl Fn(&RaceSides, &str) -> bool,
) {
    let disk = Disk::new();
    disk.file("ws/d/victim.txt", "inside\n");
    disk.file("outside/deep/victim.txt", "CANARY\n");
    disk.link("ws/x", "$ROOT/outside");
    let before = disk.state("outside");
    let gate = disk.gate(Phase::Coordination);
    let handle = openat(CWD, disk.path("ws/d"), OFlags::PATH, Mode::empty()).unwrap();
    let inside = Path::new("/proc/self/fd").join(handle.as_raw_fd().to_string());
    let sides = RaceSides { disk, inside };
    let (mut successes, mut failures) = (0, 0);
    let exchange = NameExchange::of(sides.disk.path("ws/d"), sides.disk.path("ws/x"));
    let began = Instant::now();
    while began.elapsed() < RACE_TIME || successes == 0 || failures == 0 {
        assert!(
            began.elapsed() < RACE_TIME_MAX,
            "{tool} succeeded {successes} times and failed {failures} times"
        );
        prepare(&sides);
        let answer = match call_tool(&gate, tool, arguments) {
            Ok(observation) if observation.outcome == ActionOutcome::Done => {
                successes += 1;
                observation.content
            }
            Ok(observation) => {
                failures += 1;
                observation.content
            }
            Err(denial) => {
                failures += 1;
                denial.to_string()
            }
        };
        assert!(!escaped(&sides, &answer), "{tool} escaped: {answer}");
    }
    drop(exchange);
    assert_eq!(sides.disk.state("outside"), before, "{tool}");
}

fn prepare_nothing(_: &RaceSides) {}

fn is_shown(_: &RaceSides, answer: &str) -> bool {
    answer.contains("original") || answer.contains("CANARY")
}

/// Returns whether a file of the workspace contains what only files outside contain.
fn is_copied(sides: &RaceSides, path: &str) -> bool {
    let copy = sides.disk.state(path);
    let texts = copy.values();
    texts
        .into_iter()
        .any(|text| text.contains("CANARY") || text.contains("original"))
}

fn remove_file(sides: &RaceSides, path: &str) {
    let path = sides.disk.path(path);
    let _missing = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
}

#[test]
fn reads_in_a_race_stay_inside() {
    race(
        "read_text_file",
        &json!({"path": "d/victim.txt"}),
        prepare_nothing,
        is_shown,
    );
    let grep = json!({"path": "d", "pattern": "."});
    race("grep_files", &grep, prepare_nothing, is_shown);
}

#[test]
fn listings_in_a_race_stay_inside() {
    race(
        "list_directory",
        &json!({"path": "d"}),
        prepare_nothing,
        |_, answer| answer.contains("secret"),
    );
}

#[test]
fn writes_in_a_race_stay_inside() {
    let old = json!({"path": "d/victim.txt", "content": "pwned"});
    race("write_file", &old, prepare_nothing, is_shown);
    let new = json!({"path": "d/new/file.txt", "content": "pwned"});
    race("write_file", &new, prepare_nothing, is_shown);
    let edits = json!([{"oldText": "inside", "newText": "inside"}]);
    let edit = json!({"path": "d/victim.txt", "edits": edits});
    race("edit_file", &edit, prepare_nothing, is_shown);
}

#[test]
fn deletes_in_a_race_stay_inside() {
    let prepare = |sides: &RaceSides| sides.make("deep/victim.txt", "inside\n");
    let file = json!({"path": "d/deep/victim.txt"});
    race("delete_file", &file, prepare, is_shown);
    let tree = json!({"path": "d/deep"});
    race("delete_file", &tree, prepare, is_shown);
    let batch = json!({"base_path": "d"});
    race("delete_files_batch", &batch, prepare, is_shown);
}

#[test]
fn copies_in_a_race_stay_inside() {
    let prepare = |sides: &RaceSides| remove_file(sides, "ws/copy");
    let arguments = json!({"source_path": "d", "destination_path": "copy"});
    race("copy_file", &arguments, prepare, |sides, _| {
        is_copied(sides, "ws/copy")
    });
    let prepare = |sides: &RaceSides| sides.disk.file("ws/from/deep/new.txt", "pwned");
    let arguments = json!({
        "source_path": "from", "destination_path": "d/to", "overwrite": true,
    });
    race("copy_file", &arguments, prepare, is_shown);
}

#[test]
fn moves_in_a_race_stay_inside() {
    let prepare = |sides: &RaceSides| {
        sides.disk.file("ws/a", "pwned");
        let _missing = fs::remove_file(sides.inside.join("b"));
    };
    let into = json!({"source": "a", "destination": "d/b"});
    race("move_file", &into, prepare, is_shown);
    let prepare = |sides: &RaceSides| {
        sides.make("victim.txt", "inside\n");
        remove_file(sides, "ws/taken");
    };
    let out = json!({"source": "d/victim.txt", "destination": "taken"});
    race("move_file", &out, prepare, |sides, _| {
        is_copied(sides, "ws/taken")
    });
}
