//! Doctor checks of a team's servers: whether the programs exist that a run starts. Nothing is
//! started, and no server on the network is asked.

use std::sync::Arc;

use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingLevel};
use crate::config::Config;
use crate::config::servers::{ServerConfig, ServerTransport};
use crate::world::exec::agent_launcher::find_program;
use crate::world::io::http::display_url;

/// Checks the servers of `config`, whose programs are looked up in the directories of `path`.
pub(crate) fn inspect(config: &Config, path: &str) -> Vec<DoctorFinding> {
    let mut servers: Vec<&Arc<ServerConfig>> = Vec::new();
    for server in config.agents.iter().flat_map(|agent| &agent.servers) {
        if !servers.iter().any(|known| Arc::ptr_eq(known, server)) {
            servers.push(server);
        }
    }
    let findings = servers.into_iter().map(|server| check(server, path));
    findings.collect()
}

fn check(server: &ServerConfig, path: &str) -> DoctorFinding {
    let subject = server.name().to_string();
    match &server.link {
        ServerTransport::Program(program) => match find_program(&program.command, path, None) {
            Ok(words) => {
                let place = words.first().map(String::as_str).unwrap_or_default();
                let message = format!("program `{place}`, which a run starts");
                DoctorArea::Servers.finding(FindingLevel::Ok, subject, message)
            }
            Err(error) => DoctorArea::Servers.error_finding(subject, &error),
        },
        ServerTransport::Remote(remote) => {
            let message = format!(
                "not tested: `{}` is a remote server",
                display_url(&remote.url)
            );
            DoctorArea::Servers.finding(FindingLevel::Skipped, subject, message)
        }
    }
}
