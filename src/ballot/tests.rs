//! Table tests of single races, and a property test of random interleavings.

use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof};
use proptest::proptest;

use super::{
    Ballot, BallotEffect, BallotRefusal, BallotRules, RoundOutcome, VoteTally, count_votes,
    most_voted,
};
use crate::ballot::checklist::ChecklistRule;
use crate::config::NoveltyRequirement;
use crate::id::{AgentNumber, AnswerLabel};

fn agent(number: usize) -> AgentNumber {
    AgentNumber::from_index(number - 1)
}

fn label(number: usize, ordinal: u32) -> AnswerLabel {
    AnswerLabel {
        agent: agent(number),
        ordinal,
    }
}

fn rules() -> BallotRules {
    BallotRules {
        answers_per_agent_max: 2,
        answers_max: None,
        novelty: NoveltyRequirement::Lenient,
        checklist: None,
        answer_lead_max: Some(2),
    }
}

fn ballot(agents: usize) -> Ballot {
    Ballot::new((1..=agents).map(agent), rules())
}

fn answer(content: &str) -> RoundOutcome {
    RoundOutcome::Answer {
        content: content.to_owned(),
        known_messages: 0,
    }
}

fn vote(candidate: usize, known_answers: u32) -> RoundOutcome {
    RoundOutcome::Vote {
        candidate: agent(candidate),
        ordinal: None,
        scores: Vec::new(),
        known_answers,
        known_messages: 0,
    }
}

fn refusal_effect(number: usize, refusal: BallotRefusal) -> BallotEffect {
    BallotEffect::Refuse {
        agent: agent(number),
        refusal,
    }
}

fn accepted_vote(voter: usize, candidate: usize, ordinal: u32) -> BallotEffect {
    BallotEffect::AcceptVote {
        voter: agent(voter),
        answer: label(candidate, ordinal),
    }
}

fn closed_ballot(winner: AnswerLabel, votes: &[(usize, u32)]) -> BallotEffect {
    let votes = votes
        .iter()
        .map(|(number, count)| (agent(*number), *count))
        .collect();
    BallotEffect::Close(VoteTally { winner, votes })
}

/// Applies `steps` and checks the effects of each.
#[track_caller]
fn check(mut ballot: Ballot, steps: Vec<(usize, RoundOutcome, Vec<BallotEffect>)>) {
    for (index, (number, outcome, expected)) in steps.into_iter().enumerate() {
        assert_eq!(
            ballot.apply(agent(number), outcome),
            expected,
            "step {index}"
        );
    }
}

#[test]
fn all_agents_together_give_no_more_answers_than_the_limit() {
    let rules = BallotRules {
        answers_max: Some(1),
        ..rules()
    };
    let limit = BallotRefusal::SharedAnswerLimit { answers_max: 1 };
    check(
        Ballot::new((1..=2).map(agent), rules),
        vec![
            (
                1,
                answer("a"),
                vec![BallotEffect::AcceptAnswer(label(1, 1))],
            ),
            (2, answer("b"), vec![refusal_effect(2, limit)]),
            (
                2,
                vote(1, 1),
                vec![
                    accepted_vote(2, 1, 1),
                    closed_ballot(label(1, 1), &[(1, 1)]),
                ],
            ),
        ],
    );
}

#[test]
fn two_agents_answer_judge_and_vote() {
    let both = vec![BallotEffect::Judge(agent(1)), BallotEffect::Judge(agent(2))];
    let second = [vec![BallotEffect::AcceptAnswer(label(2, 1))], both].concat();
    check(
        ballot(2),
        vec![
            (
                1,
                answer("a"),
                vec![BallotEffect::AcceptAnswer(label(1, 1))],
            ),
            (2, answer("b"), second),
            (1, vote(2, 2), vec![accepted_vote(1, 2, 1)]),
            (
                2,
                vote(2, 2),
                vec![
                    accepted_vote(2, 2, 1),
                    closed_ballot(label(2, 1), &[(1, 0), (2, 2)]),
                ],
            ),
        ],
    );
}

