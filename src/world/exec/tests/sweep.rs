//! Looks at closed names before a command and sweeps after it, without any sandbox in between: the
//! test does what a command would do in the tree.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::{CWD, Mode, OFlags, mkdirat, mkfifoat, openat};

use crate::confinement::tier::Tier;
use crate::path::AbsPath;
use crate::permissions::grant::{Grant, GrantKind, Permission};
use crate::world::exec::aftermath::Aftermath;
use crate::world::exec::masks::{everywhere, look};
use crate::world::exec::sweep::sweep;
use crate::world::exec::tests::ground::{Exchange, Ground};
use crate::world::gate::Gate;
use crate::world::sys::own::clear;

/// Looks, does `work` in the tree, and sweeps.
fn swept(ground: &Ground, gate: &Gate, work: impl FnOnce()) -> Aftermath {
    let quarantine = AbsPath::new(ground.path("quarantine")).unwrap();
    fs::create_dir_all(quarantine.as_path()).unwrap();
    let before = look(gate, Tier::B).unwrap_or_else(|stop| panic!("{}", stop.message));
    work();
    sweep(gate, &before, &quarantine).1
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
    assert_eq!(aftermath.changes.len(), 5);
    for name in ["rw/.venv", "rw/src/.env", "rw/plain/.idea"] {
        let target = fs::read_link(ground.path(name)).unwrap();
        assert_eq!(target, Path::new("/opt/shared"));
    }
    assert!(!ground.has("rw/plain/deep"));
    assert_eq!(kept(&ground, "rw/.venv/bin/python"), "evil\n");
}

#[test]
fn links_and_pipes_stay_where_they_were() {
    let ground = Ground::new();
    for name in ["rw/gone/.env", "rw/moved/.env", "rw/.envrc"] {
        ground.write(name, "");
        fs::remove_file(ground.path(name)).unwrap();
    }
    symlink("/opt/shared", ground.path("rw/moved/.env")).unwrap();
    for name in ["rw/gone/.env", "rw/.envrc"] {
        mkfifoat(CWD, ground.path(name), Mode::RUSR | Mode::WUSR).unwrap();
    }
    let gate = ground.gate(None, Vec::new());
    let aftermath = swept(&ground, &gate, || {
        fs::remove_dir_all(ground.path("rw/gone")).unwrap();
        fs::rename(ground.path("rw/moved"), ground.path("rw/elsewhere")).unwrap();
        fs::remove_file(ground.path("rw/.envrc")).unwrap();
        ground.write("rw/.envrc", "evil\n");
    });
    let target = fs::read_link(ground.path("rw/moved/.env")).unwrap();
    assert_eq!(target, Path::new("/opt/shared"));
    assert!(!ground.has("rw/elsewhere/.env"));
    for name in ["rw/gone/.env", "rw/.envrc"] {
        let made = fs::symlink_metadata(ground.path(name)).unwrap();
        assert!(made.file_type().is_fifo(), "{name}");
    }
    assert_eq!(kept(&ground, "rw/.envrc"), "evil\n");
    assert_eq!(aftermath.changes.len(), 5);
}

/// Makes a directory in a directory, so many times, from `top` on.
fn dig(top: &Path, name: &str, times: usize) {
    let mut at = rustix::fs::open(top, OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..times {
        mkdirat(&at, name, Mode::RWXU).unwrap();
        at = openat(&at, name, OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    mkdirat(&at, ".git", Mode::RWXU).unwrap();
}

#[test]
fn however_deep_a_command_digs_all_is_swept() {
    let long = "n".repeat(200);
    for (name, times) in [("d", 135), ("d", 2_500), (long.as_str(), 30)] {
        let ground = Ground::new();
        let gate = ground.gate(None, Vec::new());
        let _aftermath = swept(&ground, &gate, || {
            ground.write("rw/src/.git/hooks/pre-commit", "evil\n");
            dig(&ground.path("rw/src"), name, times);
        });
        assert_eq!(kept(&ground, "rw/src/.git/hooks/pre-commit"), "evil\n");
        let found = Command::new("find")
            .arg(ground.path("rw/src"))
            .args(["-name", ".git"])
            .output();
        let found = found.unwrap();
        assert!(found.status.success() && found.stdout.is_empty(), "{times}");
        for moved in ["rw", "quarantine"] {
            clear::remove(&AbsPath::new(ground.path(moved)).unwrap()).unwrap();
        }
    }
}

#[test]
fn directories_that_a_command_closed_are_swept() {
    for (closed, mode, left) in [
        ("rw", 0o000, 0o700),
        ("rw/src", 0o000, 0o700),
        ("rw/src", 0o500, 0o500),
        ("rw/src/.git", 0o500, 0),
        ("rw/src/.git", 0o000, 0),
    ] {
        let ground = Ground::new();
        let gate = ground.gate(None, Vec::new());
        let _aftermath = swept(&ground, &gate, || {
            ground.write("rw/src/.git/hooks/pre-commit", "evil\n");
            let mode = Permissions::from_mode(mode);
            fs::set_permissions(ground.path(closed), mode).unwrap();
        });
        let is_root = rustix::process::geteuid().is_root();
        if !is_root && left != 0 {
            assert_eq!(ground.mode(closed), left, "{closed} {mode:o}");
        }
        let rights = Permissions::from_mode(0o700);
        let quarantined = ground
            .path("quarantine/1")
            .join(ground.path("rw/src/.git").strip_prefix("/").unwrap());
        fs::set_permissions(quarantined, rights).unwrap();
        assert_eq!(kept(&ground, "rw/src/.git/hooks/pre-commit"), "evil\n");
        assert!(!ground.has("rw/src/.git"), "{closed} {mode:o}");
        assert!(look(&gate, Tier::B).is_ok());
    }
}

#[test]
fn what_could_not_be_read_before_is_masked_and_left() {
    let ground = Ground::new();
    ground.write("rw/locked/.git/config", "[core]\n");
    let gate = ground.gate(None, Vec::new());
    let close = || {
        let closed = Permissions::from_mode(0o000);
        fs::set_permissions(ground.path("rw/locked"), closed).unwrap();
    };
    close();
    let masks = masks(&ground, &gate, Tier::B);
    let expected = if rustix::process::geteuid().is_root() {
        "locked/.git"
    } else {
        "locked"
    };
    assert!(masks.iter().any(|mask| mask == expected), "{masks:?}");
    let aftermath = swept(&ground, &gate, || ground.write("rw/src/.git/x", "evil\n"));
    assert_eq!(aftermath.changes.len(), 1);
    assert_eq!(ground.mode("rw/locked"), 0o000);
    fs::set_permissions(ground.path("rw/locked"), Permissions::from_mode(0o700)).unwrap();
    assert_eq!(ground.text("rw/locked/.git/config"), "[core]\n");
}

#[test]
fn of_very_many_names_all_are_swept_and_some_told() {
    let ground = Ground::new();
    let gate = ground.gate(None, Vec::new());
    let aftermath = swept(&ground, &gate, || {
        for number in 0..1_010 {
            ground.write(&format!("rw/src/{number}/.env"), "evil\n");
        }
    });
    assert_eq!(look(&gate, Tier::B).unwrap().masks(&gate).len(), 4);
    let lines = ground.lines(&aftermath);
    assert_eq!(lines.len(), 1_001);
    let more = ". unlisted: 10 more protected names were taken out of the way";
    assert!(lines.iter().any(|line| line == more));
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
