//! Tests of what a person reads during a run.

use std::sync::Arc;

use super::*;
use crate::cli::terminal_text::strip_control_sequences;
use crate::event::{
    CoordinationEvent, DeliveryEvent, DeliveryOutcome, DeliveryRow, ModelEvent, RunEvent, ToolEvent,
};
use crate::id::AgentNumber;
use crate::permissions::grant::Phase;
use crate::spending::TokenUsage;
use crate::spending::money::Money;

/// Time since the start of the run at which the events happen.
const AT: Duration = Duration::from_millis(2_501);

fn id(name: &str) -> AgentId {
    AgentId::parse(name).unwrap()
}

fn label(index: usize, ordinal: u32) -> AnswerLabel {
    AnswerLabel {
        agent: AgentNumber::from_index(index),
        ordinal,
    }
}

fn start_event() -> Event {
    Event::Run(RunEvent::RunStarted {
        question: Arc::from("why?"),
        agents: vec![id("ann"), id("bob")],
        restart: 0,
        cwd: None,
    })
}

fn text(agent: &str, text: &str) -> Event {
    Event::Model(ModelEvent::Text {
        agent: id(agent),
        text: text.to_owned(),
    })
}

#[test]
fn a_name_in_a_warning_makes_no_line_of_its_own() {
    let message = "kept in `a\nerror: forged`".to_owned();
    let (_, err) = render(&[start_event(), Event::Run(RunEvent::Warning { message })]);
    let lines: Vec<&str> = err.lines().collect();
    assert!(
        lines.contains(&"warning: kept in `a\\nerror: forged`"),
        "{err}"
    );
}

/// Returns what is written for these events.
fn render(events: &[Event]) -> (String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut output = CliOutput::with_writers(&mut out, &mut err);
    let mut render = RunRenderer::new(&mut output);
    for event in events {
        render.on_event(event, AT).unwrap();
        render.on_tick(AT);
    }
    drop(output);
    (
        String::from_utf8(out).unwrap(),
        String::from_utf8(err).unwrap(),
    )
}

fn request_event(agent: &str, input_tokens: u64, output_tokens: u64) -> Event {
    charge_event(agent, input_tokens, output_tokens, Some("0"))
}

fn charge_event(
    agent: &str,
    input_tokens: u64,
    output_tokens: u64,
    dollars: Option<&str>,
) -> Event {
    Event::Model(ModelEvent::ModelRequestFinished {
        agent: id(agent),
        model: "m".into(),
        phase: Phase::Coordination,
        usage: TokenUsage {
            input_tokens,
            output_tokens,
            ..TokenUsage::default()
        },
        cost_usd: dollars.and_then(Money::from_dollars),
        elapsed_ms: 1,
    })
}

