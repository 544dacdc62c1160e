//! The message that the user types while a run works: edits the line, finds its recipient, and says
//! which lines are probably no message.

use std::collections::BTreeSet;

use crate::agent::user_messages::{MESSAGE_BYTES_MAX, MessageRecipient, UserMessage};
use crate::cli::interactive::commands::is_command;
use crate::event::InputChannel;
use crate::id::AgentId;
use crate::text::escape_name;

/// Maximum length of the shown end of the line, in characters: with its label it must not wrap.
const SHOWN_CHARS_MAX: usize = 70;
/// What Backspace sends in a terminal that does not edit the line itself.
const BACKSPACE: [char; 2] = ['\u{7f}', '\u{8}'];
/// Key that deletes the line.
const CTRL_U: char = '\u{15}';
/// Key that deletes the last word.
const CTRL_W: char = '\u{17}';
/// Beginning of what a special key, such as an arrow, sends.
const ESCAPE: char = '\u{1b}';

/// What the first Esc says.
pub(crate) const ESCAPE_NOTE: &str = "press Esc again to stop; the best answer so far is kept";

/// The line that is being typed.
#[derive(Debug)]
pub(crate) struct TypedMessageLine {
    text: String,
    /// The length at which nothing more is added, in bytes.
    bytes_max: usize,
    /// The beginning of a character that is not complete yet.
    partial_character: Vec<u8>,
    escape_state: EscapeState,
    /// How often Esc was pressed since the last other key.
    escapes: u32,
}

/// Position in the sequence that a special key sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EscapeState {
    /// Outside of one.
    #[default]
    None,
    /// After the escape character.
    AfterEscape,
    /// Among the parameters.
    Parameters,
}

impl Default for TypedMessageLine {
    fn default() -> Self {
        // One byte more than a message has, so that the run refuses it as too long.
        Self::with_limit(MESSAGE_BYTES_MAX.saturating_add(1))
    }
}

impl TypedMessageLine {
    /// Creates an empty line to which nothing is added from a length of `bytes_max` on.
    pub(crate) fn with_limit(bytes_max: usize) -> Self {
        Self {
            text: String::new(),
            bytes_max,
            partial_character: Vec::new(),
            escape_state: EscapeState::default(),
            escapes: 0,
        }
    }

    /// Adds what was typed, and returns the line that it completes. Pasted lines, which arrive
    /// together, are one message.
    pub(crate) fn push(&mut self, keys: &[u8]) -> Option<String> {
        self.partial_character.extend_from_slice(keys);
        let bytes = std::mem::take(&mut self.partial_character);
        let mut text = String::new();
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            self.partial_character = chunk.invalid().to_vec();
        }
        // More than the beginning of one character is not text.
        if self.partial_character.len() >= 4 {
            self.partial_character.clear();
        }
        let is_complete = text.ends_with('\n');
        for key in text.trim_end_matches('\n').chars() {
            self.press(key);
        }
        let line = is_complete.then(|| std::mem::take(&mut self.text))?;
        Some(line.trim().to_owned()).filter(|line| !line.is_empty())
    }

    fn press(&mut self, key: char) {
        self.escape_state = match (self.escape_state, key) {
            (EscapeState::None, ESCAPE) => EscapeState::AfterEscape,
            (EscapeState::None, key) => return self.edit(key),
            (EscapeState::AfterEscape, '[' | 'O') | (EscapeState::Parameters, '0'..='9' | ';') => {
                EscapeState::Parameters
            }
            // Esc twice, or Alt with a key, which is no command here.
            (EscapeState::AfterEscape, key) => {
                self.end_escape();
                return self.press(key);
            }
            (EscapeState::Parameters, _) => EscapeState::None,
        };
    }

    /// Returns whether the last key was Esc, or the beginning of a key that follows at once.
    pub(crate) fn is_after_escape(&self) -> bool {
        self.escape_state == EscapeState::AfterEscape
    }

    /// Takes the escape character that came last for the key Esc, because nothing followed it.
    pub(crate) fn end_escape(&mut self) {
        self.escape_state = EscapeState::None;
        self.escapes = self.escapes.saturating_add(1);
    }

    /// Returns whether Esc was pressed twice without another key in between.
    pub(crate) fn is_escaped_twice(&self) -> bool {
        self.escapes > 1
    }

    fn edit(&mut self, key: char) {
        self.escapes = 0;
        if BACKSPACE.contains(&key) {
            self.text.pop();
        } else if key == CTRL_U {
            self.text.clear();
        } else if key == CTRL_W {
            let word_start = self.text.trim_end().rfind(char::is_whitespace);
            self.text
                .truncate(word_start.map_or(0, |at| at.saturating_add(1)));
        } else if (key == '\n' || key == '\t' || !key.is_control())
            && self.text.len() < self.bytes_max
        {
            self.text.push(key);
        }
    }

    /// Returns whether nothing was typed.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns what is to be shown of the line; `None` if it is empty.
    pub(crate) fn display_text(&self) -> Option<String> {
        if self.escapes == 1 {
            return Some(ESCAPE_NOTE.to_owned());
        }
        if self.text.is_empty() {
            return None;
        }
        let text = escape_name(&self.text);
        let hidden_chars = text.chars().count().saturating_sub(SHOWN_CHARS_MAX);
        let end: String = text.chars().skip(hidden_chars).collect();
        let mark = if hidden_chars == 0 { "" } else { "…" };
        Some(format!("you: {mark}{end}"))
    }

    /// Returns the line that is not complete, and clears it.
    pub(crate) fn take_text(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}

