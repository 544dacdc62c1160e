//! Implements `massgen apply` for pipelines: writes what a pipeline produced as a delivery, applies
//! it like any other, and commits it for the user if requested.

use std::collections::BTreeSet;
use std::slice;

use crate::cli::args::{ApplyArguments, HistoryModeArgument};
use crate::cli::command_line::usage_error;
use crate::cli::deliveries::apply::{EarlierParts, apply_delivery};
use crate::cli::deliveries::{deliveries_directory, finish_interrupted_deliveries, resolve_paths};
use crate::cli::interrupts::runtime;
use crate::cli::output::CliOutput;
use crate::cli::pipeline::run::pipelines_directory;
use crate::config::storage_path::STATE_DIR;
use crate::delivery::plan::{DeliveryEntry, DeliveryPlan};
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::orchestrator::grants::{hide_state, real_path};
use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::{Grant, GrantKind, Permission, close_places};
use crate::pipeline::delivery::{HistoryMode, PipelineDelivery};
use crate::pipeline::repository::PipelineRepository;
use crate::world::delivery::planning::plan;
use crate::world::delivery::store::{DeliverySource, DeliveryUse, OpenDelivery, find};
use crate::world::delivery::undo::AppliedDelivery;
use crate::world::git::object::ObjectId;
use crate::world::io::locate::places_on_way;
use crate::world::store::delivery_names::{names_of_pipeline, pipeline_of};
use crate::world::store::naming::LAST;
use crate::world::store::pipelines::{PipelineDir, lookup};

/// Returns the pipeline that is meant, if any: `last` is the newest of everything that delivers
/// something.
pub(crate) fn resolve_pipeline(name: &str, host: &Host) -> Result<Option<PipelineDir>> {
    let pipeline = lookup(name, &pipelines_directory(host))?;
    if name != LAST {
        return Ok(pipeline);
    }
    let Ok(newest) = find(LAST, &deliveries_directory(host), DeliveryUse::Apply) else {
        return Ok(pipeline);
    };
    match pipeline_of(&newest) {
        // The newest delivery is one of this pipeline, of which something may be left to apply.
        Some(pipeline_name) => lookup(pipeline_name, &pipelines_directory(host)),
        None => Ok(pipeline.filter(|pipeline| pipeline.is_newer(&newest))),
    }
}

/// Applies what the pipeline in `dir` produced.
pub(crate) fn run(
    dir: PipelineDir,
    host: &Host,
    arguments: &ApplyArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    finish_interrupted_deliveries(host, output)?;
    let history_mode = history_mode(&dir, arguments)?;
    let runtime = runtime()?;
    let pipeline_delivery = runtime.block_on(open_delivery(dir, history_mode, host))?;
    if pipeline_delivery.is_empty() {
        output.note(match history_mode {
            HistoryMode::Files => "there are no files to apply",
            HistoryMode::Merge | HistoryMode::Squash => {
                "there are no files to apply: your branch already has all changes"
            }
        });
        return Ok(ExitStatus::Success);
    }
    let paths = resolve_paths(&arguments.path, host);
    let apply = |delivery: &OpenDelivery, source: &DeliverySource| -> Result<ExitStatus> {
        if history_mode != HistoryMode::Files {
            require_all_allowed(&plan(delivery, source, None)?)?;
        }
        let earlier = EarlierParts::default();
        apply_delivery(host, arguments, delivery, source, earlier, output)
    };
    let application = apply_with(&pipeline_delivery, history_mode, &paths, host, apply);
    let (status, applied_delivery) = runtime.block_on(application)?;
    if let Some(delivery) = &applied_delivery {
        output.note(&format!("to revert: massgen undo {}", delivery.name()));
    }
    let status = status?;
    if history_mode == HistoryMode::Files || status != ExitStatus::Success {
        return Ok(status);
    }
    let commit = commit(&pipeline_delivery, history_mode, applied_delivery);
    let (commit, branch) = runtime.block_on(commit)?;
    output.note(&format!("committed to {branch}: {commit}"));
    if let Some(remote) = &arguments.push {
        pipeline_delivery.push(remote)?;
    }
    Ok(status)
}

