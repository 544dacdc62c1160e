//! Implements `massgen pipeline log`: prints one line per commit of a pipeline, newest first.

use serde_json::{Value, json};

use crate::cli::args::pipeline::PipelineArguments;
use crate::cli::interrupts::runtime;
use crate::cli::output::{CliOutput, ReportFormat};
use crate::cli::pipeline::branches::short_id;
use crate::cli::pipeline::run::resolve_pipeline;
use crate::error::Result;
use crate::host::Host;
use crate::pipeline::inspect::{PipelineCommit, PipelineView};
use crate::roles::journal::JournalEntry;
use crate::text::{count_noun, escape_name, single_line};
use crate::world::git::bare_repository::{ChangedFile, DiffStatus};
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
    let commits = runtime()?.block_on(async {
        let view = PipelineView::open(dir, &host.env).await?;
        view.commits().await
    })?;
    let width = commits
        .iter()
        .map(|pipeline_commit| author(pipeline_commit).chars().count())
        .max()
        .unwrap_or_default();
    for pipeline_commit in &commits {
        output.result(&match ReportFormat::from(arguments.json) {
            ReportFormat::Json => format!("{}\n", to_json(pipeline_commit)),
            ReportFormat::Text => to_text(pipeline_commit, width),
        })?;
        if output.is_closed() {
            break;
        }
    }
    Ok(())
}

fn to_text(pipeline_commit: &PipelineCommit, width: usize) -> String {
    let commit_time = LocalDateTime::from_unix_seconds(pipeline_commit.commit.committed_at);
    let when = commit_time.map_or_else(|| "-".to_owned(), |time| time.list_format());
    let iteration = pipeline_commit.iteration.map(|number| number.to_string());
    format!(
        "{}  {when:<19}  {:>3}  {:>10}  {:<width$}  {}\n",
        short_id(pipeline_commit.commit.id.as_str()),
        iteration.as_deref().unwrap_or("-"),
        count_noun(pipeline_commit.changed.len(), "file"),
        author(pipeline_commit),
        escape_name(&single_line(
            pipeline_commit.commit.subject(),
            SUBJECT_CHARS_MAX
        )),
    )
}

fn author(pipeline_commit: &PipelineCommit) -> String {
    escape_name(&single_line(
        &pipeline_commit.commit.author,
        AUTHOR_CHARS_MAX,
    ))
}

fn to_json(pipeline_commit: &PipelineCommit) -> Value {
    let commit = &pipeline_commit.commit;
    let entry = pipeline_commit.entry.as_ref();
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
        "iteration": pipeline_commit.iteration,
        "role": entry.and_then(JournalEntry::role),
        "satisfied": satisfied,
        "author": commit.author,
        "subject": commit.subject(),
        "message": commit.message,
        "files": pipeline_commit.changed.iter().map(file_json).collect::<Vec<_>>(),
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
