//! A case-insensitive disk (FUSE) that the kernel treats as case-sensitive: hidden or restricted
//! paths stay so in every spelling, and commands are refused if nothing could enforce that.
//! `tests/servers/folding_disk.py` implements the disk; it is mounted in its own namespace.
#![expect(clippy::print_stdout, reason = "a test says why it has nothing to do")]

use std::fs::OpenOptions;
use std::process::Command;

use massgen::sandbox_policy::sandbox_level::SandboxLevel;
use rustix::process::geteuid;

use crate::command_runs::is_supported;
use crate::project::{Project, binary};
use crate::scripted_team::{agent, team};

/// The program of the disk. It is part of the test, because users may be unable to read the repository.
const DISK: &str = include_str!("../servers/folding_disk.py");

/// Mounts the disk at `disk`, without names in the kernel's dentry cache, and runs the rest.
const MOUNTED: &str = r#"
python3 folding_disk.py "$PWD/disk" > ready &
for _ in $(seq 2400); do grep -q ready ready && break; sleep 0.05; done
grep -q ready ready || { kill $!; exit 99; }
"$@"
status=$?
umount disk
wait
exit $status
"#;

/// Returns whether the disk can be mounted; an ordinary user also needs access to the device.
fn can_mount() -> bool {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    match device {
        Ok(_) => true,
        Err(error) => {
            println!("skipped: /dev/fuse cannot be opened: {error}");
            false
        }
    }
}

/// Returns the output of massgen with these arguments, in a project with the disk, which replaces
/// `DISK`; `paths` is the value of `context_paths`.
fn run(level: &str, paths: &str, arguments: &[&str]) -> String {
    let keys = format!("cwd: ws\nenable_mcp_command_line: true\ncommand_line_sandbox: '{level}'");
    let orchestrator = format!("orchestrator:\n  context_paths: {paths}\n");
    let team = team(&[agent("one", &keys, "- text: done")], &orchestrator);
    let project = Project::new()
        .file("team.yaml", team)
        .file("folding_disk.py", DISK)
        .dir("disk")
        .dir("ws");
    let disk = project.path("disk").display().to_string();
    let arguments = arguments.iter().map(|word| word.replace("DISK", &disk));
    let namespace = if geteuid().is_root() { "-m" } else { "-rm" };
    let ran = Command::new("unshare")
        .args([namespace, "bash", "-c", MOUNTED, "bash"])
        .arg(binary())
        .args(arguments)
        .current_dir(project.path(""))
        .env("HOME", project.path("home"))
        .output()
        .unwrap();
    assert_ne!(
        ran.status.code(),
        Some(99),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let (out, errors) = (ran.stdout, ran.stderr);
    String::from_utf8_lossy(&[out, errors].concat()).into_owned()
}

const HIDDEN: &str = "[{path: disk, permission: write, hidden_paths: [secrets]}]";
const NESTED: &str = "[{path: disk, permission: write}, {path: disk/vendor, permission: read}]";
const OPEN: &str = "[{path: disk, permission: read}]";

fn read(paths: &str, path: &str) -> String {
    let arguments = format!(r#"{{"path":"DISK/{path}"}}"#);
    let args = [
        "tool",
        "read_text_file",
        "--config",
        "team.yaml",
        "--args",
        &arguments,
    ];
    run("auto", paths, &args)
}

/// Returns what `explain` prints about writing there in the final phase.
fn write(paths: &str, path: &str) -> String {
    let path = format!("disk/{path}");
    let arguments = [
        "explain",
        "path",
        &path,
        "--phase",
        "final",
        "--config",
        "team.yaml",
    ];
    let output = run("auto", paths, &arguments);
    let line = output
        .lines()
        .find(|line| line.trim_start().starts_with("write "));
    line.unwrap_or_else(|| panic!("{output}"))
        .trim_start()
        .to_owned()
}

#[test]
fn no_spelling_leads_past_a_hidden_path_or_a_narrower_grant() {
    if !can_mount() {
        return;
    }
    for spelling in ["secrets/key", "SECRETS/key", "Secrets/KEY"] {
        let open = read(OPEN, spelling);
        assert!(open.contains("CANARY-SECRET"), "{spelling}: {open}");
        let hidden = read(HIDDEN, spelling);
        assert!(!hidden.contains("CANARY-SECRET"), "{spelling}: {hidden}");
        assert!(
            hidden.contains("the path is hidden from agents"),
            "{spelling}: {hidden}"
        );
    }
    for spelling in ["vendor/lib.c", "VENDOR/lib.c", "Vendor/LIB.C"] {
        let explained = write(NESTED, spelling);
        assert!(
            explained.starts_with("write deny  granted-permission"),
            "{spelling}: {explained}"
        );
        let around = write("[{path: disk, permission: write}]", spelling);
        assert!(around.starts_with("write allow"), "{spelling}: {around}");
    }
}

#[test]
fn commands_are_refused_where_the_disk_folds_names_and_the_kernel_does_not() {
    if !can_mount() {
        return;
    }
    let command = |level: SandboxLevel, paths: &str, line: &str| {
        let arguments = format!(r#"{{"command":"{line}"}}"#);
        let args = [
            "tool",
            "execute_command",
            "--config",
            "team.yaml",
            "--args",
            &arguments,
        ];
        run(&level.to_string(), paths, &args)
    };
    let by_rule = "[{path: disk, permission: read, hidden_paths: [app/server.pem]}]";
    for level in [
        SandboxLevel::Overlay,
        SandboxLevel::Namespaces,
        SandboxLevel::Landlock,
    ]
    .into_iter()
    .filter(|level| is_supported(*level))
    {
        let secret = "cat DISK/SECRETS/key DISK/Secrets/KEY";
        let open = command(level, OPEN, secret);
        assert!(open.contains("CANARY-SECRET"), "level {level}: {open}");
        let pem = "cat DISK/app/SERVER.pem DISK/readme.txt";
        for (paths, line) in [(HIDDEN, secret), (by_rule, pem)] {
            let seen = command(level, paths, line);
            assert!(!seen.contains("CANARY"), "level {level}: {seen}");
            let is_refused = seen.contains("which the kernel does not");
            assert_eq!(
                is_refused,
                level != SandboxLevel::Landlock,
                "level {level}: {seen}"
            );
        }
    }
}
