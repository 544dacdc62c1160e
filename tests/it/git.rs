//! massgen's use of git: a bare repository for a project, branches, merges and checkouts; and git
//! never runs anything that a project or a tree brings along.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use massgen::path::AbsPath;
use massgen::world::git::GitProgram;
use massgen::world::git::bare_repository::{
    BareRepository, ChangedFile, DiffStatus, MergeResult, NewCommit,
};
use massgen::world::git::checkout::Checkout;
use massgen::world::git::import::LineEndings;
use massgen::world::git::object::{BranchName, CommitAuthor, ObjectId};
use massgen::world::git::project::ProjectRepository;
use massgen::world::git::receiver::CommitReceiver;

use crate::project::make_program;

/// A directory with a bare repository in it, and optionally a project.
pub(crate) struct GitFixture {
    pub(crate) dir: tempfile::TempDir,
}

fn abs(path: &Path) -> AbsPath {
    AbsPath::new(path).unwrap()
}

fn author() -> CommitAuthor {
    CommitAuthor::new("implementer (scripted)", "implementer@massgen")
}

impl GitFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("project")).unwrap();
        Self { dir }
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    /// Runs plain git in the project, as a user would.
    pub(crate) fn user(&self, arguments: &[&str]) -> Output {
        user_git(&self.project(), self.dir.path(), arguments)
    }

    /// Creates a project with one commit of these files.
    pub(crate) fn with_commit(files: &[(&str, &str)]) -> Self {
        let fixture = Self::new();
        fixture.user(&["init", "-q", "-b", "trunk"]);
        for (name, content) in files {
            write_file(&fixture.project().join(name), content);
        }
        fixture.user(&["add", "-A"]);
        fixture.user(&["commit", "-q", "-m", "first"]);
        fixture
    }

    async fn git(&self) -> GitProgram {
        GitProgram::find(&std::env::vars().collect()).await.unwrap()
    }

    pub(crate) async fn open_project(&self) -> ProjectRepository {
        let git = self.git().await;
        let found = ProjectRepository::discover(&git, &abs(&self.project()))
            .await
            .unwrap();
        found.unwrap()
    }

    pub(crate) async fn bare_repository(
        &self,
        project: Option<&ProjectRepository>,
    ) -> BareRepository {
        let dir = abs(&self.dir.path().join("hub.git"));
        BareRepository::create(self.git().await, dir, project)
            .await
            .unwrap()
    }

    pub(crate) fn checkout(&self, bare_repository: &BareRepository, name: &str) -> Checkout {
        let index = bare_repository.dir().join(format!("{name}.index"));
        Checkout::new(
            bare_repository.clone(),
            abs(&self.dir.path().join(name)),
            index,
        )
    }
}

fn user_git(dir: &Path, home: &Path, arguments: &[&str]) -> Output {
    let output = Command::new("git")
        .args(["-c", "user.name=u", "-c", "user.email=u@u"])
        .args(arguments)
        .current_dir(dir)
        .env("HOME", home)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(
        output.status.success() || arguments.contains(&"diff"),
        "{arguments:?}: {output:?}"
    );
    output
}

