//! Finds the paths that the user must confirm before they are opened: the path as it was written
//! and the place to which it leads are compared here, for configs, prompts, sessions and the page.

use crate::config::{Config, ConfigPath, ContextPath};
use crate::error::{Error, ErrorKind, Result};
use crate::mentions::opened_paths::{OpenedPath, confirm_path};
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::grant::{Grant, GrantKind, GrantScope, Permission, Phase, close_places};
use crate::permissions::protected::protected_name;
use crate::permissions::rules::PermissionRule;
use crate::permissions::{PathPermissionManager, closing_grant};
use crate::text::escape_name;
use crate::world::io::locate::{LocatedPath, places_on_way};
use crate::world::io::project_link::{LinkDetour, ProjectLink, UserLocation, follow_user_path};

/// A path that is not opened unless the user confirms it.
#[derive(Clone, Debug)]
pub struct DoubtfulPath {
    /// The path as the config or the prompt has it.
    pub path: AbsPath,
    /// What would be opened.
    pub target: RealPath,
    /// The permission that is asked for.
    pub permission: Permission,
    /// Who asks for it.
    pub source: PathSource,
    reason: DoubtReason,
}

/// Who names a path that is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathSource {
    /// The config.
    Config,
    /// A prompt, or `--cwd-context`.
    Prompt,
}

#[derive(Clone, Debug)]
enum DoubtReason {
    /// A symlink of a project leads elsewhere.
    Link(LinkDetour),
    /// A context path closes it.
    Closed {
        root: RealPath,
        rule: &'static PermissionRule,
    },
}

impl DoubtfulPath {
    /// Returns why it is doubtful, with the place to which it leads.
    pub fn reason(&self) -> String {
        let path = escape_name(&self.path.to_string());
        match &self.reason {
            DoubtReason::Link(detour) => detour.describe(&self.path, &self.target),
            DoubtReason::Closed { root, rule } if *root == self.target => {
                format!("`{path}` is closed for this: {}", rule.because)
            }
            DoubtReason::Closed { root, rule } => format!(
                "`{path}` is closed in the context path `{}`: {}",
                escape_name(&root.to_string()),
                rule.because
            ),
        }
    }

    /// Returns the error that it is not opened.
    pub fn to_error(&self) -> Error {
        let error = Error::new(ErrorKind::Config, self.reason());
        let by_config = format!(
            "to open it, list `{}` in `orchestrator.context_paths` of a config",
            escape_name(&self.target.to_string())
        );
        match (&self.reason, self.source) {
            (DoubtReason::Link(_), PathSource::Config) => {
                error.with_hint("if that is what you mean, name it in the config by that path")
            }
            (DoubtReason::Link(_), PathSource::Prompt) => {
                error.with_hint("if that is what you mean, mention it by that path")
            }
            (DoubtReason::Closed { .. }, PathSource::Config) => error.with_hint(by_config),
            (DoubtReason::Closed { .. }, PathSource::Prompt) => {
                error.with_hint(format!("{by_config}, or confirm it at a terminal"))
            }
        }
    }
}

/// The paths that a config and prompts ask to open.
#[derive(Debug)]
pub struct Openings {
    /// The grants that all agents have without a confirmation.
    grants: Vec<Grant>,
    /// The paths that need one.
    pub doubtful_paths: Vec<DoubtfulPath>,
}

impl Openings {
    /// Examines the paths that `config` opens and those that prompts `opened`. Paths that do not
    /// exist are left out.
    ///
    /// # Errors
    /// A path cannot be resolved.
    pub fn examine(
        config: &Config,
        opened: &[OpenedPath],
        location: UserLocation<'_>,
    ) -> Result<Self> {
        let mut open_grants = Vec::new();
        // What one agent has, too, closes paths inside it, but opens nothing to the others.
        let mut all_grants = Vec::new();
        let mut candidates = Vec::new();
        let prompt_requests = opened.iter().map(PathRequest::from_prompt);
        let mut config = config.clone();
        let config_requests = config.user_paths_mut().map(PathRequest::from_config);
        for request in config_requests.chain(prompt_requests) {
            let (located, link) = follow_user_path(&request.context.path, location)?;
            let Some(grant) = request.grant(located) else {
                continue;
            };
            all_grants.push(grant.clone());
            match (request.authority, &link) {
                (Authority::AllAgents, None) => open_grants.push(grant),
                (Authority::OneAgent, None) => {}
                (Authority::Missing, _) | (_, Some(_)) => candidates.push((request, grant, link)),
            }
        }
        close_link_targets(&mut open_grants)?;
        close_link_targets(&mut all_grants)?;
        let authorized = PathPermissionManager::new(open_grants.clone(), Phase::Final);
        let mut doubtful_paths = Vec::new();
        for (request, grant, link) in candidates {
            if authorized.allows(&grant.root, grant.permission) {
                continue;
            }
            let closing = closing_grant(&all_grants, &grant.root, grant.permission);
            let closing = closing.map(|(outer, rule)| DoubtReason::Closed {
                root: outer.root.clone(),
                rule,
            });
            let detour = link.and_then(ProjectLink::detour);
            match detour.map(DoubtReason::Link).or(closing) {
                None if request.authority == Authority::OneAgent => {}
                None => open_grants.push(grant),
                Some(reason) => doubtful_paths.push(DoubtfulPath {
                    path: request.context.path,
                    target: grant.root,
                    permission: grant.permission,
                    source: request.source,
                    reason,
                }),
            }
        }
        Ok(Self {
            grants: open_grants,
            doubtful_paths,
        })
    }

