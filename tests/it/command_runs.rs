//! Runs whose agents run commands: changes to the user's paths are delivered and reported, in each
//! level that this machine supports.
#![expect(clippy::print_stdout, reason = "a test says why it has nothing to do")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, chown};
use std::process::{Command, Stdio};

use massgen::config::command_line::CommandLineConfig;
use massgen::path::{AbsPath, RealPath};
use massgen::permissions::PathPermissionManager;
use massgen::permissions::grant::{Grant, GrantKind, Permission, Phase};
use massgen::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use massgen::tools::parse::parse;
use massgen::tools::served::ToolCatalogue;
use massgen::world::access::gate::Gate;
use massgen::world::access::policy::GatePolicy;
use massgen::world::exec;
use massgen::world::sandbox::Sandbox;
use massgen::world::sandbox::exec_backend::ExecBackend;
use massgen::world::sandbox::exec_environment::agent_directories::AgentDirectories;
use massgen::world::sandbox::exec_environment::{ExecEnvironment, ExecEnvironmentConfig};
use rustix::process::{Pid, Signal, kill_process};

use crate::project::{FinishedCommand, Project, binary};
use crate::runs::read_status;
use crate::scripted_team::{agent, team};
use crate::waiting::{WAIT_TIME_MAX, wait_until};

const WRITE_HERE: &str = "orchestrator:
  skip_coordination_rounds: true
  context_paths: [{path: ., permission: write}]
";

/// Returns the sandbox of this level, if the machine supports it.
fn open_sandbox(level: SandboxLevel) -> Option<Sandbox> {
    let dir = tempfile::tempdir().unwrap();
    let dir = AbsPath::new(dir.path()).unwrap();
    let executable = AbsPath::new(binary()).unwrap();
    let sandbox = Sandbox::open(SandboxLevelChoice::Only(level), &executable, &dir);
    sandbox.map_err(|error| println!("skipped: {error}")).ok()
}

pub(crate) fn is_supported(level: SandboxLevel) -> bool {
    open_sandbox(level).is_some()
}

/// Returns a project with one agent that may run commands in the sandbox `choice`; final phase
/// only.
fn project(choice: &str, replies: &str) -> Project {
    let keys = format!("cwd: w1\nenable_mcp_command_line: true\ncommand_line_sandbox: '{choice}'");
    Project::new()
        .file(
            "team.yaml",
            team(&[agent("one", &keys, replies)], WRITE_HERE),
        )
        .file("src/old.txt", "old\n")
        .file("src/gone.txt", "gone\n")
        .file("src/same.txt", "same\n")
        .args(["--config", "team.yaml", "build"])
}

fn run(level: SandboxLevel, replies: &str) -> FinishedCommand {
    project(&level.to_string(), replies).run()
}

/// Returns the outcome of each delivered file, by name.
fn delivered_rows(finished: &FinishedCommand) -> BTreeMap<String, String> {
    let status = read_status(finished);
    let rows = status["results"]["delivered"].as_array().unwrap();
    let row = |row: &serde_json::Value| {
        let path = row["path"].as_str().unwrap();
        let name = path.rsplit('/').next().unwrap().to_owned();
        let hash = match row["sha256"].as_str() {
            Some(hash) => format!(" {} {}", row["bytes"], hash.get(..6).unwrap()),
            None => String::new(),
        };
        (name, format!("{}{hash}", row["outcome"].as_str().unwrap()))
    };
    rows.iter().map(row).collect()
}

#[test]
fn changes_of_commands_in_a_write_path_are_in_the_delivery_table() {
    let replies = r#"
- calls:
    - name: execute_command
      arguments:
        command: "cd '{{cwd}}/src' && echo new > new.txt && echo more >> old.txt && rm gone.txt && mkdir .git && echo x > .git/config; cat same.txt"
- text: "done"
"#;
    for level in [
        SandboxLevel::Overlay,
        SandboxLevel::Namespaces,
        SandboxLevel::Off,
    ] {
        if !is_supported(level) {
            continue;
        }
        let finished = run(level, replies);
        let mut expected = BTreeMap::from([
            ("gone.txt".to_owned(), "deleted".to_owned()),
            ("new.txt".to_owned(), "created 4 7aa7a5".to_owned()),
            ("old.txt".to_owned(), "changed 9 d8c562".to_owned()),
        ]);
        if level != SandboxLevel::Off {
            expected.insert(".git".to_owned(), "denied".to_owned());
        }
        assert_eq!(delivered_rows(&finished), expected, "level {level}");
    }
}

