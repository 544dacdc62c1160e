//! Commands of an interactive session: what can be typed after a slash, and how a typed line is
//! interpreted.

use crate::cli::command_line::usage_error;
use crate::cli::editor::choices::SlashCommand;
use crate::error::{Error, Result};

/// Meaning of a typed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InteractiveInput<'l> {
    /// Nothing.
    Empty,
    /// A turn with this prompt.
    Prompt(&'l str),
    /// A command for the user's shell.
    Shell(&'l str),
    /// A command, with its arguments.
    Command(InteractiveCommand, &'l str),
}

/// A command of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InteractiveCommand {
    /// Lists the commands.
    Help,
    /// Shows the state of the session.
    Status,
    /// Shows the paths that are open to agents, opens one, or closes one.
    Context,
    /// Shows or changes the models of the agents.
    Model,
    /// Shows the config.
    Config,
    /// Shows the last turn again.
    Inspect,
    /// Shows the last turn on the dashboard.
    Dashboard,
    /// Shows the usage of the last turn and of the session.
    Cost,
    /// Shows the votes.
    Votes,
    /// Shows what was delivered.
    Files,
    /// Shows the lines that a delivery changed.
    Diff,
    /// Applies what was not applied of a delivery.
    Apply,
    /// Reverts a delivery.
    Undo,
    /// Packs the session into an archive.
    Export,
    /// Lists sessions.
    Sessions,
    /// Continues another session.
    Resume,
    /// Begins a new session.
    Reset,
    /// Explains how a run is stopped.
    Cancel,
    /// Leaves.
    Quit,
}

/// All commands, in the order in which they are offered.
pub(crate) const OFFERED_COMMANDS: &[SlashCommand] = &[
    slash_command("/help", "lists the commands and keys"),
    slash_command("/status", "shows team, session, turn and sandbox level"),
    slash_command(
        "/context",
        "lists open paths; `/context add PATH [write]`, `/context remove N`",
    ),
    slash_command(
        "/model",
        "shows the models; `/model [AGENT] NAME` changes them; a space lists some",
    ),
    slash_command("/config", "shows the config of the team"),
    slash_command("/inspect", "shows the last turn again"),
    slash_command("/dashboard", "shows the last turn on the whole screen"),
    slash_command("/cost", "shows what the last turn and the session used"),
    slash_command("/votes", "shows the votes of the last turn"),
    slash_command("/files", "lists the files that the last turn delivered"),
    slash_command(
        "/diff",
        "shows the changes of the last delivery; `/diff RUN`",
    ),
    slash_command("/apply", "applies what was not applied; `/apply RUN`"),
    slash_command("/undo", "reverts the last delivery; `/undo RUN`"),
    slash_command("/sessions", "lists the sessions of this directory"),
    slash_command(
        "/resume",
        "continues another session: `/resume`, a space and some of its words",
    ),
    slash_command(
        "/export",
        "packs the session into an archive; `/export FILE`",
    ),
    slash_command("/reset", "starts a new session"),
    slash_command("/cancel", "explains how to stop a run"),
    slash_command("/quit", "exits; so do Ctrl-D and Ctrl-C twice"),
];

/// All names of commands, including short ones and words without a slash.
const NAMES: &[(&str, InteractiveCommand)] = &[
    ("/help", InteractiveCommand::Help),
    ("/h", InteractiveCommand::Help),
    ("/status", InteractiveCommand::Status),
    ("/context", InteractiveCommand::Context),
    ("/permissions", InteractiveCommand::Context),
    ("/config", InteractiveCommand::Config),
    ("/model", InteractiveCommand::Model),
    ("/agents", InteractiveCommand::Model),
    ("/inspect", InteractiveCommand::Inspect),
    ("/i", InteractiveCommand::Inspect),
    ("/dashboard", InteractiveCommand::Dashboard),
    ("/cost", InteractiveCommand::Cost),
    ("/usage", InteractiveCommand::Cost),
    ("/votes", InteractiveCommand::Votes),
    ("/files", InteractiveCommand::Files),
    ("/diff", InteractiveCommand::Diff),
    ("/review", InteractiveCommand::Diff),
    ("/apply", InteractiveCommand::Apply),
    ("/undo", InteractiveCommand::Undo),
    ("/rewind", InteractiveCommand::Undo),
    ("/export", InteractiveCommand::Export),
    ("/share", InteractiveCommand::Export),
    ("/sessions", InteractiveCommand::Sessions),
    ("/resume", InteractiveCommand::Resume),
    ("/reset", InteractiveCommand::Reset),
    ("/clear", InteractiveCommand::Reset),
    ("/new", InteractiveCommand::Reset),
    ("/cancel", InteractiveCommand::Cancel),
    ("/quit", InteractiveCommand::Quit),
    ("/exit", InteractiveCommand::Quit),
    ("/q", InteractiveCommand::Quit),
    ("quit", InteractiveCommand::Quit),
    ("exit", InteractiveCommand::Quit),
    ("q", InteractiveCommand::Quit),
];

/// Words that are commands of `massgen` itself, with what to do instead in a session.
const OUTER_COMMANDS: &[(&[&str], &str)] = &[
    (
        &["version"],
        "leave with `/quit`, then run `massgen --version`",
    ),
    (
        &["init", "setup"],
        "leave with `/quit`, then run `massgen init`",
    ),
    (
        &["login"],
        "leave with `/quit`, and set an API key, such as `OPENAI_API_KEY`; `massgen doctor` shows \
         what is missing",
    ),
];

/// Commands of other programs that have no counterpart here, with what does their work.
const FOREIGN_COMMANDS: &[(&[&str], &str)] = &[
    (
        &["/compact"],
        "is not needed: a conversation that outgrows its model is compacted by itself, and `/new` \
         begins a new one",
    ),
    (
        &["/init"],
        "is a command of the shell: leave with `/quit`, then run `massgen init`",
    ),
    (
        &["/mcp", "/tools", "/hooks"],
        "is a part of the config, which `/config` shows; docs/mcp.md and docs/hooks.md describe it",
    ),
    (
        &["/memory"],
        "is a command of the shell: `!massgen memory list` shows the notes that agents keep",
    ),
    (
        &["/fork"],
        "is a command of the shell: leave with `/quit`, then run `massgen sessions fork last`",
    ),
    (
        &["/login"],
        "is not needed: set an API key, such as `OPENAI_API_KEY`; `!massgen doctor` shows what is \
         missing",
    ),
];

const fn slash_command(name: &'static str, summary: &'static str) -> SlashCommand {
    SlashCommand { name, summary }
}

/// Parses a typed text. An unknown command (a slash followed by letters) is an error, because a
/// prompt may cost money. So is a text of several lines that begins with a command, because it was
/// probably pasted, and a command that only lacks its slash. Text that begins with a path is a
/// prompt, and so is a text with slashes after a space.
pub(crate) fn parse_input(text: &str) -> Result<InteractiveInput<'_>> {
    let has_space = text.starts_with(char::is_whitespace);
    let text = text.trim();
    if let Some(command) = text.strip_prefix('!').map(str::trim) {
        return if command.is_empty() {
            Err(usage_error("`!` needs a command").with_hint("for example `!git diff`"))
        } else {
            Ok(InteractiveInput::Shell(command))
        };
    }
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let known_name = NAMES.iter().find(|(name, _)| *name == word);
    let is_bare = !word.starts_with('/');
    match known_name {
        Some(_) if !is_bare && text.contains('\n') => {
            if has_space {
                Ok(InteractiveInput::Prompt(text))
            } else {
                Err(several_lines_error(word))
            }
        }
        Some((_, command)) if !is_bare || rest.is_empty() => {
            Ok(InteractiveInput::Command(*command, rest.trim()))
        }
        Some(_) | None if text.is_empty() => Ok(InteractiveInput::Empty),
        None if !has_space && is_command_like(word) => Err(unknown_command_error(word)),
        Some(_) | None => match bare_command_error(text) {
            Some(error) => Err(error),
            None => Ok(InteractiveInput::Prompt(text)),
        },
    }
}

