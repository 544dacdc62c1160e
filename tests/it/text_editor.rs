//! Tools in the formats of other systems: their calls do what calls of massgen's own tools do.

use massgen::permissions::grant::Phase;
use massgen::tools::call::{EditMode, FileEdit, LineRange, ReadForm, ToolCall, UserPath};
use massgen::tools::parse::parse;
use massgen::tools::served::ToolCatalogue;
use massgen::tools::tool_selection::{
    CommandOffering, DirectoryNaming, EditFormat, ImageOffering, ToolSelection,
};
use serde_json::{Value, json};

use crate::disk::{Disk, call_refused, call_successfully};

const EDITOR: &str = "str_replace_based_edit_tool";
const DIFF_PATCH: &str = "diff_patch_workspace_file";

fn command(command: &str, path: &str, more: &Value) -> Value {
    let mut arguments = json!({"command": command, "path": path});
    let fields = arguments.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    arguments
}

/// Returns the names of the file tools that `model` is offered.
pub(crate) fn offered_to(model: &str, allowed: Option<&[&str]>, excluded: &[&str]) -> Vec<String> {
    let gate = Disk::new().gate(Phase::Final);
    let list =
        |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    let offers = ToolSelection {
        allowed: allowed.map(list).as_deref(),
        excluded: &list(excluded),
        permissions: gate.manager(),
        directories: DirectoryNaming::Unnamed,
        commands: CommandOffering::NotOffered,
        images: ImageOffering::Offered,
        edits: EditFormat::of_model(model),
    }
    .offers();
    let names = offers.into_iter().map(|offer| offer.name.into_owned());
    names.collect()
}

#[test]
fn a_model_that_is_trained_on_the_text_editor_is_offered_that_in_place_of_what_it_does() {
    let parts = [
        "read_text_file",
        "list_directory",
        "write_file",
        "edit_file",
    ];
    let check = |offered: Vec<String>, has_editor: bool| {
        let has = |name: &str| offered.iter().any(|offer| offer == name);
        assert_eq!(has(EDITOR), has_editor, "{offered:?}");
        assert!(!has("apply_patch"), "{offered:?}");
        assert!(!has("diff_patch_workspace_file"), "{offered:?}");
        for part in parts {
            assert!(!(has(part) && has_editor), "{offered:?}");
        }
    };
    check(offered_to("claude-opus-4-8", None, &[]), true);
    check(offered_to("anthropic/claude-sonnet-5-5", None, &[]), true);
    check(offered_to("qwen3", None, &[]), false);
    check(offered_to("claude-opus-4-8", None, &[EDITOR]), false);
    for part in parts {
        check(offered_to("claude-opus-4-8", None, &[part]), false);
    }
    check(offered_to("qwen3", Some(&[EDITOR, "edit_file"]), &[]), true);
    check(
        offered_to("claude-opus-4-8", Some(&["edit_file"]), &[]),
        false,
    );
    let named = [
        "diff_patch_workspace_file",
        "semantic_search_workspace_files",
    ];
    assert_eq!(offered_to("qwen3", Some(&named), &[]), named);
    let image = offered_to("qwen3", Some(&["read_image"]), &[]);
    assert_eq!(image, ["read_media_file"]);
    // The tools do nothing that is excluded.
    check(offered_to("qwen3", Some(&[EDITOR]), &["edit_file"]), false);
    let patch_only = offered_to("qwen3", Some(&named), &["grep_files"]);
    assert_eq!(patch_only, ["diff_patch_workspace_file"]);
    let search_only = offered_to("qwen3", Some(&named), &["edit_file"]);
    assert_eq!(search_only, ["semantic_search_workspace_files"]);
}