pub(crate) fn write_file(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Commits the content of the checkout on top of `parents`.
pub(crate) async fn commit_checkout(
    bare_repository: &BareRepository,
    checkout: &Checkout,
    parents: &[ObjectId],
) -> ObjectId {
    let tree = checkout.capture(None).await.unwrap().tree;
    let new = NewCommit {
        tree: &tree,
        parents,
        author: &author(),
        message: "[implementer] work\n",
    };
    bare_repository.commit(new).await.unwrap()
}

fn changed_file(path: &str, status: DiffStatus) -> ChangedFile {
    ChangedFile {
        path: path.to_owned(),
        status,
        is_submodule: false,
    }
}

/// Returns all files of a directory with their content, to compare them byte for byte.
fn list_files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            } else {
                let content = fs::read(&path).unwrap_or_default();
                found.push((path, content));
            }
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn a_bare_repository_works_on_a_project_and_leaves_it_as_it_is() {
    let fixture = GitFixture::with_commit(&[("src/a.txt", "one\n"), ("b.txt", "two\n")]);
    let before = list_files(&fixture.project());
    let project = fixture.open_project().await;
    assert_eq!(project.branch.as_deref(), Some("trunk"));
    let head = project.head.clone().unwrap();
    let bare_repository = fixture.bare_repository(Some(&project)).await;
    let main = BranchName::parse("main").unwrap();
    assert_eq!(bare_repository.tip(&main).await.unwrap(), None);
    bare_repository
        .move_branch(&main, &head, None)
        .await
        .unwrap();

    let work = fixture.checkout(&bare_repository, "work");
    work.show(&head).await.unwrap();
    write_file(&work.dir().as_path().join("src/a.txt"), "changed\n");
    write_file(&work.dir().as_path().join("src/new.txt"), "new\n");
    fs::remove_file(work.dir().as_path().join("b.txt")).unwrap();
    let new_commit = commit_checkout(&bare_repository, &work, std::slice::from_ref(&head)).await;
    let expected = [
        changed_file("b.txt", DiffStatus::Removed),
        changed_file("src/a.txt", DiffStatus::Modified),
        changed_file("src/new.txt", DiffStatus::Added),
    ];
    assert_eq!(
        bare_repository
            .changed_files(&head, &new_commit)
            .await
            .unwrap(),
        expected
    );
    assert!(
        bare_repository
            .is_descendant_of(&new_commit, &head)
            .await
            .unwrap()
    );
    assert!(
        !bare_repository
            .is_descendant_of(&head, &new_commit)
            .await
            .unwrap()
    );
    bare_repository
        .move_branch(&main, &new_commit, Some(&head))
        .await
        .unwrap();
    assert_eq!(
        bare_repository.tip(&main).await.unwrap(),
        Some(new_commit.clone())
    );
    // A late update does not overwrite another one.
    assert!(
        bare_repository
            .move_branch(&main, &head, Some(&head))
            .await
            .is_err()
    );
    assert!(
        bare_repository
            .move_branch(&main, &head, None)
            .await
            .is_err()
    );
    assert_eq!(bare_repository.tip(&main).await.unwrap(), Some(new_commit));

    assert_eq!(list_files(&fixture.project()), before);
    let checked = Command::new("git")
        .args(["fsck", "--strict"])
        .current_dir(bare_repository.dir().as_path())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

#[tokio::test]
async fn merges_are_clean_or_name_the_files_in_conflict() {
    let fixture = GitFixture::new();
    let bare_repository = fixture.bare_repository(None).await;
    let ours = fixture.checkout(&bare_repository, "ours");
    let empty = bare_repository.empty_tree().await.unwrap();
    let new = NewCommit {
        tree: &empty,
        parents: &[],
        author: &author(),
        message: "[supervisor] begin",
    };
    let root = bare_repository.commit(new).await.unwrap();
    ours.show(&root).await.unwrap();
    write_file(&ours.dir().as_path().join("same.txt"), "a\nb\nc\n");
    let base = commit_checkout(&bare_repository, &ours, &[root]).await;
    let theirs = fixture.checkout(&bare_repository, "theirs");
    theirs.show(&base).await.unwrap();

    write_file(&ours.dir().as_path().join("ours.txt"), "o\n");
    let left = commit_checkout(&bare_repository, &ours, std::slice::from_ref(&base)).await;
    write_file(&theirs.dir().as_path().join("same.txt"), "a\nb\nC\n");
    let right = commit_checkout(&bare_repository, &theirs, std::slice::from_ref(&base)).await;
    let MergeResult::Clean(tree) = bare_repository.merge(&left, &right).await.unwrap() else {
        panic!("they changed different files");
    };
    let merged = bare_repository.changed_files(&base, &tree).await.unwrap();
    let expected = [
        changed_file("ours.txt", DiffStatus::Added),
        changed_file("same.txt", DiffStatus::Modified),
    ];
    assert_eq!(merged, expected);

    write_file(&ours.dir().as_path().join("same.txt"), "a\nb\n!\n");
    let left = commit_checkout(&bare_repository, &ours, &[left]).await;
    match bare_repository.merge(&left, &right).await.unwrap() {
        MergeResult::Clean(tree) => panic!("they changed the same line, and came to {tree}"),
        MergeResult::Conflict { tree, files } => {
            assert_eq!(files, ["same.txt"]);
            let both = fixture.checkout(&bare_repository, "both");
            both.show(&tree).await.unwrap();
            let text = fs::read_to_string(both.dir().as_path().join("same.txt")).unwrap();
            assert!(text.contains("!\n|||||||"), "{text}");
            assert!(text.contains("\nc\n=======\nC\n"), "the base too: {text}");
        }
    }
}

#[tokio::test]
async fn a_checkout_shows_another_commit_and_keeps_what_git_passes_over() {
    let fixture = GitFixture::with_commit(&[("a.txt", "one\n"), (".gitignore", "cache/\n")]);
    let project = fixture.open_project().await;
    let bare_repository = fixture.bare_repository(Some(&project)).await;
    let head = project.head.unwrap();
    let work = fixture.checkout(&bare_repository, "work");
    work.show(&head).await.unwrap();
    let file = |name: &str| work.dir().as_path().join(name);
    write_file(&file("cache/big"), "x");
    write_file(&file("a.txt"), "two\n");
    write_file(&file("stray.txt"), "x");
    let second = commit_checkout(&bare_repository, &work, std::slice::from_ref(&head)).await;
    let paths = bare_repository.changed_files(&head, &second).await.unwrap();
    assert_eq!(
        paths.into_iter().map(|row| row.path).collect::<Vec<_>>(),
        ["a.txt", "stray.txt"]
    );
    work.show(&head).await.unwrap();
    assert_eq!(fs::read_to_string(file("a.txt")).unwrap(), "one\n");
    assert!(!file("stray.txt").exists());
    assert!(file("cache/big").exists());
}

/// Writes a program that leaves a file when it is run.
pub(crate) fn create_trap(dir: &Path, name: &str) -> String {
    let (program, trace) = (dir.join(name), dir.join(format!("ran-{name}")));
    let script = format!("#!/bin/sh\necho \"$0\" >> {}\ncat\n", trace.display());
    fs::write(&program, script).unwrap();
    make_program(&program);
    program.display().to_string()
}

/// Returns the traps in `dir` that were run since the last call.
pub(crate) fn take_triggered(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("ran-"))
        .collect();
    names.sort();
    for name in &names {
        fs::remove_file(dir.join(name)).unwrap();
    }
    names
}

