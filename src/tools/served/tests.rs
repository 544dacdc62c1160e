//! Which server tools are offered, and which strings in a call are paths.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::permissions::grant::Permission;
use crate::permissions::path_rules::RuleAction;
use crate::tools::call::ToolCall;
use crate::tools::served::arguments::{DEPTH_MAX, TEXTS_MAX};
use crate::tools::served::offer::{
    DESCRIPTION_CHARS_MAX, SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX, ServerFeature,
    ServerToolDescription, TOOLS_PER_SERVER_MAX, offer_tools,
};
use crate::tools::served::{
    OutsideEffects, ServedTool, ServedToolRules, ServerName, ServerOperation, ToolCaller,
    ToolCatalogue, ToolNaming,
};

fn rules(server: &str) -> ServedToolRules {
    ServedToolRules {
        naming: ToolNaming::OfServer,
        server: ServerName::parse(server).unwrap(),
        allowed: None,
        excluded: Vec::new(),
        tool_rules: BTreeMap::new(),
        permission: Permission::Read,
        content: Vec::new(),
        outside: OutsideEffects::Some,
        harmless: Vec::new(),
        caller: ToolCaller::Programs,
    }
}

fn tool(name: &str) -> ServerToolDescription {
    ServerToolDescription {
        name: name.to_owned(),
        description: String::new(),
        schema: json!({"type": "object"}),
        operation: ServerOperation::Tool,
    }
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

fn full_names(tools: &[ServedTool]) -> Vec<&str> {
    tools.iter().map(|tool| &*tool.offer.name).collect()
}

/// Checks the full names of the offered tools and the notes about the others.
#[track_caller]
fn check_offered(
    rules: &ServedToolRules,
    described: &[ServerToolDescription],
    expected: &[&str],
    notes: &[&str],
) {
    let (tools, warnings) = offer_tools(rules, described);
    assert_eq!(full_names(&tools), expected);
    assert_eq!(warnings.len(), notes.len(), "{warnings:#?}");
    for (warning, note) in warnings.iter().zip(notes) {
        assert!(warning.contains(note), "{warning}\n{note}");
    }
}

#[test]
fn names_of_servers_are_plain() {
    for name in ["a", "my-server_2", &"x".repeat(100)] {
        assert!(ServerName::parse(name).is_some(), "{name}");
    }
    for name in ["", "a b", "a.b", "ä", "a/b", &"x".repeat(101)] {
        assert!(ServerName::parse(name).is_none(), "{name}");
    }
}

#[test]
fn tools_are_offered_under_names_that_vendors_take() {
    let all = [tool("read"), tool("a.b/c"), tool("a_b_c"), tool("read")];
    check_offered(
        &rules("s"),
        &all,
        &["mcp__s__read", "mcp__s__a_b_c"],
        &["another of its tools has this name", "another of its tools"],
    );
    let strange = [
        tool(""),
        tool("a b"),
        tool("x\u{202e}y"),
        tool(&"n".repeat(57)),
    ];
    check_offered(
        &rules("s"),
        &strange,
        &[],
        &[
            "a name has letters",
            "a name has letters",
            "x\\u{202e}y",
            "longer than the 64 bytes",
        ],
    );
    check_offered(
        &rules("s"),
        &[tool(&"n".repeat(56))],
        &[&format!("mcp__s__{}", "n".repeat(56))],
        &[],
    );
}

#[test]
fn the_lists_of_the_config_choose() {
    let all = [tool("read"), tool("write"), tool("delete")];
    let only = ServedToolRules {
        allowed: Some(names(&["read", "mcp__s__write", "gone"])),
        excluded: names(&["write"]),
        ..rules("s")
    };
    check_offered(&only, &all, &["mcp__s__read"], &["no tool `gone`"]);
    let nothing = ServedToolRules {
        allowed: Some(Vec::new()),
        ..rules("s")
    };
    check_offered(&nothing, &all, &[], &[]);
    let without = ServedToolRules {
        excluded: names(&["delete"]),
        ..rules("s")
    };
    check_offered(&without, &all, &["mcp__s__read", "mcp__s__write"], &[]);
    let ruled = |list: &[(&str, RuleAction)]| ServedToolRules {
        tool_rules: list
            .iter()
            .map(|(name, rule)| ((*name).to_owned(), *rule))
            .collect(),
        ..rules("s")
    };
    let some = ruled(&[
        ("read", RuleAction::Allow),
        ("write", RuleAction::Ask),
        ("delete", RuleAction::Deny),
    ]);
    check_offered(&some, &all, &["mcp__s__read", "mcp__s__write"], &[]);
    let unknown = ruled(&[
        ("mcp__s__read", RuleAction::Deny),
        ("gone", RuleAction::Deny),
    ]);
    let noted = ["no tool `gone`, which `tools` names"];
    check_offered(&unknown, &all, &["mcp__s__write", "mcp__s__delete"], &noted);
}

#[test]
fn there_are_only_so_many_tools() {
    let many: Vec<ServerToolDescription> = (0..=TOOLS_PER_SERVER_MAX)
        .map(|n| tool(&format!("t{n}")))
        .collect();
    let (tools, notes) = offer_tools(&rules("s"), &many);
    assert_eq!(tools.len(), TOOLS_PER_SERVER_MAX);
    assert!(notes[0].contains("1 tool of `s` too many"), "{notes:?}");
    let (tools, notes) = offer_tools(&rules("s"), &many[1..]);
    assert_eq!((tools.len(), notes.len()), (TOOLS_PER_SERVER_MAX, 0));
}

fn deep(levels: usize) -> Value {
    (0..levels).fold(json!({}), |inner, _| json!({"properties": {"a": inner}}))
}

#[test]
fn schemas_are_bounded_and_about_objects() {
    let of = |schema| ServerToolDescription {
        schema,
        ..tool("t")
    };
    for (schema, note) in [
        (json!([]), "is no JSON object"),
        (json!({"type": "string"}), "is not about an object"),
        (
            json!({"title": "x".repeat(SCHEMA_BYTES_MAX)}),
            "expected at most 32768",
        ),
        (deep(SCHEMA_DEPTH_MAX), "nested deeper than 32 levels"),
    ] {
        check_offered(&rules("s"), &[of(schema)], &[], &[note]);
    }
    for schema in [
        json!({}),
        json!({"title": "x".repeat(20_000)}),
        deep(SCHEMA_DEPTH_MAX / 2 - 1),
    ] {
        check_offered(&rules("s"), &[of(schema)], &["mcp__s__t"], &[]);
    }
}

#[test]
fn descriptions_of_server_tools_show_hidden_characters() {
    let hostile = ServerToolDescription {
        description: format!("a\u{1b}[2Jb\n\u{202e}c{}", "x".repeat(3000)),
        schema: json!({"properties": {"p\u{200b}": {"description": "d\u{1b}\ne", "enum": ["\u{7}"]}}}),
        ..tool("t")
    };
    let (tools, _) = offer_tools(&rules("s"), &[hostile]);
    let offer = &tools[0].offer;
    assert!(
        offer.description.starts_with("a\\u{1b}[2Jb\n\\u{202e}cxx"),
        "{}",
        offer.description
    );
    assert_eq!(offer.description.chars().count(), DESCRIPTION_CHARS_MAX + 1);
    let expected = json!({
        "properties": {"p\\u{200b}": {"description": "d\\u{1b}\ne", "enum": ["\\u{7}"]}},
        "type": "object",
    });
    assert_eq!(offer.parameters, expected);
}

#[test]
fn a_full_name_belongs_to_the_first_tool_that_has_it() {
    let (one, _) = offer_tools(&rules("a__b"), &[tool("c")]);
    let (other, _) = offer_tools(&rules("a"), &[tool("b__c"), tool("d")]);
    let mut catalogue = ToolCatalogue::default();
    assert!(catalogue.add(one).is_empty());
    let notes = catalogue.add(other);
    assert!(notes[0].contains("`mcp__a__b__c` is taken"), "{notes:?}");
    assert_eq!(
        catalogue.find("mcp__a__b__c").unwrap().server.as_str(),
        "a__b"
    );
    assert_eq!(
        catalogue.names().collect::<Vec<_>>(),
        ["mcp__a__b__c", "mcp__a__d"]
    );
}

/// Returns a tool with these properties in its schema, and these `content` arguments in the config.
fn describe_server_tool(properties: &Value, content: &[&str]) -> ServedTool {
    let described = ServerToolDescription {
        schema: json!({
            "properties": properties,
            "$defs": {"text": {"type": "string", "contentMediaType": "text/plain"}},
        }),
        ..tool("t")
    };
    let rules = ServedToolRules {
        content: names(content),
        ..rules("s")
    };
    offer_tools(&rules, &[described]).0.remove(0)
}

/// Returns the paths that a call with these arguments names.
fn paths(tool: &ServedTool, arguments: &Value) -> Result<Vec<String>, String> {
    match tool.parse_call(&arguments.to_string()) {
        Ok(ToolCall::CallServer(call)) => {
            let paths = call.paths.iter();
            Ok(paths
                .map(|touched| touched.path.as_str().to_owned())
                .collect())
        }
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

#[track_caller]
fn check_paths(arguments: &Value, expected: &[&str]) {
    let actual = paths(
        &describe_server_tool(&json!({"a": {}, "b": {}}), &[]),
        arguments,
    );
    assert_eq!(actual.unwrap(), expected, "{arguments}");
}

#[test]
fn every_text_that_may_be_a_path_is_one() {
    check_paths(&json!({}), &[]);
    check_paths(&json!({"a": 1, "b": [true, null]}), &[]);
    check_paths(&json!({"a": "/etc/passwd"}), &["/etc/passwd"]);
    check_paths(&json!({"a": " /etc/passwd\n"}), &["/etc/passwd"]);
    check_paths(
        &json!({"a": "../x", "b": "src/main.rs"}),
        &["../x", "src/main.rs"],
    );
    check_paths(&json!({"a": "x", "b": "x"}), &["x"]);
    check_paths(&json!({"a": [[{"b": ["/x"]}]]}), &["/x", "b"]);
    check_paths(&json!({"a": {"/etc/shadow": 1}}), &["/etc/shadow"]);
    check_paths(&json!({"undeclared": "/x"}), &["/x", "undeclared"]);
    check_paths(
        &json!({"a": "--file=/etc/passwd"}),
        &["--file=/etc/passwd", "/etc/passwd"],
    );
    check_paths(
        &json!({"a": "https://example.org/x"}),
        &["https://example.org/x"],
    );
}

#[test]
fn uris_of_files_name_their_files() {
    for (uri, path) in [
        ("file:///etc/passwd", "/etc/passwd"),
        ("FILE:///etc/passwd", "/etc/passwd"),
        ("file:/etc/passwd", "/etc/passwd"),
        ("file://localhost/etc/pass%77d", "/etc/passwd"),
        ("file:///ws/%2e%2e/etc", "/etc"),
        ("file:///ws/..%2fetc", "/ws/../etc"),
    ] {
        check_paths(&json!({"a": uri}), &[path]);
    }
}

#[test]
fn strings_that_cannot_be_paths_are_not_checked_as_paths() {
    check_paths(&json!({"a": "a\u{0}b"}), &[]);
    check_paths(&json!({"a": ""}), &[]);
    check_paths(&json!({"a": "x".repeat(256)}), &[]);
    check_paths(&json!({"a": "x".repeat(255)}), &[&"x".repeat(255)]);
    check_paths(&json!({"a": "ab/".repeat(1366)}), &[]);
}

#[test]
fn ambiguous_paths_for_server_tools_are_refused() {
    let tool = describe_server_tool(&json!({"a": {}}), &[]);
    for text in ["~/x", "~", "~root/x", "file://host/x", "file:x%00"] {
        let error = paths(&tool, &json!({"a": text})).unwrap_err();
        assert!(
            error.contains("servers read in different ways"),
            "{text}: {error}"
        );
    }
    assert!(paths(&tool, &json!({"a": "~ 5 minutes"})).is_ok());
}

#[test]
fn the_schema_says_what_is_no_path() {
    for schema in [
        json!({"contentMediaType": "text/plain"}),
        json!({"contentEncoding": "base64"}),
        json!({"enum": ["/x", "/y"]}),
        json!({"const": "/x"}),
        json!({"format": "uuid"}),
        json!({"$ref": "#/$defs/text"}),
        json!({"anyOf": [{"type": "null"}, {"type": "string", "format": "date"}]}),
    ] {
        let tool = describe_server_tool(&json!({"a": schema}), &[]);
        assert_eq!(
            paths(&tool, &json!({"a": "/x"})).unwrap(),
            Vec::<String>::new(),
            "{schema}"
        );
    }
    for schema in [
        json!({}),
        json!({"type": "string", "format": "uri"}),
        json!({"enum": ["/y"]}),
        json!({"const": "/y"}),
        json!({"description": "content"}),
        json!({"$ref": "#/$defs/none"}),
        json!({"$ref": "#/properties/a"}),
        json!({"anyOf": [{"type": "string"}, {"type": "string", "format": "date"}]}),
        json!({"anyOf": [{"type": "null"}]}),
        // Schemas that refer to themselves, once and exponentially.
        json!({"anyOf": [{"$ref": "#/properties/a"}]}),
        json!({"anyOf": vec![json!({"$ref": "#/properties/a"}); 150]}),
    ] {
        let tool = describe_server_tool(&json!({"a": schema}), &[]);
        assert_eq!(
            paths(&tool, &json!({"a": "/x"})).unwrap(),
            ["/x"],
            "{schema}"
        );
    }
    let nested = json!({"a": {"type": "array", "items": {"contentMediaType": "x/y"}}});
    let tool = describe_server_tool(&nested, &[]);
    assert!(paths(&tool, &json!({"a": ["/x"]})).unwrap().is_empty());
}

#[test]
fn the_config_says_what_is_content() {
    let call = json!({"a": {"deep": ["/x"]}, "b": "/y"});
    let properties = || json!({"a": {}, "b": {}});
    for (content, expected) in [
        (["a"], vec!["/y"]),
        (["t.a"], vec!["/y"]),
        (["mcp__s__t.b"], vec!["/x", "deep"]),
        (["other.a"], vec!["/x", "/y", "deep"]),
        (["deep"], vec!["/x", "/y", "deep"]),
    ] {
        let actual = paths(&describe_server_tool(&properties(), &content), &call).unwrap();
        assert_eq!(actual, expected, "{content:?}");
    }
}

#[test]
fn arguments_are_bounded() {
    let tool = describe_server_tool(&json!({"a": {}}), &[]);
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    assert!(paths(&tool, &json!({"a": nested(DEPTH_MAX - 1)})).is_ok());
    let error = paths(&tool, &json!({"a": nested(DEPTH_MAX)})).unwrap_err();
    assert!(error.contains("deeper than 32 levels"), "{error}");
    let texts = |count: usize| {
        (0..count)
            .map(|n| json!(format!("f{n}")))
            .collect::<Vec<_>>()
    };
    assert!(paths(&tool, &json!({"a": texts(TEXTS_MAX)})).is_ok());
    let error = paths(&tool, &json!({"a": texts(TEXTS_MAX + 1)})).unwrap_err();
    assert!(error.contains("more than 1024 texts"), "{error}");
    let long = "x".repeat(3 << 20);
    assert!(
        paths(&tool, &json!({"a": long})).is_ok(),
        "a big file can be written"
    );
    for (text, expected) in [
        ("[1]", "no JSON object"),
        ("{", "not valid JSON"),
        ("5", "no JSON"),
    ] {
        let error = tool.parse_call(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    for text in ["", "null", "{}", "\"{}\""] {
        assert!(tool.parse_call(text).is_ok(), "{text}");
    }
}

#[test]
fn effects_outside_are_what_the_config_says() {
    let some = ServedToolRules {
        harmless: names(&["read", "mcp__s__look"]),
        ..rules("s")
    };
    let all = [tool("read"), tool("look"), tool("send")];
    let (tools, _) = offer_tools(&some, &all);
    let outside: Vec<OutsideEffects> = tools.iter().map(|tool| tool.outside).collect();
    let expected = [
        OutsideEffects::None,
        OutsideEffects::None,
        OutsideEffects::Some,
    ];
    assert_eq!(outside, expected);
}

#[test]
fn resources_and_prompts_are_two_tools_each() {
    let features = [ServerFeature::Resources, ServerFeature::Prompts];
    let described: Vec<ServerToolDescription> = features
        .into_iter()
        .flat_map(ServerFeature::tool_descriptions)
        .collect();
    let expected = [
        "mcp__s__list_resources",
        "mcp__s__read_resource",
        "mcp__s__list_prompts",
        "mcp__s__get_prompt",
    ];
    check_offered(&rules("s"), &described, &expected, &[]);
    let (tools, _) = offer_tools(&rules("s"), &described);
    let read = paths(&tools[1], &json!({"uri": "file:///etc/passwd"}));
    assert_eq!(read.unwrap(), ["/etc/passwd"]);
}
