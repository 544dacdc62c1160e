//! Tests how lines from external agents are decoded.

use serde_json::{Value, json};

use crate::backend::external_agent::acp::{self, AcpProtocol};
use crate::backend::external_agent::claude::ClaudeCodeProtocol;
use crate::backend::external_agent::codex::CodexProtocol;
use crate::backend::external_agent::protocol::{
    AgentEvent, AgentProtocol, AgentRequest, ExternalAgentError, LaunchContext, is_massgen_tool,
};
use crate::config::external_agents::AgentReasoning;
use crate::path::AbsPath;
use crate::spending::TokenUsage;
use crate::tools::external_tools::ExternalToolAction;

fn launch_context() -> LaunchContext {
    let path = |text| AbsPath::new(text).unwrap();
    LaunchContext {
        dir: path("/w"),
        massgen: path("/bin/massgen"),
        socket: path("/r/agent"),
        directories: vec![path("/p"), path("/a,b")],
        model: Some("m".to_owned()),
        reasoning: AgentReasoning {
            effort: Some("high".to_owned()),
            summary: None,
        },
    }
}

fn decode(
    protocol: &mut dyn AgentProtocol,
    message: &Value,
) -> Result<Vec<AgentEvent>, ExternalAgentError> {
    protocol.decode_line(&message.to_string())
}

