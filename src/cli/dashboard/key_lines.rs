//! The line of keys at the bottom of the dashboard, and the list of all keys.

use crate::cli::cell_text::columns;
use crate::cli::dashboard::scene::Scene;
use crate::cli::dashboard::view_state::OpenView;
use crate::cli::output::{StyledLine, TextStyle};

/// A key and its effect.
pub(super) type KeyHelp = (&'static str, &'static str);

/// The keys at the end of the line, which it shows however narrow it is: quit or lines, and help.
const FIXED_KEYS: [&str; 3] = ["q", "l", "?"];

/// The keys that open a view.
pub(super) const VIEW_KEYS: [KeyHelp; 9] = [
    ("a", "answers side by side"),
    ("d", "the changes of the delivery, and its review"),
    ("v", "votes with their reasons"),
    ("t", "what each agent did and waited for, and when"),
    ("c", "tokens and money"),
    ("p", "the stages of a pipeline"),
    ("e", "the lines of the run so far"),
    ("?", "this list"),
    ("Esc, q", "back to the overview"),
];
/// The keys that work in every view.
pub(super) const GENERAL_KEYS: [KeyHelp; 8] = [
    ("Tab, Shift-Tab", "next and previous agent, answer or file"),
    ("1 to 9", "this agent"),
    ("Enter", "the selected agent in full"),
    (
        "i or :",
        "write a message to all agents, or to one as NAME: text",
    ),
    ("f", "the answer of the winner"),
    ("Up, Down, PgUp, PgDn, Home, End", "scroll"),
    ("l", "show the rest of the run as lines"),
    (
        "Esc twice, Ctrl-C",
        "stop the run; a second Ctrl-C ends it at once",
    ),
];
/// The keys of one agent in full.
pub(super) const AGENT_KEYS: [KeyHelp; 4] = [
    ("/", "find text; Enter or n goes to the next older place"),
    ("r", "fold or unfold reasoning"),
    ("u", "fold or unfold the results of tools"),
    ("End", "follow what the agent says"),
];
/// The keys of the review of a delivery.
pub(super) const REVIEW_KEYS: [KeyHelp; 6] = [
    ("Tab, Shift-Tab", "next and previous file"),
    ("Space", "select or skip the file"),
    ("[ and ]", "previous and next hunk"),
    ("h", "select or skip the hunk"),
    ("y", "apply what is selected"),
    ("x", "apply nothing"),
];
/// The keys of questions.
pub(super) const QUESTION_KEYS: [KeyHelp; 5] = [
    (
        "o, s, A, n",
        "allow a call once, in this session, always; deny it",
    ),
    ("T", "deny a call, and tell the agent what to do instead"),
    ("k, x", "keep or revert a delivery whose checks failed"),
    ("i, x", "type an answer, or give none"),
    ("z", "read all of the question"),
];

/// Returns the keys of the open view in one line of at most `width` columns, if the fixed ones fit.
pub(super) fn key_line(scene: &Scene<'_>, width: u16) -> StyledLine {
    let mut keys = keys_by_importance(scene);
    // Less important keys are further to the right, except for the fixed ones at the end.
    let fixed_count = keys
        .iter()
        .rev()
        .take_while(|(key, _)| FIXED_KEYS.contains(key))
        .count();
    while line_width(&keys) > usize::from(width) && keys.len() > fixed_count {
        let index = keys.len().saturating_sub(fixed_count).saturating_sub(1);
        keys.remove(index);
    }
    let mut line = StyledLine::new();
    for (key, effect) in keys {
        line.push((TextStyle::Strong, format!(" {key}")));
        line.push((TextStyle::Plain, format!(" {effect} ")));
    }
    line
}

/// Returns the keys of the open view, the most important ones first, and the fixed ones at the end.
fn keys_by_importance(scene: &Scene<'_>) -> Vec<KeyHelp> {
    let state = scene.state;
    if state.composer.is_some() {
        return vec![("Enter", "send"), ("Esc", "cancel")];
    }
    if state.search.as_ref().is_some_and(|search| search.is_typing) {
        return vec![("Enter", "find"), ("Esc", "cancel")];
    }
    if state.is_task_open {
        return vec![("Up/Down", "scroll"), ("z", "back")];
    }
    let mut keys = view_keys(scene);
    if state.view == OpenView::Overview {
        if scene.is_over {
            keys.push(("q", "or Enter: back to the prompt"));
        } else if scene.is_record {
            keys.push(("q", "quit"));
        } else {
            keys.push(("l", "lines"));
        }
    }
    if state.view != OpenView::Help {
        keys.push(("?", "help"));
    }
    keys
}

fn view_keys(scene: &Scene<'_>) -> Vec<KeyHelp> {
    let esc_effect = if scene.is_record { "quit" } else { "overview" };
    match scene.state.view {
        OpenView::Overview => {
            let mut keys = vec![("Tab", "agent")];
            if !scene.is_over {
                keys.push(("Enter", "open"));
            }
            if scene.has_stages() {
                keys.push(("p", "stages"));
            }
            if !scene.is_record {
                keys.push(("i", "message"));
            }
            keys.extend([
                ("a", "answers"),
                ("d", "diff"),
                ("v", "votes"),
                ("e", "log"),
                ("t", "timeline"),
                ("c", "cost"),
            ]);
            keys
        }
        OpenView::Agent => vec![
            ("Esc", "overview"),
            ("Tab", "agent"),
            ("/", "find"),
            ("End", "follow"),
            ("r", "reasoning"),
            ("u", "results"),
        ],
        OpenView::Answers => vec![
            ("Esc", "overview"),
            ("Tab", "answer"),
            ("f", "winner"),
            ("Up/Down", "scroll"),
        ],
        OpenView::Changes if scene.is_review_open() => vec![
            ("y", "apply"),
            ("x", "nothing"),
            ("Tab", "file"),
            ("Space", "select file"),
            ("[ ]", "hunk"),
            ("h", "select hunk"),
            ("Esc", "overview"),
            ("Up/Down", "scroll"),
        ],
        OpenView::Changes
        | OpenView::Votes
        | OpenView::Timeline
        | OpenView::Cost
        | OpenView::Stages
        | OpenView::Log => vec![("Esc", "overview"), ("Up/Down", "scroll")],
        OpenView::Help => vec![("Esc", esc_effect), ("Up/Down", "scroll")],
    }
}

fn line_width(keys: &[KeyHelp]) -> usize {
    let widths = keys.iter().map(|(key, effect)| {
        columns(key)
            .saturating_add(columns(effect))
            .saturating_add(3)
    });
    widths.fold(0, usize::saturating_add)
}
