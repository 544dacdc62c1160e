//! Media that an agent has its vendor make, through the real binary and a simulated server of
//! OpenAI's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::external_agents;
use crate::http_server::{Endpoint, ReceivedRequest, ScriptedResponse};
use crate::openai_wire::{call_item, completed_event, message_item};
use crate::project::Project;
use crate::resume::{FinishedRecord, describe_output, massgen_command};

const KEY: &str = "sk-of-the-tests";
const IMAGE: &[u8] = b"\x89PNG of the tests";
const SPEECH: &[u8] = b"ID3 of the tests";

/// The calls of the model, in order, each with what the result must contain.
fn media_calls() -> Vec<(Value, &'static str)> {
    let image = |path: &str| json!({"mode": "image", "prompt": "a cat", "path": path});
    let refused = json!({"mode": "image", "prompt": "two", "path": "refused.png"});
    let useless = json!({"mode": "image", "prompt": "a dog", "path": "useless.png"});
    let speech = json!({"mode": "audio", "prompt": "Hello.", "path": "hello.mp3",
        "style": "cheerful"});
    vec![
        (image("cat.png"), "wrote 17 bytes"),
        (speech, "wrote 16 bytes"),
        (image("cat.png"), "it exists"),
        (image("cat.gif"), "ends in one of"),
        (image("../../outside.png"), "denied"),
        (refused, "no cats"),
        (useless, "not requested again"),
    ]
}

/// Plays OpenAI: a model that makes its calls one by one, answers and presents, and the models that
/// make media.
fn play_model(request: &ReceivedRequest) -> ScriptedResponse {
    assert_eq!(request.headers["authorization"], format!("Bearer {KEY}"));
    let body = request.json();
    let json = ["content-type: application/json"];
    match request.line.as_str() {
        "POST /v1/images/generations" => {
            assert_eq!(body["model"], "gpt-image-1");
            assert_eq!(body["output_format"], "png");
            let made = json!({"data": [{"b64_json": BASE64.encode(IMAGE)}],
                "usage": {"input_tokens": 11, "output_tokens": 1000}});
            let error =
                json!({"error": {"code": "content_policy_violation", "message": "no cats"}});
            let useless = json!({"data": [{"b64_json": "@"}],
                "usage": {"input_tokens": 11, "output_tokens": 70000}});
            match body["prompt"].as_str() {
                Some("a cat") => ScriptedResponse::whole("200 OK", &json, made.to_string()),
                Some("a dog") => ScriptedResponse::whole("200 OK", &json, useless.to_string()),
                _ => ScriptedResponse::whole("400 Bad Request", &json, error.to_string()),
            }
        }
        "POST /v1/audio/speech" => {
            let sent = json!({"model": "gpt-4o-mini-tts", "input": "Hello.", "voice": "alloy",
                "response_format": "mp3", "instructions": "cheerful"});
            assert_eq!(body, sent);
            ScriptedResponse::whole("200 OK", &["content-type: audio/mpeg"], SPEECH)
        }
        "POST /v1/responses" => model(&body),
        other => panic!("{other}"),
    }
}

/// Plays the model that makes the calls.
fn model(body: &Value) -> ScriptedResponse {
    let input = body["input"].as_array().unwrap().iter();
    let results: Vec<&Value> = input
        .filter(|item| item["type"] == "function_call_output")
        .collect();
    let (made, calls) = (results.len(), media_calls());
    for (result, (call, expected)) in results.iter().zip(&calls) {
        let result = result["output"].as_str().unwrap();
        assert!(result.contains(expected), "{call}: {result}");
    }
    let item = match calls.get(made) {
        _ if !body["tools"].to_string().contains("new_answer") => message_item("m", "Made."),
        Some((arguments, _)) => call_item(
            &format!("fc_{made}"),
            &format!("call_{made}"),
            "generate_media",
            &arguments.to_string(),
        ),
        None => {
            let content = json!({"content": "done"}).to_string();
            call_item("fc_answer", "call_answer", "new_answer", &content)
        }
    };
    ScriptedResponse::stream()
        .piece(completed_event(&json!([item])))
        .end()
}

