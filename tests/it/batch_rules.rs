//! Tests of task files, of what follows from attempts, and of the tables.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use massgen::batch::cell_state::{BatchCounts, CellState};
use massgen::batch::comparison::{ConfidenceInterval, NamedResults, compare};
use massgen::batch::next_step::{
    AttemptCounts, AttemptEnd, AttemptErrorOrigin, CellNextStep, CellRunEnd, next_step, pause_after,
};
use massgen::batch::result::{CellChecks, CellOutcome, CellResult, checks_outcome};
use massgen::batch::table::tag_rows;
use massgen::batch::task::{CellId, parse_tasks};
use massgen::check_results::CheckResult;
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
    use AttemptEnd::{Bug, EndpointsFailed, NodeFault, OutOfMoney, Parked};
    use CellNextStep::{Publish, RunAgain, StopBatch};
    use CellOutcome::{Completed, Failed, Partial};
    let first = AttemptCounts::default();
    let tried = AttemptCounts {
        node_faults: 3,
        bugs: 1,
    };
    // Exit status, answer, money spent, endpoints failed; then the step at first and later.
    for (code, has_answer, money, endpoints, at_first, later) in [
        (
            0,
            true,
            false,
            false,
            Publish(Completed),
            Publish(Completed),
        ),
        (1, false, false, false, Publish(Failed), Publish(Failed)),
        (
            1,
            false,
            false,
            true,
            RunAgain(EndpointsFailed),
            RunAgain(EndpointsFailed),
        ),
        (2, false, false, false, Publish(Failed), Publish(Failed)),
        (3, false, false, false, RunAgain(NodeFault), Publish(Failed)),
        (3, true, false, false, Publish(Partial), Publish(Partial)),
        (4, true, false, false, Publish(Partial), Publish(Partial)),
        (5, true, false, false, Publish(Partial), Publish(Partial)),
        (5, false, false, false, Publish(Failed), Publish(Failed)),
        (70, false, false, false, RunAgain(Bug), Publish(Failed)),
        (75, false, false, false, RunAgain(Parked), RunAgain(Parked)),
        (
            75,
            true,
            true,
            false,
            RunAgain(OutOfMoney),
            RunAgain(OutOfMoney),
        ),
        (
            130,
            false,
            false,
            false,
            RunAgain(NodeFault),
            Publish(Failed),
        ),
    ] {
        let end = CellRunEnd {
            exit_code: code,
            has_answer,
            is_out_of_money: money,
            did_endpoints_fail: endpoints,
            error_origin: AttemptErrorOrigin::Cell,
        };
        assert_eq!(next_step(end, first, 3), at_first, "{end:?}");
        assert_eq!(next_step(end, tried, 3), later, "{end:?}");
        // Only an error of the config that all cells share ends the batch.
        let of_config = CellRunEnd {
            error_origin: AttemptErrorOrigin::Config,
            ..end
        };
        let expected = if code == 2 { StopBatch } else { at_first };
        assert_eq!(next_step(of_config, first, 3), expected, "{of_config:?}");
    }
}

#[test]
fn only_faults_count_and_the_user_begins_anew() {
    let mut counts = AttemptCounts::default();
    for end in [
        AttemptEnd::Parked,
        AttemptEnd::OutOfMoney,
        AttemptEnd::EndpointsFailed,
        AttemptEnd::NodeFault,
        AttemptEnd::Bug,
    ] {
        counts.add(end);
    }
    assert_eq!((counts.node_faults, counts.bugs), (1, 1));
    counts.add(AttemptEnd::Repeated);
    assert_eq!(counts, AttemptCounts::default());
    let pauses = [0, 1, 2, 30].map(pause_after);
    assert_eq!(pauses, [2_000, 4_000, 8_000, 600_000]);
}

#[test]
fn a_cell_without_money_has_a_state_of_its_own() {
    let ends = [AttemptEnd::OutOfMoney, AttemptEnd::EndpointsFailed];
    let states = ends.map(CellState::after);
    assert_eq!(states, [CellState::OutOfMoney, CellState::Held]);
    let counts = BatchCounts::from_states(3, states);
    let expected = json!({"cells": 3, "completed": 0, "partial": 0, "failed": 0, "running": 0,
        "parked": 0, "held": 1, "out_of_money": 1, "faulty": 0, "waiting": 1});
    assert_eq!(json!(counts), expected);
    for state in CellState::ALL {
        let is_counted = states.contains(&state) || state == CellState::Waiting;
        assert_eq!(counts.count(state), usize::from(is_counted), "{state:?}");
    }
}

fn result(id: &str, tag: &str, is_success: bool, cost: &str, duration_ms: u64) -> CellResult {
    CellResult {
        id: CellId::parse(id).unwrap(),
        outcome: CellOutcome::Completed,
        exit_code: 0,
        tags: BTreeSet::from([tag.to_owned()]),
        checks: if is_success {
            CellChecks::Passed
        } else {
            CellChecks::Failed
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

#[track_caller]
fn check_interval(found: ConfidenceInterval, expected: [f64; 3]) {
    for (found, expected) in [found.estimate, found.low, found.high].iter().zip(expected) {
        assert!(
            (found - expected).abs() < 0.001,
            "{found} is not {expected}"
        );
    }
}

#[test]
fn two_batches_are_compared_by_pairs() {
    let batch = |solved: u32, cost: &str, cells: u32| {
        let cells = (0..cells).map(|number| {
            let id = format!("c{number}");
            let one = result(&id, "t", number < solved, cost, 1000);
            (one.id.clone(), one)
        });
        cells.collect::<BTreeMap<_, _>>()
    };
    let (one, three) = (batch(40, "0.1", 100), batch(60, "0.3", 101));
    let nothing = BTreeMap::new();
    let named = |name, results| NamedResults { name, results };
    let compared = compare(named("one", &one), named("three", &three));
    assert_eq!(
        (compared.pairs, compared.only_first, compared.only_second),
        (100, 0, 20)
    );
    // Wilson's interval of 40 of 100.
    check_interval(compared.first.success_share, [0.4, 0.3094, 0.4980]);
    check_interval(compared.success_difference, [0.2, 0.1167, 0.2755]);
    assert!(compared.success_difference.excludes_zero());
    check_interval(compared.cost_difference, [0.2, 0.2, 0.2]);
    let price = compared.cost_per_additional_success.unwrap();
    assert!((price - 1.0).abs() < 1e-9, "{price}");
    let none = compare(named("one", &one), named("none", &nothing));
    check_interval(none.success_difference, [0.0, -1.0, 1.0]);
    assert_eq!(none.cost_per_additional_success, None);
}

#[test]
fn only_required_checks_decide() {
    let check = |need: &str, verdict: &str| -> CheckResult {
        let check = json!({"check": "t", "need": need, "verdict": verdict, "how": "h", "why": "w",
            "elapsed_ms": 1});
        serde_json::from_value(check).unwrap()
    };
    let (passed, failed) = (check("required", "passed"), check("told", "failed"));
    assert_eq!(checks_outcome([&passed, &failed]), CellChecks::Passed);
    assert_eq!(checks_outcome([&failed]), CellChecks::None);
    for verdict in ["failed", "not_run"] {
        let failed = check("required", verdict);
        assert_eq!(checks_outcome([&passed, &failed]), CellChecks::Failed);
    }
    assert_eq!(checks_outcome([]), CellChecks::None);
}
