//! Report of a self-test: a table and every failure, or JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cli::output::{CliOutput, StyledPiece, TextStyle};
use crate::cli::selftest::case::SelftestCase;
use crate::cli::selftest::case_runner::CaseVerdict;
use crate::error::Result;
use crate::sandbox_policy::sandbox_level::{ExecutionIsolation, SandboxLevel};
use crate::text::count_noun;

/// Version of the JSON format.
const SCHEMA_VERSION: u32 = 2;
/// The columns of the table after the first.
const COLUMNS: [&str; 5] = ["CASES", "HELD", "WORKED", "SKIPPED", "FAILED"];
/// Name of the last row.
const TOTAL: &str = "all";

/// Printed if there is no failure.
const NO_FAILURE_TEXT: &str = "no attack succeeded, and no ordinary work was refused";

/// Verdicts of all cases at one level, or in containers.
#[derive(Debug)]
pub(super) struct SelftestOutcome<'a> {
    pub(super) isolation: ExecutionIsolation,
    pub(super) verdicts: Vec<(&'a SelftestCase, CaseVerdict)>,
}

/// Number of cases and of each verdict, in the order of the table's columns.
#[derive(Clone, Copy, Default)]
struct VerdictCounts([usize; COLUMNS.len()]);

impl VerdictCounts {
    fn add(&mut self, verdict: &CaseVerdict) {
        let Self([cases, held, worked, skipped, failed]) = self;
        *cases += 1;
        *match verdict {
            CaseVerdict::Held => held,
            CaseVerdict::Worked => worked,
            CaseVerdict::Skipped(_) => skipped,
            CaseVerdict::Failed(_) => failed,
        } += 1;
    }

    fn from_verdicts<'v>(verdicts: impl Iterator<Item = &'v CaseVerdict>) -> Self {
        let mut counts = Self::default();
        verdicts.for_each(|verdict| counts.add(verdict));
        counts
    }

    fn table_line(self, name: &str, width: usize) -> String {
        let cells = self
            .0
            .iter()
            .zip(COLUMNS)
            .map(|(count, title)| format!("  {count:>0$}", title.len()));
        format!("{name:<width$}{}", cells.collect::<String>())
    }
}

impl SelftestOutcome<'_> {
    /// Returns the failed cases with their reasons.
    fn failures(&self) -> impl Iterator<Item = (&SelftestCase, &str)> {
        self.verdicts
            .iter()
            .filter_map(|(case, verdict)| match verdict {
                CaseVerdict::Failed(reason) => Some((*case, reason.as_str())),
                CaseVerdict::Held | CaseVerdict::Worked | CaseVerdict::Skipped(_) => None,
            })
    }

    /// Returns whether no case failed.
    pub(super) fn is_clean(&self) -> bool {
        self.failures().next().is_none()
    }

    /// Prints the table, the skipped cases with their reasons, and every failure.
    pub(super) fn show(&self, output: &mut CliOutput<'_>) -> Result<()> {
        let mut classes: BTreeMap<&str, VerdictCounts> = BTreeMap::new();
        for (case, verdict) in &self.verdicts {
            classes.entry(&case.class).or_default().add(verdict);
        }
        let width = classes
            .keys()
            .map(|name| name.len())
            .max()
            .unwrap_or_default()
            .max(TOTAL.len());
        let name = self.isolation.label();
        let title = match self.isolation.level() {
            Some(level) => format!("{name}: {}", level.description()),
            None => name,
        };
        output.result_line(&[(TextStyle::Strong, &title)])?;
        let titles = COLUMNS.map(|title| format!("  {title}")).concat();
        output.result_line(&[(TextStyle::Faint, &format!("{:<width$}{titles}", "CLASS"))])?;
        for (name, counts) in &classes {
            output.result_line(&[(TextStyle::Plain, &counts.table_line(name, width))])?;
        }
        let totals = VerdictCounts::from_verdicts(self.verdicts.iter().map(|(_, verdict)| verdict));
        output.result_line(&[(TextStyle::Strong, &totals.table_line(TOTAL, width))])?;
        for (reason, ids) in self.skipped_by_reason() {
            let line = format!("skipped because {reason}: {}", ids.join(", "));
            output.result_line(&[(TextStyle::Faint, &line)])?;
        }
        for (case, reason) in self.failures() {
            let head = format!("{} ({})", case.id, case.description);
            let pieces: [StyledPiece<'_>; 4] = [
                (TextStyle::Bad, "failed "),
                (TextStyle::Strong, &head),
                (TextStyle::Plain, ": "),
                (TextStyle::Plain, reason),
            ];
            output.result_line(&pieces)?;
        }
        match self.failures().count() {
            0 => output.result_line(&[(TextStyle::Good, NO_FAILURE_TEXT)]),
            count => output.result_line(&[(TextStyle::Bad, &count_noun(count, "failure"))]),
        }
    }

    /// Returns the ids of the skipped cases, by the reason.
    fn skipped_by_reason(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut cases_by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (case, verdict) in &self.verdicts {
            if let CaseVerdict::Skipped(reason) = verdict {
                cases_by_reason.entry(reason).or_default().push(&case.id);
            }
        }
        cases_by_reason
    }

    fn to_json(&self) -> Value {
        let case_json = |(case, verdict): &(&SelftestCase, CaseVerdict)| {
            let (verdict, reason) = match verdict {
                CaseVerdict::Held => ("held", None),
                CaseVerdict::Worked => ("worked", None),
                CaseVerdict::Skipped(reason) => ("skipped", Some(reason)),
                CaseVerdict::Failed(reason) => ("failed", Some(reason)),
            };
            json!({
                "id": case.id, "class": case.class, "tries": case.description,
                "verdict": verdict, "reason": reason,
            })
        };
        let cases: Vec<Value> = self.verdicts.iter().map(case_json).collect();
        // Containers have no level.
        let (key, value) = match self.isolation.level() {
            Some(level) => ("level", json!(level)),
            None => ("image", json!(self.isolation.image())),
        };
        json!({ key: value, "clean": self.is_clean(), "cases": cases })
    }
}

/// Formats all outcomes, and the levels that could not be tested with the reasons, as one line.
pub(super) fn to_json(
    outcomes: &[SelftestOutcome<'_>],
    untested_levels: &BTreeMap<SandboxLevel, String>,
) -> String {
    let untested_levels: Vec<Value> = untested_levels
        .iter()
        .map(|(level, reason)| json!({ "level": level, "reason": reason }))
        .collect();
    let levels: Vec<Value> = outcomes.iter().map(SelftestOutcome::to_json).collect();
    let report =
        json!({ "schema_version": SCHEMA_VERSION, "levels": levels, "not_tried": untested_levels });
    format!("{report}\n")
}
