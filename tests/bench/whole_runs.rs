//! Measures the program as its users meet it: start-up, a hook, `explain calls`, and whole runs of scripted
//! teams, with time, CPU time and peak memory. Prints one table; asserts nothing.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::measured::{Measured, run};

const BINARY: &str = env!("CARGO_BIN_EXE_massgen");
const STARTS: usize = 40;
const CALLS: usize = 100_000;

/// Takes the figures and prints them.
pub(crate) fn measure() {
    let dir = tempfile::tempdir().unwrap();
    println!("| what | result | compared with |");
    println!("|---|---|---|");
    // The kernel reports the largest child so far, so the runs come first and grow.
    for agents in [2, 32, 256] {
        coordination(dir.path(), agents);
    }
    start_up();
    hook(dir.path());
    explain_calls(dir.path());
}

/// The median time of a command.
fn median(mut command: impl FnMut() -> Command) -> Duration {
    let mut times: Vec<Duration> = (0..STARTS)
        .map(|_| {
            let begun = Instant::now();
            command().stdout(Stdio::null()).status().unwrap();
            begun.elapsed()
        })
        .collect();
    times.sort();
    times[STARTS / 2]
}

fn start_up() {
    let plain = median(|| Command::new("/bin/true"));
    let version = median(|| {
        let mut command = Command::new(BINARY);
        command.arg("--version");
        command
    });
    println!(
        "| `massgen --version` | {:.2} ms | {:.1} × `/bin/true` |",
        version.as_secs_f64() * 1e3,
        version.as_secs_f64() / plain.as_secs_f64()
    );
}

/// What a program waits for that asks before each of its calls.
fn hook(dir: &Path) {
    let project = dir.join("asking");
    fs::create_dir_all(project.join("ws")).unwrap();
    let ws = project.join("ws").display().to_string();
    let (grants, request) = (project.join("grants.json"), project.join("request.json"));
    fs::write(&grants, format!(r#"{{"workspace":"{ws}"}}"#)).unwrap();
    let write = format!(
        r#"{{"hook_event_name":"PreToolUse","cwd":"{ws}","tool_name":"Write","tool_input":{{"file_path":"{ws}/a.txt","content":"x"}}}}"#
    );
    fs::write(&request, write).unwrap();
    let asked = || {
        let mut command = Command::new(BINARY);
        command
            .args(["hook", "pre-tool-use", "--grants"])
            .arg(&grants)
            .stdin(fs::File::open(&request).unwrap());
        command
    };
    let answer = asked().output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&answer).contains("allow"));
    let (plain, asked) = (median(|| Command::new("/bin/true")), median(asked));
    println!(
        "| an answer of `massgen hook pre-tool-use` | {:.2} ms | {:.1} × `/bin/true` |",
        asked.as_secs_f64() * 1e3,
        asked.as_secs_f64() / plain.as_secs_f64()
    );
}

fn explain_calls(dir: &Path) {
    let project = dir.join("project");
    fs::create_dir_all(project.join("ws/src")).unwrap();
    fs::write(project.join("ws/src/a.rs"), "fn main() {}").unwrap();
    let grants = format!(
        r#"{{"workspace":"{0}/ws","context_paths":[]}}"#,
        project.display()
    );
    fs::write(dir.join("grants.json"), grants).unwrap();
    let mut lines = String::new();
    for number in 0..CALLS {
        let path = ["src/a.rs", "src/new.rs", "../outside", "/etc/passwd"][number % 4];
        let tool = ["read_text_file", "get_file_info"][number % 2];
        let _ = writeln!(lines, r#"{{"tool":"{tool}","args":{{"path":"{path}"}}}}"#);
    }
    let input = dir.join("calls.jsonl");
    fs::write(&input, &lines).unwrap();
    let begun = Instant::now();
    let status = Command::new(BINARY)
        .args(["explain", "calls", "--grants"])
        .arg(dir.join("grants.json"))
        .stdin(fs::File::open(&input).unwrap())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    let ours = begun.elapsed();
    assert!(status.success(), "explain calls failed");
    let begun = Instant::now();
    let parsed = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let only_json = parsed.map(|value| value.to_string().len()).sum::<usize>();
    let json = begun.elapsed();
    println!(
        "| `explain calls`, {CALLS} lines | {:.0} lines/s | {:.1} × reading and writing the same JSON ({only_json} bytes) |",
        CALLS as f64 / ours.as_secs_f64(),
        ours.as_secs_f64() / json.as_secs_f64()
    );
}

/// A team in which everyone answers, then votes for the first.
fn coordination(dir: &Path, agents: usize) {
    let project = dir.join(format!("team_{agents}"));
    let mut yaml = String::from("agents:\n");
    for number in 1..=agents {
        let _ = write!(
            yaml,
            "  - id: a{number:03}\n    backend:\n      type: scripted\n      replies:\n        \
             - when: {{system: \"the final agent\"}}\n          text: \"the result\"\n        \
             - when: {{last: \"<task>\"}}\n          calls: [{{name: new_answer, arguments: {{content: \"answer number {number}\"}}}}]\n          repeat: true\n        \
             - calls: [{{name: vote, arguments: {{agent_id: agent1, reason: \"good\"}}}}]\n          repeat: true\n"
        );
    }
    let Measured {
        elapsed,
        cpu_ms,
        peak_mib,
    } = run(&project, &yaml);
    let calls = 2 * agents + 1;
    println!(
        "| run of {agents} scripted agents | {:.0} ms, {cpu_ms} ms CPU, {peak_mib:.1} MiB at most | {:.2} ms CPU a model call |",
        elapsed.as_secs_f64() * 1e3,
        cpu_ms as f64 / calls as f64
    );
}
