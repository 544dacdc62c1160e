//! Tests of the view of a run: events as a log writes them, and what the view makes of them.

use serde_json::json;

use super::*;
use crate::run_view::agent::{AgentActivity, CALLS_MAX};
use crate::run_view::timeline::SpanKind;
use crate::run_view::tool_call::ToolCallOutcome;
use crate::run_view::transcript::{EntryKind, TRANSCRIPT_BYTES_MAX};

/// Time between two events, in milliseconds.
const STEP_MS: u64 = 10;

/// Folds events, each [`STEP_MS`] after the one before it.
fn fold(events: &[Value]) -> RunView {
    let mut view = RunView::default();
    for (seq, event) in (1..).zip(events) {
        apply(&mut view, seq, event);
    }
    view
}

#[track_caller]
fn apply(view: &mut RunView, seq: u64, event: &Value) {
    let event: Event = serde_json::from_value(event.clone()).unwrap();
    let elapsed_ms = seq * STEP_MS;
    view.apply(&event, EventPosition { seq, elapsed_ms });
}

fn start_event(agents: &[&str]) -> Value {
    json!({"type": "run_started", "question": "why?", "agents": agents, "restart": 0})
}

fn request_event(agent: &str) -> Value {
    json!({"type": "model_request_started", "agent": agent, "model": "m"})
}

fn finish_event(agent: &str) -> Value {
    json!({"type": "model_request_finished", "agent": agent, "model": "m", "phase": "coordination",
        "input_tokens": 100, "cached_tokens": 0, "cache_write_tokens": 0, "output_tokens": 20,
        "reasoning_tokens": 0, "cost_usd": null, "elapsed_ms": 7})
}

fn text(agent: &str, text: &str) -> Value {
    json!({"type": "text", "agent": agent, "text": text})
}

fn call_event(agent: &str, id: &str, denied: Option<&str>) -> Value {
    json!({"type": "tool_called", "agent": agent, "call_id": id, "tool": "write_file",
        "arguments": "{\"path\":\"f\"}", "denied": denied, "rule": denied.map(|_| "outside")})
}

fn return_event(agent: &str, id: &str, success: bool) -> Value {
    json!({"type": "tool_finished", "agent": agent, "call_id": id, "tool": "write_file",
        "success": success, "denied": false, "summary": "wrote 3 bytes", "elapsed_ms": 4})
}

fn approval(agent: &str, answer: Option<&str>) -> Value {
    json!({"type": "approval", "agent": agent, "call_id": "c", "tool": "execute_command",
        "effects": ["run `rm x`"], "reason": "a rule", "answer": answer})
}

fn queued_approval(agent: &str, waiting: bool) -> Value {
    json!({"type": "approval_queued", "agent": agent, "call_id": "c", "tool": "execute_command",
        "waiting": waiting})
}

fn answer_event(agent: &str, label: &str, verdict: Option<&str>) -> Value {
    let check = |verdict| {
        json!({"checks": [{"check": "tests", "need": "required", "verdict": verdict,
            "how": "exit status 1", "elapsed_ms": 5}], "changes": null})
    };
    json!({"type": "answered", "agent": agent, "label": label, "content": "text",
        "snapshot": "/s", "evidence": verdict.map(check)})
}

fn vote_event(agent: &str, candidate: &str, label: &str) -> Value {
    json!({"type": "voted", "agent": agent, "candidate": candidate, "label": label, "reason": "r"})
}

fn winner(agent: &str, label: &str, votes: &[(&str, u32)]) -> Value {
    json!({
        "type": "winner_selected", "agent": agent, "label": label, "reason": "most_votes", "votes": votes
    })
}

/// Checks the state of agent `a` after `events`; agent `b` is idle.
#[track_caller]
fn check_state(events: &[Value], expected: &str) {
    let mut all = vec![start_event(&["a", "b"])];
    all.extend_from_slice(events);
    let view = fold(&all);
    assert_eq!(view.agents()[0].state_text(), expected, "{events:?}");
    assert_eq!(view.agents()[1].state_text(), "idle", "{events:?}");
}

