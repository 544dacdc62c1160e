//! Delivery of pipelines by the real binary to real repositories: as files, as one commit, as a
//! merge; and no concurrent work of the user is lost.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use crate::pipeline::{git_in, pipeline_config, pipeline_dir, role_replies, write_call};
use crate::project::{FinishedCommand, Project};
use crate::scripted_team::{agent, answer_replies, team};
use crate::terminal::Terminal;

/// Returns an implementer that changes, adds and removes files of a project.
fn implementer_replies() -> String {
    let calls = [
        "{name: read_text_file, arguments: {path: src/old.txt}}".to_owned(),
        write_call("src/old.txt", "one\\nTWO\\nthree\\n"),
        write_call("src/new/file.txt", "new\\n"),
        write_call(".pipeline/implementer/NOTES.md", "notes\\n"),
        "{name: delete_file, arguments: {path: src/gone.txt}}".to_owned(),
    ];
    let read = "- when: {last: \"You are the role\"}\n  calls: [{name: read_text_file, arguments: {path: src/gone.txt}}]\n";
    let rest = format!(
        "- when: {{last: \"gone soon\"}}\n  calls: [{}]\n- calls: [{{name: new_answer, arguments: {{content: \"did it\"}}}}]\n  repeat: true\n",
        calls.join(", ")
    );
    format!("{read}{rest}")
}

/// Returns a project with one commit on which a pipeline has worked.
fn finished_pipeline() -> FinishedCommand {
    let agents = [agent("implementer", "", &implementer_replies())];
    let project = Project::new()
        .config(&pipeline_config("stages: [implementer]", &agents, ""))
        .file("src/old.txt", "one\ntwo\nthree\n")
        .file("src/gone.txt", "gone soon\n");
    let root = project.path("");
    git_in(&root, &["init", "-q", "-b", "trunk"]);
    git_in(&root, &["add", "src"]);
    git_in(&root, &["commit", "-q", "-m", "first"]);
    project.args(["change it"]).success()
}

/// Returns the files on disk and the state of the repository after `apply`.
fn repository_state(project: &Project) -> (String, String) {
    let root = project.path("");
    (
        git_in(
            &root,
            &[
                "status",
                "--porcelain",
                "--untracked-files=all",
                "--",
                "src",
                ".pipeline",
            ],
        ),
        git_in(&root, &["log", "--format=%s", "--first-parent", "trunk"]),
    )
}

#[track_caller]
fn expect_delivered(finished: FinishedCommand) -> FinishedCommand {
    finished
        .has_file("src/old.txt", "one\nTWO\nthree\n")
        .has_file("src/new/file.txt", "new\n")
        .has_no("src/gone.txt")
        .has_no(".pipeline")
}

#[test]
fn a_merge_is_committed_with_the_history_of_the_roles() {
    let finished = finished_pipeline().then(["apply", "last"]).success();
    assert!(
        finished.stderr().contains("committed to trunk: "),
        "{}",
        finished.stderr()
    );
    let finished = expect_delivered(finished);
    let project = finished.project();
    assert_eq!(
        repository_state(project),
        (String::new(), "change it\nfirst\n".to_owned())
    );
    let root = project.path("");
    let all = git_in(&root, &["log", "--format=%s", "trunk"]);
    assert!(all.contains("[implementer] did it"), "{all}");
    git_in(&root, &["fsck", "--strict"]);
    assert_eq!(
        git_in(&root, &["branch", "--format=%(refname:short)"]),
        "trunk\n"
    );
    let again = finished.then(["apply", "last"]).success();
    assert!(
        again.stderr().contains("there is nothing") || again.stderr().contains("no files"),
        "{}",
        again.stderr()
    );
}

#[test]
fn diff_shows_what_apply_would_change() {
    let shown = finished_pipeline().then(["diff", "last"]).success();
    assert!(shown.stdout().contains("+TWO\n"), "{}", shown.stdout());
    assert!(!shown.stdout().contains(".pipeline"), "{}", shown.stdout());
    let shown = shown.has_file("src/old.txt", "one\ntwo\nthree\n");
    let applied = expect_delivered(shown.then(["apply", "last"]).success());
    let again = applied.then(["diff", "last"]).success();
    assert!(
        again.stdout().contains("+TWO\n"),
        "what was delivered: {}",
        again.stdout()
    );
}

