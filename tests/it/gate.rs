//! What the gate lets through: each denial stands beside a control that differs in one thing.

use std::fs;
use std::path::Path;

use massgen::path::RealPath;
use massgen::permissions::PathPermissionManager;
use massgen::permissions::grant::{Grant, GrantKind, Permission, Phase};
use massgen::tools::call::UserPath;
use massgen::tools::parse::parse;
use massgen::world::gate::{Gate, GatePolicy, ParentNames};
use serde_json::{Value, json};

use crate::disk::{Disk, act, done, refused};

use Phase::{Coordination, Final};

/// `expected` is `allow`, or the name of the rule that denies. `$ROOT` stands for the disk.
#[track_caller]
fn check(disk: &Disk, gate: &Gate, tool: &str, path: &str, expected: &str) {
    let path = disk.filled(path);
    let arguments = match tool {
        "write_file" => json!({"path": path, "content": "x"}),
        "move_file" => json!({"source": path, "destination": "moved"}),
        _ => json!({"path": path}),
    };
    let call = parse(tool, &arguments.to_string()).unwrap();
    let verdicts = gate.explain(&call);
    let refusals = verdicts
        .iter()
        .filter_map(|verdict| verdict.refusal.as_ref());
    let rule = refusals.map(|refusal| refusal.rule).next();
    assert_eq!(rule.unwrap_or("allow"), expected, "{tool} {path}");
    let denied = gate.check(call).map(drop).map_err(|denial| denial.rule);
    assert_eq!(denied.err(), rule, "{tool} {path}");
}

#[test]
fn grants_and_phases_decide() {
    let disk = Disk::new();
    let (early, late) = (disk.gate(Coordination), disk.gate(Final));
    check(&disk, &early, "write_file", "a.txt", "allow");
    check(
        &disk,
        &early,
        "write_file",
        "$ROOT/ws/.git/hooks/x",
        "allow",
    );
    check(
        &disk,
        &early,
        "read_text_file",
        "$ROOT/rw/README.md",
        "allow",
    );
    check(
        &disk,
        &early,
        "write_file",
        "$ROOT/rw/README.md",
        "coordination-phase",
    );
    check(&disk, &late, "write_file", "$ROOT/rw/README.md", "allow");
    check(
        &disk,
        &late,
        "write_file",
        "$ROOT/rw/LICENSE",
        "protected-path",
    );
    check(
        &disk,
        &late,
        "write_file",
        "$ROOT/rw/sub/.git/config",
        "protected-name",
    );
    check(
        &disk,
        &late,
        "read_text_file",
        "$ROOT/rw/.git/HEAD",
        "allow",
    );
    check(
        &disk,
        &late,
        "read_text_file",
        "$ROOT/rw/keys/k",
        "hidden-path",
    );
    check(
        &disk,
        &late,
        "write_file",
        "$ROOT/ro/readme.txt",
        "granted-permission",
    );
    check(
        &disk,
        &late,
        "read_text_file",
        "$ROOT/ro/readme.txt",
        "allow",
    );
    check(
        &disk,
        &late,
        "move_file",
        "$ROOT/ro/readme.txt",
        "granted-permission",
    );
    check(&disk, &late, "move_file", "$ROOT/rw/README.md", "allow");
}

#[test]
fn what_no_grant_reaches_is_closed_however_it_is_written() {
    let disk = Disk::new();
    disk.file("ws/a.txt", "a");
    fs::create_dir(disk.path("ws2")).unwrap();
    let gate = disk.gate(Final);
    for path in [
        "$ROOT/outside/secret.txt",
        "../outside/secret.txt",
        "../outside/missing",
        "../ws2/a",
        "$ROOT",
        "/",
        "/proc/self/root$ROOT/outside/secret.txt",
        "/proc/self/cwd/a.txt",
        "/proc/self/environ",
        "/dev/fd/0",
        "../home/.ssh",
    ] {
        for tool in [
            "read_text_file",
            "write_file",
            "delete_file",
            "list_directory",
        ] {
            check(&disk, &gate, tool, path, "outside-grants");
        }
    }
    check(
        &disk,
        &gate,
        "read_text_file",
        "$ROOT/ws/../ws/./a.txt",
        "allow",
    );
    check(
        &disk,
        &gate,
        "read_text_file",
        "/proc/self/../../$ROOT/ws/a.txt",
        "allow",
    );
}

