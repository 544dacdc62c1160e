//! Installs the packages of servers with `npm` or `pip`, in a sandbox that can write only to the
//! new directory and reach only the registry. No script of a package runs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use url::Url;

use crate::config::server_package::{PackageRegistry, ServerPackage, registry_domains};
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::permissions::PathPermissionManager;
use crate::permissions::domains::DomainPattern;
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::sandbox_policy::NetworkPolicy;
use crate::sandbox_policy::compile::compile;
use crate::text::{escape_line, single_line};
use crate::world::io::files::read_capped;
use crate::world::mcp::packages::{InstalledPackage, PackageStore, program_words};
use crate::world::sandbox::exec_environment::{CommandSpec, ExecEnvironment};
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::{CommandOutput, CommandWaitLimits, ExitReason};
use crate::world::sys::state_files::dir::{self, DirectoryAudience, StagingDirectory};
use crate::world::sys::state_files::{clear, file};

/// Timeout of one step.
const STEP_TIME_MAX: Duration = Duration::from_mins(15);
/// Largest output of a step that is kept, in bytes.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// Longest end of the output that an error quotes, in characters.
const QUOTE_CHARS_MAX: usize = 600;
/// Largest number of lines in that end.
const QUOTE_LINES_MAX: usize = 8;
/// Largest file that says what was installed, in bytes.
const REPORT_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Largest local package, in bytes.
const LOCAL_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// The report of `pip`, in the new directory.
const REPORT_FILE: &str = "report.json";
/// Directory of copies of local packages, in the new directory.
const LOCAL_DIR: &str = "local";
/// Variables of the user's that say which certificates are trusted.
pub const CERTIFICATE_VARIABLES: &[&str] = &[
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// How packages are installed.
#[derive(Debug)]
pub struct PackageInstaller<'a> {
    /// Where they are installed.
    pub store: &'a PackageStore,
    /// The environment in whose sandbox each step runs.
    pub environment: &'a ExecEnvironment,
    /// The registry; `None` for the usual one.
    pub registry: Option<&'a Url>,
    /// Variables for the programs that install.
    pub variables: &'a BTreeMap<String, String>,
    /// Raised to end the installation.
    pub interrupt: &'a CommandInterrupt,
}

