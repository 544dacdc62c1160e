//! Owns what a script is told in JSON: every event as a line when it happens, if it asked for a
//! stream, and in any case, once and last, the result. Everything passes the redactor of the log.

use std::time::Duration;

use serde::Serialize;

use crate::cli::format::OutputFormat;
use crate::cli::output::CliOutput;
use crate::cli::result_builder::{ProcessEnd, ResultBuilder, RunStart};
use crate::error::{Error, ExitStatus, Result};
use crate::event::{CoordinationEvent, Event, RunEvent};
use crate::world::clock::{self, Stopwatch};
use crate::world::event_sink::EventSink;
use crate::world::store::json_line::JsonLine;
use crate::world::store::redact::Redactor;
use crate::world::store::stream_redactor::AgentStreamRedactor;

/// How much a script is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportExtent {
    /// The result.
    Result,
    /// Every event, and then the result.
    Everything,
}

/// What a script is told of one process, from its start to its end.
#[derive(Debug)]
pub(crate) struct JsonReport {
    extent: ReportExtent,
    since_start: Stopwatch,
    /// How many lines there are.
    lines: u64,
    redactor: Redactor,
    speeches: AgentStreamRedactor,
    result_builder: ResultBuilder,
}

impl JsonReport {
    /// The report that `format` asks for, if it asks for one. The process begins now.
    pub(crate) fn new(format: OutputFormat) -> Option<Self> {
        let extent = match format {
            OutputFormat::Text => return None,
            OutputFormat::Json => ReportExtent::Result,
            OutputFormat::StreamJson => ReportExtent::Everything,
        };
        Some(Self {
            extent,
            since_start: Stopwatch::start(),
            lines: 0,
            redactor: Redactor::default(),
            speeches: AgentStreamRedactor::default(),
            result_builder: ResultBuilder::default(),
        })
    }

    /// A run is about to begin; from now on nothing is told that `redactor` knows.
    pub(crate) fn begin(
        &mut self,
        begun: RunStart,
        redactor: Redactor,
        output: &mut CliOutput<'_>,
    ) -> Result<()> {
        self.speeches = AgentStreamRedactor::new(redactor.clone());
        self.redactor = redactor;
        self.result_builder = ResultBuilder::new(begun);
        let warned = output.warned().to_vec();
        warned
            .into_iter()
            .try_for_each(|message| self.write_event(&RunEvent::Warning { message }.into(), output))
    }

    /// Tells the next event; what ends nothing but should be known is also a warning for people.
    pub(crate) fn on_event(&mut self, event: &Event, output: &mut CliOutput<'_>) -> Result<()> {
        self.result_builder.apply(event);
        if let Some(warning) = event_warning(event) {
            output.warning(&warning);
        }
        if self.extent == ReportExtent::Result {
            return Ok(());
        }
        let pieces = self.speeches.apply(event);
        let told = pieces
            .iter()
            .try_for_each(|piece| self.write_event(piece, output));
        if event.is_streamed() {
            told
        } else {
            told.and(self.write_event(&event.without_log_fields(), output))
        }
    }

    /// Tells how the process ends: with `status`, and because of `error` if there is one.
    pub(crate) fn end(
        mut self,
        status: ExitStatus,
        error: Option<&Error>,
        output: &mut CliOutput<'_>,
    ) -> Result<()> {
        let left = self.speeches.end_all();
        let told = left
            .iter()
            .try_for_each(|piece| self.write_event(piece, output));
        let gathered = std::mem::take(&mut self.result_builder);
        let result = gathered.build(&ProcessEnd {
            status,
            error,
            warnings: output.warned(),
            elapsed: self.since_start.elapsed(),
        });
        told.and(self.line(&result, output))
    }

    fn write_event(&mut self, event: &Event, output: &mut CliOutput<'_>) -> Result<()> {
        match self.extent {
            ReportExtent::Result => Ok(()),
            ReportExtent::Everything => self.line(event, output),
        }
    }

    fn line(&mut self, told: &impl Serialize, output: &mut CliOutput<'_>) -> Result<()> {
        self.lines = self.lines.saturating_add(1);
        let line = JsonLine::new(self.lines, &clock::now(), told, &self.redactor)?;
        output.result(&format!("{}\n", line.text()?))
    }
}

/// The report of a run as a sink.
#[derive(Debug)]
pub(crate) struct JsonEvents<'o, 'w> {
    report: &'o mut JsonReport,
    output: &'o mut CliOutput<'w>,
}

impl<'o, 'w> JsonEvents<'o, 'w> {
    /// Reports to `output`.
    pub(crate) fn new(report: &'o mut JsonReport, output: &'o mut CliOutput<'w>) -> Self {
        Self { report, output }
    }
}

impl EventSink for JsonEvents<'_, '_> {
    fn on_event(&mut self, event: &Event, _elapsed: Duration) -> Result<()> {
        self.report.on_event(event, self.output)
    }
}

/// What a person should know of `event` although it ends nothing.
pub(crate) fn event_warning(event: &Event) -> Option<String> {
    if let Event::Run(RunEvent::Warning { message }) = event {
        Some(message.clone())
    } else if let Event::Coordination(CoordinationEvent::DroppedOut { agent, reason, .. }) = event {
        Some(format!("{agent} drops out: {reason}"))
    } else if let Event::Run(RunEvent::LimitMet { agent, limit }) = event {
        Some(match agent {
            Some(agent) => format!("{agent} meets its limit: {limit}"),
            None => limit.clone(),
        })
    } else {
        None
    }
}
