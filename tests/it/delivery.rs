//! Deliveries from an overlay's upper layer to the user's tree: what would change, what is applied
//! as a transaction, and what happens to concurrent work of the user. Layers are real overlays if
//! the machine supports them, or plain directories of the same format.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use massgen::delivery::choice::DeliveryChoice;
use massgen::delivery::hunks::HunkChoice;
use massgen::delivery::plan::{DeliveryConflict, DeliveryEntry, DeliveryPlan, EntryAction};
use massgen::orchestrator::review::DeliverySelection;
use massgen::path::{AbsPath, RealPath, RelPath};
use massgen::permissions::grant::{Grant, GrantKind, Permission};
use massgen::world::access::gate::Gate;
use massgen::world::access::merge_bases::MergeBases;
use massgen::world::access::policy::GatePolicy;
use massgen::world::delivery::merging::merge;
use massgen::world::delivery::planning::{ConflictBaseline, EarlierFiles, PartialFiles, plan};
use massgen::world::delivery::recovery::recover;
use massgen::world::delivery::store::{
    DeliverySource, OpenDelivery, SourceDirectory, SourceLayout, used_deliveries,
};
use massgen::world::delivery::transaction::{SelectionOrigin, apply, select_hunks};
use massgen::world::delivery::undo::{
    AppliedDelivery, ChangedFilePolicy, DeliveredState, UndoDirection, UndoOutcome,
};
use massgen::world::io::file_change::{ChangeKind, FileChange};
use massgen::world::io::locate::{LocatedPath, locate};
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::json;
use tempfile::TempDir;

use crate::disk::call_successfully;
use crate::project::binary;
use crate::waiting::wait_for_file_clock;

/// Mounts the layer over `rw`, runs the script in it, and ends.
const OVERLAY: &str = r#"
cd "$1"
mount -t overlay overlay -o userxattr,lowerdir=rw,upperdir=layer/upper,workdir=layer/work seen
cd seen
eval "$2"
"#;

/// A user's tree `rw`, a layer over it, and a state directory.
pub(crate) struct DeliveryFixture {
    root: PathBuf,
    _dir: TempDir,
}

