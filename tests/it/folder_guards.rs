//! Folder guards over real files: the four roles of a workflow by their presets, path resolution
//! under a guard, and the tools that agents are offered.

use serde_json::{Value, json};

use crate::project::Project;

/// Access of one agent under a guard, with the guard's keys.
struct GuardedRole {
    guard: &'static str,
    read: &'static [&'static str],
    write: &'static [&'static str],
}

/// The presets: which role may read and write what.
const GUARDED_ROLES: &[GuardedRole] = &[
    GuardedRole {
        guard: "preset: execution",
        read: &["learnings", "execution", "Downloads"],
        write: &["execution", "Downloads"],
    },
    GuardedRole {
        guard: "preset: planning",
        read: &["learnings", "planning", "Downloads"],
        write: &["planning", "Downloads"],
    },
    GuardedRole {
        guard: "preset: validation",
        read: &["execution", "validation", "Downloads"],
        write: &["validation", "Downloads"],
    },
    GuardedRole {
        guard: "preset: read_only",
        read: &["learnings", "Downloads"],
        write: &[],
    },
    GuardedRole {
        guard: "preset: read_only, read: [$ROOT/planning], downloads: false",
        read: &["learnings", "planning"],
        write: &[],
    },
];

const ALL: &[&str] = &[
    "learnings",
    "execution",
    "planning",
    "validation",
    "Downloads",
];

/// Returns a project with a directory for each role, below `flow`.
fn project(guard: &str) -> Project {
    let mut project = Project::new();
    for dir in ALL {
        project = project.file(&format!("flow/{dir}/there.txt"), "text\n");
    }
    let config = format!(
        "agent:\n  id: one\n  folder_guard: {{{}}}\n  backend: {{type: scripted, cwd: w1, replies: [{{text: a}}]}}\n",
        guard.replace("$ROOT", project.path("flow").to_str().unwrap())
    );
    project.file("team.yaml", config)
}

/// Makes one call of the agent in the final phase; returns what it reads, or why it was denied.
fn call(project: Project, tool: &str, arguments: &Value) -> (Project, bool, String) {
    let arguments = arguments.to_string();
    let args = ["tool", tool, "--args", &arguments, "--config", "team.yaml"];
    let ran = project.retyped(args).args(["--phase", "final"]).run();
    let report: Value =
        serde_json::from_str(ran.stdout()).unwrap_or_else(|_| panic!("{}", ran.stderr()));
    let output = report["output"].as_str().unwrap_or_default().to_owned();
    let ok = report["ok"] == true;
    (ran.then::<&str>([]), ok, output)
}

#[test]
fn each_part_reads_and_writes_what_its_preset_says() {
    for role in GUARDED_ROLES {
        let guard = format!("{}, root: flow", role.guard);
        let mut guarded = project(&guard);
        for dir in ALL {
            // Relative paths begin at the root.
            let path = format!("{dir}/there.txt");
            let (next, reads, reply) = call(guarded, "read_text_file", &json!({"path": path}));
            assert_eq!(
                reads,
                role.read.contains(dir),
                "{guard}: read {dir}: {reply}"
            );
            let path = format!("{dir}/new.txt");
            let arguments = json!({"path": path, "content": "x"});
            let (next, writes, reply) = call(next, "write_file", &arguments);
            assert_eq!(
                writes,
                role.write.contains(dir),
                "{guard}: write {dir}: {reply}"
            );
            assert_eq!(next.path(format!("flow/{dir}/new.txt")).exists(), writes);
            guarded = next;
        }
    }
}

#[test]
fn without_a_root_a_preset_lies_in_the_workspace_and_is_made_there() {
    let guarded = project("preset: execution");
    let (guarded, ok, reply) = call(guarded, "list_directory", &json!({"path": "learnings"}));
    assert!(ok, "{reply}");
    let arguments = json!({"path": "execution/a.txt", "content": "x"});
    let (guarded, ok, reply) = call(guarded, "write_file", &arguments);
    assert!(ok, "{reply}");
    let arguments = json!({"path": "learnings/a.txt", "content": "x"});
    let (guarded, ok, reply) = call(guarded, "write_file", &arguments);
    assert!(!ok && reply.contains("you may write under: "), "{reply}");
    let (_, ok, reply) = call(
        guarded,
        "write_file",
        &json!({"path": "Downloads/a", "content": "x"}),
    );
    assert!(ok, "{reply}");
}

#[test]
fn a_root_without_the_directories_is_an_error_that_names_them() {
    let guarded = Project::new().dir("flow/learnings").file(
        "team.yaml",
        "agent:\n  id: one\n  folder_guard: {preset: planning, root: flow}\n  \
         backend: {type: scripted, cwd: w1, replies: [{text: a}]}\n",
    );
    let ran = guarded.args(["--config", "team.yaml", "plan"]).failure(2);
    assert!(
        ran.stderr().contains("folder guard directories not found"),
        "{}",
        ran.stderr()
    );
    assert!(ran.stderr().contains("flow/planning"), "{}", ran.stderr());
    assert!(!ran.stderr().contains("flow/learnings"), "{}", ran.stderr());
}