#[test]
fn one_interrupt_ends_a_command_of_the_final_phase() {
    let replies = r#"
- calls:
    - name: execute_command
      arguments:
        command: "touch '{{cwd}}/src/begun' && sleep 3000"
        timeout: 3600
- text: "done"
"#;
    let project = project("off", replies);
    let mut massgen = project.command().spawn().unwrap();
    wait_until("the command runs", WAIT_TIME_MAX, || {
        assert_eq!(massgen.try_wait().unwrap(), None);
        project.path("src/begun").exists()
    });
    kill_process(Pid::from_child(&massgen), Signal::INT).unwrap();
    assert_eq!(massgen.wait().unwrap().code(), Some(130));
}

#[test]
fn a_background_command_has_the_same_rights_and_reported_changes() {
    let replies = r#"
- calls:
    - name: start_background_command
      arguments:
        command: "W=$PWD; cd '{{cwd}}/src' && touch late.txt && rm gone.txt && touch \"$W/begun\" && until [ -e \"$W/go\" ]; do sleep 0.05; done; echo late > late.txt; touch \"$W/written\"; sleep 300"
    - name: execute_command
      arguments: {command: "until [ -e begun ]; do sleep 0.05; done"}
    - name: execute_command
      arguments:
        command: "touch go; until [ -e written ]; do sleep 0.05; done; echo new > '{{cwd}}/src/new.txt'"
- text: "done"
"#;
    for level in [
        SandboxLevel::Overlay,
        SandboxLevel::Namespaces,
        SandboxLevel::Off,
    ] {
        if !is_supported(level) {
            continue;
        }
        let finished = run(level, replies);
        let expected = BTreeMap::from([
            ("gone.txt".to_owned(), "deleted".to_owned()),
            ("late.txt".to_owned(), "created 5 f15294".to_owned()),
            ("new.txt".to_owned(), "created 4 7aa7a5".to_owned()),
        ]);
        assert_eq!(delivered_rows(&finished), expected, "level {level}");
        let _changed = finished
            .has_file("src/late.txt", "late\n")
            .has_no("src/gone.txt");
    }
}

#[test]
fn at_level_landlock_no_command_writes_to_the_users_paths() {
    let replies = r#"
- calls:
    - name: start_background_command
      arguments: {command: "echo late > '{{cwd}}/src/late.txt'; touch begun"}
    - name: execute_command
      arguments: {command: "until [ -e begun ]; do sleep 0.05; done; echo new > '{{cwd}}/src/new.txt'"}
- text: "done"
"#;
    if !is_supported(SandboxLevel::Landlock) {
        return;
    }
    let finished = run(SandboxLevel::Landlock, replies);
    let _closed = finished.has_no("src/late.txt").has_no("src/new.txt");
}

#[test]
fn a_directory_that_replaces_a_granted_one_is_closed_to_commands() {
    for level in [
        SandboxLevel::Overlay,
        SandboxLevel::Namespaces,
        SandboxLevel::Landlock,
    ] {
        let Some(sandbox) = open_sandbox(level) else {
            continue;
        };
        let disk = tempfile::tempdir().unwrap();
        let root = disk.path().canonicalize().unwrap();
        for dir in ["ws", "room", "project", "other"] {
            fs::create_dir(root.join(dir)).unwrap();
        }
        fs::write(root.join("project/file"), "granted\n").unwrap();
        fs::write(root.join("other/file"), "another\n").unwrap();
        let real = |name: &str| RealPath::vouch(root.join(name));
        let commands = ExecEnvironment::new(ExecEnvironmentConfig {
            config: &CommandLineConfig::default(),
            backend: ExecBackend::Sandbox(sandbox),
            executable: &AbsPath::new(binary()).unwrap(),
            directories: AgentDirectories::prepare(&AbsPath::new(root.join("room")).unwrap())
                .unwrap(),
            env: &BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
            config_env: BTreeMap::new(),
            home: None,
        });
        let grants = vec![
            Grant::tree(real("ws"), GrantKind::Workspace, Permission::Write),
            Grant::tree(real("project"), GrantKind::Context, Permission::Read),
        ];
        let policy = GatePolicy {
            commands: Some(commands),
            ..GatePolicy::minimal(real("ws"))
        };
        let manager = PathPermissionManager::new(grants, Phase::Coordination);
        let gate = Gate::open(manager, policy).unwrap();
        let run = || {
            let call = parse(
                "execute_command",
                r#"{"command": "cat ../project/file"}"#,
                &ToolCatalogue::default(),
            )
            .unwrap();
            exec::run(gate.check(call).unwrap()).content
        };
        let before = run();
        assert!(before.contains("granted"), "level {level}: {before}");
        fs::rename(root.join("project"), root.join("moved")).unwrap();
        fs::rename(root.join("other"), root.join("project")).unwrap();
        let after = run();
        assert!(!after.contains("another"), "level {level}: {after}");
        let reason = "it was replaced after it was granted";
        assert!(after.contains(reason), "level {level}: {after}");
    }
}