#[test]
fn the_state_of_an_agent_follows_its_events() {
    let retrying = json!({"type": "retrying", "agent": "a", "reason": "busy", "wait_ms": 1200});
    let limited = json!({"type": "rate_limited", "agent": "a", "reason": "3/min", "wait_ms": 900});
    let reasoning = json!({"type": "reasoning", "agent": "a", "text": "hm"});
    let checking = json!({"type": "checking", "agent": "a", "check": "tests"});
    let dropped =
        json!({"type": "dropped_out", "agent": "a", "reason": "no key", "timed_out": false});
    let voided = json!({"type": "votes_voided", "voters": ["a"]});
    let ended = json!({"type": "run_ended", "status": "delivered", "summary": "s"});
    check_state(&[], "idle");
    check_state(&[request_event("a")], "waits for its model");
    check_state(&[request_event("a"), text("a", "x")], "writes");
    check_state(&[request_event("a"), reasoning], "reasons");
    check_state(
        &[request_event("a"), text("a", "x"), finish_event("a")],
        "idle",
    );
    check_state(&[request_event("a"), retrying], "retries in 2 s");
    check_state(&[request_event("a"), limited], "rate limited for 1 s");
    check_state(&[call_event("a", "1", None)], "runs write_file");
    check_state(&[call_event("a", "1", Some("no"))], "idle");
    check_state(
        &[call_event("a", "1", None), return_event("a", "1", true)],
        "idle",
    );
    check_state(
        &[
            call_event("a", "1", None),
            call_event("a", "2", None),
            return_event("a", "2", true),
        ],
        "runs write_file",
    );
    let replied = |tool: &str| {
        json!({"type": "replied", "agent": "a", "stop": "done",
            "calls": [{"id": "1", "name": tool, "arguments": "{}"}]})
    };
    let stopped = json!({"type": "coordination_stopped", "status": "limit"});
    let answer = replied("new_answer");
    check_state(&[replied("read_text_file")], "idle");
    check_state(&[replied("vote")], "submits a vote");
    check_state(std::slice::from_ref(&answer), "submits an answer");
    check_state(
        &[answer.clone(), answer_event("a", "agent1.1", None)],
        "answered agent1.1",
    );
    check_state(&[answer.clone(), checking.clone()], "is checked by tests");
    // What was submitted too late is submitted no more.
    check_state(&[answer.clone(), stopped], "idle");
    check_state(&[answer, winner("b", "agent2.1", &[("b", 1)])], "idle");
    check_state(&[checking], "is checked by tests");
    check_state(&[answer_event("a", "agent1.1", None)], "answered agent1.1");
    check_state(&[vote_event("a", "b", "agent2.1")], "voted for b");
    check_state(&[vote_event("a", "b", "agent2.1"), voided], "idle");
    check_state(&[dropped.clone(), finish_event("a")], "dropped out: no key");
    check_state(&[dropped, ended.clone()], "dropped out: no key");
    check_state(&[request_event("a"), text("a", "x"), ended], "idle");
}

#[test]
fn the_state_of_an_agent_follows_its_approvals() {
    check_state(
        &[approval("a", None)],
        "asks for approval of execute_command",
    );
    check_state(&[approval("a", None), approval("a", Some("once"))], "idle");
    // A program whose own call was approved goes on.
    check_state(
        &[
            call_event("a", "1", None),
            approval("a", None),
            approval("a", Some("once")),
        ],
        "runs write_file",
    );
    let waits = "waits to ask for approval of execute_command";
    check_state(&[queued_approval("a", true)], waits);
    check_state(
        &[queued_approval("a", true), queued_approval("a", false)],
        "idle",
    );
    check_state(
        &[
            queued_approval("a", true),
            queued_approval("a", false),
            approval("a", None),
        ],
        "asks for approval of execute_command",
    );
    check_state(
        &[queued_approval("a", true), approval("a", Some("nobody"))],
        "idle",
    );
    // One of the agent's calls is asked about, and another one waits.
    check_state(
        &[approval("a", None), queued_approval("a", true)],
        "asks for approval of execute_command",
    );
}

