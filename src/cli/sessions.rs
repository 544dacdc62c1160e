//! The `massgen sessions` commands: list, show, resume, fork, export, import, prune and delete
//! sessions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::cli::args::session::SessionArguments;
use crate::cli::args::{RunArguments, SessionsCommand};
use crate::cli::continued_session::default_sessions;
use crate::cli::logs::logs_directory;
use crate::cli::logs::run_summary::RecordedRunSummary;
use crate::cli::output::{CliOutput, ReportFormat};
use crate::cli::prune;
use crate::cli::run::run as begin;
use crate::config::storage_path::STATE_DIR;
use crate::error::{Error, ExitStatus, Result};
use crate::host::Host;
use crate::resume::{InterruptedRun, find_interrupted_of};
use crate::text::{count_noun, single_line};
use crate::world::io::clock::LocalDateTime;
use crate::world::store::reject_symlinks;
use crate::world::store::sessions::import::import;
use crate::world::store::sessions::turn::{PreviousTurn, TurnMetadata};
use crate::world::store::sessions::{SessionDir, find, list};

/// Maximum length of a task on one line, in characters.
const TASK_CHARS_MAX: usize = 60;

/// Runs a `massgen sessions` subcommand.
pub(crate) fn run(
    host: &Host,
    command: &SessionsCommand,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let found = |wanted: &str| find(wanted, &default_sessions(host));
    if changes_sessions(command) {
        reject_symlinks(
            &host.state_parent.join(STATE_DIR),
            [&default_sessions(host)],
        )?;
    }
    match command {
        SessionsCommand::List { json } => show_all(host, ReportFormat::from(*json), output)?,
        SessionsCommand::Show { session, json } => {
            let session = found(session)?;
            show(&session, ReportFormat::from(*json), output)?;
            let id = session.id();
            if session.is_running() {
                output.note(&format!(
                    "a turn of {id} is running; it is shown once it has ended"
                ));
            } else if session.last_turn()?.is_none() {
                output.note(&format!("no turn of {id} was saved"));
            }
        }
        SessionsCommand::Resume { session, config } => {
            let arguments = RunArguments {
                config: config.clone(),
                session: SessionArguments {
                    go_on: false,
                    session_id: Some(session.clone()),
                },
                ..RunArguments::default()
            };
            return begin(host, &arguments, output, None);
        }
        SessionsCommand::Fork { session } => {
            let copy = found(session)?.fork()?;
            output.result(&format!("{}\n", copy.id()))?;
            output.note(&format!(
                "to continue it: massgen --session-id {} \"…\"",
                copy.id()
            ));
        }
        SessionsCommand::Export {
            session,
            output: file,
        } => {
            let session = found(session)?;
            let to = match file {
                Some(file) => host.cwd.join(file),
                None => host.cwd.join(format!("{}.tar.gz", session.id())),
            };
            let files = session.export(&to)?;
            output.result(&format!("{to}\n"))?;
            output.note(&format!("{} packed", count_noun(files, "file")));
        }
        SessionsCommand::Import { file } => {
            let imported = import(&host.cwd.join(file), &default_sessions(host))?;
            if imported.links_left_out > 0 {
                let links = usize::try_from(imported.links_left_out).unwrap_or(usize::MAX);
                let links = count_noun(links, "link");
                output.warning(&format!("{links} skipped: they point outside the session"));
            }
            output.result(&format!("{}\n", imported.session.id()))?;
        }
        SessionsCommand::Prune(arguments) => prune::run(host, *arguments, output)?,
        SessionsCommand::Delete { sessions } => {
            let sessions = sessions.iter().map(|wanted| found(wanted));
            for session in sessions.collect::<Result<Vec<_>>>()? {
                session.remove()?;
                output.note(&format!("removed {}", session.id()));
            }
        }
    }
    Ok(ExitStatus::Success)
}

/// Returns whether the command creates or removes something in the sessions directory. A command
/// that only reads may follow a symlink there.
fn changes_sessions(command: &SessionsCommand) -> bool {
    match command {
        SessionsCommand::Fork { .. }
        | SessionsCommand::Import { .. }
        | SessionsCommand::Prune(_)
        | SessionsCommand::Delete { .. } => true,
        SessionsCommand::List { .. }
        | SessionsCommand::Show { .. }
        | SessionsCommand::Resume { .. }
        | SessionsCommand::Export { .. } => false,
    }
}

