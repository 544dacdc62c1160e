//! Records of a run on a real disk: their content, that they contain no secret, and what remains
//! after crashes and full disks.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at the disk themselves"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use massgen::ballot::WinnerReason;
use massgen::error::{Error, ExitStatus};
use massgen::event::{
    CoordinationEvent, DeliveryEvent, DeliveryOutcome, DeliveryRow, Event, ModelEvent, RunEvent,
    ToolEvent,
};
use massgen::id::{AgentId, AgentNumber, AnswerLabel};
use massgen::path::AbsPath;
use massgen::permissions::grant::Phase;
use massgen::spending::TokenUsage;
use massgen::spending::money::Money;
use massgen::world::store::event_log::{self, LogReader};
use massgen::world::store::records::metadata::RunMetadata;
use massgen::world::store::records::record_paths::{CoordinationLayout, RunRecordPaths};
use massgen::world::store::records::{Recorder, STATUS_INTERVAL};
use massgen::world::store::redact::Redactor;
use secrecy::SecretString;
use serde_json::{Value, json};
use tempfile::TempDir;

const SECRET: &str = "sk-proj-abcdefghijklmnop\"quoted";

fn agent(id: &str) -> AgentId {
    AgentId::parse(id).unwrap()
}

fn label(index: usize, ordinal: u32) -> AnswerLabel {
    let agent = AgentNumber::from_index(index);
    AnswerLabel { agent, ordinal }
}

fn recorder(logs: &Path, layout: CoordinationLayout) -> Recorder {
    let places = RunRecordPaths::create(&AbsPath::new(logs).unwrap(), layout, 1).unwrap();
    let meta = RunMetadata {
        query: "what: is\n- this?".to_owned(),
        config_path: AbsPath::new("/p/team.yaml"),
        config: Some("agents: []\n".to_owned()),
        cli_args: vec!["--config".to_owned(), format!("key={SECRET}")],
        cwd: AbsPath::new("/p").unwrap(),
        session_id: "session_1".to_owned(),
    };
    let redactor = Redactor::new(vec![SecretString::from(SECRET)]);
    Recorder::start(places, &meta, redactor).unwrap()
}

fn start_event(restart: u32) -> Event {
    Event::Run(RunEvent::RunStarted {
        question: Arc::from("what is this?"),
        agents: vec![agent("zeta"), agent("alpha")],
        restart,
        cwd: None,
    })
}

fn text(id: &str, text: &str) -> Event {
    Event::Model(ModelEvent::Text {
        agent: agent(id),
        text: text.to_owned(),
    })
}

fn answer_event(id: &str, label: AnswerLabel, content: &str) -> Event {
    Event::Coordination(CoordinationEvent::Answered {
        agent: agent(id),
        label,
        content: Arc::from(content),
        snapshot: Some("/p/.massgen/temp/run/agent1.1".to_owned()),
        check_results: None,
        changes: None,
        plan: None,
    })
}

fn vote_event(id: &str, reason: &str) -> Event {
    Event::Coordination(CoordinationEvent::Voted {
        agent: agent(id),
        candidate: agent("alpha"),
        label: label(0, 1),
        reason: reason.to_owned(),
    })
}

fn final_answer(content: &str) -> Event {
    Event::Delivery(DeliveryEvent::FinalAnswer {
        agent: agent("alpha"),
        content: Arc::from(content),
    })
}

fn end_event() -> Event {
    Event::Run(RunEvent::RunEnded {
        status: ExitStatus::Success,
        summary: "2 agents agreed".to_owned(),
    })
}

