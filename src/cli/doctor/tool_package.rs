//! Doctor check of MassGen's Python package, which has the tools that some configs name.

use std::collections::BTreeMap;

use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingVerdict};
use crate::config::Config;
use crate::config::custom_tools::{ProgramInterface, PythonFunction};
use crate::path::AbsPath;
use crate::sandbox_policy::toolchains::UserToolchains;
use crate::world::diagnostics::probe::ProbeContext;
use crate::world::diagnostics::probe::toolchain::{PythonPackageProbe, probe_python_package};
use crate::world::io::files::first_file;

/// The package.
const PACKAGE: &str = "massgen";
/// The subject of the finding.
const SUBJECT: &str = "Python package massgen";

/// Checks that the package is installed if `config` names tools of it. Without Python, the finding
/// about the server of the tools says so. A run with the environment `env` finds only what its
/// sandbox opens.
pub(crate) async fn inspect(
    config: &Config,
    context: ProbeContext<'_>,
    env: &BTreeMap<String, String>,
) -> Option<DoctorFinding> {
    let servers = config.agents.iter().flat_map(|agent| &agent.servers);
    let mut interfaces = servers.filter_map(|server| server.program_interface());
    if !interfaces.any(needs_package) {
        return None;
    }
    let missing_finding = |message: String| {
        let finding = DoctorArea::Servers.finding(FindingVerdict::Warning, SUBJECT, message);
        finding.with_remedy("run `pip install massgen`, or remove its tools from `custom_tools`")
    };
    match probe_python_package(PACKAGE, context).await {
        PythonPackageProbe::NoPython => None,
        PythonPackageProbe::Broken(reason) => Some(missing_finding(format!(
            "not found: `python3` does not work: {reason}"
        ))),
        PythonPackageProbe::Missing => Some(missing_finding(
            "not installed for `python3`: a run does without its tools".to_owned(),
        )),
        PythonPackageProbe::Found(directory) if !is_open(&directory, env, context.home) => {
            let message = format!(
                "in `{directory}`, which the sandbox of a run does not open: a run does without"
            );
            let finding = DoctorArea::Servers.finding(FindingVerdict::Warning, SUBJECT, message);
            Some(finding.with_remedy(
                "activate its virtual environment, so that `VIRTUAL_ENV` names it, or for \
                 `pip install --user` put `~/.local/bin` into `PATH`",
            ))
        }
        PythonPackageProbe::Found(directory) => {
            let message = format!("in `{directory}`");
            Some(DoctorArea::Servers.finding(FindingVerdict::Ok, SUBJECT, message))
        }
    }
}

/// Returns whether the sandbox of a run opens `directory`.
fn is_open(directory: &str, env: &BTreeMap<String, String>, home: Option<&AbsPath>) -> bool {
    let toolchains = UserToolchains::from_environment(env, home);
    AbsPath::new(directory).is_some_and(|directory| toolchains.opens(&directory))
}

fn needs_package(interface: &ProgramInterface) -> bool {
    match interface {
        ProgramInterface::Mcp | ProgramInterface::SingleTool(_) => false,
        ProgramInterface::PythonFunctions(python) => {
            python.discovery_exclusions.is_some() || python.functions.iter().any(is_in_package)
        }
    }
}

/// Returns whether a function is looked up in the package: by its name alone, or because its file
/// is only there.
fn is_in_package(function: &PythonFunction) -> bool {
    let Some(file) = &function.file else {
        return true;
    };
    let suffix = file.config_path.strip_prefix(PACKAGE);
    let is_inside = suffix.is_some_and(|suffix| suffix.starts_with(['/', '.']));
    is_inside && first_file(&file.candidates).is_none()
}
