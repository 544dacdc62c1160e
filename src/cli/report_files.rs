//! Files about a run for continuous integration: a summary in Markdown, and the checks in the format
//! of `JUnit`. They are written when the run has ended.

use std::time::Duration;

use crate::check_results::{CheckResult, CheckVerdict};
use crate::cli::args::RunArguments;
use crate::cli::result::{GivenAnswer, RunResult};
use crate::cli::result_builder::{ProcessEnd, ResultBuilder, RunStart};
use crate::error::{ExitStatus, Result};
use crate::event::{Event, RunEvent};
use crate::path::AbsPath;
use crate::text::truncate;
use crate::world::io::answer_file::AnswerFile;
use crate::world::io::files::read_regular_file;
use crate::world::io::project_link::UserLocation;
use crate::world::store::redact::Redactor;

/// Maximum length of the task in a summary, in characters.
const TASK_CHARS_MAX: usize = 500;
/// Maximum size of a summary that is appended to, in bytes.
const SUMMARY_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The files that a run writes about itself.
#[derive(Debug)]
pub(crate) struct ReportFiles {
    summary: Option<(AbsPath, AnswerFile)>,
    junit: Option<AnswerFile>,
}

impl ReportFiles {
    /// Checks the files that `arguments` name, before money is spent; `None` if there are none.
    pub(crate) fn new(
        arguments: &RunArguments,
        location: UserLocation<'_>,
    ) -> Result<Option<Self>> {
        let file = |name: &String| AnswerFile::new(location.base.join(name), location);
        let summary = arguments.summary_file.as_ref();
        let files = Self {
            summary: summary
                .map(|name| file(name).map(|file| (location.base.join(name), file)))
                .transpose()?,
            junit: arguments.junit_file.as_ref().map(file).transpose()?,
        };
        let has_files = files.summary.is_some() || files.junit.is_some();
        Ok(has_files.then_some(files))
    }

    /// Returns the report of a run, which has no events yet.
    pub(crate) fn begin(self, run_start: RunStart) -> RunReportFiles {
        RunReportFiles {
            files: self,
            builder: ResultBuilder::new(run_start),
            status: None,
            elapsed: Duration::ZERO,
        }
    }

    fn write(&self, result: &RunResult, redactor: &Redactor) -> Result<()> {
        if let Some((path, file)) = &self.summary {
            let earlier_text = read_regular_file(path, SUMMARY_BYTES_MAX)?.unwrap_or_default();
            let mut text = String::from_utf8_lossy(&earlier_text).into_owned();
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&redactor.text(&summary(result)));
            file.write(text.trim_end())?;
        }
        if let Some(file) = &self.junit {
            file.write(redactor.text(&junit(result)).trim_end())?;
        }
        Ok(())
    }
}

/// Collects the events of a run, and writes its files at the end.
#[derive(Debug)]
pub(crate) struct RunReportFiles {
    files: ReportFiles,
    builder: ResultBuilder,
    status: Option<ExitStatus>,
    elapsed: Duration,
}

impl RunReportFiles {
    /// Adds the next event.
    pub(crate) fn apply(&mut self, event: &Event, elapsed: Duration) {
        self.builder.apply(event);
        self.elapsed = elapsed;
        if let Event::Run(RunEvent::RunEnded { status, .. }) = event {
            self.status = Some(*status);
        }
    }

    /// Writes the files of a run that has ended.
    pub(crate) fn write(self, redactor: &Redactor) -> Result<()> {
        let Some(status) = self.status else {
            return Ok(());
        };
        let result = self.builder.build(&ProcessEnd {
            status,
            error: None,
            warnings: &[],
            elapsed: self.elapsed,
        });
        self.files.write(&result, redactor)
    }
}