/// What a user asks about a run that works, with a command that changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunReport {
    /// What each agent does.
    Status,
    /// What was used so far.
    Cost,
    /// The answers and the votes.
    Votes,
}

impl RunReport {
    /// Returns what a line asks for; `None` for every other line.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        match line {
            "/status" => Some(Self::Status),
            "/cost" | "/usage" => Some(Self::Cost),
            "/votes" => Some(Self::Votes),
            _ => None,
        }
    }
}

/// Returns why a line is probably meant for massgen and not for the agents.
pub(crate) fn reason_against_sending(line: &str) -> Option<&'static str> {
    let mut characters = line.chars();
    // A digit may choose one of several alternatives, and one character of another script is a
    // word.
    let is_key = characters
        .next()
        .is_some_and(|key| key.is_ascii_graphic() && !key.is_ascii_digit())
        && characters.next().is_none();
    if is_key {
        Some("a single character is a key of the dashboard; write a message in words")
    } else if is_command(line) {
        Some(
            "it works at the prompt of a session; during a turn `/status`, `/cost` and `/votes` do",
        )
    } else {
        None
    }
}

/// Returns the message that a line expresses: `NAME: text` and `@NAME text` are for one of
/// `agents`, everything else is for all.
pub(crate) fn parse_message(line: &str, agents: &BTreeSet<AgentId>) -> UserMessage {
    let find_agent = |name: &str| {
        let agent = AgentId::parse(name).ok()?;
        agents.contains(&agent).then_some(agent)
    };
    let with_colon = line.split_once(':');
    let with_sign = line
        .strip_prefix('@')
        .and_then(|line| line.split_once(char::is_whitespace));
    let splits = [with_sign, with_colon].into_iter().flatten();
    let mut addressed_texts = splits.filter_map(|(name, text)| {
        let name = name.strip_suffix(':').unwrap_or(name);
        Some((find_agent(name)?, text.trim()))
    });
    let addressed_text = addressed_texts.find(|(_, text)| !text.is_empty());
    let (to, text) = match addressed_text {
        Some((agent, text)) => (MessageRecipient::Agent(agent), text),
        None => (MessageRecipient::All, line),
    };
    UserMessage {
        to,
        text: text.into(),
        by: InputChannel::Terminal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_its_reader_or_is_for_all() {
        #[track_caller]
        fn check(line: &str, to: &str, text: &str) {
            let agents = ["careful", "fast"].map(|id| AgentId::parse(id).unwrap());
            let message = parse_message(line, &agents.into());
            assert_eq!(
                (message.to.to_string().as_str(), &*message.text),
                (to, text)
            );
        }
        check("use the parser", "all", "use the parser");
        check("careful: use it", "careful", "use it");
        check("@careful use it", "careful", "use it");
        check("@fast: use it: now", "fast", "use it: now");
        check("note: use it", "all", "note: use it");
        check("@src/main.rs is wrong", "all", "@src/main.rs is wrong");
        check("@careful", "all", "@careful");
        check("careful:", "all", "careful:");
        check("be careful: use it", "all", "be careful: use it");
        check("a/b: x", "all", "a/b: x");
    }

    #[test]
    fn keys_and_commands_are_no_messages() {
        for line in ["q", "v", "?", "/", "quit", "/cost", "/model a b", "/q"] {
            assert!(reason_against_sending(line).is_some(), "{line}");
        }
        for line in [
            "2",
            "\u{597d}",
            "ok",
            "quit it",
            "/etc/hosts is wrong",
            "a: q",
            "q q",
        ] {
            assert_eq!(reason_against_sending(line), None, "{line}");
        }
    }

    #[test]
    fn keys_edit_the_line() {
        #[track_caller]
        fn check(keys: &[&str], expected: Option<&str>, rest: &str) {
            let mut line = TypedMessageLine::default();
            let messages: Vec<String> = keys
                .iter()
                .filter_map(|keys| line.push(keys.as_bytes()))
                .collect();
            assert_eq!(messages.first().map(String::as_str), expected, "{keys:?}");
            assert_eq!(line.take_text(), rest, "{keys:?}");
        }
        check(&["he", "llo\n"], Some("hello"), "");
        check(&["hello"], None, "hello");
        check(&["hex\u{7f}llo\n"], Some("hello"), "");
        check(&["no\u{15}yes\n"], Some("yes"), "");
        check(&["one two\u{17}three\n"], Some("one three"), "");
        check(&["a\u{1b}[A\u{1b}OP\u{1b}[1;5Cb\u{7}\n"], Some("ab"), "");
        check(&["\u{1b}", "[", "Ax\n"], Some("x"), "");
        check(&["\u{1b}be brief\n"], Some("be brief"), "");
        check(&[" \n", "\n\n", "x"], None, "x");
        check(&["one\ntwo\n", "three"], Some("one\ntwo"), "three");
    }

    #[test]
    fn escape_counts_if_nothing_follows_it_and_no_other_key_comes_between() {
        let mut line = TypedMessageLine::default();
        line.push(b"ab\x1b");
        assert!(line.is_after_escape() && !line.is_escaped_twice());
        line.end_escape();
        assert_eq!(line.display_text().as_deref(), Some(ESCAPE_NOTE));
        line.push(b"c\x1b");
        line.end_escape();
        assert!(!line.is_escaped_twice());
        line.push(b"\x1b\x1b");
        assert!(line.is_escaped_twice());
        assert_eq!(line.take_text(), "abc");
    }

    #[test]
    fn characters_that_arrive_in_pieces_are_joined() {
        let mut line = TypedMessageLine::default();
        let bytes = "zu spät\n".as_bytes();
        let (first, second) = bytes.split_at(6);
        assert_eq!(line.push(first), None);
        assert_eq!(line.push(second), Some("zu spät".to_owned()));
        assert_eq!(line.push(b"\xff\xff\xff\xffok\n"), Some("ok".to_owned()));
    }

    #[test]
    fn the_end_of_a_long_line_is_shown() {
        let mut line = TypedMessageLine::default();
        assert_eq!(line.display_text(), None);
        line.push(b"a\nb");
        assert_eq!(line.display_text().as_deref(), Some("you: a\\nb"));
        line.push("x".repeat(100).as_bytes());
        let shown = line.display_text().unwrap();
        assert_eq!(shown, format!("you: …{}", "x".repeat(SHOWN_CHARS_MAX)));
        let long = "x".repeat(MESSAGE_BYTES_MAX * 2);
        line.push(long.as_bytes());
        assert_eq!(line.take_text().len(), MESSAGE_BYTES_MAX + 1);
    }
}
