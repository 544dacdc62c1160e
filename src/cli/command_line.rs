//! Parses the command line into [`CliArguments`] and creates every usage error: clap's errors in
//! massgen's own words, and errors for the flags of the Python MassGen that this version does not
//! support.

use clap::error::{ContextKind, ContextValue, ErrorKind as ClapErrorKind};
use clap::{Command, Parser as _};

use crate::cli::args::CliArguments;
use crate::config::vendors::type_of_company;
use crate::error::{Error, ErrorKind, Result};
use crate::text::{list_first, list_names};

/// A parsed command line: a command to execute or text to print.
#[derive(Debug)]
pub(crate) enum CliInvocation {
    /// Executes a run or a command.
    Execute(Box<CliArguments>),
    /// Prints help or the version.
    Print(String),
}

/// Flags and subcommands of the Python MassGen and of other tools, each with the replacement to
/// suggest.
const UNSUPPORTED: &[(&[&str], &str)] = &[
    (
        &["--select", "--list-examples", "examples", "configs"],
        "see `massgen config examples`, then `massgen --config @examples/NAME \"…\"`",
    ),
    (&["tutorial"], "run `massgen demo`, which needs no API key"),
    (&["--example"], "see `massgen config show NAME`"),
    (
        &["--show-schema", "--schema-backend", "--with-examples"],
        "see `massgen config schema`",
    ),
    (&["--list-backends"], "see `massgen models`"),
    (
        &["--validate", "--strict", "--strict-validation"],
        "run `massgen config check FILE…`, which takes `--json` and `--strict`",
    ),
    (
        &["--skip-validation"],
        "run `massgen config check FILE`: a config with errors is never run",
    ),
    (
        &[
            "--init",
            "--setup",
            "--quickstart",
            "--headless",
            "--generate-config",
            "--config-agents",
            "--config-backend",
            "--config-model",
            "--config-agent-id",
            "--config-docker",
            "--config-context-path",
            "--quickstart-agent",
        ],
        "run `massgen init`; in scripts `massgen init --yes --model MODEL`",
    ),
    (
        &["--setup-skills"],
        "copy skills to `~/.massgen/skills`, and set `use_skills` in the config; see `massgen skills \
         list`",
    ),
    (
        &["--setup-docker"],
        "run `massgen docker build` for the image of `command_line_execution_mode: docker`",
    ),
    (
        &["--interactive"],
        "run `massgen` alone on a terminal for a session of several tasks",
    ),
    (&["--list-sessions", "--all"], "see `massgen sessions list`"),
    (
        &[
            "--web",
            "--web-quickstart",
            "--web-port",
            "--web-host",
            "--no-browser",
            "--web-review",
            "--textual-serve",
            "--textual-serve-port",
            "viewer",
        ],
        "run `massgen web` for the page, or `massgen logs follow --dashboard` for the terminal",
    ),
    (
        &["serve", "shares"],
        "other programs start runs through `massgen mcp orchestrate`",
    ),
    (&["export"], "see `massgen logs export RUN`"),
    (&["--stream-events"], "use `--output-format stream-json`"),
    (
        &["--display", "--skip-agent-selector"],
        "use `--plain` for lines, `--dashboard` for the whole terminal, `--quiet` for no progress",
    ),
    (
        &["--step", "--session-dir", "--no-session-registry"],
        "use `--automation` and read `status.json`",
    ),
    (
        &["--no-logs", "--save-streaming-buffers", "--logfire"],
        "see `massgen logs`; `--debug` makes the logs more detailed",
    ),
    (
        &[
            "--plan",
            "--plan-depth",
            "--plan-thoroughness",
            "--plan-steps",
            "--plan-chunks",
            "--plan-and-execute",
            "--execute-plan",
            "--spec",
            "--execute-spec",
        ],
        "use a pipeline with a role that plans: see `massgen config show pipeline/dev_loop`",
    ),
    (
        &["--no-parse-at-references"],
        "write `\\@` in the task for an `@` that does not name a path",
    ),
    (
        &["--quick"],
        "use `--set orchestrator.max_new_answers_per_agent=1 --set orchestrator.disable_injection=true \
         --set orchestrator.skip_final_presentation=true`",
    ),
    (
        &["--fast"],
        "use `--set orchestrator.coordination.fast_iteration_mode=true`",
    ),
    (
        &["--personas"],
        "use `--set 'orchestrator.coordination.persona_generator={enabled: true}'`",
    ),
    (
        &["--eval-criteria", "--checklist-criteria-preset"],
        "list them as `checklist_criteria_inline` in `orchestrator.coordination`, with \
         `voting_sensitivity: checklist_gated` in `orchestrator`",
    ),
    (
        &["--single-agent", "--coordination-mode", "--broadcast"],
        "say with `--set KEY=VALUE`, or in a config, how the agents work together: docs/config.md lists \
         the keys",
    ),
    (
        &["login", "logout", "auth"],
        "set an API key, such as `OPENAI_API_KEY`; `massgen doctor` shows what is missing",
    ),
    (
        &["run", "exec", "chat", "start"],
        "give the task in quotes: massgen \"…\"",
    ),
    (
        &["resume", "continue", "--resume", "-r"],
        "run `massgen --continue`; `massgen sessions list` shows the sessions",
    ),
    (
        &["--prompt"],
        "give the task in quotes as an argument: massgen \"…\"; standard output is only the answer",
    ),
    (
        &[
            "--full-auto",
            "--yolo",
            "--dangerously-skip-permissions",
            "--permission-mode",
            "--allowedTools",
            "--allowed-tools",
            "--disallowedTools",
        ],
        "grants decide what agents may do: `--cwd-context rw` lets the final agent write here, and \
         `permissions` in the config denies calls or asks about them",
    ),
    (
        &["--add-dir"],
        "mention the directory in the task (`@path/`, or `@path/:w` to write there), or list it in \
         `context_paths` of the config",
    ),
    (
        &["--image"],
        "mention the picture in the task: `@picture.png`",
    ),
    (
        &["--verbose"],
        "a run shows its progress; `--debug` writes a detailed log",
    ),
    (
        &["status", "list", "ls", "history", "stats", "usage"],
        "see `massgen logs list`",
    ),
    (
        &["setup-token"],
        "run `claude setup-token`; an agent of type `claude_code` uses its token",
    ),
    (
        &["agent", "agents", "providers", "settings", "features"],
        "see `massgen models`, and `massgen config schema` for the keys of a team",
    ),
    (
        &["install", "uninstall", "plugin", "plugins", "extensions"],
        "see `massgen mcp install` for packages of servers, and `massgen skills list`",
    ),
    (&["attach", "tui"], "see `massgen logs follow --dashboard`"),
    (&["new", "clear"], "run `massgen` alone for a new session"),
    (&["mcp-server"], "see `massgen mcp serve`"),
    (&["review"], "see `massgen diff` and `massgen apply`"),
    (
        &["update", "upgrade"],
        "update massgen in the way in which you installed it",
    ),
    (
        &["exit", "quit"],
        "type `/exit` to leave a session; no session is open here",
    ),
];