#[test]
fn the_text_editor_makes_calls_of_other_tools() {
    let served = ToolCatalogue::default();
    let path = || UserPath::parse("a.py").unwrap();
    let view = |lines| ToolCall::ReadTextFile {
        path: path(),
        lines,
        form: ReadForm::Numbered,
    };
    let edit = |edit| ToolCall::EditFile {
        path: path(),
        edits: vec![edit],
        mode: EditMode::Apply,
    };
    let replacement = |new: &str| FileEdit::Replacement {
        old: "x".to_owned(),
        new: new.to_owned(),
    };
    let insertion = FileEdit::Insertion {
        line: 0,
        text: "y".to_owned(),
    };
    let range = |first, last| LineRange::Range { first, last };
    let write = ToolCall::WriteFile {
        path: path(),
        content: "x".to_owned(),
    };
    for (arguments, call) in [
        (r#""command":"view""#, view(LineRange::All)),
        (
            r#""command":"view","view_range":[2,-1]"#,
            view(range(2, None)),
        ),
        (
            r#""command":"view","view_range":"[2, 3]""#,
            view(range(2, Some(3))),
        ),
        (
            r#""command":"create","file_text":"x","old_str":null"#,
            write,
        ),
        (
            r#""command":"str_replace","old_str":"x","new_str":"y""#,
            edit(replacement("y")),
        ),
        (
            r#""command":"str_replace","old_str":"x""#,
            edit(replacement("")),
        ),
        (
            r#""command":"insert","insert_line":0,"insert_text":"y""#,
            edit(insertion),
        ),
    ] {
        let arguments = format!(r#"{{"path":"a.py",{arguments}}}"#);
        assert_eq!(
            parse(EDITOR, &arguments, &served).unwrap(),
            call,
            "{arguments}"
        );
    }
    for (arguments, expected) in [
        (
            r#""command":"undo_edit""#,
            "view, create, str_replace or insert",
        ),
        (r#""command":"view","view_range":[0,1]"#, "two line numbers"),
        (r#""command":"view","view_range":[3,2]"#, "two line numbers"),
        (r#""command":"create""#, "`file_text`"),
        (
            r#""command":"str_replace","old_str":"""#,
            "the text to replace",
        ),
        (r#""command":"insert","insert_text":"y""#, "`insert_line`"),
    ] {
        let arguments = format!(r#"{{"path":"a.py",{arguments}}}"#);
        let error = parse(EDITOR, &arguments, &served).expect_err(&arguments);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn the_text_editor_views_creates_and_changes_files() {
    let disk = Disk::new();
    disk.file("ws/a.txt", "\u{feff}one\r\ntwo\r\nthree");
    let gate = disk.gate(Phase::Final);
    let edit =
        |name: &str, more: &Value| call_successfully(&gate, EDITOR, &command(name, "a.txt", more));
    assert_eq!(edit("view", &json!({})), "1\tone\r\n2\ttwo\r\n3\tthree");
    assert_eq!(edit("view", &json!({"view_range": [2, 2]})), "2\ttwo\r\n");
    let insert = |line, text: &str| json!({"insert_line": line, "insert_text": text});
    edit("insert", &insert(0, "zero"));
    edit("insert", &insert(4, "four"));
    let diff = edit("insert", &insert(2, "between\n"));
    assert!(diff.contains("+between"), "{diff}");
    edit("str_replace", &json!({"old_str": "two\n", "new_str": ""}));
    let text = "\u{feff}zero\r\none\r\nbetween\r\nthree\r\nfour";
    assert_eq!(disk.text("ws/a.txt"), text);
    let beyond = command("insert", "a.txt", &insert(9, "x"));
    assert!(call_refused(&gate, EDITOR, &beyond).contains("it has only 5 lines"));

    let created = command("create", "new/b.txt", &json!({"file_text": "b\n"}));
    call_successfully(&gate, EDITOR, &created);
    assert_eq!(disk.text("ws/new/b.txt"), "b\n");
    let listed = call_successfully(&gate, EDITOR, &command("view", ".", &json!({})));
    assert!(listed.contains("[DIR] new"), "{listed}");
}

#[test]
fn the_text_editor_reaches_what_the_gate_opens() {
    let disk = Disk::new();
    disk.file("secret/key", "CANARY");
    let gate = disk.gate(Phase::Final);
    let path = |name: &str| disk.path(name).to_str().unwrap().to_owned();
    for outside in ["secret/key", "secret"] {
        let refused = call_refused(&gate, EDITOR, &command("view", &path(outside), &json!({})));
        assert!(!refused.contains("CANARY") && !refused.contains("[FILE] key"));
    }
    let create = |name: &str| command("create", &path(name), &json!({"file_text": "new\n"}));
    call_refused(&gate, EDITOR, &create("ro/new.txt"));
    call_refused(&gate, EDITOR, &create("rw/.env"));
    let view = command("view", &path("ro/readme.txt"), &json!({}));
    assert_eq!(
        call_successfully(&gate, EDITOR, &view),
        "1\tro readme\n2\tsecond line\n"
    );
    call_successfully(&gate, EDITOR, &create("rw/new.txt"));
    assert_eq!(disk.text("rw/new.txt"), "new\n");
}

#[test]
fn a_unified_diff_changes_the_lines_that_it_numbers() {
    let disk = Disk::new();
    disk.file("ws/a.txt", "x\ny\nx\ny\nx\ny");
    let gate = disk.gate(Phase::Final);
    let diff = |hunk: &str| {
        let diff = format!("--- a/a.txt\n+++ b/a.txt\n{hunk}");
        json!({"filepath": "a.txt", "diff": diff})
    };
    let third = diff("@@ -5,2 +5,2 @@ section\n-x\n+z\n y\n\\ No newline at end of file\n");
    call_successfully(&gate, DIFF_PATCH, &third);
    assert_eq!(disk.text("ws/a.txt"), "x\ny\nx\ny\nz\ny");
    let missing = call_refused(&gate, DIFF_PATCH, &diff("@@ -1 +1 @@\n-w\n+v\n"));
    assert!(missing.contains("the lines from `w` on"), "{missing}");
}

#[test]
fn a_ranked_search_shows_the_best_files_first() {
    let disk = Disk::new();
    disk.file("ws/a.rs", "a token\nnothing\n");
    disk.file(
        "ws/b.rs",
        "a token\nit counts each Token of a reply\ncounts\n",
    );
    let gate = disk.gate(Phase::Final);
    let search = |query: &str, limit: u64| {
        let query = json!({"query": query, "limit": limit});
        call_successfully(&gate, "semantic_search_workspace_files", &query)
    };
    let found = search("Counts TOKENS: token", 20);
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(
        lines,
        [
            "b.rs:2:it counts each Token of a reply",
            "b.rs:1:a token",
            "b.rs:3:counts",
            "a.rs:1:a token",
        ]
    );
    assert!(search("counts token", 1).starts_with("b.rs:2:it counts each Token of a reply\n"));
    assert_eq!(search("absent", 20), "nothing matches\n");
}
