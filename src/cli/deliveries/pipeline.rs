//! Owns `massgen apply` for pipelines: what a pipeline made is laid out as a delivery and applied like any
//! other, and committed for the user where that is wanted.

use crate::cli::args::{ApplyArguments, As};
use crate::cli::deliveries::apply::take;
use crate::cli::deliveries::{deliveries, recover};
use crate::cli::output::Output;
use crate::cli::pipeline::run::pipelines;
use crate::cli::run::runtime;
use crate::cli::usage::usage;
use crate::config::place::STATE_DIR;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::orchestrator::grants::{hide_state, real};
use crate::permissions::grant::{Grant, GrantKind, Permission};
use crate::pipeline::delivering::{Delivering, Shape};
use crate::pipeline::ground::Ground;
use crate::world::delivery::planning::plan;
use crate::world::delivery::store::{Delivery, Offer, Use, find, pipeline_of};
use crate::world::store::naming::LAST;
use crate::world::store::pipelines::{PipelineDir, known};

/// The pipeline that is meant, if one is: `last` is the newest of all that delivers something.
pub(crate) fn meant(wanted: &str, host: &Host) -> Result<Option<PipelineDir>> {
    let found = known(wanted, &pipelines(host))?;
    if wanted != LAST {
        return Ok(found);
    }
    let Ok(newest) = find(LAST, &deliveries(host), Use::Take) else {
        return Ok(found);
    };
    match pipeline_of(&newest) {
        // What was applied of a pipeline may have been broken off.
        Some(short) => known(short, &pipelines(host)),
        None => Ok(found.filter(|pipeline| pipeline.is_newer(&newest))),
    }
}

/// Applies what the pipeline in `dir` made.
pub(crate) fn run(
    dir: PipelineDir,
    (host, asked): (&Host, &ApplyArguments),
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    recover(host, output)?;
    let shape = shape(&dir, asked)?;
    let runtime = runtime()?;
    let delivering = runtime.block_on(delivering(dir, shape, host))?;
    if delivering.is_empty() {
        output.note(match shape {
            Shape::Files => "there are no files to apply",
            Shape::Merge | Shape::Squash => {
                "there are no files to apply: your branch holds all of them"
            }
        });
        return Ok(ExitStatus::Delivered);
    }
    runtime.block_on(delivering.expect_untouched(shape))?;
    let delivery = Delivery::create(&deliveries(host), &delivering.delivery())?;
    let offer = runtime.block_on(offer(&delivering, &delivery, host))?;
    let status = apply((&offer, &delivery, shape), (host, asked), output);
    let applied = if delivery.is_applied() {
        output.note(&format!("taken back by: massgen undo {}", delivery.name()));
        Some(delivery)
    } else {
        delivery.discard()?;
        None
    };
    let status = status?;
    if shape == Shape::Files || status != ExitStatus::Delivered {
        return Ok(status);
    }
    let (commit, branch) = runtime.block_on(delivering.commit(shape))?;
    output.note(&format!("committed to {branch}: {commit}"));
    if let Some(delivery) = applied {
        delivery.note_commit(commit.as_str())?;
    }
    if let Some(remote) = &asked.push {
        delivering.push(remote)?;
    }
    Ok(status)
}

/// Shows by `show` what would be applied of what the pipeline in `dir` made; `None` if nothing is left.
pub(crate) fn would(
    dir: PipelineDir,
    host: &Host,
    show: impl FnOnce(&Delivery) -> Result<ExitStatus>,
) -> Result<Option<ExitStatus>> {
    let runtime = runtime()?;
    let delivering = runtime.block_on(delivering(dir, Shape::Files, host))?;
    if delivering.is_empty() {
        return Ok(None);
    }
    let delivery = Delivery::create(&deliveries(host), &delivering.delivery())?;
    let laid = runtime.block_on(offer(&delivering, &delivery, host));
    let shown = laid.and_then(|_| show(&delivery));
    delivery.discard()?;
    shown.map(Some)
}

async fn delivering(dir: PipelineDir, shape: Shape, host: &Host) -> Result<Delivering> {
    let ground = Ground::go_on(dir, &host.env).await?;
    ground.expect_begun_in(&host.cwd, "go there and apply it")?;
    Delivering::of(ground, shape).await
}

/// Lays out what is delivered, and files it as an offer.
async fn offer(delivering: &Delivering, delivery: &Delivery, host: &Host) -> Result<Offer> {
    let began_ns = delivering.lay_out(delivery).await?;
    let root = real(delivering.root())?;
    let mut root = Grant::tree(root, GrantKind::Context, Permission::Write);
    hide_state(&mut root, &real(&host.cwd.join(STATE_DIR))?);
    let offer = Offer {
        grants: vec![root],
        origins: vec![None],
        began_ns,
        attempt: 1,
    };
    delivery.file_offer(&offer)?;
    Ok(offer)
}

/// Applies what is laid out. Where a commit follows, all of it or nothing.
fn apply(
    (offer, delivery, shape): (&Offer, &Delivery, Shape),
    (host, asked): (&Host, &ApplyArguments),
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    if shape != Shape::Files {
        let refused = plan(delivery, offer, None)?.refused;
        if let Some(first) = refused.first() {
            let message = format!("`{}` may not be delivered: {}", first.path, first.reason);
            return Err(Error::new(ErrorKind::Denied, message)
                .hint("deliver the other files without a commit: `--as files`"));
        }
    }
    take((host, asked), delivery, (offer, Vec::new()), output)
}

/// What becomes of the history of the pipeline.
fn shape(dir: &PipelineDir, asked: &ApplyArguments) -> Result<Shape> {
    if asked.agent.is_some() {
        return Err(
            usage("a pipeline has no answers of agents to choose from").hint("leave out `--agent`")
        );
    }
    let shape = match asked.shape {
        Some(As::Squash) => Shape::Squash,
        Some(As::Merge) => Shape::Merge,
        None if dir.record()?.project.is_some() && asked.path.is_empty() => Shape::Merge,
        Some(As::Files) | None => Shape::Files,
    };
    if shape != Shape::Files && !asked.path.is_empty() {
        return Err(usage(
            "a commit holds all that the pipeline made, and `--path` names a part of it",
        )
        .hint("deliver a part without a commit: `--as files`"));
    }
    if shape == Shape::Files && asked.push.is_some() {
        return Err(usage("`--push` pushes a commit, and none is made")
            .hint("add `--as merge` or `--as squash`"));
    }
    Ok(shape)
}