impl DeliveryFixture {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fixture = Self {
            root: dir.path().canonicalize().unwrap(),
            _dir: dir,
        };
        for name in ["seen", "layer/upper", "layer/work", ".massgen", "kept"] {
            fs::create_dir_all(fixture.path(name)).unwrap();
        }
        for (name, text) in [
            ("rw/README.md", "readme\n"),
            ("rw/run.sh", "echo\n"),
            ("rw/src/app.py", "x = 1\n"),
            ("rw/src/old.py", "old\n"),
            ("rw/plain/deep/one", "1\n"),
            ("rw/.git/config", "[core]\n"),
            ("rw/LICENSE", "MIT\n"),
        ] {
            fixture.write(name, text);
        }
        symlink("README.md", fixture.path("rw/link")).unwrap();
        fixture
    }

    pub(crate) fn path(&self, rel: impl AsRef<Path>) -> PathBuf {
        self.root.join(rel)
    }

    pub(crate) fn abs(&self, rel: &str) -> AbsPath {
        AbsPath::new(self.path(rel)).unwrap()
    }

    pub(crate) fn write(&self, rel: &str, text: &str) {
        let path = self.path(rel);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn text(&self, rel: &str) -> String {
        fs::read_to_string(self.path(rel)).unwrap_or_else(|error| panic!("{rel}: {error}"))
    }

    /// Returns a command of the real binary with these arguments, in the directory that contains
    /// the tree.
    pub(crate) fn massgen(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command
            .args(arguments)
            .current_dir(self.path(""))
            .env_clear();
        command
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path(""));
        command
    }

    pub(crate) fn has(&self, rel: &str) -> bool {
        fs::symlink_metadata(self.path(rel)).is_ok()
    }

    /// Runs `script` in an overlay over `rw`; without overlays the test has nothing to check.
    #[track_caller]
    pub(crate) fn run(&self, script: &str) {
        let overlay = Command::new("unshare")
            .args(["-rm", "sh", "-ec", OVERLAY, "sh"])
            .arg(self.path(""))
            .arg(script)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&overlay.stderr);
        assert!(overlay.status.success(), "{script}: {error}");
    }

    pub(crate) fn source(&self) -> DeliverySource {
        let LocatedPath::Directory(root) = locate(&self.abs("rw")).unwrap() else {
            panic!("`rw` is gone");
        };
        let mut grant = Grant::tree(root, GrantKind::Context, Permission::Write);
        grant.protected = vec![RelPath::new("LICENSE").unwrap()];
        DeliverySource {
            grants: vec![grant],
            source_dirs: vec![Some(SourceDirectory {
                path: self.abs("layer/upper"),
                layout: SourceLayout::OverlayLayer,
                left_out: Vec::new(),
            })],
            began_ns: i64::MAX,
            restart: 0,
            left_out_of_answers: Vec::new(),
        }
    }

    pub(crate) fn delivery(&self) -> OpenDelivery {
        let delivery = OpenDelivery::create(&self.abs(".massgen/deliveries"), "log_1").unwrap();
        delivery.write_source(&self.source()).unwrap();
        delivery
    }

    pub(crate) fn reopen_delivery(&self) -> OpenDelivery {
        OpenDelivery::open(&self.abs(".massgen/deliveries"), "log_1").unwrap()
    }

    pub(crate) fn reopen(&self) -> AppliedDelivery {
        let delivery = self.reopen_delivery();
        AppliedDelivery::open(delivery).unwrap().unwrap()
    }

    /// Plans and applies everything; returns one line per change.
    #[track_caller]
    pub(crate) fn deliver(&self) -> Vec<String> {
        let delivery = self.delivery();
        let plan = plan(&delivery, &self.source(), None).unwrap();
        self.lines(&apply_all(&delivery, &plan, None))
    }

    fn lines(&self, changes: &[FileChange]) -> Vec<String> {
        let root = self.path("rw");
        let lines = changes.iter().map(|change| {
            let path = change.path.as_path().strip_prefix(&root).unwrap();
            let kind = match &change.kind {
                ChangeKind::Created => "created".to_owned(),
                ChangeKind::Changed => "changed".to_owned(),
                ChangeKind::PartlyChanged { hunks } => {
                    format!("{} of {} hunks", hunks.taken, hunks.total)
                }
                ChangeKind::Deleted => "deleted".to_owned(),
                ChangeKind::Mode { after, .. } => format!("mode {after:o}"),
                ChangeKind::Reverted { reason } => format!("taken back: {reason}"),
                ChangeKind::Declined => "declined".to_owned(),
                ChangeKind::Conflict { .. } => "conflict".to_owned(),
                ChangeKind::Denied { reason } | ChangeKind::Failed { reason } => {
                    format!("denied: {reason}")
                }
                ChangeKind::Unlisted { reason } => format!("unlisted: {reason}"),
            };
            format!("{} {kind}", path.display())
        });
        lines.collect()
    }

    /// Returns everything below `rel` by its path: kind, mode, mtime of files, and content.
    pub(crate) fn state(&self, rel: &str) -> BTreeMap<PathBuf, String> {
        let mut state = BTreeMap::new();
        let mut left = vec![self.path(rel)];
        while let Some(path) = left.pop() {
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_dir() {
                left.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
                String::new()
            } else if meta.is_symlink() {
                fs::read_link(&path).unwrap().display().to_string()
            } else {
                let content = fs::read(&path).unwrap();
                format!("{} {} {content:?}", meta.mtime(), meta.mtime_nsec())
            };
            state.insert(path, format!("{:o} {content}", meta.mode()));
        }
        state
    }
}

/// A script that makes every kind of change to a tree.
pub(crate) const EVERYTHING: &str = "echo y >> src/app.py; echo new > src/new.py; mkdir -m 700 d; \
    echo 1 > d/1; rm README.md; ln -sf src/app.py link; ln -s nowhere other; mkdir empty; \
    chmod +x run.sh; rm -r plain; touch src/old.py; chmod 750 src; echo f > plain";

