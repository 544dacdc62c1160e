//! The order of a pipeline's work, as a function of what was done: the same records always give the
//! same next step, so that an interrupted pipeline resumes where it was.

use crate::roles::verdict::RoleVerdict;
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
    pub state: String,
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
    Over(PipelineEnd),
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

/// Returns the step after `done`, whose stages are in the order of completion.
pub fn next_step(pipeline: &PipelineSpec, done: &[CompletedStage]) -> NextStep {
    let Some(last_done) = done.last() else {
        return NextStep::Work {
            iteration: 1,
            stage: 0,
        };
    };
    let ends = pipeline
        .stages
        .iter()
        .position(|stage| Some(&stage.role.name) == pipeline.until.as_ref());
    let following = last_done.stage.saturating_add(1);
    let in_order = NextStep::Work {
        iteration: last_done.iteration,
        stage: following,
    };
    let was_last = following >= pipeline.stages.len();
    match ends {
        Some(ends) if last_done.stage == ends => match last_done.verdict {
            RoleVerdict::Satisfied => NextStep::Over(PipelineEnd::Finished),
            RoleVerdict::Feedback(_) => next_iteration(pipeline, done, last_done.iteration),
        },
        None if was_last => NextStep::Over(PipelineEnd::Finished),
        Some(_) if was_last => next_iteration(pipeline, done, last_done.iteration),
        Some(_) | None => in_order,
    }
}

/// Returns the first stage after `last` for which `is_meant`, with its iteration: in the same one,
/// or in the next one, if there may be one. `last` is an iteration and a stage; stages have numbers
/// from 0.
pub fn next_stage_where(
    pipeline: &PipelineSpec,
    last: Option<(u32, usize)>,
    is_meant: impl Fn(usize, &PipelineStage) -> bool,
) -> Option<(u32, usize)> {
    let mut names = pipeline.stages.iter().map(|stage| Some(&stage.role.name));
    let ends = names.position(|name| name == pipeline.until.as_ref());
    let count = ends.map_or(pipeline.stages.len(), |ends| ends.saturating_add(1));
    let find_from = |from: usize| {
        let mut stages = pipeline.stages.iter().enumerate().take(count).skip(from);
        let first_match = stages.find(|(number, stage)| is_meant(*number, stage));
        first_match.map(|(number, _)| number)
    };
    let (iteration, from) = last.map_or((1, 0), |(iteration, stage)| {
        (iteration, stage.saturating_add(1))
    });
    if let Some(stage) = find_from(from) {
        return Some((iteration, stage));
    }
    if ends.is_none() || iteration >= pipeline.iterations_max {
        return None;
    }
    let stage = find_from(pipeline.loop_start())?;
    Some((iteration.saturating_add(1), stage))
}

/// Starts another iteration, unless the maximum is reached or the pipeline is stuck.
fn next_iteration(pipeline: &PipelineSpec, done: &[CompletedStage], iteration: u32) -> NextStep {
    if iteration >= pipeline.iterations_max {
        NextStep::Over(PipelineEnd::OutOfIterations)
    } else if is_stuck(done) {
        NextStep::Over(PipelineEnd::NoProgress)
    } else {
        NextStep::Work {
            iteration: iteration.saturating_add(1),
            // The task does not change, so `understand` runs only once.
            stage: pipeline.loop_start(),
        }
    }
}

/// Returns whether the last iterations ended alike: in the same state, or with the same feedback.
fn is_stuck(done: &[CompletedStage]) -> bool {
    let Some(last_done) = done.last() else {
        return false;
    };
    let stage_ends = done
        .iter()
        .rev()
        .filter(|earlier| earlier.stage == last_done.stage);
    let alike = stage_ends
        .take_while(|end| end.state == last_done.state || end.verdict == last_done.verdict);
    alike.count() > ITERATIONS_WITHOUT_PROGRESS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::RoleName;
    use crate::roles::built_in::built_in;

    fn pipeline(names: &[&str], until: Option<&str>, iterations_max: u32) -> PipelineSpec {
        let name = |text: &&str| RoleName::parse(text).unwrap();
        let stage = |text: &&str| PipelineStage {
            role: built_in(&name(text)).unwrap(),
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
                NextStep::Over(over) => return (steps.join(" "), over),
            };
            steps.push(format!("{iteration}.{stage}"));
            let at = usize::try_from(iteration).unwrap() - 1;
            done.push(CompletedStage {
                iteration,
                stage,
                state: states.get(at).copied().unwrap_or("same").to_owned(),
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
            let found = next_stage_where(&pipeline, last, is_meant);
            assert_eq!(found, expected, "{until:?} {last:?} {role}");
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
}
