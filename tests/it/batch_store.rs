//! The files of a batch: claims have one owner, results are created once, and tokens of money are
//! neither lost nor made, with many threads and with steps that a killed process left out. The index of
//! the results changes none of them.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::scope;
use std::time::Duration;

use massgen::batch::cell_state::BatchCounts;
use massgen::batch::next_step::AttemptEnd;
use massgen::batch::result::{CellChecks, CellOutcome, CellResult};
use massgen::batch::task::{BatchTask, CellId, parse_tasks};
use massgen::error::Result;
use massgen::path::AbsPath;
use massgen::spending::money::Money;
use massgen::spending::shared_budget::SharedBudget as _;
use massgen::world::store::batches::claims::{
    AttemptNote, CellClaim, ClaimAttempt, ClaimOwner, OwnerLiveness,
};
use massgen::world::store::batches::pause::BatchPause;
use massgen::world::store::batches::survey::ResultTally;
use massgen::world::store::batches::{BatchDir, BatchRecord, FrozenConfig, digest, find};
use serde_json::{Value, json};
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
        checks: CellChecks::None,
        winner: None,
        cost_usd: dollars(cost),
        cost_is_complete: true,
        duration_ms: 1,
        attempts: 1,
        engine: "local".to_owned(),
        host: "h".to_owned(),
        ended: String::new(),
        files: 0,
    }
}

fn claim_owner() -> ClaimOwner {
    ClaimOwner::this_process("local", None)
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

#[test]
fn each_cell_is_claimed_once_by_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let batch = &open_batch(&dir, 60);
    let claimed = &AtomicUsize::new(0);
    scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(move || {
                for number in 0..60 {
                    let id = cell_id(number);
                    if let ClaimAttempt::Acquired(claim) = batch.claim(&id, &claim_owner()).unwrap()
                    {
                        claimed.fetch_add(1, Ordering::Relaxed);
                        assert!(batch.publish(&cell_result(&id, "0"), &json!({})).unwrap());
                        assert!(!batch.publish(&cell_result(&id, "1"), &json!({})).unwrap());
                        drop(claim);
                    }
                }
            });
        }
    });
    assert_eq!(claimed.load(Ordering::Relaxed), 60);
    let results = batch.results().unwrap();
    assert_eq!(results.len(), 60);
    assert!(
        results
            .iter()
            .all(|cell_result| cell_result.cost_usd == Money::ZERO)
    );
}

/// Claims a cell, and waits until its claim is free: until a process that another test starts has
/// replaced its image, it has the lock too.
fn claim_cell(batch: &BatchDir, id: &CellId) -> CellClaim {
    let mut acquired = None;
    wait_until("the claim is free", Duration::from_mins(2), || {
        if let ClaimAttempt::Acquired(claim) = batch.claim(id, &claim_owner()).unwrap() {
            acquired = Some(*claim);
        }
        acquired.is_some()
    });
    acquired.unwrap()
}

#[test]
fn a_run_that_ended_is_not_resumed_by_the_attempt_after_a_lost_one() {
    let dir = tempfile::tempdir().unwrap();
    let (batch, id) = (open_batch(&dir, 1), cell_id(0));
    let cell = batch.cell_dir(&id);
    let can_resume = |claim: &CellClaim| {
        cell.is_prepared() && claim.earlier_attempts().can_resume(cell.first_attempt())
    };
    let begin = |claim: &CellClaim| {
        cell.begin_anew(claim.attempt()).unwrap();
        cell.mark_prepared(0).unwrap();
    };
    let first = claim_cell(&batch, &id);
    assert!(!can_resume(&first));
    begin(&first);
    drop(first);
    let second = claim_cell(&batch, &id);
    assert!(can_resume(&second));
    let note = AttemptNote::new(AttemptEnd::EndpointsFailed, "429");
    second.end(&note).unwrap();
    // This one is killed before it begins anew.
    drop(claim_cell(&batch, &id));
    let fourth = claim_cell(&batch, &id);
    assert_eq!(
        fourth.earlier_attempts().last,
        Some(AttemptEnd::ProcessLost)
    );
    assert!(!can_resume(&fourth));
    begin(&fourth);
    drop(fourth);
    assert!(can_resume(&claim_cell(&batch, &id)));
}

