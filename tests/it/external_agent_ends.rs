//! Early termination of external agents: each is first asked over its protocol to cancel, if that
//! supports it, and is killed soon whatever it does.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::external_agents::{OPENED, external_agent, external_agent_project};
use crate::project::{FinishedCommand, Project, events};
use crate::scripted_team::team;
use crate::waiting::wait_until;

/// Maximum time until a run ends whose external agent would continue for minutes.
pub(crate) const ENDS_WITHIN: Duration = Duration::from_mins(2);
/// Maximum number of runs until one had the time that the test needs.
const TRIES_MAX: usize = 8;
/// Waits for a cancellation, and reacts immediately.
const REACTS: &str = r#"["until_asked_to_end", "end.txt", 0]"#;
/// Waits for a cancellation, and reacts slowly.
const REACTS_SLOWLY: &str = r#"["until_asked_to_end", "end.txt", 1]"#;
/// Ignores cancellations.
const IGNORES: &str = r#"["sleep", 300]"#;

/// Returns a project with one external agent that executes only this step.
fn one_step_project(kind: &str, step: &str, keys: &str, rest: &str) -> Project {
    let step: Value = serde_json::from_str(step).unwrap();
    let table = json!([{"when": "", "do": [["write", "begun.txt", "x"], step]}]);
    let keys = format!("cwd: $/w1\n      {keys}");
    let (project, one) = external_agent(external_agent_project(), ("one", kind), &keys, &table);
    project
        .file("team.yaml", team(&[one], &format!("{OPENED}\n{rest}")))
        .args(["--config", "team.yaml"])
}

/// Returns what the external agent wrote about its cancellation.
fn run_outcome(project: &Project) -> Option<String> {
    fs::read_to_string(project.path("w1/end.txt")).ok()
}

/// Runs until the timeout interrupts a turn; on a busy machine, tries again with a longer timeout.
fn run_until_timeout(project: impl Fn() -> Project, mut seconds: u32) -> FinishedCommand {
    loop {
        let begun = Instant::now();
        let arguments = ["--orchestrator-timeout", &seconds.to_string(), "task"];
        let finished = project().args(arguments).run();
        assert!(begun.elapsed() < ENDS_WITHIN, "{}", finished.stderr());
        assert_eq!(finished.code(), Some(5), "{}", finished.stderr());
        if finished.project().path("w1/begun.txt").exists() {
            return finished;
        }
        seconds *= 3;
    }
}

#[test]
fn an_external_agent_is_asked_to_end_its_turn_before_it_is_killed() {
    for (kind, step, expected) in [
        ("acp", REACTS, Some("asked")),
        ("claude_code", REACTS, Some("asked")),
        // Its protocol has no cancellation.
        ("codex", REACTS, None),
        ("acp", IGNORES, None),
        ("claude_code", IGNORES, None),
    ] {
        let outcome =
            || run_outcome(run_until_timeout(|| one_step_project(kind, step, "", ""), 3).project());
        // One that is asked has two seconds, which may be too short on a busy machine.
        let tries = if expected.is_some() { TRIES_MAX } else { 1 };
        let mut tries = (0..tries).map(|_| outcome());
        assert!(
            tries.any(|reply| reply.as_deref() == expected),
            "{kind} {step}: {expected:?}"
        );
    }
}

#[test]
fn an_open_permission_request_is_answered_as_cancelled() {
    let asks = r#"["permission_until_cancel", "execute", "make all", "end.txt"]"#;
    let rules = "permissions: {ask: ['command(make *)'], ask_timeout_seconds: 600}";
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("asked.sock");
    // The listener accepts connections and never answers.
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let ask = ["--approval-socket".as_ref(), socket.as_os_str()];
    let mut tries = (0..TRIES_MAX).map(|_| {
        let finished = run_until_timeout(|| one_step_project("acp", asks, "", rules).args(ask), 5);
        run_outcome(finished.project())
    });
    assert!(tries.any(|reply| reply.as_deref() == Some("session/cancel cancelled")));
    let finished = one_step_project("acp", asks, "", "").args(["task"]).run();
    assert_eq!(run_outcome(finished.project()).as_deref(), Some("selected"));
}

#[test]
fn the_usage_of_a_turn_that_times_out_is_counted_or_reported_as_unknown() {
    for (step, tokens, is_known) in [(REACTS, 11, true), (IGNORES, 0, false)] {
        let keys = "model: gpt-5\n      request_timeout_seconds: 4";
        let request =
            |finished: &FinishedCommand| events(finished, "model_request_finished")[0].clone();
        let mut tries = (0..TRIES_MAX)
            .map(|_| run_until_timeout(|| one_step_project("acp", step, keys, ""), 12));
        let finished = tries
            .find(|finished| request(finished)["input_tokens"] == tokens)
            .expect("a turn with its usage");
        let reason = &events(&finished, "retrying")[0]["reason"];
        let reason = reason.as_str().unwrap();
        assert!(reason.contains("took more than 4 s"), "{reason}");
        let request = request(&finished);
        assert_eq!(request["cost_usd"].is_number(), is_known, "{request}");
    }
}

/// Starts the run, and waits until its external agent has begun its turn.
fn start_turn(project: &Project) -> Child {
    let mut command: Command = project.command();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.stderr(Stdio::null()).spawn().unwrap();
    wait_until("the external agent begins", ENDS_WITHIN, || {
        project.path("w1/begun.txt").exists()
    });
    child
}

#[test]
fn an_interrupt_cancels_the_turns_of_external_agents_and_a_second_one_kills_them() {
    let outcome_after = |signals: u32| {
        let project = one_step_project("acp", REACTS_SLOWLY, "", "").args(["task"]);
        let mut child = start_turn(&project);
        for number in 1..=signals {
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
            if number < signals {
                wait_until("the external agent is asked", ENDS_WITHIN, || {
                    project.path("w1/end.txt.asked").exists()
                });
            }
        }
        wait_until("the run ends", ENDS_WITHIN, || {
            child.try_wait().unwrap().is_some()
        });
        run_outcome(&project)
    };
    // On a busy machine, the agent may have no time to react, or enough time before the second
    // signal.
    for (signals, expected) in [(1, Some("asked")), (2, None)] {
        let mut tries = (0..TRIES_MAX).map(|_| outcome_after(signals));
        assert!(
            tries.any(|reply| reply.as_deref() == expected),
            "{signals}: {expected:?}"
        );
    }
}