#[test]
fn a_session_shows_applies_and_reverts_the_work_of_a_pipeline() {
    let finished = finished_pipeline();
    let dir = pipeline_dir(finished.project());
    let name = dir.file_name().unwrap().to_str().unwrap();
    let agents = [agent("a", "", &answer_replies("done", "agent1", 0))];
    let project = finished
        .then(["--config", "chat"])
        .file(".massgen/chat.yaml", team(&agents, ""))
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .env("PAGER", "cat");
    let mut terminal = Terminal::open(project, 80);
    terminal.wait_for_prompt(&[">"]);
    for (number, command) in ["/diff\r".to_owned(), format!("/diff {name}\r")]
        .into_iter()
        .enumerate()
    {
        terminal.type_keys(&command);
        let diff_count = || terminal.all_output().matches("+TWO").count();
        terminal.wait(
            || diff_count() > number,
            || format!("the diff after {command}"),
        );
        terminal.wait_for_prompt(&[">"]);
    }
    terminal.type_keys("/apply\r");
    terminal.wait_for_output("[n]othing?");
    terminal.type_keys("a\r");
    terminal.wait_for_output("committed to trunk: ");
    terminal.wait_for_prompt(&[">"]);
    let file = terminal.project().path("src/new/file.txt");
    assert!(file.exists());
    terminal.type_keys("/undo\r");
    terminal.wait_for_output("undone src/new/file.txt: removed");
    terminal.wait_for_prompt(&[">"]);
    assert!(!file.exists());
}

#[test]
fn a_squash_is_one_commit() {
    let finished = expect_delivered(
        finished_pipeline()
            .then(["apply", "last", "--history", "squash"])
            .success(),
    );
    let project = finished.project();
    assert_eq!(
        repository_state(project),
        (String::new(), "change it\nfirst\n".to_owned())
    );
    let all = git_in(&project.path(""), &["log", "--format=%s", "trunk"]);
    assert_eq!(all, "change it\nfirst\n");
}

#[test]
fn files_leave_git_alone_and_can_be_undone() {
    let before = finished_pipeline();
    let head = git_in(&before.project().path(""), &["rev-parse", "HEAD"]);
    let finished = expect_delivered(
        before
            .then(["apply", "last", "--history", "none"])
            .success(),
    );
    let root = finished.project().path("");
    assert_eq!(git_in(&root, &["rev-parse", "HEAD"]), head);
    let (status, _) = repository_state(finished.project());
    assert_eq!(
        status,
        " D src/gone.txt\n M src/old.txt\n?? src/new/file.txt\n"
    );
    finished
        .then(["undo"])
        .success()
        .has_file("src/old.txt", "one\ntwo\nthree\n")
        .has_file("src/gone.txt", "gone soon\n")
        .has_no("src/new/file.txt");
}

#[test]
fn apply_merges_with_commits_of_the_user() {
    let finished = finished_pipeline();
    let root = finished.project().path("");
    fs::write(root.join("src/mine.txt"), "mine\n").unwrap();
    git_in(&root, &["add", "src/mine.txt"]);
    git_in(&root, &["commit", "-q", "-m", "second"]);
    let finished = expect_delivered(finished.then(["apply", "last"]).success());
    let (status, log) = repository_state(finished.project());
    assert_eq!(
        (status.as_str(), log.as_str()),
        ("", "change it\nsecond\nfirst\n")
    );
    finished.has_file("src/mine.txt", "mine\n");
}

#[test]
fn one_commit_is_made_on_top_of_the_users_new_commits() {
    let finished = finished_pipeline();
    let root = finished.project().path("");
    fs::write(root.join("src/mine.txt"), "mine\n").unwrap();
    git_in(&root, &["add", "src/mine.txt"]);
    git_in(&root, &["commit", "-q", "-m", "second"]);
    let squash = ["apply", "last", "--history", "squash"];
    let finished = expect_delivered(finished.then(squash).success());
    let all = git_in(&root, &["log", "--format=%s", "trunk"]);
    assert_eq!(all, "change it\nsecond\nfirst\n");
    let again = finished.then(squash).success();
    assert!(
        again.stderr().contains("there are no files"),
        "{}",
        again.stderr()
    );
}

