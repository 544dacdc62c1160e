//! The file tools on real files, and their answers.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant, SystemTime};

use massgen::permissions::grant::Phase;
use massgen::world::access::gate::Gate;
use massgen::world::exec::tool_result::ActionOutcome;
use massgen::world::io::file_change::ChangeKind;
use rustix::fs::{CWD, FileType, Mode, OFlags, ftruncate, mknodat, openat};
use serde_json::{Value, json};

use crate::disk::{Disk, call_refused, call_successfully, call_tool};
use crate::waiting::wait_for_file_clock;

use Phase::{Coordination, Final};

/// A time before every file of a test.
const LONG_AGO: i128 = 0;

fn file_details(answer: &str) -> Value {
    serde_json::from_str::<Value>(answer).unwrap()["details"].clone()
}

/// Returns the kinds of the changes that a call reports, with the last name of each path.
fn reported_changes(gate: &Gate, tool: &str, arguments: &Value) -> Vec<(ChangeKind, String)> {
    let observation = call_tool(gate, tool, arguments).unwrap();
    assert_eq!(
        observation.outcome,
        ActionOutcome::Done,
        "{}",
        observation.content
    );
    let changes = observation.changes.into_iter();
    changes
        .map(|change| {
            let name = change.path.name().unwrap().to_str().unwrap().to_owned();
            (change.kind, name)
        })
        .collect()
}

#[test]
fn text_is_read_whole_or_by_lines() {
    let disk = Disk::new();
    disk.file("ws/a.txt", "one\ntwo\nthree\nfour");
    disk.file("ws/marked.txt", "\u{feff}text\n");
    let gate = disk.gate(Coordination);
    let check = |extra: Value, expected: &str| {
        let mut arguments = json!({"path": "a.txt"});
        let fields = arguments.as_object_mut().unwrap();
        fields.extend(extra.as_object().unwrap().clone());
        assert_eq!(
            call_successfully(&gate, "read_text_file", &arguments),
            expected
        );
    };
    check(json!({}), "one\ntwo\nthree\nfour");
    check(json!({"head": 2}), "one\ntwo\n");
    check(json!({"tail": 2}), "three\nfour");
    check(json!({"tail": 9}), "one\ntwo\nthree\nfour");
    check(json!({"start_line": 2, "end_line": 3}), "two\nthree\n");
    check(json!({"start_line": 4}), "four");
    check(json!({"start_line": 2, "end_line": 99}), "two\nthree\nfour");
    let beyond = json!({"path": "a.txt", "start_line": 9});
    assert!(call_refused(&gate, "read_text_file", &beyond).contains("it has only 4 lines"));
    let marked = json!({"path": "marked.txt"});
    assert_eq!(
        call_successfully(&gate, "read_text_file", &marked),
        "text\n"
    );
}

#[test]
fn long_text_is_truncated_with_a_hint_how_to_continue() {
    let disk = Disk::new();
    let line = "x".repeat(99) + "\n";
    disk.file("ws/long.txt", line.repeat(10_000));
    disk.file("ws/one_line.txt", "y".repeat(600_000));
    let gate = disk.gate(Coordination);
    let first = call_successfully(&gate, "read_text_file", &json!({"path": "long.txt"}));
    assert!(first.len() < 300_000);
    let (_, next) = first.rsplit_once("continue with line ").unwrap();
    let next: usize = next.trim_end_matches("]\n").parse().unwrap();
    let second = call_successfully(
        &gate,
        "read_text_file",
        &json!({"path": "long.txt", "start_line": next, "end_line": next}),
    );
    assert_eq!(second, line);
    assert_eq!(first.lines().count(), next);
    let one_line = call_successfully(&gate, "read_text_file", &json!({"path": "one_line.txt"}));
    assert!(one_line.ends_with("[massgen: cut: line 1 is longer than 262144 bytes]\n"));
    let tail = call_successfully(
        &gate,
        "read_text_file",
        &json!({"path": "long.txt", "tail": 2}),
    );
    assert_eq!(tail, line.repeat(2));
    // The part of one line that is shown begins with a whole character.
    for end in ["\n", "."] {
        disk.file("ws/umlauts.txt", "ü".repeat(200_001) + end);
        let tail = json!({"path": "umlauts.txt", "tail": 1});
        let cut = "[massgen: cut: only the last 262144 bytes are shown]\n".to_owned();
        assert_eq!(
            call_successfully(&gate, "read_text_file", &tail),
            cut + &"ü".repeat(131_071) + end
        );
    }
}