#[test]
fn agents_wait_while_one_of_them_prepares_the_work() {
    #[track_caller]
    fn check(events: &[Value], expected: [&str; 3], changed: &[&str]) {
        let mut view = fold(&[start_event(&["a", "b", "c"])]);
        for (seq, event) in (2..).zip(events) {
            apply(&mut view, seq, event);
        }
        let texts: Vec<String> = view.agents().iter().map(AgentView::state_text).collect();
        assert_eq!(texts, expected, "{events:?}");
        let last = u64::try_from(events.len()).unwrap();
        let sections: Vec<String> = view
            .sections_changed_after(last)
            .map(ViewSection::name)
            .collect();
        assert_eq!(sections, changed, "{events:?}");
    }
    let begin = |call_id: &str| {
        json!({"type": "subagent_started", "agent": "a", "call_id": call_id,
            "subagent": "personas", "task": "write personas for 3 agents"})
    };
    let end = json!({"type": "subagent_finished", "agent": "a", "call_id": "preparation",
        "subagent": "personas", "status": "failed", "reason": "no reply", "elapsed_ms": 5});
    let out = json!({"type": "dropped_out", "agent": "b", "reason": "no key", "timed_out": false});
    let all = ["agents/0", "agents/1", "agents/2", "timeline"];
    let waiting = [
        "writes personas",
        "waits for personas",
        "waits for personas",
    ];
    check(&[begin("preparation")], waiting, &all);
    check(&[begin("preparation"), end.clone()], ["idle"; 3], &all);
    check(
        &[begin("preparation"), end.clone(), begin("preparation")],
        waiting,
        &all,
    );
    // One that does something, or that has dropped out, does not wait.
    check(
        &[out, request_event("c"), begin("preparation")],
        [
            "writes personas",
            "dropped out: no key",
            "waits for its model",
        ],
        &["agents/0", "timeline"],
    );
    check(
        &[begin("preparation"), request_event("c"), end.clone()],
        ["idle", "idle", "waits for its model"],
        &["agents/0", "agents/1", "timeline"],
    );
    let model = |event: Value| {
        json!({"type": "subagent_model", "agent": "a", "call_id": "preparation",
            "subagent": "personas", "event": event})
    };
    let retrying = json!({"type": "retrying", "agent": "a", "reason": "busy", "wait_ms": 1200});
    let second_request = [
        begin("preparation"),
        model(retrying),
        model(request_event("a")),
    ];
    let retries = ["retries in 2 s", "waits for personas", "waits for personas"];
    check(&second_request[..2], retries, &["agents/0", "timeline"]);
    check(&second_request, waiting, &["agents/0", "timeline"]);
    // The subagent of a call concerns its own agent alone.
    check(&[begin("call_1")], ["idle"; 3], &["agents/0"]);
    let view = fold(&[start_event(&["a", "b"]), begin("preparation"), end]);
    let [lane, other] = view.timeline().lanes() else {
        panic!("{:?}", view.timeline());
    };
    let span = &lane.spans[0];
    assert_eq!(
        (span.kind, span.label.as_str()),
        (SpanKind::Model, "personas")
    );
    assert_eq!(span.to_ms - span.from_ms, 5);
    let span = &other.spans[0];
    assert_eq!(
        (span.kind, span.label.as_str()),
        (SpanKind::Others, "personas")
    );
}

#[test]
fn the_timeline_tells_a_denied_call_from_one_that_failed() {
    let mut denied = return_event("a", "3", false);
    denied["denied"] = json!(true);
    let view = fold(&[
        start_event(&["a"]),
        call_event("a", "1", Some("outside")),
        call_event("a", "2", None),
        return_event("a", "2", false),
        call_event("a", "3", None),
        denied,
    ]);
    let lane = &view.timeline().lanes()[0];
    let kinds: Vec<SpanKind> = lane.spans.iter().map(|span| span.kind).collect();
    assert_eq!(kinds, [SpanKind::Denied, SpanKind::Tool, SpanKind::Denied]);
}

