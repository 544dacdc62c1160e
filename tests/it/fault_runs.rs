//! Runs of the real binary with failing requests, models that fail permanently, conversations that
//! are too long, and rate limits.

use std::fs;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::endpoint_runs::{event, play, refusal, requested_model, stream_reply, team_project};
use crate::http_server::{Endpoint, ReceivedRequest, ScriptedResponse};
use crate::project::FinishedCommand;
use crate::repetition::repetitions;

/// Number of runs of the fault plan.
const RUNS: usize = 100;
/// The same in the short suite.
const RUNS_SHORT: usize = 25;
/// Number of parallel runs of the fault plan.
const PARALLEL_RUNS: u64 = 25;
/// Number of failing requests out of ten.
const FAILING_OF_TEN: u64 = 3;

/// Returns the events of a run as JSON.
fn events(finished: &FinishedCommand) -> Vec<Value> {
    let logs = finished.project().path(".massgen/massgen_logs");
    let [run] = &fs::read_dir(logs)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir() && !path.is_symlink())
        .collect::<Vec<_>>()[..]
    else {
        panic!("one run was made");
    };
    let log = fs::read_to_string(run.join("turn_1/events.jsonl")).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

/// Deterministic pseudorandom numbers.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Returns a random failure.
fn random_failure(random: &mut RandomNumbers) -> ScriptedResponse {
    let half = event(&json!({"content": "forty-one, says a cut reply"}), None);
    match random.below(5) {
        0 => refusal("500 Internal Server Error", &[], "out of luck"),
        1 => refusal("429 Too Many Requests", &["retry-after: 1"], "slow down"),
        2 => ScriptedResponse::stream().piece("data: {\"choices\": [{\"delta\": {\n\n"),
        3 => ScriptedResponse::whole(
            "200 OK",
            &["content-type: application/json"],
            "{\"choices\": ",
        ),
        _ => ScriptedResponse::stream().piece(half),
    }
}

