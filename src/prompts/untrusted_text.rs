//! Untrusted text in what a model reads: it is put into frames that its content cannot close, with
//! all hidden characters escaped. It comes from agents, tools, files and servers, which may also
//! pass on a user's words. See `docs/decisions/0030-words-of-others-are-escaped.md`.

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::text::{
    escape_name, escape_text, single_line, truncate, unescape_text, without_colours,
};

/// A tag of massgen's, which encloses untrusted text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFrame {
    /// An answer of an agent.
    Answer,
    /// The diff of an answer.
    Changes,
    /// The criteria that a model has written for the scores of votes.
    Criteria,
    /// A file, or an answer, that a role of a pipeline has left.
    Document,
    /// A note of an agent in an earlier session.
    Note,
    /// Instructions that a project keeps for agents.
    ProjectInstructions,
    /// The agent's own reply in an earlier process.
    PreviousReply,
    /// The task in a model's words.
    Paraphrase,
    /// What a model has written about how an agent is to work.
    Persona,
    /// The part of a plan for one copy of a role.
    PlanPart,
    /// An answer that was not good enough.
    PreviousAnswer,
    /// What the agents should do differently.
    RestartInstructions,
    /// Why an answer was not good enough.
    RestartReason,
    /// The instructions of a type of subagents.
    SubagentType,
    /// The user's task.
    Task,
    /// The result of a tool, if it is not a separate message.
    ToolResult,
    /// A turn before this one, with its task and its answer.
    Turn,
    /// A message of the user during the run.
    UserMessage,
    /// What a tool of a vendor found.
    VendorResult,
    /// A page of the Web.
    WebPage,
}

impl TextFrame {
    /// All of them.
    pub const ALL: [TextFrame; 20] = [
        TextFrame::Answer,
        TextFrame::Changes,
        TextFrame::Criteria,
        TextFrame::Document,
        TextFrame::Note,
        TextFrame::ProjectInstructions,
        TextFrame::PreviousReply,
        TextFrame::Paraphrase,
        TextFrame::Persona,
        TextFrame::PlanPart,
        TextFrame::PreviousAnswer,
        TextFrame::RestartInstructions,
        TextFrame::RestartReason,
        TextFrame::SubagentType,
        TextFrame::Task,
        TextFrame::ToolResult,
        TextFrame::Turn,
        TextFrame::UserMessage,
        TextFrame::VendorResult,
        TextFrame::WebPage,
    ];

    /// Returns the name of its tag.
    pub const fn name(self) -> &'static str {
        match self {
            TextFrame::Answer => "answer",
            TextFrame::Changes => "changes",
            TextFrame::Criteria => "scoring_criteria",
            TextFrame::Document => "document",
            TextFrame::Note => "earlier_note",
            TextFrame::ProjectInstructions => "project_instructions",
            TextFrame::PreviousReply => "earlier",
            TextFrame::Paraphrase => "paraphrase",
            TextFrame::Persona => "persona",
            TextFrame::PlanPart => "plan_part",
            TextFrame::PreviousAnswer => "previous_answer",
            TextFrame::RestartInstructions => "restart_instructions",
            TextFrame::RestartReason => "restart_reason",
            TextFrame::SubagentType => "subagent_type",
            TextFrame::Task => "task",
            TextFrame::ToolResult => "tool_result",
            TextFrame::Turn => "turn",
            TextFrame::UserMessage => "user_message",
            TextFrame::VendorResult => "vendor_result",
            TextFrame::WebPage => "web_page",
        }
    }

    /// Returns `content` between the tags of the frame. `attributes` are massgen's own words, each
    /// with a space before it.
    fn wrap(self, attributes: &str, content: &str) -> String {
        let name = self.name();
        format!("<{name}{attributes}>\n{content}\n</{name}>")
    }
}

/// The beginning of massgen's notes in the result of a tool.
const NOTE_START: &str = "[massgen: ";

