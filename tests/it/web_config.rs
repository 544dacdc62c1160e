//! `massgen web`: the form that writes a config. Each refusal has a control that is saved.

use std::fs;
use std::process::Command;

use massgen::text::to_hex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::project::{Project, binary};
use crate::web_server::{Reply, WebServer};

/// A team that needs no key.
const TEAM: &str = "@examples/basic/offline_demo";
/// A key, which no reply may contain.
const KEY: &str = "sk-0123456789abcdef0123";

fn start_server(project: Project) -> WebServer {
    WebServer::start(project.env("OPENAI_API_KEY", KEY), &["--config", TEAM])
}

/// Returns a draft of one agent with these instructions.
fn draft_request(instructions: &str) -> Value {
    let agent = json!({
        "id": "ann", "type": "openai", "cwd": "workspace1", "system_message": instructions,
    });
    json!({"agents": [agent]})
}

fn save_config(server: &WebServer, path: &str, more: &Value) -> Reply {
    let mut body = json!({"content": {"draft": draft_request("Be brief.")}, "path": path});
    let fields = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(fields);
    server.post("/api/config/save", &body)
}

#[track_caller]
fn check_reply(reply: &Reply, status: u16, expected: &str) {
    assert_eq!(reply.status, status, "{expected}: {reply:?}");
    assert!(reply.body.contains(expected), "{expected}: {reply:?}");
}

#[test]
fn the_form_is_made_of_the_keys_and_says_which_variables_are_set() {
    let server = start_server(Project::new());
    let reply = server.get("/api/config/keys");
    assert!(!reply.body.contains(KEY), "{reply:?}");
    let keys = reply.json();
    let vendor = |name: &str| {
        let mut all = keys["vendors"].as_array().unwrap().iter();
        all.find(|vendor| vendor["name"] == name).unwrap().clone()
    };
    assert_eq!(
        vendor("openai")["variables"],
        json!([{"name": "OPENAI_API_KEY", "is_set": true}])
    );
    assert_eq!(vendor("claude")["variables"][0]["is_set"], false);
    let models = vendor("claude")["models"].as_array().unwrap().len();
    assert!(models > 3, "{models}");
    let groups = keys["groups"].as_array().unwrap();
    let questions = groups
        .iter()
        .flat_map(|group| group["questions"].as_array().unwrap());
    let reference = fs::read_to_string("docs/config.md").unwrap();
    let mut count = 0;
    for question in questions {
        let doc = question["doc"].as_str().unwrap();
        assert!(reference.contains(doc), "{question}");
        count += 1;
    }
    assert!(count > 15, "{count} questions");

    let checked = server
        .post(
            "/api/config/check",
            &json!({"content": {"draft": keys["draft"]}}),
        )
        .json();
    assert_eq!(checked["is_valid"], true, "{checked}");
    assert_eq!(checked["findings"], json!([]), "{checked}");
    let wrong = json!({"agents": [{"id": "a b", "type": "claude"}], "checks": [{}]});
    let checked = server
        .post("/api/config/check", &json!({"content": {"draft": wrong}}))
        .json();
    assert_eq!(checked["is_valid"], false, "{checked}");
    let found = checked["findings"].as_array().unwrap().iter();
    let found: Vec<String> = found
        .map(|finding| {
            format!(
                "{} {}.{}.{}",
                finding["severity"], finding["group"], finding["entry"], finding["name"]
            )
        })
        .map(|line| line.replace('"', ""))
        .collect();
    assert_eq!(
        found,
        [
            "error agents.0.id",
            "error checks.0.command",
            "note agents.0.type"
        ],
        "{checked}"
    );
    for (body, expected) in [
        (
            json!({"content": {"draft": {"agents": [{"api_key": "x"}]}}}),
            "api_key",
        ),
        (json!({"content": {"draft": {"hooks": []}}}), "hooks"),
        (json!({"content": {"draft": {}}, "more": 1}), "more"),
        (json!({}), "content"),
    ] {
        check_reply(&server.post("/api/config/check", &body), 400, expected);
    }
}

