//! Repositories that agents create below the files of a checkout, also in place of a submodule:
//! massgen's git never runs anything that such a repository names.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use massgen::world::git::bare_repository::{BareRepository, DiffStatus};
use massgen::world::git::checkout::Checkout;
use massgen::world::git::object::ObjectId;

use crate::git::{GitFixture, commit_checkout, create_trap, take_triggered, write_file};
use crate::pipeline::{bare_repository_git, git_in, pipeline_config, role_replies};
use crate::project::Project;
use crate::scripted_team::agent;

/// Creates a project with one commit and the submodule `library`.
fn with_submodule() -> GitFixture {
    let fixture = GitFixture::with_commit(&[("file.txt", "one\n")]);
    add_submodule(&fixture.project(), &fixture.dir.path().join("original"));
    fixture
}

fn add_submodule(project: &Path, original: &Path) {
    fs::create_dir(original).unwrap();
    git_in(original, &["init", "-q"]);
    write_file(&original.join("code.txt"), "one\n");
    git_in(original, &["add", "."]);
    git_in(original, &["commit", "-q", "-m", "library"]);
    let (from, local) = (original.to_str().unwrap(), "protocol.file.allow=always");
    let add = ["-c", local, "submodule", "add", "-q", from, "library"];
    git_in(project, &add);
    git_in(project, &["commit", "-q", "-m", "submodule"]);
}

/// Makes the repository in `dir` run `program` on a tracked and modified file.
fn set_filter(dir: &Path, program: &str) {
    write_file(&dir.join("code.txt"), "one\n");
    git_in(dir, &["add", "code.txt"]);
    git_in(dir, &["config", "filter.evil.clean", program]);
    write_file(&dir.join(".gitattributes"), "* filter=evil\n");
    // Its size stays the same, so git has to read it.
    write_file(&dir.join("code.txt"), "two\n");
    let code = fs::File::options()
        .write(true)
        .open(dir.join("code.txt"))
        .unwrap();
    let before = code.metadata().unwrap().modified().unwrap();
    code.set_modified(before + Duration::from_secs(5)).unwrap();
}

/// Creates a repository in `dir` that runs `program` when git reads its files. Its HEAD is `head`,
/// or its own commit.
fn make_trap(dir: &Path, program: &str, head: Option<&str>) {
    fs::create_dir_all(dir).unwrap();
    git_in(dir, &["init", "-q"]);
    git_in(dir, &["commit", "-q", "--allow-empty", "-m", "own"]);
    set_filter(dir, program);
    if let Some(head) = head {
        fs::write(dir.join(".git/HEAD"), head).unwrap();
    }
}

/// Adds all files of `work` with plain git, as massgen's git must not.
fn add_plainly(bare_repository: &BareRepository, work: &Checkout) {
    let (git_dir, tree) = (bare_repository.dir().to_string(), work.dir().to_string());
    let index = format!("{git_dir}/work.index");
    let mut add = Command::new("git");
    add.args(["-c", "safe.directory=*", "add", "--all", "."])
        .current_dir(&tree)
        .env("GIT_DIR", git_dir)
        .env("GIT_WORK_TREE", &tree)
        .env("GIT_INDEX_FILE", index);
    // This fails if the trap has no commit.
    let _output = add.output().unwrap();
}

/// Reverts what massgen's git recorded about the files of `work`.
fn forget_index(bare_repository: &BareRepository) {
    fs::remove_file(bare_repository.dir().as_path().join("work.index")).unwrap();
}

async fn open_checkout(fixture: &GitFixture) -> (BareRepository, Checkout, ObjectId) {
    let project = fixture.open_project().await;
    let bare_repository = fixture.bare_repository(Some(&project)).await;
    let work = fixture.checkout(&bare_repository, "work");
    let head = project.head.unwrap();
    work.show(&head).await.unwrap();
    (bare_repository, work, head)
}

#[tokio::test]
async fn a_repository_that_replaces_a_submodule_runs_and_changes_nothing() {
    let fixture = with_submodule();
    let program = create_trap(fixture.dir.path(), "trap");
    let (bare_repository, work, head) = open_checkout(&fixture).await;
    let library = git_in(&fixture.project(), &["rev-parse", "HEAD:library"]);
    let at = work.dir().as_path().join("library");
    make_trap(&at, &program, Some(&library));
    write_file(&work.dir().as_path().join("new.txt"), "new\n");
    for _ in 0..2 {
        let new_commit =
            commit_checkout(&bare_repository, &work, std::slice::from_ref(&head)).await;
        let rows = bare_repository
            .changed_files(&head, &new_commit)
            .await
            .unwrap();
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (row.path.as_str(), row.status))
            .collect();
        assert_eq!(rows, [("new.txt", DiffStatus::Added)]);
    }
    assert_eq!(take_triggered(fixture.dir.path()), Vec::<String>::new());
    // Control: without precautions, git runs the program.
    forget_index(&bare_repository);
    work.show(&head).await.unwrap();
    add_plainly(&bare_repository, &work);
    assert_eq!(take_triggered(fixture.dir.path()), ["ran-trap"]);
}

