//! Looks at closed names before a command and sweeps after it, without any sandbox in between: the
//! test does what a command would do in the tree.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::confinement::tier::Tier;
use crate::path::AbsPath;
use crate::permissions::grant::{Grant, GrantKind, Permission};
use crate::world::exec::aftermath::Aftermath;
use crate::world::exec::masks::{everywhere, look, look_again};
use crate::world::exec::sweep::sweep;
use crate::world::exec::tests::ground::{Exchange, Ground};
use crate::world::gate::Gate;

/// Looks, does `work` in the tree, and sweeps.
fn swept(ground: &Ground, gate: &Gate, work: impl FnOnce()) -> Aftermath {
    let quarantine = AbsPath::new(ground.path("quarantine")).unwrap();
    fs::create_dir_all(quarantine.as_path()).unwrap();
    let before = look(gate, Tier::B).unwrap();
    work();
    let after = look_again(gate, Tier::B).unwrap_or_else(|stop| panic!("{}", stop.message));
    sweep(gate, (&before, &after), &quarantine)
}

/// What is kept of `path` of the tree, in the quarantine number 1.
fn kept(ground: &Ground, path: &str) -> String {
    let path = ground.path(path);
    let below = ground
        .path("quarantine/1")
        .join(path.strip_prefix("/").unwrap());
    fs::read_to_string(below).unwrap()
}

fn masks(ground: &Ground, gate: &Gate, tier: Tier) -> Vec<String> {
    let root = AbsPath::new(ground.path("rw")).unwrap();
    let masks = look(gate, tier).unwrap().masks(gate);
    let below = masks
        .iter()
        .map(|mask| mask.below(&root).unwrap().to_string());
    below.collect()
}

#[test]
fn masks_are_given_for_what_stands_at_closed_names() {
    let ground = Ground::new();
    ground.write("rw/sub/node_modules/.env", "x\n");
    ground.write("rw/keys/k", "hidden\n");
    symlink("/opt/venv", ground.path("rw/.venv")).unwrap();
    let gate = ground.gate(None, Vec::new());
    let all = [
        ".env",
        ".git",
        "LICENSE",
        "sub/node_modules",
        "vendor/lib/.git",
    ];
    assert_eq!(masks(&ground, &gate, Tier::B), all);
    assert_eq!(masks(&ground, &gate, Tier::A), [".env", ".git", "LICENSE"]);
    assert!(masks(&ground, &gate, Tier::C).is_empty());
}

#[test]
fn what_other_grants_speak_for_is_looked_at_for_them() {
    let ground = Ground::new();
    ground.write("rw/other/.git/config", "[core]\n");
    ground.write("rw/src/.env", "x\n");
    let writable = Grant::tree(
        ground.real("rw/other"),
        GrantKind::Context,
        Permission::Write,
    );
    let read_only = Grant::tree(ground.real("rw/src"), GrantKind::Context, Permission::Read);
    let gate = ground.gate(None, vec![writable, read_only]);
    let all = [".env", ".git", "LICENSE", "other/.git", "vendor/lib/.git"];
    assert_eq!(masks(&ground, &gate, Tier::B), all);
}

#[test]
fn more_names_than_can_be_looked_at_are_a_refusal() {
    let ground = Ground::new();
    let gate = ground.gate(None, Vec::new());
    let stop = everywhere(&gate, 5).unwrap_err();
    assert!(
        stop.message.ends_with("it holds more than 5 names"),
        "{}",
        stop.message
    );
    assert!(everywhere(&gate, 100).is_ok());
}

#[test]
fn closed_names_that_appear_are_kept_elsewhere() {
    let ground = Ground::new();
    let gate = ground.gate(None, Vec::new());
    let before = ground.state("rw");
    let aftermath = swept(&ground, &gate, || {
        ground.write("rw/src/.git/hooks/pre-commit", "evil\n");
        ground.write("rw/.env.local", "A=1\n");
        ground.write("rw/src/__pycache__/a.pyc", "code\n");
        symlink("/etc/passwd", ground.path("rw/src/.envrc")).unwrap();
    });
    let kept_in = |path: &str| {
        let path = ground.path(path);
        let kept = ground
            .path("quarantine/1")
            .join(path.strip_prefix("/").unwrap());
        format!(
            "denied: the name is protected; what stood there is kept in {}",
            kept.display()
        )
    };
    assert_eq!(
        ground.lines(&aftermath),
        [".env.local", "src/.envrc", "src/.git"]
            .map(|name| format!("{name} {}", kept_in(&format!("rw/{name}"))))
    );
    assert_eq!(aftermath.left_out.len(), 4);
    assert_eq!(kept(&ground, "rw/src/.git/hooks/pre-commit"), "evil\n");
    assert_eq!(ground.state("rw"), before);
}

