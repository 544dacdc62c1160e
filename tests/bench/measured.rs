//! A run of the real binary with its time, CPU time and peak memory.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;

const BINARY: &str = env!("CARGO_BIN_EXE_massgen");

/// What a run took.
pub(crate) struct Measured {
    pub(crate) elapsed: Duration,
    pub(crate) cpu_ms: i64,
    pub(crate) peak_mib: f64,
}

/// Runs the team in the directory `project`, which is made, and measures the process.
pub(crate) fn run(project: &Path, yaml: &str) -> Measured {
    fs::create_dir_all(project).unwrap();
    fs::write(project.join("team.yaml"), yaml).unwrap();
    let before = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let begun = Instant::now();
    let output = Command::new(BINARY)
        .args(["--config", "team.yaml", "measure"])
        .current_dir(project)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let elapsed = begun.elapsed();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let after = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    Measured {
        elapsed,
        cpu_ms: cpu_ms(&after) - cpu_ms(&before),
        // The kernel reports the largest child so far, so that runs grow.
        peak_mib: after.max_rss() as f64 / 1024.0,
    }
}

fn cpu_ms(usage: &Usage) -> i64 {
    usage.user_time().num_milliseconds() + usage.system_time().num_milliseconds()
}
