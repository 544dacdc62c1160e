//! Finds the text of a config: the file or the built-in example that `--config` names, or a file
//! that is discovered. The module `config` interprets the text.

use std::collections::BTreeSet;

use crate::cli::found_config::{found_config_variables, reject_outside_reach};
use crate::cli::output::CliOutput;
use crate::config::lookup::{EXAMPLE_PREFIX, config_candidates};
use crate::config::settings::{ConfigSetting, append_settings};
use crate::config::storage_path::STATE_DIR;
use crate::config::yaml::CONFIG_BYTES_MAX;
use crate::config::{
    ConfigContext, ConfigOrigin, InvalidConfig, LoadedConfig, examples, load_with_settings,
};
use crate::dotenv::ConfigVariables;
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::mentions::LookupResult;
use crate::path::AbsPath;
use crate::world::io::files::{inspect, read_capped, read_regular_file};
use crate::world::io::locate::resolve_path;
use crate::world::mcp::packages::PackageStore;

/// The text of a team's config and its origin.
#[derive(Clone, Debug)]
pub(crate) struct TeamFile {
    origin: ConfigOrigin,
    text: Vec<u8>,
    /// Path of the file; `None` for a built-in example.
    path: Option<AbsPath>,
    discovery: ConfigDiscovery,
    /// The values that the command line sets; the text ends with them.
    settings: Vec<ConfigSetting>,
}

/// Directories of the user's own configs, below the home directory.
const USER_CONFIG_DIRECTORIES: [&str; 2] = [".massgen", ".config/massgen"];

/// How a config was found, which decides how far it is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConfigDiscovery {
    /// The user named it, or it is in their home.
    Named,
    /// It was discovered in the project, and the user did not name it.
    Found,
}

impl TeamFile {
    /// Finds the config that `argument` names. An unreadable file in the home is an error only if
    /// the config is found nowhere else.
    ///
    /// # Errors
    /// There is no such config, or a file of the project has the same name as one of the user's own
    /// configs or as a built-in one, among other errors.
    pub(crate) fn find(argument: &str, host: &Host) -> Result<Self> {
        let candidates = config_candidates(Some(argument), &host.cwd, host.home.as_ref());
        let mut unreadable = None;
        for (index, path) in candidates.iter().enumerate() {
            let text = match read(path, read_capped) {
                Err(error) if index > 0 && is_user_config(path, host) => {
                    unreadable.get_or_insert(error);
                    continue;
                }
                result => result?,
            };
            if let Some(text) = text {
                if !is_user_config(path, host) {
                    expect_no_namesake(argument, path, &candidates, host)?;
                }
                let name = if index == 0 {
                    argument.to_owned()
                } else {
                    display_path(path, host)
                };
                return Ok(Self::new(name, path, text, ConfigDiscovery::Named));
            }
        }
        if let Some(error) = unreadable {
            let hint = format!("use `--config {EXAMPLE_PREFIX}…` for a built-in config");
            return Err(error.with_hint(hint));
        }
        match examples::find_example(argument) {
            Some(example) => Ok(Self {
                origin: ConfigOrigin {
                    name: example.name.to_owned(),
                    directory: None,
                },
                text: example.text.as_bytes().to_vec(),
                path: None,
                discovery: ConfigDiscovery::Named,
                settings: Vec::new(),
            }),
            None => Err(not_found_error(argument, &candidates)),
        }
    }

    /// Creates the file of a config that the user named when its text was `text`; its paths are
    /// relative to where `path` was, if it was a file.
    pub(crate) fn from_text(name: String, path: Option<AbsPath>, text: Vec<u8>) -> Self {
        Self {
            origin: ConfigOrigin {
                name,
                directory: path.as_ref().and_then(AbsPath::parent),
            },
            text,
            path,
            discovery: ConfigDiscovery::Named,
            settings: Vec::new(),
        }
    }

    /// Returns the file with values that the command line sets.
    #[must_use]
    pub(crate) fn with_settings(mut self, settings: &[ConfigSetting]) -> Self {
        append_settings(&mut self.text, settings);
        self.settings.extend_from_slice(settings);
        self
    }

