//! The delivery of a cell: what its run changed in its copy of the project, as a patch and as a
//! layer that can be delivered to the project itself.

use std::collections::BTreeSet;

use crate::batch::task::{BatchTask, CellId, TaskProject};
use crate::cli::args::ApplyArguments;
use crate::cli::args::batch::BatchApplyArguments;
use crate::cli::batch::open_batch_and_record;
use crate::cli::deliveries::apply::{EarlierParts, apply_delivery};
use crate::cli::deliveries::{deliveries_directory, finish_interrupted_deliveries};
use crate::cli::output::CliOutput;
use crate::config::storage_path::{DELIVERIES, STATE_DIR};
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::path::AbsPath;
use crate::permissions::grant::Grant;
use crate::world::delivery::patch::write_patch;
use crate::world::delivery::portable_layer::create_portable_layer;
use crate::world::delivery::store::{
    DeliverySource, OpenDelivery, SourceDirectory, SourceLayout, used_deliveries,
};
use crate::world::delivery::undo::AppliedDelivery;
use crate::world::io::locate::locate;
use crate::world::store::batches::BatchDir;
use crate::world::store::batches::cells::CellDir;
use crate::world::store::delivery_names::{list_names, run_of};

/// Writes what the runs of `cell` delivered in its work as a patch and as a layer. Returns the
/// number of changed files.
pub(super) fn export_delivery(cell: &CellDir) -> Result<u64> {
    let work = real_directory(&cell.work())?;
    let deliveries = work.join(STATE_DIR).join(DELIVERIES);
    let (mut paths, mut patch) = (BTreeSet::new(), String::new());
    for name in list_names(&deliveries)?.into_iter().rev() {
        let open_delivery = OpenDelivery::open(&deliveries, &name)?;
        let Some(mut delivery) = AppliedDelivery::open(open_delivery)? else {
            continue;
        };
        paths.extend(
            delivery
                .listed_paths()
                .filter_map(|(path, ..)| path.below(&work)),
        );
        for difference in delivery.differences() {
            let difference = difference?;
            if let Some(path) = difference.path.below(&work) {
                write_patch(&difference, &path, &mut patch);
            }
        }
    }
    if paths.is_empty() {
        return Ok(0);
    }
    let files = create_portable_layer(&work, &paths, &cell.changes())?;
    cell.write_patch(&patch)?;
    Ok(u64::try_from(files).unwrap_or(u64::MAX))
}

/// Runs `massgen batch apply`: delivers the changes of a cell to its project.
pub(super) fn apply(
    host: &Host,
    arguments: &BatchApplyArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let (batch, record) = open_batch_and_record(&arguments.batch, host, output)?;
    let ids = batch.cell_ids(&record)?;
    let cell_id = CellId::parse(&arguments.cell);
    let position = ids.iter().position(|id| Some(id) == cell_id.as_ref());
    let cell_number = position.and_then(|position| u32::try_from(position).ok());
    let number = cell_number.ok_or_else(|| {
        let message = format!("`{}` has no cell `{}`", batch.name(), arguments.cell);
        Error::new(ErrorKind::Usage, message)
            .with_hint("name the `id` of a task: massgen batch results --json")
    })?;
    let task = batch.task(number)?;
    let Some((result, _)) = batch.result(&task.id)? else {
        let message = format!("cell `{}` has no result yet", task.id);
        return Err(
            Error::new(ErrorKind::Usage, message).with_hint("wait for it: massgen batch watch")
        );
    };
    if result.files == 0 {
        output.note("the cell changed no files");
        return Ok(ExitStatus::Success);
    }
    finish_interrupted_deliveries(host, output)?;
    let project = project_directory(&batch, &task, &record.cwd)?;
    let cell = batch.cell_dir(&task.id);
    let (name, source) = relocated_source(&cell, &project)?;
    let delivery = OpenDelivery::create(&deliveries_directory(host), &name)?;
    delivery.write_source(&source)?;
    let arguments = ApplyArguments {
        run: name,
        agent: None,
        path: arguments.path.clone(),
        yes: arguments.yes,
        history: None,
        push: None,
    };
    let earlier = EarlierParts::default();
    let status = apply_delivery(host, &arguments, &delivery, &source, earlier, output);
    if !delivery.is_applied()? {
        delivery.discard()?;
    }
    status
}

/// Returns the real path of a directory: deliveries have real paths.
fn real_directory(path: &AbsPath) -> Result<AbsPath> {
    Ok(locate(path)?.into_real().to_abs())
}

/// Returns the directory to which the changes of a cell are delivered.
fn project_directory(batch: &BatchDir, task: &BatchTask, cwd: &AbsPath) -> Result<AbsPath> {
    let patch = batch.cell_dir(&task.id).patch();
    match &task.project {
        Some(TaskProject::Directory { path }) => Ok(AbsPath::resolve(cwd, path)),
        Some(TaskProject::Commit { .. }) => {
            let message = format!("cell `{}` worked on a commit, not on a directory", task.id);
            Err(Error::new(ErrorKind::Usage, message)
                .with_hint(format!("apply its patch: git apply {patch}")))
        }
        None => {
            let message = format!("cell `{}` has no project", task.id);
            Err(Error::new(ErrorKind::Usage, message).with_hint(format!(
                "its files are in `{}`",
                batch.cell_dir(&task.id).work()
            )))
        }
    }
}

/// Returns what the last delivery of a cell delivered, with the same rights in `project` instead of
/// the copy, and its name.
fn relocated_source(cell: &CellDir, project: &AbsPath) -> Result<(String, DeliverySource)> {
    let work = real_directory(&cell.work())?;
    let deliveries = work.join(STATE_DIR).join(DELIVERIES);
    let lost_error = || {
        let message = format!("the delivery in `{work}` is no longer there");
        Error::new(ErrorKind::Environment, message)
            .with_hint(format!("apply the patch: git apply {}", cell.patch()))
    };
    let used_names = used_deliveries(list_names(&deliveries)?, &deliveries)?;
    let name = used_names.into_iter().next().ok_or_else(lost_error)?;
    let source = OpenDelivery::open(&deliveries, &name)?.read_source()?;
    let began_ns = cell.prepared_ns().ok_or_else(lost_error)?;
    let (mut grants, mut source_dirs) = (Vec::new(), Vec::new());
    for (grant, root) in source.grants.iter().zip(source.roots()) {
        let (Some(root_in_cell), Some(below)) =
            (grant.root.to_abs().below(&work), root.below(&work))
        else {
            continue;
        };
        grants.push(Grant {
            root: locate(&project.join(root_in_cell.as_path()))?.into_real(),
            ..grant.clone()
        });
        source_dirs.push(Some(SourceDirectory {
            path: cell.changes().join(below.as_path()),
            layout: SourceLayout::OverlayLayer,
            left_out: Vec::new(),
        }));
    }
    Ok((
        run_of(&name).to_owned(),
        DeliverySource {
            grants,
            source_dirs,
            began_ns,
            restart: source.restart,
            left_out_of_answers: source.left_out_of_answers,
        },
    ))
}
