//! JSON output for scripts: every event as a line when it happens, if a stream was requested, and
//! in any case the result, once and last. Everything passes the redactor of the log.

use serde::Serialize;

use crate::cli::format::OutputFormat;
use crate::cli::output::CliOutput;
use crate::cli::result_builder::{ProcessEnd, ResultBuilder, RunStart};
use crate::cli::run_frontend::Decider;
use crate::cli::run_frontend::RunFrontend;
use crate::error::{Error, ExitStatus, Result};
use crate::event::{CoordinationEvent, DeliveryEvent, Event, RunEvent};
use crate::world::io::clock::{self, Stopwatch};
use crate::world::store::json_line::JsonLine;
use crate::world::store::redact::Redactor;
use crate::world::store::stream_redactor::AgentStreamRedactor;

/// The JSON output of one process, from its start to its end.
#[derive(Debug)]
pub(crate) struct JsonReport {
    /// Whether every event is written, or only the result.
    has_events: bool,
    since_start: Stopwatch,
    /// Number of lines written so far.
    line_count: u64,
    redactor: Redactor,
    stream_redactor: AgentStreamRedactor,
    result_builder: ResultBuilder,
}

impl JsonReport {
    /// Creates the report that `format` asks for, if any, and starts its stopwatch.
    pub(crate) fn new(format: OutputFormat) -> Option<Self> {
        let has_events = match format {
            OutputFormat::Text => return None,
            OutputFormat::Json => false,
            OutputFormat::StreamJson => true,
        };
        Some(Self {
            has_events,
            since_start: Stopwatch::start(),
            line_count: 0,
            redactor: Redactor::default(),
            stream_redactor: AgentStreamRedactor::default(),
            result_builder: ResultBuilder::default(),
        })
    }

    /// Writes the result: the exit `status`, and `error` if there is one.
    pub(crate) fn end(
        mut self,
        status: ExitStatus,
        error: Option<&Error>,
        output: &mut CliOutput<'_>,
    ) -> Result<()> {
        let last_pieces = self.stream_redactor.end_all();
        let write_result = last_pieces
            .iter()
            .try_for_each(|piece| self.write_event(piece, output));
        let result = self.result_builder.build(&ProcessEnd {
            status,
            error,
            warnings: output.warnings(),
            elapsed: self.since_start.elapsed(),
        });
        write_result.and(self.write_line(&result, output))
    }

    fn write_event(&mut self, event: &Event, output: &mut CliOutput<'_>) -> Result<()> {
        if self.has_events {
            self.write_line(event, output)?;
        }
        Ok(())
    }

    fn write_line(&mut self, event: &impl Serialize, output: &mut CliOutput<'_>) -> Result<()> {
        self.line_count = self.line_count.saturating_add(1);
        let line = JsonLine::new(self.line_count, &clock::now(), event, &self.redactor)?;
        output.result(&format!("{}\n", line.text()?))
    }
}

impl RunFrontend for JsonReport {
    fn begin(
        &mut self,
        run_start: RunStart,
        redactor: Redactor,
        output: &mut CliOutput<'_>,
    ) -> Result<()> {
        self.stream_redactor = AgentStreamRedactor::new(redactor.clone());
        self.redactor = redactor;
        self.result_builder = ResultBuilder::new(run_start);
        let earlier_warnings = output.warnings().to_vec();
        earlier_warnings
            .into_iter()
            .try_for_each(|message| self.write_event(&RunEvent::Warning { message }.into(), output))
    }

    fn on_event(&mut self, event: &Event, output: &mut CliOutput<'_>) -> Result<()> {
        self.result_builder.apply(event);
        if !self.has_events {
            return Ok(());
        }
        let pieces = self.stream_redactor.apply(event);
        let result = pieces
            .iter()
            .try_for_each(|piece| self.write_event(piece, output));
        if event.is_streamed() {
            result
        } else {
            result.and(self.write_event(&event.without_log_fields(), output))
        }
    }

    fn decider(&self) -> Decider {
        Decider::Config
    }
}

/// Returns the warning about an event that does not end the run but that the user should know.
pub(crate) fn event_warning(event: &Event) -> Option<String> {
    if let Event::Run(RunEvent::Warning { message }) = event {
        Some(message.clone())
    } else if let Event::Coordination(CoordinationEvent::DroppedOut { agent, reason, .. }) = event {
        Some(format!("{agent} drops out: {reason}"))
    } else if let Event::Delivery(DeliveryEvent::AnswerKept { agent, reason }) = event {
        Some(format!(
            "{agent} keeps the answer that was voted on: {reason}"
        ))
    } else if let Event::Run(RunEvent::LimitMet { agent, limit }) = event {
        Some(match agent {
            Some(agent) => format!("{agent} reached its limit: {limit}"),
            None => limit.clone(),
        })
    } else {
        None
    }
}
