//! `massgen selftest` in containers: no attack does harm and no ordinary work is refused. The image
//! is built from files of packages on this machine.

use std::process::Command;

use crate::docker::{Daemon, daemon, is_podman};
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
const COPY_PACKAGES: &str = include_str!("../cases/image_of_packages.sh");
/// Runs all cases, which takes a few minutes.
const ALL: &str = "MASSGEN_TEST_DOCKER_CORPUS";
/// Cases that differ between containers and the sandbox.
const SELECTED: &str = "^(protected|processes|environment)$|setuid|tiocsti|io-uring|vsock|exotic|fifo|work-git|work-system";
/// The same in the short suite: attacks that the engine has to stop, and ordinary work.
const SELECTED_SHORT: &str = "^processes$|setuid|tiocsti|io-uring|vsock|exotic|environment-engine|protected-by-(rename|mount|clone)|work-git|work-system";
/// With fewer cases, the run is incomplete.
const CASES_MIN: usize = 45;
/// The same in the short suite.
const CASES_MIN_SHORT: usize = 18;

fn make_image(daemon: &Daemon) {
    let root = tempfile::tempdir().unwrap();
    let copied = Command::new("bash")
        .args(["-e", "-c", COPY_PACKAGES, "fill"])
        .arg(root.path())
        .args(PACKAGES)
        .output()
        .unwrap();
    assert!(copied.status.success(), "{copied:?}");
    daemon.import_dir(IMAGE, root.path());
}

#[test]
fn containers_stop_attacks_and_allow_ordinary_work() {
    let Some(daemon) = daemon() else { return };
    if is_podman() {
        eprintln!("skipped: Podman has a list of system calls of its own");
        return;
    }
    make_image(&daemon);
    let dir = directory_outside_tmp();
    let mut selftest = Command::new(binary());
    selftest
        .args(["selftest", "--json", "--jobs", "4", "--docker", IMAGE])
        .env("DOCKER_HOST", daemon.host())
        .env("TMPDIR", dir.path());
    if std::env::var_os(ALL).is_none() {
        let selected = if is_long() { SELECTED } else { SELECTED_SHORT };
        selftest.args(["--only", selected]);
    }
    let cases_min = repetitions(CASES_MIN_SHORT, CASES_MIN);
    check_report(&selftest.output().unwrap(), dir.path(), cases_min);
    assert_eq!(
        daemon.client_output(&["ps", "-aq", "--filter", &format!("ancestor={IMAGE}")]),
        ""
    );
}
