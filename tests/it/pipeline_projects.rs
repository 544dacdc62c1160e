//! Pipelines in repositories in every state, several in parallel, and with a person at the
//! terminal.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;

use portable_pty::{PtySize, native_pty_system};

use crate::pipeline::{bare_repository_git, git_in, pipeline_config, role_replies, write_call};
use crate::project::{FinishedCommand, Project};
use crate::scripted_team::agent;

fn config() -> String {
    let write = write_call("src/new.txt", "new\\n");
    let agents = [agent("implementer", "", &role_replies(&write, "did it"))];
    pipeline_config("stages: [implementer]", &agents, "")
}

/// Returns a project with one commit of `src/old.txt`.
fn project() -> Project {
    let project = Project::new()
        .config(&config())
        .file("src/old.txt", "old\n");
    let root = project.path("");
    git_in(&root, &["init", "-q", "-b", "trunk"]);
    git_in(&root, &["add", "src"]);
    git_in(&root, &["commit", "-q", "-m", "first"]);
    project
}

/// Checks that a pipeline works on a project after `prepare`, and that its work is applied.
#[track_caller]
fn check_pipeline(prepare: impl Fn(&Path), form: &str) -> FinishedCommand {
    let project = project();
    prepare(&project.path(""));
    let finished = project.args(["go"]).success();
    let tree = bare_repository_git(
        finished.project(),
        &["ls-tree", "-r", "--name-only", "main"],
    );
    assert!(tree.contains("src/new.txt"), "{tree}");
    finished
        .then(["apply", "last", "--history", form])
        .success()
        .has_file("src/new.txt", "new\n")
}

#[test]
fn a_pipeline_works_on_a_repository_in_any_state() {
    check_pipeline(
        |root| drop(git_in(root, &["checkout", "-q", "--detach"])),
        "none",
    );
    check_pipeline(
        |root| drop(git_in(root, &["sparse-checkout", "set", "docs"])),
        "none",
    );
    check_pipeline(
        |root| fs::write(root.join("src/other.txt"), "dirty\n").unwrap(),
        "merge",
    );
    check_pipeline(
        |root| {
            fs::write(root.join("src/old.txt"), "staged\n").unwrap();
            git_in(root, &["add", "src/old.txt"]);
        },
        "merge",
    );
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    check_pipeline(
        |root| {
            fs::write(
                root.join(".gitattributes"),
                "*.bin filter=lfs diff=lfs merge=lfs -text\n",
            )
            .unwrap();
            fs::write(root.join("big.bin"), pointer).unwrap();
            git_in(root, &["add", ".gitattributes", "big.bin"]);
            git_in(root, &["commit", "-q", "-m", "lfs"]);
        },
        "merge",
    )
    .has_file("big.bin", pointer);
    check_pipeline(
        |root| {
            git_in(root, &["init", "-q", "-b", "x", "../library"]);
            git_in(
                &root.join("../library"),
                &["commit", "-q", "--allow-empty", "-m", "lib"],
            );
            let add = [
                "-c",
                "protocol.file.allow=always",
                "submodule",
                "add",
                "-q",
                "../library",
                "library",
            ];
            git_in(root, &add);
            git_in(root, &["commit", "-q", "-m", "submodule"]);
        },
        "merge",
    );
}

#[test]
fn a_pipeline_begins_in_a_repository_without_a_commit() {
    let project = Project::new().config(&config());
    let root = project.path("");
    git_in(&root, &["init", "-q", "-b", "trunk"]);
    let finished = project
        .args(["go"])
        .success()
        .then(["apply", "last"])
        .success();
    let log = git_in(&root, &["log", "-1", "--format=%s", "trunk"]);
    assert_eq!(log, "go\n");
    assert_eq!(git_in(&root, &["status", "--porcelain", "--", "src"]), "");
    finished.has_file("src/new.txt", "new\n");
}

