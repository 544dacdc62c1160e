//! Image files that reach models: those that a task mentions, and those that a model asks for.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::http_server::{Endpoint, ReceivedRequest, ScriptedResponse};
use crate::mcp_images::{CHAT, CLAUDE, DATA, GEMINI, OPENAI, REST, WireFormatCase, images};
use crate::project::Project;

/// Returns a project with an image that is open, and one that is not. The agent's backend has the
/// further `keys`.
fn project(endpoint: &Endpoint, vendor: &str, keys: &str) -> Project {
    let picture = STANDARD.decode(format!("{DATA}{REST}")).unwrap();
    let url = &endpoint.server.url;
    Project::new()
        .file("pic.png", &picture)
        .file("open/other.png", &picture)
        .file("open/no.png", "no image\n")
        .file("closed/secret.png", &picture)
        .config(&format!(
            "agents:\n  - id: one\n    backend: {{type: {vendor}, base_url: '{url}', model: m, \
             api_key: k, cwd: w1{keys}}}\n\
             orchestrator: {{context_paths: [{{path: open}}]}}\n"
        ))
}

/// Starts an endpoint whose model looks at the files `paths`, one by one, and then answers.
fn model(wire: &'static WireFormatCase, paths: &'static [&'static str]) -> Endpoint {
    Endpoint::start_with(move |request: &ReceivedRequest| -> ScriptedResponse {
        let asked = paths.iter().find(|path| {
            !request.body.contains(&format!("{path}\\\""))
                && !request.body.contains(&format!("\"{path}\""))
        });
        match asked {
            Some(path) => wire.calls("read_media_file", &json!({"path": path})),
            None => wire.calls("new_answer", &json!({"content": "done"})),
        }
    })
}

#[test]
fn an_image_that_the_task_mentions_is_in_the_first_request() {
    for wire in [&CLAUDE, &OPENAI, &CHAT, &GEMINI] {
        let endpoint = model(wire, &[]);
        project(&endpoint, wire.vendor, "")
            .args(["What is on @pic.png?"])
            .success();
        let first = &endpoint.server.requests()[0];
        assert_eq!(images(wire, &first.json()).len(), 1, "{}", first.body);
        assert!(
            first.body.contains("that the task mentions"),
            "{}",
            first.body
        );
    }
    // So is one that the backend uploads.
    let upload = ", upload_files: [{image_path: pic.png}]";
    let endpoint = model(&CLAUDE, &[]);
    project(&endpoint, "claude", upload)
        .args(["task"])
        .success();
    let first = &endpoint.server.requests()[0];
    assert_eq!(images(&CLAUDE, &first.json()).len(), 1, "{}", first.body);
    // Neither a model without images nor a task without the mention has one.
    for (keys, task) in [
        (", image_input: false", "What is on @pic.png?"),
        ("", "What is on pic.png?"),
    ] {
        let endpoint = model(&CLAUDE, &[]);
        project(&endpoint, "claude", keys).args([task]).success();
        let first = &endpoint.server.requests()[0];
        assert_eq!(images(&CLAUDE, &first.json()).len(), 0, "{}", first.body);
    }
}

#[test]
fn a_model_can_look_at_an_image_that_is_open_and_at_no_other() {
    let endpoint = model(&CLAUDE, &["../../../open/other.png"]);
    let finished = project(&endpoint, "claude", "").args(["task"]).success();
    let counts: Vec<usize> = endpoint
        .server
        .requests()
        .iter()
        .map(|request| images(&CLAUDE, &request.json()).len())
        .collect();
    assert_eq!(counts, [0, 1], "{}", finished.stderr());

    for (path, reason) in [
        ("../../../closed/secret.png", "denied"),
        (
            "../../../open/no.png",
            "it is no PNG, JPEG, GIF or WebP image",
        ),
    ] {
        let paths: &'static [&'static str] = Box::leak(Box::new([path]));
        let endpoint = model(&CLAUDE, paths);
        project(&endpoint, "claude", "").args(["task"]).run();
        let requests = endpoint.server.requests();
        assert_eq!(images(&CLAUDE, &requests[1].json()).len(), 0, "{path}");
        assert!(
            requests[1].body.contains(reason),
            "{path}: {}",
            requests[1].body
        );
    }
}

#[test]
fn a_mentioned_file_that_is_no_image_is_reported() {
    let endpoint = model(&CLAUDE, &[]);
    let finished = project(&endpoint, "claude", "")
        .args(["What is on @open/no.png?"])
        .success();
    assert_eq!(
        images(&CLAUDE, &endpoint.server.requests()[0].json()).len(),
        0
    );
    let warning = "no.png` is not shown as an image: ";
    assert!(finished.stderr().contains(warning), "{}", finished.stderr());
}
