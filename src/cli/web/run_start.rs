//! Starts runs for the page. It chooses a team and gives the task. What is not open already is
//! opened for writing, outside the directory of the server, by pasted text, or against what a
//! context path closes, only if the page repeats it, after the person has confirmed it.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::OwnedSemaphorePermit;

use crate::cli::args::RunArguments;
use crate::cli::broad_paths::reject_broad_mentions;
use crate::cli::command_line::usage_error;
use crate::cli::continued_session::ContinuedSession;
use crate::cli::deliveries::finish_interrupted_deliveries;
use crate::cli::execution::execute;
use crate::cli::opening_question::user_location;
use crate::cli::output::CliOutput;
use crate::cli::run::reject_broad_mention;
use crate::cli::run_context::PreparedRun;
use crate::cli::run_context::RunTeam;
use crate::cli::run_flags::apply_flags;
use crate::cli::run_frontend::OutputMode;
use crate::cli::run_frontend::RunOutcome;
use crate::cli::web::overview::run_blocking;
use crate::cli::web::page_run::PageRun;
use crate::cli::web::reply::{ApiError, ApiResult, JsonBody, JsonReply};
use crate::cli::web::run_limits::RequestedLimits;
use crate::cli::web::server_state::{NamedTeam, WebServer};
use crate::cli::{dry_run, mentions};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::host::Host;
use crate::mentions::opened_paths::{OpenedPath, open_mentions};
use crate::mentions::pasted_mentions::PastedMentions;
use crate::mentions::{MentionReach, ParsedPrompt, TaskText};
use crate::orchestrator::approvals::SessionApprovals;
use crate::orchestrator::openings::{Openings, PathSource, confirm_opening};
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::world::io::locate::{locate, resolve_path};

/// Body of `POST /api/runs`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StartRequest {
    task: String,
    team: Option<String>,
    #[serde(rename = "continue")]
    session: Option<String>,
    /// Limits instead of those of the config, as flags of a run are.
    #[serde(default)]
    limits: Map<String, Value>,
    #[serde(default)]
    dry_run: bool,
    /// The paths that the person has agreed to open.
    #[serde(default)]
    opens: Vec<String>,
    /// The parts of the task that were pasted, or came into it by other means than typing. Without
    /// it, all of the task counts as pasted.
    pasted: Option<Vec<String>>,
    /// Whether the delivery waits for a review, whatever the config says.
    #[serde(default)]
    review: bool,
}

/// Answers `POST /api/runs`: starts a run, or shows what it would do.
pub(super) async fn start(
    State(server): State<Arc<WebServer>>,
    JsonBody(request): JsonBody<StartRequest>,
) -> ApiResult {
    let is_dry_run = request.dry_run;
    let (prepared, flags, warnings) = {
        let server = Arc::clone(&server);
        // The inner result has the errors that are replies already, which `run_blocking` has not.
        run_blocking(move || Ok(prepare(&server, &request))).await??
    };
    if is_dry_run {
        return preview(&prepared, &warnings).await;
    }
    let sandboxes = prepared.session_sandboxes.clone();
    let mut started_run = None;
    let reply = begin_run(&server, |run| {
        run.show_warnings(warnings);
        started_run = Some(Arc::clone(&run));
        execute_run(prepared, flags, run)
    });
    let reply = reply.await?;
    let session = started_run.and_then(|run| run.session());
    if let (Some(session), Some(sandboxes)) = (session, sandboxes) {
        server.keep_session(session, sandboxes);
    }
    Ok(reply)
}

/// Begins a run that `execute` executes, and returns its name once it has one. It becomes a run of
/// the page even if the client disconnects before that, which ends only the reply.
pub(super) async fn begin_run<F>(
    server: &Arc<WebServer>,
    execute: impl FnOnce(Arc<PageRun>) -> F,
) -> ApiResult
where
    F: Future<Output = Result<RunOutcome>> + Send + 'static,
{
    let slot = server.runs.run_slot()?;
    let run = server.runs.new_run();
    let execution = execute(Arc::clone(&run));
    tokio::spawn(execute_to_end(execution, Arc::clone(&run), slot));
    let registration = tokio::spawn(register_named(Arc::clone(server), run));
    let panic_error = |_| Err(Error::bug("the run failed unexpectedly"));
    let reply = registration.await.unwrap_or_else(panic_error)?;
    Ok(JsonReply(reply))
}

/// Waits until `run` has a name, adds it to the runs of the page, and returns what the client
/// reads.
async fn register_named(server: Arc<WebServer>, run: Arc<PageRun>) -> Result<Value> {
    let name = run.wait_for_name().await?;
    let session = run.session();
    server.runs.insert(run);
    Ok(json!({"run": name, "session": session}))
}

