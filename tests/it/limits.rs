//! Limits on cost, tokens and tool calls: runs of the real binary with scripted teams, whose
//! replies state their usage, with prices from a file.

use std::fs;

use serde_json::Value;

use crate::docs::blocks;
use crate::project::{FinishedCommand, Project};

/// A dollar for each reply: every scripted reply writes a thousand tokens.
const PRICES: &str = "\
models:
  - name: scripted
    usd_per_million_tokens: {input: 0, output: 1000}
";
/// Calls tools endlessly; each reply costs a dollar and makes one tool call.
const ENDLESS_CALLS: &str = r#"
- calls: [{name: list_directory, arguments: {path: "."}}]
  usage: {output_tokens: 1000}
  repeat: true
"#;

/// Returns an agent with these limits and this script.
fn agent(id: &str, limits: &str, replies: &str) -> String {
    let replies = replies.trim_matches('\n').replace('\n', "\n        ");
    format!(
        "  - id: {id}\n    limits: {{{limits}}}\n    backend:\n      type: scripted\n      \
         cwd: {id}\n      replies:\n        {replies}\n"
    )
}

/// Returns an agent with these limits that gives an answer, votes for `agent1`, and presents; each
/// reply costs a dollar.
fn answering_agent(id: &str, limits: &str) -> String {
    let script = format!(
        r#"
- when: {{system: "the final agent"}}
  text: "presented"
  usage: {{output_tokens: 1000}}
- when: {{last: "<task>"}}
  calls: [{{name: new_answer, arguments: {{content: "answer of {id}"}}}}]
  usage: {{output_tokens: 1000}}
- calls: [{{name: vote, arguments: {{agent_id: agent1, reason: "it is good"}}}}]
  usage: {{output_tokens: 1000}}
"#
    );
    agent(id, limits, &script)
}

/// Returns a project whose team has these limits as a whole, and a file with its prices.
fn project(limits: &str, agents: &[String]) -> Project {
    let team = format!("agents:\n{}limits: {{{limits}}}\n", agents.concat());
    Project::new()
        .config(&team)
        .file("prices.yaml", PRICES)
        .args(["--models", "prices.yaml"])
}

/// Returns all events of the run, in order.
fn events(finished: &FinishedCommand) -> Vec<Value> {
    let logs = finished.project().path(".massgen/massgen_logs");
    let run = fs::read_dir(logs).unwrap().next().unwrap().unwrap().path();
    let log = fs::read_to_string(run.join("turn_1/events.jsonl")).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

fn events_of_type<'e>(events: &'e [Value], event_type: &str) -> Vec<&'e Value> {
    let events = events.iter();
    events.filter(|event| event["type"] == event_type).collect()
}