#[test]
fn the_timeline_has_what_agents_wait_for() {
    type Waits = (Vec<(SpanKind, u64, u64)>, Option<(SpanKind, u64)>);
    /// Returns the waits in the lane of an agent, and the one that has not ended.
    fn waits(view: &RunView, agent: &str) -> Waits {
        let mut lanes = view.timeline().lanes().iter();
        let lane = lanes.find(|lane| lane.agent.as_str() == agent).unwrap();
        let spans = lane.spans.iter().filter(|span| span.kind.is_wait());
        let spans = spans.map(|span| (span.kind, span.from_ms, span.to_ms));
        let open = lane.open.as_ref().filter(|open| open.kind.is_wait());
        let open = open.map(|open| (open.kind, open.from_ms));
        (spans.collect(), open)
    }
    let mut view = fold(&[
        start_event(&["a", "b"]),
        answer_event("a", "agent1.1", None),
        request_event("b"),
        call_event("b", "1", None),
        queued_approval("b", true),
        approval("b", None),
    ]);
    assert_eq!(waits(&view, "a"), (vec![], Some((SpanKind::Others, 20))));
    assert_eq!(waits(&view, "b"), (vec![], Some((SpanKind::Approval, 50))));
    apply(&mut view, 7, &approval("b", Some("once")));
    let asked = (SpanKind::Approval, 50, 70);
    assert_eq!(waits(&view, "b"), (vec![asked], None));
    // What an agent does is there before it ends.
    let mut lanes = view.timeline().lanes().iter();
    let lane = lanes.find(|lane| lane.agent.as_str() == "b").unwrap();
    assert_eq!(lane.open.as_ref().unwrap().kind, SpanKind::Model);
    apply(&mut view, 8, &answer_event("b", "agent2.1", None));
    apply(&mut view, 9, &request_event("a"));
    let waited = (SpanKind::Others, 20, 90);
    assert_eq!(waits(&view, "a"), (vec![waited], None));
    // Nobody waits for votes any more when the ballot is closed.
    apply(&mut view, 10, &finish_event("a"));
    apply(&mut view, 11, &vote_event("a", "b", "agent2.1"));
    apply(&mut view, 12, &winner("b", "agent2.1", &[("b", 1)]));
    let voted = (SpanKind::Others, 110, 120);
    assert_eq!(waits(&view, "a"), (vec![waited, voted], None));
    let ended = json!({"type": "run_ended", "status": "delivered", "summary": "s"});
    apply(&mut view, 13, &ended);
    assert_eq!(waits(&view, "a"), (vec![waited, voted], None));
    // The roles of a pipeline wait for their turn.
    let works = json!({"type": "pipeline", "step": "works", "iteration": 1, "role": "r", "stage": 1,
        "stages": 2, "agents": ["a"]});
    let mut view = fold(&[start_event(&["a", "b"]), works]);
    assert_eq!(waits(&view, "b"), (vec![], Some((SpanKind::OtherRole, 20))));
    let ended = json!({"type": "run_ended", "status": "interrupted", "summary": "s"});
    apply(&mut view, 3, &ended);
    assert_eq!(
        waits(&view, "b"),
        (vec![(SpanKind::OtherRole, 20, 30)], None)
    );
}

