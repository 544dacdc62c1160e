//! Owns `massgen selftest`: attacks and ordinary work, tried against massgen itself on the user's
//! own machine, in every tier that it has, or in containers. Nothing outside the directories of the cases is touched.

pub mod case;
mod containers;
mod report;
pub mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;

use futures_util::stream::{self, StreamExt};
use regex::Regex;

use crate::cli::args::SelftestArguments;
use crate::cli::interrupts;
use crate::cli::output::{Form, Output};
use crate::cli::run::runtime;
use crate::cli::selftest::case::Case;
use crate::cli::selftest::report::{Outcome, to_json};
use crate::cli::selftest::trial::{Trials, Verdict};
use crate::cli::usage::usage;
use crate::confinement::tier::{Enclosure, Tier, TierChoice};
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::orchestrator::conduct::Stop;
use crate::path::AbsPath;
use crate::world::sandbox::{ENFORCING, Sandbox};

/// Where the directories of the cases are made unless `TMPDIR` names another place: on a disk, and
/// not where a sandbox has its own.
const PLACE: &str = "/var/tmp";

/// Tries the cases that were asked for, and shows what came of them.
pub(crate) fn run(
    host: &Host,
    arguments: &SelftestArguments,
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    let cases = chosen(arguments.only.as_deref())?;
    let place = AbsPath::resolve(&host.cwd, host.env("TMPDIR").unwrap_or(PLACE));
    let mut missing = BTreeSet::new();
    let (enclosures, without) = match &arguments.docker {
        Some(image) => {
            let programs = cases.iter().flat_map(|case| case.needs.iter().cloned());
            missing = containers::missing(host, image, &programs.collect())?;
            let image = image.clone();
            (vec![Enclosure::Container { image }], BTreeMap::new())
        }
        None => tiers(host, arguments.sandbox, &place)?,
    };
    let form = Form::from(arguments.json);
    let jobs = arguments.jobs.unwrap_or_else(cores);
    let outcomes = runtime()?.block_on(async {
        let stop = interrupts::listen(host.hangup)?;
        let mut outcomes = Vec::new();
        for enclosure in enclosures {
            let trials = Trials {
                executable: executable()?,
                env: containers::env(host, &enclosure),
                enclosure,
                missing: missing.clone(),
                place: place.clone(),
            };
            if !output.has_terminal() {
                let name = trials.enclosure.name();
                output.note(&format!("{name}: trying {} cases", cases.len()));
            }
            let outcome = all(&trials, &cases, jobs, &stop, output).await?;
            if form == Form::Text {
                outcome.show(output)?;
            }
            outcomes.push(outcome);
        }
        Ok::<_, Error>(outcomes)
    })?;
    match form {
        Form::Json => output.result(&to_json(&outcomes, &without))?,
        Form::Text => {
            for (tier, why) in &without {
                output.note(&format!("tier {tier} was not tried: {why}"));
            }
        }
    }
    Ok(if outcomes.iter().all(Outcome::is_clean) {
        ExitStatus::Delivered
    } else {
        ExitStatus::Environment
    })
}

/// The cases whose names match.
fn chosen(only: Option<&str>) -> Result<Vec<Case>> {
    let mut cases = case::all()?;
    if let Some(pattern) = only {
        let pattern = Regex::new(pattern).map_err(|error| {
            usage("`--only` is no regular expression")
                .caused_by(error)
                .hint("name a class or a case, as in `--only network`")
        })?;
        cases.retain(|case| pattern.is_match(&case.id) || pattern.is_match(&case.class));
    }
    if cases.is_empty() {
        return Err(usage("no case has such a name").hint("leave `--only` out to try all of them"));
    }
    Ok(cases)
}

/// The tiers that are tried, and why the others are not.
fn tiers(
    host: &Host,
    choice: Option<TierChoice>,
    place: &AbsPath,
) -> Result<(Vec<Enclosure>, BTreeMap<Tier, String>)> {
    let by = |tier| Enclosure::Sandbox {
        tier,
        reasons: Vec::new(),
    };
    let open = |choice| Sandbox::open(choice, &host.executable, place);
    if let Some(choice) = choice {
        let sandbox = open(choice)?;
        return match sandbox.tier() {
            Tier::A | Tier::B | Tier::C => Ok((vec![by(sandbox.tier())], BTreeMap::new())),
            Tier::D => Err(nothing_enforces(sandbox.reasons())),
            Tier::Off => Err(usage("`--sandbox off` is no sandbox that could be tried")
                .hint("name `A`, `B` or `C`, or leave it out to try all that this machine has")),
        };
    }
    let mut tiers = Vec::new();
    let mut without = BTreeMap::new();
    for tier in ENFORCING {
        match open(TierChoice::Only(*tier)) {
            Ok(_) => tiers.push(by(*tier)),
            Err(error) => drop(without.insert(*tier, error.to_string())),
        }
    }
    if tiers.is_empty() {
        let reasons: Vec<String> = without.into_values().collect();
        return Err(nothing_enforces(&reasons));
    }
    Ok((tiers, without))
}

fn nothing_enforces(reasons: &[String]) -> Error {
    let reasons = reasons.join("; ");
    let message = format!("there is no sandbox to try: {reasons}");
    Error::new(ErrorKind::Environment, message)
        .hint("see what `massgen doctor` says about the sandbox")
}

/// This program under a name that other processes can start it by, also when its file is replaced.
fn executable() -> Result<AbsPath> {
    let path = format!("/proc/{}/exe", std::process::id());
    AbsPath::new(path).ok_or_else(|| Error::bug("no name for the program"))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Tries all cases, `jobs` at once, in one tier or in containers.
async fn all<'a>(
    trials: &Trials,
    cases: &'a [Case],
    jobs: usize,
    stop: &Stop,
    output: &mut Output<'_>,
) -> Result<Outcome<'a>> {
    let tried = cases
        .iter()
        .map(|case| async move { (case, trials.run(case, &stop.soon).await) });
    let mut tried = stream::iter(tried).buffer_unordered(jobs);
    let mut verdicts: Vec<(&Case, Verdict)> = Vec::new();
    while let Some((case, verdict)) = tried.next().await {
        verdicts.push((case, verdict?));
        let progress = format!(
            "{}: {} of {}, {}",
            trials.enclosure.name(),
            verdicts.len(),
            cases.len(),
            case.id
        );
        output.transient(&progress);
    }
    if stop.soon.is_cancelled() {
        return Err(interrupted());
    }
    verdicts.sort_by(|(a, _), (b, _)| (&a.class, &a.id).cmp(&(&b.class, &b.id)));
    Ok(Outcome {
        enclosure: trials.enclosure.clone(),
        verdicts,
    })
}

fn interrupted() -> Error {
    Error::new(
        ErrorKind::Interrupted,
        "interrupted before all cases were tried",
    )
}
