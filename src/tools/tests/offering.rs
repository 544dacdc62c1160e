//! How tools are offered to models.

use serde_json::{Value, json};

use crate::path::RealPath;
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::tools::parse::parse;
use crate::tools::served::ToolCatalogue;
use crate::tools::spec::{
    ANSWER, COMMANDS, ParameterNeed, ParameterType, TOOLS, TRANSLATED_TOOLS, ToolOffer, ToolSpec,
};
use crate::tools::tool_selection::{
    CommandOffering, DirectoryNaming, EditFormat, ImageOffering, ToolSelection,
};
use crate::tools::workflow::{COORDINATION, ModelCall, parse_model_call, tool_tables};

/// The maximum size of all file tools and the two coordination tools in a request, in bytes.
const ALL_OFFERS_BYTES_MAX: usize = 7680;

/// The maximum size of the two coordination tools in a request, in bytes.
const COORDINATION_OFFERS_BYTES_MAX: usize = 700;

/// The maximum size of the tools that run commands in a request, in bytes.
const COMMANDS_OFFERS_BYTES_MAX: usize = 1700;

/// The same with the argument `answer`, which few agents are offered.
const TRIAL_OFFERS_BYTES_MAX: usize = 1850;

fn every_tool() -> impl Iterator<Item = &'static ToolSpec> {
    tool_tables().into_iter().flatten()
}

/// Returns the size of `tools` in a Chat Completions request.
fn wire_bytes(offers: &[ToolOffer]) -> usize {
    let tools: Vec<Value> = offers
        .iter()
        .map(|offer| {
            json!({"type": "function", "function": {
                "name": offer.name,
                "description": offer.description,
                "parameters": offer.parameters,
            }})
        })
        .collect();
    json!(tools).to_string().len()
}

fn sample(kind: ParameterType) -> Value {
    match kind {
        ParameterType::Text => json!("agent1"),
        ParameterType::Count => json!(1),
        ParameterType::Flag => json!(true),
        ParameterType::Texts => json!(["a"]),
        ParameterType::Lines => json!([1, -1]),
        ParameterType::Scores => json!([7]),
        ParameterType::Edits => json!([{"oldText": "a", "newText": "b"}]),
        ParameterType::PlanEntries => json!([{"content": "a", "status": "pending"}]),
        ParameterType::Tasks => json!([{"id": "a", "task": "b"}]),
    }
}

/// Returns the required arguments of `tool`, plus the argument `also`.
fn arguments(tool: &ToolSpec, also: Option<&str>) -> Value {
    tool.parameters
        .iter()
        .filter(|parameter| {
            parameter.need == ParameterNeed::Required || also == Some(parameter.name)
        })
        .map(|parameter| {
            let value = match (tool.name, parameter.name) {
                (_, "url") => json!("https://example.org/"),
                (_, ANSWER) => json!("agent1.1"),
                ("str_replace_based_edit_tool", "command") => json!("view"),
                (_, "diff") => json!("@@\n-a\n+b\n"),
                ("apply_patch", _) => {
                    json!("*** Begin Patch\n*** Delete File: a\n*** End Patch")
                }
                ("generate_media", "mode") => json!("image"),
                ("generate_media", "path") => json!("a.png"),
                _ => sample(parameter.kind),
            };
            (parameter.name.to_owned(), value)
        })
        .collect()
}

#[test]
fn offers_are_small() {
    let coordination: Vec<ToolOffer> = COORDINATION.iter().map(ToolSpec::offer).collect();
    let bytes = wire_bytes(&coordination);
    assert!(bytes <= COORDINATION_OFFERS_BYTES_MAX, "{bytes}");

    let all: Vec<ToolOffer> = TOOLS
        .iter()
        .map(ToolSpec::offer)
        .chain(coordination)
        .collect();
    let bytes = wire_bytes(&all);
    assert!(bytes <= ALL_OFFERS_BYTES_MAX, "{bytes}");

    let bytes = wire_bytes(&command_offers(CommandOffering::Offered, &[]));
    assert!(bytes <= COMMANDS_OFFERS_BYTES_MAX, "{bytes}");
    let bytes = wire_bytes(&command_offers(CommandOffering::WithAnswers, &[]));
    assert!(bytes <= TRIAL_OFFERS_BYTES_MAX, "{bytes}");
}

