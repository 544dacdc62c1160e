//! Overlay of a final phase: the final agent and its commands see the changes, no other process
//! does, and the user gets all of them at the end or none.
#![expect(clippy::print_stdout, reason = "a test says why it has nothing to do")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::Duration;

use massgen::path::AbsPath;
use massgen::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use massgen::world::sandbox::Sandbox;
use serde_json::Value;

use crate::docker::{IMAGE, daemon};
use crate::project::{FinishedCommand, Project, binary};
use crate::scripted_team::{agent, team};
use crate::terminal::Terminal;
use crate::waiting::wait_until;

/// Timeout of every wait.
const WAIT_TIME_MAX: Duration = Duration::from_mins(2);

/// The final phase only, with everything open.
const WRITE_HERE: &str = "orchestrator:
  coordination: {write_mode: legacy}
  skip_coordination_rounds: true
  context_paths: [{path: ., permission: write}]
";

/// Runs a program without the ability to create namespaces.
const NO_NAMESPACES: &str = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";

/// Returns whether this machine supports this level.
fn is_supported(level: SandboxLevel) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let dir = AbsPath::new(dir.path()).unwrap();
    let executable = AbsPath::new(binary()).unwrap();
    let sandbox = Sandbox::open(SandboxLevelChoice::Only(level), &executable, &dir);
    sandbox
        .map_err(|error| println!("skipped: {error}"))
        .is_ok()
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Returns a project with one agent whose commands run in the sandbox `choice`.
fn project_with(choice: &str, rest: &str, replies: &str) -> Project {
    let keys = format!("cwd: w1\nenable_mcp_command_line: true\ncommand_line_sandbox: '{choice}'");
    Project::new()
        .file("team.yaml", team(&[agent("one", &keys, replies)], rest))
        .file("src/old.txt", "old\n")
        .file("src/gone.txt", "gone\n")
        .file("src/same.txt", "same\n")
        .args(["--config", "team.yaml", "build"])
}

fn project(choice: &str, replies: &str) -> Project {
    project_with(choice, WRITE_HERE, replies)
}

/// Changes the group of a directory of the project, so that no overlay can be mounted over it.
fn give_to_others(project: &Project) {
    for path in ["src", "src/old.txt"] {
        chown(project.path(path), None, Some(1234)).unwrap();
    }
}

/// Returns everything below `root` except massgen's state: kind, mode, times and content.
fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with(".massgen") {
                continue;
            }
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_dir() {
                dirs.push(path.clone());
                "directory".to_owned()
            } else if meta.is_symlink() {
                fs::read_link(&path).unwrap().display().to_string()
            } else {
                fs::read_to_string(&path).unwrap()
            };
            let state = format!(
                "{:o} {} {} {content}",
                meta.mode(),
                meta.mtime(),
                meta.ctime_nsec()
            );
            found.insert(path, state);
        }
    }
    found
}

/// Returns the agent's workspace, which must exist.
fn workspace_dir(project: &Project) -> PathBuf {
    let mut dirs = fs::read_dir(project.path(".massgen/workspaces")).unwrap();
    dirs.next().unwrap().unwrap().path()
}

/// Starts a run, and returns it with its workspace when its command has created `begun` there.
fn start_run(project: &Project) -> (Child, PathBuf) {
    let run = project.command().spawn().unwrap();
    wait_until("there is a workspace", WAIT_TIME_MAX, || {
        project.path(".massgen/workspaces").is_dir()
            && fs::read_dir(project.path(".massgen/workspaces"))
                .unwrap()
                .count()
                > 0
    });
    let workspace = workspace_dir(project);
    wait_until("the command runs", WAIT_TIME_MAX, || {
        workspace.join("begun").exists()
    });
    (run, workspace)
}