#[test]
fn an_attempt_ends_by_a_note_or_by_the_death_of_its_process() {
    let dir = tempfile::tempdir().unwrap();
    let batch = open_batch(&dir, 1);
    let id = cell_id(0);
    let acquire = || claim_cell(&batch, &id);
    let first = acquire();
    assert_eq!((first.attempt(), first.earlier_attempts().last), (1, None));
    assert!(matches!(
        batch.claim(&id, &claim_owner()),
        Ok(ClaimAttempt::Taken)
    ));
    // The process dies: its lock is gone, and there is no note.
    drop(first);
    let second = acquire();
    assert_eq!(
        second.earlier_attempts().last,
        Some(AttemptEnd::ProcessLost)
    );
    assert_eq!(second.earlier_attempts().counts.node_faults, 1);
    let mut note = AttemptNote::new(AttemptEnd::EndpointsFailed, "429");
    note.spent_picodollars = dollars("0.5").picodollars();
    second.end(&note).unwrap();
    let third = acquire();
    assert_eq!(
        (third.attempt(), third.earlier_attempts().spent),
        (3, dollars("0.5"))
    );
    assert_eq!(third.earlier_attempts().counts.node_faults, 1);
    assert!(
        batch
            .publish(&cell_result(&id, "1"), &json!({"a": 1}))
            .unwrap()
    );
    // Killed before it gave its tokens back; its claim is of no interest any more.
    drop(third);
    assert!(matches!(
        batch.claim(&id, &claim_owner()),
        Ok(ClaimAttempt::Finished)
    ));
    assert_eq!(batch.result(&id).unwrap().unwrap().1, json!({"a": 1}));
    // A claim of another host is alive, whatever its lock says.
    let elsewhere = ClaimOwner {
        host: "elsewhere".to_owned(),
        boot: "other".to_owned(),
        ..claim_owner()
    };
    // Another process believed it lost just before the result; what it cost stays spent all the same.
    let lost = AttemptNote::new(AttemptEnd::ProcessLost, "gone");
    batch.write_note(&id, 3, &lost).unwrap();
    let mut note = AttemptNote::new(AttemptEnd::Repeated, "again");
    note.spent_picodollars = dollars("0.5").picodollars();
    batch.replace_note(&id, 3, &note).unwrap();
    batch.withdraw_result(&id, 3).unwrap();
    assert_eq!(batch.spent_before(&id, 4).unwrap(), dollars("1"));
    let claim_elsewhere = batch.claim(&id, &elsewhere).unwrap();
    drop(claim_elsewhere);
    assert!(matches!(
        batch.claim(&id, &claim_owner()),
        Ok(ClaimAttempt::Taken)
    ));
}

/// Returns an index with the lines of `index` as `change` makes them, and a digest that fits them.
fn rewrite_index(index: &str, change: impl Fn(Vec<&str>) -> Vec<String>) -> Vec<u8> {
    let (header, body) = index.split_once('\n').unwrap();
    let mut header: Value = serde_json::from_str(header).unwrap();
    let body = change(body.lines().collect()).concat();
    header["sha256"] = json!(digest(body.as_bytes()));
    format!("{header}\n{body}").into_bytes()
}