#[test]
fn table_schema_and_parser_agree() {
    for tool in every_tool() {
        let schema = tool.offer().parameters;
        let named: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        let listed: Vec<&str> = tool.parameters.iter().map(|one| one.name).collect();
        assert_eq!(named, listed, "{tool}");

        for parameter in tool.parameters {
            let complete = arguments(tool, Some(parameter.name));
            let call =
                parse_model_call(tool.name, &complete.to_string(), &ToolCatalogue::default());
            assert!(call.is_ok(), "{tool} {complete}: {call:?}");
            let is_translated = TRANSLATED_TOOLS.iter().any(|other| other.name == tool.name);
            if let (Ok(ModelCall::Tool(call)), false) = (call, is_translated) {
                assert_eq!(call.name(), tool.name);
            }

            let mut lacking = complete.clone();
            lacking.as_object_mut().unwrap().remove(parameter.name);
            let call = parse_model_call(tool.name, &lacking.to_string(), &ToolCatalogue::default());
            let needed = parameter.need == ParameterNeed::Required;
            assert_eq!(call.is_err(), needed, "{tool} {lacking}");

            // The command decides which other parameters are read.
            if tool.name == "str_replace_based_edit_tool" {
                continue;
            }
            let mut wrong = complete;
            wrong[parameter.name] = json!([[]]);
            let call = parse_model_call(tool.name, &wrong.to_string(), &ToolCatalogue::default());
            assert!(call.is_err(), "{tool} {wrong}");
        }

        let mut unknown = arguments(tool, None);
        unknown["surprise"] = json!(1);
        assert!(
            parse_model_call(tool.name, &unknown.to_string(), &ToolCatalogue::default()).is_err()
        );
    }
}

#[test]
fn a_tool_that_writes_is_listed_as_one() {
    for tool in TOOLS {
        let call = parse(
            tool.name,
            &arguments(tool, None).to_string(),
            &ToolCatalogue::default(),
        )
        .unwrap();
        let writes = call
            .accesses()
            .iter()
            .any(|access| access.permission == Permission::Write);
        assert_eq!(writes, tool.permission == Permission::Write, "{tool}");
    }
}

#[test]
fn names_are_unique() {
    let mut names: Vec<&str> = every_tool().map(|tool| tool.name).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test of pure rules vouches for its paths"
)]
fn grant(root: &str, kind: GrantKind, permission: Permission) -> Grant {
    Grant::tree(RealPath::vouch(root), kind, permission)
}

fn workspace() -> Grant {
    grant("/w", GrantKind::Workspace, Permission::Write)
}

fn project(permission: Permission) -> Grant {
    grant("/p", GrantKind::Context, permission)
}

#[test]
fn writing_tools_are_offered_where_something_is_writable() {
    let rows = [
        (vec![], Phase::Final, 0),
        (vec![project(Permission::Read)], Phase::Final, 11),
        (vec![project(Permission::Write)], Phase::Coordination, 11),
        (vec![project(Permission::Write)], Phase::Final, 19),
        (vec![workspace()], Phase::Coordination, 19),
    ];
    for (grants, phase, expected) in rows {
        let permissions = PathPermissionManager::new(grants, phase);
        let selection = ToolSelection {
            allowed: None,
            excluded: &[],
            permissions: &permissions,
            directories: DirectoryNaming::Unnamed,
            commands: CommandOffering::NotOffered,
            images: ImageOffering::Offered,
            edits: EditFormat::Replacements,
        };
        let offers = selection.offers();
        assert_eq!(offers.len(), expected, "{permissions:?}");
        let writes = offers.iter().any(|offer| offer.name == "write_file");
        // Without `apply_patch`.
        assert_eq!(writes, expected == TOOLS.len() - 1);
    }
}

