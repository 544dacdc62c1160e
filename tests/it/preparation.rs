//! Personas and criteria that a model writes before the first round: agents work with them, they are
//! charged and shown like a subagent, and a run that is resumed or replayed does not ask again.

use serde_json::json;

use crate::external_agents;
use crate::project::{Project, events};
use crate::resume::{FinishedRecord, describe_output, massgen_command, read_events as logged};
use crate::scripted_team::{FINAL, agent, answer_replies, team};

const BOTH: &str = "orchestrator:\n  context_paths: [{path: out, permission: write}]\n  voting_sensitivity: checklist_gated\n  dspy: {enabled: true}\n  coordination:\n    \
                    persona_generator: {enabled: true, diversity_mode: methodology}\n    \
                    evaluation_criteria_generator: {enabled: true, min_criteria: 2}\n";

/// Returns the replies of an agent that works only if its first message has `own`, and votes by two
/// criteria.
fn replies(own: &str) -> String {
    format!(
        r#"
- when: {{system: "You prepare the work", last: "persona for each"}}
  usage: {{input_tokens: 1000, output_tokens: 7}}
  text: 'Of course: {{"agent1": "You doubt.", "agent2": "You hurry."}}'
- when: {{system: "You prepare the work", last: "other words"}}
  text: '{{"paraphrases": ["Dash!", "Hold on!"]}}'
- when: {{system: "You prepare the work", last: "criteria"}}
  text: '{{"criteria": ["It is short.", "It is true."]}}'
- when: {{system: "{FINAL}"}}
  text: "final"
- when: {{last: "{own}"}}
  calls: [{{name: write_file, arguments: {{path: "a.txt", content: "x"}}}}]
- when: {{last: "a.txt"}}
  calls: [{{name: new_answer, arguments: {{content: "this is {own}"}}}}]
- when: {{system: "in <scoring_criteria> in your first message", contains: "\n2. It is true.\n</scoring_criteria>"}}
  calls: [{{name: vote, arguments: {{agent_id: agent1, reason: r, scores: [10, 10]}}}}]
  repeat: true
"#
    )
}

fn both_settings() -> String {
    let [doubt, hurry] = [replies("You doubt."), replies("Hold on!")];
    team(
        &[agent("a", "cwd: wa", &doubt), agent("b", "cwd: wb", &hurry)],
        BOTH,
    )
}

#[test]
fn agents_work_with_the_personas_and_criteria_that_a_model_has_written() {
    let record = FinishedRecord::of(Project::new().config(&both_settings()).dir("out"));
    let events = logged(&record.log);
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(of("subagent_started"), 3, "{events:#?}");
    assert_eq!((of("answered"), of("voted")), (2, 2), "{events:#?}");
    let output = massgen_command(&record.project, &["replay", "last"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", describe_output(&output));
    let shown = massgen_command(&record.project, &["logs", "show", "last"])
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("starts subagent personas: write personas for 2 agents")
            && shown.contains("| {\"criteria\": [\"It is short.\", \"It is true.\"]}"),
        "{shown}"
    );
    // Wherever the run was interrupted, nothing is asked again.
    let text = String::from_utf8(record.bytes.clone()).unwrap();
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        end += line.len();
        if line.contains("\"subagent_finished\"") || line.contains("\"subagent_started\"") {
            record.cut(end);
            let output = massgen_command(&record.project, &["--continue"])
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", describe_output(&output));
            let events = logged(&record.log);
            let model_requests = events.iter().filter(|event| {
                event["type"] == "subagent_model" && event["event"]["type"] == "replied"
            });
            assert_eq!(model_requests.count(), 3, "cut at {end}: {events:#?}");
        }
    }
}

#[test]
fn without_a_usable_reply_the_run_continues_and_says_so() {
    let replies = format!(
        "- when: {{system: \"You prepare\"}}\n  text: nothing\n  repeat: true\n{}",
        answer_replies("a", "agent1", 0)
    );
    let keys = "orchestrator: {coordination: {persona_generator: {enabled: true}, \
                evaluation_criteria_generator: {enabled: true}}}";
    let agents = [
        agent("a", "", &replies),
        agent("b", "", &answer_replies("b", "agent1", 0)),
    ];
    let finished = Project::new()
        .config(&team(&agents, keys))
        .args(["go"])
        .success();
    let stderr = finished.stderr();
    for expected in [
        "no personas were written, and the run continues without: the reply is no JSON object",
        "`evaluation_criteria_generator` has no effect",
    ] {
        assert!(stderr.contains(expected), "{expected}: {stderr}");
    }
}

#[test]
fn an_external_agent_writes_personas_if_there_is_no_other() {
    let table = json!([
        {"when": "persona for each", "do": [["say", "{\"agent1\": \"You doubt.\"}"]]},
        {"when": FINAL, "do": [["say", "presented"]]},
        {"when": "<persona>\nYou doubt.", "do": [["call", "new_answer", {"content": "I doubt"}]]},
        {"when": "", "do": [["call", "vote", {"agent_id": "agent1", "reason": "r"}]]},
    ]);
    let (project, one) = external_agents::external_agent(
        external_agents::external_agent_project(),
        ("one", "acp"),
        "cwd: $/w1",
        &table,
    );
    let (project, two) =
        external_agents::external_agent(project, ("two", "claude_code"), "cwd: $/w2", &table);
    let keys = "orchestrator: {context_paths: [given], coordination: {persona_generator: {enabled: \
                true}}}";
    let finished = project
        .file("team.yaml", team(&[one, two], keys))
        .args(["--config", "team.yaml", "task"])
        .success();
    let answered = events(&finished, "answered");
    assert_eq!(answered[0]["content"], "I doubt", "{answered:#?}");
}
