//! Short ways into massgen: flags that other tools have, keys of the config on the command line, teams
//! of which a key is missing, and commands that do something useful alone.

use serde_json::Value;

use crate::project::Project;
use crate::scripted_team::{agent, answer_replies, team};
use crate::terminal::{ENTER, Terminal};

/// A team of two, which agrees on the answer of the first.
fn team_file() -> String {
    let one = agent("one", "", &answer_replies("forty-two", "agent1", 0));
    let two = agent("two", "", &answer_replies("no idea", "agent1", 0));
    team(&[one, two], "")
}

/// A team of a scripted agent and one whose key is missing.
fn half_team() -> Project {
    let keyless = "  - id: keyless\n    backend: {type: groq, model: m}\n".to_owned();
    let one = agent("one", "", &answer_replies("forty-two", "agent1", 0));
    Project::new().file("half.yaml", team(&[one, keyless], ""))
}

#[test]
fn flags_of_other_tools_are_understood() {
    let project = || Project::new().file("team.yaml", team_file());
    let base = ["--config", "team.yaml"];
    let json = project().args(base).args(["--json", "what?"]).success();
    let result: Value = serde_json::from_str(json.stdout()).unwrap();
    assert_eq!(result["answer"], "final: forty-two");
    let print = project().args(base).args(["-p", "what?"]).success();
    assert_eq!(print.stdout(), "final: forty-two\n");
    assert_eq!(print.stderr(), "");
    let piped = project().args(base).args(["-p"]).stdin("what?\n").success();
    assert_eq!(piped.stdout(), "final: forty-two\n");
    let slow = agent("slow", "", "- {text: late, delay_ms: 600000}");
    let project = Project::new().file("team.yaml", team(&[slow], ""));
    let late = project
        .args(base)
        .args(["--timeout", "1", "what?"])
        .failure(5);
    let summary = "no agent answered within 1 second (";
    assert!(late.stderr().contains(summary), "{}", late.stderr());
    let wrong = Project::new().args(["--json", "--nonsense"]).failure(2);
    let result: Value = serde_json::from_str(wrong.stdout()).unwrap();
    assert_eq!(result["exit_code"], 2);
}

#[test]
fn a_key_of_the_config_is_set_on_the_command_line_and_checked() {
    let run = |settings: &[&str]| {
        let flags = settings.iter().flat_map(|setting| ["--set", *setting]);
        Project::new()
            .file("team.yaml", team_file())
            .args(["--config", "team.yaml", "what?"])
            .args(flags)
    };
    let one = "agents[0].backend.replies=[{text: nine, repeat: true}]";
    let two = "agents[1].backend.replies=[{text: ten, repeat: true}]";
    let replaced = run(&[one, two]).run();
    assert!(
        !replaced.stdout().contains("forty-two"),
        "{}",
        replaced.stdout()
    );
    let wrong = run(&["orchestrator.votin_sensitivity=strict"]).failure(2);
    let stderr = wrong.stderr();
    assert!(
        stderr.contains("did you mean `voting_sensitivity`?"),
        "{stderr}"
    );
    assert!(
        stderr.contains("| # --set orchestrator.votin_sensitivity=strict"),
        "{stderr}"
    );
    for (setting, expected) in [
        ("limits.max_tool_calls=many", "max_tool_calls=many"),
        ("agents[7].id=x", "`agents` has no entry `7`"),
        (
            "agents[0].id.x=x",
            "`x` is below a value that is not a mapping",
        ),
        ("limits", "expected KEY=VALUE"),
    ] {
        let wrong = run(&[setting]).failure(2);
        assert!(wrong.stderr().contains(expected), "{}", wrong.stderr());
    }
}

#[test]
fn a_team_without_a_file_takes_keys_of_the_config_too() {
    let run = |setting: &str| {
        Project::new()
            .env("OPENAI_API_KEY", "k")
            .args(["--dry-run", "-m", "gpt-5", "-m", "gpt-5", "what?"])
            .args(["--set", setting])
    };
    let changed = run("agents[1].backend.model=gpt-5-mini").success();
    assert!(
        changed.stdout().contains("gpt-5-mini"),
        "{}",
        changed.stdout()
    );
    let wrong = run("agents[1].backend.modell=x").failure(2);
    assert!(
        wrong.stderr().contains("did you mean `model`"),
        "{}",
        wrong.stderr()
    );
}

