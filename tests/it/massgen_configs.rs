//! Configs of the Python `MassGen`: those that it ships load, or are refused, as the table says, and
//! small ones run as they were meant. `tests/long.sh` fetches the shipped ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::mcp::{HOSTILE, call_results, calls_of};
use crate::project::{FinishedCommand, Project, binary, events};
use crate::scripted_team::{FINAL, agent, team};

/// Environment variable with the directory of the configs that `MassGen` ships.
const CONFIGS: &str = "MASSGEN_PEER_CONFIGS";
/// The number of those configs.
const CONFIGS_COUNT: usize = 276;
/// Findings that take nothing away from a config, by the last part of their location: what is
/// stricter on purpose, what is done otherwise, and what is only said. `NLIP` is the form in which
/// `MassGen` passes calls on within its own process, `enable_tool_search` and
/// `enable_programmatic_flow` save tokens, `enable_code_based_tools` is about programs that call the
/// tools that external agents call one by one, and `OpenAI` makes no videos any more.
const BY_DESIGN: &[&str] = &[
    "ask",
    "command_line_docker_credentials",
    "command_line_docker_cpu_limit",
    "command_line_docker_enable_sudo",
    "command_line_docker_image",
    "command_line_docker_memory_limit",
    "command_line_docker_network_mode",
    "command_line_docker_packages",
    "command_line_execution_mode",
    "conversation_memory",
    "cwd",
    "enable_code_based_tools",
    "enable_mcp_command_line",
    "enable_nlip",
    "enable_programmatic_flow",
    "enable_tool_search",
    "mcp_servers.level",
    "nlip",
    "permission_mode",
    "permissions",
    "persistent_memory",
    "recording",
    "retrieval",
    "task",
    "timeout",
    "tool_search_variant",
    "video_generation_backend",
    "websocket_mode",
    "write_mode",
];

/// What a finding suggests about a server whose package has to be installed, and its name in the
/// table.
const INSTALL: &str = "run `massgen mcp install ";
const PACKAGE: &str = "mcp_servers.package";
/// Tools and servers that need what their entry does not open, by the names in the table.
const CLOSED: &[&str] = &[
    "custom_tools.env",
    "custom_tools.network",
    "mcp_servers.network",
];

/// What the check does not know, and the table has from trials.
const TRIED: &[&str] = &[
    "custom_tools.env",
    "custom_tools.network",
    "custom_tools.preset_args",
    "mcp_servers.network",
];

/// How many configs are taken in which way, and what the page for users of `MassGen` says about
/// them.
const COUNTS: &[(Outcome, usize)] = &[
    (Outcome::Runs, 174),
    (Outcome::RunsWithNetwork, 32),
    (Outcome::Installs, 1),
    (Outcome::InstallsWithNetwork, 44),
    (Outcome::Loads, 13),
    (Outcome::Refused, 12),
];
const PAGE: &str = include_str!("../../docs/from-massgen.md");

fn table_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/massgen_configs.txt")
}

/// How a config is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Runs,
    /// It runs, and all its tools work once their entries open the network, and name the key.
    RunsWithNetwork,
    /// It runs as meant once `massgen mcp install` has installed its servers.
    Installs,
    /// The servers need the network besides.
    InstallsWithNetwork,
    Loads,
    Refused,
}

impl Outcome {
    const ALL: [Self; 6] = [
        Self::Runs,
        Self::RunsWithNetwork,
        Self::Installs,
        Self::InstallsWithNetwork,
        Self::Loads,
        Self::Refused,
    ];

    fn parse(word: &str) -> Self {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|outcome| outcome.word() == word);
        found.unwrap_or_else(|| panic!("`{word}` is no outcome"))
    }

    fn word(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::RunsWithNetwork => "runs-with-network",
            Self::Installs => "installs",
            Self::InstallsWithNetwork => "installs-with-network",
            Self::Loads => "loads",
            Self::Refused => "refused",
        }
    }
}