/// Returns indexes that say something else than `index`, with a name for each. `other` is that of another
/// batch.
fn wrong_indexes(index: &str, other: Vec<u8>) -> Vec<(&'static str, Vec<u8>)> {
    let lines = |change: fn(&str) -> String| {
        rewrite_index(index, |lines| lines.into_iter().map(change).collect())
    };
    vec![
        ("empty", Vec::new()),
        ("torn", index.as_bytes()[..index.len() / 2].to_vec()),
        ("not UTF-8", [index.as_bytes(), &[0xff]].concat()),
        ("changed", index.replace("completed", "failed").into_bytes()),
        (
            "without a header",
            index.lines().skip(1).collect::<String>().into_bytes(),
        ),
        ("of another batch", other),
        (
            "out of order",
            rewrite_index(index, |lines| {
                let reversed = lines.into_iter().rev();
                reversed
                    .map(|line| format!("{line}\n").replace("c1 ", "zz "))
                    .collect()
            }),
        ),
        (
            "of other files",
            lines(|line| format!("9{line}\n").replace("completed", "failed")),
        ),
        (
            "no results",
            lines(|line| format!("{}{{}}\n", line.split('{').next().unwrap())),
        ),
        (
            "no lines",
            lines(|line| format!("{}\n\n", line.replace(' ', ""))),
        ),
    ]
}

#[test]
fn an_index_saves_opening_results_and_never_changes_them() {
    let dir = tempfile::tempdir().unwrap();
    let batch_of_20 = || {
        let batch = open_batch(&dir, 20);
        for number in 0..18 {
            let result = cell_result(&cell_id(number), "0.1");
            assert!(batch.publish(&result, &json!({})).unwrap());
        }
        batch
    };
    let (batch, other) = (batch_of_20(), batch_of_20());
    let path = batch.dir().as_path().join("results.index");
    let truth = batch.results().unwrap();
    assert_eq!(truth.len(), 18);
    assert!(!path.exists(), "an index of few results");
    batch.update_index().unwrap();
    other.update_index().unwrap();
    let index = fs::read_to_string(&path).unwrap();
    // It is used: a file whose result it has is not opened.
    let file = batch.dir().as_path().join("results/c3.jsonl");
    let content = fs::read(&file).unwrap();
    fs::write(&file, "damaged").unwrap();
    assert_eq!(batch.results().unwrap(), truth);
    fs::remove_file(&path).unwrap();
    assert!(batch.results().is_err());
    fs::write(&file, content).unwrap();

    let other = fs::read(other.dir().as_path().join("results.index")).unwrap();
    for (name, bytes) in wrong_indexes(&index, other) {
        fs::write(&path, bytes).unwrap();
        assert_eq!(batch.results().unwrap(), truth, "{name}");
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(batch.results().unwrap(), truth);
    batch.update_index().unwrap();
    assert_eq!(
        batch.results().unwrap(),
        truth,
        "an index that cannot be written"
    );
    fs::remove_dir(&path).unwrap();

    // A new result of a cell, and one that was withdrawn.
    fs::write(&path, &index).unwrap();
    assert!(batch.withdraw_result(&cell_id(0), 1).unwrap());
    let mut again = cell_result(&cell_id(0), "2");
    again.outcome = CellOutcome::Failed;
    assert!(batch.publish(&again, &json!({})).unwrap());
    assert!(batch.withdraw_result(&cell_id(1), 1).unwrap());
    let running = batch.claim(&cell_id(18), &claim_owner()).unwrap();
    let survey = batch.survey::<ResultTally>(20).unwrap();
    let counts = BatchCounts {
        cells: 20,
        completed: 16,
        failed: 1,
        running: 1,
        waiting: 2,
        ..BatchCounts::default()
    };
    assert_eq!((survey.counts(), survey.spent()), (counts, dollars("3.6")));
    drop(running);
}

#[test]
fn tokens_are_neither_lost_nor_made_and_cover_each_request() {
    let dir = tempfile::tempdir().unwrap();
    let batch = &open_batch(&dir, 100);
    let request = dollars("0.07");
    let spent: Vec<Money> = scope(|scope| {
        let spend = |thread: usize| {
            let mut all = Money::ZERO;
            for number in (thread..100).step_by(THREADS) {
                let (id, stop) = (cell_id(number), CancellationToken::new());
                let budget = batch
                    .cell_budget(&id, Money::ZERO, stop.clone())
                    .unwrap()
                    .unwrap();
                let mut own = Money::ZERO;
                for _ in 0..3 {
                    if !budget.covers(own) {
                        assert!(stop.is_cancelled() && budget.is_exhausted());
                        break;
                    }
                    own = own.saturating_add(request);
                }
                all = all.saturating_add(own);
                batch.settle(&id, own).unwrap();
                // Twice, as another process does it for one that was killed.
                batch.settle(&id, own).unwrap();
            }
            all
        };
        let running: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || spend(thread)))
            .collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let sum = spent.into_iter().fold(Money::ZERO, Money::saturating_add);
    // 100 cells want 21 dollars and get ten, and at most one request for each thread more.
    let most =
        dollars("10").saturating_add(request.saturating_mul(u64::try_from(THREADS).unwrap()));
    assert!(sum <= most, "{sum}");
    assert!(sum >= dollars("9.9"), "{sum}");
    assert_eq!(money_of(batch), dollars("10"));
    batch.raise_limit(dollars("12")).unwrap();
    assert_eq!(money_of(batch), dollars("12"));
    assert!(batch.raise_limit(dollars("11")).is_err());
    assert_eq!(batch.budget().unwrap().unwrap().limit, dollars("12"));
}

/// Returns the value of all tokens of a batch of ten dollars, free ones and others.
fn money_of(batch: &BatchDir) -> Money {
    let names = ["free", "held"].map(|dir| {
        let files = fs::read_dir(batch.dir().as_path().join("money").join(dir)).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.collect::<Vec<String>>()
    });
    let values = names.iter().flatten().map(|name| {
        // A whole token is a number, after the cell; the name of a part begins with its value.
        let token = name.rsplit('.').next().unwrap();
        match token.split_once('-') {
            Some((value, _)) => Money::from_picodollars(value.parse().unwrap()),
            None => dollars("0.01"),
        }
    });
    values.fold(Money::ZERO, Money::saturating_add)
}

#[test]
fn a_cell_keeps_no_more_money_than_it_has_spent() {
    let dir = tempfile::tempdir().unwrap();
    let batch = &open_batch(&dir, 100);
    let taken = || batch.budget().unwrap().unwrap().taken;
    let spends = |number: usize, spent: &str| {
        let (id, stop) = (cell_id(number), CancellationToken::new());
        let budget = batch.cell_budget(&id, Money::ZERO, stop).unwrap().unwrap();
        assert!(budget.covers(Money::ZERO));
        batch.settle(&id, dollars(spent)).unwrap();
    };
    // Less than a token, which is a cent; each cell uses what others have left of one first.
    for number in 0..3 {
        spends(number, "0.004");
    }
    assert_eq!(taken(), dollars("0.012"));
    spends(3, "0.0351");
    assert_eq!(taken(), dollars("0.0471"));
    // As several processes may do it after a crash.
    scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| batch.settle(&cell_id(3), dollars("0.0001")).unwrap());
        }
    });
    assert_eq!(taken(), dollars("0.0121"));
    let free = batch.dir().as_path().join("money/free");
    let names = fs::read_dir(free)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap());
    assert!(names.filter(|name| name.contains('-')).count() <= 4);
    assert_eq!(money_of(batch), dollars("10"));
}

