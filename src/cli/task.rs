//! The task of the command line: which words are the task, and when standard input belongs to it.
//! Standard input is read to its end, and only if a lone `-` asks for it.

use std::io::Read;

use clap::CommandFactory as _;

use crate::cli::args::CliArguments;
use crate::cli::command_line::{
    HELP_WORDS, SHORT_PIPELINE_COMMANDS, unsupported_error, usage_error,
};
use crate::cli::interactive::commands::is_command;
use crate::error::{Error, Result};
use crate::mentions::TaskText;
use crate::text::quote_word;

/// Source of the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskSource {
    /// Typed on the command line.
    Typed(String),
    /// All of standard input.
    Input,
    /// Typed, followed by standard input.
    TypedThenInput(String),
}

impl TaskSource {
    /// Finds the task in its `words`; `program_arguments` are all words of the command line. A
    /// single word that resembles a subcommand is rejected, because a run may cost money.
    pub(crate) fn parse(words: &[String], program_arguments: &[String]) -> Result<Self> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let source = match words.as_slice() {
            [] => return Err(no_task_error()),
            [STANDARD_INPUT] => TaskSource::Input,
            [STANDARD_INPUT, task] | [task, STANDARD_INPUT] => {
                TaskSource::TypedThenInput((*task).to_owned())
            }
            [task] => TaskSource::Typed((*task).to_owned()),
            [first, ..] => {
                let quote_hint = format!("put it in quotes: massgen \"{}\"", words.join(" "));
                let error = match (unsupported_error(first), similar_subcommand(first)) {
                    (Some(error), _) => return Err(error),
                    (None, Some(name)) => not_a_task_error(first, &name),
                    (None, None) => usage_error("the task is more than one argument"),
                };
                return Err(error.with_hint(quote_hint));
            }
        };
        match &source {
            TaskSource::Typed(task) if !program_arguments.iter().any(|word| word == "--") => {
                reject_subcommand(task)?;
            }
            TaskSource::Typed(_) | TaskSource::Input | TaskSource::TypedThenInput(_) => {}
        }
        Ok(source)
    }

    /// Returns the task; reads `input` to its end if the task asks for it, and otherwise does not
    /// touch it.
    pub(crate) fn read(self, input: impl Read) -> Result<TaskText> {
        let task = match self {
            TaskSource::Typed(task) => TaskText::from_typed(task),
            TaskSource::Input => TaskText {
                typed_text: String::new(),
                piped_text: Some(read_standard_input(input)?),
            },
            TaskSource::TypedThenInput(task) => TaskText {
                typed_text: task,
                piped_text: Some(read_standard_input(input)?),
            },
        };
        if task.full_text().trim().is_empty() {
            Err(no_task_error())
        } else {
            Ok(task)
        }
    }
}

/// Reads the standard input that the user asked for. Empty input is an error: the run would have no
/// task.
fn read_standard_input(input: impl Read) -> Result<String> {
    let text = read_text(input)?;
    if text.trim().is_empty() {
        Err(
            usage_error("`-` reads the task from standard input, which is empty")
                .with_hint("check why the command before `|` prints nothing, or omit `-`"),
        )
    } else {
        Ok(text)
    }
}

fn no_task_error() -> Error {
    usage_error("no task given")
        .with_hint("pass one in quotes: massgen --config @examples/basic/offline_demo \"write a hello program\"")
        .with_hint("or read it from standard input: massgen -")
        .with_hint("see `massgen --help`")
}

/// Rejects a single word that was meant as a subcommand, and a command of a session.
fn reject_subcommand(task: &str) -> Result<()> {
    let task_hint = format!("if it is the task, write `massgen -- {}`", quote_word(task));
    if task.starts_with('/') && is_command(task) {
        return Err(usage_error(format!("`{task}` is a command of a session"))
            .with_hint("run `massgen` alone on a terminal, and type it there")
            .with_hint(task_hint));
    }
    let command = command_alias(task).or_else(|| similar_subcommand(task));
    match (unsupported_error(task), command) {
        (Some(error), _) => Err(error.with_hint(task_hint)),
        (None, Some(name)) => Err(not_a_task_error(task, &name).with_hint(task_hint)),
        (None, None) => Ok(()),
    }
}

/// Returns the error for a word that is, or resembles, the subcommand `name`.
fn not_a_task_error(word: &str, name: &str) -> Error {
    if word == name {
        usage_error(format!(
            "the subcommand `{name}` cannot follow the flags of a run"
        ))
        .with_hint(format!("put it first: `massgen {name}`"))
    } else {
        usage_error(format!("`{word}` is not a subcommand"))
            .with_hint(format!("did you mean `massgen {name}`?"))
    }
}

/// Returns `word` in lower case if it is an alias of a subcommand, or is understood as a flag or a
/// command of `massgen pipeline`.
fn command_alias(word: &str) -> Option<String> {
    let word = word.to_lowercase();
    let command = CliArguments::command();
    let mut subcommands = command.get_subcommands();
    let is_command = HELP_WORDS.contains(&word.as_str())
        || SHORT_PIPELINE_COMMANDS.contains(&word.as_str())
        || subcommands.any(|subcommand| subcommand.get_all_aliases().any(|alias| alias == word));
    is_command.then_some(word)
}

