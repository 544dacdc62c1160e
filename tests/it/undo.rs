//! `massgen apply`, `undo` and `diff` as a user runs them: on other file systems, on full and
//! read-only disks, on a terminal, and killed at any moment.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Instant, SystemTime};

use massgen::delivery::choice::DeliveryChoice;
use massgen::world::delivery::planning::plan;
use massgen::world::delivery::store::DeliverySource;
use massgen::world::delivery::transaction::{SelectionOrigin, apply, select_hunks};
use massgen::world::delivery::undo::{ChangedFilePolicy, UndoDirection};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::delivery::{DeliveryFixture, EVERYTHING, last_of_two_hunks, numbered_lines};
use crate::project::{FinishedCommand, Project, binary};
use crate::repetition::repetitions;
use crate::runs::{WRITE_HERE, build_replies};
use crate::scripted_team::{FINAL, agent, answer_replies, team};
use crate::terminal::{Terminal, words};

/// Number of processes that are killed, unless `MASSGEN_TEST_KILLS` sets another one.
const KILLS: u32 = 10;
/// Number of random histories.
const HISTORIES: u32 = 12;

#[track_caller]
fn check(output: &Output, code: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(
        output.status.code(),
        Some(code),
        "--- stdout\n{out}\n--- stderr\n{err}"
    );
    (out, err)
}

/// Returns a fixture with a layer that `script` wrote, offered as a delivery.
fn offer_layer(script: &str) -> DeliveryFixture {
    let fixture = DeliveryFixture::new();
    fixture.run(script);
    drop(fixture.delivery());
    fixture
}

#[test]
fn a_delivery_is_shown_applied_and_undone_by_its_name() {
    let fixture = offer_layer("echo two >> README.md; echo n > new; rm run.sh; echo x > .env");
    let before = fixture.state("rw");
    let (out, err) = check(&fixture.massgen(&["diff"]).output().unwrap(), 0);
    assert_eq!(
        out,
        "diff --massgen a/rw/README.md b/rw/README.md\n--- a/rw/README.md\n+++ b/rw/README.md\n\
         @@ -1 +1,2 @@\n readme\n+two\n\
         diff --massgen a/rw/new b/rw/new\n--- /dev/null\n+++ b/rw/new\n@@ -0,0 +1 @@\n+n\n\
         diff --massgen a/rw/run.sh b/rw/run.sh\n--- a/rw/run.sh\n+++ /dev/null\n@@ -1 +0,0 @@\n-echo\n"
    );
    assert!(
        err.contains("`rw/.env` cannot be delivered: the name is protected"),
        "{err}"
    );
    let (out, _) = check(&fixture.massgen(&["diff", "--stat"]).output().unwrap(), 0);
    assert_eq!(
        out,
        "rw/README.md  +1 -0\nrw/new  +1 -0\nrw/run.sh  +0 -1\n3 files, 2 lines added, 1 removed\n"
    );
    let (out, err) = check(&fixture.massgen(&["apply"]).output().unwrap(), 4);
    assert!(err.contains("no terminal to review on"), "{err}");
    assert_eq!(
        out,
        "denied rw/.env: the name is protected\nchanged rw/README.md\ncreated rw/new\ndeleted rw/run.sh\n"
    );
    let (shown, _) = check(&fixture.massgen(&["diff", "--stat"]).output().unwrap(), 0);
    assert!(shown.starts_with("rw/README.md  +1 -0\n"), "{shown}");
    let (out, _) = check(&fixture.massgen(&["undo", "log"]).output().unwrap(), 0);
    assert_eq!(
        out,
        "undone rw/README.md\nundone rw/new: removed\nundone rw/run.sh\n"
    );
    assert_eq!(fixture.state("rw"), before);
    let (_, err) = check(&fixture.massgen(&["undo"]).output().unwrap(), 0);
    assert!(err.contains("is already undone"), "{err}");
    let (_, err) = check(&fixture.massgen(&["diff"]).output().unwrap(), 0);
    assert!(err.contains("these changes were undone"), "{err}");
    let (out, _) = check(&fixture.massgen(&["apply"]).output().unwrap(), 0);
    assert_eq!(
        out,
        "delivered again rw/README.md\ndelivered again rw/new\ndelivered again rw/run.sh: removed\n"
    );
    let (_, err) = check(&fixture.massgen(&["diff"]).output().unwrap(), 0);
    assert!(!err.contains("undone"), "{err}");
    let mut part = fixture.massgen(&["undo", "--path", "rw/new"]);
    check(&part.output().unwrap(), 0);
    let (_, err) = check(&fixture.massgen(&["diff"]).output().unwrap(), 0);
    assert!(err.contains("undone: 1 of these 3 changes"), "{err}");
}

#[test]
fn undo_changes_paths_outside_the_directory_only_if_they_are_named() {
    let fixture = offer_layer("echo ours > README.md");
    let mut command = fixture.massgen(&["apply", "--yes"]);
    check(&command.output().unwrap(), 0);
    fs::create_dir(fixture.path("other")).unwrap();
    fs::rename(fixture.path(".massgen"), fixture.path("other/.massgen")).unwrap();
    let massgen_elsewhere = |arguments: &[&str]| {
        let mut command = fixture.massgen(arguments);
        command.current_dir(fixture.path("other")).output().unwrap()
    };
    let (_, err) = check(&massgen_elsewhere(&["undo"]), 2);
    assert!(err.contains("is outside the current directory"), "{err}");
    assert_eq!(fixture.text("rw/README.md"), "ours\n");
    let named = fixture.path("rw").display().to_string();
    check(&massgen_elsewhere(&["undo", "--path", &named]), 0);
    assert_eq!(fixture.text("rw/README.md"), "readme\n");
}

