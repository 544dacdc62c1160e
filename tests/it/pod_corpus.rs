//! `massgen selftest` in pods: no attack does harm and no ordinary work is refused. Their containers are
//! processes of this machine.

use std::process::Command;

use crate::pod_commands::{cluster_env, make_cluster, pods};
use crate::project::{binary, directory_outside_tmp};
use crate::repetition::{is_long, repetitions};
use crate::selftest::check_report;

/// Cases that differ between pods and the sandbox. These pods have no list of system calls, so what only that
/// stops is left out.
const CHOSEN: &str = "^(protected|processes|environment|handles)$|setuid|fifo|work-git|work-system";
/// Those of the short suite.
const CHOSEN_SHORT: &str = "protected-by-rename|environment-engine|work-git";
/// With fewer cases, the run is incomplete.
const CASES_MIN: usize = 45;
/// The same in the short suite.
const CASES_MIN_SHORT: usize = 3;

#[test]
fn pods_hold_attacks_and_let_work_through() {
    let Some(cluster) = make_cluster() else {
        return;
    };
    let place = directory_outside_tmp();
    let chosen = if is_long() { CHOSEN } else { CHOSEN_SHORT };
    let mut selftest = Command::new(binary());
    selftest
        .args(["selftest", "--json", "--jobs", "4", "--only", chosen])
        .args(["--kubernetes", "debian:12"])
        .envs(cluster_env(&cluster))
        .env("TMPDIR", place.path());
    let cases_min = repetitions(CASES_MIN_SHORT, CASES_MIN);
    check_report(&selftest.output().unwrap(), place.path(), cases_min);
    assert_eq!(pods(&cluster), [""; 0]);
}
