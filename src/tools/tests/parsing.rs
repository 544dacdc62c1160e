//! How calls that models write are parsed.

use crate::tools::arguments::{ARGUMENTS_BYTES_MAX, LIST_ITEMS_MAX, PATTERN_BYTES_MAX};
use crate::tools::call::{
    CaseSensitivity, ContentDiff, DeleteRecursion, EditMode, ExistingTarget, FileEdit,
    FileSelection, GrepQuery, LineRange, ReadForm, ToolCall, UserPath,
};
use crate::tools::error::CallParseError;
use crate::tools::parse::{self, CONTEXT_LINES_MAX, GREP_RESULTS_MAX};
use crate::tools::served::ToolCatalogue;

fn parse(name: &str, arguments: &str) -> Result<ToolCall, CallParseError> {
    parse::parse(name, arguments, &ToolCatalogue::default())
}

fn path(text: &str) -> UserPath {
    UserPath::parse(text).unwrap()
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn selection(include: &[&str], exclude: &[&str]) -> FileSelection {
    FileSelection {
        include: texts(include),
        exclude: texts(exclude),
    }
}

#[track_caller]
fn check(name: &str, arguments: &str, expected: &ToolCall) {
    match parse(name, arguments) {
        Ok(call) => assert_eq!(&call, expected, "{name} {arguments}"),
        Err(error) => panic!("{name} {arguments}: {error}"),
    }
}

#[track_caller]
fn check_refused(name: &str, arguments: &str, message: &str) {
    let error = parse(name, arguments).expect_err(arguments);
    assert_eq!(error.to_string(), message, "{name} {arguments}");
}

#[test]
fn reading_one_file_is_understood() {
    let read = |lines| ToolCall::ReadTextFile {
        path: path("a.py"),
        lines,
        form: ReadForm::Plain,
    };
    let range = |first, last| read(LineRange::Range { first, last });
    check(
        "read_text_file",
        r#"{"path":"a.py"}"#,
        &read(LineRange::All),
    );
    check("read_file", r#"{"path":"a.py"}"#, &read(LineRange::All));
    check(
        "read_text_file",
        r#"{"path":"a.py","head":5,"tail":null}"#,
        &read(LineRange::Head(5)),
    );
    check(
        "read_text_file",
        r#"{"path":"a.py","head":0,"tail":2,"start_line":0,"end_line":0}"#,
        &read(LineRange::Tail(2)),
    );
    check(
        "read_text_file",
        r#"{"path":"a.py","start_line":3,"end_line":3}"#,
        &range(3, Some(3)),
    );
    check(
        "read_text_file",
        r#"{"path":"a.py","start_line":3}"#,
        &range(3, None),
    );
    check(
        "read_text_file",
        r#"{"path":"a.py","end_line":9}"#,
        &range(1, Some(9)),
    );
}

#[test]
fn reading_more_than_one_file_is_understood() {
    check(
        "read_multiple_files",
        r#"{"paths":["a","b/c"]}"#,
        &ToolCall::ReadMultipleFiles {
            paths: vec![path("a"), path("b/c")],
        },
    );
    check(
        "list_directory",
        r#"{"path":"src"}"#,
        &ToolCall::ListDirectory { path: path("src") },
    );
    check(
        "directory_tree",
        r#"{"path":"src","excludePatterns":["target"]}"#,
        &ToolCall::DirectoryTree {
            path: path("src"),
            exclude: texts(&["target"]),
        },
    );
    check(
        "search_files",
        r#"{"path":"src","pattern":"*.rs","excludePatterns":["a","b"]}"#,
        &ToolCall::SearchFiles {
            path: path("src"),
            pattern: "*.rs".to_owned(),
            exclude: texts(&["a", "b"]),
        },
    );
    check(
        "get_file_info",
        r#"{"path":"/etc/passwd"}"#,
        &ToolCall::GetFileInfo {
            path: path("/etc/passwd"),
        },
    );
    check(
        "list_allowed_directories",
        "{}",
        &ToolCall::ListAllowedDirectories,
    );
}

#[test]
fn searches_and_comparisons_are_understood() {
    let grep = |grep| ToolCall::GrepFiles {
        path: path("."),
        grep,
    };
    let plain = GrepQuery {
        pattern: "fn [a-z]+".to_owned(),
        case: CaseSensitivity::Sensitive,
        context_lines: 0,
        selection: selection(&["*"], &[]),
        results_max: 200,
        ranking: Vec::new(),
    };
    check(
        "grep_files",
        r#"{"pattern":"fn [a-z]+"}"#,
        &grep(plain.clone()),
    );
    check(
        "grep_files",
        r#"{"path":".","pattern":"fn [a-z]+","ignore_case":true,"context_lines":4000000000000,
            "include_patterns":["*.rs"],"exclude_patterns":["target/*"],"max_results":9999999}"#,
        &grep(GrepQuery {
            case: CaseSensitivity::Insensitive,
            context_lines: CONTEXT_LINES_MAX,
            selection: selection(&["*.rs"], &["target/*"]),
            results_max: GREP_RESULTS_MAX,
            ..plain.clone()
        }),
    );
    check(
        "semantic_search_workspace_files",
        r#"{"query":"How are Tokens, tokens counted?","limit":5}"#,
        &grep(GrepQuery {
            pattern: "are|counted|how|tokens".to_owned(),
            case: CaseSensitivity::Insensitive,
            results_max: 5,
            ranking: texts(&["are", "counted", "how", "tokens"]),
            ..plain
        }),
    );
    let files = |context_lines| ToolCall::CompareFiles {
        first: path("a"),
        second: path("b"),
        context_lines,
    };
    check("compare_files", r#"{"file1":"a","file2":"b"}"#, &files(3));
    check(
        "compare_files",
        r#"{"file1":"a","file2":"b","context_lines":0}"#,
        &files(0),
    );
    let directories = |content| ToolCall::CompareDirectories {
        first: path("a"),
        second: path("b"),
        content,
    };
    check(
        "compare_directories",
        r#"{"dir1":"a","dir2":"b"}"#,
        &directories(ContentDiff::Names),
    );
    check(
        "compare_directories",
        r#"{"dir1":"a","dir2":"b","show_content_diff":true}"#,
        &directories(ContentDiff::Lines),
    );
}

#[test]
fn writing_tools_are_understood() {
    check(
        "write_file",
        r#"{"path":"ä b.txt","content":""}"#,
        &ToolCall::WriteFile {
            path: path("ä b.txt"),
            content: String::new(),
        },
    );
    let edit = |mode| ToolCall::EditFile {
        path: path("a"),
        edits: vec![FileEdit::Replacement {
            old: "x".to_owned(),
            new: String::new(),
        }],
        mode,
    };
    check(
        "edit_file",
        r#"{"path":"a","edits":[{"oldText":"x","newText":""}]}"#,
        &edit(EditMode::Apply),
    );
    check(
        "edit_file",
        r#"{"path":"a","edits":[{"oldText":"x","newText":""}],"dryRun":true}"#,
        &edit(EditMode::DryRun),
    );
    check(
        "create_directory",
        r#"{"path":"a/b"}"#,
        &ToolCall::CreateDirectory { path: path("a/b") },
    );
    check(
        "move_file",
        r#"{"source":"a","destination":"b"}"#,
        &ToolCall::MoveFile {
            source: path("a"),
            destination: path("b"),
        },
    );
    check(
        "copy_file",
        r#"{"source_path":"a","destination_path":"b"}"#,
        &ToolCall::CopyFile {
            source: path("a"),
            destination: path("b"),
            existing: ExistingTarget::Keep,
        },
    );
    check(
        "copy_files_batch",
        r#"{"source_base_path":"a","destination_base_path":"b","overwrite":true}"#,
        &ToolCall::CopyFilesBatch {
            source: path("a"),
            destination: path("b"),
            selection: selection(&["*"], &[]),
            existing: ExistingTarget::Overwrite,
        },
    );
}

#[test]
fn deleting_tools_are_understood() {
    let delete = |recursion| ToolCall::DeleteFile {
        path: path("a"),
        recursion,
    };
    check(
        "delete_file",
        r#"{"path":"a"}"#,
        &delete(DeleteRecursion::Whole),
    );
    check(
        "delete_file",
        r#"{"path":"a","recursive":true}"#,
        &delete(DeleteRecursion::Whole),
    );
    check(
        "delete_file",
        r#"{"path":"a","recursive":false}"#,
        &delete(DeleteRecursion::EmptyOnly),
    );
    check(
        "delete_files_batch",
        r#"{"base_path":"a","include_patterns":["*.pyc"],"exclude_patterns":["keep/*"]}"#,
        &ToolCall::DeleteFilesBatch {
            path: path("a"),
            selection: selection(&["*.pyc"], &["keep/*"]),
        },
    );
}

#[test]
fn unambiguous_mistakes_in_arguments_are_accepted() {
    let allowed = ToolCall::ListAllowedDirectories;
    for nothing in ["", "  \n", "null", "{}", r#""{}""#, r#""""#] {
        check("list_allowed_directories", nothing, &allowed);
    }
    let workspace = ToolCall::ListDirectory { path: path(".") };
    check("list_directory", "", &workspace);
    check("list_directory", r#"{"path":null}"#, &workspace);
    let head = ToolCall::ReadTextFile {
        path: path("a"),
        lines: LineRange::Head(10),
        form: ReadForm::Plain,
    };
    for ten in ["10", "10.0", r#""10""#, r#"" 10 ""#] {
        check(
            "read_text_file",
            &format!(r#"{{"path":"a","head":{ten}}}"#),
            &head,
        );
    }
    check("read_text_file", r#""{\"path\":\"a\",\"head\":10}""#, &head);
    let one = ToolCall::ReadMultipleFiles {
        paths: vec![path("a")],
    };
    for list in [r#"["a"]"#, r#""a""#, r#""[\"a\"]""#] {
        check(
            "read_multiple_files",
            &format!(r#"{{"paths":{list}}}"#),
            &one,
        );
    }
    let dry = ToolCall::EditFile {
        path: path("a"),
        edits: vec![FileEdit::Replacement {
            old: "x".to_owned(),
            new: "y".to_owned(),
        }],
        mode: EditMode::DryRun,
    };
    for edits in [
        r#"[{"oldText":"x","newText":"y"}]"#,
        r#"{"oldText":"x","newText":"y"}"#,
        r#""[{\"oldText\":\"x\",\"newText\":\"y\"}]""#,
    ] {
        let arguments = format!(r#"{{"path":"a","edits":{edits},"dryRun":"True"}}"#);
        check("edit_file", &arguments, &dry);
    }
}

#[test]
fn an_unknown_tool_is_refused_and_the_nearest_named() {
    for (name, message) in [
        (
            "read_txt_file",
            "there is no tool `read_txt_file`; did you mean `read_text_file`?",
        ),
        (
            "functions.delete_files",
            "there is no tool `delete_files`; did you mean `delete_file`?",
        ),
        (
            "mcp__files__read_file",
            "there is no tool `mcp__files__read_file`; did you mean `read_text_file`?",
        ),
        ("xyzzy", "there is no tool `xyzzy`"),
        ("", "there is no tool ``"),
        ("READ_TEXT_FILE", "there is no tool `READ_TEXT_FILE`"),
    ] {
        check_refused(name, "{}", message);
    }
}

#[test]
fn parameters_are_refused_by_name() {
    let known = "`path`, `head` (optional), `tail` (optional), `start_line` (optional), \
                 `end_line` (optional)";
    for (arguments, message) in [
        (
            r#"{"file_path":"a"}"#,
            format!("`read_text_file` has no parameter `file_path`: expected {known}"),
        ),
        (
            "{}",
            "`read_text_file` lacks its parameter `path`: expected a text".to_owned(),
        ),
        (
            r#"{"path":null}"#,
            "`read_text_file` lacks its parameter `path`: expected a text".to_owned(),
        ),
        (
            r#"{"path":["a"]}"#,
            r#"`path` of `read_text_file` is `["a"]`: expected a text"#.to_owned(),
        ),
        (
            r#"{"path":""}"#,
            "`path` of `read_text_file` is not a path: the path is empty".to_owned(),
        ),
        (
            r#"{"path":"a\u0000b"}"#,
            "`path` of `read_text_file` is not a path: the path holds a NUL byte".to_owned(),
        ),
        (
            r#"{"path":"a","head":"many"}"#,
            "`head` of `read_text_file` is `many`: expected a whole number".to_owned(),
        ),
        (
            r#"{"path":"a","head":-1}"#,
            "`head` of `read_text_file` is `-1`: expected a whole number".to_owned(),
        ),
        (
            r#"{"path":"a","head":1.5}"#,
            "`head` of `read_text_file` is `1.5`: expected a whole number".to_owned(),
        ),
        (
            r#"{"path":"a","start_line":5,"end_line":4}"#,
            "`end_line` of `read_text_file` is `4`: expected a line not before `start_line`"
                .to_owned(),
        ),
    ] {
        check_refused("read_text_file", arguments, &message);
    }
}

#[test]
fn lists_and_patterns_are_refused_by_name() {
    for (name, arguments, message) in [
        (
            "list_allowed_directories",
            r#"{"path":"."}"#,
            "`list_allowed_directories` has no parameter `path`: expected no parameters",
        ),
        (
            "read_multiple_files",
            r#"{"paths":[]}"#,
            "`read_multiple_files` lacks its parameter `paths`: expected a list of texts",
        ),
        (
            "read_multiple_files",
            r#"{"paths":["a",1]}"#,
            r#"`paths` of `read_multiple_files` is `["a",1]`: expected a list of texts"#,
        ),
        (
            "delete_files_batch",
            r#"{"base_path":"a","include_patterns":[]}"#,
            "`include_patterns` of `delete_files_batch` is `[]`: expected at least one glob; \
             leave it out for all files",
        ),
        (
            "search_files",
            r#"{"pattern":"a[b"}"#,
            "`pattern` of `search_files` is not a glob: error parsing glob 'a[b': unclosed character \
             class; missing ']'",
        ),
        (
            "directory_tree",
            r#"{"excludePatterns":["ok",""]}"#,
            "`excludePatterns` of `directory_tree` is ``: expected a pattern of 1 to 1024 bytes",
        ),
        (
            "delete_file",
            r#"{"path":"a","recursive":"perhaps"}"#,
            "`recursive` of `delete_file` is `perhaps`: expected true or false",
        ),
        (
            "edit_file",
            r#"{"path":"a","edits":[{"oldText":"","newText":"b"}]}"#,
            "`edits` of `edit_file` is `empty`: expected at least one replacement, each with a \
             text in `oldText`",
        ),
        (
            "edit_file",
            r#"{"path":"a","edits":[{"old":"a","newText":"b"}]}"#,
            "`edits` of `edit_file` is `[{\"old\":\"a\",\"newText\":\"b\"}]`: expected a list of \
             {\"oldText\": text, \"newText\": text}",
        ),
    ] {
        check_refused(name, arguments, message);
    }
}

#[test]
fn tool_arguments_that_are_no_json_object_are_refused() {
    for (arguments, message) in [
        (
            r#"{"path": "a""#,
            "the arguments are not valid JSON: EOF while parsing an object at line 1 column 12",
        ),
        (
            "{'path': 'a'}",
            "the arguments are not valid JSON: key must be a string at line 1 column 2",
        ),
        (
            r#"["a"]"#,
            "the arguments of `create_directory` are no JSON object: expected `path`",
        ),
        (
            "7",
            "the arguments of `create_directory` are no JSON object: expected `path`",
        ),
    ] {
        check_refused("create_directory", arguments, message);
    }
}

#[test]
fn tool_arguments_over_a_limit_are_refused() {
    let write = |bytes| format!(r#"{{"path":"a","content":"{}"}}"#, "x".repeat(bytes));
    assert!(parse("write_file", &write(ARGUMENTS_BYTES_MAX - 100)).is_ok());
    assert!(parse("write_file", &write(ARGUMENTS_BYTES_MAX)).is_err());

    let read = |items| format!(r#"{{"paths":[{}"a"]}}"#, r#""a","#.repeat(items - 1));
    assert!(parse("read_multiple_files", &read(LIST_ITEMS_MAX)).is_ok());
    assert!(parse("read_multiple_files", &read(LIST_ITEMS_MAX + 1)).is_err());

    let search = |bytes| format!(r#"{{"pattern":"{}"}}"#, "?".repeat(bytes));
    assert!(parse("search_files", &search(PATTERN_BYTES_MAX)).is_ok());
    assert!(parse("search_files", &search(PATTERN_BYTES_MAX + 1)).is_err());

    let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    for levels in [3, 200, 1_000_000] {
        let arguments = format!(r#"{{"path":{}}}"#, deep(levels));
        assert!(parse("create_directory", &arguments).is_err());
        let arguments = format!(r#"{{"path":"a","edits":{}}}"#, deep(levels));
        assert!(parse("edit_file", &arguments).is_err());
    }
}
