//! Property tests with random trees and paths: what the gate decides is what happens on disk. The
//! oracle is the kernel's own resolution of the same path, through the standard library.

use std::path::{Path, PathBuf};

use massgen::permissions::grant::Phase;
use massgen::world::exec::tool_result::ActionOutcome;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use crate::disk::{Disk, call_tool};

/// Names that a file system or a check may mishandle.
const NAMES: &[&str] = &["a", "b", "ä", "\u{2025}", ".git", "A", "a b", "…\u{200c}"];

/// Symlink targets: inside, outside, parent directories, missing paths and cycles.
const TARGETS: &[&str] = &[
    "a",
    "b",
    "..",
    "../..",
    "../outside",
    "../ro",
    "../rw/.git",
    "missing",
    "$ROOT/outside/x",
    "$ROOT/ws/b",
    "./a/../b",
    "/proc/self/cwd",
    "a/b",
];

/// One entry of a random tree, below `ws` or `rw`.
#[derive(Clone, Debug)]
enum TreeEntry {
    File(PathBuf),
    Directory(PathBuf),
    Link(PathBuf, &'static str),
}

fn path() -> impl Strategy<Value = PathBuf> + Clone {
    let name = prop::sample::select(NAMES);
    vec(name, 1..4).prop_map(|names| names.iter().collect())
}

fn tree_entry() -> impl Strategy<Value = TreeEntry> {
    let root = prop::sample::select(&["ws", "rw"][..]);
    let entry_path = (root, path()).prop_map(|(root, path)| Path::new(root).join(path));
    prop_oneof![
        entry_path.clone().prop_map(TreeEntry::File),
        entry_path.clone().prop_map(TreeEntry::Directory),
        (entry_path, prop::sample::select(TARGETS))
            .prop_map(|(entry_path, to)| TreeEntry::Link(entry_path, to)),
    ]
}

/// Generates a path as a model might write it.
fn path_text() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        4 => prop::sample::select(NAMES),
        1 => Just(".."),
        1 => Just("."),
        1 => prop::sample::select(&["outside", "ws", "rw", "ro", "secret.txt", "x", ""][..]),
    ];
    let start =
        prop::sample::select(&["", "", "$ROOT/", "$ROOT/rw/", "../", "/proc/self/root"][..]);
    (start, vec(step, 1..6))
        .prop_map(|(start, steps)| format!("{start}{}", steps.join("/")))
        .prop_filter("an empty path is no path", |path| !path.is_empty())
}

/// Creates the entries of the tree; skips one whose path is already used.
fn build_tree(disk: &Disk, entries: &[TreeEntry]) {
    for entry in entries {
        let (TreeEntry::File(path) | TreeEntry::Directory(path) | TreeEntry::Link(path, _)) = entry;
        let parent = disk.path(path.parent().unwrap());
        let is_plain = std::fs::create_dir_all(&parent).is_ok()
            && parent.canonicalize().is_ok_and(|real| real == parent);
        if !is_plain || disk.has(path.to_str().unwrap()) {
            continue;
        }
        match entry {
            TreeEntry::File(path) => disk.file(path.to_str().unwrap(), "inside\n"),
            TreeEntry::Directory(path) => std::fs::create_dir(disk.path(path)).unwrap(),
            TreeEntry::Link(path, target) => disk.link(path.to_str().unwrap(), target),
        }
    }
}

/// Returns where the kernel resolves the path to, if it exists.
fn kernel_resolved(disk: &Disk, path: &str) -> Option<PathBuf> {
    disk.path("ws")
        .join(disk.expand_placeholders(path))
        .canonicalize()
        .ok()
}

/// Returns the path without trailing `/` and `/.`, which a new file cannot have.
fn without_end(mut path: &str) -> &str {
    while let Some(shorter) = path.strip_suffix('/').or_else(|| path.strip_suffix("/.")) {
        path = shorter;
    }
    path
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn decisions_hold_on_the_disk(
        entries in vec(tree_entry(), 0..12),
        paths in vec(path_text(), 1..8),
    ) {
        let disk = Disk::new();
        build_tree(&disk, &entries);
        let gate = disk.gate(Phase::Final);
        let closed = ["outside", "ro", "home", "rw/.git"].map(|path| disk.state(path));
        for path in paths {
            let real = kernel_resolved(&disk, &path);
            let is_open = |root: &str| {
                real.as_ref().is_some_and(|real| real.starts_with(disk.path(root)))
            };
            let read = call_tool(&gate, "read_text_file", &json!({"path": disk.expand_placeholders(&path)}));
            if let Ok(observation) = &read {
                prop_assert!(!observation.content.contains("CANARY-OUTSIDE"), "{}", path);
                if observation.outcome == ActionOutcome::Done {
                    prop_assert!(is_open("ws") || is_open("ro") || is_open("rw"), "{}", path);
                }
            } else {
                let reads = is_open("ws") || is_open("ro") || is_open("rw");
                let by_proc = path.starts_with("/proc") || real.is_none();
                prop_assert!(!reads || by_proc || leads_through_proc(&disk), "{}", path);
            }
            let content = json!({"path": disk.expand_placeholders(&path), "content": "new\n"});
            let wrote = call_tool(&gate, "write_file", &content);
            if wrote.is_ok_and(|observation| observation.outcome == ActionOutcome::Done) {
                let now = kernel_resolved(&disk, without_end(&path)).unwrap();
                prop_assert_eq!(std::fs::read_to_string(&now).unwrap(), "new\n");
                let below = |root: &str| now.starts_with(disk.path(root));
                prop_assert!(below("ws") || below("rw"), "{}", path);
            }
        }
        let after = ["outside", "ro", "home", "rw/.git"].map(|path| disk.state(path));
        prop_assert_eq!(closed, after);
    }
}

/// Returns whether a symlink of the tree points into `/proc`, which the kernel follows and the gate
/// does not.
fn leads_through_proc(disk: &Disk) -> bool {
    let links = ["ws", "rw"].map(|root| disk.state(root));
    links
        .iter()
        .flat_map(|state| state.values())
        .any(|line| line.ends_with("/proc/self/cwd"))
}
