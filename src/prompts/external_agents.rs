//! Texts for external agents: which tools massgen gives them, answers to their calls, and their
//! earlier conversation as one text.

use std::fmt::Write;

use crate::prompts::untrusted_text::{TextFrame, UntrustedText, result_in_frame};

/// Instructions for working with massgen, for the system text of such an agent.
pub const INSTRUCTIONS: &str = "You work with tools of your own, in your workspace. What you do elsewhere \
    is refused. The tools of the server `massgen` are how you take part: those that a text here names, \
    such as `new_answer` and `vote`, are among them. After a call of one of these two, end your turn: \
    what became of it comes with the next message.\n";

/// Answer to a call of `new_answer` or `vote`; the next message says whether it counts.
pub const SUBMISSION_RECEIVED: &str =
    "handed in; end your turn now, what became of it comes with the next message";

/// Answer to calls after `new_answer` or `vote` in the same turn.
pub const ALREADY_SUBMITTED: &str =
    "not carried out: you have handed in your decision; end your turn now";

/// Prompt for the next turn if there is no new message.
pub const CONTINUE_PROMPT: &str = "Go on.";

/// Returns the answer to a call of an unknown tool.
pub fn no_such_tool(name: &str) -> String {
    let name = UntrustedText::from(name).in_backticks();
    format!("there is no tool {name} here: see `tools/list`")
}

/// Answer to a call for which nothing waits any more.
pub const RUN_NOT_WAITING: &str = "not carried out: the run does not wait for this any more";

/// Answer to a call that exceeds the number of waiting calls.
pub const TOO_MANY_CALLS: &str = "not carried out: too many calls wait: wait for one to end";

/// Renders an earlier reply of the agent itself.
pub fn previous_reply(text: &str, calls: &[(&str, &str)]) -> String {
    let mut reply = format!("{}\n", text.trim());
    for (name, arguments) in calls {
        let _ = writeln!(reply, "You called {name} {arguments}");
    }
    UntrustedText::from(reply).in_frame(TextFrame::PreviousReply, " from=\"you\"")
}

/// Renders the result of a call that the agent made in an earlier turn.
pub fn previous_result(content: &str) -> String {
    result_in_frame(content)
}