fn run_with_failures(seed: u64) {
    let random = Mutex::new(RandomNumbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
    let endpoint = Endpoint::start_with(move |request| {
        let mut random = random.lock().unwrap();
        if random.below(10) < FAILING_OF_TEN {
            random_failure(&mut random)
        } else {
            play(request)
        }
    });
    let agents = [
        endpoint.agent("one", "m1", ""),
        endpoint.agent("two", "m2", ""),
    ];
    let finished = team_project(&agents, "").success();
    assert_eq!(finished.stdout(), "It is forty-two, m1 is sure.\n");
    let events = events(&finished);
    let counted = ["answered", "voted", "replied", "dropped_out"].map(|kind| count(&events, kind));
    assert_eq!(counted, [2, 2, 5, 0], "{}", finished.stderr());
    let replies = events.iter().filter(|event| event["type"] == "replied");
    for reply in replies {
        assert!(!reply.to_string().contains("forty-one"), "{reply}");
    }
}

#[test]
fn runs_complete_although_three_of_ten_requests_fail() {
    let mut failed = 0;
    let runs = u64::try_from(repetitions(RUNS_SHORT, RUNS)).unwrap();
    for begin in (0..runs).step_by(usize::try_from(PARALLEL_RUNS).unwrap()) {
        let runs: Vec<_> = (begin..begin + PARALLEL_RUNS)
            .map(|seed| thread::spawn(move || run_with_failures(seed + 1)))
            .collect();
        let ended = runs.into_iter().map(thread::JoinHandle::join);
        failed += ended.filter(Result::is_err).count();
    }
    assert_eq!(failed, 0);
}

#[test]
fn what_only_the_user_can_change_ends_the_run_with_its_own_status() {
    #[track_caller]
    fn check(status: &'static str, body: &Value, code: i32, cause: &str) {
        let (body, more) = (body.to_string(), ", api_key: sk-0123456789abcdef");
        let endpoint = Endpoint::start_with(move |_| {
            ScriptedResponse::whole(status, &["content-type: application/json"], &body)
        });
        let agents = [
            endpoint.agent("one", "m1", more),
            endpoint.agent("two", "m2", more),
        ];
        let flags = ["--output-format", "json"];
        let finished = team_project(&agents, "").args(flags).failure(code);
        assert_eq!(endpoint.server.requests().len(), 2, "{status}: no retry");
        let result: Value = serde_json::from_str(finished.stdout()).unwrap();
        let summary = result["summary"].as_str().unwrap();
        assert!(summary.contains(cause), "{status}: {summary}");
        let hints = &result["error"]["hints"];
        assert_eq!(
            hints.as_array().unwrap().len(),
            usize::from(code == 3),
            "{hints}"
        );
        let text = finished
            .then(["--config", "team.yaml", "task"])
            .failure(code);
        let last_line = text.stderr().lines().last().unwrap();
        assert!(last_line.contains(cause), "{last_line}");
    }

    let error = |code: &str, message: &str| json!({"error": {"code": code, "message": message}});
    let rejected = error("invalid_api_key", "Incorrect API key provided");
    check(
        "401 Unauthorized",
        &rejected,
        3,
        "the API key is rejected; correct",
    );
    check(
        "403 Forbidden",
        &json!({}),
        3,
        "the API key is rejected; correct",
    );
    let unknown = error("model_not_found", "The model `m1` does not exist");
    check(
        "404 Not Found",
        &unknown,
        3,
        "does not have the model; correct",
    );
    let old_server = json!({"error": "model 'm1' not found, try pulling it first"});
    check(
        "404 Not Found",
        &old_server,
        3,
        "does not have the model; correct",
    );
    let exhausted = error("insufficient_quota", "You exceeded your current quota");
    check(
        "429 Too Many Requests",
        &exhausted,
        3,
        "no credit left; add credit",
    );
    check(
        "402 Payment Required",
        &json!({}),
        3,
        "no credit left; add credit",
    );
    // Control: what the model or the vendor refuses for another reason.
    check("451 Unavailable", &json!({}), 1, "no agent answered");
}

#[test]
fn a_team_without_a_network_ends_at_once() {
    let agent = |id: &str| {
        format!(
            "  - id: {id}\n    backend: {{type: chatcompletion, model: m, api_key: k, \
             base_url: \"https://{id}.invalid/v1\"}}\n"
        )
    };
    let start = Instant::now();
    let finished = team_project(&[agent("one"), agent("two")], "").failure(3);
    let stderr = finished.stderr();
    assert!(!stderr.contains("retries in"), "{stderr}");
    assert_eq!(stderr.matches("HTTPS_PROXY").count(), 1, "{stderr}");
    assert!(start.elapsed() < Duration::from_secs(30), "{stderr}");
    // Control: an agent whose server is there goes on alone.
    let endpoint = Endpoint::start();
    let agents = [endpoint.agent("one", "m1", ""), agent("two")];
    let finished = team_project(&agents, "").success();
    assert_eq!(finished.stdout(), "It is forty-two, m1 is sure.\n");
}

#[test]
fn an_agent_falls_back_to_its_next_model() {
    #[track_caller]
    fn check(fault: &'static str, fallback: &str, code: i32, expected: &str) {
        let endpoint = Endpoint::start_with(move |request| match &*requested_model(request) {
            "m1" => refusal(fault, &["retry-after: 3600"], "not today"),
            _ => play(request),
        });
        let more = format!(", fallback: {fallback}").replace("URL", &endpoint.base_url());
        let finished = team_project(&[endpoint.agent("one", "m1", &more)], "").failure(code);
        assert_eq!(finished.stdout(), expected, "{}", finished.stderr());
        if code == 0 {
            let stderr = finished.stderr();
            let message =
                format!("[one] switches to m2 from m1: `chatcompletion` answered {fault}");
            assert!(stderr.contains(&message), "{stderr}");
        }
    }

    let next = "forty-two, says m2\n";
    check("404 Not Found", "[m2]", 0, next);
    check("429 Too Many Requests", "[m2]", 0, next);
    check("401 Unauthorized", "[m2, m3]", 0, next);
    check(
        "404 Not Found",
        "[{type: ollama, model: m2, base_url: 'URL'}]",
        0,
        next,
    );
    check("404 Not Found", "[]", 1, "");
    check("404 Not Found", "[m1]", 1, "");
}

/// Plays a model that reads a long file twenty times and then answers, at a vendor with a context
/// window of this many bytes.
fn read_long_files(request: &ReceivedRequest, bytes_max: usize) -> ScriptedResponse {
    let body = request.json();
    let messages = body["messages"].as_array().unwrap();
    let steps = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .count();
    let summaries = request.body.matches("- you called `read_text_file").count();
    if request.body.len() > bytes_max {
        let error = json!({"error": {"message": "This model's maximum context length is 8192 tokens", "code": "context_length_exceeded"}});
        ScriptedResponse::whole("400 Bad Request", &[], error.to_string())
    } else if steps + summaries < 20 {
        let directory = messages[0]["content"]
            .as_str()
            .and_then(|system| {
                system
                    .lines()
                    .find_map(|line| line.strip_suffix(": the user's, read"))
            })
            .unwrap();
        let path = format!("{}/long{steps}.txt", directory.trim_start_matches("- "));
        let path = json!({"path": path, "head": 40});
        stream_reply("", Some(("read_text_file", &path)))
    } else {
        let compacted = request.body.contains("left out");
        let content = format!("read all, compacted: {compacted}");
        stream_reply("", Some(("new_answer", &json!({"content": content}))))
    }
}

#[test]
fn a_conversation_that_is_too_long_is_compacted() {
    #[track_caller]
    fn check(bytes_max: usize, code: i32, expected: &str, compactions: std::ops::Range<usize>) {
        let endpoint = Endpoint::start_with(move |request| read_long_files(request, bytes_max));
        let agents = [endpoint.agent("one", "m1", ", cwd: w1")];
        let mut project = team_project(&agents, "orchestrator:\n  context_paths: [.]\n");
        for number in 0..20 {
            project = project.file(
                &format!("long{number}.txt"),
                format!("a long line of text {number}\n").repeat(200),
            );
        }
        let finished = project.failure(code);
        assert!(
            finished.stdout().starts_with(expected),
            "{}",
            finished.stderr()
        );
        let times = count(&events(&finished), "context_compacted");
        assert!(compactions.contains(&times), "compacted {times} times");
    }

    check(1 << 20, 0, "read all, compacted: false", 0..1);
    check(24_000, 0, "read all, compacted: true", 1..20);
    // Even after compaction it is too long: the run ends instead of looping.
    check(6_000, 1, "", 0..5);
}

#[test]
fn requests_wait_for_the_rate_limits_of_all_agents_together() {
    let endpoint = Endpoint::start();
    let agents = [
        endpoint.agent("one", "m1", ""),
        endpoint.agent("two", "m2", ""),
    ];
    let begun = Instant::now();
    // Five requests are needed, and one that is never sent gets no reply.
    let finished = team_project(&agents, "rate_limits: [{type: chatcompletion, rpm: 4}]\ntimeout_settings: {orchestrator_timeout_seconds: 12}\n").failure(5);
    assert!(begun.elapsed() < Duration::from_secs(55));
    assert_eq!(endpoint.server.requests().len(), 4);
    let stderr = finished.stderr();
    assert!(
        stderr.contains("the limit of `chatcompletion` is 4 requests a minute"),
        "{stderr}"
    );

    let endpoint = Endpoint::start();
    let agents = [endpoint.agent("one", "m1", "")];
    let finished = team_project(&agents, "")
        .args(["--rate-limit", "chatcompletion/m1=1"])
        .success();
    assert_eq!(finished.stdout(), "forty-two, says m1\n");
    assert_eq!(count(&events(&finished), "rate_limited"), 0);
}
