//! The settings of the machine that this user can read and others cannot, and which of them are
//! hidden from a command. The command would have the same access: it has the same user and groups.

use serde::{Deserialize, Serialize};

use crate::path::AbsPath;
use crate::sandbox_policy::SandboxPolicy;

/// The directory of the machine's settings.
pub const SETTINGS_DIRECTORY: &str = "/etc";

/// The settings that are closed to other users, as they were when they were searched for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestrictedFiles {
    /// Their paths, a directory before its content, or why they are not known.
    paths: Result<Vec<AbsPath>, String>,
}

impl RestrictedFiles {
    /// Creates it from the result of the search.
    pub fn new(paths: Result<Vec<AbsPath>, String>) -> Self {
        Self { paths }
    }

    /// Returns why they are not known.
    pub fn error(&self) -> Option<&str> {
        self.paths.as_ref().err().map(String::as_str)
    }

    /// Returns what is hidden from a command with this `policy`. Paths that the user opened and
    /// their parents are left out.
    ///
    /// # Errors
    /// Why they are not known.
    pub fn hidden_from(&self, policy: &SandboxPolicy) -> Result<Vec<&AbsPath>, String> {
        let paths = self.paths.as_ref().map_err(String::clone)?;
        let is_open = |path: &&AbsPath| {
            let mut roots = policy.open.iter().map(|open_path| &open_path.path);
            roots.any(|root| path.is_within(root) || root.is_within(path))
        };
        Ok(paths.iter().filter(|path| !is_open(path)).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::permissions::grant::{GrantScope, Permission};
    use crate::sandbox_policy::AccessiblePath;
    use crate::sandbox_policy::limits::ResourceLimits;
    use crate::sandbox_policy::network::NetworkAccess;
    use crate::sandbox_policy::sandbox_level::SandboxLevel;

    fn paths(paths: &[&str]) -> Vec<AbsPath> {
        let paths = paths.iter().map(|path| AbsPath::new(path).unwrap());
        paths.collect()
    }

    fn policy(open: &[&str]) -> SandboxPolicy {
        let root = AbsPath::root();
        let open_path = |path| AccessiblePath {
            path,
            permission: Permission::Read,
            scope: GrantScope::Tree,
        };
        SandboxPolicy {
            level: SandboxLevel::Namespaces,
            open: paths(open).into_iter().map(open_path).collect(),
            identities: BTreeMap::new(),
            masked: Vec::new(),
            hidden: Vec::new(),
            layers: Vec::new(),
            toolchains: Vec::new(),
            home: root.clone(),
            scratch: root.clone(),
            dir: root,
            network: NetworkAccess::None,
            env: BTreeMap::new(),
            limits: ResourceLimits::default(),
            program: Vec::new(),
        }
    }

    #[track_caller]
    fn check(open: &[&str], hidden: &[&str]) {
        let restricted = ["/etc/a", "/etc/a/b", "/etc/a/c", "/etc/d"];
        let restricted = RestrictedFiles::new(Ok(paths(&restricted)));
        let hidden_paths = restricted.hidden_from(&policy(open)).unwrap();
        let expected = paths(hidden);
        assert_eq!(
            hidden_paths,
            expected.iter().collect::<Vec<_>>(),
            "{open:?}"
        );
    }

    #[test]
    fn restricted_files_that_the_user_opened_are_not_hidden() {
        check(&[], &["/etc/a", "/etc/a/b", "/etc/a/c", "/etc/d"]);
        check(
            &["/home", "/etc/ab"],
            &["/etc/a", "/etc/a/b", "/etc/a/c", "/etc/d"],
        );
        check(&["/etc/a"], &["/etc/d"]);
        check(&["/etc/a/b/x"], &["/etc/a/c", "/etc/d"]);
        check(&["/etc"], &[]);
    }

    #[test]
    fn an_unknown_list_of_restricted_files_is_an_error() {
        let unknown = RestrictedFiles::new(Err("too many".to_owned()));
        assert_eq!(
            unknown.hidden_from(&policy(&["/etc"])),
            Err("too many".to_owned())
        );
    }
}