#[test]
fn later_changes_are_reported_by_the_exit_status() {
    let fixture = offer_layer("echo ours > README.md; echo n > new");
    check(&fixture.massgen(&["apply", "--yes"]).output().unwrap(), 0);
    fixture.write("rw/README.md", "mine\n");
    let (out, err) = check(&fixture.massgen(&["undo"]).output().unwrap(), 4);
    assert_eq!(
        out,
        "left rw/README.md: it was changed since\nundone rw/new: removed\n"
    );
    assert!(err.contains("1 path not undone; `--force`"), "{err}");
    check(&fixture.massgen(&["undo", "--force"]).output().unwrap(), 0);
    assert_eq!(fixture.text("rw/README.md"), "readme\n");
}

/// Runs `script` with `rw` on its own disk of this size with the same files; `$MASSGEN` is the
/// binary.
fn on_own_disk(fixture: &DeliveryFixture, size: &str, script: &str) -> Output {
    let mount =
        "cp -a rw copy; mount -t tmpfs -o size=$SIZE tmpfs rw; cp -a copy/. rw/; rm -r copy";
    let mut command = std::process::Command::new("unshare");
    command
        .args(["-rm", "sh", "-ec", &format!("{mount}; {script}")])
        .current_dir(fixture.path(""))
        .env("MASSGEN", binary())
        .env("SIZE", size)
        .env("HOME", fixture.path(""));
    command.output().unwrap()
}

/// Prints a tree, with modes and times of files.
const LIST: &str = "find rw ! -path '*/.massgen-*' \\( -type d -printf '%P %m\\n' -o -printf '%P %m %T@ %l\\n' \\) | sort; \
    find rw -type f | sort | xargs sha256sum";

#[test]
fn a_tree_on_another_file_system_is_changed_and_restored_too() {
    let fixture = offer_layer(EVERYTHING);
    let script = format!(
        "list() {{ {LIST}; }}; list > before; $MASSGEN apply --yes >&2; list > after; \
         $MASSGEN undo >&2; list > undone; $MASSGEN apply >&2; list > again; \
         ls -A rw | grep -c massgen || true"
    );
    let (out, _) = check(&on_own_disk(&fixture, "8m", &script), 0);
    assert_eq!(out, "0\n");
    assert_ne!(fixture.text("before"), fixture.text("after"));
    assert_eq!(fixture.text("before"), fixture.text("undone"));
    assert_eq!(fixture.text("after"), fixture.text("again"));
}

#[test]
fn on_a_full_disk_nothing_is_changed() {
    let fixture =
        offer_layer("echo 2 > src/app.py; head -c 3000000 /dev/urandom > large; rm README.md");
    let script = format!(
        "list() {{ {LIST}; }}; list > before; set +e; $MASSGEN apply --yes; code=$?; list > after; exit $code"
    );
    let (_, err) = check(&on_own_disk(&fixture, "1m", &script), 3);
    assert!(
        err.contains("No space left on device") && err.contains("free some space"),
        "{err}"
    );
    assert_eq!(fixture.text("before"), fixture.text("after"));
    let (_, _) = check(&on_own_disk(&fixture, "8m", "$MASSGEN apply --yes"), 0);
}

#[test]
fn an_error_is_not_hidden_by_prepared_files_that_cannot_be_removed() {
    let fixture = offer_layer("head -c 3000000 /dev/urandom > large");
    // A directory on which something is mounted cannot be removed.
    let slots = ".massgen/deliveries/log_1/slots";
    let script = format!("mkdir {slots}; mount -t tmpfs tmpfs {slots}; $MASSGEN apply --yes");
    let (_, err) = check(&on_own_disk(&fixture, "1m", &script), 3);
    for expected in [
        "No space left on device",
        "free some space",
        "the prepared files could not be removed",
        "log_1/slots`",
    ] {
        assert!(err.contains(expected), "{expected}: {err}");
    }
    check(&on_own_disk(&fixture, "8m", "$MASSGEN apply --yes"), 0);
}

#[test]
fn on_a_read_only_disk_nothing_is_changed() {
    let fixture = offer_layer("echo 2 > src/app.py; rm README.md");
    let script = format!(
        "list() {{ {LIST}; }}; list > before; mount -o remount,bind,ro rw; set +e; \
         $MASSGEN apply --yes; code=$?; list > after; exit $code"
    );
    let (_, err) = check(&on_own_disk(&fixture, "8m", &script), 3);
    assert!(err.contains("read-only"), "{err}");
    assert_eq!(fixture.text("before"), fixture.text("after"));
}

/// Applies the delivery of `fixture` where no file may grow beyond `bytes`. Returns whether that succeeds,
/// and what massgen prints.
fn apply_within(fixture: &DeliveryFixture, bytes: u64) -> (bool, String) {
    let script = format!("trap '' XFSZ; exec prlimit --fsize={bytes} $MASSGEN apply --yes");
    let mut command = Command::new("sh");
    command
        .args(["-ec", &script])
        .current_dir(fixture.path(""))
        .env("MASSGEN", binary())
        .env("HOME", fixture.path(""));
    let output = command.output().unwrap();
    let is_applied = output.status.success();
    let (_, err) = check(&output, if is_applied { 0 } else { 3 });
    (is_applied, err)
}

/// What of a state is the same in all scenes.
fn tree_contents(fixture: &DeliveryFixture) -> Vec<String> {
    let state = fixture.state("rw").into_iter();
    let root = fixture.path("rw");
    let line = |(path, description): (std::path::PathBuf, String)| {
        let description: Vec<&str> = description.split(' ').collect();
        let content = description.last().copied().unwrap_or_default().to_owned();
        let rel = path.strip_prefix(&root).unwrap().display().to_string();
        format!("{rel} {} {content}", description[0])
    };
    state.map(line).collect()
}

