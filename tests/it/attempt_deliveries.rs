//! What becomes of the answer that wins: the winner may present it once more, and the user may have
//! changed files meanwhile.

use std::fs;
use std::path::Path;
use std::thread::{self, JoinHandle};

use crate::attempts::{change, project, replies};
use crate::project::{Project, events};
use crate::terminal::Terminal;
use crate::waiting::{WAIT_TIME_MAX, wait_until};

/// Returns the project with `keys` in its section `orchestrator`.
fn with_rules(project: Project, keys: &str) -> Project {
    let config = fs::read_to_string(project.path("team.yaml")).unwrap();
    let rules = format!("orchestrator:\n  {keys}\n");
    project.file("team.yaml", config.replace("orchestrator:\n", &rules))
}

/// Checks what is delivered if the winner, whose answer passes its check, presents with these
/// replies.
#[track_caller]
fn check_presentation(replies: &str, delivered: &str, text: &str, checks: usize, kept: bool) {
    let all_replies = format!(
        r#"
{}
- when: {{last: "<task>"}}
  calls: [{{name: execute_command, arguments: {{command: "echo exit 0 > src/app.sh; echo exit status"}}}}]
- when: {{last: "exit status"}}
  calls: [{{name: new_answer, arguments: {{content: "voted"}}}}]
"#,
        replies.trim()
    );
    let project = project(
        &[all_replies],
        "checks: [{name: runs, command: sh src/app.sh}]\n",
    );
    let finished = with_rules(project, "final_answer_strategy: winner_present")
        .success()
        .has_file("src/app.sh", delivered);
    assert_eq!(finished.stdout(), format!("{text}\n"));
    let kept_answers = events(&finished, "answer_kept");
    assert_eq!(kept_answers.len(), usize::from(kept), "{kept_answers:?}");
    let is_told = finished
        .stderr()
        .contains("keeps the answer that was voted on");
    assert_eq!(is_told, kept, "{}", finished.stderr());
    // Nothing is checked after the delivery, because it is as the checks saw it.
    assert_eq!(events(&finished, "checked").len(), checks);
    let replayed = finished.then(["replay", "last"]).success();
    assert!(
        replayed.stdout().starts_with("same"),
        "{}",
        replayed.stdout()
    );
}

/// Returns replies with which the final agent runs `command` and then presents.
fn presenting(command: &str) -> String {
    format!(
        r#"
- when: {{system: "the final agent", last: "exit status"}}
  text: "presented"
- when: {{system: "the final agent"}}
  calls: [{{name: execute_command, arguments: {{command: "{command}; echo exit status"}}}}]
"#
    )
}

#[test]
fn a_presentation_that_fails_the_checks_leaves_the_answer_as_it_was_voted_on() {
    let fails = presenting("echo exit 1 > src/app.sh");
    check_presentation(&fails, "exit 0\n", "voted", 2, true);
    let passes = presenting("echo exit 0 >> src/app.sh");
    check_presentation(&passes, "exit 0\nexit 0\n", "presented", 2, false);
    // What is not changed is not checked again.
    let looks = presenting("cat src/app.sh");
    check_presentation(&looks, "exit 0\n", "presented", 1, false);
}

#[test]
fn a_presentation_that_breaks_off_leaves_the_answer_as_it_was_voted_on() {
    let breaks_off = presenting("echo exit 0 >> src/app.sh")
        .replace("text: \"presented\"", "error: {message: \"out of order\"}");
    check_presentation(&breaks_off, "exit 0\n", "voted", 1, true);
}

/// Returns a project whose agent changes `kept.txt` and `src/app.sh`, and what changes `kept.txt`
/// for the user as soon as the agent has done so.
fn drifting_project(policy: &str) -> (Project, JoinHandle<()>) {
    let replies = r#"
- when: {last: "<task>"}
  calls: [{name: execute_command, arguments: {command: "echo of the agent > kept.txt; echo new > src/app.sh; echo exit status"}}]
- when: {last: "exit status"}
  delay_ms: 3000
  calls: [{name: new_answer, arguments: {content: "done"}}]
"#;
    let policy = format!("coordination: {{drift_conflict_policy: {policy}}}");
    let project = with_rules(project(&[replies.to_owned()], ""), &policy);
    let (deliveries, kept) = (
        project.path(".massgen/deliveries"),
        project.path("kept.txt"),
    );
    let user = thread::spawn(move || {
        wait_until("the agent has changed it", WAIT_TIME_MAX, || {
            has_changed(&deliveries)
        });
        fs::write(kept, "changed by the user\n").unwrap();
    });
    (project, user)
}

