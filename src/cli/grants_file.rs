//! Grants file for single calls: `{"workspace":DIR,"temp_workspaces":[DIR],
//! "context_paths":[{"path","permission","protected_paths"?}],"permissions":{"deny":[RULE]}}`. Its
//! paths become grants, as those of a config do.

use std::sync::Arc;

use serde::Deserialize;

use crate::call_rules::CallRules;
use crate::call_rules::rule_syntax::parse_rule;
use crate::config::storage_path::STATE_DIR;
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::orchestrator::grants::{apply_path_rules, open_linked_repositories, write_roots};
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase, merge};
use crate::permissions::history::ReadBeforeDelete;
use crate::permissions::path_rules::RuleAction;
use crate::world::access::gate::Gate;
use crate::world::access::policy::GatePolicy;
use crate::world::io::locate::LocatedPath;
use crate::world::io::project_link::{ProjectLink, UserLocation, follow_user_path};
use crate::world::sandbox::exec_environment::ExecEnvironment;

/// Maximum size of a grants file, in bytes.
pub const GRANTS_BYTES_MAX: u64 = 1024 * 1024;

/// The grants of a grants file, and the base of relative paths in calls.
#[derive(Clone, Debug)]
pub struct GrantsFile {
    base: RealPath,
    grants: Vec<Grant>,
    rules: Arc<CallRules>,
}

/// A grants file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGrantsFile {
    workspace: Option<String>,
    #[serde(default)]
    temp_workspaces: Vec<String>,
    #[serde(default)]
    context_paths: Vec<RawContext>,
    #[serde(default)]
    permissions: RawRules,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRules {
    #[serde(default)]
    deny: Vec<String>,
    #[serde(default)]
    ask: Vec<String>,
    #[serde(default)]
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawContext {
    path: String,
    permission: Permission,
    #[serde(default)]
    protected_paths: Vec<String>,
}

impl GrantsFile {
    /// Parses a grants file for a process on `host`. Missing paths are reported in one error that
    /// names all of them.
    pub fn parse(text: &str, host: &Host) -> Result<Self> {
        let (cwd, home) = (&host.cwd, host.home.as_ref());
        let file: RawGrantsFile = serde_json::from_str(text).map_err(|error| {
            Error::new(ErrorKind::Config, "invalid grants")
                .with_source(error)
                .with_hint(
                    r#"write {"workspace": DIR, "temp_workspaces": [DIR], "context_paths": [{"path": PATH, "permission": "read"}]}"#,
                )
        })?;
        let mut paths = GrantPathResolver {
            location: UserLocation { base: cwd, home },
            missing_paths: Vec::new(),
        };
        let mut grants = Vec::new();
        let workspace = paths.resolve_directory(file.workspace.as_deref())?;
        if let Some(root) = &workspace {
            let grant = Grant::tree(root.clone(), GrantKind::Workspace, Permission::Write);
            merge(&mut grants, grant);
        }
        for path in &file.temp_workspaces {
            if let Some(root) = paths.resolve_directory(Some(path))? {
                merge(
                    &mut grants,
                    Grant::tree(root, GrantKind::TempWorkspace, Permission::Read),
                );
            }
        }
        for context in &file.context_paths {
            if let Some(grant) = paths.resolve_context(context)? {
                merge(&mut grants, grant);
            }
        }
        let base = match workspace {
            Some(workspace) => Some(workspace),
            None => paths.resolve_directory(Some("."))?,
        };
        match (base, paths.missing_paths.as_slice()) {
            (Some(base), []) => {
                let rules = file.permissions.rules(home)?;
                let rules = rules.extended_by(&host.policy.permissions.rules);
                Ok(Self {
                    grants: open_linked_repositories(apply_path_rules(grants, &rules, cwd)?)?,
                    rules: Arc::new(rules),
                    base,
                })
            }
            (_, missing) => Err(Error::new(
                ErrorKind::Config,
                format!(
                    "paths in the grants do not exist: `{}`",
                    missing.join("`, `")
                ),
            )
            .with_hint("create them, or remove them from the file")),
        }
    }

    /// Returns all grants of the file.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Returns the base of relative paths in calls.
    pub fn base(&self) -> &RealPath {
        &self.base
    }

    /// Returns the user's directories that are writable in the final phase.
    pub fn write_roots(&self) -> Vec<AbsPath> {
        let roots = write_roots(&self.grants).into_iter();
        roots.map(|grant| grant.root.to_abs()).collect()
    }

    /// Opens the gate for calls in `phase`; `commands` is the environment that runs commands.
    pub fn gate(
        &self,
        phase: Phase,
        commands: Option<ExecEnvironment>,
        read_before_delete: ReadBeforeDelete,
    ) -> Result<Gate> {
        let manager = PathPermissionManager::new(self.grants.clone(), phase);
        let policy = GatePolicy {
            commands,
            read_before_delete,
            rules: Arc::clone(&self.rules),
            ..GatePolicy::minimal(self.base.clone())
        };
        Gate::open(manager, policy)
    }
}

impl RawRules {
    fn rules(&self, home: Option<&AbsPath>) -> Result<CallRules> {
        let lists = [
            (RuleAction::Deny, &self.deny),
            (RuleAction::Ask, &self.ask),
            (RuleAction::Allow, &self.allow),
        ];
        let mut rules = Vec::new();
        for (action, texts) in lists {
            for text in texts {
                let rule = parse_rule(action, text, home).map_err(|reason| {
                    Error::new(
                        ErrorKind::Config,
                        format!("invalid rule `{text}`: {reason}"),
                    )
                    .with_hint("see `docs/rules.md`")
                })?;
                rules.push(rule);
            }
        }
        Ok(CallRules::new(rules))
    }
}

/// Resolves the paths that the file names, and collects the missing ones.
struct GrantPathResolver<'a> {
    location: UserLocation<'a>,
    missing_paths: Vec<String>,
}

