//! The form that writes a config: its questions, what the check of configs says about a draft, and
//! saving it. It never receives a key and never sends one: only the names of their variables, and
//! whether they are set.

use std::sync::Arc;

use axum::extract::State;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::found_config::reject_outside_reach;
use crate::cli::team_file::{config_context, installed_packages};
use crate::cli::web::overview::run_blocking;
use crate::cli::web::reply::{ApiError, ApiResult, JsonBody, JsonReply};
use crate::cli::web::server_state::WebServer;
use crate::config::draft::destination::ConfigDestination;
use crate::config::draft::findings::{DraftFinding, FindingSeverity};
use crate::config::draft::form::{AnswerKind, FORM, FormQuestion, QuestionGroup, offered_vendors};
use crate::config::draft::{DRAFT_ENTRIES_MAX, DraftCheck, TeamDraft};
use crate::config::lookup::FOUND_CONFIG;
use crate::config::storage_path::STATE_DIR;
use crate::config::vendors::{KeyRequirement, Vendor, VendorConnection};
use crate::config::{ConfigOrigin, LoadedConfig};
use crate::dotenv::ConfigVariables;
use crate::error::{Error, ErrorKind, Result};
use crate::text::shell_line;
use crate::world::io::config_file::{ConfigWrite, write_config};
use crate::world::store::prepare_state_dir;

/// Name of a config that has none yet.
const UNSAVED_CONFIG_NAME: &str = "team.yaml";

/// Body of `POST /api/config/check`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckRequest {
    draft: TeamDraft,
}

/// Body of `POST /api/config/save`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SaveRequest {
    draft: TeamDraft,
    path: String,
    /// The digest of the file that the person has agreed to replace.
    replaces: Option<String>,
}

/// Answers `GET /api/config/keys`: the questions of the form, and what they can be answered with.
pub(super) async fn keys(State(server): State<Arc<WebServer>>) -> ApiResult {
    if server.is_read_only {
        let message = "the server was started with `--read-only`";
        return Err(ApiError::new(StatusCode::FORBIDDEN, message));
    }
    let env = server.host.config_variables();
    let vendors = offered_vendors().map(|vendor| vendor_json(&server, vendor, &env));
    Ok(JsonReply(json!({
        "groups": FORM.iter().map(group_json).collect::<Vec<_>>(),
        "vendors": vendors.collect::<Vec<_>>(),
        "draft": TeamDraft::initial(&env),
        "path": UNSAVED_CONFIG_NAME,
        "entries_max": DRAFT_ENTRIES_MAX,
    })))
}

fn group_json(group: &QuestionGroup) -> Value {
    let questions: Vec<Value> = group.questions.iter().map(question_json).collect();
    json!({
        "id": group.id,
        "title": group.title,
        "doc": group.doc(),
        "noun": group.list.as_ref().map(|list| list.noun),
        "initial_entries": group.initial_entries(),
        "questions": questions,
    })
}

fn question_json(question: &FormQuestion) -> Value {
    let (kind, choices) = match question.kind() {
        AnswerKind::Line => ("line", Vec::new()),
        AnswerKind::Paragraph => ("paragraph", Vec::new()),
        AnswerKind::Flag => ("flag", Vec::new()),
        AnswerKind::Number => ("number", Vec::new()),
        AnswerKind::Choice(words) => ("choice", words),
        AnswerKind::Model => ("model", Vec::new()),
        AnswerKind::List => ("list", Vec::new()),
        AnswerKind::ChoiceOrList(words) => ("choice_or_list", words),
    };
    let key = question.key();
    json!({
        "name": question.name(),
        "key": question.path.join("."),
        "label": question.label,
        "doc": key.map(|key| key.doc),
        "expected": key.map(|key| key.shape.describe()),
        "kind": kind,
        "choices": choices,
        "default": question.default_answer(),
        "is_required": question.is_required(),
        "initial": question.initial_answer,
    })
}

/// Describes a vendor: its models, and which variables hold its key.
fn vendor_json(server: &WebServer, vendor: &Vendor, env: &ConfigVariables) -> Value {
    let rows = server.models.rows().iter();
    let vendor_rows = rows.filter(|row| row.vendor.as_deref() == Some(vendor.name));
    let mut models: Vec<&str> = vendor_rows.map(|row| row.name.as_str()).collect();
    models.dedup();
    let variables = vendor.key_variables.iter().map(|name| {
        json!({
            "name": name,
            "is_set": env.get_non_empty(name).is_some(),
        })
    });
    json!({
        "name": vendor.name,
        "models": models,
        "default_model": vendor.default_model,
        "is_program": matches!(vendor.connection, VendorConnection::ExternalAgent(_)),
        "needs_key": vendor.key_requirement == KeyRequirement::Required,
        "variables": variables.collect::<Vec<_>>(),
    })
}