/// Applies the whole plan; conflicting versions are kept in `conflicts_dir`.
#[track_caller]
fn apply_all(
    delivery: &OpenDelivery,
    plan: &DeliveryPlan,
    conflicts_dir: Option<&RealPath>,
) -> Vec<FileChange> {
    let all = plan.select_all();
    apply(
        delivery,
        plan,
        &all,
        SelectionOrigin::Default,
        conflicts_dir,
    )
    .unwrap()
}

#[test]
fn a_delivery_applies_every_kind_of_change_of_the_layer() {
    let fixture = DeliveryFixture::new();
    fixture.run(EVERYTHING);
    assert_eq!(
        fixture.deliver(),
        [
            "README.md deleted",
            "d/1 created",
            "link changed",
            "other created",
            "plain changed",
            "plain/deep/one deleted",
            "run.sh changed",
            "src mode 750",
            "src/app.py changed",
            "src/new.py created",
        ]
    );
    assert_eq!(fixture.text("rw/src/app.py"), "x = 1\ny\n");
    assert_eq!(fixture.text("rw/plain"), "f\n");
    assert!(fixture.has("rw/empty") && !fixture.has("rw/README.md"));
    let mode = |rel: &str| fs::metadata(fixture.path(rel)).unwrap().mode() & 0o777;
    assert_eq!((mode("rw/d"), mode("rw/src")), (0o700, 0o750));
    assert_eq!(mode("rw/run.sh") & 0o111, 0o111);
    let target = fs::read_link(fixture.path("rw/other")).unwrap();
    assert_eq!(target, Path::new("nowhere"));
}

#[test]
fn an_undo_restores_every_byte_and_can_be_repeated() {
    let fixture = DeliveryFixture::new();
    fs::create_dir(fixture.path("rw/bare")).unwrap();
    let before = fixture.state("rw");
    fixture.run(&format!("{EVERYTHING}; rmdir bare"));
    fixture.deliver();
    let after = fixture.state("rw");
    assert_ne!(before, after);
    for _ in 0..2 {
        fixture
            .reopen()
            .undo_or_redo(UndoDirection::Undo, &[], ChangedFilePolicy::Kept)
            .unwrap();
        assert_eq!(fixture.state("rw"), before);
        fixture
            .reopen()
            .undo_or_redo(UndoDirection::Redo, &[], ChangedFilePolicy::Kept)
            .unwrap();
        assert_eq!(fixture.state("rw"), after);
    }
}

#[test]
fn a_part_is_undone_alone() {
    let fixture = DeliveryFixture::new();
    fixture.run(EVERYTHING);
    fixture.deliver();
    let rows = fixture
        .reopen()
        .undo_or_redo(
            UndoDirection::Undo,
            &[
                fixture.abs("rw/plain/deep/one"),
                fixture.abs("rw/README.md"),
            ],
            ChangedFilePolicy::Kept,
        )
        .unwrap();
    let outcomes: Vec<_> = rows.iter().map(|row| row.outcome.clone()).collect();
    assert_eq!(fixture.text("rw/README.md"), "readme\n");
    // The file that replaced its directory is removed with it.
    assert_eq!(outcomes, vec![UndoOutcome::Restored; 3]);
    assert_eq!(fixture.text("rw/plain/deep/one"), "1\n");
    assert_eq!(fixture.text("rw/src/app.py"), "x = 1\ny\n");
}

