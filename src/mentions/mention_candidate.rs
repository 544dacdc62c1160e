//! Finds where a mention may begin and end in a text: the strings after an `@` that may be the path
//! that is meant. It does not know whether any of them exists.

use crate::permissions::grant::Permission;
use crate::tools::call::USER_PATH_BYTES_MAX;

/// The suffix of a mention that asks for write permission.
pub(crate) const WRITE_SUFFIX: &str = ":w";

/// Returns how a mention that asks for `permission` ends.
pub(crate) fn permission_suffix(permission: Permission) -> &'static str {
    match permission {
        Permission::Read => "",
        Permission::Write => WRITE_SUFFIX,
    }
}

/// From this character on, letters may end a bare name: some scripts put no spaces between words.
pub(crate) const UNSPACED_SCRIPTS_START: char = '\u{2e80}';

/// Maximum number of ends that are tried for one mention. This keeps hostile prompts cheap.
const ENDS_MAX: usize = 6;

/// Maximum length of an extension that makes a bare name a file's (`notes.ipynb`, but not
/// `@pytest.fixture`).
const BARE_EXTENSION_CHARS_MAX: usize = 5;

/// Maximum length of an extension that makes a name with a directory a file's.
const EXTENSION_CHARS_MAX: usize = 16;

/// Characters that belong to the sentence, not to the name, if the name ends with them.
const TRAILING_PUNCTUATION: &[char] = &['.', '-', '*'];

/// One way to parse what follows an `@`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MentionCandidate<'a> {
    /// The path as written, without quotes and `:w`. Never empty.
    pub name: &'a str,
    /// The permission that `:w` or its absence asks for.
    pub permission: Permission,
    /// The text after it.
    pub rest: &'a str,
}

/// Kind of the text directly before an `@`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrecedingText {
    /// Something before a mention: nothing, a space, a bracket, another mention.
    Gap,
    /// A letter or digit, as in an e-mail address.
    Word,
    /// A slash, as in a URL.
    Slash,
}

impl PrecedingText {
    /// Classifies `previous`, the character before the `@`. Letters beyond ASCII count as gaps:
    /// some scripts put no spaces between words.
    pub(crate) fn from_previous(previous: Option<char>) -> Self {
        match previous {
            Some('/') => PrecedingText::Slash,
            Some(c) if c.is_ascii_alphanumeric() || c == '_' => PrecedingText::Word,
            _ => PrecedingText::Gap,
        }
    }
}

impl<'a> MentionCandidate<'a> {
    fn new(name: &'a str, rest: &'a str) -> Self {
        match rest.strip_prefix(WRITE_SUFFIX) {
            Some(rest) if is_separate_suffix(rest) => Self {
                name,
                permission: Permission::Write,
                rest,
            },
            _ => Self {
                name,
                permission: Permission::Read,
                rest,
            },
        }
    }

    /// Returns whether this can only be meant as a path, so that a missing file is worth a warning.
    /// `@alice`, `@types/node` and `@property` are not such strings.
    pub(crate) fn is_certainly_path(&self) -> bool {
        let name = self.name;
        let path_beginnings = ["/", "./", "../", "~"];
        self.permission == Permission::Write
            || name == ".."
            || name.ends_with('/')
            || path_beginnings
                .iter()
                .any(|beginning| name.starts_with(beginning))
            || has_extension(name)
    }

    /// Returns whether it may be a mention even directly after a word: `see@src/main.rs` may,
    /// `x@a.py` and `user@host` are addresses.
    pub(crate) fn is_path_after_word(&self) -> bool {
        self.name.contains('/') && self.name.starts_with(|c: char| c.is_alphanumeric())
    }
}

