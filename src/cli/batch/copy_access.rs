//! How the agents of a cell may access its copy of the project: as the config says where it lists
//! the copy, and for writing otherwise.

use crate::config::{Config, ContextPath};
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::world::io::locate::resolve_path;

/// Opens the copy of the project at `copy` for writing to the agents for which `config` does not
/// list it.
pub(super) fn open_copy(config: &mut Config, copy: &AbsPath) {
    if shared_permission(config, copy).is_some() {
        return;
    }
    let writable_copy = ContextPath {
        permission: Permission::Write,
        ..ContextPath::read_only(copy.clone())
    };
    let mut agents = config.agents.iter();
    if agents.all(|agent| listed_permission(&agent.context_paths, copy).is_none()) {
        config.orchestrator.context_paths.push(writable_copy);
        return;
    }
    for agent in &mut config.agents {
        if listed_permission(&agent.context_paths, copy).is_none() {
            agent.context_paths.push(writable_copy.clone());
        }
    }
}

/// Returns the permission with which `config` lists `copy` for all agents together; `None` if it
/// does not.
pub(super) fn shared_permission(config: &Config, copy: &AbsPath) -> Option<Permission> {
    listed_permission(&config.orchestrator.context_paths, copy)
}

/// Returns whether `config` lists `copy` for every agent, for all together or for each apart.
pub(super) fn is_listed_for_all(config: &Config, copy: &AbsPath) -> bool {
    let mut agents = config.agents.iter();
    shared_permission(config, copy).is_some()
        || agents.all(|agent| listed_permission(&agent.context_paths, copy).is_some())
}

/// Returns the permission with which `context_paths` open `copy`, however they write its path.
fn listed_permission(context_paths: &[ContextPath], copy: &AbsPath) -> Option<Permission> {
    let real_copy = resolve_path(copy);
    let is_copy =
        |path: &AbsPath| path == copy || (real_copy.is_some() && resolve_path(path) == real_copy);
    let entries = context_paths
        .iter()
        .filter(|context| is_copy(&context.path));
    entries.map(|context| context.permission).max()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::config::machine_policy::MachinePolicy;
    use crate::config::{ConfigContext, ConfigOrigin, load};
    use crate::dotenv::ConfigVariables;

    /// Checks with which permissions the copy is open to all agents, to `a` and to `b`, where these
    /// are the context paths of all and of `a`.
    #[track_caller]
    fn check(shared: &str, own_paths: &str, expected: [Option<Permission>; 3]) {
        let dir = tempfile::tempdir().unwrap();
        symlink(".", dir.path().join("self")).unwrap();
        let copy = AbsPath::new(dir.path()).unwrap();
        let agent = |id: &str, own_paths: &str| {
            format!(
                "- {{id: {id}, backend: {{type: openrouter, model: m, context_paths: [{own_paths}]}}}}\n"
            )
        };
        let agents = [agent("a", own_paths), agent("b", "")].concat();
        let yaml = format!("agents:\n{agents}orchestrator:\n  context_paths: [{shared}]\n");
        let origin = ConfigOrigin {
            name: "c.yaml".to_owned(),
            directory: None,
        };
        let context = ConfigContext {
            base: &copy,
            state_parent: &copy,
            home: None,
            env: &ConfigVariables::from_iter([("OPENROUTER_API_KEY".to_owned(), "k-1".to_owned())]),
            packages: &BTreeSet::new(),
            policy: &MachinePolicy::default(),
        };
        let mut config = load(yaml.as_bytes(), &origin, &context).unwrap().config;
        open_copy(&mut config, &copy);
        let of_agents = [0, 1].map(|at| &config.agents[at].context_paths);
        let [a, b] = of_agents.map(|listed| listed_permission(listed, &copy));
        assert_eq!(
            [shared_permission(&config, &copy), a, b],
            expected,
            "{yaml}"
        );
        assert!(is_listed_for_all(&config, &copy), "{yaml}");
    }

    #[test]
    fn context_paths_of_a_config_set_the_access_to_the_copy() {
        const READ: Option<Permission> = Some(Permission::Read);
        const WRITE: Option<Permission> = Some(Permission::Write);
        check("", "", [WRITE, None, None]);
        check("", "/srv", [WRITE, None, None]);
        check("{path: ., permission: write}", "", [WRITE, None, None]);
        for listed in [
            "'.'",
            "./",
            "self",
            "self/self",
            "{path: ., permission: read}",
        ] {
            check(listed, "", [READ, None, None]);
            check("", listed, [None, READ, WRITE]);
        }
        check(
            "self, {path: ., permission: write}",
            "",
            [WRITE, None, None],
        );
    }
}