#[test]
fn errors_about_a_rollback_say_what_the_next_start_does() {
    const NOTHING: &str = "nothing was changed: the changes so far were rolled back";
    const BACK: &str = "the next start of massgen does it";
    const FORWARD: &str = "the next start completes the delivery";
    /// Less than the shortest line of the journal, in bytes.
    const STEP: usize = 16;
    /// The same in the short suite.
    const STEP_SHORT: usize = 71;
    let script = "echo 2 > run.sh; echo 3 > src/app.py; rm README.md";
    let whole = offer_layer(script);
    let before = tree_contents(&whole);
    check(&whole.massgen(&["apply", "--yes"]).output().unwrap(), 0);
    let after = tree_contents(&whole);
    let mut outcomes = Vec::new();
    for bytes in (1..3000).step_by(repetitions(STEP_SHORT, STEP)) {
        let fixture = offer_layer(script);
        let (is_applied, err) = apply_within(&fixture, bytes);
        let now = tree_contents(&fixture);
        // Every command that looks at deliveries first settles what is open.
        check(&fixture.massgen(&["diff", "--stat"]).output().unwrap(), 0);
        let next = tree_contents(&fixture);
        let sentence = [NOTHING, BACK, FORWARD]
            .into_iter()
            .find(|sentence| err.contains(sentence));
        match sentence {
            None if is_applied => assert!(now == after && next == after, "{bytes}: {err}"),
            Some(FORWARD) => assert!(next == after, "{bytes}: {err}"),
            Some(BACK) => assert!(next == before, "{bytes}: {err}"),
            Some(_) | None => assert!(now == before && next == before, "{bytes}: {err}"),
        }
        if next == before {
            check(&fixture.massgen(&["apply", "--yes"]).output().unwrap(), 0);
            assert_eq!(tree_contents(&fixture), after, "{bytes}");
        }
        check(&fixture.massgen(&["undo"]).output().unwrap(), 0);
        assert_eq!(tree_contents(&fixture), before, "{bytes}");
        outcomes.push((is_applied, sentence));
    }
    // The control: the limit was met before the transaction, in it, and not at all.
    assert_eq!(outcomes.first(), Some(&(false, None)));
    assert!(outcomes.contains(&(false, Some(NOTHING))), "{outcomes:?}");
    assert_eq!(outcomes.last(), Some(&(true, None)));
}

/// Makes changes of all kinds at many names.
const MANY: &str = "for d in 1 2 3 4 5 6 7 8; do mkdir new$d; for f in 1 2 3 4 5 6 7 8 9; do \
    echo $f > new$d/$f; done; done; for f in many/*; do echo changed > $f; done; rm -r gone; rm README.md";

fn many_files() -> DeliveryFixture {
    let fixture = DeliveryFixture::new();
    for number in 0..60 {
        fixture.write(&format!("rw/many/{number}"), "old\n");
        fixture.write(&format!("rw/gone/{}/{number}", number % 7), "gone\n");
    }
    fixture.run(MANY);
    drop(fixture.delivery());
    fixture
}

#[test]
fn a_process_that_is_killed_leaves_all_of_a_delivery_or_nothing() {
    let kills = std::env::var("MASSGEN_TEST_KILLS")
        .ok()
        .and_then(|kills| kills.parse().ok());
    let kills: u32 = kills.unwrap_or(KILLS);
    let whole = many_files();
    let began = Instant::now();
    check(&whole.massgen(&["apply", "--yes"]).output().unwrap(), 0);
    let took = began.elapsed();
    let after = tree_contents(&whole);
    let mut whole_count = 0;
    for kill in 0..kills {
        let fixture = many_files();
        let before = tree_contents(&fixture);
        let mut command = fixture.massgen(&["apply", "--yes"]);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        sleep(took.mul_f64(f64::from(kill) / f64::from(kills)));
        child.kill().unwrap();
        child.wait().unwrap();
        check(&fixture.massgen(&["diff", "--stat"]).output().unwrap(), 0);
        let now = tree_contents(&fixture);
        assert!(now == before || now == after, "kill {kill} left a part");
        whole_count += u32::from(now == after);
        if now == before {
            check(&fixture.massgen(&["apply", "--yes"]).output().unwrap(), 0);
            assert_eq!(tree_contents(&fixture), after, "kill {kill}");
        }
        check(&fixture.massgen(&["undo"]).output().unwrap(), 0);
        assert_eq!(tree_contents(&fixture), before, "kill {kill}");
    }
    assert!(whole_count <= kills);
}

#[test]
fn any_history_of_commands_is_undone_byte_for_byte() {
    let name = prop_oneof![
        Just("a"),
        Just("b"),
        Just("b/c"),
        Just("src"),
        Just("src/app.py"),
        Just("plain/deep"),
        Just("plain/deep/one"),
        Just("link"),
        Just("bare")
    ];
    let action = prop_oneof![
        Just("echo $RANDOM$$ > N"),
        Just("rm -rf N"),
        Just("mkdir -p N"),
        Just("chmod 750 N"),
        Just("ln -sfn somewhere N"),
        Just("mv N moved"),
        Just("mv moved N"),
        Just("rm -rf N; mkdir N; echo i > N/inner"),
        Just("truncate -s 0 N"),
        Just("cp -r src N"),
    ];
    let history = prop::collection::vec((action, name), 1..12);
    let config = Config {
        cases: HISTORIES,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    let played = runner.run(&history, |history| {
        let fixture = DeliveryFixture::new();
        fs::create_dir(fixture.path("rw/bare")).unwrap();
        let before = fixture.state("rw");
        let lines = history
            .iter()
            .map(|(action, name)| format!("({}) 2>/dev/null || true", action.replace('N', name)));
        fixture.run(&lines.collect::<Vec<_>>().join("\n"));
        let seen: Vec<String> = fixture.deliver();
        prop_assert!(
            seen.iter().all(|line| !line.contains("denied")),
            "{:?}",
            seen
        );
        if fixture.has(".massgen/deliveries/log_1/journal.jsonl") {
            fixture
                .reopen()
                .undo_or_redo(UndoDirection::Undo, &[], ChangedFilePolicy::Kept)
                .unwrap();
        }
        prop_assert_eq!(fixture.state("rw"), before);
        Ok(())
    });
    played.unwrap();
}

/// Types `keys` on a terminal to `massgen` with these words. Returns what is shown, and the exit
/// status.
fn type_keys(fixture: &DeliveryFixture, arguments: &[&str], keys: &str) -> (String, u32) {
    let size = PtySize {
        rows: 40,
        cols: 100,
        pixel_width: 0,
        pixel_height: 0,
    };
    let pty = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(binary());
    command.args(arguments);
    command.cwd(fixture.path(""));
    command.env_clear();
    command.env("PATH", "/usr/bin:/bin");
    command.env("HOME", fixture.path(""));
    command.env("PAGER", "cat");
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let mut keyboard = pty.master.take_writer().unwrap();
    let mut screen = pty.master.try_clone_reader().unwrap();
    let mut shown = Vec::new();
    // Input before the first question is discarded.
    while !String::from_utf8_lossy(&shown).contains("[n]othing?") {
        let mut piece = [0; 1024];
        let count = screen.read(&mut piece).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&shown));
        shown.extend(piece.iter().take(count));
    }
    keyboard.write_all(keys.as_bytes()).unwrap();
    let _ended = screen.read_to_end(&mut shown);
    let status = child.wait().unwrap().exit_code();
    (String::from_utf8_lossy(&shown).into_owned(), status)
}

