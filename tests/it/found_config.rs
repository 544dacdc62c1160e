//! A config that was discovered in the project rather than named, run by the real binary: no key is
//! sent to a server on this machine, and a pipeline stays in the directory in which it is started.

use std::path::Path;
use std::process::Command;

use crate::http_server::Endpoint;
use crate::project::{FinishedCommand, Project};

/// The key of the tests; nothing else contains this string.
const KEY: &str = "sk-the-users-own-key";

/// Returns a team of one agent that asks `endpoint`, with `more` in its backend.
fn team(endpoint: &Endpoint, vendor: &str, host: &str, more: &str) -> String {
    let base_url = endpoint.base_url().replace("127.0.0.1", host);
    format!(
        "agents:\n  - {{id: a, backend: {{type: {vendor}, model: m, base_url: '{base_url}'{more}}}}}\n"
    )
}

fn with_keys(project: Project) -> Project {
    project
        .env("OPENAI_API_KEY", KEY)
        .env("ANTHROPIC_API_KEY", KEY)
        .env("VLLM_API_KEY", KEY)
}

/// Returns whether any request to `endpoint` contained the key, and checks that there was one.
#[track_caller]
fn was_sent_the_key(endpoint: &Endpoint, finished: &FinishedCommand) -> bool {
    let requests = endpoint.server.requests();
    assert!(!requests.is_empty(), "{}", finished.stderr());
    let mut requests = requests.iter();
    requests.any(|request| request.headers.values().any(|value| value.contains(KEY)))
}

#[test]
fn a_server_on_this_machine_gets_no_key_from_a_found_config() {
    for (vendor, host) in [
        ("chatcompletion", "127.0.0.1"),
        ("chatcompletion", "localhost"),
        ("chatcompletion", "x.localhost"),
        ("chatcompletion", "api.openai.com.localhost"),
        ("vllm", "0.0.0.0"),
        ("vllm", "[::ffff:127.0.0.1]"),
    ] {
        let endpoint = Endpoint::start();
        let project = with_keys(Project::new()).config(&team(&endpoint, vendor, host, ""));
        let finished = project.args(["say hello"]).run();
        assert!(!was_sent_the_key(&endpoint, &finished), "{vendor} {host}");
    }
}

#[test]
fn a_named_config_sends_the_key_where_it_says() {
    for (vendor, more) in [
        ("chatcompletion", ""),
        ("vllm", ""),
        ("chatcompletion", ", api_key: '${ANTHROPIC_API_KEY}'"),
    ] {
        let endpoint = Endpoint::start();
        let yaml = team(&endpoint, vendor, "localhost", more);
        let project = with_keys(Project::new()).file("team.yaml", yaml);
        let finished = project.args(["--config", "team.yaml", "say hello"]).run();
        assert!(was_sent_the_key(&endpoint, &finished), "{vendor} {more}");
    }
}

#[test]
fn a_found_config_names_no_key_for_a_server_on_this_machine() {
    let endpoint = Endpoint::start();
    let more = ", api_key: '${ANTHROPIC_API_KEY}'";
    let yaml = team(&endpoint, "chatcompletion", "127.0.0.1", more);
    let finished = with_keys(Project::new())
        .config(&yaml)
        .args(["say hello"])
        .run();
    assert!(
        finished
            .stderr()
            .contains("found in the project rather than named")
    );
    assert!(finished.stderr().contains("add `--config"));
    assert_eq!(endpoint.server.requests().len(), 0);
}