#[test]
fn links_are_decided_about_where_they_lead() {
    let disk = Disk::new();
    disk.file("ws/d/f", "f");
    for (name, target) in [
        ("in", "d"),
        ("chain", "in"),
        ("absolute", "$ROOT/ws/d/f"),
        ("out", "$ROOT/outside"),
        ("out_by_dots", "../outside"),
        ("out_by_chain", "out"),
        ("nowhere_inside", "d/new"),
        ("nowhere_outside", "../outside/new"),
        ("nowhere_by_chain", "nowhere_outside"),
        ("loop", "pool"),
        ("pool", "loop"),
        ("protected", "../rw/.git/config"),
        ("reader", "../ro/readme.txt"),
        ("magic", "/proc/self/root"),
    ] {
        disk.link(&format!("ws/{name}"), target);
    }
    let gate = disk.gate(Final);
    check(&disk, &gate, "read_text_file", "in/f", "allow");
    check(&disk, &gate, "read_text_file", "chain/f", "allow");
    check(&disk, &gate, "write_file", "absolute", "allow");
    check(&disk, &gate, "write_file", "nowhere_inside", "allow");
    check(&disk, &gate, "read_text_file", "reader", "allow");
    check(&disk, &gate, "write_file", "reader", "granted-permission");
    check(&disk, &gate, "read_text_file", "protected", "allow");
    check(&disk, &gate, "write_file", "protected", "protected-name");
    for path in [
        "out",
        "out/secret.txt",
        "out/new",
        "out_by_dots/victim.txt",
        "out_by_chain/victim.txt",
        "nowhere_outside",
        "nowhere_by_chain",
        "loop",
        "magic/etc/passwd",
    ] {
        check(&disk, &gate, "read_text_file", path, "outside-grants");
        check(&disk, &gate, "write_file", path, "outside-grants");
    }
    check(&disk, &gate, "delete_file", "out", "allow");
    check(&disk, &gate, "delete_file", "out/", "not-followed");
    check(&disk, &gate, "delete_file", "in/", "not-followed");
    check(
        &disk,
        &gate,
        "delete_file",
        "out/victim.txt",
        "outside-grants",
    );
}

#[test]
fn missing_names_are_plain_names() {
    let disk = Disk::new();
    disk.file("ws/f", "f");
    let long = "n".repeat(300);
    let gate = disk.gate(Coordination);
    check(&disk, &gate, "write_file", "new/deep/file", "allow");
    check(&disk, &gate, "write_file", "new/../f", "not-followed");
    check(
        &disk,
        &gate,
        "write_file",
        "new/../../outside/x",
        "not-followed",
    );
    check(&disk, &gate, "write_file", "f/below", "not-followed");
    check(&disk, &gate, "write_file", &long, "not-followed");
    check(
        &disk,
        &gate,
        "write_file",
        "~/../../outside/x",
        "not-followed",
    );
    check(&disk, &gate, "write_file", "%2e%2e/x", "allow");
    check(&disk, &gate, "write_file", "..\\x", "allow");
    assert!(UserPath::parse("a\0b").is_err());
    assert!(UserPath::parse("a/".repeat(2100)).is_err());
    assert!(UserPath::parse("").is_err());
    assert!(UserPath::parse("a b").is_ok());
}

#[test]
fn roots_are_neither_removed_nor_moved() {
    let disk = Disk::new();
    fs::create_dir_all(disk.path("rw/inner/tree")).unwrap();
    let mut grants = disk.grants();
    let inner = disk.real("rw/inner/tree");
    grants.push(Grant::tree(inner, GrantKind::BuiltIn, Permission::Write));
    let manager = PathPermissionManager::new(grants, Final);
    let gate = Gate::open(manager, GatePolicy::single_call(disk.real("ws"))).unwrap();
    for path in [
        ".",
        "$ROOT/ws",
        "$ROOT/rw",
        "$ROOT/rw/inner",
        "$ROOT/rw/inner/tree",
    ] {
        check(&disk, &gate, "delete_file", path, "grant-root");
        check(&disk, &gate, "move_file", path, "grant-root");
    }
    check(&disk, &gate, "delete_file", "$ROOT/rw/src", "allow");
    check(&disk, &gate, "list_directory", "$ROOT/rw/inner", "allow");
}

