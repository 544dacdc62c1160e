//! Owns what is said about endpoints: each is asked once for its models, if the user wants that.

use std::time::Duration;

use futures_util::future::join_all;

use crate::backend::connect::Surroundings;
use crate::backend::remote::endpoint::KeyOrigin;
use crate::backend::remote::listing::{Listing, listing};
use crate::cli::doctor::finding::{Area, Finding, Verdict};
use crate::cli::doctor::team::Needs;
use crate::config::keys::nearest;
use crate::config::vendors::{Wire, is_this_machine};
use crate::config::{BackendConfig, Config};
use crate::world::http::{HttpClient, place};
use crate::world::probe::endpoint::{Reached, ask};

/// A model that an endpoint should have, and the question to the endpoint.
#[derive(Debug)]
pub(crate) struct Question {
    agent: String,
    vendor: &'static str,
    model: String,
    listing: Listing,
}

/// What there is to ask of the endpoints of a team. A model that could not be reached at all is not
/// among it: its agent's key was found to be missing.
pub(crate) fn questions(config: &Config, around: Surroundings<'_>) -> Vec<Question> {
    let agents = config.agents.iter();
    let models = agents.flat_map(|agent| {
        let models = agent.backend.with_fallbacks();
        models.map(move |model| (agent.id.as_str(), model))
    });
    let question = |(agent, model): (&str, &BackendConfig)| {
        let Wire::Remote(format) = model.vendor.wire else {
            return None;
        };
        Some(Question {
            agent: agent.to_owned(),
            vendor: model.vendor.name,
            model: model.model.clone(),
            listing: listing(model, format, around).ok()?,
        })
    };
    models.filter_map(question).collect()
}

/// What is said when nobody is asked.
pub(crate) fn unasked(questions: &[Question]) -> Vec<Finding> {
    let mut places: Vec<String> = questions
        .iter()
        .map(|asked| place(&asked.listing.url))
        .collect();
    places.sort_unstable();
    places.dedup();
    if places.is_empty() {
        let message = "the team needs none";
        return vec![Area::Endpoints.finds(Verdict::Ok, "none", message)];
    }
    let message = "not asked: nothing has left this machine";
    let finding = |place| Area::Endpoints.finds(Verdict::Skipped, place, message);
    let mut findings: Vec<Finding> = places.into_iter().map(finding).collect();
    if let Some(last) = findings.pop() {
        findings.push(last.remedy("massgen doctor --online"));
    }
    findings
}

/// Asks every endpoint once with each key, all at the same time, and says what each answered.
pub(crate) async fn look(questions: Vec<Question>, needs: Needs) -> Vec<Finding> {
    let http = HttpClient::new();
    let mut distinct: Vec<&Listing> = Vec::new();
    for Question { listing, .. } in &questions {
        if !distinct.contains(&listing) {
            distinct.push(listing);
        }
    }
    let asking = distinct.iter().map(|listing| {
        let reached = ask(&http, &listing.url, listing.headers.clone());
        async { (*listing, reached.await) }
    });
    let reached: Vec<(&Listing, Reached)> = join_all(asking).await;
    let judged = questions.iter().filter_map(|question| {
        let mut reached = reached.iter();
        let (_, reached) = reached.find(|(listing, _)| **listing == question.listing)?;
        Some(judge(question, reached))
    });
    let findings: Vec<Finding> = judged.collect();
    let is_fine = |finding: &Finding| finding.verdict() == Verdict::Ok;
    if needs == Needs::One && findings.iter().any(is_fine) {
        return findings.into_iter().map(Finding::not_needed).collect();
    }
    findings
}

fn judge(question: &Question, reached: &Reached) -> Finding {
    let place = place(&question.listing.url);
    let subject = format!("agent {}", question.agent);
    let finds = |verdict, what: &str| {
        Area::Endpoints.finds(verdict, subject.as_str(), format!("`{place}` {what}"))
    };
    match reached {
        Reached::No(why) => {
            finds(Verdict::Missing, &format!("cannot be reached: {why}")).remedy(way_to(question))
        }
        Reached::TooSlow(time) => {
            let what = format!("does not answer within {} s", time.as_secs());
            finds(Verdict::Missing, &what).remedy(way_to(question))
        }
        Reached::Answered {
            status: 200..=299,
            models: Some(models),
            elapsed,
        } => listed(question, models, *elapsed, finds),
        Reached::Answered {
            status: 200..=299 | 404 | 405,
            elapsed,
            ..
        } => {
            let ms = elapsed.as_millis();
            let what = format!("answers in {ms} ms, and lists no models");
            finds(Verdict::Warning, &what)
                .remedy("see whether `base_url` leads where it should: most end in `/v1`")
        }
        Reached::Answered {
            // Google says 400 of a key that is none.
            status: status @ (400 | 401 | 403),
            ..
        } => {
            let key = key_of(question);
            let what = format!("does not accept {key} (HTTP {status})");
            finds(Verdict::Missing, &what).remedy(new_key(question))
        }
        Reached::Answered { status: 429, .. } => {
            let what = "answers, and asks for fewer requests (HTTP 429)";
            finds(Verdict::Warning, what).remedy("wait, or look at your plan with the vendor")
        }
        Reached::Answered { status, .. } => {
            let what = format!("answers with HTTP {status}");
            finds(Verdict::Missing, &what).remedy(way_to(question))
        }
    }
}

fn listed(
    question: &Question,
    models: &[String],
    elapsed: Duration,
    finds: impl Fn(Verdict, &str) -> Finding,
) -> Finding {
    let ms = elapsed.as_millis();
    let model = &question.model;
    // Ollama lists `qwen3:latest` for what is asked for as `qwen3`.
    let is_it = |name: &String| name == model || name.strip_suffix(":latest") == Some(model);
    if models.iter().any(is_it) {
        let what = format!(
            "answers in {ms} ms, takes {} and lists `{model}`",
            key_of(question)
        );
        return finds(Verdict::Ok, &what);
    }
    let what = format!("answers in {ms} ms, and does not list `{model}`");
    let finding = finds(Verdict::Warning, &what);
    match nearest(model, models.iter().map(String::as_str)) {
        Some(near) => finding.remedy(format!("did you mean `model: {near}`?")),
        None => finding.remedy("see the vendor's list for the name of the model"),
    }
}

fn key_of(question: &Question) -> String {
    match question.listing.key {
        Some(KeyOrigin::Config) => "the key of the config".to_owned(),
        Some(KeyOrigin::Variable(name)) => format!("the key of `{name}`"),
        None => "a request without a key".to_owned(),
    }
}

fn new_key(question: &Question) -> String {
    match question.listing.key {
        Some(KeyOrigin::Config) => "put a valid key into the config as `api_key`".to_owned(),
        Some(KeyOrigin::Variable(name)) => format!("export {name}=…   # a valid key"),
        None => "give the backend an `api_key`".to_owned(),
    }
}

fn way_to(question: &Question) -> &'static str {
    match question.vendor {
        "ollama" => "ollama serve",
        _ if is_this_machine(&question.listing.url) => {
            "start the server, or correct its `base_url` in the config"
        }
        _ => "check the network, the proxy (`HTTPS_PROXY`) and `base_url`; then ask again",
    }
}