/// Returns the processes with mounts in `project`, or with its path on their command line.
fn processes_holding(project: &Project) -> Vec<String> {
    let name = project.path("");
    let name = name.to_str().unwrap().trim_end_matches('/').to_owned();
    let processes = fs::read_dir("/proc")
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let holds = |process: &PathBuf| {
        let text = |file: &str| fs::read(process.join(file)).unwrap_or_default();
        let process_text = [text("mountinfo"), text("cmdline")].concat();
        String::from_utf8_lossy(&process_text).contains(&name)
    };
    let mine = PathBuf::from(format!("/proc/{}", std::process::id()));
    let holding = processes
        .filter(|process| process.join("stat").exists() && holds(process))
        .filter(|process| *process != mine);
    holding
        .map(|process| process.display().to_string())
        .collect()
}

/// A tool writes, a command reads and writes, a tool reads that; the answer shows it.
const IN_TURNS: &str = r#"
- calls:
    - {name: write_file, arguments: {path: "{{cwd}}/src/tool.txt", content: "of a tool\n"}}
- calls:
    - name: execute_command
      arguments: {command: "cd '{{cwd}}/src' && cat tool.txt && echo 'of a command' > new.txt && rm gone.txt && echo more >> old.txt"}
- when: {last: "of a tool"}
  calls:
    - {name: read_multiple_files, arguments: {paths: ["{{cwd}}/src/new.txt", "{{cwd}}/src/old.txt", "{{cwd}}/src/gone.txt"]}}
- when: {last: "more"}
  calls:
    - {name: edit_file, arguments: {path: "{{cwd}}/src/old.txt", edits: [{oldText: "more", newText: "edited"}]}}
- calls:
    - {name: execute_command, arguments: {command: "cat '{{cwd}}/src/old.txt'"}}
- when: {last: "edited"}
  text: "each saw the other"
- text: "they did not see each other"
"#;

#[track_caller]
fn check_turns(finished: &FinishedCommand) {
    let stderr = finished.stderr();
    assert!(finished.stdout().contains("each saw the other"), "{stderr}");
}

#[test]
fn tools_and_commands_see_each_others_files() {
    for level in [SandboxLevel::Overlay, SandboxLevel::Namespaces] {
        if !is_supported(level) {
            continue;
        }
        let finished = project(&level.to_string(), IN_TURNS).success();
        check_turns(&finished);
        assert!(
            !finished.stderr().contains("a copy of"),
            "{}",
            finished.stderr()
        );
        let _delivered = finished
            .has_file("src/tool.txt", "of a tool\n")
            .has_file("src/new.txt", "of a command\n")
            .has_file("src/old.txt", "old\nedited\n")
            .has_no("src/gone.txt");
    }
}

#[test]
fn where_no_overlay_can_be_mounted_a_copy_is_used() {
    if !is_root() || !is_supported(SandboxLevel::Namespaces) {
        return;
    }
    let project = project("namespaces", IN_TURNS);
    give_to_others(&project);
    let finished = project.success();
    check_turns(&finished);
    let message = "the final agent works on a copy of";
    assert!(finished.stderr().contains(message), "{}", finished.stderr());
    let _delivered = finished
        .has_file("src/tool.txt", "of a tool\n")
        .has_file("src/new.txt", "of a command\n")
        .has_file("src/old.txt", "old\nedited\n")
        .has_file("src/same.txt", "same\n")
        .has_no("src/gone.txt");
}

/// Runs without the ability to create namespaces.
fn run_without_namespaces(project: &Project) -> Output {
    Command::new("unshare")
        .args(["-rm", "sh", "-c", NO_NAMESPACES])
        .arg(binary())
        .args(["--config", "team.yaml", "build"])
        .current_dir(project.path(""))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", project.home(""))
        .output()
        .unwrap()
}