/// Returns a fixture with a long file that changes in two places, and two more files.
fn reviewed_delivery() -> (DeliveryFixture, String) {
    let fixture = DeliveryFixture::new();
    let lines = numbered_lines(30);
    fixture.write("rw/long", &lines);
    fixture.run("sed -i 's/^2$/two/; s/^28$/last/' long; mkdir d; echo 1 > d/1; rm run.sh");
    drop(fixture.delivery());
    (fixture, lines)
}

#[test]
fn files_and_hunks_are_chosen_on_a_terminal() {
    let (fixture, lines) = reviewed_delivery();
    // The files are listed by name: d/1, long, run.sh.
    let (shown, status) = type_keys(&fixture, &["apply"], "x\nc\ny\ns\nn\ny\nn\n");
    for line in [
        "Changes:",
        "d/1  +1",
        "long  +2",
        "run.sh  +0",
        "(2/2) apply this hunk of `long`?",
        "not applied",
    ] {
        assert!(
            shown
                .replace("\u{1b}[0m", "")
                .replace("\u{1b}[32m", "")
                .replace("\u{1b}[1m", "")
                .contains(line),
            "{line}\n{shown}"
        );
    }
    assert_eq!(status, 0, "{shown}");
    assert_eq!(fixture.text("rw/d/1"), "1\n");
    assert_eq!(fixture.text("rw/long"), lines.replace("\n28\n", "\nlast\n"));
    assert!(fixture.has("rw/run.sh"));
}

#[test]
fn all_or_nothing_is_taken_on_a_terminal() {
    let (fixture, lines) = reviewed_delivery();
    let (shown, status) = type_keys(&fixture, &["apply"], "d\nn\n");
    assert!(shown.contains("nothing was applied"), "{shown}");
    assert_eq!((status, fixture.text("rw/long")), (130, lines.clone()));
    let (shown, _) = type_keys(&fixture, &["apply"], "\u{4}");
    assert!(shown.contains("nothing was applied"), "{shown}");
    assert_eq!(fixture.text("rw/long"), lines);
    let (shown, status) = type_keys(&fixture, &["apply"], "a\n");
    assert_eq!(status, 0, "{shown}");
    assert!(!fixture.has("rw/run.sh") && fixture.has("rw/d/1"));
}

/// Returns a run that leaves two files in its workspace and may write to the project.
fn run_with(delivery: &str) -> Project {
    let last = "text: \"all done\"";
    let builds = build_replies("out.txt", "made by one", last);
    Project::new()
        .config(&team(
            &[agent("one", "cwd: w1", &builds)],
            &format!("{WRITE_HERE}{delivery}"),
        ))
        .file("keep.txt", "mine\n")
        .args(["build"])
}

/// Types `keys` to a run on a terminal.
fn run_typed(project: &Project, keys: &str) -> (String, u32) {
    let pty = native_pty_system().openpty(PtySize::default()).unwrap();
    let mut child = pty.slave.spawn_command(project.terminal_command()).unwrap();
    drop(pty.slave);
    let mut keyboard = pty.master.take_writer().unwrap();
    let mut screen = pty.master.try_clone_reader().unwrap();
    let (mut shown, mut piece) = (Vec::new(), [0; 4096]);
    let mut is_typed = false;
    // Linux reports the end of a terminal's last process as an error.
    while let Ok(count @ 1..) = screen.read(&mut piece) {
        shown.extend_from_slice(&piece[..count]);
        if !is_typed && String::from_utf8_lossy(&shown).contains("[n]othing?") {
            keyboard.write_all(keys.as_bytes()).unwrap();
            is_typed = true;
        }
    }
    let status = child.wait().unwrap().exit_code();
    (String::from_utf8_lossy(&shown).into_owned(), status)
}

#[test]
fn a_run_asks_before_it_delivers_and_keeps_what_is_not_taken() {
    let project = run_with("delivery: review");
    let (shown, status) = run_typed(&project, "n\n");
    assert!(
        shown.contains("0 files delivered, 1 not applied"),
        "{shown}"
    );
    assert!(shown.contains("apply it later: massgen apply"), "{shown}");
    assert_eq!(status, 0, "{shown}");
    assert!(!project.path("out.txt").exists());
    let applied = project.retyped(["apply", "--yes"]).success();
    assert_eq!(applied.stdout(), "created out.txt\n");
    let finished = applied.has_file("out.txt", "made by one");
    let undone = finished.then(["undo"]).success();
    assert_eq!(undone.stdout(), "undone out.txt: removed\n");
    undone.has_no("out.txt").has_file("keep.txt", "mine\n");
}

#[test]
fn a_run_that_is_stopped_during_its_review_says_that_nothing_was_delivered() {
    let project = run_with("delivery: review");
    let (shown, status) = run_typed(&project, "\u{3}");
    assert_eq!(status, 130, "{shown}");
    let plain = shown.replace('\r', "");
    let rows = plain.split_once("not delivered").unwrap().1;
    assert!(rows.contains("not applied"), "{shown}");
    assert!(!plain.contains("\ndelivered"), "{shown}");
    assert!(!project.path("out.txt").exists());
}

