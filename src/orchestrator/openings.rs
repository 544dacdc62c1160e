//! Finds the paths that the user must confirm before they are opened: the path as it was written
//! and the place to which it leads are compared here, for configs, prompts, sessions and the page.

use crate::config::uploads::UploadedFile;
use crate::config::{Config, ContextPath};
use crate::error::{Error, ErrorKind, Result};
use crate::mentions::opened_paths::{OpenedPath, confirm_path};
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::permissions::guard::FolderGuard;
use crate::permissions::protected::protected_name;
use crate::permissions::rules::PermissionRule;
use crate::permissions::{PathPermissionManager, closing_grant};
use crate::text::escape_name;
use crate::world::io::locate::LocatedPath;
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
        for request in config_requests(config).chain(prompt_requests) {
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

/// Opens what the user has confirmed: from then on, the place to which the path leads is named, not
/// the path.
pub fn confirm_opening(doubt: &DoubtfulPath, config: &mut Config, opened: &mut Vec<OpenedPath>) {
    let target = doubt.target.to_abs();
    match doubt.source {
        PathSource::Prompt => confirm_path(opened, &doubt.path, &target),
        PathSource::Config => {
            let named_paths = config.user_paths_mut().filter(|path| **path == doubt.path);
            named_paths.for_each(|path| target.clone_into(path));
        }
    }
}

/// One path that is to be opened.
struct PathRequest {
    context: ContextPath,
    source: PathSource,
    authority: Authority,
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
    fn from_config(context: ContextPath, authority: Authority) -> Self {
        Self {
            context,
            source: PathSource::Config,
            authority,
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
        }
    }

    /// Returns the grant that it asks for; `None` if nothing is there.
    fn grant(&self, located: LocatedPath) -> Option<Grant> {
        let permission = self.context.permission;
        match located {
            LocatedPath::Missing(_) => None,
            LocatedPath::File(root) => {
                let is_confirmed = self.authority == Authority::AllAgents;
                Some(file_grant(root, permission, is_confirmed))
            }
            LocatedPath::Directory(root) => Some(Grant {
                protected: self.context.protected.clone(),
                hidden: self.context.hidden.clone(),
                unprotected: self.context.unprotected.clone(),
                ..Grant::tree(root, GrantKind::Context, permission)
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

/// Returns what the config asks to open.
fn config_requests(config: &Config) -> impl Iterator<Item = PathRequest> {
    let shared_paths = config.orchestrator.context_paths.iter().cloned();
    let own_paths = config.agents.iter().flat_map(|agent| {
        let (read, write): (&[AbsPath], &[AbsPath]) = match &agent.folder_guard {
            FolderGuard::On { read, write, .. } => (read, write),
            FolderGuard::Off | FolderGuard::Role { .. } => (&[], &[]),
        };
        let uploads = agent.uploaded_files.iter().filter_map(UploadedFile::path);
        let readable = read.iter().chain(&agent.uploaded_images).chain(uploads);
        let readable = readable.map(|path| ContextPath::read_only(path.clone()));
        let writable = write.iter().map(|path| ContextPath {
            permission: Permission::Write,
            ..ContextPath::read_only(path.clone())
        });
        agent
            .context_paths
            .iter()
            .cloned()
            .chain(readable)
            .chain(writable)
    });
    let shared =
        shared_paths.map(|context| PathRequest::from_config(context, Authority::AllAgents));
    shared.chain(own_paths.map(|context| PathRequest::from_config(context, Authority::OneAgent)))
}
