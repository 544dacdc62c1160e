//! Implements `massgen selftest`: runs attacks and ordinary work against massgen itself on the
//! user's own machine, at every available level or in containers. It must touch nothing outside the
//! directories of the cases.

pub mod case;
mod containers;
mod report;
pub mod case_runner;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use regex::Regex;

use crate::cli::args::SelftestArguments;
use crate::cli::command_line::usage_error;
use crate::cli::interrupts;
use crate::cli::interrupts::runtime;
use crate::cli::output::{CliOutput, ReportFormat};
use crate::cli::selftest::case::SelftestCase;
use crate::cli::selftest::case_runner::{CaseRunner, CaseVerdict};
use crate::cli::selftest::report::{SelftestOutcome, to_json};
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::orchestrator::execution::ShutdownSignal;
use crate::path::AbsPath;
use crate::sandbox_policy::sandbox_level::{ExecutionIsolation, SandboxLevel, SandboxLevelChoice};
use crate::text::count_noun;
use crate::world::io::clock::Stopwatch;
use crate::world::sandbox::{ENFORCING_LEVELS, Sandbox};

/// Parent of the cases' directories unless `TMPDIR` is set: on a disk, and not in a directory that
/// a sandbox replaces by its own.
const PARENT_DEFAULT: &str = "/var/tmp";

/// How long a case takes on an ordinary machine, while others run on the other processors.
const CASE_DURATION: Duration = Duration::from_millis(250);
/// Number of lines about the progress if there is no terminal.
const PROGRESS_LINES: usize = 10;

/// Runs the selected cases and shows their verdicts.
pub(crate) fn run(
    host: &Host,
    arguments: &SelftestArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let cases = matching_cases(arguments.only.as_deref())?;
    let parent = AbsPath::resolve(&host.cwd, host.env("TMPDIR").unwrap_or(PARENT_DEFAULT));
    let mut missing_programs = BTreeSet::new();
    let (isolations, unavailable) = match arguments.docker.clone() {
        Some(image) => {
            let programs = cases.iter().flat_map(|case| case.needs.iter().cloned());
            missing_programs =
                containers::missing_programs(host, &image, &parent, &programs.collect())?;
            let isolation = ExecutionIsolation::Container { image };
            (vec![isolation], BTreeMap::new())
        }
        None => tested_levels(host, arguments.sandbox, &parent)?,
    };
    let format = ReportFormat::from(arguments.json);
    let jobs = arguments.jobs.unwrap_or_else(processor_count);
    let outcomes = runtime()?.block_on(async {
        let stop = interrupts::listen(host.hangup)?;
        let mut outcomes = Vec::new();
        for isolation in isolations {
            let runner = CaseRunner {
                executable: executable()?,
                env: containers::container_env(host, &isolation),
                isolation,
                missing_programs: missing_programs.clone(),
                parent: parent.clone(),
            };
            output.note(&format!(
                "{}: running {}, which takes about {}",
                runner.isolation.label(),
                count_noun(cases.len(), "case"),
                duration_text(expected_duration(cases.len(), jobs))
            ));
            let outcome = run_all(&runner, &cases, jobs, &stop, output).await?;
            if format == ReportFormat::Text {
                outcome.show(output)?;
            }
            outcomes.push(outcome);
        }
        Ok::<_, Error>(outcomes)
    })?;
    match format {
        ReportFormat::Json => output.result(&to_json(&outcomes, &unavailable))?,
        ReportFormat::Text => {
            for (level, reason) in &unavailable {
                output.note(&format!("sandbox level `{level}` was not tested: {reason}"));
            }
        }
    }
    Ok(if outcomes.iter().all(SelftestOutcome::is_clean) {
        ExitStatus::Success
    } else {
        ExitStatus::Environment
    })
}

/// Returns the cases whose name or class matches.
fn matching_cases(only: Option<&str>) -> Result<Vec<SelftestCase>> {
    let mut cases = case::all_cases()?;
    if let Some(pattern) = only {
        let pattern = Regex::new(pattern).map_err(|error| {
            usage_error("`--only` is not a regular expression")
                .with_source(error)
                .with_hint("name a class or a case, as in `--only network`")
        })?;
        cases.retain(|case| pattern.is_match(&case.id) || pattern.is_match(&case.class));
    }
    if cases.is_empty() {
        return Err(
            usage_error("no case matches `--only`").with_hint("omit `--only` to run all cases")
        );
    }
    Ok(cases)
}

