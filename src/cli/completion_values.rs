//! Prints what completes the last word of a command line: names of configs, models, agents,
//! sessions, runs, batches and their cells, and sandbox levels. The scripts of
//! `massgen completions` ask for them. Only names that need no quoting in any shell are printed.

use clap::{Arg, ArgAction, Command};

use crate::cli::args::CliArguments;
use crate::cli::batch::batches_directory;
use crate::cli::continued_session::default_sessions;
use crate::cli::logs::logs_directory;
use crate::cli::output::CliOutput;
use crate::cli::team::load_config_without_warnings;
use crate::cli::team_file::TeamFile;
use crate::config::examples::EXAMPLES;
use crate::config::lookup::{EXAMPLE_PREFIX, config_directories};
use crate::error::Result;
use crate::host::Host;
use crate::spending::models::ModelList;
use crate::world::io::files::file_names;
use crate::world::store::naming::LAST;
use crate::world::store::{batches, runs, sessions};

/// The hidden command that the scripts call.
pub(crate) const COMMAND_NAME: &str = "__complete";
/// Maximum number of values that are printed.
const VALUES_MAX: usize = 1000;
/// The values of `--sandbox`.
const SANDBOX_LEVELS: [&str; 5] = ["auto", "overlay", "namespaces", "landlock", "off"];
/// What the commands about batches begin with.
const BATCH_COMMANDS: &str = "massgen batch ";
/// The extensions of config files.
const CONFIG_EXTENSIONS: [&str; 2] = [".yaml", ".yml"];

/// What can occur at a position of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompletionKind {
    Config,
    Example,
    Model,
    Agent,
    Session,
    Run,
    Batch,
    Cell,
    SandboxLevel,
}

/// What the words before the cursor, and the option in its word, decide about a completion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CompletionContext {
    /// What is completed; `None` if nothing is known about the position.
    kind: Option<CompletionKind>,
    /// The part of the word before the value, such as `--agent=`; empty if the word is the value.
    option_prefix: String,
    /// The config that these words name.
    config: Option<String>,
    /// The batch that these words name.
    batch: Option<String>,
}

impl CompletionContext {
    /// Keeps the value of an option if a completion depends on it.
    fn read_option(&mut self, arg: &Arg, value: &str) {
        if arg.get_long() == Some("config") {
            self.config = Some(value.to_owned());
        }
    }
}

/// Prints what the last of `words` can become, one on a line. There is nothing if anything fails.
pub(crate) fn print_values(
    host: &Host,
    words: &[String],
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // The scripts put `--` before the words of the command line.
    let words = words.strip_prefix(&["--"]).unwrap_or(&words);
    let Some((word, earlier_words)) = words.split_last() else {
        return Ok(());
    };
    let context = find_context(earlier_words, word);
    let option_prefix = &context.option_prefix;
    let value_prefix = word.strip_prefix(option_prefix.as_str()).unwrap_or(word);
    let kind = context.kind;
    let mut values = kind.map_or_else(Vec::new, |kind| values(kind, &context, host));
    values.retain(|value| value.starts_with(value_prefix) && value.chars().all(is_plain));
    values.truncate(VALUES_MAX);
    let line = |value: String| format!("{option_prefix}{value}\n");
    let lines: Vec<String> = values.into_iter().map(line).collect();
    output.result(&lines.concat())
}

/// Returns whether a character needs no quotes in bash, zsh and fish.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_./@:+-".contains(c)
}

/// Finds what `word` can become after the words `earlier_words`.
fn find_context(earlier_words: &[&str], word: &str) -> CompletionContext {
    let mut command = CliArguments::full_command();
    let mut context = CompletionContext::default();
    let mut pending_option: Option<Arg> = None;
    let mut positionals = 0;
    for earlier_word in earlier_words {
        if let Some(arg) = pending_option.take() {
            context.read_option(&arg, earlier_word);
        } else if let Some((arg, value)) = find_option(&command, earlier_word) {
            if let Some(value) = value {
                context.read_option(arg, value);
            } else if matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) {
                pending_option = Some(arg.clone());
            }
        } else if let Some(subcommand) = command
            .find_subcommand(earlier_word)
            .filter(|_| positionals == 0)
        {
            command = subcommand.clone();
        } else if !earlier_word.starts_with('-') {
            let positional = command.get_positionals().nth(positionals);
            if positional.is_some_and(|arg| arg.get_id() == "batch") {
                context.batch = Some((*earlier_word).to_owned());
            }
            positionals += 1;
        }
    }
    let option = word
        .split_once('=')
        .filter(|(name, _)| name.starts_with("--"));
    context.kind = match (pending_option, option) {
        (Some(arg), _) => kind_for_option(&arg),
        (None, Some((name, _))) => {
            context.option_prefix = format!("{name}=");
            find_option(&command, name).and_then(|(arg, _)| kind_for_option(arg))
        }
        (None, None) => {
            positional_at(&command, positionals).and_then(|arg| kind_for_positional(&command, arg))
        }
    };
    context
}

