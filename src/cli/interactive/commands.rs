//! Owns the commands of a session: what can be typed after a slash, and what a typed line means. Pure.

use crate::cli::editor::choices::Offered;
use crate::cli::usage::usage;
use crate::error::{Error, Result};

/// What a line of a session asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line<'l> {
    /// Nothing.
    Empty,
    /// A turn with this prompt.
    Prompt(&'l str),
    /// A command, with what follows it.
    Command(Command, &'l str),
}

/// A command of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Lists the commands.
    Help,
    /// Shows how the session stands.
    Status,
    /// Shows what is open to agents, or closes it.
    Context,
    /// Shows the config.
    Config,
    /// Tells the last turn again.
    Inspect,
    /// Shows what was used.
    Cost,
    /// Shows who voted for whom.
    Votes,
    /// Shows what was delivered.
    Files,
    /// Shows the lines that a delivery changed.
    Diff,
    /// Takes a delivery back.
    Undo,
    /// Lists sessions.
    Sessions,
    /// Goes on with another session.
    Resume,
    /// Begins a new session.
    Reset,
    /// Says how a run is stopped.
    Cancel,
    /// Leaves.
    Quit,
}

/// All commands, in the order in which they are offered.
pub(crate) const OFFERED: &[Offered] = &[
    offered("/help", "lists the commands and keys"),
    offered("/status", "team, session, turn and what holds commands"),
    offered(
        "/context",
        "what is open to agents; `/context remove N` closes it",
    ),
    offered("/config", "the config of the team"),
    offered("/inspect", "tells the last turn again"),
    offered("/cost", "what the last turn used"),
    offered("/votes", "who voted for whom in the last turn"),
    offered("/files", "what the last turn delivered"),
    offered(
        "/diff",
        "the lines that the last delivery changed; `/diff RUN`",
    ),
    offered("/undo", "takes the last delivery back; `/undo RUN`"),
    offered("/sessions", "the sessions of this directory"),
    offered(
        "/resume",
        "goes on with another session: `/resume ID`, or the last one",
    ),
    offered("/reset", "begins a new session"),
    offered("/cancel", "says how a run is stopped"),
    offered("/quit", "leaves; so do Ctrl-D and Ctrl-C twice"),
];

/// Each name with what it means; the short ones and the bare words too.
const NAMES: &[(&str, Command)] = &[
    ("/help", Command::Help),
    ("/h", Command::Help),
    ("/status", Command::Status),
    ("/context", Command::Context),
    ("/config", Command::Config),
    ("/inspect", Command::Inspect),
    ("/i", Command::Inspect),
    ("/cost", Command::Cost),
    ("/votes", Command::Votes),
    ("/files", Command::Files),
    ("/diff", Command::Diff),
    ("/undo", Command::Undo),
    ("/sessions", Command::Sessions),
    ("/resume", Command::Resume),
    ("/reset", Command::Reset),
    ("/clear", Command::Reset),
    ("/cancel", Command::Cancel),
    ("/quit", Command::Quit),
    ("/exit", Command::Quit),
    ("/q", Command::Quit),
    ("quit", Command::Quit),
    ("exit", Command::Quit),
    ("q", Command::Quit),
];

const fn offered(name: &'static str, summary: &'static str) -> Offered {
    Offered { name, summary }
}

/// What `text` asks for. A slash with a plain word that is no command is an error: a prompt may cost
/// money. Text that begins with a path is a prompt.
pub(crate) fn read(text: &str) -> Result<Line<'_>> {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let known = NAMES.iter().find(|(name, _)| *name == word);
    let is_bare = !word.starts_with('/');
    match known {
        Some((_, command)) if !is_bare || rest.is_empty() => {
            Ok(Line::Command(*command, rest.trim()))
        }
        Some(_) | None if text.is_empty() => Ok(Line::Empty),
        None if is_command_like(word) => Err(unknown(word)),
        Some(_) | None => Ok(Line::Prompt(text)),
    }
}

fn is_command_like(word: &str) -> bool {
    let rest = word.strip_prefix('/').unwrap_or_default();
    !rest.is_empty() && rest.chars().all(|c| c.is_ascii_alphabetic())
}

fn unknown(word: &str) -> Error {
    let distance = |name: &str| strsim::osa_distance(name, word);
    let nearest = OFFERED.iter().min_by_key(|offered| distance(offered.name));
    let error = usage(format!("there is no command `{word}`"));
    match nearest.filter(|near| distance(near.name) <= near.name.len() / 3) {
        Some(near) => error.hint(format!("did you mean `{}`?", near.name)),
        None => {
            error.hint("`/help` lists the commands; a prompt that begins so needs a space first")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &Line<'_>) {
        assert_eq!(read(text).unwrap(), *expected, "{text}");
    }

    #[test]
    fn a_line_is_a_prompt_unless_it_is_a_command() {
        check("", &Line::Empty);
        check("  \n", &Line::Empty);
        check(" fix it\nnow ", &Line::Prompt("fix it\nnow"));
        check(
            "/context remove 2",
            &Line::Command(Command::Context, "remove 2"),
        );
        check("quit", &Line::Command(Command::Quit, ""));
        check(
            "quit smoking, a guide",
            &Line::Prompt("quit smoking, a guide"),
        );
        check("/etc/hosts is wrong", &Line::Prompt("/etc/hosts is wrong"));
        check("/ is a sign", &Line::Prompt("/ is a sign"));
    }

    #[test]
    fn a_mistyped_command_starts_no_turn() {
        let error = read("/contxt").unwrap_err();
        assert_eq!(error.to_string(), "there is no command `/contxt`");
        assert_eq!(error.hints(), ["did you mean `/context`?"]);
        assert!(read("/nonsense please").is_err());
    }

    #[test]
    fn every_command_that_is_offered_is_known() {
        for offered in OFFERED {
            assert!(
                matches!(read(offered.name), Ok(Line::Command(_, ""))),
                "{}",
                offered.name
            );
        }
    }
}