#[test]
fn a_new_answer_voids_votes_and_wakes_the_voters() {
    let voided = vec![
        BallotEffect::AcceptAnswer(label(3, 1)),
        BallotEffect::VoidVotes(vec![agent(2)]),
        BallotEffect::Judge(agent(2)),
    ];
    check(
        ballot(3),
        vec![
            (
                1,
                answer("a"),
                vec![BallotEffect::AcceptAnswer(label(1, 1))],
            ),
            (2, vote(1, 1), vec![accepted_vote(2, 1, 1)]),
            (3, answer("c"), voided),
            (
                2,
                vote(1, 1),
                vec![refusal_effect(2, BallotRefusal::Outdated)],
            ),
            (
                2,
                vote(3, 2),
                vec![
                    accepted_vote(2, 3, 1),
                    BallotEffect::Judge(agent(1)),
                    BallotEffect::Judge(agent(3)),
                ],
            ),
            (1, vote(1, 2), vec![accepted_vote(1, 1, 1)]),
            (
                3,
                vote(1, 2),
                vec![
                    accepted_vote(3, 1, 1),
                    closed_ballot(label(1, 1), &[(1, 2), (3, 1)]),
                ],
            ),
        ],
    );
}

#[test]
fn one_agent_answers_once_and_does_not_vote() {
    let done = vec![
        BallotEffect::AcceptAnswer(label(1, 1)),
        closed_ballot(label(1, 1), &[(1, 0)]),
    ];
    check(
        ballot(1),
        vec![(1, answer("a"), done), (1, answer("b"), vec![])],
    );
}

#[test]
fn the_last_one_standing_does_not_vote_for_itself() {
    check(
        ballot(2),
        vec![
            (
                1,
                answer("a"),
                vec![BallotEffect::AcceptAnswer(label(1, 1))],
            ),
            (
                2,
                RoundOutcome::DropOut,
                vec![closed_ballot(label(1, 1), &[(1, 0)])],
            ),
        ],
    );
    check(
        ballot(2),
        vec![
            (
                1,
                answer("a"),
                vec![BallotEffect::AcceptAnswer(label(1, 1))],
            ),
            (
                2,
                vote(1, 1),
                vec![
                    accepted_vote(2, 1, 1),
                    closed_ballot(label(1, 1), &[(1, 1)]),
                ],
            ),
        ],
    );
}

#[test]
fn an_agent_that_left_keeps_its_answer_as_a_candidate() {
    check(
        ballot(2),
        vec![
            (
                1,
                answer("a"),
                vec![BallotEffect::AcceptAnswer(label(1, 1))],
            ),
            (
                2,
                answer("b"),
                vec![
                    BallotEffect::AcceptAnswer(label(2, 1)),
                    BallotEffect::Judge(agent(1)),
                    BallotEffect::Judge(agent(2)),
                ],
            ),
            (1, RoundOutcome::DropOut, vec![]),
            (
                2,
                vote(1, 2),
                vec![
                    accepted_vote(2, 1, 1),
                    closed_ballot(label(1, 1), &[(1, 1), (2, 0)]),
                ],
            ),
        ],
    );
}

#[test]
fn a_round_without_answers_gives_up() {
    check(
        ballot(2),
        vec![
            (1, RoundOutcome::DropOut, vec![]),
            (2, RoundOutcome::DropOut, vec![BallotEffect::GiveUp]),
        ],
    );
}

