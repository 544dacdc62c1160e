//! What a model reads in answer to its calls of `new_answer`, `vote` and the like, and to calls that
//! are not carried out.

use crate::ballot::BallotRefusal;
use crate::check_results::CheckResults;
use crate::id::AnswerLabel;
use crate::permissions::grant::Phase;
use crate::prompts::checklist;
use crate::prompts::checks::describe_check_results;
use crate::prompts::untrusted_text::UntrustedText;
use crate::text::join_with_commas;
use crate::tools::task_plan::TaskPlan;

/// Answers a tool call that comes after the time for tools is over.
pub fn tools_closed() -> &'static str {
    "not carried out: the time for this round is over; call `new_answer` or `vote`"
}

/// Answers a tool call that exceeds a limit of tool calls.
pub fn no_calls_left(phase: Phase) -> &'static str {
    match phase {
        Phase::Coordination | Phase::Attempt => {
            "not carried out: you have no tool call left; decide now with `new_answer` or `vote`"
        }
        Phase::Final => "not carried out: you have no tool call left; give the final answer now",
    }
}

/// Tells a model that its calls repeat those of its last reply, with the same results.
pub fn calls_repeated() -> &'static str {
    "These are the calls and the results of your last reply again. Making them once more changes \
     nothing: do something else, or decide with what you have."
}

/// Tells a model that the calls of its last replies brought nothing new.
pub fn calls_fruitless() -> &'static str {
    "The calls of your last replies have all failed or brought what you had before. Do something else, \
     or decide with what you have."
}

/// Answers a decision beside the one that was taken from the same reply.
pub fn decision_left_out() -> &'static str {
    "not counted: the other decision of this reply was taken"
}

/// Answers the calls of a reply that the output limit has cut.
pub fn reply_cut() -> &'static str {
    "not carried out: the output limit cut this reply; write less at once, for example a file in parts"
}

/// Answers an accepted `new_answer`.
pub fn answer_accepted(label: AnswerLabel) -> String {
    format!("recorded as {label}")
}

/// Answers a `new_answer` that failed required checks and is to be repaired.
pub fn answer_failed(label: AnswerLabel, check_results: &CheckResults) -> String {
    let mut out = format!("{}, but it cannot win yet.\n", answer_accepted(label));
    describe_check_results(&mut out, label, check_results);
    out.push_str("Find the cause, correct your files, and give your answer again.");
    out
}

/// Tells an agent why the answers of those before it failed the required checks; `None` if there are
/// none.
pub fn failed_attempts<'r>(
    failures: impl Iterator<Item = (AnswerLabel, &'r CheckResults)>,
) -> Option<String> {
    let mut out =
        "Others have tried this task before you, on copies of their own, and failed:\n".to_owned();
    let length = out.len();
    for (label, check_results) in failures {
        describe_check_results(&mut out, label, check_results);
    }
    (out.len() > length).then_some(out)
}

/// Answers a `new_answer` whose files could not be captured.
pub fn answer_not_captured(reason: &str) -> String {
    format!("its files could not be captured, so answer again: {reason}")
}

/// Answers a vote that counts.
pub fn vote_counted() -> &'static str {
    "counted"
}

/// Answers an update of the plan.
pub fn plan_updated(plan: &TaskPlan) -> String {
    let (done_count, entry_count) = (plan.completed_count(), plan.entries.len());
    format!("updated: {done_count} of {entry_count} done")
}

/// Answers an update of the plan whose file was not written.
pub fn plan_file_not_written(updated: &str, reason: &str) -> String {
    format!("{updated}; its file was not written: {}", reason.trim())
}

/// Answers a vote or an answer that comes in the final phase.
pub fn voting_is_over() -> &'static str {
    "not counted: voting is over; present the final result as text"
}

/// Answers an evaluation that comes before the final phase.
pub fn nothing_to_judge() -> &'static str {
    "not counted: there is no result to judge yet"
}

/// Answers a call of a tool that the agent was not offered.
pub fn not_offered(tool: &str) -> String {
    let tool = UntrustedText::from(tool).in_backticks();
    format!("denied: you do not have the tool {tool}")
}

/// Answers a call that failed because of a bug in massgen.
pub fn call_interrupted() -> &'static str {
    "denied: the call failed inside massgen"
}

/// Answers calls that contradict each other.
pub fn one_decision() -> &'static str {
    "not counted: make exactly one `new_answer` or `vote` call in a reply"
}

/// Explains why an answer or a vote does not count.
pub fn submission_refused(refusal: &BallotRefusal) -> String {
    match refusal {
        BallotRefusal::EmptyAnswer => {
            "not counted: the answer is empty; give your complete answer in `content`".to_owned()
        }
        BallotRefusal::AnswerLimit { answers_max } => format!(
            "not counted: you have given {answers_max} answers, which is the limit; vote for an \
             existing one"
        ),
        BallotRefusal::SharedAnswerLimit { answers_max } => format!(
            "not counted: all agents together have given {answers_max} answers, which is the \
             limit; vote for an existing one"
        ),
        BallotRefusal::Duplicate(label) => format!(
            "not counted: {label} says exactly this; vote for it, or give an answer that differs"
        ),
        BallotRefusal::TooSimilar(label) => format!(
            "not counted: this is too close to {label}; vote for it, or give an answer that adds \
             something"
        ),
        BallotRefusal::NothingToVoteFor => {
            "not counted: there is no answer to vote for yet; give one with `new_answer`".to_owned()
        }
        BallotRefusal::UnknownCandidate { candidates } => {
            format!(
                "not counted: you can vote for {}",
                join_with_commas(candidates)
            )
        }
        BallotRefusal::Outdated => {
            "not counted: a newer answer is there; look at it and decide again".to_owned()
        }
        BallotRefusal::ScoresMissing { expected } => checklist::scores_missing(*expected),
        BallotRefusal::BelowChecklist { criteria } => checklist::below_checklist(criteria),
        BallotRefusal::AlreadyScored => checklist::already_scored(),
        BallotRefusal::UnreadMessage => {
            "not counted: the user has sent a message meanwhile; read it and decide again"
                .to_owned()
        }
        BallotRefusal::External(reason) => {
            let reason = UntrustedText::from(reason.as_str()).to_end_of_line();
            format!("not counted: {reason}")
        }
    }
}