/// Returns the line of the table for the findings of one config, with what `earlier`, its line until
/// now, has from trials; and its outcome.
fn table_line(name: &str, report: &Value, earlier: &str) -> (Outcome, String) {
    let field = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let list = |key: &str| report[key].as_array().unwrap().iter();
    let errors: BTreeSet<String> = list("errors")
        .map(|found| field(found, "message"))
        .collect();
    let (_, earlier_notes) = earlier.split_once(": ").unwrap_or_default();
    let tried = earlier_notes
        .split(", ")
        .filter(|note| TRIED.contains(note));
    let notes: BTreeSet<String> = list("warnings")
        .map(|found| {
            if field(found, "suggestion").contains(INSTALL) {
                PACKAGE.to_owned()
            } else {
                short_location(&field(found, "location"))
            }
        })
        .chain(tried.map(str::to_owned))
        .collect();
    let is_by_design = |note: &String| BY_DESIGN.contains(&note.as_str());
    let is_closed = |note: &String| CLOSED.contains(&note.as_str());
    let is_less = notes
        .iter()
        .any(|note| !is_by_design(note) && !is_closed(note) && note != PACKAGE);
    let needs = (notes.contains(PACKAGE), notes.iter().any(is_closed));
    let (outcome, reasons) = match (errors.is_empty(), is_less, needs) {
        (false, _, _) => (Outcome::Refused, errors),
        (true, true, _) => (Outcome::Loads, notes),
        (true, false, (true, true)) => (Outcome::InstallsWithNetwork, notes),
        (true, false, (true, false)) => (Outcome::Installs, notes),
        (true, false, (false, true)) => (Outcome::RunsWithNetwork, notes),
        (true, false, (false, false)) => (Outcome::Runs, notes),
    };
    let reasons: Vec<String> = reasons.into_iter().collect();
    let line = format!("{} {name}: {}", outcome.word(), reasons.join(", "));
    (outcome, line.trim_end_matches([':', ' ']).to_owned())
}

/// Returns the last name of a location without its index, after the name of the servers or tools
/// that it is in.
fn short_location(location: &str) -> String {
    let last = location.rsplit('.').next().unwrap_or_default();
    let last = last.split('[').next().unwrap_or_default();
    if location.contains("mcp_servers") && last != "mcp_servers" {
        format!("mcp_servers.{last}")
    } else if location.contains(".custom_tools[") && last != "custom_tools" {
        format!("custom_tools.{last}")
    } else {
        last.to_owned()
    }
}

/// Returns the outcomes of a table's lines.
fn count_outcomes(table: &str) -> BTreeMap<Outcome, usize> {
    let mut counts = BTreeMap::new();
    for line in table.lines() {
        let word = line.split(' ').next().unwrap();
        *counts.entry(Outcome::parse(word)).or_default() += 1;
    }
    counts
}

#[test]
fn the_table_lists_every_config_once() {
    let table = std::fs::read_to_string(table_path()).unwrap();
    let names: Vec<&str> = table
        .lines()
        .map(|line| line.split([' ', ':']).nth(1).unwrap())
        .collect();
    assert!(names.is_sorted() && names.len() == CONFIGS_COUNT);
    let expected: BTreeMap<Outcome, usize> = COUNTS.iter().copied().collect();
    assert_eq!(count_outcomes(&table), expected);
}

/// The numbers on the page are those of the table.
#[test]
fn the_page_says_how_many_configs_run() {
    let total = format!("MassGen 0.1.97 ships {CONFIGS_COUNT} configs");
    assert!(PAGE.contains(&total), "{total}");
    let rows: Vec<&str> = PAGE
        .lines()
        .skip_while(|line| !line.contains(&total))
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
        .map(|(number, _)| number)
        .filter(|number| number.parse::<usize>().is_ok())
        .collect();
    let expected: Vec<String> = COUNTS.iter().map(|(_, count)| count.to_string()).collect();
    assert_eq!(rows, expected);
}

