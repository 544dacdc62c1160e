//! Effects of `massgen apply` for pipelines on the user's repository: the branch and the index are
//! updated together or not at all, nothing that the repository brings along is run, and the user's
//! settings apply.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::thread::scope;
use std::time::{Duration, Instant};

use massgen::path::AbsPath;
use massgen::world::git::GitProgram;
use massgen::world::git::bare_repository::{BareRepository, NewCommit};
use massgen::world::git::object::CommitAuthor;
use massgen::world::git::project;
use massgen::world::git::receiver::CommitReceiver;

use crate::git::{create_trap, take_triggered};
use crate::pipeline::{
    git_in, killed_after, pipeline_config, pipeline_dir, role_replies, write_call,
};
use crate::project::{FinishedCommand, Project};
use crate::repetition::repetitions;
use crate::scripted_team::agent;

/// Number of moments at which an apply is killed.
const KILLS: usize = 40;
/// The same in the short suite.
const KILLS_SHORT: usize = 16;
/// Number of parallel applies.
const AT_ONCE: usize = 4;

/// Returns a project with one commit, and a pipeline for it that changes one file and creates
/// another.
pub(crate) fn project() -> Project {
    let read = "{name: read_text_file, arguments: {path: src/old.txt}}".to_owned();
    let calls = [
        read,
        write_call("src/old.txt", "one\\nTWO\\n"),
        write_call("src/new/file.txt", "new\\n"),
    ];
    let agents = [agent(
        "implementer",
        "",
        &role_replies(&calls.join(", "), "did it"),
    )];
    let project = Project::new()
        .config(&pipeline_config("stages: [implementer]", &agents, ""))
        .file("src/old.txt", "one\ntwo\n")
        .file("src/other.txt", "other\n")
        .file(".gitignore", ".massgen\n/*.yaml\n");
    let root = project.path("");
    git_in(&root, &["init", "-q", "-b", "trunk"]);
    git_in(&root, &["add", "."]);
    git_in(&root, &["commit", "-q", "-m", "first"]);
    project
}

pub(crate) fn finished_pipeline() -> FinishedCommand {
    project().args(["change it"]).success()
}

/// Returns the commits of the user's branch, and the differences from it.
fn repository_state(project: &Project) -> (String, String) {
    let root = project.path("");
    let log = git_in(&root, &["log", "--format=%s", "--first-parent", "HEAD"]);
    let all = ["status", "--porcelain", "--untracked-files=all"];
    (log, git_in(&root, &all))
}

#[track_caller]
pub(crate) fn expect_committed(project: &Project) {
    let expected = ("change it\nfirst\n".to_owned(), String::new());
    assert_eq!(repository_state(project), expected);
    let root = project.path("");
    git_in(&root, &["fsck", "--strict"]);
    for left in ["index.lock", "index.massgen"] {
        assert!(!root.join(".git").join(left).exists(), "{left}");
    }
}

#[test]
fn apply_refuses_a_project_that_another_git_process_locks() {
    let worked = finished_pipeline();
    let lock = worked.project().path(".git/index.lock");
    fs::write(&lock, "another's").unwrap();
    let refused = worked
        .then(["apply", "last"])
        .failure(3)
        .has_file("src/old.txt", "one\ntwo\n")
        .has_file(".git/index.lock", "another's");
    assert!(refused.stderr().contains("index.lock"));
    fs::remove_file(&lock).unwrap();
    expect_committed(refused.then(["apply", "last"]).success().project());
}

#[test]
fn an_apply_that_is_killed_at_any_moment_is_finished_by_the_next() {
    let undisturbed = finished_pipeline();
    let begun = Instant::now();
    expect_committed(undisturbed.then(["apply", "last"]).success().project());
    // Parallel applies make each slower than the one that was measured.
    let duration = begun.elapsed() * 3;
    let kills = repetitions(KILLS_SHORT, KILLS);
    scope(|scope| {
        for first in 0..AT_ONCE {
            scope.spawn(move || {
                for number in (first..kills).step_by(AT_ONCE) {
                    let part = u32::try_from(number).unwrap();
                    kill_and_apply(duration * part / u32::try_from(kills).unwrap());
                }
            });
        }
    });
}

