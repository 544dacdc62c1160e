//! Calls of the coordination tools.

use massgen::id::AgentNumber;
use massgen::tools::served::ToolCatalogue;
use massgen::tools::workflow::{ModelCall, WorkflowCall, parse_model_call};

#[track_caller]
fn check(name: &str, arguments: &str, expected: WorkflowCall) {
    match parse_model_call(name, arguments, &ToolCatalogue::default()) {
        Ok(call) => assert_eq!(call, ModelCall::Workflow(expected), "{name} {arguments}"),
        Err(error) => panic!("{name} {arguments}: {error}"),
    }
}

#[track_caller]
fn check_refused(name: &str, arguments: &str, message: &str) {
    let error = parse_model_call(name, arguments, &ToolCatalogue::default()).expect_err(arguments);
    assert_eq!(error.to_string(), message, "{name} {arguments}");
}

#[test]
fn an_answer_may_leave_its_content_to_the_text() {
    let answer = |content: Option<&str>| WorkflowCall::NewAnswer {
        content: content.map(str::to_owned),
    };
    check(
        "new_answer",
        r#"{"content":" 42\n"}"#,
        answer(Some(" 42\n")),
    );
    for nothing in ["", "{}", r#"{"content":null}"#, r#"{"content":" \n"}"#] {
        check("new_answer", nothing, answer(None));
    }
    check_refused(
        "new_answer",
        r#"{"content":{"text":"42"}}"#,
        r#"`content` of `new_answer` is `{"text":"42"}`: expected a text"#,
    );
}

#[test]
fn a_vote_names_an_agent_or_one_of_its_answers() {
    let vote = |index, ordinal| WorkflowCall::Vote {
        scores: Vec::new(),
        agent: AgentNumber::from_index(index),
        ordinal,
        reason: "tested".to_owned(),
    };
    for (target, expected) in [
        ("agent2", vote(1, None)),
        (" Agent2 ", vote(1, None)),
        ("agent12", vote(11, None)),
        ("agent_2", vote(1, None)),
        ("2", vote(1, None)),
        ("agent 2.1", vote(1, Some(1))),
        ("agent2.1", vote(1, Some(1))),
        ("agent2.30", vote(1, Some(30))),
    ] {
        let arguments = format!(r#"{{"agent_id":"{target}","reason":"tested"}}"#);
        check("vote", &arguments, expected);
    }
    for target in [
        "",
        "agent",
        "agent0",
        "two",
        "agent2.",
        "agent2.final",
        "agent2.1.1",
    ] {
        let arguments = format!(r#"{{"agent_id":"{target}","reason":"tested"}}"#);
        let message = format!(
            "`agent_id` of `vote` is `{target}`: expected `agent` and a number, as in the answers"
        );
        check_refused("vote", &arguments, &message);
    }
    check_refused(
        "vote",
        r#"{"agent_id":"agent2"}"#,
        "`vote` lacks its parameter `reason`: expected a text",
    );
}

#[test]
fn a_judgement_submits_or_starts_again() {
    check("submit", r#"{"confirmed":true}"#, WorkflowCall::Submit);
    check_refused(
        "submit",
        r#"{"confirmed":false}"#,
        "`confirmed` of `submit` is `false`: expected true; to reject the answer call \
         `restart_orchestration`",
    );
    check(
        "restart_orchestration",
        r#"{"reason":"no tests","instructions":"add them"}"#,
        WorkflowCall::Restart {
            reason: "no tests".to_owned(),
            instructions: "add them".to_owned(),
        },
    );
}

#[test]
fn file_tools_and_coordination_tools_share_one_parser() {
    assert!(matches!(
        parse_model_call("list_directory", "{}", &ToolCatalogue::default()),
        Ok(ModelCall::Tool(_))
    ));
    check_refused(
        "new_anwser",
        "{}",
        "there is no tool `new_anwser`; did you mean `new_answer`?",
    );
}
