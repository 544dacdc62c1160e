//! Owns what agents read that are programs of their own: which tools massgen gives them, and a
//! conversation that they were not part of, told as one text.

use std::fmt::Write;

use crate::prompts::untrusted_text::{TextFrame, UntrustedText, result_in_frame};

/// How such an agent works with massgen, for its system text.
pub const MANNERS: &str = "You work with tools of your own, in your workspace. What you do elsewhere \
    is refused. The tools of the server `massgen` are how you take part: those that a text here names, \
    such as `new_answer` and `vote`, are among them. After a call of one of these two, end your turn: \
    what became of it comes with the next message.\n";

/// Answers a decision: its verdict comes later.
pub const HANDED_IN: &str =
    "handed in; end your turn now, what became of it comes with the next message";

/// Refuses what comes after a decision in the same turn.
pub const HAS_DECIDED: &str =
    "not carried out: you have handed in your decision; end your turn now";

/// What is said where there is nothing new to say.
pub const GO_ON: &str = "Go on.";

/// Refuses a tool that is not there.
pub fn no_such_tool(name: &str) -> String {
    let name = UntrustedText::from(name).in_backticks();
    format!("there is no tool {name} here: see `tools/list`")
}

/// Refuses a call when nobody waits for it any more.
pub const NOBODY_WAITS: &str = "not carried out: the run does not wait for this any more";

/// Refuses more calls than can wait.
pub const TOO_MANY_CALLS: &str = "not carried out: too many calls wait: wait for one to end";

/// Begins the part of a conversation that the agent itself has said before.
pub fn previous_reply(text: &str, calls: &[(&str, &str)]) -> String {
    let mut said = format!("{}\n", text.trim());
    for (name, arguments) in calls {
        // Writing to a `String` cannot fail.
        let _ = writeln!(said, "You called {name} {arguments}");
    }
    UntrustedText::from(said).in_frame(TextFrame::PreviousReply, " from=\"you\"")
}

/// What came of a call that the agent made in an earlier turn.
pub fn previous_result(content: &str) -> String {
    result_in_frame(content)
}
