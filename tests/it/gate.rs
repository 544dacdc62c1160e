//! Decisions of the gate: each denial is next to a control that differs in one thing.

use std::fs;

use massgen::permissions::PathPermissionManager;
use massgen::permissions::grant::{Grant, GrantKind, Permission, Phase};
use massgen::tools::call::UserPath;
use massgen::tools::parse::parse;
use massgen::tools::served::ToolCatalogue;
use massgen::world::access::gate::Gate;
use massgen::world::access::policy::{GatePolicy, ParentDirPolicy};
use massgen::world::access::verdict::DeniedSubject;
use serde_json::{Value, json};

use crate::disk::{Disk, call_refused, call_successfully, call_tool, permit};

use Phase::{Coordination, Final};

/// A gate on a disk. In paths, `$` is replaced by the disk.
struct DiskGate<'a>(&'a Disk, Gate);

impl DiskGate<'_> {
    /// Checks the decision; `expected` is `allow`, or the name of the rule that denies.
    #[track_caller]
    fn check(&self, verb: &str, path: &str, expected: &str) {
        let Self(disk, gate) = self;
        let path = disk.expand_placeholders(&path.replace('$', "$ROOT"));
        let (tool, arguments) = match verb {
            "read" => ("read_text_file", json!({"path": path})),
            "write" => ("write_file", json!({"path": path, "content": "x"})),
            "list" => ("list_directory", json!({"path": path})),
            "delete" => ("delete_file", json!({"path": path})),
            _ => ("move_file", json!({"source": path, "destination": "moved"})),
        };
        let call = parse(tool, &arguments.to_string(), &ToolCatalogue::default()).unwrap();
        let verdicts = gate.explain(&call);
        let mut refusals = verdicts
            .iter()
            .filter_map(|verdict| verdict.refusal.as_ref());
        let rule = refusals.next().map(|refusal| refusal.rule);
        assert_eq!(rule.unwrap_or("allow"), expected, "{tool} {path}");
        let denied = permit(gate, call).map(drop).map_err(|denial| denial.rule);
        assert_eq!(denied.err(), rule, "{tool} {path}");
    }
}

#[test]
fn grants_and_phases_decide() {
    let disk = Disk::new();
    let early = DiskGate(&disk, disk.gate(Coordination));
    let late = DiskGate(&disk, disk.gate(Final));
    early.check("write", "a.txt", "allow");
    early.check("write", "$/ws/.git/hooks/x", "allow");
    early.check("read", "$/rw/README.md", "allow");
    early.check("write", "$/rw/README.md", "coordination-phase");
    late.check("write", "$/rw/README.md", "allow");
    late.check("write", "$/rw/LICENSE", "protected-path");
    late.check("write", "$/rw/sub/.git/config", "protected-name");
    late.check("read", "$/rw/.git/HEAD", "allow");
    late.check("read", "$/rw/keys/k", "hidden-path");
    late.check("write", "$/ro/readme.txt", "granted-permission");
    late.check("read", "$/ro/readme.txt", "allow");
    late.check("move", "$/ro/readme.txt", "granted-permission");
    late.check("move", "$/rw/README.md", "allow");
}

#[test]
fn paths_outside_all_grants_are_closed_in_every_spelling() {
    let disk = Disk::new();
    disk.file("ws/a.txt", "a");
    fs::create_dir(disk.path("ws2")).unwrap();
    let gate = DiskGate(&disk, disk.gate(Final));
    for path in [
        "$/outside/secret.txt",
        "../outside/secret.txt",
        "../outside/missing",
        "../ws2/a",
        "$",
        "/",
        "/proc/self/root$/outside/secret.txt",
        "/proc/self/cwd/a.txt",
        "/proc/self/environ",
        "/dev/fd/0",
        "../home/.ssh",
    ] {
        for verb in ["read", "write", "delete", "list"] {
            gate.check(verb, path, "outside-grants");
        }
    }
    gate.check("read", "$/ws/../ws/./a.txt", "allow");
    gate.check("read", "/proc/self/../../$/ws/a.txt", "allow");
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
    let gate = DiskGate(&disk, disk.gate(Final));
    gate.check("read", "in/f", "allow");
    gate.check("read", "chain/f", "allow");
    gate.check("write", "absolute", "allow");
    gate.check("write", "nowhere_inside", "allow");
    gate.check("read", "reader", "allow");
    gate.check("write", "reader", "granted-permission");
    gate.check("read", "protected", "allow");
    gate.check("write", "protected", "protected-name");
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
        gate.check("read", path, "outside-grants");
        gate.check("write", path, "outside-grants");
    }
    gate.check("delete", "out", "allow");
    gate.check("delete", "out/", "not-followed");
    gate.check("delete", "in/", "not-followed");
    gate.check("delete", "out/victim.txt", "outside-grants");
}