/// Without the configs there is nothing to compare.
#[test]
fn the_shipped_configs_are_taken_as_the_table_says() {
    let Some(configs) = std::env::var_os(CONFIGS).map(PathBuf::from) else {
        return;
    };
    let names = names_below(&configs, &configs);
    assert_eq!(names.len(), CONFIGS_COUNT);
    let project = Project::new();
    let mut command = Command::new(binary());
    command
        .env_clear()
        .current_dir(project.path(""))
        .args(["config", "check", "--json"])
        .args(names.iter().map(|name| configs.join(name)));
    for name in &names {
        let text = std::fs::read_to_string(configs.join(name)).unwrap();
        for variable in named_variables(&text) {
            command.env(variable, "https://example.org/v1");
        }
    }
    command.env("AZURE_OPENAI_ENDPOINT", "https://example.org");
    command.env("OPENAI_API_KEY", "sk-of-the-tests");
    command.env("HOME", project.home(""));
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let reports = output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let expected = std::fs::read_to_string(table_path()).unwrap();
    let actual: String = names
        .iter()
        .zip(reports)
        .zip(expected.lines())
        .map(|((name, report), line): ((&String, Value), &str)| {
            table_line(name, &report, line).1 + "\n"
        })
        .collect();
    if std::env::var_os("MASSGEN_BLESS").is_some() {
        std::fs::write(table_path(), &actual).unwrap();
        return;
    }
    for (actual, expected) in actual.lines().zip(expected.lines()) {
        assert_eq!(actual, expected, "MASSGEN_BLESS=1 rewrites the table");
    }
    assert_eq!(actual.lines().count(), expected.lines().count());
}

fn names_below(root: &Path, directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(names_below(root, &path));
        } else if path.extension().is_some_and(|found| found == "yaml") {
            let name = path.strip_prefix(root).unwrap();
            found.push(name.to_str().unwrap().to_owned());
        }
    }
    found.sort();
    found
}

/// Returns the variables that a config names.
fn named_variables(text: &str) -> impl Iterator<Item = &str> {
    let named = text
        .split("${")
        .skip(1)
        .filter_map(|rest| rest.split('}').next());
    named.filter(|name| {
        let mut bytes = name.bytes();
        !name.is_empty()
            && bytes.all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    })
}

/// Runs a team and returns it with what its first agent read for each of its calls.
fn run(agents: &[String], rest: &str) -> (FinishedCommand, Vec<String>) {
    let project = Project::new()
        .file("given/hostile.py", HOSTILE)
        .file("given/notes.txt", "of the project\n")
        .file("team.yaml", team(agents, rest))
        .args(["--config", "team.yaml", "task"]);
    let finished = project.success();
    let read = call_results(&finished);
    (finished, read)
}

fn replies(calls: &[(&str, Value)]) -> String {
    calls_of(calls) + "- calls: [{name: new_answer, arguments: {content: done}}]\n"
}

#[test]
fn a_server_of_an_agent_without_a_workspace_starts_in_a_directory_of_its_own() {
    let project = Project::new();
    let given = project.path("given").display().to_string();
    let keys = format!(
        "mcp_servers: [{{name: h, command: python3, args: ['{given}/hostile.py', '${{cwd}}'], \
         permission: write}}]"
    );
    let project = project
        .file("given/hostile.py", HOSTILE)
        .file("secret.txt", "not for servers\n");
    let secret = project.path("secret.txt").display().to_string();
    let notes = format!("{given}/new.txt");
    let calls = [
        ("mcp__h__where", json!({})),
        ("mcp__h__read", json!({ "path": secret })),
        ("mcp__h__write", json!({"path": notes, "content": "x"})),
        ("write_file", json!({"path": "a.txt", "content": "x"})),
    ];
    let agents = [agent("one", &keys, &replies(&calls))];
    let rest = "orchestrator: {context_paths: [given]}";
    let finished = project
        .file("team.yaml", team(&agents, rest))
        .args(["--config", "team.yaml", "task"])
        .success();
    let read = call_results(&finished);
    let report: Value = serde_json::from_str(&read[0]).unwrap();
    let (directory, home) = (
        report["cwd"].as_str().unwrap(),
        report["home"].as_str().unwrap(),
    );
    assert_eq!(report["mode"], report["cwd"]);
    assert!(directory.starts_with(home) && directory != home, "{report}");
    assert!(read[1].contains("denied"), "{read:#?}");
    assert!(read[2].contains("denied"), "{read:#?}");
    assert!(read[3].contains("do not have the tool"), "{read:#?}");
    finished.has_no("given/new.txt");
}