impl PackageInstaller<'_> {
    /// Installs `package` and returns it. Blocks.
    ///
    /// # Errors
    /// The package cannot be installed, or it has no such program.
    pub fn install(&self, package: &ServerPackage) -> Result<InstalledPackage> {
        dir::create_all(self.store.path(), DirectoryAudience::User)?;
        let root = dir::resolve(self.store.path())?.to_abs();
        let staging = StagingDirectory::new(&root)?;
        let directory = staging.path();
        let packages = copy_local_packages(package, directory)?;
        let installed = match package.registry {
            PackageRegistry::Npm => self.install_npm(package, &packages, directory)?,
            PackageRegistry::Python => self.install_python(package, &packages, directory)?,
        };
        clear::remove(&directory.join(LOCAL_DIR))?;
        clear::remove(&directory.join(REPORT_FILE))?;
        let program = package.program.as_ref().or(installed.program.as_ref());
        if program.is_none_or(|name| program_words(&installed, directory, name).is_none()) {
            let missing_program = program.map_or("single program".to_owned(), |name| {
                format!("program `{name}`")
            });
            let message = format!(
                "the package `{}` has no {missing_program}",
                package.describe()
            );
            return Err(Error::new(ErrorKind::Environment, message).with_hint(
                "name the program: `npx -p PACKAGE PROGRAM`, `uvx --from PACKAGE PROGRAM`",
            ));
        }
        self.store.add(staging, installed)
    }

    fn install_npm(
        &self,
        package: &ServerPackage,
        packages: &[String],
        directory: &AbsPath,
    ) -> Result<InstalledPackage> {
        let mut command = vec![
            "npm".to_owned(),
            "install".to_owned(),
            "--ignore-scripts".to_owned(),
            "--no-audit".to_owned(),
            "--no-fund".to_owned(),
            "--no-update-notifier".to_owned(),
            "--save-exact".to_owned(),
            "--prefix".to_owned(),
            directory.to_string(),
        ];
        command.extend(self.registry.map(|url| format!("--registry={url}")));
        command.push("--".to_owned());
        command.extend(packages.iter().cloned());
        self.run_step(package, command, directory)?;
        let manifest: NpmManifest = read_json(&directory.join("package.json"))?;
        let lock: NpmLock = read_json(&directory.join("node_modules/.package-lock.json"))?;
        // A local package was requested by its path, not by its name: then it is the first one.
        let name = manifest
            .dependencies
            .keys()
            .find(|name| {
                let requested = package.packages.first();
                requested.is_some_and(|requested| {
                    requested == *name
                        || requested
                            .strip_prefix(name.as_str())
                            .is_some_and(|rest| rest.starts_with('@'))
                })
            })
            .or_else(|| manifest.dependencies.keys().next());
        let entry = name.and_then(|name| lock.packages.get(&format!("node_modules/{name}")));
        let (Some(name), Some(entry)) = (name, entry) else {
            return Err(install_error(package, "npm reports no package"));
        };
        let short_name = name.rsplit('/').next().unwrap_or(name);
        // As with `npx`: the only program, or the one that is named like the package.
        let program = match entry.bin.keys().collect::<Vec<_>>().as_slice() {
            [bin] => Some((*bin).clone()),
            bins => bins
                .iter()
                .find(|bin| **bin == short_name)
                .map(|bin| (*bin).clone()),
        };
        Ok(InstalledPackage {
            name: name.clone(),
            version: entry.version.clone(),
            integrity: entry.integrity.clone(),
            program,
            ..requested_package(package)
        })
    }

    fn install_python(
        &self,
        package: &ServerPackage,
        packages: &[String],
        directory: &AbsPath,
    ) -> Result<InstalledPackage> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let venv = [
            "python3",
            "-m",
            "venv",
            "--without-pip",
            &directory.to_string(),
        ];
        self.run_step(package, words(&venv), directory)?;
        let (python, report) = (
            directory.join("bin/python").to_string(),
            directory.join(REPORT_FILE).to_string(),
        );
        let mut pip: Vec<String> = words(&[
            "python3",
            "-m",
            "pip",
            "--python",
            &python,
            "install",
            "--only-binary=:all:",
            "--disable-pip-version-check",
            "--no-input",
            "--report",
            &report,
        ]);
        if let Some(url) = self.registry {
            pip.push(format!("--index-url={url}"));
        }
        pip.extend(packages.iter().map(|package| requirement(package)));
        self.run_step(package, pip, directory)?;
        let report: PipReport = read_json(&directory.join(REPORT_FILE))?;
        let main_entry = report.install.into_iter().find(|entry| entry.requested);
        let Some(main_entry) = main_entry else {
            return Err(install_error(package, "pip reports no package"));
        };
        let sha256 = main_entry.download_info.archive_info.hashes.get("sha256");
        Ok(InstalledPackage {
            integrity: sha256.map(|digits| format!("sha256={digits}")),
            name: main_entry.metadata.name,
            version: main_entry.metadata.version,
            program: None,
            ..requested_package(package)
        })
    }

    /// Runs one program in the sandbox.
    fn run_step(
        &self,
        package: &ServerPackage,
        program: Vec<String>,
        directory: &AbsPath,
    ) -> Result<()> {
        let environment = self.environment;
        let network = NetworkPolicy::Domains(reachable_domains(package, self.registry)?);
        let cannot_run = |error| Error::io("cannot start the installation", error);
        let (network_access, proxy) = environment
            .network_for_policy(&network)
            .map_err(cannot_run)?;
        let name = program.first().cloned().unwrap_or_default();
        let spec = CommandSpec {
            program,
            dir: directory.clone(),
            venv: None,
        };
        let mut command_context = environment.command_context(spec, network_access);
        command_context.env.extend(self.variables.clone());
        let grant = Grant::tree(
            dir::resolve(directory)?,
            GrantKind::Workspace,
            Permission::Write,
        );
        let manager = PathPermissionManager::new(vec![grant], Phase::Final);
        let level = environment.sandbox_level();
        let policy = compile(&manager, level, command_context)
            .map_err(|error| Error::new(ErrorKind::Environment, error.to_string()))?;
        let sandbox = environment
            .backend()
            .local_sandbox()
            .map_err(|reason| install_error(package, reason))?;
        let wait = CommandWaitLimits {
            time_max: STEP_TIME_MAX,
            output_bytes_max: OUTPUT_BYTES_MAX,
            interrupt: Some(self.interrupt),
            network: proxy.as_deref(),
        };
        let output = sandbox.run(&policy, wait).map_err(cannot_run)?;
        match output.exit_reason {
            ExitReason::Exited(0) => Ok(()),
            ExitReason::Interrupted => Err(Error::new(
                ErrorKind::Interrupted,
                format!("the package `{}` is not installed", package.describe()),
            )),
            ExitReason::Exited(_)
            | ExitReason::Signalled(_)
            | ExitReason::TimedOut
            | ExitReason::DiskFull(_)
            | ExitReason::Refused { .. } => {
                Err(install_error(package, &describe_failure(&name, &output)))
            }
        }
    }
}

/// Returns the domains that the installation of `package` can reach.
///
/// # Errors
/// The address of the registry is not one that a sandbox can be restricted to.
pub fn reachable_domains(
    package: &ServerPackage,
    registry: Option<&Url>,
) -> Result<Vec<DomainPattern>> {
    let Some(url) = registry else {
        let domains = registry_domains(package.registry).iter();
        return Ok(domains
            .filter_map(|name| DomainPattern::parse(name))
            .collect());
    };
    let domain = url
        .host_str()
        .and_then(DomainPattern::parse)
        .filter(|_| url.scheme() == "https");
    domain.map(|domain| vec![domain]).ok_or_else(|| {
        let message = format!("`{url}` is not an `https` address with a host name");
        Error::new(ErrorKind::Usage, message)
            .with_hint("name a registry such as `https://npm.example.org/`")
    })
}

