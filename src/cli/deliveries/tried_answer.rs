//! Finds the answer of a run on which `massgen sandbox --answer` runs a command.

use serde_json::json;

use crate::answer_changes::ChangeLayers;
use crate::cli::command_line::usage_error;
use crate::cli::deliveries::run_answers::RunAnswers;
use crate::cli::grants_file::GrantsFile;
use crate::cli::logs;
use crate::error::Result;
use crate::host::Host;
use crate::id::{AgentId, AnswerLabel};
use crate::path::AbsPath;

/// An answer that was made in an attempt.
#[derive(Debug)]
pub(crate) struct TriedAnswer {
    /// Who gave it.
    pub agent: AgentId,
    /// What it changes in the user's paths.
    pub layers: ChangeLayers,
}

impl TriedAnswer {
    /// Returns the directory in which a command on it starts: `cwd`, or the first of the paths that
    /// it changes if `cwd` is in none of them.
    pub(crate) fn start_directory(&self, cwd: &AbsPath) -> AbsPath {
        let mut roots = self.layers.0.iter().map(|layer| &layer.root);
        let first = roots.clone().next().unwrap_or(cwd);
        let is_inside = roots.any(|root| cwd.is_within(root));
        if is_inside { cwd } else { first }.clone()
    }

    /// Returns grants for the paths that it changes, for a user without a config.
    ///
    /// # Errors
    /// One of them does not exist.
    pub(crate) fn grants(&self, host: &Host) -> Result<GrantsFile> {
        let roots = self.layers.0.iter().map(|layer| layer.root.to_string());
        let paths: Vec<_> = roots
            .map(|root| json!({"path": root, "permission": "write"}))
            .collect();
        let grants = json!({"context_paths": paths}).to_string();
        GrantsFile::parse(&grants, host)
    }
}

/// Finds the answer that `name` selects: `RUN/agent2.1`, or `RUN` for the one that won.
///
/// # Errors
/// There is none, or its files are a copy of a workspace.
pub(crate) fn find_answer(name: &str, host: &Host) -> Result<TriedAnswer> {
    let (run_name, label) = match name.split_once('/') {
        Some((run_name, label)) => (run_name, Some(label)),
        None => (name, None),
    };
    let label = label.map(|label| AnswerLabel::try_from(label.to_owned()));
    let label = label
        .transpose()
        .map_err(|error| usage_error(error.to_string()))?;
    let run = logs::find_run(run_name, host)?;
    let answers = RunAnswers::read(&run)?;
    let hint = || format!("the answers: {}", answers.labels());
    let Some(label) = label.or(answers.winner) else {
        let message = format!("no answer of `{run_name}` has won");
        return Err(usage_error(message).with_hint(hint()));
    };
    let Some(answer) = answers.last(|answer| answer.label == label) else {
        let message = format!("no answer `{label}` in `{run_name}`");
        return Err(usage_error(message).with_hint(hint()));
    };
    let agent = answer.agent.clone();
    let Some(changes) = &answer.changes else {
        let message = format!("{label} was not made in an attempt");
        return Err(usage_error(message).with_hint(format!(
            "`massgen diff {run_name} --agent {agent}` shows its files"
        )));
    };
    Ok(TriedAnswer {
        agent,
        layers: changes.layers.clone(),
    })
}
