//! The instructions in a role's prompt: who it is, where it may write, and how its answer begins
//! and ends. `role_prompt` adds what other roles have left.

use crate::path::RelPath;
use crate::pipeline::role_instance::{RoleInstance, WriteScope};
use crate::prompts::untrusted_text::{TextFrame, UntrustedText};
use crate::roles::built_in::UNDERSTAND;
use crate::roles::sections::{
    ASSUMPTION_LABEL, OPEN_QUESTIONS_HEADING, PART_HEADING, SELF_REVIEW_HEADING,
};
use crate::roles::{PipelineRole, PipelineSpec, PipelineStage};

/// Describes who a role is, what it is for, and, if several copies work at the same time, its part
/// of the plan.
pub(super) fn role_instructions(
    pipeline: &PipelineSpec,
    stage: &PipelineStage,
    instance: &RoleInstance,
    part: Option<&str>,
) -> Vec<String> {
    let role = &stage.role;
    let stages = pipeline.stages.iter();
    let names: Vec<&str> = stages.map(|stage| stage.role.name.as_str()).collect();
    let (names, iterations) = (names.join(", "), pipeline.iterations_max);
    let mut paragraphs = vec![
        format!(
            "You are the role `{}` in a pipeline of roles that build one thing in stages: {names}. This \
             is iteration {} of at most {iterations}.",
            role.name, instance.iteration,
        ),
        role.prompt
            .as_deref()
            .unwrap_or(&role.purpose)
            .trim()
            .to_owned(),
    ];
    let later_stages = pipeline
        .stages
        .iter()
        .skip(instance.stage.saturating_add(1));
    if let Some(copied_stage) = later_stages.into_iter().find(|later| later.copies > 1)
        && role.output.is_some()
        && instance.copies == 1
    {
        let (copies, name) = (copied_stage.copies, &copied_stage.role.name);
        paragraphs.push(format!(
            "Up to {copies} copies of the role `{name}` work at the same time. If it is you who divides \
             the work, let your plan have sections `## {PART_HEADING} 1` to `## {PART_HEADING} {copies}` \
             that touch different files; each copy is given one."
        ));
    }
    paragraphs.extend(part.map(|part| {
        format!(
            "You are copy {} of {} of this role; all work at the same time. Do this part of the plan and \
             leave the others to the others:\n\n{}",
            instance.copy,
            instance.copies,
            UntrustedText::from(part).in_frame(TextFrame::PlanPart, "")
        )
    }));
    paragraphs
}

/// Describes where a role may write.
pub(super) fn write_instructions(write_scope: &WriteScope, has_commands: bool) -> String {
    let name = |dir: &RelPath| {
        if dir.is_root() {
            "the whole tree".to_owned()
        } else {
            format!("`{dir}/`")
        }
    };
    let names = |dirs: &[RelPath]| dirs.iter().map(name).collect::<Vec<_>>().join(" and ");
    let start = "You work in a checkout of the tree that all roles share. You may read all of it.";
    if write_scope.write.is_empty() {
        return format!("{start} You write no files: your answer is your output.");
    }
    let exception = match write_scope.read.as_slice() {
        [] => String::new(),
        closed => format!(", but not elsewhere in {}", names(closed)),
    };
    let commands = if has_commands {
        " Commands are restricted in the same way; let builds write to `$TMPDIR`. You have a git \
         repository of your own; massgen commits the files, not your commits."
    } else {
        ""
    };
    format!(
        "{start} You may write only in {}{exception}.{commands}",
        names(&write_scope.write)
    )
}

/// Describes how an answer begins and ends.
pub(super) fn answer_instructions(role: &PipelineRole, pipeline: &PipelineSpec) -> String {
    let mut sentences = Vec::new();
    if role.name.as_str() == UNDERSTAND {
        sentences.push(format!(
            "List what is unclear in a section `## {OPEN_QUESTIONS_HEADING}` of your answer, each as an \
             item `- question` with a line `  {ASSUMPTION_LABEL} …` below it, which holds without an \
             answer."
        ));
    }
    if pipeline.until.as_ref() == Some(&role.name) {
        sentences.push(
            "If the work is good, begin your answer with a line that holds `SATISFIED` and nothing else. \
             If it is not, say what you tried, what happened and what you expected instead."
                .to_owned(),
        );
    } else {
        sentences.push("Let the first line of your answer say what you did.".to_owned());
    }
    sentences.push(format!(
        "End your answer with a section `## {SELF_REVIEW_HEADING}` of three items: what was missing, \
         what would have helped, and how sure you are, from 1 to 10."
    ));
    sentences.join(" ")
}
