//! A property test of random interleavings.

use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof};
use proptest::proptest;

use crate::ballot::tests::{agent, apply, rules};
use crate::ballot::{Ballot, BallotEffect, BallotRules, RoundOutcome, count_votes, most_voted};
use crate::id::{AgentNumber, AnswerLabel};

/// What happens to a ballot.
#[derive(Clone, Debug)]
enum BallotInput {
    Outcome(RoundOutcome),
    /// A message of the user, to one agent or to all.
    Message {
        to_all: bool,
    },
}

/// Generates the outcomes of random agents, and messages to them; candidates and knowledge may be
/// wrong on purpose.
fn outcomes() -> impl Strategy<Value = Vec<(usize, BallotInput)>> {
    let outcome = prop_oneof![
        3 => (any::<u8>(), 0u32..12).prop_map(|(n, known_messages)| {
            BallotInput::Outcome(RoundOutcome::Answer { content: format!("text {n}"), known_messages })
        }),
        4 => (1usize..6, 0u32..12, 0u32..12, prop::option::of(0u32..4)).prop_map(
            |(to, known_answers, known_messages, ordinal)| {
                let candidate = agent(to);
                BallotInput::Outcome(RoundOutcome::Vote { candidate, ordinal, scores: Vec::new(), known_answers, known_messages })
            },
        ),
        1 => Just(BallotInput::Outcome(RoundOutcome::DropOut)),
        1 => any::<bool>().prop_map(|to_all| BallotInput::Message { to_all }),
    ];
    prop::collection::vec((1usize..6, outcome), 0..200)
}

proptest! {
    #[test]
    fn every_interleaving_ends_and_counts_only_valid_votes(
        agents in 1usize..5,
        answer_lead_max in 1u32..3,
        played in outcomes(),
    ) {
        let rules = BallotRules { answer_lead_max: Some(answer_lead_max), ..rules() };
        let mut ballot = Ballot::new((1..=agents).map(agent), rules);
        let mut accepted: Vec<AnswerLabel> = Vec::new();
        let mut votes: Vec<(AgentNumber, AgentNumber)> = Vec::new();
        let mut result = None;
        let mut last_message = [0; 8];
        let mut messages = 0;
        let leaves = |n| (n, BallotInput::Outcome(RoundOutcome::DropOut));
        // One that waits for others cannot leave before them.
        let everyone_leaves = (1..=agents).cycle().take(agents * 3).map(leaves);
        for (number, input) in played.into_iter().chain(everyone_leaves) {
            let outcome = match input {
                BallotInput::Outcome(outcome) => outcome,
                BallotInput::Message { to_all } => {
                    messages += 1;
                    let to = (!to_all).then(|| agent(number));
                    for (index, last) in last_message.iter_mut().enumerate() {
                        if to_all || index == number {
                            *last = messages;
                        }
                    }
                    for effect in ballot.apply_user_message(messages, to) {
                        prop_assert!(result.is_none(), "nothing follows the end");
                        match effect {
                            BallotEffect::VoidVotes(voters) => {
                                prop_assert!(voters.iter().all(|v| to.is_none_or(|to| to == *v)));
                                votes.retain(|(voter, _)| !voters.contains(voter));
                            }
                            BallotEffect::Judge(woken) => {
                                prop_assert!(ballot.is_at_work(woken));
                            }
                            BallotEffect::AcceptAnswer(_)
                            | BallotEffect::AcceptVote { .. }
                            | BallotEffect::Refuse { .. }
                            | BallotEffect::Repair(_)
                            | BallotEffect::Close(_)
                            | BallotEffect::GiveUp => prop_assert!(false, "a message decides nothing"),
                        }
                    }
                    continue;
                }
            };
            let (known, read) = match &outcome {
                RoundOutcome::Vote { known_answers, known_messages, .. } => {
                    (*known_answers, *known_messages)
                }
                RoundOutcome::Answer { known_messages, .. } => (0, *known_messages),
                RoundOutcome::DropOut => (0, u32::MAX),
            };
            for effect in apply(&mut ballot, agent(number), outcome) {
                if let BallotEffect::AcceptAnswer(_) | BallotEffect::AcceptVote { .. } = effect {
                    prop_assert!(read >= last_message[number], "it had read all messages");
                }
                prop_assert!(result.is_none(), "nothing follows the end");
                match effect {
                    BallotEffect::AcceptAnswer(label) => accepted.push(label),
                    BallotEffect::AcceptVote { voter, answer } => {
                        let latest = accepted.iter().rfind(|l| l.agent == answer.agent);
                        prop_assert_eq!(latest, Some(&answer));
                        prop_assert!(usize::try_from(known).unwrap() >= accepted.len());
                        votes.push((voter, answer.agent));
                    }
                    BallotEffect::VoidVotes(voters) => {
                        prop_assert_eq!(voters.len(), votes.len());
                        votes.clear();
                    }
                    BallotEffect::Close(tally) => result = Some(Some(tally)),
                    BallotEffect::GiveUp => result = Some(None),
                    BallotEffect::Refuse { .. } | BallotEffect::Judge(_) | BallotEffect::Repair(_) => {}
                }
            }
        }
        let Some(result) = result else {
            // A ballot is open only while an agent can work, and no agent is left working.
            prop_assert!(false, "the ballot did not end");
            return Ok(());
        };
        let candidates = (1..=agents).map(agent).filter(|a| accepted.iter().any(|l| l.agent == *a));
        let recount = count_votes(candidates, votes.iter().map(|(_, candidate)| *candidate));
        prop_assert_eq!(most_voted(&recount), result.as_ref().map(|tally| tally.winner.agent));
        prop_assert_eq!(recount, result.map(|tally| tally.votes).unwrap_or_default());
    }
}
