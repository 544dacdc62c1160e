//! `massgen selftest` on this machine: no attack does harm and no ordinary work is refused, in each
//! level that it supports; and every attack does harm without a sandbox.
#![expect(clippy::print_stdout, reason = "a test says why it has nothing to do")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use futures_util::StreamExt;
use futures_util::stream;
use massgen::cli::selftest::case::{self, ControlUser, ExpectedOutcome, SelftestCase};
use massgen::cli::selftest::case_runner::{CaseRunner, CaseVerdict};
use massgen::path::AbsPath;
use massgen::sandbox_policy::sandbox_level::{ExecutionIsolation, SandboxLevel};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::project::{binary, directory_outside_tmp, make_program};
use crate::repetition::is_long;

/// With fewer cases, a list is damaged.
const CASES_MIN: usize = 300;
/// All cases.
const ALL: &str = "";
/// Cases in which the kernel decides, by rules that differ between levels.
const OF_THE_KERNEL: &str = "^(handles|kernel|metadata|network|outside|processes|protected)$|\\
                             ^work-(files|git|processes|temporary)";
/// With fewer of them, a list is damaged.
const OF_THE_KERNEL_MIN: usize = 60;
/// Number of parallel cases: most of them wait for processes.
const JOBS: usize = 4;
/// Number of attempts alone for an attack that failed in parallel with others.
const ATTEMPTS_ALONE: usize = 5;
/// Replacement for massgen in which every attack has to do harm.
const UNPROTECTED: &str = include_str!("../cases/unprotected.py");
/// Classes whose attacks are shown to do harm elsewhere, or are calls of file tools.
const GIVEN: &[&str] = &["files", "commands"];

/// Runs the cases whose class or name matches `only`, of which there are at least `tried_min`.
#[track_caller]
fn check(level: SandboxLevel, only: &str, tried_min: usize) {
    // Below `/tmp`, Landlock could not protect the pipes and sockets of open paths.
    let dir = directory_outside_tmp();
    let output = Command::new(binary())
        .args(["selftest", "--json", "--sandbox", &level.to_string()])
        .args(["--jobs", &JOBS.to_string(), "--only", only])
        .env("TMPDIR", dir.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("is not available") {
        println!("skipped: {errors}");
        return;
    }
    check_report(&output, dir.path(), tried_min);
}

/// Runs all cases in the long suite, and those of the kernel's rules in the short one: the others
/// are the same at each level.
#[track_caller]
fn check_weaker(level: SandboxLevel) {
    if is_long() {
        check(level, ALL, CASES_MIN / 2);
    } else {
        check(level, OF_THE_KERNEL, OF_THE_KERNEL_MIN);
    }
}

/// Checks that no case of a self-test failed, that at least `tried_min` were run, and that its
/// directory for temporary files is empty.
#[track_caller]
pub(crate) fn check_report(output: &Output, dir: &Path, tried_min: usize) {
    let errors = String::from_utf8_lossy(&output.stderr);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{errors}"));
    let cases = report["levels"][0]["cases"].as_array().unwrap();
    let with = |verdict: &str| {
        cases
            .iter()
            .filter(|case| case["verdict"] == verdict)
            .collect::<Vec<_>>()
    };
    let failed: Vec<String> = with("failed")
        .iter()
        .map(|case| format!("{case}\n"))
        .collect();
    assert!(failed.is_empty(), "{}", failed.concat());
    assert!(
        with("held").len() + with("worked").len() >= tried_min,
        "{report}"
    );
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0, "something is left");
}

#[test]
fn level_overlay_holds_attacks_and_lets_work_through() {
    check(SandboxLevel::Overlay, ALL, CASES_MIN / 2);
}

#[test]
fn level_namespaces_holds_attacks_and_lets_work_through() {
    check_weaker(SandboxLevel::Namespaces);
}

#[test]
fn level_landlock_holds_attacks_and_lets_work_through() {
    check_weaker(SandboxLevel::Landlock);
}

/// Returns whether the attack must do harm for the user of this test.
fn does_harm(case: &SelftestCase) -> bool {
    let by_user = match case.control {
        ControlUser::Anyone => true,
        ControlUser::Root => rustix::process::geteuid().is_root(),
        ControlUser::Nobody => false,
    };
    case.expect == ExpectedOutcome::Held && !GIVEN.contains(&case.class.as_str()) && by_user
}

/// Returns whether an attack that failed in parallel with others does harm alone: the processes
/// that it starts may be late there, and a race succeeds only sometimes.
async fn does_harm_alone(runner: &CaseRunner, case: &SelftestCase) -> bool {
    for _ in 0..ATTEMPTS_ALONE {
        let verdict = runner.run(case, &CancellationToken::new()).await.unwrap();
        if verdict != CaseVerdict::Held {
            return true;
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn every_attack_does_harm_where_nothing_holds_it() {
    let dir = directory_outside_tmp();
    let program = dir.path().join("unprotected.py");
    fs::write(&program, UNPROTECTED).unwrap();
    make_program(&program);
    let runner = CaseRunner {
        executable: AbsPath::new(&program).unwrap(),
        isolation: ExecutionIsolation::Sandbox {
            level: SandboxLevel::Off,
            reasons: Vec::new(),
        },
        env: BTreeMap::new(),
        missing_programs: BTreeSet::new(),
        parent: AbsPath::new(dir.path()).unwrap(),
    };
    let cases = case::all_cases().unwrap();
    let attacks: Vec<&SelftestCase> = cases.iter().filter(|case| does_harm(case)).collect();
    let never = CancellationToken::new();
    let tried = attacks.iter().map(|case| {
        let (runner, never) = (&runner, &never);
        async move { (*case, runner.run(case, never).await.unwrap()) }
    });
    let verdicts: Vec<_> = stream::iter(tried).buffer_unordered(JOBS).collect().await;
    assert!(verdicts.len() > 40, "only {} attacks", verdicts.len());
    let mut harmless = Vec::new();
    for (case, _) in verdicts
        .iter()
        .filter(|(_, held)| *held == CaseVerdict::Held)
    {
        if !does_harm_alone(&runner, case).await {
            harmless.push(format!("{} ({})", case.id, case.description));
        }
    }
    assert!(harmless.is_empty(), "\n{}", harmless.join("\n"));
}

#[test]
fn cases_have_names_of_their_own() {
    let cases = case::all_cases().unwrap();
    let ids: BTreeSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids.len(), cases.len());
    assert!(cases.len() >= CASES_MIN, "only {} cases", cases.len());
}

#[test]
fn selftest_only_without_a_matching_case_is_an_error() {
    let output = Command::new(binary())
        .args(["selftest", "--only", "no-such-case"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("no case matches `--only`"), "{errors}");
}
