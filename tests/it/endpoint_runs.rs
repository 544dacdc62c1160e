//! Runs of the real binary against a real HTTP server on loopback, whose models follow simple
//! rules: they read the conversation, use tools, answer, vote and present.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};

use crate::http_server::{Endpoint, ReceivedRequest, ScriptedResponse};
use crate::mcp_images::CHAT;
use crate::project::{FinishedCommand, Project};

/// Maximum total size of all requests of a two-agent question without files, in bytes: a third of
/// what the Python MassGen sends for it.
const QUESTION_BYTES_MAX: usize = 35_000;
/// Maximum size of an agent's first request without the task and without file access, in bytes.
const FIRST_BYTES_MAX: usize = 3 * 1024;
/// The same with every file tool, in bytes.
const FIRST_BYTES_WITH_TOOLS_MAX: usize = 12 * 1024;

impl Endpoint {
    /// Starts a server whose models all follow the rules.
    pub(crate) fn start() -> Self {
        Self::start_with(play)
    }

    /// Starts a server that gives `first` once to every model, and then follows the rules.
    fn with_trouble(first: ScriptedResponse) -> Self {
        let troubled = Mutex::new(BTreeSet::new());
        Self::start_with(move |request| {
            if troubled.lock().unwrap().insert(requested_model(request)) {
                first.clone()
            } else {
                play(request)
            }
        })
    }

    pub(crate) fn base_url(&self) -> String {
        format!("{}/v1", self.server.url)
    }

    /// Returns one agent of a config; `more` is added to its backend.
    pub(crate) fn agent(&self, id: &str, model: &str, more: &str) -> String {
        let base_url = self.base_url();
        format!(
            "  - id: {id}\n    backend: \
             {{type: chatcompletion, base_url: \"{base_url}\", model: {model}{more}}}\n"
        )
    }

    /// Returns the bodies of the requests of each model, in order.
    pub(crate) fn bodies(&self) -> BTreeMap<String, Vec<Value>> {
        let mut bodies: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for request in self.server.requests() {
            bodies
                .entry(requested_model(&request))
                .or_default()
                .push(request.json());
        }
        bodies
    }
}

pub(crate) fn requested_model(request: &ReceivedRequest) -> String {
    request.json()["model"].as_str().unwrap().to_owned()
}

/// Plays the model: `builder…` writes a file first, and all answer, vote for the first agent and
/// present. The final `builder…` also writes to the path that is open for writing.
pub(crate) fn play(request: &ReceivedRequest) -> ScriptedResponse {
    let body = request.json();
    let model = body["model"].as_str().unwrap();
    let called = |name: &str| {
        body["messages"]
            .to_string()
            .contains(&format!("\"{name}\""))
    };
    let offered = |name: &str| body["tools"].to_string().contains(&format!("\"{name}\""));
    let builds = model.starts_with("builder") && !called("write_file");
    let coordinates = offered("new_answer");
    if builds && coordinates {
        let arguments = json!({"path": "notes.txt", "content": format!("notes of {model}\n")});
        stream_reply("I write it down.", Some(("write_file", &arguments)))
    } else if coordinates && !called("new_answer") {
        let content = format!("forty-two, says {model}");
        stream_reply("", Some(("new_answer", &json!({"content": content}))))
    } else if coordinates {
        let vote = json!({"agent_id": "agent1", "reason": "it is the first"});
        stream_reply("I have read them.", Some(("vote", &vote)))
    } else if let (true, Some(directory)) = (builds, writable_path(&body)) {
        let arguments =
            json!({"path": format!("{directory}/result.txt"), "content": "forty-two\n"});
        stream_reply("", Some(("write_file", &arguments)))
    } else {
        stream_reply(&format!("It is forty-two, {model} is sure."), None)
    }
}

/// Returns the user's path that the system message opens for writing.
fn writable_path(body: &Value) -> Option<&str> {
    body["messages"][0]["content"]
        .as_str()?
        .lines()
        .find_map(|line| {
            line.strip_prefix("- ")?
                .strip_suffix(": the user's, read and write")
        })
}

