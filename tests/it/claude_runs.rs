//! Runs of the real binary with a team of simulated Claude models that follow simple rules: they
//! write a file, answer, vote for the first agent and present.

use serde_json::{Value, json};

use crate::claude_wire::{block, call_block, message_end, message_start, text_block};
use crate::http_server::{Endpoint, ReceivedRequest, ScriptedResponse};
use crate::project::Project;

/// Plays the model. It thinks before each call, and refuses to continue unless its thinking is sent
/// back.
fn play_model(request: &ReceivedRequest) -> ScriptedResponse {
    let body = request.json();
    let model = body["model"].as_str().unwrap();
    let replies: Vec<&Value> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "assistant")
        .collect();
    let is_signed = |reply: &&&Value| reply["content"][0]["signature"] == "c2ln";
    if replies.iter().filter(is_signed).count() < replies.len() {
        return ScriptedResponse::whole("400 Bad Request", &[], "the thinking is not there");
    }
    let offers = |name: &str| body["tools"].to_string().contains(&format!("\"{name}\""));
    let (name, arguments) = match replies.len() {
        _ if !offers("vote") => {
            return stream_answer(&format!("It is forty-two, {model} is sure."), None);
        }
        0 => ("write_file", json!({"path": "n.txt", "content": "42"})),
        1 => (
            "new_answer",
            json!({"content": format!("forty-two, says {model}")}),
        ),
        _ => (
            "vote",
            json!({"agent_id": "agent1", "reason": "it is the first"}),
        ),
    };
    stream_answer("", Some((name, &arguments.to_string())))
}

fn stream_answer(text: &str, call: Option<(&str, &str)>) -> ScriptedResponse {
    let usage = json!({
        "input_tokens": 10, "cache_read_input_tokens": 80, "cache_creation_input_tokens": 10,
        "output_tokens": 1,
    });
    let thinking = json!({"type": "thinking", "thinking": "", "signature": ""});
    let thoughts = [
        json!({"type": "thinking_delta", "thinking": "Six by seven."}),
        json!({"type": "signature_delta", "signature": "c2ln"}),
    ];
    let mut events = vec![message_start(&usage)];
    events.extend(block(0, &thinking, &thoughts));
    let stop_reason = match call {
        None => {
            events.extend(text_block(1, &[text]));
            "end_turn"
        }
        Some((name, arguments)) => {
            let (head, tail) = arguments.split_at(arguments.len() / 2);
            events.extend(call_block(1, &format!("toolu_{name}"), name, &[head, tail]));
            "tool_use"
        }
    };
    events.extend(message_end(stop_reason, &json!({"output_tokens": 10})));
    events
        .iter()
        .fold(ScriptedResponse::stream(), ScriptedResponse::piece)
        .end()
}

/// Returns the requests of a run of a team whose agents have these models, with `more` keys.
fn requests_of(models: &[&str], more: &str) -> Vec<ReceivedRequest> {
    let endpoint = Endpoint::start_with(play_model);
    let url = &endpoint.server.url;
    let agents = models.iter().map(|model| {
        format!(
            "  - id: {model}\n    backend: {{type: claude, base_url: \"{url}\", model: {model}, \
             cwd: {model}, {more}}}\n"
        )
    });
    let team = format!("agents:\n{}", agents.collect::<String>());
    let finished = Project::new()
        .file("team.yaml", team)
        .args(["--config", "team.yaml", "What is six times seven?"])
        .success();
    assert_eq!(finished.stdout(), "It is forty-two, m1 is sure.\n");
    let requests = endpoint.server.requests();
    let (read, written) = (requests.len() * 100, requests.len() * 10);
    let tokens = format!("{read} tokens read, {written} written");
    assert!(finished.stderr().contains(&tokens), "{}", finished.stderr());
    requests
}

#[test]
fn a_team_of_claudes_agrees_on_an_answer() {
    let requests = requests_of(&["m1", "m2"], "thinking: {type: adaptive}");
    assert_eq!(requests.len(), 7);
    for request in requests {
        let body = request.json();
        assert_eq!(body["thinking"], json!({"type": "adaptive"}));
        let marked = json!({"type": "ephemeral"});
        assert_eq!(body["system"][0]["cache_control"], marked);
        let marks = request.body.matches("cache_control").count();
        assert!((2..=4).contains(&marks), "{marks}");
    }
}

#[test]
fn keys_of_a_config_reach_the_request() {
    let keys = "prompt_caching: false, betas: [b-2026-01-01], max_tokens: 900, stop: [END], \
                enable_web_search: true, user: ada";
    let requests = requests_of(&["m1"], keys);
    assert_eq!(requests.len(), 3);
    for request in requests {
        assert!(!request.body.contains("cache_control"), "{}", request.body);
        assert!(!request.body.contains("prompt_caching"), "{}", request.body);
        assert_eq!(request.headers["anthropic-beta"], "b-2026-01-01");
        let body = request.json();
        assert_eq!(body["max_tokens"], json!(900));
        assert_eq!(body["stop_sequences"], json!(["END"]));
        assert_eq!(body["metadata"], json!({"user_id": "ada"}));
        let tools = body["tools"].as_array().unwrap();
        assert_eq!(tools.last().unwrap()["name"], "web_search");
    }
}
