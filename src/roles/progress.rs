//! The order of a pipeline's work, as a function of the completed stages, and the verdict that ends
//! it: the same stages always give the same next step, so that an interrupted pipeline resumes
//! where it was.

use crate::roles::{PipelineSpec, PipelineStage};

/// The number of iterations without progress after which the pipeline ends.
const ITERATIONS_WITHOUT_PROGRESS_MAX: usize = 2;

/// A completed stage, whose work is merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedStage {
    /// The iteration, from 1.
    pub iteration: u32,
    /// The number of the stage, from 0.
    pub stage: usize,
    /// An identifier of the shared tree's state after it; equal states have equal identifiers.
    pub tree_state: String,
    /// The verdict of its answer; only that of the role that ends the pipeline counts.
    pub verdict: RoleVerdict,
}

/// The next step of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// This stage works.
    Work {
        /// The iteration, from 1.
        iteration: u32,
        /// The number of the stage, from 0.
        stage: usize,
    },
    /// The pipeline has ended.
    End(PipelineEnd),
}

/// The reason why a pipeline ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineEnd {
    /// The role that ends it is satisfied, or there is none and all stages are complete.
    Finished,
    /// The maximum number of iterations is reached.
    OutOfIterations,
    /// Whole iterations left the shared tree unchanged, or produced the same feedback.
    NoProgress,
}

/// Returns the step after the stages in `completed`, which are in the order of completion.
pub fn next_step(pipeline: &PipelineSpec, completed: &[CompletedStage]) -> NextStep {
    let Some(last_stage) = completed.last() else {
        return NextStep::Work {
            iteration: 1,
            stage: 0,
        };
    };
    let next_number = last_stage.stage.saturating_add(1);
    let next_in_order = NextStep::Work {
        iteration: last_stage.iteration,
        stage: next_number,
    };
    let is_iteration_complete = next_number >= pipeline.stages.len();
    match deciding_stage(pipeline) {
        Some(deciding_stage) if last_stage.stage == deciding_stage => match last_stage.verdict {
            RoleVerdict::Satisfied => NextStep::End(PipelineEnd::Finished),
            RoleVerdict::Feedback(_) => next_iteration(pipeline, completed, last_stage.iteration),
        },
        None if is_iteration_complete => NextStep::End(PipelineEnd::Finished),
        Some(_) if is_iteration_complete => {
            next_iteration(pipeline, completed, last_stage.iteration)
        }
        Some(_) | None => next_in_order,
    }
}

/// Returns the number of the stage whose verdict ends the pipeline, from 0.
fn deciding_stage(pipeline: &PipelineSpec) -> Option<usize> {
    let mut names = pipeline.stages.iter().map(|stage| Some(&stage.role.name));
    names.position(|name| name == pipeline.until.as_ref())
}

/// Returns the first stage after `last` that `matches`, with its iteration: in the same one, or in
/// the next one, if there may be one. `last` is an iteration and a stage; stages have numbers from
/// 0.
pub fn next_stage_where(
    pipeline: &PipelineSpec,
    last: Option<(u32, usize)>,
    matches: impl Fn(usize, &PipelineStage) -> bool,
) -> Option<(u32, usize)> {
    let deciding_stage = deciding_stage(pipeline);
    // An iteration ends with the deciding stage: later stages never work.
    let stage_count =
        deciding_stage.map_or(pipeline.stages.len(), |number| number.saturating_add(1));
    let find_from = |start: usize| {
        let stages = pipeline.stages.iter().enumerate();
        let mut stages = stages.take(stage_count).skip(start);
        let first_match = stages.find(|(number, stage)| matches(*number, stage));
        first_match.map(|(number, _)| number)
    };
    let (iteration, start) = last.map_or((1, 0), |(iteration, stage)| {
        (iteration, stage.saturating_add(1))
    });
    if let Some(stage) = find_from(start) {
        return Some((iteration, stage));
    }
    if deciding_stage.is_none() || iteration >= pipeline.iterations_max {
        return None;
    }
    let stage = find_from(pipeline.loop_start())?;
    Some((iteration.saturating_add(1), stage))
}