#[test]
fn prepared_money_counts_once_where_a_process_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let batch = &open_batch(&dir, 10);
    let money = batch.dir().as_path().join("money");
    let budget = batch.cell_budget(&cell_id(0), Money::ZERO, CancellationToken::new());
    assert!(budget.unwrap().unwrap().covers(Money::ZERO));
    let held = fs::read_dir(money.join("held"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    // It was killed before it divided the token of a cent, of which 0.4 cents are used.
    let (kept_token, rest) = ("4000000000-1a", "6000000000-1a-rest");
    let prepared = money.join("prepared").join(rest);
    fs::write(&prepared, "").unwrap();
    batch.settle_finished().unwrap();
    assert_eq!(money_of(batch), dollars("10"));
    assert!(prepared.exists());
    // It was killed after that.
    fs::rename(held, money.join(format!("held/c0.{kept_token}"))).unwrap();
    assert_eq!(money_of(batch), dollars("9.994"));
    let before = fs::read_dir(money.join("free")).unwrap().count();
    scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| batch.settle(&cell_id(0), dollars("0.004")).unwrap());
        }
    });
    assert_eq!(money_of(batch), dollars("10"));
    assert!(!prepared.exists() && money.join("free").join(rest).exists());
    assert_eq!(
        fs::read_dir(money.join("free")).unwrap().count(),
        before + 1
    );
    // It was killed before it raised the limit, and after that.
    let prepare = |token: usize| {
        let name = format!("prepared/{token:06}");
        fs::write(money.join(name), "").unwrap();
    };
    (1000..1003).for_each(prepare);
    batch.settle_finished().unwrap();
    assert_eq!(money_of(batch), dollars("10"));
    let limit = "{\"token_picodollars\":10000000000,\"tokens\":1002}";
    fs::write(money.join("limit.json"), limit).unwrap();
    batch.settle_finished().unwrap();
    assert_eq!(money_of(batch), dollars("10.02"));
    batch.raise_limit(dollars("10.05")).unwrap();
    assert_eq!(money_of(batch), dollars("10.05"));
    assert_eq!(fs::read_dir(money.join("prepared")).unwrap().count(), 0);
}