#[test]
fn invalid_answers_and_votes_are_rejected_with_a_reason() {
    let unknown = BallotRefusal::UnknownCandidate {
        candidates: vec![agent(1)],
    };
    let limit = BallotRefusal::AnswerLimit { answers_max: 2 };
    let old = RoundOutcome::Vote {
        candidate: agent(1),
        ordinal: Some(7),
        scores: Vec::new(),
        known_answers: 1,
        known_messages: 0,
    };
    check(
        ballot(2),
        vec![
            (
                1,
                vote(1, 0),
                vec![refusal_effect(1, BallotRefusal::NothingToVoteFor)],
            ),
            (
                1,
                answer("  "),
                vec![refusal_effect(1, BallotRefusal::EmptyAnswer)],
            ),
            (
                1,
                answer("a"),
                vec![BallotEffect::AcceptAnswer(label(1, 1))],
            ),
            (2, vote(2, 1), vec![refusal_effect(2, unknown.clone())]),
            (2, vote(9, 1), vec![refusal_effect(2, unknown)]),
            (2, old, vec![refusal_effect(2, BallotRefusal::Outdated)]),
            (
                2,
                answer(" a\n"),
                vec![refusal_effect(2, BallotRefusal::Duplicate(label(1, 1)))],
            ),
            (
                2,
                answer("b"),
                vec![
                    BallotEffect::AcceptAnswer(label(2, 1)),
                    BallotEffect::Judge(agent(1)),
                    BallotEffect::Judge(agent(2)),
                ],
            ),
            (
                2,
                answer("c"),
                vec![
                    BallotEffect::AcceptAnswer(label(2, 2)),
                    BallotEffect::Judge(agent(2)),
                ],
            ),
            (2, answer("d"), vec![refusal_effect(2, limit)]),
        ],
    );
}

#[test]
fn a_message_voids_the_votes_of_its_readers_and_wakes_them() {
    let mut open = ballot(3);
    open.apply(agent(1), answer("a"));
    let judge = |number| BallotEffect::Judge(agent(number));
    // It waits for the others, and goes back to work.
    assert_eq!(open.apply_user_message(1, Some(agent(1))), [judge(1)]);
    let unread = || vec![refusal_effect(1, BallotRefusal::UnreadMessage)];
    assert_eq!(open.apply(agent(1), vote(1, 1)), unread());
    assert_eq!(open.apply(agent(1), answer("b")), unread());
    let has_read = RoundOutcome::Vote {
        candidate: agent(1),
        ordinal: None,
        scores: Vec::new(),
        known_answers: 1,
        known_messages: 1,
    };
    assert_eq!(open.apply(agent(1), has_read), [accepted_vote(1, 1, 1)]);
    // A message to another agent changes nothing for it.
    assert_eq!(open.apply_user_message(2, Some(agent(2))), []);
    open.apply(agent(3), RoundOutcome::DropOut);
    let all = open.apply_user_message(3, None);
    assert_eq!(
        all,
        [BallotEffect::VoidVotes(vec![agent(1)]), judge(1)],
        "one that has dropped out reads nothing"
    );
    assert!(!open.takes_part(Some(agent(3))) && open.takes_part(None));
    open.close();
    assert_eq!(open.apply_user_message(4, None), []);
}

#[test]
fn a_vote_below_the_checklist_needs_a_better_answer_first() {
    let rules = BallotRules {
        checklist: Some(ChecklistRule {
            criteria: 2,
            threshold: 0,
        }),
        ..rules()
    };
    let scored = |scores: &[u8], known_answers| RoundOutcome::Vote {
        candidate: agent(1),
        ordinal: None,
        scores: scores.to_vec(),
        known_answers,
        known_messages: 0,
    };
    let judge = |number| BallotEffect::Judge(agent(number));
    let below = |criteria: &[usize]| BallotRefusal::BelowChecklist {
        criteria: criteria.to_vec(),
    };
    check(
        Ballot::new((1..=2).map(agent), rules),
        vec![
            (
                1,
                answer("a"),
                vec![BallotEffect::AcceptAnswer(label(1, 1))],
            ),
            (
                2,
                answer("b"),
                vec![BallotEffect::AcceptAnswer(label(2, 1)), judge(1), judge(2)],
            ),
            (
                1,
                scored(&[10], 2),
                vec![refusal_effect(
                    1,
                    BallotRefusal::ScoresMissing { expected: 2 },
                )],
            ),
            (1, scored(&[10, 3], 2), vec![refusal_effect(1, below(&[2]))]),
            // The same answers are not scored again, however high.
            (
                1,
                scored(&[10, 10], 2),
                vec![refusal_effect(1, BallotRefusal::AlreadyScored)],
            ),
            (2, scored(&[10, 10], 2), vec![accepted_vote(2, 1, 1)]),
            (
                1,
                answer("better"),
                vec![
                    BallotEffect::AcceptAnswer(label(1, 2)),
                    BallotEffect::VoidVotes(vec![agent(2)]),
                    judge(2),
                    judge(1),
                ],
            ),
            // An agent without any answer left votes for what there is.
            (1, scored(&[0, 0], 3), vec![accepted_vote(1, 1, 2)]),
        ],
    );
}

