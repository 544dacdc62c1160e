//! Runs whose models receive the images of a server's tool, over each wire format, or do not: as
//! the vendor supports them, as the config says, and up to the vendor's maximum number.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http_server::{Endpoint, ReceivedRequest, ScriptedResponse};
use crate::mcp::HOSTILE;
use crate::project::{FinishedCommand, Project};
use crate::waiting::wait_until;

/// Beginning of the test images' data: a PNG, three pixels wide and one high.
pub(crate) const DATA: &str = "iVBORw0KGgoAAAANSUhEUgAAAAMAAAABCAIAAA";
/// Rest of an image of that size.
pub(crate) const REST: &str = "CUgoPjAAAAFUlEQVR4AQEKAPX/AAAAAAAAAAAAAAAKAAEHJylUAAAAAElFTkSuQmCC";
/// Timeout for a run to reach the state that a test needs.
const WAIT_TIME_MAX: Duration = Duration::from_mins(2);

/// One wire format: its vendor, a reply that makes a call, and the format of an image.
pub(crate) struct WireFormatCase {
    pub(crate) vendor: &'static str,
    reply: fn(&str, &Value) -> Value,
    image: fn(&str) -> Value,
}

pub(crate) const CLAUDE: WireFormatCase = WireFormatCase {
    vendor: "claude",
    reply: |name, input| {
        let call = json!({"type": "tool_use", "id": name, "name": name, "input": input});
        json!({"type": "message", "role": "assistant", "content": [call], "stop_reason": "tool_use",
               "usage": {"input_tokens": 1, "output_tokens": 1}})
    },
    image: |data| {
        let source = json!({"type": "base64", "media_type": "image/png", "data": data});
        json!({"type": "image", "source": source})
    },
};

pub(crate) const OPENAI: WireFormatCase = WireFormatCase {
    vendor: "openai",
    reply: |name, arguments| {
        let item = json!({"type": "function_call", "id": name, "call_id": name, "name": name,
                          "arguments": arguments.to_string(), "status": "completed"});
        json!({"id": "r", "object": "response", "status": "completed", "output": [item],
               "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}})
    },
    image: |data| json!({"type": "input_image", "image_url": format!("data:image/png;base64,{data}")}),
};

pub(crate) const CHAT: WireFormatCase = WireFormatCase {
    vendor: "grok",
    reply: |name, arguments| {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        let call = json!({"id": name, "type": "function", "function": function});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
    },
    image: |data| json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}")}}),
};

pub(crate) const GEMINI: WireFormatCase = WireFormatCase {
    vendor: "gemini",
    reply: |name, args| {
        let call = json!({"functionCall": {"id": name, "name": name, "args": args}});
        let content = json!({"role": "model", "parts": [call]});
        json!({"candidates": [{"content": content, "finishReason": "STOP"}]})
    },
    image: |data| json!({"inlineData": {"mimeType": "image/png", "data": data}}),
};

impl WireFormatCase {
    /// Returns a reply that asks for this many images.
    fn asks_for(&self, count: usize) -> ScriptedResponse {
        let arguments = json!({"count": count, "width": 3});
        self.calls("mcp__h__pictures", &arguments)
    }

    pub(crate) fn calls(&self, name: &str, arguments: &Value) -> ScriptedResponse {
        let reply = (self.reply)(name, arguments).to_string();
        ScriptedResponse::whole("200 OK", &["content-type: application/json"], reply)
    }
}

/// Starts an endpoint whose model asks for images as often as `calls` says, and then answers.
/// Requests to which `objects` applies get its answer.
fn model(
    wire: &'static WireFormatCase,
    (calls, count): (usize, usize),
    objects: fn(&str) -> Option<ScriptedResponse>,
) -> Endpoint {
    Endpoint::start_with(move |request: &ReceivedRequest| {
        let read = "[massgen: image 1: image/png, 3 x 1 pixels]";
        let objection = objects(&request.body);
        objection.unwrap_or_else(|| match request.body.matches(read).count() {
            read if read < calls => wire.asks_for(count),
            _ => wire.calls("new_answer", &json!({"content": "done"})),
        })
    })
}

fn project(endpoint: &Endpoint, vendor: &str, keys: &str) -> Project {
    let url = &endpoint.server.url;
    let project = Project::new();
    let cwd = project.path("").display().to_string();
    let cwd = cwd.trim_end_matches('/');
    let server = format!("{{name: h, command: python3, args: ['{cwd}/hostile.py'], cwd: '{cwd}'}}");
    let team = format!(
        "agents:\n  - id: one\n    backend: {{type: {vendor}, base_url: '{url}', model: m, \
         api_key: k, cwd: w1, mcp_servers: [{server}]{keys}}}\n\
         orchestrator: {{context_paths: [{{path: .}}]}}\n"
    );
    project
        .file("hostile.py", HOSTILE)
        .file("team.yaml", team)
        .args(["--config", "team.yaml", "task"])
}

/// Returns all images in a request.
pub(crate) fn images<'v>(wire: &WireFormatCase, body: &'v Value) -> Vec<&'v Value> {
    let own = (wire.image)("");
    let keys = |value: &Value| -> BTreeSet<String> {
        value
            .as_object()
            .into_iter()
            .flat_map(|object| object.keys().cloned())
            .collect()
    };
    let below: Vec<&Value> = match body {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    let is_image = keys(body).is_superset(&keys(&own)) && body.to_string().contains(DATA);
    let deeper = below.into_iter().flat_map(|value| images(wire, value));
    is_image
        .then_some(body)
        .into_iter()
        .chain(deeper.filter(|_| !is_image))
        .collect()
}