/// Maximum number of commands that a hint lists.
const SIBLINGS_MAX: usize = 6;

/// Commands of `massgen pipeline` that may also be typed without `pipeline`.
pub(crate) const SHORT_PIPELINE_COMMANDS: [&str; 5] =
    ["branches", "roles", "log", "revert", "reset"];

/// Groups of commands that list their subjects if no command follows.
const LISTING_GROUPS: [&str; 5] = ["logs", "sessions", "memory", "skills", "batch"];
/// Groups of commands that print what they can do if no command follows.
const HELPING_GROUPS: [&str; 2] = ["explain", "schema"];

/// Words that are understood as the flags `--help` and `--version` if they come first.
pub(crate) const HELP_WORDS: [&str; 2] = ["help", "version"];

/// Commands about the servers of a config that other tools have below `mcp`.
const SERVER_COMMANDS: [&str; 7] = [
    "add", "add-json", "get", "remove", "rm", "enable", "disable",
];

/// Parses the words after the program's name.
pub(crate) fn parse(words: &[String]) -> Result<CliInvocation> {
    let words = complete_group(complete_pipeline_command(replace_help_words(words)));
    let command_line = std::iter::once("massgen").chain(words.iter().map(String::as_str));
    match CliArguments::try_parse_from(command_line) {
        Ok(arguments) => Ok(CliInvocation::Execute(Box::new(arguments))),
        Err(error) if is_help_or_version(&error) => Ok(CliInvocation::Print(error.to_string())),
        Err(error) => match separate_task(&error, &words) {
            Some(words) => parse(&words),
            None => Err(explain_parse_error(&error, &words)),
        },
    }
}