fn kill_and_apply(time: Duration) {
    let worked = finished_pipeline();
    let project = worked.project();
    killed_after(project, &["apply", "last"], time);
    let root = project.path("");
    if !root.join(".git/index.lock").exists() {
        // The user's next commit reverts nothing.
        let staged = git_in(&root, &["diff", "--cached", "--name-only"]);
        assert_eq!(staged, "", "killed after {time:?}");
    }
    expect_committed(worked.then(["apply", "last"]).success().project());
}

/// A lock that massgen has left is recognized by its second name.
#[test]
fn the_lock_of_a_process_that_was_killed_goes_and_the_branch_stays() {
    let worked = finished_pipeline();
    let git_dir = worked.project().path(".git");
    fs::write(git_dir.join("index.massgen"), "no index").unwrap();
    fs::hard_link(git_dir.join("index.massgen"), git_dir.join("index.lock")).unwrap();
    expect_committed(worked.then(["apply", "last"]).success().project());
}

#[test]
fn the_index_follows_a_branch_that_had_moved_when_the_process_was_killed() {
    let worked = finished_pipeline();
    let git_dir = worked.project().path(".git");
    let before = fs::read(git_dir.join("index")).unwrap();
    let applied = worked.then(["apply", "last"]).success();
    fs::rename(git_dir.join("index"), git_dir.join("index.massgen")).unwrap();
    fs::hard_link(git_dir.join("index.massgen"), git_dir.join("index.lock")).unwrap();
    fs::write(git_dir.join("index"), before).unwrap();
    let root = applied.project().path("");
    let staged = git_in(&root, &["diff", "--cached", "--name-only"]);
    assert_eq!(staged, "src/new/file.txt\nsrc/old.txt\n");
    expect_committed(applied.then(["apply", "last"]).success().project());
}

#[test]
fn apply_keeps_the_users_staged_changes() {
    let worked = finished_pipeline();
    let root = worked.project().path("");
    fs::write(root.join("src/other.txt"), "staged\n").unwrap();
    git_in(&root, &["add", "src/other.txt"]);
    fs::write(root.join("src/other.txt"), "and more\n").unwrap();
    let applied = worked.then(["apply", "last"]).success();
    let (log, status) = repository_state(applied.project());
    assert_eq!(log, "change it\nfirst\n");
    assert_eq!(status, "MM src/other.txt\n");
    assert_eq!(git_in(&root, &["show", ":src/other.txt"]), "staged\n");
}

#[test]
fn an_index_in_parts_is_taken_as_a_whole() {
    let project = project();
    let root = project.path("");
    git_in(&root, &["update-index", "--split-index"]);
    fs::write(root.join("src/other.txt"), "staged\n").unwrap();
    git_in(&root, &["add", "src/other.txt"]);
    let parts = fs::read_dir(root.join(".git")).unwrap();
    let mut names = parts.map(|part| part.unwrap().file_name().into_string().unwrap());
    assert!(names.any(|name| name.starts_with("sharedindex.")));
    let applied = project
        .args(["change it"])
        .success()
        .then(["apply", "last"])
        .success();
    let (log, status) = repository_state(applied.project());
    assert_eq!(log, "change it\nfirst\n");
    assert_eq!(status, "M  src/other.txt\n");
}

#[test]
fn nothing_is_run_that_the_repository_brings_along() {
    let traps = tempfile::tempdir().unwrap();
    let program = create_trap(traps.path(), "trap");
    let project = project();
    let root = project.path("");
    let elsewhere = format!("url.ext::{program}.insteadOf");
    for (name, value) in [
        ("core.fsmonitor", program.as_str()),
        ("filter.evil.clean", &program),
        ("filter.evil.smudge", &program),
        ("diff.external", &program),
        ("diff.evil.textconv", &program),
        ("merge.evil.driver", &program),
        ("core.alternateRefsCommand", &program),
        ("core.editor", &program),
        ("gpg.program", &program),
        ("commit.gpgSign", "true"),
        ("protocol.ext.allow", "always"),
        (&elsewhere, "/"),
        ("alias.update-ref", &format!("!{program}")),
    ] {
        git_in(&root, &["config", name, value]);
    }
    let hooks = ["reference-transaction", "post-index-change", "pre-commit"];
    for hook in hooks.iter().chain(&["post-merge", "post-checkout"]) {
        fs::copy(&program, root.join(".git/hooks").join(hook)).unwrap();
    }
    let attributes = "* filter=evil diff=evil merge=evil\n";
    fs::write(root.join(".git/info/attributes"), attributes).unwrap();
    // Control: plain git runs them.
    fs::write(root.join("src/other.txt"), "touched\n").unwrap();
    git_in(&root, &["status"]);
    assert_eq!(take_triggered(traps.path()), ["ran-trap"]);
    fs::write(root.join("src/other.txt"), "other\n").unwrap();
    let applied = project
        .args(["change it"])
        .success()
        .then(["apply", "last"])
        .success();
    assert_eq!(take_triggered(traps.path()), Vec::<String>::new());
    let log = ["log", "--format=%s", "--first-parent", "HEAD"];
    assert_eq!(git_in(&root, &log), "change it\nfirst\n");
    drop(applied);
}

