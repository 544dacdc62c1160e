//! Owns how the outcome of a self test is shown: a table and every failure, or JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cli::output::{Output, Style};
use crate::cli::selftest::case::Case;
use crate::cli::selftest::trial::Verdict;
use crate::confinement::tier::{Enclosure, Tier};
use crate::error::Result;
use crate::wording::counted;

/// The version of the JSON form.
const SCHEMA_VERSION: u32 = 1;
/// The columns of the table after the first.
const COLUMNS: [&str; 5] = ["CASES", "HELD", "WORKED", "SKIPPED", "FAILED"];

/// What is told when there is no failure.
const CLEAN: &str = "nothing escaped, and nothing ordinary was refused";

/// What came of every case in one tier, or in containers.
#[derive(Debug)]
pub(super) struct Outcome<'a> {
    pub(super) enclosure: Enclosure,
    pub(super) verdicts: Vec<(&'a Case, Verdict)>,
}

/// How often each verdict came, as the columns of the table.
#[derive(Clone, Copy, Default)]
struct Counts([usize; COLUMNS.len()]);

impl Counts {
    fn add(&mut self, verdict: &Verdict) {
        let Self([cases, held, worked, skipped, failed]) = self;
        *cases += 1;
        *match verdict {
            Verdict::Held => held,
            Verdict::Worked => worked,
            Verdict::Skipped(_) => skipped,
            Verdict::Failed(_) => failed,
        } += 1;
    }

    fn of<'v>(verdicts: impl Iterator<Item = &'v Verdict>) -> Self {
        let mut counts = Self::default();
        verdicts.for_each(|verdict| counts.add(verdict));
        counts
    }

    fn line(self, name: &str, width: usize) -> String {
        let cells = self.0.iter().zip(COLUMNS);
        let cells = cells.map(|(count, title)| format!("  {count:>0$}", title.len()));
        format!("{name:<width$}{}", cells.collect::<String>())
    }
}

impl Outcome<'_> {
    /// The cases that did not come out as they should, with the reason.
    fn failures(&self) -> impl Iterator<Item = (&Case, &str)> {
        self.verdicts
            .iter()
            .filter_map(|(case, verdict)| match verdict {
                Verdict::Failed(why) => Some((*case, why.as_str())),
                Verdict::Held | Verdict::Worked | Verdict::Skipped(_) => None,
            })
    }

    /// Whether everything came out as it should.
    pub(super) fn is_clean(&self) -> bool {
        self.failures().next().is_none()
    }

    /// The table, what was skipped and why, and every failure.
    pub(super) fn show(&self, output: &mut Output<'_>) -> Result<()> {
        let mut classes: BTreeMap<&str, Counts> = BTreeMap::new();
        for (case, verdict) in &self.verdicts {
            classes.entry(&case.class).or_default().add(verdict);
        }
        let width = classes
            .keys()
            .map(|name| name.len())
            .max()
            .unwrap_or_default();
        let width = width.max(TOTAL.len());
        let name = self.enclosure.name();
        let title = match &self.enclosure {
            Enclosure::Sandbox { tier, .. } => format!("{name}: {}", tier.means()),
            Enclosure::Container { .. } => name,
        };
        output.result_line(&[(Style::Strong, &title)])?;
        let titles = COLUMNS.map(|title| format!("  {title}")).concat();
        output.result_line(&[(Style::Faint, &format!("{:<width$}{titles}", "CLASS"))])?;
        for (name, counts) in &classes {
            output.result_line(&[(Style::Plain, &counts.line(name, width))])?;
        }
        let all = Counts::of(self.verdicts.iter().map(|(_, verdict)| verdict));
        output.result_line(&[(Style::Strong, &all.line(TOTAL, width))])?;
        for (why, ids) in self.skipped() {
            let line = format!("skipped because {why}: {}", ids.join(", "));
            output.result_line(&[(Style::Faint, &line)])?;
        }
        for (case, why) in self.failures() {
            let head = format!("{} ({})", case.id, case.why);
            let pieces = [
                (Style::Bad, "failed "),
                (Style::Strong, &head),
                (Style::Plain, ": "),
            ];
            let [failed, head, colon] = pieces;
            output.result_line(&[failed, head, colon, (Style::Plain, why)])?;
        }
        match self.failures().count() {
            0 => output.result_line(&[(Style::Good, CLEAN)]),
            count => output.result_line(&[(Style::Bad, &counted(count, "failure"))]),
        }
    }

    fn skipped(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut skipped: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (case, verdict) in &self.verdicts {
            if let Verdict::Skipped(why) = verdict {
                skipped.entry(why).or_default().push(&case.id);
            }
        }
        skipped
    }

    fn to_json(&self) -> Value {
        let case = |(case, verdict): &(&Case, Verdict)| {
            let (verdict, why) = match verdict {
                Verdict::Held => ("held", None),
                Verdict::Worked => ("worked", None),
                Verdict::Skipped(why) => ("skipped", Some(why)),
                Verdict::Failed(why) => ("failed", Some(why)),
            };
            json!({
                "id": case.id, "class": case.class, "tries": case.why,
                "verdict": verdict, "reason": why,
            })
        };
        let cases: Vec<Value> = self.verdicts.iter().map(case).collect();
        let (held, by) = match &self.enclosure {
            Enclosure::Sandbox { tier, .. } => ("tier", json!(tier)),
            Enclosure::Container { image } => ("image", json!(image)),
        };
        json!({ held: by, "clean": self.is_clean(), "cases": cases })
    }
}

/// The name of the last row.
const TOTAL: &str = "all";

/// All outcomes, and the tiers that could not be tried with the reasons, as one line.
pub(super) fn to_json(outcomes: &[Outcome<'_>], without: &BTreeMap<Tier, String>) -> String {
    let without: Vec<Value> = without
        .iter()
        .map(|(tier, why)| json!({ "tier": tier, "reason": why }))
        .collect();
    let tiers: Vec<Value> = outcomes.iter().map(Outcome::to_json).collect();
    let all = json!({ "schema_version": SCHEMA_VERSION, "tiers": tiers, "not_tried": without });
    format!("{all}\n")
}
