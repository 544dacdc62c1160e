//! Credentials that are passed to a container: read-only files and variables. It must never show a
//! value.

use std::collections::BTreeMap;

use secrecy::SecretString;

use crate::config::docker::{CONTAINER_HOME, CredentialsConfig, PassedEnvironment};
use crate::config::secrets::is_secret;
use crate::dotenv::ConfigVariables;
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::io::files::{read_capped, read_regular_file};
use crate::world::sys::state_files::file;

/// Largest file of variables, in bytes.
const ENV_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Variables that are specific to this machine and would be wrong in a container.
const HOST_SPECIFIC_VARIABLES: &[&str] = &[
    "HOME", "HOSTNAME", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "SHLVL", "TMPDIR", "USER",
];
/// Prefixes of the names of such variables.
const HOST_SPECIFIC_PREFIXES: &[&str] = &["DBUS_", "LD_", "XDG_"];

/// The user's home and environment, as a process of theirs sees them.
#[derive(Clone, Copy, Debug)]
pub struct HostUser<'a> {
    /// The home directory.
    pub home: Option<&'a AbsPath>,
    /// The environment of the process.
    pub env: &'a BTreeMap<String, String>,
    /// The variables that the config may name.
    pub variables: &'a ConfigVariables,
}

/// Returns the values of a container's variables that must never be logged, recognised by the names
/// of the variables. A file that cannot be read is reported when the container is created.
pub fn secrets(config: &CredentialsConfig, user: HostUser<'_>) -> Vec<SecretString> {
    let mut credentials = ContainerCredentials::default();
    if let Some(path) = &config.env_file {
        let bytes = read_regular_file(path, ENV_FILE_BYTES_MAX).ok().flatten();
        let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        credentials
            .env
            .extend(parse_variables(&text.unwrap_or_default()));
    }
    credentials.add_variables(config, user);
    let secret_variables = credentials
        .env
        .into_iter()
        .filter(|(name, _)| is_secret(name));
    secret_variables
        .map(|(_, value)| SecretString::from(value))
        .collect()
}

/// The credentials of a container.
#[derive(Clone, Default)]
pub(super) struct ContainerCredentials {
    /// Files and directories of the machine, each with its path in the container.
    pub(super) files: BTreeMap<AbsPath, AbsPath>,
    /// Environment variables for every command.
    pub(super) env: BTreeMap<String, String>,
    /// Notes about what was configured but does not exist.
    pub(super) notes: Vec<String>,
}

impl ContainerCredentials {
    /// Collects the credentials that `config` lists. A missing file is an error; an unset variable
    /// is only reported.
    pub(super) fn gather(config: &CredentialsConfig, user: HostUser<'_>) -> Result<Self> {
        let mut credentials = Self::default();
        for home_path in &config.mount {
            let home = user.home.ok_or_else(|| {
                Error::new(
                    ErrorKind::Environment,
                    "credentials are mounted from your home directory, but there is none",
                )
                .with_hint("set HOME")
            })?;
            credentials.add_file(home.join(home_path), container_path(home_path)?)?;
        }
        for (path, home_path) in &config.additional_mounts {
            credentials.add_file(path.clone(), home_path.clone())?;
        }
        if let Some(path) = &config.env_file {
            credentials.add_variables_from(path, &config.env_vars_from_file)?;
        }
        credentials.add_variables(config, user);
        Ok(credentials)
    }

    fn add_file(&mut self, path: AbsPath, target: AbsPath) -> Result<()> {
        if file::kind(&path)?.is_none() {
            let message = format!("the credential `{path}` does not exist");
            return Err(Error::new(ErrorKind::Environment, message)
                .with_hint("create it, or remove it from `command_line_docker_credentials`"));
        }
        self.files.insert(path, target);
        Ok(())
    }

