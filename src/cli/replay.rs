//! Implements `massgen replay`: replays a recorded run and reports whether it is the same.

use serde_json::json;

use crate::cli::args::ReplayArguments;
use crate::cli::interrupts::{listen, runtime};
use crate::cli::logs::find_run;
use crate::cli::output::{CliOutput, ReportFormat};
use crate::cli::render::event_lines::event_line;
use crate::cli::run_context::host_environment;
use crate::config::storage_path::STATE_DIR;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::event::{CoordinationEvent, DeliveryEvent, Event, RunEvent};
use crate::host::Host;
use crate::orchestrator::execution::ShutdownSignal;
use crate::path::AbsPath;
use crate::replay::compare::{ComparedEvent, ReplayDifference};
use crate::replay::record::RecordedRun;
use crate::replay::{ReplayOutcome, play};
use crate::text::{count_noun, join_with_commas, single_line};

/// Maximum length of each side of a difference that is shown, in characters.
const SIDE_CHARS_MAX: usize = 240;
/// Length of the common text that is shown before a difference, in characters.
const SHARED_CHARS_SHOWN: usize = 40;

/// Report of a replay.
struct ReplayReport<'a> {
    run: String,
    is_complete: bool,
    notes: Vec<String>,
    compared_count: usize,
    difference: Option<&'a ReplayDifference>,
    kept_dir: Option<AbsPath>,
}

/// Replays a run and compares it with its record. The exit status is 1 if they differ.
pub(crate) fn run(
    host: &Host,
    arguments: &ReplayArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let run = find_run(&arguments.run, host)?;
    let record = RecordedRun::read(&run, host.home.as_ref(), &host.cwd, &host.policy)?;
    let notes = record.notes.clone();
    for note in &notes {
        output.warning(note);
    }
    let is_complete = record.plan.is_complete;
    let ReplayOutcome {
        compared,
        difference,
        scratch,
    } = runtime()?.block_on(play_or_stop(record, host))?;
    let report = ReplayReport {
        run: run.name(),
        is_complete,
        notes,
        compared_count: compared,
        difference: difference.as_ref(),
        kept_dir: arguments.keep.then(|| scratch.keep()),
    };
    output.result(&match ReportFormat::from(arguments.json) {
        ReportFormat::Json => report.to_json(),
        ReportFormat::Text => report.to_text(),
    })?;
    Ok(match difference {
        None => ExitStatus::Success,
        Some(_) => ExitStatus::Failure,
    })
}

/// Replays `record` unless the user interrupts it.
async fn play_or_stop(record: RecordedRun, host: &Host) -> Result<ReplayOutcome> {
    let state = host.state_parent.join(STATE_DIR);
    let user_stop = listen(host.hangup)?;
    // The record may end the run too, which is not an interruption.
    let stop = ShutdownSignal {
        graceful: user_stop.graceful.child_token(),
        immediate: user_stop.immediate,
        park: user_stop.park,
    };
    let outcome = Box::pin(play(record, &state, host_environment(host), stop)).await?;
    if user_stop.graceful.is_cancelled() {
        return Err(Error::new(
            ErrorKind::Interrupted,
            "the replay was interrupted",
        ));
    }
    Ok(outcome)
}

impl ReplayReport<'_> {
    fn to_json(&self) -> String {
        let report = json!({
            "run": self.run,
            "same": self.difference.is_none(),
            "complete": self.is_complete,
            "compared": self.compared_count,
            "difference": self.difference,
            "notes": self.notes,
            "kept": self.kept_dir.as_ref().map(ToString::to_string),
        });
        format!("{report}\n")
    }

    fn to_text(&self) -> String {
        let report = match self.difference {
            None => format!(
                "same: {} as recorded\n",
                count_noun(self.compared_count, "event")
            ),
            Some(difference) => {
                let (recorded, replayed) = difference_sides(difference);
                format!(
                    "different at event {} of {}\n  recorded: {recorded}\n  replayed: {replayed}\n",
                    difference.event_number, self.compared_count
                )
            }
        };
        match &self.kept_dir {
            Some(directory) => format!("{report}kept: {directory}\n"),
            None => report,
        }
    }
}

/// Returns both sides of a difference; long ones begin a little before they differ.
fn difference_sides(difference: &ReplayDifference) -> (String, String) {
    let side = |compared: &Option<ComparedEvent>| {
        let description = compared.as_ref().map(describe_event);
        single_line(
            &description.unwrap_or_else(|| "nothing more".to_owned()),
            usize::MAX,
        )
    };
    let (recorded, replayed) = (side(&difference.recorded), side(&difference.replayed));
    let chars = recorded.chars().zip(replayed.chars());
    let shared_chars = chars.take_while(|(a, b)| a == b).count();
    let skipped_chars = match shared_chars.checked_sub(SHARED_CHARS_SHOWN) {
        Some(skipped_chars)
            if recorded.chars().count().max(replayed.chars().count()) > SIDE_CHARS_MAX =>
        {
            skipped_chars
        }
        _ => 0,
    };
    let excerpt = |text: &str| {
        let mark = if skipped_chars > 0 { "…" } else { "" };
        let tail: String = text.chars().skip(skipped_chars).collect();
        single_line(&format!("{mark}{tail}"), SIDE_CHARS_MAX)
    };
    (excerpt(&recorded), excerpt(&replayed))
}

/// Describes an event of a comparison in a sentence.
fn describe_event(compared: &ComparedEvent) -> String {
    let event = &compared.event;
    let mut text = match (event_line(event), event.agent()) {
        (Some(line), Some(agent)) => format!("{agent} {} {}", line.verb, line.rest),
        _ => describe_outcome(event),
    };
    if let Event::Coordination(CoordinationEvent::Answered { content, .. }) = event {
        text = format!("{text} {content}");
    }
    if compared.shown.is_empty() {
        text
    } else {
        format!(
            "{text} (after it saw {})",
            join_with_commas(&compared.shown)
        )
    }
}

/// Describes an event that concerns the whole run in a sentence.
fn describe_outcome(event: &Event) -> String {
    if let Event::Run(RunEvent::RunStarted { agents, .. }) = event {
        format!("the coordination of {} starts", join_with_commas(agents))
    } else if let Event::Coordination(CoordinationEvent::VotesVoided { voters, .. }) = event {
        format!("the votes of {} are void", join_with_commas(voters))
    } else if let Event::Coordination(CoordinationEvent::WinnerSelected {
        agent,
        label,
        votes,
        ..
    }) = event
    {
        let votes: Vec<String> = votes
            .iter()
            .map(|(agent, count)| format!("{agent} {count}"))
            .collect();
        format!("{agent} wins with {label} (votes: {})", votes.join(", "))
    } else if let Event::Delivery(DeliveryEvent::FinalAnswer { agent, content }) = event {
        format!("{agent} gives the final answer: {content}")
    } else if let Event::Run(RunEvent::CoordinationRestarted { reason, .. }) = event {
        format!("all agents start again: {reason}")
    } else {
        // Of the events that are compared, only this one is left.
        "coordination stops early".to_owned()
    }
}
