//! Doctor checks of the programs that agents write (`execute_code`): whether the language's
//! toolchain is installed, and whether a program runs in the sandbox.

use tokio::task::spawn_blocking;

use crate::cli::call_environment::CallEnvironment;
use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingVerdict};
use crate::cli::doctor::team::ModelRequirement;
use crate::code_mode::ProgramLanguage;
use crate::code_mode::language::{ProgramDialect, PythonLibraries};
use crate::config::{Config, ToolFilter};
use crate::error::Error;
use crate::host::Host;
use crate::world::diagnostics::probe::toolchain::{ToolchainProbe, probe_toolchain};
use crate::world::diagnostics::probe::{ProbeContext, ProgramReply};
use crate::world::exec::program::check_language;
use crate::world::sandbox::program_environment::ProgramEnvironment;

/// Checks the languages that `config` uses; all languages if the user has not named a team.
pub(crate) async fn inspect(
    host: &Host,
    context: ProbeContext<'_>,
    config: Option<&Config>,
    required_models: ModelRequirement,
) -> Vec<DoctorFinding> {
    let agents = config.map_or(&[][..], |config| &config.agents);
    let mut findings = Vec::new();
    for language in [ProgramLanguage::Python, ProgramLanguage::Go] {
        let all_dialects = agents
            .iter()
            .filter_map(|agent| Some(agent.programs?.dialect));
        let dialects: Vec<ProgramDialect> = all_dialects
            .filter(|dialect| dialect.language() == language)
            .collect();
        let is_used = !dialects.is_empty();
        let dialect = most_capable(&dialects).unwrap_or_else(|| language.into());
        if !is_used && required_models == ModelRequirement::All {
            continue;
        }
        let finding = match probe_toolchain(language, context).await {
            ToolchainProbe::Missing => {
                let message = format!("`{}` is not in `PATH`", language.executable());
                missing_toolchain(language.into(), message)
            }
            ToolchainProbe::Found {
                program,
                version: ProgramReply::Failed(reason),
            } => missing_toolchain(
                language.into(),
                format!("`{program}` does not work: {reason}"),
            ),
            ToolchainProbe::Found {
                version: ProgramReply::Succeeded(version),
                ..
            } => match run_test_program(dialect, host.clone()).await {
                Ok(()) => {
                    let message = format!("{version}; a program runs in the sandbox");
                    DoctorArea::Programs.finding(FindingVerdict::Ok, language.name(), message)
                }
                Err(reason) => missing_toolchain(dialect, format!("{version}; {reason}")),
            },
        };
        findings.push(if is_used {
            finding
        } else {
            finding.skipped_if_missing()
        });
    }
    findings
}

/// Returns the dialect that can import the most.
fn most_capable(dialects: &[ProgramDialect]) -> Option<ProgramDialect> {
    let imports = |dialect: &&ProgramDialect| match dialect {
        ProgramDialect::Python(libraries) => *libraries,
        ProgramDialect::Go => PythonLibraries::Standard,
    };
    dialects.iter().max_by_key(imports).copied()
}

fn missing_toolchain(dialect: ProgramDialect, message: String) -> DoctorFinding {
    let language = dialect.language();
    let finding = DoctorArea::Programs.finding(FindingVerdict::Unusable, language.name(), message);
    finding.with_remedy(dialect.remedy())
}

/// Runs a program that does nothing, and removes its directories afterwards.
async fn run_test_program(dialect: ProgramDialect, host: Host) -> Result<(), String> {
    let test = spawn_blocking(move || {
        let environment =
            CallEnvironment::open_without_grants(&host).map_err(|error| format!("{error:#}"))?;
        let programs =
            ProgramEnvironment::new(dialect, ToolFilter::default(), environment.commands.clone());
        check_language(&programs)
            .map_err(|reason| format!("programs do not run in the sandbox: {reason}"))
    });
    let interruption_error = |_| Err(Error::bug("the test was interrupted").to_string());
    test.await.unwrap_or_else(interruption_error)
}