#[test]
fn a_team_works_without_the_agents_that_have_no_key_if_the_user_wants_that() {
    let base = ["--config", "half.yaml", "what?"];
    let refused = half_team().args(base).failure(3);
    let hint = "hint: or run with the 1 agent that has a key: add `--skip-missing`";
    assert!(refused.stderr().contains(hint), "{}", refused.stderr());
    let skipped = refused.then(base).args(["--skip-missing"]).success();
    assert_eq!(skipped.stdout(), "forty-two\n");
    let warning = "warning: keyless does not take part: no API key for `groq`";
    assert!(skipped.stderr().contains(warning), "{}", skipped.stderr());

    for (typed, code) in [("", 0), ("n", 3)] {
        let project = half_team().args(base).env("TERM", "xterm");
        let mut terminal = Terminal::open(project, 100);
        terminal.wait_for_output("Run with the 1 agent that has a key? [Y/n]");
        terminal.type_keys(typed);
        terminal.type_keys(ENTER);
        let _project = terminal.wait_for_end(code);
    }
}

#[test]
fn groups_of_commands_do_something_useful_alone() {
    let empty = Project::new().args(["config", "check"]).failure(2);
    let message = "error: no config is found here, and none is named";
    assert!(empty.stderr().starts_with(message), "{}", empty.stderr());
    let found = empty.project().path(".massgen/config.yaml");
    let finished = Project::new()
        .config(&team_file())
        .args(["config", "check"]);
    let finished = finished.success();
    assert!(
        finished.stdout().contains("config.yaml: ok"),
        "{}",
        finished.stdout()
    );
    drop(found);
    for (words, expected) in [
        (&["logs"][..], "no runs"),
        (&["logs", "--json"], ""),
        (&["sessions"], "no sessions"),
        (&["skills"], "no skills"),
    ] {
        let finished = Project::new().args(words).success();
        assert!(
            finished.stderr().contains(expected),
            "{}",
            finished.stderr()
        );
    }
    for (word, expected) in [
        ("explain", "Explain whether a path may"),
        ("schema", "events"),
    ] {
        let finished = Project::new().args([word]).success();
        assert!(
            finished.stdout().contains(expected),
            "{}",
            finished.stdout()
        );
    }
    let unknown = Project::new().args(["schema", "result"]).failure(2);
    assert!(
        unknown.stderr().contains("hint: expected `events`"),
        "{}",
        unknown.stderr()
    );
    let doctor = Project::new().config(&team_file()).args(["doctor"]).run();
    let next = "next: massgen \"Describe this project\"\n";
    if doctor.code() == Some(0) {
        assert!(doctor.stdout().ends_with(next), "{}", doctor.stdout());
    }
}

#[test]
fn a_summary_and_the_checks_are_written_to_files() {
    let flags = ["--summary-file", "summary.md", "--junit-file", "checks.xml"];
    let finished = Project::new()
        .file("team.yaml", team_file())
        .file("summary.md", "# earlier\n")
        .args(["--config", "team.yaml", "what <is> it?"])
        .args(["--check", "test 1 = 1", "--check", "true # \"&\""])
        .args(flags)
        .success();
    let read = |name: &str| std::fs::read_to_string(finished.project().path(name)).unwrap();
    let summary = read("summary.md");
    assert!(summary.starts_with("# earlier\n"), "{summary}");
    for part in [
        "## massgen: ",
        "> what <is> it?",
        "**Winner:** one with agent1.1",
        "final: forty-two",
        "| agent1.1 | `test 1 = 1` | passed |",
        "Cost: $0; requests: ",
    ] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    let junit = read("checks.xml");
    assert!(junit.contains("tests=\"2\" failures=\"0\""), "{junit}");
    assert!(
        junit.contains("name=\"true # &quot;&amp;&quot;\""),
        "{junit}"
    );
    let missing = finished.then(["--config", "team.yaml", "x", "--junit-file", "no/x.xml"]);
    let _refused = missing.run();
}
