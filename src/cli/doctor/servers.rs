//! Owns what is said about the servers of a team: whether the programs are there that a run starts.
//! Nothing is started, and nobody on the network is asked.

use std::sync::Arc;

use crate::cli::doctor::finding::{Area, Finding, Verdict};
use crate::config::Config;
use crate::config::servers::{Link, ServerConfig};
use crate::world::exec::guest::found;
use crate::world::http::place;

/// Looks for what the servers of `config` need in the directories of `path`.
pub(crate) fn look(config: &Config, path: &str) -> Vec<Finding> {
    let mut servers: Vec<&Arc<ServerConfig>> = Vec::new();
    for server in config.agents.iter().flat_map(|agent| &agent.servers) {
        if !servers.iter().any(|known| Arc::ptr_eq(known, server)) {
            servers.push(server);
        }
    }
    let findings = servers.into_iter().map(|server| judge(server, path));
    findings.collect()
}

fn judge(server: &ServerConfig, path: &str) -> Finding {
    let subject = server.name().to_string();
    match &server.link {
        Link::Program(program) => match found(&program.command, path, None) {
            Ok(words) => {
                let place = words.first().map(String::as_str).unwrap_or_default();
                let message = format!("its program is `{place}`, which a run starts");
                Area::Servers.finds(Verdict::Ok, subject, message)
            }
            Err(error) => Area::Servers.lacks(subject, &error),
        },
        Link::Remote(remote) => {
            let message = format!("not asked: `{}` is on the network", place(&remote.url));
            Area::Servers.finds(Verdict::Skipped, subject, message)
        }
    }
}