impl GitFixture {
    /// Creates a project whose repository and tree run programs wherever git allows it.
    fn with_traps() -> Self {
        let fixture = Self::with_commit(&[
            ("a.txt", "one\n"),
            (".gitattributes", "*.txt filter=evil diff=evil merge=evil\n"),
        ]);
        let dir = fixture.dir.path();
        let (program, hook) = (create_trap(dir, "trap"), create_trap(dir, "hook"));
        let hooks = fixture.project().join(".git/hooks");
        for name in [
            "post-checkout",
            "reference-transaction",
            "pre-commit",
            "post-index-change",
        ] {
            fs::copy(&hook, hooks.join(name)).unwrap();
        }
        for name in [
            "core.fsmonitor",
            "filter.evil.clean",
            "filter.evil.smudge",
            "diff.evil.textconv",
            "diff.external",
            "merge.evil.driver",
            "core.pager",
            "core.editor",
        ] {
            fixture.user(&["config", name, &program]);
        }
        fixture.user(&["config", "alias.rev-parse", &format!("!{program}")]);
        fixture
    }
}

#[tokio::test]
async fn nothing_is_run_that_a_project_brings_along() {
    let fixture = GitFixture::with_traps();
    let (dir, project_dir) = (fixture.dir.path(), fixture.project());
    // Control: plain git runs them.
    write_file(&project_dir.join("a.txt"), "two\n");
    fixture.user(&["status"]);
    fixture.user(&["diff"]);
    fixture.user(&["commit", "-q", "-a", "-m", "second"]);
    assert_eq!(take_triggered(dir), ["ran-hook", "ran-trap"]);

    let project = fixture.open_project().await;
    let bare_repository = fixture.bare_repository(Some(&project)).await;
    write_file(&project_dir.join("a.txt"), "three, and not committed\n");
    assert_eq!(
        project.list_uncommitted(&bare_repository).await.unwrap(),
        ["a.txt"]
    );
    let head = project.head.unwrap();
    let work = fixture.checkout(&bare_repository, "work");
    work.show(&head).await.unwrap();
    write_file(&work.dir().as_path().join("a.txt"), "four\n");
    // An agent may put its own repository into its tree, at the top and below.
    for inner in ["", "inner"] {
        let at = work.dir().as_path().join(inner);
        fs::create_dir_all(&at).unwrap();
        let mut copy = Command::new("cp");
        let copied = copy.arg("-a").arg(project_dir.join(".git")).arg(&at);
        assert!(copied.status().unwrap().success());
    }
    let second = commit_checkout(&bare_repository, &work, std::slice::from_ref(&head)).await;
    write_file(&work.dir().as_path().join("a.txt"), "five\n");
    let third = commit_checkout(&bare_repository, &work, std::slice::from_ref(&head)).await;
    let merged = bare_repository.merge(&second, &third).await.unwrap();
    assert!(matches!(merged, MergeResult::Conflict { .. }));
    let rows = bare_repository.changed_files(&head, &second).await.unwrap();
    assert_eq!(rows, [changed_file("a.txt", DiffStatus::Modified)]);
    work.show(&head).await.unwrap();
    assert_eq!(take_triggered(dir), Vec::<String>::new());
}