#[test]
fn a_run_delivers_what_is_taken_on_its_terminal() {
    let project = run_with("delivery: review");
    let (shown, status) = run_typed(&project, "a\n");
    assert_eq!(status, 0, "{shown}");
    assert!(shown.contains("1 file delivered"), "{shown}");
    assert!(shown.contains("undo: massgen undo"), "{shown}");
    assert_eq!(
        fs::read_to_string(project.path("out.txt")).unwrap(),
        "made by one"
    );
}

/// Expects that the list of runs gives this outcome of the only run.
#[track_caller]
fn check_listed(project: Project, outcome: &str) -> FinishedCommand {
    let listed = project.retyped(["logs", "list"]).success();
    let row = listed.stdout();
    assert!(row.contains(&format!("  {outcome}  ")), "{outcome}: {row}");
    listed
}

/// Returns a project whose agent changes `long.txt`, which has these lines, in two places.
fn two_changes_project(lines: &str) -> Project {
    let rewrites = format!(
        r#"
- when: {{system: "{FINAL}"}}
  calls:
    - {{name: read_text_file, arguments: {{path: "{{{{cwd}}}}/long.txt"}}}}
    - name: write_file
      arguments: {{path: "{{{{cwd}}}}/long.txt", content: {:?}}}
{}"#,
        lines
            .replace("\n2\n", "\ntwo\n")
            .replace("\n28\n", "\nlast\n"),
        answer_replies("yes", "agent1", 1).trim_start()
    );
    let config = team(
        &[agent("one", "cwd: w1", &rewrites)],
        &format!("{WRITE_HERE}delivery: review"),
    );
    Project::new()
        .config(&config)
        .file("long.txt", lines)
        .args(["build"])
}

#[test]
fn hunks_that_were_left_are_offered_after_an_undo_too() {
    let lines = numbered_lines(30);
    let last = lines.replace("\n28\n", "\nlast\n");
    let first = lines.replace("\n2\n", "\ntwo\n");
    let project = two_changes_project(&lines);
    let file = project.path("long.txt");
    let has = |text: &str| assert_eq!(fs::read_to_string(&file).unwrap(), text);
    let (shown, status) = run_typed(&project, "c\ns\nn\ny\n");
    assert_eq!(status, 0, "{shown}");
    assert!(shown.contains("; 1 file delivered in part"), "{shown}");
    has(&last);
    let undone = project.retyped(["undo"]).success();
    has(&lines);
    // The other hunk alone.
    let project = undone.then(["apply"]);
    let (shown, status) = run_typed(&project, "c\ns\ny\nn\n");
    assert_eq!(status, 0, "{shown}");
    assert!(shown.contains("long.txt: 1 of 2 hunks"), "{shown}");
    has(&first);
    let undone = check_listed(project, "partly applied")
        .then(["undo"])
        .success();
    has(&lines);
    // Without a choice, the file becomes as it was before the undo.
    let again = undone.then(["apply", "--yes"]).success();
    has(&first);
    let undone = again.then(["undo"]).success();
    has(&lines);
    let project = undone.then(["apply"]);
    let (shown, status) = run_typed(&project, "c\ny\n");
    assert_eq!(status, 0, "{shown}");
    has(&first.replace("\n28\n", "\nlast\n"));
    let show = |listed: FinishedCommand| listed.then(["logs", "show", "last"]).success();
    let shown = show(check_listed(project, "delivered"));
    assert!(!shown.stderr().contains("undone"), "{}", shown.stderr());
    let undone = shown.then(["undo"]).success();
    has(&lines);
    let shown = show(check_listed(undone.then([""]), "undone"));
    let note = "what was delivered has been undone since";
    assert!(shown.stderr().contains(note), "{}", shown.stderr());
}

#[test]
fn hunks_that_a_run_left_are_offered_by_apply_until_the_file_changes() {
    let lines = numbered_lines(30);
    let project = two_changes_project(&lines);
    let (shown, status) = run_typed(&project, "c\ns\nn\ny\n");
    assert_eq!(status, 0, "{shown}");
    assert!(words(&shown).contains("long.txt: 1 of 2 hunks"), "{shown}");
    assert!(
        words(&shown).contains("apply the rest: massgen apply"),
        "{shown}"
    );
    let partly = lines.replace("\n28\n", "\nlast\n");
    let whole = partly.replace("\n2\n", "\ntwo\n");
    let file = project.path("long.txt");
    let has = |text: &str| assert_eq!(fs::read_to_string(&file).unwrap(), text);
    has(&partly);
    let listed = check_listed(project, "partly applied");
    let applied = listed.then(["apply", "--yes"]).success();
    assert_eq!(applied.stdout(), "changed long.txt\n");
    has(&whole);
    // Both parts are one change.
    let applied = applied.then(["diff", "--stat"]).success();
    assert!(applied.stdout().starts_with("long.txt  +2 -2\n1 file,"));
    let listed = check_listed(applied.then([""]), "delivered");
    let undone = listed.then(["undo"]).success();
    assert_eq!(undone.stdout(), "undone long.txt\n");
    has(&lines);
    let listed = check_listed(undone.then([""]), "undone");
    let again = listed.then(["apply"]).success();
    assert_eq!(again.stdout(), "delivered again long.txt\n");
    has(&whole);
    // What was reverted is chosen by hunks too, and the rest is offered.
    let undone = again.then(["undo"]).success();
    let project = undone.then(["apply"]);
    let (shown, status) = run_typed(&project, "d\nc\ns\ny\nn\n");
    assert_eq!(status, 0, "{shown}");
    assert!(shown.contains("long.txt: 1 of 2 hunks"), "{shown}");
    has(&lines.replace("\n2\n", "\ntwo\n"));
    let listed = check_listed(project, "partly applied");
    let applied = listed.then(["apply", "--yes"]).success();
    assert_eq!(applied.stdout(), "changed long.txt\n");
    has(&whole);
    let undone = applied.then(["undo"]).success();
    assert_eq!(undone.stdout(), "undone long.txt\n");
    has(&lines);
    let again = undone.then(["apply"]).success();
    assert_eq!(again.stdout(), "delivered again long.txt\n");
    has(&whole);
}