/// Returns the events of a run of two agents, one of which puts the secret into everything it
/// writes.
fn whole_run() -> Vec<Event> {
    let (first, second) = SECRET.split_at(9);
    vec![
        start_event(0),
        Event::Model(ModelEvent::ModelRequestStarted {
            agent: agent("alpha"),
            model: "m".into(),
        }),
        text("alpha", "it says "),
        text("zeta", "hello\nwor"),
        text("alpha", first),
        text("alpha", second),
        text("zeta", "ld\u{1b}[31m"),
        Event::Model(ModelEvent::Reasoning {
            agent: agent("alpha"),
            text: format!("because {SECRET}"),
        }),
        Event::Model(ModelEvent::ModelRequestFinished {
            agent: agent("alpha"),
            model: "m".into(),
            phase: Phase::Coordination,
            usage: TokenUsage {
                input_tokens: 100,
                output_tokens: 20,
                ..TokenUsage::default()
            },
            cost_usd: Money::from_dollars("0.25"),
            elapsed_ms: 1,
        }),
        Event::Tool(ToolEvent::ToolCalled {
            agent: agent("alpha"),
            call_id: "c1".to_owned(),
            tool: "write_file".to_owned(),
            arguments: format!("{{\"content\":\"{SECRET}\"}}"),
            denied: Some(format!("outside: {SECRET}")),
            rule: None,
        }),
        answer_event("alpha", label(0, 1), &format!("the key is {SECRET}")),
        Event::Coordination(CoordinationEvent::DroppedOut {
            agent: agent("zeta"),
            reason: "no model".to_owned(),
            timed_out: true,
        }),
        vote_event("alpha", &format!("{}{SECRET}", "x".repeat(90))),
        Event::Coordination(CoordinationEvent::WinnerSelected {
            agent: agent("alpha"),
            label: label(0, 1),
            reason: WinnerReason::OnlyAnswer,
            votes: vec![(agent("alpha"), 1)],
        }),
        Event::Delivery(DeliveryEvent::FinalStarted {
            agent: agent("alpha"),
        }),
        final_answer(&format!("final {SECRET}")),
        Event::Delivery(DeliveryEvent::Delivered {
            rows: vec![DeliveryRow::new(
                "/p/a.txt".to_owned(),
                DeliveryOutcome::Created,
            )],
            by: None,
        }),
        end_event(),
    ]
}

fn record_all(recorder: &mut Recorder, events: &[Event]) {
    for event in events {
        let error = recorder.record(event);
        assert!(error.is_none(), "{error:?}");
    }
}

/// Writes the records of a run, and returns the turn's directory.
fn write_records() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = recorder(dir.path(), CoordinationLayout::One);
    let turn = recorder.paths().turn().as_path().to_owned();
    record_all(&mut recorder, &whole_run());
    assert!(recorder.finish().is_none());
    (dir, turn)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&read(path)).unwrap()
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}

#[test]
fn every_record_is_where_users_look_for_it() {
    let (_dir, turn) = write_records();
    let is_time = |name: &str| name.len() == 22 && name.starts_with("20");
    let names: BTreeSet<String> = files_below(&turn)
        .iter()
        .map(|file| {
            let rel = file.strip_prefix(&turn).unwrap().to_string_lossy();
            let names = rel.split('/');
            let shown = names.map(|name| if is_time(name) { "<time>" } else { name });
            shown.collect::<Vec<_>>().join("/")
        })
        .collect();
    let expected = [
        "agent_outputs/alpha.txt",
        "agent_outputs/zeta.txt",
        "alpha/<time>/answer.txt",
        "events.jsonl",
        "execution_metadata.yaml",
        "final/alpha/answer.txt",
        "status.json",
    ];
    assert_eq!(names.iter().collect::<Vec<_>>(), expected);
    let log = turn.parent().unwrap().file_name().unwrap();
    assert_eq!(log.len(), "log_20261102_140322_123456".len());
}

#[test]
fn no_secret_is_in_any_record() {
    let (dir, _) = write_records();
    let files = files_below(dir.path());
    assert!(files.len() > 6);
    let mut redacted = 0;
    for file in files {
        let content = read(&file);
        for piece in ["sk-proj-", "klmnop"] {
            assert!(!content.contains(piece), "{}: {content}", file.display());
        }
        redacted += content.matches("[redacted]").count();
    }
    assert!(redacted >= 8, "{redacted}");
}

#[test]
fn the_status_tells_what_was_used() {
    let (_dir, turn) = write_records();
    let status = read_json(&turn.join("status.json"));
    let used = json!({
        "requests": 1,
        "input_tokens": 100,
        "cached_tokens": 0,
        "cache_write_tokens": 0,
        "output_tokens": 20,
        "reasoning_tokens": 0,
        "cost_usd": 0.25,
        "cost_is_complete": true,
    });
    assert_eq!(status["tool_calls"], 1);
    assert_eq!(status["agents"]["alpha"]["tool_calls"], 1);
    assert_eq!(status["token_usage"]["run"], used);
    assert_eq!(status["agents"]["alpha"]["token_usage"], used);
    assert_eq!(status["agents"]["zeta"]["token_usage"]["requests"], 0);
    let models = status["token_usage"]["models"].as_array().unwrap();
    assert_eq!(models.len(), 1, "{models:?}");
    let post = ["agent", "model", "phase"].map(|name| &models[0][name]);
    assert_eq!(post, ["alpha", "m", "coordination"]);
    assert_eq!(models[0]["token_usage"], used);
}