/// Applies the files of `pipeline_delivery` with `apply`, which gets the delivery and its source; only
/// files in `paths` may change, if there are some. Returns its result, and the delivery if anything
/// was applied.
pub(crate) async fn apply_with<T, E: From<Error>>(
    pipeline_delivery: &PipelineDelivery,
    history_mode: HistoryMode,
    paths: &[AbsPath],
    host: &Host,
    apply: impl FnOnce(&OpenDelivery, &DeliverySource) -> std::result::Result<T, E>,
) -> Result<(std::result::Result<T, E>, Option<OpenDelivery>)> {
    let partial = partial_files(pipeline_delivery, host)?;
    // Files that an earlier part of the delivery has written, and files that are left out.
    let is_exempt = |file: &RelPath| {
        partial.contains(file) || !may_change(file, pipeline_delivery.root(), paths)
    };
    pipeline_delivery
        .require_unchanged(history_mode, is_exempt)
        .await?;
    let delivery = pipeline_delivery.create_delivery(&deliveries_directory(host))?;
    let result = match file_source(pipeline_delivery, &delivery, host).await {
        Ok(source) => apply(&delivery, &source),
        Err(error) => Err(error.into()),
    };
    if delivery.is_applied()? {
        return Ok((result, Some(delivery)));
    }
    delivery.discard()?;
    Ok((result, None))
}

/// Commits what was applied. Returns the commit and the branch.
pub(crate) async fn commit(
    pipeline_delivery: &PipelineDelivery,
    history_mode: HistoryMode,
    applied_delivery: Option<OpenDelivery>,
) -> Result<(ObjectId, &str)> {
    let (commit, branch) = pipeline_delivery.commit(history_mode).await?;
    if let Some(delivery) = applied_delivery {
        delivery.record_commit(commit.as_str())?;
    }
    Ok((commit, branch))
}

/// Calls `show` with what would be applied of the pipeline in `dir`. Returns its result; `None` if
/// nothing is left.
pub(crate) fn show_pending(
    dir: PipelineDir,
    host: &Host,
    show: impl FnOnce(&OpenDelivery) -> Result<Option<ExitStatus>>,
) -> Result<Option<ExitStatus>> {
    let runtime = runtime()?;
    let pipeline_delivery = runtime.block_on(open_delivery(dir, HistoryMode::Files, host))?;
    if pipeline_delivery.is_empty() {
        return Ok(None);
    }
    let delivery = pipeline_delivery.create_delivery(&deliveries_directory(host))?;
    let source = runtime.block_on(file_source(&pipeline_delivery, &delivery, host));
    let status = source.and_then(|_| show(&delivery));
    delivery.discard()?;
    status
}

/// Determines what the pipeline in `dir` delivers in this form.
pub(crate) async fn open_delivery(
    dir: PipelineDir,
    history_mode: HistoryMode,
    host: &Host,
) -> Result<PipelineDelivery> {
    let repository = PipelineRepository::reopen(dir, &host.env).await?;
    repository.require_start_directory(&host.cwd, "run `massgen apply` there")?;
    PipelineDelivery::prepare(repository, history_mode).await
}

/// Writes the delivered files, and records them as a delivery source.
pub(crate) async fn file_source(
    pipeline_delivery: &PipelineDelivery,
    delivery: &OpenDelivery,
    host: &Host,
) -> Result<DeliverySource> {
    let began_ns = pipeline_delivery.write_files(delivery).await?;
    let real_root = real_path(pipeline_delivery.root())?;
    let mut grant = Grant::tree(real_root, GrantKind::Context, Permission::Write);
    hide_state(&mut grant, &real_path(&host.state_parent.join(STATE_DIR))?);
    for file in pipeline_delivery.own_files() {
        let places = places_on_way(file)?;
        close_places(slice::from_mut(&mut grant), &places, &[]);
    }
    let source = DeliverySource {
        grants: vec![grant],
        source_dirs: vec![None],
        began_ns,
        restart: 0,
        left_out_of_answers: Vec::new(),
    };
    delivery.write_source(&source)?;
    Ok(source)
}

