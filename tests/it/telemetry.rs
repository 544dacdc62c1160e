//! Telemetry export of a run: the real binary with a real HTTP collector on loopback, whose
//! requests are decoded with the messages that OpenTelemetry publishes.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

use crate::http_server::{Endpoint, ReceivedRequest, ScriptedResponse};
use crate::project::{FinishedCommand, Project};
use crate::slurm_cluster::free_ports;

/// Part of everything that a person or a model writes, and of nothing else.
const CANARY: &str = "CANARY";
/// A key of the user's, which a model repeats.
const KEY: &str = "sk-proj-x-0123456789abcdef";

/// Two agents: `one` gets a transient error at first, then works, is denied a file, answers, votes
/// and presents.
const TEAM: &str = "\
agents:
  - id: one
    backend:
      type: scripted
      model: m1
      cwd: w1
      replies:
        - when: {lacks: vote}
          text: CANARY, it is done.
          usage: {input_tokens: 7, output_tokens: 5}
        - error: {message: CANARY is busy, transient: true}
        - text: CANARY first, with sk-proj-x-0123456789abcdef.
          usage: {input_tokens: 100, cached_tokens: 40, output_tokens: 10}
          calls:
            - name: write_file
              arguments: {path: notes.txt, content: CANARY}
            - name: read_text_file
              arguments: {path: /etc/shadow}
        - calls:
            - name: new_answer
              arguments: {content: CANARY is the answer}
        - repeat: true
          calls:
            - name: vote
              arguments: {agent_id: agent1, reason: CANARY is right}
  - id: two
    backend:
      type: scripted
      model: m2
      replies:
        - calls:
            - name: new_answer
              arguments: {content: CANARY is another}
        - repeat: true
          calls:
            - name: vote
              arguments: {agent_id: agent1, reason: CANARY is better}
";

/// Returns the team with a task that contains the canary.
fn team() -> Project {
    Project::new()
        .file("team.yaml", TEAM)
        .env("OPENAI_API_KEY", KEY)
        .args(["--config", "team.yaml", "CANARY, please"])
}

fn accept_export(_: &ReceivedRequest) -> ScriptedResponse {
    ScriptedResponse::whole("200 OK", &[], "")
}

/// Everything that a collector received.
struct ExportedTraces {
    requests: Vec<ExportTraceServiceRequest>,
    /// Everything as text, including what is not a span.
    text: String,
}

impl ExportedTraces {
    fn to(collector: &Endpoint) -> Self {
        let requests = collector.server.requests();
        let read = |request: &ReceivedRequest| match request.headers["content-type"].as_str() {
            "application/x-protobuf" => {
                ExportTraceServiceRequest::decode(request.bytes.as_slice()).unwrap()
            }
            "application/json" => serde_json::from_slice(&request.bytes).unwrap(),
            other => panic!("{other}"),
        };
        let requests: Vec<_> = requests.iter().map(read).collect();
        assert!(!requests.is_empty(), "nothing was exported");
        let text = format!("{requests:?}");
        Self { requests, text }
    }

