//! Runs that are interrupted by a bug in massgen or by the user: the records show how they ended.

use std::fs;
use std::sync::Arc;

use futures_util::stream::{BoxStream, pending};
use futures_util::{StreamExt as _, stream};
use massgen::backend::available_model::AvailableModel;
use massgen::backend::rate_limit::ModelRateLimiter;
use massgen::backend::{Backend, BackendError, ModelRequest, ReplyEvent};
use massgen::config::Config;
use massgen::config::machine_policy::MachinePolicy;
use massgen::config::team::{TeamOptions, WorkspaceMode, team_from_options};
use massgen::config::vendors::ImageInput;
use massgen::config::vendors::file_input::ModelFileInput;
use massgen::dotenv::ConfigVariables;
use massgen::error::{Error, ErrorKind};
use massgen::event::{Event, ModelEvent};
use massgen::layout::{RunLayout, RunName};
use massgen::orchestrator::approvals::ApprovalConfig;
use massgen::orchestrator::execution::{RunContext, RunExecution, RunRequest, ShutdownSignal};
use massgen::orchestrator::record_context::RunInvocation;
use massgen::path::AbsPath;
use massgen::spending::models::ModelList;
use massgen::world::store::event_log;
use massgen::world::store::redact::Redactor;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::project::machine;

/// A backend that panics.
#[derive(Debug)]
struct PanickingBackend;

impl Backend for PanickingBackend {
    fn ask<'a>(&'a self, _: ModelRequest<'a>) -> BoxStream<'a, Result<ReplyEvent, BackendError>> {
        stream::once(async { panic!("no agent 7") }).boxed()
    }
}

/// A backend that never replies.
#[derive(Debug)]
struct SilentBackend;

impl Backend for SilentBackend {
    fn ask<'a>(&'a self, _: ModelRequest<'a>) -> BoxStream<'a, Result<ReplyEvent, BackendError>> {
        pending().boxed()
    }
}

/// Prepares a run of one agent that presents immediately.
fn run(dir: &TempDir, backend: impl Backend + 'static, stop: ShutdownSignal) -> RunExecution {
    let options = TeamOptions {
        backend: Some("ollama"),
        models: &["m".to_owned()],
        ..TeamOptions::default()
    };
    let known = ModelList::with_user_rows(Vec::new());
    let mut config: Config = team_from_options(
        &options,
        &ConfigVariables::default(),
        &known,
        WorkspaceMode::None,
        &MachinePolicy::default(),
    )
    .unwrap();
    config.orchestrator.skips_coordination = true;
    let model = AvailableModel {
        price: None,
        context_tokens: None,
        name: "m".into(),
        image_input: ImageInput::Refused,
        file_input: ModelFileInput::NONE,
        backend: Arc::new(backend),
        vendor_tools: std::collections::BTreeMap::new(),
        media: None,
        subagents: Arc::default(),
        rate_limiter: ModelRateLimiter::default(),
    };
    let models = config
        .agents
        .iter()
        .map(|agent| (agent.id.clone(), vec![model.clone()]));
    let base = AbsPath::new(dir.path().canonicalize().unwrap()).unwrap();
    let layout = RunLayout::plan(&config, &base, RunName::new(1));
    let context = RunContext {
        models: models.collect(),
        inbox: None,
        redactor: Redactor::default(),
        opened: Vec::new(),
        base,
        invocation: RunInvocation::default(),
        telemetry: None,
        host: machine(),
        approvals: ApprovalConfig::default(),
    };
    let order = RunRequest::new(
        context,
        config,
        layout,
        "what?".to_owned(),
        Arc::from("what?"),
    );
    RunExecution::prepare(order, stop).unwrap()
}

/// Executes `run` to its end, and passes each event to `seen`.
async fn execute_and_fail(run: RunExecution, mut seen: impl FnMut(&Event)) -> Error {
    let (shown, mut events) = mpsc::channel(8);
    let receive = async {
        while let Some(event) = events.recv().await {
            seen(&event);
        }
    };
    let (ended, ()) = tokio::join!(run.execute(shown), receive);
    ended.expect_err("the run breaks off")
}

/// Returns the run's status, and the last event of its log.
fn read_records(log_dir: &AbsPath) -> (Value, Value) {
    let turn = log_dir.join("turn_1");
    let status = fs::read_to_string(turn.join("status.json").as_path()).unwrap();
    let log = turn.join("events.jsonl");
    let last = event_log::open(&log).unwrap().last().unwrap().unwrap();
    (
        serde_json::from_str(&status).unwrap(),
        serde_json::from_str::<Value>(&last.json).unwrap(),
    )
}

#[tokio::test]
async fn a_panic_is_an_error_and_the_records_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(&dir, PanickingBackend, ShutdownSignal::default());
    let log_dir = run.output_paths().log_dir;
    let error = Box::pin(execute_and_fail(run, |_| ())).await;
    assert_eq!(error.kind(), ErrorKind::Bug);
    assert_eq!(error.to_string(), "massgen crashed: no agent 7");
    let (status, last) = read_records(&log_dir);
    assert_eq!(status["is_complete"], true);
    assert_eq!(status["finish_reason"], "bug");
    assert_eq!(last["summary"], "massgen crashed: no agent 7");
}

#[tokio::test]
async fn a_run_that_is_given_up_ends_immediately_with_its_records() {
    let dir = tempfile::tempdir().unwrap();
    let stop = ShutdownSignal::default();
    let run = run(&dir, SilentBackend, stop.clone());
    let log_dir = run.output_paths().log_dir;
    let give_up = |event: &Event| {
        if matches!(event, Event::Model(ModelEvent::ModelRequestStarted { .. })) {
            stop.immediate.cancel();
        }
    };
    let error = Box::pin(execute_and_fail(run, give_up)).await;
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    let (status, last) = read_records(&log_dir);
    assert_eq!(status["is_complete"], true);
    assert_eq!(status["finish_reason"], "interrupted");
    assert_eq!(last["type"], "run_ended");
}