#[test]
fn later_changes_stay_unless_forced() {
    let fixture = DeliveryFixture::new();
    fixture.run("echo ours > README.md; echo 2 > src/app.py; mkdir d; echo 1 > d/1");
    fixture.deliver();
    fixture.write("rw/README.md", "mine\n");
    fixture.write("rw/d/mine", "mine\n");
    let rows = fixture
        .reopen()
        .undo_or_redo(UndoDirection::Undo, &[], ChangedFilePolicy::Kept)
        .unwrap();
    let left: Vec<String> = rows
        .iter()
        .filter(|row| matches!(row.outcome, UndoOutcome::Left(_)))
        .map(|row| row.path.to_string())
        .collect();
    let path = |rel: &str| fixture.abs(rel).to_string();
    assert_eq!(left, [path("rw/README.md"), path("rw/d")]);
    assert_eq!(fixture.text("rw/README.md"), "mine\n");
    assert_eq!(fixture.text("rw/src/app.py"), "x = 1\n");
    assert_eq!(fixture.text("rw/d/mine"), "mine\n");
    fixture
        .reopen()
        .undo_or_redo(
            UndoDirection::Undo,
            &[fixture.abs("rw/README.md")],
            ChangedFilePolicy::Replaced,
        )
        .unwrap();
    assert_eq!(fixture.text("rw/README.md"), "readme\n");
    fixture
        .reopen()
        .undo_or_redo(
            UndoDirection::Redo,
            &[fixture.abs("rw/README.md")],
            ChangedFilePolicy::Kept,
        )
        .unwrap();
    assert_eq!(fixture.text("rw/README.md"), "mine\n");
}

#[test]
fn protected_names_are_refused_at_any_depth_and_named_once() {
    let fixture = DeliveryFixture::new();
    let before = fixture.state("rw/.git");
    fixture.run(
        "echo evil >> .git/config; echo A=1 > .env; rm LICENSE; mkdir -p a/.git/hooks; \
         echo h > a/.git/hooks/pre-commit; echo ok > a/ok",
    );
    assert_eq!(
        fixture.deliver(),
        [
            ".env denied: the name is protected",
            ".git denied: the name is protected",
            "LICENSE denied: the config or the run protects it",
            "a/.git denied: the name is protected",
            "a/ok created",
        ]
    );
    assert_eq!(fixture.state("rw/.git"), before);
    assert!(fixture.has("rw/LICENSE") && !fixture.has("rw/.env") && !fixture.has("rw/a/.git"));
}

/// Plans with the changes that the user makes since the run began, which is now.
fn planned_since(
    fixture: &DeliveryFixture,
    delivery: &OpenDelivery,
    meanwhile: impl FnOnce(),
) -> DeliveryPlan {
    let mark = fixture.path("mark");
    wait_for_file_clock();
    fs::write(&mark, "").unwrap();
    let meta = fs::metadata(&mark).unwrap();
    let began_ns = i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec());
    wait_for_file_clock();
    meanwhile();
    let baseline = ConflictBaseline {
        began_ns,
        merge_bases: None,
        partial: PartialFiles::default(),
        earlier: EarlierFiles::default(),
    };
    plan(delivery, &fixture.source(), Some(&baseline)).unwrap()
}

#[test]
fn the_users_work_meanwhile_is_never_overwritten() {
    let fixture = DeliveryFixture::new();
    fixture.run("echo ours > README.md; echo 2 > src/app.py; echo y >> run.sh; rm src/old.py");
    let delivery = fixture.delivery();
    let plan = planned_since(&fixture, &delivery, || {
        fixture.write("rw/README.md", "mine\n");
        fixture.write("rw/src/old.py", "mine\n");
        fs::remove_file(fixture.path("rw/run.sh")).unwrap();
    });
    let clash = |rel: &str| {
        let entry = plan
            .entries
            .iter()
            .find(|entry| entry.rel == RelPath::new(rel).unwrap());
        entry.unwrap().conflict
    };
    assert_eq!(clash("README.md"), Some(DeliveryConflict::Changed));
    assert!(clash("src/old.py").is_some());
    assert_eq!(clash("run.sh"), Some(DeliveryConflict::Removed));
    assert_eq!(clash("src/app.py"), None);
    let LocatedPath::Directory(kept) = locate(&fixture.abs("kept")).unwrap() else {
        panic!();
    };
    let changes = apply_all(&delivery, &plan, Some(&kept));
    assert_eq!(fixture.text("rw/README.md"), "mine\n");
    assert_eq!(fixture.text("rw/src/old.py"), "mine\n");
    assert!(!fixture.has("rw/run.sh"));
    assert_eq!(fixture.text("rw/src/app.py"), "2\n");
    let conflicts = changes.iter().filter_map(|change| {
        let ChangeKind::Conflict { kept } = &change.kind else {
            return None;
        };
        Some(fs::read_to_string(kept.as_path()).unwrap())
    });
    let conflicts: Vec<String> = conflicts.collect();
    assert_eq!(conflicts, ["ours\n", "echo\ny\n"]);
}

