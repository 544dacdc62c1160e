//! `--pick`: the user picks the answer that is delivered.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;

use serde_json::Value;

use crate::interactive::interactive_project;
use crate::project::{Project, logged_events};
use crate::scripted_team::{agent, team};
use crate::terminal::{ENTER, Terminal};

/// Returns a project whose three agents each write their name; the check fails for `bad`.
fn project(arguments: &[&str]) -> Project {
    let member = |id: &str| {
        let replies = format!(
            r#"
- calls:
    - {{name: write_file, arguments: {{path: "{{{{cwd}}}}/name.txt", content: "{id}\n"}}}}
    - {{name: new_answer, arguments: {{content: "I am {id}."}}}}
"#
        );
        agent(id, &format!("cwd: work-{id}"), &replies)
    };
    let rest = "ui: {dashboard: never}\nchecks: [{name: named, command: '! grep -q bad name.txt'}]\n\
                orchestrator:\n  strategy: best-of\n  max_new_answers_per_agent: 1\n  \
                context_paths: [{path: ., permission: write}]";
    let members = [member("bad"), member("first"), member("second")];
    let review = "- {when: {system: \"You review answers\"}, text: \"agent2\", repeat: true}\n";
    let members = members
        .map(|member| member.replacen("replies:\n", &format!("replies:\n        {review}"), 1));
    let project = Project::new().config(&team(&members, rest));
    interactive_project(project).args([arguments, &["name it"]].concat())
}

#[test]
fn the_user_picks_an_answer_that_the_team_has_not_selected() {
    let mut terminal = Terminal::open(project(&["--pick"]), 100);
    terminal.wait_for_output("1 bad (agent1.1): the check `named` does not pass");
    terminal.wait_for_output(
        "2 first (agent2.1): passes the checks; 1 file, +1 -0 lines; selected by the team",
    );
    terminal.wait_for_output("Which answer is taken?");
    terminal.wait_for_question("your answer (Ctrl-D: none), then Enter?");
    terminal.type_answer("9");
    terminal.type_keys(ENTER);
    terminal.wait_for_output("There is no answer `9`.");
    terminal.type_answer("d1");
    terminal.type_keys(ENTER);
    terminal.wait_for_output("+bad");
    terminal.type_answer("1");
    terminal.type_keys(ENTER);
    let finished = terminal.wait_for_end(1);
    let selected = logged_events(&finished)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|event| event["type"] == "winner_selected")
        .unwrap();
    assert_eq!(
        (&selected["label"], &selected["reason"]),
        (&"agent1.1".into(), &"picked".into())
    );
    // What fails after the delivery is taken back, whoever picked it.
    assert!(!finished.path("name.txt").exists());
    finished.retyped(["replay", "last"]).success();
}

#[test]
fn without_a_pick_the_selection_of_the_team_stays() {
    let mut terminal = Terminal::open(project(&["--pick"]), 100);
    terminal.wait_for_question("your answer (Ctrl-D: none), then Enter?");
    terminal.type_answer("");
    terminal.type_keys(ENTER);
    let delivered = terminal.wait_for_end(0);
    let content = fs::read_to_string(delivered.path("name.txt")).unwrap();
    assert_eq!(content, "first\n");
    let refused = project(&["--pick"]).failure(2);
    assert!(
        refused.stderr().contains("`--pick` needs a terminal"),
        "{}",
        refused.stderr()
    );
    project(&[]).success().has_file("name.txt", "first\n");
}
