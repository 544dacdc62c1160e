//! Findings of `massgen doctor`: a verdict with its cause and remedy, and how a list of them is
//! printed. It must never check anything itself.

use serde::Serialize;

use crate::cli::output::{CliOutput, ReportFormat, StyledPiece, TextStyle};
use crate::error::{Error, ExitStatus, Result};
use crate::text::count_noun;

/// Version of the JSON format.
const SCHEMA_VERSION: u32 = 1;

/// Verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FindingVerdict {
    /// Present and working.
    Ok,
    /// Not checked, and nothing depends on it.
    Skipped,
    /// A run works without it, less well.
    Warning,
    /// A run that needs it cannot work: it is missing, or not usable. Printed as `missing`.
    #[serde(rename = "missing")]
    Unusable,
}

/// Area of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DoctorArea {
    /// The team.
    Config,
    /// API keys of vendors.
    Keys,
    /// Endpoints of models.
    Endpoints,
    /// Git, the history of the user's files.
    Git,
    /// The terminal.
    Terminal,
    /// The disk.
    Disk,
    /// Sandboxes for commands.
    Sandbox,
    /// Programs that agents write.
    Programs,
    /// MCP servers.
    Servers,
    /// Containers for commands.
    Docker,
}

/// One finding about one subject.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DoctorFinding {
    area: DoctorArea,
    subject: String,
    verdict: FindingVerdict,
    message: String,
    remedy: Vec<String>,
}

impl FindingVerdict {
    fn name(self) -> &'static str {
        match self {
            FindingVerdict::Ok => "ok",
            FindingVerdict::Skipped => "skipped",
            FindingVerdict::Warning => "warning",
            FindingVerdict::Unusable => "missing",
        }
    }

    fn style(self) -> TextStyle {
        match self {
            FindingVerdict::Ok => TextStyle::Good,
            FindingVerdict::Skipped => TextStyle::Faint,
            FindingVerdict::Warning => TextStyle::Warn,
            FindingVerdict::Unusable => TextStyle::Bad,
        }
    }
}

impl DoctorArea {
    fn name(self) -> &'static str {
        match self {
            DoctorArea::Config => "config",
            DoctorArea::Keys => "keys",
            DoctorArea::Endpoints => "endpoints",
            DoctorArea::Git => "git",
            DoctorArea::Terminal => "terminal",
            DoctorArea::Disk => "disk",
            DoctorArea::Sandbox => "sandbox",
            DoctorArea::Programs => "programs",
            DoctorArea::Servers => "servers",
            DoctorArea::Docker => "docker",
        }
    }

    /// Creates a finding in this area.
    pub(crate) fn finding(
        self,
        verdict: FindingVerdict,
        subject: impl Into<String>,
        message: impl Into<String>,
    ) -> DoctorFinding {
        DoctorFinding {
            area: self,
            subject: subject.into(),
            verdict,
            message: message.into(),
            remedy: Vec::new(),
        }
    }

    /// Creates a finding for an error that would end a run.
    pub(crate) fn error_finding(self, subject: impl Into<String>, error: &Error) -> DoctorFinding {
        let finding = self.finding(FindingVerdict::Unusable, subject, format!("{error:#}"));
        error
            .hints()
            .iter()
            .fold(finding, DoctorFinding::with_remedy)
    }
}

impl DoctorFinding {
    /// Adds advice for the user.
    #[must_use]
    pub(crate) fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy.push(remedy.into());
        self
    }

    /// Returns whether it says the same about another subject.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        let area_and_verdict = |finding: &Self| (finding.area, finding.verdict);
        area_and_verdict(self) == area_and_verdict(other)
            && self.message == other.message
            && self.remedy == other.remedy
    }

    /// Changes the subject.
    #[must_use]
    pub(crate) fn with_subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = subject.into();
        self
    }

    /// Returns the verdict.
    pub(crate) fn verdict(&self) -> FindingVerdict {
        self.verdict
    }

    /// Lowers any problem to "skipped": the team does not need it.
    #[must_use]
    pub(crate) fn skipped_if_missing(mut self) -> Self {
        if self.verdict != FindingVerdict::Ok {
            self.verdict = FindingVerdict::Skipped;
        }
        self
    }

    /// Lowers a missing requirement to a warning: there is an alternative.
    #[must_use]
    pub(crate) fn warning_if_missing(mut self) -> Self {
        self.verdict = self.verdict.min(FindingVerdict::Warning);
        self
    }
}

