//! Refuses directories of a config that overlap and must not: otherwise an agent could write to
//! another's directory, or massgen could delete the user's files.

use crate::config::check::mapping_view::MappingView;
use crate::config::check::{ConfigChecker, paths};
use crate::config::diagnostic::{Diagnostic, Span, quote};
use crate::config::keys::shape::Text;
use crate::config::keys::{TypedKey, agents, backend, orchestrator, root};
use crate::config::storage_path::{LOGS, SNAPSHOTS, STATE_DIR, StoragePath, TEMP_WORKSPACES};
use crate::config::{Config, OrchestratorConfig};
use crate::path::AbsPath;
use crate::permissions::folded::FoldedPath;

/// A directory that massgen or one agent writes to.
struct DirectoryClaim<'a> {
    owner: DirectoryOwner,
    path: AbsPath,
    /// The folded path: some disks take `Work` for `work`.
    folded: FoldedPath,
    /// The key that names it.
    key: String,
    /// The location of the key's value, if it is set.
    span: Option<&'a Span>,
    /// Whether the user gave an absolute path.
    is_absolute: bool,
}

/// The owner of a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DirectoryOwner {
    Agent,
    Massgen,
}

impl ConfigChecker<'_> {
    /// Refuses directories that overlap and must not.
    pub(super) fn check_overlaps(&mut self, root: &MappingView<'_>, config: &Config) {
        let workspaces = self.workspaces(root, config).into_iter();
        let storage = self.storage_directories(root, &config.orchestrator);
        let mut claims: Vec<DirectoryClaim<'_>> = workspaces
            .chain(storage)
            .filter(|claim| self.check_separate(claim, config))
            .collect();
        claims.sort_by(|a, b| a.folded.cmp(&b.folded));
        // What is inside a directory follows it in this order.
        let mut outer: Option<&DirectoryClaim<'_>> = None;
        for claim in &claims {
            match outer {
                Some(outer) if claim.folded.is_within(&outer.folded) => {
                    self.refuse_pair(outer, claim);
                }
                _ => outer = Some(claim),
            }
        }
    }

    fn workspaces<'n>(&self, root: &MappingView<'n>, config: &Config) -> Vec<DirectoryClaim<'n>> {
        let single_agent = root.section(&root::AGENT).map(|agent| vec![agent]);
        let views = single_agent.unwrap_or_else(|| root.views(&root::AGENTS));
        let backends = views
            .iter()
            .filter_map(|view| view.section(&agents::BACKEND));
        // There is a config only if each agent has a backend, so the pairs match.
        let agents = config.agents.iter().zip(backends);
        agents
            .filter_map(|(agent, backend)| {
                let storage = agent.cwd.as_ref()?;
                let path = storage.resolve_workspace(self.context.state_parent, "");
                Some(DirectoryClaim::new(
                    DirectoryOwner::Agent,
                    storage,
                    path,
                    &backend,
                    &backend::CWD,
                ))
            })
            .collect()
    }

    fn storage_directories<'n>(
        &self,
        root: &MappingView<'n>,
        orchestrator: &OrchestratorConfig,
    ) -> Vec<DirectoryClaim<'n>> {
        let view = root.section_or_empty(&root::ORCHESTRATOR);
        let own_directory = |name: &str| {
            let path = self.context.state_parent.join(STATE_DIR).join(name);
            DirectoryClaim {
                owner: DirectoryOwner::Massgen,
                folded: FoldedPath::from_path(path.as_path()),
                path,
                key: format!("{STATE_DIR}/{name}"),
                span: None,
                is_absolute: false,
            }
        };
        let sessions = &orchestrator.session_storage;
        let mut claims = vec![DirectoryClaim::new(
            DirectoryOwner::Massgen,
            sessions,
            sessions.resolve(self.context.state_parent, None),
            &view,
            &orchestrator::SESSION_STORAGE,
        )];
        claims.extend([LOGS, SNAPSHOTS, TEMP_WORKSPACES].map(own_directory));
        claims
    }

    /// Returns whether a directory is separate from the user's; adds an error if not.
    fn check_separate(&mut self, claim: &DirectoryClaim<'_>, config: &Config) -> bool {
        let path = &claim.path;
        let (message, hint) = match (claim.owner, self.unsuitable_reason(claim)) {
            (DirectoryOwner::Agent, None) => return true,
            (DirectoryOwner::Agent, Some(reason)) => (
                format!("{} is {reason}", quote(&path.to_string())),
                "give the agent a separate directory, and open this one in `context_paths`",
            ),
            (DirectoryOwner::Massgen, Some(reason)) => (
                format!("{} is {reason}", quote(&path.to_string())),
                "use a directory only for massgen, or remove the key",
            ),
            (DirectoryOwner::Massgen, None) => match overlapping_context_path(claim, config) {
                None => return true,
                Some(context_path) => (
                    format!(
                        "the storage shares a directory with {}",
                        quote(&context_path.to_string())
                    ),
                    "use a directory that is not open to agents, or remove the key",
                ),
            },
        };
        self.refuse_claim(claim, message, hint);
        false
    }

    /// Returns why massgen must not work in a directory; `None` if it may.
    fn unsuitable_reason(&self, claim: &DirectoryClaim<'_>) -> Option<&'static str> {
        let base = self.context.base;
        let state = self.context.state_parent.join(STATE_DIR);
        let path = &claim.path;
        let is_inside_state = path.is_within(&state) && *path != state;
        // A relative path is below the state directory, which is massgen's own.
        if !claim.is_absolute || is_inside_state {
            return None;
        }
        let cwd_reason = (path == base).then_some("the current directory");
        paths::breadth_reason(path, self.context).or(cwd_reason)
    }

    /// Refuses two directories of which one is inside the other.
    fn refuse_pair(&mut self, outer: &DirectoryClaim<'_>, inner: &DirectoryClaim<'_>) {
        // The error is shown at the key that the user wrote, if only one of them is written.
        let (reported_claim, other_claim) = match (inner.span, outer.span) {
            (None, Some(_)) => (outer, inner),
            _ => (inner, outer),
        };
        let mut message = if inner.folded == outer.folded {
            format!("this directory is also that of `{}`", other_claim.key)
        } else {
            format!(
                "this directory and that of `{}` are nested",
                other_claim.key
            )
        };
        if !inner.path.is_within(&outer.path) {
            message.push_str(
                ", because a case-insensitive file system treats both spellings as the same",
            );
        }
        self.refuse_claim(reported_claim, message, "give each its own directory");
    }

    fn refuse_claim(&mut self, claim: &DirectoryClaim<'_>, message: String, hint: &str) {
        let error = Diagnostic::error(&claim.key, message).with_suggestion(hint);
        self.findings.push(match claim.span {
            Some(span) => error.with_span(span),
            None => error,
        });
    }
}

impl<'n> DirectoryClaim<'n> {
    fn new(
        owner: DirectoryOwner,
        storage: &StoragePath,
        path: AbsPath,
        view: &MappingView<'n>,
        key: &TypedKey<Text>,
    ) -> Self {
        Self {
            owner,
            folded: FoldedPath::from_path(path.as_path()),
            path,
            key: view.key_path(key),
            span: view.text(key).map(|text| text.span),
            is_absolute: matches!(storage, StoragePath::Absolute(_)),
        }
    }
}

/// Returns a path opened to agents that contains the storage or is inside it. Storage below the
/// state directory has none: agents do not see that directory, and cannot be given it by accident.
fn overlapping_context_path<'c>(
    storage: &DirectoryClaim<'_>,
    config: &'c Config,
) -> Option<&'c AbsPath> {
    if !storage.is_absolute {
        return None;
    }
    config.opened_paths().find(|path| {
        let folded_path = FoldedPath::from_path(path.as_path());
        storage.folded.is_within(&folded_path) || folded_path.is_within(&storage.folded)
    })
}