/// Returns a reply as a stream: text word by word, a call in two pieces, the usage at the end.
pub(crate) fn stream_reply(text: &str, call: Option<(&str, &Value)>) -> ScriptedResponse {
    let mut answer = ScriptedResponse::stream();
    for word in text.split_inclusive(' ') {
        answer = answer.piece(event(&json!({"content": word}), None));
    }
    if let Some((name, arguments)) = call {
        let arguments = arguments.to_string();
        let (head, tail) = arguments.split_at(arguments.len() / 2);
        let begun = json!({"index": 0, "id": format!("call_{name}"), "type": "function",
            "function": {"name": name, "arguments": head}});
        let rest = json!({"index": 0, "function": {"arguments": tail}});
        for piece in [begun, rest] {
            answer = answer.piece(event(&json!({"tool_calls": [piece]}), None));
        }
    }
    let reason = if call.is_some() { "tool_calls" } else { "stop" };
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10}});
    answer
        .piece(event(&json!({}), Some(reason)))
        .piece(format!("data: {usage}\n\ndata: [DONE]\n\n"))
        .end()
}

pub(crate) fn event(delta: &Value, finish_reason: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    format!("data: {}\n\n", json!({"choices": [choice]}))
}

pub(crate) fn refusal(status: &str, headers: &[&str], message: &str) -> ScriptedResponse {
    ScriptedResponse::whole(
        status,
        headers,
        json!({"error": {"message": message}}).to_string(),
    )
}

/// Returns a project with this team in `team.yaml`, ready to run with a question.
pub(crate) fn team_project(agents: &[String], rest: &str) -> Project {
    Project::new()
        .file("team.yaml", format!("agents:\n{}{rest}\n", agents.concat()))
        .args(["--config", "team.yaml", "What is six times seven?"])
}

#[test]
fn teams_of_any_size_agree_on_an_answer() {
    #[track_caller]
    fn check(count: usize, requests: usize, expected: &str) {
        let endpoint = Endpoint::start();
        let agents: Vec<String> = (1..=count)
            .map(|n| endpoint.agent(&format!("a{n}"), &format!("m{n}"), ""))
            .collect();
        let finished = team_project(&agents, "").success();
        assert_eq!(finished.stdout(), expected);
        assert_eq!(endpoint.server.requests().len(), requests);
        let tokens = format!("{} tokens read, {} written", requests * 100, requests * 10);
        assert!(finished.stderr().contains(&tokens), "{}", finished.stderr());
    }

    check(1, 1, "forty-two, says m1\n");
    check(2, 5, "It is forty-two, m1 is sure.\n");
    check(5, 11, "It is forty-two, m1 is sure.\n");
}

#[test]
fn agents_of_one_model_send_the_same_text_and_wait_for_the_first_reply() {
    const FIRST_REPLY_TIME: Duration = Duration::from_millis(700);
    let arrivals = Arc::new(Mutex::new((Vec::new(), false)));
    let seen = Arc::clone(&arrivals);
    let endpoint = Endpoint::start_with(move |request| {
        let mut seen = seen.lock().unwrap();
        seen.0.push((requested_model(request), Instant::now()));
        // The first request of the model that three agents ask.
        let is_first = requested_model(request) == "m" && !std::mem::replace(&mut seen.1, true);
        if is_first {
            play(request).after(FIRST_REPLY_TIME)
        } else {
            play(request)
        }
    });
    let agents = ["a", "b", "c"].map(|id| endpoint.agent(id, "m", ""));
    // Another model waits for nobody.
    let other = endpoint.agent("d", "other", "");
    team_project(&[&agents[..], &[other]].concat(), "").success();
    let requests = endpoint.server.requests();
    let sent = |request: &&ReceivedRequest| requested_model(request) == "m";
    let firsts: Vec<&ReceivedRequest> = requests.iter().filter(sent).take(3).collect();
    let prefix = |request: &ReceivedRequest| {
        let (before, after) = request.body.split_once("</task>").unwrap();
        assert!(after.starts_with("\\n\\nYou are agent"), "{after}");
        before.to_owned()
    };
    assert_eq!(prefix(firsts[0]), prefix(firsts[1]));
    assert_eq!(prefix(firsts[0]), prefix(firsts[2]));
    let arrivals = arrivals.lock().unwrap();
    let of_model = |model: &str| -> Vec<Instant> {
        let of_model = arrivals.0.iter().filter(|(name, _)| name == model);
        of_model.map(|(_, at)| *at).collect()
    };
    let (three, other) = (of_model("m"), of_model("other"));
    assert!(three[1] - three[0] >= FIRST_REPLY_TIME, "{three:?}");
    assert!(other[0] < three[1], "the other model waited");
}