/// Returns the subcommand that `word` resembles: one letter in three may differ.
fn similar_subcommand(word: &str) -> Option<String> {
    let distance = |name: &str| strsim::osa_distance(name, &word.to_lowercase());
    CliArguments::command()
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .find(|name| distance(name) <= name.len() / 3)
}

/// Maximum size of standard input, in bytes: more than any model or tool accepts.
pub(crate) const INPUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The argument that means standard input.
pub(crate) const STANDARD_INPUT: &str = "-";

/// Reads all of `input` as text. Bytes that are not UTF-8 become U+FFFD.
pub(crate) fn read_text(input: impl Read) -> Result<String> {
    let limit = u64::try_from(INPUT_BYTES_MAX).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    input
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| Error::io("cannot read standard input", error))?;
    if bytes.len() > INPUT_BYTES_MAX {
        return Err(usage_error(format!(
            "standard input is longer than {INPUT_BYTES_MAX} bytes"
        ))
        .with_hint("shorten it, or mention a file: `Review @path/to/file`"));
    }
    // Only models read it, and a diff may be of files in another encoding.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[&str], expected: std::result::Result<TaskSource, &str>) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let source = TaskSource::parse(&words, &words).map_err(|error| error.to_string());
        assert_eq!(source, expected.map_err(str::to_owned), "{words:?}");
    }

    #[test]
    fn the_task_is_one_argument() {
        let typed = |task: &str| Ok(TaskSource::Typed(task.to_owned()));
        check(&["fix the bug"], typed("fix the bug"));
        check(&["fix"], typed("fix"));
        check(
            &["fix", "the", "bug"],
            Err("the task is more than one argument"),
        );
        check(&["explane", "path"], Err("`explane` is not a subcommand"));
        check(&[], Err("no task given"));
    }

    #[test]
    fn standard_input_is_asked_for_by_a_lone_dash() {
        let then_input = Ok(TaskSource::TypedThenInput("review".to_owned()));
        check(&["-"], Ok(TaskSource::Input));
        check(&["review", "-"], then_input);
        check(&["a - b"], Ok(TaskSource::Typed("a - b".to_owned())));
    }

    #[test]
    fn a_mistyped_subcommand_starts_no_run() {
        check(&["confg"], Err("`confg` is not a subcommand"));
        check(&["Explain"], Err("`Explain` is not a subcommand"));
        check(&["serve"], Err("massgen has no `serve`"));
        check(&["auth"], Err("massgen has no `auth`"));
        check(&["inti"], Err("`inti` is not a subcommand"));
        for command in ["/help", "/model gpt-5"] {
            let message = format!("`{command}` is a command of a session");
            check(&[command], Err(message.as_str()));
        }
        for task in ["/helpers", "/src/main.rs is slow", "quit smoking"] {
            check(&[task], Ok(TaskSource::Typed(task.to_owned())));
        }
        for word in [
            "help",
            "version",
            "setup",
            "quickstart",
            "branches",
            "reset",
        ] {
            let message = format!("the subcommand `{word}` cannot follow the flags of a run");
            check(&[word], Err(message.as_str()));
        }
        check(&["Help"], Err("`Help` is not a subcommand"));
        check(&["help me"], Ok(TaskSource::Typed("help me".to_owned())));
        check(&["run", "fix it"], Err("massgen has no `run`"));
        check(
            &["configure nginx"],
            Ok(TaskSource::Typed("configure nginx".to_owned())),
        );
    }

    #[test]
    fn input_is_read_only_when_asked_for_and_is_bounded() {
        struct Untouchable;
        impl Read for Untouchable {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                panic!("standard input was read");
            }
        }
        let typed = TaskSource::Typed("x".to_owned());
        assert_eq!(typed.read(Untouchable).unwrap(), TaskText::from_typed("x"));
        let both = TaskSource::TypedThenInput("review".to_owned());
        let both = both.read("diff".as_bytes()).unwrap();
        assert_eq!(both.piped_text.as_deref(), Some("diff"));
        assert_eq!(both.full_text(), "review\n\ndiff");
        let endless = TaskSource::Input.read(std::io::repeat(b'a')).unwrap_err();
        assert!(
            endless
                .to_string()
                .starts_with("standard input is longer than ")
        );
        let latin1 = TaskSource::Input.read(&b"caf\xe9"[..]).unwrap();
        assert_eq!(latin1.full_text(), "caf\u{fffd}");
        let both = TaskSource::TypedThenInput("review".to_owned());
        for source in [TaskSource::Input, both] {
            let blank = source.read(&b" \n"[..]).unwrap_err();
            let expected = "`-` reads the task from standard input, which is empty";
            assert_eq!(blank.to_string(), expected);
        }
    }
}
