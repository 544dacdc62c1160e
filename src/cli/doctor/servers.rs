//! Doctor checks of a team's servers: whether the programs exist that a run starts. Nothing is
//! started, and no server on the network is asked.

use std::sync::Arc;

use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingVerdict};
use crate::cli::missing_files::{missing_file, subject};
use crate::config::Config;
use crate::config::custom_tools::ProgramInterface;
use crate::config::servers::{ProgramPlace, ServerConfig, ServerProgram, ServerTransport};
use crate::error::{Error, ErrorKind};
use crate::sandbox_policy::NetworkPolicy;
use crate::world::exec::agent_launcher::find_program;
use crate::world::io::http::display_url;
use crate::world::mcp::packages::PackageStore;

/// Checks the servers of `config`, whose programs are looked up in the directories of `path` and of
/// the system.
pub(crate) fn inspect(
    config: &Config,
    path: &str,
    packages: Option<&PackageStore>,
) -> Vec<DoctorFinding> {
    let mut servers: Vec<&Arc<ServerConfig>> = Vec::new();
    for server in config.agents.iter().flat_map(|agent| &agent.servers) {
        if !servers.iter().any(|known| Arc::ptr_eq(known, server)) {
            servers.push(server);
        }
    }
    let findings = servers
        .into_iter()
        .map(|server| check(server, config, path, packages));
    findings.collect()
}

fn check(
    server: &ServerConfig,
    config: &Config,
    path: &str,
    packages: Option<&PackageStore>,
) -> DoctorFinding {
    let subject = subject(server);
    if let Some(missing_file) = missing_file(server, config) {
        let message = format!("file `{}` not found", missing_file.file);
        let error = Error::new(ErrorKind::Environment, message).with_hint(missing_file.hint);
        return DoctorArea::Servers.error_finding(subject, &error);
    }
    if let ServerTransport::Program(program) = &server.transport
        && let Some(packages) = packages
        && let Some(finding) = inspect_package(&subject, program, packages)
    {
        return finding;
    }
    match &server.transport {
        ServerTransport::Program(program) if program.run_in != ProgramPlace::Sandbox => {
            let message = "not tested: its program runs in a container".to_owned();
            DoctorArea::Servers.finding(FindingVerdict::Skipped, subject, message)
        }
        // The first word of its command is a file, and `missing_file` has found it.
        ServerTransport::Program(program) if is_named_by_path(program) => {
            let message = "its program exists, and a call starts it".to_owned();
            DoctorArea::Servers.finding(FindingVerdict::Ok, subject, message)
        }
        ServerTransport::Program(program) => match find_program(&program.command, path, None) {
            Ok(words) => {
                let program = words.first().map(String::as_str).unwrap_or_default();
                let message = format!("program `{program}`, which a run starts");
                DoctorArea::Servers.finding(FindingVerdict::Ok, subject, message)
            }
            Err(error) => DoctorArea::Servers.error_finding(subject, &error),
        },
        ServerTransport::Remote(remote) => {
            let message = format!(
                "not tested: `{}` is a remote server",
                display_url(&remote.url)
            );
            DoctorArea::Servers.finding(FindingVerdict::Skipped, subject, message)
        }
    }
}

/// Returns whether the program of a tool is named by its path.
fn is_named_by_path(program: &ServerProgram) -> bool {
    match &program.interface {
        ProgramInterface::SingleTool(tool) => tool.files.iter().any(|(index, _)| *index == 0),
        ProgramInterface::Mcp | ProgramInterface::PythonFunctions(_) => false,
    }
}

/// Returns the finding about the package of a server; `None` if its command is started as written.
fn inspect_package(
    subject: &str,
    program: &ServerProgram,
    packages: &PackageStore,
) -> Option<DoctorFinding> {
    let request = program.package.as_ref()?;
    let remedy = format!("run `{}`", request.install_command);
    match packages.program(&request.package) {
        Ok(Some(package)) => {
            let message = format!("package in `{}`, which a run starts", package.directory);
            Some(DoctorArea::Servers.finding(FindingVerdict::Ok, subject, message))
        }
        Ok(None) if program.network != NetworkPolicy::Off => None,
        Ok(None) => {
            let message = format!("package `{}` is not installed", request.package.describe());
            let finding = DoctorArea::Servers.finding(FindingVerdict::Unusable, subject, message);
            Some(finding.with_remedy(remedy))
        }
        Err(error) => {
            let finding =
                DoctorArea::Servers.finding(FindingVerdict::Unusable, subject, error.to_string());
            Some(finding.with_remedy(remedy))
        }
    }
}
