//! The files of a batch: results are created once, attempts supersede earlier ones, and jobs have
//! shares of the money, with many threads and with steps that a killed process left out.

use std::collections::BTreeSet;
use std::fs;
use std::thread::scope;
use std::time::Duration;

use massgen::batch::next_step::AttemptEnd;
use massgen::batch::result::{CellOutcome, CellResult};
use massgen::batch::task::{BatchTask, CellId, parse_tasks};
use massgen::check_results::ChecksOutcome;
use massgen::error::Result;
use massgen::path::AbsPath;
use massgen::spending::money::Money;
use massgen::spending::shared_budget::SharedBudget as _;
use massgen::world::store::batches::attempts::{
    AttemptNote, CellAttempt, ProcessLiveness, ProcessMark,
};
use massgen::world::store::batches::budget::AttemptBudget;
use massgen::world::store::batches::submissions::SubmissionHead;
use massgen::world::store::batches::{BatchDir, BatchRecord, FrozenConfig, digest, find};
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::waiting::wait_until;

/// Number of threads that work on one batch.
const THREADS: usize = 8;

fn dollars(text: &str) -> Money {
    Money::from_dollars(text).unwrap()
}

fn cell_id(number: usize) -> CellId {
    CellId::parse(&format!("c{number}")).unwrap()
}

/// Returns a batch of so many cells with a limit of ten dollars.
fn open_batch(dir: &TempDir, cells: usize) -> BatchDir {
    create_batch(dir, cells, "t").unwrap()
}

/// Creates such a batch from the task file `tasks_name`.
fn create_batch(dir: &TempDir, cells: usize, tasks_name: &str) -> Result<BatchDir> {
    let line = |number| format!("{{\"id\":\"c{number}\",\"text\":\"task {number}\"}}\n");
    let lines: Vec<String> = (0..cells).map(line).collect();
    let tasks: Vec<BatchTask> = parse_tasks(&lines.concat(), "t").unwrap();
    let text = b"agents: []".to_vec();
    let cwd = AbsPath::new(dir.path()).unwrap();
    let record = |tasks_sha256| BatchRecord {
        cwd: cwd.clone(),
        began: "2026-11-02T14:03:22".to_owned(),
        tasks_name: tasks_name.to_owned(),
        cells: u32::try_from(cells).unwrap(),
        tasks_sha256,
        configs: vec![FrozenConfig {
            name: "team.yaml".to_owned(),
            path: None,
            sha256: digest(&text),
        }],
        models: None,
        allowed_mentions: Vec::new(),
        retries: 3,
        max_cost_usd: Some(dollars("10")),
    };
    BatchDir::create(
        &cwd.join("batches"),
        &tasks,
        std::slice::from_ref(&text),
        record,
    )
}

fn cell_result(id: &CellId, cost: &str) -> CellResult {
    CellResult {
        id: id.clone(),
        outcome: CellOutcome::Completed,
        exit_code: 0,
        tags: BTreeSet::new(),
        checks: ChecksOutcome::None,
        winner: None,
        cost_usd: dollars(cost),
        cost_is_complete: true,
        duration_ms: 1,
        attempts: 1,
        engine: "local".to_owned(),
        host: "h".to_owned(),
        ended: String::new(),
        files: 0,
        reason: String::new(),
    }
}

#[test]
fn frozen_tasks_and_configs_are_read_by_number_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    let batch = open_batch(&dir, 300);
    let record = batch.record().unwrap();
    for number in [0, 7, 299] {
        let task = batch.task(number).unwrap();
        assert_eq!(task.text, format!("task {number}"));
    }
    assert!(batch.task(300).is_err());
    assert_eq!(batch.cell_ids(&record).unwrap().len(), 300);
    assert_eq!(batch.config_text(&record, 0).unwrap(), b"agents: []");
    let root = batch.dir().as_path().to_owned();
    fs::write(root.join("configs/0.yaml"), "agents: [x]").unwrap();
    assert!(batch.config_text(&record, 0).is_err());
    let tasks = fs::read_to_string(root.join("tasks.jsonl")).unwrap();
    fs::write(root.join("tasks.jsonl"), tasks.replace("task 1", "task 2")).unwrap();
    assert!(batch.cell_ids(&record).is_err());
}

