//! The content of packages: a function for each tool, under valid identifiers.

use std::borrow::Cow;

use serde_json::json;

use super::*;
use crate::tools::spec::{COMMANDS, ParameterType, TOOLS, ToolSpec};

fn offers() -> Vec<ToolOffer> {
    TOOLS.iter().chain(COMMANDS).map(ToolSpec::offer).collect()
}

fn of_server(name: &'static str) -> ToolOffer {
    ToolOffer {
        name: Cow::Borrowed(name),
        description: "Ends\"\"\" here.\n*/ func init() {}".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "from": {"type": "string", "description": "a\nb"},
                "how-many": {"type": "integer"},
                "deep": {"type": "object"},
            },
            "required": ["from"],
        }),
    }
}

fn package(language: ProgramLanguage, tools: &[ToolOffer]) -> String {
    let roots = PackageRoots {
        base: "/w".to_owned(),
        read: vec!["/w".to_owned(), "/p \"q\"".to_owned()],
        write: vec!["/w".to_owned()],
        ..PackageRoots::default()
    };
    let files = files(language, "", tools, &roots);
    let named = |file: &&SourceFile| {
        let stem = file.path.rsplit('/').next().unwrap_or_default();
        stem.starts_with("workspace_tools.")
    };
    let package = files.iter().find(named).unwrap();
    package.content.clone()
}

#[test]
fn every_tool_has_a_function_in_both_languages() {
    let (python, go) = (
        package(ProgramLanguage::Python, &offers()),
        package(ProgramLanguage::Go, &offers()),
    );
    for tool in TOOLS.iter().chain(COMMANDS) {
        assert!(python.contains(&format!("\ndef {}(", tool.name)), "{tool}");
        assert!(
            go.contains(&format!("\nfunc {}(", go_name(tool.name))),
            "{tool}"
        );
    }
    for ToolAlias {
        alias, tool: ours, ..
    } in ALIASES
    {
        assert!(TOOLS.iter().chain(COMMANDS).any(|tool| tool.name == *ours));
        assert!(python.contains(&format!("\ndef {alias}(")), "{alias}");
        assert!(
            go.contains(&format!("\nfunc {}(", go_name(alias))),
            "{alias}"
        );
    }
    assert!(python.contains("_READ = [\"/w\",\"/p \\\"q\\\"\"]"));
}

#[test]
fn descriptions_of_a_server_stay_comments() {
    let tools = [
        of_server("mcp__git-hub__get"),
        of_server("mcp__git_hub__get"),
    ];
    let python = package(ProgramLanguage::Python, &tools);
    let expected = "def mcp__git_hub__get(from_: str, how_many: int | None = None, deep: object | \
                    None = None) -> str:\n    \"Ends\\\"\\\"\\\" here.\\n*/ func init() {}\"\n    \
                    return _call(\"mcp__git-hub__get\", {\"from\": from_, \"how-many\": how_many, \
                    \"deep\": deep}, [])\n";
    assert!(python.contains(expected), "{python}");
    assert!(python.contains("\ndef mcp__git_hub__get2("));
    let go = package(ProgramLanguage::Go, &tools);
    assert!(go.contains("\n// McpGitHubGet: Ends\"\"\" here.\n// */ func init() {}\n"));
    assert!(
        go.contains("\t// a\n// b\n\tFrom string `json:\"from\"`\n"),
        "{go}"
    );
    assert!(go.contains("\tHowMany int64 `json:\"how-many,omitempty\"`\n"));
}

#[test]
fn parameter_names_cannot_end_a_struct_tag() {
    let wires = [
        "plain",
        "a`}; func init() {}; type X struct { B string `x",
        "a\",b",
        "-",
    ];
    let properties = wires.map(|wire| (wire.to_owned(), json!({"type": "string"})));
    let tool = ToolOffer {
        parameters: json!({"properties": serde_json::Map::from_iter(properties)}),
        ..of_server("mcp__h__echo")
    };
    let go = package(ProgramLanguage::Go, std::slice::from_ref(&tool));
    assert!(
        go.contains("type McpHEchoParams struct {\n\tPlain string `json:\"plain,omitempty\"`\n}\n")
    );
    let python = package(ProgramLanguage::Python, &[tool]);
    assert!(python.contains("\"a`}; func init() {}; type X struct { B string `x\": a_"));
}

#[test]
fn each_function_is_described_in_one_line() {
    let offers = offers();
    let line = |language, beginning: &str| {
        let all = signatures(language, &offers);
        let line = all.lines().find(|line| line.starts_with(beginning));
        line.unwrap_or_default().to_owned()
    };
    assert_eq!(
        line(ProgramLanguage::Python, "- delete_file("),
        "- delete_file(path: str, recursive: bool=None (false: only an empty directory)): Delete a \
         file or directory."
    );
    assert_eq!(
        line(ProgramLanguage::Go, "- WriteFile("),
        "- WriteFile(WriteFileParams{Path string, Content string}): Create or replace a file."
    );
    assert_eq!(
        signatures(ProgramLanguage::Go, &offers).lines().count(),
        offers.len()
    );
}

/// Parameters that are text and not paths.
const OTHERS: &[&str] = &[
    "pattern",
    "content",
    "input",
    "command",
    "answer",
    "excludePatterns",
    "include_patterns",
    "exclude_patterns",
];

#[test]
fn every_text_of_every_tool_is_known_for_a_path_or_none() {
    for tool in TOOLS.iter().chain(COMMANDS) {
        for parameter in tool.parameters {
            if matches!(parameter.kind, ParameterType::Text | ParameterType::Texts) {
                let is_path = path_permission(tool.name, parameter.name).is_some();
                let is_other = OTHERS.contains(&parameter.name);
                assert!(is_path != is_other, "{} {}", tool.name, parameter.name);
            }
        }
    }
    assert_eq!(
        path_permission("move_file", "source"),
        Some(Permission::Write)
    );
    assert_eq!(
        path_permission("copy_file", "source_path"),
        Some(Permission::Read)
    );
    assert_eq!(path_permission("mcp__x__write", "path"), None);
}
