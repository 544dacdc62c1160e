//! Commits of layers made by the kernel: each test runs a script in an overlay on `rw`.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{XattrFlags, setxattr};

use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::world::access::gate::Gate;
use crate::world::access::policy::{ConflictPolicy, GatePolicy};
use crate::world::exec::commit::commit;
use crate::world::exec::tests::ground::{Exchange, Ground, TICK};
use crate::world::io::file_change::{ChangeKind, FileChange};

#[test]
fn commit_applies_the_changes_of_a_command_to_the_tree() {
    let mut ground = Ground::new();
    ground.check(
        "echo y >> src/app.py; echo new > src/new.py; mkdir -m 700 d; echo 1 > d/1; rm README.md; \
         ln -s src/app.py link; mkdir empty; chmod +x run.sh; rm -r plain; touch src/old.py",
        &[
            "README.md deleted",
            "d/1 created",
            "link created",
            "plain/deep/one deleted",
            "run.sh changed",
            "src/app.py changed",
            "src/new.py created",
        ],
    );
    assert_eq!(ground.text("rw/src/app.py"), "x = 1\ny\n");
    assert_eq!(ground.text("rw/d/1"), "1\n");
    assert_eq!(
        fs::read_link(ground.path("rw/link")).unwrap(),
        Path::new("src/app.py")
    );
    assert!(ground.has("rw/empty") && !ground.has("rw/plain"));
    assert_eq!(
        (ground.mode("rw/d"), ground.mode("rw/run.sh") & 0o111),
        (0o700, 0o111)
    );
    assert_eq!(fs::read_dir(ground.path("layer/upper")).unwrap().count(), 0);
}

#[test]
fn the_next_command_sees_applied_and_private_changes() {
    let mut ground = Ground::new();
    let carried = ground.check(
        "mkdir -p sub/node_modules/p; echo p > sub/node_modules/p/i.js; echo code > sub/main.js",
        &["sub/main.js created"],
    );
    assert_eq!(carried.left_out.len(), 1);
    assert!(!ground.has("rw/sub/node_modules"));
    let carried = ground.check(
        "test -f sub/node_modules/p/i.js; test \"$(cat sub/main.js)\" = code; echo 2 > sub/main.js",
        &["sub/main.js changed"],
    );
    assert_eq!(carried.left_out, []);
    fs::remove_dir_all(ground.path("rw/sub")).unwrap();
    ground.check("test -f sub/node_modules/p/i.js", &[]);
    assert!(!ground.has("rw/sub"));
}

#[test]
fn protected_names_stay_as_they_are() {
    let mut ground = Ground::new();
    let before = (
        ground.state("rw/.git"),
        ground.text("rw/.env"),
        ground.text("rw/LICENSE"),
    );
    ground.check(
        "echo evil >> .git/config; echo A=1 > .env; rm LICENSE; echo x > .GIT; mkdir keys; \
         echo k > keys/k; mkdir -p a/.vscode; echo t > a/.vscode/tasks.json; echo ok > a/ok",
        &[
            ".GIT denied: the name is protected",
            ".env denied: the name is protected",
            ".git denied: the name is protected",
            "LICENSE denied: the config protects it",
            "a/.vscode denied: the name is protected",
            "keys denied: the path is hidden from agents",
            "a/ok created",
        ],
    );
    let after = (
        ground.state("rw/.git"),
        ground.text("rw/.env"),
        ground.text("rw/LICENSE"),
    );
    assert_eq!(after, before);
    assert!(!ground.has("rw/keys") && !ground.has("rw/.GIT") && !ground.has("rw/a/.vscode"));
    ground.check("test \"$(cat .env)\" = A=1; test ! -e LICENSE", &[]);
}