impl GrantPathResolver<'_> {
    /// Resolves a path that no symlink of a project leads elsewhere.
    fn locate(&self, path: &str) -> Result<LocatedPath> {
        let path = self.location.base.join(path);
        let (located, link) = follow_user_path(&path, self.location)?;
        match link.and_then(ProjectLink::detour) {
            None => Ok(located),
            Some(detour) => {
                let message = detour.describe(&path, &located.into_real());
                Err(Error::new(ErrorKind::Config, message)
                    .with_hint("if that is what you mean, name it in the grants by that path"))
            }
        }
    }

    fn resolve_directory(&mut self, path: Option<&str>) -> Result<Option<RealPath>> {
        let Some(path) = path else {
            return Ok(None);
        };
        match self.locate(path)? {
            LocatedPath::Directory(root) => Ok(Some(root)),
            LocatedPath::File(_) => Err(Error::new(
                ErrorKind::Config,
                format!("`{path}` is a file: expected a directory"),
            )
            .with_hint("a single file belongs under `context_paths`")),
            LocatedPath::Missing(_) => {
                self.missing_paths.push(path.to_owned());
                Ok(None)
            }
        }
    }

    /// Resolves a context path. massgen's state directory inside it is hidden from agents.
    fn resolve_context(&mut self, context: &RawContext) -> Result<Option<Grant>> {
        let permission = context.permission;
        let mut grant = match self.locate(&context.path)? {
            LocatedPath::Directory(root) => Grant::tree(root, GrantKind::Context, permission),
            LocatedPath::File(root) => Grant::file(root, permission),
            LocatedPath::Missing(_) => {
                self.missing_paths.push(context.path.clone());
                return Ok(None);
            }
        };
        grant.hidden = RelPath::new(STATE_DIR).into_iter().collect();
        for path in &context.protected_paths {
            grant.protected.push(protected_path(&grant.root, path)?);
        }
        Ok(Some(grant))
    }
}

/// Returns a protected path relative to its context path, which must contain it.
fn protected_path(root: &RealPath, path: &str) -> Result<RelPath> {
    let (root, path) = (root.to_abs(), root.to_abs().join(path));
    path.below(&root).ok_or_else(|| {
        Error::new(
            ErrorKind::Config,
            format!("the protected path `{path}` is outside its context path `{root}`"),
        )
        .with_hint("name a path inside it, relative to it")
    })
}
