//! Tests of task files, of what follows from attempts, and of the tables.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use massgen::batch::cell_state::{BatchCounts, CellState};
use massgen::batch::next_step::{AttemptEnd, CellNextStep, CellRunEnd, next_step, pause_after};
use massgen::batch::result::{CellOutcome, CellResult};
use massgen::batch::table::tag_rows;
use massgen::batch::task::{CellId, parse_tasks};
use massgen::check_results::{CheckResult, ChecksOutcome};
use massgen::spending::money::Money;

#[test]
fn a_task_file_has_one_task_a_line() {
    let text = r#"
{"id":"a","text":"one"}

{"id":"b.2","text":"two","project":{"path":"app"},"tags":["x"],"limits":{"max_cost_usd":0.5}}
{"id":"c","text":"three","project":{"git":"app","commit":"0123456789012345678901234567890123456789"}}
"#;
    let tasks = parse_tasks(text, "tasks.jsonl").unwrap();
    let ids: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(ids, ["a", "b.2", "c"]);
    assert_eq!(tasks[1].limits.max_cost_usd, Money::from_dollars("0.5"));
    for (line, reason) in [
        (r#"{"id":"../a","text":"x"}"#, "is not an id"),
        (r#"{"id":".a","text":"x"}"#, "is not an id"),
        (r#"{"id":"","text":"x"}"#, "is not an id"),
        (r#"{"id":"a"}"#, "missing field `text`"),
        (r#"{"id":"a","text":" "}"#, "`text` is empty"),
        (
            r#"{"id":"a","text":"x","tag":["y"]}"#,
            "unknown field `tag`",
        ),
        (
            r#"{"id":"a","text":"x","limits":{"max":1}}"#,
            "unknown field `max`",
        ),
        (
            r#"{"id":"a","text":"x","project":{"git":"g","commit":"main"}}"#,
            "is not a full commit hash",
        ),
        (r#"{"id":"a","text":"x","project":{"path":""}}"#, "is empty"),
        (
            r#"{"id":"a","text":"x","project":{"path":"p","git":"g"}}"#,
            "did not match",
        ),
        (
            format!(r#"{{"id":"a","text":"x","tags":["{}"]}}"#, "é".repeat(101)).as_str(),
            "a tag is longer than 100 characters",
        ),
        ("{", "EOF"),
        ("", "has no tasks"),
        (
            "{\"id\":\"a\",\"text\":\"x\"}\n{\"id\":\"a\",\"text\":\"y\"}",
            "occurs twice",
        ),
    ] {
        let refused = parse_tasks(line, "t").unwrap_err().to_string();
        assert!(refused.contains(reason), "{line}: {refused}");
    }
}

#[test]
fn each_end_of_a_run_has_one_next_step() {
    use AttemptEnd::{EndpointsFailed, OutOfMoney, Parked};
    use CellNextStep::{Publish, RunAgain};
    use CellOutcome::{Completed, Failed, Partial};
    // Exit status, answer, money spent, endpoints failed; then the step.
    for (exit_code, has_answer, is_out_of_money, did_endpoints_fail, step) in [
        (0, true, false, false, Publish(Completed)),
        (1, false, false, false, Publish(Failed)),
        (1, false, false, true, RunAgain(EndpointsFailed)),
        (2, false, false, false, Publish(Failed)),
        (3, false, false, false, Publish(Failed)),
        (3, true, false, false, Publish(Partial)),
        (4, true, false, false, Publish(Partial)),
        (5, true, false, true, Publish(Partial)),
        (5, false, false, false, Publish(Failed)),
        (70, false, false, false, Publish(Failed)),
        (75, false, false, false, RunAgain(Parked)),
        (75, true, true, false, RunAgain(OutOfMoney)),
        (130, false, false, false, Publish(Failed)),
    ] {
        let end = CellRunEnd {
            exit_code,
            has_answer,
            is_out_of_money,
            did_endpoints_fail,
        };
        assert_eq!(next_step(end), step, "{end:?}");
    }
    let pauses = [0, 1, 2, 30].map(pause_after);
    assert_eq!(pauses, [2, 4, 8, 600]);
}

#[test]
fn a_cell_without_money_has_a_state_of_its_own() {
    let states: [CellState; 2] =
        [AttemptEnd::OutOfMoney, AttemptEnd::EndpointsFailed].map(CellState::from);
    assert_eq!(states, [CellState::OutOfMoney, CellState::Held]);
    let counts = BatchCounts::from_states(3, states);
    let expected = json!({"cells": 3, "completed": 0, "partial": 0, "failed": 0, "running": 0,
        "parked": 0, "held": 1, "out_of_money": 1, "lost": 0, "waiting": 1});
    assert_eq!(json!(counts), expected);
    let finished = [CellState::Completed, CellState::Failed];
    let counts = BatchCounts::from_states(5, states.into_iter().chain(finished));
    assert_eq!(counts.open_count(), 3);
    assert_eq!(
        counts.describe(true),
        "1 held, 1 waiting for money, 1 waiting"
    );
}

fn result(id: &str, tag: &str, is_success: bool, cost: &str, duration_ms: u64) -> CellResult {
    CellResult {
        id: CellId::parse(id).unwrap(),
        outcome: CellOutcome::Completed,
        exit_code: 0,
        tags: BTreeSet::from([tag.to_owned()]),
        checks: if is_success {
            ChecksOutcome::Passed
        } else {
            ChecksOutcome::Failed
        },
        winner: Some("a".to_owned()),
        cost_usd: Money::from_dollars(cost).unwrap(),
        cost_is_complete: true,
        duration_ms,
        attempts: 1,
        engine: "local".to_owned(),
        host: "h".to_owned(),
        ended: String::new(),
        files: 0,
        reason: String::new(),
    }
}

#[test]
fn rows_are_sums_by_tag() {
    let results: Vec<CellResult> = (1..=100)
        .map(|number| {
            let tag = if number % 2 == 0 { "even" } else { "odd" };
            result(&format!("c{number}"), tag, number <= 25, "0.01", number)
        })
        .collect();
    let rows = tag_rows(&results);
    let shown: Vec<(&str, usize, usize, u64, u64, String)> = rows
        .iter()
        .map(|row| {
            let cost = row.cost_usd.to_string();
            (
                row.tag.as_str(),
                row.cells,
                row.successes,
                row.p50_ms,
                row.p95_ms,
                cost,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("all", 100, 25, 50, 95, "1".to_owned()),
            ("even", 50, 12, 50, 96, "0.5".to_owned()),
            ("odd", 50, 13, 49, 95, "0.5".to_owned()),
        ]
    );
    assert_eq!(rows[0].winners, BTreeMap::from([("a".to_owned(), 100)]));
    assert_eq!(tag_rows(&[])[0].p95_ms, 0);
}

#[test]
fn only_required_checks_decide() {
    let check = |need: &str, verdict: &str| -> CheckResult {
        let check = json!({"check": "t", "need": need, "verdict": verdict, "how": "h", "why": "w",
            "elapsed_ms": 1});
        serde_json::from_value(check).unwrap()
    };
    let (passed, failed) = (check("required", "passed"), check("told", "failed"));
    assert_eq!(ChecksOutcome::of([&passed, &failed]), ChecksOutcome::Passed);
    assert_eq!(ChecksOutcome::of([&failed]), ChecksOutcome::None);
    for verdict in ["failed", "not_run"] {
        let failed = check("required", verdict);
        assert_eq!(ChecksOutcome::of([&passed, &failed]), ChecksOutcome::Failed);
    }
    assert_eq!(ChecksOutcome::of([]), ChecksOutcome::None);
}
