//! Implements `massgen mcp install`, `massgen mcp list` and `massgen mcp uninstall`: finds the
//! packages of a config's servers, and reports to the user. `world::mcp::packages` installs them.

use std::collections::{BTreeMap, BTreeSet};

use tokio::task::spawn_blocking;
use url::Url;

use crate::cli::args::mcp::{InstallArguments, UninstallArguments};
use crate::cli::call_environment::CallEnvironment;
use crate::cli::command_line::usage_error;
use crate::cli::environment;
use crate::cli::interrupts::{listen, single_thread_runtime, wait_or_interrupt};
use crate::cli::output::CliOutput;
use crate::cli::team::load_config_without_warnings;
use crate::cli::team_file::TeamFile;
use crate::config::Config;
use crate::config::server_package::{PackageRegistry, ServerPackage};
use crate::config::servers::ServerTransport;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::{HangupAction, Host};
use crate::text::count_noun;
use crate::world::mcp::packages::install::{
    CERTIFICATE_VARIABLES, PackageInstaller, reachable_domains,
};
use crate::world::mcp::packages::{InstalledPackage, PackageStore};
use crate::world::sandbox::exec_environment::ExecEnvironment;
use crate::world::sandbox::interrupt::CommandInterrupt;

/// Number of digits of a digest that are shown.
const DIGITS_SHOWN: usize = 12;

/// A package and the servers that need it.
struct PackageUse {
    package: ServerPackage,
    servers: BTreeSet<String>,
}

/// Installs the packages of the servers of a config.
pub(crate) fn install(
    host: &Host,
    arguments: &InstallArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let host = &environment::load(host).host;
    let file = match &arguments.config {
        Some(argument) => TeamFile::find(argument, host)?,
        None => TeamFile::find_default(host, output)?.ok_or_else(|| {
            let message = "no config found that names a server";
            Error::new(ErrorKind::Config, message).with_hint("name one with `--config`")
        })?,
    };
    let config = load_config_without_warnings(&file, host, output)?;
    let uses = select_packages(&config, &arguments.servers, file.name())?;
    let store = package_store(host)?;
    if uses.is_empty() {
        output.note(&format!(
            "no server of `{}` downloads a package",
            file.name()
        ));
        return Ok(ExitStatus::Success);
    }
    let needs_installation = |package_use: &PackageUse| {
        let package = store.find(&package_use.package);
        match &package {
            Ok(Some(package)) if !arguments.update => {
                output.note(&format!("{} is installed", describe(package)));
                return false;
            }
            Ok(_) => {}
            Err(error) => output.warning(&error.to_string()),
        }
        true
    };
    let packages_to_install: Vec<PackageUse> =
        uses.into_iter().filter(needs_installation).collect();
    if packages_to_install.is_empty() {
        return Ok(ExitStatus::Success);
    }
    install_packages(packages_to_install, &store, arguments, host, output)
}

/// Installs these packages, one after another.
fn install_packages(
    packages_to_install: Vec<PackageUse>,
    store: &PackageStore,
    arguments: &InstallArguments,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let environment = CallEnvironment::open_without_grants(host)?;
    let runtime = single_thread_runtime()?;
    let variables: BTreeMap<String, String> = CERTIFICATE_VARIABLES
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), host.env(name)?.to_owned())))
        .collect();
    let count = packages_to_install.len();
    for (index, package_use) in packages_to_install.into_iter().enumerate() {
        let registry = arguments.registry.as_ref();
        let domains = reachable_domains(&package_use.package, registry)?;
        let domains: Vec<String> = domains.iter().map(ToString::to_string).collect();
        output.note(&format!(
            "installing `{}` ({} of {count}), sandbox level {}, network: {}",
            package_use.package.describe(),
            index.saturating_add(1),
            environment.commands.sandbox_level(),
            domains.join(", ")
        ));
        let job = InstallationJob {
            store: store.clone(),
            environment: environment.commands.clone(),
            package: package_use.package,
            registry: registry.cloned(),
            variables: variables.clone(),
        };
        let registry_kind = job.package.registry;
        let installed_package = runtime
            .block_on(job.run(host.hangup))
            .map_err(|error| explain_refusal(error, registry_kind))?;
        let servers: Vec<&str> = package_use.servers.iter().map(String::as_str).collect();
        output.note(&format!(
            "installed {} for {}",
            describe(&installed_package),
            servers.join(", ")
        ));
    }
    Ok(ExitStatus::Success)
}