/// Returns the number of images in each request of a run.
fn image_counts(wire: &WireFormatCase, endpoint: &Endpoint) -> Vec<usize> {
    let requests = endpoint.server.requests();
    requests
        .iter()
        .map(|request| images(wire, &request.json()).len())
        .collect()
}

fn takes_all(_: &str) -> Option<ScriptedResponse> {
    None
}

/// Checks the number of images in each request, and the text about them in the last of these
/// requests.
#[track_caller]
fn check(
    wire: &'static WireFormatCase,
    (vendor, keys): (&str, &str),
    expected: &[usize],
    words: &str,
) -> FinishedCommand {
    let endpoint = model(wire, (1, 2), takes_all);
    let finished = project(&endpoint, vendor, keys).success();
    assert_eq!(
        image_counts(wire, &endpoint),
        expected,
        "{}",
        finished.stderr()
    );
    let requests = endpoint.server.requests();
    assert!(requests[1].body.contains(words), "{}", requests[1].body);
    finished
}

#[test]
fn each_wire_shows_the_images_of_a_tool() {
    let words = "[massgen: the 2 images that `mcp__h__pictures` gave, in their order]";
    for wire in [&CLAUDE, &OPENAI, &CHAT, &GEMINI] {
        let finished = check(wire, (wire.vendor, ""), &[0, 2], words);
        assert_eq!(finished.stdout(), "done\n", "{}", wire.vendor);
    }
    let endpoint = model(&CLAUDE, (1, 2), takes_all);
    project(&endpoint, "claude", "").success();
    let body = endpoint.server.requests()[1].json();
    let data = format!("{DATA}{REST}");
    assert_eq!(images(&CLAUDE, &body)[0], &(CLAUDE.image)(&data));
}

#[test]
fn a_model_without_images_gets_a_note() {
    let words = "[massgen: 2 images not shown: the model accepts text only]";
    check(&CLAUDE, ("claude", ", image_input: false"), &[0, 0], words);
    // The capabilities of a user's own server are unknown.
    check(&CHAT, ("chatcompletion", ""), &[0, 0], words);
    let words = "[massgen: the 2 images that";
    check(
        &CHAT,
        ("chatcompletion", ", image_input: true"),
        &[0, 2],
        words,
    );
}