#[test]
fn all_directories_that_are_missing_are_named_at_once() {
    let agent = |id: &str, preset: &str| {
        format!(
            "  - id: {id}\n    folder_guard: {{preset: {preset}, root: flow}}\n    \
             backend: {{type: scripted, cwd: {id}, replies: [{{text: a}}]}}\n"
        )
    };
    let config = format!(
        "agents:\n{}{}",
        agent("a", "planning"),
        agent("b", "validation")
    );
    let guarded = Project::new().file("team.yaml", config);
    let ran = guarded.args(["--config", "team.yaml", "plan"]).failure(2);
    for dir in ["learnings", "planning", "execution", "validation"] {
        let stderr = ran.stderr();
        assert!(stderr.contains(&format!("flow/{dir}")), "{dir}: {stderr}");
    }
}

#[test]
fn every_path_is_read_from_the_root_and_climbs_nowhere() {
    let mut guarded = project("preset: execution, root: flow");
    for (path, expected) in [
        ("execution/there.txt", true),
        ("./execution//there.txt", true),
        ("execution/./there.txt", true),
        ("Downloads/there.txt", true),
        ("execution/../execution/there.txt", false),
        ("../flow/execution/there.txt", false),
        ("../Downloads/there.txt", false),
        ("execution\\..\\planning", false),
        ("planning/there.txt", false),
        ("there.txt", false),
        ("/etc/passwd", false),
        ("", false),
    ] {
        let (next, ok, reply) = call(guarded, "read_text_file", &json!({"path": path}));
        assert_eq!(ok, expected, "{path}: {reply}");
        guarded = next;
    }
    let absolute = guarded.path("flow/execution/there.txt");
    let (guarded, ok, reply) = call(guarded, "read_text_file", &json!({"path": absolute}));
    assert!(ok, "{reply}");
    for path in [json!({}), json!({"path": "."})] {
        let next = project("preset: execution, root: flow");
        let (_, ok, reply) = call(next, "list_directory", &path);
        assert!(!ok && reply.contains("you may read under: "), "{reply}");
    }
    // Every path of a call is checked, not only the first.
    let both = json!({"source_path": "execution/there.txt", "destination_path": "planning/x"});
    let (guarded, ok, reply) = call(guarded, "copy_file", &both);
    assert!(!ok && reply.contains("planning/x"), "{reply}");
    let several = json!({"paths": ["execution/there.txt", "planning/there.txt"]});
    let (_, ok, reply) = call(guarded, "read_multiple_files", &several);
    assert!(!ok && !reply.contains("text\n"), "{reply}");
}

#[test]
fn descriptions_name_the_directories_and_writing_is_offered_where_it_can_be_done() {
    let offered = |guard: &str| {
        let ran = project(guard)
            .args(["--config", "team.yaml", "--dry-run", "x"])
            .success();
        format!("{}{}", ran.stdout(), ran.stderr())
    };
    let tools = offered("preset: execution");
    assert!(tools.contains("write_file"), "{tools}");
    let tools = offered("preset: read_only");
    assert!(
        !tools.contains("write_file") && tools.contains("read_text_file"),
        "{tools}"
    );
}

#[test]
fn the_prompt_names_the_directory_of_paths_and_commands() {
    let listing = |guard: &str| {
        let (_, ok, reply) = call(project(guard), "list_allowed_directories", &json!({}));
        assert!(ok, "{reply}");
        reply
    };
    let inner = listing("preset: execution");
    assert!(inner.contains("/execution (in your workspace)"), "{inner}");
    assert!(!inner.contains("relative paths begin here"), "{inner}");
    let base = inner
        .lines()
        .find(|line| line.contains("relative paths begin in"));
    assert!(base.unwrap().contains("/workspaces/w1"), "{inner}");
    let rooted = listing("preset: execution, root: flow");
    assert!(rooted.contains("/flow\n"), "{rooted}");
}

#[test]
fn the_prompt_describes_the_guard_in_force() {
    let prompt = |guard: &str| {
        let ran = project(guard).args(["--config", "team.yaml", "--dry-run", "task"]);
        let ran = ran.success();
        ran.stdout().to_owned() + ran.stderr()
    };
    let reads = prompt("preset: read_only");
    assert!(reads.contains("/Downloads: read\n"), "{reads}");
    assert!(!reads.contains("Put the files you make"), "{reads}");
    let writes = prompt("preset: execution");
    assert!(writes.contains("/Downloads: read and write\n"), "{writes}");
    assert!(writes.contains("Put the files you make"), "{writes}");
}

#[test]
fn explain_points_to_the_folder_guard_that_denies_a_path() {
    let explained = |path: &str| {
        let arguments = ["explain", "path", path, "--config", "team.yaml"];
        let ran = project("preset: execution, root: flow")
            .args(arguments)
            .success();
        ran.stdout().to_owned()
    };
    let outside = explained("flow/planning/there.txt");
    assert!(
        outside.contains("add its directory to `read` or `write` of `folder_guard`"),
        "{outside}"
    );
    let read = explained("flow/learnings/there.txt");
    assert!(
        read.contains("add its directory to `write` of `folder_guard`"),
        "{read}"
    );
    for text in [outside, read] {
        assert!(!text.contains("context_paths"), "{text}");
        assert!(!text.contains("on context"), "{text}");
    }
}