/// Returns the tools for commands that an agent is offered.
fn command_offers(commands: CommandOffering, excluded: &[&str]) -> Vec<ToolOffer> {
    let permissions = PathPermissionManager::new(vec![workspace()], Phase::Coordination);
    let excluded: Vec<String> = excluded.iter().map(|name| (*name).to_owned()).collect();
    let selection = ToolSelection {
        allowed: None,
        excluded: &excluded,
        permissions: &permissions,
        directories: DirectoryNaming::Named,
        commands,
        images: ImageOffering::Offered,
        edits: EditFormat::Replacements,
    };
    let mut offers = selection.offers();
    offers.retain(|offer| COMMANDS.iter().any(|tool| tool.name == offer.name));
    offers
}

#[test]
fn tools_for_commands_are_offered_to_those_who_may_run_them() {
    let answers = |commands| {
        let offers = command_offers(commands, &[]);
        offers.first().unwrap().parameters["properties"]
            .get("answer")
            .is_some()
    };
    assert!(answers(CommandOffering::WithAnswers) && !answers(CommandOffering::Offered));
    let offered = |commands, excluded: &[&str]| command_offers(commands, excluded).len();
    assert_eq!(offered(CommandOffering::NotOffered, &[]), 0);
    assert_eq!(offered(CommandOffering::Offered, &[]), COMMANDS.len());
    let without = ["mcp__command_line__execute_command"];
    assert_eq!(
        offered(CommandOffering::Offered, &without),
        COMMANDS.len() - 1
    );
}

#[test]
fn filters_take_tools_out_by_any_of_their_names() {
    let permissions = PathPermissionManager::new(vec![workspace()], Phase::Final);
    let list =
        |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    let selected_names = |allowed: Option<&[String]>, excluded: &[String]| -> Vec<String> {
        ToolSelection {
            allowed,
            excluded,
            permissions: &permissions,
            directories: DirectoryNaming::Unnamed,
            commands: CommandOffering::NotOffered,
            images: ImageOffering::Offered,
            edits: EditFormat::Replacements,
        }
        .offers()
        .iter()
        .map(|offer| offer.name.clone().into_owned())
        .collect()
    };
    let some = list(&["read_file", "mcp__filesystem__write_file", "WebSearch"]);
    assert_eq!(
        selected_names(Some(&some), &[]),
        ["read_text_file", "write_file"]
    );
    assert_eq!(
        selected_names(Some(&some), &list(&["write_file"])),
        ["read_text_file"]
    );
    assert!(selected_names(Some(&[]), &[]).is_empty());
    let rest = selected_names(None, &list(&["mcp__workspace_tools__delete_file"]));
    assert_eq!(rest.len(), TOOLS.len() - 2);
    assert!(
        rest.iter()
            .all(|name| name != "delete_file" && name != "apply_patch")
    );
}

#[test]
fn a_guard_names_the_directories() {
    let described = |grants: Vec<Grant>| -> Vec<String> {
        let permissions = PathPermissionManager::new(grants, Phase::Final);
        ToolSelection {
            allowed: Some(
                &["read_file", "write_file", "list_allowed_directories"].map(str::to_owned),
            ),
            excluded: &[],
            permissions: &permissions,
            directories: DirectoryNaming::Named,
            commands: CommandOffering::NotOffered,
            images: ImageOffering::Offered,
            edits: EditFormat::Replacements,
        }
        .offers()
        .into_iter()
        .map(|offer| offer.description)
        .collect()
    };
    assert_eq!(
        described(vec![workspace(), project(Permission::Read)]),
        [
            "Read a text file or some of its lines. Only in /w, /p.",
            "List what you may read and write.",
            "Create or replace a file. Writes only in /w.",
        ]
    );
    let many: Vec<Grant> = (0..20)
        .map(|number| grant(&format!("/p{number}"), GrantKind::Context, Permission::Read))
        .collect();
    assert_eq!(
        described(many)[0],
        "Read a text file or some of its lines. Only in /p0, /p1, /p2, /p3, /p4, /p5, /p6, /p7, \
         12 more (call list_allowed_directories)."
    );
}