/// Moves a task that begins with `-` behind `--`: a word with blanks cannot be a flag. Returns `None`
/// if `error` is about something else.
fn separate_task(error: &clap::Error, words: &[String]) -> Option<Vec<String>> {
    let is_task = |word: &&String| {
        let first = word.split_whitespace().next().unwrap_or_default();
        word.starts_with('-') && first.len() < word.len() && !first.contains('=')
    };
    let task = words.iter().find(is_task)?;
    let is_separate = words.iter().any(|word| word == "--");
    let others = words.iter().filter(|word| *word != task).cloned();
    (error.kind() == ClapErrorKind::UnknownArgument && !is_separate)
        .then(|| others.chain(["--".to_owned(), task.clone()]).collect())
}

/// Replaces `help`, `help COMMAND…` and `version` by the flags, as many tools understand them.
fn replace_help_words(words: &[String]) -> Vec<String> {
    let flag = |flag: &str| flag.to_owned();
    match words {
        [word] if word == "version" => vec![flag("--version")],
        [word, commands @ ..]
            if word == "help" && commands.iter().all(|word| !word.contains(' ')) =>
        {
            let commands = commands.iter().cloned();
            commands.chain([flag("--help")]).collect()
        }
        _ => words.to_vec(),
    }
}

/// Puts `pipeline` before one of its commands that is typed without it.
fn complete_pipeline_command(words: Vec<String>) -> Vec<String> {
    match words.first() {
        Some(word) if SHORT_PIPELINE_COMMANDS.contains(&word.as_str()) => {
            std::iter::once("pipeline".to_owned())
                .chain(words)
                .collect()
        }
        Some(_) | None => words,
    }
}

/// Completes a group of commands that is typed alone: by the command that lists, or by the help that
/// names its commands.
fn complete_group(mut words: Vec<String>) -> Vec<String> {
    let group = words.first().map_or("", String::as_str);
    let is_alone = words.len() == 1;
    let has_list_flag = words.get(1).is_some_and(|word| word == "--json");
    if LISTING_GROUPS.contains(&group) && (is_alone || has_list_flag) {
        words.insert(1, "list".to_owned());
    } else if is_alone && HELPING_GROUPS.contains(&group) {
        words.push("--help".to_owned());
    }
    words
}

fn is_help_or_version(parse_error: &clap::Error) -> bool {
    matches!(
        parse_error.kind(),
        ClapErrorKind::DisplayHelp | ClapErrorKind::DisplayVersion
    )
}

/// Returns the error for a flag or subcommand that only the Python MassGen has.
pub(crate) fn unsupported_error(name: &str) -> Option<Error> {
    let (_, advice) = UNSUPPORTED
        .iter()
        .find(|(names, _)| names.contains(&name))?;
    Some(usage_error(format!("massgen has no `{name}`")).with_hint(*advice))
}

/// Returns a usage error.
pub(crate) fn usage_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, message)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "clap's list of error kinds is open"
)]
fn explain_parse_error(parse_error: &clap::Error, words: &[String]) -> Error {
    let text = |kind| clap_context(parse_error, kind).unwrap_or_default();
    let argument = text(ContextKind::InvalidArg);
    let value = text(ContextKind::InvalidValue);
    let error = match parse_error.kind() {
        ClapErrorKind::UnknownArgument => match unsupported_error(&argument) {
            Some(error) if !is_misplaced(&argument, words) => return error,
            Some(_) | None if argument.starts_with('-') => {
                let error = usage_error(format!("unknown flag `{argument}`"));
                match sibling_hint(&argument, words) {
                    Some(hint) => error.with_hint(hint),
                    None => error,
                }
            }
            Some(_) | None => usage_error(format!("unexpected argument `{argument}`")),
        },
        ClapErrorKind::InvalidValue if value.is_empty() => {
            usage_error(format!("`{argument}` needs a value"))
        }
        ClapErrorKind::InvalidValue => {
            let expected = text(ContextKind::ValidValue);
            usage_error(format!(
                "invalid value `{value}` of `{argument}`: expected one of {expected}"
            ))
        }
        ClapErrorKind::ValueValidation => {
            let cause = std::error::Error::source(parse_error);
            let reason = cause.map(ToString::to_string).unwrap_or_default();
            usage_error(format!("invalid value `{value}` of `{argument}`: {reason}"))
        }
        ClapErrorKind::MissingRequiredArgument => {
            usage_error(format!("missing argument: {argument}"))
        }
        ClapErrorKind::ArgumentConflict => {
            let prior = text(ContextKind::PriorArg);
            if prior == argument {
                usage_error(format!("`{argument}` can be given only once"))
            } else {
                usage_error(format!(
                    "`{argument}` and `{prior}` cannot be used together"
                ))
            }
        }
        ClapErrorKind::InvalidSubcommand => {
            let name = text(ContextKind::InvalidSubcommand);
            let error = usage_error(format!("unknown subcommand `{name}`"));
            let is_of_mcp = words.first().is_some_and(|word| word == "mcp");
            if is_of_mcp && SERVER_COMMANDS.contains(&name.as_str()) {
                return error
                    .with_hint(
                        "the servers of agents are in `mcp_servers` of a config: see `docs/mcp.md`",
                    )
                    .with_hint("see `massgen mcp --help`");
            }
            match similar_name(parse_error) {
                Some(_) => error,
                None => error.with_hint(format!("expected {}", subcommand_names(words))),
            }
        }
        ClapErrorKind::MissingSubcommand => {
            let name = text(ContextKind::InvalidSubcommand);
            let expected = text(ContextKind::ValidSubcommand);
            usage_error(format!("`{name}` needs a subcommand: one of {expected}"))
        }
        _ => usage_error(first_line(parse_error)),
    };
    let help = format!("see `{} --help`", subcommand_path(words));
    match similar_name(parse_error) {
        Some(name) => error
            .with_hint(format!("did you mean {name}?"))
            .with_hint(help),
        None => error.with_hint(help),
    }
}