/// Answers `POST /api/config/check`: the YAML of a draft and what is wrong with it.
pub(super) async fn check(
    State(server): State<Arc<WebServer>>,
    JsonBody(request): JsonBody<CheckRequest>,
) -> ApiResult {
    let check_draft_of_request = move || {
        let draft_check = check_draft(&server, &request.draft, UNSAVED_CONFIG_NAME);
        let findings: Vec<Value> = draft_check.findings.iter().map(finding_json).collect();
        Ok(json!({
            "yaml": draft_check.yaml,
            "findings": findings,
            "is_valid": draft_check.loaded.is_some(),
        }))
    };
    run_blocking(check_draft_of_request).await.map(JsonReply)
}

fn check_draft(server: &WebServer, draft: &TeamDraft, name: &str) -> DraftCheck {
    let host = &server.host;
    let origin = ConfigOrigin {
        name: name.to_owned(),
        directory: Some(host.cwd.clone()),
    };
    let (env, packages) = (host.config_variables(), installed_packages(host));
    let context = config_context(host, &env, &packages);
    let mut draft_check = draft.check(&origin, &context);
    if server.redactor.text(&draft_check.yaml) != draft_check.yaml {
        draft_check.loaded = None;
        draft_check.findings.push(DraftFinding {
            severity: FindingSeverity::Error,
            answer: None,
            message: "an answer contains a key or another secret".to_owned(),
            expected: None,
            suggestion: Some("leave it out: keys are read from the environment".to_owned()),
        });
    }
    draft_check
}

fn finding_json(finding: &DraftFinding) -> Value {
    let answer = finding.answer;
    json!({
        "severity": match finding.severity {
            FindingSeverity::Error => "error",
            FindingSeverity::Warning => "warning",
            FindingSeverity::Note => "note",
        },
        "group": answer.map(|answer| answer.group),
        "entry": answer.map(|answer| answer.entry),
        "name": answer.map(|answer| answer.name),
        "message": finding.message,
        "expected": finding.expected,
        "suggestion": finding.suggestion,
    })
}

/// Answers `POST /api/config/save`: writes a draft that can be run. Runs of this server do not use
/// it; the reply has the commands that do.
pub(super) async fn save(
    State(server): State<Arc<WebServer>>,
    JsonBody(request): JsonBody<SaveRequest>,
) -> ApiResult {
    let save_draft = move || {
        let destination = ConfigDestination::parse(&request.path)?;
        let name = destination.path().to_string();
        let draft_check = check_draft(&server, &request.draft, &name);
        let Some(loaded_config) = &draft_check.loaded else {
            return Err(Error::new(ErrorKind::Config, "the draft has errors")
                .with_hint("correct the answers that the check names"));
        };
        prepare_destination(&server, &destination, loaded_config)?;
        let directory = &server.host.cwd;
        let replaces = request.replaces.as_deref();
        let outcome = write_config(directory, &destination, &draft_check.yaml, replaces)?;
        Ok((destination, outcome))
    };
    let (destination, outcome) = run_blocking(save_draft).await?;
    let path = destination.path().to_string();
    match outcome {
        ConfigWrite::Written => Ok(JsonReply(json!({
            "path": path,
            "commands": command_lines(&destination),
        }))),
        ConfigWrite::Occupied { digest } => {
            let message = format!("`{path}` exists already");
            Err(ApiError::conflict(message)
                .with_hint("write another name, or replace it")
                .with_details(json!({ "digest": digest })))
        }
    }
}

/// Creates the state directory for a config in it. Such a config is used without being named, so it
/// must not reach outside the project.
fn prepare_destination(
    server: &WebServer,
    destination: &ConfigDestination,
    loaded_config: &LoadedConfig,
) -> Result<()> {
    if !destination.is_found_config() {
        return Ok(());
    }
    let directory = &server.host.cwd;
    reject_outside_reach(&loaded_config.restricted_uses, FOUND_CONFIG, directory)
        .map_err(|error| error.with_hint("write another name, and name it with `--config`"))?;
    prepare_state_dir(&directory.join(STATE_DIR), [])
}

/// Returns the command lines with which the config is used.
fn command_lines(destination: &ConfigDestination) -> [String; 2] {
    let name = destination.path().to_string();
    let line = |words: &[&str]| {
        let config = ["--config", &name];
        let config_words: &[&str] = if destination.is_found_config() {
            &[]
        } else {
            &config
        };
        let words = words.iter().chain(config_words).copied();
        shell_line(&words.map(str::to_owned).collect::<Vec<_>>())
    };
    [line(&["massgen", "web"]), line(&["massgen"])]
}