#[test]
fn without_namespaces_the_file_tools_work_on_a_copy() {
    if !is_supported(SandboxLevel::Landlock) {
        return;
    }
    let replies = r#"
- calls:
    - {name: write_file, arguments: {path: "{{cwd}}/src/tool.txt", content: "of a tool\n"}}
    - {name: execute_command, arguments: {command: "ls '{{cwd}}/src'; cat '{{cwd}}/src/same.txt'; echo x > '{{cwd}}/src/command.txt'"}}
    - {name: read_text_file, arguments: {path: "{{cwd}}/src/tool.txt"}}
- when: {last: "of a tool"}
  text: "seen"
- text: "not seen"
"#;
    let project = project("auto", replies);
    let ran = run_without_namespaces(&project);
    let (out, err) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(
        out.contains("seen") && !out.contains("not seen"),
        "{out}{err}"
    );
    assert!(err.contains("sandbox level `landlock`"), "{err}");
    assert!(err.contains("the final agent works on a copy of"), "{err}");
    let delivered = fs::read_to_string(project.path("src/tool.txt"));
    assert_eq!(delivered.unwrap(), "of a tool\n", "{err}");
    assert!(!project.path("src/command.txt").exists());
}

/// Makes every kind of change, and then waits for `go`.
const CHANGES_AND_WAITS: &str = r#"
- calls:
    - {name: write_file, arguments: {path: "{{cwd}}/src/tool.txt", content: "new\n"}}
    - {name: delete_file, arguments: {path: "{{cwd}}/src/gone.txt"}}
- calls:
    - name: execute_command
      arguments: {command: "(cd '{{cwd}}/src' && echo new > new.txt && echo more >> old.txt && rm -f gone.txt && mkdir deep && mv same.txt deep); touch begun; until [ -e go ]; do sleep 0.02; done"}
- text: "done"
"#;

#[test]
fn the_users_tree_stays_as_it_is_while_the_final_agent_works() {
    for (choice, is_copied) in [
        ("overlay", false),
        ("namespaces", false),
        ("namespaces", true),
    ] {
        let level = if choice == "overlay" {
            SandboxLevel::Overlay
        } else {
            SandboxLevel::Namespaces
        };
        if !is_supported(level) || (is_copied && !is_root()) {
            continue;
        }
        let project = project(choice, CHANGES_AND_WAITS);
        if is_copied {
            give_to_others(&project);
        }
        let before = tree(&project.path(""));
        let (mut run, workspace) = start_run(&project);
        assert_eq!(tree(&project.path("")), before, "{choice}");
        fs::write(workspace.join("go"), "").unwrap();
        assert!(run.wait().unwrap().success());
        let after = |name: &str| fs::read_to_string(project.path("src").join(name)).ok();
        assert_eq!(after("old.txt").as_deref(), Some("old\nmore\n"));
        assert_eq!(after("new.txt").as_deref(), Some("new\n"));
        assert_eq!(after("tool.txt").as_deref(), Some("new\n"));
        assert_eq!(after("deep/same.txt").as_deref(), Some("same\n"));
        assert_eq!(after("same.txt"), None);
        assert_eq!(after("gone.txt"), None);
        assert_eq!(layer_dirs(&project), Vec::<PathBuf>::new(), "{choice}");
    }
}

/// Returns the layers of runs that are left.
fn layer_dirs(project: &Project) -> Vec<PathBuf> {
    let deliveries = fs::read_dir(project.path(".massgen/deliveries")).unwrap();
    let names = deliveries.flat_map(|run| fs::read_dir(run.unwrap().path()).unwrap());
    let paths = names.map(|name| name.unwrap().path());
    paths
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("stage")
        })
        .collect()
}

#[test]
fn a_run_that_is_killed_leaves_the_users_tree_as_it_was_and_nothing_mounted() {
    for (choice, is_copied) in [
        ("overlay", false),
        ("namespaces", true),
        ("landlock", false),
    ] {
        let level = match choice {
            "overlay" => SandboxLevel::Overlay,
            "namespaces" => SandboxLevel::Namespaces,
            _ => SandboxLevel::Landlock,
        };
        if !is_supported(level) || (is_copied && !is_root()) {
            continue;
        }
        let project = project(choice, CHANGES_AND_WAITS);
        if is_copied {
            give_to_others(&project);
        }
        let before = tree(&project.path(""));
        let (mut run, _) = start_run(&project);
        assert_ne!(processes_holding(&project), Vec::<String>::new());
        run.kill().unwrap();
        run.wait().unwrap();
        wait_until("everything has ended", WAIT_TIME_MAX, || {
            processes_holding(&project).is_empty()
        });
        assert_eq!(tree(&project.path("")), before, "{choice}");
    }
}

