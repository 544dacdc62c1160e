//! `apply_patch`: changes of several files in one call.

use massgen::permissions::grant::Phase;
use serde_json::{Value, json};

use crate::disk::{Disk, call_refused, call_successfully};
use crate::text_editor::offered_to;

fn patch(lines: &str) -> Value {
    json!({"input": format!("*** Begin Patch\n{lines}\n*** End Patch")})
}

#[test]
fn a_patch_changes_several_files_or_none() {
    let disk = Disk::new();
    for (name, text) in [("a.py", "def a():\n    return 1\n"), ("old.txt", "old\n")] {
        disk.file(&format!("ws/{name}"), text);
    }
    let gate = disk.gate(Phase::Final);
    let added = "*** Add File: deep/new.txt\n+new";
    let missing = format!("{added}\n*** Update File: a.py\n@@\n-    return 2");
    let refused = call_refused(&gate, "apply_patch", &patch(&missing));
    assert!(
        refused.contains("the lines from `    return 2` on"),
        "{refused}"
    );
    let twice = "*** Update File: a.py\n@@ def a():\n+    pass\n*** Delete File: ./a.py";
    let refused = call_refused(&gate, "apply_patch", &patch(twice));
    assert!(refused.contains("names it twice"), "{refused}");
    let closed = disk.path("rw/.env");
    let protected = format!("{added}\n*** Add File: {}\n+KEY=1", closed.display());
    call_refused(&gate, "apply_patch", &patch(&protected));
    assert!(!disk.path("ws/deep").exists());
    let whole = format!(
        "{added}\n*** Update File: a.py\n*** Move to: b.py\n@@ def a():\n-    return 1\n\
         +    return 2\n*** Delete File: old.txt"
    );
    let done = call_successfully(&gate, "apply_patch", &patch(&whole));
    assert_eq!(
        done,
        "wrote deep/new.txt\nwrote a.py\nmoved a.py to b.py\ndeleted old.txt\n"
    );
    assert_eq!(disk.text("ws/deep/new.txt"), "new\n");
    assert_eq!(disk.text("ws/b.py"), "def a():\n    return 2\n");
    assert!(!disk.path("ws/a.py").exists() && !disk.path("ws/old.txt").exists());
    let again = call_refused(&gate, "apply_patch", &patch(added));
    assert!(again.contains("exists"), "{again}");
}

#[test]
fn a_patch_of_many_large_files_is_refused() {
    let disk = Disk::new();
    let line = format!("{}\n", "x".repeat(7_900_000));
    let sections: Vec<String> = (0..9)
        .map(|number| {
            disk.file(&format!("ws/{number}.txt"), &line);
            format!("*** Update File: {number}.txt\n@@\n+z\n")
        })
        .collect();
    let gate = disk.gate(Phase::Final);
    let all = patch(sections.concat().trim_end());
    let refused = call_refused(&gate, "apply_patch", &all);
    assert!(refused.contains("use several patches"), "{refused}");
    assert_eq!(disk.text("ws/0.txt"), line);
    let half = patch(sections[..5].concat().trim_end());
    call_successfully(&gate, "apply_patch", &half);
    assert_eq!(disk.text("ws/4.txt"), format!("{line}z\n"));
}

#[test]
fn a_model_that_patches_files_is_offered_that_in_place_of_edits() {
    let offers_patch = |model: &str, allowed: Option<&[&str]>, excluded: &[&str]| {
        let offered = offered_to(model, allowed, excluded);
        let has = |name: &str| offered.iter().any(|offer| offer == name);
        assert!(!(has("apply_patch") && has("edit_file")));
        has("apply_patch")
    };
    assert!(offers_patch("gpt-5.6", None, &[]));
    assert!(offers_patch("openai/gpt-oss-20b", None, &[]));
    assert!(!offers_patch("gpt-4o", None, &[]));
    assert!(!offers_patch("claude-opus-4-8", None, &[]));
    // The user decides, and what takes a part of it out takes the whole out.
    assert!(offers_patch("qwen3", Some(&["apply_patch"]), &[]));
    assert!(!offers_patch(
        "gpt-5.6",
        Some(&["edit_file", "write_file"]),
        &[]
    ));
    for tool in [
        "apply_patch",
        "write_file",
        "edit_file",
        "move_file",
        "delete_file",
    ] {
        assert!(!offers_patch("gpt-5.6", None, &[tool]), "{tool}");
    }
}