fn git(directory: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .current_dir(directory)
        .args(["-c", "user.name=x", "-c", "user.email=x@example.org"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// Runs a pipeline of one role in `project`, whose config has `line` under `workflow`.
fn run_pipeline(project: Project, line: &str) -> FinishedCommand {
    let yaml = format!(
        "workflow: {{type: pipeline, stages: [implementer], max_iterations: 1{line}}}\n\
         agents:\n  - {{id: a, backend: {{type: scripted, replies: [{{text: done, repeat: true}}]}}}}\n"
    );
    project.config(&yaml).args(["do it"]).run()
}

#[test]
fn a_pipeline_of_a_found_config_stays_in_the_project() {
    let project = || {
        let project = Project::new()
            .dir("sub")
            .home_file("other/a.txt", "private");
        for root in [project.path(""), project.home("other")] {
            git(&root, &["init", "-q"]);
            git(&root, &["add", "-A"]);
            git(&root, &["commit", "-q", "--allow-empty", "-m", "x"]);
        }
        project
    };
    let outside = |finished: &FinishedCommand| {
        finished
            .stderr()
            .contains("found in the project rather than named")
    };
    for line in [
        ", project: ~/other",
        ", workspace: /tmp/checkouts",
        ", project: ../home/other",
    ] {
        let finished = run_pipeline(project(), line);
        assert!(outside(&finished), "{line}\n{}", finished.stderr());
    }
    for line in ["", ", project: auto", ", project: none", ", project: ."] {
        let finished = run_pipeline(project(), line);
        assert!(!outside(&finished), "{line}\n{}", finished.stderr());
    }
}

#[test]
fn a_found_config_does_not_open_the_repository_around_its_directory() {
    let project = Project::new();
    let outer = project.path("..").canonicalize().unwrap();
    git(&outer, &["init", "-q"]);
    git(&outer, &["commit", "-q", "--allow-empty", "-m", "x"]);
    let finished = run_pipeline(project, "");
    let stderr = finished.stderr();
    assert!(stderr.contains("is not in this directory"), "{stderr}");
}

#[test]
fn a_file_of_a_project_does_not_take_the_name_of_a_users_own_config() {
    let says = |word: &str| {
        format!(
            "agents: [{{id: a, backend: {{type: scripted, replies: [{{text: {word}, repeat: true}}]}}}}]\n"
        )
    };
    let named = |project: Project, name: &str| project.args(["--config", name, "task"]);
    for (here, name) in [
        ("team.yaml", "team"),
        (".massgen/team.yaml", "team"),
        ("team.yaml", "team.yaml"),
    ] {
        let both = || {
            Project::new()
                .file(here, says("theirs"))
                .home_file(".massgen/configs/team.yaml", says("own"))
        };
        let refused = named(both(), name).failure(2);
        let stderr = refused.stderr();
        assert!(
            stderr.contains(&format!("`{name}` is ambiguous: `{here}`")),
            "{stderr}"
        );
        assert!(stderr.contains(&format!("--config ./{here}")), "{stderr}");
        // Either is selected by its path.
        let theirs = named(both(), &format!("./{here}")).success();
        assert_eq!(theirs.stdout(), "theirs\n");
        let own = named(both(), "~/.massgen/configs/team.yaml").success();
        assert_eq!(own.stdout(), "own\n");
    }
    // Control: a single one is found by its name.
    // The run says which file that is, unless it was typed so.
    for (here, name, line) in [
        ("team.yaml", "team", "config: team.yaml\n"),
        (".massgen/team.yaml", "team", "config: .massgen/team.yaml\n"),
        ("team.yaml", "team.yaml", ""),
    ] {
        let alone = Project::new().file(here, says("theirs"));
        let ran = named(alone, name).success();
        assert_eq!(ran.stdout(), "theirs\n");
        let stderr = ran.stderr();
        assert_eq!(stderr.contains("config: "), !line.is_empty(), "{stderr}");
        assert!(stderr.contains(line), "{stderr}");
    }
    let alone = Project::new().home_file(".massgen/configs/team.yaml", says("own"));
    let own = named(alone, "team").success();
    assert_eq!(own.stdout(), "own\n");
    assert!(
        own.stderr().contains("/.massgen/configs/team.yaml\n"),
        "{}",
        own.stderr()
    );
    // The name of a built-in config is ambiguous too.
    let built_in = Project::new().file(".massgen/basic/two_agents.yaml", says("theirs"));
    let refused = named(built_in, "basic/two_agents").failure(2);
    let stderr = refused.stderr();
    assert!(stderr.contains("@examples/basic/two_agents"), "{stderr}");
}