#[test]
fn one_agent_needs_no_config() {
    #[track_caller]
    fn check(flags: &[&str]) {
        let endpoint = Endpoint::start();
        let base_url = endpoint.base_url();
        let finished = Project::new()
            .args(["--model", "m1", "--base-url", &base_url])
            .args(flags)
            .args(["What is six times seven?"])
            .success();
        assert_eq!(finished.stdout(), "forty-two, says m1\n");
        let [request] = &endpoint.server.requests()[..] else {
            panic!("one request is enough");
        };
        assert_eq!(request.line, "POST /v1/chat/completions");
        assert_eq!(request.headers.get("authorization"), None);
    }

    check(&[]);
    check(&["--backend", "chatcompletion"]);
    check(&["--backend", "ollama"]);
    check(&["--backend", "vllm"]);
}

#[test]
fn an_endpoint_without_a_model_is_asked_for_its_list() {
    #[track_caller]
    fn run(models: &[&str], flags: &[&str]) -> (Endpoint, Project) {
        let entries = models.iter().map(|model| json!({"id": model}));
        let list = json!({"data": entries.collect::<Vec<_>>()}).to_string();
        let endpoint = Endpoint::start_with(move |request| match request.line.as_str() {
            "GET /v1/models" => ScriptedResponse::whole("200 OK", &[], &list),
            _ => play(request),
        });
        let base_url = endpoint.base_url();
        let project = Project::new().args(["--base-url", &base_url]);
        (endpoint, project.args(flags).args(["What is it?"]))
    }

    for flags in [&[][..], &["--backend", "openai"], &["--backend", "vllm"]] {
        let (_endpoint, project) = run(&["m1"], &[flags, &["--dry-run"]].concat());
        let finished = project.success();
        let note = "model: m1, the only one of the endpoint";
        assert!(finished.stderr().contains(note), "{}", finished.stderr());
        assert!(finished.stdout().contains("m1"), "{}", finished.stdout());
    }
    let (_endpoint, project) = run(&["m1"], &[]);
    assert_eq!(project.success().stdout(), "forty-two, says m1\n");
    let (_endpoint, project) = run(&["m1", "m2"], &[]);
    insta::assert_snapshot!(project.failure(2).stderr(), @r"
    error: the endpoint has several models: `m1`, `m2`
    hint: add `--model NAME`
    ");
    let (_endpoint, project) = run(&[], &[]);
    let finished = project.failure(2);
    let message = "the endpoint has no models";
    assert!(finished.stderr().contains(message), "{}", finished.stderr());
    let url = "http://127.0.0.1:1/v1";
    let gone = Project::new()
        .args(["--base-url", url, "What is it?"])
        .failure(3);
    let message = "`http://127.0.0.1:1/v1/models` is not reachable";
    assert!(gone.stderr().contains(message), "{}", gone.stderr());
    assert!(
        gone.stderr().contains("or add `--model NAME`"),
        "{}",
        gone.stderr()
    );
}

#[test]
fn the_answer_of_a_model_without_tool_calls_counts() {
    #[track_caller]
    fn check(more: &str, count: usize, requests: usize, expected: &str) {
        let endpoint = Endpoint::start_with(|request| match requested_model(request).as_str() {
            "talker" => stream_reply("Six by seven is forty-two.", None),
            _ => play(request),
        });
        let agents = [
            endpoint.agent("talker", "talker", more),
            endpoint.agent("zoe", "m2", ""),
        ];
        let finished = team_project(&agents[..count], "").success();
        assert_eq!(finished.stdout(), expected, "{}", finished.stderr());
        assert_eq!(endpoint.bodies()["talker"].len(), requests);
    }

    let answer = "Six by seven is forty-two.\n";
    check("", 1, 1, answer);
    check(", cwd: w1", 1, 3, answer);
    // Three replies for its answer, and three for the vote that it never gives; then it presents.
    check("", 2, 7, answer);
}

#[test]
fn the_winner_delivers_through_the_endpoint() {
    let endpoint = Endpoint::start();
    let agents = [
        endpoint.agent("one", "builder1", ", cwd: w1"),
        endpoint.agent("two", "builder2", ", cwd: w2"),
    ];
    let write_here = "orchestrator:\n  coordination: {write_mode: legacy}\n  context_paths: [{path: out, permission: write}]\n";
    let finished = team_project(&agents, write_here)
        .dir("out")
        .success()
        .has_file("out/result.txt", "forty-two\n")
        .has_no("out/notes.txt");
    assert!(
        finished
            .stderr()
            .contains("delivered:\n  created  [PROJECT]/out/result.txt\n"),
        "{}",
        finished.stderr()
    );
}

#[test]
fn the_requests_of_a_run_are_small() {
    let endpoint = Endpoint::start();
    let agents = [
        endpoint.agent("one", "m1", ""),
        endpoint.agent("two", "m2", ""),
    ];
    let _answered = team_project(&agents, "").success();
    let sizes: Vec<usize> = endpoint
        .server
        .requests()
        .iter()
        .map(|request| request.body.len())
        .collect();
    let sum: usize = sizes.iter().sum();
    assert!(sum <= QUESTION_BYTES_MAX, "{sizes:?}");
    assert!(sizes[0] <= FIRST_BYTES_MAX, "{sizes:?}");

    let endpoint = Endpoint::start();
    let agents = [
        endpoint.agent("one", "m1", ", cwd: w1"),
        endpoint.agent("two", "m2", ", cwd: w2"),
    ];
    let open = "orchestrator:\n  context_paths: [{path: ., permission: write}]\n";
    let _answered = team_project(&agents, open).success();
    let first = &endpoint.server.requests()[0];
    let tools = first.json()["tools"].as_array().unwrap().len();
    assert_eq!(tools, 20, "every file tool, and the two of the workflow");
    let size = first.body.len();
    assert!(size <= FIRST_BYTES_WITH_TOOLS_MAX, "{size}");
}

#[test]
fn vendors_can_cache_what_an_agent_sends_while_it_coordinates() {
    let endpoint = Endpoint::start();
    let agents = [
        endpoint.agent("one", "builder1", ", cwd: w1"),
        endpoint.agent("two", "builder2", ", cwd: w2"),
        endpoint.agent("three", "m3", ""),
    ];
    let _answered = team_project(&agents, "").success();
    for (model, bodies) in endpoint.bodies() {
        let coordination: Vec<&Value> = bodies
            .iter()
            .filter(|body| body["tools"].to_string().contains("\"vote\""))
            .collect();
        assert!(coordination.len() >= 2, "{model}");
        for pair in coordination.windows(2) {
            assert_eq!(pair[0]["tools"].to_string(), pair[1]["tools"].to_string());
            let (before, after) = (&pair[0]["messages"], &pair[1]["messages"]);
            let (before, after) = (before.as_array().unwrap(), after.as_array().unwrap());
            assert!(after.len() > before.len());
            assert_eq!(before[..], after[..before.len()], "{model}");
        }
    }
}

#[test]
fn transient_errors_are_retried_until_the_run_succeeds() {
    #[track_caller]
    fn check(first: ScriptedResponse, expected: &str) {
        let endpoint = Endpoint::with_trouble(first);
        let agents = [endpoint.agent("one", "m1", "")];
        let finished = team_project(&agents, "").success();
        assert_eq!(finished.stdout(), "forty-two, says m1\n");
        let stderr = finished.stderr();
        assert!(stderr.contains("[one] retries in "), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }

    check(
        refusal("500 Internal Server Error", &[], "out of luck"),
        "answered 500 Internal Server Error: out of luck",
    );
    check(
        refusal("429 Too Many Requests", &["retry-after: 1"], "slow down"),
        "[one] retries in 1.0 s: `chatcompletion` answered 429 Too Many Requests: slow down",
    );
    check(
        ScriptedResponse::stream().piece(event(&json!({"content": "forty"}), None)),
        "closed the connection",
    );
    check(
        ScriptedResponse::stream()
            .piece(event(&json!({"content": "forty"}), None))
            .end(),
        "sent an incomplete reply",
    );
}

/// Serves one reply for each TLS connection, with the certificate `name`. Returns the port.
fn start_tls_server(name: &str) -> u16 {
    let read = |suffix: &str| fs::read(format!("tests/cases/tls/{name}.{suffix}")).unwrap();
    let certificate = CertificateDer::from_pem_slice(&read("pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&read("key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, socket.unwrap());
            // A client that refuses the certificate sends nothing.
            if stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
                let reply = stream_reply("forty-two", None).bytes();
                stream.write_all(&reply).unwrap();
                stream.conn.send_close_notify();
                stream.flush().unwrap();
            }
        }
    });
    port
}