/// Returns the levels to test, and why the others are not available.
fn tested_levels(
    host: &Host,
    choice: Option<SandboxLevelChoice>,
    parent: &AbsPath,
) -> Result<(Vec<ExecutionIsolation>, BTreeMap<SandboxLevel, String>)> {
    let isolation = |level| ExecutionIsolation::Sandbox {
        level,
        reasons: Vec::new(),
    };
    let open_sandbox = |choice| Sandbox::open(choice, &host.executable, parent);
    if let Some(choice) = choice {
        let sandbox = open_sandbox(choice)?;
        return match sandbox.level() {
            SandboxLevel::Overlay | SandboxLevel::Namespaces | SandboxLevel::Landlock => {
                Ok((vec![isolation(sandbox.level())], BTreeMap::new()))
            }
            SandboxLevel::Unavailable => Err(no_sandbox_error(sandbox.reasons())),
            SandboxLevel::Off => Err(usage_error(
                "`--sandbox off` cannot be tested",
            )
            .with_hint("name `overlay`, `namespaces` or `landlock`, or omit it to test all available levels")),
        };
    }
    let mut levels = Vec::new();
    let mut unavailable = BTreeMap::new();
    for level in ENFORCING_LEVELS {
        match open_sandbox(SandboxLevelChoice::Only(*level)) {
            Ok(_) => levels.push(isolation(*level)),
            Err(error) => drop(unavailable.insert(*level, error.to_string())),
        }
    }
    if levels.is_empty() {
        let reasons: Vec<String> = unavailable.into_values().collect();
        return Err(no_sandbox_error(&reasons));
    }
    Ok((levels, unavailable))
}

fn no_sandbox_error(reasons: &[String]) -> Error {
    let reasons = reasons.join("; ");
    let message = format!("no sandbox to test: {reasons}");
    Error::new(ErrorKind::Environment, message)
        .with_hint("see the sandbox section of `massgen doctor`")
}

/// Returns a path by which other processes can start this program, even if its file is replaced.
fn executable() -> Result<AbsPath> {
    let path = format!("/proc/{}/exe", std::process::id());
    AbsPath::new(path).ok_or_else(|| Error::bug("cannot name the program's executable"))
}

fn processor_count() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Runs all cases, `jobs` at a time, at one level or in containers.
async fn run_all<'a>(
    runner: &CaseRunner,
    cases: &'a [SelftestCase],
    jobs: usize,
    stop: &ShutdownSignal,
    output: &mut CliOutput<'_>,
) -> Result<SelftestOutcome<'a>> {
    let results = cases
        .iter()
        .map(|case| async move { (case, runner.run(case, &stop.graceful).await) });
    let mut results = stream::iter(results).buffer_unordered(jobs);
    let mut verdicts: Vec<(&SelftestCase, CaseVerdict)> = Vec::new();
    let stopwatch = Stopwatch::start();
    while let Some((case, verdict)) = results.next().await {
        verdicts.push((case, verdict?));
        let (done_count, case_count) = (verdicts.len(), cases.len());
        let time_left = remaining_duration(stopwatch.elapsed(), done_count, case_count);
        let progress = format!(
            "{}: {done_count} of {case_count}, about {} left, {}",
            runner.isolation.label(),
            duration_text(time_left),
            case.id
        );
        output.transient(&progress);
        let is_reported = done_count % case_count.div_ceil(PROGRESS_LINES).max(1) == 0;
        if !output.has_terminal() && is_reported && done_count < case_count {
            output.note(&progress);
        }
    }
    if stop.graceful.is_cancelled() {
        return Err(interrupted_error());
    }
    verdicts.sort_by(|(a, _), (b, _)| (&a.class, &a.id).cmp(&(&b.class, &b.id)));
    Ok(SelftestOutcome {
        isolation: runner.isolation.clone(),
        verdicts,
    })
}

/// Returns how long this many cases take, `jobs` at a time.
fn expected_duration(cases: usize, jobs: usize) -> Duration {
    let rounds = cases.div_ceil(jobs.max(1));
    CASE_DURATION.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX))
}

/// Returns how long the rest takes if `done_count` of `case_count` cases took `elapsed`.
fn remaining_duration(elapsed: Duration, done_count: usize, case_count: usize) -> Duration {
    let to_u32 = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let case_duration = elapsed.checked_div(to_u32(done_count)).unwrap_or_default();
    case_duration.saturating_mul(to_u32(case_count.saturating_sub(done_count)))
}

/// Returns a duration in whole seconds or minutes, rounded up.
fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs().saturating_add(1);
    if seconds < 100 {
        format!("{seconds} s")
    } else {
        format!("{} min", seconds.div_ceil(60))
    }
}

fn interrupted_error() -> Error {
    Error::new(ErrorKind::Interrupted, "interrupted before all cases ran")
}
