//! Environments of the programs that massgen starts for itself. Each is built here, from single
//! values or a list of names, so that no variable gets into one unnoticed.

use std::collections::BTreeMap;
use std::fmt;

/// The variables that programs get which log in to other machines with what the user has set up.
/// None may be a secret.
const LOGIN_VARIABLES: &[&str] = &[
    "HOME",
    "PATH",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_*",
    "SSH_AUTH_SOCK",
    "KRB5CCNAME",
];
/// What the user's own `ssh` gets in addition. Jobs of a queue do not: they describe this machine.
const SSH_VARIABLES: &[&str] = &[
    "TERM",
    "XDG_RUNTIME_DIR",
    "SSH_ASKPASS",
    "SSH_ASKPASS_REQUIRE",
    "DISPLAY",
];
/// Where programs are if `PATH` is not set.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// All variables of a program.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct ProcessEnvironment(BTreeMap<String, String>);

impl ProcessEnvironment {
    /// Builds an environment of these variables and no others.
    pub(crate) fn from_variables<'v>(
        variables: impl IntoIterator<Item = (&'v str, &'v str)>,
    ) -> Self {
        let to_owned_pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Self(variables.into_iter().map(to_owned_pair).collect())
    }

    /// Keeps the listed variables of `process`, massgen's own environment; a listed name that ends
    /// in `*` matches every variable with that prefix.
    pub(crate) fn inherit_listed(process: &BTreeMap<String, String>, names: &[&str]) -> Self {
        let is_listed = |name: &str| names.iter().any(|listed| matches(listed, name));
        let inherited = process.iter().filter(|(name, _)| is_listed(name));
        Self(
            inherited
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        )
    }

    /// Keeps the variables of `process` that a program which logs in elsewhere needs, and those in
    /// `more`, and sets `PATH`.
    pub(crate) fn inherit_for_login(process: &BTreeMap<String, String>, more: &[&str]) -> Self {
        let env = Self::inherit_listed(process, &[LOGIN_VARIABLES, more].concat());
        let path = env.program_path().to_owned();
        env.with("PATH", &path)
    }

    /// Like [`ProcessEnvironment::inherit_for_login`], for the user's own `ssh`.
    pub(crate) fn inherit_for_ssh(process: &BTreeMap<String, String>, more: &[&str]) -> Self {
        Self::inherit_for_login(process, &[SSH_VARIABLES, more].concat())
    }

    /// Keeps all variables of `process` except those named in `without`. Only for programs that the
    /// users could have started themselves, on their own terminal or screen.
    pub(crate) fn inherit_except(process: &BTreeMap<String, String>, without: &[&str]) -> Self {
        let mut variables = process.clone();
        variables.retain(|name, _| !without.contains(&name.as_str()));
        Self(variables)
    }

    /// Sets one more variable, replacing its previous value.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Returns the value of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns where programs are.
    pub(crate) fn program_path(&self) -> &str {
        self.get("PATH").unwrap_or(PATH_DEFAULT)
    }

    /// Iterates over all variables, for starting a program.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&String, &String)> {
        self.0.iter()
    }
}

fn matches(listed: &str, name: &str) -> bool {
    match listed.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => listed == name,
    }
}

/// Values may be secrets, and are never shown.
impl fmt::Debug for ProcessEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_listed_is_taken() {
        let process = [
            ("HOME", "/h"),
            ("LC_ALL", "C"),
            ("LD_PRELOAD", "x"),
            ("HOMES", "y"),
            ("TERM", "dumb"),
        ];
        let process =
            BTreeMap::from(process.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let names = |env: &ProcessEnvironment| -> Vec<String> {
            env.variables().map(|(name, _)| name.clone()).collect()
        };
        let environment = ProcessEnvironment::inherit_listed(&process, &["HOME", "LC_*", "PATH"]);
        assert_eq!(names(&environment), ["HOME", "LC_ALL"]);
        assert_eq!(names(&environment.with("A", "1")), ["A", "HOME", "LC_ALL"]);
        let of_user = ProcessEnvironment::inherit_except(&process, &["HOME"]);
        assert_eq!(names(&of_user), ["HOMES", "LC_ALL", "LD_PRELOAD", "TERM"]);
        assert_eq!(
            names(&ProcessEnvironment::from_variables([("B", "2")])),
            ["B"]
        );
        assert!(!format!("{of_user:?}").contains("/h"));
        let for_login = ProcessEnvironment::inherit_for_login(&process, &["HOMES"]);
        assert_eq!(names(&for_login), ["HOME", "HOMES", "LC_ALL", "PATH"]);
        let for_ssh = ProcessEnvironment::inherit_for_ssh(&process, &[]);
        assert_eq!(names(&for_ssh), ["HOME", "LC_ALL", "PATH", "TERM"]);
        assert_eq!(for_ssh.program_path(), PATH_DEFAULT);
    }
}