#[test]
fn a_record_that_could_not_be_read_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let error = create_batch(&dir, 1, &"t".repeat(17 << 20)).unwrap_err();
    assert!(error.to_string().contains("take more than"), "{error}");
    let batches = dir.path().join("batches");
    assert_eq!(fs::read_dir(batches).unwrap().count(), 0);
}

/// Begins an attempt that must be possible.
fn begin(batch: &BatchDir, id: &CellId) -> CellAttempt {
    batch.begin_attempt(id, "1.0").unwrap().unwrap()
}

#[test]
fn each_cell_has_one_result_by_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let batch = &open_batch(&dir, 60);
    scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for number in 0..60 {
                    let id = cell_id(number);
                    let Some(attempt) = batch.begin_attempt(&id, "1.0").unwrap() else {
                        continue;
                    };
                    let own = cell_result(&id, &format!("{}", thread + 1));
                    batch.publish(&own, &json!({"thread": thread})).unwrap();
                    let spent_usd = dollars("0.5");
                    let note = AttemptNote {
                        spent_usd,
                        ..AttemptNote::default()
                    };
                    attempt.write(&note).unwrap();
                }
            });
        }
    });
    let results = batch.results().unwrap();
    assert_eq!(results.len(), 60);
    let mut attempts = 0;
    for result in &results {
        let (read, run) = batch.result(&result.id).unwrap().unwrap();
        assert_eq!(&read, result);
        let thread = run["thread"].as_u64().unwrap();
        assert_eq!(result.cost_usd, dollars(&format!("{}", thread + 1)));
        attempts += u64::from(batch.last_attempt(&result.id).unwrap());
    }
    // The bill has all attempts, also those that were too late.
    assert_eq!(
        batch.spent().unwrap(),
        dollars("0.5").saturating_mul(attempts)
    );
}

#[test]
fn an_attempt_is_superseded_and_knows_those_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let (batch, id) = (open_batch(&dir, 1), cell_id(0));
    let cell = batch.cell_dir(&id);
    let spends = |attempt: &CellAttempt, end| {
        let note = AttemptNote {
            spent_usd: dollars("0.5"),
            worked_ms: 7,
            end,
            ..AttemptNote::default()
        };
        attempt.write(&note).unwrap();
    };
    let can_resume = |attempt: &CellAttempt| {
        let first = cell.first_attempt();
        first.is_some_and(|first| attempt.earlier().unwrap().can_resume(first))
    };
    let prepare = |attempt: &CellAttempt| {
        cell.begin_anew().unwrap();
        cell.mark_prepared(attempt.number(), 0).unwrap();
    };
    let first = begin(&batch, &id);
    assert!(!can_resume(&first) && !first.is_superseded().unwrap());
    prepare(&first);
    spends(&first, None);
    // It is lost, but its process still has the lock.
    let second = begin(&batch, &id);
    assert!(first.is_superseded().unwrap() && second.is_earlier_locked().unwrap());
    drop(first);
    wait_until("the lock is free", Duration::from_mins(2), || {
        // Until a process that another test starts has replaced its image, it has the lock too.
        !second.is_earlier_locked().unwrap()
    });
    assert!(can_resume(&second));
    assert_eq!(second.earlier().unwrap().losses, 1);
    spends(&second, Some(AttemptEnd::EndpointsFailed));
    // This one is killed before it begins anew.
    let third = begin(&batch, &id);
    assert!(!can_resume(&third));
    drop(third);
    let fourth = begin(&batch, &id);
    assert!(!can_resume(&fourth));
    prepare(&fourth);
    spends(&fourth, Some(AttemptEnd::Parked));
    let fifth = begin(&batch, &id);
    let earlier = fifth.earlier().unwrap();
    assert!(can_resume(&fifth));
    assert_eq!(earlier.losses, 2);
    assert_eq!(earlier.spent(), dollars("1.5"));
    assert_eq!(earlier.sum_since(4), (dollars("0.5"), 7));
    // The user wants another result: counting starts again, and its cost stays.
    let mut result = cell_result(&id, "2");
    result.attempts = 5;
    spends(&fifth, None);
    batch.publish(&result, &json!({})).unwrap();
    assert!(batch.begin_attempt(&id, "1.0").unwrap().is_none());
    batch.withdraw_result(&id, 5).unwrap();
    let sixth = begin(&batch, &id);
    let earlier = sixth.earlier().unwrap();
    assert!(!can_resume(&sixth));
    assert_eq!((earlier.losses, earlier.spent()), (0, dollars("2")));
}

