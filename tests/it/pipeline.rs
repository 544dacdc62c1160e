//! Pipelines end to end, with scripted models and real git: what each role is told, may do and
//! leaves behind, what is merged, and how a pipeline ends.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::project::{FinishedCommand, Project};
use crate::scripted_team::agent;

const DEMO: &str = "@examples/pipeline/offline_demo";

/// Returns the config of a pipeline; `keys` go under `workflow`, `rest` to the top level.
pub(crate) fn pipeline_config(keys: &str, agents: &[String], rest: &str) -> String {
    let keys: String = keys
        .trim()
        .lines()
        .flat_map(|line| ["  ", line, "\n"])
        .collect();
    let agents = agents.concat();
    format!("workflow:\n  type: pipeline\n{keys}agents:\n{agents}{rest}\n")
}

/// Returns replies of a role: the first makes `calls`, then it answers.
pub(crate) fn role_replies(calls: &str, answer: &str) -> String {
    let first = match calls {
        "" => String::new(),
        calls => {
            format!("- when: {{last: \"You are the role\"}}\n  calls: [{calls}]\n  repeat: true\n")
        }
    };
    format!(
        "{first}- calls: [{{name: new_answer, arguments: {{content: \"{answer}\"}}}}]\n  repeat: true\n"
    )
}

/// Returns a call that writes a file.
pub(crate) fn write_call(path: &str, content: &str) -> String {
    format!("{{name: write_file, arguments: {{path: \"{path}\", content: \"{content}\"}}}}")
}

/// Returns the directory of the only pipeline.
pub(crate) fn pipeline_dir(project: &Project) -> PathBuf {
    let mut all: Vec<PathBuf> = fs::read_dir(project.path(".massgen/pipelines"))
        .unwrap()
        .map(|one| one.unwrap().path())
        .collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all.pop().unwrap()
}

/// Returns the output of plain git in the repository of the only pipeline.
#[track_caller]
pub(crate) fn bare_repository_git(project: &Project, arguments: &[&str]) -> String {
    let bare_repository = pipeline_dir(project).join("hub.git");
    git_in(&bare_repository, arguments)
}

/// Runs massgen with `arguments` in the project, and kills it after `time` if it has not ended by
/// itself.
pub(crate) fn killed_after(project: &Project, arguments: &[&str], time: Duration) {
    let mut child = project
        .command()
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    sleep(time);
    // It may have ended by itself.
    let _killed = child.kill();
    child.wait().unwrap();
}

