//! Other operations of massgen in a bare repository: histories, trees, branches, reverts, and
//! nested repositories of agents. Agents may choose any names in trees.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use massgen::path::{AbsPath, RelPath};
use massgen::world::git::GitProgram;
use massgen::world::git::bare_repository::{BareRepository, MergeResult, NewCommit};
use massgen::world::git::checkout::Checkout;
use massgen::world::git::history::HistoryTraversal;
use massgen::world::git::object::{BranchName, CommitAuthor, ObjectId};
use massgen::world::git::private_repository::PrivateRepositorySpec;
use massgen::world::git::project::ProjectRepository;

/// A bare repository in its own directory.
pub(crate) struct BareRepositoryFixture {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) bare_repository: BareRepository,
}

fn abs(path: &Path) -> AbsPath {
    AbsPath::new(path).unwrap()
}

pub(crate) fn rel(path: impl AsRef<Path>) -> RelPath {
    RelPath::new(path).unwrap()
}

fn branch(name: &str) -> BranchName {
    BranchName::parse(name).unwrap()
}

fn author() -> CommitAuthor {
    CommitAuthor::new("planner (scripted)", "planner@massgen")
}

pub(crate) async fn git() -> GitProgram {
    GitProgram::find(&std::env::vars().collect()).await.unwrap()
}

/// Runs plain git in `dir` as a user would, and returns its output.
fn plain_git(dir: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(dir)
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

impl BareRepositoryFixture {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let bare_repository = abs(&dir.path().join("hub.git"));
        let bare_repository = BareRepository::create(git().await, bare_repository, None)
            .await
            .unwrap();
        Self {
            dir,
            bare_repository,
        }
    }

    /// Creates the bare repository of a project whose objects have long (SHA-256) names.
    async fn of_long_names() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let format = "--object-format=sha256";
        plain_git(dir.path(), &["init", "-q", format, "project"]);
        let project = abs(&dir.path().join("project"));
        let project = ProjectRepository::discover(&git().await, &project)
            .await
            .unwrap();
        let bare_repository = abs(&dir.path().join("hub.git"));
        let bare_repository =
            BareRepository::create(git().await, bare_repository, project.as_ref())
                .await
                .unwrap();
        Self {
            dir,
            bare_repository,
        }
    }

    async fn commit(&self, tree: &ObjectId, parents: &[&ObjectId], message: &str) -> ObjectId {
        let parents: Vec<ObjectId> = parents.iter().map(|id| (*id).clone()).collect();
        let new = NewCommit {
            tree,
            parents: &parents,
            author: &author(),
            message,
        };
        self.bare_repository.commit(new).await.unwrap()
    }

    /// Commits these changed files on top of `on`.
    async fn put(&self, on: Option<&ObjectId>, files: &[(&str, Option<&str>)]) -> ObjectId {
        let tree = match on {
            Some(commit) => self.bare_repository.tree_of(commit).await.unwrap(),
            None => self.bare_repository.empty_tree().await.unwrap(),
        };
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (rel(path), text.map(|text| text.as_bytes().to_vec())))
            .collect();
        let tree = self
            .bare_repository
            .with_files(&tree, &files)
            .await
            .unwrap();
        let parents: Vec<&ObjectId> = on.into_iter().collect();
        self.commit(&tree, &parents, "put\n").await
    }

    async fn text(&self, commit: &ObjectId, path: &str) -> Option<String> {
        let tree = self.bare_repository.tree_of(commit).await.unwrap();
        let file = self
            .bare_repository
            .file(&tree, &rel(path), 1000)
            .await
            .unwrap();
        file.map(|file| String::from_utf8(file).unwrap())
    }

    fn checkout(&self, name: &str) -> Checkout {
        let index = self.bare_repository.dir().join(format!("{name}.index"));
        let dir = abs(&self.dir.path().join(name));
        Checkout::new(self.bare_repository.clone(), dir, index)
    }
}

