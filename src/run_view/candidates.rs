//! What the candidates of a run are worth: which passed the checks, which the votes alone would
//! have selected, and what it cost to make them, to select one and to present it.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check_results::{CheckResult, CheckVerdict, ChecksOutcome};
use crate::event::{CoordinationEvent, Event, RunEvent};
use crate::id::{AgentId, AnswerLabel};
use crate::run_view::RunView;
use crate::run_view::agent::AgentView;
use crate::run_view::ballot::VotesForAgent;
use crate::spending::money::Money;
use crate::spending::totals::{RequestTotals, SpendingPhase};
use crate::text::count_noun;

/// The last answer of an agent, which the selection could take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunCandidate {
    /// The agent.
    pub agent: AgentId,
    /// Its answer.
    pub label: AnswerLabel,
    /// The model that it asked last, if it asked one.
    pub model: Option<Arc<str>>,
    /// How the required checks of the answer ended.
    pub checks: ChecksOutcome,
    /// The votes for it.
    pub votes: u32,
    /// Whether it was selected.
    pub is_selected: bool,
    /// Whether it passed the judge of the task; absent if it was not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<bool>,
    /// What its agent used until it gave the answer.
    #[serde(flatten)]
    pub used: RequestTotals,
}

/// What a team made and what that cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CandidateReport {
    /// The candidates, in the order of the config.
    pub candidates: Vec<RunCandidate>,
    /// What votes and comparisons used: what an agent uses before it votes is a part of it.
    pub selection: RequestTotals,
    /// What the final presentation used.
    pub presentation: RequestTotals,
    /// Whether what was delivered passed the judge of the task; absent if it was not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<bool>,
}

/// What the events tell of the candidates and their selection, beside the ballot.
#[derive(Clone, Debug, Default)]
pub(super) struct CandidateFacts {
    /// What each agent used since it answered or voted last.
    open: BTreeMap<AgentId, RequestTotals>,
    /// What each agent used for its answers.
    answers: BTreeMap<AgentId, RequestTotals>,
    selection: RequestTotals,
    presentation: RequestTotals,
    /// The verdicts of the judge: on answers, and under `None` on what was delivered.
    verdicts: BTreeMap<Option<AnswerLabel>, bool>,
}

impl CandidateFacts {
    pub(super) fn apply(&mut self, event: &Event) {
        if let Event::Run(RunEvent::RunStarted { .. }) = event {
            self.open.clear();
            self.answers.clear();
            self.verdicts.clear();
        } else if let Event::Coordination(CoordinationEvent::Answered { agent, .. }) = event {
            let used = self.open.remove(agent).unwrap_or_default();
            self.answers.entry(agent.clone()).or_default().add(used);
        } else if let Event::Coordination(CoordinationEvent::Voted { agent, .. }) = event {
            self.selection
                .add(self.open.remove(agent).unwrap_or_default());
        } else if let Event::Run(RunEvent::Judged { label, verdict }) = event {
            match verdict {
                CheckVerdict::Passed => self.verdicts.insert(*label, true),
                CheckVerdict::Failed { .. } => self.verdicts.insert(*label, false),
                CheckVerdict::NotRun { .. } => self.verdicts.remove(label),
            };
        } else if let Some((key, used)) = event.request_usage() {
            let total = match key.phase {
                SpendingPhase::Coordination => self.open.entry(key.agent).or_default(),
                SpendingPhase::Selection => &mut self.selection,
                SpendingPhase::Final => &mut self.presentation,
            };
            total.add(used);
        }
    }
}

impl RunView {
    /// Returns the candidates of the last coordination, with what they cost.
    pub fn candidate_report(&self) -> CandidateReport {
        let facts = &self.candidate_facts;
        CandidateReport {
            candidates: self.candidates(),
            selection: facts.selection,
            presentation: facts.presentation,
            judged: facts.verdicts.get(&None).copied(),
        }
    }

    /// Returns how the required checks ended: those after the delivery, or without a delivery those
    /// of the winning answer.
    pub fn checks_outcome(&self) -> ChecksOutcome {
        let ballot = self.ballot();
        let winner = ballot.winner.as_ref();
        let answer = winner.and_then(|winner| ballot.answer(winner.label));
        let answer_checks = answer.and_then(|answer| answer.checks.as_ref());
        // The last result of each check counts.
        let delivery_checks = self.delivery().checks.iter();
        let delivery_checks: BTreeMap<&str, &CheckResult> = delivery_checks
            .map(|result| (result.check.as_str(), result))
            .collect();
        if delivery_checks.is_empty() {
            ChecksOutcome::of(answer_checks.iter().flat_map(|results| &results.checks))
        } else {
            ChecksOutcome::of(delivery_checks.into_values())
        }
    }