#[test]
fn missing_names_are_plain_names() {
    let disk = Disk::new();
    disk.file("ws/f", "f");
    let long = "n".repeat(300);
    let gate = DiskGate(&disk, disk.gate(Coordination));
    gate.check("write", "new/deep/file", "allow");
    gate.check("write", "new/../f", "not-followed");
    gate.check("write", "new/../../outside/x", "not-followed");
    gate.check("write", "f/below", "not-followed");
    gate.check("write", &long, "not-followed");
    gate.check("write", "~/../../outside/x", "not-followed");
    gate.check("write", "%2e%2e/x", "allow");
    gate.check("write", "..\\x", "allow");
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
    let policy = GatePolicy::minimal(disk.real("ws"));
    let gate = DiskGate(&disk, Gate::open(manager, policy).unwrap());
    for path in [".", "$/ws", "$/rw", "$/rw/inner", "$/rw/inner/tree"] {
        gate.check("delete", path, "grant-root");
        gate.check("move", path, "grant-root");
    }
    gate.check("delete", "$/rw/src", "allow");
    gate.check("list", "$/rw/inner", "allow");
}

#[test]
fn denials_do_not_reveal_what_is_outside_the_grants() {
    let disk = Disk::new();
    disk.link("ws/there", "../outside/secret.txt");
    disk.link("ws/gone", "../outside/no-such-file");
    disk.link("ws/below", "../outside/secret.txt/x");
    let gate = disk.gate(Coordination);
    let denial = |path: &str| {
        let path = disk.expand_placeholders(path);
        let text = call_refused(&gate, "read_text_file", &json!({"path": path}));
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
    let write = call_refused(
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
        parent_dirs: ParentDirPolicy::Refused,
        ..GatePolicy::minimal(disk.real("ws"))
    };
    let manager = PathPermissionManager::new(disk.grants(), Coordination);
    let guarded = DiskGate(&disk, Gate::open(manager, policy).unwrap());
    guarded.check("read", "../ws/a", "parent-names");
    guarded.check("read", "a..b", "allow");
    guarded.check("read", "a", "allow");
    let free = DiskGate(&disk, disk.gate(Coordination));
    free.check("read", "../ws/a", "allow");
}

#[test]
fn a_granted_file_opens_only_itself() {
    let disk = Disk::new();
    let file = disk.real("rw/README.md");
    let grants = vec![
        Grant::tree(disk.real("ws"), GrantKind::Workspace, Permission::Write),
        Grant::file(file, Permission::Write),
    ];
    let policy = || GatePolicy::minimal(disk.real("ws"));
    let open = |phase| {
        let manager = PathPermissionManager::new(grants.clone(), phase);
        DiskGate(&disk, Gate::open(manager, policy()).unwrap())
    };
    let (early, late) = (open(Coordination), open(Final));
    early.check("read", "$/rw/README.md", "allow");
    early.check("write", "$/rw/README.md", "coordination-phase");
    late.check("read", "$/rw/src/app.py", "outside-grants");
    late.check("write", "$/rw/README.md2", "outside-grants");
    late.check("list", "$/rw", "outside-grants");
    let path = disk.path("rw/README.md");
    call_successfully(
        &late.1,
        "write_file",
        &json!({"path": path, "content": "new\n"}),
    );
    assert_eq!(disk.text("rw/README.md"), "new\n");
}

#[test]
fn a_grant_is_the_directory_that_was_opened() {
    let disk = Disk::new();
    let gate = DiskGate(&disk, disk.gate(Final));
    fs::rename(disk.path("rw"), disk.path("rw_moved")).unwrap();
    disk.link("rw", "$ROOT/outside");
    let before = disk.state("outside");
    gate.check("write", "$/rw/victim.txt", "outside-grants");
    assert_eq!(disk.state("outside"), before);

    fs::remove_file(disk.path("rw")).unwrap();
    disk.file("rw/README.md", "another directory of that name\n");
    let path = disk.path("rw/README.md");
    call_successfully(
        &gate.1,
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
        Gate::open(manager, GatePolicy::minimal(disk.real("ws")))
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
        (
            "apply_patch",
            json!({"input": "*** Begin Patch\n*** Add File: p1\n*** Update File: p2\n\
                             *** Move to: p3\n*** Delete File: p4\n*** End Patch"}),
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
        let call = parse(tool, &arguments.to_string(), &ToolCatalogue::default()).unwrap();
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
    ["p1", "p2", "p3", "p4"]
        .iter()
        .filter(|path| text.contains(**path))
        .count()
}

#[test]
fn the_prompt_lists_what_an_agent_may_use() {
    let disk = Disk::new();
    let listed =
        |phase| call_successfully(&disk.gate(phase), "list_allowed_directories", &json!({}));
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
        let policy = GatePolicy::minimal(disk.real("ws"));
        DiskGate(&disk, Gate::open(manager, policy).unwrap())
    };
    let nothing = open(Vec::new());
    nothing.check("read", "a", "outside-grants");
    open(disk.grants()).check("read", "a", "allow");
    let denial = call_tool(&nothing.1, "read_text_file", &json!({"path": "a"})).unwrap_err();
    assert!(
        denial
            .to_string()
            .ends_with("you may read nothing in this phase")
    );
    let expected = DeniedSubject::Access {
        path: "a".to_owned(),
        requested: Permission::Read,
        roots: Vec::new(),
    };
    assert_eq!(denial.subject, expected);
}