#[test]
fn a_submission_deals_its_cells_and_shares() {
    let dir = tempfile::tempdir().unwrap();
    let batch = open_batch(&dir, 10);
    let head = |share: &str| SubmissionHead {
        engine: "local".to_owned(),
        indexes: 3,
        share_usd: Some(dollars(share)),
        mark: ProcessMark::of_this_process(String::new()),
    };
    assert_eq!(batch.last_submission().unwrap(), 0);
    let own = batch.submit(&head("1"), &[9, 0, 2, 3, 5, 7, 8]).unwrap();
    let read = batch.submission(1).unwrap();
    let dealt = [0, 1, 2, 3].map(|index| read.cells_of(index));
    assert_eq!(dealt, [vec![9, 3, 8], vec![0, 5], vec![2, 7], vec![]]);
    assert_eq!(batch.control_liveness(&read), ProcessLiveness::Alive);
    drop(own);
    wait_until("the lock is free", Duration::from_mins(2), || {
        batch.control_liveness(&read) == ProcessLiveness::Dead
    });
    // A share is what a job spends in all its starts, and not what the run had cost before.
    let budget = |id: &CellId, job: &str, earlier_cost: &str| {
        let spent = batch.spent_by_job(id, job).unwrap();
        let attempt = batch.begin_attempt(id, job).unwrap().unwrap();
        let (earlier_cost, park) = (dollars(earlier_cost), CancellationToken::new());
        AttemptBudget::new(&batch, attempt, &read, spent, earlier_cost, park)
    };
    let id = cell_id(0);
    let first = budget(&id, "1.1", "0");
    assert!(first.covers(Money::ZERO) && first.covers(dollars("0.6")));
    let second = budget(&id, "1.1", "0.6");
    assert!(!first.covers(dollars("0.6")) && !first.is_exhausted());
    assert!(second.covers(dollars("0.9")));
    assert!(!second.covers(dollars("1")) && second.is_exhausted());
    assert_eq!(batch.spent().unwrap(), dollars("1"));
    // Another job has a share of its own, until there is a newer submission.
    let other = budget(&cell_id(1), "1.0", "0");
    assert!(other.covers(Money::ZERO));
    batch.submit(&head("1"), &[0]).unwrap();
    assert!(!other.covers(Money::ZERO) && !other.is_exhausted());
}

#[test]
fn a_limit_can_be_changed() {
    let dir = tempfile::tempdir().unwrap();
    let batch = open_batch(&dir, 1);
    let record = batch.record().unwrap();
    assert_eq!(batch.limit(&record).unwrap(), Some(dollars("10")));
    batch.set_limit(dollars("0.5")).unwrap();
    assert_eq!(batch.limit(&record).unwrap(), Some(dollars("0.5")));
    fs::write(batch.dir().join("limit").as_path(), "much").unwrap();
    assert!(batch.limit(&record).is_err());
}

#[test]
fn the_last_batch_is_one_that_was_created_here() {
    let dir = tempfile::tempdir().unwrap();
    let own = open_batch(&dir, 1);
    let batches = own.dir().parent().unwrap();
    let copy = batches.join("batch_20990101_000000_0000");
    crate::project::copy_tree(own.dir().as_path(), copy.as_path());
    let damaged = batches.join("batch_20980101_000000_0000");
    fs::create_dir(damaged.as_path()).unwrap();
    fs::write(damaged.join("batch.json").as_path(), "{").unwrap();
    let found = find("last", &batches).unwrap();
    assert_eq!(found.batch, own);
    let warning = found.warning.unwrap();
    let parts = ["batch_2099", "2 newer batches", "not created by massgen"];
    assert!(parts.iter().all(|part| warning.contains(part)), "{warning}");
    // Named, or as the only one, each is refused with its reason.
    for (name, reason) in [
        ("batch_2098", "damaged"),
        ("batch_2099", "not created by massgen"),
    ] {
        let found = find(name, &batches).unwrap();
        assert_eq!(found.warning, None);
        let error = found.batch.record().unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        let found = find(&own.name(), &batches).unwrap();
        assert_eq!((found.batch, found.warning), (own.clone(), None));
    }
    fs::remove_dir_all(own.dir().as_path()).unwrap();
    let error = find("last", &batches).unwrap_err().to_string();
    assert!(
        error.contains("`batch_20990101_000000_0000`: it was not created"),
        "{error}"
    );
}
