//! Inventories of a tree before and after a test changes it as a command would.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;

use crate::path::RelPath;
use crate::permissions::history::AccessHistory;
use crate::world::access::gate::Gate;
use crate::world::exec::command_changes::CommandChanges;
use crate::world::exec::inventory::TreeInventory;
use crate::world::exec::tests::fixture::{OverlayFixture, wait_for_file_clock};
use crate::world::io::file_change::{ChangeKind, FileChange};

/// More names than any test creates.
const NAMES_MAX: usize = 1_000;

fn find_changes(gate: &Gate, work: impl FnOnce()) -> Vec<FileChange> {
    let before = TreeInventory::scan(gate, NAMES_MAX);
    // Changes within one tick of the file timestamps cannot be distinguished.
    wait_for_file_clock();
    work();
    let after = TreeInventory::scan(gate, NAMES_MAX);
    before.changes(&after, &mut gate.history())
}

/// Compares the changes reported after `work`, one per line.
#[track_caller]
fn check(work: impl Fn(&OverlayFixture), expected: &[&str]) {
    let fixture = OverlayFixture::new();
    let gate = fixture.gate(None, Vec::new());
    let changes = find_changes(&gate, || work(&fixture));
    let command_changes = CommandChanges {
        changes,
        ..CommandChanges::default()
    };
    assert_eq!(fixture.change_lines(&command_changes), expected);
}

#[test]
fn exactly_the_touched_files_are_reported() {
    check(|_| {}, &[]);
    check(
        |fixture| {
            fixture.write("rw/src/new/deep.py", "new\n");
            fixture.write("rw/README.md", "other\n");
            fs::remove_file(fixture.path("rw/src/old.py")).unwrap();
            symlink("README.md", fixture.path("rw/link")).unwrap();
            fs::create_dir(fixture.path("rw/empty")).unwrap();
        },
        &[
            "README.md changed",
            "link created",
            "src/new/deep.py created",
            "src/old.py deleted",
        ],
    );
    check(
        |fixture| fs::rename(fixture.path("rw/plain"), fixture.path("rw/moved")).unwrap(),
        &["moved/deep/one created", "plain/deep/one deleted"],
    );
}

#[test]
fn a_change_with_restored_times_is_reported() {
    check(
        |fixture| {
            let script = "cp -p \"$0\" \"$1\"; echo 'x = 2' > \"$0\"; touch -r \"$1\" \"$0\"";
            let script_output = Command::new("sh")
                .args(["-ec", script])
                .args([fixture.path("rw/src/app.py"), fixture.path("outside/old")])
                .status();
            assert!(script_output.unwrap().success());
            fs::set_permissions(fixture.path("rw/run.sh"), Permissions::from_mode(0o755)).unwrap();
        },
        &["run.sh changed", "src/app.py changed"],
    );
}

#[test]
fn protected_names_and_their_contents_are_not_reported() {
    check(
        |fixture| {
            for name in [
                "rw/.env",
                "rw/.git/config",
                "rw/LICENSE",
                "rw/keys/k",
                "rw/src/.env",
            ] {
                fixture.write(name, "changed\n");
            }
            fixture.write("ws/own", "mine\n");
        },
        &[],
    );
}

#[test]
fn a_reported_change_is_not_reported_again() {
    let fixture = OverlayFixture::new();
    let gate = fixture.gate(None, Vec::new());
    let earlier_inventory = TreeInventory::scan(&gate, NAMES_MAX);
    let write = || fixture.write("rw/made.txt", "made\n");
    assert_eq!(find_changes(&gate, write).len(), 1);
    let inventory = TreeInventory::scan(&gate, NAMES_MAX);
    assert_eq!(
        earlier_inventory.changes(&inventory, &mut gate.history()),
        []
    );
    let other_history = &mut AccessHistory::default();
    assert_eq!(
        earlier_inventory.changes(&inventory, other_history).len(),
        1
    );
}

#[test]
fn created_files_are_the_agents_own_and_changed_files_are_not() {
    let fixture = OverlayFixture::new();
    let gate = fixture.gate(None, Vec::new());
    let changes_found = find_changes(&gate, || {
        fixture.write("rw/made.txt", "made\n");
        fixture.write("rw/README.md", "changed\n");
    });
    assert_eq!(changes_found.len(), 2);
    let is_own = |path: &str| gate.history().own_version(&fixture.real(path)).is_some();
    assert!(is_own("rw/made.txt"));
    assert!(!is_own("rw/README.md"));
    let _reported = find_changes(&gate, || fixture.write("rw/made.txt", "again\n"));
    let inode = fs::metadata(fixture.path("rw/made.txt")).unwrap().ino();
    let version = gate.history().own_version(&fixture.real("rw/made.txt"));
    assert_eq!(
        version.map(|version| (version.inode, version.size_bytes)),
        Some((inode, 6))
    );
}

#[test]
fn changes_in_a_partial_inventory_are_unlisted() {
    let fixture = OverlayFixture::new();
    let gate = fixture.gate(None, Vec::new());
    let root = gate.writable_tree(&fixture.layer().root).unwrap();
    let inventory_of = |names: &[&str]| {
        let mut inventory = TreeInventory::default();
        for name in names {
            let path = root.join(&RelPath::new(name).unwrap());
            let version = path.meta().unwrap().version;
            inventory.add(root.real(), path.real(), version);
        }
        inventory
    };
    let all_names = ["README.md", "src/app.py"];
    let check = |before: TreeInventory, after: TreeInventory, expected: &[&str]| {
        let changes = before.changes(&after, &mut AccessHistory::default());
        let kinds = changes.iter().map(|change| match &change.kind {
            ChangeKind::Created => "created",
            ChangeKind::Changed | ChangeKind::PartlyChanged { .. } => "changed",
            ChangeKind::Deleted => "deleted",
            ChangeKind::Mode { .. } => "mode",
            ChangeKind::Unlisted { .. } => "unlisted",
            ChangeKind::Conflict { .. }
            | ChangeKind::Declined
            | ChangeKind::Reverted { .. }
            | ChangeKind::Denied { .. }
            | ChangeKind::Failed { .. } => "kept",
        });
        assert_eq!(kinds.collect::<Vec<_>>(), expected);
    };
    let partial_inventory = |names: &[&str]| {
        let mut inventory = inventory_of(names);
        inventory.add_partial(root.real(), "it is large".to_owned());
        inventory
    };
    check(
        inventory_of(&all_names[..1]),
        inventory_of(&all_names),
        &["created"],
    );
    check(
        inventory_of(&all_names),
        inventory_of(&all_names[..1]),
        &["deleted"],
    );
    check(
        partial_inventory(&all_names[..1]),
        inventory_of(&all_names),
        &["unlisted"],
    );
    check(
        inventory_of(&all_names),
        partial_inventory(&all_names[..1]),
        &["unlisted"],
    );
}

#[test]
fn beyond_the_name_limit_no_file_counts_as_new() {
    let fixture = OverlayFixture::new();
    let gate = fixture.gate(None, Vec::new());
    let before = TreeInventory::scan(&gate, 5);
    fixture.write("rw/src/made.txt", "made\n");
    let after = TreeInventory::scan(&gate, NAMES_MAX);
    let changes = before.changes(&after, &mut gate.history());
    let kinds: Vec<_> = changes.iter().map(|change| &change.kind).collect();
    assert!(
        matches!(kinds[..], [ChangeKind::Unlisted { reason }] if reason == "it holds more than 5 names"),
        "{kinds:?}"
    );
}
