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
use crate::world::exec::commit::{commit, commit_up_to};
use crate::world::exec::tests::fixture::{NameSwapper, OverlayFixture, wait_for_file_clock};
use crate::world::io::file_change::{ChangeKind, FileChange};

#[test]
fn commit_applies_the_changes_of_a_command_to_the_tree() {
    let mut fixture = OverlayFixture::new();
    fixture.check(
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
    assert_eq!(fixture.text("rw/src/app.py"), "x = 1\ny\n");
    assert_eq!(fixture.text("rw/d/1"), "1\n");
    assert_eq!(
        fs::read_link(fixture.path("rw/link")).unwrap(),
        Path::new("src/app.py")
    );
    assert!(fixture.exists("rw/empty") && !fixture.exists("rw/plain"));
    assert_eq!(
        (fixture.mode("rw/d"), fixture.mode("rw/run.sh") & 0o111),
        (0o700, 0o111)
    );
    assert_eq!(
        fs::read_dir(fixture.path("layer/upper")).unwrap().count(),
        0
    );
}

#[test]
fn the_next_command_sees_applied_and_private_changes() {
    let mut fixture = OverlayFixture::new();
    let command_changes = fixture.check(
        "mkdir -p sub/node_modules/p; echo p > sub/node_modules/p/i.js; echo code > sub/main.js",
        &["sub/main.js created"],
    );
    assert_eq!(command_changes.left_out.len(), 1);
    assert!(!fixture.exists("rw/sub/node_modules"));
    let command_changes = fixture.check(
        "test -f sub/node_modules/p/i.js; test \"$(cat sub/main.js)\" = code; echo 2 > sub/main.js",
        &["sub/main.js changed"],
    );
    assert_eq!(command_changes.left_out, []);
    fs::remove_dir_all(fixture.path("rw/sub")).unwrap();
    fixture.check("test -f sub/node_modules/p/i.js", &[]);
    assert!(!fixture.exists("rw/sub"));
}

#[test]
fn protected_names_stay_as_they_are() {
    let mut fixture = OverlayFixture::new();
    let before = (
        fixture.state("rw/.git"),
        fixture.text("rw/.env"),
        fixture.text("rw/LICENSE"),
    );
    fixture.check(
        "echo evil >> .git/config; echo A=1 > .env; rm LICENSE; echo x > .GIT; mkdir keys; \
         echo k > keys/k; mkdir -p a/.vscode; echo t > a/.vscode/tasks.json; echo ok > a/ok",
        &[
            ".GIT denied: the name is protected",
            ".env denied: the name is protected",
            ".git denied: the name is protected",
            "LICENSE denied: the config or the run protects it",
            "a/.vscode denied: the name is protected",
            "keys denied: the path is hidden from agents",
            "a/ok created",
        ],
    );
    let after = (
        fixture.state("rw/.git"),
        fixture.text("rw/.env"),
        fixture.text("rw/LICENSE"),
    );
    assert_eq!(after, before);
    assert!(
        !fixture.exists("rw/keys") && !fixture.exists("rw/.GIT") && !fixture.exists("rw/a/.vscode")
    );
    fixture.check("test \"$(cat .env)\" = A=1; test ! -e LICENSE", &[]);
}

#[test]
fn a_directory_that_holds_a_protected_name_is_not_deleted() {
    let mut fixture = OverlayFixture::new();
    let denial = "denied: write to $ROOT/rw/vendor: it holds names that you may not change \
                  ($ROOT/rw/vendor/lib/.git, $ROOT/rw/vendor/lib/.git/config)";
    let root = fixture.path("").display().to_string();
    let expected = format!(
        "vendor denied: {}",
        denial.replace("$ROOT", root.trim_end_matches('/'))
    );
    fixture.check("rm -r vendor", &[&expected]);
    assert_eq!(fixture.text("rw/vendor/lib/code.c"), "code\n");
    fixture.check(
        "rm -rf vendor; mkdir -p vendor/lib; echo n > vendor/lib/new.c",
        &[
            "vendor/lib/.git denied: the name is protected",
            "vendor/lib/code.c deleted",
            "vendor/lib/new.c created",
        ],
    );
    assert_eq!(fixture.text("rw/vendor/lib/.git/config"), "[core]\n");
}

#[test]
fn a_recreated_directory_holds_only_new_entries() {
    let mut fixture = OverlayFixture::new();
    fixture.check(
        "rm -r src plain; mkdir -p src plain/deep; echo n > src/app.py; mkdir plain/deep/two",
        &[
            "plain/deep/one deleted",
            "src/old.py deleted",
            "src/app.py changed",
        ],
    );
    assert!(fixture.exists("rw/plain/deep/two") && !fixture.exists("rw/src/old.py"));
}

#[test]
fn commit_replaces_entries_that_changed_their_kind() {
    let mut fixture = OverlayFixture::new();
    symlink("README.md", fixture.path("rw/soft")).unwrap();
    fixture.check(
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
    assert_eq!(fixture.text("rw/soft"), "hard\n");
    assert_eq!(fixture.text("rw/README.md"), "readme\n");
}

#[test]
fn what_a_file_that_is_too_large_would_replace_stays() {
    let mut fixture = OverlayFixture::new();
    symlink("README.md", fixture.path("rw/soft")).unwrap();
    let gate = fixture.gate(None, Vec::new());
    fixture.run(
        "rm soft; echo large > soft; rm -r plain; echo large > plain; rm src/old.py; \
         ln -s app.py src/old.py; rm -r other; echo 1 > other",
    );
    let bytes_max = 2;
    let layer = fixture.layer();
    let command_changes = commit_up_to(bytes_max, &gate, &layer, &mut fixture.reported)
        .unwrap_or_else(|tool_error| panic!("{}", tool_error.message));
    let lines = fixture.change_lines(&command_changes);
    let outcomes: Vec<&str> = lines
        .iter()
        .map(|line| line.split(':').next().unwrap())
        .collect();
    assert_eq!(
        outcomes,
        [
            "other/inner deleted",
            "other created",
            "plain failed",
            "soft failed",
            "src/old.py deleted",
            "src/old.py created",
        ]
    );
    assert_eq!(fixture.text("rw/plain/deep/one"), "1\n");
    assert_eq!(
        fs::read_link(fixture.path("rw/soft")).unwrap(),
        Path::new("README.md")
    );
    assert_eq!(fixture.text("rw/other"), "1\n");
}

#[test]
fn other_grants_inside_are_left_to_themselves() {
    let mut fixture = OverlayFixture::new();
    let inner_grant = Grant::tree(
        fixture.real("rw/other"),
        GrantKind::Context,
        Permission::Write,
    );
    let file = Grant::file(fixture.real("rw/run.sh"), Permission::Read);
    let gate = fixture.gate(None, vec![inner_grant, file]);
    fixture.run("echo x > other/inner; echo y > run.sh; echo z > src/old.py");
    let command_changes = fixture.commit(&gate);
    let lines = fixture.change_lines(&command_changes);
    assert_eq!(
        lines,
        [
            "other denied: it lies in another directory that was opened to you",
            "run.sh denied: it was opened for reading only",
            "src/old.py changed"
        ]
    );
    fixture.run("rm -rf other; rm -rf src");
    let command_changes = fixture.commit(&gate);
    assert_eq!(
        fixture.change_lines(&command_changes),
        ["src/old.py deleted", "src/app.py deleted"]
    );
    assert_eq!(fixture.text("rw/other/inner"), "inner\n");
}

#[test]
fn commit_leaves_out_pipes_and_keeps_files_accessible() {
    let mut fixture = OverlayFixture::new();
    let command_changes = fixture.check(
        "mkfifo pipe; echo 1 > file; chmod 000 file; mkdir shut; chmod 0 shut",
        &["file created"],
    );
    assert_eq!(command_changes.left_out[0].reason, "it is a named pipe");
    assert!(!fixture.exists("rw/pipe"));
    assert_eq!(fixture.mode("rw/file"), 0o600);
    assert_eq!(fixture.mode("rw/shut"), 0o700);
}

#[test]
fn setuid_and_setgid_bits_are_dropped() {
    let mut fixture = OverlayFixture::new();
    fixture.check(
        "echo x > tool; chmod 6755 tool; mkdir -m 3777 d",
        &["tool created"],
    );
    assert_eq!(
        (fixture.mode("rw/tool"), fixture.mode("rw/d")),
        (0o755, 0o777)
    );
}

#[test]
fn commit_keeps_the_order_of_modification_times() {
    let mut fixture = OverlayFixture::new();
    fixture.check(
        "echo s > z.c; touch -d 2001-01-01 z.c; echo o > a.o; touch -d 2002-01-01 a.o",
        &["a.o created", "z.c created"],
    );
    let modified = |rel: &str| fs::metadata(fixture.path(rel)).unwrap().mtime();
    assert!(modified("rw/a.o") > modified("rw/z.c"));
    assert!(modified("rw/a.o") < 1_100_000_000);
}

#[test]
fn commit_keeps_what_the_user_changed_meanwhile() {
    let mut fixture = OverlayFixture::new();
    wait_for_file_clock();
    fs::create_dir(fixture.path("kept")).unwrap();
    let conflicts_dir = fixture.real("kept");
    let gate = fixture.gate(
        Some(ConflictPolicy::from_now(conflicts_dir).unwrap()),
        Vec::new(),
    );
    fixture.run("echo agent > README.md; rm src/app.py; rm -r plain; echo fine > src/old.py");
    fixture.write("rw/README.md", "user\n");
    fixture.write("rw/src/app.py", "user\n");
    fixture.write("rw/plain/deep/mine", "user\n");
    let command_changes = fixture.commit(&gate);
    let kinds: Vec<String> = fixture.change_lines(&command_changes);
    let outcomes: Vec<&str> = kinds
        .iter()
        .map(|line| line.split(':').next().unwrap())
        .collect();
    assert_eq!(
        outcomes,
        [
            "README.md conflict",
            "plain denied",
            "src/app.py denied",
            "src/old.py changed"
        ]
    );
    for path in ["rw/README.md", "rw/src/app.py", "rw/plain/deep/mine"] {
        assert_eq!(fixture.text(path), "user\n");
    }
    let kept_file = fixture
        .path("kept")
        .join(fixture.path("rw/README.md").strip_prefix("/").unwrap());
    assert_eq!(fs::read_to_string(kept_file).unwrap(), "agent\n");
    // The agent may change again what it created itself.
    fixture.run("echo again > src/old.py");
    let command_changes = fixture.commit(&gate);
    assert_eq!(
        fixture.change_lines(&command_changes),
        ["src/old.py changed"]
    );
}

#[test]
fn a_single_command_outside_a_run_spares_what_changed_since_it_began() {
    let mut fixture = OverlayFixture::new();
    let gate = fixture.gate(None, Vec::new());
    wait_for_file_clock();
    fixture.run("echo agent > README.md; mkdir new; echo agent > new/a; echo agent > run.sh");
    wait_for_file_clock();
    fixture.write("rw/README.md", "user\n");
    fixture.write("rw/new/b", "user\n");
    let command_changes = fixture.commit(&gate);
    assert_eq!(fixture.text("rw/README.md"), "user\n");
    assert_eq!(fixture.text("rw/new/b"), "user\n");
    let last_lines = fixture.change_lines(&command_changes).split_off(1);
    assert_eq!(last_lines, ["new/a created", "run.sh changed"]);
}

#[test]
fn read_only_and_many_named_files_of_the_user_stay() {
    let mut fixture = OverlayFixture::new();
    let read_only = fs::Permissions::from_mode(0o444);
    fs::set_permissions(fixture.path("rw/README.md"), read_only).unwrap();
    fs::hard_link(fixture.path("rw/run.sh"), fixture.path("outside/run.sh")).unwrap();
    let gate = fixture.gate(None, Vec::new());
    fixture.run("rm README.md; echo x > README.md; echo x > run.sh");
    let command_changes = fixture.commit(&gate);
    let is_denied = |change: &FileChange| matches!(change.kind, ChangeKind::Denied { .. });
    assert_eq!(command_changes.changes.len(), 2);
    assert!(command_changes.changes.iter().all(is_denied));
    assert_eq!(fixture.text("outside/run.sh"), "echo\n");
    assert_eq!(fixture.text("rw/README.md"), "readme\n");
}

/// Commits `upper/d` repeatedly while `directory` is swapped with `link`, a symlink to `outside`.
/// The race runs until some files have been applied and some have been refused.
#[track_caller]
fn race(directory: &str, link: &str) {
    let mut fixture = OverlayFixture::new();
    fixture.write("outside/deep/f0", "CANARY\n");
    let before = fixture.state("outside");
    let gate = fixture.gate(None, Vec::new());
    let began = Instant::now();
    let (mut done_count, mut stopped_count) = (0, 0);
    while began.elapsed() < Duration::from_millis(500) || done_count == 0 || stopped_count == 0 {
        assert!(
            began.elapsed() < Duration::from_mins(2),
            "{done_count} done, {stopped_count} stopped"
        );
        for name in [directory, link] {
            let path = fixture.path(name);
            let _missing = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
        fs::create_dir_all(fixture.path(directory)).unwrap();
        symlink(fixture.path("outside"), fixture.path(link)).unwrap();
        for number in 0..10 {
            let text = format!("inside {}\n", began.elapsed().as_nanos());
            fixture.write(&format!("layer/upper/d/deep/f{number}"), &text);
        }
        let swapper = NameSwapper::start(fixture.path(directory), fixture.path(link));
        let command_changes = commit(&gate, &fixture.layer(), &mut fixture.reported);
        drop(swapper);
        let changes = command_changes.map_or_else(
            |tool_error| tool_error.changes,
            |command_changes| command_changes.changes,
        );
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
        assert_eq!(fixture.state("outside"), before);
    }
    fixture.assert_nothing_leaked();
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
    let mut fixture = OverlayFixture::new();
    for (name, mark, value) in [
        ("moved", "user.overlay.redirect", "/outside"),
        ("odd", "user.overlay.opaque", "x"),
    ] {
        let path = fixture.path(format!("layer/upper/{name}"));
        fs::create_dir(&path).unwrap();
        setxattr(&path, mark, value.as_bytes(), XattrFlags::empty()).unwrap();
    }
    fixture.write("layer/upper/hollow", "\0\0\0");
    let hollow = fixture.path("layer/upper/hollow");
    setxattr(hollow, "user.overlay.metacopy", b"", XattrFlags::empty()).unwrap();
    let gate = fixture.gate(None, Vec::new());
    let command_changes = fixture.commit(&gate);
    let has_failed = |change: &FileChange| matches!(change.kind, ChangeKind::Failed { .. });
    assert_eq!(command_changes.changes.len(), 3);
    assert!(command_changes.changes.iter().all(has_failed));
    for name in ["moved", "odd", "hollow"] {
        assert!(!fixture.exists(&format!("rw/{name}")), "{name}");
    }
}

#[test]
fn a_layer_that_is_too_deep_is_emptied_and_not_applied() {
    let mut fixture = OverlayFixture::new();
    let gate = fixture.gate(None, Vec::new());
    let before = fixture.state("rw");
    fixture.run(
        "echo x > file; d=$(printf 'd/%.0s' $(seq 1500)); mkdir -p \"$d\"; mkdir e; mv d e; \
         mkdir -p \"$d\"; mv e \"$d\"",
    );
    let tool_error = commit(&gate, &fixture.layer(), &mut fixture.reported).unwrap_err();
    assert!(
        tool_error
            .message
            .ends_with("it is more than 128 directories deep"),
        "{}",
        tool_error.message
    );
    assert_eq!(fixture.state("rw"), before);
    assert_eq!(
        fs::read_dir(fixture.path("layer/upper")).unwrap().count(),
        0
    );
}

#[test]
fn a_layer_over_a_read_only_tree_is_not_applied() {
    let mut fixture = OverlayFixture::new();
    fixture.run("echo x > file");
    let grants = vec![
        Grant::tree(fixture.real("ws"), GrantKind::Workspace, Permission::Write),
        Grant::tree(fixture.real("rw"), GrantKind::Context, Permission::Read),
    ];
    for (grants, phase) in [
        (grants, Phase::Final),
        (
            vec![Grant::tree(
                fixture.real("rw"),
                GrantKind::Context,
                Permission::Write,
            )],
            Phase::Coordination,
        ),
    ] {
        let policy = GatePolicy::minimal(fixture.real("ws"));
        let gate = Gate::open(PathPermissionManager::new(grants, phase), policy).unwrap();
        let tool_error = commit(&gate, &fixture.layer(), &mut fixture.reported).unwrap_err();
        assert_eq!(tool_error.message, "its directory is not open for writing");
    }
    assert!(!fixture.exists("rw/file"));
}

/// The root of the fixture on which a child process commits until it is killed.
const KILLED_CHILD_ROOT: &str = "MASSGEN_TEST_DOOMED";

#[test]
fn a_commit_that_is_killed_leaves_every_file_old_or_new_and_nothing_else() {
    const TEST_NAME: &str = "world::exec::tests::commit::a_commit_that_is_killed_leaves_every_file_old_or_new_and_nothing_else";
    const FILES: usize = 300;
    if let Some(root) = env::var_os(KILLED_CHILD_ROOT) {
        let fixture = OverlayFixture::at(Path::new(&root));
        let conflicts = ConflictPolicy {
            run_started_ns: i128::MAX,
            dir: fixture.real("kept"),
        };
        let gate = fixture.gate(Some(conflicts), Vec::new());
        let result = commit(&gate, &fixture.layer(), &mut BTreeSet::new());
        assert!(result.is_ok());
        return;
    }
    let (mut partial_count, mut whole_count) = (0, 0);
    for round in 0_u64.. {
        if round >= 12 && partial_count > 0 {
            break;
        }
        assert!(round < 200, "{partial_count} cut, {whole_count} whole");
        let fixture = OverlayFixture::new();
        fs::create_dir(fixture.path("kept")).unwrap();
        for number in 0..FILES {
            fixture.write(&format!("rw/many/f{number}"), "old");
        }
        fixture.run("for f in many/*; do echo newer > $f; done; for i in $(seq 99); do echo n > n$i; done; rm src/*");
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", TEST_NAME])
            .env(KILLED_CHILD_ROOT, fixture.path(""))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // On a busy machine, it begins later.
        let begins_ms = 25 * (round / 12);
        thread::sleep(Duration::from_millis(begins_ms + 5 + 7 * (round % 12)));
        let exit_status = child.try_wait().unwrap();
        child.kill().unwrap_or_default();
        child.wait().unwrap();
        let new_files =
            (0..FILES).filter(
                |number| match &*fixture.text(&format!("rw/many/f{number}")) {
                    "newer\n" => true,
                    "old" => false,
                    other => panic!("{other}"),
                },
            );
        let new_count = new_files.count();
        if exit_status.is_none() && new_count > 0 && new_count < FILES {
            partial_count += 1;
        }
        whole_count += usize::from(new_count == FILES);
        for path in fixture.state("rw").keys() {
            let name = path.file_name().unwrap().to_string_lossy();
            assert!(!name.contains("massgen"), "{} is left", path.display());
        }
    }
}