fn sent_line(events: &[AgentEvent]) -> Value {
    match events {
        [AgentEvent::Send(line)] => serde_json::from_str(line).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Returns an ACP agent whose first prompt has been sent.
fn prompted_agent() -> AcpProtocol {
    let mut acp = AcpProtocol::new(acp::plain_launch);
    let first: Vec<Value> = acp
        .encode_first_turn(&launch_context(), "the task".to_owned())
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(first[0]["params"]["clientCapabilities"]["terminal"], false);
    let initialized = json!({"id": 0, "result": {"protocolVersion": 1}});
    let new = sent_line(&decode(&mut acp, &initialized).unwrap());
    assert_eq!(new["params"]["mcpServers"][0]["args"][3], "/r/agent");
    let there = json!({"id": 1, "result": {"sessionId": "s"}});
    let prompt = sent_line(&decode(&mut acp, &there).unwrap());
    assert_eq!(prompt["params"]["prompt"][0]["text"], "the task");
    acp
}

#[test]
fn an_acp_agent_is_initialized_prompted_and_decoded() {
    let mut acp = prompted_agent();
    let chunk = |kind: &str| {
        let content = json!({"type": "text", "text": "x"});
        json!({"method": "session/update", "params": {"update": {
            "sessionUpdate": kind, "content": content}}})
    };
    let mut decode_next = |message: &Value| decode(&mut acp, message).unwrap();
    assert_eq!(
        decode_next(&chunk("agent_message_chunk")),
        [AgentEvent::Text("x".to_owned())]
    );
    assert_eq!(
        decode_next(&chunk("agent_thought_chunk")),
        [AgentEvent::Reasoning("x".to_owned())]
    );
    assert_eq!(decode_next(&chunk("plan")), []);
    assert_eq!(
        decode_next(&json!({"id": 2, "result": {"stopReason": "end_turn"}})),
        [AgentEvent::TurnEnded]
    );
    assert_eq!(decode_next(&json!({"id": 9, "result": {}})), []);
    let refused = sent_line(&decode_next(
        &json!({"id": "t", "method": "terminal/create", "params": {}}),
    ));
    assert_eq!(refused["error"]["code"], -32601);
    assert_eq!(acp.decode_line("Welcome to the program!"), Ok(Vec::new()));
}

#[test]
fn an_acp_agent_that_refuses_is_reported() {
    let refuses = |id: u64| json!({"id": id, "error": {"code": 1, "message": "no key"}});
    let reason = "the program reported an error: no key".to_owned();
    assert_eq!(
        decode(&mut prompted_agent(), &refuses(1)),
        Err(ExternalAgentError::Permanent(reason.clone()))
    );
    let failed = AgentEvent::Failed(ExternalAgentError::Transient(reason));
    assert_eq!(decode(&mut prompted_agent(), &refuses(2)), Ok(vec![failed]));
    let other = json!({"id": 0, "result": {"protocolVersion": 7}});
    assert!(matches!(
        decode(&mut prompted_agent(), &other),
        Err(ExternalAgentError::Permanent(_))
    ));
}

#[test]
fn only_a_turn_that_has_begun_is_cancelled() {
    assert_eq!(
        AcpProtocol::new(acp::plain_launch).encode_cancel(),
        Vec::<String>::new()
    );
    let cancel: Value = serde_json::from_str(&prompted_agent().encode_cancel()[0]).unwrap();
    assert_eq!(cancel["method"], "session/cancel");
    assert_eq!(cancel["params"]["sessionId"], "s");
    assert_eq!(cancel.get("id"), None);
    let unanswered = prompted_agent()
        .encode_permission_response(&json!(5), None)
        .unwrap();
    assert!(
        unanswered.contains(r#""outcome":"cancelled""#),
        "{unanswered}"
    );
    let ended = decode(
        &mut prompted_agent(),
        &json!({"id": 2, "result": {"stopReason": "cancelled"}}),
    );
    assert_eq!(ended, Ok(vec![AgentEvent::TurnEnded]));
}

#[test]
fn an_acp_agent_counts_each_turn_in_one_of_several_ways() {
    /// `expected` is input, of which cached, output, of which reasoning.
    #[track_caller]
    fn check(result: &Value, expected: [u64; 4]) {
        let ended = decode(&mut prompted_agent(), &json!({"id": 2, "result": result})).unwrap();
        let usage = match ended.as_slice() {
            [AgentEvent::Usage(usage), AgentEvent::TurnEnded] => *usage,
            [AgentEvent::TurnEnded] => TokenUsage::default(),
            other => panic!("{other:?}"),
        };
        let counts = [
            usage.input_tokens,
            usage.cached_tokens,
            usage.output_tokens,
            usage.reasoning_tokens,
        ];
        assert_eq!(counts, expected, "{result}");
    }

    let counts = |input: u64, cached: u64, thought: u64, total: u64| {
        json!({"usage": {"inputTokens": input, "outputTokens": 20, "cachedReadTokens": cached,
            "thoughtTokens": thought, "totalTokens": total}})
    };
    check(&counts(100, 60, 5, 120), [100, 60, 20, 5]);
    check(&counts(100, 60, 5, 180), [160, 60, 20, 5]);
    check(&counts(100, 60, 5, 185), [160, 60, 25, 5]);
    check(&counts(100, 60, 5, 125), [100, 60, 25, 5]);
    // Without a sum, the input and output are the whole, unless that is impossible.
    check(&counts(100, 60, 5, 0), [100, 60, 20, 5]);
    check(&counts(10, 60, 0, 0), [70, 60, 20, 0]);
    let quota = json!({"token_count": {"input_tokens": 7, "output_tokens": 2}});
    check(&json!({"_meta": {"quota": quota}}), [7, 0, 2, 0]);
    check(&json!({"stopReason": "end_turn"}), [0; 4]);
}

#[test]
fn an_acp_agent_reports_what_its_session_has_cost() {
    let mut acp = prompted_agent();
    let mut turn = |id: u64, cost: Option<Value>| {
        if let Some(cost) = cost {
            let update = json!({"sessionUpdate": "usage_update", "cost": cost});
            let notification = json!({"method": "session/update", "params": {"update": update}});
            assert_eq!(decode(&mut acp, &notification), Ok(Vec::new()));
        }
        let ended = decode(&mut acp, &json!({"id": id, "result": {}})).unwrap();
        acp.encode_turn("again".to_owned());
        match ended.as_slice() {
            [AgentEvent::Cost(cost), AgentEvent::TurnEnded] => Some(cost.to_string()),
            [AgentEvent::TurnEnded] => None,
            other => panic!("{other:?}"),
        }
    };
    let dollars = |amount: f64| Some(json!({"amount": amount, "currency": "USD"}));
    assert_eq!(turn(2, dollars(0.25)).as_deref(), Some("0.25"));
    assert_eq!(turn(3, dollars(0.75)).as_deref(), Some("0.5"));
    assert_eq!(turn(4, None), None);
    let other = json!({"amount": 9, "currency": "EUR"});
    assert_eq!(turn(5, Some(other)), None);
}

#[track_caller]
fn check_permission(call: &Value, expected: &str) {
    check_announced_permission(&json!([]), call, expected);
}

/// Checks what a permission request is about after these updates.
#[track_caller]
fn check_announced_permission(announced: &Value, call: &Value, expected: &str) {
    let mut acp = prompted_agent();
    for update in announced.as_array().unwrap() {
        let mut update = update.clone();
        update["toolCallId"] = json!("c");
        let notification = json!({"method": "session/update", "params": {"update": update}});
        decode(&mut acp, &notification).unwrap();
    }
    let mut call = call.clone();
    if call.get("toolCallId").is_none() {
        call["toolCallId"] = json!("c");
    }
    let options = json!([{"optionId": "y", "kind": "allow_once"}]);
    let message = json!({"id": 5, "method": "session/request_permission", "params": {
        "toolCall": call, "options": options}});
    let events = decode(&mut acp, &message).unwrap();
    let [AgentEvent::Request(_, request)] = events.as_slice() else {
        panic!("{events:?}");
    };
    let AgentRequest::Permission(permission) = &**request else {
        panic!("{request:?}");
    };
    let action = permission
        .action
        .as_ref()
        .map(|requested| &requested.action);
    let mut description = match action {
        Ok(ExternalToolAction::Nothing) => "nothing".to_owned(),
        Ok(ExternalToolAction::Command { line, .. }) => format!("run {line}"),
        Ok(ExternalToolAction::Call(call)) => format!("{} {}", call.name(), call.input()),
        Err(reason) => (*reason).clone(),
    };
    let directories = permission
        .action
        .iter()
        .flat_map(|requested| &requested.directories);
    for directory in directories {
        description = format!("{description} below {}", directory.as_str());
    }
    assert!(description.contains(expected), "{description}");
    assert_eq!(
        (
            permission.allow_option.as_deref(),
            permission.reject_option.as_deref()
        ),
        (Some("y"), None)
    );
}

#[test]
fn a_permission_covers_what_the_request_states_clearly() {
    let at = |kind: &str, path: &str| json!({"kind": kind, "locations": [{"path": path}]});
    check_permission(
        &at("read", "/etc/passwd"),
        "read_text_file {\"path\":\"/etc/passwd\"",
    );
    check_permission(&at("search", "sub"), "/w/sub");
    check_permission(&at("edit", "a.txt"), "write_file {\"path\":\"/w/a.txt\"");
    check_permission(&at("delete", "a.txt"), "delete_file");
    check_permission(
        &json!({"kind": "execute", "rawInput": {"command": "ls"}}),
        "run ls",
    );
    check_permission(&json!({"kind": "execute", "title": "ls -l"}), "run ls -l");
    check_permission(&json!({"kind": "think"}), "nothing");
    check_permission(
        &json!({"kind": "other", "toolCallId": "mcp_massgen_vote-17"}),
        "nothing",
    );
    let diff = json!([{"type": "diff", "path": "/w/b", "newText": "x"}]);
    check_permission(&json!({"kind": "edit", "content": diff}), "/w/b");
    let two = json!([{"path": "/w/a"}, {"path": "/etc/passwd"}]);
    check_permission(
        &json!({"kind": "edit", "locations": two}),
        "it names several paths",
    );
    check_permission(&json!({"kind": "edit"}), "it does not say at which path");
    check_permission(&json!({"kind": "execute"}), "it does not say which command");
    check_permission(&at("fetch", "/w/a"), "it does not say what it would do");
    check_permission(&at("other", "/w/a"), "write_file {\"path\":\"/w/a\"");
    let with = |name: &str| {
        let mut call = at("other", "/w/a");
        call["rawInput"] = json!({name: "x"});
        call
    };
    check_permission(&with("description"), "write_file");
    for name in ["command", "cmd", "script", "code", "url"] {
        check_permission(&with(name), "it does not say what it would do");
    }
    check_permission(
        &json!({"kind": "think", "locations": [{"path": "/w/a"}]}),
        "it does not say what it would do",
    );
    check_permission(
        &json!({"kind": "other"}),
        "it does not say what it would do",
    );
    check_permission(&json!({}), "it does not say what it would do");
}

#[test]
fn a_permission_request_that_contradicts_itself_is_not_understood() {
    let edit =
        |input: Value| json!({"kind": "edit", "locations": [{"path": "a"}], "rawInput": input});
    check_permission(
        &edit(json!({"file_path": "/w/a"})),
        "write_file {\"path\":\"/w/a\"",
    );
    check_permission(
        &edit(json!({"file_path": "/etc/passwd"})),
        "it names several paths",
    );
    check_permission(
        &json!({"kind": "edit", "locations": [{"path": "file:///etc/passwd"}]}),
        "it names an address",
    );
    check_permission(
        &json!({"kind": "edit", "locations": [{}]}),
        "it does not say at which path",
    );
    let execute = |input: Value| json!({"kind": "execute", "title": "ls", "rawInput": input});
    check_permission(&execute(json!({})), "run ls");
    check_permission(
        &execute(json!({"command": ["bash", "-c", "sudo ls"]})),
        "its command is not text",
    );
    check_permission(
        &execute(json!({"command": null})),
        "its command is not text",
    );
    check_permission(
        &execute(json!({"cmd": "sudo ls"})),
        "it does not say which command",
    );
    check_permission(
        &execute(json!({"command": "ls", "cwd": 1})),
        "it does not say in which directory",
    );
    let two = json!({"command": "ls", "cwd": "/w", "workdir": "/etc"});
    check_permission(&execute(two), "it does not say in which directory");
    check_permission(
        &json!({"kind": "think", "rawInput": {"command": "ls"}}),
        "it does not say what",
    );
    check_permission(
        &json!({"kind": "execute", "toolCallId": "mcp_massgen_vote-17", "title": "sudo ls"}),
        "run sudo ls",
    );
}

/// What Claude Code, Codex and opencode send over the protocol.
#[test]
fn a_permission_is_understood_with_what_was_announced_before() {
    let announce = |kind: &str, input: Value| json!({"sessionUpdate": "tool_call", "kind": kind, "rawInput": input, "title": "t"});
    let shell = json!({"command": "ls", "description": "x"});
    let update = |input: Value| json!({"sessionUpdate": "tool_call_update", "rawInput": input});
    let cases = [
        // The kind is in the announcement alone, and the arguments come later.
        (
            json!([announce("execute", json!({})), update(shell.clone())]),
            json!({"rawInput": shell, "title": "`ls`"}),
            "run ls",
        ),
        (
            json!([announce("execute", shell.clone())]),
            json!({"rawInput": {"command": "sudo ls"}}),
            "it names two commands",
        ),
        (
            json!([announce("execute", shell.clone())]),
            json!({}),
            "run ls",
        ),
        (
            json!([announce("execute", json!({"command": ["sudo", "ls"]}))]),
            json!({"title": "ls"}),
            "its command is not text",
        ),
        (
            json!([announce("edit", json!({"file_path": "a"}))]),
            json!({"rawInput": {"file_path": "a"}}),
            "write_file {\"path\":\"/w/a\"",
        ),
        (
            json!([announce("edit", json!({"file_path": "/etc/passwd"}))]),
            json!({"rawInput": {"file_path": "a"}}),
            "it names several paths",
        ),
        // `other` says less than the announcement; another kind contradicts it.
        (
            json!([announce("read", json!({}))]),
            json!({"kind": "other", "locations": [{"path": "/p/a"}, {"path": "/p"}],
                "rawInput": {"filepath": "/p/a", "parentDir": "/p"}}),
            "read_text_file {\"path\":\"/p/a\"",
        ),
        (
            json!([announce("edit", json!({}))]),
            json!({"kind": "other", "locations": [{"path": "/p/a"}, {"path": "/p"}]}),
            "write_file {\"path\":\"/p/a\"",
        ),
        (
            json!([announce("edit", json!({"file_path": "a"}))]),
            json!({"kind": "read", "locations": [{"path": "a"}]}),
            "it was announced as something else",
        ),
        // What has ended, or is another call, says nothing.
        (
            json!([announce("execute", shell.clone()), {"sessionUpdate": "tool_call_update", "status": "failed"}]),
            json!({}),
            "it does not say what it would do",
        ),
        (
            json!([announce("execute", shell)]),
            json!({"toolCallId": "other"}),
            "it does not say what it would do",
        ),
    ];
    for (announced, call, expected) in cases {
        check_announced_permission(&announced, &call, expected);
    }
    let below = |kind: &str, dir: &str| json!({"kind": kind, "locations": [{"path": "/p/q/a"}, {"path": dir}]});
    check_permission(&below("edit", "/p"), "below /p");
    check_permission(&below("edit", "/p/q/b"), "it names several paths");
    check_permission(&below("delete", "/p"), "it names several paths");
}

#[test]
fn a_call_over_the_agent_socket_is_recognised_by_a_field_that_models_cannot_set() {
    let codex = |tool: &str, server: &str, title: &str| {
        let input = json!({"server": server, "tool": tool, "arguments": {"content": "x"}});
        json!([{"sessionUpdate": "tool_call", "title": title, "rawInput": input}])
    };
    let approve = json!({"title": "Approve MCP tool call", "rawInput": {"server_name": "massgen"}});
    let title = "Tool: massgen/new_answer";
    let unknown = "it does not say what it would do";
    for (announced, expected) in [
        (codex("new_answer", "massgen", title), "nothing"),
        (codex("vote", "massgen", title), unknown),
        (codex("new_answer", "other", title), unknown),
        (
            codex("new_answer", "massgen", "Tool: other/new_answer"),
            unknown,
        ),
    ] {
        check_announced_permission(&announced, &approve, expected);
    }
    let called = |title: &str, more: Value| {
        let mut call = json!({"kind": "other", "title": title, "rawInput": {"content": "x"}});
        call.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        call
    };
    let own_tool = "mcp__massgen__new_answer";
    check_permission(&called(own_tool, json!({})), "nothing");
    check_permission(
        &json!({"title": own_tool, "rawInput": {"content": "x"}}),
        "nothing",
    );
    check_permission(&called("massgen_vote", json!({})), "nothing");
    for (title, more) in [
        (own_tool, json!({"kind": "fetch"})),
        (own_tool, json!({"rawInput": {"command": own_tool}})),
        ("mcp__massgen__vote; sudo ls", json!({})),
        ("mcp__other__massgen_vote", json!({})),
        ("mcp__massgen__", json!({})),
        ("`mcp__massgen__vote`", json!({})),
    ] {
        check_permission(&called(title, more), unknown);
    }
    let places = json!({"locations": [{"path": "/w/a"}]});
    check_permission(&called(own_tool, places), "write_file");
    check_permission(
        &called(own_tool, json!({"kind": "execute", "rawInput": {}})),
        "run mcp__massgen",
    );
}

#[test]
fn each_call_of_an_acp_agent_is_shown_once_with_what_is_known_of_it() {
    #[track_caller]
    fn check(updates: &Value, expected: &[&str]) {
        let mut acp = prompted_agent();
        let mut events = Vec::new();
        for update in updates.as_array().unwrap() {
            let mut update = update.clone();
            update["toolCallId"] = json!("c");
            let notification = json!({"method": "session/update", "params": {"update": update}});
            events.extend(decode(&mut acp, &notification).unwrap());
        }
        events.extend(decode(&mut acp, &json!({"id": 2, "result": {}})).unwrap());
        let shown = events.iter().filter_map(|event| {
            if let AgentEvent::NativeToolCall(own) = event {
                return Some(format!("{} {}", own.tool, own.detail));
            }
            (*event == AgentEvent::ToolCallCompleted).then(|| "done".to_owned())
        });
        assert_eq!(shown.collect::<Vec<_>>(), expected, "{updates}");
    }

    let (call, update) = ("tool_call", "tool_call_update");
    check(
        &json!([
            {"sessionUpdate": call, "title": "write", "kind": "edit", "status": "pending", "rawInput": {}},
            {"sessionUpdate": update, "status": "in_progress", "locations": [{"path": "/w/a"}]},
            {"sessionUpdate": update, "status": "completed"},
            {"sessionUpdate": update, "status": "completed", "title": "again"},
        ]),
        &["edit write /w/a", "done"],
    );
    // Gemini CLI reports some calls when they have ended.
    check(
        &json!([{"sessionUpdate": update, "status": "completed", "kind": "execute", "title": "ls"}]),
        &["execute ls", "done"],
    );
    let text = json!([{"type": "content", "content": {"type": "text", "text": "not there"}}]);
    check(
        &json!([{"sessionUpdate": update, "status": "failed", "kind": "edit", "content": text}]),
        &["edit not there"],
    );
    // A call that never gets its arguments is shown at the end.
    check(
        &json!([{"sessionUpdate": call, "title": "Terminal", "kind": "execute", "rawInput": {}}]),
        &["execute Terminal"],
    );
}

#[test]
fn plans_that_external_agents_report_are_read() {
    #[track_caller]
    fn check(protocol: &mut dyn AgentProtocol, message: &Value, expected: &Value) {
        let events = protocol.decode_line(&message.to_string()).unwrap();
        let mut plans = events.iter().filter_map(|event| {
            let AgentEvent::Plan(plan) = event else {
                return None;
            };
            Some(json!(plan))
        });
        let plan = plans.next().unwrap_or_default();
        assert_eq!(plan, *expected, "{message}");
    }
    let entry = |content: &str, status: &str| json!({"content": content, "status": status});
    let acp = |entries: &Value| {
        let update = json!({"sessionUpdate": "plan", "entries": entries});
        json!({"method": "session/update", "params": {"update": update}})
    };
    let entries = json!([
        {"content": "a\n b", "priority": "high", "status": "completed"},
        {"content": "c", "status": "odd"}, {"content": 7}, "x",
    ]);
    let expected = json!([entry("a b", "completed"), entry("c", "pending")]);
    check(&mut prompted_agent(), &acp(&entries), &expected);
    check(&mut prompted_agent(), &acp(&json!("x")), &Value::Null);
    let claude = |tool: &str| {
        let input =
            json!({"todos": [{"content": "a", "status": "in_progress", "activeForm": "x"}]});
        let block = json!({"type": "tool_use", "name": tool, "input": input});
        json!({"type": "assistant", "message": {"content": [block]}})
    };
    let expected = json!([entry("a", "in_progress")]);
    let mut agent = ClaudeCodeProtocol::default();
    check(&mut agent, &claude("TodoWrite"), &expected);
    check(&mut agent, &claude("Other"), &Value::Null);
    let item = json!({"type": "todo_list", "items": [
        {"text": "a", "completed": true}, {"text": "b", "completed": false},
    ]});
    let expected = json!([entry("a", "completed"), entry("b", "pending")]);
    for kind in ["item.started", "item.updated", "item.completed"] {
        let message = json!({"type": kind, "item": item});
        check(&mut CodexProtocol::default(), &message, &expected);
    }
}

#[test]
fn announced_calls_are_stored_up_to_a_limit() {
    let mut acp = prompted_agent();
    let mut announce = |id: &str, line: &str| {
        let update = json!({"sessionUpdate": "tool_call", "toolCallId": id, "kind": "execute",
            "rawInput": {"command": line}});
        decode(
            &mut acp,
            &json!({"method": "session/update", "params": {"update": update}}),
        )
        .unwrap();
    };
    announce("long", &"x".repeat(70_000));
    // Calls without an id are not the same call.
    announce("", "ls");
    for id in 0..256 {
        announce(&id.to_string(), "ls");
    }
    announce("last", "ls");
    let mut is_known = |id: &str| {
        let request = json!({"id": 5, "method": "session/request_permission",
            "params": {"toolCall": {"toolCallId": id}}});
        let events = decode(&mut acp, &request).unwrap();
        !format!("{events:?}").contains("it does not say what")
    };
    let known: Vec<bool> = ["long", "", "0", "1", "2", "255", "last"]
        .map(&mut is_known)
        .into();
    assert_eq!(known, [false, false, false, true, true, true, true]);
}

#[test]
fn gemini_cli_is_given_the_directories_that_it_reaches() {
    let launch = AcpProtocol::new(acp::gemini_launch).launch(&launch_context());
    let expected = ["--model", "m", "--include-directories", "/p"];
    assert_eq!(launch.arguments, expected);
    let plain = AcpProtocol::new(acp::plain_launch).launch(&launch_context());
    assert_eq!(plain.arguments, Vec::<String>::new());
}

#[test]
fn only_the_full_name_identifies_a_tool_of_the_agent_socket() {
    for (name, expected) in [
        ("mcp__massgen__vote", true),
        ("mcp_massgen_vote", true),
        ("mcp__massgenx__vote", false),
        ("mcp__other__massgen", false),
        ("massgen__vote", false),
        ("Bash", false),
    ] {
        assert_eq!(is_massgen_tool(name), expected, "{name}");
    }
}

#[test]
fn claude_code_reports_texts_calls_and_the_cost_of_each_turn() {
    let mut claude = ClaudeCodeProtocol::default();
    let block = |block: Value| json!({"type": "assistant", "message": {"content": [block]}});
    let text = block(json!({"type": "text", "text": "x"}));
    assert_eq!(
        decode(&mut claude, &text),
        Ok(vec![AgentEvent::Text("x".to_owned())])
    );
    let below = json!({"type": "assistant", "parent_tool_use_id": "t", "message": text["message"]});
    assert_eq!(decode(&mut claude, &below), Ok(Vec::new()));
    let call = block(json!({"type": "tool_use", "name": "Edit", "input": {"file_path": "a"}}));
    let events = decode(&mut claude, &call).unwrap();
    assert!(
        matches!(&events[..], [AgentEvent::NativeToolCall(own)] if own.tool == "Edit" && own.detail == "a")
    );
    let mut cost_of_turn = |all: f64| {
        let usage = json!({"input_tokens": 1, "cache_read_input_tokens": 2, "output_tokens": 3});
        let ended =
            json!({"type": "result", "is_error": false, "usage": usage, "total_cost_usd": all});
        match decode(&mut claude, &ended).unwrap().as_slice() {
            [
                AgentEvent::Usage(usage),
                AgentEvent::Cost(cost),
                AgentEvent::TurnEnded,
            ] => {
                assert_eq!(usage.input_tokens, 3);
                cost.to_string()
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(cost_of_turn(0.25), "0.25");
    assert_eq!(cost_of_turn(0.75), "0.5");
}

#[test]
fn transient_errors_of_claude_code_are_retried() {
    let fails = |status: u64, text: &str| {
        let ended =
            json!({"type": "result", "is_error": true, "result": text, "api_error_status": status});
        match decode(&mut ClaudeCodeProtocol::default(), &ended)
            .unwrap()
            .pop()
        {
            Some(AgentEvent::Failed(error)) => Err::<(), _>(error),
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(
        fails(529, "overloaded"),
        Err(ExternalAgentError::Transient(_))
    ));
    assert!(matches!(
        fails(429, "slow down"),
        Err(ExternalAgentError::Transient(_))
    ));
    assert!(matches!(
        fails(400, "no such model"),
        Err(ExternalAgentError::Permanent(_))
    ));
    assert!(matches!(
        fails(0, "Please run /login"),
        Err(ExternalAgentError::Permanent(_))
    ));
}

#[test]
fn requests_to_a_program_without_an_account_are_not_retried() {
    let codex = |text: &str| {
        let failed = json!({"type": "turn.failed", "error": {"message": text}});
        decode(&mut CodexProtocol::default(), &failed)
            .unwrap()
            .pop()
    };
    let acp = |code: i64, text: &str| {
        let failed = json!({"id": 2, "error": {"code": code, "message": text}});
        match decode(&mut prompted_agent(), &failed) {
            Ok(mut events) => events.pop(),
            Err(error) => Some(AgentEvent::Failed(error)),
        }
    };
    for (events, is_permanent) in [
        (
            codex("unexpected status 401 Unauthorized: Incorrect API key"),
            true,
        ),
        (codex("Not logged in. Please run codex login."), true),
        (codex("stream disconnected before completion"), false),
        (acp(-32000, "Authentication required"), true),
        (acp(-32603, "Invalid API key"), true),
        (acp(-32603, "overloaded"), false),
    ] {
        let expected = matches!(
            &events,
            Some(AgentEvent::Failed(ExternalAgentError::Permanent(_)))
        );
        assert_eq!(expected, is_permanent, "{events:?}");
    }
}

#[test]
fn codex_continues_its_thread() {
    let mut codex = CodexProtocol::default();
    let resumes = |codex: &CodexProtocol| {
        codex
            .launch(&launch_context())
            .arguments
            .contains(&"th".to_owned())
    };
    assert!(!resumes(&codex));
    let arguments = codex.launch(&launch_context()).arguments;
    assert!(arguments.contains(&"model_reasoning_effort=\"high\"".to_owned()));
    let started = json!({"type": "thread.started", "thread_id": "th"});
    assert_eq!(decode(&mut codex, &started), Ok(Vec::new()));
    assert!(resumes(&codex));
    let text = json!({"type": "item.completed", "item": {"type": "agent_message", "text": "x"}});
    assert_eq!(
        decode(&mut codex, &text),
        Ok(vec![AgentEvent::Text("x".to_owned())])
    );
    let failed = json!({"type": "turn.failed", "error": {"message": "no"}});
    let events = decode(&mut codex, &failed).unwrap();
    assert!(matches!(
        events.as_slice(),
        [AgentEvent::Failed(ExternalAgentError::Transient(_))]
    ));
    let mut turn = |count: u64| {
        let usage = json!({"input_tokens": count, "cached_input_tokens": 1, "output_tokens": 2});
        let ended = json!({"type": "turn.completed", "usage": usage});
        match decode(&mut codex, &ended).unwrap().as_slice() {
            [AgentEvent::Usage(usage), AgentEvent::TurnEnded] => usage.input_tokens,
            other => panic!("{other:?}"),
        }
    };
    // Codex counts the whole thread; a lower count belongs to a new one.
    assert_eq!([turn(10), turn(25), turn(7)], [10, 15, 7]);
    codex.encode_first_turn(&launch_context(), "again".to_owned());
    assert!(!resumes(&codex));
}