#[test]
fn output_of_concurrent_agents_never_shares_a_line() {
    let (_, err) = render(&[
        start_event(),
        text("ann", "Let me "),
        text("bob", "I think"),
        text("ann", "see.\nFirst"),
        text("bob", " so.\n"),
        Event::Model(ModelEvent::Reasoning {
            agent: id("ann"),
            text: "hm".to_owned(),
        }),
        request_event("ann", 7, 5),
    ]);
    insta::assert_snapshot!(err, @r"
    agents: ann, bob
    [ann] Let me see.
    [bob] I think so.
    [ann] First
    [ann] hm
    ");
}

fn call_event(agent: &str, tool: &str, arguments: &str, denied: Option<&str>) -> Event {
    Event::Tool(ToolEvent::ToolCalled {
        agent: id(agent),
        call_id: "c1".to_owned(),
        tool: tool.to_owned(),
        arguments: arguments.to_owned(),
        denied: denied.map(str::to_owned),
        rule: denied.map(|_| "outside-grants".to_owned()),
    })
}

#[test]
fn tools_answers_and_votes_are_shown_as_they_happen() {
    let (out, err) = render(&[
        start_event(),
        text("ann", "Writing"),
        call_event(
            "ann",
            "write_file",
            "{\"path\":\"a\",\n\"content\":\"b\"}",
            None,
        ),
        Event::Tool(ToolEvent::ToolFinished {
            agent: id("ann"),
            call_id: "c1".to_owned(),
            tool: "write_file".to_owned(),
            success: true,
            denied: false,
            summary: "wrote 1 byte".to_owned(),
            measure: None,
            content: None,
            refused: Vec::new(),
            elapsed_ms: 1,
            images: Vec::new(),
        }),
        call_event(
            "bob",
            "read_text_file",
            "{\"path\":\"/etc/shadow\"}",
            Some("no grant reaches it\nyou may read under: /w"),
        ),
        Event::Coordination(CoordinationEvent::Answered {
            agent: id("ann"),
            label: label(0, 1),
            content: Arc::from("It is so.\n\nBecause."),
            snapshot: None,
            check_results: None,
            changes: None,
            plan: None,
        }),
        Event::Coordination(CoordinationEvent::AnswersShown {
            agent: id("bob"),
            labels: vec![label(0, 1)],
        }),
        Event::Coordination(CoordinationEvent::SubmissionRejected {
            agent: id("bob"),
            reason: "not counted: too like\nagent1.1".to_owned(),
            external: None,
        }),
        Event::Coordination(CoordinationEvent::Voted {
            agent: id("bob"),
            candidate: id("ann"),
            label: label(0, 1),
            reason: "clear".to_owned(),
        }),
    ]);
    insta::assert_snapshot!(err, @r#"
    agents: ann, bob
    [ann] Writing
    [ann] calls write_file {"path":"a", "content":"b"}
    [ann] did write_file: wrote 1 byte
    [bob] is denied read_text_file {"path":"/etc/shadow"}: no grant reaches it; you may read under: /w
    [ann] answers as agent1.1:
    [ann] | It is so.
    [ann] | Because.
    [bob] sees agent1.1
    [bob] decision not counted: too like agent1.1
    [bob] votes for ann (agent1.1): clear
    "#);
    assert_eq!(out, "");
}

#[test]
fn retries_and_failures_of_an_agent_are_shown() {
    let (_, err) = render(&[
        start_event(),
        Event::Model(ModelEvent::Retrying {
            agent: id("bob"),
            reason: "429".to_owned(),
            wait_ms: 2_040,
        }),
        Event::Model(ModelEvent::RateLimited {
            agent: id("bob"),
            reason: "the limit is 5 requests a minute".to_owned(),
            wait_ms: 61_000,
        }),
        Event::Model(ModelEvent::ModelFallback {
            agent: id("bob"),
            from: "big".into(),
            to: "small".into(),
            reason: "overloaded".to_owned(),
        }),
        Event::Model(ModelEvent::ContextCompacted {
            agent: id("bob"),
            removal: "the end of 2 older tool results".to_owned(),
        }),
        Event::Run(RunEvent::LimitMet {
            agent: None,
            limit: "the run has cost more than 1 dollar".to_owned(),
        }),
        Event::Coordination(CoordinationEvent::DroppedOut {
            agent: id("bob"),
            reason: "key refused".to_owned(),
            timed_out: false,
        }),
    ]);
    insta::assert_snapshot!(err, @"
    agents: ann, bob
    [bob] retries in 2.0 s: 429
    [bob] waits for 1 min 1 s: the limit is 5 requests a minute
    [bob] switches to small from big: overloaded
    [bob] compacts its context: the end of 2 older tool results
    warning: the run has cost more than 1 dollar
    [bob] drops out: key refused
    ");
}

#[test]
fn the_final_answer_alone_goes_to_standard_output() {
    let kept = "/s/old".to_owned();
    let (out, err) = render(&[
        start_event(),
        Event::Coordination(CoordinationEvent::VotesVoided {
            message: None,
            voters: vec![id("bob")],
        }),
        Event::Coordination(CoordinationEvent::WinnerSelected {
            agent: id("ann"),
            label: label(0, 2),
            reason: WinnerReason::MostVotes,
            votes: vec![(id("ann"), 1), (id("bob"), 0)],
        }),
        Event::Delivery(DeliveryEvent::FinalStarted { agent: id("ann") }),
        Event::Delivery(DeliveryEvent::FinalAnswer {
            agent: id("ann"),
            content: Arc::from("The answer."),
        }),
        Event::Delivery(DeliveryEvent::Delivered {
            rows: vec![
                DeliveryRow::new("/p/new".to_owned(), DeliveryOutcome::Created),
                DeliveryRow::new(
                    "/p/.env".to_owned(),
                    DeliveryOutcome::Denied {
                        reason: "the name is protected".to_owned(),
                    },
                ),
                DeliveryRow::new("/p/old".to_owned(), DeliveryOutcome::Conflict { kept }),
            ],
            by: None,
        }),
        request_event("ann", 7, 5),
        Event::Run(RunEvent::RunEnded {
            status: ExitStatus::Success,
            summary: "1 file delivered".to_owned(),
        }),
    ]);
    assert_eq!(out, "The answer.\n");
    insta::assert_snapshot!(err, @r"
    agents: ann, bob
    votes void: bob: new answer
    winner: ann with agent1.2 (votes: ann 1, bob 0)
    [ann] presents the final answer
    delivered:
      created  /p/new
    not delivered:
      denied   /p/.env: the name is protected
      conflict /p/old: you changed it in the meantime; the agents' version is in /s/old
    used: ann 7 tokens read, 5 written
    done: 1 file delivered (2.5 s, 7 tokens read, 5 written)
    ");
}

/// `requests` are input tokens, output tokens and cost; `expected` is what the last lines say.
#[track_caller]
fn check_used(requests: &[(&str, u64, u64, Option<&str>)], expected: &str) {
    let mut events = vec![start_event()];
    for (agent, read, written, dollars) in requests {
        events.push(charge_event(agent, *read, *written, *dollars));
    }
    events.push(Event::Run(RunEvent::RunEnded {
        status: ExitStatus::Success,
        summary: "all well".to_owned(),
    }));
    let (_, err) = render(&events);
    let lines: Vec<&str> = err.lines().skip(1).collect();
    assert_eq!(lines.join("\n"), expected);
}

#[test]
fn the_end_says_what_each_agent_used_as_far_as_it_is_known() {
    check_used(&[], "done: all well (2.5 s)");
    check_used(
        &[
            ("ann", 1_000, 20, Some("0.01")),
            ("bob", 500, 10, Some("0.00001")),
            ("ann", 2_000, 30, Some("0.02")),
        ],
        "used: ann 3000 tokens read, 50 written, $0.03; bob 500 tokens read, 10 written, $0.0001\n\
         done: all well (2.5 s, 3500 tokens read, 60 written, $0.0301)",
    );
    check_used(
        &[("ann", 1_000, 20, Some("0.01")), ("bob", 500, 10, None)],
        "used: ann 1000 tokens read, 20 written, $0.01; \
         bob 500 tokens read, 10 written, cost unknown\n\
         done: all well (2.5 s, 1500 tokens read, 30 written, at least $0.01)",
    );
}

#[test]
fn a_terminal_shows_the_awaited_agents_and_no_control_characters() {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut output = CliOutput::with_terminals(&mut out, &mut err);
    let mut render = RunRenderer::new(&mut output);
    let second = Duration::from_secs(1);
    render.on_event(&start_event(), AT).unwrap();
    render
        .on_event(
            &Event::Model(ModelEvent::ModelRequestStarted {
                agent: id("bob"),
                model: "m".into(),
            }),
            AT,
        )
        .unwrap();
    render.on_tick(second * 60);
    render.on_tick(second * 65);
    render.on_event(&text("bob", "\u{1b}[2Jhi\n"), AT).unwrap();
    let content = Arc::from("\u{1b}]0;title\u{7}done");
    render
        .on_event(
            &Event::Delivery(DeliveryEvent::FinalAnswer {
                agent: id("bob"),
                content,
            }),
            AT,
        )
        .unwrap();
    drop(output);
    assert_eq!(String::from_utf8(out).unwrap(), "done\n");
    let err = String::from_utf8(err).unwrap().replace('\u{1b}', "^[");
    let lines = [
        "^[[1magents^[[0m: ann, bob",
        "\r^[[2K^[[2m1 min 5 s: waiting for bob^[[0m\r^[[2K^[[35m[^[[0m^[[1mbob^[[0m^[[35m]^[[0m hi",
    ];
    assert_eq!(err, lines.map(|line| format!("{line}\n")).concat());
}

#[test]
fn a_terminal_shows_tool_calls_in_words_once_they_have_ended() {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut output = CliOutput::with_terminals(&mut out, &mut err);
    let mut render = RunRenderer::new(&mut output);
    let return_event = |tool: &str, success, summary: &str, measure: Option<&str>| {
        Event::Tool(ToolEvent::ToolFinished {
            agent: id("ann"),
            call_id: "c1".to_owned(),
            tool: tool.to_owned(),
            success,
            denied: false,
            summary: summary.to_owned(),
            measure: measure.map(str::to_owned),
            content: None,
            refused: Vec::new(),
            elapsed_ms: 4100,
            images: Vec::new(),
        })
    };
    let mut wrong_call = call_event("ann", "edit_file", "{\"path\":\"b\"}", Some("no edits"));
    if let Event::Tool(ToolEvent::ToolCalled { rule, .. }) = &mut wrong_call {
        *rule = None;
    }
    for event in [
        start_event(),
        call_event("ann", "read_text_file", "{\"path\":\"src/a.rs\"}", None),
        return_event("read_text_file", true, "…", Some("120 lines")),
        call_event(
            "ann",
            "execute_command",
            "{\"command\":\"cargo test\"}",
            None,
        ),
        return_event(
            "execute_command",
            false,
            "status 101 after 4.1 s: error: no such thing",
            None,
        ),
        call_event(
            "bob",
            "write_file",
            "{\"path\":\"/etc/x\"}",
            Some("no grant"),
        ),
        wrong_call,
    ] {
        render.on_event(&event, AT).unwrap();
    }
    drop(output);
    let err = strip_control_sequences(&String::from_utf8(err).unwrap()).into_owned();
    insta::assert_snapshot!(err, @r"
    agents: ann, bob
    [ann] read src/a.rs (120 lines)  4.1 s
    [ann] $ cargo test  4.1 s  failed (101): error: no such thing
    [bob] write /etc/x  denied [outside-grants]: no grant
    [ann] edit b  failed: no edits
    ");
}

#[test]
fn a_pipe_does_not_show_the_awaited_agents() {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut output = CliOutput::with_writers(&mut out, &mut err);
    let mut render = RunRenderer::new(&mut output);
    render
        .on_event(
            &Event::Model(ModelEvent::ModelRequestStarted {
                agent: id("bob"),
                model: "m".into(),
            }),
            AT,
        )
        .unwrap();
    render.on_tick(Duration::from_mins(1));
    drop(output);
    assert_eq!(err, b"");
}