    fn candidates(&self) -> Vec<RunCandidate> {
        let (ballot, facts) = (self.ballot(), &self.candidate_facts);
        let winner = ballot.winner.as_ref();
        let votes = |agent: &AgentId| {
            let mut votes = winner.into_iter().flat_map(|winner| &winner.votes);
            votes.find(|votes| votes.agent == *agent)
        };
        let candidate = |view: &AgentView| {
            let agent = &view.id;
            let answer = ballot
                .current_answers()
                .find(|answer| answer.agent == *agent)?;
            let checks = answer.checks.iter().flat_map(|results| &results.checks);
            Some(RunCandidate {
                agent: agent.clone(),
                label: answer.label,
                model: view.model.clone(),
                checks: ChecksOutcome::of(checks),
                votes: votes(agent).map_or(0, |votes: &VotesForAgent| votes.count),
                judged: facts.verdicts.get(&Some(answer.label)).copied(),
                is_selected: winner.is_some_and(|winner| winner.label == answer.label),
                used: facts.answers.get(agent).copied().unwrap_or_default(),
            })
        };
        self.agents().iter().filter_map(candidate).collect()
    }
}

impl RunCandidate {
    /// Returns whether it is good: as it was judged, or else as its checks ended; `None` if neither
    /// tells.
    pub fn is_good(&self) -> Option<bool> {
        self.judged.or(match self.checks {
            ChecksOutcome::Passed => Some(true),
            ChecksOutcome::Failed => Some(false),
            ChecksOutcome::None => None,
        })
    }
}

impl CandidateReport {
    /// Returns the candidate that the votes alone would have selected; `None` without votes.
    pub fn choice_of_votes(&self) -> Option<&RunCandidate> {
        let most = self
            .candidates
            .iter()
            .map(|candidate| candidate.votes)
            .max()?;
        let mut candidates = self.candidates.iter();
        candidates.find(|candidate| most > 0 && candidate.votes == most)
    }

    /// Returns in one line what it was worth to have several candidates, in a run that used
    /// `total`; `None` if there was one.
    pub fn line(&self, total: &RequestTotals) -> Option<String> {
        if self.candidates.len() < 2 {
            return None;
        }
        let has_cost = total.known_cost() > Money::ZERO;
        let amount = |used: &RequestTotals| {
            if has_cost {
                let dollars = used.known_cost().round_up();
                (dollars > Money::ZERO).then(|| format!("${dollars}"))
            } else {
                let tokens = used.usage.total_tokens();
                (tokens > 0).then(|| format!("{tokens} tokens"))
            }
        };
        let shares: Vec<String> = [
            (&self.selection, "to select one"),
            (&self.presentation, "to present it"),
        ]
        .into_iter()
        .filter_map(|(share, purpose)| Some(format!("{} {purpose}", amount(share)?)))
        .collect();
        let used = amount(total).map(|total| match shares.as_slice() {
            [] => total,
            shares => format!("{total}, of which {}", shares.join(" and ")),
        });
        let votes = self.votes_text().map(str::to_owned);
        let parts: Vec<String> = [Some(self.checks_text()), votes, used]
            .into_iter()
            .flatten()
            .collect();
        Some(parts.join("; "))
    }

    fn checks_text(&self) -> String {
        let has = |outcome| {
            let candidates = self.candidates.iter();
            candidates.filter(move |candidate| candidate.checks == outcome)
        };
        let answers = count_noun(self.candidates.len(), "answer");
        let passed = has(ChecksOutcome::Passed).count();
        match (passed, has(ChecksOutcome::Failed).count()) {
            (0, 0) => format!("{answers}, no required check"),
            (0, _) => format!("{answers}, none passed the checks"),
            (_, 0) => format!("{answers}, all passed the checks"),
            (passed, _) => format!("{answers}, {passed} passed the checks"),
        }
    }

    /// Returns how the votes compare with the selection, if checks could decide otherwise.
    fn votes_text(&self) -> Option<&'static str> {
        let chosen = self.choice_of_votes()?;
        match (chosen.is_selected, chosen.checks) {
            (_, ChecksOutcome::None) => None,
            (true, _) => Some("the votes alone would have taken the same"),
            (false, ChecksOutcome::Passed) => {
                Some("the votes alone would have taken another that passes")
            }
            (false, ChecksOutcome::Failed) => {
                Some("the votes alone would have taken one that fails")
            }
        }
    }
}