#[test]
fn level_overlay_is_unavailable_for_a_write_path_with_a_mount_in_it() {
    if !is_supported(SandboxLevel::Overlay) || fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let replies = r#"
- calls:
    - name: execute_command
      arguments: {command: "echo new > '{{cwd}}/src/new.txt'; echo new > '{{cwd}}/src/mounted/new.txt'"}
- text: "done"
"#;
    // The mount disappears with the shell that creates it.
    let run = |choice: &str| {
        let project = project(choice, replies).dir("src/mounted");
        let script = "mount -t tmpfs none src/mounted && \"$0\" --config team.yaml build; code=$?; cat src/mounted/*; exit $code";
        let output = Command::new("unshare")
            .args(["-m", "sh", "-c", script])
            .arg(binary())
            .current_dir(project.path(""))
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", project.home(""))
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let reason = "is a separate file system inside";
    let (code, _, stderr) = run("overlay");
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains(reason), "{stderr}");
    let (code, shown, stderr) = run("auto");
    assert_eq!(code, Some(4), "{stderr}");
    assert!(stderr.contains("sandbox level `namespaces`"), "{stderr}");
    assert!(
        stderr.contains("another file system is mounted there"),
        "{stderr}"
    );
    assert!(!shown.contains("new\n"), "{shown}");
}

#[test]
fn the_sandbox_can_be_chosen_on_the_command_line() {
    let replies = r#"
- calls:
    - {name: execute_command, arguments: {command: "echo new > '{{cwd}}/src/new.txt'"}}
- text: "done"
"#;
    let with_flag = |flag: &[&str]| project("landlock", replies).args(flag);
    let off = with_flag(&["--sandbox", "off"]).success();
    let first = "no sandbox for one: ";
    assert!(off.stderr().contains(first), "{}", off.stderr());
    let _written = off.has_file("src/new.txt", "new\n");
    if is_supported(SandboxLevel::Landlock) {
        let _as_configured = with_flag(&[]).run().has_no("src/new.txt");
    }
    let wrong = with_flag(&["--sandbox", "E"]).failure(2);
    let choices = "expected one of auto, overlay, namespaces, landlock, off";
    assert!(wrong.stderr().contains(choices), "{}", wrong.stderr());
    let idle = Project::new()
        .config(&team(&[agent("one", "", "- text: \"done\"\n")], ""))
        .args(["--sandbox", "namespaces", "hello"])
        .success();
    assert!(
        idle.stderr().contains("`--sandbox` has no effect"),
        "{}",
        idle.stderr()
    );
}

#[test]
fn a_command_is_shown_before_it_has_ended() {
    let waits = r#"
- when: {last: "</task>"}
  calls: [{name: execute_command, arguments: {command: "until [ -e go ]; do sleep 0.02; done"}}]
- calls: [{name: new_answer, arguments: {content: "it ended"}}]
"#;
    let keys = "cwd: w1\nenable_mcp_command_line: true";
    let project = Project::new()
        .config(&team(&[agent("one", keys, waits)], ""))
        .args(["--output-format", "stream-json", "wait"]);
    let mut command = project.command();
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut run = command.spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let mut until = |word: &str| {
        let mut records = lines.by_ref().map(|line| line.unwrap());
        records.find(|line| line.contains(&format!("\"type\":\"{word}\"")))
    };
    assert!(until("tool_called").is_some());
    let mut workspaces = fs::read_dir(project.path(".massgen/workspaces")).unwrap();
    let workspace = workspaces.next().unwrap().unwrap().path();
    fs::write(workspace.join("go"), "").unwrap();
    assert!(until("tool_finished").unwrap().contains("\"success\":true"));
    assert!(until("run_ended").is_some());
    assert!(run.wait().unwrap().success());
}