#[test]
fn what_stood_there_before_stays() {
    let ground = Ground::new();
    symlink("README.md", ground.path("rw/.hg")).unwrap();
    let gate = ground.gate(None, Vec::new());
    let before = ground.state("rw");
    let aftermath = swept(&ground, &gate, || {});
    assert_eq!(
        (aftermath.changes, aftermath.left_out),
        (Vec::new(), Vec::new())
    );
    assert_eq!(ground.state("rw"), before);
}

#[test]
fn links_are_restored_and_what_took_their_place_is_kept() {
    let ground = Ground::new();
    for name in ["rw/.venv", "rw/src/.env", "rw/plain/.idea"] {
        symlink("/opt/shared", ground.path(name)).unwrap();
    }
    let gate = ground.gate(None, Vec::new());
    let aftermath = swept(&ground, &gate, || {
        fs::remove_file(ground.path("rw/.venv")).unwrap();
        ground.write("rw/.venv/bin/python", "evil\n");
        fs::remove_file(ground.path("rw/src/.env")).unwrap();
        symlink("/elsewhere", ground.path("rw/src/.env")).unwrap();
        fs::remove_dir_all(ground.path("rw/plain")).unwrap();
    });
    assert_eq!(aftermath.changes.len(), 4);
    for name in ["rw/.venv", "rw/src/.env"] {
        let target = fs::read_link(ground.path(name)).unwrap();
        assert_eq!(target, Path::new("/opt/shared"));
    }
    assert!(!ground.has("rw/plain"));
    assert_eq!(kept(&ground, "rw/.venv/bin/python"), "evil\n");
}

#[test]
fn what_moved_with_its_directory_is_left_and_told() {
    let ground = Ground::new();
    let gate = ground.gate(None, Vec::new());
    let aftermath = swept(&ground, &gate, || {
        fs::rename(ground.path("rw/vendor"), ground.path("rw/moved")).unwrap();
        ground.write("rw/vendor/lib/.git/config", "planted\n");
    });
    assert_eq!(ground.text("rw/moved/lib/.git/config"), "[core]\n");
    assert_eq!(kept(&ground, "rw/vendor/lib/.git/config"), "planted\n");
    assert_eq!((aftermath.changes.len(), aftermath.left_out.len()), (1, 2));
}

#[test]
fn what_the_user_replaced_at_a_masked_name_stays() {
    let ground = Ground::new();
    let gate = ground.gate(None, Vec::new());
    let aftermath = swept(&ground, &gate, || {
        ground.write("rw/.env.new", "KEY=user\n");
        fs::rename(ground.path("rw/.env.new"), ground.path("rw/.env")).unwrap();
    });
    assert_eq!(ground.text("rw/.env"), "KEY=user\n");
    let reason = "denied: somebody replaced it while the command ran: look at it";
    assert_eq!(ground.lines(&aftermath), [format!(".env {reason}")]);
}

#[test]
fn what_is_kept_twice_is_kept_apart() {
    let ground = Ground::new();
    let gate = ground.gate(None, Vec::new());
    for text in ["one", "two"] {
        let aftermath = swept(&ground, &gate, || ground.write("rw/src/.env", text));
        assert_eq!(aftermath.changes.len(), 1);
    }
    assert_eq!(kept(&ground, "rw/src/.env"), "one");
    assert!(ground.has("quarantine/2"));
}

#[test]
fn a_sweep_that_somebody_disturbs_takes_nothing_from_outside() {
    let ground = Ground::new();
    ground.write("outside/.git/config", "CANARY\n");
    let before = ground.state("outside");
    let gate = ground.gate(None, Vec::new());
    for round in 0..50 {
        fs::create_dir_all(ground.path("rw/d")).unwrap();
        symlink(ground.path("outside"), ground.path("rw/x")).unwrap();
        let mut exchange = None;
        let _aftermath = swept(&ground, &gate, || {
            ground.write("rw/d/.git/config", "planted\n");
            exchange = Some(Exchange::of(ground.path("rw/d"), ground.path("rw/x")));
        });
        drop(exchange);
        assert_eq!(ground.state("outside"), before, "{round}");
        for name in ["rw/d", "rw/x"] {
            let path = ground.path(name);
            fs::remove_file(&path)
                .or_else(|_| fs::remove_dir_all(&path))
                .unwrap();
        }
    }
}
