//! Documents, recordings and videos of `upload_files` that reach models, over each wire format.

use std::process::Stdio;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::http_server::{Endpoint, ReceivedRequest, ScriptedResponse};
use crate::mcp_images::{CHAT, CLAUDE, GEMINI, OPENAI, WireFormatCase};
use crate::project::{FinishedCommand, Project, logged_events};
use crate::waiting::wait_until;

const PDF: &[u8] = b"%PDF-1.7\n1 0 obj\n";
const WAV: &[u8] = b"RIFF\x24\0\0\0WAVEfmt ";
const MP4: &[u8] = b"\0\0\0\x18ftypisom\0\0\x02\0isommp42";
/// Timeout for a run to reach the state that a test needs.
const WAIT_TIME_MAX: Duration = Duration::from_mins(2);

/// Starts an endpoint whose model answers at once.
fn model(wire: &'static WireFormatCase) -> Endpoint {
    Endpoint::start_with(move |_: &ReceivedRequest| {
        wire.calls("new_answer", &json!({"content": "done"}))
    })
}

/// Returns a project with one file of each class, whose only agent uploads `files` and has no
/// workspace.
fn project(endpoint: &Endpoint, vendor: &str, files: &str) -> Project {
    let url = &endpoint.server.url;
    Project::new()
        .file("paper.pdf", PDF)
        .file("pic.png", "never read")
        .file("voice", WAV)
        .file("clip.mp4", MP4)
        .file("open/other.txt", "no document\n")
        .file(
            "team.yaml",
            format!(
                "agents:\n  - id: one\n    backend: {{type: {vendor}, base_url: '{url}', model: m, \
                 api_key: k, upload_files: [{files}]}}\n"
            ),
        )
        .args(["--config", "team.yaml", "What is in it?"])
}

/// Runs `project`, and returns the first request besides.
fn first_request(endpoint: &Endpoint, project: Project) -> (FinishedCommand, Value) {
    let finished = project.success();
    let first = endpoint.server.requests()[0].json();
    (finished, first)
}