#[test]
fn the_rest_of_a_file_that_was_delivered_as_a_whole_is_offered_at_once() {
    let lines: Vec<String> = (1..=30).map(|line: u32| line.to_string()).collect();
    let lines = lines.join("\n") + "\n";
    let project = two_changes_project(&lines);
    let (shown, status) = run_typed(&project, "a\n");
    assert_eq!(status, 0, "{shown}");
    assert!(!shown.contains("delivered in part"), "{shown}");
    let first = lines.replace("\n2\n", "\ntwo\n");
    let whole = first.replace("\n28\n", "\nlast\n");
    let file = project.path("long.txt");
    let has = |text: &str| assert_eq!(fs::read_to_string(&file).unwrap(), text);
    has(&whole);
    let undone = check_listed(project, "delivered").then(["undo"]).success();
    has(&lines);
    let project = undone.then(["apply"]);
    let (shown, status) = run_typed(&project, "c\ns\ny\nn\n");
    assert_eq!(status, 0, "{shown}");
    assert!(shown.contains("long.txt: 1 of 2 hunks"), "{shown}");
    has(&first);
    let listed = check_listed(project, "partly applied");
    let applied = listed.then(["apply", "--yes"]).success();
    assert_eq!(applied.stdout(), "changed long.txt\n");
    has(&whole);
    let nothing = applied.then(["apply", "--yes"]).success();
    assert!(
        nothing.stderr().contains("nothing to apply"),
        "{}",
        nothing.stderr()
    );
    let undone = check_listed(nothing.then([""]), "delivered")
        .then(["undo"])
        .success();
    has(&lines);
    // A file that is changed after some of its hunks were taken again is the user's.
    let project = undone.then(["apply"]);
    let (shown, status) = run_typed(&project, "c\ns\nn\ny\n");
    assert_eq!(status, 0, "{shown}");
    has(&lines.replace("\n28\n", "\nlast\n"));
    fs::write(&file, "mine\n").unwrap();
    let denied = project.retyped(["apply", "--yes"]).failure(4);
    assert_eq!(
        denied.stdout(),
        "denied long.txt: you changed it since the run began\n"
    );
    has("mine\n");
    fs::remove_file(&file).unwrap();
    let denied = denied.then(["apply", "--yes"]).failure(4);
    assert!(
        denied.stdout().starts_with("denied long.txt"),
        "{}",
        denied.stdout()
    );
    assert!(!file.exists());
}

#[test]
fn apply_on_a_terminal_asks_about_each_reverted_file() {
    let (fixture, lines) = reviewed_delivery();
    check(&fixture.massgen(&["apply", "--yes"]).output().unwrap(), 0);
    let whole = fixture.text("rw/long");
    check(&fixture.massgen(&["undo"]).output().unwrap(), 0);
    // The files are listed by name: d/1, long, run.sh.
    let (shown, status) = type_keys(&fixture, &["apply"], "c\nn\ns\nn\ny\nn\n");
    assert_eq!(status, 0, "{shown}");
    assert!(shown.contains("1 of 2 hunks"), "{shown}");
    assert_eq!(fixture.text("rw/long"), lines.replace("\n28\n", "\nlast\n"));
    assert!(fixture.has("rw/run.sh") && !fixture.has("rw/d"));
    let (shown, status) = type_keys(&fixture, &["apply"], "c\nd\n");
    assert!(shown.contains("nothing was applied"), "{shown}");
    assert_eq!(status, 130, "{shown}");
    let (shown, status) = type_keys(&fixture, &["apply"], "c\ny\ny\n");
    assert_eq!(status, 0, "{shown}");
    assert!(!fixture.has("rw/run.sh") && fixture.has("rw/d/1"));
    assert_ne!(fixture.text("rw/long"), whole);
    check(&fixture.massgen(&["undo"]).output().unwrap(), 0);
    assert_eq!(fixture.text("rw/long"), lines);
    assert!(fixture.has("rw/run.sh") && !fixture.has("rw/d"));
}

#[test]
fn the_rest_of_a_file_that_was_changed_since_is_not_offered() {
    let fixture = DeliveryFixture::new();
    let lines = numbered_lines(30);
    fixture.write("rw/long", &lines);
    fixture.run("sed -i 's/^2$/two/; s/^28$/last/' long");
    let source = DeliverySource {
        began_ns: 0,
        ..fixture.source()
    };
    drop(fixture.delivery());
    let delivery = fixture.reopen_delivery();
    delivery.write_source(&source).unwrap();
    let mut planned = plan(&delivery, &source, None).unwrap();
    let parts = BTreeMap::from([(0, last_of_two_hunks())]);
    let takes = vec![DeliveryChoice::Leave];
    let takes = select_hunks(&delivery, &mut planned, takes, &parts).unwrap();
    apply(&delivery, &planned, &takes, SelectionOrigin::Default, None).unwrap();
    drop(delivery);
    let mine = fixture.text("rw/long").replace("\n15\n", "\nmine\n");
    fixture.write("rw/long", &mine);
    let (out, _) = check(&fixture.massgen(&["apply", "--yes"]).output().unwrap(), 4);
    assert_eq!(out, "denied rw/long: you changed it since the run began\n");
    // A version of the user's that an undo replaced is not mistaken for massgen's either.
    check(&fixture.massgen(&["undo", "--force"]).output().unwrap(), 0);
    assert_eq!(fixture.text("rw/long"), lines);
    check(&fixture.massgen(&["apply"]).output().unwrap(), 0);
    assert_eq!(fixture.text("rw/long"), mine);
    check(&fixture.massgen(&["apply", "--yes"]).output().unwrap(), 4);
    assert_eq!(fixture.text("rw/long"), mine);
}