#[test]
fn binary_files_are_no_text() {
    let disk = Disk::new();
    disk.file("ws/a.PNG", "looks like text");
    disk.file("ws/nul", b"a\0b");
    disk.file("ws/latin", b"caf\xe9\n");
    disk.file("ws/picture.svg", "<svg/>");
    disk.file("ws/cafe", "café\n");
    let gate = disk.gate(Coordination);
    for name in ["a.PNG", "nul"] {
        let text = call_refused(&gate, "read_text_file", &json!({"path": name}));
        assert!(
            text.contains("not text") && text.contains("get_file_info"),
            "{text}"
        );
    }
    // Another encoding is shown, and changed only by commands.
    let other = "[massgen: it is not UTF-8; bytes that are not are shown as \\xNN]\n";
    disk.file("ws/utf16", b"\xff\xfec\0a\0f\0\xe9\0\n\0");
    for (name, text) in [("latin", "caf\\xe9\n"), ("utf16", "café\n")] {
        let shown = call_successfully(&gate, "read_text_file", &json!({"path": name}));
        assert_eq!(shown, format!("{text}\n{other}"));
        let edit = json!({"path": name, "edits": [{"oldText": "c", "newText": "k"}]});
        call_refused(&gate, "edit_file", &edit);
    }
    let edit = json!({"path": "latin", "edits": [{"oldText": "c", "newText": "k"}]});
    assert!(call_refused(&gate, "edit_file", &edit).contains("`sed -i`"));
    disk.file("ws/random", b"\x81\x82\x83\x84a\xff\xfe\xfd");
    call_refused(&gate, "read_text_file", &json!({"path": "random"}));
    for name in ["picture.svg", "cafe"] {
        call_successfully(&gate, "read_text_file", &json!({"path": name}));
    }
    let several = json!({"paths": ["cafe", "nul", "missing", "picture.svg"]});
    let text = call_successfully(&gate, "read_multiple_files", &several);
    assert!(
        text.starts_with(
            "[massgen: file cafe]\ncafé\n[massgen: file nul]\nerror: it is a binary file"
        ),
        "{text}"
    );
    assert!(
        text.contains("[massgen: file missing]\nerror: there is no such file"),
        "{text}"
    );
    assert!(
        text.ends_with("[massgen: file picture.svg]\n<svg/>\n"),
        "{text}"
    );
}

#[test]
fn a_name_is_found_in_another_spelling_if_there_is_only_one() {
    let disk = Disk::new();
    let (decomposed, composed) = ("Mu\u{308}ller", "M\u{fc}ller");
    disk.file(&format!("ws/{decomposed}/1.01\u{202f}AM.txt"), "text\n");
    let gate = disk.gate(Coordination);
    let listed = call_successfully(&gate, "list_directory", &json!({"path": decomposed}));
    assert_eq!(listed, "[FILE] 1.01\\u{202f}AM.txt\n");
    let read = |path: String| json!({"path": path});
    for spelling in ["1.01 AM.txt", "1.01\\u{202f}AM.txt", "1.01\u{202f}AM.txt"] {
        for directory in [composed, decomposed, "Mu\\u{308}ller"] {
            let path = read(format!("{directory}/{spelling}"));
            let text = call_successfully(&gate, "read_text_file", &path);
            assert_eq!(text, "text\n");
        }
    }
    let edits = json!([{"oldText": "text", "newText": "new"}]);
    let edit = json!({"path": format!("{composed}/1.01 AM.txt"), "edits": edits});
    call_successfully(&gate, "edit_file", &edit);
    let file = format!("ws/{decomposed}/1.01\u{202f}AM.txt");
    assert_eq!(disk.text(&file), "new\n");
    // Of two, neither is meant.
    disk.file(&format!("ws/{decomposed}/1.01\u{a0}AM.txt"), "other\n");
    let either = read(format!("{composed}/1.01 AM.txt"));
    call_refused(&gate, "read_text_file", &either);
}

