//! Parses the mentions in a prompt: finds each `@path` and `@path:w` that a user wrote, what they
//! ask for, and the prompt with the paths filled in. A mention counts only in text that the user
//! typed, never in piped or pasted text, a file, a tool's output or a model's words. Nothing is
//! opened: a mention is a request that becomes a grant elsewhere. What was found also has a JSON
//! form, for other programs.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::mentions::mention_candidate::{MentionCandidate, PrecedingText, mention_candidates};
use crate::path::AbsPath;
use crate::permissions::grant::Permission;

mod mention_candidate;
pub(crate) use mention_candidate::permission_suffix;
pub mod opened_paths;
pub mod pasted_mentions;
pub mod partial_mention;

/// Number of mentioned files of one directory from which on naming the directory is suggested.
const FILES_FOR_SUGGESTION_MIN: usize = 3;

/// Maximum number of `@` in piped text that are looked up to show the user what they name.
const PIPED_MENTIONS_MAX: usize = 256;

/// The text of a task, by origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskText {
    /// The text that the user typed. Its mentions open what they name.
    pub typed_text: String,
    /// The text from standard input. It follows the typed text and opens nothing.
    pub piped_text: Option<String>,
}

impl TaskText {
    /// Creates a task that was typed as a whole.
    pub fn from_typed(text: impl Into<String>) -> Self {
        Self {
            typed_text: text.into(),
            piped_text: None,
        }
    }

    /// Returns the whole text, as the agents' task: piped text follows the typed text after an
    /// empty line.
    pub fn full_text(&self) -> String {
        match &self.piped_text {
            None => self.typed_text.clone(),
            Some(piped_text) if self.typed_text.is_empty() => piped_text.clone(),
            Some(piped_text) => format!("{}{PIPED_GAP}{piped_text}", self.typed_text),
        }
    }
}

/// Separator between typed and piped text.
const PIPED_GAP: &str = "\n\n";

/// Context for looking up the paths of a prompt.
#[derive(Clone, Copy)]
pub struct MentionLookup<'a> {
    /// The directory that relative paths start from.
    pub base: &'a AbsPath,
    /// The directory that `~/` means.
    pub home: Option<&'a AbsPath>,
    /// Looks up a path on disk.
    pub inspect: &'a dyn Fn(&AbsPath) -> LookupResult,
}

impl std::fmt::Debug for MentionLookup<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug_struct = formatter.debug_struct("MentionLookup");
        debug_struct
            .field("base", self.base)
            .field("home", &self.home);
        debug_struct.finish_non_exhaustive()
    }
}

/// Result of looking up a path, with symlinks followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupResult {
    /// A regular file that can be read.
    File,
    /// A directory that can be read.
    Directory,
    /// Nothing: the name does not exist, or a symlink is dangling.
    Missing,
    /// Something that cannot be read as a file or directory: permission is denied, symlinks form a
    /// loop, or it is a socket, a pipe or a device.
    Unreadable,
}

/// Extent of what a mention would open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MentionReach {
    /// Something in the base directory.
    Inside,
    /// Something elsewhere.
    Outside,
    /// `/`, the home directory or a directory above it, or one above the base directory: more than
    /// two characters should open.
    Broad,
}

/// One path that the user mentioned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// The path.
    pub path: AbsPath,
    /// The permission that is asked for: the highest of all its mentions.
    pub permission: Permission,
    /// What was found at the path.
    pub lookup_result: LookupResult,
    /// How much it would open.
    pub reach: MentionReach,
}

/// A prompt, and what its mentions ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedPrompt {
    /// What the user wrote.
    pub original_prompt: String,
    /// The same with mentions replaced by absolute paths; otherwise only `\@` is changed, to `@`.
    pub cleaned_prompt: String,
    /// The files and directories that exist, in the order of their first mention.
    pub mentions: Vec<Mention>,
    /// Paths that are missing or unreadable; the prompt still shows them as they were written.
    pub missing_mentions: Vec<Mention>,
    /// Words after an `@` that name nothing and need not be paths, such as names of people and
    /// decorators.
    pub word_mentions: Vec<Mention>,
    /// The existing files and directories that piped text mentions. They are not opened.
    pub piped_mentions: Vec<Mention>,
    /// What the user could have written instead.
    pub suggestions: Vec<String>,
}

impl ParsedPrompt {
    /// Returns the mentions that ask for far too much.
    pub fn broad_mentions(&self) -> impl Iterator<Item = &Mention> {
        self.mentions
            .iter()
            .filter(|mention| mention.reach == MentionReach::Broad)
    }
}