/// Returns how a program ended, and the end of what it wrote.
fn describe_failure(program: &str, output: &CommandOutput) -> String {
    let text = [output.stderr.text.trim(), output.stdout.text.trim()]
        .into_iter()
        .find(|text| !text.is_empty())
        .unwrap_or_default();
    let reversed_lines: Vec<&str> = text.lines().rev().take(QUOTE_LINES_MAX).collect();
    let last_lines: Vec<&str> = reversed_lines.into_iter().rev().collect();
    let quote = escape_line(&single_line(&last_lines.join("; "), QUOTE_CHARS_MAX));
    format!("`{program}`: {}: {quote}", output.exit_reason)
}

fn install_error(package: &ServerPackage, reason: &str) -> Error {
    let message = format!(
        "cannot install the package `{}`: {reason}",
        package.describe()
    );
    let hint = match package.registry {
        PackageRegistry::Npm => "it needs `npm` and `node` in `PATH`",
        PackageRegistry::Python => {
            "it needs `python3` with `venv` and `pip` 22.3 or newer in `PATH`, and packages that are \
             wheels"
        }
    };
    Error::new(ErrorKind::Environment, message).with_hint(hint)
}

/// Returns a package of which only the request is known.
fn requested_package(package: &ServerPackage) -> InstalledPackage {
    InstalledPackage {
        registry: package.registry,
        packages: package.packages.clone(),
        name: String::new(),
        version: String::new(),
        integrity: None,
        program: None,
        directory: String::new(),
        sha256: String::new(),
        files: 0,
        bytes: 0,
    }
}

/// Copies the local files among the packages into the new directory, the only one that the
/// installation sees, and returns the packages with the paths of the copies.
fn copy_local_packages(package: &ServerPackage, directory: &AbsPath) -> Result<Vec<String>> {
    let mut packages = Vec::new();
    for requested in &package.packages {
        let local = Some(requested).filter(|name| name.starts_with('/'));
        let Some(path) = local.and_then(AbsPath::new) else {
            packages.push(requested.clone());
            continue;
        };
        let bytes = read_capped(&path, LOCAL_BYTES_MAX)?.ok_or_else(|| {
            Error::new(ErrorKind::Environment, format!("`{path}` does not exist"))
                .with_hint("name a file that `npm pack` or `pip wheel` has made")
        })?;
        let name = path.as_path().file_name().and_then(|name| name.to_str());
        let local_dir = directory.join(LOCAL_DIR);
        dir::create_all(&local_dir, DirectoryAudience::User)?;
        let copy = local_dir.join(name.unwrap_or_default());
        file::replace_unsynced(&copy, &bytes)?;
        packages.push(copy.to_string());
    }
    Ok(packages)
}

/// Returns a package as `pip` expects it: `uvx` writes versions with `@`.
fn requirement(package: &str) -> String {
    if package.starts_with('/') {
        return package.to_owned();
    }
    match package.split_once('@') {
        Some((name, "latest")) => name.to_owned(),
        Some((name, version)) => format!("{name}=={version}"),
        None => package.to_owned(),
    }
}

fn read_json<T: for<'a> Deserialize<'a>>(path: &AbsPath) -> Result<T> {
    let bytes = read_capped(path, REPORT_BYTES_MAX)?.unwrap_or_default();
    serde_json::from_slice(&bytes).map_err(|error| {
        let message = format!("`{path}` does not say what was installed");
        Error::new(ErrorKind::Environment, message).with_source(error)
    })
}

/// `package.json` of the new directory.
#[derive(Deserialize)]
struct NpmManifest {
    #[serde(default)]
    dependencies: BTreeMap<String, String>,
}

/// What npm has installed.
#[derive(Deserialize)]
struct NpmLock {
    #[serde(default)]
    packages: BTreeMap<String, NpmLockEntry>,
}

#[derive(Deserialize)]
struct NpmLockEntry {
    #[serde(default)]
    version: String,
    integrity: Option<String>,
    #[serde(default)]
    bin: BTreeMap<String, String>,
}

/// What pip has installed.
#[derive(Deserialize)]
struct PipReport {
    #[serde(default)]
    install: Vec<PipReportEntry>,
}

#[derive(Deserialize)]
struct PipReportEntry {
    #[serde(default)]
    requested: bool,
    metadata: PipReportMetadata,
    #[serde(default)]
    download_info: PipReportDownload,
}

#[derive(Deserialize)]
struct PipReportMetadata {
    name: String,
    version: String,
}

#[derive(Default, Deserialize)]
struct PipReportDownload {
    #[serde(default)]
    archive_info: PipReportArchive,
}

#[derive(Default, Deserialize)]
struct PipReportArchive {
    #[serde(default)]
    hashes: BTreeMap<String, String>,
}