/// Runs an agent that makes `calls` in one reply, in a run with these `limits`. Returns their results,
/// and the number of requests for media.
fn results_at_once(calls: Vec<Value>, limits: &str) -> (Vec<String>, usize) {
    let endpoint = Endpoint::start_with(move |request: &ReceivedRequest| -> ScriptedResponse {
        if request.line != "POST /v1/responses" {
            return play_model(request);
        }
        let call = |id: usize, name: &str, arguments: &Value| {
            let (item, id) = (format!("fc_{id}"), format!("call_{id}"));
            call_item(&item, &id, name, &arguments.to_string())
        };
        let items = if !request.json()["tools"].to_string().contains("new_answer") {
            vec![message_item("m", "Made.")]
        } else if request.body.contains("function_call_output") {
            vec![call(calls.len(), "new_answer", &json!({"content": "done"}))]
        } else {
            let calls = calls.iter().enumerate();
            calls
                .map(|(id, arguments)| call(id, "generate_media", arguments))
                .collect()
        };
        ScriptedResponse::stream()
            .piece(completed_event(&json!(items)))
            .end()
    });
    let url = &endpoint.server.url;
    let team = format!(
        "agent: {{id: a, backend: {{type: openai, model: gpt-4o, base_url: '{url}/v1', cwd: w, \
         enable_image_generation: true, enable_audio_generation: true}}}}\nlimits: {limits}\n"
    );
    Project::new()
        .file("team.yaml", team)
        .args(["--config", "team.yaml", "Make much."])
        .env("OPENAI_API_KEY", KEY)
        .success();
    let requests = endpoint.server.requests();
    let (asked, made): (Vec<_>, Vec<_>) = requests
        .iter()
        .partition(|request| request.line == "POST /v1/responses");
    let results = asked.iter().map(|request| {
        let body = request.json();
        let input = body["input"].as_array().unwrap().iter();
        let results = input.filter_map(|item| item["output"].as_str().map(str::to_owned));
        results.collect::<Vec<String>>()
    });
    let mut results = results.filter(|results| !results.is_empty());
    (results.next().unwrap(), made.len())
}

#[test]
fn media_is_made_as_often_as_its_limit_says_and_as_other_limits_can_be_enforced() {
    let image =
        |id: usize| json!({"mode": "image", "prompt": "a cat", "path": format!("{id}.png")});
    let (results, made) = results_at_once((0..66).map(image).collect(), "{max_tool_calls: 99}");
    let (first, last) = results.split_at(64);
    assert!(first.iter().all(|result| result.contains("wrote 17")));
    assert!(last.iter().all(|result| result.contains("64 times")));
    assert_eq!((last.len(), made), (2, 64));
    // OpenAI says how many tokens an image is, but not how many a speech is.
    let speech = json!({"mode": "audio", "prompt": "Hello.", "path": "hello.mp3"});
    let (results, made) = results_at_once(vec![speech, image(0)], "{max_tokens_total: 100000}");
    let refusal = "`gpt-4o-mini-tts` reports no usage, so `max_tokens_total` cannot be enforced";
    assert!(results[0].contains(refusal), "{results:?}");
    assert!(results[1].contains("wrote 17"), "{results:?}");
    assert_eq!(made, 1);
}

#[test]
fn an_agent_has_images_and_speech_made_into_new_files_of_its_workspace() {
    let endpoint = Endpoint::start_with(play_model);
    let url = &endpoint.server.url;
    let team = format!(
        "agent: {{id: a, backend: {{type: openai, model: gpt-4o, base_url: '{url}/v1', cwd: w, \
         enable_image_generation: true, enable_audio_generation: true}}}}\n"
    );
    let finished = Project::new()
        .file("team.yaml", team)
        .args(["--config", "team.yaml", "Make a cat that speaks."])
        .env("OPENAI_API_KEY", KEY)
        .success();
    let requests = endpoint.server.requests();
    let made = requests.iter().filter(|request| {
        let line = &request.line;
        line.contains("/images/") || line.contains("/audio/")
    });
    // What exists, has another name or is elsewhere is refused before the vendor is asked, and a reply
    // that cannot be used is requested once.
    assert_eq!(made.count(), 4, "{}", finished.stderr());
    let workspaces = finished.project().path(".massgen/workspaces");
    let mut workspaces = std::fs::read_dir(workspaces).unwrap();
    let workspace = workspaces.next().unwrap().unwrap().path();
    let file = |name: &str| std::fs::read(workspace.join(name));
    assert_eq!(file("cat.png").unwrap(), IMAGE);
    assert_eq!(file("hello.mp3").unwrap(), SPEECH);
    assert!(file("refused.png").is_err());
    let stderr = finished.stderr();
    // The useless image was paid for, too: the model itself writes 34 tokens in each of its replies.
    let replies = requests
        .iter()
        .filter(|request| request.line == "POST /v1/responses");
    let written = 1000 + 70_000 + 34 * replies.count();
    let used = stderr.lines().find(|line| line.contains("tokens read"));
    assert!(
        used.is_some_and(|used| used.contains(&format!("{written} written"))),
        "{written}: {stderr}"
    );
    finished.has_no(".massgen/outside.png");
}