/// Finds the mentions in `task`. The longest name that exists is used. One that does not exist is
/// plain text unless it can only be meant as a path. Piped text stays as it is.
pub fn parse_mentions(task: &TaskText, lookup: MentionLookup<'_>) -> ParsedPrompt {
    let mut parser = MentionParser::new(lookup);
    parser.parse(&task.typed_text);
    let mut cleaned_prompt = parser.cleaned_text;
    let mut piped_mentions = MentionList::default();
    if let Some(piped_text) = &task.piped_text {
        if !cleaned_prompt.is_empty() {
            cleaned_prompt.push_str(PIPED_GAP);
        }
        cleaned_prompt.push_str(piped_text);
        let mut piped_parser = MentionParser::new(lookup);
        piped_parser.lookups_left = PIPED_MENTIONS_MAX;
        piped_parser.parse(piped_text);
        piped_mentions = piped_parser.mentions;
    }
    ParsedPrompt {
        original_prompt: task.full_text(),
        suggestions: suggest_directories(&parser.mentions.list, lookup.base),
        cleaned_prompt,
        mentions: parser.mentions.list,
        missing_mentions: parser.missing_mentions.list,
        word_mentions: parser.word_mentions.list,
        piped_mentions: piped_mentions.list,
    }
}

/// Returns the parts of `prompt` that other programs read, as one JSON object.
pub fn to_json(prompt: &ParsedPrompt) -> Value {
    let context_paths: Vec<Value> = prompt
        .mentions
        .iter()
        .map(|mention| {
            json!({
                "path": mention.path.to_string(),
                "permission": mention.permission.to_string(),
            })
        })
        .collect();
    let missing_paths: Vec<String> = prompt
        .missing_mentions
        .iter()
        .map(|mention| mention.path.to_string())
        .collect();
    json!({
        "original_prompt": prompt.original_prompt,
        "cleaned_prompt": prompt.cleaned_prompt,
        "context_paths": context_paths,
        "missing_paths": missing_paths,
        "suggestions": prompt.suggestions,
    })
}

/// Mentions in the order of their appearance, each path once.
#[derive(Default)]
struct MentionList {
    list: Vec<Mention>,
    index_by_path: BTreeMap<AbsPath, usize>,
}

impl MentionList {
    fn add(&mut self, new: Mention) {
        let known_index = self.index_by_path.get(&new.path).copied();
        if let Some(known_mention) = known_index.and_then(|index| self.list.get_mut(index)) {
            known_mention.permission = known_mention.permission.max(new.permission);
        } else {
            self.index_by_path.insert(new.path.clone(), self.list.len());
            self.list.push(new);
        }
    }
}

/// Parses the mentions of one text.
struct MentionParser<'a> {
    lookup: MentionLookup<'a>,
    /// How many more `@` may be looked up; later ones are plain text.
    lookups_left: usize,
    /// The text so far, with mentions replaced by absolute paths.
    cleaned_text: String,
    /// Each mention that names something, with its start in bytes.
    occurrences: Vec<MentionOccurrence>,
    mentions: MentionList,
    missing_mentions: MentionList,
    word_mentions: MentionList,
}

/// A mention at its position in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MentionOccurrence {
    /// The position of its `@`, in bytes.
    at: usize,
    /// What it names.
    mention: Mention,
}

impl<'a> MentionParser<'a> {
    fn new(lookup: MentionLookup<'a>) -> Self {
        Self {
            lookup,
            lookups_left: usize::MAX,
            cleaned_text: String::new(),
            occurrences: Vec::new(),
            mentions: MentionList::default(),
            missing_mentions: MentionList::default(),
            word_mentions: MentionList::default(),
        }
    }

    fn parse(&mut self, prompt: &str) {
        let mut rest = prompt;
        // The character before `rest`, unless that begins after a mention.
        let mut previous = None;
        while let Some((text, after)) = rest.split_once('@') {
            rest = after;
            if let Some(text) = text.strip_suffix('\\') {
                self.cleaned_text.push_str(text);
                self.cleaned_text.push('@');
                previous = Some('@');
                continue;
            }
            self.cleaned_text.push_str(text);
            let preceding_text =
                PrecedingText::from_previous(text.chars().next_back().or(previous));
            let at = prompt.len().saturating_sub(after.len()).saturating_sub(1);
            if let Some(text_after) = self.parse_mention(preceding_text, at, after) {
                rest = text_after;
                previous = None;
            } else {
                self.cleaned_text.push('@');
                previous = Some('@');
            }
        }
        self.cleaned_text.push_str(rest);
    }