#[test]
fn a_directory_that_holds_a_protected_name_is_not_deleted() {
    let mut ground = Ground::new();
    let denial = "denied: write to $ROOT/rw/vendor: it holds names that you may not change \
                  ($ROOT/rw/vendor/lib/.git, $ROOT/rw/vendor/lib/.git/config)";
    let root = ground.path("").display().to_string();
    let expected = format!(
        "vendor denied: {}",
        denial.replace("$ROOT", root.trim_end_matches('/'))
    );
    ground.check("rm -r vendor", &[&expected]);
    assert_eq!(ground.text("rw/vendor/lib/code.c"), "code\n");
    ground.check(
        "rm -rf vendor; mkdir -p vendor/lib; echo n > vendor/lib/new.c",
        &[
            "vendor/lib/.git denied: the name is protected",
            "vendor/lib/code.c deleted",
            "vendor/lib/new.c created",
        ],
    );
    assert_eq!(ground.text("rw/vendor/lib/.git/config"), "[core]\n");
}

#[test]
fn a_recreated_directory_holds_only_new_entries() {
    let mut ground = Ground::new();
    ground.check(
        "rm -r src plain; mkdir -p src plain/deep; echo n > src/app.py; mkdir plain/deep/two",
        &[
            "plain/deep/one deleted",
            "src/old.py deleted",
            "src/app.py changed",
        ],
    );
    assert!(ground.has("rw/plain/deep/two") && !ground.has("rw/src/old.py"));
}

#[test]
fn commit_replaces_entries_that_changed_their_kind() {
    let mut ground = Ground::new();
    symlink("README.md", ground.path("rw/soft")).unwrap();
    ground.check(
        "rm -r plain; echo file > plain; rm src/old.py; mkdir src/old.py; echo 1 > src/old.py/in; \
         rm soft; echo hard > soft; rm run.sh; ln -s src run.sh",
        &[
            "plain/deep/one deleted",
            "plain created",
            "run.sh deleted",
            "run.sh created",
            "soft deleted",
            "soft created",
            "src/old.py deleted",
            "src/old.py/in created",
        ],
    );
    assert_eq!(ground.text("rw/soft"), "hard\n");
    assert_eq!(ground.text("rw/README.md"), "readme\n");
}

#[test]
fn other_grants_inside_are_left_to_themselves() {
    let mut ground = Ground::new();
    let inner_grant = Grant::tree(
        ground.real("rw/other"),
        GrantKind::Context,
        Permission::Write,
    );
    let file = Grant::file(ground.real("rw/run.sh"), Permission::Read);
    let gate = ground.gate(None, vec![inner_grant, file]);
    ground.run("echo x > other/inner; echo y > run.sh; echo z > src/old.py");
    let carried = ground.commit(&gate);
    let lines = ground.lines(&carried);
    assert_eq!(
        lines,
        [
            "other denied: it lies in another directory that was opened to you",
            "run.sh denied: it was opened for reading only",
            "src/old.py changed"
        ]
    );
    ground.run("rm -rf other; rm -rf src");
    let carried = ground.commit(&gate);
    assert_eq!(
        ground.lines(&carried),
        ["src/old.py deleted", "src/app.py deleted"]
    );
    assert_eq!(ground.text("rw/other/inner"), "inner\n");
}

#[test]
fn commit_leaves_out_pipes_and_keeps_files_accessible() {
    let mut ground = Ground::new();
    let carried = ground.check(
        "mkfifo pipe; echo 1 > file; chmod 000 file; mkdir shut; chmod 0 shut",
        &["file created"],
    );
    assert_eq!(carried.left_out[0].reason, "it is a named pipe");
    assert!(!ground.has("rw/pipe"));
    assert_eq!(ground.mode("rw/file"), 0o600);
    assert_eq!(ground.mode("rw/shut"), 0o700);
}

#[test]
fn setuid_and_setgid_bits_are_dropped() {
    let mut ground = Ground::new();
    ground.check(
        "echo x > tool; chmod 6755 tool; mkdir -m 3777 d",
        &["tool created"],
    );
    assert_eq!(
        (ground.mode("rw/tool"), ground.mode("rw/d")),
        (0o755, 0o777)
    );
}