/// Returns the option that `word` names, and its value if the word contains one, as in
/// `--config=FILE` and `-cFILE`.
fn find_option<'c, 'w>(command: &'c Command, word: &'w str) -> Option<(&'c Arg, Option<&'w str>)> {
    let mut args = command.get_arguments();
    if let Some(long_option) = word.strip_prefix("--") {
        let (name, value) = match long_option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long_option, None),
        };
        let arg = args.find(|arg| arg.get_long() == Some(name))?;
        return Some((arg, value));
    }
    let mut letters = word.strip_prefix('-')?.chars();
    let name = letters.next()?;
    let arg = args.find(|arg| arg.get_short() == Some(name))?;
    let rest = letters.as_str();
    let value = rest.strip_prefix('=').unwrap_or(rest);
    Some((arg, (!rest.is_empty()).then_some(value)))
}

/// Returns the positional argument that the word at `position` belongs to. The last argument
/// takes all further words if it is a list.
fn positional_at(command: &Command, position: usize) -> Option<&Arg> {
    let last_list = || {
        let last_arg = command.get_positionals().last();
        last_arg.filter(|arg| matches!(arg.get_action(), ArgAction::Append))
    };
    command.get_positionals().nth(position).or_else(last_list)
}

fn kind_for_option(arg: &Arg) -> Option<CompletionKind> {
    match arg.get_long()? {
        "config" => Some(CompletionKind::Config),
        "model" => Some(CompletionKind::Model),
        "agent" => Some(CompletionKind::Agent),
        "session-id" => Some(CompletionKind::Session),
        "sandbox" => Some(CompletionKind::SandboxLevel),
        _ => None,
    }
}

fn kind_for_positional(command: &Command, arg: &Arg) -> Option<CompletionKind> {
    match (command.get_bin_name()?, arg.get_id().as_str()) {
        ("massgen config show", "name") => Some(CompletionKind::Example),
        ("massgen models", "pattern") => Some(CompletionKind::Model),
        (_, "run") => Some(CompletionKind::Run),
        (name, "batch") if name.starts_with(BATCH_COMMANDS) => Some(CompletionKind::Batch),
        ("massgen batch apply", "cell") => Some(CompletionKind::Cell),
        (_, "session" | "sessions") => Some(CompletionKind::Session),
        _ => None,
    }
}

fn values(kind: CompletionKind, context: &CompletionContext, host: &Host) -> Vec<String> {
    let with_last = |names: Vec<String>| {
        let last_name = (!names.is_empty()).then(|| LAST.to_owned());
        last_name.into_iter().chain(names).collect()
    };
    match kind {
        CompletionKind::Config => config_names(host),
        CompletionKind::Example => example_names().collect(),
        CompletionKind::Model => {
            let model_list = ModelList::with_user_rows(Vec::new());
            model_list
                .rows()
                .iter()
                .map(|row| row.name.clone())
                .collect()
        }
        CompletionKind::Agent => agent_names(context.config.as_deref(), host),
        CompletionKind::Session => {
            let entries = sessions::list(&default_sessions(host)).unwrap_or_default();
            with_last(entries.iter().map(sessions::SessionDir::id).collect())
        }
        CompletionKind::Run => {
            let entries = runs::list(&logs_directory(host)).unwrap_or_default();
            with_last(entries.iter().map(runs::RunDir::name).collect())
        }
        CompletionKind::Batch => {
            let entries = batches::list(&batches_directory(host)).unwrap_or_default();
            with_last(entries.iter().map(batches::BatchDir::name).collect())
        }
        CompletionKind::Cell => cell_names(context.batch.as_deref(), host).unwrap_or_default(),
        CompletionKind::SandboxLevel => SANDBOX_LEVELS.map(str::to_owned).to_vec(),
    }
}

fn example_names() -> impl Iterator<Item = String> {
    let names = EXAMPLES.iter().map(|example| example.name);
    names.map(|name| name.trim_end_matches(".yaml").to_owned())
}