#[test]
fn a_version_that_cannot_be_kept_is_a_failure_of_its_file_alone() {
    let fixture = DeliveryFixture::new();
    fixture.run("echo ours > README.md; echo 2 > src/app.py");
    let delivery = fixture.delivery();
    let plan = plan(&delivery, &fixture.source(), None).unwrap();
    fixture.write("rw/README.md", "mine\n");
    // A file is in the way of the first directory.
    let tree = fixture.path("rw");
    let first_name = tree.components().nth(1).unwrap();
    fs::write(fixture.path("kept").join(first_name), "").unwrap();
    let LocatedPath::Directory(kept) = locate(&fixture.abs("kept")).unwrap() else {
        panic!();
    };
    let changes = apply_all(&delivery, &plan, Some(&kept));
    let lines = fixture.lines(&changes);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].starts_with(
            "README.md denied: you changed it since the run began; cannot keep our version of"
        ),
        "{lines:?}"
    );
    assert_eq!(lines[1], "src/app.py changed");
    assert_eq!(fixture.text("rw/README.md"), "mine\n");
    assert_eq!(fixture.text("rw/src/app.py"), "2\n");
}

#[test]
fn what_a_conflict_blocks_is_not_what_the_user_declined() {
    let fixture = DeliveryFixture::new();
    fixture.write("rw/plain/two", "2\n");
    fixture.run("rm -r plain; echo f > plain; echo 2 > src/app.py");
    let delivery = fixture.delivery();
    let plan = planned_since(&fixture, &delivery, || {
        fixture.write("rw/plain/two", "my\n");
    });
    let changes = apply_all(&delivery, &plan, None);
    let blocked = "denied: it cannot be applied without a path that stays as it is";
    assert_eq!(
        fixture.lines(&changes),
        [
            &format!("plain {blocked}"),
            &format!("plain/deep/one {blocked}"),
            "plain/two denied: you changed it since the run began",
            "src/app.py changed",
        ]
    );
    assert_eq!(fixture.text("rw/plain/two"), "my\n");
    assert_eq!(fixture.text("rw/plain/deep/one"), "1\n");
}

#[test]
fn an_empty_directory_is_removed_only_if_that_is_selected() {
    let fixture = DeliveryFixture::new();
    fs::create_dir(fixture.path("rw/bare")).unwrap();
    fixture.run("rmdir bare; rm -r plain");
    let delivery = fixture.delivery();
    let plan = plan(&delivery, &fixture.source(), None).unwrap();
    let mut choices = DeliverySelection::take_no_files(&plan).choices;
    // Of this directory, the user selects the file, and it is removed with it.
    let is_file = |entry: &DeliveryEntry| entry.rel == RelPath::new("plain/deep/one").unwrap();
    let index = plan.entries.iter().position(is_file).unwrap();
    choices[index] = DeliveryChoice::Apply;
    apply(&delivery, &plan, &choices, SelectionOrigin::Default, None).unwrap();
    assert!(fixture.has("rw/bare") && !fixture.has("rw/plain"));
}

#[test]
fn files_changed_between_plan_and_delivery_are_kept() {
    let fixture = DeliveryFixture::new();
    fixture.run("echo ours > README.md; echo 2 > src/app.py; rm src/old.py; echo n > new");
    let delivery = fixture.delivery();
    let plan = plan(&delivery, &fixture.source(), None).unwrap();
    fixture.write("rw/README.md", "mine\n");
    fixture.write("rw/src/old.py", "mine\n");
    fixture.write("rw/new", "mine\n");
    apply_all(&delivery, &plan, None);
    for name in ["rw/README.md", "rw/src/old.py", "rw/new"] {
        assert_eq!(fixture.text(name), "mine\n", "{name}");
    }
    assert_eq!(fixture.text("rw/src/app.py"), "2\n");
}