#[test]
fn the_status_tells_how_the_run_ended() {
    let (_dir, turn) = write_records();
    let mut status = read_json(&turn.join("status.json"));
    let meta = status["meta"].as_object().unwrap();
    assert_eq!(meta["question"], "what is this?");
    assert_eq!(meta["session_id"], "session_1");
    assert!(meta["elapsed_seconds"].as_f64().unwrap() >= 0.0);
    assert!(status["agents"]["alpha"]["last_activity"].is_string());
    for name in ["meta", "token_usage", "tool_calls"] {
        status.as_object_mut().unwrap().remove(name);
    }
    for id in ["alpha", "zeta"] {
        let of_agent = status["agents"][id].as_object_mut().unwrap();
        of_agent.remove("last_activity");
        of_agent.remove("token_usage");
        of_agent.remove("tool_calls");
    }
    let expected = json!({
        "is_complete": true,
        "finish_reason": "delivered",
        "coordination": {
            "phase": "presentation",
            "active_agent": "alpha",
            "completion_percentage": 100,
            "is_final_presentation": true,
            "restart": 0,
        },
        "agents": {
            "alpha": {
                "status": "answered",
                "answer_count": 1,
                "latest_answer_label": "agent1.1",
                "vote_cast": {
                    "voted_for_agent": "alpha",
                    "voted_for_label": "agent1.1",
                    "reason_preview": format!("{}[redacted]", "x".repeat(90)),
                },
                "times_restarted": 0,
                "error": null,
            },
            "zeta": {
                "status": "timeout",
                "answer_count": 0,
                "latest_answer_label": null,
                "vote_cast": null,
                "times_restarted": 0,
                "error": "no model",
            },
        },
        "results": {
            "votes": {"agent1.1": 1},
            "winner": "alpha",
            "final_answer_preview": "final [redacted]",
            "delivered": [
                {"path": "/p/a.txt", "outcome": "created", "sha256": null, "bytes": null},
            ],
        },
    });
    assert_eq!(status, expected);
}

#[test]
fn agent_outputs_are_safe_on_a_terminal() {
    let (_dir, turn) = write_records();
    let output = read(&turn.join("agent_outputs/zeta.txt"));
    assert_eq!(output, "hello\nworld\\u{1b}[31m\n[dropped out] no model\n");
}

#[test]
fn the_metadata_can_be_read_back() {
    let (_dir, turn) = write_records();
    let metadata = read(&turn.join("execution_metadata.yaml"));
    let metadata: Value = serde_yaml::from_str(&metadata).unwrap();
    assert_eq!(metadata["query"], "what: is\n- this?");
    assert_eq!(metadata["cli_args"], json!(["--config", "key=[redacted]"]));
    assert_eq!(metadata["config"], "agents: []\n");
}

#[test]
fn streamed_pieces_become_few_events_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = recorder(dir.path(), CoordinationLayout::One);
    let log = recorder.paths().turn().join("events.jsonl");
    record_all(&mut recorder, &[start_event(0)]);
    let words: Vec<String> = (0..5000).map(|word| format!("{word} ")).collect();
    for word in &words {
        record_all(&mut recorder, &[text("alpha", word)]);
    }
    record_all(&mut recorder, &[vote_event("alpha", "good"), end_event()]);
    let entries = event_log::open(&log).unwrap().map(Result::unwrap);
    let entries: Vec<Value> = entries
        .map(|entry| serde_json::from_str(&entry.json).unwrap())
        .collect();
    let texts = entries.iter().filter(|entry| entry["type"] == "text");
    let joined: String = texts.map(|entry| entry["text"].as_str().unwrap()).collect();
    assert_eq!(joined, words.concat());
    assert!(entries.len() < 12, "{}", entries.len());
    let last = &entries[entries.len() - 2];
    assert_eq!(last["type"], "voted");
}

#[test]
fn a_log_that_is_cut_at_any_byte_still_tells_every_whole_line() {
    let (_dir, turn) = write_records();
    let log = read(&turn.join("events.jsonl"));
    let lines = log.lines().count();
    let whole_log = LogReader::new(log.as_bytes()).map(Result::unwrap);
    assert_eq!(whole_log.count(), lines);
    for cut in 0..log.len() {
        let (kept, lost) = log.as_bytes().split_at(cut);
        let whole = log.get(..cut).map_or(0, |kept| kept.matches('\n').count());
        let only_the_line_break_is_lost = lost.first() == Some(&b'\n');
        let read: Vec<_> = LogReader::new(kept).collect();
        let good = read.iter().filter(|line| line.is_ok()).count();
        assert_eq!(
            good,
            whole + usize::from(only_the_line_break_is_lost),
            "cut at {cut}"
        );
        assert!(read.len() - good <= 1, "cut at {cut}");
    }
}

