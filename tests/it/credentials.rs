//! Credentials for remote servers: they are sent to these servers only, and no reply can bring them
//! back to models, people or records, however they are encoded.

use serde_json::{Value, json};

use crate::http_server::{Endpoint, ReceivedRequest, ScriptedResponse};
use crate::mcp::{call_results, calls_of, stands_nowhere};
use crate::mcp_login::{self, LOGIN, RUN};
use crate::oauth_server::{OauthBehaviour, OauthServer, TOKEN};
use crate::project::{FinishedCommand, Project, events};
use crate::scripted_team::{agent, team};

/// The secret that the config sends after `Bearer`.
const SECRET: &str = "ticket/secret+of=the-user";

/// Where a server echoes its credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EchoLocation {
    Nowhere,
    Greeting,
    ErrorOfGreeting,
    KindOfGreeting,
    Description,
    NameThatNobodyTakes,
    ErrorOfList,
    Progress,
    Answer,
    ErrorOfCall,
}

const ECHO_LOCATIONS: [EchoLocation; 10] = [
    EchoLocation::Nowhere,
    EchoLocation::Greeting,
    EchoLocation::ErrorOfGreeting,
    EchoLocation::KindOfGreeting,
    EchoLocation::Description,
    EchoLocation::NameThatNobodyTakes,
    EchoLocation::ErrorOfList,
    EchoLocation::Progress,
    EchoLocation::Answer,
    EchoLocation::ErrorOfCall,
];

/// Answers as a server that sends `words` in `location`.
fn play_server(request: &ReceivedRequest, location: EchoLocation, words: &str) -> ScriptedResponse {
    let json_type = "content-type: application/json".to_owned();
    let whole = |kind: String, message: &Value| {
        ScriptedResponse::whole("200 OK", &[kind.as_str()], message.to_string())
    };
    if !request.line.starts_with("POST") {
        return ScriptedResponse::whole("405 Method Not Allowed", &[], "");
    }
    let message = request.json();
    let Some(id) = message.get("id") else {
        return ScriptedResponse::whole("202 Accepted", &[], "");
    };
    let success = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    let refused = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": words}});
    let text_at = |place: EchoLocation| if location == place { words } else { "x" };
    match (message["method"].as_str().unwrap(), location) {
        ("initialize", EchoLocation::ErrorOfGreeting)
        | ("tools/list", EchoLocation::ErrorOfList)
        | ("tools/call", EchoLocation::ErrorOfCall) => whole(json_type, &refused),
        ("initialize", EchoLocation::KindOfGreeting) => {
            whole(format!("content-type: text/{words}"), &refused)
        }
        ("initialize", _) => {
            let able = json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"}, "instructions": text_at(EchoLocation::Greeting),
            });
            whole(json_type, &success(able))
        }
        ("tools/list", _) => {
            let about = text_at(EchoLocation::Description);
            let schema = json!({"type": "object", "properties": {"a": {"description": about}}});
            let named = format!("no name {}", text_at(EchoLocation::NameThatNobodyTakes));
            let tools = json!([
                {"name": "who", "description": about, "inputSchema": schema},
                {"name": named, "inputSchema": {"type": "object"}},
            ]);
            whole(json_type, &success(json!({ "tools": tools })))
        }
        (_, EchoLocation::Progress) => {
            let token = &message["params"]["_meta"]["progressToken"];
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params":
                {"progressToken": token, "progress": 1, "message": words}});
            let result = success(json!({"content": [{"type": "text", "text": "ok"}]}));
            ScriptedResponse::whole(
                "200 OK",
                &["content-type: text/event-stream"],
                format!("data: {progress}\n\ndata: {result}\n\n"),
            )
        }
        _ => {
            let text =
                json!([{"type": "text", "text": format!("ok {}", text_at(EchoLocation::Answer))}]);
            whole(json_type, &success(json!({ "content": text })))
        }
    }
}