#[test]
fn a_trusted_certificate_may_be_that_of_the_server() {
    const UNKNOWN: &str = "invalid peer certificate: UnknownIssuer (hint: name a file";
    // `server` is the certificate of an authority; that of the printer, which denies to be one, has
    // signed `signed`.
    let own_port = start_tls_server("server");
    let signed_port = start_tls_server("signed");
    for (host, port, trusted, expected) in [
        ("localhost", own_port, "server.pem", "forty-two\n"),
        ("localhost", own_port, "other.pem", UNKNOWN),
        ("127.0.0.1", own_port, "server.pem", "not valid for name"),
        ("localhost", signed_port, "signed.pem", "forty-two\n"),
        ("localhost", signed_port, "printer.pem", UNKNOWN),
    ] {
        let file = format!("{}/tests/cases/tls/{trusted}", env!("CARGO_MANIFEST_DIR"));
        let backend =
            format!("type: chatcompletion, model: m, base_url: \"https://{host}:{port}/v1\"");
        let project = team_project(&[format!("  - id: a\n    backend: {{{backend}}}\n")], "")
            .env("SSL_CERT_FILE", file);
        let code = i32::from(!expected.ends_with('\n'));
        let finished = project.failure(code);
        let output = format!("{}{}", finished.stderr(), finished.stdout());
        assert!(output.contains(expected), "{output}");
        assert!(!output.contains("retries"), "{output}");
    }
}

