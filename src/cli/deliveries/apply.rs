//! Implements `massgen apply`: applies what was declined of a delivery, what was reverted, or the
//! answer of another agent. `massgen diff` and the page of a run plan answers with it too.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::cli::args::ApplyArguments;
use crate::cli::command_line::usage_error;
use crate::cli::deliveries::interactive_review::{
    FileChoice, ReviewAnswer, TerminalLines, ask_about_files, ask_what_to_apply, review,
    show_difference,
};
use crate::cli::deliveries::parts::earlier_files;
use crate::cli::deliveries::reapplied_files::ReappliedFiles;
use crate::cli::deliveries::run_answers::{RunAnswer, RunAnswers};
use crate::cli::deliveries::undo::{ReportedMove, report};
use crate::cli::deliveries::{
    display_path, find_delivery, pipeline, plan_kept, require_known_path, resolve_paths,
};
use crate::cli::logs;
use crate::cli::output::{CliOutput, TextStyle};
use crate::cli::render::event_lines::{OutcomeText, delivered_path, delivery_outcome};
use crate::cli::run_frontend::UserPresence;
use crate::delivery::choice::DeliveryChoice;
use crate::delivery::plan::{DeliveryEntry, DeliveryPlan};
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::event::{DeliveryOutcome, DeliveryRow};
use crate::host::Host;
use crate::orchestrator::delivery_rows::delivery_row;
use crate::orchestrator::review::DeliverySelection;
use crate::path::AbsPath;
use crate::world::delivery::contents::DeliveryDifference;
use crate::world::delivery::planning::{EarlierFiles, PartialFiles, plan};
use crate::world::delivery::store::{
    DeliverySource, DeliveryUse, OpenDelivery, SourceDirectory, SourceLayout,
};
use crate::world::delivery::transaction::{SelectionOrigin, apply, select_hunks};
use crate::world::delivery::undo::{
    AppliedDelivery, ChangedFilePolicy, RevertedChange, UndoDirection, is_selected, refuse_outside,
};
use crate::world::io::file_change::FileChange;
use crate::world::store::delivery_names::run_of;
use crate::world::store::runs::RunDir;

/// Runs `massgen apply`.
pub(crate) fn run(
    host: &Host,
    arguments: &ApplyArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    if let Some(pipeline) = pipeline::resolve_pipeline(&arguments.run, host)? {
        return pipeline::run(pipeline, host, arguments, output);
    }
    if arguments.history.is_some() || arguments.push.is_some() {
        return Err(
            usage_error("`--history` and `--push` apply only to pipelines")
                .with_hint("`massgen pipeline branches` shows the last pipeline of this directory"),
        );
    }
    let (deliveries, name) = find_delivery(&arguments.run, DeliveryUse::Apply, host, output)?;
    let paths = resolve_paths(&arguments.path, host);
    let Some(agent) = &arguments.agent else {
        if let Some(status) = reapply(host, arguments, &deliveries, &name, &paths, output)? {
            return Ok(status);
        }
        let delivery = Arc::new(OpenDelivery::open(&deliveries, &name)?);
        let earlier = EarlierParts::read(&delivery)?;
        let source = delivery.read_source()?;
        return apply_delivery(host, arguments, &delivery, &source, earlier, output);
    };
    let source = OpenDelivery::open(&deliveries, &name)?.read_source()?;
    let source = agent_source(&name, agent, source, host)?;
    let earlier = EarlierParts {
        files: earlier_files(&name, &deliveries)?,
        ..EarlierParts::default()
    };
    // A delivery of its own: that of the run still offers the files of the winner.
    let delivery = OpenDelivery::create(&deliveries, &name)?;
    delivery.write_source(&source)?;
    let status = apply_delivery(host, arguments, &delivery, &source, earlier, output)?;
    if !delivery.is_applied()? {
        delivery.discard()?;
    }
    Ok(status)
}