/// Returns whether a flag that a subcommand does not know belongs to another subcommand of massgen:
/// then the user does not mean the Python MassGen, which has no subcommands.
fn is_misplaced(flag: &str, words: &[String]) -> bool {
    fn has_flag(command: &Command, name: &str) -> bool {
        let mut flags = command.get_arguments();
        flags.any(|known| known.get_long() == Some(name))
            || command.get_subcommands().any(|next| has_flag(next, name))
    }
    let command = CliArguments::full_command();
    let is_subcommand = words
        .first()
        .is_some_and(|word| command.find_subcommand(word).is_some());
    let name = flag.strip_prefix("--");
    is_subcommand && name.is_some_and(|name| has_flag(&command, name))
}

/// Returns the hint that names the commands of the same group that have a flag which the typed
/// command lacks. Commands without a group have nothing in common.
fn sibling_hint(flag: &str, words: &[String]) -> Option<String> {
    const PROGRAM: &str = "massgen";
    let name = flag.strip_prefix("--")?;
    let (mut group, mut path) = (CliArguments::full_command(), PROGRAM.to_owned());
    for word in words {
        let subcommand = group.find_subcommand(word)?;
        if !subcommand.has_subcommands() {
            break;
        }
        path = format!("{path} {word}");
        group = subcommand.clone();
    }
    if path == PROGRAM {
        return None;
    }
    let has_flag = |command: &&Command| {
        let mut flags = command.get_arguments();
        !command.is_hide_set() && flags.any(|known| known.get_long() == Some(name))
    };
    let commands: Vec<String> = group
        .get_subcommands()
        .filter(has_flag)
        .map(|command| format!("{path} {}", command.get_name()))
        .collect();
    (!commands.is_empty()).then(|| {
        let first_commands = list_first(&commands, SIBLINGS_MAX);
        format!("`{flag}` is a flag of {first_commands}")
    })
}

/// Returns the known name that the user probably means by the one that clap does not know, in
/// backticks.
fn similar_name(parse_error: &clap::Error) -> Option<String> {
    if let Some(name) = company_type(parse_error) {
        return Some(name);
    }
    let kinds = [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedValue,
        ContextKind::SuggestedSubcommand,
    ];
    let name = kinds
        .into_iter()
        .find_map(|kind| clap_context(parse_error, kind))?;
    Some(if name.starts_with('`') {
        name
    } else {
        format!("`{name}`")
    })
}

/// Returns the backend type that the user means by the name of a company, in backticks, if a flag
/// takes backend types.
fn company_type(parse_error: &clap::Error) -> Option<String> {
    let value = clap_context(parse_error, ContextKind::InvalidValue)?;
    let name = format!("`{}`", type_of_company(&value)?);
    let valid = clap_context(parse_error, ContextKind::ValidValue)?;
    valid.split(", ").any(|known| known == name).then_some(name)
}

/// Returns the subcommand that `words` lead to, as it is typed.
fn subcommand_path(words: &[String]) -> String {
    find_subcommand(words).0
}

