//! Owns `massgen log`: one line for each commit of a pipeline, newest first.

use serde_json::{Value, json};

use crate::cli::output::{Form, Output};
use crate::cli::pipeline::branches::DIGITS_SHOWN;
use crate::cli::pipeline::found::meant;
use crate::cli::pipeline_arguments::PipelineArguments;
use crate::cli::run::runtime;
use crate::error::Result;
use crate::host::Host;
use crate::pipeline::looking::{Look, Step};
use crate::roles::trail::Entry;
use crate::wording::{counted, one_line, spelled};
use crate::world::clock::Moment;
use crate::world::git::hub::{Changed, How};

/// The most of a subject that a line shows, in characters.
const SUBJECT_CHARS_MAX: usize = 90;
/// The most of an author's name that a line shows, in characters.
const AUTHOR_CHARS_MAX: usize = 40;

/// Shows what was committed.
pub(crate) fn show(host: &Host, asked: &PipelineArguments, output: &mut Output<'_>) -> Result<()> {
    let dir = meant(&asked.run, host)?;
    let steps = runtime()?.block_on(async {
        let look = Look::at(dir, &host.env).await?;
        look.steps().await
    })?;
    let width = steps.iter().map(|step| author(step).chars().count());
    let width = width.max().unwrap_or_default();
    for step in &steps {
        output.result(&match Form::from(asked.json) {
            Form::Json => format!("{}\n", for_scripts(step)),
            Form::Text => for_people(step, width),
        })?;
        if output.is_closed() {
            break;
        }
    }
    Ok(())
}

fn for_people(step: &Step, width: usize) -> String {
    let id = step.commit.id.as_str();
    let when = Moment::of_unix(step.commit.when);
    let when = when.map_or_else(|| "-".to_owned(), |when| when.for_lists());
    let iteration = step.iteration.map(|number| number.to_string());
    format!(
        "{}  {when:<19}  {:>3}  {:>10}  {:<width$}  {}\n",
        id.get(..DIGITS_SHOWN).unwrap_or(id),
        iteration.as_deref().unwrap_or("-"),
        counted(step.changed.len(), "file"),
        author(step),
        spelled(&one_line(step.commit.subject(), SUBJECT_CHARS_MAX)),
    )
}

fn author(step: &Step) -> String {
    spelled(&one_line(&step.commit.author, AUTHOR_CHARS_MAX))
}

fn for_scripts(step: &Step) -> Value {
    let commit = &step.commit;
    let entry = step.entry.as_ref();
    let parents = commit.parents.iter().map(ToString::to_string);
    let satisfied = match entry {
        Some(Entry::Merge(merge)) => Some(merge.satisfied),
        Some(_) | None => None,
    };
    json!({
        "commit": commit.id.as_str(),
        "parents": parents.collect::<Vec<_>>(),
        "time": Moment::of_unix(commit.when).map(|when| when.utc()),
        "event": entry.map(Entry::event),
        "iteration": step.iteration,
        "role": entry.and_then(Entry::role),
        "satisfied": satisfied,
        "author": commit.author,
        "subject": commit.subject(),
        "message": commit.message,
        "files": step.changed.iter().map(file).collect::<Vec<_>>(),
    })
}

fn file(changed: &Changed) -> Value {
    let how = match changed.how {
        How::Added => "added",
        How::Removed => "removed",
        How::Modified => "modified",
    };
    json!({"path": changed.path, "how": how})
}