    fn spans(&self) -> Vec<&Span> {
        let resources = self
            .requests
            .iter()
            .flat_map(|request| &request.resource_spans);
        let scopes = resources.flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| &scope.spans).collect()
    }

    /// Returns each span with its parents, for example `invoke_workflow massgen/invoke_agent one`,
    /// and its attributes.
    fn tree(&self) -> Vec<(String, BTreeMap<String, String>)> {
        let spans = self.spans();
        let by_id: BTreeMap<&[u8], &Span> = spans
            .iter()
            .map(|span| (span.span_id.as_slice(), *span))
            .collect();
        assert_eq!(by_id.len(), spans.len(), "two spans have one id");
        let span_path = |span: &Span| {
            let mut span_path = span.name.clone();
            let mut at = span;
            while !at.parent_span_id.is_empty() {
                at = by_id[at.parent_span_id.as_slice()];
                span_path = format!("{}/{span_path}", at.name);
            }
            span_path
        };
        let entries = spans
            .iter()
            .map(|span| (span_path(span), attribute_texts(&span.attributes)));
        entries.collect()
    }

    /// Returns the attributes of the spans at this place of the tree.
    #[track_caller]
    fn at(&self, span_path: &str) -> Vec<BTreeMap<String, String>> {
        let tree = self.tree();
        let found: Vec<_> = tree
            .iter()
            .filter(|(path, _)| path == span_path)
            .map(|(_, attributes)| attributes.clone())
            .collect();
        let ways: Vec<&String> = tree.iter().map(|(span_path, _)| span_path).collect();
        assert!(!found.is_empty(), "`{span_path}` is not among {ways:#?}");
        found
    }

    /// Returns the names of all span events, with their attributes.
    fn span_events(&self) -> Vec<(String, BTreeMap<String, String>)> {
        let spans = self.spans();
        let events = spans.iter().flat_map(|span| &span.events);
        events
            .map(|event| (event.name.clone(), attribute_texts(&event.attributes)))
            .collect()
    }
}

fn attribute_texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| {
        let value = attribute.value.as_ref().unwrap().value.as_ref().unwrap();
        let value = if let Value::StringValue(text) = value {
            text.clone()
        } else if let Value::IntValue(number) = value {
            number.to_string()
        } else {
            format!("{value:?}")
        };
        (attribute.key.clone(), value)
    };
    attributes.iter().map(text).collect()
}

#[track_caller]
fn check(attributes: &BTreeMap<String, String>, expected: &[(&str, &str)]) {
    for (key, value) in expected {
        let actual = attributes.get(*key).map(String::as_str);
        assert_eq!(actual, Some(*value), "{key} of {attributes:#?}");
    }
}

const RUN: &str = "invoke_workflow massgen";

#[test]
fn a_run_is_a_tree_of_spans_with_the_names_of_the_conventions() {
    let collector = Endpoint::start_with(accept_export);
    let _run = team()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.server.url)
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-team=red%20team")
        .env(
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=test",
        )
        .success();
    let traces = ExportedTraces::to(&collector);

    let [run] = &traces.at(RUN)[..] else { panic!() };
    check(run, &[("gen_ai.operation.name", "invoke_workflow")]);
    check(run, &[("massgen.exit_status", "0")]);
    let one = format!("{RUN}/invoke_agent one");
    let phases = traces.at(&one);
    let phases: Vec<_> = phases
        .iter()
        .map(|work| work["massgen.phase"].as_str())
        .collect();
    assert_eq!(phases, ["coordination", "final"]);
    check(
        &traces.at(&format!("{RUN}/invoke_agent two"))[0],
        &[
            ("gen_ai.operation.name", "invoke_agent"),
            ("gen_ai.agent.name", "two"),
        ],
    );

    let requests = traces.at(&format!("{one}/chat m1"));
    assert_eq!(requests.len(), 5, "{requests:#?}");
    check(&requests[0], &[("error.type", "transient")]);
    check(
        &requests[1],
        &[
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.provider.name", "scripted"),
            ("gen_ai.request.model", "m1"),
            ("gen_ai.agent.name", "one"),
            ("gen_ai.usage.input_tokens", "100"),
            ("gen_ai.usage.cache_read.input_tokens", "40"),
            ("gen_ai.usage.output_tokens", "10"),
        ],
    );
    assert!(requests[1]["gen_ai.response.finish_reasons"].contains("tool_call"));
    assert!(requests[4]["gen_ai.response.finish_reasons"].contains("stop"));
    assert!(!requests[1].contains_key("error.type"));

    let written = traces.at(&format!("{one}/execute_tool write_file"));
    check(
        &written[0],
        &[
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", "write_file"),
            ("gen_ai.tool.type", "function"),
        ],
    );
    assert!(!written[0]["gen_ai.tool.call.id"].is_empty());
    let refused = traces.at(&format!("{one}/execute_tool read_text_file"));
    check(&refused[0], &[("error.type", "denied")]);

    let resource = traces.requests[0].resource_spans[0].resource.as_ref();
    let resource = attribute_texts(&resource.unwrap().attributes);
    let expected = [
        ("service.name", "massgen"),
        ("deployment.environment.name", "test"),
    ];
    check(&resource, &expected);
    for request in collector.server.requests() {
        assert_eq!(request.line, "POST /v1/traces");
        assert_eq!(request.headers["x-team"], "red team");
    }
}