    /// Finds the config of a run that names none; `None` if there is none. Warns about an
    /// unreadable one in the home and continues the search.
    pub(crate) fn find_default(host: &Host, output: &mut CliOutput<'_>) -> Result<Option<Self>> {
        for path in config_candidates(None, &host.project, host.home.as_ref()) {
            let text = match read(&path, read_regular_file) {
                Err(error) if is_user_config(&path, host) => {
                    output.warning(&format!("not used as a config: {error:#}"));
                    continue;
                }
                result => result?,
            };
            if let Some(text) = text {
                let discovery = if path.is_within(&host.project.join(STATE_DIR)) {
                    ConfigDiscovery::Found
                } else {
                    ConfigDiscovery::Named
                };
                return Ok(Some(Self::new(
                    display_path(&path, host),
                    &path,
                    text,
                    discovery,
                )));
            }
        }
        Ok(None)
    }

    /// Loads the config that an earlier turn used. Its path was recorded in the project, so it
    /// counts as discovered unless it is in a directory of the user's own configs.
    pub(crate) fn from_session(path: &AbsPath, host: &Host) -> Result<Self> {
        let missing_config = || {
            let message = format!("the config of the session no longer exists: `{path}`");
            Error::new(ErrorKind::Config, message).with_hint("name another one with `--config`")
        };
        let text = read(path, read_regular_file)?.ok_or_else(missing_config)?;
        let discovery = if is_user_config(path, host) {
            ConfigDiscovery::Named
        } else {
            ConfigDiscovery::Found
        };
        Ok(Self::new(display_path(path, host), path, text, discovery))
    }

    /// Returns the config's name for the user: the file as typed, or the name of an example.
    pub(crate) fn name(&self) -> &str {
        &self.origin.name
    }

    /// Parses and checks the text.
    pub(crate) fn load(
        &self,
        host: &Host,
    ) -> std::result::Result<LoadedConfig, Box<InvalidConfig>> {
        let variables = host.config_variables();
        let env = match self.discovery {
            ConfigDiscovery::Named => variables,
            ConfigDiscovery::Found => found_config_variables(&variables),
        };
        let packages = installed_packages(host);
        let context = config_context(host, &env, &packages);
        let mut loaded_config =
            load_with_settings(&self.text, &self.settings, &self.origin, &context)?;
        if self.discovery == ConfigDiscovery::Found {
            loaded_config.config.restrict_to_project(&host.cwd);
        }
        Ok(loaded_config)
    }

    /// Rejects what is allowed only in a config that the user chose.
    pub(crate) fn require_trusted(&self, loaded_config: &LoadedConfig, host: &Host) -> Result<()> {
        match self.discovery {
            ConfigDiscovery::Named => Ok(()),
            ConfigDiscovery::Found => {
                reject_outside_reach(&loaded_config.restricted_uses, self.name(), &host.cwd)
            }
        }
    }

    /// Returns the path of the file; `None` for a built-in example.
    pub(crate) fn path(&self) -> Option<&AbsPath> {
        self.path.as_ref()
    }

    /// Returns the text before variables are expanded.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }

    fn new(name: String, path: &AbsPath, text: Vec<u8>, discovery: ConfigDiscovery) -> Self {
        let origin = ConfigOrigin {
            name,
            directory: path.parent(),
        };
        Self {
            origin,
            text,
            path: Some(path.clone()),
            discovery,
            settings: Vec::new(),
        }
    }
}

/// Returns the keys of the packages that the user has installed for servers.
pub(crate) fn installed_packages(host: &Host) -> BTreeSet<String> {
    let store = host.home.as_ref().map(PackageStore::in_home);
    store.map(|store| store.keys()).unwrap_or_default()
}

/// Returns the context in which configs are checked on `host`, with these variables and installed
/// packages.
pub(crate) fn config_context<'a>(
    host: &'a Host,
    env: &'a ConfigVariables,
    packages: &'a BTreeSet<String>,
) -> ConfigContext<'a> {
    ConfigContext {
        base: &host.cwd,
        state_parent: &host.state_parent,
        home: host.home.as_ref(),
        env,
        packages,
        policy: &host.policy,
    }
}

