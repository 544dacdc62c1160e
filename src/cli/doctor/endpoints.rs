//! Doctor checks of endpoints: requests the list of models of each one, once with each
//! key, if the user asks for it.

use std::time::Duration;

use futures_util::future::join_all;

use crate::backend::connect::ConnectContext;
use crate::backend::remote::endpoint::KeyOrigin;
use crate::backend::remote::model_list::{ModelListRequest, model_list_request};
use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingVerdict};
use crate::cli::doctor::team::ModelRequirement;
use crate::config::keys::nearest;
use crate::config::vendors::{VendorConnection, is_this_machine};
use crate::config::{BackendConfig, Config};
use crate::world::diagnostics::probe::endpoint::{EndpointReply, probe_endpoint};
use crate::world::io::http::{HttpClient, display_url};

/// A model that an endpoint should have, and the request to the endpoint.
#[derive(Debug)]
pub(crate) struct EndpointQuery {
    agent: String,
    vendor: &'static str,
    model: String,
    listing: ModelListRequest,
}

/// Returns the requests to the endpoints of a team. Leaves out models that cannot be connected: the
/// missing key of their agent is already reported.
pub(crate) fn endpoint_queries(config: &Config, context: ConnectContext<'_>) -> Vec<EndpointQuery> {
    let agents = config.agents.iter();
    let models = agents.flat_map(|agent| {
        let models = agent.backend.with_subagent_models();
        models.map(move |model| (agent.id.as_str(), model))
    });
    let query = |(agent, model): (&str, &BackendConfig)| {
        let VendorConnection::Http(format) = model.vendor.connection else {
            return None;
        };
        Some(EndpointQuery {
            agent: agent.to_owned(),
            vendor: model.vendor.name,
            model: model.model.clone(),
            listing: model_list_request(model, format, context).ok()?,
        })
    };
    models.filter_map(query).collect()
}

/// Returns the findings if no endpoint is asked.
pub(crate) fn skipped_findings(queries: &[EndpointQuery]) -> Vec<DoctorFinding> {
    let mut urls: Vec<String> = queries
        .iter()
        .map(|query| display_url(&query.listing.url))
        .collect();
    urls.sort_unstable();
    urls.dedup();
    if urls.is_empty() {
        let message = "the team uses no endpoint";
        return vec![DoctorArea::Endpoints.finding(FindingVerdict::Ok, "none", message)];
    }
    let message = "not tested without `--online`";
    let finding =
        |subject| DoctorArea::Endpoints.finding(FindingVerdict::Skipped, subject, message);
    let mut findings: Vec<DoctorFinding> = urls.into_iter().map(finding).collect();
    // One remedy after the last line serves them all.
    if let Some(last_finding) = findings.pop() {
        findings.push(last_finding.with_remedy("massgen doctor --online"));
    }
    findings
}

/// Asks every endpoint once with each key, all at the same time, and reports the answers.
pub(crate) async fn query_all(
    queries: Vec<EndpointQuery>,
    required_models: ModelRequirement,
) -> Vec<DoctorFinding> {
    let http = HttpClient::new();
    let mut listings: Vec<&ModelListRequest> = Vec::new();
    for EndpointQuery { listing, .. } in &queries {
        if !listings.contains(&listing) {
            listings.push(listing);
        }
    }
    let probes = listings.iter().map(|listing| {
        let reply = probe_endpoint(&http, &listing.url, listing.headers.clone());
        async { (*listing, reply.await) }
    });
    let replies: Vec<(&ModelListRequest, EndpointReply)> = join_all(probes).await;
    let check_query = |query: &EndpointQuery| {
        let mut replies = replies.iter();
        let (_, reply) = replies.find(|(listing, _)| **listing == query.listing)?;
        Some(check_reply(query, reply))
    };
    let findings: Vec<DoctorFinding> = queries.iter().filter_map(check_query).collect();
    let is_ok = |finding: &DoctorFinding| finding.verdict() == FindingVerdict::Ok;
    // If one model is enough and there is one, the others need not work.
    if required_models == ModelRequirement::Any && findings.iter().any(is_ok) {
        return findings
            .into_iter()
            .map(DoctorFinding::warning_if_missing)
            .collect();
    }
    findings
}

