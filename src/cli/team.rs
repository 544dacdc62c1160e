//! Owns which team runs: the one that the command line names or describes, the one whose config is
//! found, or one that is made of the keys and local servers that are there.

use futures_util::future::join_all;

use crate::cli::args::RunArguments;
use crate::cli::output::Output;
use crate::cli::team_file::TeamFile;
use crate::config::Config;
use crate::config::Loaded;
use crate::config::diagnostic::Severity;
use crate::config::team::{LocalServer, Quick, Workspaces, from_surroundings, quick};
use crate::config::vendors::{KeyNeed, VENDORS, Vendor, Wire};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::wording::counted;
use crate::world::http::HttpClient;

/// The team of a run. What the command line names comes first, then what an earlier turn used.
/// `workspaces` says what agents get that no config describes.
pub(crate) async fn team(
    host: &Host,
    arguments: &RunArguments,
    (remembered, workspaces): (Option<TeamFile>, Workspaces),
    output: &mut Output<'_>,
) -> Result<ChosenTeam> {
    if let Some(team) = team_at_hand(host, arguments, (remembered, workspaces), output)? {
        return Ok(team);
    }
    let servers = local_servers().await;
    let found = from_surroundings(&host.config_variables(), &servers, workspaces)?;
    output.note(&found.summary);
    Ok(ChosenTeam {
        config: found.config,
        file: None,
    })
}

/// As [`team`], without one that is made of what answers; nothing if only such a one is left.
pub(crate) fn team_at_hand(
    host: &Host,
    arguments: &RunArguments,
    (remembered, workspaces): (Option<TeamFile>, Workspaces),
    output: &mut Output<'_>,
) -> Result<Option<ChosenTeam>> {
    if let Some(described) = described(arguments) {
        let config = quick(&described, workspaces)?;
        return Ok(Some(ChosenTeam { config, file: None }));
    }
    let file = match &arguments.config {
        Some(argument) => Some(TeamFile::named(argument, host)?),
        None if remembered.is_some() => remembered,
        None => TeamFile::default(host, output)?,
    };
    let Some(file) = file else {
        return Ok(None);
    };
    if arguments.config.is_none() {
        output.note(&format!("config: {}", file.name()));
    }
    let config = checked(&file, host, output)?;
    Ok(Some(ChosenTeam {
        config,
        file: Some(file),
    }))
}

/// The team of a run, with the file that describes it, if there is one.
#[derive(Clone, Debug)]
pub(crate) struct ChosenTeam {
    /// The team.
    pub config: Config,
    /// Where it comes from.
    pub file: Option<TeamFile>,
}

/// The agent that the flags describe, if there are any.
fn described(arguments: &RunArguments) -> Option<Quick<'_>> {
    let described = Quick {
        model: arguments.model.as_deref(),
        backend: arguments.backend.as_deref(),
        base_url: arguments.base_url.as_deref(),
        system_message: arguments.system_message.as_deref(),
    };
    let flags = [
        described.model,
        described.backend,
        described.base_url,
        described.system_message,
    ];
    flags.iter().any(Option::is_some).then_some(described)
}

/// The team that a config describes. Its findings are shown, and errors end the run.
pub(crate) fn checked(file: &TeamFile, host: &Host, output: &mut Output<'_>) -> Result<Config> {
    let loaded = loaded(file, host, output)?;
    for warning in loaded.warning_lines() {
        output.warning(&warning);
    }
    Ok(loaded.config)
}

/// As [`checked`], for what is asked about single calls, again and again: its warnings are left to runs
/// and to `massgen config check`.
pub(crate) fn checked_in_silence(
    file: &TeamFile,
    host: &Host,
    output: &mut Output<'_>,
) -> Result<Config> {
    loaded(file, host, output).map(|loaded| loaded.config)
}

fn loaded(file: &TeamFile, host: &Host, output: &mut Output<'_>) -> Result<Loaded> {
    match file.load(host) {
        Ok(loaded) => {
            file.trust(&loaded, host)?;
            Ok(loaded)
        }
        Err(invalid) => {
            output.note(&invalid.render());
            let found = invalid.diagnostics.iter();
            let errors = found
                .filter(|found| found.severity == Severity::Error)
                .count();
            let errors = counted(errors, "error");
            let message = format!("`{}` cannot be run: it has {errors}", file.name());
            Err(Error::new(ErrorKind::Config, message)
                .hint("change what is marked above; nothing has been started"))
        }
    }
}

/// The servers on this machine that answer, in the order of the vendor table.
pub(crate) async fn local_servers() -> Vec<LocalServer> {
    let http = HttpClient::new();
    let asked = VENDORS
        .iter()
        .filter(|vendor| is_local(vendor))
        .map(|vendor| probe(&http, vendor));
    join_all(asked).await.into_iter().flatten().collect()
}

fn is_local(vendor: &Vendor) -> bool {
    matches!(vendor.wire, Wire::Remote(_)) && vendor.key == KeyNeed::Optional
}

async fn probe(http: &HttpClient, vendor: &'static Vendor) -> Option<LocalServer> {
    let base_url = vendor.base_url?;
    let models = http.probe_models(base_url).await?;
    Some(LocalServer {
        vendor,
        base_url: base_url.to_owned(),
        models,
    })
}