#[test]
fn a_pipe_is_not_taken_for_a_link_to_the_root_directory() {
    let fixture = DeliveryFixture::new();
    let links = ["rw/pipe", "rw/same"];
    for name in links {
        symlink("/", fixture.path(name)).unwrap();
    }
    fixture.run("ln -sfn README.md pipe; ln -sfn README.md same");
    let delivery = fixture.delivery();
    let plan = plan(&delivery, &fixture.source(), None).unwrap();
    fs::remove_file(fixture.path("rw/pipe")).unwrap();
    mkfifoat(CWD, fixture.path("rw/pipe"), Mode::RWXU).unwrap();
    let changes = apply_all(&delivery, &plan, None);
    assert_eq!(
        fixture.lines(&changes),
        [
            "pipe denied: you changed it since the run began",
            "same changed"
        ]
    );
    let kinds = links.map(|name| {
        fs::symlink_metadata(fixture.path(name))
            .unwrap()
            .file_type()
    });
    assert!(kinds[0].is_fifo() && kinds[1].is_symlink());
    let target = fs::read_link(fixture.path("rw/same")).unwrap();
    assert_eq!(target, Path::new("README.md"));
}

#[test]
fn a_directory_that_became_a_link_is_refused_and_not_followed() {
    let fixture = DeliveryFixture::new();
    fixture.write("outside/app.py", "victim\n");
    fixture.run("echo 2 > src/app.py; echo n > src/new.py; echo r > README.md");
    fs::rename(fixture.path("rw/src"), fixture.path("moved")).unwrap();
    symlink(fixture.path("outside"), fixture.path("rw/src")).unwrap();
    let lines = fixture.deliver();
    assert_eq!(
        lines,
        [
            "src denied: a symbolic link exists where a directory is expected, and is not followed",
            "README.md changed",
        ]
    );
    assert_eq!(fixture.text("outside/app.py"), "victim\n");
    assert!(!fixture.has("outside/new.py"));
}

#[test]
fn a_directory_is_removed_only_if_its_whole_content_is() {
    let fixture = DeliveryFixture::new();
    fixture.run("rm -r plain; rm README.md");
    let delivery = fixture.delivery();
    let plan = plan(&delivery, &fixture.source(), None).unwrap();
    fixture.write("rw/plain/deep/mine", "mine\n");
    apply_all(&delivery, &plan, None);
    assert_eq!(fixture.text("rw/plain/deep/mine"), "mine\n");
    assert!(!fixture.has("rw/README.md") && !fixture.has("rw/plain/deep/one"));
    let delivered = AppliedDelivery::open(delivery).unwrap().unwrap();
    delivered
        .undo_or_redo(UndoDirection::Undo, &[], ChangedFilePolicy::Kept)
        .unwrap();
    assert_eq!(fixture.text("rw/plain/deep/one"), "1\n");
    assert_eq!(fixture.text("rw/README.md"), "readme\n");
}

