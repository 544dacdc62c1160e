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
use crate::cli::run::run as start_run;
use crate::config::storage_path::STATE_DIR;
use crate::error::{Error, ExitStatus, Result};
use crate::host::Host;
use crate::path::AbsPath;
use crate::resume::{InterruptedRun, find_interrupted_of, was_stopped_by_user};
use crate::text::{count_noun, single_line};
use crate::world::io::clock::LocalDateTime;
use crate::world::store::sessions::import::import;
use crate::world::store::sessions::turn::{PreviousTurn, TurnMetadata};
use crate::world::store::sessions::{self, SessionDir};
use crate::world::store::{reject_symlinks, runs};

/// Maximum length of a task on one line, in characters.
const TASK_CHARS_MAX: usize = 60;

/// Runs a `massgen sessions` subcommand.
pub(crate) fn run(
    host: &Host,
    command: &SessionsCommand,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let find_session = |name: &str| sessions::find(name, &default_sessions(host));
    if changes_sessions(command) {
        reject_symlinks(
            &host.state_parent.join(STATE_DIR),
            [&default_sessions(host)],
        )?;
        sessions::sweep(&default_sessions(host));
    }
    match command {
        SessionsCommand::List { json } => show_all(host, ReportFormat::from(*json), output)?,
        SessionsCommand::Show { session, json } => {
            let session = find_session(session)?;
            show(&session, ReportFormat::from(*json), output)?;
            let id = session.id();
            if session.is_running()? {
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
                    continue_last: false,
                    session_id: Some(session.clone()),
                },
                ..RunArguments::default()
            };
            return start_run(host, &arguments, output, None);
        }
        SessionsCommand::Fork { session } => {
            let copy = find_session(session)?.fork()?;
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
            let session = find_session(session)?;
            let archive = match file {
                Some(file) => host.cwd.join(file),
                None => host.cwd.join(format!("{}.tar.gz", session.id())),
            };
            let file_count = session.export(&archive)?;
            output.result(&format!("{archive}\n"))?;
            output.note(&format!("{} packed", count_noun(file_count, "file")));
        }
        SessionsCommand::Import { file } => {
            let session_import = import(&host.cwd.join(file), &default_sessions(host))?;
            if session_import.links_left_out > 0 {
                let link_count =
                    usize::try_from(session_import.links_left_out).unwrap_or(usize::MAX);
                let links = count_noun(link_count, "link");
                output.warning(&format!("{links} skipped: they point outside the session"));
            }
            output.result(&format!("{}\n", session_import.session.id()))?;
        }
        SessionsCommand::Prune(arguments) => prune::run(host, *arguments, output)?,
        SessionsCommand::Delete { sessions } => {
            let sessions = sessions.iter().map(|name| find_session(name));
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

/// A session in the list, and its last saved turn.
struct ListedSession {
    session: SessionDir,
    last_turn: Result<Option<TurnMetadata>>,
}

impl ListedSession {
    fn read(session: SessionDir) -> Self {
        Self {
            last_turn: session.last_turn(),
            session,
        }
    }

    /// Returns whether the user stopped the run of the last saved turn. Such a turn is saved if an
    /// agent had answered.
    fn was_last_turn_stopped(&self, logs: &AbsPath) -> Result<bool> {
        let last_turn = self.last_turn.as_ref().ok().and_then(Option::as_ref);
        let run = last_turn.and_then(|last| runs::name_of(&last.log_dir));
        run.map_or(Ok(false), |run| was_stopped_by_user(&run, logs))
    }
}

/// Prints one line per session.
fn show_all(host: &Host, format: ReportFormat, output: &mut CliOutput<'_>) -> Result<()> {
    let directory = default_sessions(host);
    let sessions: Vec<ListedSession> = sessions::list(&directory)?
        .into_iter()
        .map(ListedSession::read)
        .collect();
    if sessions.is_empty() {
        output.note(&format!("no sessions in `{directory}`"));
    }
    let interrupted_runs = interrupted_runs(&sessions, host)?;
    for ListedSession { session, last_turn } in sessions {
        let interrupted_run = interrupted_runs.get(&session.id());
        let line = match (last_turn, format) {
            (Ok(last_turn), ReportFormat::Json) => {
                json_row(&session, last_turn.as_ref(), interrupted_run)?
            }
            (Ok(last_turn), ReportFormat::Text) => {
                text_row(&session, last_turn.as_ref(), interrupted_run)?
            }
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

/// Returns the interrupted run of each session whose last turn can be resumed, by the session's id.
/// Searches the runs only if there may be such a session: one
/// with an unsaved turn, or whose last saved turn the user stopped.
fn interrupted_runs(
    sessions: &[ListedSession],
    host: &Host,
) -> Result<BTreeMap<String, InterruptedRun>> {
    let logs = logs_directory(host);
    let mut resumable_ids = BTreeSet::new();
    for listed in sessions {
        if !listed.session.is_running()?
            && (listed.session.has_unsaved_turn()? || listed.was_last_turn_stopped(&logs)?)
        {
            resumable_ids.insert(listed.session.id());
        }
    }
    if resumable_ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    find_interrupted_of(&logs, resumable_ids)
}

/// Returns the JSON form of a session in the list. It describes the last saved turn, which is what
/// `massgen sessions show` and `export` have, and only says whether a run was interrupted.
fn json_row(
    session: &SessionDir,
    last_turn: Option<&TurnMetadata>,
    interrupted_run: Option<&InterruptedRun>,
) -> Result<String> {
    let row = json!({
        "id": session.id(),
        "dir": session.dir().to_string(),
        "turns": last_turn.map_or(0, |last_turn| last_turn.turn),
        "running": session.is_running()?,
        "interrupted": interrupted_run.is_some(),
        "used": last_turn.map(|last_turn| &last_turn.timestamp),
        "task": last_turn.map(|last_turn| &last_turn.task),
        "config": last_turn.and_then(|last_turn| last_turn.config.as_ref()),
    });
    Ok(format!("{row}\n"))
}

/// Returns the line of a session in the list, with the turn that a person would continue: the
/// interrupted one, or the last saved one.
fn text_row(
    session: &SessionDir,
    last_turn: Option<&TurnMetadata>,
    interrupted_run: Option<&InterruptedRun>,
) -> Result<String> {
    let last_use = last_turn.and_then(|last_turn| LocalDateTime::parse(&last_turn.timestamp));
    let state = if session.is_running()? {
        "running".to_owned()
    } else if interrupted_run.is_some() {
        "interrupted".to_owned()
    } else {
        last_use.map_or_else(|| "-".to_owned(), |time| time.list_format())
    };
    let (turn_count, task) = match (interrupted_run, last_turn) {
        (Some(InterruptedRun { run, turn, .. }), _) => {
            let status = run.state()?.status_file;
            (*turn, RecordedRunSummary::read(run, status.as_ref()).task)
        }
        (None, Some(last_turn)) => (last_turn.turn, last_turn.task.clone()),
        (None, None) => (0, String::new()),
    };
    let task = single_line(&task, TASK_CHARS_MAX);
    Ok(format!(
        "{}  {state:<19}  {:>9}  {task}\n",
        session.id(),
        turn_count_text(turn_count)
    ))
}

fn turn_count_text(count: u32) -> String {
    count_noun(usize::try_from(count).unwrap_or(usize::MAX), "turn")
}

/// Prints all turns of a session.
fn show(session: &SessionDir, format: ReportFormat, output: &mut CliOutput<'_>) -> Result<()> {
    let turns = session.turns()?;
    let mut texts = turns.iter().map(|turn| match format {
        ReportFormat::Json => to_json(turn),
        ReportFormat::Text => Ok(to_text(turn)),
    });
    texts.try_for_each(|text| output.result(&text?))
}

fn to_json(turn: &PreviousTurn) -> Result<String> {
    let metadata = serde_json::to_value(&turn.metadata);
    let mut row = metadata.map_err(Error::unserializable)?;
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
    let end_time = LocalDateTime::parse(&metadata.timestamp);
    let end_text = end_time.map_or_else(|| "-".to_owned(), |time| time.list_format());
    let mut text = format!(
        "turn {}  {end_text}  {}\n> {}\n\n{}\n",
        metadata.turn,
        metadata.winning_agent,
        metadata.task.trim().replace('\n', "\n> "),
        answer.trim(),
    );
    for opened_path in &metadata.opened {
        let line = format!(
            "{:<5} {} (turn {})\n",
            opened_path.permission, opened_path.path, opened_path.turn
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