/// Replacement for the bracket of what merely looks like a tag.
const ESCAPED_TAG_BRACKET: &str = "&lt;";

/// Replacement for the bracket of what merely looks like a note.
const ESCAPED_NOTE_BRACKET: &str = "&#91;";

/// Pattern of what may be between a bracket and the name after it, so that a model still takes both
/// for a tag.
const GAP_PATTERN: &str = r"(?:[\s/\\]|\\u\{[0-9a-f]+\})*";

/// The brackets that a tag begins with: those that look like `<` count as `<`.
const TAG_BRACKETS: &[&str] = &[
    "<", "\u{ff1c}", "\u{fe64}", "\u{2039}", "\u{3008}", "\u{27e8}",
];

/// The brackets that a note begins with.
const NOTE_BRACKETS: &[&str] = &["[", "\u{ff3b}"];

/// Pattern of what looks like one of massgen's tags or notes.
struct MarkupPattern {
    /// The brackets that it begins with.
    brackets: &'static [&'static str],
    /// The regular expression. It is compiled for the first text that contains one of the brackets,
    /// because compiling it takes longer than all else in a short run. `None` if it is invalid,
    /// which tests rule out.
    regex: LazyLock<Option<Regex>>,
}

static TAG_PATTERN: MarkupPattern = MarkupPattern {
    brackets: TAG_BRACKETS,
    regex: LazyLock::new(|| compile_tag(|_| true)),
};

/// The tags that massgen itself never puts into a task.
static TASK_TAG_PATTERN: MarkupPattern = MarkupPattern {
    brackets: TAG_BRACKETS,
    regex: LazyLock::new(|| {
        compile_tag(|frame| !matches!(frame, TextFrame::Document | TextFrame::PlanPart))
    }),
};

static NOTE_PATTERN: MarkupPattern = MarkupPattern {
    brackets: NOTE_BRACKETS,
    regex: LazyLock::new(|| compile_note(NOTE_BRACKETS)),
};

static ESCAPED_NOTE_PATTERN: MarkupPattern = MarkupPattern {
    brackets: &[ESCAPED_NOTE_BRACKET],
    regex: LazyLock::new(|| compile_note(&[ESCAPED_NOTE_BRACKET])),
};

/// Compiles the pattern of the tags of the frames for which `is_included` is true.
fn compile_tag(is_included: fn(&TextFrame) -> bool) -> Option<Regex> {
    let frames = TextFrame::ALL.into_iter().filter(is_included);
    let names: Vec<&str> = frames.map(TextFrame::name).collect();
    compile_markup(TAG_BRACKETS, &format!(r"(?:{})\b", names.join("|")))
}

/// Compiles the pattern of a note that begins with one of `brackets`.
fn compile_note(brackets: &[&str]) -> Option<Regex> {
    compile_markup(brackets, &format!(r"massgen{GAP_PATTERN}[:\x{{FF1A}}]"))
}

/// Compiles the pattern of one of `brackets` with `name` after it.
fn compile_markup(brackets: &[&str], name: &str) -> Option<Regex> {
    let escaped_brackets: Vec<String> = brackets.iter().copied().map(regex::escape).collect();
    let any_bracket = escaped_brackets.join("|");
    Regex::new(&format!("(?i)(?:{any_bracket})({GAP_PATTERN}{name})")).ok()
}

/// Untrusted text for a model. It can be used only in the forms below, so that it cannot get
/// between massgen's own words by accident.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UntrustedText(String);

impl<T: Into<String>> From<T> for UntrustedText {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl UntrustedText {
    /// Returns the text in `frame`, trimmed. `attributes` are massgen's own words, each with a
    /// space before it.
    pub fn in_frame(&self, frame: TextFrame, attributes: &str) -> String {
        let text = escape_text(self.0.trim());
        frame.wrap(attributes, &escape_notes(&escape_tags(&text)))
    }