/// Starts another iteration, unless the maximum is reached or the pipeline is stuck.
fn next_iteration(
    pipeline: &PipelineSpec,
    completed: &[CompletedStage],
    iteration: u32,
) -> NextStep {
    if iteration >= pipeline.iterations_max {
        NextStep::End(PipelineEnd::OutOfIterations)
    } else if is_stuck(completed) {
        NextStep::End(PipelineEnd::NoProgress)
    } else {
        NextStep::Work {
            iteration: iteration.saturating_add(1),
            // The task does not change, so `understand` runs only once.
            stage: pipeline.loop_start(),
        }
    }
}

/// Returns whether the last iterations ended alike: in the same state, or with the same feedback.
fn is_stuck(completed: &[CompletedStage]) -> bool {
    let Some(last_stage) = completed.last() else {
        return false;
    };
    let ends_alike = |end: &&CompletedStage| {
        end.tree_state == last_stage.tree_state || end.verdict == last_stage.verdict
    };
    let iteration_ends = completed
        .iter()
        .rev()
        .filter(|completed| completed.stage == last_stage.stage);
    // The last end is alike itself, and is counted too.
    iteration_ends.take_while(ends_alike).count() > ITERATIONS_WITHOUT_PROGRESS_MAX
}

/// The word that ends a pipeline.
pub const SATISFIED: &str = "SATISFIED";

/// The verdict on an iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleVerdict {
    /// The work is accepted.
    Satisfied,
    /// The work is not accepted; this feedback says what to change.
    Feedback(String),
}

