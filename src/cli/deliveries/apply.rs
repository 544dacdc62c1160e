//! Owns `massgen apply`: what was not taken of a delivery is applied after all, or what was taken back
//! once more, or the answer of another agent.

use tokio_util::sync::CancellationToken;

use crate::cli::args::ApplyArguments;
use crate::cli::conduct::Person;
use crate::cli::deliveries::pipeline;
use crate::cli::deliveries::review::{Typed, review};
use crate::cli::deliveries::undo::{Remedy, tell};
use crate::cli::deliveries::{chosen, expect_known, is_meant, shown, typed};
use crate::cli::logs;
use crate::cli::output::{Output, Style};
use crate::cli::render::deeds::outcome;
use crate::cli::usage::usage;
use crate::delivery::choice::Take;
use crate::delivery::plan::{Deed, Entry, Plan};
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::event::{DeliveryOutcome, Event};
use crate::host::Host;
use crate::orchestrator::deliver::outcome_of;
use crate::orchestrator::review::Choice;
use crate::path::AbsPath;
use crate::world::change::Change;
use crate::world::delivery::planning::{Since, plan};
use crate::world::delivery::store::{Delivery, Offer, Origin, Use, Written};
use crate::world::delivery::transaction::{apply, take_parts};
use crate::world::delivery::undo::{Delivered, Direction, Now, Since as Changed, refuse_outside};

/// Applies what is asked for.
pub(crate) fn run(
    host: &Host,
    asked: &ApplyArguments,
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    if let Some(pipeline) = pipeline::meant(&asked.run, host)? {
        return pipeline::run(pipeline, (host, asked), output);
    }
    if asked.shape.is_some() || asked.push.is_some() {
        return Err(usage("`--as` and `--push` are for pipelines")
            .hint("`massgen branches` shows the last pipeline of this directory"));
    }
    let (deliveries, name) = chosen(&asked.run, Use::Take, host, output)?;
    let paths = typed(&asked.path, host);
    let Some(agent) = &asked.agent else {
        if let Some(status) = again((host, asked), (&deliveries, &name), &paths, output)? {
            return Ok(status);
        }
        let applied = applied(Delivery::open(&deliveries, &name)?)?;
        let delivery = Delivery::open(&deliveries, &name)?;
        let offer = delivery.offer()?;
        return take((host, asked), &delivery, (&offer, applied), output);
    };
    let offer = Delivery::open(&deliveries, &name)?.offer()?;
    let offer = offer_of(&name, agent, offer, host)?;
    let delivery = Delivery::create(&deliveries, &name)?;
    delivery.file_offer(&offer)?;
    let status = take((host, asked), &delivery, (&offer, Vec::new()), output)?;
    if !delivery.is_applied() {
        delivery.discard()?;
    }
    Ok(status)
}

/// Applies once more what was taken back, if anything was.
fn again(
    (host, asked): (&Host, &ApplyArguments),
    (deliveries, name): (&AbsPath, &str),
    paths: &[AbsPath],
    output: &mut Output<'_>,
) -> Result<Option<ExitStatus>> {
    let delivery = Delivery::open(deliveries, name)?;
    let Some(mut delivered) = Delivered::open(delivery)? else {
        return Ok(None);
    };
    let is_back =
        |(path, _, now): &(AbsPath, Deed, Now)| *now == Now::TakenBack && is_meant(path, paths);
    if !delivered.names().any(|name| is_back(&name)) {
        return Ok(None);
    }
    refuse_outside(&delivered.roots(), &host.cwd, paths)?;
    if !asked.yes
        && Person::at(host) == Person::Present
        && !agrees(&delivered, &is_back, host, output)
    {
        output.note("nothing was applied");
        return Ok(Some(ExitStatus::Interrupted));
    }
    let rows = delivered.take(Direction::Again, paths, Changed::Kept)?;
    tell((name, &host.cwd), &rows, Remedy::None, output).map(Some)
}

/// Shows what was taken back, and asks whether it is applied once more.
fn agrees(
    delivered: &Delivered,
    is_back: &dyn Fn(&(AbsPath, Deed, Now)) -> bool,
    host: &Host,
    output: &mut Output<'_>,
) -> bool {
    for (path, deed, _) in delivered.names().filter(|name| is_back(name)) {
        let word = match deed {
            Deed::Create => "create",
            Deed::Change => "change",
            Deed::Delete => "delete",
        };
        let path = shown(&path, &host.cwd);
        output.line(&[(Style::Strong, word), (Style::Plain, &format!(" {path}"))]);
    }
    let mut lines = Typed::until(CancellationToken::new());
    output.ask("[a]pply what was taken back, [n]othing?");
    let answer = lines.next();
    answer.is_some_and(|answer| matches!(answer.as_str(), "a" | "apply"))
}