/// Prints one line per session.
fn show_all(host: &Host, format: ReportFormat, output: &mut CliOutput<'_>) -> Result<()> {
    let sessions = default_sessions(host);
    let all = list(&sessions)?;
    if all.is_empty() {
        output.note(&format!("no sessions in `{sessions}`"));
    }
    let interrupted_runs = interrupted_runs(&all, host);
    for session in all {
        let interrupted = interrupted_runs.get(&session.id());
        let line = match (session.last_turn(), format) {
            (Ok(last), ReportFormat::Json) => json_row(&session, last.as_ref(), interrupted),
            (Ok(last), ReportFormat::Text) => text_row(&session, last.as_ref(), interrupted),
            (Err(error), _) => {
                output.warning(&format!("{error:#}"));
                continue;
            }
        };
        output.result(&line)?;
        if output.is_closed() {
            break;
        }
    }
    Ok(())
}

/// Returns the interrupted runs of the sessions whose last turn can be resumed, by session. The
/// records of runs are read only if a session has a turn without a result; without readable
/// records, nothing is known about it.
fn interrupted_runs(sessions: &[SessionDir], host: &Host) -> BTreeMap<String, InterruptedRun> {
    let is_unsaved = |session: &&SessionDir| !session.is_running() && session.has_unsaved_turn();
    let unsaved = sessions.iter().filter(is_unsaved);
    let unsaved: BTreeSet<String> = unsaved.map(SessionDir::id).collect();
    if unsaved.is_empty() {
        return BTreeMap::new();
    }
    find_interrupted_of(&logs_directory(host), unsaved).unwrap_or_default()
}

fn json_row(
    session: &SessionDir,
    last: Option<&TurnMetadata>,
    interrupted: Option<&InterruptedRun>,
) -> String {
    let row = json!({
        "id": session.id(),
        "dir": session.dir().to_string(),
        "turns": last.map_or(0, |last| last.turn),
        "running": session.is_running(),
        "interrupted": interrupted.is_some(),
        "used": last.map(|last| &last.timestamp),
        "task": last.map(|last| &last.task),
        "config": last.and_then(|last| last.config.as_ref()),
    });
    format!("{row}\n")
}

fn text_row(
    session: &SessionDir,
    last: Option<&TurnMetadata>,
    interrupted: Option<&InterruptedRun>,
) -> String {
    let used = last.and_then(|last| LocalDateTime::parse(&last.timestamp));
    let used = if session.is_running() {
        "running".to_owned()
    } else if interrupted.is_some() {
        "interrupted".to_owned()
    } else {
        used.map_or_else(|| "-".to_owned(), |used| used.list_format())
    };
    let (count, task) = match (interrupted, last) {
        (Some(InterruptedRun { run, turn, .. }), _) => {
            let status = run.state().status_file;
            (*turn, RecordedRunSummary::read(run, status.as_ref()).task)
        }
        (None, Some(last)) => (last.turn, last.task.clone()),
        (None, None) => (0, String::new()),
    };
    let task = single_line(&task, TASK_CHARS_MAX);
    format!(
        "{}  {used:<19}  {:>9}  {task}\n",
        session.id(),
        turns(count)
    )
}

fn turns(count: u32) -> String {
    count_noun(usize::try_from(count).unwrap_or(usize::MAX), "turn")
}

/// Prints all turns of a session.
fn show(session: &SessionDir, format: ReportFormat, output: &mut CliOutput<'_>) -> Result<()> {
    let turns = session.turns()?;
    let mut shown = turns.iter().map(|turn| match format {
        ReportFormat::Json => to_json(turn),
        ReportFormat::Text => Ok(to_text(turn)),
    });
    shown.try_for_each(|text| output.result(&text?))
}

fn to_json(turn: &PreviousTurn) -> Result<String> {
    let metadata = serde_json::to_value(&turn.metadata);
    let mut row =
        metadata.map_err(|error| Error::bug("a turn has no JSON form").with_source(error))?;
    if let Some(row) = row.as_object_mut() {
        row.insert("answer".to_owned(), turn.answer.clone().into());
        row.insert("workspace".to_owned(), json!(turn.workspace));
    }
    Ok(format!("{row}\n"))
}

fn to_text(turn: &PreviousTurn) -> String {
    let PreviousTurn {
        metadata,
        answer,
        workspace,
    } = turn;
    let ended = LocalDateTime::parse(&metadata.timestamp);
    let ended = ended.map_or_else(|| "-".to_owned(), |ended| ended.list_format());
    let mut text = format!(
        "turn {}  {ended}  {}\n> {}\n\n{}\n",
        metadata.turn,
        metadata.winning_agent,
        metadata.task.trim().replace('\n', "\n> "),
        answer.trim(),
    );
    for opened in &metadata.opened {
        let line = format!(
            "{:<5} {} (turn {})\n",
            opened.permission, opened.path, opened.turn
        );
        text.push_str(&line);
    }
    if let Some(workspace) = workspace {
        text.push_str("files ");
        text.push_str(&workspace.to_string());
        text.push('\n');
    }
    text.push('\n');
    text
}
