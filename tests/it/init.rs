//! `massgen init`: the config of a first team, by flags and by answers on a terminal. What it writes
//! passes `massgen config check`, and no file is replaced without approval.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]
#![expect(clippy::print_stdout, reason = "a test says why it has nothing to do")]

use std::fs::{self, Permissions, read_to_string};
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::http_server::{Endpoint, ScriptedResponse};
use crate::project::Project;
use crate::terminal::{CTRL_D, ENTER, Terminal};

/// A key, which nothing may show.
const KEY: &str = "sk-0123456789abcdef0123";
/// The config that runs find.
const FOUND: &str = ".massgen/config.yaml";
/// The first question of the dialogue.
const ENDPOINT_QUESTION: &str =
    "Another endpoint? Its URL, such as http://127.0.0.1:8080/v1 [none]";
/// A config that is there already.
const EXISTING: &str = "# mine\n";

/// Returns a project with three keys: local servers of this machine do not get into its team.
fn with_keys() -> Project {
    ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"]
        .iter()
        .fold(Project::new().dir("src"), |project, name| {
            project.env(name, KEY)
        })
}

/// Returns a project in whose search path there is a program `claude`.
fn with_program(project: Project) -> Project {
    let project = project.file("bin/claude", "#!/bin/sh\n");
    let program = project.path("bin/claude");
    fs::set_permissions(program, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", project.path("bin").display());
    project.env("PATH", path)
}

/// Returns whether a local server of this machine could answer.
fn has_local_server() -> bool {
    let local = [11434, 1234, 8000, 30000];
    let answers = |port: &u16| std::net::TcpStream::connect(("127.0.0.1", *port)).is_ok();
    let found = local.iter().any(answers);
    if found {
        println!("skipped: a local server answers on one of {local:?}");
    }
    found
}

/// Writes a config with these flags, checks it, and returns it.
#[track_caller]
fn write_with(project: Project, flags: &[&str], file: &str) -> String {
    let finished = project.args(["init", "--yes"]).args(flags).success();
    assert_eq!(finished.stdout(), "", "{flags:?}");
    let stderr = finished.stderr();
    assert!(
        stderr.contains(&format!("written: {file}")),
        "{flags:?}: {stderr}"
    );
    let first = if file == FOUND {
        "try it: massgen \"".to_owned()
    } else {
        format!("try it: massgen --config {file} \"")
    };
    assert!(stderr.contains(&first), "{flags:?}: {stderr}");
    let yaml = read_to_string(finished.project().path(file)).unwrap();
    assert!(!yaml.contains(KEY) && !stderr.contains(KEY), "{yaml}");
    let checked = finished.then(["config", "check", file]).success();
    assert_eq!(checked.stdout(), format!("{file}: ok\n"), "{yaml}");
    yaml
}

/// Returns the lines of a config without comments.
fn lines(yaml: &str) -> String {
    let code = yaml
        .lines()
        .filter(|line| !line.is_empty() && !line.trim_start().starts_with('#'));
    code.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_defaults_are_a_commented_team_of_what_is_found() {
    let yaml = write_with(with_keys(), &[], FOUND);
    assert!(
        yaml.lines()
            .filter(|line| line.trim().starts_with('#'))
            .count()
            > 5
    );
    insta::assert_snapshot!(lines(&yaml), @r#"
    agents:
      - id: openai
        backend:
          type: openai
          model: gpt-5-mini
          cwd: workspace1
          enable_mcp_command_line: true
      - id: claude
        backend:
          type: claude
          model: claude-sonnet-5-5
          cwd: workspace2
          enable_mcp_command_line: true
      - id: gemini
        backend:
          type: gemini
          model: gemini-3.8-flash
          cwd: workspace3
          enable_mcp_command_line: true
    orchestrator:
      context_paths:
        - path: "."
          permission: read
    "#);
}

/// Writes the team that these flags describe to `file`, and expects these texts, and not `absent`.
#[track_caller]
fn check_team(flags: &[&str], file: &str, expected: &[&str], absent: &str) {
    let yaml = write_with(with_keys(), flags, file);
    for expected in expected {
        assert!(
            yaml.contains(expected),
            "{flags:?}: no {expected:?}\n{yaml}"
        );
    }
    assert!(
        !lines(&yaml).contains(absent),
        "{flags:?}: {absent}\n{yaml}"
    );
}

#[test]
fn flags_describe_the_team() {
    for (flags, file, expected, absent) in [
        (
            &["-m", "gpt-5"][..],
            FOUND,
            &["model: gpt-5", "path: \".\"", "permission: read"][..],
            "claude",
        ),
        (
            &["-m", "gpt-5", "-m", "gpt-5"],
            FOUND,
            &["id: openai\n", "id: openai2\n"],
            "agent1",
        ),
        (
            &["-b", "ollama", "-m", "qwen3"],
            FOUND,
            &["type: ollama"],
            "base_url",
        ),
        (
            &["-m", "x", "--base-url", "http://127.0.0.1:1/v1"],
            FOUND,
            &["http://127.0.0.1:1/v1"],
            "openai",
        ),
        (
            &["-m", "gpt-5", "--path", "src", "--access", "rw"],
            FOUND,
            &["path: src\n", "permission: write"],
            "permission: read",
        ),
        (
            &["-m", "gpt-5", "--no-path"],
            FOUND,
            &["enable_mcp_command_line: true"],
            "context_paths",
        ),
        (
            &["-m", "gpt-5", "--no-commands"],
            FOUND,
            &["enable_mcp_command_line: false"],
            ": true",
        ),
        (
            &["-m", "gpt-5", "--commands", "-o", "my.yml"],
            "my.yml",
            &["enable_mcp_command_line: true"],
            ": false",
        ),
    ] {
        check_team(flags, file, expected, absent);
    }
}

#[test]
fn a_team_that_reaches_out_of_the_project_needs_a_name() {
    for (flags, expected, absent) in [
        (
            &["-b", "codex"][..],
            &["type: codex"][..],
            "enable_mcp_command_line",
        ),
        (
            &["-b", "codex", "-m", "m", "-m", "second"],
            &["model: second", "workspace2"],
            "gpt",
        ),
        (
            &["-m", "gpt-5", "--path", "/usr/share"],
            &["path: /usr/share"],
            "\".\"",
        ),
        (
            &["-m", "x", "--base-url", "https://models.example/v1"],
            &["https://models.example/v1"],
            "gpt",
        ),
    ] {
        check_team(flags, "team.yaml", expected, absent);
    }
}

#[test]
fn an_endpoint_of_the_environment_becomes_part_of_the_config() {
    let list = r#"{"data":[{"id":"tiny"}]}"#;
    let server = Endpoint::start_with(move |_| ScriptedResponse::whole("200 OK", &[], list));
    let host = server.base_url().trim_end_matches("/v1").to_owned();
    let project = Project::new().env("OLLAMA_HOST", host);
    let yaml = write_with(project, &["--output", "team.yaml"], "team.yaml");
    assert!(yaml.contains("type: ollama"), "{yaml}");
    assert!(yaml.contains("model: tiny"), "{yaml}");
    assert!(yaml.contains(&server.base_url()), "{yaml}");
}

/// Starts a server that lists these models.
fn start_listing(models: &[&str]) -> Endpoint {
    let entries = models.iter().map(|model| json!({"id": model}));
    let list = json!({"data": entries.collect::<Vec<_>>()}).to_string();
    Endpoint::start_with(move |_| ScriptedResponse::whole("200 OK", &[], &list))
}

#[test]
fn an_endpoint_is_asked_for_its_model_and_gets_no_default_of_a_vendor() {
    let (one, several) = (start_listing(&["tiny"]), start_listing(&["tiny", "large"]));
    let url = one.base_url();
    for backend in [&[][..], &["--backend", "openai"]] {
        let flags = [backend, &["--base-url", &url, "-o", "team.yaml"]].concat();
        let yaml = write_with(with_keys(), &flags, "team.yaml");
        assert!(yaml.contains("model: tiny"), "{yaml}");
        assert!(!yaml.contains("gpt"), "{yaml}");
    }
    let flags = ["init", "--yes", "--base-url", &several.base_url()];
    let finished = with_keys().args(flags).failure(2).has_no(FOUND);
    insta::assert_snapshot!(finished.stderr(), @r"
    error: the endpoint has several models: `tiny`, `large`
    hint: add `--model NAME`
    ");
}

#[test]
fn the_dialogue_takes_an_endpoint_that_was_not_found() {
    if has_local_server() {
        return;
    }
    let server = start_listing(&["tiny", "large"]);
    let flags = ["--no-path", "--no-commands", "--output", "team.yaml"];
    let mut terminal = open_dialogue(Project::new(), &flags);
    answer_question(&mut terminal, ENDPOINT_QUESTION, "http://127.0.0.1:1/v1");
    terminal.wait_for_output("is not reachable");
    answer_question(&mut terminal, "Which model?", "");
    answer_question(&mut terminal, ENDPOINT_QUESTION, &server.base_url());
    answer_question(&mut terminal, "Its models: `tiny`, `large`", "large");
    answer_question(&mut terminal, "two agents of this model? [y/N]", "y");
    terminal.wait_for_output("written: team.yaml");
    let project = terminal.wait_for_end(0);
    let yaml = read_to_string(project.path("team.yaml")).unwrap();
    assert_eq!(yaml.matches("model: large").count(), 2, "{yaml}");
    assert!(yaml.contains(&server.base_url()), "{yaml}");
}

#[test]
fn a_local_gateway_of_the_environment_gets_the_key() {
    let gateway = Endpoint::start();
    let project = |key: &str| {
        Project::new()
            .env("OPENAI_API_KEY", key)
            .env("OPENAI_BASE_URL", gateway.base_url())
    };
    let arguments = ["init", "--yes", "--no-path", "--no-commands", "-m", "gpt-5"];
    let finished = project(KEY).args(arguments).success().has_no(FOUND);
    let note = "send no key to a server on this machine";
    assert!(finished.stderr().contains(note), "{}", finished.stderr());
    let finished = finished.then(["--config", "team.yaml", "task"]).success();
    let requests = gateway.server.requests();
    assert_eq!(
        requests[0].headers["authorization"],
        format!("Bearer {KEY}")
    );
    let named = finished
        .then(arguments)
        .args(["--output", FOUND])
        .failure(2);
    let refused = "would send `OPENAI_API_KEY` to `http://";
    assert!(named.stderr().contains(refused), "{}", named.stderr());
    // Control: without a key, runs find the config.
    let finished = project("").args(arguments).success();
    assert!(finished.project().path(FOUND).exists());
}

#[test]
fn wrong_flags_write_nothing() {
    for (flags, code, expected) in [
        (&[][..], 2, "asks on a terminal, and there is none"),
        (&["-m", "gpt-5"], 2, "massgen init --yes --model MODEL"),
        (
            &["--yes", "-m", "unheard-of"],
            2,
            "cannot derive the backend",
        ),
        (
            &["--yes", "-b", "codex", "-m", "m,second"],
            2,
            "`m,second` is not the name of one model",
        ),
        (&["--yes", "-b", "openrouter"], 2, "has no default model"),
        (
            &["--yes", "--base-url", "http://127.0.0.1:1/v1"],
            3,
            "`http://127.0.0.1:1/v1/models` is not reachable",
        ),
        (&["--yes", "-b", "scripted"], 2, "cannot be used with"),
        (
            &["--yes", "--path", "nowhere"],
            2,
            "is not a directory that can be read",
        ),
        (&["--yes", "--path", "/"], 2, "contains your home directory"),
        (
            &["--yes", "--path", "src", "--no-path"],
            2,
            "cannot be used together",
        ),
        (
            &["--yes", "--commands", "--no-commands"],
            2,
            "cannot be used together",
        ),
        (
            &["--yes", "--output", "../team.yaml"],
            4,
            "outside this directory",
        ),
        (&["--yes", "--output", "team.json"], 2, "does not end in"),
        (&["--yes", "--output", "no/team.yaml"], 2, "does not exist"),
        (
            &["--yes", "-b", "codex", "--output", FOUND],
            2,
            "would start the program `codex`",
        ),
        (&["--print", "--force"], 2, "cannot be used together"),
    ] {
        let finished = with_keys().args(["init"]).args(flags).failure(code);
        let stderr = finished.stderr();
        assert!(stderr.contains(expected), "{flags:?}: {stderr}");
        assert!(stderr.contains("\nhint: "), "{flags:?}: {stderr}");
        assert_eq!(finished.stdout(), "", "{flags:?}");
        let _nothing = finished.has_no(FOUND).has_no("team.yaml");
    }
}

#[test]
fn printing_writes_nothing() {
    for arguments in [
        ["init", "--print"],
        ["setup", "--dry-run"],
        ["quickstart", "--print"],
    ] {
        let finished = with_keys().args(arguments).success().has_no(".massgen");
        assert!(finished.stdout().contains("\nagents:\n"), "{arguments:?}");
        let yaml = finished.stdout().to_owned();
        let project = Project::new().file("team.yaml", yaml);
        let _valid = project.args(["config", "check", "team.yaml"]).success();
    }
}

#[test]
fn a_key_that_is_missing_is_named() {
    let arguments = ["init", "--yes", "--model", "gpt-5"];
    let finished = Project::new().args(arguments).success();
    let warning = "warning: `OPENAI_API_KEY` is not set; export OPENAI_API_KEY";
    assert!(finished.stderr().contains(warning), "{}", finished.stderr());
    let control = with_keys().args(arguments).success();
    assert!(
        !control.stderr().contains("warning"),
        "{}",
        control.stderr()
    );
}

#[test]
fn a_damaged_list_of_models_prevents_no_config() {
    let damaged = || with_keys().home_file(".massgen/models.yaml", "models: [");
    let named =
        "warning: ignoring your list of models: `[HOME]/.massgen/models.yaml` cannot be used";
    for flags in [&["-m", "gpt-5"][..], &["-m", "house-1", "-b", "groq"]] {
        let arguments = ["init", "--yes"].iter().chain(flags);
        let finished = damaged().args(arguments).success();
        assert!(finished.stderr().contains(named), "{}", finished.stderr());
        assert!(finished.project().path(FOUND).exists(), "{flags:?}");
    }
    // A model whose name shows no maker needs a flag in any case: a list only suggests it.
    let unknown = ["init", "--yes", "-m", "house-1"];
    let finished = damaged().args(unknown).failure(2).has_no(FOUND);
    assert!(finished.stderr().contains(named), "{}", finished.stderr());
    let message = "cannot derive the backend from the model name `house-1`";
    assert!(finished.stderr().contains(message), "{}", finished.stderr());
    let list = "models: [{name: house-1, vendor: groq, \
        usd_per_million_tokens: {input: 1, output: 2}}]";
    let control = with_keys().home_file(".massgen/models.yaml", list);
    let control = control.args(unknown).failure(2);
    let hint = "add `--backend groq`";
    assert!(control.stderr().contains(hint), "{}", control.stderr());
}

#[test]
fn the_home_directory_is_not_opened() {
    let project = with_keys();
    let home = project.path("");
    let project = project.env("HOME", home);
    let finished = project.args(["init", "--print"]).success();
    assert!(!finished.stdout().contains("context_paths"));
    let finished = finished
        .then(["init", "--yes", "--access", "rw"])
        .failure(2);
    assert!(
        finished.stderr().contains("`--access` needs `--path`"),
        "{}",
        finished.stderr()
    );
    let finished = finished
        .then(["init", "--print", "--path", "src"])
        .success();
    assert!(finished.stdout().contains("path: src\n"));
}

#[test]
fn an_existing_file_is_replaced_only_with_force() {
    let arguments = ["init", "--yes", "--model", "gpt-5"];
    let finished = with_keys().config(EXISTING).args(arguments).failure(2);
    insta::assert_snapshot!(finished.stderr(), @r"
    error: `.massgen/config.yaml` exists already
    hint: replace it: add `--force`
    hint: or write another file: add `--output FILE`
    ");
    let finished = finished.has_file(FOUND, EXISTING);
    let finished = finished.then(arguments).args(["--force"]).success();
    let written = read_to_string(finished.project().path(FOUND)).unwrap();
    assert!(written.contains("model: gpt-5"), "{written}");
}

#[test]
fn init_without_any_model_names_the_ways_to_get_one() {
    if has_local_server() {
        return;
    }
    let finished = Project::new().args(["init", "--yes"]).failure(3);
    insta::assert_snapshot!(finished.stderr(), @r#"
    error: no model found: no API key is set, no local server is running, and neither `claude`, `codex` nor `gemini` is installed
    hint: set an API key in the environment or in `~/.massgen/.env`, such as `OPENAI_API_KEY`, `ANTHROPIC_API_KEY` or `GOOGLE_API_KEY`; `massgen models` names the others
    hint: name the URL of a server that you run: massgen init --yes --base-url http://127.0.0.1:8080/v1
    hint: see it work without an API key: massgen demo
    "#);
    let _nothing = finished.has_no(".massgen");
    let program = with_program(Project::new()).args(["init", "--yes"]);
    let finished = program.failure(3);
    assert!(
        finished
            .stderr()
            .contains("massgen init --yes --backend claude_code"),
        "{}",
        finished.stderr()
    );
    let terminal = Terminal::open(Project::new().env("TERM", "xterm").env("NO_COLOR", "1"), 80);
    terminal.wait_for_output("hint: `massgen init`");
    terminal.wait_for_output("massgen demo");
    let _nothing = terminal.wait_for_end(3);
    let finished = finished
        .then(["init", "--yes", "--backend", "claude_code"])
        .success();
    assert!(
        finished
            .stderr()
            .contains("agents do not see the login of your own"),
        "{}",
        finished.stderr()
    );
}

/// Opens `massgen init` with these flags on a terminal.
fn open_dialogue(project: Project, flags: &[&str]) -> Terminal {
    let project = project.env("TERM", "xterm").env("NO_COLOR", "1");
    Terminal::open(project.args(["init"]).args(flags), 120)
}

/// Answers a question.
#[track_caller]
fn answer_question(terminal: &mut Terminal, question: &str, typed: &str) {
    terminal.wait_for_output(question);
    terminal.type_keys(typed);
    terminal.type_keys(ENTER);
}

#[test]
fn enter_takes_the_default_of_every_question() {
    let mut terminal = open_dialogue(with_program(with_keys()), &[]);
    terminal.wait_for_output("key OPENAI_API_KEY");
    terminal.wait_for_output("program `claude`");
    terminal.wait_for_output("A program works with its own tools");
    answer_question(&mut terminal, ENDPOINT_QUESTION, "");
    answer_question(&mut terminal, "Which take part, by number? [1 2 3]", "");
    answer_question(&mut terminal, "A path, or `none` [.]", "");
    answer_question(&mut terminal, "May the winner write there? [y/N]", "");
    answer_question(
        &mut terminal,
        "May the agents run commands, in a sandbox? [Y/n]",
        "",
    );
    terminal.wait_for_output("written: .massgen/config.yaml");
    terminal.wait_for_output("try it: massgen \"Describe this project\"");
    assert!(
        !terminal.all_output().contains(KEY),
        "{}",
        terminal.all_output()
    );
    assert!(
        terminal.all_output().contains("id: openai"),
        "{}",
        terminal.all_output()
    );
    let finished = terminal
        .wait_for_end(0)
        .retyped(["init", "--yes", "--print"])
        .success();
    let _same = finished.then(["config", "check", FOUND]).success();
}

/// Checks that the list of what is found has this line.
#[track_caller]
fn check_found(project: Project, line: &str) {
    let finished = project
        .args(["init", "--print", "--model", "gpt-5"])
        .success();
    assert!(
        !finished.stderr().contains("Found:"),
        "what is named is not searched for: {}",
        finished.stderr()
    );
    let finished = finished.then(["init", "--print"]).success();
    let stderr = finished.stderr();
    assert!(stderr.starts_with("Found:\n"), "{stderr}");
    assert!(
        stderr.lines().any(|shown| shown.trim_end().ends_with(line)),
        "no {line:?}: {stderr}"
    );
    assert!(!stderr.contains(KEY), "{stderr}");
    assert!(!finished.stdout().contains(KEY), "{}", finished.stdout());
}

#[test]
fn init_lists_detected_keys_and_programs_with_their_consequences() {
    let one_key = || Project::new().env("OPENAI_API_KEY", KEY);
    let program = || with_program(one_key());
    check_found(one_key(), "gpt-5-mini, key OPENAI_API_KEY");
    check_found(one_key(), "no agent sees a model's key.");
    check_found(program(), "program `claude`, no API key and no token");
    check_found(program(), "which it and its commands can read.");
    check_found(
        program().env("CLAUDE_CODE_OAUTH_TOKEN", KEY),
        "program `claude`, token CLAUDE_CODE_OAUTH_TOKEN",
    );
    check_found(
        program().env("ANTHROPIC_API_KEY", KEY),
        "program `claude`, key ANTHROPIC_API_KEY",
    );
    let login = || one_key().home_file(".claude/.credentials.json", KEY);
    check_found(
        login(),
        "login of `claude` in `~/.claude/.credentials.json`",
    );
    check_found(login(), "setup-token` as `CLAUDE_CODE_OAUTH_TOKEN`.");
    let codex = one_key().file("codex/auth.json", KEY);
    let directory = codex.path("codex");
    check_found(
        codex.env("CODEX_HOME", directory),
        "login of `codex` in `[PROJECT]/codex/auth.json`",
    );
}

#[test]
fn a_login_alone_is_named_and_not_used() {
    if has_local_server() {
        return;
    }
    let project = Project::new().home_file(".codex/auth.json", KEY);
    let finished = project.args(["init", "--yes"]).failure(3);
    let hint = "hint: login of `codex` in `~/.codex/auth.json` is not used: agents do not see";
    assert!(finished.stderr().contains(hint), "{}", finished.stderr());
    assert!(!finished.stderr().contains(KEY), "{}", finished.stderr());
}

#[test]
fn one_key_makes_one_agent_or_two() {
    if has_local_server() {
        return;
    }
    let one_key = || Project::new().env("OPENAI_API_KEY", KEY);
    for (typed, has_second) in [("", false), ("y", true)] {
        let mut terminal = open_dialogue(one_key(), &["--no-path", "--no-commands"]);
        answer_question(&mut terminal, ENDPOINT_QUESTION, "");
        terminal.wait_for_output("Two agents of one model make a team");
        answer_question(&mut terminal, "two agents of this model? [y/N]", typed);
        terminal.wait_for_output("written: .massgen/config.yaml");
        let project = terminal.wait_for_end(0);
        let yaml = read_to_string(project.path(FOUND)).unwrap();
        assert!(yaml.contains("id: openai\n"), "{yaml}");
        assert_eq!(yaml.contains("id: openai2\n"), has_second, "{yaml}");
    }
    let finished = one_key().args(["init", "--yes"]).success();
    let hint = "massgen init --yes --backend openai --model gpt-5-mini --model gpt-5-mini";
    assert!(finished.stderr().contains(hint), "{}", finished.stderr());
    let yaml = read_to_string(finished.project().path(FOUND)).unwrap();
    assert!(!yaml.contains("openai2"), "{yaml}");
}

#[test]
fn answers_are_checked_and_used() {
    let project = with_program(with_keys()).file("team.yaml", EXISTING);
    let mut terminal = open_dialogue(project, &[]);
    answer_question(&mut terminal, ENDPOINT_QUESTION, "none");
    answer_question(&mut terminal, "by number?", "9");
    answer_question(&mut terminal, "type numbers from 1 to", "");
    let written = terminal.all_output();
    let number = written
        .split("program `claude`")
        .next()
        .unwrap()
        .lines()
        .last()
        .unwrap();
    let number = number.split_whitespace().next().unwrap().to_owned();
    drop(terminal);

    let project = with_program(with_keys()).file("team.yaml", EXISTING);
    let mut terminal = open_dialogue(project, &[]);
    answer_question(&mut terminal, ENDPOINT_QUESTION, "none");
    answer_question(&mut terminal, "by number?", &format!("1, 1 {number}"));
    answer_question(&mut terminal, "A path, or `none` [.]", "nowhere");
    answer_question(&mut terminal, "`nowhere` is not a directory", "src");
    answer_question(
        &mut terminal,
        "May the winner write there? [y/N]",
        "perhaps",
    );
    answer_question(&mut terminal, "type y or n, then Enter", "y");
    answer_question(&mut terminal, "in a sandbox? [Y/n]", "n");
    terminal.wait_for_output("id: openai2");
    // A program makes a name necessary, and a file has it already.
    answer_question(&mut terminal, "`team.yaml` exists. Replace it? [y/N]", "");
    terminal.wait_for_output("nothing was written");
    let project = terminal.wait_for_end(0);
    assert_eq!(read_to_string(project.path("team.yaml")).unwrap(), EXISTING);

    let mut terminal = open_dialogue(
        project.retyped::<&str>([]),
        &["-b", "claude_code", "--no-path"],
    );
    answer_question(&mut terminal, "`team.yaml` exists. Replace it? [y/N]", "y");
    terminal.wait_for_output("try it: massgen --config team.yaml \"Describe this project\"");
    let checked = terminal
        .wait_for_end(0)
        .retyped(["config", "check", "team.yaml"])
        .success();
    let yaml = read_to_string(checked.project().path("team.yaml")).unwrap();
    assert!(yaml.contains("type: claude_code"), "{yaml}");
    assert!(!yaml.contains("openai"), "{yaml}");
}

#[test]
fn an_end_of_the_input_writes_nothing() {
    let mut terminal = open_dialogue(with_keys(), &["--model", "gpt-5"]);
    answer_question(&mut terminal, "two agents of this model? [y/N]", "");
    terminal.wait_for_output("A path, or `none` [.]");
    terminal.type_keys(CTRL_D);
    terminal.wait_for_output("nothing was written");
    let project = terminal.wait_for_end(130);
    assert!(!project.path(".massgen").exists());
}
