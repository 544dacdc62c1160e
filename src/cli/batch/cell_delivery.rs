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
use crate::delivery::hunks::hunks;
use crate::delivery::line_diff::LineDiff;
use crate::delivery::patch_name::quote_patch_name;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::Grant;
use crate::world::delivery::contents::{DeliveryDifference, DiffSide};
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
                write_difference(&difference, &path, &mut patch);
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

/// Adds a change to a patch, in the format of git. Files that are not text are only named, in a
/// line that git skips: they are in the layer. Git has no directories.
fn write_difference(difference: &DeliveryDifference, path: &RelPath, out: &mut String) {
    let is_directory = |side: &DiffSide| *side == DiffSide::Directory;
    if is_directory(&difference.before) || is_directory(&difference.after) {
        return;
    }
    let text = |side: &DiffSide| match side {
        DiffSide::Nothing => Some(String::new()),
        DiffSide::Text(text) => Some(text.clone()),
        DiffSide::Binary { .. } | DiffSide::Link(_) | DiffSide::Directory | DiffSide::Lost => None,
    };
    let mut add = |line: String| out.push_str(&(line + "\n"));
    let (Some(old_text), Some(new_text)) = (text(&difference.before), text(&difference.after))
    else {
        let name = quote_patch_name("", path);
        add(format!("# not text, and only in `changes`: {name}"));
        return;
    };
    let (old_name, new_name) = (quote_patch_name("a/", path), quote_patch_name("b/", path));
    add(format!("diff --git {old_name} {new_name}"));
    let mode = difference.modes.map_or(0o644, |(_, after)| after);
    match (&difference.before, &difference.after, difference.modes) {
        (DiffSide::Nothing, _, _) => add(format!("new file mode 100{:o}", mode & 0o777)),
        (_, DiffSide::Nothing, _) => add("deleted file mode 100644".to_owned()),
        (_, _, Some((before, after))) if before != after => {
            add(format!("old mode 100{:o}", before & 0o777));
            add(format!("new mode 100{:o}", after & 0o777));
        }
        _ => {}
    }
    if old_text == new_text {
        return;
    }
    let header_name = |side: &DiffSide, name: &str| {
        if *side == DiffSide::Nothing {
            "/dev/null".to_owned()
        } else {
            // As in git, a tab ends a name with spaces.
            let end = if name.contains(' ') { "\t" } else { "" };
            format!("{name}{end}")
        }
    };
    add(format!(
        "--- {}",
        header_name(&difference.before, &old_name)
    ));
    add(format!("+++ {}", header_name(&difference.after, &new_name)));
    for hunk in hunks(&LineDiff::new(&old_text, &new_text)) {
        add(hunk.header());
        for (side, text) in &hunk.lines {
            add(format!("{}{text}", side.sign()));
        }
    }
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
            attempt: source.attempt,
            left_out_of_answers: source.left_out_of_answers,
        },
    ))
}
