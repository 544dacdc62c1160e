//! The command line: help, usage errors, exit statuses, and streams that are terminals, pipes or
//! closed.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use crate::project::{Finished, Project};

/// Expects a usage error with this text.
#[track_caller]
fn check_usage(words: &[&str], expected: &str) {
    let finished = Project::new().args(words).failure(2);
    assert_eq!(finished.stdout(), "", "{words:?}");
    assert_eq!(finished.stderr(), expected, "{words:?}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "the help is one text")]
fn help_names_every_flag() {
    let finished = Project::new().args(["--help"]).success();
    insta::assert_snapshot!(finished.stdout(), @r#"
    Lets several LLM agents work on one task, vote, and deliver the winner's files.

    Usage: massgen [OPTIONS] TASK [-]
           massgen [OPTIONS]            (types a session on a terminal)
           massgen COMMAND

    Commands:
      config       Checks, lists and shows team configs
      models       Lists the models that are known, with what they hold and what they cost
      explain      Says what agents may do and why, without doing it
      tool         Carries out one tool call as an agent would, through the same gate
      sandbox      Runs one command as an agent would, on your own standard streams; its exit status is
                   that of massgen
      mcp          Offers massgen to other agents, as a server of the Model Context Protocol; signs you
                   in at servers of others
      hook         Answers other programs that ask before they call a tool
      logs         Lists, shows, follows and packs the records of runs
      sessions     Lists, shows, resumes, forks, packs, takes in and removes sessions
      diff         Shows what a run delivered, or would deliver
      apply        Applies what was not taken of a delivery, or the answer of another agent
      undo         Takes a delivery back
      replay       Plays a recorded run again through this version, offline, and compares what agents
                   decide
      roles        Prints what the roles of a pipeline may do, and where
      branches     Lists the branches of a pipeline of roles, with where their files are
      log          Lists what the roles of a pipeline have done, the newest first
      revert       Takes all work of a role out of what the roles of a pipeline share
      reset        Has a role of a pipeline start afresh, with nothing of its own left
      schema       Prints the schemas of what scripts read
      doctor       Tries what a run needs; says what is missing and what to do about it
      selftest     Tries attacks and ordinary work against the sandbox of this machine; nothing is left
      docker       Builds the image that agents' containers are made from
      completions  Prints a completion script, for example `massgen completions bash`
      man          Prints the manual pages, for example `massgen man | man -l -`

    Arguments:
      [TASK]...
              The task, quoted as one argument; a further `-` appends standard input to it, and `-`
              alone is standard input as the task

    Options:
      -c, --config <FILE>
              The team: a YAML file, or `@examples/NAME` for one that is built in. Default:
              `config.yaml` in `.massgen`, `~/.massgen/configs` or `~/.config/massgen`, and without one
              a team from the keys in the environment and the local servers that answer

      -m, --model <MODEL>
              The model of a team of one agent. Default: the backend's own

      -b, --backend <TYPE>
              The backend type of a team of one agent. Default: the one that the model's name tells

          --base-url <URL>
              The endpoint of a team of one agent. Default: the backend's own

          --system-message <TEXT>
              What a team of one agent is told beside the task. Default: nothing

          --cwd-context <ACCESS>
              Opens the current directory to the agents, for reading (`ro`) or so that the final agent
              may also write (`rw`). Default: closed unless the config opens it

              Possible values:
              - ro: For reading
              - rw: For reading, and for writing in the final phase

      -o, --output-file <FILE>
              A file that the final answer is also written to. Default: none

          --output-format <FORMAT>
              What standard output gets. Default: `text`

              Possible values:
              - text:        The answer alone
              - json:        One JSON object, when the run has ended
              - stream-json: One JSON object a line, as things happen; the last says how the run ended

          --automation
              Prints only `KEY: value` lines for scripts on standard output. Default: off

          --orchestrator-timeout <SECONDS>
              The time for the whole run, in seconds. Default: the config's, or 1800

          --rate-limit <[TYPE[/MODEL]=]N>
              How often vendors may be asked in a minute, all agents together: requests, or tokens with
              `tpm` after the number. Holds beside the config's `rate_limits`. Default: the config's

          --sandbox <TIER>
              What holds local commands of all agents to their grants: `auto`, `A`, `B`, `C`, or `off`
              for nothing. Default: what the config says, else `auto`

          --max-cost-usd <DOLLARS>
              US dollars that the run may cost; it replaces the limit of the config, higher or lower.
              When they are spent, the best answer so far is the result, and the exit status is 5.
              Default: the config's, or any

          --max-tokens-total <COUNT>
              Tokens of requests and replies that the run may use, in the same way. Default: the
              config's, or any

          --max-tool-calls <COUNT>
              Tool calls that the run may make, in the same way. Default: the config's, or any

      -y, --yes
              Applies what the final agent delivers unasked, whatever `delivery` in the config says.
              Default: as the config says

          --ask-file <SOCKET>
              Asks the program that listens at this socket about calls that `permissions` has asked,
              instead of whoever sits at the terminal. Default: the terminal; without one, such calls
              are denied

          --answers <FILE>
              A file with what you would answer if the pipeline of the config asked you about the task:
              any text, of which all roles are told as it is. Default: you are asked at the terminal;
              without one, assumptions hold

          --models <FILE>
              The file of what models cost. Default: `~/.massgen/models.yaml`, if it is there

          --continue
              Goes on with the session of this directory that was used last: the agents know its turns,
              begin with the files of the last one, and may use the paths that it opened. Without a task
              it goes on with the last run, if that was broken off. Default: a new session

          --session-id <ID>
              Goes on with this session, in the same way: its id, the beginning of it, or `last`.
              Default: a new session

          --screen-reader
              Shows a session that is typed in plain lines that are never drawn anew, and lists paths
              after Tab. Default: off, unless `MASSGEN_SCREEN_READER` is set

          --debug
              Logs every detail, in `massgen_debug.log` in the run's log directory. Default: off

          --dry-run
              Shows the team, the grants of every agent in both phases and what each model would first
              be sent, or of a pipeline its roles, its project and its course, and calls nobody.
              Default: off

          --permissions
              Does what `massgen roles` does, for the config of `--config`, if there is one

          --branches
              Does what `massgen branches` does

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      massgen --config team.yaml "Add a --verbose flag to @src/:w"
      massgen --config @examples/basic/offline_demo "write a hello program"
      massgen --backend ollama --model qwen3 "Why is the sky blue?" > answer.txt
      git diff | massgen "Review this change" -
      massgen --config team.yaml --dry-run "Tidy up @docs/:w"
      massgen --config team.yaml --max-cost-usd 0.50 "Find the bug in @src/"
      massgen --config team.yaml --output-format json "Review @src/" | jq -r .answer
      massgen -- explain        (a task that is also the name of a subcommand)

    Exit status: 0 delivered, 1 no answer, 2 usage or config, 3 environment, 4 denied by permissions,
    5 a limit was met, 70 a bug of massgen, 130 interrupted.
    "#);
}

#[test]
fn the_version_is_one_line() {
    let finished = Project::new().args(["--version"]).success();
    assert_eq!(
        finished.stdout(),
        concat!("massgen ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn usage_errors_say_what_to_do() {
    let help = "hint: `massgen --help` shows what can be typed\n";
    check_usage(
        &["--modle", "x", "task"],
        &format!(
            "error: `--modle` is not a flag that is known here\nhint: did you mean `--model`?\n{help}"
        ),
    );
    check_usage(
        &["--cwd-context", "all", "task"],
        &format!("error: `all` is no value of `--cwd-context`: expected one of `ro`, `rw`\n{help}"),
    );
    check_usage(
        &["--orchestrator-timeout", "0", "task"],
        &format!(
            "error: `0` is no value of `--orchestrator-timeout`: expected whole seconds, at least 1\n\
             {help}"
        ),
    );
    check_usage(
        &["--orchestrator-timeout", "-1", "task"],
        &format!(
            "error: `-1` is no value of `--orchestrator-timeout`: expected whole seconds, at least 1\n\
             {help}"
        ),
    );
    check_usage(
        &["--config", "a", "--model", "b", "task"],
        &format!("error: `--config` and `--model` exclude each other\n{help}"),
    );
    check_usage(
        &["--config"],
        &format!("error: `--config` needs a value\n{help}"),
    );
    check_usage(
        &["config", "shwo"],
        "error: `shwo` is not a subcommand that is known here\n\
         hint: did you mean `show`?\n\
         hint: `massgen config --help` shows what can be typed\n",
    );
    check_usage(
        &["fix", "the", "bug"],
        "error: the task is more than one argument\n\
         hint: put it in quotes: massgen \"fix the bug\"\n",
    );
    check_usage(
        &["--config", "team.yaml", "explain"],
        "error: the subcommand `explain` cannot follow the flags of a run\n\
         hint: write it first: `massgen explain`\n\
         hint: if it is the task, write `massgen -- explain`\n",
    );
}

#[test]
fn without_a_task_an_example_is_shown() {
    check_usage(
        &[],
        "error: there is no task\n\
         hint: give one, in quotes: massgen --config @examples/basic/offline_demo \
         \"write a hello program\"\n\
         hint: `massgen --help` shows what can be typed\n",
    );
}

#[test]
fn flags_of_the_peer_that_are_not_served_name_what_to_do_instead() {
    check_usage(
        &["--web", "task"],
        "error: `--web` is not in this version of massgen\n\
         hint: follow the run on the terminal, or with `--automation` through its `status.json`\n",
    );
    check_usage(
        &["--interactive"],
        "error: `--interactive` is not in this version of massgen\n\
         hint: give the whole task at once, and the next one with `--continue`\n",
    );
    check_usage(
        &["serve"],
        "error: `serve` is not in this version of massgen\n\
         hint: follow the run on the terminal, or with `--automation` through its `status.json`\n\
         hint: if it is the task, write `massgen -- serve`\n",
    );
}

#[test]
fn words_that_are_not_text_are_refused() {
    let finished = Project::new()
        .args([OsStr::from_bytes(b"caf\xe9")])
        .failure(2);
    assert_eq!(
        finished.stderr(),
        "error: the argument `caf\u{fffd}` is not UTF-8\n\
         hint: give paths and tasks as UTF-8 text\n"
    );
    let finished = Project::new().args(["-"]).stdin(b"\xff\xfe").failure(2);
    assert!(
        finished
            .stderr()
            .starts_with("error: standard input is not UTF-8 text\n")
    );
}

#[test]
fn an_environment_that_is_not_text_is_passed_over() {
    let project = Project::new().env("ODD", OsStr::from_bytes(b"\xff"));
    let _finished = project.args(["--version"]).success();
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let project = Project::new().args(["completions", "bash"]);
    let mut command = project.command();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut first = String::new();
    BufReader::with_capacity(64, child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    let status = child.wait().unwrap();
    let mut stderr = String::new();
    child.stderr.unwrap().read_to_string(&mut stderr).unwrap();
    assert!(!first.is_empty());
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_full_disk_is_an_error() {
    let project = Project::new().args(["completions", "bash"]);
    let mut command = project.command();
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = command.stdin(Stdio::null()).stdout(full).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(
        stderr.starts_with("error: the result could not be written"),
        "{stderr}"
    );
}

#[test]
fn closed_streams_are_no_panic() {
    let script = "\"$0\" --version >&- 2>&-; echo $?; \"$0\" --nonsense >&- 2>&-; echo $?";
    let project = Project::new();
    let binary = project.command().get_program().to_owned();
    let mut shell = std::process::Command::new("sh");
    let output = shell
        .args([OsStr::new("-c"), OsStr::new(script), &binary])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "0\n2\n");
}

#[test]
fn colours_are_for_terminals_whose_user_wants_them() {
    let typed = || Project::new().args(["--nonsense"]).env("TERM", "xterm");
    let red = "\u{1b}[31merror\u{1b}[0m: ";
    let on_terminal = typed().on_terminal();
    assert!(
        on_terminal.stdout().contains(red),
        "{:?}",
        on_terminal.stdout()
    );
    assert_eq!(on_terminal.code(), Some(2));
    let unwanted = typed().env("NO_COLOR", "1").on_terminal();
    assert!(
        unwanted.stdout().starts_with("error: "),
        "{:?}",
        unwanted.stdout()
    );
    let dumb = typed().env("TERM", "dumb").on_terminal();
    assert!(dumb.stdout().starts_with("error: "), "{:?}", dumb.stdout());
    let piped = typed().failure(2);
    assert!(
        piped.stderr().starts_with("error: "),
        "{:?}",
        piped.stderr()
    );
}

/// A config with an error on its third line.
const BAD_CONFIG: &str = "agents:\n  - id: a\n    backend: {type: scripted, modle: x}\n";

#[test]
fn configs_are_checked_one_after_another() {
    let typed = |words: &[&str]| {
        let project = Project::new().file("bad.yaml", BAD_CONFIG);
        project.args(["config", "check"]).args(words)
    };
    let both = typed(&["@examples/basic/two_agents", "bad.yaml"]).failure(2);
    let (first, rest) = both.stdout().split_once('\n').unwrap();
    assert_eq!(first, "@examples/basic/two_agents: ok");
    assert!(
        rest.contains("unknown key `modle`") && rest.contains(" --> bad.yaml:3:"),
        "{rest}"
    );
    let _finished = typed(&["@examples/basic/two_agents"]).success();
    let missing = typed(&["nowhere.yaml"]).failure(2);
    assert!(
        missing
            .stdout()
            .starts_with("error: there is no config `nowhere.yaml`\n")
    );

    let json = typed(&["--json", "bad.yaml", "nowhere.yaml"]).failure(2);
    let lines: Vec<serde_json::Value> = json
        .stdout()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |key: &str| {
        lines
            .iter()
            .map(|line| line[key].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("file"), ["bad.yaml", "nowhere.yaml"]);
    assert_eq!(of("valid"), [false, false]);
}

#[test]
fn built_in_configs_are_listed_and_shown() {
    let list = Project::new().args(["config", "examples"]).success();
    let names = list.stdout().lines().filter(|line| !line.starts_with(' '));
    let mut count = 0;
    for name in names {
        let shown = Project::new().args(["config", "show", name]).success();
        assert!(
            shown.stdout().contains("agents:") || shown.stdout().contains("agent:"),
            "{name}"
        );
        count += 1;
    }
    assert!(count >= 5, "{}", list.stdout());
    let unknown = Project::new()
        .args(["config", "show", "basic/two_agent"])
        .failure(2);
    assert!(
        unknown
            .stderr()
            .starts_with("error: no config `basic/two_agent` is built in\nhint: did you")
    );
    let schema = Project::new().args(["config", "schema"]).success();
    let schema: serde_json::Value = serde_json::from_str(schema.stdout()).unwrap();
    assert!(schema["properties"]["agents"].is_object());
}

#[test]
fn a_config_that_cannot_be_run_starts_nothing() {
    let run = |project: Project, words: &[&str]| project.args(words).failure(2).has_no(".massgen");
    let bad = run(
        Project::new().file("bad.yaml", BAD_CONFIG),
        &["--config", "bad.yaml", "task"],
    );
    assert!(
        bad.stderr()
            .contains("error: `bad.yaml` cannot be run: it has "),
        "{}",
        bad.stderr()
    );
    let missing = run(Project::new(), &["--config", "offline_demo", "task"]);
    let expected = "error: there is no config `offline_demo`\n\
                    hint: did you mean `--config @examples/basic/offline_demo.yaml`?\n";
    assert!(
        missing.stderr().starts_with(expected),
        "{}",
        missing.stderr()
    );
}

#[test]
fn a_directory_is_no_config() {
    let finished = Project::new()
        .dir("teams")
        .args(["--config", "teams", "task"])
        .failure(2);
    insta::assert_snapshot!(finished.stderr(), @r"
    error: `[PROJECT]/teams` is a directory, and a config is a file
    hint: name the file in it
    ");
}

#[test]
fn an_output_file_that_cannot_be_written_is_told_before_the_run() {
    #[track_caller]
    fn check(file: &str, expected: &str) {
        let finished = Project::new()
            .args(["--config", "@examples/basic/offline_demo", "hello", "-o"])
            .args([file])
            .failure(3);
        assert_eq!(finished.stderr(), expected);
        let _untouched = finished.has_no(".massgen");
    }

    check(
        "missing/answer.txt",
        "error: cannot write `[PROJECT]/missing/answer.txt`\n\
         caused by: No such file or directory (os error 2)\n\
         hint: check that the directory exists\n",
    );
    check(
        ".",
        "error: cannot write `[PROJECT]`\ncaused by: is a directory\nhint: a file is expected\n",
    );
}

#[test]
fn a_mention_does_not_open_a_whole_home() {
    for task in ["tidy @~/", "tidy @/:w"] {
        let words = ["--config", "@examples/basic/two_agents", task];
        let finished = Project::new().args(words).failure(2).has_no(".massgen");
        assert!(
            finished
                .stderr()
                .starts_with("error: the task would open all of `"),
            "{task}"
        );
    }
}

#[test]
fn a_mention_that_leads_nowhere_is_told() {
    let words = [
        "--config",
        "@examples/basic/two_agents",
        "--dry-run",
        "fix @gone.rs for @alice",
    ];
    let finished = Project::new()
        .args(words)
        .env("OPENAI_API_KEY", "k")
        .env("GEMINI_API_KEY", "k")
        .success();
    assert_eq!(
        warnings(&finished),
        ["warning: `[PROJECT]/gone.rs` is mentioned and does not exist"]
    );
}

#[test]
fn a_dry_run_tells_that_a_key_is_missing() {
    let words = ["--config", "@examples/basic/single_agent", "--dry-run"];
    let finished = Project::new().args(words).args(["why?"]).success();
    assert_eq!(
        warnings(&finished),
        [
            "warning: a run would end at once: no key for `chatcompletion`: `OPENAI_API_KEY` is not \
             set"
        ]
    );
}

fn warnings(finished: &Finished) -> Vec<&str> {
    finished
        .stderr()
        .lines()
        .filter(|line| line.starts_with("warning: "))
        .collect()
}

#[test]
fn keys_are_found_in_env_files_and_never_shown() {
    let secret = "sk-very-secret";
    let project = Project::new()
        .file(
            ".env",
            format!("XAI_API_KEY={secret}\nnot a variable {secret}\n"),
        )
        .home_file(".massgen/.env", "XAI_API_KEY=other\nGROQ_API_KEY=\"g\"\n");
    let finished = project.args(["--dry-run", "why?"]).run();
    let stderr = finished.stderr();
    assert!(
        stderr.contains("XAI_API_KEY") && stderr.contains("GROQ_API_KEY"),
        "{stderr}"
    );
    assert_eq!(
        warnings(&finished),
        ["warning: `[PROJECT]/.env:2` is not `NAME=value`: the line is skipped"]
    );
    assert!(!stderr.contains(secret) && !finished.stdout().contains(secret));
}

#[test]
fn without_key_and_server_the_way_out_is_told() {
    let local = [11434, 1234, 8000, 30000];
    if local
        .iter()
        .any(|port| std::net::TcpStream::connect(("127.0.0.1", *port)).is_ok())
    {
        println!("skipped: a local server answers on one of {local:?}");
        return;
    }
    let finished = Project::new().args(["why?"]).failure(3).has_no(".massgen");
    insta::assert_snapshot!(finished.stderr(), @r#"
    error: no model can be asked: no key is set, and no local server answers
    hint: set a key, for example `export OPENAI_API_KEY=…`, or write it into `~/.massgen/.env`
    hint: without a key: massgen --config @examples/basic/offline_demo "write a hello program"
    "#);
}

#[test]
fn completions_and_manual_know_every_subcommand() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = Project::new().args(["completions", shell]).success();
        assert!(script.stdout().contains("orchestrator-timeout"), "{shell}");
    }
    let manual = Project::new().args(["man"]).success();
    let titles: Vec<&str> = manual
        .stdout()
        .lines()
        .filter_map(|line| line.strip_prefix(".TH ")?.split_whitespace().next())
        .collect();
    assert_eq!(
        titles,
        [
            "massgen",
            "massgen-config",
            "massgen-config-check",
            "massgen-config-examples",
            "massgen-config-show",
            "massgen-config-schema",
            "massgen-models",
            "massgen-explain",
            "massgen-explain-path",
            "massgen-explain-command",
            "massgen-explain-prompt",
            "massgen-explain-calls",
            "massgen-tool",
            "massgen-sandbox",
            "massgen-mcp",
            "massgen-mcp-serve",
            "massgen-mcp-orchestrate",
            "massgen-mcp-login",
            "massgen-mcp-logout",
            "massgen-mcp-workflow",
            "massgen-hook",
            "massgen-hook-pre-tool-use",
            "massgen-logs",
            "massgen-logs-list",
            "massgen-logs-show",
            "massgen-logs-follow",
            "massgen-logs-export",
            "massgen-sessions",
            "massgen-sessions-list",
            "massgen-sessions-show",
            "massgen-sessions-resume",
            "massgen-sessions-fork",
            "massgen-sessions-export",
            "massgen-sessions-import",
            "massgen-sessions-prune",
            "massgen-sessions-delete",
            "massgen-diff",
            "massgen-apply",
            "massgen-undo",
            "massgen-replay",
            "massgen-roles",
            "massgen-branches",
            "massgen-log",
            "massgen-revert",
            "massgen-reset",
            "massgen-schema",
            "massgen-schema-events",
            "massgen-doctor",
            "massgen-selftest",
            "massgen-docker",
            "massgen-docker-build",
            "massgen-docker-dockerfile",
            "massgen-completions",
            "massgen-man",
        ]
    );
}