#[test]
fn a_pause_grows_until_a_result() {
    let dir = tempfile::tempdir().unwrap();
    let batch = open_batch(&dir, 1);
    assert_eq!(batch.pause().unwrap(), None);
    batch.begin_pause("429").unwrap();
    batch.begin_pause("429 again").unwrap();
    let pause = batch.pause().unwrap().unwrap();
    assert_eq!((pause.count, pause.reason.as_str()), (1, "429"));
    assert!(!pause.remaining().is_zero());
    // The longest pause, of a host whose clock is ahead of this one.
    let longest = BatchPause {
        until_ms: pause.until_ms + 620_000,
        ..pause.clone()
    };
    assert!(!longest.remaining().is_zero());
    // The clock was set back since the pause began.
    let far = BatchPause {
        until_ms: pause.until_ms + 86_400_000,
        ..pause
    };
    let file = batch.dir().join("pause.json");
    fs::write(file.as_path(), json!(far).to_string()).unwrap();
    assert_eq!(batch.active_pause().unwrap(), None);
    assert_eq!(batch.pause().unwrap(), Some(far));
    batch.end_pauses().unwrap();
    assert_eq!(batch.pause().unwrap(), None);
    assert!(!batch.is_cancelled().unwrap());
    batch.cancel().unwrap();
    assert!(batch.is_cancelled().unwrap());
    batch.revoke_cancellation().unwrap();
    assert!(!batch.is_cancelled().unwrap());
}

#[test]
fn a_controller_is_listed_while_its_process_runs() {
    let dir = tempfile::tempdir().unwrap();
    let batch = open_batch(&dir, 1);
    let liveness = || batch.controller_liveness().unwrap();
    assert_eq!(liveness(), OwnerLiveness::Dead);
    let marks = [(), ()].map(|()| batch.mark_controller().unwrap());
    assert_eq!(liveness(), OwnerLiveness::Alive);
    drop(marks);
    assert_eq!(liveness(), OwnerLiveness::Dead);
    let controllers = batch.dir().join("controllers");
    let [killed, elsewhere] =
        ["1.1", "1.2"].map(|name| controllers.join(name).as_path().to_owned());
    fs::write(&killed, json!(claim_owner()).to_string()).unwrap();
    assert_eq!(liveness(), OwnerLiveness::Dead);
    let other = ClaimOwner {
        host: "elsewhere".to_owned(),
        boot: "other".to_owned(),
        ..claim_owner()
    };
    fs::write(&elsewhere, json!(other).to_string()).unwrap();
    assert_eq!(liveness(), OwnerLiveness::Unknown);
    let _mark = batch.mark_controller().unwrap();
    assert_eq!(liveness(), OwnerLiveness::Alive);
    assert!(!killed.exists() && elsewhere.exists());
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
