//! `docs/tools.md` agrees with the tables and limits in the code.

use std::fmt::Write as _;

use massgen::tools::arguments::{ARGUMENTS_BYTES_MAX, LIST_ITEMS_MAX, PATTERN_BYTES_MAX};
use massgen::tools::call::USER_PATH_BYTES_MAX;
use massgen::tools::parse::{CONTEXT_LINES_MAX, GREP_RESULTS_DEFAULT, GREP_RESULTS_MAX};
use massgen::tools::spec::{ParameterNeed, ToolParameter, ToolSpec};
use massgen::tools::workflow::tool_tables;

const DOC: &str = include_str!("../../docs/tools.md");

fn describe_parameter(parameter: &ToolParameter) -> String {
    let need = match parameter.need {
        ParameterNeed::Required => "",
        ParameterNeed::Optional => "?",
    };
    let note = if parameter.note.is_empty() {
        String::new()
    } else {
        format!(" ({})", parameter.note)
    };
    format!("`{}`{need}{note}", parameter.name)
}

fn tool_table(tools: &[ToolSpec]) -> String {
    let mut out = String::new();
    writeln!(
        out,
        "| tool | parameters | what it does | what it returns |"
    )
    .unwrap();
    writeln!(out, "|---|---|---|---|").unwrap();
    for tool in tools {
        let parameters: Vec<String> = tool.parameters.iter().map(describe_parameter).collect();
        let parameters = parameters.join(", ");
        let ToolSpec {
            name,
            purpose,
            result,
            ..
        } = tool;
        writeln!(out, "| `{name}` | {parameters} | {purpose} | {result} |").unwrap();
    }
    out
}

fn limit_table() -> String {
    let mut out = String::new();
    writeln!(out, "| limit | value |").unwrap();
    writeln!(out, "|---|---|").unwrap();
    for (limit, value, unit) in [
        ("arguments of one call", ARGUMENTS_BYTES_MAX, "bytes"),
        ("a list", LIST_ITEMS_MAX, "items"),
        ("a glob or regular expression", PATTERN_BYTES_MAX, "bytes"),
        ("a path", USER_PATH_BYTES_MAX, "bytes"),
    ] {
        writeln!(out, "| {limit} | {value} {unit} |").unwrap();
    }
    for (limit, value) in [
        ("`max_results`", GREP_RESULTS_MAX),
        ("`max_results` if left out", GREP_RESULTS_DEFAULT),
        ("`context_lines`", CONTEXT_LINES_MAX),
    ] {
        writeln!(out, "| {limit} | {value} lines |").unwrap();
    }
    out
}

#[test]
fn limits_are_as_in_the_code() {
    let limits = limit_table();
    assert!(
        DOC.contains(&limits),
        "docs/tools.md lacks this table:\n\n{limits}"
    );
}

#[test]
fn every_tool_is_listed_in_its_table() {
    for tools in tool_tables() {
        let table = tool_table(tools);
        assert!(
            DOC.contains(&table),
            "docs/tools.md lacks this table:\n\n{table}"
        );
    }
}