#[test]
fn nothing_outside_shows_in_a_denial() {
    let disk = Disk::new();
    disk.link("ws/there", "../outside/secret.txt");
    disk.link("ws/gone", "../outside/no-such-file");
    disk.link("ws/below", "../outside/secret.txt/x");
    let gate = disk.gate(Coordination);
    let denial = |path: &str| {
        let path = disk.filled(path);
        let text = refused(&gate, "read_text_file", &json!({"path": path}));
        text.replace(&path, "PATH")
    };
    let expected = format!(
        "denied: read of PATH: it does not lead into your directories\n\
         you may read under: {}, {}, {}",
        disk.path("ws").display(),
        disk.path("ro").display(),
        disk.path("rw").display(),
    );
    for path in [
        "there",
        "gone",
        "below",
        "$ROOT/outside/secret.txt",
        "$ROOT/outside/no-such-file",
        "$ROOT/outside/secret.txt/x",
        "$ROOT/no-such-directory/x",
    ] {
        assert_eq!(denial(path), expected, "{path}");
    }
    let write = refused(
        &gate,
        "write_file",
        &json!({"path": "there", "content": ""}),
    );
    assert!(write.ends_with(&format!("write under: {}", disk.path("ws").display())));
}

#[test]
fn a_guard_takes_no_parents() {
    let disk = Disk::new();
    disk.file("ws/a", "a");
    let policy = GatePolicy {
        parents: ParentNames::Refused,
        ..GatePolicy::single_call(disk.real("ws"))
    };
    let manager = PathPermissionManager::new(disk.grants(), Coordination);
    let guarded = Gate::open(manager, policy).unwrap();
    check(&disk, &guarded, "read_text_file", "../ws/a", "parent-names");
    check(&disk, &guarded, "read_text_file", "a..b", "allow");
    check(&disk, &guarded, "read_text_file", "a", "allow");
    check(
        &disk,
        &disk.gate(Coordination),
        "read_text_file",
        "../ws/a",
        "allow",
    );
}

#[test]
fn a_granted_file_opens_only_itself() {
    let disk = Disk::new();
    let file = disk.real("rw/README.md");
    let grants = vec![
        Grant::tree(disk.real("ws"), GrantKind::Workspace, Permission::Write),
        Grant::file(file, Permission::Write),
    ];
    let policy = || GatePolicy::single_call(disk.real("ws"));
    let open = |phase| {
        let manager = PathPermissionManager::new(grants.clone(), phase);
        Gate::open(manager, policy()).unwrap()
    };
    let (early, late) = (open(Coordination), open(Final));
    check(
        &disk,
        &early,
        "read_text_file",
        "$ROOT/rw/README.md",
        "allow",
    );
    check(
        &disk,
        &early,
        "write_file",
        "$ROOT/rw/README.md",
        "coordination-phase",
    );
    check(
        &disk,
        &late,
        "read_text_file",
        "$ROOT/rw/src/app.py",
        "outside-grants",
    );
    check(
        &disk,
        &late,
        "write_file",
        "$ROOT/rw/README.md2",
        "outside-grants",
    );
    check(&disk, &late, "list_directory", "$ROOT/rw", "outside-grants");
    let path = disk.path("rw/README.md");
    done(
        &late,
        "write_file",
        &json!({"path": path, "content": "new\n"}),
    );
    assert_eq!(disk.text("rw/README.md"), "new\n");
}

#[test]
fn a_grant_is_the_directory_that_was_opened() {
    let disk = Disk::new();
    let gate = disk.gate(Final);
    fs::rename(disk.path("rw"), disk.path("rw_moved")).unwrap();
    disk.link("rw", "$ROOT/outside");
    let before = disk.state("outside");
    check(
        &disk,
        &gate,
        "write_file",
        "$ROOT/rw/victim.txt",
        "outside-grants",
    );
    assert_eq!(disk.state("outside"), before);

    fs::remove_file(disk.path("rw")).unwrap();
    disk.file("rw/README.md", "another directory of that name\n");
    let path = disk.path("rw/README.md");
    done(
        &gate,
        "write_file",
        &json!({"path": path, "content": "ours\n"}),
    );
    assert_eq!(
        disk.text("rw/README.md"),
        "another directory of that name\n"
    );
    assert_eq!(disk.text("rw_moved/README.md"), "ours\n");
}