#[test]
fn apply_refuses_everything_that_conflicts_with_the_users_work() {
    let untouched = |finished: &FinishedCommand, old: &str| {
        let project = finished.project();
        assert_eq!(
            fs::read_to_string(project.path("src/old.txt")).unwrap(),
            old
        );
        assert!(project.path("src/gone.txt").exists(), "nothing was applied");
        assert!(
            !project.path("src/new/file.txt").exists(),
            "nothing was applied"
        );
    };
    let committed = finished_pipeline();
    let root = committed.project().path("");
    fs::write(root.join("src/old.txt"), "one\nmine\nthree\n").unwrap();
    git_in(&root, &["commit", "-q", "-am", "second"]);
    let refused = committed.then(["apply", "last"]).failure(4);
    assert!(
        refused
            .stderr()
            .contains("changed the same lines of 1 file: `src/old.txt`"),
        "{}",
        refused.stderr()
    );
    untouched(&refused, "one\nmine\nthree\n");

    let dirty = finished_pipeline();
    fs::write(dirty.project().path("src/old.txt"), "dirty\n").unwrap();
    let refused = dirty.then(["apply", "last"]).failure(4);
    assert!(
        refused
            .stderr()
            .contains("1 file with your changes would be replaced"),
        "{}",
        refused.stderr()
    );
    untouched(&refused, "dirty\n");

    let untracked = finished_pipeline();
    fs::create_dir(untracked.project().path("src/new")).unwrap();
    fs::write(untracked.project().path("src/new/file.txt"), "mine\n").unwrap();
    let refused = untracked
        .then(["apply", "last", "--history", "none"])
        .failure(4);
    assert!(
        refused.stderr().contains("`src/new/file.txt`"),
        "{}",
        refused.stderr()
    );
    let refused = refused
        .has_file("src/new/file.txt", "mine\n")
        .has_file("src/old.txt", "one\ntwo\nthree\n");
    fs::remove_file(refused.project().path("src/new/file.txt")).unwrap();
    expect_delivered(refused.then(["apply", "last"]).success());
}

#[test]
fn an_interrupted_apply_is_finished_by_the_next() {
    let finished = finished_pipeline();
    let lock = finished.project().path(".git/refs/heads/trunk.lock");
    fs::write(&lock, "").unwrap();
    let failed = expect_delivered(finished.then(["apply", "last"]).failure(3));
    let (_, log) = repository_state(failed.project());
    assert_eq!(log, "first\n");
    fs::remove_file(&lock).unwrap();
    let finished = expect_delivered(failed.then(["apply", "last"]).success());
    assert_eq!(
        repository_state(finished.project()),
        (String::new(), "change it\nfirst\n".to_owned())
    );
}

#[test]
fn a_branch_is_pushed_only_on_request() {
    let finished = finished_pipeline();
    let root = finished.project().path("");
    git_in(&root, &["init", "-q", "--bare", "../remote.git"]);
    git_in(&root, &["remote", "add", "there", "../remote.git"]);
    let finished = finished.then(["apply", "last"]).success();
    let remote = root.join("../remote.git");
    assert_eq!(git_in(&remote, &["branch"]), "");
    let other = finished_pipeline();
    let root = other.project().path("");
    git_in(&root, &["init", "-q", "--bare", "../remote.git"]);
    git_in(&root, &["remote", "add", "there", "../remote.git"]);
    let pushed = other.then(["apply", "last", "--push", "there"]).success();
    let remote = root.join("../remote.git");
    let remote_subject = git_in(&remote, &["log", "-1", "--format=%s", "trunk"]);
    assert_eq!(remote_subject, "change it\n");
    drop((finished, pushed));
}