    /// Parses the mention that begins with the `@` at `at` if there is one, and returns the text
    /// after it; `after` is the text after the `@`.
    fn parse_mention<'p>(
        &mut self,
        preceding_text: PrecedingText,
        at: usize,
        after: &'p str,
    ) -> Option<&'p str> {
        self.lookups_left = self.lookups_left.checked_sub(1)?;
        let mut candidates = match preceding_text {
            PrecedingText::Slash => return None,
            PrecedingText::Word | PrecedingText::Gap => mention_candidates(after),
        };
        if preceding_text == PrecedingText::Word {
            candidates.retain(MentionCandidate::is_path_after_word);
        }
        let mut shortest = None;
        // The longest name that exists is used, and the shortest one is left if none exists.
        for candidate in candidates.iter().rev() {
            let mention = self.look_up(candidate);
            if matches!(
                mention.lookup_result,
                LookupResult::File | LookupResult::Directory
            ) {
                self.push_path(&mention.path, candidate.rest);
                self.occurrences.push(MentionOccurrence {
                    at,
                    mention: mention.clone(),
                });
                self.mentions.add(mention);
                return Some(candidate.rest);
            }
            shortest = Some((candidate, mention));
        }
        // A word that names something that cannot be read was meant as a path, too.
        if let (PrecedingText::Gap, Some((shortest, mention))) = (preceding_text, shortest) {
            if shortest.is_certainly_path() || mention.lookup_result == LookupResult::Unreadable {
                self.missing_mentions.add(mention);
            } else {
                self.word_mentions.add(mention);
            }
        }
        None
    }

    fn look_up(&self, candidate: &MentionCandidate<'_>) -> Mention {
        let path = match (candidate.name.strip_prefix('~'), self.lookup.home) {
            (Some(""), Some(home)) => home.clone(),
            (Some(below), Some(home)) if below.starts_with('/') => {
                home.join(below.trim_start_matches('/'))
            }
            _ => AbsPath::resolve(self.lookup.base, candidate.name),
        };
        Mention {
            permission: candidate.permission,
            lookup_result: (self.lookup.inspect)(&path),
            reach: self.reach(&path),
            path,
        }
    }

    fn reach(&self, path: &AbsPath) -> MentionReach {
        let contains = |inner: &AbsPath| inner.is_within(path);
        let MentionLookup { base, home, .. } = self.lookup;
        if path != base && contains(base) || home.is_some_and(contains) {
            MentionReach::Broad
        } else if path.is_within(base) {
            MentionReach::Inside
        } else {
            MentionReach::Outside
        }
    }

    /// Writes `path` in place of a mention, in quotes if it needs them and is not in quotes
    /// already.
    fn push_path(&mut self, path: &AbsPath, rest: &str) {
        let path = path.to_string();
        let is_quoted = ['"', '\'', '`']
            .iter()
            .any(|quote| self.cleaned_text.ends_with(*quote) && rest.starts_with(*quote));
        if path.contains(char::is_whitespace) && !is_quoted {
            self.cleaned_text.push('"');
            self.cleaned_text.push_str(&path);
            self.cleaned_text.push('"');
        } else {
            self.cleaned_text.push_str(&path);
        }
    }
}

/// Suggests to mention a directory instead of many files in it.
fn suggest_directories(mentions: &[Mention], base: &AbsPath) -> Vec<String> {
    let mut file_counts: BTreeMap<AbsPath, usize> = BTreeMap::new();
    for mention in mentions {
        if let (LookupResult::File, Some(parent)) = (mention.lookup_result, mention.path.parent()) {
            *file_counts.entry(parent).or_default() += 1;
        }
    }
    file_counts
        .into_iter()
        .filter(|(_, files)| *files >= FILES_FOR_SUGGESTION_MIN)
        .map(|(directory, files)| {
            let name = match directory.below(base) {
                Some(below) if below.is_root() => ".".to_owned(),
                Some(below) => format!("{below}/"),
                None => format!("{directory}/"),
            };
            let mention = if name.contains(char::is_whitespace) {
                format!("@\"{name}\"")
            } else {
                format!("@{name}")
            };
            format!(
                "{files} files of one directory are mentioned: use `{mention}` for the whole \
                     directory"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests;
