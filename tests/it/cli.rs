//! The command line: help, usage errors, exit statuses, and streams that are terminals, pipes or
//! closed.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write, pipe};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::fs::{CWD, Mode, mkfifoat};

use crate::project::{FinishedCommand, Project, has_local_models};

/// Expects a usage error with this text.
#[track_caller]
fn check_usage(arguments: &[&str], expected: &str) {
    let finished = Project::new().args(arguments).failure(2);
    assert_eq!(finished.stdout(), "", "{arguments:?}");
    assert_eq!(finished.stderr(), expected, "{arguments:?}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "the help is one text")]
fn help_names_every_flag() {
    let finished = Project::new().args(["--help"]).success();
    insta::assert_snapshot!(finished.stdout(), @r#"
    Let several LLM agents work on one task, vote, and deliver the winner's files.

    Usage: massgen [OPTIONS] TASK [-]
           massgen [OPTIONS]            (starts an interactive session)
           massgen COMMAND

    Commands:
      init         Write a config of your first team from the models and programs that are found
      demo         Show a team of four at work, without a key or a network: its models are a script. You
                   review the one file that it writes into the current directory
      config       Check, list and show team configs
      models       List known models with their context sizes and prices
      explain      Explain what agents may do and why, without doing it
      tool         Make one tool call as an agent would, with the same permission checks
      sandbox      Run one command as an agent would, with your standard streams. The exit status is
                   that of the command
      mcp          Run massgen as an MCP server for other agents; sign in to MCP servers
      web          Show, start and review runs in a page of your browser, served on this machine
      hook         Answer permission hooks of other programs
      logs         List, show, follow and export the logs of runs
      sessions     List, show, resume, fork, export, import and delete sessions
      memory       List, show and remove the notes that agents keep between sessions
      skills       List and show the skills that agents may be offered
      diff         Show what a run delivered, or would deliver
      apply        Apply changes of a delivery that were not applied, or the answer of another agent
      undo         Revert a delivery
      replay       Replay a recorded run offline with this version, and compare the agents' decisions
      advise       Say which of your teams paid off, from your own runs in this directory
      batch        Run many tasks, each on its own copy of its project; show and deliver the results
      pipeline     Show, revert and reset the work of a pipeline's roles
      schema       Print the JSON schemas of machine-readable output
      doctor       Check this machine and a config for problems, and suggest fixes
      selftest     Test the sandbox of this machine with attacks and ordinary work, without leaving
                   anything behind
      docker       Build the container image for agents
      completions  Print a completion script, for example `massgen completions bash`
      man          Print the manual pages, for example `massgen man | man -l -`

    Arguments:
      [TASK]...
              The task, quoted as one argument. `-` after it appends standard input to the task; `-`
              alone reads the task from standard input

    Options:
      -c, --config <FILE>
              Config of the team: a YAML file, or `@examples/NAME` for a built-in one. Default:
              `config.yaml` in `.massgen`, `~/.massgen/configs` or `~/.config/massgen`; if there is
              none, a team built from the API keys in the environment and the running local servers

      -m, --model <MODEL>
              Model of a team without a config; repeat it for a team of several agents. Default: the
              default model of the backend, or the only one that the endpoint lists

      -b, --backend <TYPE>
              Backend type of a team without a config. Default: derived from the model name

          --base-url <URL>
              API endpoint of a team without a config. Default: the endpoint of the backend

          --system-message <TEXT>
              Additional system message of a team without a config. Default: none

          --set <KEY=VALUE>
              Set a key of the config for this run, such as `orchestrator.voting_sensitivity=strict` or
              `agents[0].backend.model=gpt-5`; repeat it for several. The value is YAML and is checked
              as that of the file. Without a config, it is a key of the team that is built

          --cwd-context <ACCESS>
              Give the agents access to the current directory: `ro` to read, `rw` to let the final agent
              write too. Default: no access unless the config gives it

              Possible values:
              - ro: Read access
              - rw: Read access, and write access in the final phase

          --best-of <COUNT>
              Make this number of independent attempts, in copies of the current directory, and deliver
              the best that passes the checks: `--strategy best-of` and `--cwd-context rw`, with the
              agents of the team in turn. On a terminal, the delivery is reviewed. Default: the agents
              of the team

          --strategy <STRATEGY>
              How the winner is found: `consensus`, `best-of`, `first-pass` or `cascade`. Default: from
              the config, or `consensus`

          --check <COMMAND>
              Command that an answer must pass, run on your files as the answer would leave them; repeat
              it for several. It is added to `checks` of the config. Default: only those

      -o, --output-file <FILE>
              Also write the final answer to this file. Default: none

          --summary-file <FILE>
              Also append a summary of the run in Markdown to this file, such as `$GITHUB_STEP_SUMMARY`.
              Default: none

          --junit-file <FILE>
              Also write the results of the checks to this file, in the format of `JUnit`. Default: none

          --keep-attempts <DIR>
              Also keep the changed files and the diff of each agent's last answer in this directory,
              which must be new or empty. Default: none

          --output-format <FORMAT>
              Format of standard output. Default: `text`

              Possible values:
              - text:        Only the answer
              - json:        One JSON object at the end of the run
              - stream-json: One JSON object per line for each event; the last one is the result

          --json
              The same as `--output-format json`

      -p, --print
              Print only the answer and never begin a session, as `-p` of other tools does: `--quiet`;
              without a task, standard input is the task. Default: off

          --automation
              Print only `KEY: value` lines for scripts on standard output. Default: off

          --orchestrator-timeout <SECONDS>
              Timeout of the whole run, in seconds. Default: from the config, or 1800
              
              [alias: --timeout]

          --rate-limit <[TYPE[/MODEL]=]N>
              Rate limit for all agents together: requests per minute, or tokens per minute with the
              suffix `tpm`. Applies in addition to `rate_limits` of the config. Default: from the config

          --sandbox <LEVEL>
              Sandbox level for local commands of all agents: `auto`, `overlay`, `namespaces`,
              `landlock` or `off`. Default: from the config, or `auto`

          --skip-missing
              Run without the agents whose API key is missing, if there are others. Default: ask on the
              terminal; without a terminal, such a key is an error

          --max-cost-usd <DOLLARS>
              Maximum cost of the run in US dollars, instead of the limit in the config. When it is
              reached, the best answer so far is the result, and the exit status is 5. Default: from the
              config, or no limit

          --max-tokens-total <COUNT>
              Maximum number of tokens in requests and replies, with the same effect. Default: from the
              config, or no limit

          --max-tool-calls <COUNT>
              Maximum number of tool calls, with the same effect. Default: from the config, or no limit

          --max-iterations <COUNT>
              Maximum number of iterations of a pipeline, instead of `max_iterations` in the config.
              When they are used, the exit status is 5. Default: from the config, or 3

      -y, --yes
              Apply the delivery without asking, whatever `delivery` says in the config. Default: from
              the config

          --review
              Ask which changes of the delivery are applied, whatever `delivery` says in the config.
              Needs a terminal. Default: from the config

          --pick
              Pick the answer that is delivered, of those that the team has given. Needs a terminal.
              Default: the team selects one

          --approval-socket <SOCKET>
              Unix socket of a program that answers approval requests instead of the terminal. Default:
              ask on the terminal; without a terminal, deny

          --inbox-dir <DIR>
              Directory in which scripts leave messages for the running agents, as files `msg_*.json`
              with `{"content": "text", "target_agents": ["name"]}`; without `target_agents` for all.
              Each file is removed when it has been read. Default: no messages from files

          --clarifications <FILE>
              File with answers to the pipeline's clarifying questions, passed verbatim to every role.
              Default: ask on the terminal; without a terminal, use the agents' assumptions

          --models <FILE>
              File with model prices. Default: `~/.massgen/models.yaml`, if it exists

          --continue
              Continue the most recently used session of this directory: the agents know its turns,
              start with the files of the last one, and may use the paths that it opened. Without a
              task, resume the last run if it was interrupted. Default: a new session

          --session-id <ID>
              Continue this session in the same way: its id, a prefix of the id, or `last`. Default: a
              new session

          --dashboard
              Show a run on the whole terminal, with a cell for each agent, and leave its lines behind
              at the end. Default: from the config, or on a terminal with two or more agents

          --plain
              Show a run as plain lines. Default: off, unless `MASSGEN_PLAIN` or `CI` is set

      -q, --quiet
              Show only the answer, questions, warnings and errors of a run. Default: show its progress

          --screen-reader
              Display runs and sessions as plain lines that are never redrawn, and list paths on Tab.
              Default: off, unless `MASSGEN_SCREEN_READER` is set

          --park
              Park the run on SIGTERM, SIGUSR1 or SIGHUP: stop at once without recording an end and exit
              with status 75; `massgen --continue` resumes it. Default: these signals end the run

          --debug
              Write a detailed log to `massgen_debug.log` in the run's log directory. Default: off

          --dry-run
              Show the team, each agent's grants in both phases and the first prompt, without calling
              any model. For a pipeline: its roles, project and stage order. Default: off

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      massgen --config team.yaml "Add a --verbose flag to @src/:w"
      massgen demo
      massgen --backend ollama --model qwen3 "Why is the sky blue?" > answer.txt
      git diff | massgen "Review this change" -
      massgen --config team.yaml --dry-run "Tidy up @docs/:w"
      massgen --config team.yaml --max-cost-usd 0.50 "Find the bug in @src/"
      massgen --config team.yaml --output-format json "Review @src/" | jq -r .answer
      massgen -- explain        (a task that is also the name of a subcommand)

    Exit status: 0 delivered, 1 no answer, 2 usage or config, 3 environment, 4 denied by permissions,
    5 a limit was reached, 70 a bug in massgen, 75 parked, 130 interrupted.
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
    let help = "hint: see `massgen --help`\n";
    check_usage(
        &["--modle", "x", "task"],
        &format!("error: unknown flag `--modle`\nhint: did you mean `--model`?\n{help}"),
    );
    check_usage(
        &["--cwd-context", "all", "task"],
        &format!(
            "error: invalid value `all` of `--cwd-context`: expected one of `ro`, `rw`\n{help}"
        ),
    );
    check_usage(
        &["--orchestrator-timeout", "0", "task"],
        &format!(
            "error: invalid value `0` of `--orchestrator-timeout`: expected whole seconds, at least 1\n\
             {help}"
        ),
    );
    check_usage(
        &["--orchestrator-timeout", "-1", "task"],
        &format!(
            "error: invalid value `-1` of `--orchestrator-timeout`: expected whole seconds, at least 1\n\
             {help}"
        ),
    );
    check_usage(
        &["--max-iterations", "0", "task"],
        &format!(
            "error: invalid value `0` of `--max-iterations`: expected a whole number from 1 to 1000\n\
             {help}"
        ),
    );
    check_usage(
        &["--config", "a", "--model", "b", "task"],
        &format!("error: `--config` and `--model` cannot be used together\n{help}"),
    );
    check_usage(
        &["-m", "gpt-5,claude-sonnet-4-5", "task"],
        "error: `gpt-5,claude-sonnet-4-5` is not the name of one model\n\
         hint: repeat the option for each model: -m gpt-5 -m claude-sonnet-4-5\n",
    );
    check_usage(
        &["--config"],
        &format!("error: `--config` needs a value\n{help}"),
    );
    check_usage(
        &["config", "shwo"],
        "error: unknown subcommand `shwo`\n\
         hint: did you mean `show`?\n\
         hint: see `massgen config --help`\n",
    );
    check_usage(
        &["fix", "the", "bug"],
        "error: the task is more than one argument\n\
         hint: put it in quotes: massgen \"fix the bug\"\n",
    );
    check_usage(
        &["--config", "team.yaml", "explain"],
        "error: the subcommand `explain` cannot follow the flags of a run\n\
         hint: put it first: `massgen explain`\n\
         hint: if it is the task, write `massgen -- explain`\n",
    );
    check_usage(
        &["--config", "team.yaml", "help"],
        "error: the subcommand `help` cannot follow the flags of a run\n\
         hint: put it first: `massgen help`\n\
         hint: if it is the task, write `massgen -- help`\n",
    );
}

#[test]
fn without_a_task_an_example_is_shown() {
    check_usage(
        &[],
        "error: no task given\n\
         hint: pass one in quotes: massgen --config @examples/basic/offline_demo \
         \"write a hello program\"\n\
         hint: or read it from standard input: massgen -\n\
         hint: see `massgen --help`\n",
    );
}

#[test]
fn unsupported_flags_of_the_python_massgen_name_an_alternative() {
    check_usage(
        &["--web", "task"],
        "error: massgen has no `--web`\n\
         hint: run `massgen web` for the page, or `massgen logs follow --dashboard` for the \
         terminal\n",
    );
    for flag in ["--init", "--setup", "--quickstart", "--generate-config"] {
        let expected = format!(
            "error: massgen has no `{flag}`\n\
             hint: run `massgen init`; in scripts `massgen init --yes --model MODEL`\n"
        );
        check_usage(&[flag], &expected);
    }
    check_usage(
        &["--interactive"],
        "error: massgen has no `--interactive`\n\
         hint: run `massgen` alone on a terminal for a session of several tasks\n",
    );
    check_usage(
        &["serve"],
        "error: massgen has no `serve`\n\
         hint: other programs start runs through `massgen mcp orchestrate`\n\
         hint: if it is the task, write `massgen -- serve`\n",
    );
}

#[test]
fn commands_about_servers_lead_to_the_config() {
    let hints = "hint: the servers of agents are in `mcp_servers` of a config: see `docs/mcp.md`\n\
                 hint: see `massgen mcp --help`\n";
    for words in [
        &["mcp", "add", "files", "--", "npx", "files"][..],
        &["mcp", "remove", "files"],
    ] {
        let expected = format!("error: unknown subcommand `{}`\n{hints}", words[1]);
        check_usage(words, &expected);
    }
    check_usage(
        &["mcp", "serv"],
        "error: unknown subcommand `serv`\n\
         hint: did you mean `serve`?\n\
         hint: see `massgen mcp --help`\n",
    );
}

#[test]
fn subcommands_of_other_tools_start_no_run() {
    for arguments in [&["help"][..], &["help", "logs"], &["version"]] {
        let finished = Project::new().args(arguments).success();
        let expected = match arguments {
            ["version"] => "massgen ",
            ["help", "logs"] => "List, show, follow and export the logs of runs",
            _ => "Usage: massgen",
        };
        assert!(
            finished.stdout().contains(expected),
            "{arguments:?}: {}",
            finished.stdout()
        );
    }
    for word in [
        "auth", "login", "tutorial", "examples", "run", "resume", "status", "update", "quit",
    ] {
        let finished = Project::new().args([word]).failure(2);
        let expected = format!("massgen has no `{word}`\nhint: ");
        assert!(
            finished.stderr().contains(&expected),
            "{}",
            finished.stderr()
        );
    }
}

#[test]
fn standard_input_that_is_not_read_is_reported() {
    let team = "agents: [{id: a, backend: {type: scripted, replies: \
                [{calls: [{name: new_answer, arguments: {content: done}}]}]}}]";
    let note = "standard input is not read; to append it to the task, add `-`";
    for (input, arguments, expected) in [
        ("text", &["task"][..], true),
        ("text", &["task", "-"], false),
        ("", &["task"], false),
    ] {
        let project = Project::new().config(team).args(arguments);
        // The text is there before massgen starts.
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(input.as_bytes()).unwrap();
        drop(writer);
        let ran = project.command().stdin(reader).output().unwrap();
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{arguments:?}: {errors}");
        assert_eq!(errors.contains(note), expected, "{arguments:?}: {errors}");
    }
}

#[test]
fn a_word_with_blanks_that_begins_with_a_dash_is_the_task() {
    let team = "agents: [{id: a, backend: {type: scripted, replies: \
                [{when: {last: 'fix: it'}, calls: [{name: new_answer, arguments: {content: done}}]}]}}]";
    for arguments in [
        &["- fix: it"][..],
        &["--quiet", "--verbose fix: it"],
        &["--", "- fix: it"],
    ] {
        let finished = Project::new().config(team).args(arguments).success();
        assert_eq!(finished.stdout(), "done\n");
    }
    let refused = Project::new().config(team).args(["--verbos"]).failure(2);
    assert!(refused.stderr().contains("unknown flag `--verbos`"));
}

#[test]
fn arguments_that_are_not_utf8_are_refused() {
    let finished = Project::new()
        .args([OsStr::from_bytes(b"caf\xe9")])
        .failure(2);
    assert_eq!(
        finished.stderr(),
        "error: the argument `caf\u{fffd}` is not UTF-8\n\
         hint: give paths and tasks as UTF-8 text\n"
    );
}

#[test]
fn environment_variables_that_are_not_utf8_are_ignored() {
    let project = Project::new().env("ODD", OsStr::from_bytes(b"\xff"));
    let _finished = project.args(["--version"]).success();
}

#[test]
fn a_closed_standard_output_is_not_an_error() {
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
        stderr.starts_with("error: cannot write the result"),
        "{stderr}"
    );
}

#[test]
fn closed_standard_streams_do_not_panic() {
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
fn a_check_names_what_a_run_would_refuse() {
    let team = |backend: &str, rest: &str| {
        format!("agents:\n  - id: a\n    backend: {{type: scripted, cwd: w, {backend}}}\n{rest}")
    };
    let done = "replies: [{text: done}]";
    let slow = "replies: [{text: done, delay_ms: 99999999999999999999}]";
    let path = "orchestrator: {context_paths: [{path: nowhere, permission: read}]}\n";
    let checked = Project::new()
        .file("key.yaml", team("replies: [{txt: x}]", ""))
        .file("slow.yaml", team(slow, ""))
        .file("gone.yaml", team("script: gone.txt", ""))
        .file("open.yaml", team("script: open.txt", ""))
        .file("open.txt", "replies: [\n")
        .file("path.yaml", team(done, path))
        .file("good.yaml", team(done, ""))
        .args(["config", "check", "key.yaml", "slow.yaml", "gone.yaml"])
        .args(["open.yaml", "path.yaml", "good.yaml"])
        .failure(2);
    let stdout = checked.stdout();
    for expected in [
        "error: agent `a`: `replies[0]` is malformed: unknown field `txt`",
        "`repeat` at line 3\n",
        "hint: `massgen config show basic/offline_demo`",
        "slow.yaml: 1 error",
        "gone.txt` does not exist",
        "open.txt` is malformed",
        "error: a run in this directory would be refused: context paths not found: ",
        "path.yaml: 1 error, 0 warnings\n",
        "good.yaml: ok\n",
    ] {
        assert!(stdout.contains(expected), "{expected}: {stdout}");
    }
}

#[test]
fn a_check_names_files_of_tools_and_servers_that_are_not_there() {
    let project = Project::new()
        .file("there.py", "")
        .file("own/server.py", "");
    let there = project.path("there.py").display().to_string();
    let own = format!("cwd: {}", project.path("own").display());
    let team = |tool: &str, script: &str| {
        format!(
            "agents:\n  - id: a\n    backend:\n      type: scripted\n      cwd: w\n      \
             replies: [{{text: done}}]\n      custom_tools: [{{path: {tool}, function: f}}]\n      \
             mcp_servers: [{{name: s, command: python3, args: [{script}]}}]\n"
        )
    };
    let checked = project
        .file("gone.yaml", team("gone.py", "./server.py"))
        .file("good.yaml", team("there.py", &there))
        .file(
            "own.yaml",
            team("there.py", "server.py").replace("cwd: w", &own),
        )
        .file(
            "own_gone.yaml",
            team("there.py", "gone.py").replace("cwd: w", &own),
        )
        .args(["config", "check", "--strict", "gone.yaml", "good.yaml"])
        .success();
    let stdout = checked.stdout();
    for expected in [
        "warning: `custom_tool__f`: file `gone.py` not found\n",
        "warning: `s`: file `./server.py` not found\n  = hint: write the absolute path",
        "gone.yaml: ok, but 2 files not found\n",
        "good.yaml: ok\n",
    ] {
        assert!(stdout.contains(expected), "{expected}: {stdout}");
    }
    // An absolute workspace is the user's, and may have the script.
    let checked = checked.then(["config", "check", "own.yaml", "own_gone.yaml"]);
    let checked = checked.success();
    let stdout = checked.stdout();
    assert!(stdout.contains("own.yaml: ok\n"), "{stdout}");
    let gone = "own_gone.yaml: ok, but 1 file not found\n";
    assert!(stdout.contains(gone), "{stdout}");
    let json = checked.then(["config", "check", "--json", "gone.yaml"]);
    let json = json.success();
    let report: serde_json::Value = serde_json::from_str(json.stdout()).unwrap();
    let missing = serde_json::json!(["gone.py", "./server.py"]);
    let mut files: Vec<_> = report["missing_files"].as_array().unwrap().clone();
    files.sort_by_key(|file| !file.as_str().unwrap().starts_with('g'));
    assert_eq!(serde_json::Value::from(files), missing);
}

#[test]
fn a_check_names_programs_of_servers_that_are_not_there() {
    let team = |servers: &str| {
        format!(
            "agents:\n  - id: a\n    backend:\n      type: scripted\n      cwd: w\n      \
             replies: [{{text: done}}]\n      mcp_servers: [{servers}]\n"
        )
    };
    let own = |command: &str| {
        format!("{{name: own, command: {command}, security: {{level: permissive}}}}")
    };
    let servers = format!(
        "{{name: s, command: fastmcp, args: [gone.py]}}, {}",
        own("/nowhere/server")
    );
    let checked = Project::new()
        .file("gone.yaml", team(&servers))
        .file("shell.yaml", team("{name: s, command: bash}"))
        .file("own.yaml", team(&own("/bin/sh")))
        .file("package.yaml", team("{name: s, command: uvx, args: [x]}"))
        .file(
            "path.yaml",
            team("{name: s, command: fastmcp, env: {PATH: /opt/x/bin}}"),
        )
        .file(
            "container.yaml",
            team("{name: s, command: fastmcp, run_in: container}").replace(
                "cwd: w",
                "cwd: w\n      enable_mcp_command_line: true\n      \
                 command_line_execution_mode: docker",
            ),
        )
        .args(["config", "check", "gone.yaml"])
        .success();
    let stdout = checked.stdout();
    let hint = "  = hint: install it, or set its absolute path in `command`\n";
    for expected in [
        "warning: `s`: file `gone.py` not found\n".to_owned(),
        format!("warning: `s`: program `fastmcp` not found\n{hint}"),
        format!("warning: `own`: program `/nowhere/server` not found\n{hint}"),
        "gone.yaml: ok, but 1 file and 2 programs not found\n".to_owned(),
    ] {
        assert!(stdout.contains(&expected), "{expected}: {stdout}");
    }
    let json = checked.then(["config", "check", "--json", "gone.yaml"]);
    let json = json.success();
    let report: serde_json::Value = serde_json::from_str(json.stdout()).unwrap();
    let missing = serde_json::json!(["fastmcp", "/nowhere/server"]);
    assert_eq!(report["missing_programs"], missing, "{report}");
    assert_eq!(report["missing_files"], serde_json::json!(["gone.py"]));
    assert_eq!(report["warning_count"], 0, "{report}");
    // Programs that exist, one that massgen installs, one that another `PATH` finds, and one in a
    // container.
    let files = [
        "shell.yaml",
        "own.yaml",
        "package.yaml",
        "path.yaml",
        "container.yaml",
    ];
    let checked = json.then([["config", "check"].as_slice(), &files].concat());
    let checked = checked.success();
    let stdout = checked.stdout();
    assert!(!stdout.contains("program `"), "{stdout}");
    assert!(stdout.contains("shell.yaml: ok\n"), "{stdout}");
    // A sandbox finds the system's programs whatever is in `PATH`.
    let checked = checked.then(["config", "check", "shell.yaml", "gone.yaml"]);
    let checked = checked.env("PATH", "/nowhere").success();
    let stdout = checked.stdout();
    assert!(!stdout.contains("`bash`"), "{stdout}");
    assert!(stdout.contains("program `fastmcp` not found"), "{stdout}");
}

#[test]
fn configs_are_checked_one_after_another() {
    let typed = |arguments: &[&str]| {
        let project = Project::new().file("bad.yaml", BAD_CONFIG);
        let project = project.link("loop.yaml", "loop.yaml");
        mkfifoat(CWD, project.path("pipe.yaml"), Mode::RUSR | Mode::WUSR).unwrap();
        project.args(["config", "check"]).args(arguments)
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
            .starts_with("error: config `nowhere.yaml` does not exist\nhint: ")
    );
    // A name does not begin a line.
    let forged = typed(&["a\nerror: b.yaml"]).failure(2);
    assert!(
        forged
            .stdout()
            .starts_with("error: config `a\\nerror: b.yaml` does not exist\nhint: "),
        "{}",
        forged.stdout()
    );
    let looping = typed(&["loop.yaml"]).failure(2);
    assert!(
        looping.stdout().contains("\ncaused by: Too many levels"),
        "{}",
        looping.stdout()
    );
    // A named pipe without a writer would block; a pipe that massgen was given is read.
    let pipe = typed(&["pipe.yaml"]).failure(2);
    let reason = "\ncaused by: it is a named pipe, not a file\nhint: name a file";
    assert!(pipe.stdout().contains(reason), "{}", pipe.stdout());
    let piped = typed(&["/dev/stdin"]).stdin(BAD_CONFIG).failure(2);
    assert!(
        piped.stdout().contains("unknown key `modle`"),
        "{}",
        piped.stdout()
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
    let hints = &lines[1]["errors"][0]["hints"];
    assert!(hints[0].is_string(), "{hints}");
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
            .starts_with("error: no built-in config `basic/two_agent`\nhint: did you")
    );
    let schema = Project::new().args(["config", "schema"]).success();
    let schema: serde_json::Value = serde_json::from_str(schema.stdout()).unwrap();
    assert!(schema["properties"]["agents"].is_object());
}

#[test]
fn a_config_that_cannot_be_run_starts_nothing() {
    let run = |project: Project, arguments: &[&str]| {
        project.args(arguments).failure(2).has_no(".massgen")
    };
    let bad = run(
        Project::new().file("bad.yaml", BAD_CONFIG),
        &["--config", "bad.yaml", "task"],
    );
    assert!(
        bad.stderr().contains("error: `bad.yaml` cannot be run: "),
        "{}",
        bad.stderr()
    );
    let missing = run(Project::new(), &["--config", "offline_demo", "task"]);
    let expected = "error: config `offline_demo` does not exist\n\
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
    error: config `[PROJECT]/teams` is a directory: expected a file
    hint: name the file inside it
    ");
}

#[test]
fn an_unwritable_output_file_is_reported_before_the_run() {
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
        "a\nerror: b\u{1b}[2J/c.txt",
        "error: cannot write `[PROJECT]/a\\nerror: b\\u{1b}[2J/c.txt`\n\
         caused by: No such file or directory (os error 2)\n\
         hint: check that the directory exists\n",
    );
    check(
        "missing/answer.txt",
        "error: cannot write `[PROJECT]/missing/answer.txt`\n\
         caused by: No such file or directory (os error 2)\n\
         hint: check that the directory exists\n",
    );
    check(
        ".",
        "error: cannot write `[PROJECT]`\ncaused by: is a directory\nhint: expected a file\n",
    );
}

#[test]
fn the_answer_is_not_written_through_a_symlink_that_leads_elsewhere() {
    let project = || {
        let project = Project::new()
            .file(".git/config", "own\n")
            .file("docs/old.md", "old\n")
            .home_file(".bashrc", "own\n");
        let links = [
            (project.home(".bashrc"), "notes.md"),
            (project.home("later"), "dangling.md"),
            (PathBuf::from(".git/config"), "settings.ini"),
            (project.home(""), "docs/out"),
            (PathBuf::from("docs/old.md"), "current.md"),
        ];
        for (target, link) in links {
            symlink(target, project.path(link)).unwrap();
        }
        project.args(["--config", "@examples/basic/offline_demo", "hello", "-o"])
    };
    for (file, expected) in [
        ("notes.md", "out of `[PROJECT]`"),
        ("dangling.md", "out of `[PROJECT]`"),
        ("docs/out/later", "out of `[PROJECT]`"),
        ("settings.ini", "where `.git` is protected"),
    ] {
        let finished = project().args([file]).failure(4);
        assert!(
            finished.stderr().contains(expected),
            "{}",
            finished.stderr()
        );
        let finished = finished.has_no(".massgen").has_file(".git/config", "own\n");
        let home = finished.project();
        assert_eq!(fs::read_to_string(home.home(".bashrc")).unwrap(), "own\n");
        assert!(!home.home("later").exists(), "{file}");
    }
    // The control: other symlinks of the project are followed, and no file is needed.
    for file in ["current.md", "/dev/null", "new.md"] {
        let finished = project().args([file]).success();
        let written = fs::read_to_string(finished.project().path("docs/old.md")).unwrap();
        assert_eq!(written != "old\n", file == "current.md", "{file}");
    }
}

#[test]
fn a_mention_does_not_open_a_whole_home() {
    for task in ["tidy @~/", "tidy @/:w"] {
        let arguments = ["--config", "@examples/basic/two_agents", task];
        let finished = Project::new().args(arguments).failure(2).has_no(".massgen");
        assert!(
            finished
                .stderr()
                .starts_with("error: the task would open all of `"),
            "{task}"
        );
    }
}

#[test]
fn a_mention_of_a_missing_path_is_reported() {
    let arguments = [
        "--config",
        "@examples/basic/two_agents",
        "--dry-run",
        "fix @gone.rs for @alice",
    ];
    let finished = Project::new()
        .args(arguments)
        .env("OPENAI_API_KEY", "k")
        .env("GEMINI_API_KEY", "k")
        .success();
    assert_eq!(
        warnings(&finished),
        ["warning: mentioned path `[PROJECT]/gone.rs` does not exist"]
    );
    let words = [
        "--config",
        "@examples/basic/two_agents",
        "--dry-run",
        "read @note.md, @scr/main.rs and @plan, ask @alice, use @dataclass",
    ];
    let finished = Project::new()
        .file("notes.md", "")
        .file("plan.txt", "")
        .file("src/main.rs", "")
        .args(words)
        .env("OPENAI_API_KEY", "k")
        .env("GEMINI_API_KEY", "k")
        .success();
    assert_eq!(
        warnings(&finished),
        [
            "warning: mentioned path `[PROJECT]/note.md` does not exist (did you mean `notes.md`?)",
            "warning: mentioned path `[PROJECT]/scr/main.rs` does not exist (did you mean `src/main.rs`?)",
            "warning: mentioned path `[PROJECT]/plan` does not exist (did you mean `plan.txt`?)",
        ]
    );
    // Each suggestion reads a directory: a long list of paths gets a few.
    let paths: Vec<String> = (0..20)
        .map(|number| format!("@./note{number}.md"))
        .collect();
    let finished = Project::new()
        .file("note.md", "")
        .args(["explain", "prompt", &paths.join(" ")])
        .success();
    let count = |part: &str| finished.stdout().matches(part).count();
    assert_eq!(count("does not exist"), 20, "{}", finished.stdout());
    assert_eq!(count("did you mean `note.md`?"), 8, "{}", finished.stdout());
    // What exists and cannot be read is no handle of a person.
    let project = Project::new();
    mkfifoat(CWD, project.path("alice"), Mode::RWXU).unwrap();
    let arguments = [
        "--config",
        "@examples/basic/two_agents",
        "--dry-run",
        "ask @alice",
    ];
    let finished = project
        .args(arguments)
        .env("OPENAI_API_KEY", "k")
        .env("GEMINI_API_KEY", "k")
        .success();
    assert_eq!(
        warnings(&finished),
        ["warning: mentioned path `[PROJECT]/alice` cannot be read"]
    );
}

#[test]
fn a_dry_run_reports_a_missing_key() {
    let arguments = ["--config", "@examples/basic/single_agent", "--dry-run"];
    let finished = Project::new().args(arguments).args(["why?"]).success();
    assert_eq!(
        warnings(&finished),
        [
            "warning: a run would fail immediately: no API key for `chatcompletion`: `OPENAI_API_KEY` is not \
             set"
        ]
    );
}

#[test]
fn a_team_of_models_has_files_and_commands_once_a_path_is_open() {
    let check = |arguments: &[&str], has_files: bool| {
        let finished = Project::new()
            .file("a.txt", "a")
            .env("OPENAI_API_KEY", "k")
            .env("ANTHROPIC_API_KEY", "k")
            .args(["--dry-run", "-m", "gpt-5", "-m", "claude-sonnet-5-5"])
            .args(arguments)
            .success();
        let offers = |tool: &str| {
            let tools = finished
                .stdout()
                .lines()
                .filter(|line| line.trim_start().starts_with("tools "));
            tools.filter(|line| line.contains(tool)).count()
        };
        let agents = if has_files { 2 } else { 0 };
        for tool in ["move_file", "execute_command"] {
            assert_eq!(offers(tool), agents, "{arguments:?}: {tool}");
        }
        assert_eq!(offers("vote"), 2, "{arguments:?}");
        let note = "the agents see no files and run no commands";
        assert_eq!(
            finished.stderr().contains(note),
            !has_files,
            "{arguments:?}"
        );
    };
    check(&["Hello"], false);
    check(&["--cwd-context", "ro", "Hello"], true);
    check(&["Look at @a.txt"], true);
}

#[test]
fn a_misspelled_model_is_named_with_the_known_one() {
    let check = |words: &[&str], expected: &[&str]| {
        let finished = Project::new()
            .env("OPENAI_API_KEY", "k")
            .args(["--dry-run", "task"])
            .args(words)
            .success();
        assert_eq!(warnings(&finished), expected, "{words:?}");
    };
    check(
        &["-m", "gpt-5-mni"],
        &["warning: `gpt-5-mni` is not a model that massgen knows (did you mean `gpt-5-mini`?)"],
    );
    check(&["-m", "gpt-5-mini"], &[]);
    check(&["-m", "gpt-5-mini-2025-08-07"], &[]);
    // Another version may be newer than massgen, and another server has names of its own.
    check(&["-m", "gpt-9-mini"], &[]);
    check(
        &["-m", "gpt-5-mni", "--base-url", "http://127.0.0.1:9/v1"],
        &[],
    );
}

#[test]
fn a_model_of_the_users_list_is_not_called_misspelled() {
    let own = "models:\n  - name: gpt-5-mni\n    vendor: openai\n    \
               usd_per_million_tokens: {input: 1, output: 2}\n";
    let dry_run = |project: Project, words: &[&str]| {
        let project = project.env("OPENAI_API_KEY", "k");
        project.args(["--dry-run", "task"]).args(words).success()
    };
    let listed = Project::new().home_file(".massgen/models.yaml", own);
    let finished = dry_run(listed, &["-m", "gpt-5-mni"]);
    assert_eq!(warnings(&finished), [""; 0]);
    let named = Project::new().file("own.yaml", own);
    let finished = dry_run(named, &["-m", "gpt-5-mni", "--models", "own.yaml"]);
    assert_eq!(warnings(&finished), [""; 0]);
    // The list is read once, and is about its own models only.
    let listed = Project::new()
        .home_file(".massgen/models.yaml", own)
        .file(".massgen/models.yaml", own);
    let finished = dry_run(listed, &["-m", "gpt-5-nni"]);
    let found = warnings(&finished);
    let [ignored, misspelled] = found[..] else {
        panic!("{}", finished.stderr());
    };
    assert!(
        ignored.contains("ignoring `.massgen/models.yaml`"),
        "{ignored}"
    );
    assert!(
        misspelled.contains("(did you mean `gpt-5-mni`?)"),
        "{misspelled}"
    );
}

#[test]
fn a_model_of_another_maker_than_the_backend_is_named() {
    let with = |words: &[&str]| {
        Project::new()
            .env("OPENAI_API_KEY", "k")
            .args(["--dry-run", "task", "-b", "openai", "-m"])
            .args(words)
    };
    let check = |words: &[&str], expected: &[&str]| {
        let finished = with(words).success();
        assert_eq!(warnings(&finished), expected, "{words:?}");
    };
    check(
        &["claude-sonnet-4-5"],
        &[
            "warning: `claude-sonnet-4-5` is a model of `claude`, but `--backend` is `openai`: \
           omit `--backend`, or name `claude`",
        ],
    );
    check(&["gpt-5"], &[]);
    check(
        &["claude-sonnet-4-5", "--base-url", "http://127.0.0.1:9/v1"],
        &[],
    );
    // Another server may have models of all makers.
    let other = with(&["claude-sonnet-4-5"]).env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1");
    assert_eq!(warnings(&other.success()), [""; 0]);
}

fn warnings(finished: &FinishedCommand) -> Vec<&str> {
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
fn without_a_key_or_server_the_error_has_a_hint() {
    if has_local_models() {
        println!("skipped: a local server of models may be running");
        return;
    }
    let finished = Project::new().args(["why?"]).failure(3).has_no(".massgen");
    insta::assert_snapshot!(finished.stderr(), @r#"
    error: no model available: no API key is set, and no local server is running
    hint: set an API key in the environment or in `~/.massgen/.env`, such as `OPENAI_API_KEY`, `ANTHROPIC_API_KEY` or `GOOGLE_API_KEY`; `massgen models` names the others
    hint: `massgen init` also looks for programs such as `claude`, and writes a config that you can change
    hint: see it work without an API key: massgen demo
    "#);
}

#[test]
#[expect(clippy::too_many_lines, reason = "the list of all commands")]
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
            "massgen-init",
            "massgen-demo",
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
            "massgen-mcp-install",
            "massgen-mcp-list",
            "massgen-mcp-uninstall",
            "massgen-mcp-login",
            "massgen-mcp-logout",
            "massgen-mcp-workflow",
            "massgen-web",
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
            "massgen-memory",
            "massgen-memory-list",
            "massgen-memory-show",
            "massgen-memory-clear",
            "massgen-skills",
            "massgen-skills-list",
            "massgen-skills-show",
            "massgen-diff",
            "massgen-apply",
            "massgen-undo",
            "massgen-replay",
            "massgen-advise",
            "massgen-batch",
            "massgen-batch-run",
            "massgen-batch-resume",
            "massgen-batch-retry",
            "massgen-batch-list",
            "massgen-batch-status",
            "massgen-batch-watch",
            "massgen-batch-results",
            "massgen-batch-compare",
            "massgen-batch-cancel",
            "massgen-batch-apply",
            "massgen-batch-job",
            "massgen-pipeline",
            "massgen-pipeline-roles",
            "massgen-pipeline-branches",
            "massgen-pipeline-log",
            "massgen-pipeline-revert",
            "massgen-pipeline-reset",
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