#[test]
fn only_what_is_chosen_comes_and_the_rest_can_be_taken_later() {
    let fixture = DeliveryFixture::new();
    let lines = numbered_lines(30);
    fixture.write("rw/long", &lines);
    fixture.run(
        "sed -i 's/^2$/two/; s/^28$/twenty-eight/' long; mkdir d; echo 1 > d/1; echo 2 > d/2; rm README.md",
    );
    let delivery = fixture.delivery();
    let mut plan = plan(&delivery, &fixture.source(), None).unwrap();
    let mut takes = vec![DeliveryChoice::Leave; plan.entries.len()];
    let index_of = |plan: &DeliveryPlan, rel: &str| {
        let rel = RelPath::new(rel).unwrap();
        plan.entries
            .iter()
            .position(|entry| entry.rel == rel)
            .unwrap()
    };
    takes[index_of(&plan, "d/1")] = DeliveryChoice::Apply;
    let parts = BTreeMap::from([(index_of(&plan, "long"), last_of_two_hunks())]);
    let takes = select_hunks(&delivery, &mut plan, takes, &parts).unwrap();
    let changes =
        fixture.lines(&apply(&delivery, &plan, &takes, SelectionOrigin::Default, None).unwrap());
    assert_eq!(
        changes,
        [
            "README.md declined",
            "d/1 created",
            "d/2 declined",
            "long 1 of 2 hunks"
        ]
    );
    assert!(!fixture.has("rw/d/2") && fixture.has("rw/README.md"));
    assert_eq!(
        fixture.text("rw/long"),
        lines.replace("\n28\n", "\ntwenty-eight\n")
    );
    let plan =
        massgen::world::delivery::planning::plan(&delivery, &fixture.source(), None).unwrap();
    apply_all(&delivery, &plan, None);
    assert!(fixture.has("rw/d/2") && !fixture.has("rw/README.md"));
    assert!(fixture.text("rw/long").starts_with("1\ntwo\n"));
    let delivered = AppliedDelivery::open(delivery).unwrap().unwrap();
    delivered
        .undo_or_redo(UndoDirection::Undo, &[], ChangedFilePolicy::Kept)
        .unwrap();
    assert!(!fixture.has("rw/d"));
    assert_eq!(
        (fixture.text("rw/long"), fixture.text("rw/README.md")),
        (lines, "readme\n".to_owned())
    );
}

#[test]
fn files_from_a_directory_of_its_own_are_copied_over() {
    let fixture = DeliveryFixture::new();
    fixture.write("answer/src/app.py", "x = 2\n");
    fixture.write("answer/new/file", "new\n");
    fixture.write("answer/.git/config", "evil\n");
    fixture.write("answer/memory/note.md", "for later agents\n");
    fixture.write("answer/.subagents/one/part", "of a subagent\n");
    fixture.write("answer/README.md", "readme\n");
    fs::set_permissions(
        fixture.path("answer/src/app.py"),
        fs::Permissions::from_mode(0o444),
    )
    .unwrap();
    let mut source = fixture.source();
    source.source_dirs = vec![Some(SourceDirectory {
        path: fixture.abs("answer"),
        layout: SourceLayout::SeparateDirectory,
        left_out: vec![
            RelPath::new("memory").unwrap(),
            RelPath::new(".subagents").unwrap(),
        ],
    })];
    let delivery = fixture.delivery();
    let plan = plan(&delivery, &source, None).unwrap();
    let actions: Vec<EntryAction> = plan
        .entries
        .iter()
        .map(massgen::delivery::plan::DeliveryEntry::action)
        .collect();
    assert_eq!(
        actions,
        [
            EntryAction::Create,
            EntryAction::Create,
            EntryAction::Change
        ]
    );
    let changes = fixture.lines(&apply_all(&delivery, &plan, None));
    assert_eq!(
        changes,
        [
            ".git denied: the name is protected",
            "new/file created",
            "src/app.py changed"
        ]
    );
    let mode = fs::metadata(fixture.path("rw/src/app.py")).unwrap().mode() & 0o777;
    assert_eq!(mode & 0o200, 0o200);
    assert!(fixture.has("rw/src/old.py"));
}

#[test]
fn records_that_came_with_a_copy_are_ignored() {
    let fixture = DeliveryFixture::new();
    fixture.run("echo ours > README.md");
    fixture.deliver();
    let copied = Command::new("cp")
        .arg("-a")
        .args([fixture.path(".massgen"), fixture.path("elsewhere")])
        .status()
        .unwrap();
    assert!(copied.success());
    let delivery = OpenDelivery::open(&fixture.abs("elsewhere/deliveries"), "log_1").unwrap();
    let error = AppliedDelivery::open(delivery).unwrap_err().to_string();
    assert!(
        error.ends_with("it was not created by massgen in this directory"),
        "{error}"
    );
    assert_eq!(fixture.text("rw/README.md"), "ours\n");
    let delivered = fixture.reopen();
    assert!(
        delivered
            .listed_paths()
            .all(|(_, _, now)| now == DeliveredState::Applied)
    );
    delivered
        .undo_or_redo(UndoDirection::Undo, &[], ChangedFilePolicy::Kept)
        .unwrap();
    assert_eq!(fixture.text("rw/README.md"), "readme\n");
}

