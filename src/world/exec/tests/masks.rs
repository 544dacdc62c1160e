//! Names that a command on an overlay sees as read-only.

use std::os::unix::fs::symlink;

use crate::path::AbsPath;
use crate::permissions::grant::{Grant, GrantKind, Permission};
use crate::world::exec::closed_paths::masks;
use crate::world::exec::tests::fixture::OverlayFixture;

fn list_masked(fixture: &OverlayFixture, extra_grants: Vec<Grant>) -> Vec<String> {
    let root = AbsPath::new(fixture.path("rw")).unwrap();
    let gate = fixture.gate(None, extra_grants);
    let mut masked_names: Vec<String> = masks(&gate)
        .into_iter()
        .map(|mask| mask.below(&root).unwrap().to_string())
        .collect();
    masked_names.sort();
    masked_names
}

#[test]
fn protected_names_at_the_roots_are_masked_and_no_others() {
    let fixture = OverlayFixture::new();
    fixture.write("rw/sub/.env", "x\n");
    fixture.write("rw/node_modules/a.js", "x\n");
    fixture.write("rw/keys/k", "hidden\n");
    symlink("/opt/venv", fixture.path("rw/.venv")).unwrap();
    assert_eq!(
        list_masked(&fixture, Vec::new()),
        [".env", ".git", "LICENSE"]
    );
}

#[test]
fn each_write_path_has_masks_of_its_own_and_a_read_only_one_has_none() {
    let fixture = OverlayFixture::new();
    fixture.write("rw/other/.git/config", "[core]\n");
    fixture.write("rw/src/.env", "x\n");
    let grant =
        |path: &str, permission| Grant::tree(fixture.real(path), GrantKind::Context, permission);
    let extra_grants = vec![
        grant("rw/other", Permission::Write),
        grant("rw/src", Permission::Read),
    ];
    let expected = [".env", ".git", "LICENSE", "other/.git"];
    assert_eq!(list_masked(&fixture, extra_grants), expected);
}