#[tokio::test]
async fn a_history_is_read_as_it_was_made() {
    let fixture = BareRepositoryFixture::new().await;
    let bare_repository = &fixture.bare_repository;
    let messages = [
        "one\n",
        "-x \"two\"\n\ncommit 0000\n\u{1b}[31m red\n\nMassgen-Event: end\n",
        "",
    ];
    let read = |since: Option<ObjectId>, line| {
        let (bare_repository, main) = (&fixture.bare_repository, branch("main"));
        async move { bare_repository.history(&main, since.as_ref(), line).await }
    };
    let empty = bare_repository.empty_tree().await.unwrap();
    let first = fixture.commit(&empty, &[], messages[0]).await;
    let aside = fixture.put(Some(&first), &[("a", Some("a"))]).await;
    let tree = bare_repository.tree_of(&aside).await.unwrap();
    let merge = fixture.commit(&tree, &[&first, &aside], messages[1]).await;
    let last = fixture.commit(&tree, &[&merge], messages[2]).await;
    let main = branch("main");
    bare_repository
        .move_branch(&main, &last, None)
        .await
        .unwrap();

    let history = read(None, HistoryTraversal::FirstParents).await.unwrap();
    let ids: Vec<_> = history.iter().map(|commit| &commit.id).collect();
    assert_eq!(ids, [&first, &merge, &last]);
    for (commit, message) in history.iter().zip(messages) {
        assert_eq!(commit.message, message.trim_end());
    }
    assert_eq!(history[1].parents, [first.clone(), aside.clone()]);
    assert_eq!((&history[1].tree, &history[0].parents), (&tree, &vec![]));
    assert_eq!(history[1].author, "planner (scripted)");
    assert_eq!(history[1].subject(), "-x \"two\"");
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!(history[0].committed_at.abs_diff(now.cast_signed()) < 3600);

    let since = read(Some(merge.clone()), HistoryTraversal::FirstParents)
        .await
        .unwrap();
    assert_eq!(since, history[2..]);
    let all: Vec<_> = read(Some(first), HistoryTraversal::All)
        .await
        .unwrap()
        .into_iter()
        .map(|commit| commit.id)
        .collect();
    assert_eq!(all, [aside, merge.clone(), last]);
    assert_eq!(
        bare_repository.read_commit(&merge).await.unwrap(),
        history[1]
    );
    let missing = branch("missing");
    assert!(
        bare_repository
            .history(&missing, None, HistoryTraversal::FirstParents)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn trees_of_any_names_are_changed_and_looked_into() {
    for fixture in [
        BareRepositoryFixture::new().await,
        BareRepositoryFixture::of_long_names().await,
    ] {
        let bare_repository = &fixture.bare_repository;
        let odd = [
            OsStr::new("-x"),
            OsStr::new("a\nb\t\"c\""),
            OsStr::from_bytes(b"\xff\xfe"),
            OsStr::new("*"),
            OsStr::new(":(top)x-gdeadbeef"),
        ];
        let mut files: Vec<_> = odd
            .iter()
            .map(|name| (rel("dir").join(&rel(name)), Some(b"in dir".to_vec())))
            .collect();
        files.push((rel("directory"), Some(b"beside".to_vec())));
        files.push((rel("-d/inner/file"), Some(b"0123456789".to_vec())));
        let empty = bare_repository.empty_tree().await.unwrap();
        let tree = bare_repository.with_files(&empty, &files).await.unwrap();
        for (path, content) in &files {
            assert_eq!(
                bare_repository.file(&tree, path, 100).await.unwrap(),
                *content
            );
        }
        let below = bare_repository
            .files_below(&tree, &rel("dir"))
            .await
            .unwrap();
        let expected = ["*", "-x", ":(top)x-gdeadbeef", "a\nb\t\"c\""];
        assert_eq!(below, expected);
        let all = bare_repository
            .files_below(&tree, &RelPath::default())
            .await
            .unwrap();
        assert_eq!(all.len(), 6);
        for missing in ["nothing", "dir", "directory/x", "", "-d/inner/file/x"] {
            let actual = bare_repository
                .file(&tree, &rel(missing), 100)
                .await
                .unwrap();
            assert_eq!(actual, None, "{missing}");
        }
        let none = bare_repository
            .files_below(&tree, &rel("directory"))
            .await
            .unwrap();
        assert_eq!(none, Vec::<String>::new());
        let path = rel("-d/inner/file");
        let begins = bare_repository.file(&tree, &path, 4).await.unwrap();
        assert_eq!(begins.as_deref(), Some(b"0123".as_slice()));
        let long = [(rel("long"), Some(vec![b'x'; 1_000_000]))];
        let with_long = bare_repository.with_files(&tree, &long).await.unwrap();
        let begins = bare_repository
            .file(&with_long, &rel("long"), 2)
            .await
            .unwrap();
        assert_eq!(begins.as_deref(), Some(b"xx".as_slice()));

        // A file replaces a directory, one file is removed, and a directory is removed with all its
        // names.
        let changes = [
            (rel("-d/inner"), Some(b"now a file".to_vec())),
            (rel("directory"), None),
            (rel("dir"), None),
            (rel("never/was/there"), None),
        ];
        let after = bare_repository.with_files(&tree, &changes).await.unwrap();
        let all = bare_repository
            .files_below(&after, &RelPath::default())
            .await;
        assert_eq!(all.unwrap(), ["-d/inner"]);
        let back = bare_repository.with_files(&empty, &files).await.unwrap();
        assert_eq!(back, tree);
        let escape = [(rel(".git/config"), Some(Vec::new()))];
        assert_eq!(
            bare_repository.with_files(&tree, &escape).await.unwrap(),
            tree
        );
        let left = fs::read_dir(bare_repository.dir().as_path()).unwrap();
        let left = left.filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().starts_with(".massgen-")
        });
        assert_eq!(left.count(), 0);
    }
}