/// Returns whether a line is a command of a session, or begins with the name of one after a slash.
pub(crate) fn is_command(line: &str) -> bool {
    let word = line.split_whitespace().next().unwrap_or_default();
    let is_whole = word == line;
    NAMES
        .iter()
        .any(|(name, _)| *name == word && (is_whole || name.starts_with('/')))
}

/// Returns whether a line is the command that leaves a session.
pub(crate) fn is_quit(line: &str) -> bool {
    matches!(
        parse_input(line),
        Ok(InteractiveInput::Command(InteractiveCommand::Quit, _))
    )
}

/// Returns the error for a text that is nothing but the name of a command without its slash, or of
/// a command of `massgen` itself.
fn bare_command_error(text: &str) -> Option<Error> {
    let is_offered = |offered: &&SlashCommand| offered.name.strip_prefix('/') == Some(text);
    let offered = OFFERED_COMMANDS.iter().find(is_offered);
    let mut outer_commands = OUTER_COMMANDS.iter();
    let hint = if let Some(offered) = offered {
        format!("type `{}`", offered.name)
    } else {
        let (_, advice) = outer_commands.find(|(names, _)| names.contains(&text))?;
        (*advice).to_owned()
    };
    let error = usage_error(format!("`{text}` alone is not a prompt")).with_hint(hint);
    Some(error.with_hint("if you mean a task, describe it in more words"))
}

