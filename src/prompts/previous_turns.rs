//! Describes earlier turns to agents: the newest at greater length than older ones, all within a
//! fixed budget. An older turn that no longer fits is described by its task alone, or left out with
//! all earlier ones.

use std::fmt::Write;

use crate::prompts::untrusted_text::{TextFrame, UntrustedText, wrap_frames};
use crate::text::{count_noun, escape_name, single_line};

/// Maximum length of the description of all earlier turns, in bytes: at about four bytes a token,
/// 16,000 tokens.
const DESCRIPTION_BYTES_MAX: usize = 64 * 1024;
/// Maximum length of the task of the newest turn, and of its answer, in characters. A character may
/// have four bytes.
const NEWEST_CHARS_MAX: usize = DESCRIPTION_BYTES_MAX / 4;
/// Maximum length of the task of an older turn, and of its answer, in characters.
const OLDER_CHARS_MAX: usize = 4 * 1024;
/// Maximum length of a task whose answer is left out, in characters.
const TASK_LINE_CHARS_MAX: usize = 200;

/// A turn before the current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviousTurnSummary {
    /// Its number, from 1.
    pub number: u32,
    /// The user's task.
    pub task: String,
    /// The final answer.
    pub answer: String,
    /// The directory with its files, if it left some.
    pub files: Option<String>,
}

/// What commands find as their home directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandHome {
    /// A new one.
    #[default]
    New,
    /// That of the last turn.
    Kept,
}

impl CommandHome {
    /// Tells an agent what is left of the commands of earlier turns.
    pub fn describe(self) -> &'static str {
        match self {
            CommandHome::New => {
                "Commands begin with a new home directory, and what earlier turns left running has \
                 ended.\n"
            }
            CommandHome::Kept => {
                "Commands find their home directory as the last turn left it; what it left running \
                 has ended.\n"
            }
        }
    }
}

/// Describes `turns`, oldest first; an empty text if there are none.
pub fn describe_previous_turns(turns: &[PreviousTurnSummary]) -> String {
    let mut bytes_left = DESCRIPTION_BYTES_MAX;
    let mut texts: Vec<String> = Vec::new();
    let mut turns_left = turns;
    while let Some((turn, earlier_turns)) = turns_left.split_last() {
        let fits = |text: &String| text.len() <= bytes_left;
        let full_text = if texts.is_empty() {
            fitting_turn(turn, NEWEST_CHARS_MAX, bytes_left)
        } else {
            Some(full_turn(turn, OLDER_CHARS_MAX)).filter(fits)
        };
        let text = full_text.or_else(|| Some(short_turn(turn)).filter(fits));
        // No turn between two others is left out, so older ones are not described either.
        let Some(text) = text else { break };
        bytes_left = bytes_left.saturating_sub(text.len());
        texts.push(text);
        turns_left = earlier_turns;
    }
    if texts.is_empty() {
        return String::new();
    }
    let mut out = String::from("This session has earlier turns. The newest is the last.\n");
    if !turns_left.is_empty() {
        let omitted_turns = count_noun(turns_left.len(), "older turn");
        let _ = writeln!(out, "({omitted_turns} left out)");
    }
    texts.iter().rev().for_each(|text| out.push_str(text));
    out
}

/// Describes a turn like [`full_turn`], with the greatest limit up to `chars_max` at which the text
/// fits into `bytes_max`; `None` if it never does.
fn fitting_turn(turn: &PreviousTurnSummary, chars_max: usize, bytes_max: usize) -> Option<String> {
    let describe =
        |limit: usize| Some(full_turn(turn, limit)).filter(|text| text.len() <= bytes_max);
    let mut fitting_text = describe(chars_max);
    if fitting_text.is_some() {
        return fitting_text;
    }
    // The length in bytes depends on what is escaped, so the limit is found by bisection.
    let mut limits = 0..chars_max;
    while !limits.is_empty() {
        let limit = limits.start.midpoint(limits.end);
        if let Some(text) = describe(limit) {
            fitting_text = Some(text);
            limits.start = limit.saturating_add(1);
        } else {
            limits.end = limit;
        }
    }
    fitting_text
}