#[test]
fn commit_keeps_the_order_of_modification_times() {
    let mut ground = Ground::new();
    ground.check(
        "echo s > z.c; touch -d 2001-01-01 z.c; echo o > a.o; touch -d 2002-01-01 a.o",
        &["a.o created", "z.c created"],
    );
    let modified = |rel: &str| fs::metadata(ground.path(rel)).unwrap().mtime();
    assert!(modified("rw/a.o") > modified("rw/z.c"));
    assert!(modified("rw/a.o") < 1_100_000_000);
}

#[test]
fn commit_keeps_what_the_user_changed_meanwhile() {
    let mut ground = Ground::new();
    thread::sleep(TICK);
    fs::create_dir(ground.path("kept")).unwrap();
    let conflicts_dir = ground.real("kept");
    let gate = ground.gate(
        Some(ConflictPolicy::from_now(conflicts_dir).unwrap()),
        Vec::new(),
    );
    ground.run("echo agent > README.md; rm src/app.py; rm -r plain; echo fine > src/old.py");
    ground.write("rw/README.md", "user\n");
    ground.write("rw/src/app.py", "user\n");
    ground.write("rw/plain/deep/mine", "user\n");
    let carried = ground.commit(&gate);
    let kinds: Vec<String> = ground.lines(&carried);
    let begins: Vec<&str> = kinds
        .iter()
        .map(|line| line.split(':').next().unwrap())
        .collect();
    assert_eq!(
        begins,
        [
            "README.md conflict",
            "plain denied",
            "src/app.py denied",
            "src/old.py changed"
        ]
    );
    for path in ["rw/README.md", "rw/src/app.py", "rw/plain/deep/mine"] {
        assert_eq!(ground.text(path), "user\n");
    }
    let kept_file = ground
        .path("kept")
        .join(ground.path("rw/README.md").strip_prefix("/").unwrap());
    assert_eq!(fs::read_to_string(kept_file).unwrap(), "agent\n");
    // The agent may change again what it created itself.
    ground.run("echo again > src/old.py");
    let carried = ground.commit(&gate);
    assert_eq!(ground.lines(&carried), ["src/old.py changed"]);
}

#[test]
fn a_single_command_outside_a_run_spares_what_changed_since_it_began() {
    let mut ground = Ground::new();
    let gate = ground.gate(None, Vec::new());
    thread::sleep(TICK);
    ground.run("echo agent > README.md; mkdir new; echo agent > new/a; echo agent > run.sh");
    thread::sleep(TICK);
    ground.write("rw/README.md", "user\n");
    ground.write("rw/new/b", "user\n");
    let carried = ground.commit(&gate);
    assert_eq!(ground.text("rw/README.md"), "user\n");
    assert_eq!(ground.text("rw/new/b"), "user\n");
    let last_lines = ground.lines(&carried).split_off(1);
    assert_eq!(last_lines, ["new/a created", "run.sh changed"]);
}

#[test]
fn read_only_and_many_named_files_of_the_user_stay() {
    let mut ground = Ground::new();
    let read_only = fs::Permissions::from_mode(0o444);
    fs::set_permissions(ground.path("rw/README.md"), read_only).unwrap();
    fs::hard_link(ground.path("rw/run.sh"), ground.path("outside/run.sh")).unwrap();
    let gate = ground.gate(None, Vec::new());
    ground.run("rm README.md; echo x > README.md; echo x > run.sh");
    let carried = ground.commit(&gate);
    let is_denied = |change: &FileChange| matches!(change.kind, ChangeKind::Denied { .. });
    assert_eq!(carried.changes.len(), 2);
    assert!(carried.changes.iter().all(is_denied));
    assert_eq!(ground.text("outside/run.sh"), "echo\n");
    assert_eq!(ground.text("rw/README.md"), "readme\n");
}