#[test]
fn agents_of_later_stages_wait_for_their_turn() {
    let works = |role: &str, agents: &[&str]| {
        json!({"type": "pipeline", "step": "works", "iteration": 1, "role": role, "stage": 1,
            "stages": 2, "agents": agents})
    };
    let mut view = fold(&[start_event(&["a", "b", "c", "d"]), works("r", &["a", "b"])]);
    let texts = |view: &RunView| -> Vec<String> {
        let agents = view.agents().iter();
        agents.map(AgentView::state_text).collect()
    };
    let waiting = "waits for its turn";
    assert_eq!(texts(&view), ["idle", "idle", waiting, waiting]);
    let preparing = json!({"type": "subagent_started", "agent": "a", "call_id": "preparation",
        "subagent": "personas", "task": "write personas for 2 agents"});
    apply(&mut view, 3, &preparing);
    let prepares = ["writes personas", "waits for personas", waiting, waiting];
    assert_eq!(texts(&view), prepares);
    apply(&mut view, 4, &answer_event("a", "agent1.1", None));
    apply(&mut view, 5, &works("s", &["c"]));
    let changed: Vec<String> = view
        .sections_changed_after(4)
        .map(ViewSection::name)
        .collect();
    assert_eq!(changed, ["agents/2", "pipeline", "timeline"]);
    assert_eq!(texts(&view)[2..], ["idle", waiting]);
    let ended = json!({"type": "run_ended", "status": "interrupted", "summary": "s"});
    apply(&mut view, 6, &ended);
    assert_eq!(texts(&view)[2..], ["idle", "idle"]);
}

#[test]
fn calls_have_an_outcome_and_only_the_last_are_kept() {
    let mut view = fold(&[
        start_event(&["a"]),
        call_event("a", "1", None),
        call_event("a", "2", None),
        call_event("a", "3", Some("outside your paths")),
        return_event("a", "2", false),
        return_event("a", "1", true),
    ]);
    let outcomes: Vec<&ToolCallOutcome> =
        view.agents()[0].calls.iter().map(|c| &c.outcome).collect();
    let summary = || "wrote 3 bytes".to_owned();
    let denied = ToolCallOutcome::Denied {
        reason: "outside your paths".to_owned(),
        rule: Some("outside".to_owned()),
    };
    assert_eq!(
        outcomes,
        [
            &ToolCallOutcome::Succeeded { summary: summary() },
            &ToolCallOutcome::Failed { summary: summary() },
            &denied
        ]
    );
    for seq in 10..1000 {
        apply(&mut view, seq, &call_event("a", "n", None));
    }
    assert_eq!(view.agents()[0].calls.len(), CALLS_MAX);
}

#[test]
fn the_view_keeps_a_limited_part_of_an_agents_text() {
    let mut view = fold(&[start_event(&["a"]), request_event("a")]);
    let line = format!("{}é\n", "x".repeat(997));
    for seq in 3..2000 {
        apply(&mut view, seq, &text("a", &line));
    }
    let agent = &view.agents()[0];
    assert_eq!(agent.reply_tail.length, 1997 * 1000);
    assert!(agent.reply_tail.text.len() <= 16 * 1024);
    assert_eq!(agent.reply_tail.last_line(), Some(line.trim_end()));
    let bytes_kept: usize = agent.transcript.entries().map(|e| e.text.len()).sum();
    assert!(
        bytes_kept <= TRANSCRIPT_BYTES_MAX && bytes_kept > TRANSCRIPT_BYTES_MAX / 2,
        "{bytes_kept}"
    );
    assert!(agent.transcript.dropped_count() > 0);
}

#[test]
fn the_reply_tail_of_an_agent_is_that_of_its_last_reply() {
    let mut view = fold(&[
        start_event(&["a"]),
        request_event("a"),
        text("a", "one"),
        finish_event("a"),
    ]);
    apply(&mut view, 5, &request_event("a"));
    assert_eq!(view.agents()[0].reply_tail.text, "one");
    apply(&mut view, 6, &text("a", "two"));
    assert_eq!(view.agents()[0].reply_tail.text, "two");
}

#[test]
fn a_transcript_joins_the_pieces_of_a_reply_and_separates_replies() {
    let view = fold(&[
        start_event(&["a"]),
        request_event("a"),
        text("a", "one "),
        text("a", "two"),
        finish_event("a"),
        request_event("a"),
        text("a", "three"),
        call_event("a", "1", Some("no")),
    ]);
    let entries: Vec<(EntryKind, &str)> = view.agents()[0]
        .transcript
        .entries()
        .map(|entry| (entry.kind, entry.text.as_str()))
        .collect();
    assert_eq!(
        entries,
        [
            (EntryKind::Text, "one two"),
            (EntryKind::Text, "three"),
            (EntryKind::Call, "write f  denied [outside]: no"),
        ]
    );
}