#[test]
fn a_config_is_saved_below_the_directory_as_it_was_typed() {
    let project = Project::new()
        .dir("configs")
        .dir("outside/dir")
        .file("kept.yaml", "kept: yes\n")
        .file("long.yaml", "#".repeat(1024 * 1024 + 1))
        .link("link.yaml", "kept.yaml")
        .link("dangling.yaml", "nothing.yaml")
        .link("away", "outside/dir")
        .dir("folder.yaml");
    let server = start_server(project);
    let path = |name: &str| server.project.path(name);
    let before = names(&server);
    for (name, status, expected) in [
        ("/tmp/team.yaml", 403, "outside this directory"),
        ("../team.yaml", 403, "outside this directory"),
        ("configs/../team.yaml", 403, "outside this directory"),
        ("~/team.yaml", 403, "outside this directory"),
        (".hidden.yaml", 403, "hidden"),
        (".git/team.yaml", 403, "protected"),
        (".massgen/other.yaml", 403, "protected"),
        (".vscode/team.yaml", 403, "protected"),
        ("team.json", 400, ".yaml"),
        ("team", 400, ".yaml"),
        ("", 400, "cannot be the name"),
        ("none/team.yaml", 400, "does not exist"),
        ("kept.yaml/team.yaml", 400, "not a directory"),
        ("folder.yaml", 400, "is a directory"),
        ("long.yaml", 400, "larger than a config"),
        ("link.yaml", 403, "symbolic link"),
        ("dangling.yaml", 403, "symbolic link"),
        ("away/team.yaml", 403, "symlink"),
    ] {
        check_reply(&save_config(&server, name, &json!({})), status, expected);
    }
    check_reply(
        &save_config(
            &server,
            "team.yaml",
            &json!({"content": {"draft": {"agents": []}}}),
        ),
        400,
        "has errors",
    );
    let secret = json!({"content": {"draft": draft_request(&format!("say {KEY}"))}});
    check_reply(
        &save_config(&server, "team.yaml", &secret),
        400,
        "a key or another secret",
    );
    let shown = server.post(
        "/api/config/check",
        &json!({"content": {"draft": draft_request(KEY)}}),
    );
    assert!(
        shown.body.contains("a key or another secret") && !shown.body.contains(KEY),
        "{shown:?}"
    );
    assert_eq!(names(&server), before);

    let saved = save_config(&server, "configs/my team.yaml", &json!({})).json();
    assert_eq!(saved["path"], "configs/my team.yaml");
    assert_eq!(
        saved["commands"][1],
        "massgen --config 'configs/my team.yaml'"
    );
    let hostile = "a: b # c\n- {x: y}\n!!tag \"q\" 'p' \u{202e}";
    let saved = save_config(
        &server,
        "team.yaml",
        &json!({"content": {"draft": draft_request(hostile)}}),
    );
    assert_eq!(saved.status, 200, "{saved:?}");
    let check = Command::new(binary())
        .args([
            "config",
            "check",
            "--strict",
            "team.yaml",
            "configs/my team.yaml",
        ])
        .current_dir(path("."))
        .output()
        .unwrap();
    assert!(check.status.success(), "{check:?}");
}

#[test]
fn a_file_is_replaced_only_if_the_person_saw_exactly_that() {
    let server = start_server(Project::new().file("kept.yaml", "kept: yes\n"));
    let path = |name: &str| server.project.path(name);
    let kept = fs::read(path("kept.yaml")).unwrap();
    let digest = to_hex(&Sha256::digest(&kept));
    let refused = save_config(&server, "kept.yaml", &json!({}));
    check_reply(&refused, 409, "exists already");
    assert_eq!(refused.json()["digest"], *digest);
    check_reply(
        &save_config(&server, "kept.yaml", &json!({"replaces": "0"})),
        409,
        "exists already",
    );
    assert_eq!(fs::read(path("kept.yaml")).unwrap(), kept);
    fs::write(path("kept.yaml"), "changed: yes\n").unwrap();
    let replaces = json!({"replaces": digest});
    check_reply(
        &save_config(&server, "kept.yaml", &replaces),
        409,
        "exists already",
    );
    fs::write(path("kept.yaml"), &kept).unwrap();
    check_reply(
        &save_config(&server, "kept.yaml", &replaces),
        200,
        "massgen --config kept.yaml",
    );
    let now = fs::read_to_string(path("kept.yaml")).unwrap();
    assert!(now.contains("id: ann"), "{now}");
}