#[test]
fn a_retry_after_of_an_hour_fails_immediately() {
    let headers = ["retry-after: 3600"];
    let endpoint =
        Endpoint::start_with(move |_| refusal("429 Too Many Requests", &headers, "come tomorrow"));
    let agents = [endpoint.agent("one", "m1", "")];
    let begun = Instant::now();
    let finished = team_project(&agents, "").failure(1);
    assert!(begun.elapsed() < Duration::from_mins(1));
    let expected = "come tomorrow (it asks to wait 3600 s, but massgen waits at most 60 s)";
    let stderr = finished.stderr();
    assert!(stderr.contains(expected), "{stderr}");
}

#[test]
fn a_refused_key_is_named_once_and_shown_nowhere() {
    const KEY: &str = "sk-not-the-right-one";
    let endpoint = Endpoint::start_with(|request| {
        let sent = request.headers.get("authorization").unwrap();
        refusal("401 Unauthorized", &[], &format!("bad key: {sent}"))
    });
    let agents = [endpoint.agent("one", "m1", "")];
    let finished = team_project(&agents, "")
        .env("OPENAI_API_KEY", KEY)
        .failure(3);
    let stderr = finished.stderr();
    let expected = "answered 401 Unauthorized: bad key: Bearer [key] \
                    (the key is from `OPENAI_API_KEY`)";
    assert_eq!(stderr.matches(expected).count(), 1, "{stderr}");
    assert!(
        stderr.contains("ended: no agent answered: the API key is rejected; correct the key"),
        "{stderr}"
    );
    assert!(!stderr.contains(KEY), "{stderr}");
    assert!(!state_text(&finished).contains(KEY));
    // Words contain a key of a few letters by chance, and stay.
    let finished = team_project(&agents, "")
        .env("OPENAI_API_KEY", "key")
        .failure(3);
    let stderr = finished.stderr();
    assert!(stderr.contains("bad key: Bearer key"), "{stderr}");
}

#[test]
fn an_unknown_model_leaves_the_others_alone() {
    let endpoint = Endpoint::start_with(|request| match requested_model(request).as_str() {
        "m0" => refusal("404 Not Found", &[], "no model m0"),
        _ => play(request),
    });
    let agents = [
        endpoint.agent("typo", "m0", ""),
        endpoint.agent("well", "m1", ""),
    ];
    let finished = team_project(&agents, "").success();
    assert_eq!(finished.stdout(), "It is forty-two, m1 is sure.\n");
    let stderr = finished.stderr();
    assert!(stderr.contains("[typo] drops out: "), "{stderr}");
    assert!(stderr.contains("no model m0"), "{stderr}");
}