/// Returns the files of which an earlier delivery of the pipeline applied some hunks, and which are
/// still as it left them.
fn partial_files(pipeline_delivery: &PipelineDelivery, host: &Host) -> Result<BTreeSet<RelPath>> {
    let deliveries = deliveries_directory(host);
    let mut partial = BTreeSet::new();
    for name in names_of_pipeline(&pipeline_delivery.short_name(), &deliveries)? {
        let delivery = OpenDelivery::open(&deliveries, &name)?;
        if let Some(delivered) = AppliedDelivery::open(delivery)? {
            let roots = delivered.roots();
            let root = roots
                .iter()
                .position(|root| root == pipeline_delivery.root());
            let files = delivered.partial_files();
            partial.extend(root.into_iter().flat_map(|root| files.below(root)).cloned());
        }
    }
    Ok(partial)
}

/// Returns whether `file` below `root` may change if only `paths` are delivered; all files may if
/// there are none.
fn may_change(file: &RelPath, root: &AbsPath, paths: &[AbsPath]) -> bool {
    let relative_paths: Option<Vec<RelPath>> = paths.iter().map(|path| path.below(root)).collect();
    // A path that is not below the root as it is written may be any file.
    paths.is_empty()
        || relative_paths.is_none_or(|relative_paths| {
            // A file is removed where a directory is delivered.
            relative_paths
                .iter()
                .any(|path| file.is_within(path) || path.is_within(file))
        })
}

/// Fails if a rule refuses a file of `plan`: a commit has all files.
pub(crate) fn require_all_allowed(plan: &DeliveryPlan) -> Result<()> {
    let refusals = plan.refused.iter();
    let mut refusals = refusals.map(|refusal| (refusal.path.to_abs(), refusal.reason.as_str()));
    let left_alone = |entry: &DeliveryEntry| Some((plan.path(entry), entry.consent?.reason()));
    let mut left_alone = plan.entries.iter().filter_map(left_alone);
    let Some((path, reason)) = refusals.next().or_else(|| left_alone.next()) else {
        return Ok(());
    };
    let message = format!("`{path}` cannot be delivered: {reason}");
    Err(Error::new(ErrorKind::Denied, message)
        .with_hint("deliver the other files without a commit: `--history none`"))
}

/// Decides how the history of the pipeline is delivered.
fn history_mode(dir: &PipelineDir, arguments: &ApplyArguments) -> Result<HistoryMode> {
    if arguments.agent.is_some() {
        return Err(
            usage_error("a pipeline has no answers to choose from").with_hint("omit `--agent`")
        );
    }
    // By default, the commits are merged if there is a project to merge them into, unless `--path`
    // selects files: a commit has all of them.
    let history_mode = match arguments.history {
        Some(HistoryModeArgument::Squash) => HistoryMode::Squash,
        Some(HistoryModeArgument::Merge) => HistoryMode::Merge,
        None if dir.record()?.project.is_some() && arguments.path.is_empty() => HistoryMode::Merge,
        Some(HistoryModeArgument::Files) | None => HistoryMode::Files,
    };
    if history_mode != HistoryMode::Files && !arguments.path.is_empty() {
        return Err(usage_error(
            "a commit contains the whole result of the pipeline, but `--path` selects a part of it",
        )
        .with_hint("deliver a part without a commit: `--history none`"));
    }
    if history_mode == HistoryMode::Files && arguments.push.is_some() {
        return Err(usage_error("`--push` needs a commit, but none is created")
            .with_hint("add `--history merge` or `--history squash`"));
    }
    Ok(history_mode)
}