/// Returns the exit status for these findings.
pub(crate) fn exit_status(findings: &[DoctorFinding]) -> ExitStatus {
    match worst_verdict(findings) {
        FindingVerdict::Unusable => ExitStatus::Environment,
        FindingVerdict::Ok | FindingVerdict::Skipped | FindingVerdict::Warning => {
            ExitStatus::Success
        }
    }
}

fn worst_verdict(findings: &[DoctorFinding]) -> FindingVerdict {
    let verdicts = findings.iter().map(DoctorFinding::verdict);
    verdicts.max().unwrap_or(FindingVerdict::Ok)
}

/// Prints all findings. `first_run` is the command for a machine that lacks nothing.
pub(crate) fn show(
    findings: &[DoctorFinding],
    first_run: &str,
    format: ReportFormat,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    match format {
        ReportFormat::Json => output.result(&to_json(findings, first_run)?),
        ReportFormat::Text => {
            for finding in findings {
                show_line(finding, output)?;
            }
            output.result(&summary(findings))?;
            output.result(&format!("next: {}\n", next_step(findings, first_run)))
        }
    }
}

fn to_json(findings: &[DoctorFinding], first_run: &str) -> Result<String> {
    let report = serde_json::json!({
        "schema_version": SCHEMA_VERSION,
        "verdict": worst_verdict(findings),
        "findings": findings,
        "next_step": next_step(findings, first_run),
    });
    let text = serde_json::to_string(&report)
        .map_err(|error| Error::bug(format!("no JSON of findings: {error}")))?;
    Ok(format!("{text}\n"))
}

/// Returns the one thing that the user should do next: the remedy of the first thing that is
/// missing, or else `first_run`.
fn next_step<'f>(findings: &'f [DoctorFinding], first_run: &'f str) -> &'f str {
    let mut missing = findings
        .iter()
        .filter(|finding| finding.verdict == FindingVerdict::Unusable);
    let remedy = missing.find_map(|finding| finding.remedy.first());
    remedy.map_or(first_run, String::as_str)
}

/// Prints one line in columns, and one line for each remedy below it.
fn show_line(finding: &DoctorFinding, output: &mut CliOutput<'_>) -> Result<()> {
    let verdict = format!("{:<8}", finding.verdict.name());
    let area = format!("{:<10}", finding.area.name());
    let subject = format!("{}: ", finding.subject);
    let pieces: [StyledPiece<'_>; 4] = [
        (finding.verdict.style(), &verdict),
        (TextStyle::Faint, &area),
        (TextStyle::Strong, &subject),
        (TextStyle::Plain, &finding.message),
    ];
    output.result_line(&pieces)?;
    for remedy in &finding.remedy {
        let indent = " ".repeat(verdict.len() + area.len());
        let pieces: [StyledPiece<'_>; 3] = [
            (TextStyle::Plain, &indent),
            (TextStyle::Good, "remedy: "),
            (TextStyle::Plain, remedy),
        ];
        output.result_line(&pieces)?;
    }
    Ok(())
}

fn summary(findings: &[DoctorFinding]) -> String {
    let count = |verdict| {
        findings
            .iter()
            .filter(|finding| finding.verdict == verdict)
            .count()
    };
    let warnings = count_noun(count(FindingVerdict::Warning), "warning");
    match count(FindingVerdict::Unusable) {
        0 => format!("\nnothing required is missing; {warnings}\n"),
        missing => format!(
            "\n{} missing; {warnings}\n",
            count_noun(missing, "needed thing")
        ),
    }
}
