//! Owns what the answers of several hooks come to: the strictest speaks, and where something waits for
//! their word, one that fails has said no.

use serde_json::{Map, Value};

use crate::hooks::HookEvent;
use crate::hooks::answer::{Answer, Decision, Failure};

/// What a hook has said, or why it has said nothing.
pub type Outcome = Result<Answer, Failure>;

/// What hooks have decided together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The strictest decision, if one was taken, and why, as a sentence that a model may read.
    pub decision: Option<(Decision, String)>,
    /// What the tool shall be given instead.
    pub updated_input: Option<Map<String, Value>>,
    /// What the model shall read besides, one text for each hook.
    pub context: Vec<String>,
}

impl Verdict {
    /// What these hooks have said on `event`, in the order of the config.
    pub fn of(event: HookEvent, outcomes: Vec<Outcome>) -> Self {
        let mut verdict = Self::default();
        for outcome in outcomes {
            match outcome {
                Ok(answer) => verdict.add(answer),
                Err(failure) if event.is_asked() => {
                    let why = format!("a hook of the user's failed: {}", failure.cause);
                    verdict.decide(Decision::Deny, why);
                }
                Err(_) => {}
            }
        }
        verdict
    }

    /// Why it must not happen, if so.
    pub fn denial(&self) -> Option<&str> {
        match &self.decision {
            Some((Decision::Deny, why)) => Some(why),
            Some((Decision::Allow | Decision::Ask | Decision::Defer, _)) | None => None,
        }
    }

    /// Why it must not happen where nobody is asked, if so: then whatever is no consent is a no.
    pub fn refusal(&self) -> Option<&str> {
        match &self.decision {
            Some((Decision::Deny | Decision::Ask | Decision::Defer, why)) => Some(why),
            Some((Decision::Allow, _)) | None => None,
        }
    }

    /// Why a person is asked first, if so.
    pub fn question(&self) -> Option<&str> {
        match &self.decision {
            Some((Decision::Ask | Decision::Defer, why)) => Some(why),
            Some((Decision::Allow | Decision::Deny, _)) | None => None,
        }
    }

    fn add(&mut self, answer: Answer) {
        let Answer {
            decision,
            reason,
            updated_input,
            context,
        } = answer;
        if let Some(decision) = decision {
            let what = match decision {
                Decision::Allow => "a hook of the user's allows it",
                Decision::Ask => "a hook of the user's has a person asked first",
                Decision::Defer => "a hook of the user's leaves it to a person",
                Decision::Deny => "a hook of the user's denies it",
            };
            let why = match reason {
                Some(reason) => format!("{what}: {reason}"),
                None => what.to_owned(),
            };
            self.decide(decision, why);
        }
        match (&self.updated_input, updated_input) {
            (Some(known), Some(other)) if *known != other => {
                let why = "two hooks of the user's want different inputs".to_owned();
                self.decide(Decision::Deny, why);
            }
            (None, updated) => self.updated_input = updated,
            (Some(_), _) => {}
        }
        self.context.extend(context);
    }

    /// A stricter decision replaces a milder one.
    fn decide(&mut self, decision: Decision, why: String) {
        let known = self.decision.as_ref().map(|(known, _)| *known);
        if known.is_none_or(|known| known < decision) {
            self.decision = Some((decision, why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn says(decision: Decision) -> Answer {
        Answer {
            decision: Some(decision),
            reason: Some(decision.name().to_owned()),
            ..Answer::default()
        }
    }

    fn wants(path: &str) -> Answer {
        Answer {
            updated_input: json!({ "path": path }).as_object().cloned(),
            ..Answer::default()
        }
    }

    fn fails() -> Outcome {
        Err(Failure::new("it ended with status 1", "secret"))
    }

    #[track_caller]
    fn check(event: HookEvent, outcomes: Vec<Outcome>, expected: &str) {
        let verdict = Verdict::of(event, outcomes);
        let why = verdict.decision.map(|(_, why)| why).unwrap_or_default();
        assert_eq!(why, expected);
    }

    #[test]
    fn the_strictest_hook_speaks() {
        use Decision::{Allow, Ask, Defer, Deny};
        let event = HookEvent::PreToolUse;
        let all = [
            (Allow, "allows it"),
            (Ask, "has a person asked first"),
            (Defer, "leaves it to a person"),
            (Deny, "denies it"),
        ];
        for (place, (one, _)) in all.iter().enumerate() {
            for (other, what) in all.iter().skip(place) {
                let expected = format!("a hook of the user's {what}: {}", other.name());
                check(event, vec![Ok(says(*one)), Ok(says(*other))], &expected);
                check(event, vec![Ok(says(*other)), Ok(says(*one))], &expected);
            }
        }
        check(event, vec![Ok(Answer::default())], "");
    }

    #[test]
    fn a_failure_denies_where_something_waits() {
        let failed = "a hook of the user's failed: it ended with status 1";
        for event in HookEvent::ALL {
            let expected = if event.is_asked() { failed } else { "" };
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