#[test]
fn a_vendor_that_refuses_images_is_asked_without() {
    let objects = |body: &str| {
        let error = json!({"error": {"message": "this model takes no images"}}).to_string();
        body.contains(DATA)
            .then(|| ScriptedResponse::whole("404 Not Found", &[], error))
    };
    let endpoint = model(&CHAT, (1, 2), objects);
    let finished = project(&endpoint, "grok", "").success();
    assert_eq!(image_counts(&CHAT, &endpoint), [0, 2, 0]);
    assert!(
        endpoint.server.requests()[2]
            .body
            .contains("[massgen: 2 images of an earlier result left out")
    );
    assert!(
        finished
            .stderr()
            .contains("[one] compacts its context: 2 images"),
        "{}",
        finished.stderr()
    );
    // A rejection that has nothing to do with images stays an error.
    let refuses = |body: &str| {
        let error = json!({"error": {"message": "bad key"}}).to_string();
        body.contains(DATA)
            .then(|| ScriptedResponse::whole("401 Unauthorized", &[], error))
    };
    let endpoint = model(&CHAT, (1, 2), refuses);
    let failed = project(&endpoint, "grok", "").run();
    assert_eq!(image_counts(&CHAT, &endpoint), [0, 2]);
    assert!(!failed.stderr().contains("forgets"), "{}", failed.stderr());
}

#[test]
fn only_the_newest_images_stay() {
    let endpoint = model(&CLAUDE, (4, 8), takes_all);
    let finished = project(&endpoint, "claude", "").success();
    assert_eq!(
        image_counts(&CLAUDE, &endpoint),
        [0, 8, 16, 16, 16],
        "{}",
        finished.stderr()
    );
    assert!(
        finished
            .stderr()
            .contains("compacts its context: 8 older images"),
        "{}",
        finished.stderr()
    );
    // No more than eight images of one answer are used.
    let endpoint = model(&CLAUDE, (1, 9), takes_all);
    project(&endpoint, "claude", "").success();
    assert_eq!(image_counts(&CLAUDE, &endpoint), [0, 8]);
    let body = &endpoint.server.requests()[1].body;
    assert!(
        body.contains("not shown: there are more than 8 images"),
        "{body}"
    );
}

#[test]
fn a_resumed_run_shows_the_same_images() {
    let endpoint = Endpoint::start_with(move |request: &ReceivedRequest| {
        if request.body.contains("[massgen: image 1: ") {
            ScriptedResponse::stream().await_close()
        } else {
            CLAUDE.asks_for(2)
        }
    });
    let project = project(&endpoint, "claude", "");
    let mut command = project.command();
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut broken = quiet.spawn().unwrap();
    wait_until("the second request", WAIT_TIME_MAX, || {
        endpoint.server.requests().len() == 2
    });
    // The run asks the model again without waiting for its log.
    wait_until("the record of the first result", WAIT_TIME_MAX, || {
        let runs = std::fs::read_dir(project.path(".massgen/massgen_logs")).unwrap();
        let mut logs = runs.map(|run| run.unwrap().path().join("turn_1/events.jsonl"));
        let read = |log| std::fs::read_to_string(log).unwrap_or_default();
        logs.any(|log| read(log).contains("\"type\":\"tool_finished\""))
    });
    broken.kill().unwrap();
    broken.wait().unwrap();

    let second = model(&CLAUDE, (1, 2), takes_all);
    let config = std::fs::read_to_string(project.path("team.yaml")).unwrap();
    let config = config.replace(&endpoint.server.url, &second.server.url);
    let finished = project
        .file("team.yaml", config)
        .retyped(["--config", "team.yaml", "--continue"])
        .success();
    assert_eq!(image_counts(&CLAUDE, &endpoint), [0, 2]);
    assert_eq!(image_counts(&CLAUDE, &second), [2], "{}", finished.stderr());
}