#[tokio::test]
async fn a_link_is_no_file() {
    let fixture = BareRepositoryFixture::new().await;
    let work = fixture.checkout("work");
    let first = fixture.put(None, &[("a", Some("a"))]).await;
    work.show(&first).await.unwrap();
    symlink("/etc/passwd", work.dir().as_path().join("link")).unwrap();
    let tree = work.capture(None).await.unwrap().tree;
    let read = |name: &'static str| {
        let (bare_repository, tree) = (&fixture.bare_repository, &tree);
        async move { bare_repository.file(tree, &rel(name), 100).await.unwrap() }
    };
    assert_eq!(read("link").await, None);
    assert_eq!(read("a").await, Some(b"a".to_vec()));
}

#[tokio::test]
async fn branches_are_listed_measured_and_removed() {
    let fixture = BareRepositoryFixture::new().await;
    let bare_repository = &fixture.bare_repository;
    assert_eq!(bare_repository.branches().await.unwrap(), []);
    let first = fixture.put(None, &[("a", Some("1"))]).await;
    let ours = fixture.put(Some(&first), &[("a", Some("2"))]).await;
    let ours = fixture.put(Some(&ours), &[("a", Some("3"))]).await;
    let theirs = fixture.put(Some(&first), &[("b", Some("1"))]).await;
    let (main, role) = (branch("main"), branch("massgen/0a/planner"));
    for (name, at) in [(&role, &theirs), (&main, &ours)] {
        bare_repository.move_branch(name, at, None).await.unwrap();
    }
    let same = branch("same");
    bare_repository
        .move_branch(&same, &ours, None)
        .await
        .unwrap();
    let found = bare_repository.branches().await.unwrap();
    let found: Vec<_> = found.iter().map(|(name, tip)| (name, tip)).collect();
    assert_eq!(found, [(&main, &ours), (&role, &theirs), (&same, &ours)]);
    assert_eq!(
        bare_repository.distance(&ours, &theirs).await.unwrap(),
        (2, 1)
    );
    assert_eq!(
        bare_repository.distance(&ours, &ours).await.unwrap(),
        (0, 0)
    );

    // A late removal does not undo another update.
    assert!(bare_repository.remove_branch(&role, &first).await.is_err());
    assert_eq!(
        bare_repository.tip(&role).await.unwrap().as_ref(),
        Some(&theirs)
    );
    bare_repository.remove_branch(&role, &theirs).await.unwrap();
    assert_eq!(bare_repository.tip(&role).await.unwrap(), None);
}

