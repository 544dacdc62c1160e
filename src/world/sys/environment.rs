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

    /// Keeps the listed variables of `own_env`, massgen's own environment; a listed name that ends
    /// in `*` matches every variable with that prefix.
    pub(crate) fn inherit_listed(own_env: &BTreeMap<String, String>, names: &[&str]) -> Self {
        let is_listed = |name: &str| names.iter().any(|listed| is_match(listed, name));
        let inherited = own_env.iter().filter(|(name, _)| is_listed(name));
        Self(
            inherited
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        )
    }

    /// Keeps the variables of `own_env` that a program which logs in elsewhere needs, and those in
    /// `extra_names`, and sets `PATH`.
    pub(crate) fn inherit_for_login(
        own_env: &BTreeMap<String, String>,
        extra_names: &[&str],
    ) -> Self {
        let env = Self::inherit_listed(own_env, &[LOGIN_VARIABLES, extra_names].concat());
        let path = env.program_path().to_owned();
        env.with("PATH", &path)
    }

    /// Keeps all variables of `own_env` except those in `excluded_names`. Only for programs that
    /// the users could have started themselves, on their own terminal or screen.
    pub(crate) fn inherit_except(
        own_env: &BTreeMap<String, String>,
        excluded_names: &[&str],
    ) -> Self {
        let mut variables = own_env.clone();
        variables.retain(|name, _| !excluded_names.contains(&name.as_str()));
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

fn is_match(listed: &str, name: &str) -> bool {
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
        let own_env = [
            ("HOME", "/h"),
            ("LC_ALL", "C"),
            ("LD_PRELOAD", "x"),
            ("HOMES", "y"),
            ("TERM", "dumb"),
        ];
        let own_env =
            BTreeMap::from(own_env.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let names = |env: &ProcessEnvironment| -> Vec<String> {
            env.variables().map(|(name, _)| name.clone()).collect()
        };
        let environment = ProcessEnvironment::inherit_listed(&own_env, &["HOME", "LC_*", "PATH"]);
        assert_eq!(names(&environment), ["HOME", "LC_ALL"]);
        assert_eq!(names(&environment.with("A", "1")), ["A", "HOME", "LC_ALL"]);
        let of_user = ProcessEnvironment::inherit_except(&own_env, &["HOME"]);
        assert_eq!(names(&of_user), ["HOMES", "LC_ALL", "LD_PRELOAD", "TERM"]);
        assert_eq!(
            names(&ProcessEnvironment::from_variables([("B", "2")])),
            ["B"]
        );
        assert!(!format!("{of_user:?}").contains("/h"));
        let for_login = ProcessEnvironment::inherit_for_login(&own_env, &["HOMES"]);
        assert_eq!(names(&for_login), ["HOME", "HOMES", "LC_ALL", "PATH"]);
        assert_eq!(for_login.program_path(), PATH_DEFAULT);
    }
}
