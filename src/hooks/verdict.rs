//! Combines the answers of several hooks: the strictest decision wins, and a hook that fails denies
//! an event that waits for it.

use serde_json::{Map, Value};

use crate::hooks::HookEvent;
use crate::hooks::answer::{HookAnswer, HookDecision, HookFailure};

/// A hook's answer, or why it gave none.
pub type HookOutcome = Result<HookAnswer, HookFailure>;

/// The combined decision of several hooks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookVerdict {
    /// The strictest decision, if any, and its reason as a sentence that a model may read.
    pub decision: Option<(HookDecision, String)>,
    /// The input that replaces the tool's.
    pub updated_input: Option<Map<String, Value>>,
    /// Additional context for the model, one string per hook.
    pub context: Vec<String>,
}

impl HookVerdict {
    /// Combines the outcomes of the hooks on `event`, in the order of the config.
    pub fn from_outcomes(event: HookEvent, outcomes: Vec<HookOutcome>) -> Self {
        let mut verdict = Self::default();
        for outcome in outcomes {
            match outcome {
                Ok(answer) => verdict.add(answer),
                Err(failure) if event.is_blocking() => {
                    let reason = format!("a hook of the user's failed: {}", failure.cause);
                    verdict.decide(HookDecision::Deny, reason);
                }
                Err(_) => {}
            }
        }
        verdict
    }

    /// Returns the reason if the hooks deny.
    pub fn denial(&self) -> Option<&str> {
        match &self.decision {
            Some((HookDecision::Deny, reason)) => Some(reason),
            Some((HookDecision::Allow | HookDecision::Ask | HookDecision::Defer, _)) | None => None,
        }
    }

    /// Returns the reason if the hooks do not allow. This is for events about which no person is
    /// asked, where `ask` and `defer` count as denials.
    pub fn refusal(&self) -> Option<&str> {
        match &self.decision {
            Some((HookDecision::Deny | HookDecision::Ask | HookDecision::Defer, reason)) => {
                Some(reason)
            }
            Some((HookDecision::Allow, _)) | None => None,
        }
    }

    /// Returns the reason if a person must be asked first.
    pub fn ask_reason(&self) -> Option<&str> {
        match &self.decision {
            Some((HookDecision::Ask | HookDecision::Defer, reason)) => Some(reason),
            Some((HookDecision::Allow | HookDecision::Deny, _)) | None => None,
        }
    }

    fn add(&mut self, answer: HookAnswer) {
        let HookAnswer {
            decision,
            reason,
            updated_input,
            context,
        } = answer;
        if let Some(decision) = decision {
            let effect = match decision {
                HookDecision::Allow => "a hook of the user's allows it",
                HookDecision::Ask => "a hook of the user's has a person asked first",
                HookDecision::Defer => "a hook of the user's leaves it to a person",
                HookDecision::Deny => "a hook of the user's denies it",
            };
            let reason = match reason {
                Some(reason) => format!("{effect}: {reason}"),
                None => effect.to_owned(),
            };
            self.decide(decision, reason);
        }
        match (&self.updated_input, updated_input) {
            (Some(earlier_input), Some(input)) if *earlier_input != input => {
                let reason = "two hooks of the user's want different inputs".to_owned();
                self.decide(HookDecision::Deny, reason);
            }
            (None, input) => self.updated_input = input,
            (Some(_), _) => {}
        }
        self.context.extend(context);
    }

    /// Replaces a milder decision with a stricter one.
    fn decide(&mut self, decision: HookDecision, reason: String) {
        let current_decision = self.decision.as_ref().map(|(strictest, _)| *strictest);
        if current_decision.is_none_or(|strictest| strictest < decision) {
            self.decision = Some((decision, reason));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn says(decision: HookDecision) -> HookAnswer {
        HookAnswer {
            decision: Some(decision),
            reason: Some(decision.name().to_owned()),
            ..HookAnswer::default()
        }
    }

    fn wants(path: &str) -> HookAnswer {
        HookAnswer {
            updated_input: json!({ "path": path }).as_object().cloned(),
            ..HookAnswer::default()
        }
    }

    fn fails() -> HookOutcome {
        Err(HookFailure::new("it ended with status 1", "secret"))
    }

    #[track_caller]
    fn check(event: HookEvent, outcomes: Vec<HookOutcome>, expected: &str) {
        let verdict = HookVerdict::from_outcomes(event, outcomes);
        let reason = verdict
            .decision
            .map(|(_, reason)| reason)
            .unwrap_or_default();
        assert_eq!(reason, expected);
    }

    #[test]
    fn the_strictest_hook_decision_applies() {
        use HookDecision::{Allow, Ask, Defer, Deny};
        let event = HookEvent::PreToolUse;
        let all = [
            (Allow, "allows it"),
            (Ask, "has a person asked first"),
            (Defer, "leaves it to a person"),
            (Deny, "denies it"),
        ];
        for (index, (one, _)) in all.iter().enumerate() {
            for (other, decision) in all.iter().skip(index) {
                let expected = format!("a hook of the user's {decision}: {}", other.name());
                check(event, vec![Ok(says(*one)), Ok(says(*other))], &expected);
                check(event, vec![Ok(says(*other)), Ok(says(*one))], &expected);
            }
        }
        check(event, vec![Ok(HookAnswer::default())], "");
    }

    #[test]
    fn a_failure_denies_where_something_waits() {
        let failed = "a hook of the user's failed: it ended with status 1";
        for event in HookEvent::ALL {
            let expected = if event.is_blocking() { failed } else { "" };
            check(event, vec![fails()], expected);
        }
    }

    #[test]
    fn two_inputs_are_none() {
        let event = HookEvent::PreToolUse;
        check(event, vec![Ok(wants("a")), Ok(wants("a"))], "");
        let expected = "two hooks of the user's want different inputs";
        check(event, vec![Ok(wants("a")), Ok(wants("b"))], expected);
    }
}
