//! Implements `massgen pipeline log`: prints one line per commit of a pipeline, newest first.

use serde_json::{Value, json};

use crate::cli::args::pipeline::PipelineArguments;
use crate::cli::output::{CliOutput, ReportFormat};
use crate::cli::pipeline::branches::short_id;
use crate::cli::pipeline::lookup::resolve_pipeline;
use crate::cli::run::runtime;
use crate::error::Result;
use crate::host::Host;
use crate::pipeline::inspect::{PipelineCommit, PipelineView};
use crate::roles::journal::JournalEntry;
use crate::text::{count_noun, escape_name, single_line};
use crate::world::git::hub::{ChangedFile, DiffStatus};
use crate::world::io::clock::LocalDateTime;

/// Maximum length of a commit subject on one line, in characters.
const SUBJECT_CHARS_MAX: usize = 90;
/// Maximum length of an author's name on one line, in characters.
const AUTHOR_CHARS_MAX: usize = 40;

/// Prints the commits.
pub(crate) fn show(
    host: &Host,
    arguments: &PipelineArguments,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let dir = resolve_pipeline(&arguments.run, host)?;
    let steps = runtime()?.block_on(async {
        let view = PipelineView::open(dir, &host.env).await?;
        view.commits().await
    })?;
    let width = steps
        .iter()
        .map(|step| author(step).chars().count())
        .max()
        .unwrap_or_default();
    for step in &steps {
        output.result(&match ReportFormat::from(arguments.json) {
            ReportFormat::Json => format!("{}\n", to_json(step)),
            ReportFormat::Text => to_text(step, width),
        })?;
        if output.is_closed() {
            break;
        }
    }
    Ok(())
}

fn to_text(step: &PipelineCommit, width: usize) -> String {
    let commit_time = LocalDateTime::from_unix_seconds(step.commit.committed_at);
    let when = commit_time.map_or_else(|| "-".to_owned(), |time| time.list_format());
    let iteration = step.iteration.map(|number| number.to_string());
    format!(
        "{}  {when:<19}  {:>3}  {:>10}  {:<width$}  {}\n",
        short_id(step.commit.id.as_str()),
        iteration.as_deref().unwrap_or("-"),
        count_noun(step.changed.len(), "file"),
        author(step),
        escape_name(&single_line(step.commit.subject(), SUBJECT_CHARS_MAX)),
    )
}

fn author(step: &PipelineCommit) -> String {
    escape_name(&single_line(&step.commit.author, AUTHOR_CHARS_MAX))
}

fn to_json(step: &PipelineCommit) -> Value {
    let commit = &step.commit;
    let entry = step.entry.as_ref();
    let parents = commit.parents.iter().map(ToString::to_string);
    let satisfied = match entry {
        Some(JournalEntry::Merge(merge)) => Some(merge.satisfied),
        Some(_) | None => None,
    };
    json!({
        "commit": commit.id.as_str(),
        "parents": parents.collect::<Vec<_>>(),
        "time": LocalDateTime::from_unix_seconds(commit.committed_at).map(|when| when.utc_format()),
        "event": entry.map(JournalEntry::event_name),
        "iteration": step.iteration,
        "role": entry.and_then(JournalEntry::role),
        "satisfied": satisfied,
        "author": commit.author,
        "subject": commit.subject(),
        "message": commit.message,
        "files": step.changed.iter().map(file_json).collect::<Vec<_>>(),
    })
}

fn file_json(file: &ChangedFile) -> Value {
    let status = match file.status {
        DiffStatus::Added => "added",
        DiffStatus::Removed => "removed",
        DiffStatus::Modified => "modified",
    };
    json!({"path": file.path, "how": status})
}
