//! Implements `massgen diff`: shows what a run or a pipeline delivered or would deliver, or the
//! files of an answer.

use crate::cli::args::DiffArguments;
use crate::cli::command_line::usage_error;
use crate::cli::deliveries::apply::{agent_source, plan_answer};
use crate::cli::deliveries::diff_text::{diff_lines, diff_stat, stat_line, stat_summary};
use crate::cli::deliveries::parts::newest_part;
use crate::cli::deliveries::{
    deliveries_directory, display_path, find_delivery, finish_interrupted_deliveries, pipeline,
    plan_kept, require_known_path, resolve_paths,
};
use crate::cli::output::{CliOutput, line_pieces};
use crate::delivery::plan::DeliveryPlan;
use crate::error::{ExitStatus, Result};
use crate::host::{Host, StreamTarget};
use crate::path::AbsPath;
use crate::world::delivery::contents::{DeliveryDifference, difference};
use crate::world::delivery::planning::{EarlierFiles, PartialFiles};
use crate::world::delivery::store::{DeliveryUse, OpenDelivery};
use crate::world::delivery::undo::{AppliedDelivery, is_selected};
use crate::world::io::user_programs::PagerProcess;
use crate::world::store::pipelines::PipelineDir;

/// Shows what a run delivered, or would deliver, or the files of an answer.
pub(crate) fn run(
    host: &Host,
    arguments: &DiffArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    if let Some(pipeline) = pipeline::resolve_pipeline(&arguments.run, host)? {
        if arguments.agent.is_some() {
            return Err(usage_error("`--agent` does not apply to pipelines"));
        }
        return show_pipeline(pipeline, host, arguments, output);
    }
    let (deliveries, name) = find_delivery(&arguments.run, DeliveryUse::Apply, host, output)?;
    if let Some(agent) = &arguments.agent {
        let delivery = OpenDelivery::open(&deliveries, &name)?;
        let source = agent_source(&name, agent, delivery.read_source()?, host)?;
        let plan = plan_answer(&delivery, &source)?;
        return show_plan(&delivery, &plan, host, arguments, output);
    }
    show_delivery(&deliveries, &name, host, arguments, output)
}

/// Shows what would be applied of a pipeline; if nothing would be, what was applied of it last.
fn show_pipeline(
    pipeline: PipelineDir,
    host: &Host,
    arguments: &DiffArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    finish_interrupted_deliveries(host, output)?;
    let name = pipeline.name();
    let show = |delivery: &OpenDelivery| {
        let plan = plan_pending(delivery)?;
        if plan.is_empty() {
            return Ok(None);
        }
        show_plan(delivery, &plan, host, arguments, output).map(Some)
    };
    if let Some(status) = pipeline::show_pending(pipeline, host, show)? {
        return Ok(status);
    }
    let deliveries = deliveries_directory(host);
    let Some(part) = newest_part(&name, &deliveries)? else {
        output.note("there are no files to apply, and none were");
        return Ok(ExitStatus::Success);
    };
    show_delivery(&deliveries, &part, host, arguments, output)
}

/// Shows what was applied of the delivery `name`, or what it would change.
fn show_delivery(
    deliveries: &AbsPath,
    name: &str,
    host: &Host,
    arguments: &DiffArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let mut delivery = OpenDelivery::open(deliveries, name)?;
    let paths = resolve_paths(&arguments.path, host);
    if delivery.is_applied()? {
        if let Some(mut delivered) = AppliedDelivery::open(delivery)? {
            let known_paths = delivered.listed_paths().map(|(path, ..)| path).collect();
            require_known_path(&paths, name, &known_paths, &host.cwd)?;
            note_undone(&delivered, known_paths.len(), output);
            let differences = delivered.differences();
            let selected_differences =
                differences.filter(|difference| is_selected_difference(difference, &paths));
            return print_differences(host, arguments, selected_differences, output);
        }
        // `AppliedDelivery::open` has taken the delivery, although nothing of it is applied.
        delivery = OpenDelivery::open(deliveries, name)?;
    }
    show_plan(
        &delivery,
        &plan_pending(&delivery)?,
        host,
        arguments,
        output,
    )
}

/// Says how much of a delivery with this many paths was undone, if anything was.
fn note_undone(delivered: &AppliedDelivery, count: usize, output: &mut CliOutput<'_>) {
    let undone_count = delivered.reverted_changes().len();
    if undone_count == 0 {
        return;
    }
    output.note(&if undone_count < count {
        format!("undone: {undone_count} of these {count} changes")
    } else {
        "these changes were undone".to_owned()
    });
}

/// Returns what `delivery` would change now.
fn plan_pending(delivery: &OpenDelivery) -> Result<DeliveryPlan> {
    let (partial, earlier) = (PartialFiles::default(), EarlierFiles::default());
    plan_kept(delivery, &delivery.read_source()?, partial, earlier)
}

/// Shows what `delivery` would change.
fn show_plan(
    delivery: &OpenDelivery,
    plan: &DeliveryPlan,
    host: &Host,
    arguments: &DiffArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let paths = resolve_paths(&arguments.path, host);
    require_known_path(&paths, delivery.name(), &plan.paths(), &host.cwd)?;
    for refusal in &plan.refused {
        let path = display_path(&refusal.path.to_abs(), &host.cwd);
        output.warning(&format!("`{path}` cannot be delivered: {}", refusal.reason));
    }
    let differences = plan
        .entries
        .iter()
        .map(|entry| difference(delivery, plan, entry));
    let selected_differences =
        differences.filter(|difference| is_selected_difference(difference, &paths));
    print_differences(host, arguments, selected_differences, output)
}

fn is_selected_difference(difference: &Result<DeliveryDifference>, paths: &[AbsPath]) -> bool {
    match difference {
        Ok(difference) => is_selected(&difference.path, paths),
        Err(_) => true,
    }
}

/// Prints the differences, on a terminal through a pager, as `git` does.
fn print_differences(
    host: &Host,
    arguments: &DiffArguments,
    differences: impl Iterator<Item = Result<DeliveryDifference>>,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let pager = match host.stdout {
        StreamTarget::Terminal => PagerProcess::start(&host.env),
        StreamTarget::Plain => None,
    };
    let Some((pager, input)) = pager else {
        write_differences(host, arguments, differences, output)?;
        return Ok(ExitStatus::Success);
    };
    let mut paged_output = CliOutput::with_pager(host, input);
    let result = write_differences(host, arguments, differences, &mut paged_output);
    drop(paged_output);
    pager.wait();
    result.map(|()| ExitStatus::Success)
}

fn write_differences(
    host: &Host,
    arguments: &DiffArguments,
    differences: impl Iterator<Item = Result<DeliveryDifference>>,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let mut stats = Vec::new();
    for difference in differences {
        let difference = difference?;
        let name = display_path(&difference.path, &host.cwd);
        if arguments.stat {
            let counts = diff_stat(&difference);
            output.result_line(&line_pieces(&stat_line(&name, &counts)))?;
            stats.push(counts);
        } else {
            for line in diff_lines(&difference, &name) {
                output.result_line(&line_pieces(&line))?;
            }
        }
        if output.is_closed() {
            return Ok(());
        }
    }
    if arguments.stat {
        output.result(&format!("{}\n", stat_summary(&stats)))?;
    }
    Ok(())
}