#[track_caller]
pub(crate) fn git_in(dir: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args([
            "-c",
            "safe.directory=*",
            "-c",
            "user.name=u",
            "-c",
            "user.email=u@u",
        ])
        .args(arguments)
        .current_dir(dir)
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn commit_subjects(project: &Project) -> Vec<String> {
    let listing = bare_repository_git(
        project,
        &["log", "--first-parent", "--reverse", "--format=%s", "main"],
    );
    listing.lines().map(str::to_owned).collect()
}

/// Returns the events of the runs of all stages, in the order in which they began.
pub(crate) fn stage_events(finished: &FinishedCommand) -> Vec<Vec<Value>> {
    let logs = finished.project().path(".massgen/massgen_logs");
    let mut logs: Vec<PathBuf> = fs::read_dir(logs)
        .unwrap()
        .map(|log| log.unwrap().path())
        .collect();
    logs.sort();
    let read = |log: &PathBuf| {
        let text = fs::read_to_string(log.join("turn_1/events.jsonl")).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    logs.iter().map(read).collect()
}

/// Returns the tasks of the agents of each stage, with the role first.
fn asked_questions(finished: &FinishedCommand) -> Vec<(String, String)> {
    let pairs = stage_events(finished).into_iter().map(|events| {
        let first = events
            .into_iter()
            .find(|event| event["type"] == "run_started")
            .unwrap();
        let question = first["question"].as_str().unwrap().to_owned();
        let role = question.split('`').nth(1).unwrap().to_owned();
        (role, question)
    });
    pairs.collect()
}

#[test]
fn the_example_builds_a_program_in_two_iterations() {
    let finished = Project::new()
        .args(["--config", DEMO, "a prime tester"])
        .success();
    let stages = ["planner", "implementer", "reviewer", "tester", "user"];
    let merged = |role: &str| format!("[supervisor] merge {role}:");
    let mut expected = vec![
        "[supervisor] start: a prime tester".to_owned(),
        "[supervisor] begin iteration 1".to_owned(),
        merged("understand"),
    ];
    expected.extend(stages.map(merged));
    expected.push("[supervisor] end iteration 1".to_owned());
    expected.push("[supervisor] begin iteration 2".to_owned());
    expected.extend(stages.map(merged));
    expected.push("[supervisor] end iteration 2".to_owned());
    let found = commit_subjects(finished.project());
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(&expected) {
        assert!(found.starts_with(expected), "{found}: {expected}");
    }
    assert!(
        finished.stdout().starts_with("SATISFIED\n"),
        "{}",
        finished.stdout()
    );
    bare_repository_git(finished.project(), &["fsck", "--strict"]);
}

#[test]
fn the_example_leaves_a_directory_and_a_branch_for_each_role() {
    let finished = Project::new()
        .args(["--config", DEMO, "a prime tester"])
        .success();
    let tree = bare_repository_git(
        finished.project(),
        &["ls-tree", "-r", "--name-only", "main"],
    );
    let tree: Vec<&str> = tree.lines().collect();
    assert_eq!(
        tree,
        [
            "CUMULATIVE_UNDERSTANDING.md",
            "SHARED_UNDERSTANDING.md",
            "TASK.md",
            "implementer/IMPLEMENTATION.md",
            "implementer/is_prime.sh",
            "planner/PLAN.md",
            "reviewer/REVIEW.md",
            "tester/USAGE.md",
            "tester/test_is_prime.sh",
            "user/FEEDBACK.md",
            "user/tried.txt",
        ]
    );
    let branches =
        bare_repository_git(finished.project(), &["branch", "--format=%(refname:short)"]);
    let roles: Vec<&str> = branches
        .lines()
        .filter_map(|name| name.rsplit_once('/'))
        .map(|(_, role)| role)
        .collect();
    assert_eq!(
        roles,
        [
            "implementer",
            "planner",
            "reviewer",
            "tester",
            "understand",
            "user"
        ]
    );
    let role_commits = bare_repository_git(
        finished.project(),
        &["log", "--format=%an|%ae|%s", "--no-merges", "main"],
    );
    assert!(
        role_commits.contains("tester (scripted)|tester@massgen.invalid|[tester] All tests pass."),
        "{role_commits}"
    );
    assert!(
        finished.stdout().starts_with("SATISFIED\n"),
        "{}",
        finished.stdout()
    );
    bare_repository_git(finished.project(), &["fsck", "--strict"]);
}

#[test]
fn each_role_gets_the_earlier_documents() {
    let finished = Project::new()
        .args(["--config", DEMO, "a prime tester"])
        .success();
    let role_questions = asked_questions(&finished);
    let holds = |number: usize, role: &str, parts: &[&str], lacks: &[&str]| {
        let (found, question) = &role_questions[number];
        assert_eq!(found, role);
        for part in parts {
            assert!(
                question.contains(part),
                "{role} is not told {part}: {question}"
            );
        }
        for part in lacks {
            assert!(
                !question.contains(part),
                "{role} is told {part}: {question}"
            );
        }
    };
    let document = |path: &str| format!("<document path=\"{path}\">");
    let (task, shared) = (document("TASK.md"), document("SHARED_UNDERSTANDING.md"));
    let (plan, made) = (
        document("planner/PLAN.md"),
        document("implementer/IMPLEMENTATION.md"),
    );
    let (program, review) = (
        document("implementer/is_prime.sh"),
        document("reviewer/REVIEW.md"),
    );
    let usage = document("tester/USAGE.md");
    holds(
        0,
        "understand",
        &[&task, "You write no files"],
        &[&shared, &plan],
    );
    holds(
        1,
        "planner",
        &[&task, &shared, "no answer; assumed: no"],
        &[&plan, &made],
    );
    holds(
        2,
        "implementer",
        &[&task, &shared, &plan, "only in `implementer/`"],
        &[&made, &program],
    );
    holds(3, "reviewer", &[&plan, &made, &program], &[&review]);
    holds(4, "tester", &[&plan, &made, &program, &review], &[&usage]);
    holds(
        5,
        "user",
        &[&plan, &made, &program, &review, &usage, "`SATISFIED`"],
        &[],
    );
    holds(
        6,
        "planner",
        &["iteration 2 of at most 3", "I expected `no`", &plan],
        &[&program],
    );
    assert_eq!(role_questions.len(), 11);
}

/// Returns a planner whose plan has two parts, and two implementers that write what `first` and
/// `second` say.
fn two_implementers(first: &str, second: &str, mend: &str) -> Vec<String> {
    let plan = write_call("planner/PLAN.md", "## Part 1\\none\\n## Part 2\\ntwo\\n");
    let works = format!(
        r#"
- when: {{last: "Your work was not merged"}}
  calls: [{mend}]
- when: {{last: "You are copy 1 of 2"}}
  calls: [{first}]
- when: {{last: "You are copy 2 of 2"}}
  calls: [{second}]
- calls: [{{name: new_answer, arguments: {{content: "did it"}}}}]
  repeat: true
"#
    );
    vec![
        agent("planner", "", &role_replies(&plan, "planned")),
        agent("implementer", "", &works),
    ]
}

const TWO: &str = "stages: [planner, {role: implementer, copies: 2}]\nproject: none";

#[test]
fn copies_work_on_parts_of_the_plan_and_are_merged_in_order() {
    let (one, two) = (
        write_call("implementer/1", "1"),
        write_call("implementer/2", "2"),
    );
    let config = pipeline_config(TWO, &two_implementers(&one, &two, "{name: none}"), "");
    let finished = Project::new().config(&config).args(["go"]).success();
    let tree = bare_repository_git(
        finished.project(),
        &["ls-tree", "-r", "--name-only", "main", "implementer/"],
    );
    assert_eq!(tree, "implementer/1\nimplementer/2\n");
    let merges: Vec<String> = commit_subjects(finished.project())
        .into_iter()
        .filter(|s| s.contains("implementer"))
        .collect();
    assert_eq!(
        merges,
        [
            "[supervisor] merge implementer: did it",
            "[supervisor] merge implementer-2: did it"
        ]
    );
    let role_questions = asked_questions(&finished);
    let of = |part: &str| {
        role_questions
            .iter()
            .filter(|(_, question)| question.contains(part))
            .count()
    };
    assert_eq!(
        (of("You are copy 1 of 2"), of("You are copy 2 of 2")),
        (1, 1)
    );
}

#[test]
fn work_that_git_cannot_hold_is_repaired_without_losing_what_was_merged_before() {
    let (one, two) = (
        write_call("implementer/1", "1"),
        format!(
            "{}, {}",
            write_call("implementer/2", "2"),
            write_call("implementer/git~1/f", "x")
        ),
    );
    let mend = "{name: read_text_file, arguments: {path: implementer/git~1/f}}, \
                {name: delete_file, arguments: {path: implementer/git~1/f}}";
    let config = pipeline_config(TWO, &two_implementers(&one, &two, mend), "");
    let finished = Project::new().config(&config).args(["go"]).success();
    let tree = bare_repository_git(
        finished.project(),
        &["ls-tree", "-r", "--name-only", "main", "implementer/"],
    );
    assert_eq!(tree, "implementer/1\nimplementer/2\n");
    let role_questions = asked_questions(&finished);
    let tasks = role_questions
        .iter()
        .filter(|(_, question)| question.contains("git cannot hold these files"));
    assert_eq!(tasks.count(), 1);
}

#[test]
fn the_same_line_changed_twice_is_one_task_and_nothing_is_lost() {
    let (one, two) = (
        write_call("implementer/f", "one\\n"),
        write_call("implementer/f", "two\\n"),
    );
    let mend = format!(
        "{{name: read_text_file, arguments: {{path: implementer/f}}}}, {}",
        write_call("implementer/f", "one\\ntwo\\n")
    );
    let check = "checks: [\"! grep -rq '<<<<<<<' implementer 2>/dev/null\"]";
    let config = pipeline_config(TWO, &two_implementers(&one, &two, &mend), check);
    let finished = Project::new().config(&config).args(["go"]).success();
    assert_eq!(
        bare_repository_git(finished.project(), &["show", "main:implementer/f"]),
        "one\ntwo\n"
    );
    let role_questions = asked_questions(&finished);
    let tasks = role_questions
        .iter()
        .filter(|(_, question)| question.contains("Your work was not merged"));
    assert_eq!(tasks.count(), 1);
    let read = stage_events(&finished)
        .into_iter()
        .flatten()
        .find(|event| event["type"] == "tool_finished" && event["tool"] == "read_text_file");
    let read = read.unwrap().to_string();
    assert!(
        read.contains("<<<<<<<") && read.contains("|||||||"),
        "{read}"
    );
    for commit in
        bare_repository_git(finished.project(), &["rev-list", "--first-parent", "main"]).lines()
    {
        let grep = Command::new("git")
            .args(["-c", "safe.directory=*", "grep", "-q", "<<<<<<<", commit])
            .current_dir(pipeline_dir(finished.project()).join("hub.git"))
            .status()
            .unwrap();
        assert!(!grep.success(), "{commit} holds marks of a conflict");
    }
}

#[test]
fn work_that_fails_checks_returns_to_its_role_and_is_not_merged() {
    let replies = format!(
        r#"
- when: {{last: "these checks do not pass"}}
  calls: [{{name: read_text_file, arguments: {{path: implementer/run.sh}}}}, {}]
- when: {{last: "You are the role"}}
  calls: [{}]
- calls: [{{name: new_answer, arguments: {{content: "did it"}}}}]
  repeat: true
"#,
        write_call("implementer/run.sh", "exit 0\\n"),
        write_call("implementer/run.sh", "echo broken; exit 1\\n"),
    );
    let agents = [agent("implementer", "", &replies)];
    let check = "checks: [{name: sh run.sh, command: \"sh implementer/run.sh || test ! -e implementer/run.sh\"}]";
    let config = pipeline_config("stages: [implementer]\nproject: none", &agents, check);
    let finished = Project::new().config(&config).args(["go"]).success();
    assert!(
        finished
            .stderr()
            .contains("not merged: implementer, attempt 1 of 3"),
        "{}",
        finished.stderr()
    );
    assert_eq!(
        bare_repository_git(finished.project(), &["show", "main:implementer/run.sh"]),
        "exit 0\n"
    );
    let shown = bare_repository_git(
        finished.project(),
        &[
            "log",
            "--first-parent",
            "--format=%H",
            "main",
            "--",
            "implementer/run.sh",
        ],
    );
    assert_eq!(
        shown.lines().count(),
        1,
        "only the green state was ever part of main"
    );
}

#[test]
fn a_pipeline_ends_when_work_fails_checks_merge_tries_times() {
    let agents = [agent(
        "implementer",
        "",
        &role_replies(&write_call("implementer/a", "1"), "did it"),
    )];
    let config = pipeline_config(
        "stages: [implementer]\nproject: none\nmerge_tries: 2",
        &agents,
        "checks: [\"false\"]",
    );
    let finished = Project::new().config(&config).args(["go"]).failure(1);
    let stderr = finished.stderr();
    assert!(
        stderr.contains("was not merged after 2 attempts"),
        "{stderr}"
    );
    let tree = bare_repository_git(
        finished.project(),
        &["ls-tree", "-r", "--name-only", "main"],
    );
    assert_eq!(tree, "TASK.md\n");
}

/// Returns an implementer that runs nothing and a tester that runs commands, with these keys.
fn agents_with_keys(implementer_keys: &str, tester_keys: &str) -> [String; 2] {
    let work = role_replies(&write_call("implementer/a", "1"), "did it");
    [
        agent("implementer", implementer_keys, &work),
        agent("tester", tester_keys, &role_replies("", "tested")),
    ]
}

#[test]
fn checks_have_only_what_the_commands_of_all_agents_have() {
    let commands = "enable_mcp_command_line: true\nenv: {SHARED: x, OWN: NAME}";
    let of_tester = commands.replace("NAME", "tester");
    let of_implementer = commands.replace("NAME", "implementer");
    let checked = |keys: &str, check: &str| {
        let agents = agents_with_keys(keys, &of_tester);
        let keys =
            "stages: [implementer, tester]\nproject: none\nmerge_tries: 1\nmax_iterations: 1";
        let config = pipeline_config(keys, &agents, &format!("checks: ['{check}']"));
        Project::new().config(&config).args(["go"])
    };
    checked("", r#"test -z "$SHARED$OWN""#).success();
    checked(&of_implementer, r#"test "$SHARED$OWN" = x"#).success();
    // Control: where all agree, checks have it.
    checked(&of_tester, r#"test "$SHARED$OWN" = xtester"#).success();
}

#[test]
fn programs_of_the_merged_work_are_not_found_before_others() {
    let plant = "mkdir -p implementer/.venv/bin .venv/bin; ln -s /bin/true .venv/bin/judge; echo 1 > implementer/a";
    let call = format!("{{name: execute_command, arguments: {{command: \"{plant}\"}}}}");
    let keys = "enable_mcp_command_line: true";
    let agents = [agent("implementer", keys, &role_replies(&call, "did it"))];
    let config = |check: &str| {
        let keys = "stages: [implementer]\nmerge_tries: 1\nmax_iterations: 1";
        let roles = "roles:\n  implementer:\n    rights: [write, edit, bash]\n";
        pipeline_config(keys, &agents, &format!("{roles}checks: ['{check}']"))
    };
    let started = |check: &str| {
        let project = Project::new().config(&config(check));
        for arguments in [
            &["init", "-q", "."][..],
            &[
                "-c",
                "user.name=n",
                "-c",
                "user.email=e@x.invalid",
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                "start",
            ],
        ] {
            let git = Command::new("git")
                .args(arguments)
                .current_dir(project.path(""))
                .status();
            assert!(git.unwrap().success());
        }
        project.args(["go"])
    };
    let finished = started("judge").failure(1);
    assert!(
        finished.stderr().contains("required checks fail: judge"),
        "{}",
        finished.stderr()
    );
    // Control: the program is there.
    started("test ! -e .venv || .venv/bin/judge").success();
}

#[test]
fn a_role_that_works_again_continues_its_own_conversation() {
    let step = format!(
        "- when: {{last: \"iteration 1 of\"}}\n  text: \"I look first.\"\n  calls: [{}]\n",
        write_call("planner/plan.txt", "1"),
    );
    let continued = format!(
        "- when: {{last: \"iteration 2 of\", contains: \"- you said: I look first.\"}}\n  calls: [{}]\n",
        write_call("planner/more.txt", "continued"),
    );
    let planned = "- when: {last: \"wrote\"}\n  calls: [{name: new_answer, arguments: {content: planned}}]\n  \
                   repeat: true\n";
    let answer = |when: &str, word: &str| {
        format!("- {when}calls: [{{name: new_answer, arguments: {{content: \"{word}\"}}}}]\n")
    };
    let user = [
        answer(
            "when: {contains: \"I look first.\"}\n  ",
            "it reads what others said",
        ),
        answer("when: {last: \"iteration 1 of\"}\n  ", "not yet"),
        answer("when: {contains: \"iteration 1] go\"}\n  ", "SATISFIED"),
    ];
    let agents = [
        agent(
            "planner",
            "",
            &[step, continued, planned.to_owned()].concat(),
        ),
        agent("user", "enable_mcp_command_line: true", &user.concat()),
    ];
    let keys = "stages: [planner, user]\nproject: none\nmax_iterations: 3";
    let finished = Project::new()
        .config(&pipeline_config(keys, &agents, ""))
        .args(["go"])
        .success();
    let plan = bare_repository_git(finished.project(), &["show", "main:planner/more.txt"]);
    assert_eq!(plan, "continued");
}

/// Returns a planner that plans something new each time, and a user role that answers with these
/// words.
fn agents_with_feedback(feedback: &[&str]) -> Vec<String> {
    let reply = |word: &&str| {
        format!("- calls: [{{name: new_answer, arguments: {{content: \"{word}\"}}}}]\n")
    };
    let replies = feedback.iter().map(reply).collect::<Vec<_>>().concat();
    let plans = (1..6).map(|number| {
        let write = write_call("planner/plan.txt", &number.to_string());
        format!("- when: {{last: \"iteration {number} of\"}}\n  calls: [{{name: read_text_file, arguments: {{path: planner/plan.txt}}}}, {write}]\n")
    });
    let plans: String = plans.collect();
    let answers =
        "- calls: [{name: new_answer, arguments: {content: \"planned\"}}]\n  repeat: true\n";
    vec![
        agent("planner", "", &format!("{plans}{answers}")),
        agent("user", "enable_mcp_command_line: true", &replies),
    ]
}

#[track_caller]
fn check_end(
    keys: &str,
    feedback: &[&str],
    rest: &str,
    code: i32,
    message: &str,
) -> FinishedCommand {
    let keys = format!("stages: [planner, user]\nproject: none\n{keys}");
    let config = pipeline_config(&keys, &agents_with_feedback(feedback), rest);
    let finished = Project::new().config(&config).args(["go"]).failure(code);
    assert!(finished.stderr().contains(message), "{}", finished.stderr());
    finished
}

#[test]
fn a_pipeline_reports_why_it_ended() {
    check_end(
        "max_iterations: 3",
        &["SATISFIED"],
        "",
        0,
        "user is satisfied",
    );
    check_end(
        "max_iterations: 3",
        &["no", "SATISFIED"],
        "",
        0,
        "user is satisfied",
    );
    let over = "user is not satisfied after 2 iterations";
    check_end("max_iterations: 2", &["no", "still no"], "", 5, over);
    let stuck = "gave the same feedback";
    check_end("max_iterations: 9", &["no", "no", "no"], "", 1, stuck);
    check_end(
        "max_iterations: 9",
        &["no"],
        "limits: {max_tool_calls: 1}",
        5,
        "used all",
    );
    let fails = pipeline_config(
        "stages: [planner]\nproject: none",
        &[agent("planner", "", "- error: {message: no}\n")],
        "",
    );
    let finished = Project::new().config(&fails).args(["go"]).failure(1);
    assert!(
        finished.stderr().contains("no agent answered"),
        "{}",
        finished.stderr()
    );
}

#[test]
fn a_pipeline_works_on_a_project_and_leaves_it_as_it_is() {
    let agents = [agent(
        "implementer",
        "",
        &role_replies(
            &[
                write_call("src/new.txt", "new\\n"),
                write_call(".pipeline/implementer/I.md", "did\\n"),
                write_call(".pipeline/planner/x", "x"),
                write_call(".pipeline/TASK.md", "x"),
            ]
            .join(", "),
            "did it",
        ),
    )];
    let project = Project::new()
        .config(&pipeline_config("stages: [implementer]", &agents, ""))
        .file("src/old.txt", "old\n");
    let root = project.path("");
    git_in(&root, &["init", "-q", "-b", "trunk"]);
    git_in(&root, &["add", "src"]);
    git_in(&root, &["commit", "-q", "-m", "first"]);
    fs::write(root.join("src/old.txt"), "changed\n").unwrap();
    let state = |dir: &Path| {
        let listed = Command::new("sh")
            .arg("-c")
            .arg("find . -type f -exec sha256sum {} + | sort")
            .current_dir(dir)
            .output();
        String::from_utf8(listed.unwrap().stdout).unwrap()
    };
    let before = state(&root.join(".git"));
    let finished = project.args(["go"]).success();
    assert_eq!(state(&root.join(".git")), before);
    assert!(
        finished
            .stderr()
            .contains("the changes of 1 file are not committed"),
        "{}",
        finished.stderr()
    );
    let tree = bare_repository_git(
        finished.project(),
        &["ls-tree", "-r", "--name-only", "main"],
    );
    let expected = [
        ".pipeline/CUMULATIVE_UNDERSTANDING.md",
        ".pipeline/TASK.md",
        ".pipeline/implementer/I.md",
        "src/new.txt",
        "src/old.txt",
    ];
    assert_eq!(tree.lines().collect::<Vec<_>>(), expected);
    assert_eq!(
        bare_repository_git(finished.project(), &["show", "main:src/old.txt"]),
        "old\n"
    );
    assert_eq!(
        bare_repository_git(finished.project(), &["show", "main:.pipeline/TASK.md"]),
        "go\n"
    );
    finished.has_no("src/new.txt");
}

#[test]
fn answers_come_from_a_file() {
    let asks = "## Open questions\\n\\n- Which port?\\n  assumption: 80";
    let agents = [agent("understand", "", &role_replies("", asks))];
    let config = pipeline_config("stages: [understand]\nproject: none", &agents, "");
    let project = Project::new()
        .config(&config)
        .file("answers.txt", "Port 8080.\n");
    let finished = project
        .args(["--clarifications", "answers.txt", "go"])
        .success();
    let shared = bare_repository_git(
        finished.project(),
        &["show", "main:SHARED_UNDERSTANDING.md"],
    );
    assert!(
        shared.contains("## Answers of the user\n\nPort 8080."),
        "{shared}"
    );
    assert!(!shared.contains("assumed"), "{shared}");
}

#[test]
fn a_missing_clarifications_file_is_an_error_before_any_model_request() {
    let agents = [agent("understand", "", &role_replies("", "done"))];
    let config = pipeline_config("stages: [understand]\nproject: none", &agents, "");
    let finished = Project::new()
        .config(&config)
        .args(["--clarifications", "missing.txt", "go"])
        .failure(2);
    assert!(
        finished.stderr().contains("does not exist: `"),
        "{}",
        finished.stderr()
    );
    assert!(!finished.project().path(".massgen/pipelines/x").exists());
}

#[test]
fn scripts_find_the_answer_at_the_printed_path() {
    let agents = [agent("understand", "", &role_replies("", "all is clear"))];
    let config = pipeline_config("stages: [understand]\nproject: none", &agents, "");
    let finished = Project::new()
        .config(&config)
        .args(["--automation", "go"])
        .success();
    let mut lines = finished.stdout().lines();
    let named = lines.find_map(|line| line.strip_prefix("ANSWER_FILE: [PROJECT]/"));
    let answer = fs::read_to_string(finished.project().path(named.unwrap()));
    assert_eq!(answer.unwrap(), "all is clear");
}

#[test]
fn the_agents_of_a_pipeline_are_listed_in_the_order_of_the_config() {
    let agents = [
        agent("understand", "", &role_replies("", "all is clear")),
        agent("implementer", "", &role_replies("", "nothing to do")),
    ];
    let keys = "stages: [understand, implementer]\nproject: none";
    let config = pipeline_config(keys, &agents, "");
    let finished = Project::new().config(&config).args(["go"]).success();
    let log = pipeline_dir(finished.project()).join("events.jsonl");
    let log = fs::read_to_string(log).unwrap();
    let first: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(first["type"], "run_started", "{first}");
    let listed: Vec<&str> = first["agents"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(listed, ["understand", "implementer"]);
}

/// Runs a pipeline whose planner is a team that votes for ben; `rest` goes to the config.
fn run_team_role(rest: &str) -> FinishedCommand {
    let answers = |name: &str| {
        let write = write_call("planner/PLAN.md", name);
        format!(
            "- when: {{last: \"You are the role\"}}\n  calls: [{write}]\n\
             - when: {{last: \"PLAN.md\"}}\n  calls: [{{name: new_answer, arguments: {{content: \"plan of {name}\"}}}}]\n\
             - when: {{offers: vote}}\n  calls: [{{name: vote, arguments: {{agent_id: agent2, reason: better}}}}]\n  repeat: true\n\
             - text: \"plan of {name}\"\n  repeat: true\n"
        )
    };
    let agents = [
        agent("ann", "", &answers("ann")),
        agent("ben", "", &answers("ben")),
    ];
    let keys = "stages: [{role: planner, agents: [ann, ben]}]\nproject: none";
    let config = pipeline_config(keys, &agents, rest);
    Project::new().config(&config).args(["go"]).success()
}

#[test]
fn the_answers_of_a_team_are_checked_before_its_vote() {
    let check =
        "checks: [{name: sees, command: 'test -e TASK.md && ! grep -q ben planner/PLAN.md'}]";
    let finished = run_team_role(check);
    let plan = bare_repository_git(finished.project(), &["show", "main:planner/PLAN.md"]);
    assert_eq!(plan, "ann", "{}", finished.stderr());
    assert!(
        !finished.stderr().contains("not merged"),
        "{}",
        finished.stderr()
    );
}

#[test]
fn a_role_can_be_a_team_that_votes() {
    let finished = run_team_role("");
    assert_eq!(
        bare_repository_git(finished.project(), &["show", "main:planner/PLAN.md"]),
        "ben"
    );
    let subjects = commit_subjects(finished.project());
    assert!(
        subjects.contains(&"[supervisor] merge planner: plan of ben".to_owned()),
        "{subjects:?}"
    );
    // The answer of the pipeline is that of the agent that won.
    let log = pipeline_dir(finished.project()).join("events.jsonl");
    let log = fs::read_to_string(log).unwrap();
    let events = log.lines().map(|line| serde_json::from_str(line).unwrap());
    let events: Vec<Value> = events.collect();
    let answer = events.iter().find(|event| event["type"] == "final_answer");
    assert_eq!(answer.unwrap()["agent"], "ben", "{events:#?}");
}
