//! Owns the final phase of the winner: present and deliver with a gate of its own, then, where the
//! config asks for it, judge the result.

use crate::agent::Mind;
use crate::agent::calls::{FileCall, Worked};
use crate::agent::patience::{Over, Patience};
use crate::backend::BackendError;
use crate::brief;
use crate::event::Event;
use crate::tools::workflow::{ModelCall, WorkflowCall, parse_call};

/// What a presentation came to.
#[derive(Debug, Default)]
pub struct Presentation {
    /// The final text; empty if the model gave none.
    pub text: String,
    /// What was changed, and what was refused, on the way.
    pub worked: Worked,
    /// Why it ended early, if it did.
    pub broken_off: Option<BrokenOff>,
}

/// Why a presentation ended early.
#[derive(Debug)]
pub enum BrokenOff {
    /// The model failed.
    Failed(BackendError),
    /// The run may not go on.
    Over(Over),
}

/// Lets the final agent work until it replies without a call. A call that has begun is always
/// carried out to its end, so that what it changed is in the result, however this one ends; a
/// command is ended when patience is over.
pub async fn present(mind: &mut Mind, patience: &Patience) -> Presentation {
    mind.patience = Some(patience.clone());
    let presentation = presented(mind, patience).await;
    // However it ended, nothing of it goes on while what it changed is delivered.
    mind.rest().await;
    presentation
}

async fn presented(mind: &mut Mind, patience: &Patience) -> Presentation {
    let mut presentation = Presentation::default();
    for _ in 0..mind.steps_max {
        mind.notice_servers().await;
        let step = match mind.step_unless(patience.over()).await {
            Ok(step) => step.map_err(BrokenOff::Failed),
            Err(over) => Err(BrokenOff::Over(over)),
        };
        let said = match step {
            Ok(said) => said,
            Err(broken_off) => {
                let limit_met = mind.account.ended_by().is_some();
                presentation.broken_off = Some(if limit_met {
                    BrokenOff::Over(Over::LimitMet)
                } else {
                    broken_off
                });
                return presentation;
            }
        };
        if !said.text.trim().is_empty() {
            presentation.text = said.text;
        }
        if said.calls.is_empty() {
            return presentation;
        }
        let files = said.calls.into_iter().map(|request| {
            let call = match parse_call(&request.name, &request.arguments, &mind.served) {
                Ok(ModelCall::File(call)) => Ok(call),
                Ok(ModelCall::Workflow(_)) => Err(brief::voting_is_over().to_owned()),
                Err(error) => Err(error.to_string()),
            };
            FileCall { request, call }
        });
        presentation
            .worked
            .add(mind.carry_out(files.collect()).await);
    }
    presentation
}

/// What the final agent thinks of its result.
#[derive(Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It does the task.
    Submit,
    /// All agents should begin again.
    Restart {
        /// Why.
        reason: String,
        /// What should be different.
        instructions: String,
    },
}

/// Asks the final agent to judge its result, once. No decision, a fault, or no time left counts as
/// approval.
pub async fn judge(mind: &mut Mind, patience: &Patience) -> Judgement {
    mind.tell(brief::post_evaluation());
    let said = match mind.step_unless(patience.over()).await {
        Ok(Ok(said)) => said,
        Ok(Err(_)) => return Judgement::Submit,
        Err(over) => {
            let status = over.status();
            mind.emit(Event::CutShort { status }).await;
            return Judgement::Submit;
        }
    };
    let restart = said.calls.iter().find_map(|call| {
        match parse_call(&call.name, &call.arguments, &mind.served) {
            Ok(ModelCall::Workflow(WorkflowCall::Restart {
                reason,
                instructions,
            })) => Some(Judgement::Restart {
                reason,
                instructions,
            }),
            Ok(_) | Err(_) => None,
        }
    });
    restart.unwrap_or(Judgement::Submit)
}
