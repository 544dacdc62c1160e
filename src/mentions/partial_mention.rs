//! The mention that is being typed: where it begins in the line, how much of it has been typed, and
//! how a complete one is written. It does not know whether anything of that name exists.

use crate::mentions::mention_candidate::{
    PrecedingText, UNSPACED_SCRIPTS_START, WRITE_SUFFIX, permission_suffix,
};
use crate::permissions::grant::Permission;
use crate::tools::call::USER_PATH_BYTES_MAX;

/// Maximum number of `@` before the cursor that are examined. This keeps hostile lines cheap.
const AT_SIGNS_MAX: usize = 8;

/// A mention that ends at the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialMention<'l> {
    /// The position of its `@` in the line, in bytes.
    pub start: usize,
    /// The name so far, without quotes and `:w`.
    pub name: &'l str,
    /// The permission that is asked for so far.
    pub permission: Permission,
}

/// Returns the mention that ends at `cursor`, a position in `line` in bytes. There is none in an
/// e-mail address, after a backslash, or after a closing quote.
pub fn mention_at(line: &str, cursor: usize) -> Option<PartialMention<'_>> {
    let text_before_cursor = line.get(..cursor)?;
    let at_signs = text_before_cursor.rmatch_indices('@').take(AT_SIGNS_MAX);
    for (start, _) in at_signs {
        let name = text_before_cursor.get(start.saturating_add(1)..)?;
        if name.len() > USER_PATH_BYTES_MAX || !may_begin_after(text_before_cursor.get(..start)?) {
            continue;
        }
        match name.strip_prefix('"') {
            Some(quoted) if quoted.contains(['"', '\n']) => return None,
            Some(quoted) => {
                return Some(PartialMention {
                    start,
                    name: quoted,
                    permission: Permission::Read,
                });
            }
            None if name.contains(|c: char| c.is_whitespace() || c.is_control()) => {}
            // In a bare name, `@` appears only after a slash, as in `node_modules/@types`.
            None if name.replace("/@", "").contains('@') => {}
            None => return Some(unquoted_mention(start, name)),
        }
    }
    None
}

/// Returns the mention of `name`, the text between its `@` and the cursor.
fn unquoted_mention(start: usize, name: &str) -> PartialMention<'_> {
    let (name, permission) = match name.strip_suffix(WRITE_SUFFIX) {
        Some(name) => (name, Permission::Write),
        None => (name.strip_suffix(':').unwrap_or(name), Permission::Read),
    };
    PartialMention {
        start,
        name,
        permission,
    }
}

/// Returns whether a mention may begin after `text`.
fn may_begin_after(text: &str) -> bool {
    let previous_character = text.chars().next_back();
    PrecedingText::from_previous(previous_character) == PrecedingText::Gap
        && !matches!(previous_character, Some('\\' | '@'))
}

/// Returns the mention of `name` as it is typed, in quotes if it needs them; `None` if no mention
/// can name it.
pub fn format_mention(name: &str, permission: Permission) -> Option<String> {
    if name.is_empty() || name.contains('"') || name.contains(char::is_control) {
        return None;
    }
    let suffix = permission_suffix(permission);
    Some(if is_bare(name) {
        format!("@{name}{suffix}")
    } else {
        format!("@\"{name}\"{suffix}")
    })
}

/// Returns whether a mention of `name` needs no quotes, because no character could end it early.
fn is_bare(name: &str) -> bool {
    let is_name_char = |c: char| {
        matches!(c, '/' | '.' | '_' | '-' | '+' | '~' | '=' | '%')
            || c.is_alphanumeric() && c < UNSPACED_SCRIPTS_START
    };
    name.chars().all(is_name_char) && (matches!(name, "." | "..") || !name.ends_with(['.', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mentions::{LookupResult, MentionLookup, TaskText, parse_mentions};
    use crate::path::AbsPath;

    /// `line` has `|` as its cursor; expected are the name and the permission.
    #[track_caller]
    fn check(line: &str, expected: Option<(&str, Permission)>) {
        let cursor = line.find('|').unwrap();
        let line = line.replace('|', "");
        let found = mention_at(&line, cursor);
        let found = found.map(|found| (found.name, found.permission));
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn a_mention_is_typed_where_a_word_begins() {
        let read = |name| Some((name, Permission::Read));
        check("@|", read(""));
        check("Review @src/ma| please", read("src/ma"));
        check("(@a|)", read("a"));
        check("two\nlines @b|", read("b"));
        check("me@example|", None);
        check("https://x/@a|", None);
        check("\\@a|", None);
        check("@@a|", None);
        check("@a b|", None);
        check("a|", None);
    }

    #[test]
    fn quotes_hold_spaces_until_they_are_closed() {
        check("@\"my fi|", Some(("my fi", Permission::Read)));
        check("@\"my file\"|", None);
        check("@\"my file\" and @o|", Some(("o", Permission::Read)));
        check("@\"a@b c|", Some(("a@b c", Permission::Read)));
    }

    #[test]
    fn the_suffix_of_the_permission_is_not_part_of_the_name() {
        check("@a.py:|", Some(("a.py", Permission::Read)));
        check("@a.py:w|", Some(("a.py", Permission::Write)));
        check("@a.py:ww|", Some(("a.py:ww", Permission::Read)));
    }

    #[test]
    fn formatted_mentions_are_parsed_as_the_same_path() {
        let base = AbsPath::new("/base").unwrap();
        let names = [
            "a.py",
            "src/",
            "my file.txt",
            "a,b",
            "x.",
            "..",
            "node_modules/@types",
            "naïve.md",
            "a日本.md",
            "it's",
            "a:w",
            "100%",
            "a(b)",
            "-",
            "dash-",
        ];
        for name in names {
            for permission in [Permission::Read, Permission::Write] {
                let text = format_mention(name, permission).unwrap();
                let path = base.join(name);
                let inspect_file = |at: &AbsPath| {
                    if *at == path {
                        LookupResult::File
                    } else {
                        LookupResult::Missing
                    }
                };
                let lookup = MentionLookup {
                    base: &base,
                    home: None,
                    inspect: &inspect_file,
                };
                let parsed =
                    parse_mentions(&TaskText::from_typed(format!("see {text} now")), lookup);
                let found: Vec<_> = parsed
                    .mentions
                    .iter()
                    .map(|m| (&m.path, m.permission))
                    .collect();
                assert_eq!(found, [(&path, permission)], "{text}");
            }
        }
        assert_eq!(format_mention("a\"b", Permission::Read), None);
        assert_eq!(format_mention("", Permission::Read), None);
    }
}