#[test]
fn two_agents_with_the_same_workspace_name_do_not_see_each_other() {
    let write = json!({"path": "own.txt", "content": "x"});
    let calls = [
        ("write_file", write),
        ("list_directory", json!({"path": "."})),
    ];
    let member = |id: &str| {
        let replies = format!(
            "- when: {{system: \"{FINAL}\"}}\n  text: done\n{}\
             - calls: [{{name: new_answer, arguments: {{content: of {id}}}}}]\n\
             - calls: [{{name: vote, arguments: {{agent_id: agent1, reason: r}}}}]\n  repeat: true\n",
            calls_of(&calls)
        );
        agent(id, "cwd: workspace", &replies)
    };
    let (finished, read) = run(&[member("a"), member("b")], "");
    let stderr = finished.stderr();
    assert!(
        stderr.contains("this one works in `workspace_2`"),
        "{stderr}"
    );
    assert!(
        !read.iter().any(|read| read.contains("denied")),
        "{read:#?}"
    );
    let directories = finished.project().path(".massgen/workspaces");
    let mut names: Vec<String> = std::fs::read_dir(directories)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[0].starts_with("workspace_"), "{names:?}");
}

#[test]
fn an_agent_sees_new_answers_at_its_next_step_or_after_its_round() {
    let first = format!(
        "- when: {{system: \"{FINAL}\"}}\n  text: done\n\
         - when: {{last: \"<task>\"}}\n  \
           calls: [{{name: new_answer, arguments: {{content: answer of a}}}}]\n\
         - calls: [{{name: vote, arguments: {{agent_id: agent1, reason: r}}}}]\n  repeat: true\n"
    );
    let second = "- when: {last: \"<task>\"}\n  delay_ms: 200\n  text: I think about it.\n\
                  - when: {contains: answer of a}\n  \
                    calls: [{name: vote, arguments: {agent_id: agent1, reason: r}}]\n  repeat: true\n\
                  - calls: [{name: new_answer, arguments: {content: answer of b}}]\n";
    let answers = |keys: &str| {
        let agents = [agent("a", "", &first), agent("b", "", second)];
        let finished = run(&agents, &format!("orchestrator: {{{keys}}}")).0;
        events(&finished, "answered").len()
    };
    let allowed = "allow_midstream_peer_updates_before_checklist_submit: true";
    let deferred = "defer_peer_updates_until_restart: true";
    assert_eq!(answers(deferred), 2);
    // Without scores there is no time before them.
    assert_eq!(answers(&format!("{deferred}, {allowed}")), 2);
    // On a busy machine, the second agent may be faster.
    assert!((0..5).any(|_| answers("max_midstream_injections_per_round: 1") == 1));
}

#[test]
fn a_reader_of_massgens_configs_writes_nothing() {
    let calls = [
        ("write_file", json!({"path": "a.txt", "content": "x"})),
        ("execute_command", json!({"command": "touch b.txt"})),
    ];
    let section = |role: &str| {
        format!(
            "cwd: w\nenable_mcp_command_line: true\n\
             permissions: {{enabled: true, role: \"{role}\", automation_default: risk-based, \
             rules: {{allow: ['write_file(./**)', 'command(touch *)']}}}}"
        )
    };
    for role in ["read-only", "researcher"] {
        let agents = [agent("one", &section(role), &replies(&calls))];
        let (_, read) = run(&agents, "");
        assert!(read.iter().all(|read| read.contains("denied")), "{read:#?}");
    }
    let agents = [agent("one", &section("read-write"), &replies(&calls))];
    let (_, read) = run(&agents, "");
    assert!(
        !read.iter().any(|read| read.contains("denied")),
        "{read:#?}"
    );
}

