//! A whole run of the real binary with a team of Claudes, who play by simple rules: they write a
//! file, answer, vote for the first agent and present.

use serde_json::{Value, json};

use crate::claude_wire::{block, call_block, message_end, message_start, text_block};
use crate::http_server::{Answer, Endpoint, Recorded};
use crate::project::Project;

/// What a model says. It thinks before each call, and refuses to go on unless it is given back what
/// it thought.
fn play(request: &Recorded) -> Answer {
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
        return Answer::whole("400 Bad Request", &[], "the thinking is not there");
    }
    let offers = |name: &str| body["tools"].to_string().contains(&format!("\"{name}\""));
    let (name, arguments) = match replies.len() {
        _ if !offers("vote") => return answer(&format!("It is forty-two, {model} is sure."), None),
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
    answer("", Some((name, &arguments.to_string())))
}

fn answer(text: &str, call: Option<(&str, &str)>) -> Answer {
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
    events.iter().fold(Answer::stream(), Answer::piece).end()
}

#[test]
fn a_team_of_claudes_agrees_on_an_answer() {
    let endpoint = Endpoint::answering(play);
    let agent = |id: &str, model: &str| {
        let url = &endpoint.server.url;
        format!(
            "  - id: {id}\n    backend: {{type: claude, base_url: \"{url}\", model: {model}, \
             cwd: {id}, thinking: {{type: adaptive}}}}\n"
        )
    };
    let agents = [agent("one", "m1"), agent("two", "m2")].concat();
    let finished = Project::new()
        .file("team.yaml", format!("agents:\n{agents}"))
        .args(["--config", "team.yaml", "What is six times seven?"])
        .success();
    assert_eq!(finished.stdout(), "It is forty-two, m1 is sure.\n");
    let requests = endpoint.server.requests();
    assert_eq!(requests.len(), 7);
    let tokens = "700 tokens read, 70 written";
    assert!(finished.stderr().contains(tokens), "{}", finished.stderr());
    for request in requests {
        let body = request.json();
        assert_eq!(body["thinking"], json!({"type": "adaptive"}));
        assert_eq!(
            body["system"][0]["cache_control"],
            json!({"type": "ephemeral"})
        );
        let marks = request.body.matches("cache_control").count();
        assert!((2..=4).contains(&marks), "{marks}");
    }
}