#[test]
fn pipes_sockets_and_devices_are_never_opened() {
    let disk = Disk::new();
    mknodat(CWD, disk.path("ws/pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = UnixListener::bind(disk.path("ws/socket")).unwrap();
    disk.link("ws/zero", "/dev/zero");
    disk.file("ws/file", "text");
    let gate = disk.gate(Coordination);
    let began = Instant::now();
    for (name, kind) in [("pipe", "named pipe"), ("socket", "socket")] {
        for tool in ["read_text_file", "grep_files", "write_file", "edit_file"] {
            let arguments = match tool {
                "grep_files" => json!({"path": name, "pattern": "x"}),
                "write_file" => json!({"path": name, "content": "x"}),
                "edit_file" => json!({"path": name, "edits": [{"oldText": "a", "newText": "b"}]}),
                _ => json!({"path": name}),
            };
            if tool == "grep_files" {
                assert_eq!(
                    call_successfully(&gate, tool, &arguments),
                    "nothing matches\n"
                );
            } else {
                assert!(
                    call_refused(&gate, tool, &arguments).contains(kind),
                    "{tool} {name}"
                );
            }
        }
        let copy = json!({"source_path": name, "destination_path": "copy"});
        assert!(call_refused(&gate, "copy_file", &copy).contains(kind));
    }
    call_refused(&gate, "read_text_file", &json!({"path": "zero"}));
    let whole = json!({"source_path": ".", "destination_path": disk.path("ws")});
    call_refused(&gate, "copy_file", &whole);
    assert!(began.elapsed() < Duration::from_mins(1));
    assert_eq!(
        call_successfully(&gate, "read_text_file", &json!({"path": "file"})),
        "text"
    );
}

#[test]
fn writing_replaces_the_file_and_keeps_its_mode() {
    let disk = Disk::new();
    disk.file("ws/run.sh", "old");
    fs::set_permissions(disk.path("ws/run.sh"), fs::Permissions::from_mode(0o751)).unwrap();
    let gate = disk.gate(Coordination);
    let mode = |path: &str| fs::metadata(disk.path(path)).unwrap().mode() & 0o7777;
    let old = json!({"path": "run.sh", "content": "new"});
    assert_eq!(
        reported_changes(&gate, "write_file", &old),
        [(ChangeKind::Changed, "run.sh".to_owned())]
    );
    assert_eq!(
        (disk.text("ws/run.sh").as_str(), mode("ws/run.sh")),
        ("new", 0o751)
    );
    let new = json!({"path": "a/b/c.txt", "content": ""});
    assert_eq!(
        reported_changes(&gate, "write_file", &new),
        [(ChangeKind::Created, "c.txt".to_owned())]
    );
    assert_eq!(mode("ws/a/b/c.txt") & 0o111, 0);
    assert!(
        call_refused(&gate, "write_file", &json!({"path": "a/b", "content": ""}))
            .contains("directory")
    );
    let left: Vec<_> = fs::read_dir(disk.path("ws")).unwrap().collect();
    assert_eq!(left.len(), 2, "a temporary file was left behind");
}

#[test]
fn a_file_with_several_names_is_not_written() {
    let disk = Disk::new();
    fs::hard_link(disk.path("ro/readme.txt"), disk.path("ws/readme")).unwrap();
    disk.file("ws/single", "ro readme\n");
    let gate = disk.gate(Coordination);
    let before = disk.state("ro");
    let edit =
        |path: &str| json!({"path": path, "edits": [{"oldText": "ro readme", "newText": "pwned"}]});
    let write = |path: &str| json!({"path": path, "content": "pwned"});
    assert!(call_refused(&gate, "write_file", &write("readme")).contains("hard links"));
    assert!(call_refused(&gate, "edit_file", &edit("readme")).contains("hard links"));
    call_successfully(&gate, "edit_file", &edit("single"));
    call_successfully(&gate, "write_file", &write("single"));
    call_successfully(&gate, "delete_file", &json!({"path": "readme"}));
    assert_eq!(disk.state("ro"), before);
}

/// A rename needs only the directory's permissions, but massgen honours those of the file.
#[test]
fn a_users_file_that_is_marked_read_only_stays() {
    let disk = Disk::new();
    let read_only = fs::Permissions::from_mode(0o444);
    for path in ["rw/README.md", "ws/mine"] {
        if path == "ws/mine" {
            disk.file(path, "mine");
        }
        fs::set_permissions(disk.path(path), read_only.clone()).unwrap();
    }
    let gate = disk.gate(Final);
    let file = |path: &str| disk.path(path).display().to_string();
    let write = |path: &str| json!({"path": file(path), "content": "new"});
    assert!(call_refused(&gate, "write_file", &write("rw/README.md")).contains("read-only"));
    let delete = json!({"path": file("rw/README.md")});
    assert!(call_refused(&gate, "delete_file", &delete).contains("read-only"));
    assert_eq!(
        fs::read_to_string(disk.path("rw/README.md")).unwrap(),
        "rw readme\n"
    );
    call_successfully(&gate, "write_file", &write("ws/mine"));
    call_successfully(&gate, "write_file", &write("rw/src/app.py"));
}

#[test]
fn edits_match_exactly_once() {
    let disk = Disk::new();
    disk.file("ws/a.txt", "\u{feff}one\r\ntwo\r\ntwo\r\n");
    let gate = disk.gate(Coordination);
    let edit = |old: &str, new: &str| json!({"path": "a.txt", "edits": [{"oldText": old, "newText": new}]});
    assert!(call_refused(&gate, "edit_file", &edit("two", "2")).contains("more than once"));
    assert!(call_refused(&gate, "edit_file", &edit("three", "3")).contains("does not occur"));
    disk.file("ws/quotes.txt", "first\nit’s  here \u{2013} now\nlast\n");
    let edits = json!([{"oldText": "first\nit's here - now", "newText": "x"}]);
    let quotes = json!({"path": "quotes.txt", "edits": edits});
    let refused = call_refused(&gate, "edit_file", &quotes);
    assert!(
        refused.contains("the nearest is line 2, `it’s  here \u{2013} now`"),
        "{refused}"
    );
    let mut dry = edit("one\ntwo", "eins\nzwei");
    dry["dryRun"] = json!(true);
    let shown = call_successfully(&gate, "edit_file", &dry);
    assert!(shown.starts_with("a.txt would change:\n@@"), "{shown}");
    assert_eq!(disk.text("ws/a.txt"), "\u{feff}one\r\ntwo\r\ntwo\r\n");
    let shown = call_successfully(&gate, "edit_file", &edit("one\ntwo", "eins\nzwei"));
    assert!(shown.contains("+zwei") && shown.contains("-one"), "{shown}");
    assert_eq!(disk.text("ws/a.txt"), "\u{feff}eins\r\nzwei\r\ntwo\r\n");
    let two = json!({"path": "a.txt", "edits": [
        {"oldText": "eins", "newText": "1"},
        {"oldText": "1\nzwei", "newText": "1\n2"},
    ]});
    call_successfully(&gate, "edit_file", &two);
    assert_eq!(disk.text("ws/a.txt"), "\u{feff}1\r\n2\r\ntwo\r\n");
    disk.file("ws/mixed.txt", "a\r\nb\r\nc\nd\n");
    let mixed = |old: &str, new: &str| json!({"path": "mixed.txt", "edits": [{"oldText": old, "newText": new}]});
    call_successfully(&gate, "edit_file", &mixed("a\nb", "1\n2"));
    call_successfully(&gate, "edit_file", &mixed("2\nc", "2\n3"));
    assert_eq!(disk.text("ws/mixed.txt"), "1\r\n2\r\n3\nd\n");
    let overlapping = json!({"path": "b.txt", "content": "aaa"});
    call_successfully(&gate, "write_file", &overlapping);
    let edits = json!({"path": "b.txt", "edits": [{"oldText": "aa", "newText": "b"}]});
    assert!(call_refused(&gate, "edit_file", &edits).contains("more than once"));
}

#[test]
fn listings_hide_what_is_hidden_and_spell_out_odd_names() {
    let disk = Disk::new();
    disk.file("rw/.massgen/cfg", "state CANARY");
    disk.file("rw/keys/k", "CANARY");
    disk.file("rw/src/two\nlines", "");
    fs::write(disk.path("rw/src").join(OsStr::from_bytes(b"bad\xff")), "").unwrap();
    disk.link("rw/src/link", "app.py");
    let gate = disk.gate(Coordination);
    let path = disk.path("rw");
    let listed = call_successfully(&gate, "list_directory", &json!({"path": path}));
    assert_eq!(
        listed,
        "[FILE] .env\n[DIR] .git\n[FILE] README.md\n[DIR] src\n"
    );
    let src = call_successfully(
        &gate,
        "list_directory",
        &json!({"path": disk.path("rw/src")}),
    );
    assert_eq!(
        src,
        "[FILE] app.py\n[FILE] bad\\xff\n[LINK] link\n[FILE] two\\nlines\n"
    );
    let tree = call_successfully(
        &gate,
        "directory_tree",
        &json!({"path": path, "excludePatterns": [".git"]}),
    );
    let tree: Value = serde_json::from_str(&tree).unwrap();
    assert_eq!(
        tree[2],
        json!({"name": "src", "type": "dir", "children": [
            {"name": "app.py", "type": "file"},
            {"name": "bad\\xff", "type": "file"},
            {"name": "link", "type": "link"},
            {"name": "two\\nlines", "type": "file"},
        ]})
    );
    for pattern in ["*", "**/k", "k", "cfg"] {
        let found = call_successfully(
            &gate,
            "search_files",
            &json!({"path": path, "pattern": pattern}),
        );
        assert!(
            !found.contains("keys") && !found.contains(".massgen"),
            "{found}"
        );
    }
    let grep = call_successfully(
        &gate,
        "grep_files",
        &json!({"path": path, "pattern": "CANARY"}),
    );
    assert_eq!(
        grep,
        format!("{}:1:KEY=CANARY-DOTENV\n", disk.path("rw/.env").display())
    );
}

#[test]
fn searches_find_names_and_lines() {
    let disk = Disk::new();
    disk.file("ws/src/main.rs", "fn main() {\n    run();\n}\n");
    disk.file("ws/src/deep/run.rs", "pub fn run() {}\n");
    disk.file("ws/data.bin2", b"run\0run\n");
    disk.link("ws/out", "../outside");
    let gate = disk.gate(Coordination);
    let search =
        |pattern: &str| call_successfully(&gate, "search_files", &json!({"pattern": pattern}));
    assert_eq!(search("*.rs"), "src/deep/run.rs\nsrc/main.rs\n");
    assert_eq!(search("**/*.rs"), "src/deep/run.rs\nsrc/main.rs\n");
    assert_eq!(search("src/*"), "src/deep\nsrc/deep/run.rs\nsrc/main.rs\n");
    assert_eq!(search("run"), "src/deep/run.rs\n");
    assert_eq!(search("../outside/*"), "nothing matches\n");
    assert_eq!(search("*secret*"), "nothing matches\n");
    let grep = |arguments: Value| call_successfully(&gate, "grep_files", &arguments);
    assert_eq!(
        grep(json!({"pattern": r"run\(\)"})),
        "src/deep/run.rs:1:pub fn run() {}\nsrc/main.rs:2:    run();\n"
    );
    assert_eq!(
        grep(
            json!({"pattern": "RUN", "ignore_case": true, "path": "src/main.rs", "context_lines": 1})
        ),
        "src/main.rs-1-fn main() {\nsrc/main.rs:2:    run();\nsrc/main.rs-3-}\n"
    );
    let first = grep(json!({"pattern": "run", "max_results": 1}));
    assert!(
        first.starts_with("src/deep/run.rs:1:") && first.contains("[massgen: cut:"),
        "{first}"
    );
    assert!(call_refused(&gate, "grep_files", &json!({"pattern": "("})).contains("not a pattern"));
}

#[test]
fn matches_in_a_binary_file_do_not_count() {
    let disk = Disk::new();
    // More than is read at once comes between the matches and the NUL byte.
    let filler = "-\n".repeat(500_000);
    disk.file("ws/a", format!("run\nrun\n{filler}\0"));
    disk.file("ws/b", "run\nrun\n");
    let gate = disk.gate(Coordination);
    let arguments = json!({"pattern": "run", "max_results": 3});
    let found = call_successfully(&gate, "grep_files", &arguments);
    assert_eq!(found, "b:1:run\nb:2:run\n");
}

#[test]
fn changing_a_setuid_file_clears_its_bits() {
    let disk = Disk::new();
    let gate = disk.gate(Final);
    disk.file("ws/other", "other");
    for (mode, expected) in [(0o4755, 0o755), (0o2775, 0o775), (0o751, 0o751)] {
        disk.file("rw/tool", "tool");
        let tool = disk.path("rw/tool");
        let calls = [
            ("write_file", json!({"path": tool, "content": "new"})),
            (
                "edit_file",
                json!({"path": tool, "edits": [{"oldText": "new", "newText": "newer"}]}),
            ),
            (
                "copy_file",
                json!({"source_path": "other", "destination_path": tool, "overwrite": true}),
            ),
        ];
        for (name, arguments) in calls {
            fs::set_permissions(&tool, fs::Permissions::from_mode(mode)).unwrap();
            call_successfully(&gate, name, &arguments);
            let actual = fs::metadata(&tool).unwrap().mode() & 0o7777;
            assert_eq!(actual, expected, "{name}: {mode:o}");
        }
    }
}

#[test]
fn copies_take_links_as_links_and_leave_special_files() {
    let disk = Disk::new();
    disk.file("ws/out/css/m.css", "a");
    disk.file("ws/out/run.sh", "b");
    fs::set_permissions(
        disk.path("ws/out/run.sh"),
        fs::Permissions::from_mode(0o4755),
    )
    .unwrap();
    disk.file("ws/out/.git/hooks/x", "c");
    disk.link("ws/out/leak", "$ROOT/outside");
    mknodat(CWD, disk.path("ws/out/pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let gate = disk.gate(Final);
    let to = disk.path("rw/out");
    let arguments = json!({"source_path": "out", "destination_path": to});
    let answer = file_details(&call_successfully(&gate, "copy_file", &arguments));
    assert_eq!(answer["file_count"], 3);
    assert_eq!(
        answer["skipped"][0],
        json!({"path": ".git", "reason": "the name is protected"})
    );
    assert_eq!(
        answer["skipped"][1],
        json!({"path": "pipe", "reason": "it is a named pipe"})
    );
    assert!(!disk.has("rw/out/.git") && !disk.has("rw/out/pipe"));
    assert_eq!(
        fs::read_link(disk.path("rw/out/leak")).unwrap(),
        disk.path("outside")
    );
    assert_eq!(
        fs::metadata(disk.path("rw/out/run.sh")).unwrap().mode() & 0o7777,
        0o755
    );
    assert!(call_refused(&gate, "copy_file", &arguments).contains("it exists already"));

    disk.file("ws/out/css/m.css", "new");
    disk.file("rw/out/mine.txt", "the user's");
    let mut over = arguments.clone();
    over["overwrite"] = json!(true);
    call_successfully(&gate, "copy_file", &over);
    assert_eq!(disk.text("rw/out/css/m.css"), "new");
    assert_eq!(disk.text("rw/out/mine.txt"), "the user's");
    let inside = json!({"source_path": "out", "destination_path": "out/again"});
    assert!(call_refused(&gate, "copy_file", &inside).contains("inside"));
}

#[test]
fn a_copy_of_a_snapshot_can_be_changed_by_its_owner() {
    let disk = Disk::new();
    disk.file("ro/frozen.sh", "x");
    fs::set_permissions(disk.path("ro/frozen.sh"), fs::Permissions::from_mode(0o555)).unwrap();
    let gate = disk.gate(Final);
    let to = disk.path("rw/copy.sh");
    let copy = json!({"source_path": disk.path("ro/frozen.sh"), "destination_path": to});
    call_successfully(&gate, "copy_file", &copy);
    let mode = fs::metadata(to).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[test]
fn copies_keep_holes() {
    let disk = Disk::new();
    disk.file("ws/sparse", "");
    let file = openat(CWD, disk.path("ws/sparse"), OFlags::WRONLY, Mode::empty()).unwrap();
    ftruncate(file, 200 << 30).unwrap();
    let gate = disk.gate(Coordination);
    call_successfully(
        &gate,
        "copy_file",
        &json!({"source_path": "sparse", "destination_path": "copy"}),
    );
    let copy = fs::metadata(disk.path("ws/copy")).unwrap();
    assert_eq!(copy.len(), 200 << 30);
    assert!(copy.blocks() * 512 < 1 << 20);
}

#[test]
fn batches_choose_by_globs() {
    let disk = Disk::new();
    for name in ["a.py", "deep/b.py", "deep/c.txt", "deep/skip/d.py"] {
        disk.file(&format!("ws/from/{name}"), name);
    }
    disk.file("ws/to/a.py", "kept");
    let gate = disk.gate(Coordination);
    let arguments = json!({
        "source_base_path": "from", "destination_base_path": "to",
        "include_patterns": ["*.py"], "exclude_patterns": ["deep/skip/*"],
    });
    let answer: Value =
        serde_json::from_str(&call_successfully(&gate, "copy_files_batch", &arguments)).unwrap();
    assert_eq!(
        answer["summary"],
        json!({"copied": 1, "skipped": 1, "errors": 0})
    );
    assert_eq!(
        (
            disk.text("ws/to/a.py").as_str(),
            disk.text("ws/to/deep/b.py").as_str()
        ),
        ("kept", "deep/b.py")
    );
    assert!(!disk.has("ws/to/deep/c.txt") && !disk.has("ws/to/deep/skip"));
    let delete = json!({"base_path": "from", "include_patterns": ["*.py"]});
    let answer: Value =
        serde_json::from_str(&call_successfully(&gate, "delete_files_batch", &delete)).unwrap();
    assert_eq!(
        answer["summary"],
        json!({"deleted": 3, "skipped": 0, "errors": 0})
    );
    assert!(disk.has("ws/from/deep/c.txt") && disk.has("ws/from/deep/skip"));
    let late = disk.gate(Final);
    let all = json!({"base_path": disk.path("rw")});
    let answer = file_details(&call_successfully(&late, "delete_files_batch", &all));
    assert_eq!(answer["deleted_files"], json!(["README.md", "src/app.py"]));
    assert!(disk.has("rw/.git/HEAD") && disk.has("rw/.env"));
    let read_only = json!({"base_path": disk.path("ro")});
    assert!(call_tool(&late, "delete_files_batch", &read_only).is_err());
}

#[test]
fn deleting_removes_links_and_never_follows_them() {
    let disk = Disk::new();
    disk.file("ws/t/a/f", "f");
    disk.link("ws/t/out", "$ROOT/outside");
    disk.link("ws/single", "$ROOT/outside/victim.txt");
    fs::create_dir(disk.path("ws/empty")).unwrap();
    let gate = disk.gate(Final);
    let before = disk.state("outside");
    let delete = |path: &str| json!({"path": path});
    call_successfully(&gate, "delete_file", &delete("single"));
    let not_empty = json!({"path": "t", "recursive": false});
    assert!(call_refused(&gate, "delete_file", &not_empty).contains("not empty"));
    assert_eq!(
        reported_changes(&gate, "delete_file", &delete("t")),
        [
            (ChangeKind::Deleted, "out".to_owned()),
            (ChangeKind::Deleted, "f".to_owned())
        ]
    );
    call_successfully(
        &gate,
        "delete_file",
        &json!({"path": "empty", "recursive": false}),
    );
    assert_eq!(disk.state("ws").len(), 1);
    assert_eq!(disk.state("outside"), before);
    disk.file("rw/pkg/.git/config", "x");
    disk.file("rw/plain/f", "x");
    let pkg = json!({"path": disk.path("rw/pkg")});
    assert!(call_refused(&gate, "delete_file", &pkg).contains("names that you may not change"));
    assert!(disk.has("rw/pkg/.git/config"));
    call_successfully(
        &gate,
        "delete_file",
        &json!({"path": disk.path("rw/plain")}),
    );
}

#[test]
fn moves_never_carry_closed_names() {
    let disk = Disk::new();
    disk.file("ws/d/.git/hooks/x", "x");
    disk.file("ws/plain/deep/f", "f");
    disk.file("ws/taken", "t");
    let gate = disk.gate(Final);
    let to = |source: &str, destination: &str| json!({"source": disk.expand_placeholders(source), "destination": disk.expand_placeholders(destination)});
    assert!(call_refused(&gate, "move_file", &to("d", "$ROOT/rw/d")).contains("protected"));
    assert!(disk.has("ws/d/.git/hooks/x") && !disk.has("rw/d"));
    call_successfully(&gate, "move_file", &to("d", "d2"));
    assert!(disk.has("ws/d2/.git/hooks/x") && !disk.has("ws/d"));
    call_successfully(&gate, "move_file", &to("plain", "$ROOT/rw/new/plain"));
    assert_eq!(disk.text("rw/new/plain/deep/f"), "f");
    assert!(!disk.has("ws/plain"));
    call_successfully(&gate, "move_file", &to("$ROOT/rw/new", "back"));
    assert!(disk.has("ws/back/plain/deep/f") && !disk.has("rw/new"));
    assert!(call_refused(&gate, "move_file", &to("back", "taken")).contains("exists already"));
    assert!(call_refused(&gate, "move_file", &to("back", "back/in")).contains("inside"));
    disk.file("rw/pkg/.git/config", "x");
    call_refused(&gate, "move_file", &to("$ROOT/rw/pkg", "pkg"));
    call_refused(&gate, "move_file", &to("$ROOT/rw/pkg", "$ROOT/rw/pkg2"));
    assert!(disk.has("rw/pkg/.git/config") && !disk.has("ws/pkg") && !disk.has("rw/pkg2"));
}

#[test]
fn comparisons_tell_what_differs() {
    let disk = Disk::new();
    disk.file("ws/a/same", "1");
    disk.file("ws/b/same", "1");
    disk.file("ws/a/other", "old\n");
    disk.file("ws/b/other", "new\n");
    disk.file("ws/a/mine/x", "");
    disk.file("ws/b/yours", "");
    let gate = disk.gate(Coordination);
    let arguments = json!({"dir1": "a", "dir2": "b", "show_content_diff": true});
    let answer = file_details(&call_successfully(&gate, "compare_directories", &arguments));
    assert_eq!(
        answer,
        json!({
            "only_in_dir1": ["mine", "mine/x"], "only_in_dir2": ["yours"],
            "different": ["other"], "identical": ["same"],
            "content_diffs": {"other": "@@ -1 +1 @@\n-old\n+new\n"},
        })
    );
    let files = json!({"file1": "a/other", "file2": "b/other"});
    let answer = file_details(&call_successfully(&gate, "compare_files", &files));
    assert_eq!(answer["identical"], false);
    assert_eq!(
        answer["stats"],
        json!({"added": 1, "removed": 1, "changed": 1})
    );
    let same = json!({"file1": "a/same", "file2": "b/same"});
    assert_eq!(
        file_details(&call_successfully(&gate, "compare_files", &same))["identical"],
        true
    );
}

#[test]
fn comparisons_of_directories_read_only_so_much() {
    let disk = Disk::new();
    let make = |path: &str, bytes: u64| {
        disk.file(path, "");
        let file = openat(CWD, disk.path(path), OFlags::WRONLY, Mode::empty()).unwrap();
        ftruncate(file, bytes).unwrap();
    };
    for dir in ["a", "b"] {
        make(&format!("ws/{dir}/small"), 1 << 20);
        make(&format!("ws/{dir}/deep/huge"), 200 << 30);
    }
    let gate = disk.gate(Coordination);
    let arguments = json!({"dir1": "a", "dir2": "b"});
    let answer = call_refused(&gate, "compare_directories", &arguments);
    assert!(answer.contains("more than 2 GiB would be read"), "{answer}");
    fs::remove_file(disk.path("ws/b/deep/huge")).unwrap();
    let answer = file_details(&call_successfully(&gate, "compare_directories", &arguments));
    assert_eq!(answer["identical"], json!(["small"]));
}

#[test]
fn a_failing_workspace_tool_answers_in_json() {
    let disk = Disk::new();
    let gate = disk.gate(Coordination);
    let answer = call_refused(&gate, "delete_file", &json!({"path": "missing"}));
    assert_eq!(
        serde_json::from_str::<Value>(&answer).unwrap(),
        json!({
            "success": false,
            "operation": "delete_file",
            "error": "cannot delete missing: there is no such file or directory",
        })
    );
    let text = call_refused(&gate, "read_text_file", &json!({"path": "missing"}));
    assert_eq!(
        text,
        "error: cannot read missing: there is no such file or directory"
    );
    let info = call_successfully(&gate, "get_file_info", &json!({"path": "."}));
    assert!(info.starts_with("path: .\ntype: dir\n"), "{info}");
}

#[test]
fn nothing_unread_is_destroyed() {
    let disk = Disk::new();
    for name in ["a", "b", "d/x", "d/y", "d/z.pyc", "target/o", "e/empty"] {
        disk.file(&format!("ws/{name}"), "content");
    }
    disk.file("ws/e/empty", "");
    let gate = disk.run_gate(Coordination, LONG_AGO);
    let path = |path: &str| json!({"path": path});
    let write = |path: &str| json!({"path": path, "content": "new"});
    assert!(call_refused(&gate, "delete_file", &path("a")).contains("must be read"));
    assert!(call_refused(&gate, "write_file", &write("a")).contains("must be read"));
    call_successfully(&gate, "read_text_file", &path("a"));
    call_successfully(&gate, "write_file", &write("a"));
    call_successfully(&gate, "write_file", &write("fresh"));
    for name in ["a", "fresh", "target", "e"] {
        call_successfully(&gate, "delete_file", &path(name));
    }
    let unread = call_refused(&gate, "delete_file", &path("d"));
    assert!(
        unread.contains("d/x, d/y") && !unread.contains("pyc"),
        "{unread}"
    );
    let batch = json!({"base_path": "d", "include_patterns": ["x"]});
    assert!(call_refused(&gate, "delete_files_batch", &batch).contains("must be read"));
    call_successfully(
        &gate,
        "read_multiple_files",
        &json!({"paths": ["d/x", "d/y"]}),
    );
    call_successfully(&gate, "delete_file", &path("d"));
    call_successfully(
        &gate,
        "move_file",
        &json!({"source": "b", "destination": "c"}),
    );
    assert!(call_refused(&gate, "delete_file", &path("c")).contains("must be read"));
    let single = disk.gate(Coordination);
    call_successfully(&single, "delete_file", &path("c"));
}

#[test]
fn tools_do_not_overwrite_what_the_user_changed_during_the_run() {
    let disk = Disk::new();
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    let started = i128::try_from(now.as_nanos()).unwrap();
    wait_for_file_clock();
    disk.file("rw/README.md", "the user's edit\n");
    let gate = disk.run_gate(Final, started);
    let path = disk.path("rw/README.md");
    let write = json!({"path": path, "content": "ours\n"});
    call_successfully(&gate, "read_text_file", &json!({"path": path}));
    let observation = call_tool(&gate, "write_file", &write).unwrap();
    assert_eq!(
        observation.outcome,
        ActionOutcome::Denied,
        "{}",
        observation.content
    );
    assert_eq!(disk.text("rw/README.md"), "the user's edit\n");
    let ChangeKind::Conflict { kept } = &observation.changes[0].kind else {
        panic!("{:?}", observation.changes);
    };
    assert_eq!(fs::read_to_string(kept.as_path()).unwrap(), "ours\n");
    assert!(
        call_refused(&gate, "delete_file", &json!({"path": path})).contains("the user changed")
    );

    let edit = json!({"path": path, "edits": [{"oldText": "edit", "newText": "edit and ours"}]});
    call_successfully(&gate, "edit_file", &edit);
    assert_eq!(disk.text("rw/README.md"), "the user's edit and ours\n");
    call_successfully(&gate, "write_file", &write);
    disk.file("rw/README.md", "edited again\n");
    call_refused(
        &gate,
        "edit_file",
        &json!({"path": path, "edits": [{"oldText": "again", "newText": "x"}]}),
    );
    call_refused(&gate, "write_file", &write);
    assert_eq!(disk.text("rw/README.md"), "edited again\n");

    let old = disk.path("rw/src/app.py");
    call_successfully(&gate, "read_text_file", &json!({"path": old}));
    let before_the_run = disk.run_gate(Final, i128::MAX);
    call_successfully(&before_the_run, "read_text_file", &json!({"path": old}));
    call_successfully(
        &before_the_run,
        "write_file",
        &json!({"path": old, "content": "ours\n"}),
    );
}