/// The offer with the files of another agent's last answer in the place of what was offered.
fn offer_of(name: &str, agent: &str, offer: Offer, host: &Host) -> Result<Offer> {
    let run = logs::find(run_of(name), host)?;
    run.expect_own()?;
    let mut snapshot = None;
    let mut known = Vec::new();
    for entry in run.events()?.flatten() {
        if let Some(Event::Answered {
            agent: id,
            label,
            snapshot: path,
            ..
        }) = entry.event()
        {
            let number = label.agent.to_string();
            if id.as_str() == agent || number == agent {
                snapshot = Some(path);
            }
            if !known.contains(&number) {
                known.push(number);
            }
        }
    }
    let files = match snapshot {
        None => {
            let message = format!("no agent `{agent}` gave an answer in `{name}`");
            let known = known.join(", ");
            return Err(Error::new(ErrorKind::Usage, message)
                .hint(format!("agents that gave one: {known}")));
        }
        Some(path) => path.and_then(AbsPath::new),
    };
    let files = files.ok_or_else(|| {
        let message = format!("the answer of `{agent}` has no files");
        Error::new(ErrorKind::Usage, message)
            .hint(format!("`massgen logs show {name}` shows its text"))
    })?;
    let target = offer.tree().ok_or_else(|| {
        let message = format!("`{name}` had no directory to write to");
        Error::new(ErrorKind::Usage, message)
    })?;
    let origin = Origin {
        path: files,
        written: Written::Apart,
    };
    let origins = (0..offer.grants.len()).map(|number| (number == target).then(|| origin.clone()));
    Ok(Offer {
        origins: origins.collect(),
        ..offer
    })
}

/// The run that a delivery is of: further ones of a run have a number behind its name.
fn run_of(name: &str) -> &str {
    name.split_once('.').map_or(name, |(run, _)| run)
}

/// The files of `delivery` that were applied, whatever became of them since.
fn applied(delivery: Delivery) -> Result<Vec<AbsPath>> {
    let delivered = Delivered::open(delivery)?;
    let names = delivered.iter().flat_map(Delivered::names);
    Ok(names.map(|(path, ..)| path).collect())
}

/// Plans, asks and applies what is offered; `applied` was applied before.
pub(super) fn take(
    (host, asked): (&Host, &ApplyArguments),
    delivery: &Delivery,
    (offer, applied): (&Offer, Vec<AbsPath>),
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    let paths = typed(&asked.path, host);
    refuse_outside(&offer.roots(), &host.cwd, &paths)?;
    let since = Since {
        began_ns: i128::from(offer.began_ns),
        bases: None,
    };
    let mut planned = plan(delivery, offer, Some(&since))?;
    let mut known = planned.paths();
    known.extend(applied);
    expect_known(&paths, (delivery.name(), &known), &host.cwd)?;
    planned
        .refused
        .retain(|refusal| is_meant(&refusal.path.to_abs(), &paths));
    let all = std::mem::take(&mut planned.entries);
    planned.entries = within(&planned, all, &paths);
    if planned.is_empty() {
        output.note("there is nothing to apply");
        return Ok(ExitStatus::Delivered);
    }
    let choice = if asked.yes || Person::at(host) == Person::Absent {
        Some(Choice::everything(&planned))
    } else {
        let mut lines = Typed::until(CancellationToken::new());
        review(delivery, &planned, output, &mut || lines.next())?
    };
    let Some(choice) = choice else {
        output.note("nothing was applied");
        return Ok(ExitStatus::Interrupted);
    };
    if !choice.takes.contains(&Take::Taken)
        && choice.parts.is_empty()
        && !planned.items().is_empty()
    {
        output.note("nothing was applied");
        return Ok(ExitStatus::Interrupted);
    }
    let takes = take_parts(delivery, &mut planned, choice.takes, &choice.parts)?;
    let changes = apply(delivery, &planned, &takes, None)?;
    told(&changes, &host.cwd, output)
}

/// The entries that lie in `paths`, and the directories that hold them.
fn within(plan: &Plan, entries: Vec<Entry>, paths: &[AbsPath]) -> Vec<Entry> {
    let holds_one = |path: &AbsPath| paths.iter().any(|meant| meant.is_within(path));
    let is_needed = |entry: &Entry| {
        let path = plan.path(entry);
        is_meant(&path, paths) || (!entry.is_file() && holds_one(&path))
    };
    entries.into_iter().filter(is_needed).collect()
}

/// Says what became of every file.
fn told(changes: &[Change], here: &AbsPath, output: &mut Output<'_>) -> Result<ExitStatus> {
    let mut status = ExitStatus::Delivered;
    for change in changes {
        let path = shown(&change.path.to_abs(), here);
        let Some(became) = outcome_of(&change.kind) else {
            continue;
        };
        let is_fine = became.is_delivered() || became == DeliveryOutcome::Declined;
        if !is_fine {
            status = ExitStatus::Denied;
        }
        let (style, word, note) = outcome(&became);
        output.result_line(&[(style, word), (Style::Plain, &format!(" {path}{note}"))])?;
    }
    Ok(status)
}