#[test]
fn nested_grants_and_mounts_in_a_write_path_are_shown_unchanged() {
    if !is_supported(SandboxLevel::Overlay) {
        return;
    }
    let rest = "orchestrator:
  skip_coordination_rounds: true
  context_paths:
    - {path: ., permission: write}
    - {path: src/inner, permission: write}
    - {path: src/inner/docs, permission: read}
";
    let replies = r#"
- calls:
    - {name: write_file, arguments: {path: "{{cwd}}/src/inner/tool.txt", content: "inner\n"}}
    - {name: write_file, arguments: {path: "{{cwd}}/src/outer.txt", content: "outer\n"}}
    - {name: write_file, arguments: {path: "{{cwd}}/src/inner/docs/a.txt", content: "changed\n"}}
    - {name: write_file, arguments: {path: "in_workspace.txt", content: "mine\n"}}
- calls:
    - name: execute_command
      arguments: {command: "cat in_workspace.txt && cd '{{cwd}}/src/inner' && cat tool.txt ../outer.txt && cat docs/a.txt && ! echo x > docs/b.txt; echo command > more.txt; ls '{{cwd}}/.massgen'"}
- when: {last: "mine\\ninner\\nouter\\ndocs\\n"}
  text: "all as it should be"
- text: "not so"
"#;
    for level in [SandboxLevel::Overlay, SandboxLevel::Namespaces] {
        if !is_supported(level) {
            continue;
        }
        let project = project_with(&level.to_string(), rest, replies);
        let finished = project.file("src/inner/docs/a.txt", "docs\n").run();
        let stderr = finished.stderr().to_owned();
        assert!(
            finished.stdout().contains("all as it should be"),
            "{stderr}"
        );
        let _delivered = finished
            .has_file("src/inner/tool.txt", "inner\n")
            .has_file("src/inner/more.txt", "command\n")
            .has_file("src/outer.txt", "outer\n")
            .has_file("src/inner/docs/a.txt", "docs\n")
            .has_no("src/inner/docs/b.txt");
    }
}

#[test]
fn a_single_writable_file_has_an_overlay_of_its_own() {
    let replies = r#"
- calls:
    - {name: read_text_file, arguments: {path: "{{cwd}}/src/old.txt"}}
    - {name: write_file, arguments: {path: "{{cwd}}/src/old.txt", content: "written\n"}}
    - {name: write_file, arguments: {path: "{{cwd}}/src/same.txt", content: "written\n"}}
    - {name: execute_command, arguments: {command: "cat '{{cwd}}/src/old.txt'; touch begun; until [ -e go ]; do sleep 0.02; done"}}
- text: "done"
"#;
    if !is_supported(SandboxLevel::Overlay) {
        return;
    }
    let rest = "orchestrator: {skip_coordination_rounds: true}\n";
    let project = project_with("overlay", rest, replies).retyped([
        "--config",
        "team.yaml",
        "write @src/old.txt:w",
    ]);
    let before = tree(&project.path(""));
    let (mut run, workspace) = start_run(&project);
    assert_eq!(tree(&project.path("")), before);
    fs::write(workspace.join("go"), "").unwrap();
    run.wait().unwrap();
    let text = |name: &str| fs::read_to_string(project.path("src").join(name)).unwrap();
    assert_eq!(
        (text("old.txt"), text("same.txt")),
        ("written\n".into(), "same\n".into())
    );
}