/// Applies again what was reverted, if anything was; otherwise returns `None`.
fn reapply(
    host: &Host,
    arguments: &ApplyArguments,
    deliveries: &AbsPath,
    name: &str,
    paths: &[AbsPath],
    output: &mut CliOutput<'_>,
) -> Result<Option<ExitStatus>> {
    let delivery = OpenDelivery::open(deliveries, name)?;
    let Some(mut delivered) = AppliedDelivery::open(delivery)? else {
        return Ok(None);
    };
    let mut changes = delivered.reverted_changes();
    changes.retain(|change| is_selected(&change.path, paths));
    if changes.is_empty() {
        return Ok(None);
    }
    refuse_outside(&delivered.roots(), &host.project, paths)?;
    let is_asked = !arguments.yes && UserPresence::detect(host) == UserPresence::Present;
    let selection = if is_asked {
        review_reverted(&mut delivered, &changes, host, output)?
    } else {
        Some(ReappliedSelection::All)
    };
    let rows = match selection {
        None => {
            output.note("nothing was applied");
            return Ok(Some(ExitStatus::Interrupted));
        }
        Some(ReappliedSelection::All) => {
            delivered.undo_or_redo(UndoDirection::Redo, paths, ChangedFilePolicy::Kept)?
        }
        Some(ReappliedSelection::Files(files)) => files.apply(delivered)?,
    };
    report(name, &host.cwd, &rows, ReportedMove::Redo, output).map(Some)
}

/// What is applied again of what was reverted.
enum ReappliedSelection {
    /// All of it.
    All,
    /// These files.
    Files(ReappliedFiles),
}

