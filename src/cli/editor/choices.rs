//! Finds completions for the text before the cursor: the path of a mention, or a command of the
//! session.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;

use crate::mentions::partial_mention::{format_mention, mention_at};
use crate::permissions::grant::Permission;
use crate::world::io::file_finder::{FileFinder, IndexEntryKind, SearchExtent};

/// A command of the session, as shown to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlashCommand {
    /// Its name, with the slash.
    pub(crate) name: &'static str,
    /// Summary for the list of commands.
    pub(crate) summary: &'static str,
}

/// A value that a command takes, and a note on it.
pub(crate) type CommandValue = (String, String);
/// Finds the values of a command.
type FindValues = Box<dyn FnOnce() -> Vec<CommandValue> + Send>;
/// The values of a command, which are found when they are offered for the first time.
type LazyValues = LazyLock<Vec<CommandValue>, FindValues>;

/// The values that commands take, by the name of the command, for completion.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandValues(Arc<Mutex<BTreeMap<&'static str, LazyValues>>>);

impl CommandValues {
    /// Sets how the values of a command are found.
    pub(crate) fn set(
        &self,
        command: &'static str,
        find: impl FnOnce() -> Vec<CommandValue> + Send + 'static,
    ) {
        let find: FindValues = Box::new(find);
        self.0.lock().insert(command, LazyLock::new(find));
    }

    /// Returns the choices for the last word of a command line, if values of its command are known:
    /// those that contain the word, or whose note does.
    fn choices(&self, line: &str, cursor: usize, count_max: usize) -> Option<CompletionChoices> {
        let prefix = line.get(..cursor).filter(|prefix| *prefix == line)?;
        let (command, _) = prefix.split_once(' ')?;
        let start = prefix.rfind(' ')?.saturating_add(1);
        let word = prefix.get(start..)?.to_lowercase();
        let all = self.0.lock();
        let values = all.get(command)?.iter();
        let words = values.map(|(value, note)| (value.as_str(), note.as_str()));
        let matches = words.filter(|(value, note)| {
            value.to_lowercase().contains(&word) || note.to_lowercase().contains(&word)
        });
        word_choices(start, matches, count_max)
    }
}

/// One completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompletionChoice {
    pub(crate) label: String,
    /// A note next to the label.
    pub(crate) note: String,
    /// The replacement text.
    pub(crate) text: String,
    /// The replacement that asks for write access; only for a path.
    pub(crate) write_text: Option<String>,
}

/// All completions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompletionChoices {
    /// Start of the text that is replaced, in bytes.
    pub(crate) start: usize,
    /// The completions, the most likely first.
    pub(crate) list: Vec<CompletionChoice>,
    /// Total number of matches.
    pub(crate) match_count: usize,
    /// Whether the search is complete.
    pub(crate) extent: SearchExtent,
    /// The permission that the text asks for so far.
    pub(crate) permission: Permission,
}

/// Returns completions at `cursor`, at most `count_max`; `None` if there is nothing to complete.
pub(crate) fn find_choices(
    line: &str,
    cursor: usize,
    file_finder: &FileFinder,
    (commands, values): (&[SlashCommand], &CommandValues),
    count_max: usize,
    time_max: Duration,
) -> Option<CompletionChoices> {
    if let Some(choices) = values.choices(line, cursor, count_max) {
        return Some(choices);
    }
    if let Some(choices) = command_choices(line, cursor, commands, count_max) {
        return Some(choices);
    }
    let mention = mention_at(line, cursor)?;
    let matches = file_finder.query(mention.name, count_max, time_max);
    let list: Vec<CompletionChoice> = matches
        .rows
        .into_iter()
        .filter_map(|row| {
            let note = match (row.kind, row.bytes) {
                (IndexEntryKind::Directory, _) => "directory".to_owned(),
                (IndexEntryKind::File, Some(bytes)) => human_size(bytes),
                (IndexEntryKind::File, None) => String::new(),
            };
            Some(CompletionChoice {
                text: format_mention(&row.name, Permission::Read)?,
                write_text: format_mention(&row.name, Permission::Write),
                label: row.name,
                note,
            })
        })
        .collect();
    let choices = CompletionChoices {
        start: mention.start,
        list,
        match_count: matches.matched,
        extent: matches.extent,
        permission: mention.permission,
    };
    (!choices.list.is_empty() || choices.extent == SearchExtent::Part).then_some(choices)
}

fn command_choices(
    line: &str,
    cursor: usize,
    commands: &[SlashCommand],
    count_max: usize,
) -> Option<CompletionChoices> {
    let prefix = line.get(..cursor)?;
    if !prefix.starts_with('/') || line.len() > cursor {
        return None;
    }
    let names = commands
        .iter()
        .map(|command| (command.name, command.summary));
    let matches = names.filter(|(name, _)| name.starts_with(prefix));
    word_choices(0, matches, count_max)
}

/// Returns at most `count_max` of these words and their notes as choices for the text from `start`
/// on; `None` without any.
fn word_choices<'w>(
    start: usize,
    words: impl Iterator<Item = (&'w str, &'w str)>,
    count_max: usize,
) -> Option<CompletionChoices> {
    let mut list: Vec<CompletionChoice> = words
        .map(|(word, note)| CompletionChoice {
            label: word.to_owned(),
            note: note.to_owned(),
            text: word.to_owned(),
            write_text: None,
        })
        .collect();
    let match_count = list.len();
    list.truncate(count_max);
    (match_count > 0).then_some(CompletionChoices {
        start,
        list,
        match_count,
        extent: SearchExtent::Whole,
        permission: Permission::Read,
    })
}

/// Formats a size for people.
pub(crate) fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut tenths = bytes / 100;
    let mut unit = "kB";
    for larger in UNITS {
        unit = larger;
        if tenths < 10_000 {
            break;
        }
        tenths /= 1000;
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let shown = [0, 999, 1000, 1234, 99_999, 1_500_000, 2_000_000_000].map(human_size);
        let expected = [
            "0 B", "999 B", "1.0 kB", "1.2 kB", "99.9 kB", "1.5 MB", "2.0 GB",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_values_of_a_command_are_found_by_their_names_and_notes() {
        let values = CommandValues::default();
        let sessions = [("s1", "fix the parser"), ("s2", "add a flag")];
        let sessions = sessions.map(|(id, task)| (id.to_owned(), task.to_owned()));
        values.set("/resume", move || sessions.to_vec());
        let found = |line: &str| {
            let choices = values.choices(line, line.len(), 8);
            let list = choices.map(|choices| choices.list).unwrap_or_default();
            list.into_iter()
                .map(|choice| choice.text)
                .collect::<Vec<_>>()
        };
        assert_eq!(found("/resume "), ["s1", "s2"]);
        assert_eq!(found("/resume Flag"), ["s2"]);
        assert!(found("/resume").is_empty() && found("/model s").is_empty());
    }

    #[test]
    fn a_command_is_offered_where_a_line_begins_with_it() {
        let commands = [
            SlashCommand {
                name: "/context",
                summary: "",
            },
            SlashCommand {
                name: "/config",
                summary: "",
            },
        ];
        let check = |line: &str, expected: &[&str]| {
            let choices = command_choices(line, line.len(), &commands, 8);
            let list = choices.map(|choices| choices.list).unwrap_or_default();
            let texts: Vec<&str> = list.iter().map(|choice| choice.text.as_str()).collect();
            assert_eq!(texts, expected, "{line}");
        };
        check("/", &["/context", "/config"]);
        check("/cont", &["/context"]);
        check("/etc", &[]);
        check("see /con", &[]);
    }
}
