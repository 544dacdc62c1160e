//! `massgen selftest` in containers: no attack does harm and no ordinary work is refused. The image
//! is built from files of packages on this machine.

use std::process::Command;

use crate::docker::{Daemon, daemon, is_podman};
use crate::docker_ssh::Elsewhere;
use crate::project::{binary, directory_outside_tmp};
use crate::repetition::{is_long, repetitions};
use crate::selftest::check_report;

/// The image.
const IMAGE: &str = "massgen-test/tools:1";
/// Packages whose files it contains, with their dependencies.
const PACKAGES: &[&str] = &[
    "bash",
    "coreutils",
    "dash",
    "diffutils",
    "findutils",
    "git",
    "grep",
    "gzip",
    "hostname",
    "libc-bin",
    "libpython3-stdlib",
    "mawk",
    "mount",
    "perl-base",
    "procps",
    "python3-minimal",
    "python3-pip",
    "sed",
    "tar",
    "util-linux",
];
/// Copies the files of packages to the directory `$1`.
const FILL: &str = include_str!("../cases/image_of_packages.sh");
/// Runs all cases, which takes a few minutes.
const ALL: &str = "MASSGEN_TEST_DOCKER_CORPUS";
/// Cases that differ between containers and the sandbox.
const CHOSEN: &str = "^(protected|processes|environment)$|setuid|tiocsti|io-uring|vsock|exotic|fifo|work-git|work-system";
/// Those of the short suite: what the engine has to stop, and ordinary work.
const CHOSEN_SHORT: &str = "^processes$|setuid|tiocsti|io-uring|vsock|exotic|environment-engine|protected-by-(rename|mount|clone)|work-git|work-system";
/// With fewer cases, the run is incomplete.
const CASES_MIN: usize = 45;
/// The same in the short suite.
const CASES_MIN_SHORT: usize = 18;

fn make_image(daemon: &Daemon) {
    let root = tempfile::tempdir().unwrap();
    let filled = Command::new("bash")
        .args(["-e", "-c", FILL, "fill"])
        .arg(root.path())
        .args(PACKAGES)
        .output()
        .unwrap();
    assert!(filled.status.success(), "{filled:?}");
    daemon.import_dir(IMAGE, root.path());
}

#[test]
fn containers_hold_attacks_and_let_work_through() {
    let Some(daemon) = daemon() else { return };
    if is_podman() {
        eprintln!("skipped: Podman has a list of system calls of its own");
        return;
    }
    make_image(&daemon);
    let place = directory_outside_tmp();
    let mut selftest = Command::new(binary());
    selftest
        .args(["selftest", "--json", "--jobs", "4", "--docker", IMAGE])
        .env("DOCKER_HOST", daemon.host())
        .env("TMPDIR", place.path());
    if std::env::var_os(ALL).is_none() {
        let chosen = if is_long() { CHOSEN } else { CHOSEN_SHORT };
        selftest.args(["--only", chosen]);
    }
    let cases_min = repetitions(CASES_MIN_SHORT, CASES_MIN);
    check_report(&selftest.output().unwrap(), place.path(), cases_min);
    assert_eq!(
        daemon.says(&["ps", "-aq", "--filter", &format!("ancestor={IMAGE}")]),
        ""
    );
}

#[test]
fn containers_on_another_machine_hold_attacks_and_let_work_through() {
    if !is_long() {
        eprintln!("skipped: the long suite runs it");
        return;
    }
    let Some(elsewhere) = Elsewhere::start() else {
        return;
    };
    if is_podman() {
        eprintln!("skipped: Podman has a list of system calls of its own");
        return;
    }
    make_image(&elsewhere.daemon);
    let place = directory_outside_tmp();
    let mut selftest = Command::new(binary());
    selftest
        .args(["selftest", "--json", "--jobs", "4", "--docker", IMAGE])
        .args(["--only", CHOSEN])
        .env("DOCKER_HOST", elsewhere.host())
        .env("PATH", elsewhere.program_path("bin"))
        .env("TMPDIR", place.path());
    check_report(&selftest.output().unwrap(), place.path(), CASES_MIN);
}