#[tokio::test]
async fn a_submodule_stays_when_its_directory_goes_or_becomes_something_else() {
    let fixture = with_submodule();
    let (bare_repository, work, head) = open_checkout(&fixture).await;
    let at = work.dir().as_path().join("library");
    let expect_same = async || {
        let new_commit =
            commit_checkout(&bare_repository, &work, std::slice::from_ref(&head)).await;
        assert_eq!(
            bare_repository
                .changed_files(&head, &new_commit)
                .await
                .unwrap(),
            []
        );
    };
    fs::remove_dir(&at).unwrap();
    expect_same().await;
    fs::write(&at, "a file\n").unwrap();
    expect_same().await;
    fs::remove_file(&at).unwrap();
    std::os::unix::fs::symlink("file.txt", &at).unwrap();
    expect_same().await;
}

#[tokio::test]
async fn a_repository_that_replaces_a_file_counts_as_its_files() {
    let fixture = GitFixture::with_commit(&[("src/code", "one\n"), (".gitignore", "ignored\n")]);
    write_file(&fixture.project().join("ignored/code"), "one\n");
    fixture.user(&["add", "--force", "ignored/code"]);
    fixture.user(&["commit", "-q", "-m", "ignored"]);
    let program = create_trap(fixture.dir.path(), "trap");
    let (bare_repository, work, head) = open_checkout(&fixture).await;
    for name in ["src/code", "ignored/code"] {
        let at = work.dir().as_path().join(name);
        fs::remove_file(&at).unwrap();
        make_trap(&at, &program, None);
    }
    // git rejects this name, so that it reads the files again.
    write_file(&work.dir().as_path().join("src/.GIT"), "x");
    let mut tree = None;
    for _ in 0..2 {
        let taken = work.capture(None).await.unwrap();
        assert_eq!(taken.left_out.len(), 1, "{:?}", taken.left_out);
        let rows = bare_repository
            .changed_files(&head, &taken.tree)
            .await
            .unwrap();
        assert!(!rows.iter().any(|row| row.is_submodule), "{rows:?}");
        let names: Vec<&str> = rows.iter().map(|row| row.path.as_str()).collect();
        let expected = ["ignored/code", "src/code", "src/code/.gitattributes"];
        assert_eq!(names[..3], expected, "{names:?}");
        assert!(names.contains(&"src/code/code.txt"), "{names:?}");
        assert!(tree.is_none_or(|before| before == taken.tree));
        tree = Some(taken.tree);
    }
    assert_eq!(take_triggered(fixture.dir.path()), Vec::<String>::new());
    // Control: plain git first adds it as a submodule, and then reads its files.
    fs::remove_file(work.dir().as_path().join("src/.GIT")).unwrap();
    forget_index(&bare_repository);
    add_plainly(&bare_repository, &work);
    add_plainly(&bare_repository, &work);
    assert_eq!(take_triggered(fixture.dir.path()), ["ran-trap"]);
}

#[tokio::test]
async fn a_submodule_of_the_user_runs_nothing_when_changes_are_looked_for() {
    let fixture = with_submodule();
    let program = create_trap(fixture.dir.path(), "trap");
    let library = fixture.project().join("library");
    set_filter(&library, &program);
    write_file(&fixture.project().join("file.txt"), "two\n");
    let project = fixture.open_project().await;
    let bare_repository = fixture.bare_repository(Some(&project)).await;
    assert_eq!(
        project.list_uncommitted(&bare_repository).await.unwrap(),
        ["file.txt"]
    );
    assert_eq!(take_triggered(fixture.dir.path()), Vec::<String>::new());
    // Control: the user's own git runs it.
    fixture.user(&["status"]);
    assert_eq!(take_triggered(fixture.dir.path()), ["ran-trap"]);
}

#[test]
fn a_role_runs_nothing_outside_its_sandbox_by_way_of_a_submodule() {
    let outside = tempfile::tempdir().unwrap();
    let trace = outside.path().join("ran");
    let line = format!(
        "git ls-tree HEAD library | cut -f1 | cut -d' ' -f3 > head; cd library; git init -q; \
         echo one > code; git add code; git config filter.evil.clean 'touch {0}; cat'; \
         echo '* filter=evil' > .gitattributes; touch -d 2040-01-01 code; mv ../head .git/HEAD; \
         git -c core.quotePath=no status; echo new > ../new.txt",
        trace.display()
    );
    let call = format!("{{name: execute_command, arguments: {{command: \"{line}\"}}}}");
    let keys = "enable_mcp_command_line: true";
    let agents = [agent("builder", keys, &role_replies(&call, "done"))];
    let roles = "roles: {builder: {rights: [write, edit, bash], writes: project}}";
    let config = pipeline_config("stages: [builder]\nuntil: none", &agents, roles);
    let project = Project::new()
        .config(&config)
        .file("file.txt", "one\n")
        .file(".gitignore", ".massgen\n/*.yaml\n");
    let root = project.path("");
    git_in(&root, &["init", "-q"]);
    git_in(&root, &["add", "."]);
    git_in(&root, &["commit", "-q", "-m", "first"]);
    add_submodule(&root, &outside.path().join("original"));
    let finished = project.args(["go"]).success();
    assert!(!trace.exists(), "a program ran outside of the sandbox");
    let head = git_in(&root, &["rev-parse", "HEAD"]);
    let works = ["--", ".", ":!.pipeline"];
    let diff = [&["diff", "--name-only", head.trim(), "main"], &works[..]].concat();
    assert_eq!(bare_repository_git(finished.project(), &diff), "new.txt\n");
}