/// Adds hints to an error that quotes the refusal of a registry or of a proxy.
fn explain_refusal(error: Error, registry: PackageRegistry) -> Error {
    if !quotes_refusal(&error.to_string()) {
        return error;
    }
    let download = match registry {
        PackageRegistry::Npm => "npm pack PACKAGE",
        PackageRegistry::Python => "pip download --no-deps PACKAGE",
    };
    error
        .with_hint(
            "403 means that the package is private, that your network blocks the registry, or that the \
             registry has no public address; neither a login nor a proxy of yours is used here",
        )
        .with_hint("use another registry: massgen mcp install --registry https://npm.example.org/")
        .with_hint(format!(
            "or download it yourself with `{download}`, and write its absolute path instead of the \
             package in `args` of the server"
        ))
}

/// Returns whether `message` quotes the HTTP status 403, as npm, pip and proxies write it. The same
/// digits in versions, ports and counts are no status.
fn quotes_refusal(message: &str) -> bool {
    let is_punctuation = |c: char| !c.is_ascii_alphanumeric();
    let words = message
        .split_whitespace()
        .map(|word| word.trim_matches(is_punctuation));
    let words: Vec<&str> = words.collect();
    let is_status = |pair: &[&str]| {
        matches!(
            pair,
            ["403", "Forbidden" | "Client"] | ["error" | "code" | "status" | "response", "403"]
        )
    };
    words.contains(&"E403") || words.windows(2).any(is_status)
}

/// The installation of one package.
struct InstallationJob {
    store: PackageStore,
    environment: ExecEnvironment,
    package: ServerPackage,
    registry: Option<Url>,
    variables: BTreeMap<String, String>,
}

impl InstallationJob {
    /// Installs the package in the blocking pool; a signal ends the installation.
    async fn run(self, hangup: HangupAction) -> Result<InstalledPackage> {
        let start_error = |error| Error::io("cannot start the installation", error);
        let interrupt = CommandInterrupt::new().map_err(start_error)?;
        let stop = listen(hangup)?;
        let install_interrupt = interrupt.clone();
        let installation = spawn_blocking(move || {
            let installer = PackageInstaller {
                store: &self.store,
                environment: &self.environment,
                registry: self.registry.as_ref(),
                variables: &self.variables,
                interrupt: &install_interrupt,
            };
            installer.install(&self.package)
        });
        wait_or_interrupt(installation, &stop, &interrupt).await?
    }
}

/// Lists the installed packages.
pub(crate) fn list(host: &Host, output: &mut CliOutput<'_>) -> Result<ExitStatus> {
    let store = package_store(host)?;
    let packages = store.list()?;
    if packages.is_empty() {
        output.note("no package is installed; `massgen mcp install --config FILE` installs those of a config");
    }
    for package in &packages {
        let digest = package
            .integrity
            .as_deref()
            .unwrap_or("no digest of the registry");
        output.result(&format!(
            "{}  {}\n    {}\n    {digest}\n",
            describe(package),
            package.packages.join(" "),
            store.path().join(&package.directory),
        ))?;
    }
    Ok(ExitStatus::Success)
}

/// Removes installed packages.
pub(crate) fn uninstall(
    host: &Host,
    arguments: &UninstallArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let store = package_store(host)?;
    for name in &arguments.packages {
        let removed_packages = store.remove(name)?;
        if removed_packages.is_empty() {
            return Err(
                usage_error(format!("the package `{name}` is not installed"))
                    .with_hint("`massgen mcp list` lists those that are"),
            );
        }
        for package in &removed_packages {
            output.note(&format!("removed {}", describe(package)));
        }
    }
    Ok(ExitStatus::Success)
}

