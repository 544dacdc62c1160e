//! The winner's final phase: it presents and delivers with its own gate, then evaluates the result
//! if the config asks for that.

use crate::agent::ModelSession;
use crate::agent::calls::{RequestedToolCall, ToolEffects};
use crate::agent::deadline::{RunDeadline, StopCause};
use crate::backend::BackendError;
use crate::event::RunEvent;
use crate::prompts;
use crate::prompts::call_answers;
use crate::tools::workflow::{
    ModelCall, WorkflowCall, is_workflow_tool, parse_model_call, presented_text,
};

/// Maximum number of consecutive replies that only vote or answer again, after which the
/// presentation ends.
const LATE_DECISIONS_MAX: u32 = 3;

/// Result of a presentation.
#[derive(Debug, Default)]
pub struct FinalPresentation {
    /// The final text, which the model said last or handed in with `new_answer`; empty if it gave
    /// none.
    pub text: String,
    /// The changes to files and the denials of the whole presentation.
    pub effects: ToolEffects,
    /// Why it ended early, if it did.
    pub stopped_by: Option<PresentationStop>,
}

/// Reason why a presentation ended early.
#[derive(Debug)]
pub enum PresentationStop {
    /// The model failed.
    Failed(BackendError),
    /// The run must stop.
    Stopped(StopCause),
    /// The model did not come to an end, for this reason.
    Endless(String),
}

/// Lets the final agent work until it replies without a call and has read all messages of the user.
/// A call that has begun always runs to its end, so that its changes are in the result, however
/// this ends; a command is ended at the deadline.
pub async fn present(session: &mut ModelSession, deadline: &RunDeadline) -> FinalPresentation {
    session.deadline = Some(deadline.clone());
    session.end_signal = deadline.stop.clone();
    let presentation = run_presentation(session, deadline).await;
    // Nothing of the presentation may still run while its changes are delivered.
    session.shutdown().await;
    presentation
}

async fn run_presentation(session: &mut ModelSession, deadline: &RunDeadline) -> FinalPresentation {
    let mut presentation = FinalPresentation::default();
    let mut late_decisions = 0_u32;
    for _ in 0..session.steps_max {
        session.refresh_served_tools().await;
        let step = match session.step_unless(deadline.wait()).await {
            Ok(step) => step.map_err(PresentationStop::Failed),
            Err(cause) => Err(PresentationStop::Stopped(cause)),
        };
        let reply = match step {
            Ok(reply) => reply,
            Err(cause) => {
                // A limit refuses a request with an error like one of the model.
                let is_limit_reached = session.budget.exhausted_limit().is_some();
                presentation.stopped_by = Some(if is_limit_reached {
                    PresentationStop::Stopped(StopCause::LimitReached)
                } else {
                    cause
                });
                return presentation;
            }
        };
        if let Some(text) = presented_text(&reply.text, &reply.calls) {
            presentation.text = text;
        }
        if reply.calls.is_empty() {
            if session.has_unread_messages() {
                continue;
            }
            return presentation;
        }
        let mut names = reply.calls.iter().map(|call| call.name.as_str());
        late_decisions = if names.all(is_workflow_tool) {
            late_decisions.saturating_add(1)
        } else {
            0
        };
        let calls = reply.calls.into_iter().map(|request| {
            let call = match parse_model_call(&request.name, &request.arguments, &session.served) {
                Ok(ModelCall::Tool(call)) => Ok(call),
                Ok(ModelCall::Workflow(_)) => Err(call_answers::voting_is_over().to_owned()),
                Err(error) => Err(error.to_string()),
            };
            RequestedToolCall { request, call }
        });
        presentation
            .effects
            .add(session.execute_calls(calls.collect()).await);
        if late_decisions >= LATE_DECISIONS_MAX {
            let reason = format!("{LATE_DECISIONS_MAX} replies vote or answer after the vote");
            presentation.stopped_by = Some(PresentationStop::Endless(reason));
            return presentation;
        }
    }
    let reason = format!(
        "no result after {} requests (`max_steps_per_round`)",
        session.steps_max
    );
    presentation.stopped_by = Some(PresentationStop::Endless(reason));
    presentation
}

/// The final agent's evaluation of its result.
#[derive(Debug, PartialEq, Eq)]
pub enum SelfEvaluation {
    /// It fulfils the task.
    Submit,
    /// All agents should start again.
    Restart {
        /// The reason.
        reason: String,
        /// What should be different.
        instructions: String,
    },
}

/// Asks the final agent once to evaluate its result. No decision, an error, or no time left counts as
/// approval.
pub async fn self_evaluate(session: &mut ModelSession, deadline: &RunDeadline) -> SelfEvaluation {
    session.add_user_message(prompts::post_evaluation());
    let reply = match session.step_unless(deadline.wait()).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(_)) => return SelfEvaluation::Submit,
        Err(cause) => {
            let status = cause.exit_status();
            session.emit(RunEvent::CoordinationStopped { status }).await;
            return SelfEvaluation::Submit;
        }
    };
    let restart = reply.calls.iter().find_map(|call| {
        match parse_model_call(&call.name, &call.arguments, &session.served) {
            Ok(ModelCall::Workflow(WorkflowCall::Restart {
                reason,
                instructions,
            })) => Some(SelfEvaluation::Restart {
                reason,
                instructions,
            }),
            Ok(_) | Err(_) => None,
        }
    });
    restart.unwrap_or(SelfEvaluation::Submit)
}