#[test]
fn a_run_that_changes_nothing_has_no_delivery() {
    let fixture = DeliveryFixture::new();
    let deliveries = fixture.abs(".massgen/deliveries");
    let bases = fixture.path(".massgen/deliveries/log_1/bases");
    fs::create_dir_all(bases).unwrap();
    let used = || used_deliveries(vec!["log_1".to_owned()], &deliveries).unwrap();
    assert_eq!(used(), Vec::<String>::new());
    let error = fixture.reopen_delivery().read_source().unwrap_err();
    assert_eq!(error.to_string(), "`log_1` delivered nothing");
    let later = fixture.delivery();
    assert_eq!(later.name(), "log_1");
    assert_eq!(used(), ["log_1"]);
}

#[test]
fn a_run_in_progress_is_left_alone() {
    let fixture = DeliveryFixture::new();
    let deliveries = fixture.abs(".massgen/deliveries");
    let held = fixture.delivery();
    assert_eq!(recover(&deliveries).unwrap(), Vec::<String>::new());
    drop(held);
    assert!(OpenDelivery::open(&deliveries, "log_1").is_ok());
}

/// Checks the merge of a file that the agent read as `1` to `9`, one per line, and changed to
/// `ours`, while the user changed it to `theirs`.
#[track_caller]
fn check_merged(theirs: &str, ours: &str, expected: &str) {
    let fixture = DeliveryFixture::new();
    let base = numbered_lines(9);
    fixture.write("rw/text", &base);
    let bases = MergeBases::new(fixture.abs("bases"), None);
    let root = fixture.source().grants[0].root.clone();
    let policy = GatePolicy {
        merge_bases: Some(bases.clone()),
        ..GatePolicy::minimal(root)
    };
    let gate = Gate::open(fixture.source().manager(), policy).unwrap();
    call_successfully(&gate, "read_text_file", &json!({"path": "text"}));
    fixture.run(&format!("printf '{ours}' > text"));
    let delivery = fixture.delivery();
    wait_for_file_clock();
    fixture.write("rw/text", theirs);
    let baseline = ConflictBaseline {
        began_ns: 0,
        merge_bases: Some(bases),
        partial: PartialFiles::default(),
        earlier: EarlierFiles::default(),
    };
    let mut plan = plan(&delivery, &fixture.source(), Some(&baseline)).unwrap();
    merge(&delivery, &mut plan, &baseline).unwrap();
    apply_all(&delivery, &plan, None);
    assert_eq!(fixture.text("rw/text"), expected);
    if let Some(delivered) = AppliedDelivery::open(delivery).unwrap() {
        delivered
            .undo_or_redo(UndoDirection::Undo, &[], ChangedFilePolicy::Kept)
            .unwrap();
    }
    assert_eq!(fixture.text("rw/text"), theirs);
}

#[test]
fn changes_of_both_become_one_text_where_they_do_not_meet() {
    let base = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    let (one, nine) = (base.replace('1', "one"), base.replace('9', "nine"));
    check_merged(&one, &nine, &one.replace('9', "nine"));
    check_merged(&one, &base.replace('1', "eins"), &one);
    check_merged(base, &nine, &nine);
}

/// Returns this many numbered lines.
pub(crate) fn numbered_lines(lines: usize) -> String {
    let lines: Vec<String> = (1..=lines).map(|line| line.to_string()).collect();
    lines.join("\n") + "\n"
}

/// Returns the choice of the second of the hunks that change the lines 2 and 28 of 30.
pub(crate) fn last_of_two_hunks() -> Vec<HunkChoice> {
    let first = HunkChoice {
        old: 0..5,
        new: 0..5,
        is_applied: false,
    };
    let last = HunkChoice {
        old: 24..30,
        new: 24..30,
        is_applied: true,
    };
    vec![first, last]
}
