//! Table tests of single races.

use super::{
    Ballot, BallotEffect, BallotRefusal, BallotRules, RoundOutcome, VoteTally, WinnerReason,
    count_votes, most_voted,
};
use crate::ballot::checklist::ChecklistRule;
use crate::check_results::CheckStanding;
use crate::config::{self, NoveltyRequirement};
use crate::id::{AgentNumber, AnswerLabel};

pub(super) fn agent(number: usize) -> AgentNumber {
    AgentNumber::from_index(number - 1)
}

fn label(number: usize, ordinal: u32) -> AnswerLabel {
    AnswerLabel {
        agent: agent(number),
        ordinal,
    }
}

pub(super) fn rules() -> BallotRules {
    BallotRules {
        strategy: config::Strategy::Consensus,
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

/// Returns the end of a ballot without a tie.
fn closed_ballot(winner: AnswerLabel, votes: &[(usize, u32)]) -> BallotEffect {
    let reason = match votes {
        [_] => WinnerReason::OnlyAnswer,
        _ => WinnerReason::MostVotes,
    };
    let votes = votes
        .iter()
        .map(|(number, count)| (agent(*number), *count))
        .collect();
    BallotEffect::Close(VoteTally {
        winner,
        reason,
        votes,
    })
}

/// Applies `steps` and checks the effects of each.
#[track_caller]
fn check(mut ballot: Ballot, steps: Vec<(usize, RoundOutcome, Vec<BallotEffect>)>) {
    for (index, (number, outcome, expected)) in steps.into_iter().enumerate() {
        assert_eq!(
            apply(&mut ballot, agent(number), outcome),
            expected,
            "step {index}"
        );
    }
}

/// Applies an outcome, and confirms an answer as one that passes.
pub(super) fn apply(
    ballot: &mut Ballot,
    agent: AgentNumber,
    outcome: RoundOutcome,
) -> Vec<BallotEffect> {
    apply_checked(ballot, agent, outcome, CheckStanding::Holds)
}

/// Applies an outcome, and confirms an answer as one whose checks end with `standing`.
fn apply_checked(
    ballot: &mut Ballot,
    agent: AgentNumber,
    outcome: RoundOutcome,
    standing: CheckStanding,
) -> Vec<BallotEffect> {
    let mut effects = ballot.apply(agent, outcome);
    if let [BallotEffect::AcceptAnswer(label)] = *effects.as_slice() {
        effects.extend(ballot.confirm_answer(label, standing));
    }
    effects
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
    apply(&mut open, agent(1), answer("a"));
    let judge = |number| BallotEffect::Judge(agent(number));
    // It waits for the others, and goes back to work.
    assert_eq!(open.apply_user_message(1, Some(agent(1))), [judge(1)]);
    let unread = || vec![refusal_effect(1, BallotRefusal::UnreadMessage)];
    assert_eq!(apply(&mut open, agent(1), vote(1, 1)), unread());
    assert_eq!(apply(&mut open, agent(1), answer("b")), unread());
    let has_read = RoundOutcome::Vote {
        candidate: agent(1),
        ordinal: None,
        scores: Vec::new(),
        known_answers: 1,
        known_messages: 1,
    };
    assert_eq!(
        apply(&mut open, agent(1), has_read),
        [accepted_vote(1, 1, 1)]
    );
    // A message to another agent changes nothing for it.
    assert_eq!(open.apply_user_message(2, Some(agent(2))), []);
    apply(&mut open, agent(3), RoundOutcome::DropOut);
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
        apply(&mut open, agent(1), answer("a"));
        apply(&mut open, agent(2), answer("b"));
        assert_eq!(
            apply(&mut open, agent(1), answer("a2")),
            [accept(2), judge(1)]
        );
        open
    };
    let mut open = begin(Some(2));
    assert_eq!(apply(&mut open, agent(1), answer("a3")), [accept(3)]);
    // It continues when the other has answered again, has voted, or has dropped out.
    let mut answered = open.clone();
    assert_eq!(
        apply(&mut answered, agent(2), answer("b2")),
        [BallotEffect::AcceptAnswer(label(2, 2)), judge(1), judge(2)]
    );
    let mut voted = open.clone();
    assert_eq!(
        apply(&mut voted, agent(2), vote(1, 4)),
        [accepted_vote(2, 1, 3), judge(1)]
    );
    assert_eq!(
        apply(&mut open, agent(2), RoundOutcome::DropOut),
        [judge(1)]
    );
    let mut free = begin(None);
    assert_eq!(
        apply(&mut free, agent(1), answer("a3")),
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
    apply(&mut open, agent(2), answer("b"));
    apply(&mut open, agent(3), answer("c"));
    apply(&mut open, agent(1), vote(3, 2));
    assert_eq!(open.close(), closed_ballot(label(3, 1), &[(2, 0), (3, 1)]));
    assert_eq!(ballot(3).close(), BallotEffect::GiveUp);
    assert_eq!(apply(&mut open, agent(2), answer("late")), vec![]);
}

#[test]
fn the_winner_has_a_reason() {
    for (failed, votes, winner, reason) in [
        (vec![], vec![(1, 2), (2, 2)], 2, WinnerReason::MostVotes),
        (vec![], vec![(1, 2), (2, 1)], 1, WinnerReason::FirstOfTie),
        (vec![], vec![], 1, WinnerReason::FirstOfTie),
        (vec![1], vec![(1, 1), (2, 1)], 2, WinnerReason::PassedChecks),
        (vec![1], vec![(1, 1), (2, 2)], 2, WinnerReason::PassedChecks),
        (vec![1], vec![(1, 2), (2, 2)], 2, WinnerReason::MostVotes),
        (vec![1, 2], vec![(1, 2), (2, 2)], 2, WinnerReason::MostVotes),
    ] {
        let mut open = ballot(3);
        for (number, content) in [(1, "a"), (2, "b")] {
            let standing = if failed.contains(&number) {
                CheckStanding::Fails
            } else {
                CheckStanding::Holds
            };
            apply_checked(&mut open, agent(number), answer(content), standing);
        }
        apply(&mut open, agent(3), RoundOutcome::DropOut);
        for (voter, candidate) in votes {
            apply(&mut open, agent(voter), vote(candidate, 2));
        }
        let BallotEffect::Close(tally) = open.close() else {
            panic!("there is no winner");
        };
        assert_eq!((tally.winner, tally.reason), (label(winner, 1), reason));
    }
}

#[test]
fn agents_that_answer_alone_neither_judge_nor_vote() {
    let rules = |strategy| BallotRules {
        strategy,
        answers_per_agent_max: 1,
        ..rules()
    };
    let best_of = Ballot::new((1..=3).map(agent), rules(config::Strategy::BestOf));
    check(
        best_of,
        vec![
            (
                1,
                answer("a"),
                vec![BallotEffect::AcceptAnswer(label(1, 1))],
            ),
            // It is not told that there is an answer like its own.
            (
                2,
                answer("a"),
                vec![BallotEffect::AcceptAnswer(label(2, 1))],
            ),
            (
                3,
                vote(1, 2),
                vec![refusal_effect(3, BallotRefusal::NothingToVoteFor)],
            ),
            (
                3,
                RoundOutcome::DropOut,
                vec![BallotEffect::Close(VoteTally {
                    winner: label(1, 1),
                    reason: WinnerReason::FirstOfTie,
                    votes: vec![(agent(1), 0), (agent(2), 0)],
                })],
            ),
        ],
    );
    let mut first_pass = Ballot::new((1..=2).map(agent), rules(config::Strategy::FirstPass));
    let fails = CheckStanding::Fails;
    assert_eq!(
        apply_checked(&mut first_pass, agent(1), answer("a"), fails),
        [BallotEffect::AcceptAnswer(label(1, 1))]
    );
    let effects = apply(&mut first_pass, agent(2), answer("b"));
    assert!(
        matches!(effects.as_slice(), [_, BallotEffect::Close(tally)] if tally.winner == label(2, 1))
    );
}

#[test]
fn an_agent_that_answers_alone_repairs_what_fails_as_often_as_it_may() {
    let rules = BallotRules {
        strategy: config::Strategy::BestOf,
        ..rules()
    };
    let mut open = Ballot::new((1..=2).map(agent), rules);
    apply(&mut open, agent(2), answer("b"));
    let fails = CheckStanding::Fails;
    assert_eq!(
        apply_checked(&mut open, agent(1), answer("a"), fails),
        [
            BallotEffect::AcceptAnswer(label(1, 1)),
            BallotEffect::Repair(agent(1))
        ]
    );
    assert!(open.is_at_work(agent(1)));
    let effects = apply_checked(&mut open, agent(1), answer("a"), fails);
    let [
        BallotEffect::AcceptAnswer(second),
        BallotEffect::Close(tally),
    ] = effects.as_slice()
    else {
        panic!("{effects:?}");
    };
    assert_eq!((*second, tally.winner), (label(1, 2), label(2, 1)));
}

#[test]
fn an_answer_that_is_withdrawn_leaves_nothing() {
    let mut open = ballot(2);
    for _ in 0..2 {
        let accepted = [BallotEffect::AcceptAnswer(label(1, 1))];
        assert_eq!(open.apply(agent(1), answer("a")), accepted);
        open.withdraw_answer(label(1, 1));
        assert!(open.is_at_work(agent(1)));
    }
    assert_eq!(open.confirm_answer(label(1, 1), CheckStanding::Holds), []);
    assert_eq!(open.close(), BallotEffect::GiveUp);
}