#[test]
fn protected_names_stay_on_the_overlay() {
    let replies = r#"
- calls:
    - name: execute_command
      arguments: {command: "cd '{{cwd}}/src' && mkdir -p node_modules/.bin sub/.git && echo x > node_modules/.bin/a && echo x > sub/.git/config && echo x > .env && echo ok > good.txt && ! echo y > '{{cwd}}/.git/config'"}
- calls:
    - name: execute_command
      arguments: {command: "cat '{{cwd}}/src/node_modules/.bin/a'"}
- text: "done"
"#;
    for (level, is_copied) in [
        (SandboxLevel::Overlay, false),
        (SandboxLevel::Namespaces, false),
        (SandboxLevel::Namespaces, true),
    ] {
        if !is_supported(level) || (is_copied && !is_root()) {
            continue;
        }
        let project = project(&level.to_string(), replies).file(".git/config", "mine\n");
        if is_copied {
            give_to_others(&project);
        }
        let finished = project.run();
        assert_eq!(finished.code(), Some(4), "{}", finished.stderr());
        let _kept = finished
            .has_file("src/good.txt", "ok\n")
            .has_file(".git/config", "mine\n")
            .has_no("src/node_modules")
            .has_no("src/sub/.git")
            .has_no("src/.env");
    }
}

#[test]
fn symlinks_created_on_the_overlay_are_followed_there() {
    if !is_supported(SandboxLevel::Overlay) {
        return;
    }
    let replies = r#"
- calls:
    - {name: execute_command, arguments: {command: "cd '{{cwd}}/src' && mkdir real && echo through > real/a.txt && ln -s real link && rm turned && mkdir turned && echo here > turned/b.txt && ln -s /etc outside"}}
- calls:
    - {name: read_multiple_files, arguments: {paths: ["{{cwd}}/src/link/a.txt", "{{cwd}}/src/turned/b.txt"]}}
- when: {last: "through"}
  calls: [{name: read_text_file, arguments: {path: "{{cwd}}/src/outside/hostname"}}]
- text: "done"
"#;
    let project = project("overlay", replies);
    symlink("same.txt", project.path("src/turned")).unwrap();
    let finished = project.run();
    let stderr = finished.stderr();
    // The line ends there with a longer path.
    assert!(stderr.contains("does not lead into your"), "{stderr}");
    let _delivered = finished
        .has_file("src/link/a.txt", "through\n")
        .has_file("src/turned/b.txt", "here\n");
}

#[test]
fn files_that_the_user_changes_during_the_final_phase_are_not_replaced() {
    for (level, is_copied) in [
        (SandboxLevel::Overlay, false),
        (SandboxLevel::Namespaces, true),
    ] {
        if !is_supported(level) || (is_copied && !is_root()) {
            continue;
        }
        let project = project(&level.to_string(), CHANGES_AND_WAITS);
        if is_copied {
            give_to_others(&project);
        }
        let (mut run, workspace) = start_run(&project);
        fs::write(project.path("src/old.txt"), "the user's\n").unwrap();
        fs::write(workspace.join("go"), "").unwrap();
        assert_eq!(run.wait().unwrap().code(), Some(4));
        let text = |name: &str| fs::read_to_string(project.path("src").join(name)).unwrap();
        assert_eq!(text("old.txt"), "the user's\n");
        assert_eq!(text("new.txt"), "new\n");
    }
}

#[test]
fn files_of_other_users_in_a_write_path_of_root_are_copied() {
    if !is_root() || !is_supported(SandboxLevel::Overlay) {
        return;
    }
    let replies = r#"
- calls:
    - {name: read_text_file, arguments: {path: "{{cwd}}/src/old.txt"}}
    - {name: write_file, arguments: {path: "{{cwd}}/src/old.txt", content: "written\n"}}
- text: "done"
"#;
    let project = project("overlay", replies);
    for path in ["", "src", "src/old.txt"] {
        chown(project.path(path), Some(1234), Some(1234)).unwrap();
    }
    let finished = project.success();
    let owner = fs::metadata(finished.project().path("src/old.txt")).unwrap();
    assert_eq!((owner.uid(), owner.gid()), (1234, 1234));
    let _delivered = finished.has_file("src/old.txt", "written\n");
}