#[test]
fn level_overlay_is_unavailable_for_a_write_path_with_files_of_others() {
    if !is_supported(SandboxLevel::Overlay) || fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let replies = r#"
- calls:
    - {name: execute_command, arguments: {command: "echo new >> '{{cwd}}/src/old.txt'"}}
- text: "done"
"#;
    let run = |choice: &str| {
        let project = project(choice, replies);
        chown(project.path("src"), None, Some(1234)).unwrap();
        chown(project.path("src/old.txt"), None, Some(1234)).unwrap();
        project.run()
    };
    let refused = run("overlay");
    assert_eq!(refused.code(), Some(3));
    let reason = "belongs to another user or group";
    assert!(refused.stderr().contains(reason), "{}", refused.stderr());
    let done = run("auto");
    assert_eq!(done.code(), Some(0), "{}", done.stderr());
    assert!(
        done.stderr().contains("sandbox level `namespaces`"),
        "{}",
        done.stderr()
    );
    let _changed = done.has_file("src/old.txt", "old\nnew\n");
}

#[test]
fn the_end_of_a_command_is_shown_in_one_line() {
    let replies = r#"
- calls:
    - name: execute_command
      arguments: {command: "echo; echo first; echo second"}
    - name: execute_command
      arguments: {command: "echo out; echo bad >&2; exit 3"}
    - name: start_background_command
      arguments: {command: "sleep 60"}
- text: "done"
"#;
    let finished = run(SandboxLevel::Off, replies);
    for part in [
        "the agent's commands run without a sandbox, with your own rights\n",
        "commands: no sandbox for one: ",
        "did execute_command: status 0 after ",
        " s: first\n",
        "failed execute_command: status 3 after ",
        " s: bad\n",
        "did start_background_command: command 1: still running\n",
    ] {
        assert!(
            finished.stderr().contains(part),
            "{part}\n{}",
            finished.stderr()
        );
    }
}

#[test]
fn commands_of_an_agent_share_tmp() {
    let replies = r#"
- calls:
    - name: execute_command
      arguments: {command: "echo kept > /tmp/kept"}
    - name: start_background_command
      arguments: {command: "cat /tmp/kept > /tmp/copied; sleep 60"}
    - name: execute_command
      arguments: {command: "until [ -s /tmp/copied ]; do sleep 0.05; done; cat /tmp/copied"}
- text: "done"
"#;
    for level in [SandboxLevel::Overlay, SandboxLevel::Namespaces] {
        if !is_supported(level) {
            continue;
        }
        let finished = run(level, replies);
        let stderr = finished.stderr();
        assert!(stderr.contains(" s: kept\n"), "level {level}: {stderr}");
        let rooms = finished.project().path(".massgen/sandboxes");
        let left = std::fs::read_dir(rooms).map_or(0, Iterator::count);
        assert_eq!(left, 0, "level {level}");
    }
}

#[test]
fn commands_start_in_a_directory_that_the_guard_allows() {
    let config = r#"
agent:
  id: one
  folder_guard: {read: [src], write: []}
  backend:
    type: scripted
    cwd: w1
    enable_mcp_command_line: true
    replies:
      - calls:
          - {name: execute_command, arguments: {command: "cat a.txt"}}
          - {name: execute_command, arguments: {command: "ls", work_dir: "/"}}
      - {text: "done"}
orchestrator: {skip_coordination_rounds: true}
"#;
    if !is_supported(SandboxLevel::Landlock) {
        return;
    }
    let project = Project::new().config(config).file("src/a.txt", "inside\n");
    let finished = project.args(["where am I"]).run();
    let stderr = finished.stderr();
    assert!(stderr.contains(" s: inside\n"), "{stderr}");
    assert!(stderr.contains("is denied execute_command"), "{stderr}");
}