/// Returns the packages of the servers of a config, or of those with these names.
fn select_packages(config: &Config, names: &[String], file: &str) -> Result<Vec<PackageUse>> {
    let mut uses: BTreeMap<String, PackageUse> = BTreeMap::new();
    let mut known_servers: BTreeSet<&str> = BTreeSet::new();
    let mut servers_with_package: BTreeSet<&str> = BTreeSet::new();
    for server in config.agents.iter().flat_map(|agent| &agent.servers) {
        let name = server.name().as_str();
        known_servers.insert(name);
        let is_selected = names.is_empty() || names.iter().any(|selected| selected == name);
        let ServerTransport::Program(program) = &server.transport else {
            continue;
        };
        let Some(request) = program.package.as_ref() else {
            continue;
        };
        servers_with_package.insert(name);
        if is_selected {
            let key = format!("{} {:?}", request.package.key(), request.package.program);
            let entry = uses.entry(key).or_insert_with(|| PackageUse {
                package: request.package.clone(),
                servers: BTreeSet::new(),
            });
            entry.servers.insert(name.to_owned());
        }
    }
    for name in names {
        if servers_with_package.contains(name.as_str()) {
            continue;
        }
        let message = if known_servers.contains(name.as_str()) {
            format!("the server `{name}` downloads no package that can be installed")
        } else {
            format!("`{file}` has no server `{name}`")
        };
        let server_names: Vec<&str> = servers_with_package.into_iter().collect();
        let hint = match server_names.as_slice() {
            [] => "no server of it downloads a package".to_owned(),
            server_names => format!("servers with a package: {}", server_names.join(", ")),
        };
        return Err(Error::new(ErrorKind::Config, message).with_hint(hint));
    }
    Ok(uses.into_values().collect())
}

/// Describes an installed package in one line.
fn describe(package: &InstalledPackage) -> String {
    let digits: String = package.sha256.chars().take(DIGITS_SHOWN).collect();
    format!(
        "{} {} ({}, {} kB, sha256 {digits}…)",
        package.name,
        package.version,
        count_noun(package.files, "file"),
        package.bytes / 1000
    )
}

fn package_store(host: &Host) -> Result<PackageStore> {
    host.home
        .as_ref()
        .map(PackageStore::in_home)
        .ok_or_else(|| {
            let message = "no home directory to install packages in";
            Error::new(ErrorKind::Environment, message).with_hint("set `HOME`")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_download_has_hints_and_other_errors_do_not() {
        let hints = |message: &str, registry| {
            let error = Error::new(ErrorKind::Environment, message).with_hint("first");
            explain_refusal(error, registry).hints().join("; ")
        };
        for refused in [
            "`npm`: exit status 1: npm error code E403",
            "Tunnel connection failed: 403 Forbidden",
            "HTTP error 403 while getting x",
            "Proxy response (403) !== 200",
        ] {
            let shown = hints(refused, PackageRegistry::Npm);
            assert!(shown.starts_with("first; 403 means"), "{shown}");
            assert!(shown.contains("npm pack PACKAGE"), "{shown}");
        }
        let client_error = "403 Client Error: Forbidden for url: https://example.org/x";
        let shown = hints(client_error, PackageRegistry::Python);
        assert!(shown.contains("pip download"), "{shown}");
        for other in [
            "404 Not Found",
            "port 4403",
            "connection to 127.0.0.1:403 refused",
            "no version 1.403.0 of x",
            "npm error notarget x@403",
            "npm error integrity sha512-a/E403+b",
            "added 403 packages",
        ] {
            assert_eq!(hints(other, PackageRegistry::Npm), "first", "{other}");
        }
    }
}