#[test]
fn lines_end_as_the_user_has_them() {
    let project = project();
    let root = project.path("");
    git_in(&root, &["config", "core.autocrlf", "true"]);
    fs::remove_file(root.join("src/old.txt")).unwrap();
    git_in(&root, &["checkout", "--", "src/old.txt"]);
    let applied = project
        .args(["change it"])
        .success()
        .has_file("src/old.txt", "one\r\ntwo\r\n")
        .then(["apply", "last"])
        .success()
        .has_file("src/old.txt", "one\r\nTWO\r\n")
        .has_file("src/new/file.txt", "new\r\n");
    expect_committed(applied.project());
}

#[test]
fn the_commit_is_by_whom_the_users_git_knows() {
    let check = |project: Project, expected: &str| {
        let applied = project
            .args(["change it"])
            .success()
            .then(["apply", "last"])
            .success();
        let root = applied.project().path("");
        let by = git_in(&root, &["log", "-1", "--format=%an <%ae> %cn"]);
        assert_eq!(by, format!("{expected}\n"));
    };
    let identity = "[user]\nname = Ann Other\nemail = ann@home\n";
    check(
        project().home_file(".config/git/config", identity),
        "Ann Other <ann@home> Ann Other",
    );
    check(
        project()
            .home_file(".gitconfig", "[include]\npath = ~/who\n")
            .home_file("who", identity),
        "Ann Other <ann@home> Ann Other",
    );
    check(
        project()
            .env("GIT_AUTHOR_NAME", "Eve")
            .home_file(".gitconfig", identity),
        "Eve <ann@home> Eve",
    );
    check(
        project(),
        "supervisor (massgen) <supervisor@massgen.invalid> supervisor (massgen)",
    );
}

#[test]
fn a_run_from_a_hook_works_on_the_repository_around_it() {
    let other = tempfile::tempdir().unwrap();
    git_in(other.path(), &["init", "-q", "--bare", "."]);
    let finished = project()
        .env("GIT_DIR", other.path())
        .env("GIT_INDEX_FILE", other.path().join("index"))
        .args(["change it"])
        .success()
        .then(["apply", "last"])
        .success();
    expect_committed(finished.project());
    assert!(!other.path().join("index").exists());
}

#[test]
fn a_directory_that_became_a_link_leads_nowhere() {
    let outside = tempfile::tempdir().unwrap();
    let worked = finished_pipeline();
    symlink(outside.path(), worked.project().path("src/new")).unwrap();
    let refused = worked
        .then(["apply", "last"])
        .failure(4)
        .has_file("src/old.txt", "one\ntwo\n");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    fs::remove_file(refused.project().path("src/new")).unwrap();
    expect_committed(refused.then(["apply", "last"]).success().project());
}