/// Returns the configs that can be named without a path, and the built-in ones.
fn config_names(host: &Host) -> Vec<String> {
    let folders = config_directories(&host.project, host.home.as_ref()).into_iter();
    let stem = |name: String| {
        let mut extensions = CONFIG_EXTENSIONS.iter();
        let stem = extensions.find_map(|extension| name.strip_suffix(extension));
        stem.map(str::to_owned)
    };
    let stems = folders
        .flat_map(|folder| file_names(&folder))
        .filter_map(stem);
    let built_in = example_names().map(|name| format!("{EXAMPLE_PREFIX}{name}"));
    stems.chain(built_in).collect()
}

/// Returns the cells of the batch `name`.
fn cell_names(name: Option<&str>, host: &Host) -> Result<Vec<String>> {
    let batch = batches::find(name.unwrap_or(LAST), &batches_directory(host))?.batch;
    let cells = batch.cell_ids(&batch.record()?)?;
    Ok(cells.iter().map(ToString::to_string).collect())
}

/// Returns the agents of the config `config_name`, or of the one that a run would use.
fn agent_names(config_name: Option<&str>, host: &Host) -> Vec<String> {
    let mut discarded_output = CliOutput::with_writers(std::io::sink(), std::io::sink());
    let file = match config_name {
        Some(name) => TeamFile::find(name, host).ok(),
        None => TeamFile::find_default(host, &mut discarded_output)
            .ok()
            .flatten(),
    };
    let config =
        file.and_then(|file| load_config_without_warnings(&file, host, &mut discarded_output).ok());
    let agents = config.into_iter().flat_map(|config| config.agents);
    agents.map(|agent| agent.id.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &[&str], expected: Option<CompletionKind>) {
        assert_eq!(find_context(before, "").kind, expected, "{before:?}");
    }

    #[test]
    fn the_value_in_the_word_of_an_option_is_completed() {
        for (before, word, kind) in [
            (&[][..], "--config=te", Some(CompletionKind::Config)),
            (
                &["explain", "path"],
                "--agent=",
                Some(CompletionKind::Agent),
            ),
            (&[], "--sandbox=a=b", Some(CompletionKind::SandboxLevel)),
            (&[], "--unknown=a", None),
            (&["logs", "show"], "--config=a", None),
        ] {
            let context = find_context(before, word);
            assert_eq!(context.kind, kind, "{word}");
            let name = word.split('=').next().unwrap();
            assert_eq!(context.option_prefix, format!("{name}="));
        }
        // After an option, the whole word is its value.
        let context = find_context(&["--config"], "--agent=a");
        assert_eq!(context.kind, Some(CompletionKind::Config));
        assert_eq!(context.option_prefix, "");
    }

    #[test]
    fn the_words_before_decide_what_completes_a_word() {
        check(&["--config"], Some(CompletionKind::Config));
        check(&["-c"], Some(CompletionKind::Config));
        check(&["-m"], Some(CompletionKind::Model));
        check(&["--sandbox"], Some(CompletionKind::SandboxLevel));
        check(
            &["--continue", "--session-id"],
            Some(CompletionKind::Session),
        );
        check(&["config", "show"], Some(CompletionKind::Example));
        check(&["logs", "show"], Some(CompletionKind::Run));
        check(&["logs", "show", "last"], None);
        check(&["diff", "--stat"], Some(CompletionKind::Run));
        check(&["undo", "--path", "src"], Some(CompletionKind::Run));
        check(&["sessions", "delete"], Some(CompletionKind::Session));
        check(&["sessions", "delete", "a"], Some(CompletionKind::Session));
        check(&["sessions", "show", "a"], None);
        check(&["explain", "path", "--agent"], Some(CompletionKind::Agent));
        check(&["batch", "status"], Some(CompletionKind::Batch));
        check(&["batch", "apply", "last"], Some(CompletionKind::Cell));
        check(&["batch", "run"], None);
        let context = find_context(&["batch", "apply", "batch_1"], "");
        assert_eq!(context.batch.as_deref(), Some("batch_1"));
        check(&["a task"], None);
        for config in [
            &["-c", "team.yaml"][..],
            &["--config", "team.yaml"],
            &["--config=team.yaml"],
            &["-cteam.yaml"],
            &["-c=team.yaml"],
        ] {
            let words = [&["explain", "path"][..], config, &["--agent"]].concat();
            let context = find_context(&words, "");
            assert_eq!(context.config.as_deref(), Some("team.yaml"), "{config:?}");
            assert_eq!(context.kind, Some(CompletionKind::Agent), "{config:?}");
        }
    }
}
