//! The keys of the dashboard, and its signs.

use crate::cli::dashboard::key_lines::{
    AGENT_KEYS, GENERAL_KEYS, KeyHelp, QUESTION_KEYS, REVIEW_KEYS, VIEW_KEYS,
};
use crate::cli::output::{StyledLine, TextStyle};

/// The signs of agents and of their calls.
const SIGNS: [KeyHelp; 7] = [
    (">", "works, or runs"),
    ("+", "answered or voted, or succeeded"),
    ("?", "waits for you"),
    ("!", "waits to try again, or failed"),
    ("x", "dropped out, or was denied"),
    (".", "idle, or waits for another agent"),
    ("* winner", "its answer has won the vote"),
];

/// Words of the views.
const WORDS: [KeyHelp; 4] = [
    (
        "agent1.2",
        "answer 2 of agent 1 (agents are numbered by their names)",
    ),
    ("ballot", "the answers so far, and the votes for each"),
    (
        "void",
        "a vote that does not count: a new answer or message came",
    ),
    (
        "presenting",
        "the winner writes the final answer, and changes your files",
    ),
];

/// Returns the lines of the help.
pub(in crate::cli::dashboard) fn lines() -> Vec<StyledLine> {
    let sections: [(&str, &[KeyHelp]); 7] = [
        ("Views", &VIEW_KEYS),
        ("Everywhere", &GENERAL_KEYS),
        ("One agent", &AGENT_KEYS),
        ("Review of a delivery", &REVIEW_KEYS),
        ("Questions", &QUESTION_KEYS),
        ("Signs", &SIGNS),
        ("Words", &WORDS),
    ];
    let mut lines = Vec::new();
    for (title, keys) in sections {
        lines.push(vec![(TextStyle::Strong, format!(" {title}"))]);
        lines.extend(keys.iter().map(|(key, effect)| {
            vec![
                (TextStyle::Strong, format!("   {key:<16} ")),
                (TextStyle::Plain, (*effect).to_owned()),
            ]
        }));
    }
    lines
}
