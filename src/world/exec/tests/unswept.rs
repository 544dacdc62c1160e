//! Sweeps by a note, as the run does that follows one which ended before its sweep.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::confinement::tier::Tier;
use crate::path::AbsPath;
use crate::permissions::grant::{Grant, GrantKind, Permission};
use crate::world::exec::masks::look;
use crate::world::exec::tests::ground::Ground;
use crate::world::exec::unswept::{Note, sweep_left_over};
use crate::world::gate::Gate;

fn room(ground: &Ground) -> AbsPath {
    AbsPath::new(ground.path("room")).unwrap()
}

/// Looks and notes what is there, and gives the note.
fn noted(ground: &Ground, gate: &Gate) -> Note {
    let notes = room(ground).join("unswept");
    fs::create_dir_all(notes.as_path()).unwrap();
    Note::write(notes.join("0"), gate, &look(gate, Tier::B).unwrap()).unwrap()
}

#[test]
fn the_next_run_sweeps_as_the_gate_of_the_command_would() {
    let ground = Ground::new();
    symlink("/opt/shared", ground.path("rw/src/.venv")).unwrap();
    ground.write("rw/other/.git/config", "[core]\n");
    ground.write("rw/keys/.env", "KEY=user\n");
    let own = ground.real("rw/other");
    let read_only = Grant::tree(own, GrantKind::Context, Permission::Read);
    let file = Grant::file(ground.real("rw/.env"), Permission::Write);
    let gate = ground.gate(None, vec![read_only, file]);
    let _note = noted(&ground, &gate);
    ground.write("rw/src/.git/hooks/pre-commit", "evil\n");
    fs::remove_file(ground.path("rw/src/.venv")).unwrap();
    let said = sweep_left_over(&room(&ground));
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(!ground.has("rw/src/.git"));
    for name in ["rw/.env", "rw/other/.git/config", "rw/keys/.env"] {
        assert!(ground.has(name), "{name}");
    }
    let target = fs::read_link(ground.path("rw/src/.venv")).unwrap();
    assert_eq!(target, Path::new("/opt/shared"));
    let kept = ground.path("room/quarantine/1");
    let hook = ground.path("rw/src/.git/hooks/pre-commit");
    let hook = kept.join(hook.strip_prefix("/").unwrap());
    assert_eq!(fs::read_to_string(hook).unwrap(), "evil\n");
}

#[test]
fn after_a_sweep_the_next_run_has_nothing_to_do() {
    let ground = Ground::new();
    let gate = ground.gate(None, Vec::new());
    noted(&ground, &gate).remove();
    ground.write("rw/src/.git/config", "the user's own\n");
    assert!(sweep_left_over(&room(&ground)).is_empty());
    assert_eq!(ground.text("rw/src/.git/config"), "the user's own\n");
}

#[test]
fn what_is_another_tree_by_now_is_left_and_told() {
    let ground = Ground::new();
    let gate = ground.gate(None, Vec::new());
    let _note = noted(&ground, &gate);
    fs::rename(ground.path("rw"), ground.path("old")).unwrap();
    ground.write("rw/.git/config", "the user's own\n");
    let said = sweep_left_over(&room(&ground));
    assert_eq!(said.len(), 1);
    assert!(said[0].ends_with("it is another directory now"), "{said:?}");
    assert_eq!(ground.text("rw/.git/config"), "the user's own\n");
}
