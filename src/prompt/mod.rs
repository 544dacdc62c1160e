//! Owns the mentions in a prompt: which `@path` and `@path:w` a user wrote, what they ask for, and
//! the prompt with the paths put in. Only what the user typed may be read here, never a file, a
//! tool's output or a model's words. Nothing is opened: a mention is a wish that becomes a grant
//! elsewhere.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::prompt::candidate::{Before, Candidate, candidates};

mod candidate;
pub mod opened;
pub mod typing;

/// This many mentioned files of one directory are worth the suggestion to name the directory.
const FILES_FOR_SUGGESTION_MIN: usize = 3;

/// What the disk says about a path, links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A regular file that can be read.
    File,
    /// A directory that can be read.
    Directory,
    /// Nothing; the name is free, or a link leads nowhere.
    Missing,
    /// Something that cannot be read as a file or directory: the right is missing, links go round
    /// in circles, or it is a socket, a pipe or a device.
    Unreadable,
}

/// How much a mention would open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Something in the base directory.
    Inside,
    /// Something elsewhere.
    Outside,
    /// `/`, the home directory or a directory above it, or one above the base directory: more than
    /// anybody should open by two characters.
    Broad,
}

/// One path that the user mentioned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Where it is.
    pub path: AbsPath,
    /// What is asked for: the most of all its mentions.
    pub permission: Permission,
    /// What is there.
    pub found: Found,
    /// How much it would open.
    pub reach: Reach,
}

/// A prompt with what its mentions ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedPrompt {
    /// What the user wrote.
    pub original_prompt: String,
    /// The same with absolute paths in place of the mentions, and nothing else changed but `\@`,
    /// which is `@`.
    pub cleaned_prompt: String,
    /// The files and directories that are there, in the order of their first mention.
    pub mentions: Vec<Mention>,
    /// What was written as a path and is missing or unreadable; the prompt still shows it as it was
    /// written.
    pub missing: Vec<Mention>,
    /// What the user could have written instead.
    pub suggestions: Vec<String>,
}

impl ParsedPrompt {
    /// The mentions that ask for far too much.
    pub fn broad(&self) -> impl Iterator<Item = &Mention> {
        self.mentions
            .iter()
            .filter(|mention| mention.reach == Reach::Broad)
    }
}

/// Finds the mentions in `prompt`. Relative paths are below `base`, `~/` is `home`; `look` asks the
/// disk. The longest name that exists is taken. One that does not exist is plain text unless it is
/// surely meant as a path.
pub fn parse(
    prompt: &str,
    base: &AbsPath,
    home: Option<&AbsPath>,
    look: &dyn Fn(&AbsPath) -> Found,
) -> ParsedPrompt {
    let mut reader = Reader {
        base,
        home,
        look,
        cleaned: String::with_capacity(prompt.len()),
        mentions: Mentions::default(),
        missing: Mentions::default(),
    };
    reader.read(prompt);
    ParsedPrompt {
        original_prompt: prompt.to_owned(),
        suggestions: suggestions(&reader.mentions.list, base),
        cleaned_prompt: reader.cleaned,
        mentions: reader.mentions.list,
        missing: reader.missing.list,
    }
}

/// The parts of `prompt` that other programs read, as one JSON object.
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
        .missing
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

/// Mentions in the order in which they came, each path once.
#[derive(Default)]
struct Mentions {
    list: Vec<Mention>,
    places: BTreeMap<AbsPath, usize>,
}

impl Mentions {
    fn add(&mut self, new: Mention) {
        let known = self.places.get(&new.path).copied();
        if let Some(old) = known.and_then(|place| self.list.get_mut(place)) {
            old.permission = old.permission.max(new.permission);
        } else {
            self.places.insert(new.path.clone(), self.list.len());
            self.list.push(new);
        }
    }
}

struct Reader<'a> {
    base: &'a AbsPath,
    home: Option<&'a AbsPath>,
    look: &'a dyn Fn(&AbsPath) -> Found,
    cleaned: String,
    mentions: Mentions,
    missing: Mentions,
}

impl Reader<'_> {
    fn read(&mut self, prompt: &str) {
        let mut rest = prompt;
        let mut previous = None;
        while let Some((text, after)) = rest.split_once('@') {
            rest = after;
            if let Some(text) = text.strip_suffix('\\') {
                self.cleaned.push_str(text);
                self.cleaned.push('@');
                previous = Some('@');
                continue;
            }
            self.cleaned.push_str(text);
            let before = Before::of(text.chars().next_back().or(previous));
            if let Some(after) = self.mention(before, after) {
                rest = after;
                previous = None;
            } else {
                self.cleaned.push('@');
                previous = Some('@');
            }
        }
        self.cleaned.push_str(rest);
    }

    /// Reads the mention after an `@` if there is one, and returns the text behind it.
    fn mention<'p>(&mut self, before: Before, after: &'p str) -> Option<&'p str> {
        let mut candidates = match before {
            Before::Slash => return None,
            Before::Word | Before::Gap => candidates(after),
        };
        if before == Before::Word {
            candidates.retain(Candidate::is_a_path_after_a_word);
        }
        for candidate in candidates.iter().rev() {
            let mention = self.looked_up(candidate);
            if matches!(mention.found, Found::File | Found::Directory) {
                self.put(&mention.path, candidate.rest);
                self.mentions.add(mention);
                return Some(candidate.rest);
            }
        }
        if let (Before::Gap, Some(shortest)) = (before, candidates.first())
            && shortest.is_surely_a_path()
        {
            let mention = self.looked_up(shortest);
            self.missing.add(mention);
        }
        None
    }

    fn looked_up(&self, candidate: &Candidate<'_>) -> Mention {
        let path = match (candidate.name.strip_prefix('~'), self.home) {
            (Some(""), Some(home)) => home.clone(),
            (Some(below), Some(home)) if below.starts_with('/') => {
                home.join(below.trim_start_matches('/'))
            }
            _ => AbsPath::resolve(self.base, candidate.name),
        };
        Mention {
            permission: candidate.permission,
            found: (self.look)(&path),
            reach: self.reach(&path),
            path,
        }
    }

    fn reach(&self, path: &AbsPath) -> Reach {
        let holds = |inner: &AbsPath| inner.is_within(path);
        if path != self.base && holds(self.base) || self.home.is_some_and(holds) {
            Reach::Broad
        } else if path.is_within(self.base) {
            Reach::Inside
        } else {
            Reach::Outside
        }
    }

    /// Writes `path` in place of a mention, in quotes if it needs them and has none around it.
    fn put(&mut self, path: &AbsPath, rest: &str) {
        let path = path.to_string();
        let quoted = ['"', '\'', '`']
            .iter()
            .any(|quote| self.cleaned.ends_with(*quote) && rest.starts_with(*quote));
        if path.contains(char::is_whitespace) && !quoted {
            self.cleaned.push('"');
            self.cleaned.push_str(&path);
            self.cleaned.push('"');
        } else {
            self.cleaned.push_str(&path);
        }
    }
}

fn suggestions(mentions: &[Mention], base: &AbsPath) -> Vec<String> {
    let mut directories: BTreeMap<AbsPath, usize> = BTreeMap::new();
    for mention in mentions {
        if let (Found::File, Some(parent)) = (mention.found, mention.path.parent()) {
            *directories.entry(parent).or_default() += 1;
        }
    }
    directories
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
            format!("{files} files of one directory are mentioned: `{mention}` gives all of it")
        })
        .collect()
}

#[cfg(test)]
mod tests;
