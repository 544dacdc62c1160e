//! Table tests of single races, and a property test of random interleavings.

use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof};
use proptest::proptest;

use super::{
    Ballot, BallotEffect, BallotRefusal, BallotRules, RoundOutcome, VoteTally, count_votes,
    most_voted,
};
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
        novelty: NoveltyRequirement::Lenient,
    }
}

fn ballot(agents: usize) -> Ballot {
    Ballot::new((1..=agents).map(agent), rules())
}

fn answer(content: &str) -> RoundOutcome {
    RoundOutcome::Answer {
        content: content.to_owned(),
    }
}

fn vote(candidate: usize, known_answers: u32) -> RoundOutcome {
    RoundOutcome::Vote {
        candidate: agent(candidate),
        ordinal: None,
        known_answers,
    }
}

fn refused(number: usize, refusal: BallotRefusal) -> BallotEffect {
    BallotEffect::Refuse {
        agent: agent(number),
        refusal,
    }
}

fn accepted(voter: usize, candidate: usize, ordinal: u32) -> BallotEffect {
    BallotEffect::AcceptVote {
        voter: agent(voter),
        answer: label(candidate, ordinal),
    }
}

fn closed(winner: AnswerLabel, votes: &[(usize, u32)]) -> BallotEffect {
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
            (1, vote(2, 2), vec![accepted(1, 2, 1)]),
            (
                2,
                vote(2, 2),
                vec![accepted(2, 2, 1), closed(label(2, 1), &[(1, 0), (2, 2)])],
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
            (2, vote(1, 1), vec![accepted(2, 1, 1)]),
            (3, answer("c"), voided),
            (2, vote(1, 1), vec![refused(2, BallotRefusal::Outdated)]),
            (
                2,
                vote(3, 2),
                vec![
                    accepted(2, 3, 1),
                    BallotEffect::Judge(agent(1)),
                    BallotEffect::Judge(agent(3)),
                ],
            ),
            (1, vote(1, 2), vec![accepted(1, 1, 1)]),
            (
                3,
                vote(1, 2),
                vec![accepted(3, 1, 1), closed(label(1, 1), &[(1, 2), (3, 1)])],
            ),
        ],
    );
}

#[test]
fn one_agent_answers_once_and_does_not_vote() {
    let done = vec![
        BallotEffect::AcceptAnswer(label(1, 1)),
        closed(label(1, 1), &[(1, 0)]),
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
                RoundOutcome::Stopped,
                vec![closed(label(1, 1), &[(1, 0)])],
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
                vec![accepted(2, 1, 1), closed(label(1, 1), &[(1, 1)])],
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
            (1, RoundOutcome::Stopped, vec![]),
            (
                2,
                vote(1, 2),
                vec![accepted(2, 1, 1), closed(label(1, 1), &[(1, 1), (2, 0)])],
            ),
        ],
    );
}

#[test]
fn nobody_answering_gives_up() {
    check(
        ballot(2),
        vec![
            (1, RoundOutcome::Stopped, vec![]),
            (2, RoundOutcome::Stopped, vec![BallotEffect::GiveUp]),
        ],
    );
}

#[test]
fn what_does_not_count_is_refused_with_its_reason() {
    let unknown = BallotRefusal::UnknownCandidate {
        candidates: vec![agent(1)],
    };
    let limit = BallotRefusal::AnswerLimit { answers_max: 2 };
    let old = RoundOutcome::Vote {
        candidate: agent(1),
        ordinal: Some(7),
        known_answers: 1,
    };
    check(
        ballot(2),
        vec![
            (
                1,
                vote(1, 0),
                vec![refused(1, BallotRefusal::NothingToVoteFor)],
            ),
            (
                1,
                answer("  "),
                vec![refused(1, BallotRefusal::EmptyAnswer)],
            ),
            (
                1,
                answer("a"),
                vec![BallotEffect::AcceptAnswer(label(1, 1))],
            ),
            (2, vote(2, 1), vec![refused(2, unknown.clone())]),
            (2, vote(9, 1), vec![refused(2, unknown)]),
            (2, old, vec![refused(2, BallotRefusal::Outdated)]),
            (
                2,
                answer(" a\n"),
                vec![refused(2, BallotRefusal::Duplicate(label(1, 1)))],
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
            (2, answer("d"), vec![refused(2, limit)]),
        ],
    );
}

#[test]
fn novelty_compares_words() {
    let strict = BallotRules {
        novelty: NoveltyRequirement::Strict,
        ..rules()
    };
    let similar = refused(2, BallotRefusal::TooSimilar(label(1, 1)));
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
    assert_eq!(open.close(), closed(label(3, 1), &[(2, 0), (3, 1)]));
    assert_eq!(ballot(3).close(), BallotEffect::GiveUp);
    assert_eq!(open.apply(agent(2), answer("late")), vec![]);
}

/// Generates the outcomes of random agents; candidates and knowledge may be wrong on purpose.
fn outcomes() -> impl Strategy<Value = Vec<(usize, RoundOutcome)>> {
    let outcome = prop_oneof![
        3 => any::<u8>().prop_map(|n| answer(&format!("text {n}"))),
        4 => (1usize..6, 0u32..12, prop::option::of(0u32..4)).prop_map(|(to, known, ordinal)| {
            RoundOutcome::Vote { candidate: agent(to), ordinal, known_answers: known }
        }),
        1 => Just(RoundOutcome::Stopped),
    ];
    prop::collection::vec((1usize..6, outcome), 0..200)
}

proptest! {
    #[test]
    fn every_interleaving_ends_and_counts_only_valid_votes(
        agents in 1usize..5,
        played in outcomes(),
    ) {
        let mut ballot = ballot(agents);
        let mut given: Vec<AnswerLabel> = Vec::new();
        let mut votes: Vec<(AgentNumber, AgentNumber)> = Vec::new();
        let mut result = None;
        let everyone_leaves = (1..=agents).cycle().take(agents * 2).map(|n| (n, RoundOutcome::Stopped));
        for (number, outcome) in played.into_iter().chain(everyone_leaves) {
            let known = match &outcome {
                RoundOutcome::Vote { known_answers, .. } => *known_answers,
                RoundOutcome::Answer { .. } | RoundOutcome::Stopped => 0,
            };
            for effect in ballot.apply(agent(number), outcome) {
                prop_assert!(result.is_none(), "nothing follows the end");
                match effect {
                    BallotEffect::AcceptAnswer(label) => given.push(label),
                    BallotEffect::AcceptVote { voter, answer } => {
                        let latest = given.iter().rfind(|l| l.agent == answer.agent);
                        prop_assert_eq!(latest, Some(&answer));
                        prop_assert!(usize::try_from(known).unwrap() >= given.len());
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
        let candidates = (1..=agents).map(agent).filter(|a| given.iter().any(|l| l.agent == *a));
        let recount = count_votes(candidates, votes.iter().map(|(_, candidate)| *candidate));
        prop_assert_eq!(most_voted(&recount), result.as_ref().map(|tally| tally.winner.agent));
        prop_assert_eq!(recount, result.map(|tally| tally.votes).unwrap_or_default());
    }
}