#[test]
fn an_interrupt_while_it_asks_applies_nothing() {
    let project = run_with("delivery: review");
    let (shown, status) = run_typed(&project, "\u{3}");
    assert_eq!(status, 130, "{shown}");
    assert!(shown.contains("were not delivered"), "{shown}");
    assert!(shown.contains("`massgen diff log_"), "{shown}");
    assert!(!project.path("out.txt").exists());
    project
        .retyped(["apply", "--yes"])
        .success()
        .has_file("out.txt", "made by one");
}

#[test]
fn what_a_review_skipped_is_applied_without_a_terminal_only_with_yes() {
    let project = run_with("delivery: review");
    let (shown, status) = run_typed(&project, "n\r");
    assert_eq!(status, 0, "{shown}");
    let refused = project
        .retyped(["apply", "last"])
        .failure(4)
        .has_no("out.txt");
    let message = "a review skipped these changes, and there is no terminal to ask on";
    assert!(refused.stderr().contains(message), "{}", refused.stderr());
    let applied = refused.then(["apply", "last", "--yes"]).success();
    let _delivered = applied.has_file("out.txt", "made by one");
}

#[test]
fn a_run_that_is_terminated_while_it_asks_applies_nothing_and_says_so() {
    let terminal = Terminal::open(run_with("delivery: review"), 80);
    terminal.wait_for_output("[n]othing?");
    let process = terminal.process().to_string();
    let sent = Command::new("kill").args(["-TERM", &process]).status();
    assert!(sent.unwrap().success());
    terminal.wait_for_output("the final agent's changes were not delivered");
    let project = terminal.wait_for_end(130);
    assert!(!project.path("out.txt").exists());
}

#[test]
fn a_path_that_is_in_no_delivery_is_an_error_that_names_a_near_one() {
    let fixture = offer_layer("echo two >> README.md; echo n > new");
    let check_refused = |arguments: &[&str]| {
        let (_, err) = check(&fixture.massgen(arguments).output().unwrap(), 2);
        assert!(
            err.contains("has no changes in `rw/READNE.md`"),
            "{arguments:?}: {err}"
        );
        assert!(
            err.contains("did you mean `rw/README.md`?"),
            "{arguments:?}: {err}"
        );
    };
    check_refused(&["diff", "--path", "rw/READNE.md"]);
    check_refused(&[
        "apply",
        "--yes",
        "--path",
        "rw/new",
        "--path",
        "rw/READNE.md",
    ]);
    assert!(!fixture.has("rw/new"));
    check(&fixture.massgen(&["apply", "--yes"]).output().unwrap(), 0);
    check_refused(&["diff", "--path", "rw/READNE.md"]);
    check_refused(&["undo", "--path", "rw/READNE.md"]);
    let (_, err) = check(
        &fixture
            .massgen(&["undo", "--path", "src"])
            .output()
            .unwrap(),
        2,
    );
    assert!(err.contains("it has rw/README.md, rw/new"), "{err}");
    let (out, _) = check(
        &fixture.massgen(&["undo", "--path", "rw"]).output().unwrap(),
        0,
    );
    assert_eq!(out, "undone rw/README.md\nundone rw/new: removed\n");
}

