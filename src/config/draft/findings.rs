//! What the check of a config says about a draft: each finding next to the answer that it concerns,
//! and the keys of vendors that are not set.

use url::Url;

use crate::config::diagnostic::{Diagnostic, Severity};
use crate::config::draft::{AGENT_GROUP, DraftAnswers, TeamDraft};
use crate::config::keys::backend;
use crate::config::vendors::{KeyRequirement, find_vendor};
use crate::dotenv::ConfigVariables;
use crate::text::list_names;

/// The severity of a finding about a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingSeverity {
    /// The config cannot be run.
    Error,
    /// Something in it will not happen as written.
    Warning,
    /// A run needs something that is not part of the config.
    Note,
}

/// An answer of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerAddress {
    /// The name of its group.
    pub group: &'static str,
    /// The index of its entry.
    pub entry: usize,
    /// The name of its key.
    pub name: &'static str,
}

/// A finding about a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftFinding {
    /// Its severity.
    pub severity: FindingSeverity,
    /// The answer that it concerns; `None` if it concerns the draft as a whole.
    pub answer: Option<AnswerAddress>,
    /// What is wrong.
    pub message: String,
    /// What is expected.
    pub expected: Option<String>,
    /// The suggested next step.
    pub suggestion: Option<String>,
}

/// The answers of a draft by the paths of their keys in the YAML.
#[derive(Debug)]
pub(super) struct FindingMap {
    answers: Vec<(AnswerAddress, Vec<String>)>,
}

impl FindingMap {
    pub(super) fn new(draft: &TeamDraft) -> Self {
        Self {
            answers: draft.addresses(),
        }
    }

    /// Returns a finding about the YAML as one about the draft.
    pub(super) fn finding(&self, diagnostic: Diagnostic) -> DraftFinding {
        DraftFinding {
            severity: match diagnostic.severity {
                Severity::Error => FindingSeverity::Error,
                Severity::Warning => FindingSeverity::Warning,
            },
            answer: self.answer(&diagnostic.key),
            message: diagnostic.message,
            expected: diagnostic.expected,
            suggestion: diagnostic.suggestion,
        }
    }

    /// Returns the answer whose value is at `key`, contains it, or is the first inside it.
    fn answer(&self, key: &str) -> Option<AnswerAddress> {
        let find = |matches: &dyn Fn(&str) -> bool| {
            let mut answers = self.answers.iter();
            answers.find(|(_, paths)| paths.iter().any(|path| matches(path)))
        };
        let first_match = find(&|path| path == key)
            .or_else(|| find(&|path| is_inside(key, path)))
            .or_else(|| find(&|path| is_inside(path, key)));
        first_match.map(|(address, _)| *address)
    }
}

/// Returns whether the value at `path` is a part of the value at `parent`.
fn is_inside(path: &str, parent: &str) -> bool {
    let rest = path.strip_prefix(parent);
    !parent.is_empty() && rest.is_some_and(|rest| rest.starts_with(['.', '[']))
}

/// Returns a note about each agent whose vendor needs a key that is not set. The note names the
/// variable, because a draft never contains a key.
pub(super) fn missing_keys(agents: &[DraftAnswers], env: &ConfigVariables) -> Vec<DraftFinding> {
    let agents = agents.iter().enumerate();
    agents
        .filter_map(|(index, agent)| {
            let missing_names = missing_variables(agent, env)?;
            let names = list_names(missing_names, "or");
            let first_variable = missing_names.first()?;
            Some(DraftFinding {
                severity: FindingSeverity::Note,
                answer: Some(AnswerAddress {
                    group: AGENT_GROUP,
                    entry: index,
                    name: backend::TYPE.name(),
                }),
                message: format!("{names} is not set"),
                expected: None,
                suggestion: Some(format!(
                    "export {first_variable}, or set it in `~/.massgen/.env`, before you start massgen"
                )),
            })
        })
        .collect()
}

/// Returns the variables of which one must hold the key of an agent, if none of them is set.
fn missing_variables(
    agent: &DraftAnswers,
    env: &ConfigVariables,
) -> Option<&'static [&'static str]> {
    let answer = |name: &str| {
        let text = agent.get(name).map(|text| text.trim());
        text.filter(|text| !text.is_empty())
    };
    let vendor = find_vendor(answer(backend::TYPE.name())?)?;
    let variable = |name: &str| env.get(name).map(str::to_owned);
    let endpoint = vendor.endpoint(answer(backend::BASE_URL.name()), variable);
    let url = endpoint.and_then(|endpoint| Url::parse(&endpoint).ok());
    let (requirement, variables) = match &url {
        Some(url) => (vendor.key_requirement_at(url), vendor.key_variables_at(url)),
        None => (vendor.key_requirement, vendor.key_variables),
    };
    let is_set = |name: &&str| env.get_non_empty(name).is_some();
    (requirement == KeyRequirement::Required && !variables.iter().any(is_set)).then_some(variables)
}
