//! The stages of a pipeline, one iteration after the other: what each role does, or the outcome of
//! its work.

use crate::cli::cell_text::{clean_line, pad, wrap_untrusted_text};
use crate::cli::dashboard::scene::Scene;
use crate::cli::output::{StyledLine, TextStyle};
use crate::run_view::overview::RunPhase;
use crate::run_view::pipeline::{StageProgress, StageView};
use crate::text::{count_noun, join_with_commas};

/// Width of the names of roles.
const ROLE_WIDTH: usize = 20;
/// Number of digits of a commit that are shown.
const COMMIT_DIGITS_SHOWN: usize = 10;
/// Indentation of a reason.
const INDENT: &str = "       ";

/// Returns the lines of the stages.
pub(in crate::cli::dashboard) fn lines(scene: &Scene<'_>, width: u16) -> Vec<StyledLine> {
    let pipeline = scene.run.pipeline();
    if pipeline.stages.is_empty() {
        let none = " no stages: the run is not a pipeline, or no role works yet";
        return vec![vec![(TextStyle::Faint, none.to_owned())]];
    }
    let is_over = scene.run.run().phase == RunPhase::Ended;
    let (mut lines, mut iteration) = (Vec::new(), 0);
    for stage in &pipeline.stages {
        if stage.iteration != iteration {
            iteration = stage.iteration;
            let title = format!(" Iteration {iteration}");
            lines.push(vec![(TextStyle::Strong, title)]);
        }
        lines.push(stage_line(stage, pipeline.stage_count, is_over));
        if let StageProgress::Rejected { reason, .. } = &stage.progress {
            lines.extend(wrap_untrusted_text(reason, INDENT, TextStyle::Faint, width));
        }
    }
    lines
}

/// Returns the role of a stage, how far it is, and the agents if their names differ from the
/// role's.
fn stage_line(stage: &StageView, stage_count: usize, is_over: bool) -> StyledLine {
    let (sign, style, text) = match &stage.progress {
        StageProgress::Working if is_over => (".", TextStyle::Faint, "interrupted".to_owned()),
        StageProgress::Working => (">", TextStyle::Plain, "works".to_owned()),
        StageProgress::Merged { commit, files } => {
            let short_commit = commit.get(..COMMIT_DIGITS_SHOWN).unwrap_or(commit);
            let files = count_noun(*files, "file");
            let text = format!("merged: {files}, {}", clean_line(short_commit));
            ("+", TextStyle::Good, text)
        }
        StageProgress::Rejected {
            attempt,
            attempts_max,
            ..
        } => {
            let text = format!("rejected, attempt {attempt} of {attempts_max}");
            ("x", TextStyle::Bad, text)
        }
    };
    let number = format!("{}/{stage_count}", stage.stage);
    let role = pad(&clean_line(&stage.role), ROLE_WIDTH);
    let mut line = vec![
        (style, format!("   {sign} ")),
        (TextStyle::Plain, format!("{number:<6}{role}")),
        (style, text),
    ];
    let agents = join_with_commas(&stage.agents);
    if agents != stage.role {
        line.push((TextStyle::Faint, format!("  by {agents}")));
    }
    line
}