/// Shows what was reverted, and asks what of it to apply again. `None` if it is nothing.
fn review_reverted(
    delivered: &mut AppliedDelivery,
    changes: &[RevertedChange],
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<Option<ReappliedSelection>> {
    for change in changes {
        let path = display_path(&change.path, &host.cwd);
        output.line(&[
            (TextStyle::Strong, change.action.verb()),
            (TextStyle::Plain, &format!(" {path}")),
        ]);
    }
    let mut lines = TerminalLines::new(CancellationToken::new());
    let mut next_line = || lines.next();
    let shown_path = |change: &RevertedChange| display_path(&change.path, &host.cwd);
    loop {
        let question = "[a]pply what was undone, [d]iff, [c]hoose, [n]othing?";
        match ask_what_to_apply(question, output, &mut next_line) {
            None | Some(ReviewAnswer::Nothing) => return Ok(None),
            Some(ReviewAnswer::All) => return Ok(Some(ReappliedSelection::All)),
            Some(ReviewAnswer::Diff) => {
                for change in changes {
                    let file_diff = delivered.reverted_difference(change)?;
                    show_difference(&file_diff, &shown_path(change), output);
                }
            }
            Some(ReviewAnswer::Choose) => {
                let mut read_difference =
                    |change: &RevertedChange| -> Result<(String, DeliveryDifference)> {
                        Ok((shown_path(change), delivered.offered_difference(change)?))
                    };
                let file_choices = ask_about_files(
                    changes,
                    &|_| false,
                    &mut read_difference,
                    output,
                    &mut next_line,
                )?;
                return Ok(file_choices.and_then(|choices| reapplied_files(changes, choices)));
            }
        }
    }
}

/// Returns what `file_choices`, one for each of `changes`, apply again; `None` if it is nothing.
fn reapplied_files(
    changes: &[RevertedChange],
    file_choices: Vec<FileChoice>,
) -> Option<ReappliedSelection> {
    let mut files = ReappliedFiles::default();
    for (change, choice) in changes.iter().zip(file_choices) {
        files.add(change, choice);
    }
    (!files.is_empty()).then_some(ReappliedSelection::Files(files))
}

/// Returns the delivery source with the files of the last answer of `agent`, an id or a name such
/// as `agent2`, instead of the offered ones.
pub(super) fn agent_source(
    name: &str,
    agent: &str,
    source: DeliverySource,
    host: &Host,
) -> Result<DeliverySource> {
    let run = logs::find_run(run_of(name), host)?;
    let answers = RunAnswers::read(&run)?;
    let is_meant = |answer: &RunAnswer| {
        answer.agent.as_str() == agent || answer.label.agent.to_string() == agent
    };
    let answer = answers.last(is_meant).ok_or_else(|| {
        let message = format!("agent `{agent}` gave no answer in `{name}`");
        Error::new(ErrorKind::Usage, message)
            .with_hint(format!("agents with an answer: {}", answers.agents()))
    })?;
    answer_source(name, agent, answer, source)
}

/// Returns the delivery source with the files of the answer `answer_name` instead of the offered
/// ones.
pub(crate) fn labelled_source(
    run: &RunDir,
    answer_name: &str,
    source: DeliverySource,
) -> Result<DeliverySource> {
    let answers = RunAnswers::read(run)?;
    let is_meant = |answer: &RunAnswer| answer.label.to_string() == answer_name;
    let answer = answers.last(is_meant).ok_or_else(|| {
        let message = format!("no answer `{answer_name}` in `{}`", run.name());
        Error::new(ErrorKind::Usage, message)
            .with_hint(format!("the answers: {}", answers.labels()))
    })?;
    answer_source(&run.name(), answer_name, answer, source)
}

/// Plans the files of an answer, which `source` has for some write paths, without those of the
/// others. What the user has changed in the meantime does not matter for a comparison.
pub(crate) fn plan_answer(
    delivery: &OpenDelivery,
    source: &DeliverySource,
) -> Result<DeliveryPlan> {
    let mut plan = plan(delivery, source, None)?;
    let has_source = |root: usize| matches!(source.source_dirs.get(root), Some(Some(_)));
    plan.entries.retain(|entry| has_source(entry.root));
    Ok(plan)
}

/// Returns `source` with the files of `answer` in place of what it has: for the write paths that they
/// change, or those of a workspace for the first one that is a directory. `given_name` names the
/// answer or its agent in an error.
fn answer_source(
    name: &str,
    given_name: &str,
    answer: &RunAnswer,
    source: DeliverySource,
) -> Result<DeliverySource> {
    let files = match &answer.changes {
        Some(changes) if changes.layers.is_empty() => None,
        Some(changes) => {
            let layers = &changes.layers;
            let roots = source.roots();
            let source_dir = |root: &AbsPath| {
                Some(SourceDirectory {
                    path: layers.over(root)?.clone(),
                    layout: SourceLayout::OverlayLayer,
                    left_out: Vec::new(),
                })
            };
            return Ok(DeliverySource {
                source_dirs: roots.iter().map(source_dir).collect(),
                ..source
            });
        }
        None => answer.snapshot.clone(),
    };
    let Some(files) = files else {
        let message = format!("the answer of `{given_name}` has no files");
        return Err(Error::new(ErrorKind::Usage, message)
            .with_hint(format!("`massgen logs show {name}` shows its text")));
    };
    let target = source.first_tree().ok_or_else(|| {
        let message = format!("`{name}` had no write path");
        Error::new(ErrorKind::Usage, message)
    })?;
    let answer_dir = SourceDirectory {
        path: files,
        layout: SourceLayout::SeparateDirectory,
        left_out: source.left_out_of_answers.clone(),
    };
    let source_dirs =
        (0..source.grants.len()).map(|number| (number == target).then(|| answer_dir.clone()));
    Ok(DeliverySource {
        source_dirs: source_dirs.collect(),
        ..source
    })
}

/// What was applied of a delivery before.
#[derive(Debug, Default)]
pub(crate) struct EarlierParts {
    /// Its files, and its directories with a changed mode, whatever happened to them since.
    paths: Vec<AbsPath>,
    /// Those of which some hunks were applied, as long as nothing else changed them.
    pub(crate) partial: PartialFiles,
    /// What other deliveries of the same run changed.
    files: EarlierFiles,
}

impl EarlierParts {
    /// Reads what was applied of `delivery`.
    pub(crate) fn read(delivery: &Arc<OpenDelivery>) -> Result<Self> {
        let delivered = AppliedDelivery::open(Arc::clone(delivery))?;
        Ok(delivered.map_or_else(Self::default, |delivered| Self {
            paths: delivered.listed_paths().map(|(path, ..)| path).collect(),
            partial: delivered.partial_files(),
            files: EarlierFiles::default(),
        }))
    }
}

/// Plans, reviews and applies what is offered, given what was applied of it earlier.
pub(crate) fn apply_delivery(
    host: &Host,
    arguments: &ApplyArguments,
    delivery: &OpenDelivery,
    source: &DeliverySource,
    earlier: EarlierParts,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let paths = resolve_paths(&arguments.path, host);
    refuse_outside(&source.roots(), &host.project, &paths)?;
    let mut plan = plan_kept(delivery, source, earlier.partial, earlier.files)?;
    let mut known_paths = plan.paths();
    known_paths.extend(earlier.paths);
    require_known_path(&paths, delivery.name(), &known_paths, &host.cwd)?;
    plan.refused
        .retain(|refusal| is_selected(&refusal.path.to_abs(), &paths));
    let entries = std::mem::take(&mut plan.entries);
    plan.entries = entries_within(&plan, entries, &paths);
    if plan.is_empty() {
        output.note("there is nothing to apply");
        return Ok(ExitStatus::Success);
    }
    let is_absent = UserPresence::detect(host) == UserPresence::Absent;
    if is_absent && !arguments.yes {
        let run = logs::find_run(run_of(delivery.name()), host).ok();
        if arguments.agent.is_none() && run.is_some_and(|run| RunAnswers::was_reviewed(&run)) {
            let message = "a review skipped these changes, and there is no terminal to ask on";
            return Err(Error::new(ErrorKind::Denied, message)
                .with_hint("apply them all the same: massgen apply --yes")
                .with_hint("see them first: massgen diff"));
        }
        output.note("no terminal to review on: everything that may be applied is applied");
    }
    let is_reviewed = !arguments.yes && !is_absent;
    let selection = if is_reviewed {
        let mut lines = TerminalLines::new(CancellationToken::new());
        review(delivery, &plan, output, &mut || lines.next())?
    } else {
        Some(DeliverySelection::take_all(&plan))
    };
    let Some(selection) = selection else {
        output.note("nothing was applied");
        return Ok(ExitStatus::Interrupted);
    };
    if is_reviewed
        && !selection.choices.contains(&DeliveryChoice::Apply)
        && selection.parts.is_empty()
        && !plan.reviewable_entries().is_empty()
    {
        output.note("nothing was applied");
        return Ok(ExitStatus::Interrupted);
    }
    let choices = select_hunks(delivery, &mut plan, selection.choices, &selection.parts)?;
    let origin = if is_reviewed {
        SelectionOrigin::Review
    } else {
        SelectionOrigin::Default
    };
    let changes = apply(delivery, &plan, &choices, origin, None)?;
    report_changes(&changes, &host.cwd, output)
}

/// Returns the entries inside `paths`, and the directories that contain them.
fn entries_within(
    plan: &DeliveryPlan,
    entries: Vec<DeliveryEntry>,
    paths: &[AbsPath],
) -> Vec<DeliveryEntry> {
    let holds_one = |path: &AbsPath| paths.iter().any(|meant| meant.is_within(path));
    let is_needed = |entry: &DeliveryEntry| {
        let path = plan.path(entry);
        is_selected(&path, paths) || (!entry.is_file() && holds_one(&path))
    };
    entries.into_iter().filter(is_needed).collect()
}

/// Prints the outcome of every file.
fn report_changes(
    changes: &[FileChange],
    cwd: &AbsPath,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let mut status = ExitStatus::Success;
    for change in changes {
        let Some(row) = delivery_row(change) else {
            continue;
        };
        let path = display_path(&change.path.to_abs(), cwd);
        let row = DeliveryRow { path, ..row };
        let outcome = &row.outcome;
        let is_accepted = outcome.is_delivered() || *outcome == DeliveryOutcome::Declined;
        if !is_accepted {
            status = ExitStatus::Denied;
        }
        let OutcomeText { style, word, note } = delivery_outcome(outcome);
        let path = delivered_path(&row, &note);
        output.result_line(&[(style, word), (TextStyle::Plain, &format!(" {path}"))])?;
    }
    Ok(status)
}
