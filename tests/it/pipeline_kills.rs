//! Pipelines that are killed at any moment are resumed by the real binary: the shared branch is
//! never broken, and the result is the same.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::process::Command;
use std::thread::scope;
use std::time::{Duration, Instant};

use crate::pipeline::{
    bare_repository_git, killed_after, pipeline_config, pipeline_dir, role_replies, write_call,
};
use crate::project::Project;
use crate::repetition::repetitions;
use crate::scripted_team::agent;

/// Number of parallel pipelines.
const AT_ONCE: usize = 4;
/// Number of moments at which one is killed.
const KILLS: usize = 100;
/// The same in the short suite.
const KILLS_SHORT: usize = 10;

/// Returns a plan of two parts that touch the same file, so that one copy has to fix its work, and
/// a tester that runs a command.
fn project() -> Project {
    let plan = write_call("planner/PLAN.md", "## Part 1\\none\\n## Part 2\\ntwo\\n");
    let (one, two) = (
        write_call("implementer/f", "one\\n"),
        write_call("implementer/f", "two\\n"),
    );
    let both = write_call("implementer/f", "one\\ntwo\\n");
    let works = format!(
        r#"
- when: {{last: "Your work was not merged"}}
  calls: [{{name: read_text_file, arguments: {{path: implementer/f}}}}, {both}]
  repeat: true
- when: {{last: "You are copy 1 of 2"}}
  calls: [{one}]
  repeat: true
- when: {{last: "You are copy 2 of 2"}}
  calls: [{two}]
  repeat: true
- delay_ms: 10
  calls: [{{name: new_answer, arguments: {{content: "did it"}}}}]
  repeat: true
"#
    );
    let tests = "{name: execute_command, arguments: {command: \"cp implementer/f tester/f && git log -1 --format=%s\"}}";
    let agents = [
        agent("planner", "", &role_replies(&plan, "planned")),
        agent("implementer", "", &works),
        agent(
            "tester",
            "enable_mcp_command_line: true",
            &role_replies(tests, "tested"),
        ),
    ];
    let keys = "stages: [planner, {role: implementer, copies: 2}, tester]\nproject: none";
    let check = "checks: [\"! grep -rq '<<<<<<<' implementer 2>/dev/null\"]";
    Project::new().config(&pipeline_config(keys, &agents, check))
}

/// Returns the result of a pipeline: its steps, and its files.
fn pipeline_outcome(project: &Project) -> (String, String) {
    let steps = bare_repository_git(
        project,
        &["log", "--first-parent", "--reverse", "--format=%s", "main"],
    );
    (
        steps,
        bare_repository_git(project, &["ls-tree", "-r", "main"]),
    )
}

/// Checks that the repository is intact and that each state of the shared branch passes its check.
fn expect_whole(project: &Project, note: &str) {
    bare_repository_git(project, &["fsck", "--strict", "--no-dangling"]);
    for commit in bare_repository_git(project, &["rev-list", "--first-parent", "main"]).lines() {
        let marked = Command::new("git")
            .args(["-c", "safe.directory=*", "grep", "-q", "<<<<<<<", commit])
            .current_dir(pipeline_dir(project).join("hub.git"))
            .status();
        assert!(!marked.unwrap().success(), "{note}: {commit} is not green");
    }
}

fn has_begun(project: &Project) -> bool {
    let Ok(all) = fs::read_dir(project.path(".massgen/pipelines")) else {
        return false;
    };
    let mut all = all.map(|one| one.unwrap().path());
    all.any(|one| one.join("pipeline.json").exists())
}

fn kill_and_go_on(project: &Project, time: Duration) {
    let note = format!("killed after {time:?}");
    killed_after(project, &["go"], time);
    if !has_begun(project) {
        let output = project.command().arg("go").output().unwrap();
        assert!(output.status.success(), "{note}");
        return;
    }
    expect_whole(project, &note);
    let output = project.command().arg("--continue").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{note}: {stderr}");
    expect_whole(project, &note);
}

#[test]
fn a_pipeline_that_is_killed_at_any_moment_can_be_resumed() {
    let begun = Instant::now();
    let undisturbed = project().args(["go"]).success();
    let duration = begun.elapsed();
    let expected = &pipeline_outcome(undisturbed.project());
    let kills = repetitions(KILLS_SHORT, KILLS);
    scope(|scope| {
        for first in 0..AT_ONCE {
            scope.spawn(move || {
                for number in (first..kills).step_by(AT_ONCE) {
                    let project = project();
                    // Parallel pipelines make each slower than the one that was measured.
                    let part = u32::try_from(number).unwrap();
                    let time = duration * 3 * part / u32::try_from(kills).unwrap();
                    kill_and_go_on(&project, time);
                    let unbegun = fs::read_dir(project.path(".massgen/pipelines"))
                        .unwrap()
                        .count();
                    if unbegun == 1 {
                        assert_eq!(
                            pipeline_outcome(&project),
                            *expected,
                            "killed after {time:?}"
                        );
                    }
                }
            });
        }
    });
}

#[test]
fn a_resumed_pipeline_removes_locks_of_a_killed_git() {
    let stopped = project().args(["--max-tool-calls", "1", "go"]).failure(5);
    let pipeline_dir = pipeline_dir(stopped.project());
    let locks = [
        "hub.git/refs/heads/main.lock",
        "hub.git/HEAD.lock",
        "index/tester.lock",
    ];
    for lock in locks {
        fs::write(pipeline_dir.join(lock), "").unwrap();
    }
    let refused = Command::new("git")
        .args([
            "-c",
            "safe.directory=*",
            "update-ref",
            "refs/heads/main",
            "main",
        ])
        .current_dir(pipeline_dir.join("hub.git"))
        .output();
    assert!(!refused.unwrap().status.success(), "a lock keeps git out");
    let finished = stopped
        .then(["--continue", "--max-tool-calls", "100"])
        .success();
    expect_whole(finished.project(), "after the limit");
    let (steps, _) = pipeline_outcome(finished.project());
    assert!(
        steps.contains("[supervisor] merge tester: tested"),
        "{steps}"
    );
}