#[test]
fn commands_in_a_container_see_the_overlay_at_the_path_of_the_tree() {
    let Some(daemon) = daemon() else { return };
    let keys = format!(
        "cwd: w1\nenable_mcp_command_line: true\ncommand_line_execution_mode: docker\n\
         command_line_docker_image: {IMAGE}"
    );
    let project = Project::new()
        .file(
            "team.yaml",
            team(&[agent("one", &keys, IN_TURNS)], WRITE_HERE),
        )
        .file("src/old.txt", "old\n")
        .file("src/gone.txt", "gone\n")
        .file("src/same.txt", "same\n")
        .file(".git/config", "mine\n")
        .env("DOCKER_HOST", daemon.host())
        .args(["--config", "team.yaml", "build"]);
    let finished = project.success();
    check_turns(&finished);
    let _delivered = finished
        .has_file("src/tool.txt", "of a tool\n")
        .has_file("src/new.txt", "of a command\n")
        .has_file("src/old.txt", "old\nedited\n")
        .has_file(".git/config", "mine\n")
        .has_no("src/gone.txt");
}

#[test]
fn writing_a_file_clears_setuid_and_setgid() {
    let replies = r#"
- calls:
    - name: execute_command
      arguments: {command: "cp /usr/bin/id '{{cwd}}/src/old.txt'"}
- text: "done"
"#;
    for level in [SandboxLevel::Overlay, SandboxLevel::Namespaces] {
        if !is_supported(level) {
            continue;
        }
        let project = project(&level.to_string(), replies);
        let path = project.path("src/old.txt");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
        let finished = project.run();
        let meta = fs::metadata(&path).unwrap();
        assert!(meta.len() > 100, "{}", finished.stderr());
        assert_eq!(meta.permissions().mode() & 0o7777, 0o755);
    }
}

/// Replies of an agent that runs `script` in the project in the final phase.
fn script_replies(script: &str) -> String {
    format!(
        "- calls:\n    - {{name: execute_command, arguments: {{command: \"cd '{{{{cwd}}}}' && {script}\"}}}}\n- text: done\n"
    )
}

#[test]
fn a_delivery_of_which_nothing_was_applied_is_not_recovered_later() {
    if !is_supported(SandboxLevel::Overlay) {
        return;
    }
    let finished = project("overlay", &script_replies("ln -s ../.. up")).run();
    assert!(
        finished.stderr().contains("leads out"),
        "{}",
        finished.stderr()
    );
    let again = finished.then(["apply", "--yes"]).run();
    assert!(!again.stderr().contains("recover"), "{}", again.stderr());
}

#[test]
fn holes_of_a_sparse_file_are_delivered_and_not_hashed() {
    if !is_supported(SandboxLevel::Overlay) {
        return;
    }
    let script = "truncate -s 4G holes.img && echo new > new.txt";
    let finished = project("overlay", &script_replies(script))
        .args(["--yes", "--output-format", "json"])
        .success();
    let result: Value = serde_json::from_str(finished.stdout()).unwrap();
    let file = |name: &str| {
        let mut rows = result["delivered_files"].as_array().unwrap().iter();
        let row = rows.find(|row| row["path"].as_str().unwrap().ends_with(name));
        row.unwrap_or_else(|| panic!("{name}: {result}"))
    };
    assert_eq!(file("holes.img")["bytes"], 4_u64 << 30, "{result}");
    assert!(file("holes.img")["sha256"].is_null(), "{result}");
    assert!(file("new.txt")["sha256"].is_string(), "{result}");
    let meta = fs::metadata(finished.project().path("holes.img")).unwrap();
    assert_eq!((meta.len(), meta.blocks() < 1000), (4 << 30, true));
}

