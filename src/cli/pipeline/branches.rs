//! Implements `massgen pipeline branches`: prints one line per branch of a pipeline, with its
//! newest commit and its distance from the shared branch.

use serde_json::json;

use crate::cli::args::pipeline::PipelineArguments;
use crate::cli::interrupts::runtime;
use crate::cli::output::{CliOutput, ReportFormat};
use crate::cli::pipeline::run::resolve_pipeline;
use crate::error::Result;
use crate::host::Host;
use crate::pipeline::inspect::{BranchStatus, PipelineView};
use crate::text::{escape_name, single_line};

/// Number of digits of a commit id that are shown.
const DIGITS_SHOWN: usize = 8;
/// Maximum length of a commit subject on one line, in characters.
const SUBJECT_CHARS_MAX: usize = 60;

/// Prints the branches.
pub(crate) fn show(
    host: &Host,
    arguments: &PipelineArguments,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let dir = resolve_pipeline(&arguments.run, host)?;
    let (view, branches) = runtime()?.block_on(async {
        let view = PipelineView::open(dir, &host.env).await?;
        let branches = view.branches().await?;
        Ok::<_, crate::error::Error>((view, branches))
    })?;
    let format = ReportFormat::from(arguments.json);
    let width = branches
        .iter()
        .map(|status| status.branch.to_string().len())
        .max()
        .unwrap_or_default();
    for branch in &branches {
        output.result(&match format {
            ReportFormat::Json => to_json(&view, branch),
            ReportFormat::Text => to_text(branch, width),
        })?;
    }
    if format == ReportFormat::Text {
        let (name, is_running) = (view.dir.name(), view.dir.is_running()?);
        let suffix = if is_running { ", which is running" } else { "" };
        let bare_repository = escape_name(&view.dir.bare_repository().to_string());
        output.note(&format!(
            "the repository of {name}{suffix}: {bare_repository}"
        ));
        let workspace = escape_name(&view.record.workspace.to_string());
        output.note(&format!("its checkouts: {workspace}"));
    }
    Ok(())
}

/// Returns the digits of a commit id that are shown.
pub(super) fn short_id(id: &str) -> &str {
    id.get(..DIGITS_SHOWN).unwrap_or(id)
}

fn to_text(status: &BranchStatus, width: usize) -> String {
    let distance = match (status.ahead, status.behind) {
        (0, 0) => "as main".to_owned(),
        (ahead, 0) => format!("{ahead} ahead"),
        (0, behind) => format!("{behind} behind"),
        (ahead, behind) => format!("{ahead} ahead, {behind} behind"),
    };
    let checkouts: Vec<String> = status
        .checkouts
        .iter()
        .map(|dir| escape_name(&dir.to_string()))
        .collect();
    format!(
        "{:<width$}  {}  {distance:<19}  {:<SUBJECT_CHARS_MAX$}  {}",
        status.branch.to_string(),
        short_id(status.tip.id.as_str()),
        escape_name(&single_line(status.tip.subject(), SUBJECT_CHARS_MAX)),
        checkouts.join("  "),
    )
    .trim_end()
    .to_owned()
        + "\n"
}

fn to_json(view: &PipelineView, status: &BranchStatus) -> String {
    let row = json!({
        "pipeline": view.dir.name(),
        "branch": status.branch.to_string(),
        "commit": status.tip.id.as_str(),
        "subject": status.tip.subject(),
        "author": status.tip.author,
        "ahead": status.ahead,
        "behind": status.behind,
        "checkouts": status.checkouts,
        "repository": view.dir.bare_repository(),
    });
    format!("{row}\n")
}
