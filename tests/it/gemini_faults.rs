//! Failing requests to Google's models: the error is in the vendor's words, and the advice about
//! retrying is right.

use massgen::backend::ReplyEvent;
use massgen::event::StopReason;
use serde_json::{Value, json};

use crate::decoding::connect;
use crate::gemini_wire::{finish, gemini, parts, start_gemini_server};
use crate::http_server::{ScriptedResponse, ScriptedServer};
use crate::wire::{collect, event, simple_request};

/// Returns the error for an answer, as one line.
async fn line_of(answer: ScriptedResponse) -> String {
    let (server, backend) = start_gemini_server(answer).await;
    let mut events = collect(&backend, simple_request()).await;
    let error = events.pop().unwrap().unwrap_err();
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, Ok(ReplyEvent::Call(_) | ReplyEvent::End(_)))),
        "{events:?}"
    );
    format!("{:?}: {}", error.kind, error.message).replace(&server.url, "http://here")
}

async fn lines_of(answers: Vec<ScriptedResponse>) -> String {
    let mut lines = Vec::new();
    for answer in answers {
        lines.push(line_of(answer).await);
    }
    lines.join("\n")
}

#[tokio::test]
async fn a_reply_that_is_broken_is_no_reply() {
    let hello = || ScriptedResponse::stream().piece(parts(&json!([{"text": "Hi"}])));
    let read = json!({"name": "read_text_file", "args": {}});
    let malformed = json!({"candidates": [{
        "finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "print(read_file())",
    }]});
    let many: Vec<Value> = (0..129).map(|_| json!({"functionCall": read})).collect();
    let answers = vec![
        hello().piece(event(&malformed)).end(),
        hello().piece(finish("UNEXPECTED_TOOL_CALL")).end(),
        hello().piece(finish("TOO_MANY_TOOL_CALLS")).end(),
        hello().piece(finish("OTHER")).end(),
        hello().piece(finish("FINISH_REASON_UNSPECIFIED")).end(),
        hello().piece(parts(&json!([{"functionCall": read}]))).end(),
        hello()
            .piece(parts(&json!([{"functionCall": {"args": {}}}])))
            .piece(finish("STOP"))
            .end(),
        ScriptedResponse::stream()
            .piece(parts(&json!(many)))
            .piece(finish("STOP"))
            .end(),
        hello().piece("data: {\"candidates\": [\n\n").end(),
        ScriptedResponse::stream().end(),
        ScriptedResponse::whole("200 OK", &["content-type: application/json"], "{}"),
        ScriptedResponse::whole("200 OK", &["content-type: text/html"], "<html>"),
    ];
    insta::assert_snapshot!(lines_of(answers).await, @r#"
    Transient { retry_after: None }: `gemini` ended its reply with `MALFORMED_FUNCTION_CALL: print(read_file())`
    Transient { retry_after: None }: `gemini` ended its reply with `UNEXPECTED_TOOL_CALL`
    Transient { retry_after: None }: `gemini` ended its reply with `TOO_MANY_TOOL_CALLS`
    Transient { retry_after: None }: `gemini` ended its reply with `OTHER`
    Transient { retry_after: None }: `gemini` sent an incomplete reply
    Transient { retry_after: None }: `gemini` sent an incomplete reply
    Transient { retry_after: None }: `gemini` sent a malformed reply: the reply makes a tool call without a name
    Permanent: `gemini` sent a reply that makes more than 128 tool calls
    Transient { retry_after: None }: `gemini` sent a malformed reply: EOF while parsing a list at line 1 column 16: {"candidates": [
    Transient { retry_after: None }: `gemini` sent an incomplete reply
    Transient { retry_after: None }: `gemini` sent a malformed reply: the body holds no reply
    Permanent: `gemini` answered with a web page at `http://here/v1beta/models/gemini-3.8-flash:streamGenerateContent`: check `base_url`
    "#);
}

#[tokio::test]
async fn an_unknown_finish_reason_does_not_spoil_a_whole_reply() {
    let call = json!([{"functionCall": {"name": "read_text_file", "args": {}}}]);
    for (reason, content, is_whole) in [
        ("FUNCTION_CALL", call.clone(), true),
        ("FUNCTION_CALL", json!([{"text": "Hi"}]), true),
        ("FUNCTION_CALL", json!([]), false),
        (
            "FUNCTION_CALL",
            json!([{"text": "Hm", "thought": true}]),
            false,
        ),
        ("OTHER", call, true),
        ("OTHER", json!([{"text": "Hi"}]), false),
    ] {
        let reply = ScriptedResponse::stream()
            .piece(parts(&content))
            .piece(finish(reason))
            .piece("data: {\"usageMeta\n\n")
            .end();
        let server = ScriptedServer::start(vec![reply.clone(), reply]).await;
        let backend = connect(&gemini(&server, "gemini-3.8-flash", &json!({})));
        let events = collect(&backend, simple_request()).await;
        let unknown = Ok(ReplyEvent::UnknownFinish(reason.to_owned()));
        assert_eq!(events.contains(&unknown), is_whole, "{content} {events:?}");
        let end = Ok(ReplyEvent::End(StopReason::Done));
        assert_eq!(events.contains(&end), is_whole, "{content} {events:?}");
        // It is reported once.
        let again = collect(&backend, simple_request()).await;
        assert!(!again.contains(&unknown), "{again:?}");
        assert_eq!(again.contains(&end), is_whole, "{again:?}");
    }
}

#[tokio::test]
async fn a_call_without_a_finish_reason_is_whole() {
    let call = json!([{"functionCall": {"name": "read_text_file", "args": {}}}]);
    for reason in ["", "FINISH_REASON_UNSPECIFIED"] {
        let reply = ScriptedResponse::stream()
            .piece(parts(&call))
            .piece(finish(reason))
            .end();
        let server = ScriptedServer::start(vec![reply]).await;
        let backend = connect(&gemini(&server, "gemini-3.8-flash", &json!({})));
        let events = collect(&backend, simple_request()).await;
        assert!(
            events.contains(&Ok(ReplyEvent::End(StopReason::Done))),
            "{events:?}"
        );
    }
}

/// An error as Google formats it; its status in HTTP is the code.
struct Refusal {
    code: u16,
    status: &'static str,
    message: &'static str,
    details: Value,
}

fn refusal(code: u16, status: &'static str, message: &'static str, details: Value) -> Refusal {
    Refusal {
        code,
        status,
        message,
        details,
    }
}

impl Refusal {
    fn body(&self) -> String {
        let Refusal {
            code,
            status,
            message,
            details,
        } = self;
        let error = json!({"code": code, "message": message, "status": status, "details": details});
        json!({"error": error}).to_string()
    }

    fn answer(&self) -> ScriptedResponse {
        ScriptedResponse::whole(&format!("{} Refused", self.code), &[], self.body())
    }
}

/// Formats Google's error about an exceeded quota with this name.
fn quota(name: &str) -> Value {
    json!([
        {"@type": "type.googleapis.com/google.rpc.Help", "links": []},
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{
            "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
            "quotaId": name, "quotaValue": "20",
        }]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17.5s"},
    ])
}

fn requests_per_minute() -> Refusal {
    let details = quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier");
    refusal(429, "RESOURCE_EXHAUSTED", EXCEEDED, details)
}

const EXCEEDED: &str = "You exceeded your current quota, please check your plan and billing.";
const NO_QUOTA: &str = "Quota exceeded, limit: 0, model: gemini-3.1-pro";
const SPENT: &str = "Your prepayment credits are depleted.";
const TOO_LONG: &str =
    "The input token count (9) exceeds the maximum number of tokens allowed (8).";

#[tokio::test]
async fn a_refusal_for_good_is_reported_in_the_vendors_words() {
    let none = || json!([]);
    let key =
        json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]);
    let per_day = quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier");
    let refusals = [
        refusal(400, "INVALID_ARGUMENT", "API key not valid.", key),
        refusal(400, "INVALID_ARGUMENT", "Invalid value.", none()),
        refusal(400, "INVALID_ARGUMENT", TOO_LONG, none()),
        refusal(403, "PERMISSION_DENIED", "No access.", none()),
        refusal(404, "NOT_FOUND", "models/m is not found.", none()),
        refusal(429, "RESOURCE_EXHAUSTED", EXCEEDED, per_day),
        refusal(429, "RESOURCE_EXHAUSTED", NO_QUOTA, none()),
        refusal(429, "RESOURCE_EXHAUSTED", SPENT, none()),
    ];
    let answers = refusals.iter().map(Refusal::answer).collect();
    insta::assert_snapshot!(lines_of(answers).await, @r#"
    NeedsUser(RejectedKey): `gemini` answered 400 Bad Request: API key not valid. (the key is from `api_key`)
    InvalidRequest: `gemini` answered 400 Bad Request: Invalid value.
    ContextTooLong: `gemini` answered 400 Bad Request: The input token count (9) exceeds the maximum number of tokens allowed (8).
    NeedsUser(RejectedKey): `gemini` answered 403 Forbidden: No access. (the key is from `api_key`)
    NeedsUser(UnknownModel): `gemini` answered 404 Not Found: models/m is not found. (asked at `http://here/v1beta/models/gemini-3.8-flash:streamGenerateContent`)
    NeedsUser(ExhaustedAccount): `gemini` answered 429 Too Many Requests: You exceeded your current quota, please check your plan and billing.
    NeedsUser(ExhaustedAccount): `gemini` answered 429 Too Many Requests: Quota exceeded, limit: 0, model: gemini-3.1-pro
    NeedsUser(ExhaustedAccount): `gemini` answered 429 Too Many Requests: Your prepayment credits are depleted.
    "#);
}

#[tokio::test]
async fn a_refusal_that_may_heal_says_when_to_ask_again() {
    let none = || json!([]);
    let refusals = [
        refusal(
            429,
            "RESOURCE_EXHAUSTED",
            "Resource has been exhausted.",
            none(),
        ),
        requests_per_minute(),
        refusal(499, "CANCELLED", "The operation was cancelled.", none()),
        refusal(500, "INTERNAL", "An internal error has occurred.", none()),
        refusal(503, "UNAVAILABLE", "The model is overloaded.", none()),
        refusal(504, "DEADLINE_EXCEEDED", "Deadline expired.", none()),
    ];
    let mut answers: Vec<ScriptedResponse> = refusals.iter().map(Refusal::answer).collect();
    let in_list = format!("[{}]", requests_per_minute().body());
    for headers in [[].as_slice(), &["retry-after: 3"]] {
        answers.push(ScriptedResponse::whole(
            "429 Too Many Requests",
            headers,
            &in_list,
        ));
    }
    insta::assert_snapshot!(lines_of(answers).await, @r#"
    Transient { retry_after: None }: `gemini` answered 429 Too Many Requests: Resource has been exhausted.
    Transient { retry_after: Some(17.5s) }: `gemini` answered 429 Too Many Requests: You exceeded your current quota, please check your plan and billing.
    Transient { retry_after: None }: `gemini` answered 499: The operation was cancelled.
    Transient { retry_after: None }: `gemini` answered 500 Internal Server Error: An internal error has occurred.
    Transient { retry_after: None }: `gemini` answered 503 Service Unavailable: The model is overloaded.
    Transient { retry_after: None }: `gemini` answered 504 Gateway Timeout: Deadline expired.
    Transient { retry_after: Some(17.5s) }: `gemini` answered 429 Too Many Requests: You exceeded your current quota, please check your plan and billing.
    Transient { retry_after: Some(3s) }: `gemini` answered 429 Too Many Requests: You exceeded your current quota, please check your plan and billing.
    "#);
}

#[tokio::test]
async fn an_error_in_the_stream_is_reported_in_the_vendors_words() {
    let refusals = [
        refusal(503, "UNAVAILABLE", "The model is overloaded.", json!([])),
        requests_per_minute(),
        refusal(400, "INVALID_ARGUMENT", "No.", json!([])),
        refusal(400, "INVALID_ARGUMENT", TOO_LONG, json!([])),
    ];
    let answer = |refusal: &Refusal| {
        let begun = ScriptedResponse::stream().piece(parts(&json!([{"text": "Hi"}])));
        begun.piece(format!("data: {}\n\n", refusal.body())).end()
    };
    let answers = refusals.iter().map(answer).collect();
    insta::assert_snapshot!(lines_of(answers).await, @r#"
    Transient { retry_after: None }: `gemini` reported an error: The model is overloaded.
    Transient { retry_after: Some(17.5s) }: `gemini` reported an error: You exceeded your current quota, please check your plan and billing.
    InvalidRequest: `gemini` reported an error: No.
    ContextTooLong: `gemini` reported an error: The input token count (9) exceeds the maximum number of tokens allowed (8).
    "#);
}