/// Runs with a server that sends in `location` the value of its header, encoded by `spell`.
fn run_with(location: EchoLocation, spell: fn(&str) -> String) -> FinishedCommand {
    let server = Endpoint::start_with(move |request| {
        let sent = if request.line.starts_with("POST") {
            request.headers["authorization"].clone()
        } else {
            String::new()
        };
        play_server(request, location, &spell(&sent))
    });
    let keys = format!(
        "cwd: w1\nmcp_servers: [{{name: t, url: '{}/mcp', security: {{allow_localhost: true}}, \
         headers: {{Authorization: 'Bearer ${{TICKET}}'}}}}]",
        server.server.url
    );
    let calls = calls_of(&[("mcp__t__who", json!({}))]);
    let replies = format!("{calls}- calls: [{{name: new_answer, arguments: {{content: done}}}}]");
    Project::new()
        .file("team.yaml", team(&[agent("one", &keys, &replies)], ""))
        .env("TICKET", SECRET)
        .args(RUN)
        .run()
}

/// Returns the value of the header without its scheme.
fn unchanged(sent: &str) -> String {
    sent.trim_start_matches("Bearer ").to_owned()
}

#[test]
fn secrets_that_a_server_echoes_are_redacted_everywhere() {
    for location in ECHO_LOCATIONS {
        let finished = run_with(location, unchanged);
        let output = [finished.stdout(), finished.stderr()].concat();
        assert!(!output.contains(SECRET), "{location:?}: {output}");
        stands_nowhere(SECRET, finished.project().path(""));
        if !format!("{location:?}").contains("Greeting") && location != EchoLocation::ErrorOfList {
            let answer = &call_results(&finished)[0];
            let expected = if location == EchoLocation::Answer {
                "ok [redacted]"
            } else {
                ""
            };
            assert!(answer.contains(expected), "{location:?}: {answer}");
        }
    }
}

#[test]
fn a_record_holds_no_spelling_of_what_was_sent() {
    for spell in [
        |sent: &str| sent.to_owned(),
        |sent: &str| {
            unchanged(sent)
                .replace('/', "%2F")
                .replace('+', "%2B")
                .replace('=', "%3D")
        },
        |sent: &str| unchanged(sent).replace('/', r"\/"),
    ] {
        let finished = run_with(EchoLocation::Answer, spell);
        let answer = &call_results(&finished)[0];
        assert!(answer.contains("[redacted]"), "{answer}");
        stands_nowhere(
            &spell(&format!("Bearer {SECRET}")),
            finished.project().path(""),
        );
    }
}

/// Starts a token endpoint that gives a token to any client.
fn token_giver() -> Endpoint {
    Endpoint::start_with(|_| {
        let tokens = json!({
            "access_token": format!("{TOKEN}other"), "token_type": "Bearer",
            "refresh_token": format!("{TOKEN}refresh-other"), "expires_in": 3600,
        });
        ScriptedResponse::whole(
            "200 OK",
            &["content-type: application/json"],
            tokens.to_string(),
        )
    })
}

/// Signs in at a server, and checks that a run requires another sign-in after `change`.
#[track_caller]
fn signs_in_once_more(server: &OauthServer, change: impl FnOnce()) {
    let finished = mcp_login::project(&server.url(), "").args(LOGIN).success();
    change();
    let finished = finished.then(RUN).failure(3);
    let stderr = finished.stderr();
    let expected = "sign in with `massgen mcp login t`";
    assert!(stderr.contains(expected), "{stderr}");
    assert_eq!(events(&finished, "replied").len(), 0);
}

#[test]
fn refresh_tokens_are_sent_only_where_the_user_signed_in() {
    let other = token_giver();
    let server = OauthServer::start(OauthBehaviour::default());
    signs_in_once_more(&server, || {
        server.expire();
        server.move_tokens(&format!("{}/token", other.server.url));
    });
    let requests = other.server.requests();
    assert_eq!(requests.len(), 0, "{requests:?}");
    assert_eq!(server.requests("POST /token").len(), 1);

    // Without its own metadata, a server would be taken for the authorization server.
    let server = OauthServer::start(OauthBehaviour {
        tokens_at: Some(format!("{}/token", other.server.url)),
        ..OauthBehaviour::default()
    });
    signs_in_once_more(&server, || server.fall_silent());
    assert_eq!(other.server.requests().len(), 1);
    assert_eq!(server.requests("POST /token").len(), 0);
}