/// Returns whether the only attempt below `deliveries` has the last file that its agent changes.
fn has_changed(deliveries: &Path) -> bool {
    let runs = fs::read_dir(deliveries).into_iter().flatten().flatten();
    let mut files = runs.map(|run| run.path().join("attempt0-agent1/0/upper/src/app.sh"));
    files.any(|file| fs::read_to_string(file).is_ok_and(|text| text == "new\n"))
}

#[test]
fn the_config_says_what_a_delivery_does_about_files_that_the_user_changed() {
    for (policy, app) in [
        ("skip", "new\n"),
        ("prefer_presenter", "new\n"),
        ("fail", "echo old\n"),
    ] {
        let (project, user) = drifting_project(policy);
        let finished = project
            .failure(4)
            .has_file("kept.txt", "changed by the user\n")
            .has_file("src/app.sh", app);
        user.join().unwrap();
        let is_refused = finished.stderr().contains("kept.txt` since the run began");
        assert_eq!(is_refused, policy == "fail", "{}", finished.stderr());
    }
}

#[test]
fn the_agents_version_replaces_a_change_of_the_user_only_after_an_answer_about_it_alone() {
    for (answers, kept, status) in [
        (&["c", "y", "y"][..], "of the agent\n", 0),
        (&["a"][..], "changed by the user\n", 4),
    ] {
        let (project, user) = drifting_project("prefer_presenter");
        let project = project.env("TERM", "xterm").env("NO_COLOR", "1");
        let mut terminal = Terminal::open(project, 100);
        terminal.wait_for_output("kept.txt` has changes of yours");
        let questions = ["[n]othing?", "apply `kept.txt`?", "apply `src/app.sh`?"];
        for (answer, question) in answers.iter().zip(questions) {
            terminal.wait_for_output(question);
            terminal.type_keys(&format!("{answer}\r"));
        }
        let project = terminal.wait_for_end(status);
        user.join().unwrap();
        let text = fs::read_to_string(project.path("kept.txt")).unwrap();
        assert_eq!(text, kept, "{answers:?}");
        let app = fs::read_to_string(project.path("src/app.sh")).unwrap();
        assert_eq!(app, "new\n");
    }
}

#[test]
fn the_last_answers_of_all_agents_are_kept_where_no_delivery_includes_them() {
    let two = || {
        project(
            &[
                replies(&change("one"), "first", "agent2"),
                replies(&change("two"), "second", "agent2"),
            ],
            "",
        )
    };
    // The second is ignored by git.
    for (dir, status) in [("kept", 2), ("kept.out", 0), ("../kept", 0)] {
        let finished = two().args(["--keep-attempts", dir]).run();
        assert_eq!(finished.code(), Some(status), "{}", finished.stderr());
        let kept = finished.project().path(dir);
        if status != 0 {
            let reason = "which agents may write to";
            assert!(finished.stderr().contains(reason), "{}", finished.stderr());
            assert!(!kept.exists());
            continue;
        }
        for (agent, word) in [("agent1", "one"), ("agent2", "two")] {
            let text = |name: &str| fs::read_to_string(kept.join(agent).join(name)).unwrap();
            assert_eq!(text("src/app.sh"), format!("echo {word}\n"));
            assert!(text("CHANGES.diff").contains("deleted file mode"));
        }
        let again = ["--config", "team.yaml", "--keep-attempts", dir, "again"];
        let again = finished.then(again).failure(2);
        assert!(
            again.stderr().contains("is not empty"),
            "{}",
            again.stderr()
        );
    }
}