#[test]
fn a_new_answer_replaces_the_earlier_one_and_voids_the_votes_that_the_event_names() {
    let shown = json!({"type": "answers_shown", "agent": "b", "labels": ["agent1.1"]});
    let view = fold(&[
        start_event(&["a", "b"]),
        answer_event("a", "agent1.1", None),
        shown.clone(),
        shown,
        vote_event("b", "a", "agent1.1"),
        answer_event("a", "agent1.2", None),
        json!({"type": "votes_voided", "voters": ["b"]}),
    ]);
    let current: Vec<String> = view
        .ballot()
        .current_answers()
        .map(|answer| answer.label.to_string())
        .collect();
    assert_eq!(current, ["agent1.2"]);
    assert_eq!(view.ballot().answers[0].seen_by.len(), 1);
    assert_eq!(view.ballot().current_votes().count(), 0);
    assert!(view.ballot().votes[0].is_void);
    assert_eq!(view.ballot().votes[0].voiding_message, None);
    assert_eq!(view.agents()[1].vote, None);
}

#[test]
fn a_vote_that_a_message_voided_is_told_from_one_that_an_answer_voided() {
    let view = fold(&[
        start_event(&["a", "b"]),
        answer_event("a", "agent1.1", None),
        vote_event("b", "a", "agent1.1"),
        json!({"type": "votes_voided", "voters": ["b"]}),
        vote_event("b", "a", "agent1.1"),
        json!({"type": "votes_voided", "voters": ["b"], "message": 3}),
        vote_event("b", "a", "agent1.1"),
    ]);
    let votes = view.ballot().votes.iter();
    let votes: Vec<_> = votes
        .map(|vote| (vote.is_void, vote.voiding_message))
        .collect();
    assert_eq!(votes, [(true, None), (true, Some(3)), (false, None)]);
}

#[test]
fn approvals_wait_until_they_are_answered() {
    let events = [start_event(&["a"]), approval("a", None)];
    let view = fold(&events);
    assert_eq!(view.approvals().len(), 1);
    assert_eq!(view.approvals()[0].effects, ["run `rm x`"]);
    for answer in ["once", "session", "always", "no", "nobody"] {
        let mut events = events.to_vec();
        events.push(approval("a", Some(answer)));
        assert!(fold(&events).approvals().is_empty(), "{answer}");
    }
}

#[test]
fn another_coordination_begins_without_answers_and_keeps_what_was_used() {
    let mut again = start_event(&["a", "b"]);
    again["restart"] = json!(1);
    let view = fold(&[
        start_event(&["a", "b"]),
        request_event("a"),
        text("a", "x"),
        finish_event("a"),
        answer_event("a", "agent1.1", None),
        vote_event("b", "a", "agent1.1"),
        again,
    ]);
    assert_eq!(view.run().restart, 1);
    assert!(view.ballot().answers.is_empty() && view.ballot().votes.is_empty());
    assert_eq!(view.agents()[0].state_text(), "idle");
    assert_eq!(view.agents()[0].usage.requests, 1);
    assert!(view.agents()[0].transcript.entries().len() > 1);
}

#[test]
fn sections_that_changed_are_those_that_an_event_touches() {
    #[track_caller]
    fn check(event: &Value, expected: &[&str]) {
        let mut view = fold(&[
            start_event(&["a", "b"]),
            request_event("a"),
            answer_event("b", "agent2.1", None),
        ]);
        apply(&mut view, 4, event);
        let changed: Vec<String> = view
            .sections_changed_after(3)
            .map(ViewSection::name)
            .collect();
        assert_eq!(changed, expected, "{event}");
    }
    check(&text("a", "x"), &["agents/0"]);
    check(
        &finish_event("a"),
        &["run", "agents/0", "usage", "timeline"],
    );
    check(
        &vote_event("a", "b", "agent2.1"),
        &["agents/0", "ballot", "timeline"],
    );
    check(&approval("b", None), &["agents/1", "approvals", "timeline"]);
    check(&queued_approval("b", true), &["agents/1", "timeline"]);
    check(&json!({"type": "warning", "message": "m"}), &["run"]);
    check(&json!({"type": "delivered", "rows": []}), &["delivery"]);
    check(
        &json!({"type": "pipeline", "step": "works", "iteration": 1, "role": "r", "stage": 1,
            "stages": 2, "agents": ["a"]}),
        &["pipeline"],
    );
}