    fn add_variables_from(&mut self, path: &AbsPath, names: &[String]) -> Result<()> {
        let Some(bytes) = read_capped(path, ENV_FILE_BYTES_MAX)? else {
            let message = format!("`env_file` `{path}` does not exist");
            return Err(Error::new(ErrorKind::Environment, message).with_hint(
                "create it, or remove `env_file` from `command_line_docker_credentials`",
            ));
        };
        let mut variables = parse_variables(&String::from_utf8_lossy(&bytes));
        if !names.is_empty() {
            let unset = names.iter().filter(|name| !variables.contains_key(*name));
            let messages = unset.map(|name| format!("`{path}` does not define `{name}`"));
            self.notes.extend(messages);
            variables.retain(|name, _| names.contains(name));
        }
        self.env.extend(variables);
        Ok(())
    }

    fn add_variables(&mut self, config: &CredentialsConfig, user: HostUser<'_>) {
        if config.environment == PassedEnvironment::All {
            let passed_variables = user
                .env
                .iter()
                .filter(|(name, _)| !is_host_specific(name))
                .map(|(name, value)| (name.clone(), value.clone()));
            self.env.extend(passed_variables);
        }
        for name in &config.env_vars {
            match user.variables.get(name) {
                Some(value) => drop(self.env.insert(name.clone(), value.to_owned())),
                None => self.notes.push(format!("the variable `{name}` is not set")),
            }
        }
    }
}

/// Returns a path below the home directory of a container.
pub(super) fn container_path(rel: &str) -> Result<AbsPath> {
    let home = AbsPath::new(CONTAINER_HOME)
        .ok_or_else(|| Error::bug("containers have no home directory"))?;
    Ok(home.join(rel))
}

fn is_host_specific(name: &str) -> bool {
    let mut prefixes = HOST_SPECIFIC_PREFIXES.iter();
    HOST_SPECIFIC_VARIABLES.contains(&name) || prefixes.any(|prefix| name.starts_with(prefix))
}

/// Parses a file of variables: one `NAME=value` per line, with optional quotes around the value.
/// Empty lines and those that begin with `#` are skipped.
fn parse_variables(text: &str) -> BTreeMap<String, String> {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'));
    let pairs = lines
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.trim(), strip_quotes(value.trim())));
    pairs
        .filter(|(name, _)| !name.is_empty() && !name.contains(char::is_whitespace))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn strip_quotes(value: &str) -> &str {
    let within = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use secrecy::ExposeSecret;

    use super::{HostUser, parse_variables, secrets};
    use crate::config::docker::{CredentialsConfig, PassedEnvironment};
    use crate::dotenv::ConfigVariables;
    use crate::path::AbsPath;

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "tests look at the disk themselves"
    )]
    fn variables_whose_names_say_so_are_secret() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("e");
        fs::write(&file, "A_TOKEN=of the file\nMODE=production\n").unwrap();
        let to_owned_pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let env = BTreeMap::from(
            [("B_API_KEY", "of the user"), ("LANG", "de_DE.UTF-8")].map(to_owned_pair),
        );
        let exposed_secrets = |env_file: Option<AbsPath>, environment| {
            let config = CredentialsConfig {
                env_file,
                environment,
                ..CredentialsConfig::default()
            };
            let user = HostUser {
                home: None,
                env: &env,
                variables: &ConfigVariables::default(),
            };
            let list = secrets(&config, user).into_iter();
            list.map(|secret| secret.expose_secret().to_owned())
                .collect::<Vec<_>>()
        };
        let file = AbsPath::new(&file);
        assert_eq!(
            exposed_secrets(file.clone(), PassedEnvironment::Listed),
            ["of the file"]
        );
        assert_eq!(
            exposed_secrets(file, PassedEnvironment::All),
            ["of the file", "of the user"]
        );
        assert!(exposed_secrets(AbsPath::new("/nowhere"), PassedEnvironment::Listed).is_empty());
    }

    #[test]
    fn a_file_of_variables_is_read_line_by_line() {
        let text =
            "# none\nA=1\n B = \"two words\" \nC='x=y'\nD=\"open\n\nE=\nnot a pair\nF G=1\n=2\n";
        let variables: Vec<String> = parse_variables(text)
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(variables, ["A=1", "B=two words", "C=x=y", "D=\"open", "E="]);
    }
}
