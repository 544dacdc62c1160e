//! Owns what is said about keys: which are set and where they come from. Nothing of a key itself is
//! ever told.

use std::collections::BTreeMap;

use crate::backend::connect::{Surroundings, connect};
use crate::backend::remote::endpoint::KeyOrigin;
use crate::backend::remote::listing::listing;
use crate::cli::doctor::finding::{Area, Finding, Verdict};
use crate::cli::doctor::surrounded;
use crate::cli::environment::Completed;
use crate::config::vendors::{VENDORS, Wire};
use crate::config::{BackendConfig, Config};
use crate::error::Result;
use crate::wording::listed;
use crate::world::exec::guest::found;

/// What is said of the keys that are set, whether or not the team needs them.
pub(crate) fn set(completed: &Completed) -> Vec<Finding> {
    let set = set_variables(completed).into_iter();
    let found = set.map(|(variable, vendors)| {
        let place = place_of(variable, completed);
        let message = format!("set {place}, for {}", listed(&vendors, "and"));
        Area::Keys.finds(Verdict::Ok, variable, message)
    });
    let mut findings: Vec<Finding> = found.collect();
    if findings.is_empty() {
        let message = "no key of a vendor is set, in the environment or in a `.env` file";
        findings.push(Area::Keys.finds(Verdict::Skipped, "none", message));
    }
    findings
}

/// The variables that hold a key, with the vendors that take it.
pub(crate) fn set_variables(completed: &Completed) -> BTreeMap<&'static str, Vec<&'static str>> {
    let variables = completed.host.config_variables();
    let is_set = |name: &str| {
        let value = variables.get(name);
        value.is_some_and(|value| !value.trim().is_empty())
    };
    let mut set: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for vendor in VENDORS.iter().filter(|vendor| vendor.is_served()) {
        for variable in vendor.key_variables.iter().filter(|name| is_set(name)) {
            set.entry(variable).or_default().push(vendor.name);
        }
    }
    set
}

fn place_of(variable: &str, completed: &Completed) -> String {
    let host = &completed.host;
    match host.dotenv.source(variable) {
        Some(source) if !host.env.contains_key(variable) => format!("in `{source}`"),
        Some(_) | None => "in the environment".to_owned(),
    }
}

/// What each agent's models are reached with.
pub(crate) fn of_team(config: &Config, completed: &Completed) -> Vec<Finding> {
    let agents = config.agents.iter();
    let judged = agents.map(|agent| {
        let subject = format!("agent {}", agent.id.as_str());
        match means_of(&agent.backend, completed) {
            Ok(means) => Area::Keys.finds(Verdict::Ok, subject, means.join("; ")),
            Err(error) => Area::Keys.lacks(subject, &error),
        }
    });
    judged.collect()
}

/// What the models of `backend` are reached with. What ends a run before its first request ends
/// this too, with the same words.
fn means_of(backend: &BackendConfig, completed: &Completed) -> Result<Vec<String>> {
    let means = |around: Surroundings<'_>| {
        connect(backend, around)?;
        let models = backend.with_fallbacks();
        models
            .map(|model| means_of_one(model, completed, around))
            .collect()
    };
    surrounded(&completed.host, means)
}

/// The program of a guest.
fn means_of_guest(model: &BackendConfig, completed: &Completed) -> Result<String> {
    let Some(guest) = &model.guest else {
        return Ok("no program".to_owned());
    };
    let path = completed.host.env("PATH").unwrap_or_default();
    let found = found(&guest.command, path, guest.package)?;
    let program = found.first().map_or("", String::as_str);
    Ok(format!("the program `{program}`"))
}

fn means_of_one(
    model: &BackendConfig,
    completed: &Completed,
    around: Surroundings<'_>,
) -> Result<String> {
    let with = match model.vendor.wire {
        Wire::Remote(format) => match listing(model, format, around)?.key {
            Some(KeyOrigin::Config) => "the key that stands in the config".to_owned(),
            Some(KeyOrigin::Variable(name)) => {
                format!("the key of `{name}`, set {}", place_of(name, completed))
            }
            None => "no key, and none is needed".to_owned(),
        },
        Wire::Guest(_) => means_of_guest(model, completed)?,
        Wire::Scripted | Wire::Unserved => "replies from a script".to_owned(),
    };
    let vendor = model.vendor.name;
    Ok(if model.model == vendor {
        format!("{vendor} with {with}")
    } else {
        format!("{vendor} {} with {with}", model.model)
    })
}