fn read_status(finished: &FinishedCommand) -> Value {
    let logs = finished.project().path(".massgen/massgen_logs");
    let run = fs::read_dir(logs).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(run.join("turn_1/status.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn tokens_and_costs_are_reported_by_agent_model_and_run() {
    let agents = [answering_agent("one", ""), answering_agent("two", "")];
    let finished = project("", &agents).args(["go"]).success();
    let stderr = finished.stderr();
    let used = "used: one 0 tokens read, 3000 written, $3; two 0 tokens read, 2000 written, $2\n";
    assert!(stderr.contains(used), "{stderr}");
    assert!(
        stderr.contains("0 tokens read, 5000 written, $5)"),
        "{stderr}"
    );
    let status = read_status(&finished);
    assert_eq!(status["token_usage"]["run"]["cost_usd"], 5.0);
    assert_eq!(status["agents"]["one"]["token_usage"]["cost_usd"], 3.0);
    let models = status["token_usage"]["models"].as_array().unwrap();
    let rows: Vec<String> = models
        .iter()
        .map(|row| {
            format!(
                "{} {} {}",
                row["agent"], row["phase"], row["token_usage"]["cost_usd"]
            )
        })
        .collect();
    let expected = [
        r#""one" "coordination" 2.0"#,
        r#""one" "final" 1.0"#,
        r#""two" "coordination" 2.0"#,
    ];
    assert_eq!(rows, expected);
    let logged = events(&finished);
    let costs = events_of_type(&logged, "model_request_finished");
    let sum: f64 = costs
        .iter()
        .map(|event| event["cost_usd"].as_f64().unwrap())
        .sum();
    assert!((sum - 5.0).abs() < 1e-9, "{sum}");
}

#[test]
fn a_script_reads_what_a_run_cost() {
    let team = project("", &[answering_agent("one", "")]);
    let finished = team.args(["--automation", "go"]).success();
    let stdout = finished.stdout();
    assert!(stdout.contains("\nTOKENS: 1000\nCOST: 1\n"), "{stdout}");
}

#[test]
fn the_list_of_runs_shows_the_cost_that_the_run_has_shown() {
    let team = format!("agents:\n{}", answering_agent("one", ""));
    let prices = PRICES.replace("output: 1000", "output: 13.55");
    let project = Project::new().config(&team).file("prices.yaml", &prices);
    let finished = project.args(["--models", "prices.yaml", "go"]).success();
    let stderr = finished.stderr();
    assert!(stderr.contains("1000 written, $0.0136"), "{stderr}");
    let listed = finished.then(["logs", "list"]).success();
    let stdout = listed.stdout();
    assert!(stdout.contains(" 1000 tokens  $0.0136  "), "{stdout}");
}

#[test]
fn without_prices_a_scripted_team_costs_nothing() {
    let team = format!("agents:\n{}", answering_agent("one", ""));
    let limit = ["--max-cost-usd", "0", "go"];
    let finished = Project::new().config(&team).args(limit).success();
    let stderr = finished.stderr();
    assert!(stderr.contains("1000 written)"), "{stderr}");
}

/// Checks the tokens and cost in the script output for one agent with this script.
#[track_caller]
fn check_cost(script: &str, code: i32, expected: &str) {
    let team = project("", &[agent("one", "", script)]);
    let finished = team.args(["--automation", "go"]).failure(code);
    let stdout = finished.stdout();
    assert!(stdout.contains(expected), "{stdout}");
}

#[test]
fn uncounted_usage_makes_the_cost_a_lower_bound() {
    let answer = r#"- calls: [{name: new_answer, arguments: {content: "a"}}]"#;
    check_cost(answer, 0, "\nTOKENS: 0\nCOST_AT_LEAST: 0\n");
    let counted = format!("{answer}\n  usage: {{input_tokens: 9, output_tokens: 2}}");
    check_cost(&counted, 0, "\nTOKENS: 11\nCOST: 0.002\n");
    // A failure before anything was counted costs nothing.
    check_cost("- error: {message: \"no\"}", 1, "\nTOKENS: 0\nCOST: 0\n");
    let cut = format!("- text: half\n  cut: true\n{counted}");
    check_cost(&cut, 0, "\nTOKENS: 11\nCOST: 0.002\n");
}

/// Runs two agents; a complete run costs five dollars: two to answer, two to vote, one to present.
#[track_caller]
fn check_run_limit(limits: &str, flags: &[&str], code: i32, answer: &str) -> FinishedCommand {
    let agents = [answering_agent("one", ""), answering_agent("two", "")];
    let team = project(limits, &agents).args(flags).args(["go"]);
    let finished = team.failure(code);
    assert_eq!(finished.stdout(), answer, "{}", finished.stderr());
    finished
}

#[test]
fn a_run_that_meets_its_limit_ends_with_the_best_answer() {
    let finished = check_run_limit("max_cost_usd: 1.5", &[], 5, "answer of one\n");
    let stderr = finished.stderr();
    let limit = "the run has spent $2 of at most $1.5 (`max_cost_usd`)";
    let summary = format!("ended: {limit}; the best answer so far is one's (");
    assert!(stderr.contains(&summary), "{stderr}");
    let events = events(&finished);
    let met = events_of_type(&events, "limit_met");
    assert_eq!(met.len(), 1, "{met:?}");
    assert_eq!(
        (&met[0]["agent"], &met[0]["limit"]),
        (&Value::Null, &Value::from(limit))
    );
    assert_eq!(read_status(&finished)["finish_reason"], "limit");
}

#[test]
fn the_last_call_that_a_limit_allows_is_made() {
    // Five requests cost five dollars. With this limit or a higher one, nothing is cut short.
    let _whole = check_run_limit("max_cost_usd: 5", &[], 0, "presented\n");
    let _not_presented = check_run_limit("max_cost_usd: 4", &[], 5, "answer of one\n");
    let _whole = check_run_limit("max_tokens_total: 5000", &[], 0, "presented\n");
    let _not_presented = check_run_limit("max_tokens_total: 4000", &[], 5, "answer of one\n");
}

#[test]
fn a_flag_replaces_the_limit_of_the_config() {
    let lower = ["--max-cost-usd", "1.5"];
    let _lower = check_run_limit("max_cost_usd: 50", &lower, 5, "answer of one\n");
    let higher = ["--max-cost-usd", "50"];
    let _higher = check_run_limit("max_cost_usd: 1.5", &higher, 0, "presented\n");
    let tokens = ["--max-tokens-total", "2000"];
    let _tokens = check_run_limit("", &tokens, 5, "answer of one\n");
}

#[test]
fn a_limit_is_exceeded_by_no_more_than_the_requests_under_way() {
    const AGENTS: usize = 8;
    let slow = ENDLESS_CALLS.replace("repeat: true", "repeat: true\n  delay_ms: 1500");
    let agents: Vec<String> = (1..=AGENTS)
        .map(|n| agent(&format!("a{n}"), "", &slow))
        .collect();
    let team = project("max_cost_usd: 20", &agents).args(["go"]);
    let finished = team.failure(5);
    let events = events(&finished);
    let (mut under_way, mut dollars_spent, mut under_way_max) = (0_usize, 0_usize, 0_usize);
    for event in &events {
        match event["type"].as_str().unwrap() {
            "model_request_started" => {
                assert!(
                    dollars_spent < 20,
                    "asked although {dollars_spent} dollars were spent"
                );
                under_way += 1;
                under_way_max = under_way_max.max(under_way);
            }
            "model_request_finished" => {
                under_way -= 1;
                dollars_spent += 1;
            }
            _ => {}
        }
    }
    assert_eq!(under_way_max, AGENTS, "all are asked at the same time");
    assert!(
        (20..20 + AGENTS).contains(&dollars_spent),
        "{dollars_spent}"
    );
    let stderr = finished.stderr();
    assert!(
        stderr.contains("no agent answered: the run has spent $"),
        "{stderr}"
    );
}

#[test]
fn an_agent_that_reaches_its_limit_stops_and_the_others_continue() {
    let agents = [
        answering_agent("frugal", ""),
        agent("wild", "max_cost_usd: 3", ENDLESS_CALLS),
    ];
    let finished = project("", &agents).args(["go"]).success();
    assert_eq!(finished.stdout(), "presented\n");
    let events = events(&finished);
    let met = events_of_type(&events, "limit_met");
    assert_eq!(met.len(), 1, "{met:?}");
    assert_eq!(met[0]["agent"], "wild");
    let drop_outs = events_of_type(&events, "dropped_out");
    let reason = "it has spent $3 of at most $3 (`max_cost_usd`)";
    assert_eq!(
        (&drop_outs[0]["agent"], &drop_outs[0]["reason"]),
        (&"wild".into(), &reason.into())
    );
}

#[test]
fn the_stored_answer_of_a_winner_that_may_not_present_is_the_result() {
    let agents = [
        answering_agent("one", "max_tokens_total: 2000"),
        answering_agent("two", ""),
    ];
    let finished = project("", &agents).args(["go"]).failure(5);
    assert_eq!(finished.stdout(), "answer of one\n");
    let stderr = finished.stderr();
    let summary = "ended: one has used 2000 tokens of at most 2000 (`max_tokens_total`); \
                   the best answer so far is one's";
    assert!(stderr.contains(summary), "{stderr}");
    // Control: with one token more it presents.
    let agents = [
        answering_agent("one", "max_tokens_total: 2001"),
        answering_agent("two", ""),
    ];
    let finished = project("", &agents).args(["go"]).success();
    assert_eq!(finished.stdout(), "presented\n");
}

#[test]
fn a_run_in_which_limits_left_no_answer_says_so() {
    let agents = [
        agent("one", "max_cost_usd: 1", ENDLESS_CALLS),
        agent("two", "max_cost_usd: 2", ENDLESS_CALLS),
    ];
    let finished = project("", &agents).args(["go"]).failure(5);
    let stderr = finished.stderr();
    let summary = "ended: no agent answered: one has spent $1 of at most $1 (`max_cost_usd`)";
    assert!(stderr.contains(summary), "{stderr}");
}

/// Calls two tools in each reply until a message says that none are left.
const CALLS_TOOLS: &str = r#"
- when: {last: "you have no tool call left"}
  calls: [{name: new_answer, arguments: {content: "what I have"}}]
- when: {lacks: new_answer}
  text: "presented"
- calls:
    - {name: list_directory, arguments: {path: "."}}
    - {name: list_directory, arguments: {path: "."}}
  repeat: true
"#;

#[test]
fn an_agent_without_tool_calls_left_decides_with_what_it_has() {
    let team = project("", &[agent("one", "max_tool_calls: 3", CALLS_TOOLS)]);
    let finished = team.args(["go"]).success();
    assert_eq!(finished.stdout(), "what I have\n");
    let events = events(&finished);
    assert_eq!(events_of_type(&events, "tool_called").len(), 3);
    let met = events_of_type(&events, "limit_met");
    let limit = "it has used all 3 tool calls (`max_tool_calls`)";
    assert_eq!((met.len(), &met[0]["limit"]), (1, &limit.into()));
}

#[test]
fn a_run_without_tool_calls_left_ends() {
    let endless = agent("wild", "", ENDLESS_CALLS);
    let answering = answering_agent("able", "");
    let team = project("max_tool_calls: 3", &[answering, endless]);
    let finished = team.args(["go"]).failure(5);
    assert_eq!(finished.stdout(), "answer of able\n");
    let events = events(&finished);
    assert_eq!(events_of_type(&events, "tool_called").len(), 3);
    let stderr = finished.stderr();
    let summary = "ended: the run has used all 3 tool calls (`max_tool_calls`)";
    assert!(stderr.contains(summary), "{stderr}");
    // Control: answers and votes do not count as tool calls.
    let agents = [answering_agent("one", ""), answering_agent("two", "")];
    let team = project("max_tool_calls: 0", &agents).args(["go"]);
    assert_eq!(team.success().stdout(), "presented\n");
}

#[test]
fn rounds_have_a_limit_of_requests() {
    let agents = [
        answering_agent("able", ""),
        agent("wild", "max_steps_per_round: 3", ENDLESS_CALLS),
    ];
    let finished = project("max_steps_per_round: 50", &agents)
        .args(["go"])
        .success();
    let stderr = finished.stderr();
    let reason = "[wild] drops out: no decision after 3 requests (`max_steps_per_round`)";
    assert!(stderr.contains(reason), "{stderr}");
}

/// Checks what a final agent with these replies presents, how many of its calls are refused, and which
/// warning follows.
#[track_caller]
fn check_presentation(replies: &str, presented: &str, refused: usize, warning: Option<&str>) {
    let script = format!(
        r#"
{}
- when: {{last: "<task>"}}
  calls: [{{name: new_answer, arguments: {{content: stored}}}}]
- calls: [{{name: vote, arguments: {{agent_id: agent1, reason: mine}}}}]
"#,
        replies.trim()
    );
    let agents = [agent("one", "", &script), answering_agent("two", "")];
    let finished = project("max_steps_per_round: 6", &agents)
        .args(["go"])
        .success();
    let stderr = finished.stderr();
    assert_eq!(finished.stdout(), format!("{presented}\n"), "{stderr}");
    let is_refused = |event: &&Value| event["type"] == "tool_called" && event["denied"].is_string();
    assert_eq!(
        events(&finished).iter().filter(is_refused).count(),
        refused,
        "{stderr}"
    );
    match warning {
        Some(warning) => assert!(stderr.contains(warning), "{stderr}"),
        None => assert!(!stderr.contains("warning"), "{stderr}"),
    }
}

#[test]
fn a_final_agent_that_never_presents_is_stopped_with_a_warning() {
    let calls = |arguments: &str| {
        format!("- {{when: {{system: \"the final agent\"}}, calls: [{arguments}]}}\n")
    };
    let endless = |arguments: &str| calls(arguments).replace("]}", "], repeat: true}");
    let vote = "{name: vote, arguments: {agent_id: agent1, reason: mine}}";
    // No reply is like the one before it.
    let look = |number: usize| {
        let path = [".", "./"][number % 2];
        format!("{{name: list_directory, arguments: {{path: {path}}}}}")
    };
    let votes = "the final agent did not finish: 3 replies vote or answer after the vote";
    let wanders =
        "the final agent did not finish: no result after 6 requests (`max_steps_per_round`)";
    check_presentation(&endless(vote), "stored", 3, Some(votes));
    let malformed = "{name: vote, arguments: {}}";
    check_presentation(&endless(malformed), "stored", 3, Some(votes));
    let answers = "{name: new_answer, arguments: {content: again}}";
    check_presentation(&endless(answers), "again", 3, Some(votes));
    let looks: String = (0..6).map(|number| calls(&look(number))).collect();
    check_presentation(&looks, "stored", 0, Some(wanders));
    // Control: votes that are followed by a result, or come with work, end nothing.
    let presents = "- {when: {system: \"the final agent\"}, text: presented}\n";
    let twice = format!("{}{presents}", calls(vote).repeat(2));
    check_presentation(&twice, "presented", 2, None);
    let vote_and_look = |number| calls(&format!("{vote}, {}", look(number)));
    let both: String = (0..4).map(vote_and_look).collect();
    check_presentation(&format!("{both}{presents}"), "presented", 4, None);
}

#[test]
fn a_final_agent_that_hands_in_an_answer_presents_its_text() {
    let reply = |rest: &str| format!("- {{when: {{system: \"the final agent\"}}, {rest}}}\n");
    let answer = "calls: [{name: new_answer, arguments: {content: handed in}}]";
    let hands_in = reply(answer);
    let introduced = reply(&format!("text: My result follows., {answer}"));
    let empty = "calls: [{name: new_answer, arguments: {}}]";
    let nothing = reply("text: \"\"");
    let says = reply("text: said");
    check_presentation(&format!("{hands_in}{nothing}"), "handed in", 1, None);
    check_presentation(&format!("{introduced}{nothing}"), "handed in", 1, None);
    // Controls: what it says later counts, a call without content adds nothing, and neither do votes.
    check_presentation(&format!("{hands_in}{says}"), "said", 1, None);
    let talks = reply(&format!("text: talked, {empty}"));
    check_presentation(&format!("{talks}{nothing}"), "talked", 1, None);
    let silent = reply(empty);
    check_presentation(&format!("{silent}{nothing}"), "stored", 1, None);
    let vote = reply("calls: [{name: vote, arguments: {agent_id: agent1, reason: mine}}]");
    check_presentation(&format!("{vote}{nothing}"), "stored", 1, None);
}

#[test]
fn a_final_agent_that_writes_a_call_as_text_presents_what_the_call_says() {
    let reply =
        |text: &str| format!("- {{when: {{system: \"the final agent\"}}, text: '{text}'}}\n");
    let answer = r#"<new_answer>{"content": "written"}</new_answer>"#;
    check_presentation(&reply(answer), "written", 0, None);
    let vote = r#"<vote>{"agent_id": "agent1", "reason": "mine"}</vote>"#;
    check_presentation(&reply(vote), "stored", 0, None);
    // Control: a text that is more than the call is the text.
    let more = format!("This is it: {answer}");
    check_presentation(&reply(&more), &more, 0, None);
}

#[test]
fn an_answer_of_an_earlier_coordination_is_not_lost() {
    let script = r#"
- when: {offers: restart_orchestration}
  calls: [{name: restart_orchestration, arguments: {reason: "too short", instructions: "more"}}]
  usage: {output_tokens: 1000}
- when: {system: "the final agent"}
  text: "presented"
  usage: {output_tokens: 1000}
- when: {last: "<task>"}
  calls: [{name: new_answer, arguments: {content: "an answer"}}]
  usage: {output_tokens: 1000}
"#;
    let team = format!(
        "agents:\n{}orchestrator:\n  coordination: {{max_orchestration_restarts: 1}}\n\
         limits: {{max_cost_usd: 3}}\n",
        agent("one", "", script)
    );
    let project = Project::new().config(&team).file("prices.yaml", PRICES);
    let finished = project.args(["--models", "prices.yaml", "go"]).failure(5);
    assert_eq!(finished.stdout(), "presented\n");
}

/// Returns a dry run of a team that may spend a dollar and whose one model is at `base_url`.
fn remote_project(model: &str, base_url: &str) -> Project {
    let team = format!(
        "agents:\n  - id: one\n    backend:\n      type: chatcompletion\n      model: {model}\n      \
         base_url: {base_url}\n      api_key: k\nlimits: {{max_cost_usd: 1}}\n"
    );
    Project::new()
        .file("team.yaml", team)
        .args(["--config", "team.yaml", "--dry-run", "go"])
}

/// `expected` is part of the output of a dry run of a team that may spend a dollar.
#[track_caller]
fn check_price(project: Project, expected: &str) {
    let finished = project.success();
    let output = format!("{}{}", finished.stdout(), finished.stderr());
    assert!(output.contains(expected), "{output}");
}

#[test]
fn money_cannot_be_limited_where_a_price_is_not_known() {
    let refused = "a run would fail immediately: `max_cost_usd` cannot be enforced: the price of `house-1`, \
                   which `one` uses, is unknown";
    let url = "https://models.example/v1";
    check_price(remote_project("house-1", url), refused);
    let team = remote_project("house-1", url).run();
    assert!(
        team.stdout().contains("price of house-1: not known"),
        "{}",
        team.stdout()
    );
    // Controls: a price in the user's file, a price in the table, a server on this machine.
    let prices = "models: [{name: house-1, usd_per_million_tokens: {input: 0.5, output: 2}}]";
    let with_price = remote_project("house-1", url).home_file(".massgen/models.yaml", prices);
    let message = "price of house-1: $0.5 input, $0.5 cached, $2 output per million tokens";
    check_price(with_price, message);
    let known = remote_project("gpt-5-2025-08-07", "https://api.openai.com/v1");
    check_price(
        known,
        "price of gpt-5-2025-08-07: $1.25 input, $0.125 cached, $10 output",
    );
    check_price(
        remote_project("house-1", "http://localhost:9/v1"),
        "price of house-1: nothing",
    );
    check_price(
        remote_project("gpt-5", "https://api.openai.com/v1"),
        "limits of the run: $1\n",
    );
    // Fallback models need prices too.
    let fallback = "http://localhost:9/v1\n      fallback: [{model: house-2, base_url: 'https://m.example/v1'}]";
    check_price(
        remote_project("house-1", fallback),
        "the price of `house-2`, which `one` uses, is unknown",
    );
}

#[test]
fn a_limit_on_money_says_that_a_server_on_this_machine_does_not_count() {
    let warning = "warning: `max_cost_usd` does not count `house-1`: a server on this machine costs \
                   nothing unless `~/.massgen/models.yaml` has a price for the model";
    let local = || remote_project("house-1", "http://127.0.0.1:9/v1");
    check_price(local(), warning);
    let run = local().retyped(["--config", "team.yaml", "go"]).run();
    assert_eq!(run.stderr().matches(warning).count(), 1, "{}", run.stderr());
    // Controls: a price of the user's, and a limit that free models keep.
    let prices = "models: [{name: house-1, usd_per_million_tokens: {input: 0.5, output: 2}}]";
    let with_price = local().home_file(".massgen/models.yaml", prices);
    let nothing = local().args(["--max-cost-usd", "0"]);
    for control in [with_price, nothing] {
        let finished = control.success();
        let stderr = finished.stderr();
        assert!(!stderr.contains("does not count"), "{stderr}");
    }
}

#[test]
fn a_run_with_an_unknown_price_ends_before_a_model_is_asked() {
    let team = "agents:\n  - id: one\n    backend: {type: chatcompletion, model: house-1, \
                base_url: 'https://models.example/v1', api_key: k}\n";
    let project = Project::new().file("team.yaml", team);
    let run = ["--config", "team.yaml", "--max-cost-usd", "1", "go"];
    let finished = project.args(run).failure(2);
    let stderr = finished.stderr();
    assert!(
        stderr.contains("add its price to `~/.massgen/models.yaml`"),
        "{stderr}"
    );
    assert!(
        stderr.contains("or limit tokens instead: `max_tokens_total`"),
        "{stderr}"
    );
    let _nothing = finished.has_no(".massgen");
}

#[test]
fn a_project_cannot_say_what_models_cost() {
    let team = format!(
        "agents:\n{}limits: {{max_cost_usd: 0.5}}\n",
        agent("one", "", ENDLESS_CALLS)
    );
    let hostile = PRICES.replace("1000", "0");
    let project = Project::new()
        .config(&team)
        .file(".massgen/models.yaml", hostile)
        .file("models.yaml", "models: [")
        .home_file(".massgen/models.yaml", PRICES);
    let finished = project.args(["go"]).failure(5);
    let stderr = finished.stderr();
    assert!(
        stderr.contains("the run has spent $1 of at most $0.5"),
        "{stderr}"
    );
    assert!(
        stderr.contains("ignoring `.massgen/models.yaml` of this directory"),
        "{stderr}"
    );
}

/// `expected` is a line of the report about a file of models.
#[track_caller]
fn check_file(yaml: &str, expected: &str) {
    let project = Project::new().file("m.yaml", yaml);
    let finished = project.args(["models", "--models", "m.yaml"]).failure(2);
    assert!(
        finished.stderr().contains(expected),
        "{}",
        finished.stderr()
    );
    assert_eq!(finished.stdout(), "");
}

#[test]
fn a_wrong_file_of_models_is_refused_with_its_line() {
    let row = |rest: &str| format!("models:\n  - name: m\n    {rest}\n");
    check_file(
        &row("usd_per_million_tokens: {input: 1}"),
        "`output` is missing",
    );
    check_file(
        &row("usd_per_million_tokens: {input: -1, output: 1}"),
        "`input` is `-1`",
    );
    check_file(
        &row("usd_per_milion_tokens: {}"),
        "did you mean `usd_per_million_tokens`?",
    );
    let fine = row("usd_per_million_tokens: {input: 0.0000001, output: 1}");
    check_file(&fine, "`input` is `0.0000001`, which is too fine");
    check_file("[]", "a file of models is a mapping with `models`");
    check_file("models: [", "not valid YAML");
    let missing = Project::new()
        .args(["models", "--models", "m.yaml"])
        .failure(2);
    assert!(
        missing.stderr().contains("file `m.yaml` does not exist"),
        "{}",
        missing.stderr()
    );
}

#[test]
fn models_are_listed_with_the_users_own_first() {
    let own = "models:\n  - name: gpt-5\n    vendor: openai\n    context_tokens: 10\n    \
               usd_per_million_tokens: {input: 1, output: 2}\n    long_requests:\n      \
               - {above_input_tokens: 5, usd_per_million_tokens: {input: 3, output: 4}}\n";
    let project = Project::new().home_file(".massgen/models.yaml", own);
    let project = project.env("OPENAI_API_KEY", "sk-of-the-user");
    let finished = project.args(["models", "gpt-5-mini"]).success();
    let (titles, rows) = finished.stdout().split_once('\n').unwrap();
    assert!(titles.starts_with("VENDOR  MODEL"), "{titles}");
    let columns: Vec<&str> = rows.split_whitespace().collect();
    let expected = [
        "openai",
        "gpt-5-mini",
        "400000",
        "128000",
        "0.25",
        "0.025",
        "0.25",
        "2",
        "table",
        "yes",
    ];
    assert_eq!(columns, expected);
    let stderr = finished.stderr();
    assert!(
        stderr.contains("US dollars per million tokens; prices of 20"),
        "{stderr}"
    );

    let project = Project::new().home_file(".massgen/models.yaml", own);
    let finished = project.args(["models", "GPT-5"]).success();
    let rows: Vec<Vec<&str>> = finished
        .stdout()
        .lines()
        .skip(1)
        .map(|row| row.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[0][..9],
        ["openai", "gpt-5", "10", "-", "1", "1", "1", "2", "yours"]
    );
    assert_eq!(
        rows[1][..9],
        ["openai", "gpt-5", ">5", "-", "3", "3", "3", "4", "yours"]
    );
    let usable = rows[0][9..].join(" ");
    assert_eq!(usable, "no: `OPENAI_API_KEY` is not set");
    assert!(
        rows.len() > 10 && rows[2..].iter().all(|row| row[8] == "table"),
        "{rows:?}"
    );

    let project = Project::new().home_file(".massgen/models.yaml", own);
    let finished = project.args(["models", "gpt-5", "--json"]).success();
    let list: Value = serde_json::from_str(finished.stdout()).unwrap();
    let first = &list["models"][0];
    assert_eq!(
        (&first["name"], &first["from"]),
        (&"gpt-5".into(), &"yours".into())
    );
    assert_eq!(first["usd_per_million_tokens"]["cached_input"], 1.0);
    assert_eq!(first["long_requests"][0]["above_input_tokens"], 5);
    assert!(list["table_taken"].is_string());
    assert_eq!(first["usable"], false);
    assert_eq!(first["obstacle"], "`OPENAI_API_KEY` is not set");

    let nothing = Project::new().args(["models", "no-such-model"]).failure(1);
    assert!(
        nothing.stderr().contains("`no-such-model`"),
        "{}",
        nothing.stderr()
    );
}

#[test]
fn usable_models_come_first_and_fit_a_terminal() {
    let with_key = || Project::new().env("GEMINI_API_KEY", "k");
    let usable = with_key().args(["models", "--usable"]).success();
    let rows: Vec<&str> = usable.stdout().lines().skip(1).collect();
    assert!(!rows.is_empty() && rows.iter().all(|row| row.ends_with("yes")));
    let all = with_key().args(["models"]).success();
    let first_rows: Vec<&str> = all.stdout().lines().skip(1).take(rows.len()).collect();
    let names = |rows: &[&str]| -> Vec<String> {
        let names = rows
            .iter()
            .map(|row| row.split_whitespace().nth(1).unwrap().to_owned());
        names.collect()
    };
    assert_eq!(names(&first_rows), names(&rows));
    assert!(all.stdout().contains("  no: "));
    let none = Project::new()
        .args(["models", "--usable", "gpt-5"])
        .failure(1);
    assert!(
        none.stderr().contains("no usable model"),
        "{}",
        none.stderr()
    );

    let shown = with_key().args(["models", "gemini"]).on_terminal();
    let output = shown.stdout();
    assert!(output.contains("USABLE"), "{output}");
    let width = output
        .lines()
        .map(|line| line.trim_end().chars().count())
        .max();
    assert!(width <= Some(80), "{output}");
}

#[test]
fn the_file_of_models_in_the_documentation_is_valid() {
    let documented = blocks(include_str!("../../docs/limits.md"), "yaml");
    let models = documented
        .iter()
        .find(|block| block.starts_with("models:"))
        .unwrap();
    let project = Project::new().file("m.yaml", models);
    let listed = project
        .args(["models", "house", "--models", "m.yaml"])
        .success();
    assert!(listed.stdout().contains("yours"), "{}", listed.stdout());
}

#[test]
fn an_abandoned_request_is_reported_with_unknown_cost() {
    #[track_caller]
    fn check(prices: &str, cost_usd: &str, is_complete: bool) {
        let slow = agent("b", "", "- {text: too late, delay_ms: 600000}");
        let finished = project("", &[answering_agent("a", ""), slow])
            .file("prices.yaml", prices)
            .args(["--orchestrator-timeout", "5", "--output-format", "json"])
            .args(["which?"])
            .failure(5);
        let result: Value = serde_json::from_str(finished.stdout()).unwrap();
        assert_eq!(
            result["usage"]["by_agent"]["b"]["requests"], 1,
            "{result:#}"
        );
        assert_eq!(result["cost_usd"].as_f64(), cost_usd.parse().ok());
        assert_eq!(result["cost_is_complete"], is_complete);
    }

    check(PRICES, "1", false);
    let free = PRICES.replace("1000", "0");
    check(&free, "0", true);
}