#[test]
fn five_agents_agree_although_the_server_of_one_is_down() {
    let endpoint = Endpoint::start();
    let mut agents: Vec<String> = (1..=4)
        .map(|n| endpoint.agent(&format!("a{n}"), &format!("m{n}"), ""))
        .collect();
    agents.push(
        "  - id: down\n    backend: \
         {type: ollama, base_url: \"http://127.0.0.1:9/v1\", model: m5}\n"
            .to_owned(),
    );
    let finished = team_project(&agents, "").success();
    assert_eq!(finished.stdout(), "It is forty-two, m1 is sure.\n");
    let stderr = finished.stderr();
    let expected = "[down] drops out: `ollama` cannot be reached at \
                    `http://127.0.0.1:9/v1/chat/completions`";
    assert!(stderr.contains(expected), "{stderr}");
}

#[test]
fn a_script_learns_how_a_run_went() {
    #[track_caller]
    fn keys(endpoint: &Endpoint, code: i32) -> Vec<String> {
        let agents = [endpoint.agent("one", "m1", "")];
        let finished = team_project(&agents, "")
            .args(["--automation"])
            .failure(code);
        let key = |line: &str| line.split_once(": ").unwrap().0.to_owned();
        finished.stdout().lines().map(key).collect()
    }

    let well = ["LOG_DIR", "STATUS", "QUESTION", "WINNER", "ANSWER_FILE"];
    let keys_well = keys(&Endpoint::start(), 0);
    assert_eq!(keys_well[..well.len()], well, "{keys_well:?}");
    let refuses = Endpoint::start_with(|_| refusal("404 Not Found", &[], "no"));
    let badly = [
        "LOG_DIR",
        "STATUS",
        "QUESTION",
        "ERROR",
        "DURATION",
        "TOKENS",
        "COST",
        "COMPLETED",
    ];
    assert_eq!(keys(&refuses, 1), badly);
}

/// Returns everything that a run left under `.massgen` as one text.
fn state_text(finished: &FinishedCommand) -> String {
    let mut text = String::new();
    let mut directories = vec![finished.project().path(".massgen")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                directories.push(path);
            } else if let Ok(content) = std::fs::read(&path) {
                text.push_str(&String::from_utf8_lossy(&content));
            }
        }
    }
    assert!(!text.is_empty());
    text
}

/// Starts an endpoint of Chat Completions whose model answers at once.
fn answering_endpoint() -> Endpoint {
    Endpoint::start_with(|_: &ReceivedRequest| {
        CHAT.calls("new_answer", &json!({"content": "done"}))
    })
}

#[test]
fn the_users_environment_sets_the_endpoint_and_a_project_does_not() {
    let (own, foreign) = (answering_endpoint(), answering_endpoint());
    let project = |own: &str| {
        Project::new()
            .file(".env", format!("OPENAI_BASE_URL={}\n", foreign.server.url))
            .env("OPENAI_API_KEY", "k")
            .env("OPENAI_BASE_URL", own)
            .args(["-m", "gpt-5", "task"])
    };
    let finished = project(&own.server.url).success();
    assert_eq!(finished.stdout(), "done\n", "{}", finished.stderr());
    assert!(
        finished.stderr().contains("--cwd-context"),
        "{}",
        finished.stderr()
    );
    assert!(!own.server.requests().is_empty());
    // An empty variable counts as unset: the vendor's own endpoint is asked, which no test reaches.
    let finished = project("").args(["--dry-run"]).success();
    assert!(finished.stdout().contains("gpt-5"), "{}", finished.stdout());
    assert!(foreign.server.requests().is_empty());
}

#[test]
fn each_model_flag_adds_an_agent() {
    let finished = Project::new()
        .env("OPENAI_API_KEY", "k")
        .env("ANTHROPIC_API_KEY", "k")
        .args([
            "-m",
            "gpt-5",
            "-m",
            "claude-sonnet-5-5",
            "--cwd-context",
            "ro",
        ])
        .args(["--dry-run", "task"])
        .success();
    for part in [
        "agent openai (agent2): openai gpt-5",
        "agent claude (agent1): claude claude-sonnet-5-5",
        "execute_command",
    ] {
        assert!(
            finished.stdout().contains(part),
            "{part}: {}",
            finished.stdout()
        );
    }
}