#[tokio::test]
async fn a_broken_repository_is_not_one_without_the_branch() {
    let fixture = BareRepositoryFixture::new().await;
    let bare_repository = &fixture.bare_repository;
    let main = branch("main");
    let commit = fixture.put(None, &[("a", Some("1"))]).await;
    bare_repository
        .move_branch(&main, &commit, None)
        .await
        .unwrap();
    assert_eq!(bare_repository.tip(&branch("other")).await.unwrap(), None);
    let head = fixture.dir.path().join("hub.git/HEAD");
    fs::remove_file(head).unwrap();
    for name in ["main", "other"] {
        let error = bare_repository.tip(&branch(name)).await.unwrap_err();
        let message = error.to_string();
        assert!(message.contains("`git rev-parse` failed"), "{message}");
    }
}

#[tokio::test]
async fn merged_work_is_reverted_or_its_conflicts_are_named() {
    let fixture = BareRepositoryFixture::new().await;
    let bare_repository = &fixture.bare_repository;
    let first = fixture.put(None, &[("a", Some("1\n"))]).await;
    let changes = [("a", Some("2\n")), ("new", Some("n\n"))];
    let merged = fixture.put(Some(&first), &changes).await;
    let later = fixture.put(Some(&merged), &[("b", Some("b\n"))]).await;
    let taken = bare_repository
        .merge_from(&merged, &later, &first)
        .await
        .unwrap();
    let MergeResult::Clean(tree) = taken else {
        panic!("no role changed the same file: {taken:?}");
    };
    let taken = fixture.commit(&tree, &[&later], "back\n").await;
    let mut texts = Vec::new();
    for name in ["a", "b", "new"] {
        texts.push(fixture.text(&taken, name).await);
    }
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(texts, [some("1\n"), some("b\n"), None]);

    let later = fixture.put(Some(&merged), &[("a", Some("3\n"))]).await;
    match bare_repository
        .merge_from(&merged, &later, &first)
        .await
        .unwrap()
    {
        MergeResult::Clean(tree) => panic!("both changed the same line, and came to {tree}"),
        MergeResult::Conflict { files, .. } => assert_eq!(files, ["a"]),
    }
}

