//! Owns `massgen diff`.

use crate::cli::args::DiffArguments;
use crate::cli::deliveries::pipeline;
use crate::cli::deliveries::show::{lines, pieces, stat, stat_line, sum};
use crate::cli::deliveries::{chosen, deliveries, expect_known, is_meant, shown, typed};
use crate::cli::output::Output;
use crate::error::{ExitStatus, Result};
use crate::host::{Host, Stream};
use crate::path::AbsPath;
use crate::world::delivery::contents::{Difference, difference};
use crate::world::delivery::planning::{Since, plan};
use crate::world::delivery::store::{Delivery, Use, find, pipeline_of};
use crate::world::delivery::undo::Delivered;
use crate::world::pager::Pager;

/// Shows what a run delivered, or would deliver.
pub(crate) fn run(
    host: &Host,
    asked: &DiffArguments,
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    if let Some(pipeline) = pipeline::meant(&asked.run, host)? {
        let short = pipeline.short();
        let show = |delivery: &Delivery| would(host, asked, delivery, output);
        if let Some(status) = pipeline::would(pipeline, host, show)? {
            return Ok(status);
        }
        let newest = find(&asked.run, &deliveries(host), Use::Take);
        if newest.ok().as_deref().and_then(pipeline_of) != Some(&short) {
            output.note("there are no files to apply, and none were");
            return Ok(ExitStatus::Delivered);
        }
    }
    let (deliveries, name) = chosen(&asked.run, Use::Take, host, output)?;
    let delivery = Delivery::open(&deliveries, &name)?;
    let paths = typed(&asked.path, host);
    if delivery.is_applied() {
        if let Some(mut delivered) = Delivered::open(delivery)? {
            let known = delivered.names().map(|(path, ..)| path).collect();
            expect_known(&paths, (&name, &known), &host.cwd)?;
            let differences = delivered.differences();
            let meant = differences.filter(|found| is_meant_of(found, &paths));
            return print(host, asked, meant, output);
        }
        return would(host, asked, &Delivery::open(&deliveries, &name)?, output);
    }
    would(host, asked, &delivery, output)
}

/// Shows what `delivery` would change now.
fn would(
    host: &Host,
    asked: &DiffArguments,
    delivery: &Delivery,
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    let paths = typed(&asked.path, host);
    let offer = delivery.offer()?;
    let since = Since {
        began_ns: i128::from(offer.began_ns),
        bases: None,
    };
    let planned = plan(delivery, &offer, Some(&since))?;
    expect_known(&paths, (delivery.name(), &planned.paths()), &host.cwd)?;
    for refusal in &planned.refused {
        let path = shown(&refusal.path.to_abs(), &host.cwd);
        output.warning(&format!("`{path}` cannot be delivered: {}", refusal.reason));
    }
    let differences = planned
        .entries
        .iter()
        .map(|entry| difference(delivery, &planned, entry));
    let meant = differences.filter(|found| is_meant_of(found, &paths));
    print(host, asked, meant, output)
}

fn is_meant_of(found: &Result<Difference>, paths: &[AbsPath]) -> bool {
    match found {
        Ok(difference) => is_meant(&difference.path, paths),
        Err(_) => true,
    }
}

/// On a terminal a pager shows it, as `git` does.
fn print(
    host: &Host,
    asked: &DiffArguments,
    differences: impl Iterator<Item = Result<Difference>>,
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    let pager = match host.stdout {
        Stream::Terminal => Pager::start(&host.env),
        Stream::Plain => None,
    };
    let Some((pager, input)) = pager else {
        write(host, asked, differences, output)?;
        return Ok(ExitStatus::Delivered);
    };
    let mut screen = Output::paged(host, input);
    let written = write(host, asked, differences, &mut screen);
    drop(screen);
    pager.wait();
    written.map(|()| ExitStatus::Delivered)
}

fn write(
    host: &Host,
    asked: &DiffArguments,
    differences: impl Iterator<Item = Result<Difference>>,
    output: &mut Output<'_>,
) -> Result<()> {
    let mut stats = Vec::new();
    for difference in differences {
        let difference = difference?;
        let name = shown(&difference.path, &host.cwd);
        if asked.stat {
            let counts = stat(&difference);
            output.result_line(&pieces(&stat_line(&name, &counts)))?;
            stats.push(counts);
        } else {
            for line in lines(&difference, &name) {
                output.result_line(&pieces(&line))?;
            }
        }
        if output.is_closed() {
            return Ok(());
        }
    }
    if asked.stat {
        output.result(&format!("{}\n", sum(&stats)))?;
    }
    Ok(())
}