#[test]
fn links_that_lead_out_are_refused_where_no_one_is_asked_and_the_rest_is_delivered() {
    if !is_supported(SandboxLevel::Overlay) {
        return;
    }
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().display();
    let script = format!(
        "rm -r docs && ln -s {target} docs && ln -s ../.. up && ln -s src/.. here && \
         ln -s src/old.txt inside && ln -s ../src sub/inside && ln -s hop/x chain && \
         ln -s {target} hop && ln -s .git/config settings && ln -s .massgen state && \
         ln -s theirs/x through && ln -sfn src/gone.txt turned && chmod 755 src/old.txt && \
         echo new > new.txt && mkdir -p .github/workflows && echo a > .github/workflows/ci.yml && \
         echo b > AGENTS.md"
    );
    let project = project("overlay", &script_replies(&script))
        .file("docs/a.md", "a\n")
        .file("sub/b.txt", "b\n")
        .file(".git/config", "[core]\n")
        .args(["--yes"]);
    symlink("src/old.txt", project.path("turned")).unwrap();
    symlink(outside.path(), project.path("theirs")).unwrap();
    let finished = project.run();
    let err = finished.stderr().to_owned();
    for name in ["up", "here", "chain", "hop", "settings", "state", "through"] {
        let meta = fs::symlink_metadata(finished.project().path(name));
        assert!(meta.is_err(), "{name}: {err}");
    }
    let finished = finished
        .has_file("docs/a.md", "a\n")
        .has_file("new.txt", "new\n");
    let project = finished.project();
    let link = |name: &str| fs::read_link(project.path(name)).unwrap();
    assert_eq!(link("inside"), Path::new("src/old.txt"), "{err}");
    assert_eq!(link("sub/inside"), Path::new("../src"));
    assert_eq!(link("turned"), Path::new("src/gone.txt"));
    for expected in [
        format!("docs (directory becomes symlink to `{target}`): the symlink leads out"),
        "turned (symlink to `src/old.txt` becomes symlink to `src/gone.txt`)".to_owned(),
        "inside (symlink to `src/old.txt`)".to_owned(),
        "src/old.txt (mode 644 becomes 755)".to_owned(),
        ".github/workflows/ci.yml (runs later)".to_owned(),
        "AGENTS.md (instructs later agents)".to_owned(),
    ] {
        assert!(err.contains(&expected), "{expected}: {err}");
    }
    // The same again, and what is shown of it.
    let diff = finished.then(["apply", "--yes"]).run();
    assert!(
        diff.stdout().contains("denied docs (directory becomes"),
        "{}",
        diff.stdout()
    );
    assert!(!diff.project().path("up").is_symlink());
}

#[test]
fn a_link_that_leads_out_asks_and_only_an_answer_about_it_alone_delivers_it() {
    if !is_supported(SandboxLevel::Overlay) {
        return;
    }
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().display();
    let replies = script_replies(&format!("rm -r docs; ln -s {target} docs; echo b > b.txt"));
    for (answers, is_link) in [
        (&["a"][..], false),
        (&["c", "y", "y"], true),
        (&["c", "a"], false),
    ] {
        let project = project("overlay", &replies)
            .file("docs/a.md", "a\n")
            .env("TERM", "xterm")
            .env("NO_COLOR", "1");
        let mut terminal = Terminal::open(project, 100);
        terminal.wait_for_output("[a]pply all, [d]iff");
        terminal.wait_for_output(&format!("directory becomes symlink to `{target}`"));
        terminal.wait_for_output("docs` leads out");
        let questions = ["[n]othing?", "apply `b.txt`?", "apply `docs`?"];
        for (answer, question) in answers.iter().zip(questions) {
            terminal.wait_for_output(question);
            terminal.type_keys(&format!("{answer}\r"));
        }
        let project = terminal.wait_for_end(0);
        assert_eq!(project.path("docs").is_symlink(), is_link, "{answers:?}");
        assert_eq!(project.path("docs/a.md").exists(), !is_link, "{answers:?}");
        assert_eq!(fs::read_to_string(project.path("b.txt")).unwrap(), "b\n");
    }
}
