//! Owns what is said about the programs that agents write (`execute_code`): whether what runs them is
//! there, and whether one runs in the sandbox that would hold it.

use tokio::task::spawn_blocking;

use crate::cli::doctor::finding::{Area, Finding, Verdict};
use crate::cli::doctor::team::Needs;
use crate::cli::shell::Shell;
use crate::config::{Config, ToolFilter};
use crate::error::Error;
use crate::host::Host;
use crate::programs::Language;
use crate::world::exec::program::try_language;
use crate::world::probe::toolchain::{Toolchain, toolchain};
use crate::world::probe::{Said, Surroundings};
use crate::world::programs::Programs;

/// Looks at the languages that `config` uses; where the user has named no team, at all.
pub(crate) async fn look(
    host: &Host,
    around: Surroundings<'_>,
    (config, needs): (Option<&Config>, Needs),
) -> Vec<Finding> {
    let agents = config.map_or(&[][..], |config| &config.agents);
    let mut findings = Vec::new();
    for language in [Language::Python, Language::Go] {
        let mut used = agents.iter().filter_map(|agent| agent.programs);
        let is_used = used.any(|programs| programs.language == language);
        if !is_used && needs == Needs::Each {
            continue;
        }
        let finding = match toolchain(language, around).await {
            Toolchain::Missing => {
                let message = format!("`{}` is not in `PATH`", language.program());
                lacks(language, message)
            }
            Toolchain::Found {
                program,
                version: Said::Badly(why),
            } => lacks(language, format!("`{program}` does not work: {why}")),
            Toolchain::Found {
                version: Said::Well(version),
                ..
            } => match tried(language, host.clone()).await {
                Ok(()) => {
                    let message = format!("{version}; a program runs in the sandbox");
                    Area::Programs.finds(Verdict::Ok, language.name(), message)
                }
                Err(why) => lacks(language, format!("{version}; {why}")),
            },
        };
        findings.push(if is_used {
            finding
        } else {
            finding.not_asked_for()
        });
    }
    findings
}

fn lacks(language: Language, message: String) -> Finding {
    let finding = Area::Programs.finds(Verdict::Missing, language.name(), message);
    finding.remedy(language.remedy())
}

/// Runs a program that does nothing. What it takes goes again.
async fn tried(language: Language, host: Host) -> Result<(), String> {
    let trying = spawn_blocking(move || {
        let shell = Shell::of_nobody(&host).map_err(|error| format!("{error:#}"))?;
        let programs = Programs::new(language, ToolFilter::default(), shell.commands.clone());
        try_language(&programs).map_err(|why| format!("no program runs in the sandbox: {why}"))
    });
    let broke_off = |_| Err(Error::bug("the trial broke off").to_string());
    trying.await.unwrap_or_else(broke_off)
}
