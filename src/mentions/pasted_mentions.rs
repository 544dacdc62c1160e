//! Pasted mentions: finds the mentions of a line that came with pasted text, or of a whole text
//! that the user did not type, and turns them into plain text. Such text may have been written by
//! someone else.

use std::collections::BTreeSet;

use crate::mentions::mention_candidate::WRITE_SUFFIX;
use crate::mentions::{Mention, MentionLookup, MentionOccurrence, MentionParser};
use crate::path::AbsPath;
use crate::permissions::grant::Permission;

/// The mentions of a line that came with text which the user did not type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastedMentions(Vec<MentionOccurrence>);

impl PastedMentions {
    /// Finds the mentions of `line` that name something and came with one of `pasted_texts`,
    /// wherever these were inserted and however they were edited since: a path that a pasted text
    /// mentions counts as pasted everywhere in the line. If a pasted text contains `:w`, every
    /// mention that asks for write permission counts as pasted.
    pub fn find(line: &str, pasted_texts: &[String], lookup: MentionLookup<'_>) -> Self {
        if pasted_texts.is_empty() {
            return Self::default();
        }
        // Texts that were pasted one after the other may form a mention together.
        let joined_text = pasted_texts.concat();
        let pasted_paths: BTreeSet<AbsPath> = pasted_texts
            .iter()
            .chain([&joined_text])
            .flat_map(|text| occurrences(text, lookup))
            .map(|occurrence| occurrence.mention.path)
            .collect();
        let asks_to_write = pasted_texts.iter().any(|text| text.contains(WRITE_SUFFIX));
        Self::find_closed(line, lookup, &|mention| {
            pasted_paths.contains(&mention.path)
                || asks_to_write && mention.permission == Permission::Write
        })
    }

    /// Finds the mentions of `text` that name something and that `is_closed` applies to: the whole
    /// text may have been written by someone else.
    pub fn find_closed(
        text: &str,
        lookup: MentionLookup<'_>,
        is_closed: &dyn Fn(&Mention) -> bool,
    ) -> Self {
        let mut list = occurrences(text, lookup);
        list.retain(|occurrence| is_closed(&occurrence.mention));
        Self(list)
    }

    /// Returns the mentions, each path and permission once.
    pub fn mentions(&self) -> Vec<&Mention> {
        let mut seen = BTreeSet::new();
        let mentions = self.0.iter().map(|occurrence| &occurrence.mention);
        mentions
            .filter(|mention| seen.insert((&mention.path, mention.permission)))
            .collect()
    }

    /// Returns `line`, in which they were found, with a backslash before each of them: plain text,
    /// which opens nothing when the line is read now or recalled from the history later.
    pub fn escape(&self, line: &str) -> String {
        let mut escaped_line = String::with_capacity(line.len().saturating_add(self.0.len()));
        let mut copied_length = 0;
        for MentionOccurrence { at, .. } in &self.0 {
            escaped_line.push_str(line.get(copied_length..*at).unwrap_or_default());
            escaped_line.push('\\');
            copied_length = *at;
        }
        escaped_line.push_str(line.get(copied_length..).unwrap_or_default());
        escaped_line
    }
}

/// Returns the mentions of `text` that name something.
fn occurrences(text: &str, lookup: MentionLookup<'_>) -> Vec<MentionOccurrence> {
    let mut parser = MentionParser::new(lookup);
    parser.parse(text);
    parser.occurrences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mentions::tests::{lookup, parse_prompt};

    /// Checks the line with its pasted mentions escaped; `pasted` has a bar between texts.
    #[track_caller]
    fn check(line: &str, pasted: &str, expected: &str) {
        let pasted: Vec<String> = pasted
            .split('|')
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
            .collect();
        let found = PastedMentions::find(line, &pasted, lookup());
        let escaped = found.escape(line);
        assert_eq!(escaped, expected, "{line}");
        assert_eq!(found.mentions().is_empty(), line == expected, "{line}");
        // Escaped mentions open nothing, and the agents read the same text.
        let after = parse_prompt(&escaped);
        for mention in found.mentions() {
            assert!(!after.mentions.contains(mention), "{line}");
        }
    }

    #[test]
    fn pasted_mentions_become_plain_text() {
        check("see @a.py", "", "see @a.py");
        check("see @a.py", "see @a.py", "see \\@a.py");
        check("@b.py see @a.py", "see @a.py", "@b.py see \\@a.py");
        check("fix @nothing.py", "fix @nothing.py", "fix @nothing.py");
        check("mail bob@host", "mail bob@host", "mail bob@host");
        // Only the path was pasted, after an `@` that the user typed.
        check("see @a.py", "a.py", "see @a.py");
        // The pasted text was edited afterwards.
        check("now see @a.py!", "see @a.py", "now see \\@a.py!");
        check("see @a.py", "see @a|.py", "see \\@a.py");
    }

    #[test]
    fn closed_mentions_become_plain_text() {
        let is_closed = |mention: &Mention| !mention.path.to_string().starts_with("/home/u/p/src");
        let text = "fix @src/main.py like @/etc/hosts, not \\@a.py";
        let found = PastedMentions::find_closed(text, lookup(), &is_closed);
        assert_eq!(found.mentions().len(), 1);
        let escaped = found.escape(text);
        assert_eq!(escaped, text.replace("@/etc", "\\@/etc"));
        assert_eq!(parse_prompt(&escaped).mentions.len(), 1);
    }

    #[test]
    fn a_pasted_request_to_write_is_found_wherever_it_ends_up() {
        check("fix @a.py:w", "a.py:w", "fix \\@a.py:w");
        check("fix @a.py:w", ":w", "fix \\@a.py:w");
        check("fix @a.py:w", "see:west", "fix \\@a.py:w");
        check("fix @a.py and @b.py:w", ":w", "fix @a.py and \\@b.py:w");
        check("fix @a.py:w", "unrelated", "fix @a.py:w");
    }
}