/// Returns whether `part`, perhaps with further fields, is anywhere in `body`.
fn has_part(body: &Value, part: &Value) -> bool {
    let fields = part.as_object().unwrap();
    fields
        .iter()
        .all(|(key, value)| body.get(key) == Some(value))
        || match body {
            Value::Array(items) => items.iter().any(|item| has_part(item, part)),
            Value::Object(fields) => fields.values().any(|field| has_part(field, part)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
}

#[track_caller]
fn check(wire: &'static WireFormatCase, vendor: &str, file: &str, part: &Value) {
    let endpoint = model(wire);
    let (finished, first) = first_request(&endpoint, project(&endpoint, vendor, file));
    assert!(has_part(&first, part), "{vendor} {file}: {first}");
    assert!(
        first
            .to_string()
            .contains("the files that belong to the task"),
        "{first}"
    );
    let stderr = finished.stderr();
    assert!(!stderr.contains("is not sent"), "{stderr}");
    // The log does not contain the bytes.
    let log = logged_events(finished.project());
    for bytes in [PDF, WAV, MP4] {
        assert!(!log.contains(&STANDARD.encode(bytes)), "{log}");
    }
}

#[test]
fn each_wire_shows_a_document() {
    let data = STANDARD.encode(PDF);
    let data_url = format!("data:application/pdf;base64,{data}");
    let file = "{file_path: paper.pdf}";
    let source = json!({"type": "base64", "media_type": "application/pdf", "data": data});
    let of_claude = json!({"type": "document", "source": source});
    check(&CLAUDE, "claude", file, &of_claude);
    let of_openai = json!({"type": "input_file", "filename": "paper.pdf", "file_data": data_url});
    check(&OPENAI, "openai", file, &of_openai);
    let of_gemini = json!({"inlineData": {"mimeType": "application/pdf", "data": data}});
    check(&GEMINI, "gemini", file, &of_gemini);
    let document = json!({"filename": "paper.pdf", "file_data": data_url});
    let of_chat = json!({"type": "file", "file": document});
    check(&CHAT, "openrouter", file, &of_chat);
}

#[test]
fn vendors_read_documents_and_videos_from_urls() {
    let url = "https://example.org/paper.pdf";
    let file = format!("{{file_path: '{url}'}}");
    let source = json!({"type": "url", "url": url});
    let of_claude = json!({"type": "document", "source": source});
    check(&CLAUDE, "claude", &file, &of_claude);
    let of_openai = json!({"type": "input_file", "file_url": url});
    check(&OPENAI, "openai", &file, &of_openai);
    let of_gemini = json!({"fileData": {"mimeType": "application/pdf", "fileUri": url}});
    check(&GEMINI, "gemini", &file, &of_gemini);
    let document = json!({"filename": "paper.pdf", "file_data": url});
    let of_chat = json!({"type": "file", "file": document});
    check(&CHAT, "openrouter", &file, &of_chat);
    let video = json!({"type": "video_url", "video_url": {"url": url}});
    check(&CHAT, "qwen", &format!("{{video_path: '{url}'}}"), &video);
}

#[test]
fn recordings_and_videos_are_what_their_bytes_show() {
    let (voice, clip) = (STANDARD.encode(WAV), STANDARD.encode(MP4));
    let audio = json!({"data": voice, "format": "wav"});
    let of_chat = json!({"type": "input_audio", "input_audio": audio});
    check(&CHAT, "openrouter", "{audio_path: voice}", &of_chat);
    let of_gemini = json!({"inlineData": {"mimeType": "audio/wav", "data": voice}});
    check(&GEMINI, "gemini", "{audio_path: voice}", &of_gemini);
    let data_url = format!("data:video/mp4;base64,{clip}");
    let video = json!({"type": "video_url", "video_url": {"url": data_url}});
    for vendor in ["openrouter", "qwen", "vllm"] {
        check(&CHAT, vendor, "{video_path: clip.mp4}", &video);
    }
    let of_gemini = json!({"inlineData": {"mimeType": "video/mp4", "data": clip}});
    check(&GEMINI, "gemini", "{video_path: clip.mp4}", &of_gemini);
}

#[test]
fn one_line_says_which_files_a_model_does_not_receive() {
    #[track_caller]
    fn check(wire: &'static WireFormatCase, vendor: &str, file: &str, reason: &str) {
        let endpoint = model(wire);
        let (finished, first) = first_request(&endpoint, project(&endpoint, vendor, file));
        assert!(
            !first
                .to_string()
                .contains("the files that belong to the task"),
            "{first}"
        );
        let stderr = finished.stderr();
        let mut lines = stderr.lines().filter(|line| line.contains("is not sent"));
        let line = lines.next().unwrap_or_default();
        assert!(line.contains(reason), "{vendor} {file}: {stderr}");
        assert_eq!(lines.next(), None, "{stderr}");
    }

    let audio = "as far as massgen knows, `m` accepts no recordings";
    check(&CLAUDE, "claude", "{audio_path: voice}", audio);
    check(&OPENAI, "openai", "{audio_path: voice}", audio);
    let video = "as far as massgen knows, `m` accepts no videos";
    check(&CLAUDE, "claude", "{video_path: clip.mp4}", video);
    let image = "as far as massgen knows, `m` accepts no images";
    check(&CHAT, "chatcompletion", "{image_path: pic.png}", image);
    let document = "as far as massgen knows, `m` accepts no PDF documents";
    check(&CHAT, "chatcompletion", "{file_path: paper.pdf}", document);
    // What is no such file is not sent either, whatever it is called.
    let other = "it is no PDF document";
    check(&CLAUDE, "claude", "{file_path: open/other.txt}", other);
    check(&CLAUDE, "claude", "{file_path: voice}", other);
    let other = "it is no WAV or MP3 recording";
    check(&GEMINI, "gemini", "{audio_path: paper.pdf}", other);
    // massgen reads a recording for the vendor, and nothing from this machine or its network.
    let inside = "{audio_path: 'https://localhost/voice.wav'}";
    let reason = "the host has no public address";
    check(&CHAT, "openrouter", inside, reason);
}

#[test]
fn an_image_at_a_url_is_read_from_public_servers_alone() {
    for (wire, vendor, url, reason) in [
        (
            &CLAUDE,
            "claude",
            "https://localhost/pic.png",
            "is not shown as an image: the page cannot be read: the host has no public address",
        ),
        (
            &CHAT,
            "chatcompletion",
            "https://example.org/pic.png",
            "as far as massgen knows, `m` accepts no images",
        ),
    ] {
        let endpoint = model(wire);
        let file = format!("{{image_url: '{url}'}}");
        let (finished, first) = first_request(&endpoint, project(&endpoint, vendor, &file));
        let stderr = finished.stderr();
        let lines: Vec<&str> = stderr.lines().filter(|line| line.contains(url)).collect();
        assert_eq!(lines.len(), 1, "{stderr}");
        assert!(lines[0].contains(reason), "{stderr}");
        assert!(!first.to_string().contains("pic.png"), "{first}");
    }
    // A config that came along with a project names no URL.
    let config = "agents:\n  - id: one\n    backend: {type: scripted, replies: [{text: x}], \
                  upload_files: [{image_url: 'https://example.org/pic.png'}]}\n";
    let found = Project::new().config(config).args(["go"]).failure(2);
    let stderr = found.stderr();
    assert!(stderr.contains("gives an agent the file at"), "{stderr}");
}

#[test]
fn a_replay_has_the_same_files() {
    let endpoint = model(&CLAUDE);
    let files = "{file_path: paper.pdf}, {file_path: 'https://example.org/other.pdf'}";
    let finished = project(&endpoint, "claude", files).success();
    let requests = endpoint.server.requests().len();
    let replayed = finished.then(["replay", "last"]).success();
    let stderr = replayed.stderr();
    assert!(!stderr.contains("is not sent"), "{stderr}");
    assert_eq!(endpoint.server.requests().len(), requests);
    // A file that is missing by now is named, and the replay does without it.
    std::fs::remove_file(replayed.project().path("paper.pdf")).unwrap();
    let replayed = replayed.then(["replay", "last"]).success();
    let stderr = replayed.stderr();
    assert!(stderr.contains("paper.pdf` no longer exists"), "{stderr}");
}

#[test]
fn a_file_that_is_too_large_is_not_sent() {
    let endpoint = model(&CLAUDE);
    let mut large = PDF.to_vec();
    large.resize(7 * 1024 * 1024 + 1, b' ');
    let project = project(&endpoint, "claude", "{file_path: large.pdf}").file("large.pdf", large);
    let (finished, first) = first_request(&endpoint, project);
    assert!(!first.to_string().contains("JVBER"), "{first}");
    let stderr = finished.stderr();
    assert!(stderr.contains("it is larger than 7 MiB"), "{stderr}");
}

#[test]
fn a_file_that_is_missing_or_a_directory_ends_the_run_before_a_model_is_asked() {
    for (file, reason) in [
        ("{file_path: missing.pdf}", "`file_path` not found: "),
        (
            "{audio_path: open}",
            "`audio_path` must be a file, not a directory: ",
        ),
    ] {
        let endpoint = model(&CLAUDE);
        let finished = project(&endpoint, "claude", file).run();
        assert_ne!(finished.code(), Some(0), "{file}");
        let stderr = finished.stderr();
        assert!(stderr.contains(reason), "{file}: {stderr}");
        assert!(endpoint.server.requests().is_empty(), "{file}");
    }
}

#[test]
fn a_symlink_is_the_file_that_it_leads_to() {
    let endpoint = model(&CLAUDE);
    let linked =
        project(&endpoint, "claude", "{file_path: link.pdf}").link("link.pdf", "paper.pdf");
    let (_, first) = first_request(&endpoint, linked);
    assert!(first.to_string().contains(&STANDARD.encode(PDF)), "{first}");
    let endpoint = model(&CLAUDE);
    let linked = project(&endpoint, "claude", "{file_path: link.pdf}").link("link.pdf", "nowhere");
    let finished = linked.run();
    let stderr = finished.stderr();
    assert!(stderr.contains("`file_path` not found: "), "{stderr}");
}

#[test]
fn a_resumed_run_has_the_same_files() {
    let silent =
        Endpoint::start_with(|_: &ReceivedRequest| ScriptedResponse::stream().await_close());
    let project = project(&silent, "claude", "{file_path: paper.pdf}");
    let mut command = project.command();
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut broken = quiet.spawn().unwrap();
    wait_until("the first request and its record", WAIT_TIME_MAX, || {
        silent.server.requests().len() == 1 && logged_events(&project).lines().count() > 1
    });
    broken.kill().unwrap();
    broken.wait().unwrap();

    let second = model(&CLAUDE);
    let config = std::fs::read_to_string(project.path("team.yaml")).unwrap();
    let config = config.replace(&silent.server.url, &second.server.url);
    let finished = project
        .file("team.yaml", config)
        .retyped(["--config", "team.yaml", "--continue"])
        .success();
    let data = STANDARD.encode(PDF);
    for endpoint in [&silent, &second] {
        let first = &endpoint.server.requests()[0].body;
        assert!(first.contains(&data), "{first}\n{}", finished.stderr());
    }
}

/// A vendor that refuses a request with files is asked again without them.
#[test]
fn files_are_left_out_if_the_vendor_refuses_them() {
    let endpoint = Endpoint::start_with(|request: &ReceivedRequest| {
        if request.body.contains("application/pdf") {
            let error = json!({"type": "error", "error": {
                "type": "invalid_request_error", "message": "no documents here"}});
            let headers = ["content-type: application/json"];
            return ScriptedResponse::whole("400 Bad Request", &headers, error.to_string());
        }
        CLAUDE.calls("new_answer", &json!({"content": "done"}))
    });
    let finished = project(&endpoint, "claude", "{file_path: paper.pdf}").success();
    let requests = endpoint.server.requests();
    assert!(requests[0].body.contains("application/pdf"));
    let note = "[massgen: 1 file of the task left out here]";
    assert!(requests[1].body.contains(note), "{}", requests[1].body);
    let log = logged_events(finished.project());
    assert!(log.contains("1 uploaded file"), "{log}");
}