#[test]
fn a_config_that_runs_use_unasked_stays_in_the_project() {
    let server = start_server(Project::new().dir("src"));
    let open = |path: &str| {
        let mut draft = draft_request("Be brief.");
        draft["context_paths"] = json!([{"path": path, "permission": "write"}]);
        save_config(
            &server,
            ".massgen/config.yaml",
            &json!({"content": {"draft": draft}}),
        )
    };
    check_reply(&open("/usr/share"), 400, "outside this directory");
    assert!(!server.project.path(".massgen/config.yaml").exists());
    let saved = open("src");
    check_reply(&saved, 200, "massgen web");
    assert_eq!(saved.json()["commands"], json!(["massgen web", "massgen"]));
    let ignored = fs::read_to_string(server.project.path(".massgen/.gitignore")).unwrap();
    assert_eq!(ignored, "*\n");
}

/// Sends a text for `path` to be checked or saved.
fn send_text(server: &WebServer, action: &str, path: &str, text: &str, more: &Value) -> Reply {
    let mut body = json!({"content": {"text": text}, "path": path});
    let fields = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(fields);
    server.post(&format!("/api/config/{action}"), &body)
}

#[test]
fn a_config_is_edited_as_text_and_replaced_only_if_it_is_the_one_that_was_opened() {
    let text = "# mine\nagents:\n  - id: ann\n    backend: {type: ollama, model: qwen3}\n";
    let project = Project::new()
        .file("team.yaml", text)
        .file("keyed.yaml", "agents: [{api_key: abc}]\n")
        .file("env.yaml", format!("a: {KEY}\n"))
        .file("returns.yaml", "a: 1\r\n")
        .file("hidden.yaml", "a: \u{202e}\n")
        .link("link.yaml", "team.yaml")
        .dir("folder.yaml");
    let server = start_server(project);
    let open = |path: &str| server.post("/api/config/open", &json!({"path": path}));
    for (path, status, expected) in [
        ("../team.yaml", 403, "outside this directory"),
        (".env.yaml", 403, "hidden"),
        ("link.yaml", 403, "symbolic link"),
        ("folder.yaml", 400, "is a directory"),
        ("none.yaml", 500, "cannot read"),
        ("keyed.yaml", 403, "contains a key"),
        ("env.yaml", 403, "contains a key"),
        ("returns.yaml", 403, "characters that a page does not keep"),
        ("hidden.yaml", 403, "characters that a page does not keep"),
    ] {
        check_reply(&open(path), status, expected);
    }
    let opened = open("team.yaml").json();
    assert_eq!(opened["text"], text, "{opened}");
    let replaces = json!({"replaces": opened["digest"]});

    let wrong = text.replace("qwen3", "qwen3, modle: x");
    let checked = send_text(&server, "check", "team.yaml", &wrong, &json!({})).json();
    assert_eq!(checked["valid"], false, "{checked}");
    assert_eq!(checked["errors"][0]["line"], 4, "{checked}");
    let refused = send_text(&server, "save", "team.yaml", &wrong, &replaces);
    check_reply(&refused, 400, "has errors");
    let keyed = text.replace("mine", KEY);
    check_reply(
        &send_text(&server, "check", "team.yaml", &keyed, &json!({})),
        400,
        "a key or another secret",
    );
    check_reply(
        &send_text(&server, "save", "team.yaml", &keyed, &replaces),
        400,
        "a key or another secret",
    );

    let ours = text.replace("mine", "ours");
    let saved = send_text(&server, "save", "team.yaml", &ours, &replaces).json();
    assert_eq!(saved["path"], "team.yaml", "{saved}");
    let file = server.project.path("team.yaml");
    assert_eq!(fs::read_to_string(&file).unwrap(), ours);
    let again = send_text(&server, "save", "team.yaml", text, &replaces);
    check_reply(&again, 409, "has changed since it was opened");
    assert_eq!(fs::read_to_string(&file).unwrap(), ours);
    let replaces = json!({"replaces": saved["digest"]});
    check_reply(
        &send_text(&server, "save", "team.yaml", text, &replaces),
        200,
        "team.yaml",
    );

    let outside = format!("{text}orchestrator:\n  context_paths: [{{path: /usr/share}}]\n");
    check_reply(
        &send_text(
            &server,
            "save",
            ".massgen/config.yaml",
            &outside,
            &json!({}),
        ),
        400,
        "outside this directory",
    );
    check_reply(
        &send_text(&server, "save", "named.yaml", &outside, &json!({})),
        200,
        "named.yaml",
    );
}

/// Returns the names in the directory of the server.
fn names(server: &WebServer) -> Vec<String> {
    let entries = fs::read_dir(server.project.path(".")).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
