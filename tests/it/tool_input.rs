//! Converting calls back to arguments: the result parses to the same call.

use serde_json::Value;

use massgen::tools::parse::parse;
use massgen::tools::served::ToolCatalogue;
use massgen::tools::spec::{COMMANDS, PROGRAMS, TOOLS};

/// Calls of every tool, with only the required parameters and with all of them.
const CALLS: &[(&str, &str)] = &[
    ("read_text_file", r#"{"path":"a"}"#),
    ("read_text_file", r#"{"path":"a","head":3}"#),
    ("read_text_file", r#"{"path":"a","tail":3}"#),
    ("read_text_file", r#"{"path":"a","start_line":2}"#),
    (
        "read_text_file",
        r#"{"path":"../b c","start_line":2,"end_line":9}"#,
    ),
    ("read_multiple_files", r#"{"paths":["a","/b"]}"#),
    ("list_directory", "{}"),
    ("list_directory", r#"{"path":"src"}"#),
    ("directory_tree", r#"{"excludePatterns":["*.o"]}"#),
    (
        "search_files",
        r#"{"path":"src","pattern":"*.rs","excludePatterns":["t*"]}"#,
    ),
    ("grep_files", r#"{"pattern":"x"}"#),
    (
        "grep_files",
        r#"{"path":"a","pattern":"x","ignore_case":true,"context_lines":2,"include_patterns":["*.rs"],"exclude_patterns":["b"],"max_results":7}"#,
    ),
    ("get_file_info", r#"{"path":"a"}"#),
    ("read_media_file", r#"{"path":"a"}"#),
    ("compare_files", r#"{"file1":"a","file2":"b"}"#),
    (
        "compare_files",
        r#"{"file1":"a","file2":"b","context_lines":9}"#,
    ),
    ("compare_directories", r#"{"dir1":"a","dir2":"b"}"#),
    (
        "compare_directories",
        r#"{"dir1":"a","dir2":"b","show_content_diff":true}"#,
    ),
    ("list_allowed_directories", "{}"),
    ("write_file", r#"{"path":"a","content":"x\ny\u0000"}"#),
    (
        "edit_file",
        r#"{"path":"a","edits":[{"oldText":"x","newText":"y"}]}"#,
    ),
    (
        "edit_file",
        r#"{"path":"a","edits":[{"oldText":"x","newText":""}],"dryRun":true}"#,
    ),
    (
        "edit_file",
        r#"{"path":"a","edits":[{"insertLine":2,"newText":"y"}]}"#,
    ),
    ("create_directory", r#"{"path":"a/b"}"#),
    ("move_file", r#"{"source":"a","destination":"b"}"#),
    ("copy_file", r#"{"source_path":"a","destination_path":"b"}"#),
    (
        "copy_file",
        r#"{"source_path":"a","destination_path":"b","overwrite":true}"#,
    ),
    (
        "copy_files_batch",
        r#"{"source_base_path":"a","destination_base_path":"b"}"#,
    ),
    (
        "copy_files_batch",
        r#"{"source_base_path":"a","destination_base_path":"b","include_patterns":["x*"],"exclude_patterns":["y"],"overwrite":true}"#,
    ),
    (
        "apply_patch",
        r#"{"input":"*** Begin Patch\n*** Delete File: a\n*** End Patch"}"#,
    ),
    ("delete_file", r#"{"path":"a"}"#),
    ("delete_file", r#"{"path":"a","recursive":false}"#),
    ("delete_files_batch", r#"{"base_path":"a"}"#),
    (
        "delete_files_batch",
        r#"{"base_path":"a","include_patterns":["*.o"],"exclude_patterns":["b.o"]}"#,
    ),
    ("execute_command", r#"{"command":"ls"}"#),
    (
        "execute_command",
        r#"{"command":"ls -l","timeout":5,"work_dir":"src"}"#,
    ),
    (
        "start_background_command",
        r#"{"command":"sleep 9","work_dir":"src"}"#,
    ),
    ("get_background_output", r#"{"command_id":3}"#),
    ("get_background_output", r#"{"command_id":3,"offset":77}"#),
    ("get_background_status", r#"{"command_id":3}"#),
    ("stop_background_command", r#"{"command_id":3}"#),
    ("list_background_commands", "{}"),
    ("execute_code", r#"{"code":"print(1)"}"#),
    ("execute_code", r#"{"code":"print(1)","timeout":9}"#),
];

#[test]
fn the_input_of_a_parsed_call_parses_to_the_same_call() {
    for (name, arguments) in CALLS {
        let call = parse(name, arguments, &ToolCatalogue::default()).unwrap();
        let input = call.input();
        let again = parse(call.name(), &input.to_string(), &ToolCatalogue::default()).unwrap();
        assert_eq!(again, call, "{name} {arguments}: {input}");
        let arguments_json: Value = serde_json::from_str(arguments).unwrap();
        for (parameter, value) in arguments_json.as_object().unwrap() {
            assert_eq!(&input[parameter], value, "{name} {parameter}");
        }
    }
}

#[test]
fn every_tool_is_among_them() {
    for tool in TOOLS.iter().chain(COMMANDS).chain(PROGRAMS) {
        let mut calls = CALLS.iter();
        assert!(calls.any(|(name, _)| *name == tool.name), "{}", tool.name);
    }
}