impl RoleVerdict {
    /// Parses an answer. The work is accepted only if the first non-empty line is the word alone,
    /// possibly with emphasis marks around it; a text that merely mentions the word does not count.
    pub fn parse(answer: &str) -> Self {
        let mut lines = answer.lines().map(str::trim);
        let first_line = lines.find(|line| !line.is_empty()).unwrap_or_default();
        let is_mark = |c: char| matches!(c, '*' | '_' | '`' | '#' | '.' | '!' | ' ');
        if first_line.trim_matches(is_mark) == SATISFIED {
            RoleVerdict::Satisfied
        } else {
            RoleVerdict::Feedback(answer.trim().to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::RoleName;
    use crate::roles::built_in::built_in_role;

    fn pipeline(names: &[&str], until: Option<&str>, iterations_max: u32) -> PipelineSpec {
        let name = |text: &&str| RoleName::parse(text).unwrap();
        let stage = |text: &&str| PipelineStage {
            role: built_in_role(&name(text)).unwrap(),
            agents: Vec::new(),
            copies: 1,
        };
        PipelineSpec {
            stages: names.iter().map(stage).collect(),
            iterations_max,
            until: until.map(|text| name(&text)),
            context_tokens_max: 0,
        }
    }

    const ALL: &[&str] = &["understand", "planner", "implementer", "user"];

    /// Runs a whole pipeline in which the `user` role answers with `words` and the tree has
    /// `states` after the iterations. Returns the stage numbers and the end.
    fn walk(pipeline: &PipelineSpec, words: &[&str], states: &[&str]) -> (String, PipelineEnd) {
        let mut done = Vec::new();
        let mut steps = Vec::new();
        loop {
            let (iteration, stage) = match next_step(pipeline, &done) {
                NextStep::Work { iteration, stage } => (iteration, stage),
                NextStep::End(end) => return (steps.join(" "), end),
            };
            steps.push(format!("{iteration}.{stage}"));
            let at = usize::try_from(iteration).unwrap() - 1;
            done.push(CompletedStage {
                iteration,
                stage,
                tree_state: states.get(at).copied().unwrap_or("same").to_owned(),
                verdict: RoleVerdict::parse(words.get(at).copied().unwrap_or("worse")),
            });
        }
    }

    #[track_caller]
    fn check(
        until: Option<&str>,
        iterations_max: u32,
        words: &[&str],
        states: &[&str],
        steps: &str,
        over: PipelineEnd,
    ) {
        let pipeline = pipeline(ALL, until, iterations_max);
        let found = walk(&pipeline, words, states);
        assert_eq!(found, (steps.to_owned(), over));
    }

    #[test]
    fn the_next_stage_of_a_kind_is_in_this_iteration_or_the_next() {
        #[track_caller]
        fn check(
            until: Option<&str>,
            last: Option<(u32, usize)>,
            role: &str,
            expected: Option<(u32, usize)>,
        ) {
            let pipeline = pipeline(ALL, until, 2);
            let is_meant =
                |_: usize, stage: &PipelineStage| stage.role.name.as_str().starts_with(role);
            let actual = next_stage_where(&pipeline, last, is_meant);
            assert_eq!(actual, expected, "{until:?} {last:?} {role}");
        }
        let user = Some("user");
        check(user, None, "", Some((1, 0)));
        check(user, None, "planner", Some((1, 1)));
        check(user, Some((1, 1)), "", Some((1, 2)));
        check(user, Some((1, 2)), "planner", Some((2, 1)));
        check(user, Some((1, 3)), "", Some((2, 1)));
        check(user, Some((1, 3)), "understand", None);
        check(user, Some((2, 2)), "planner", None);
        check(None, Some((1, 2)), "planner", None);
        check(Some("implementer"), Some((1, 2)), "user", None);
    }

    #[test]
    fn stages_follow_each_other_until_the_user_is_satisfied() {
        let states = &["a", "b", "c", "d", "e"];
        let first = "1.0 1.1 1.2 1.3";
        check(
            Some("user"),
            5,
            &["SATISFIED"],
            states,
            first,
            PipelineEnd::Finished,
        );
        let second = format!("{first} 2.1 2.2 2.3");
        let words = &["no", "SATISFIED"];
        check(
            Some("user"),
            5,
            words,
            states,
            &second,
            PipelineEnd::Finished,
        );
        check(None, 5, &["no"], states, first, PipelineEnd::Finished);
    }

    #[test]
    fn a_pipeline_ends_after_its_last_iteration_or_without_progress() {
        let states = &["a", "b", "c", "d", "e"];
        let words = &["1", "2", "3", "4", "5"];
        let first = "1.0 1.1 1.2 1.3";
        let over = PipelineEnd::OutOfIterations;
        check(Some("user"), 1, words, states, first, over);
        let second = format!("{first} 2.1 2.2 2.3");
        check(Some("user"), 2, words, states, &second, over);
        let third = format!("{second} 3.1 3.2 3.3");
        // The same state three times, and the same feedback three times.
        check(
            Some("user"),
            9,
            words,
            &["a", "a", "a"],
            &third,
            PipelineEnd::NoProgress,
        );
        let same = &["no", "no", "no"];
        check(
            Some("user"),
            9,
            same,
            states,
            &third,
            PipelineEnd::NoProgress,
        );
    }

    #[test]
    fn the_deciding_role_can_be_in_the_middle() {
        let pipeline = pipeline(&["planner", "user", "reviewer"], Some("user"), 3);
        let (steps, over) = walk(&pipeline, &["no", "SATISFIED"], &["a", "b"]);
        assert_eq!(
            (steps.as_str(), over),
            ("1.0 1.1 2.0 2.1", PipelineEnd::Finished)
        );
    }

    #[test]
    fn only_the_word_alone_is_satisfaction() {
        let check = |answer: &str, satisfied| {
            assert_eq!(
                RoleVerdict::parse(answer) == RoleVerdict::Satisfied,
                satisfied,
                "{answer}"
            );
        };
        check("SATISFIED", true);
        check("\n\n  **SATISFIED**.\n\nIt does all of it.", true);
        check("# SATISFIED", true);
        check("NOT SATISFIED", false);
        check("SATISFIED with most of it, but it crashes", false);
        check("It crashes.\nSATISFIED", false);
        check("satisfied", false);
        check("", false);
        assert_eq!(
            RoleVerdict::parse(" it crashes \n"),
            RoleVerdict::Feedback("it crashes".to_owned())
        );
    }
}
