//! Doctor checks of keys: which are set, where they come from, and with which the models and
//! programs of a team work. No part of a key must ever be printed.

use std::collections::BTreeMap;

use crate::backend::connect::{ConnectContext, connect};
use crate::backend::remote::endpoint::KeyOrigin;
use crate::backend::remote::model_list::model_list_request;
use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingVerdict};
use crate::cli::doctor::with_connect_context;
use crate::cli::environment::LoadedEnvironment;
use crate::config::external_agents::SIGN_IN_HINT;
use crate::config::vendors::{VENDORS, VendorConnection};
use crate::config::{BackendConfig, Config};
use crate::error::Result;
use crate::text::list_names;
use crate::world::exec::agent_launcher::find_program;

/// Reports the keys that are set, whether or not the team needs them.
pub(crate) fn configured_keys(loaded_environment: &LoadedEnvironment) -> Vec<DoctorFinding> {
    let variables = configured_variables(loaded_environment).into_iter();
    let key_findings = variables.map(|(variable, vendors)| {
        let source = variable_source(variable, loaded_environment);
        let message = format!("set {source}, for {}", list_names(&vendors, "and"));
        DoctorArea::Keys.finding(FindingVerdict::Ok, variable, message)
    });
    let mut findings: Vec<DoctorFinding> = key_findings.collect();
    if findings.is_empty() {
        let message = "no API key is set, neither in the environment nor in a `.env` file";
        findings.push(DoctorArea::Keys.finding(FindingVerdict::Skipped, "none", message));
    }
    findings
}

/// Returns the variables that hold a key, with the vendors that use it.
pub(crate) fn configured_variables(
    loaded_environment: &LoadedEnvironment,
) -> BTreeMap<&'static str, Vec<&'static str>> {
    let variables = loaded_environment.host.config_variables();
    let is_set = |name: &str| {
        let value = variables.get(name);
        value.is_some_and(|value| !value.trim().is_empty())
    };
    let mut vendors_of_variables: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for vendor in VENDORS.iter().filter(|vendor| vendor.is_supported()) {
        for variable in vendor.key_variables.iter().filter(|name| is_set(name)) {
            vendors_of_variables
                .entry(variable)
                .or_default()
                .push(vendor.name);
        }
    }
    vendors_of_variables
}

/// Returns where a variable is set, as the end of a sentence.
fn variable_source(variable: &str, loaded_environment: &LoadedEnvironment) -> String {
    let host = &loaded_environment.host;
    match host.dotenv.source(variable) {
        Some(source) if !host.env.contains_key(variable) => format!("in `{source}`"),
        Some(_) | None => "in the environment".to_owned(),
    }
}

/// Reports the credentials of each agent's models; agents with the same problem share a finding.
pub(crate) fn team_keys(
    config: &Config,
    loaded_environment: &LoadedEnvironment,
) -> Vec<DoctorFinding> {
    let agents = config.agents.iter();
    let key_findings = agents.map(|agent| {
        let id = agent.id.as_str();
        let finding = match backend_credentials(&agent.backend, loaded_environment) {
            Ok(credentials) => {
                DoctorArea::Keys.finding(FindingVerdict::Ok, id, credentials.join("; "))
            }
            Err(error) => DoctorArea::Keys.error_finding(id, &error),
        };
        (id, finding)
    });
    merge_problems(key_findings.chain(signed_out_programs(config)))
}

/// Merges the problems that several agents have, and names these agents in one finding.
fn merge_problems<'a>(
    findings: impl Iterator<Item = (&'a str, DoctorFinding)>,
) -> Vec<DoctorFinding> {
    let mut merged_findings: Vec<(Vec<&str>, DoctorFinding)> = Vec::new();
    for (agent, finding) in findings {
        let is_problem = finding.verdict() != FindingVerdict::Ok;
        let mut earlier_findings = merged_findings.iter_mut();
        match earlier_findings.find(|(_, shared)| is_problem && shared.says_the_same(&finding)) {
            Some((agents, _)) => agents.push(agent),
            None => merged_findings.push((vec![agent], finding)),
        }
    }
    let findings = merged_findings.into_iter().map(|(agents, finding)| {
        let noun = if agents.len() == 1 { "agent" } else { "agents" };
        finding.with_subject(format!("{noun} {}", agents.join(", ")))
    });
    findings.collect()
}

/// Reports the agents whose programs have nothing to sign in with.
fn signed_out_programs(config: &Config) -> impl Iterator<Item = (&str, DoctorFinding)> {
    let agents = config.agents.iter();
    agents.filter_map(|agent| {
        let program = agent.backend.external_agent.as_ref()?;
        (!program.may_sign_in()).then(|| {
            let id = agent.id.as_str();
            let message = format!("`{}` has no API key and no token", program.vendor);
            let finding = DoctorArea::Keys.finding(FindingVerdict::Warning, id, message);
            (id, finding.with_remedy(SIGN_IN_HINT))
        })
    })
}

/// Returns the credentials of the models of `backend`. Fails with the same error as a run would
/// before its first request.
fn backend_credentials(
    backend: &BackendConfig,
    loaded_environment: &LoadedEnvironment,
) -> Result<Vec<String>> {
    let read_credentials = |context: ConnectContext<'_>| {
        connect(backend, context)?;
        let models = backend.with_subagent_models();
        models
            .map(|model| model_credentials(model, loaded_environment, context))
            .collect()
    };
    with_connect_context(&loaded_environment.host, read_credentials)
}

/// Returns the program of an external agent.
fn external_agent_program(
    model: &BackendConfig,
    loaded_environment: &LoadedEnvironment,
) -> Result<String> {
    let Some(external_agent) = &model.external_agent else {
        return Ok("no program".to_owned());
    };
    let path = loaded_environment.host.env("PATH").unwrap_or_default();
    let words = find_program(&external_agent.command, path, external_agent.package)?;
    let program = words.first().map_or("", String::as_str);
    Ok(format!("the program `{program}`"))
}

/// Returns a model with its credentials, in words.
fn model_credentials(
    model: &BackendConfig,
    loaded_environment: &LoadedEnvironment,
    context: ConnectContext<'_>,
) -> Result<String> {
    let credentials = match model.vendor.connection {
        VendorConnection::Http(format) => match model_list_request(model, format, context)?.key {
            Some(KeyOrigin::Config) => "the API key in the config".to_owned(),
            Some(KeyOrigin::Variable(name)) => {
                format!(
                    "the API key `{name}`, set {}",
                    variable_source(name, loaded_environment)
                )
            }
            None => "no API key, and none is needed".to_owned(),
        },
        VendorConnection::ExternalAgent(_) => external_agent_program(model, loaded_environment)?,
        VendorConnection::Scripted | VendorConnection::Unsupported => "scripted replies".to_owned(),
    };
    let vendor = model.vendor.name;
    Ok(if model.model == vendor {
        format!("{vendor} with {credentials}")
    } else {
        format!("{vendor} {} with {credentials}", model.model)
    })
}
