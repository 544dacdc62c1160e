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
use crate::programs::dialect::{Dialect, Libraries};
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
        let used = agents
            .iter()
            .filter_map(|agent| Some(agent.programs?.dialect));
        let used: Vec<Dialect> = used.filter(|used| used.language() == language).collect();
        let is_used = !used.is_empty();
        let dialect = richest(&used).unwrap_or_else(|| language.into());
        if !is_used && needs == Needs::Each {
            continue;
        }
        let finding = match toolchain(language, around).await {
            Toolchain::Missing => {
                let message = format!("`{}` is not in `PATH`", language.program());
                lacks(language.into(), message)
            }
            Toolchain::Found {
                program,
                version: Said::Badly(why),
            } => lacks(language.into(), format!("`{program}` does not work: {why}")),
            Toolchain::Found {
                version: Said::Well(version),
                ..
            } => match tried(dialect, host.clone()).await {
                Ok(()) => {
                    let message = format!("{version}; a program runs in the sandbox");
                    Area::Programs.finds(Verdict::Ok, language.name(), message)
                }
                Err(why) => lacks(dialect, format!("{version}; {why}")),
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

/// The one of them that imports the most.
fn richest(dialects: &[Dialect]) -> Option<Dialect> {
    let imports = |dialect: &&Dialect| match dialect {
        Dialect::Python(libraries) => *libraries,
        Dialect::Go => Libraries::Standard,
    };
    dialects.iter().max_by_key(imports).copied()
}

fn lacks(dialect: Dialect, message: String) -> Finding {
    let language = dialect.language();
    let finding = Area::Programs.finds(Verdict::Missing, language.name(), message);
    finding.remedy(dialect.remedy())
}

/// Runs a program that does nothing. What it takes goes again.
async fn tried(dialect: Dialect, host: Host) -> Result<(), String> {
    let trying = spawn_blocking(move || {
        let shell = Shell::of_nobody(&host).map_err(|error| format!("{error:#}"))?;
        let programs = Programs::new(dialect, ToolFilter::default(), shell.commands.clone());
        try_language(&programs).map_err(|why| format!("no program runs in the sandbox: {why}"))
    });
    let broke_off = |_| Err(Error::bug("the trial broke off").to_string());
    trying.await.unwrap_or_else(broke_off)
}