#[test]
fn spans_last_as_long_as_what_they_tell_of() {
    let collector = Endpoint::start_with(accept_export);
    let _run = team()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.server.url)
        .success();
    let traces = ExportedTraces::to(&collector);
    let spans = traces.spans();
    let run = spans.iter().find(|span| span.name == RUN).unwrap();
    for span in &spans {
        assert_eq!(span.trace_id, run.trace_id);
        assert!(
            span.start_time_unix_nano <= span.end_time_unix_nano,
            "{span:?}"
        );
        assert!(
            run.start_time_unix_nano <= span.start_time_unix_nano,
            "{span:?}"
        );
        assert!(
            span.end_time_unix_nano <= run.end_time_unix_nano,
            "{span:?}"
        );
    }
}

#[test]
fn retries_answers_and_votes_are_moments() {
    let collector = Endpoint::start_with(accept_export);
    let _run = team()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.server.url)
        .success();
    let traces = ExportedTraces::to(&collector);
    let moments = traces.span_events();
    let of = |name: &str| {
        let named = moments.iter().filter(|(known, _)| known == name);
        named.map(|(_, attributes)| attributes).collect::<Vec<_>>()
    };
    assert!(of("massgen.retry")[0].contains_key("massgen.wait_ms"));
    let answers = of("massgen.answer").into_iter();
    let mut labels: Vec<&str> = answers
        .map(|answer| answer["massgen.label"].as_str())
        .collect();
    labels.sort_unstable();
    assert_eq!(labels, ["agent1.1", "agent2.1"]);
    let votes = of("massgen.vote");
    assert_eq!(votes.len(), 2);
    check(votes[0], &[("massgen.candidate", "one")]);
    check(
        of("massgen.winner_selected")[0],
        &[("massgen.winner", "one")],
    );
}

#[test]
fn both_encodings_tell_the_same() {
    let exported = |protocol: &str| {
        let collector = Endpoint::start_with(accept_export);
        let _run = team()
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.server.url)
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
            .success();
        let requests = collector.server.requests();
        let kind = requests[0].headers["content-type"].clone();
        let traces = ExportedTraces::to(&collector);
        assert!(traces.spans().iter().all(|span| span.span_id.len() == 8));
        let names = traces.tree().into_iter().map(|(span_path, attributes)| {
            let keys: Vec<String> = attributes.into_keys().collect();
            format!("{span_path}: {}", keys.join(" "))
        });
        let mut names: Vec<String> = names.collect();
        names.sort();
        (kind, names)
    };
    let (protobuf, binary_names) = exported("http/protobuf");
    let (json, json_names) = exported("http/json");
    assert_eq!(
        [protobuf, json],
        ["application/x-protobuf", "application/json"]
    );
    assert_eq!(binary_names, json_names);
}

#[test]
fn texts_stay_here_unless_they_are_asked_for_and_keys_always() {
    let traces_with = |capture: &str| {
        let collector = Endpoint::start_with(accept_export);
        let variable = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
        let _run = team()
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.server.url)
            .env(variable, capture)
            .success();
        let traces = ExportedTraces::to(&collector);
        assert!(!traces.text.contains(KEY), "the key was exported");
        traces
    };
    let quiet = traces_with("false");
    assert!(!quiet.text.contains(CANARY), "{}", quiet.text);
    assert!(!quiet.text.contains("shadow"), "{}", quiet.text);

    let open = traces_with("true");
    let [run] = &open.at(RUN)[..] else { panic!() };
    assert!(run["gen_ai.input.messages"].contains("CANARY, please"));
    assert!(run["gen_ai.output.messages"].contains("CANARY, it is done."));
    let one = format!("{RUN}/invoke_agent one");
    let reply = &open.at(&format!("{one}/chat m1"))[1]["gen_ai.output.messages"];
    assert!(reply.contains("CANARY first, with [redacted]."), "{reply}");
    let call = &open.at(&format!("{one}/execute_tool write_file"))[0];
    assert!(call["gen_ai.tool.call.arguments"].contains("notes.txt"));
    assert!(call.contains_key("gen_ai.tool.call.result"));
}