/// Returns the summary of a run in Markdown.
fn summary(result: &RunResult) -> String {
    let task = result.task.as_deref().unwrap_or_default().trim();
    let quoted_task = truncate(task, TASK_CHARS_MAX).replace('\n', "\n> ");
    let mut parts = vec![format!(
        "## massgen: {}\n\n> {quoted_task}\n",
        result.summary
    )];
    parts.extend(result.winner.as_ref().map(|winner| {
        let reason = winner.reason.text();
        format!(
            "**Winner:** {} with {}: {reason}\n",
            winner.agent, winner.label
        )
    }));
    let error = result.error.iter();
    let reasons = error.flat_map(|error| error.caused_by.iter().chain(&error.hints));
    parts.extend(reasons.map(|reason| format!("- {reason}")));
    let answer = result.answer.as_ref();
    parts.extend(answer.map(|answer| format!("### Answer\n\n{}\n", answer.trim())));
    if !result.delivered_files.is_empty() {
        parts.push("### Files\n\n| file | outcome |\n|---|---|".to_owned());
        let rows = result.delivered_files.iter();
        parts.extend(rows.map(|row| format!("| {} | {} |", cell(&row.path), row.outcome.word())));
        parts.push("\n`massgen diff last` shows the changes.\n".to_owned());
    }
    let checks = checks(result).map(|(answer, check)| {
        let (name, verdict) = (cell(&check.check), check.verdict.word());
        format!("| {} | {name} | {verdict} |", answer.label)
    });
    let checks: Vec<String> = checks.collect();
    if !checks.is_empty() {
        parts.push("### Checks\n\n| answer | check | verdict |\n|---|---|---|".to_owned());
        parts.extend(checks);
    }
    let cost = result.cost_usd.map(|cost| format!("${cost}"));
    let (cost, requests) = (
        cost.unwrap_or("unknown".to_owned()),
        result.usage.total.requests,
    );
    let seconds = result.duration_ms / 1000;
    parts.push(format!("\nCost: {cost}; requests: {requests}; {seconds} s"));
    parts.join("\n")
}

/// Returns the checks of the answer that won, or of all answers if none did.
fn checks(result: &RunResult) -> impl Iterator<Item = (&GivenAnswer, &CheckResult)> {
    let winner = result.winner.as_ref().map(|winner| winner.label);
    let answers = result.answers.iter();
    let meant = answers.filter(move |answer| winner.is_none_or(|label| label == answer.label));
    meant.flat_map(|answer| {
        let results = answer.check_results.iter();
        results.flat_map(move |results| results.checks.iter().map(move |check| (answer, check)))
    })
}

/// Returns the checks in the format of `JUnit`, which most services show.
fn junit(result: &RunResult) -> String {
    let is_failure = |(_, check): &(&GivenAnswer, &CheckResult)| {
        matches!(check.verdict, CheckVerdict::Failed { .. })
    };
    let failures = checks(result).filter(is_failure).count();
    let cases: Vec<String> = checks(result).map(test_case).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"massgen checks\" tests=\"{}\" \
         failures=\"{failures}\">\n{}</testsuite>\n",
        cases.len(),
        cases.concat()
    )
}

fn test_case((answer, check): (&GivenAnswer, &CheckResult)) -> String {
    let (label, name) = (answer.label, attribute(&check.check));
    let (seconds, milliseconds) = (check.elapsed_ms / 1000, check.elapsed_ms % 1000);
    let detail = match &check.verdict {
        CheckVerdict::Passed => String::new(),
        CheckVerdict::Failed { failure } => {
            let (failure, tail) = (attribute(failure), attribute(&check.tail));
            format!("<failure message=\"{failure}\">{tail}</failure>")
        }
        CheckVerdict::NotRun { reason } => {
            format!("<skipped message=\"{}\"/>", attribute(reason))
        }
    };
    format!(
        "  <testcase classname=\"{label}\" name=\"{name}\" time=\"{seconds}.{milliseconds:03}\">\
         {detail}</testcase>\n"
    )
}

/// Returns `text` as code in a cell of a table.
fn cell(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|").replace(['\n', '`'], " "))
}

/// Returns `text` for an attribute or an element of XML, which has no control characters.
fn attribute(text: &str) -> String {
    let allowed: String = text
        .chars()
        .filter(|c| !c.is_control() || *c == '\n')
        .collect();
    let escaped = allowed.replace('&', "&amp;").replace('<', "&lt;");
    escaped.replace('>', "&gt;").replace('"', "&quot;")
}