#[test]
fn dangerous_commands_need_approval_with_massgens_permissions() {
    let keys = "cwd: w\nenable_mcp_command_line: true\n\
                permissions: {enabled: true, rules: {ask: ['command(npm publish*)']}}";
    let run_of = |line: &str| ("execute_command", json!({ "command": line }));
    let lines = [
        "git push --force",
        "curl http://127.0.0.1",
        "npm publish",
        "echo fine",
    ];
    let calls: Vec<(&str, Value)> = lines.into_iter().map(run_of).collect();
    let (_, read) = run(&[agent("one", keys, &replies(&calls))], "");
    let denied: Vec<bool> = read.iter().map(|read| read.contains("denied")).collect();
    assert_eq!(denied, [true, true, true, false], "{read:#?}");
}

#[test]
fn a_direct_server_is_called_by_the_model_and_not_by_its_programs() {
    let project = Project::new();
    let given = project.path("given").display().to_string();
    let server = |name: &str| {
        format!(
            "{{name: {name}, command: python3, args: ['{given}/hostile.py'], side_effects: none}}"
        )
    };
    let keys = format!(
        "cwd: w\nenable_code_based_tools: true\ndirect_mcp_servers: [d]\n\
         mcp_servers: [{}, {}]",
        server("d"),
        server("p")
    );
    let program = |name: &str| {
        let code = format!("import workspace_tools as t\nprint(t.mcp__{name}__echo(text='hi'))\n");
        ("execute_code", json!({ "code": code }))
    };
    let calls = [
        ("mcp__d__echo", json!({"text": "hi"})),
        ("mcp__p__echo", json!({"text": "hi"})),
        program("d"),
        program("p"),
    ];
    let agents = [agent("one", &keys, &replies(&calls))];
    let rest = "orchestrator: {context_paths: [given]}";
    let finished = project
        .file("given/hostile.py", HOSTILE)
        .file("team.yaml", team(&agents, rest))
        .args(["--config", "team.yaml", "task"])
        .success();
    let read = call_results(&finished);
    let works = |read: &String| read.contains("hi") && !read.contains("Error");
    assert!(works(&read[0]) && works(&read[3]), "{read:#?}");
    assert!(read[1].contains("do not have the tool"), "{}", read[1]);
    assert!(read[2].contains("has no attribute"), "{}", read[2]);
}

#[test]
fn lists_of_tools_name_those_of_servers_as_well() {
    let server = "{name: h, command: python3, args: ['{{given}}/hostile.py']}";
    let offered = |keys: &str| {
        let project = Project::new();
        let given = project.path("given").display().to_string();
        let keys = format!("mcp_servers: [{server}]\n{keys}").replace("{{given}}", &given);
        let calls = [
            ("mcp__h__echo", json!({"text": "a"})),
            ("mcp__h__where", json!({})),
        ];
        let agents = [agent("one", &keys, &replies(&calls))];
        let finished = project
            .file("given/hostile.py", HOSTILE)
            .file(
                "team.yaml",
                team(&agents, "orchestrator: {context_paths: [given]}"),
            )
            .args(["--config", "team.yaml", "task"])
            .success();
        let read = call_results(&finished);
        let has = |read: &String| !read.contains("there is no tool");
        read.iter().map(has).collect::<Vec<_>>()
    };
    for (keys, expected) in [
        ("", [true, true]),
        ("exclude_tools: [echo]", [false, true]),
        ("exclude_tools: [mcp__h__where]", [true, false]),
        ("allowed_tools: [where]", [false, true]),
        ("allowed_tools: [read_text_file]", [false, false]),
    ] {
        assert_eq!(offered(keys), expected, "{keys}");
    }
}

#[test]
fn a_config_that_is_not_built_in_is_to_be_named_by_its_path() {
    let name = "@examples/basic/multi/three_agents_default";
    let finished = Project::new().args(["--config", name, "go"]).failure(2);
    let stderr = finished.stderr();
    assert!(stderr.contains("name your copy by its path"), "{stderr}");
}