fn check_reply(query: &EndpointQuery, reply: &EndpointReply) -> DoctorFinding {
    let shown_url = display_url(&query.listing.url);
    let subject = format!("agent {}", query.agent);
    let finding = |verdict, message: &str| {
        DoctorArea::Endpoints.finding(
            verdict,
            subject.as_str(),
            format!("`{shown_url}` {message}"),
        )
    };
    match reply {
        EndpointReply::Unreachable(reason) => finding(
            FindingVerdict::Unusable,
            &format!("not reachable: {reason}"),
        )
        .with_remedy(endpoint_remedy(query)),
        EndpointReply::TooSlow(time) => {
            let message = format!("no response within {} s", time.as_secs());
            finding(FindingVerdict::Unusable, &message).with_remedy(endpoint_remedy(query))
        }
        EndpointReply::Answered {
            status: 200..=299,
            models: Some(models),
            elapsed,
        } => check_model_list(query, models, *elapsed, finding),
        EndpointReply::Answered {
            status: 200..=299 | 404 | 405,
            elapsed,
            ..
        } => {
            let ms = elapsed.as_millis();
            let message = format!("responds in {ms} ms, without a model list");
            finding(FindingVerdict::Warning, &message)
                .with_remedy("check `base_url`: most end in `/v1`")
        }
        EndpointReply::Answered {
            // Google returns 400 for an invalid key.
            status: status @ (400 | 401 | 403),
            ..
        } => {
            let key = key_description(query);
            let message = format!("rejects {key} (HTTP {status})");
            finding(FindingVerdict::Unusable, &message).with_remedy(new_key_remedy(query))
        }
        EndpointReply::Answered { status: 429, .. } => {
            let message = "rate limited (HTTP 429)";
            finding(FindingVerdict::Warning, message)
                .with_remedy("wait, or check your plan with the vendor")
        }
        EndpointReply::Answered { status, .. } => {
            let message = format!("responds with HTTP {status}");
            finding(FindingVerdict::Unusable, &message).with_remedy(endpoint_remedy(query))
        }
    }
}

fn check_model_list(
    query: &EndpointQuery,
    models: &[String],
    elapsed: Duration,
    finding: impl Fn(FindingVerdict, &str) -> DoctorFinding,
) -> DoctorFinding {
    let ms = elapsed.as_millis();
    let model = &query.model;
    // Ollama lists the model `qwen3` as `qwen3:latest`.
    let is_model = |name: &String| name == model || name.strip_suffix(":latest") == Some(model);
    if models.iter().any(is_model) {
        let message = format!(
            "responds in {ms} ms, accepts {} and lists `{model}`",
            key_description(query)
        );
        return finding(FindingVerdict::Ok, &message);
    }
    let message = format!("responds in {ms} ms, but does not list `{model}`");
    let finding = finding(FindingVerdict::Warning, &message);
    match nearest(model, models.iter().map(String::as_str)) {
        Some(near) => finding.with_remedy(format!("did you mean `model: {near}`?")),
        None => finding.with_remedy("see the vendor's list of models"),
    }
}

fn key_description(query: &EndpointQuery) -> String {
    match query.listing.key {
        Some(KeyOrigin::Config) => "the API key of the config".to_owned(),
        Some(KeyOrigin::Variable(name)) => format!("the API key `{name}`"),
        None => "a request without an API key".to_owned(),
    }
}

fn new_key_remedy(query: &EndpointQuery) -> String {
    match query.listing.key {
        Some(KeyOrigin::Config) => "set a valid `api_key` in the config".to_owned(),
        Some(KeyOrigin::Variable(name)) => format!("export {name}=…   # a valid key"),
        None => "set `api_key` of the backend".to_owned(),
    }
}

fn endpoint_remedy(query: &EndpointQuery) -> &'static str {
    match query.vendor {
        "ollama" => "ollama serve",
        _ if is_this_machine(&query.listing.url) => {
            "start the server, or correct `base_url` in the config"
        }
        _ => "check the network, the proxy (`HTTPS_PROXY`) and `base_url`, then retry",
    }
}
