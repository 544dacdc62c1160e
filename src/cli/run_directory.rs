//! Asks before a single run on a terminal whether the current directory, or another one, is opened
//! to the agents, as a session does.

use tokio_util::sync::CancellationToken;

use crate::cli::args::RunArguments;
use crate::cli::deliveries::interactive_review::TerminalLines;
use crate::cli::directory_question::{
    DIRECTORY_QUESTION, DirectoryAnswer, EXPECTED_ANSWERS, PATH_QUESTION, PERMISSION_QUESTION,
    PROTECTED_PATHS_QUESTION, confirmation, directory_breadth_reason, directory_obstacle,
    parse_answer, parse_permission, parse_protected_paths, question_lines, resolve_typed_path,
};
use crate::cli::interrupts::interrupted_before_run;
use crate::cli::output::{CliOutput, TextStyle};
use crate::cli::run_context::{PreparedRun, connect_all};
use crate::config::ContextPath;
use crate::error::Result;
use crate::host::Host;
use crate::mentions::opened_paths::open_path;
use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::Permission;
use crate::world::io::files::inspect;
use crate::world::store::sessions;

/// What the user decided about the current directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryDecision {
    /// Nothing had to be asked, or a directory was opened.
    NotDeclined,
    /// The current directory stays closed, which the session remembers.
    Declined,
}

/// Asks about the current directory if the agents of `prepared` have files and nothing is open to
/// them. It asks only if every model can be used.
pub(crate) fn ask_about_directory(
    prepared: &mut PreparedRun,
    arguments: &RunArguments,
    stop: &CancellationToken,
    output: &mut CliOutput<'_>,
) -> Result<DirectoryDecision> {
    let (config, host) = (&prepared.team.config, &prepared.team.host);
    let has_files = config.agents.iter().any(|agent| agent.cwd.is_some());
    let is_open =
        !prepared.opened_paths.is_empty() || !config.orchestrator.context_paths.is_empty();
    let was_declined = prepared
        .continued_session
        .as_ref()
        .is_some_and(|session| session.session_dir.is_directory_declined(&host.cwd));
    let (is_pipeline, asks_nothing) = (config.workflow.is_some(), arguments.delivery.yes);
    let is_too_broad = directory_breadth_reason(&host.cwd, host).is_some();
    if !has_files || is_open || was_declined || is_pipeline || asks_nothing || is_too_broad {
        return Ok(DirectoryDecision::NotDeclined);
    }
    // Only an error matters: massgen asks no questions about a run that cannot start.
    connect_all(config, &prepared.team.models, host)?;
    for line in question_lines(&host.cwd, &[]) {
        output.note(&line);
    }
    let mut lines = TerminalLines::new(stop.clone());
    let mut dialogue = DirectoryDialogue {
        host,
        output,
        next_line: &mut || lines.next(),
    };
    let Some(context) = dialogue.ask()? else {
        return Ok(DirectoryDecision::Declined);
    };
    output.line(&[(TextStyle::Good, &confirmation(&context))]);
    let turn = prepared
        .continued_session
        .as_ref()
        .map_or(Ok(1), |session| session.session_dir.next_turn())?;
    // Later turns inherit opened paths, which cannot have protected paths; a context path holds for
    // this run.
    if context.protected.is_empty() {
        open_path(
            &mut prepared.opened_paths,
            &context.path,
            context.permission,
            turn,
        );
    } else {
        prepared
            .team
            .config
            .orchestrator
            .context_paths
            .push(context);
    }
    Ok(DirectoryDecision::NotDeclined)
}

/// Records in the session `id` below `sessions_directory`, if anything was saved in it, that the
/// directory `cwd` stays closed.
pub(crate) fn remember_closed_directory(
    id: &str,
    sessions_directory: &AbsPath,
    cwd: &AbsPath,
) -> Result<()> {
    match sessions::find(id, sessions_directory) {
        Ok(session) => session.decline_directory(cwd),
        // Nothing was saved: there is no later turn that would ask again.
        Err(_) => Ok(()),
    }
}

/// The questions on a terminal.
struct DirectoryDialogue<'d, 'w> {
    host: &'d Host,
    output: &'d mut CliOutput<'w>,
    next_line: &'d mut dyn FnMut() -> Option<String>,
}

impl DirectoryDialogue<'_, '_> {
    /// Returns the directory to open; `None` if there is none.
    fn ask(&mut self) -> Result<Option<ContextPath>> {
        let (path, permission, wants_protected) = loop {
            match parse_answer(&self.ask_line(DIRECTORY_QUESTION)?) {
                Some(DirectoryAnswer::Yes) => {
                    break (self.host.cwd.clone(), Permission::Write, false);
                }
                Some(DirectoryAnswer::Protect) => {
                    break (self.host.cwd.clone(), Permission::Write, true);
                }
                Some(DirectoryAnswer::No) => return Ok(None),
                Some(DirectoryAnswer::Custom) => {
                    let path = self.ask_path()?;
                    break (path, self.ask_permission()?, true);
                }
                None => self.output.note(EXPECTED_ANSWERS),
            }
        };
        let protected = if wants_protected && permission == Permission::Write {
            self.ask_protected(&path)?
        } else {
            Vec::new()
        };
        Ok(Some(ContextPath {
            permission,
            protected,
            ..ContextPath::read_only(path)
        }))
    }

    fn ask_path(&mut self) -> Result<AbsPath> {
        loop {
            let path = resolve_typed_path(self.ask_line(PATH_QUESTION)?.trim(), self.host);
            match directory_obstacle(&path, inspect(&path), self.host) {
                None => return Ok(path),
                Some(reason) => self.output.note(&format!("   {reason}")),
            }
        }
    }

    fn ask_permission(&mut self) -> Result<Permission> {
        loop {
            match parse_permission(&self.ask_line(PERMISSION_QUESTION)?) {
                Some(permission) => return Ok(permission),
                None => self.output.note("   expected `w` or `r`"),
            }
        }
    }

    fn ask_protected(&mut self, root: &AbsPath) -> Result<Vec<RelPath>> {
        loop {
            match parse_protected_paths(&self.ask_line(PROTECTED_PATHS_QUESTION)?, root) {
                Ok(protected) => return Ok(protected),
                Err(reason) => self.output.note(&format!("   {reason}")),
            }
        }
    }

    /// Returns the answer to `question`.
    ///
    /// # Errors
    /// The user interrupted massgen, or the input ended.
    fn ask_line(&mut self, question: &str) -> Result<String> {
        self.output.ask(question.trim_end());
        (self.next_line)().ok_or_else(interrupted_before_run)
    }
}