#[tokio::test]
async fn an_agent_has_a_repository_that_is_its_own() {
    for fixture in [
        BareRepositoryFixture::new().await,
        BareRepositoryFixture::of_long_names().await,
    ] {
        let bare_repository = &fixture.bare_repository;
        let first = fixture.put(None, &[("a.txt", Some("1\n"))]).await;
        let tip = fixture.put(Some(&first), &[("b.txt", Some("2\n"))]).await;
        let (main, own) = (branch("main"), branch("massgen/0a/planner"));
        bare_repository
            .move_branch(&main, &first, None)
            .await
            .unwrap();
        bare_repository.move_branch(&own, &tip, None).await.unwrap();
        let work = fixture.checkout("work");
        work.show(&tip).await.unwrap();
        let dir = work.dir().as_path().to_owned();
        // The replacement is a symlink to a file outside, and massgen does not follow it.
        let outside = fixture.dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "kept").unwrap();
        symlink(&outside, dir.join(".git")).unwrap();
        let identity = CommitAuthor::new("-x planner", "planner@massgen");
        let outset = |tip| PrivateRepositorySpec {
            branch: &own,
            branch_tip: tip,
            main_tip: &first,
            author: &identity,
        };
        let made = bare_repository
            .create_private_repository(work.dir(), outset(&tip))
            .await;
        made.unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);

        assert_eq!(plain_git(&dir, &["status", "--porcelain"]), "");
        let on = plain_git(&dir, &["rev-parse", "--abbrev-ref", "HEAD"]);
        assert_eq!(on.trim(), own.to_string());
        fs::write(dir.join("a.txt"), "changed\n").unwrap();
        plain_git(&dir, &["stash"]);
        plain_git(&dir, &["stash", "pop"]);
        plain_git(&dir, &["commit", "-q", "-a", "-m", "mine"]);
        plain_git(&dir, &["rebase", "-q", "main"]);
        let log = plain_git(&dir, &["log", "--format=%an:%s"]);
        assert_eq!(
            log,
            "-x planner:mine\nplanner (scripted):put\nplanner (scripted):put\n"
        );
        plain_git(&dir, &["gc", "-q", "--prune=now"]);
        plain_git(&dir, &["branch", "-D", "main"]);
        assert_eq!(
            bare_repository.tip(&main).await.unwrap().as_ref(),
            Some(&first)
        );
        assert_eq!(
            bare_repository.tip(&own).await.unwrap().as_ref(),
            Some(&tip)
        );

        // The files count; the repository does not, and is replaced.
        let tree = work.capture(None).await.unwrap().tree;
        let files = bare_repository
            .files_below(&tree, &RelPath::default())
            .await
            .unwrap();
        assert_eq!(files, ["a.txt", "b.txt"]);
        let taken = fixture.commit(&tree, &[&tip], "taken\n").await;
        assert_eq!(fixture.text(&taken, "a.txt").await.unwrap(), "changed\n");
        let made = bare_repository.create_private_repository(work.dir(), outset(&taken));
        made.await.unwrap();
        assert_eq!(plain_git(&dir, &["log", "-1", "--format=%s"]), "taken\n");
        assert_eq!(plain_git(&dir, &["status", "--porcelain"]), "");
        let fsck = bare_repository.dir().as_path();
        assert_eq!(plain_git(fsck, &["fsck", "--strict", "--no-dangling"]), "");
    }
}

#[tokio::test]
async fn repositories_that_an_agent_makes_inside_are_taken_as_plain_files() {
    let fixture = BareRepositoryFixture::new().await;
    let bare_repository = &fixture.bare_repository;
    let first = fixture.put(None, &[("src/a.txt", Some("1\n"))]).await;
    let work = fixture.checkout("work");
    work.show(&first).await.unwrap();
    let dir = work.dir().as_path().to_owned();
    let identity = ["-c", "user.name=x", "-c", "user.email=x@x"];
    // Repositories with a commit, inside another one, without a commit, empty, around known files,
    // and one whose git directory is elsewhere.
    for (inner, commits) in [
        ("lib", true),
        ("lib/deep \"\n", true),
        ("fresh", false),
        ("void", false),
        ("src", true),
    ] {
        let inner = dir.join(inner);
        fs::create_dir_all(&inner).unwrap();
        plain_git(&inner, &["init", "-q"]);
        if !inner.ends_with("void") {
            fs::write(inner.join("file"), "text\n").unwrap();
        }
        if commits {
            plain_git(&inner, &["add", "file"]);
            plain_git(
                &inner,
                &[&identity[..], &["commit", "-q", "-m", "x"]].concat(),
            );
        }
    }
    fs::create_dir(dir.join("said")).unwrap();
    fs::write(dir.join("said/.git"), "gitdir: ../lib/.git\n").unwrap();
    fs::write(dir.join("said/file"), "text\n").unwrap();
    let tree = work.capture(None).await.unwrap().tree;
    let files = bare_repository
        .files_below(&tree, &RelPath::default())
        .await
        .unwrap();
    let expected = [
        "fresh/file",
        "lib/deep \"\n/file",
        "lib/file",
        "said/file",
        "src/a.txt",
        "src/file",
    ];
    assert_eq!(files, expected);
    let changed = bare_repository.changed_files(&first, &tree).await.unwrap();
    assert!(changed.iter().all(|row| !row.is_submodule), "{changed:?}");
    assert!(dir.join("lib/.git/HEAD").exists());
    // Again, and after another commit was checked out.
    assert_eq!(work.capture(None).await.unwrap().tree, tree);
    work.show(&first).await.unwrap();
    let again = work.capture(None).await.unwrap().tree;
    assert_eq!(again, bare_repository.tree_of(&first).await.unwrap());
}