fn is_command_like(word: &str) -> bool {
    let letters = word.strip_prefix('/').unwrap_or_default();
    !letters.is_empty() && letters.chars().all(|c| c.is_ascii_alphabetic())
}

fn several_lines_error(command: &str) -> Error {
    usage_error(format!("the text after `{command}` has several lines"))
        .with_hint("a command has one line; to start a prompt with `/`, type a space first")
}

fn unknown_command_error(word: &str) -> Error {
    let distance = |name: &str| strsim::osa_distance(name, word);
    let nearest = OFFERED_COMMANDS
        .iter()
        .min_by_key(|offered| distance(offered.name));
    let mut foreign_commands = FOREIGN_COMMANDS.iter();
    if let Some((_, advice)) = foreign_commands.find(|(names, _)| names.contains(&word)) {
        return usage_error(format!("`{word}` {advice}"));
    }
    let error = usage_error(format!("unknown command `{word}`"));
    match nearest.filter(|near| distance(near.name) <= near.name.len() / 3) {
        Some(near) => error.with_hint(format!("did you mean `{}`?", near.name)),
        None => error.with_hint("see `/help`; to start a prompt with `/`, type a space first"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &InteractiveInput<'_>) {
        assert_eq!(parse_input(text).unwrap(), *expected, "{text}");
    }

    #[test]
    fn a_line_is_a_prompt_unless_it_is_a_command() {
        check("", &InteractiveInput::Empty);
        check("  \n", &InteractiveInput::Empty);
        check(" fix it\nnow ", &InteractiveInput::Prompt("fix it\nnow"));
        check(
            "/context remove 2",
            &InteractiveInput::Command(InteractiveCommand::Context, "remove 2"),
        );
        check(
            "quit",
            &InteractiveInput::Command(InteractiveCommand::Quit, ""),
        );
        check(
            "quit smoking, a guide",
            &InteractiveInput::Prompt("quit smoking, a guide"),
        );
        check(
            "/etc/hosts is wrong",
            &InteractiveInput::Prompt("/etc/hosts is wrong"),
        );
        check("/ is a sign", &InteractiveInput::Prompt("/ is a sign"));
        check("! git diff", &InteractiveInput::Shell("git diff"));
        assert!(parse_input("!").is_err());
    }

    #[test]
    fn a_mistyped_command_starts_no_turn() {
        let error = parse_input("/contxt").unwrap_err();
        assert_eq!(error.to_string(), "unknown command `/contxt`");
        assert_eq!(error.hints(), ["did you mean `/context`?"]);
        assert!(parse_input("/nonsense please").is_err());
        check(
            " /nonsense please",
            &InteractiveInput::Prompt("/nonsense please"),
        );
    }

    #[test]
    fn a_command_without_its_slash_starts_no_turn() {
        for (text, hint) in [
            ("help", "type `/help`"),
            (" status ", "type `/status`"),
            ("init", "leave with `/quit`, then run `massgen init`"),
        ] {
            let error = parse_input(text).unwrap_err();
            assert_eq!(error.hints()[0], hint);
        }
        for text in ["help me", "version 2 is missing", "login\nand logout"] {
            check(text, &InteractiveInput::Prompt(text));
        }
    }

    #[test]
    fn a_text_of_several_lines_is_no_command() {
        for text in ["/quit\nsecond line", "/reset\n", "/context add a\nb"] {
            let parsed = parse_input(text);
            assert_eq!(parsed.is_err(), text.trim().contains('\n'), "{text:?}");
        }
        check(
            " /quit\nsecond line",
            &InteractiveInput::Prompt("/quit\nsecond line"),
        );
        check("quit\nsmoking", &InteractiveInput::Prompt("quit\nsmoking"));
        check(
            "!echo a\necho b",
            &InteractiveInput::Shell("echo a\necho b"),
        );
    }

    #[test]
    fn every_command_that_is_offered_is_known() {
        for offered in OFFERED_COMMANDS {
            assert!(
                matches!(
                    parse_input(offered.name),
                    Ok(InteractiveInput::Command(_, ""))
                ),
                "{}",
                offered.name
            );
        }
    }
}