#[test]
fn a_tree_elsewhere_is_none_of_the_projects() {
    let outside = tempfile::tempdir().unwrap();
    let project = project();
    let root = project.path("");
    git_in(
        &root,
        &["config", "core.worktree", outside.path().to_str().unwrap()],
    );
    let refused = project.args(["change it"]).failure(3);
    assert!(
        refused.stderr().contains("cannot be used"),
        "{}",
        refused.stderr()
    );
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

/// Creates `private`, a repository with a secret, and next to it `project`, with `make`; checks
/// that it is rejected because of `reason`.
#[track_caller]
fn check_stranger(make: fn(&Path, &Path), reason: &str) {
    let dir = tempfile::tempdir().unwrap();
    let private = dir.path().join("private");
    fs::create_dir(&private).unwrap();
    git_in(&private, &["init", "-q", "-b", "trunk"]);
    fs::write(private.join("secret"), "TOPSECRET\n").unwrap();
    git_in(&private, &["add", "."]);
    git_in(&private, &["commit", "-q", "-m", "first"]);
    let calls = "{name: read_text_file, arguments: {path: secret}}";
    let agents = [agent("implementer", "", &role_replies(calls, "did it"))];
    let project = Project::new().config(&pipeline_config("stages: [implementer]", &agents, ""));
    make(&private, &project.path(""));
    let refused = project.args(["go"]).failure(3);
    assert!(refused.stderr().contains(reason), "{}", refused.stderr());
    assert!(!refused.stderr().contains("TOPSECRET"));
}

/// A project may name any of the user's repositories: that repository has to name the project too.
#[test]
fn a_repository_that_belongs_elsewhere_is_not_worked_on() {
    check_stranger(
        |private, root| symlink(private.join(".git"), root.join(".git")).unwrap(),
        "its `.git` is a symlink",
    );
    check_stranger(
        |private, root| {
            let named = format!("gitdir: {}/.git\n", private.display());
            fs::write(root.join(".git"), named).unwrap();
        },
        "its `.git` points to",
    );
    check_stranger(
        |private, root| {
            git_in(root, &["init", "-q", "-b", "trunk"]);
            let common = private.join(".git").display().to_string();
            fs::write(root.join(".git/commondir"), common).unwrap();
        },
        "its `.git` points to",
    );
    check_stranger(
        |private, root| {
            let own = root.join("g");
            fs::create_dir(&own).unwrap();
            let common = private.join(".git").display().to_string();
            fs::write(own.join("commondir"), common).unwrap();
            fs::write(own.join("HEAD"), "ref: refs/heads/trunk\n").unwrap();
            fs::write(own.join("gitdir"), root.join(".git").display().to_string()).unwrap();
            fs::write(root.join(".git"), "gitdir: g\n").unwrap();
        },
        "its `.git` points to",
    );
    check_stranger(
        |private, root| {
            git_in(root, &["init", "-q", "-b", "trunk"]);
            fs::remove_dir_all(root.join(".git/objects")).unwrap();
            symlink(private.join(".git/objects"), root.join(".git/objects")).unwrap();
        },
        "its object directory is a symlink",
    );
}

/// Controls: trees that a repository lists, or names as its own.
#[test]
fn a_repository_that_names_the_directory_is_worked_on() {
    let dir = tempfile::tempdir().unwrap();
    let linked = project();
    let outer = dir.path().join("outer");
    let clone = linked.path("").display().to_string();
    git_in(dir.path(), &["clone", "-q", &clone, "outer"]);
    let config = fs::read_to_string(linked.path(".massgen/config.yaml")).unwrap();
    let check = |root: &Path| {
        fs::create_dir_all(root.join(".massgen")).unwrap();
        fs::write(root.join(".massgen/config.yaml"), &config).unwrap();
        let mut command = linked.command();
        let output = command.arg("change it").current_dir(root).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {stderr}", root.display());
    };
    git_in(&outer, &["worktree", "add", "-q", "-b", "w", "../tree"]);
    check(&dir.path().join("tree"));
    let allow = ["-c", "protocol.file.allow=always"];
    let add = ["submodule", "--quiet", "add", &clone, "inner"];
    git_in(&outer, &[allow.as_slice(), &add].concat());
    check(&outer.join("inner"));
    git_in(
        dir.path(),
        &["clone", "-q", "--separate-git-dir=apart", &clone, "own"],
    );
    let own = dir.path().join("own");
    git_in(&own, &["config", "core.worktree", own.to_str().unwrap()]);
    check(&own);
}

#[test]
fn anothers_repository_has_to_be_trusted() {
    let refused = project()
        .env("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        .args(["change it"])
        .failure(3);
    assert!(
        refused.stderr().contains("belongs to another user"),
        "{}",
        refused.stderr()
    );
    project()
        .env("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        .home_file(".gitconfig", "[safe]\ndirectory = *\n")
        .args(["change it"])
        .success();
}

/// The user's repository, and a commit for it whose objects it has.
struct Receiving {
    _dir: tempfile::TempDir,
    root: std::path::PathBuf,
    bare_repository: BareRepository,
    project: project::ProjectRepository,
    author: CommitAuthor,
}

impl Receiving {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("project");
        fs::create_dir(&root).unwrap();
        git_in(&root, &["init", "-q", "-b", "trunk"]);
        fs::write(root.join("a"), "a\n").unwrap();
        git_in(&root, &["add", "a"]);
        git_in(&root, &["commit", "-q", "-m", "first"]);
        let git = GitProgram::find(&std::env::vars().collect()).await.unwrap();
        let at = AbsPath::new(&root).unwrap();
        let project = project::ProjectRepository::discover(&git, &at)
            .await
            .unwrap()
            .unwrap();
        let repository_dir = AbsPath::new(dir.path().join("hub.git")).unwrap();
        let bare_repository = BareRepository::create(git, repository_dir, Some(&project))
            .await
            .unwrap();
        Self {
            author: CommitAuthor::new("u", "u@u"),
            _dir: dir,
            root,
            bare_repository,
            project,
        }
    }

    async fn advance(&self) -> massgen::error::Result<()> {
        let head = self.project.head.clone().unwrap();
        let commit = NewCommit {
            tree: &self.bare_repository.tree_of(&head).await.unwrap(),
            parents: &[head],
            author: &self.author,
            message: "second",
        };
        let commit = self.bare_repository.commit(commit).await.unwrap();
        let receiver = CommitReceiver {
            bare_repository: &self.bare_repository,
            project: &self.project,
        };
        receiver.receive_objects(&commit).await.unwrap();
        receiver.advance(&commit, &self.author, "why").await
    }

    fn git(&self, arguments: &[&str]) -> String {
        git_in(&self.root, arguments)
    }
}

#[tokio::test]
async fn a_branch_that_moved_meanwhile_stays_where_it_is() {
    for meanwhile in [
        ["commit", "-q", "--allow-empty", "-m", "mine"].as_slice(),
        &["switch", "-q", "-c", "other"],
        &["switch", "-q", "--detach"],
    ] {
        let receiving = Receiving::new().await;
        receiving.git(meanwhile);
        let before = receiving.git(&["for-each-ref"]);
        let error = receiving.advance().await.unwrap_err().to_string();
        assert!(error.contains("has changed"), "{meanwhile:?}: {error}");
        assert_eq!(receiving.git(&["for-each-ref"]), before);
        assert!(!receiving.root.join(".git/index.lock").exists());
    }
    let receiving = Receiving::new().await;
    receiving.advance().await.unwrap();
    assert_eq!(receiving.git(&["log", "--format=%s"]), "second\nfirst\n");
    let reflog = receiving.git(&["reflog", "-1", "--format=%gs %gn"]);
    assert_eq!(reflog, "why u\n");
}

#[test]
fn files_are_as_the_attributes_of_the_project_say() {
    let attributes = "*.wide text working-tree-encoding=UTF-16LE\n*.txt text eol=crlf\n";
    let wide = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    let project = project()
        .file(".gitattributes", attributes)
        .file("src/a.wide", wide("one\n"))
        .file("src/old.txt", "one\r\ntwo\r\n")
        .file("src/other.txt", "other\r\n");
    let root = project.path("");
    git_in(&root, &["add", "--renormalize", "."]);
    git_in(&root, &["add", "."]);
    git_in(&root, &["commit", "-q", "--amend", "-m", "first"]);
    let command = "cat src/a.wide src/a.wide > src/b; mv src/b src/a.wide; echo TWO >> src/old.txt";
    let applied = building_project(project, command)
        .success()
        .has_file("src/old.txt", "one\r\ntwo\r\nTWO\r\n");
    let found = fs::read(root.join("src/a.wide")).unwrap();
    assert_eq!(found, wide("one\none\n"));
    expect_committed(applied.project());
}

#[test]
fn apply_refuses_a_project_with_an_unfinished_merge() {
    let worked = finished_pipeline();
    let root = worked.project().path("");
    git_in(&root, &["switch", "-q", "-c", "side"]);
    fs::write(root.join("src/other.txt"), "side\n").unwrap();
    git_in(&root, &["commit", "-q", "-a", "-m", "side"]);
    git_in(&root, &["switch", "-q", "trunk"]);
    git_in(&root, &["merge", "-q", "--no-commit", "--no-ff", "side"]);
    let refused = worked
        .then(["apply", "last"])
        .failure(4)
        .has_file("src/old.txt", "one\ntwo\n");
    assert!(
        refused.stderr().contains("a merge is in progress"),
        "{}",
        refused.stderr()
    );
    git_in(&root, &["merge", "--abort"]);
    expect_committed(refused.then(["apply", "last"]).success().project());
}

#[test]
fn an_obstacle_to_a_directory_is_named() {
    let check = |description: &str, make: fn(&Path)| {
        let worked = finished_pipeline();
        let obstacle = worked.project().path("src/new");
        make(&obstacle);
        let refused = worked
            .then(["apply", "last"])
            .failure(4)
            .has_file("src/old.txt", "one\ntwo\n");
        let named = format!("`src/new` ({description})");
        assert!(refused.stderr().contains(&named), "{}", refused.stderr());
        fs::rename(&obstacle, refused.project().path("../away")).unwrap();
        expect_committed(refused.then(["apply", "last"]).success().project());
    };
    check("a file", |obstacle| fs::write(obstacle, "mine").unwrap());
    check("a link", |obstacle| symlink("/", obstacle).unwrap());
    check("a repository of its own", |obstacle| {
        fs::create_dir(obstacle).unwrap();
        git_in(obstacle, &["init", "-q"]);
    });
}

/// Returns a pipeline whose role runs `command` in a project, ready to be applied.
fn building_project(project: Project, command: &str) -> Project {
    let call = format!("{{name: execute_command, arguments: {{command: \"{command}\"}}}}");
    let agents = [agent(
        "builder",
        "enable_mcp_command_line: true",
        &role_replies(&call, "built"),
    )];
    let roles = "roles: {builder: {rights: [write, edit, bash], writes: project}}";
    let project = project.config(&pipeline_config("stages: [builder]", &agents, roles));
    project
        .args(["change it"])
        .success()
        .then(["apply", "last"])
}

#[test]
fn files_become_directories_and_directories_files() {
    let command = "rm src/old.txt && mkdir src/old.txt && echo a > src/old.txt/a && rm -r src/other.txt && ln -s old.txt/a src/other.txt";
    let applied = building_project(project(), command)
        .success()
        .has_file("src/old.txt/a", "a\n");
    expect_committed(applied.project());
    let applied = building_project(project(), "rm -r src && echo flat > src")
        .success()
        .has_file("src", "flat\n");
    expect_committed(applied.project());
}

#[test]
fn a_directory_that_holds_more_does_not_become_a_file() {
    let project =
        building_project(project(), "rm -r src && echo flat > src").file("src/mine", "mine\n");
    let refused = project.failure(4).has_file("src/mine", "mine\n");
    assert!(refused.stderr().contains("`src`"), "{}", refused.stderr());
    fs::remove_file(refused.project().path("src/mine")).unwrap();
    expect_committed(refused.then(["apply", "last"]).success().project());
}

/// git distinguishes a branch from a tag of the same name by its full name.
#[test]
fn a_tag_with_the_name_of_the_branch_changes_nothing() {
    let project = project();
    git_in(&project.path(""), &["tag", "trunk"]);
    let applied = project
        .args(["change it"])
        .success()
        .then(["apply", "last"])
        .success();
    expect_committed(applied.project());
    assert!(pipeline_dir(applied.project()).exists());
}

#[test]
fn many_objects_come_as_one_pack() {
    let worked = finished_pipeline();
    let root = worked.project().path("");
    let applied = worked.then(["apply", "last"]).success();
    let packs = fs::read_dir(root.join(".git/objects/pack")).unwrap();
    let ends: Vec<String> = packs
        .map(|file| file.unwrap().path())
        .filter_map(|file| Some(file.extension()?.to_str()?.to_owned()))
        .filter(|end| end == "pack" || end == "idx")
        .collect();
    assert_eq!(ends.len(), 2, "{ends:?}");
    // The user's repository does not depend on the pipeline.
    fs::remove_dir_all(root.join(".massgen")).unwrap();
    let verified = Command::new("git")
        .args(["-c", "safe.directory=*", "fsck", "--full", "--strict"])
        .current_dir(&root)
        .output()
        .unwrap();
    assert!(verified.status.success(), "{verified:?}");
    drop(applied);
}