/// Returns whether a name ends with what looks like the extension of a file.
fn has_extension(name: &str) -> bool {
    let (directory, file) = name.rsplit_once('/').unwrap_or(("", name));
    let chars_max = if directory.is_empty() {
        BARE_EXTENSION_CHARS_MAX
    } else {
        EXTENSION_CHARS_MAX
    };
    file.rsplit_once('.').is_some_and(|(stem, extension)| {
        // A hidden file (`.env`) has no stem, and may have any extension.
        let chars_max = if stem.is_empty() {
            EXTENSION_CHARS_MAX
        } else {
            chars_max
        };
        (1..=chars_max).contains(&extension.len())
            && extension.chars().all(|c| c.is_ascii_alphanumeric())
            && extension.chars().any(|c| c.is_ascii_alphabetic())
    })
}

/// Returns the ways to parse `after`, the text after an `@`, shortest name first; none if no name
/// follows.
pub(crate) fn mention_candidates(after: &str) -> Vec<MentionCandidate<'_>> {
    let mut candidates = match after.strip_prefix('"') {
        Some(quoted) => quoted_name(quoted).into_iter().collect(),
        None => bare_names(after),
    };
    candidates.retain(|candidate| (1..=USER_PATH_BYTES_MAX).contains(&candidate.name.len()));
    candidates
}

fn quoted_name(quoted: &str) -> Option<MentionCandidate<'_>> {
    let (name, rest) = quoted.split_once('"')?;
    (!name.contains('\n')).then(|| MentionCandidate::new(name, rest))
}

fn bare_names(after: &str) -> Vec<MentionCandidate<'_>> {
    let mut candidates = Vec::new();
    for end in bare_name_ends(after) {
        let Some((name, rest)) = after.split_at_checked(end) else {
            continue;
        };
        let trimmed_name = name.trim_end_matches(TRAILING_PUNCTUATION);
        if let (true, Some(rest)) = (
            trimmed_name.len() < name.len(),
            after.get(trimmed_name.len()..),
        ) {
            candidates.push(MentionCandidate::new(trimmed_name, rest));
        }
        // `a.py:w` asks to write `a.py`; a file with that name needs quotes.
        if !name.ends_with(WRITE_SUFFIX) {
            candidates.push(MentionCandidate::new(name, rest));
        }
    }
    candidates
}

/// Returns where a bare name may end: before a space, before a separator, at the end of the text.
fn bare_name_ends(after: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut previous_character = None;
    for (at, c) in after.char_indices() {
        if is_space(c) {
            ends.push(at);
            return ends;
        }
        if may_end_name(previous_character, c) {
            ends.push(at);
        }
        // A name that would end before its first character is none.
        if previous_character.is_none() && !ends.is_empty() || ends.len() == ENDS_MAX {
            return ends;
        }
        previous_character = Some(c);
    }
    ends.push(after.len());
    ends
}

/// Returns whether `:w` is a separate word, given the text `rest` after it.
fn is_separate_suffix(rest: &str) -> bool {
    let next_character = rest.trim_start_matches(TRAILING_PUNCTUATION).chars().next();
    next_character.is_none_or(|c| is_space(c) || may_end_name(Some('w'), c))
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

/// Returns whether a name may end between `previous` and `c`. It may also continue: the longest
/// name that exists is used.
fn may_end_name(previous: Option<char>, c: char) -> bool {
    match c {
        // `node_modules/@types` is one name.
        '@' => previous != Some('/'),
        // East Asian words follow without a space.
        UNSPACED_SCRIPTS_START.. if c.is_alphanumeric() => {
            previous.is_some_and(|previous| previous.is_ascii_alphanumeric())
        }
        _ => is_punctuation(c),
    }
}

fn is_punctuation(c: char) -> bool {
    matches!(
        c,
        ',' | ';' | ':' | '!' | '?' | ')' | ']' | '}' | '<' | '>' | '|' | '#' | '\\'
            | '\'' | '"' | '`' | '«' | '»'
            // Dashes, quotation marks and dots of typography, arrows.
            | '\u{2010}'..='\u{205e}' | '\u{2190}'..='\u{21ff}'
            // East Asian punctuation.
            | '\u{3001}'..='\u{303f}' | '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}'
    )
}