/// Returns whether `path` is in a directory of the user's own configs.
fn is_user_config(path: &AbsPath, host: &Host) -> bool {
    let config_dirs = host
        .home
        .as_ref()
        .map(|home| USER_CONFIG_DIRECTORIES.map(|name| home.join(name)));
    config_dirs.is_some_and(|dirs| dirs.iter().any(|dir| path.is_within(dir)))
}

/// Rejects the project's file `config_path` if the name `argument` also means another config: the
/// user may not know of the file, and a config that they name may do more than a discovered one.
fn expect_no_namesake(
    argument: &str,
    config_path: &AbsPath,
    candidates: &[AbsPath],
    host: &Host,
) -> Result<()> {
    let is_path = argument.starts_with(['/', '.', '~']);
    let mut users_config = candidates.iter().filter(|path| is_user_config(path, host));
    let users_config = users_config
        .find(|path| inspect(path) == LookupResult::File && is_different_file(path, config_path));
    let (other_config, other_argument) = match (users_config, examples::find_example(argument)) {
        _ if is_path => return Ok(()),
        (Some(users_config), _) => (format!("`{users_config}`"), users_config.to_string()),
        (None, Some(example)) => (
            format!("the built-in `{}`", example.name),
            format!("{EXAMPLE_PREFIX}{}", example.name),
        ),
        (None, None) => return Ok(()),
    };
    let shown_path = display_path(config_path, host);
    let message =
        format!("`{argument}` is ambiguous: `{shown_path}` in this directory or {other_config}");
    Err(Error::new(ErrorKind::Config, message)
        .with_hint(format!(
            "use `--config ./{shown_path}` for the one in this directory"
        ))
        .with_hint(format!("use `--config {other_argument}` for the other")))
}

/// Returns whether two paths lead to different files.
fn is_different_file(one: &AbsPath, other: &AbsPath) -> bool {
    resolve_path(one) != resolve_path(other)
}

/// Reads the file at `path`; a directory counts as missing.
fn read(
    path: &AbsPath,
    read_file: fn(&AbsPath, u64) -> Result<Option<Vec<u8>>>,
) -> Result<Option<Vec<u8>>> {
    let bytes_max = u64::try_from(CONFIG_BYTES_MAX).unwrap_or(u64::MAX);
    match inspect(path) {
        LookupResult::Missing | LookupResult::Directory => Ok(None),
        LookupResult::File | LookupResult::Unreadable => read_file(path, bytes_max),
    }
}

/// Returns a path relative to the current directory, if it is inside.
fn display_path(path: &AbsPath, host: &Host) -> String {
    match path.below(&host.cwd) {
        Some(below) => below.to_string(),
        None => path.to_string(),
    }
}

fn not_found_error(argument: &str, candidates: &[AbsPath]) -> Error {
    let directory = |path: &&AbsPath| inspect(path) == LookupResult::Directory;
    if let Some(path) = candidates.iter().find(directory) {
        let message = format!("config `{path}` is a directory: expected a file");
        return Error::new(ErrorKind::Config, message).with_hint("name the file inside it");
    }
    let error = Error::new(
        ErrorKind::Config,
        format!("config `{argument}` does not exist"),
    );
    let error = match examples::nearest_name(argument) {
        Some(name) => error.with_hint(format!("did you mean `--config @examples/{name}`?")),
        None => error.with_hint("see `massgen config examples` for built-in configs"),
    };
    let error = if argument.starts_with(EXAMPLE_PREFIX) {
        error.with_hint(
            "most configs of the Python MassGen are not built in: name your copy by its path, such \
             as `--config ./team.yaml`",
        )
    } else {
        error
    };
    // Without an extension, each path was tried as is and with `.yaml`; listing one of the two is
    // enough.
    let with_extension = candidates
        .iter()
        .filter(|path| path.as_path().extension().is_some());
    let searched: Vec<String> = with_extension.map(|path| format!("`{path}`")).collect();
    if searched.is_empty() {
        error
    } else {
        error.with_hint(format!("searched: {}", searched.join(", ")))
    }
}