#[tokio::test]
async fn odd_repositories_are_taken_as_they_are_or_refused_with_a_reason() {
    let fixture = GitFixture::new();
    let git = fixture.git().await;
    assert_eq!(
        ProjectRepository::discover(&git, &abs(&fixture.project()))
            .await
            .unwrap(),
        None
    );

    fixture.user(&["init", "-q", "-b", "trunk"]);
    let empty = fixture.open_project().await;
    assert_eq!((empty.head, empty.branch.as_deref()), (None, Some("trunk")));

    let fixture = GitFixture::with_commit(&[("a/b.txt", "one\n")]);
    fixture.user(&["checkout", "-q", "--detach"]);
    let below = abs(&fixture.project().join("a"));
    let detached = ProjectRepository::discover(&git, &below)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(detached.root, abs(&fixture.project()));
    assert!(detached.head.is_some());
    assert_eq!(detached.branch, None);

    fixture.user(&["worktree", "add", "-q", "../linked", "-b", "side"]);
    let linked = abs(&fixture.dir.path().join("linked"));
    let linked = ProjectRepository::discover(&git, &linked)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(linked.branch.as_deref(), Some("side"));
    assert_eq!(linked.objects, abs(&fixture.project().join(".git/objects")));

    fixture.user(&["config", "extensions.partialClone", "origin"]);
    fixture.user(&["config", "core.repositoryFormatVersion", "1"]);
    let error = ProjectRepository::discover(&git, &abs(&fixture.project()))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("only at `origin`"), "{error}");

    let bare = GitFixture::new();
    bare.user(&["init", "-q", "--bare", "."]);
    let error = ProjectRepository::discover(&git, &abs(&bare.project()))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("bare repository"), "{error}");
}