/// Prepares a run as the command line does, and returns it with its flags, and warnings about paths
/// that are not open any more.
fn prepare(
    server: &WebServer,
    request: &StartRequest,
) -> ApiResult<(PreparedRun, RunArguments, Vec<String>)> {
    let named_team = find_team(server, request.team.as_deref())?;
    let team = &named_team.team;
    if request.task.trim().is_empty() {
        return Err(usage_error("there is no task").into());
    }
    let limits = RequestedLimits::parse(&request.limits)?;
    limits.require_effect(&team.config, &server.models)?;
    let mut flags = RunArguments::default();
    limits.apply_to(&mut flags);
    flags.delivery.review = request.review;
    let mut config = team.config.clone();
    let mut output = CliOutput::for_server_run(server.runs.stop());
    apply_flags(&mut config, &flags, &mut output)?;
    let mut host = server.host.clone();
    host.arguments = recorded_command_line(named_team, &flags);
    let prompt = mentions::parse(&TaskText::from_typed(&request.task), &host.cwd, &host);
    reject_broad_mention(&prompt)?;
    reject_broad_mentions(&prompt, &team.config.orchestrator.context_paths, &host)?;
    let storage = &team.config.orchestrator.session_storage;
    let sessions = storage.resolve(&host.state_parent, None);
    let continued = request
        .session
        .as_deref()
        .map(|session| ContinuedSession::find(session, &sessions))
        .transpose()?;
    let (mut opened, warnings) = match &continued {
        Some(continued) => continued.opened_paths(&host)?,
        None => (Vec::new(), Vec::new()),
    };
    let turn = continued
        .as_ref()
        .map_or(Ok(1), |continued| continued.session_dir.next_turn())?;
    open_task_mentions(&mut opened, &prompt, turn, &mut config, &host, request)?;
    let session_id = (continued.as_ref()).map(|continued| continued.session_dir.id());
    let prepared = PreparedRun {
        team: RunTeam {
            host,
            config,
            ..server.run_team(team)
        },
        prompt,
        opened_paths: opened,
        continued_session: continued,
        approvals: SessionApprovals::default(),
        session_sandboxes: Some(server.session_sandboxes(session_id.as_deref())),
    };
    Ok((prepared, flags, warnings))
}

/// Returns the command line that would start a run of this team with `flags`: the records of the
/// run have it, so that a built-in config is found by its name when the run is resumed, and limits
/// and the review are kept.
fn recorded_command_line(named_team: &NamedTeam, flags: &RunArguments) -> Vec<String> {
    let config = named_team
        .team
        .file
        .as_ref()
        .map(|_| ["--config".to_owned(), named_team.name.clone()]);
    let review = flags.delivery.review.then(|| "--review".to_owned());
    let words = config.into_iter().flatten().chain(review);
    words.chain(flags.limit_words()).collect()
}

/// Returns the team with this id, or the only one.
fn find_team<'s>(server: &'s WebServer, id: Option<&str>) -> ApiResult<&'s NamedTeam> {
    let teams = server.teams.as_slice();
    let team = match (id, teams) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(id), _) => teams.iter().find(|named| named.name == id),
    };
    team.ok_or_else(|| {
        let names: Vec<&str> = teams.iter().map(|named| named.name.as_str()).collect();
        if names.is_empty() {
            return ApiError::invalid("the server has no team")
                .with_hint("write a config, and start the server again with `--config FILE`");
        }
        ApiError::invalid("the task names no team of this server")
            .with_hint(format!("name one in `team`: {}", names.join(", ")))
    })
}