/// Describes a turn by its files and by up to `chars_max` characters of its task and of its answer.
fn full_turn(turn: &PreviousTurnSummary, chars_max: usize) -> String {
    let PreviousTurnSummary {
        number,
        task,
        answer,
        files,
    } = turn;
    let in_frame = |text: &str, frame| {
        let text = UntrustedText::from(text).truncate(chars_max);
        text.in_frame(frame, "")
    };
    let task = in_frame(task, TextFrame::Task);
    let answer = in_frame(answer, TextFrame::Answer);
    let files = files.as_ref();
    let files = files.map_or_else(String::new, |files| {
        format!("\nFiles: {}", escape_name(files))
    });
    let content = format!("{task}\n{answer}{files}");
    let attributes = format!(" number=\"{number}\"");
    format!("{}\n", wrap_frames(TextFrame::Turn, &attributes, &content))
}

/// Describes a turn by the beginning of its task.
fn short_turn(turn: &PreviousTurnSummary) -> String {
    let task_line = single_line(&turn.task, TASK_LINE_CHARS_MAX);
    let task = UntrustedText::from(task_line).in_quotes();
    format!("<turn number=\"{}\">Task: {task}</turn>\n", turn.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(number: u32, answer: &str) -> PreviousTurnSummary {
        PreviousTurnSummary {
            number,
            task: format!("task {number}"),
            answer: answer.to_owned(),
            files: number
                .is_multiple_of(2)
                .then(|| format!("/s/turn_{number}/workspace")),
        }
    }

    #[test]
    fn short_sessions_are_described_in_full() {
        assert_eq!(describe_previous_turns(&[]), "");
        let description = describe_previous_turns(&[turn(1, "one"), turn(2, "two")]);
        insta::assert_snapshot!(description, @r#"
        This session has earlier turns. The newest is the last.
        <turn number="1">
        <task>
        task 1
        </task>
        <answer>
        one
        </answer>
        </turn>
        <turn number="2">
        <task>
        task 2
        </task>
        <answer>
        two
        </answer>
        Files: /s/turn_2/workspace
        </turn>
        "#);
    }

    #[test]
    fn long_sessions_are_described_within_a_size_limit() {
        let long = "ä".repeat(100_000);
        let turns: Vec<PreviousTurnSummary> =
            (1..2_000).map(|number| turn(number, &long)).collect();
        let description = describe_previous_turns(&turns);
        assert!(
            description.len() < DESCRIPTION_BYTES_MAX + 200,
            "{} bytes",
            description.len()
        );
        assert!(
            description.contains("older turns left out)"),
            "{description}"
        );
        assert!(description.contains("<turn number=\"1999\">\n<task>"));
        assert!(description.contains("<turn number=\"1990\">Task: \"task 1990\"</turn>"));
    }

    #[test]
    fn the_newest_turn_is_cut_to_what_fits() {
        for long in ["\u{20ac}", "\u{1f600}", "\u{200b}"] {
            let long = long.repeat(100_000);
            let task = format!("begin {long}");
            let newest = PreviousTurnSummary {
                task,
                ..turn(2, &long)
            };
            let description = describe_previous_turns(&[turn(1, "one"), newest]);
            let length = description.len();
            assert!(length < DESCRIPTION_BYTES_MAX + 200, "{length} bytes");
            assert!(length > DESCRIPTION_BYTES_MAX - 200, "{length} bytes");
            assert!(description.contains("<turn number=\"2\">\n<task>\nbegin "));
            assert!(description.ends_with("…\n</answer>\nFiles: /s/turn_2/workspace\n</turn>\n"));
        }
    }
}
