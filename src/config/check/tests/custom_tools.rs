//! The keys about the user's own tools.

use super::*;
use crate::config::custom_tools::ProgramInterface;
use crate::config::servers::{ServerConfig, ServerTransport};
use crate::path::AbsPath;
use crate::tools::served::CUSTOM_PREFIX;

/// Returns the servers of an agent with these tools, given as YAML.
#[track_caller]
fn servers(keys: &str) -> Vec<ServerConfig> {
    let yaml = with_backend(&format!("cwd: w1\n{keys}"));
    let servers = &config(&yaml).agents[0].servers;
    servers.iter().map(|server| (**server).clone()).collect()
}

/// Checks the findings about one tool of each kind.
#[track_caller]
fn check_function(keys: &str, expected: &[&str]) {
    check(
        &with_backend(&format!("cwd: w1\ncustom_tools: [{{{keys}}}]")),
        expected,
    );
}

#[track_caller]
fn check_program(keys: &str, expected: &[&str]) {
    let keys = format!("cwd: w1\ntools: [{{name: t, description: d, {keys}}}]");
    check(&with_backend(&keys), expected);
}

fn interface(server: &ServerConfig) -> &ProgramInterface {
    match &server.transport {
        ServerTransport::Program(program) => &program.interface,
        ServerTransport::Remote(_) => panic!("{server:?}"),
    }
}

#[test]
fn functions_with_the_same_rights_share_a_host() {
    let servers = servers(
        "custom_tools:\n\
         - {name: [one, custom_tool__two], function: [f, g], path: t.py, description: [d, ''], preset_args: [{a: 1}, {}]}\n\
         - {name: three, func: h, network: on}\n\
         - {function: k, category: math}\n\
         tools: [{name: run, command: ./bin/run --fast, description: Runs.}]",
    );
    let names: Vec<Vec<String>> = servers.iter().map(ServerConfig::custom_tools).collect();
    let full = |names: &[&str]| -> Vec<String> {
        names
            .iter()
            .map(|name| format!("{CUSTOM_PREFIX}{name}"))
            .collect()
    };
    assert_eq!(
        names,
        [full(&["one", "two", "k"]), full(&["three"]), full(&["run"])]
    );
    let names: Vec<&str> = servers
        .iter()
        .map(|server| server.name().as_str())
        .collect();
    assert_eq!(names, ["custom_tools", "custom_tools_2", "tool_run"]);
    let ProgramInterface::PythonFunctions(python) = interface(&servers[0]) else {
        panic!("{servers:?}");
    };
    let [one, two, k] = python.functions.as_slice() else {
        panic!("{python:?}");
    };
    assert_eq!((one.function.as_str(), two.function.as_str()), ("f", "g"));
    assert_eq!(
        (one.description.as_deref(), &two.description),
        (Some("d"), &None)
    );
    assert_eq!(one.preset_args["a"], 1);
    assert_eq!((&one.file, &k.file), (&two.file, &None));
    let ProgramInterface::SingleTool(tool) = interface(&servers[2]) else {
        panic!("{servers:?}");
    };
    assert_eq!(tool.files.len(), 1);
    assert_eq!(tool.files[0].0, 0);
}

#[test]
fn custom_tools_without_a_function_or_a_program_are_errors() {
    check_function("function: f, path: t.py", &[]);
    check_function("function: f", &[]);
    check_function("path: t.py", &["function"]);
    check_program("command: x", &[]);
    check_program("command: [x, '$(y)']", &[]);
}

#[test]
fn tools_that_are_malformed_are_named() {
    let findings_of = |keys: &str| {
        let yaml = with_backend(&format!("cwd: w1\n{keys}"));
        findings(&yaml)
    };
    for (keys, expected) in [
        (
            "custom_tools: [{function: [f, f]}]",
            "is taken by another tool",
        ),
        (
            "custom_tools: [{function: [f, g], name: h}]",
            "does not match the 2 functions",
        ),
        (
            "custom_tools: [{function: 'a b'}]",
            "is not the name of a function",
        ),
        (
            "custom_tools: [{function: f, name: 'a/b'}]",
            "is not the name of a tool",
        ),
        (
            "custom_tools: [{function: {a: 1}}]",
            "is not a name or a list",
        ),
        (
            "custom_tools: [{function: f, preset_args: [1]}]",
            "`preset_args` is not a mapping",
        ),
        ("custom_tools: [{function: f, colour: red}]", "colour"),
        (
            "tools: [{name: t, command: 'a | b', description: d}]",
            "`command` is not a program",
        ),
        (
            "tools: [{name: t, command: [], description: d}]",
            "`command` is not a program",
        ),
        (
            "tools: [{name: t, command: a, description: d, schema: [1]}]",
            "its schema is no JSON object",
        ),
        (
            "tools: [{name: t, command: a, description: d, schema: {type: array}}]",
            "not about an object",
        ),
        (
            "tools: [{name: t, command: a, description: d, schema: {properties: {a: 1}}}]",
            "is not a mapping",
        ),
        (
            "tools: [{name: t, command: a, description: d, schema: {required: [a]}}]",
            "is not a property",
        ),
        (
            "custom_tools: [{function: t}]\ntools: [{name: t, command: a, description: d}]",
            "is taken by another tool",
        ),
    ] {
        let findings = findings_of(keys);
        assert!(
            findings.iter().any(|finding| finding.contains(expected)),
            "{keys}: {findings:#?}"
        );
    }
}

#[test]
fn a_relative_path_starts_beside_a_config_from_elsewhere() {
    let servers = servers("custom_tools: [{function: f, path: t.py}]");
    let ProgramInterface::PythonFunctions(python) = interface(&servers[0]) else {
        panic!("{servers:?}");
    };
    let file = python.functions[0].file.as_ref().unwrap();
    // The config is outside of the current directory, whose files are not the user's choice then.
    assert_eq!(file.candidates, [AbsPath::new("/configs/t.py").unwrap()]);
}

/// The control is the key that all commands can read, in
/// `a_variable_is_inherited_literal_or_expanded`.
#[test]
fn a_tool_or_a_server_may_have_the_key_of_a_vendor() {
    let keys = "env: [GROQ_API_KEY], network: on";
    check_function(&format!("path: own.py, function: own, {keys}"), &[]);
    let server = format!("mcp_servers: [{{name: s, command: node, {keys}}}]");
    check(&with_backend(&format!("cwd: w1\n{server}")), &[]);
}