#[test]
fn changed_permission_bits_of_a_directory_are_reported() {
    let fixture = DeliveryFixture::new();
    for name in ["rw/src", "rw/plain"] {
        fs::set_permissions(fixture.path(name), Permissions::from_mode(0o755)).unwrap();
    }
    fixture
        .run("chmod 777 src; chmod 700 plain; umask 0; mkdir -p open/deep; echo x > open/deep/f");
    drop(fixture.delivery());
    let (out, _) = check(&fixture.massgen(&["diff"]).output().unwrap(), 0);
    assert!(out.contains("old mode 755\nnew mode 777\n"), "{out}");
    let (out, _) = check(&fixture.massgen(&["apply", "--yes"]).output().unwrap(), 0);
    assert_eq!(
        out,
        "mode rw/open: a new directory of mode 777; it is world-writable\n\
         mode rw/open/deep: a new directory of mode 777; it is world-writable\n\
         created rw/open/deep/f\n\
         mode rw/plain: the directory's mode 755 becomes 700\n\
         mode rw/src: the directory's mode 755 becomes 777; it is world-writable\n"
    );
    let (out, _) = check(&fixture.massgen(&["undo"]).output().unwrap(), 0);
    assert!(out.contains("undone rw/src\n"), "{out}");
    let mode = fs::metadata(fixture.path("rw/src"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[test]
fn a_delivery_that_massgen_did_not_create_is_not_the_last_one() {
    let fixture = offer_layer("echo two >> README.md");
    check(&fixture.massgen(&["apply", "--yes"]).output().unwrap(), 0);
    let deliveries = fixture.path(".massgen/deliveries");
    for name in ["log_9", "log_9.2", "zzz"] {
        let copied = Command::new("cp")
            .arg("-a")
            .args([deliveries.join("log_1"), deliveries.join(name)])
            .status();
        assert!(copied.unwrap().success());
    }
    let (out, _) = check(&fixture.massgen(&["undo"]).output().unwrap(), 0);
    assert_eq!(out, "undone rw/README.md\n");
    let (_, err) = check(&fixture.massgen(&["undo", "log_9"]).output().unwrap(), 3);
    assert!(
        err.contains("it was not created by massgen in this directory"),
        "{err}"
    );
}

#[test]
fn a_delivery_that_cannot_be_looked_at_is_not_skipped() {
    let fixture = offer_layer("echo two >> README.md");
    check(&fixture.massgen(&["apply", "--yes"]).output().unwrap(), 0);
    let newest = fixture.path(".massgen/deliveries/log_9");
    fs::create_dir(&newest).unwrap();
    // The system reports an error for it, not that it is missing.
    symlink("journal.jsonl", newest.join("journal.jsonl")).unwrap();
    let delivered = fixture.text("rw/README.md");
    let (_, err) = check(&fixture.massgen(&["undo"]).output().unwrap(), 3);
    assert!(err.contains("log_9/journal.jsonl"), "{err}");
    assert_eq!(fixture.text("rw/README.md"), delivered);
    // Control: without it, the delivery before it is the last one.
    fs::remove_dir_all(newest).unwrap();
    let (out, _) = check(&fixture.massgen(&["undo"]).output().unwrap(), 0);
    assert_eq!(out, "undone rw/README.md\n");
}

#[test]
fn a_pipe_is_not_replaced_and_nothing_else_is_changed_then() {
    let fixture = offer_layer("echo two >> README.md; rm run.sh; echo n > new");
    check(&fixture.massgen(&["apply", "--yes"]).output().unwrap(), 0);
    fs::remove_file(fixture.path("rw/new")).unwrap();
    let mkfifo_status = Command::new("mkfifo").arg(fixture.path("rw/new")).status();
    assert!(mkfifo_status.unwrap().success());
    let (_, err) = check(&fixture.massgen(&["undo", "--force"]).output().unwrap(), 2);
    assert!(
        err.contains("rw/new` is now a named pipe, which could not be kept"),
        "{err}"
    );
    assert!(!fixture.has("rw/run.sh") && fixture.has("rw/new"));
    let (out, _) = check(&fixture.massgen(&["undo"]).output().unwrap(), 4);
    assert!(out.contains("left rw/new: it was changed since"), "{out}");
    assert!(fixture.has("rw/run.sh") && fixture.has("rw/new"));
}

#[test]
fn no_confirmation_without_a_terminal_or_with_the_flag() {
    let asked = run_with("delivery: review").success();
    let finished = asked.has_file("out.txt", "made by one");
    let undone = finished.then(["undo", "last"]).success();
    assert_eq!(undone.stdout(), "undone out.txt: removed\n");
    // The flag asks for something that cannot happen here.
    for format in ["text", "json"] {
        let flags = ["--review", "--output-format", format];
        let refused = run_with("").args(flags).failure(2).has_no("out.txt");
        let message = format!("{}{}", refused.stdout(), refused.stderr());
        assert!(message.contains("`--review` needs a terminal"), "{message}");
    }
    let (shown, status) = run_typed(&run_with("delivery: review").args(["--yes"]), "");
    assert_eq!(status, 0, "{shown}");
    assert!(
        !shown.contains("[n]othing?") && shown.contains("1 file delivered"),
        "{shown}"
    );
}

#[test]
fn the_answer_of_another_agent_can_be_taken() {
    let votes = |file: &str, text: &str| build_replies(file, text, "text: \"all done\"");
    let agents = [
        agent("one", "cwd: w1", &votes("one.txt", "by one")),
        agent("two", "cwd: w2", &votes("two.txt", "by two")),
    ];
    let finished = Project::new()
        .config(&team(&agents, WRITE_HERE))
        .args(["build"])
        .success();
    let finished = finished.has_file("one.txt", "by one").has_no("two.txt");
    let finished = finished
        .then(["apply", "log", "--agent", "nobody"])
        .failure(2);
    assert!(
        finished.stderr().contains("agent `nobody` gave no answer"),
        "{}",
        finished.stderr()
    );
    let shown = finished
        .then(["diff", "last", "--agent", "agent2"])
        .success()
        .has_no("two.txt");
    let difference = shown.stdout();
    assert!(
        difference.contains("two.txt")
            && difference.contains("+by two")
            && !difference.contains("one.txt"),
        "{difference}"
    );
    let applied = shown
        .then(["apply", "last", "--agent", "agent2", "--yes"])
        .success();
    assert_eq!(applied.stdout(), "created two.txt\n");
    let undone = applied
        .has_file("two.txt", "by two")
        .then(["undo", "last"])
        .success();
    let offered =
        "1 earlier part of what the run delivered is still applied; to revert it: massgen undo";
    let (_, first) = undone.stderr().split_once(offered).unwrap();
    let first = first.lines().next().unwrap().trim().to_owned();
    let undone = undone.has_no("two.txt").has_file("one.txt", "by one");
    let undone = undone
        .then(["undo", first.as_str()])
        .success()
        .has_no("one.txt");
    assert!(
        !undone.stderr().contains("earlier part"),
        "{}",
        undone.stderr()
    );
}

#[test]
fn the_answer_of_another_agent_can_be_taken_after_an_undo() {
    let rewrites = format!(
        r#"
- when: {{system: "{FINAL}"}}
  calls:
    - {{name: read_text_file, arguments: {{path: "{{{{cwd}}}}/shared.txt"}}}}
    - {{name: write_file, arguments: {{path: "{{{{cwd}}}}/shared.txt", content: "by one"}}}}
{}"#,
        build_replies("shared.txt", "by one", "text: \"all done\"").trim_start()
    );
    let other = build_replies("shared.txt", "by two", "text: \"all done\"");
    let other = other.replace("see shared.txt", "see the other shared.txt");
    let agents = [
        agent("one", "cwd: w1", &rewrites),
        agent("two", "cwd: w2", &other),
    ];
    let project = Project::new()
        .config(&team(&agents, WRITE_HERE))
        .file("shared.txt", "before")
        .args(["build"]);
    let file = fs::OpenOptions::new()
        .append(true)
        .open(project.path("shared.txt"));
    file.unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let take = ["apply", "last", "--agent", "agent2", "--yes"];
    let delivered = project.success().has_file("shared.txt", "by one");
    let denied = delivered.then(take).failure(4);
    assert_eq!(
        denied.stdout(),
        "denied shared.txt: the run has already delivered another version of it; undo that first\n"
    );
    let undone = denied
        .has_file("shared.txt", "by one")
        .then(["undo"])
        .success();
    let applied = undone.has_file("shared.txt", "before").then(take).success();
    assert_eq!(applied.stdout(), "changed shared.txt\n");
    let undone = applied
        .has_file("shared.txt", "by two")
        .then(["undo"])
        .success();
    let undone = undone.has_file("shared.txt", "before");
    // What the user changes is theirs, after an undo too.
    fs::write(undone.project().path("shared.txt"), "mine").unwrap();
    let denied = undone.then(take).failure(4).has_file("shared.txt", "mine");
    assert_eq!(
        denied.stdout(),
        "denied shared.txt: you changed it since the run began\n"
    );
}