/// Opens what the task mentions in turn `turn`, in addition to what is `opened`.
///
/// # Errors
/// The person has not agreed to open a path, or the config opens one that must be confirmed.
fn open_task_mentions(
    opened: &mut Vec<OpenedPath>,
    prompt: &ParsedPrompt,
    turn: u32,
    config: &mut Config,
    host: &Host,
    request: &StartRequest,
) -> ApiResult<()> {
    let location = user_location(host);
    let earlier = Openings::examine(config, opened, location)?;
    open_mentions(opened, prompt, turn);
    let doubtful_paths = Openings::examine(config, opened, location)?.doubtful_paths;
    let mut doubts = doubtful_paths.iter();
    if let Some(doubt) = doubts.find(|doubt| doubt.source == PathSource::Config) {
        return Err(doubt.to_error().into());
    }
    let base = resolve_path(&host.cwd);
    let pasted_paths = pasted_paths(request, host);
    let mut questions: Vec<OpeningQuestion> = doubtful_paths
        .iter()
        .map(|doubt| OpeningQuestion {
            target: doubt.target.to_string(),
            permission: doubt.permission,
            reason: Some(doubt.reason()),
        })
        .collect();
    for mention in &prompt.mentions {
        let is_doubtful = doubtful_paths
            .iter()
            .any(|doubt| doubt.path == mention.path);
        let target = locate(&mention.path)?.into_real();
        let is_harmless = mention.permission == Permission::Read
            && mention.reach == MentionReach::Inside
            && base.as_ref().is_some_and(|base| target.is_within(base))
            && !pasted_paths.contains(&mention.path);
        if !is_doubtful && !is_harmless && !earlier.is_open(&target, mention.permission) {
            questions.push(OpeningQuestion {
                target: target.to_string(),
                permission: mention.permission,
                reason: None,
            });
        }
    }
    require_agreement(&questions, &request.opens)?;
    for doubt in &doubtful_paths {
        confirm_opening(doubt, config, opened);
    }
    Ok(())
}

/// A path that is opened only if the person agrees.
struct OpeningQuestion {
    /// The place that would be opened, with symlinks followed: the person agrees to it, wherever
    /// the mention leads later.
    target: String,
    permission: Permission,
    /// Why the path is doubtful.
    reason: Option<String>,
}

/// Returns the paths that pasted text mentions. Without a word about what was pasted, all of the
/// task counts as pasted.
fn pasted_paths(request: &StartRequest, host: &Host) -> BTreeSet<AbsPath> {
    let whole_task = [request.task.clone()];
    let pasted_texts = request.pasted.as_deref().unwrap_or(&whole_task);
    let lookup = mentions::lookup(&host.cwd, host);
    let pasted_mentions = PastedMentions::find(&request.task, pasted_texts, lookup);
    let mentions = pasted_mentions.mentions().into_iter();
    mentions.map(|mention| mention.path.clone()).collect()
}

/// Refuses a task that opens paths to which the person has not agreed.
fn require_agreement(questions: &[OpeningQuestion], agreed: &[String]) -> ApiResult<()> {
    let is_agreed = |question: &OpeningQuestion| agreed.contains(&question.target);
    if questions.iter().all(is_agreed) {
        return Ok(());
    }
    let paths: Vec<&str> = questions
        .iter()
        .map(|question| question.target.as_str())
        .collect();
    let writes: Vec<&str> = questions
        .iter()
        .filter(|question| question.permission == Permission::Write)
        .map(|question| question.target.as_str())
        .collect();
    let reasons: Map<String, Value> = questions
        .iter()
        .filter_map(|question| {
            let reason = question.reason.clone()?;
            Some((question.target.clone(), Value::from(reason)))
        })
        .collect();
    Err(
        ApiError::conflict("the task opens paths to which the person has not agreed")
            .with_hint("show them, and repeat all of them in `opens`")
            .with_details(json!({"opens": paths, "writes": writes, "reasons": reasons})),
    )
}

/// Returns what a run would do, with `warnings` about it.
async fn preview(prepared: &PreparedRun, warnings: &[String]) -> ApiResult {
    let (mut text, mut notes) = (Vec::new(), Vec::new());
    let mut output = CliOutput::with_writers(&mut text, &mut notes);
    for warning in warnings {
        output.warning(warning);
    }
    dry_run::show(prepared, &mut output).await?;
    drop(output);
    Ok(JsonReply(json!({
        "text": String::from_utf8_lossy(&text),
        "notes": String::from_utf8_lossy(&notes),
    })))
}

/// Executes a run to its end, which is recorded in `run` even if `execution` panics.
async fn execute_to_end(
    execution: impl Future<Output = Result<RunOutcome>> + Send + 'static,
    run: Arc<PageRun>,
    slot: OwnedSemaphorePermit,
) {
    let execution = tokio::spawn(execution);
    let panic_error = |_| Err(Error::bug("the run failed unexpectedly"));
    run.end(execution.await.unwrap_or_else(panic_error));
    drop(slot);
}

/// Executes a run that was prepared.
async fn execute_run(
    prepared: PreparedRun,
    flags: RunArguments,
    run: Arc<PageRun>,
) -> Result<RunOutcome> {
    let mut output = CliOutput::for_server_run(run.stop());
    finish_interrupted_deliveries(&prepared.team.host, &mut output)?;
    let stop = run.stop().clone();
    let mut page = &*run;
    let mode = OutputMode::Frontend(&mut page);
    Box::pin(execute(prepared, &flags, stop, &mut output, mode)).await
}