#[test]
fn a_reader_that_skips_lines_reads_the_rest_as_if_it_had_read_them() {
    let (_dir, turn) = write_records();
    let log = read(&turn.join("events.jsonl"));
    let seqs = |log: &[u8], skipped: u64| -> Vec<u64> {
        let mut reader = LogReader::new(log);
        reader.skip_lines(skipped);
        reader.flatten().map(|entry| entry.seq).collect()
    };
    let lines = u64::try_from(log.lines().count()).unwrap();
    assert!(lines > 3, "{lines} lines");
    for skipped in 0..=lines + 1 {
        let expected: Vec<u64> = (skipped + 1..=lines).collect();
        assert_eq!(seqs(log.as_bytes(), skipped), expected, "{skipped}");
    }
    // A damaged line counts as a line.
    let damaged = log.replacen('{', "[", 1);
    assert_eq!(seqs(damaged.as_bytes(), 0)[0], 2);
    assert_eq!(seqs(damaged.as_bytes(), 1)[0], 2);
    // So does one that is not complete.
    let truncated = log.as_bytes().strip_suffix(b"\"}\n").unwrap();
    assert_eq!(seqs(truncated, lines - 1), [0_u64; 0]);
}

#[test]
fn a_reader_never_sees_half_a_status() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = recorder(dir.path(), CoordinationLayout::One);
    record_all(&mut recorder, &[start_event(0)]);
    let status = recorder.paths().status_file();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let poll = scope.spawn(|| {
            let mut polls = 0;
            while !stop.load(Ordering::Relaxed) {
                assert!(read_json(status.as_path())["meta"].is_object());
                polls += 1;
            }
            polls
        });
        for _ in 0..200 {
            record_all(&mut recorder, &[end_event()]);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(poll.join().unwrap() > 0);
    });
}

#[test]
fn the_status_is_written_now_and_then_and_not_while_nothing_happens() {
    let answers = |recorder: &Recorder| {
        let status = read_json(recorder.paths().status_file().as_path());
        status["agents"]["alpha"]["answer_count"].as_u64()
    };
    // Returns nothing if the machine stopped for longer than the interval.
    let record_two = |dir: &Path| {
        let mut recorder = recorder(dir, CoordinationLayout::One);
        assert_eq!(recorder.status_due(), None);
        let began = Instant::now();
        record_all(&mut recorder, &[start_event(0)]);
        assert_eq!(answers(&recorder), Some(0));
        assert_eq!(recorder.status_due(), None);
        record_all(&mut recorder, &[answer_event("alpha", label(0, 1), "a")]);
        let (shown, due) = (answers(&recorder), recorder.status_due());
        (began.elapsed() < STATUS_INTERVAL).then_some((recorder, shown, due))
    };
    let dirs: Vec<_> = (0..10).map(|_| tempfile::tempdir().unwrap()).collect();
    let found = dirs.iter().find_map(|dir| record_two(dir.path()));
    let (mut recorder, shown, due) = found.expect("a machine that does not stop each time");
    assert_eq!(shown, Some(0));
    let due = due.unwrap();
    assert!(due <= STATUS_INTERVAL);
    std::thread::sleep(due);
    assert!(recorder.write_status().is_none());
    assert_eq!(answers(&recorder), Some(1));
    assert_eq!(recorder.status_due(), None);
}

#[test]
fn each_coordination_has_its_own_records_and_automation_finds_the_latest() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = recorder(dir.path(), CoordinationLayout::Several);
    let turn = recorder.paths().turn().as_path().to_owned();
    let restart = Event::Run(RunEvent::CoordinationRestarted {
        reason: "too short".to_owned(),
        instructions: "say more".to_owned(),
    });
    let first = [start_event(0), answer_event("alpha", label(0, 1), "short")];
    record_all(&mut recorder, &first);
    record_all(
        &mut recorder,
        &[restart, start_event(1), final_answer("long"), end_event()],
    );
    let number = |path: &str| read_json(&turn.join(path))["coordination"]["restart"].as_u64();
    assert_eq!(number("restart_0/status.json"), Some(0));
    assert_eq!(number("restart_1/status.json"), Some(1));
    assert_eq!(number("status.json"), Some(1));
    assert_eq!(read(&turn.join("final/alpha/answer.txt")), "long");
    let status = recorder.paths().status_file();
    assert_eq!(status.as_path(), turn.join("status.json"));
}