#[test]
fn a_grant_that_cannot_be_opened_is_an_error_that_names_it() {
    let disk = Disk::new();
    let grants = disk.grants();
    let open = || {
        let manager = PathPermissionManager::new(grants.clone(), Final);
        Gate::open(manager, GatePolicy::single_call(disk.real("ws")))
    };
    assert!(open().is_ok());
    fs::rename(disk.path("ro"), disk.path("ro2")).unwrap();
    let missing = open().unwrap_err().to_string();
    disk.link("ro", "ro2");
    let replaced = open().unwrap_err().to_string();
    for error in [missing, replaced] {
        let root = disk.path("ro");
        assert!(error.contains(&format!("`{}`", root.display())), "{error}");
    }
}

#[test]
fn every_path_of_a_tool_is_declared_in_order() {
    let calls = [
        ("read_text_file", json!({"path": "p1"})),
        ("read_multiple_files", json!({"paths": ["p1", "p2"]})),
        ("write_file", json!({"path": "p1", "content": ""})),
        (
            "edit_file",
            json!({"path": "p1", "edits": [{"oldText": "a", "newText": "b"}]}),
        ),
        ("create_directory", json!({"path": "p1"})),
        ("list_directory", json!({"path": "p1"})),
        ("directory_tree", json!({"path": "p1"})),
        ("move_file", json!({"source": "p1", "destination": "p2"})),
        ("search_files", json!({"path": "p1", "pattern": "*"})),
        ("grep_files", json!({"path": "p1", "pattern": "x"})),
        ("get_file_info", json!({"path": "p1"})),
        (
            "copy_file",
            json!({"source_path": "p1", "destination_path": "p2"}),
        ),
        (
            "copy_files_batch",
            json!({"source_base_path": "p1", "destination_base_path": "p2"}),
        ),
        ("delete_file", json!({"path": "p1"})),
        ("delete_files_batch", json!({"base_path": "p1"})),
        ("compare_files", json!({"file1": "p1", "file2": "p2"})),
        ("compare_directories", json!({"dir1": "p1", "dir2": "p2"})),
        ("list_allowed_directories", json!({})),
    ];
    for (tool, arguments) in calls {
        let call = parse(tool, &arguments.to_string()).unwrap();
        let declared: Vec<String> = call
            .accesses()
            .iter()
            .map(|access| access.path.as_str().to_owned())
            .collect();
        let mut mapped = Vec::new();
        let _places = call.try_map(|path| {
            mapped.push(path.as_str().to_owned());
            Ok::<(), ()>(())
        });
        assert_eq!(mapped, declared, "{tool}");
        assert_eq!(declared.len(), count_paths(&arguments), "{tool}");
    }
}

fn count_paths(arguments: &Value) -> usize {
    let text = arguments.to_string();
    ["\"p1\"", "\"p2\""]
        .iter()
        .filter(|path| text.contains(**path))
        .count()
}

#[test]
fn an_agent_is_told_what_it_may_use() {
    let disk = Disk::new();
    let listed = |phase| done(&disk.gate(phase), "list_allowed_directories", &json!({}));
    let line =
        |permission: &str, path: &str| format!("{permission:5} {} ", disk.path(path).display());
    assert!(listed(Coordination).contains(&line("write", "ws")));
    assert!(listed(Coordination).contains(&line("read", "rw")));
    assert!(listed(Final).contains(&line("write", "rw")));
    assert!(listed(Final).contains(&line("read", "ro")));
}

#[test]
fn no_grants_is_no_access() {
    let disk = Disk::new();
    disk.file("ws/a", "a");
    let open = |grants| {
        let manager = PathPermissionManager::new(grants, Final);
        Gate::open(manager, GatePolicy::single_call(disk.real("ws"))).unwrap()
    };
    let nothing = open(Vec::new());
    check(&disk, &nothing, "read_text_file", "a", "outside-grants");
    check(&disk, &open(disk.grants()), "read_text_file", "a", "allow");
    let denial = act(&nothing, "read_text_file", &json!({"path": "a"})).unwrap_err();
    assert_eq!(denial.roots, Vec::<RealPath>::new());
    assert!(
        denial
            .to_string()
            .ends_with("you may read nothing in this phase")
    );
    assert!(Path::new(&denial.path).is_relative());
}
