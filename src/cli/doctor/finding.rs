//! Owns what a look at the machine comes to: a verdict with its cause and its remedy, and how a
//! list of them is shown. It must never look at anything itself.

use serde::Serialize;

use crate::cli::output::{Form, Output, Piece, Style};
use crate::error::{Error, ExitStatus, Result};
use crate::wording::counted;

/// The version of the JSON form.
const SCHEMA_VERSION: u32 = 1;

/// How good something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// It is there and works.
    Ok,
    /// Nobody looked, and nothing depends on it.
    Skipped,
    /// A run goes without it, less well.
    Warning,
    /// A run needs it.
    Missing,
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Area {
    /// The team.
    Config,
    /// What shows vendors who asks.
    Keys,
    /// Where models are asked.
    Endpoints,
    /// The history of the user's files.
    Git,
    /// Where a run is shown.
    Terminal,
    /// Where a run is kept.
    Disk,
    /// What could confine commands.
    Sandbox,
    /// What could run programs.
    Programs,
    /// What gives agents further tools.
    Servers,
    /// What could contain commands.
    Docker,
}

/// What was found about one thing.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    area: Area,
    subject: String,
    verdict: Verdict,
    message: String,
    remedy: Vec<String>,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Skipped => "skipped",
            Verdict::Warning => "warning",
            Verdict::Missing => "missing",
        }
    }

    fn style(self) -> Style {
        match self {
            Verdict::Ok => Style::Good,
            Verdict::Skipped => Style::Faint,
            Verdict::Warning => Style::Warn,
            Verdict::Missing => Style::Bad,
        }
    }
}

impl Area {
    fn word(self) -> &'static str {
        match self {
            Area::Config => "config",
            Area::Keys => "keys",
            Area::Endpoints => "endpoints",
            Area::Git => "git",
            Area::Terminal => "terminal",
            Area::Disk => "disk",
            Area::Sandbox => "sandbox",
            Area::Programs => "programs",
            Area::Servers => "servers",
            Area::Docker => "docker",
        }
    }

    /// A finding about a thing of this area.
    pub(crate) fn finds(
        self,
        verdict: Verdict,
        subject: impl Into<String>,
        message: impl Into<String>,
    ) -> Finding {
        Finding {
            area: self,
            subject: subject.into(),
            verdict,
            message: message.into(),
            remedy: Vec::new(),
        }
    }

    /// An error that a run would end with.
    pub(crate) fn lacks(self, subject: impl Into<String>, error: &Error) -> Finding {
        let finding = self.finds(Verdict::Missing, subject, format!("{error:#}"));
        error.hints().iter().fold(finding, Finding::remedy)
    }
}

impl Finding {
    /// Adds what the user can do.
    #[must_use]
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy.push(remedy.into());
        self
    }

    /// The verdict.
    pub(crate) fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// The same for those who look around: nothing that anybody has asked for needs it.
    #[must_use]
    pub(crate) fn not_asked_for(mut self) -> Self {
        if self.verdict != Verdict::Ok {
            self.verdict = Verdict::Skipped;
        }
        self
    }

    /// The same with less weight: something else does instead.
    #[must_use]
    pub(crate) fn not_needed(mut self) -> Self {
        self.verdict = self.verdict.min(Verdict::Warning);
        self
    }
}

/// How the process ends after these findings.
pub(crate) fn exit_status(findings: &[Finding]) -> ExitStatus {
    match worst(findings) {
        Verdict::Missing => ExitStatus::Environment,
        Verdict::Ok | Verdict::Skipped | Verdict::Warning => ExitStatus::Delivered,
    }
}

fn worst(findings: &[Finding]) -> Verdict {
    let verdicts = findings.iter().map(Finding::verdict);
    verdicts.max().unwrap_or(Verdict::Ok)
}

/// Prints all findings.
pub(crate) fn show(findings: &[Finding], form: Form, output: &mut Output<'_>) -> Result<()> {
    match form {
        Form::Json => output.result(&json(findings)?),
        Form::Text => {
            for finding in findings {
                line(finding, output)?;
            }
            output.result(&summary(findings))
        }
    }
}

fn json(findings: &[Finding]) -> Result<String> {
    let all = serde_json::json!({
        "schema_version": SCHEMA_VERSION,
        "verdict": worst(findings),
        "findings": findings,
    });
    let text = serde_json::to_string(&all);
    let text = text.map_err(|error| Error::bug(format!("no JSON of findings: {error}")))?;
    Ok(format!("{text}\n"))
}

/// One line in columns, and one for each remedy below it.
fn line(finding: &Finding, output: &mut Output<'_>) -> Result<()> {
    let verdict = format!("{:<8}", finding.verdict.word());
    let area = format!("{:<10}", finding.area.word());
    let subject = format!("{}: ", finding.subject);
    let pieces: [Piece<'_>; 4] = [
        (finding.verdict.style(), &verdict),
        (Style::Faint, &area),
        (Style::Strong, &subject),
        (Style::Plain, &finding.message),
    ];
    output.result_line(&pieces)?;
    for remedy in &finding.remedy {
        let indent = " ".repeat(verdict.len() + area.len());
        let pieces: [Piece<'_>; 3] = [
            (Style::Plain, &indent),
            (Style::Good, "remedy: "),
            (Style::Plain, remedy),
        ];
        output.result_line(&pieces)?;
    }
    Ok(())
}

fn summary(findings: &[Finding]) -> String {
    let count = |verdict| {
        findings
            .iter()
            .filter(|found| found.verdict == verdict)
            .count()
    };
    let warnings = counted(count(Verdict::Warning), "warning");
    match count(Verdict::Missing) {
        0 => format!("\nall that is needed is there; {warnings}\n"),
        missing => format!(
            "\n{} missing; {warnings}\n",
            counted(missing, "needed thing")
        ),
    }
}
