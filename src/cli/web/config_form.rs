//! Configs that a person writes on the page, with the answers of a form or as text: the questions of
//! the form, opening a file, what the check of configs says, and saving. The page never receives a key
//! and never sends one: only the names of their variables, and whether they are set.

use std::sync::Arc;

use axum::extract::State;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::cli::found_config::reject_outside_reach;
use crate::cli::team_file::{config_context, installed_packages};
use crate::cli::web::overview::run_blocking;
use crate::cli::web::reply::{ApiError, ApiResult, JsonBody, JsonReply, sanitize};
use crate::cli::web::server_state::WebServer;
use crate::config::draft::destination::ConfigDestination;
use crate::config::draft::findings::{DraftFinding, FindingSeverity};
use crate::config::draft::form::{AnswerKind, FORM, FormQuestion, QuestionGroup, offered_vendors};
use crate::config::draft::{DRAFT_ENTRIES_MAX, TeamDraft};
use crate::config::lookup::FOUND_CONFIG;
use crate::config::secrets::redact;
use crate::config::storage_path::STATE_DIR;
use crate::config::vendors::{KeyRequirement, Vendor, VendorConnection};
use crate::config::{ConfigOrigin, LoadedConfig, load};
use crate::dotenv::ConfigVariables;
use crate::error::{Error, ErrorKind, Result};
use crate::text::{shell_line, to_hex};
use crate::world::io::config_file::{ConfigWrite, read_config, write_config};
use crate::world::store::prepare_state_dir;

/// Name of a config that has none yet.
const UNSAVED_CONFIG_NAME: &str = "team.yaml";

/// Body of `POST /api/config/open`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenRequest {
    path: String,
}

/// Body of `POST /api/config/check`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckRequest {
    content: ConfigContent,
    path: Option<String>,
}

/// Body of `POST /api/config/save`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SaveRequest {
    content: ConfigContent,
    path: String,
    /// The digest of the file that the person has agreed to replace, or has opened.
    replaces: Option<String>,
}

/// What is checked or saved.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ConfigContent {
    /// The answers of the form.
    Draft(TeamDraft),
    /// The text of a file.
    Text(String),
}

/// A config that was checked.
struct CheckedConfig {
    text: String,
    /// What was found, as the page reads it.
    report: Value,
    /// The config, if it can be run.
    loaded: Option<LoadedConfig>,
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
    let check_request = move || {
        let name = request.path.as_deref().unwrap_or(UNSAVED_CONFIG_NAME);
        let destination = ConfigDestination::parse(name)?;
        Ok(request.content.check(&server, &destination)?.report)
    };
    run_blocking(check_request).await.map(JsonReply)
}

/// Answers `POST /api/config/open`: the text of a config of the project. One that the page cannot
/// show as it is, such as one with a key, is refused: saving it would damage it.
pub(super) async fn open(
    State(server): State<Arc<WebServer>>,
    JsonBody(request): JsonBody<OpenRequest>,
) -> ApiResult {
    let open_config = move || {
        let destination = ConfigDestination::parse(&request.path)?;
        let config = read_config(&server.host.cwd, &destination)?;
        let path = destination.path().to_string();
        let text = String::from_utf8(config.bytes).map_err(|_| {
            Error::new(ErrorKind::Usage, format!("`{path}` is not UTF-8 text"))
                .with_hint("save the file with the encoding UTF-8")
        })?;
        let shown = sanitize(&server.redactor, json!(redact(&text)));
        if text.contains('\r') || shown.as_str() != Some(&text) {
            let message =
                format!("`{path}` contains a key, or characters that a page does not keep");
            return Err(Error::new(ErrorKind::Denied, message)
                .with_hint("edit it with an editor, and read keys from the environment"));
        }
        Ok(json!({"path": path, "text": text, "digest": config.digest}))
    };
    run_blocking(open_config).await.map(JsonReply)
}

impl ConfigContent {
    /// Checks what would be written to `destination`.
    fn check(self, server: &WebServer, destination: &ConfigDestination) -> Result<CheckedConfig> {
        let host = &server.host;
        let parent = destination.path().parent().unwrap_or_default();
        let origin = ConfigOrigin {
            name: destination.path().to_string(),
            directory: Some(host.cwd.join(parent.as_path())),
        };
        let (env, packages) = (host.config_variables(), installed_packages(host));
        let context = config_context(host, &env, &packages);
        let checked = match self {
            ConfigContent::Draft(draft) => {
                let checked = draft.check(&origin, &context);
                let findings: Vec<Value> = checked.findings.iter().map(finding_json).collect();
                CheckedConfig {
                    report: json!({
                        "yaml": checked.yaml,
                        "findings": findings,
                        "is_valid": checked.loaded.is_some(),
                    }),
                    text: checked.yaml,
                    loaded: checked.loaded,
                }
            }
            ConfigContent::Text(text) => {
                let (report, loaded) = match load(text.as_bytes(), &origin, &context) {
                    Ok(loaded) => (loaded.to_json(), Some(loaded)),
                    Err(invalid) => (invalid.to_json(), None),
                };
                CheckedConfig {
                    text,
                    report,
                    loaded,
                }
            }
        };
        if server.redactor.text(&checked.text) == checked.text {
            return Ok(checked);
        }
        let message = "the config contains a key or another secret";
        Err(Error::new(ErrorKind::Config, message)
            .with_hint("leave it out: keys are read from the environment"))
    }
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

/// Answers `POST /api/config/save`: writes a config that can be run. Runs of this server do not use
/// it; the reply has the commands that do.
pub(super) async fn save(
    State(server): State<Arc<WebServer>>,
    JsonBody(request): JsonBody<SaveRequest>,
) -> ApiResult {
    let is_text = matches!(request.content, ConfigContent::Text(_));
    let save_config = move || {
        let destination = ConfigDestination::parse(&request.path)?;
        let checked = request.content.check(&server, &destination)?;
        let Some(loaded_config) = &checked.loaded else {
            return Err(Error::new(ErrorKind::Config, "the config has errors")
                .with_hint("correct what the check names"));
        };
        prepare_destination(&server, &destination, loaded_config)?;
        let directory = &server.host.cwd;
        let replaces = request.replaces.as_deref();
        let outcome = write_config(directory, &destination, &checked.text, replaces)?;
        let digest = to_hex(&Sha256::digest(&checked.text));
        Ok((destination, digest, outcome))
    };
    let (destination, digest, outcome) = run_blocking(save_config).await?;
    let path = destination.path().to_string();
    match outcome {
        ConfigWrite::Written => Ok(JsonReply(json!({
            "path": path,
            "digest": digest,
            "commands": command_lines(&destination),
        }))),
        ConfigWrite::Occupied { digest } => {
            let (message, hint) = if is_text {
                let message = format!("`{path}` has changed since it was opened");
                (
                    message,
                    "keep a copy of what you typed, and open the file again",
                )
            } else {
                let message = format!("`{path}` exists already");
                (message, "write another name, or replace it")
            };
            Err(ApiError::conflict(message)
                .with_hint(hint)
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