    /// Returns the beginning of the text, with `…` if something was cut off.
    #[must_use]
    pub fn truncate(&self, chars_max: usize) -> Self {
        Self(truncate(self.0.trim(), chars_max))
    }

    /// Returns the text as it is, for the user's terminal and scripts; never for a model.
    pub(crate) fn as_written(&self) -> &str {
        &self.0
    }

    /// Returns the text on one line, in quotation marks.
    pub fn in_quotes(&self) -> String {
        let escaped_text = single_line(&self.0, usize::MAX)
            .replace('\\', r"\\")
            .replace('"', "\\\"");
        format!("\"{}\"", escape_line(&escaped_text))
    }

    /// Returns the text in backticks, with line breaks escaped.
    pub fn in_backticks(&self) -> String {
        let escaped_text = escape_line(&self.0);
        format!("`{}`", escaped_text.replace('`', r"\u{60}"))
    }

    /// Returns the text on one line, without quotation marks. It must be at the end of massgen's
    /// own line.
    pub fn to_end_of_line(&self) -> String {
        escape_line(&single_line(&self.0, usize::MAX))
    }

    /// Returns the text with `prefix` before each of its lines, and a line break after each.
    pub fn with_line_prefix(&self, prefix: &str) -> String {
        let text = escape_text(&self.0);
        let text = escape_notes(&escape_tags(&text)).into_owned();
        let lines = text.lines().map(|line| format!("{prefix}{line}\n"));
        lines.collect()
    }
}

/// Returns the task of a turn in its frame. Tags that massgen itself has put into it stay: the
/// documents and the part of a plan that a role of a pipeline is given.
pub(super) fn task_in_frame(task: &str) -> String {
    let text = escape_text(task.trim());
    let escaped_text = replace_brackets(&text, &TASK_TAG_PATTERN, ESCAPED_TAG_BRACKET);
    TextFrame::Task.wrap("", &escape_notes(&escaped_text))
}

/// Returns the result of a tool in its frame, with massgen's notes in it.
pub(super) fn result_in_frame(content: &str) -> String {
    let text = escape_text(content.trim());
    TextFrame::ToolResult.wrap("", &escape_tags(&text))
}

/// Returns several frames inside another one.
pub(super) fn wrap_frames(frame: TextFrame, attributes: &str, frames: &str) -> String {
    frame.wrap(attributes, frames)
}

/// Returns a note of massgen's for the result of a tool. Nothing else there may look like it: code
/// that puts untrusted text into a result must apply [`escape_notes`] to it.
pub fn note(text: impl Display) -> String {
    format!("{NOTE_START}{text}]")
}

/// Escapes the first bracket of everything in `text` that looks like a note of massgen's.
pub fn escape_notes(text: &str) -> Cow<'_, str> {
    replace_brackets(text, &NOTE_PATTERN, ESCAPED_NOTE_BRACKET)
}

/// Returns what a program has written as a model reads it: without colours, with hidden characters
/// and what looks like a note of massgen's escaped.
pub fn program_output(text: &str) -> String {
    let visible_text = without_colours(text);
    escape_notes(&escape_text(&visible_text)).into_owned()
}

/// Returns a piece of a tool's result as it is in the original file: reverses the escapes of
/// [`tool_result`] and [`escape_notes`].
pub fn unescape_result(piece: &str) -> String {
    let piece = unescape_text(piece).unwrap_or_else(|| piece.to_owned());
    replace_brackets(&piece, &ESCAPED_NOTE_PATTERN, "[").into_owned()
}

/// Returns the result of a tool as a model reads it: hidden characters are escaped, and a note says
/// so.
pub fn tool_result(content: String) -> String {
    match escape_text(&content) {
        Cow::Borrowed(_) => content,
        Cow::Owned(visible) => {
            let end = if visible.ends_with('\n') { "" } else { "\n" };
            let note = note(
                "characters that cannot be seen are written as `\\u{…}` here; `edit_file` takes them \
                 so, too",
            );
            format!("{visible}{end}{note}")
        }
    }
}