/// Plays a model that answers at once, and as the final agent has an image made in the project and
/// one in its workspace.
fn final_images(request: &ReceivedRequest) -> ScriptedResponse {
    if request.line != "POST /v1/responses" {
        return play_model(request);
    }
    let body = request.json();
    let input = body["input"].as_array().unwrap().iter();
    let made = input.filter(|item| item["type"] == "function_call_output");
    let image = |path: &str| json!({"mode": "image", "prompt": "a cat", "path": path}).to_string();
    let item = if body["tools"].to_string().contains("new_answer") {
        let content = json!({"content": "done"}).to_string();
        call_item("fc_answer", "call_answer", "new_answer", &content)
    } else {
        match made.count() {
            0 => {
                let path = "../../../out/cat.png";
                call_item("fc_0", "call_0", "generate_media", &image(path))
            }
            1 => call_item("fc_1", "call_1", "generate_media", &image("cat.png")),
            _ => message_item("m", "Made."),
        }
    };
    ScriptedResponse::stream()
        .piece(completed_event(&json!([item])))
        .end()
}

#[test]
fn media_is_not_paid_for_again_when_a_run_is_resumed() {
    let endpoint = Endpoint::start_with(final_images);
    let url = &endpoint.server.url;
    let team = format!(
        "agent: {{id: a, backend: {{type: openai, model: gpt-4o, base_url: '{url}/v1', cwd: w, \
         enable_image_generation: true}}}}\norchestrator: {{coordination: {{write_mode: legacy}}, context_paths: [{{path: out, \
         permission: write}}]}}\n"
    );
    let project = Project::new().file("team.yaml", team).dir("out");
    let project = project.env("OPENAI_API_KEY", KEY);
    let record = FinishedRecord::of(project.args(["--config", "team.yaml"]));
    let made = || {
        let requests = endpoint.server.requests();
        let made = requests.iter();
        made.filter(|request| request.line.contains("/images/"))
            .count()
    };
    assert_eq!(made(), 2);
    let text = String::from_utf8(record.bytes.clone()).unwrap();
    for last in ["\"subagent_finished\"", "\"tool_finished\""] {
        let begin = text.rfind(last).unwrap();
        let end = begin + text.split_at(begin).1.find('\n').unwrap() + 1;
        record.cut(end);
        let arguments = ["--config", "team.yaml", "--continue"];
        let output = massgen_command(&record.project, &arguments)
            .output()
            .unwrap();
        let note = format!("after {last}: {}", describe_output(&output));
        assert_eq!(output.stdout, b"Made.\n", "{note}");
        assert_eq!(made(), 2, "{note}");
        let cat = std::fs::read(record.project.path("out/cat.png"));
        assert_eq!(cat.unwrap(), IMAGE, "{note}");
    }
}

/// The vendor that the config names is asked with its own key, for an agent that is a program too.
#[test]
fn an_external_agent_has_images_made_by_the_vendor_that_the_config_names() {
    let endpoint = Endpoint::start_with(play_model);
    let url = format!("{}/v1", endpoint.server.url);
    let keys = "enable_multimodal_tools: true\n      image_generation_backend: openai";
    let call = |prompt: &str, path: &str| json!(["call", "generate_media", {"mode": "image", "prompt": prompt, "path": path}]);
    let project = external_agents::external_agent_project()
        .env("OPENAI_BASE_URL", &url)
        .env("OPENAI_API_KEY", KEY);
    let spoken = json!(["call", "generate_media",
        {"mode": "audio", "prompt": "Hello.", "path": "hello.mp3"}]);
    let finished = external_agents::check_with(
        project,
        ("acp", keys),
        &[
            (call("a cat", "cat.png"), "wrote 17 bytes"),
            (call("a cat", "$/outside/cat.png"), "denied"),
            (spoken, "does not enable it"),
        ],
    );
    assert_eq!(endpoint.server.requests().len(), 1);
    let cat = finished.project().path("w1/cat.png");
    assert_eq!(std::fs::read(cat).unwrap(), IMAGE);
    // Without the key, the agent has no such tool, and a line says why.
    let listed = [
        (json!(["tools"]), "new_answer"),
        (call("a cat", "cat.png"), "there is no tool"),
    ];
    let finished = external_agents::check_with(
        external_agents::external_agent_project(),
        ("acp", keys),
        &listed,
    );
    let stderr = finished.stderr();
    assert!(stderr.contains("`OPENAI_API_KEY` is not set"), "{stderr}");
}