#[test]
fn nothing_is_exported_unless_the_environment_asks_for_it() {
    let collector = Endpoint::start_with(accept_export);
    let url = &collector.server.url;
    let variable = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let line = format!("{variable}={url}\n");

    let finished = team().success();
    assert!(
        !finished.stderr().contains("telemetry:"),
        "{}",
        finished.stderr()
    );
    let _off = team()
        .env(variable, url)
        .env("OTEL_SDK_DISABLED", "true")
        .success();
    for project in [
        team().file(".env", &line),
        team().home_file(".massgen/.env", &line),
    ] {
        let finished = project.success();
        let is_warning =
            |line: &str| line.contains("/.env`") && line.contains(&format!("`{variable}`"));
        assert!(
            finished.stderr().lines().any(is_warning),
            "{}",
            finished.stderr()
        );
    }
    let malformed = team().env(variable, "localhost:4318").success();
    assert!(
        malformed
            .stderr()
            .contains("warning: telemetry is disabled")
    );
    assert_eq!(collector.server.requests().len(), 0);

    let _control = team().env(variable, url).success();
    assert!(!collector.server.requests().is_empty());
}

/// Checks that the run is the same as without a collector, except for one warning.
#[track_caller]
fn check_unharmed(finished: &FinishedCommand, shown_url: &str, reason: &str) {
    assert_eq!(finished.stdout(), "CANARY, it is done.\n");
    let is_warning = |line: &&str| line.starts_with("warning: telemetry: ");
    let warnings: Vec<&str> = finished.stderr().lines().filter(is_warning).collect();
    let [warning] = warnings[..] else {
        panic!("{}", finished.stderr());
    };
    assert!(
        warning.contains(shown_url) && warning.contains(reason),
        "{warning}"
    );
    let last = finished.stderr().lines().last().unwrap_or_default();
    assert!(last.starts_with("done: "), "{last}");
}

#[test]
fn a_collector_that_is_gone_hangs_or_fails_costs_one_warning() {
    let with = |url: &str| {
        let endpoint = format!("{url}/v1/traces");
        let project = team().env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &endpoint);
        (project.success(), endpoint)
    };
    let closed_port = free_ports(1)[0];
    let (finished, shown_url) = with(&format!("http://127.0.0.1:{closed_port}"));
    check_unharmed(&finished, &shown_url, "refused");

    let hangs = Endpoint::start_with(|_| ScriptedResponse::default().await_close());
    let (finished, shown_url) = with(&hangs.server.url);
    check_unharmed(&finished, &shown_url, "no answer");

    let fails =
        Endpoint::start_with(|_| ScriptedResponse::whole("500 Internal Server Error", &[], "no"));
    let (finished, shown_url) = with(&fails.server.url);
    check_unharmed(&finished, &shown_url, "500");
}

#[test]
fn a_busy_collector_is_retried() {
    let busy = std::sync::atomic::AtomicBool::new(true);
    let collector = Endpoint::start_with(move |_| {
        if busy.swap(false, std::sync::atomic::Ordering::Relaxed) {
            ScriptedResponse::whole("503 Service Unavailable", &["retry-after: 0"], "")
        } else {
            ScriptedResponse::whole("200 OK", &[], "")
        }
    });
    let finished = team()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.server.url)
        .success();
    assert!(
        !finished.stderr().contains("telemetry:"),
        "{}",
        finished.stderr()
    );
    let requests = collector.server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].bytes, requests[1].bytes);
}
