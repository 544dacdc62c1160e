//! Implements `massgen pipeline revert`, which removes the work of a role from a pipeline, and
//! `massgen pipeline reset`, which restarts a role in it.

use crate::cli::args::pipeline::RoleArguments;
use crate::cli::interrupts::runtime;
use crate::cli::output::CliOutput;
use crate::cli::pipeline::branches::short_id;
use crate::cli::pipeline::run::resolve_pipeline;
use crate::error::Result;
use crate::host::Host;
use crate::pipeline::repository::PipelineRepository;
use crate::text::{count_noun, escape_name, single_line};

/// Maximum length of a commit subject on one line, in characters.
const SUBJECT_CHARS_MAX: usize = 90;

/// Removes the merged work of a role.
pub(crate) fn revert(
    host: &Host,
    arguments: &RoleArguments,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let dir = resolve_pipeline(&arguments.run, host)?;
    let (name, role) = (dir.name(), &arguments.role);
    let reverted_merges = runtime()?.block_on(async {
        let repository = PipelineRepository::reopen(dir, &host.env).await?;
        repository.revert_role(role).await
    })?;
    if reverted_merges.is_empty() {
        output.note(&format!(
            "{name} has no merged work of {role}: nothing was changed"
        ));
        return Ok(());
    }
    for merge in &reverted_merges {
        let id = short_id(merge.id.as_str());
        let subject = escape_name(&single_line(merge.subject(), SUBJECT_CHARS_MAX));
        output.result(&format!("{id}  {subject}\n"))?;
    }
    let merges = count_noun(reverted_merges.len(), "merge");
    output.note(&format!("{merges} of {role} reverted in {name}"));
    Ok(())
}

/// Resets a role.
pub(crate) fn reset(
    host: &Host,
    arguments: &RoleArguments,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let dir = resolve_pipeline(&arguments.run, host)?;
    let (name, role) = (dir.name(), &arguments.role);
    runtime()?.block_on(async {
        let repository = PipelineRepository::reopen(dir, &host.env).await?;
        repository.reset_role(role).await
    })?;
    output.note(&format!("{role} was reset in {name}"));
    output.note(&format!("to resume: massgen --session-id {name}"));
    Ok(())
}