    /// Returns whether `path` is open with this permission.
    pub fn is_open(&self, path: &RealPath, permission: Permission) -> bool {
        PathPermissionManager::new(self.grants.clone(), Phase::Final).allows(path, permission)
    }

    /// Rejects the first path that needs a confirmation.
    ///
    /// # Errors
    /// There is one.
    pub fn require_no_doubt(&self) -> Result<()> {
        self.doubtful_paths
            .first()
            .map_or(Ok(()), |doubt| Err(doubt.to_error()))
    }
}

/// Closes what the protected and hidden paths of the user's `grants` lead to through symlinks, as
/// these paths are closed, and protects the symlinks: the same files have other paths.
///
/// # Errors
/// A path leads through too many symlinks, or the root directory cannot be opened.
pub(super) fn close_link_targets(grants: &mut [Grant]) -> Result<()> {
    let (mut protected, mut hidden) = (Vec::new(), Vec::new());
    let has_names =
        |grant: &&Grant| grant.kind == GrantKind::Context && grant.scope == GrantScope::Tree;
    for grant in grants.iter().filter(has_names) {
        let places = |rel| places_on_way(&grant.root.join(rel).to_abs());
        for rel in &grant.protected {
            protected.extend(places(rel)?);
        }
        for rel in &grant.hidden {
            let mut symlinks = places(rel)?;
            hidden.extend(symlinks.pop());
            protected.extend(symlinks);
        }
    }
    close_places(grants, &protected, &hidden);
    Ok(())
}

/// Opens what the user has confirmed: from then on, the place to which the path leads is named, not
/// the path.
pub fn confirm_opening(doubt: &DoubtfulPath, config: &mut Config, opened: &mut Vec<OpenedPath>) {
    let target = doubt.target.to_abs();
    match doubt.source {
        PathSource::Prompt => confirm_path(opened, &doubt.path, &target),
        PathSource::Config => {
            let named_paths = config.user_paths_mut().map(|path| match path {
                ConfigPath::Shared(context) | ConfigPath::Own(context) => &mut context.path,
                ConfigPath::Bare(path, ..) => path,
            });
            let named_paths = named_paths.filter(|path| **path == doubt.path);
            named_paths.for_each(|path| target.clone_into(path));
        }
    }
}

/// One path that is to be opened.
struct PathRequest {
    context: ContextPath,
    source: PathSource,
    authority: Authority,
    kind: GrantKind,
}

/// Whether the user decided to open a path although a context path may close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Authority {
    /// For all agents: the config lists the path, or the user confirmed it.
    AllAgents,
    /// For one agent, to which the config opens it.
    OneAgent,
    /// The user mentioned it.
    Missing,
}

impl PathRequest {
    fn from_config(path: ConfigPath<'_>) -> Self {
        let (context, authority, kind) = match path {
            ConfigPath::Shared(context) => {
                (context.clone(), Authority::AllAgents, GrantKind::Context)
            }
            ConfigPath::Own(context) => (context.clone(), Authority::OneAgent, GrantKind::Context),
            ConfigPath::Bare(path, permission, kind) => {
                let context = ContextPath {
                    permission,
                    ..ContextPath::read_only(path.clone())
                };
                (context, Authority::OneAgent, kind)
            }
        };
        Self {
            context,
            source: PathSource::Config,
            authority,
            kind,
        }
    }

    fn from_prompt(opened: &OpenedPath) -> Self {
        Self {
            context: ContextPath {
                permission: opened.permission,
                ..ContextPath::read_only(opened.path.clone())
            },
            source: PathSource::Prompt,
            authority: if opened.is_confirmed {
                Authority::AllAgents
            } else {
                Authority::Missing
            },
            kind: GrantKind::Context,
        }
    }

    /// Returns the grant that it asks for; `None` if nothing is there.
    fn grant(&self, located: LocatedPath) -> Option<Grant> {
        let permission = self.context.permission;
        match located {
            // A workspace is created.
            LocatedPath::Missing(root) if self.kind == GrantKind::Workspace => {
                Some(Grant::tree(root, self.kind, permission))
            }
            LocatedPath::Missing(_) => None,
            LocatedPath::File(root) => {
                let is_confirmed = self.authority == Authority::AllAgents;
                Some(file_grant(root, permission, is_confirmed))
            }
            LocatedPath::Directory(root) => Some(Grant {
                protected: self.context.protected.clone(),
                hidden: self.context.hidden.clone(),
                unprotected: self.context.unprotected.clone(),
                ..Grant::tree(root, self.kind, permission)
            }),
        }
    }
}

/// Returns the grant of a file. Only one that the user confirmed may have a protected name and be
/// written.
pub(super) fn file_grant(root: RealPath, permission: Permission, is_confirmed: bool) -> Grant {
    let name = root.name().and_then(|name| RelPath::default().child(name));
    let protected = name.and_then(|name| protected_name(&name, &[]));
    let unprotected = protected.filter(|_| is_confirmed).map(str::to_owned);
    Grant {
        unprotected: unprotected.into_iter().collect(),
        ..Grant::file(root, permission)
    }
}