#[test]
fn every_section_has_a_json_form() {
    let view = fold(&[
        start_event(&["a"]),
        request_event("a"),
        text("a", "x"),
        finish_event("a"),
        call_event("a", "1", None),
        answer_event("a", "agent1.1", Some("passed")),
        approval("a", None),
    ]);
    let sections: Vec<ViewSection> = view.sections_changed_after(0).collect();
    assert!(sections.len() >= 6, "{sections:?}");
    for section in sections {
        assert!(view.section_json(section).is_some(), "{section:?}");
    }
    assert_eq!(view.section_json(ViewSection::Agent(1)), None);
    let agent = view.section_json(ViewSection::Agent(0)).unwrap();
    assert_eq!(agent["activity"]["state"], "waiting_for_approval");
    assert_eq!(agent["activity"]["detail"], "execute_command");
    assert_eq!(agent["calls"][0]["outcome"], "running");
    assert_eq!(agent["usage"]["input_tokens"], 100);
    let run = view.section_json(ViewSection::Run).unwrap();
    assert_eq!(run["phase"], "coordinating");
    let usage = view.section_json(ViewSection::Usage).unwrap();
    assert_eq!(usage[0]["phase"], "coordination");
    assert_eq!(usage[0]["requests"], 1);
}

#[test]
fn a_running_state_carries_no_stale_time() {
    let view = fold(&[
        start_event(&["a"]),
        request_event("a"),
        text("a", "x"),
        text("a", "y"),
    ]);
    assert_eq!(view.agents()[0].activity, AgentActivity::Writing);
    assert_eq!(view.agents()[0].since_ms, 3 * STEP_MS);
    assert_eq!(view.run().elapsed_ms, 4 * STEP_MS);
}

#[test]
fn messages_of_the_user_are_kept_with_their_readers() {
    let shown = |agent: &str, numbers: &[u32]| json!({"type": "user_messages_shown", "agent": agent, "numbers": numbers});
    let view = fold(&[
        start_event(&["a", "b"]),
        json!({"type": "user_message", "number": 1, "agent": "a", "text": "first", "by": "terminal"}),
        json!({"type": "user_message", "number": 2, "agent": null, "text": "second", "by": "terminal"}),
        shown("b", &[2]),
        shown("a", &[1, 2]),
        shown("a", &[1, 2]),
    ]);
    let messages = serde_json::to_value(&view.run.messages).unwrap();
    let expected = json!([
        {"number": 1, "agent": "a", "text": "first", "shown_to": ["a"]},
        {"number": 2, "agent": null, "text": "second", "shown_to": ["b", "a"]},
    ]);
    assert_eq!(messages, expected);
}

#[test]
fn a_stage_that_begins_again_keeps_its_runs_and_drops_what_they_asked() {
    let works = json!({"type": "pipeline", "step": "works", "iteration": 1, "role": "r", "stage": 1,
        "stages": 2, "agents": ["a"]});
    let run =
        |name: &str| json!({"type": "pipeline", "step": "stage_run", "role": "r", "run": name});
    let view = fold(&[
        start_event(&["a", "b"]),
        works.clone(),
        run("log_1"),
        approval("a", None),
        approval("b", None),
        works,
        run("log_2"),
    ]);
    let stages = &view.pipeline().stages;
    assert_eq!(stages.len(), 1, "{stages:?}");
    assert_eq!(stages[0].runs, ["log_1", "log_2"]);
    let pending: Vec<&str> = view
        .approvals()
        .iter()
        .map(|approval| approval.agent.as_str())
        .collect();
    assert_eq!(pending, ["b"]);
}