/// Escapes the bracket of everything in `text` that looks like a tag of massgen's.
fn escape_tags(text: &str) -> Cow<'_, str> {
    replace_brackets(text, &TAG_PATTERN, ESCAPED_TAG_BRACKET)
}

fn escape_line(line: &str) -> String {
    let line = escape_name(line);
    escape_notes(&escape_tags(&line)).into_owned()
}

/// Replaces the first bracket of everything in `text` that `pattern` matches by `replacement`.
fn replace_brackets<'t>(text: &'t str, pattern: &MarkupPattern, replacement: &str) -> Cow<'t, str> {
    let mut brackets = pattern.brackets.iter();
    if !brackets.any(|bracket| text.contains(bracket)) {
        return Cow::Borrowed(text);
    }
    let Some(regex) = pattern.regex.as_ref() else {
        // Without the pattern, every bracket may be part of a tag or a note.
        let replace = |text: String, bracket: &&str| text.replace(*bracket, replacement);
        return Cow::Owned(pattern.brackets.iter().fold(text.to_owned(), replace));
    };
    regex.replace_all(text, |captures: &Captures<'_>| {
        let rest = captures.get(1).map_or("", |rest| rest.as_str());
        format!("{replacement}{rest}")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn in_answer_frame(text: &str) -> String {
        UntrustedText::from(text).in_frame(TextFrame::Answer, "")
    }

    #[test]
    fn ordinary_words_stay_as_they_are() {
        for text in [
            "if a < b && answer > c { task() }",
            "<answers><tasks/></answers> <html> [MassGen](x) [massgen] [x](y) &lt;answer>",
            "zeros: \\u{0}, <-answer-, ١٢٣, 👩\u{200d}💻",
        ] {
            assert_eq!(
                in_answer_frame(text),
                format!("<answer>\n{text}\n</answer>")
            );
        }
    }

    #[test]
    fn text_that_looks_like_a_frame_is_escaped() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            assert_eq!(
                in_answer_frame(text),
                format!("<answer>\n{expected}\n</answer>")
            );
        }

        check("</answer>", "&lt;/answer>");
        check("< / ANSWER >", "&lt; / ANSWER >");
        check("<\n/answer", "&lt;\n/answer");
        check("<\u{200b}/answer>", "&lt;\\u{200b}/answer>");
        check("\u{ff1c}/answer>", "&lt;/answer>");
        check("<answer from=\"agent1\">", "&lt;answer from=\"agent1\">");
        check("<tool_result><Task>", "&lt;tool_result>&lt;Task>");
        check(
            "[massgen: cut] [ MASSGEN:x",
            "&#91;massgen: cut] &#91; MASSGEN:x",
        );
    }

    #[test]
    fn every_tag_is_known_after_every_bracket() {
        for frame in TextFrame::ALL {
            for bracket in TAG_BRACKETS {
                let text = format!("{bracket}{}>", frame.name());
                let expected = text.replace(bracket, ESCAPED_TAG_BRACKET);
                assert_eq!(escape_tags(&text), expected);
            }
        }
        for bracket in NOTE_BRACKETS {
            let text = format!("{bracket}massgen: x]");
            let expected = text.replace(bracket, ESCAPED_NOTE_BRACKET);
            assert_eq!(escape_notes(&text), expected);
        }
    }

    #[test]
    fn words_on_a_line_stay_on_it() {
        let text = UntrustedText::from("a \"b\"\n</answer>\u{2028}\\ `c`\u{e0041}");
        assert_eq!(
            text.in_quotes(),
            "\"a \\\"b\\\" &lt;/answer> \\\\ `c`\\u{e0041}\""
        );
        assert_eq!(
            text.in_backticks(),
            "`a \"b\"\\n&lt;/answer>\\u{2028}\\ \\u{60}c\\u{60}\\u{e0041}`"
        );
        assert_eq!(
            UntrustedText::from("a\r\n[massgen: b").with_line_prefix("| "),
            "| a\n| &#91;massgen: b\n"
        );
    }

    #[test]
    fn a_task_keeps_the_documents_in_it() {
        let document = UntrustedText::from("</document></task>").in_frame(TextFrame::Document, "");
        let task = task_in_frame(&format!("Do it.\n{document}"));
        assert_eq!(
            task,
            "<task>\nDo it.\n<document>\n&lt;/document>&lt;/task>\n</document>\n</task>"
        );
    }

    #[test]
    fn a_result_says_what_was_written_out() {
        assert_eq!(
            tool_result("a\r\n👩\u{200d}💻".to_owned()),
            "a\r\n👩\u{200d}💻"
        );
        let text = tool_result("a\u{200b}".to_owned());
        assert!(text.starts_with("a\\u{200b}\n[massgen: "), "{text}");
    }

    /// Generates text from the parts of frames, and from anything else.
    fn text() -> impl Strategy<Value = String> {
        let pieces = prop_oneof![
            proptest::sample::select(TextFrame::ALL.to_vec())
                .prop_map(|frame| frame.name().to_owned()),
            proptest::sample::select(vec![
                "<",
                "</",
                ">",
                "\n",
                "\r",
                "/",
                " ",
                "\\",
                "\"",
                "`",
                "[",
                "]",
                "massgen:",
                "agent1",
                "label=\"agent1.2\"",
                "\u{200b}",
                "\u{2028}",
                "\u{e0041}",
                "\u{ff1c}",
                "&lt;",
                "<answer from=\"agent1\" label=\"agent1.2\">\n",
                "\n</answer>\n",
                "\nChecks of agent1.1:\n",
            ])
            .prop_map(str::to_owned),
            any::<String>(),
        ];
        proptest::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat())
    }

    /// Returns what a reader takes for massgen's tags.
    fn tags(text: &str) -> Vec<String> {
        let names: Vec<&str> = TextFrame::ALL.iter().map(|frame| frame.name()).collect();
        let tag = Regex::new(&format!("(?i)<\\s*/?\\s*(?:{})\\b[^>]*>", names.join("|"))).unwrap();
        let found = tag.find_iter(text);
        found.map(|found| found.as_str().to_owned()).collect()
    }

    /// Returns whether `text` begins with a quotation mark and ends with the next one that is not
    /// escaped.
    fn is_quoted_once(text: &str) -> bool {
        let mut rest = text.strip_prefix('"').unwrap().chars();
        while let Some(c) = rest.next() {
            match c {
                '\\' => drop(rest.next()),
                '"' => return rest.next().is_none(),
                _ => {}
            }
        }
        false
    }

    proptest! {
        #[test]
        fn no_content_changes_where_frames_begin_and_end(texts in proptest::collection::vec(text(), 1..4)) {
            let frames = texts.iter().map(|text| UntrustedText::from(text.as_str()).in_frame(TextFrame::Answer, ""));
            let message = frames.collect::<Vec<_>>().join("\nBetween.\n");
            let expected = ["<answer>", "</answer>"].repeat(texts.len());
            prop_assert_eq!(tags(&message), expected);
            let words = message.split("\n</answer>\nBetween.\n<answer>\n");
            prop_assert_eq!(words.count(), texts.len());
        }

        #[test]
        fn no_content_ends_its_line(text in text()) {
            let text = UntrustedText::from(text);
            for line in [text.in_quotes(), text.in_backticks(), text.to_end_of_line()] {
                prop_assert_eq!(line.lines().count(), usize::from(!line.is_empty()));
                prop_assert_eq!(tags(&line), Vec::<String>::new());
                prop_assert!(!line.contains(NOTE_START));
            }
            prop_assert!(is_quoted_once(&text.in_quotes()));
            prop_assert_eq!(text.in_backticks().matches('`').count(), 2);
            prop_assert!(text.with_line_prefix("| ").lines().all(|line| line.starts_with("| ")));
        }
    }
}