#[test]
fn an_interrupted_run_is_recorded_as_incomplete() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = recorder(dir.path(), CoordinationLayout::One);
    let turn = recorder.paths().turn().as_path().to_owned();
    record_all(&mut recorder, &[start_event(0), text("zeta", "half a sen")]);
    assert!(recorder.finish().is_none());
    let status = read_json(&turn.join("status.json"));
    assert_eq!(status["is_complete"], false);
    assert_eq!(status["finish_reason"], Value::Null);
    assert_eq!(read(&turn.join("agent_outputs/zeta.txt")), "half a sen\n");
    assert!(read(&turn.join("events.jsonl")).contains("half a sen"));
}

#[test]
fn runs_that_begin_at_the_same_time_have_their_own_logs() {
    let dir = tempfile::tempdir().unwrap();
    let names: BTreeSet<String> = std::thread::scope(|scope| {
        let begin = || {
            recorder(dir.path(), CoordinationLayout::One)
                .paths()
                .name()
                .to_owned()
        };
        let runs: Vec<_> = (0..16).map(|_| scope.spawn(begin)).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert_eq!(names.len(), 16);
}

/// Directory of the child process of the two tests below; unset in an ordinary run.
const CHILD_DIR: &str = "MASSGEN_TEST_FULL_DISK";

/// Runs `child_that_writes_to_a_full_disk` in `wrapper`, a shell script that ends with `"$@"`.
#[track_caller]
fn run_child(program: &str, flags: &[&str], wrapper: &str, dir: &Path) {
    let child = "records::child_that_writes_to_a_full_disk";
    let output = Command::new(program)
        .args(flags)
        .args(["sh", "-ec", wrapper, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", child, "--nocapture"])
        .env(CHILD_DIR, dir)
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{complained}");
    assert!(stdout.contains("the disk was full"), "{stdout}");
}

#[test]
fn a_full_disk_is_reported_once_and_costs_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size=256k none ${CHILD_DIR}");
    let probe = Command::new("unshare")
        .args(["-rm", "sh", "-ec", &mount])
        .env(CHILD_DIR, dir.path())
        .output();
    if probe.is_ok_and(|probe| probe.status.success()) {
        let wrapper = format!("{mount}; exec \"$@\"");
        run_child("unshare", &["-rm"], &wrapper, dir.path());
    } else {
        println!("skipped: no mount namespace here; the size limit of the next test must do");
    }
}

#[test]
fn a_file_size_limit_is_reported_once_and_costs_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    let wrapper = "trap '' XFSZ; ulimit -f 64; exec \"$@\"";
    run_child("env", &[], wrapper, dir.path());
}

#[test]
fn child_that_writes_to_a_full_disk() {
    let Some(dir) = std::env::var_os(CHILD_DIR).map(PathBuf::from) else {
        return;
    };
    let mut recorder = recorder(&dir, CoordinationLayout::One);
    let turn = recorder.paths().turn().clone();
    record_all(&mut recorder, &[start_event(0)]);
    let filler = fill_directory(&dir);
    let long = "all work and no play\n".repeat(250);
    let errors: Vec<Error> = (0..40)
        .filter_map(|_| recorder.record(&text("zeta", &long)))
        .collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(
        errors[0].to_string(),
        "the records of this run are incomplete"
    );
    assert_eq!(
        errors[0].hints()[0],
        "the run continues, and its answer is not lost"
    );

    fs::remove_file(filler).unwrap();
    assert!(recorder.record(&final_answer("the answer")).is_none());
    let answer = recorder.progress().unwrap().final_answer.clone();
    assert_eq!(answer.as_deref(), Some("the answer"));
    let written = turn.as_path().join("final/alpha/answer.txt");
    assert_eq!(read(&written), "the answer");
    let lines: Vec<_> = event_log::open(&turn.join("events.jsonl"))
        .unwrap()
        .collect();
    assert!(lines.iter().all(Result::is_ok), "{lines:?}");
    println!("the disk was full");
}

/// Fills the disk with a file.
fn fill_directory(dir: &Path) -> PathBuf {
    let path = dir.join("filler");
    let mut file = fs::File::create(&path).unwrap();
    let piece = [0; 4096];
    for _ in 0..1024 {
        if std::io::Write::write_all(&mut file, &piece).is_err() {
            return path;
        }
    }
    panic!("the disk of this test is not small");
}