#[test]
fn an_unusable_repository_is_an_error_before_any_model_request() {
    let check = |prepare: &dyn Fn(&Path), expected: &str| {
        let project = project();
        prepare(&project.path(""));
        let finished = project.args(["go"]).run();
        let stderr = finished.stderr();
        assert!([Some(2), Some(3)].contains(&finished.code()), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
        assert!(!stderr.contains("stage:"), "{stderr}");
    };
    let partial = |root: &Path| {
        git_in(root, &["config", "extensions.partialClone", "origin"]);
        git_in(root, &["config", "core.repositoryFormatVersion", "1"]);
    };
    check(&partial, "some of its objects are only at `origin`");
    let taken = |root: &Path| {
        fs::create_dir(root.join(".pipeline")).unwrap();
        fs::write(root.join(".pipeline/x"), "x").unwrap();
        git_in(root, &["add", ".pipeline"]);
        git_in(root, &["commit", "-q", "-m", "taken"]);
    };
    check(
        &taken,
        "the directory of the roles, `.pipeline`, exists in the project",
    );
}

#[test]
fn two_pipelines_in_one_project_do_not_meet() {
    let project = project();
    let begin = || {
        let mut command = project.command();
        command
            .arg("go")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let both = [begin(), begin()];
    for child in both {
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{stderr}");
    }
    let all = fs::read_dir(project.path(".massgen/pipelines")).unwrap();
    let bare_repositories: Vec<_> = all.map(|one| one.unwrap().path().join("hub.git")).collect();
    assert_eq!(bare_repositories.len(), 2);
    for bare_repository in bare_repositories {
        let tree = git_in(&bare_repository, &["ls-tree", "-r", "--name-only", "main"]);
        assert!(tree.contains("src/new.txt"), "{tree}");
        git_in(&bare_repository, &["fsck", "--strict"]);
    }
}

#[test]
fn a_person_at_the_terminal_answers_what_is_unclear() {
    let asks =
        "## Open questions\\n\\n- Which port?\\n  assumption: 80\\n- TLS?\\n  assumption: no";
    let agents = [agent("understand", "", &role_replies("", asks))];
    let config = pipeline_config("stages: [understand]\nproject: none", &agents, "");
    let project = Project::new().config(&config).args(["go"]);
    let shown = type_answers(&project, &["8080\r", "\r"]);
    assert!(shown.contains("without an answer, assumed: 80"), "{shown}");
    let shared = bare_repository_git(&project, &["show", "main:SHARED_UNDERSTANDING.md"]);
    assert!(
        shared.contains("- Which port?\n  the user: 8080\n"),
        "{shared}"
    );
    assert!(
        shared.contains("- TLS?\n  no answer; assumed: no\n"),
        "{shared}"
    );
}

/// Only the user's answer makes this check pass.
#[test]
fn a_person_at_the_terminal_says_how_work_can_be_merged() {
    let works = format!(
        "- when: {{last: \"The user says: write b\"}}\n  calls: [{}]\n{}",
        write_call("implementer/b", "b"),
        role_replies(&write_call("implementer/a", "a"), "did it")
    );
    let agents = [agent("implementer", "", &works)];
    let keys = "stages: [implementer]\nproject: none\nmerge_tries: 1";
    let config = pipeline_config(keys, &agents, "checks: [\"test -e implementer/b\"]");
    let project = Project::new().config(&config).args(["go"]);
    let shown = type_answers(&project, &["write b\r"]);
    assert!(shown.contains("still cannot be merged"), "{shown}");
    assert_eq!(
        bare_repository_git(&project, &["show", "main:implementer/b"]),
        "b"
    );
}

/// Returns what is shown to a person who types these answers, one per question.
#[track_caller]
fn type_answers(project: &Project, answers: &[&str]) -> String {
    let pty = native_pty_system().openpty(PtySize::default()).unwrap();
    let mut child = pty.slave.spawn_command(project.terminal_command()).unwrap();
    drop(pty.slave);
    let mut reader = pty.master.try_clone_reader().unwrap();
    let mut writer = pty.master.take_writer().unwrap();
    let (mut shown, mut piece) = (String::new(), [0; 4096]);
    let mut answers = answers.iter();
    let mut answered = 0;
    while let Ok(len @ 1..) = reader.read(&mut piece) {
        shown.push_str(&String::from_utf8_lossy(&piece[..len]));
        if shown
            .matches("your answer (Ctrl-D: none), then Enter?")
            .count()
            > answered
            && let Some(answer) = answers.next()
        {
            writer.write_all(answer.as_bytes()).unwrap();
            answered += 1;
        }
    }
    assert!(child.wait().unwrap().success(), "{shown}");
    shown
}