#[test]
fn an_agent_far_ahead_waits_for_the_others() {
    let rules = |answer_lead_max| BallotRules {
        answers_per_agent_max: 9,
        answer_lead_max,
        ..rules()
    };
    let accept = |ordinal| BallotEffect::AcceptAnswer(label(1, ordinal));
    let judge = |number| BallotEffect::Judge(agent(number));
    let begin = |lead_max| {
        let mut open = Ballot::new((1..=2).map(agent), rules(lead_max));
        open.apply(agent(1), answer("a"));
        open.apply(agent(2), answer("b"));
        assert_eq!(open.apply(agent(1), answer("a2")), [accept(2), judge(1)]);
        open
    };
    let mut open = begin(Some(2));
    assert_eq!(open.apply(agent(1), answer("a3")), [accept(3)]);
    // It continues when the other has answered again, has voted, or has dropped out.
    let mut answered = open.clone();
    assert_eq!(
        answered.apply(agent(2), answer("b2")),
        [BallotEffect::AcceptAnswer(label(2, 2)), judge(1), judge(2)]
    );
    let mut voted = open.clone();
    assert_eq!(
        voted.apply(agent(2), vote(1, 4)),
        [accepted_vote(2, 1, 3), judge(1)]
    );
    assert_eq!(open.apply(agent(2), RoundOutcome::DropOut), [judge(1)]);
    let mut free = begin(None);
    assert_eq!(
        free.apply(agent(1), answer("a3")),
        [accept(3), judge(1)],
        "without the rule nothing holds it"
    );
}

#[test]
fn novelty_compares_words() {
    let strict = BallotRules {
        novelty: NoveltyRequirement::Strict,
        ..rules()
    };
    let similar = refusal_effect(2, BallotRefusal::TooSimilar(label(1, 1)));
    check(
        Ballot::new((1..=3).map(agent), strict),
        vec![
            (
                1,
                answer("use a loop here"),
                vec![BallotEffect::AcceptAnswer(label(1, 1))],
            ),
            (2, answer("Use a LOOP there"), vec![similar]),
            (
                2,
                answer("recursion is shorter"),
                vec![BallotEffect::AcceptAnswer(label(2, 1))],
            ),
        ],
    );
}

#[test]
fn ties_go_to_the_agent_that_was_registered_first() {
    let order = [agent(3), agent(1), agent(2)];
    let counted = count_votes(order.into_iter(), [agent(1), agent(2)].into_iter());
    assert_eq!(most_voted(&counted), Some(agent(1)));
    assert_eq!(
        most_voted(&count_votes(order.into_iter(), [].into_iter())),
        Some(agent(3))
    );
    assert_eq!(most_voted(&[]), None);
}

#[test]
fn closing_early_takes_the_votes_that_count() {
    let mut open = ballot(3);
    open.apply(agent(2), answer("b"));
    open.apply(agent(3), answer("c"));
    open.apply(agent(1), vote(3, 2));
    assert_eq!(open.close(), closed_ballot(label(3, 1), &[(2, 0), (3, 1)]));
    assert_eq!(ballot(3).close(), BallotEffect::GiveUp);
    assert_eq!(open.apply(agent(2), answer("late")), vec![]);
}

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
            for effect in ballot.apply(agent(number), outcome) {
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
                    BallotEffect::Refuse { .. } | BallotEffect::Judge(_) => {}
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