/// Returns the names of the commands of the group that `words` lead to.
fn subcommand_names(words: &[String]) -> String {
    let (_, group) = find_subcommand(words);
    let commands = group.get_subcommands();
    let shown_commands = commands.filter(|command| !command.is_hide_set());
    let names: Vec<&str> = shown_commands.map(Command::get_name).collect();
    list_names(&names, "or")
}

/// Returns the subcommand that `words` lead to, and how it is typed.
fn find_subcommand(words: &[String]) -> (String, Command) {
    let mut path = "massgen".to_owned();
    let mut command = CliArguments::full_command();
    for word in words {
        let Some(subcommand) = command.find_subcommand(word) else {
            break;
        };
        path = format!("{path} {word}");
        command = subcommand.clone();
    }
    (path, command)
}

/// Returns a part of the context of clap's error, without the placeholder of a value (`--config
/// <FILE>`).
fn clap_context(parse_error: &clap::Error, kind: ContextKind) -> Option<String> {
    let strip_placeholder = |text: &str| match text.split_once(" <") {
        Some((name, _)) => name.to_owned(),
        None => text.to_owned(),
    };
    let value = parse_error.get(kind)?;
    if let ContextValue::Strings(texts) = value {
        let texts = texts
            .iter()
            .map(|text| format!("`{}`", strip_placeholder(text)));
        Some(texts.collect::<Vec<_>>().join(", "))
    } else if let ContextValue::String(text) = value {
        Some(strip_placeholder(text))
    } else {
        None
    }
}

fn first_line(parse_error: &clap::Error) -> String {
    let text = parse_error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[&str], expected: &str) {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        assert_eq!(parse(&words).unwrap_err().to_string(), expected);
    }

    #[test]
    fn flags_of_the_python_massgen_name_their_replacement() {
        for (flag, instead) in [
            ("--quick", "--set orchestrator.skip_final_presentation=true"),
            ("--personas", "persona_generator={enabled: true}"),
            ("--eval-criteria", "`checklist_criteria_inline`"),
            ("--plan", "pipeline/dev_loop"),
            ("--display", "`--plain`"),
        ] {
            let error = unsupported_error(flag).unwrap();
            assert!(error.hints()[0].contains(instead), "{error:?}");
        }
    }

    #[test]
    fn flags_of_other_tools_name_their_replacement() {
        for (words, instead) in [
            (&["--prompt", "task"][..], "give the task in quotes"),
            (&["--resume", "task"], "run `massgen --continue`"),
            (&["-r"], "run `massgen --continue`"),
            (&["--full-auto", "task"], "`--cwd-context rw`"),
            (&["--add-dir", "src", "task"], "`context_paths`"),
            (&["--image=a.png", "task"], "`@picture.png`"),
            (&["--verbose", "task"], "`--debug`"),
        ] {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let error = parse(&words).unwrap_err();
            assert!(error.hints()[0].contains(instead), "{words:?}: {error:?}");
        }
        // Control: one of another command of massgen is unknown.
        check(&["web", "--print"], "unknown flag `--print`");
    }

    #[test]
    fn a_flag_of_another_subcommand_is_unknown_and_not_one_of_the_python_massgen() {
        check(&["batch", "resume", "--json"], "unknown flag `--json`");
        let words = ["batch", "resume", "--json"].map(str::to_owned);
        let error = parse(&words).unwrap_err();
        let hint = "`--json` is a flag of `massgen batch list`, `massgen batch status`";
        assert!(error.hints()[0].starts_with(hint), "{:?}", error.hints());
        let error = parse(&["diff", "--json"].map(str::to_owned)).unwrap_err();
        assert_eq!(error.hints(), ["see `massgen diff --help`"]);
        check(&["web", "--web-port", "1"], "massgen has no `--web-port`");
    }

    #[test]
    fn a_company_is_answered_with_its_backend_type() {
        for (words, hint) in [
            (&["--backend", "anthropic"][..], "did you mean `claude`?"),
            (&["--backend", "xAI"], "did you mean `grok`?"),
            (&["init", "-b", "google"], "did you mean `gemini`?"),
            (&["--backend", "grok4"], "did you mean `grok`?"),
            (&["--cwd-context", "google"], "see `massgen --help`"),
        ] {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let error = parse(&words).unwrap_err();
            assert_eq!(error.hints()[0], hint, "{words:?}");
        }
    }
}