/// Commits `upper/d` repeatedly while `one`, a directory, is swapped with `other`, a symlink to
/// `outside`. The race runs until some files have been applied and some have been refused.
#[track_caller]
fn race(one: &str, other: &str) {
    let mut ground = Ground::new();
    ground.write("outside/deep/f0", "CANARY\n");
    let before = ground.state("outside");
    let gate = ground.gate(None, Vec::new());
    let began = Instant::now();
    let (mut done_count, mut stopped_count) = (0, 0);
    while began.elapsed() < Duration::from_millis(500) || done_count == 0 || stopped_count == 0 {
        assert!(
            began.elapsed() < Duration::from_mins(2),
            "{done_count} done, {stopped_count} stopped"
        );
        for name in [one, other] {
            let path = ground.path(name);
            let _missing = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
        fs::create_dir_all(ground.path(one)).unwrap();
        symlink(ground.path("outside"), ground.path(other)).unwrap();
        for number in 0..10 {
            let text = format!("inside {}\n", began.elapsed().as_nanos());
            ground.write(&format!("layer/upper/d/deep/f{number}"), &text);
        }
        let exchange = Exchange::of(ground.path(one), ground.path(other));
        let carried = commit(&gate, &ground.layer(), &mut ground.reported);
        drop(exchange);
        let changes =
            carried.map_or_else(|tool_error| tool_error.changes, |carried| carried.changes);
        for change in changes {
            match change.kind {
                ChangeKind::Created
                | ChangeKind::Changed
                | ChangeKind::PartlyChanged { .. }
                | ChangeKind::Deleted
                | ChangeKind::Mode { .. } => done_count += 1,
                ChangeKind::Conflict { .. }
                | ChangeKind::Declined
                | ChangeKind::Denied { .. }
                | ChangeKind::Unlisted { .. }
                | ChangeKind::Reverted { .. }
                | ChangeKind::Failed { .. } => stopped_count += 1,
            }
        }
        assert_eq!(ground.state("outside"), before);
    }
    ground.assert_nothing_leaked();
}

#[test]
fn links_swapped_in_the_layer_lead_nowhere() {
    race("layer/upper/d", "layer/upper/x");
}

#[test]
fn links_swapped_in_the_tree_lead_nowhere() {
    race("rw/d", "rw/x");
}

#[test]
fn foreign_overlay_marks_are_ignored() {
    let mut ground = Ground::new();
    for (name, mark, value) in [
        ("moved", "user.overlay.redirect", "/outside"),
        ("odd", "user.overlay.opaque", "x"),
    ] {
        let path = ground.path(format!("layer/upper/{name}"));
        fs::create_dir(&path).unwrap();
        setxattr(&path, mark, value.as_bytes(), XattrFlags::empty()).unwrap();
    }
    ground.write("layer/upper/hollow", "\0\0\0");
    let hollow = ground.path("layer/upper/hollow");
    setxattr(hollow, "user.overlay.metacopy", b"", XattrFlags::empty()).unwrap();
    let gate = ground.gate(None, Vec::new());
    let carried = ground.commit(&gate);
    let has_failed = |change: &FileChange| matches!(change.kind, ChangeKind::Failed { .. });
    assert_eq!(carried.changes.len(), 3);
    assert!(carried.changes.iter().all(has_failed));
    for name in ["moved", "odd", "hollow"] {
        assert!(!ground.has(&format!("rw/{name}")), "{name}");
    }
}

#[test]
fn a_layer_that_is_too_deep_is_emptied_and_not_applied() {
    let mut ground = Ground::new();
    let gate = ground.gate(None, Vec::new());
    let before = ground.state("rw");
    ground.run(
        "echo x > file; d=$(printf 'd/%.0s' $(seq 1500)); mkdir -p \"$d\"; mkdir e; mv d e; \
         mkdir -p \"$d\"; mv e \"$d\"",
    );
    let tool_error = commit(&gate, &ground.layer(), &mut ground.reported).unwrap_err();
    assert!(
        tool_error
            .message
            .ends_with("it is more than 128 directories deep"),
        "{}",
        tool_error.message
    );
    assert_eq!(ground.state("rw"), before);
    assert_eq!(fs::read_dir(ground.path("layer/upper")).unwrap().count(), 0);
}

#[test]
fn a_layer_over_a_read_only_tree_is_not_applied() {
    let mut ground = Ground::new();
    ground.run("echo x > file");
    let grants = vec![
        Grant::tree(ground.real("ws"), GrantKind::Workspace, Permission::Write),
        Grant::tree(ground.real("rw"), GrantKind::Context, Permission::Read),
    ];
    for (grants, phase) in [
        (grants, Phase::Final),
        (
            vec![Grant::tree(
                ground.real("rw"),
                GrantKind::Context,
                Permission::Write,
            )],
            Phase::Coordination,
        ),
    ] {
        let policy = GatePolicy::single_call(ground.real("ws"));
        let gate = Gate::open(PathPermissionManager::new(grants, phase), policy).unwrap();
        let tool_error = commit(&gate, &ground.layer(), &mut ground.reported).unwrap_err();
        assert_eq!(tool_error.message, "its directory is not open for writing");
    }
    assert!(!ground.has("rw/file"));
}

/// The root of the ground on which a child process commits until it is killed.
const DOOMED: &str = "MASSGEN_TEST_DOOMED";

#[test]
fn a_commit_that_is_killed_leaves_every_file_old_or_new_and_nothing_else() {
    const NAME: &str = "world::exec::tests::commit::a_commit_that_is_killed_leaves_every_file_old_or_new_and_nothing_else";
    const FILES: usize = 300;
    if let Some(root) = env::var_os(DOOMED) {
        let ground = Ground::at(Path::new(&root));
        let conflicts = ConflictPolicy {
            run_started_ns: i128::MAX,
            dir: ground.real("kept"),
        };
        let gate = ground.gate(Some(conflicts), Vec::new());
        let result = commit(&gate, &ground.layer(), &mut BTreeSet::new());
        assert!(result.is_ok());
        return;
    }
    let (mut cut_count, mut whole_count) = (0, 0);
    for round in 0_u64.. {
        if round >= 12 && cut_count > 0 {
            break;
        }
        assert!(round < 200, "{cut_count} cut, {whole_count} whole");
        let ground = Ground::new();
        fs::create_dir(ground.path("kept")).unwrap();
        for number in 0..FILES {
            ground.write(&format!("rw/many/f{number}"), "old");
        }
        ground.run("for f in many/*; do echo newer > $f; done; for i in $(seq 99); do echo n > n$i; done; rm src/*");
        let mut doomed = Command::new(env::current_exe().unwrap())
            .args(["--exact", NAME])
            .env(DOOMED, ground.path(""))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // On a busy machine, it begins later.
        let begins_ms = 25 * (round / 12);
        thread::sleep(Duration::from_millis(begins_ms + 5 + 7 * (round % 12)));
        let exit_status = doomed.try_wait().unwrap();
        doomed.kill().unwrap_or_default();
        doomed.wait().unwrap();
        let new = (0..FILES).filter(
            |number| match &*ground.text(&format!("rw/many/f{number}")) {
                "newer\n" => true,
                "old" => false,
                other => panic!("{other}"),
            },
        );
        let new = new.count();
        if exit_status.is_none() && new > 0 && new < FILES {
            cut_count += 1;
        }
        whole_count += usize::from(new == FILES);
        for path in ground.state("rw").keys() {
            let name = path.file_name().unwrap().to_string_lossy();
            assert!(!name.contains("massgen"), "{} is left", path.display());
        }
    }
}