#[tokio::test]
async fn a_broken_repository_is_not_one_that_lacks_something() {
    let fixture = GitFixture::with_commit(&[("a.txt", "one\n")]);
    let head = fixture.open_project().await.head.unwrap();
    let (dir, name) = head.as_str().split_at(2);
    let git_dir = fixture.project().join(".git");
    let commit = git_dir.join("objects").join(dir).join(name);
    let config = git_dir.join("config");
    for (file, content, expected) in [
        (commit, "broken", "`git rev-parse` failed"),
        (config, "[broken\n", "bad config line 1"),
    ] {
        // Git makes its objects read-only.
        fs::remove_file(&file).unwrap();
        write_file(&file, content);
        let git = fixture.git().await;
        let error = ProjectRepository::discover(&git, &abs(&fixture.project()))
            .await
            .unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_work_tree_without_its_repository_is_not_a_directory_outside_of_one() {
    let fixture = GitFixture::new();
    let git = fixture.git().await;
    let project = abs(&fixture.project());
    let outside = ProjectRepository::discover(&git, &project).await.unwrap();
    assert_eq!(outside, None);
    write_file(&fixture.project().join(".git"), "gitdir: ../removed\n");
    let error = ProjectRepository::discover(&git, &project)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("`git rev-parse` failed"),
        "{error}"
    );
}

#[tokio::test]
async fn broken_settings_of_the_user_are_not_missing_ones() {
    let fixture = GitFixture::with_commit(&[("a.txt", "one\n")]);
    let project = fixture.open_project().await;
    let home = fixture.dir.path();
    let path = std::env::var("PATH").unwrap();
    let env = [
        ("PATH", path.as_str()),
        ("HOME", home.to_str().unwrap()),
        ("GIT_CONFIG_NOSYSTEM", "1"),
    ];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let git = GitProgram::find(&BTreeMap::from(env)).await.unwrap();
    let bare_repository = BareRepository::create(git, abs(&home.join("hub.git")), Some(&project))
        .await
        .unwrap();
    let receiver = CommitReceiver {
        bare_repository: &bare_repository,
        project: &project,
    };
    assert_eq!(receiver.identity().await.unwrap(), None);
    let line_endings = receiver.line_endings().await.unwrap();
    assert_eq!(line_endings, LineEndings::default());
    write_file(
        &home.join(".gitconfig"),
        "[user]\nname = Ann\nemail = a@b.example\n",
    );
    let ann = CommitAuthor::new("Ann", "a@b.example");
    assert_eq!(receiver.identity().await.unwrap(), Some(ann));
    write_file(&home.join(".gitconfig"), "[broken\n");
    let error = receiver.identity().await.unwrap_err().to_string();
    assert!(error.contains("`git var` failed"), "{error}");
    let error = receiver.line_endings().await.unwrap_err().to_string();
    assert!(error.contains("`git config` failed"), "{error}");
}

#[tokio::test]
async fn a_shallow_clone_and_sha256_are_worked_on() {
    let fixture = GitFixture::with_commit(&[("a.txt", "one\n")]);
    write_file(&fixture.project().join("a.txt"), "two\n");
    fixture.user(&["commit", "-q", "-a", "-m", "second"]);
    let from = format!("file://{}", fixture.project().display());
    let home = fixture.dir.path();
    user_git(home, home, &["clone", "-q", "--depth=1", &from, "shallow"]);
    let new = [
        "init",
        "-q",
        "-b",
        "trunk",
        "--object-format=sha256",
        "long",
    ];
    user_git(home, home, &new);
    write_file(&home.join("long/a.txt"), "one\n");
    user_git(&home.join("long"), home, &["add", "-A"]);
    user_git(&home.join("long"), home, &["commit", "-q", "-m", "first"]);
    for name in ["shallow", "long"] {
        let git = fixture.git().await;
        let project = ProjectRepository::discover(&git, &abs(&home.join(name)))
            .await
            .unwrap()
            .unwrap();
        let bare_repository = abs(&home.join(format!("{name}.git")));
        let bare_repository = BareRepository::create(git, bare_repository, Some(&project))
            .await
            .unwrap();
        let head = project.head.clone().unwrap();
        let work = fixture.checkout(&bare_repository, &format!("{name}-work"));
        work.show(&head).await.unwrap();
        write_file(&work.dir().as_path().join("b.txt"), "new\n");
        let new_commit =
            commit_checkout(&bare_repository, &work, std::slice::from_ref(&head)).await;
        let rows = bare_repository
            .changed_files(&head, &new_commit)
            .await
            .unwrap();
        assert_eq!(rows, [changed_file("b.txt", DiffStatus::Added)], "{name}");
        assert_eq!(
            project.list_uncommitted(&bare_repository).await.unwrap(),
            Vec::<String>::new(),
            "{name}"
        );
    }
}