#[test]
fn modes_links_and_protected_names_are_delivered_as_the_rules_say() {
    let calls = "{name: execute_command, arguments: {command: \"printf 'echo hi' > src/run.sh && chmod +x src/run.sh && ln -s run.sh src/link && mkdir -p .github/hooks && echo x > .github/hooks/h\"}}";
    let agents = [agent(
        "builder",
        "enable_mcp_command_line: true",
        &role_replies(calls, "built"),
    )];
    let roles = "roles: {builder: {rights: [write, edit, bash], writes: project}}";
    let project = Project::new()
        .config(&pipeline_config("stages: [builder]", &agents, roles))
        .file("src/old.txt", "old\n");
    let root = project.path("");
    git_in(&root, &["init", "-q", "-b", "trunk"]);
    git_in(&root, &["add", "src"]);
    git_in(&root, &["commit", "-q", "-m", "first"]);
    let worked = project.args(["go"]).success();
    let refused = worked
        .then(["apply", "last"])
        .failure(4)
        .has_no("src/run.sh");
    assert!(
        refused.stderr().contains(".github/hooks"),
        "{}",
        refused.stderr()
    );
    let finished = refused
        .then(["apply", "last", "--history", "none"])
        .failure(4)
        .has_no(".github/hooks/h");
    let run = finished.project().path("src/run.sh");
    assert_eq!(
        fs::metadata(&run).unwrap().permissions().mode() & 0o100,
        0o100
    );
    assert_eq!(
        fs::read_link(finished.project().path("src/link"))
            .unwrap()
            .to_str(),
        Some("run.sh")
    );
    // A symlink alone is not an obstacle.
    symlink("run.sh", finished.project().path("src/other")).unwrap();
}

#[test]
fn what_a_pipeline_obeys_is_not_delivered() {
    let calls = [
        "{name: read_text_file, arguments: {path: team.yaml}}".to_owned(),
        "{name: read_text_file, arguments: {path: hook.sh}}".to_owned(),
        write_call("team.yaml", "agents: []\\n"),
        write_call("hook.sh", "exit 2\\n"),
        write_call("src/new.txt", "new\\n"),
    ];
    let agents = [agent(
        "implementer",
        "",
        &role_replies(&calls.join(", "), "did it"),
    )];
    let hooks = "hooks: {AnswerSubmitted: ['sh hook.sh']}";
    let config = pipeline_config("stages: [implementer]", &agents, hooks);
    let project = Project::new()
        .file("team.yaml", &config)
        .file("hook.sh", "exit 0\n");
    let root = project.path("");
    git_in(&root, &["init", "-q", "-b", "trunk"]);
    git_in(&root, &["add", "team.yaml", "hook.sh"]);
    git_in(&root, &["commit", "-q", "-m", "first"]);
    let worked = project.args(["--config", "team.yaml", "go"]).success();
    let refused = worked.then(["apply", "last"]).failure(4);
    assert!(
        refused.stderr().contains("hook.sh` cannot be delivered"),
        "{}",
        refused.stderr()
    );
    refused
        .has_no("src/new.txt")
        .then(["apply", "last", "--history", "none"])
        .failure(4)
        .has_file("team.yaml", &config)
        .has_file("hook.sh", "exit 0\n")
        .has_file("src/new.txt", "new\n");
}

#[test]
fn a_pipeline_without_a_project_delivers_all_that_it_made() {
    let made = [
        write_call("implementer/a.py", "print(1)\\n"),
        write_call("implementer/IMPLEMENTATION.md", "i\\n"),
    ];
    let agents = [agent(
        "implementer",
        "",
        &role_replies(&made.join(", "), "did it"),
    )];
    let config = pipeline_config("stages: [implementer]\nproject: none", &agents, "");
    let finished = Project::new().config(&config).args(["go"]).success();
    assert!(pipeline_dir(finished.project()).exists());
    finished
        .then(["apply", "last", "--history", "merge"])
        .failure(2)
        .has_no("implementer")
        .then(["apply", "last"])
        .success()
        .has_file("implementer/a.py", "print(1)\n")
        .has_file("TASK.md", "go\n");
}
