//! Owns which directories of a config must not lie in one another: an agent could otherwise write
//! what is another's, or massgen clear what is the user's.

use crate::config::check::view::View;
use crate::config::check::{Checker, paths};
use crate::config::diagnostic::{Diagnostic, Span, quote};
use crate::config::place::{LOGS, Place, STATE_DIR};
use crate::config::{Config, OrchestratorConfig};
use crate::path::AbsPath;

/// A directory that massgen writes, or that one agent writes.
struct Territory<'a> {
    /// Whose it is.
    owner: Owner,
    /// Where it is.
    path: AbsPath,
    /// The key that names it.
    key: String,
    /// Where the key's value stands, if it is written.
    span: Option<&'a Span>,
    /// Whether the user chose the path in full.
    is_absolute: bool,
}

/// Whose a directory is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Agent,
    Massgen,
}

impl Checker<'_> {
    /// Says which directories lie in one another that must not.
    pub(super) fn overlaps(&mut self, root: &View<'_>, config: &Config) {
        let workspaces = self.workspaces(root, config).into_iter();
        let storage = self.storage_directories(root, &config.orchestrator);
        let mut sound: Vec<Territory<'_>> = workspaces
            .chain(storage)
            .filter(|territory| self.is_apart(territory, config))
            .collect();
        sound.sort_by(|a, b| a.path.cmp(&b.path));
        let mut outer: Option<&Territory<'_>> = None;
        for inner in &sound {
            match outer {
                Some(outer) if inner.path.is_within(&outer.path) => {
                    self.refuse_pair(outer, inner);
                }
                _ => outer = Some(inner),
            }
        }
    }

    fn workspaces<'n>(&self, root: &View<'n>, config: &Config) -> Vec<Territory<'n>> {
        let single = root.section("agent").map(|agent| vec![agent]);
        let views = single.unwrap_or_else(|| {
            let items = root.items("agents").into_iter();
            items.map(|(path, node)| View { node, path }).collect()
        });
        let backends = views.iter().filter_map(|view| view.section("backend"));
        let agents = config.agents.iter().zip(backends);
        agents
            .filter_map(|(agent, backend)| {
                let place = agent.cwd.as_ref()?;
                let path = place.resolve_workspace(self.context.base, "");
                Some(Territory::new(Owner::Agent, place, path, (&backend, "cwd")))
            })
            .collect()
    }

    fn storage_directories<'n>(
        &self,
        root: &View<'n>,
        orchestrator: &OrchestratorConfig,
    ) -> Vec<Territory<'n>> {
        let view = root.section("orchestrator").unwrap_or_else(|| View {
            node: root.node,
            path: "orchestrator".to_owned(),
        });
        let rules = orchestrator;
        let storages = [
            ("snapshot_storage", &rules.snapshot_storage),
            (
                "agent_temporary_workspace",
                &rules.agent_temporary_workspace,
            ),
            ("session_storage", &rules.session_storage),
        ];
        let logs = Territory {
            owner: Owner::Massgen,
            path: self.context.base.join(STATE_DIR).join(LOGS),
            key: "massgen's log".to_owned(),
            span: None,
            is_absolute: false,
        };
        let storages = storages.into_iter().map(|(key, place)| {
            let path = place.resolve(self.context.base, None);
            Territory::new(Owner::Massgen, place, path, (&view, key))
        });
        storages.chain([logs]).collect()
    }

    /// Whether a directory is apart from what is the user's; says why if it is not.
    fn is_apart(&mut self, territory: &Territory<'_>, config: &Config) -> bool {
        let path = &territory.path;
        let fault = match (territory.owner, self.reason_against(territory)) {
            (Owner::Agent, None) => return true,
            (Owner::Agent, Some(reason)) => (
                format!("{} is {reason}", quote(&path.to_string())),
                "let the agent work in a directory of its own, and open this one in `context_paths`",
            ),
            (Owner::Massgen, Some(reason)) => (
                format!("{} is {reason}", quote(&path.to_string())),
                "name a directory that is for massgen alone, or leave the key out",
            ),
            (Owner::Massgen, None) => match given_path_beside(territory, config) {
                None => return true,
                Some(given) => (
                    format!(
                        "the storage shares a directory with {}",
                        quote(&given.to_string())
                    ),
                    "name a directory outside of what agents are given, or leave the key out",
                ),
            },
        };
        self.refuse(territory, fault.0, fault.1);
        false
    }

    /// What a directory is that massgen must not work in.
    fn reason_against(&self, territory: &Territory<'_>) -> Option<&'static str> {
        let base = self.context.base;
        let state = base.join(STATE_DIR);
        let path = &territory.path;
        let is_inside_state = path.is_within(&state) && *path != state;
        if !territory.is_absolute || is_inside_state {
            return None;
        }
        let here = (path == base).then_some("the directory that you are in");
        paths::breadth(path, self.context).or(here)
    }

    fn refuse_pair(&mut self, outer: &Territory<'_>, inner: &Territory<'_>) {
        let (blamed, other) = match (inner.span, outer.span) {
            (None, Some(_)) => (outer, inner),
            _ => (inner, outer),
        };
        let message = if inner.path == outer.path {
            format!("this directory is the one of `{}` too", other.key)
        } else {
            format!(
                "this directory and the one of `{}` lie in one another",
                other.key
            )
        };
        self.refuse(blamed, message, "give each a directory of its own");
    }

    fn refuse(&mut self, territory: &Territory<'_>, message: String, hint: &str) {
        let error = Diagnostic::error(&territory.key, message).suggest(hint);
        self.findings.push(match territory.span {
            Some(span) => error.at(span),
            None => error,
        });
    }
}

impl<'n> Territory<'n> {
    fn new(owner: Owner, place: &Place, path: AbsPath, (view, key): (&View<'n>, &str)) -> Self {
        Self {
            owner,
            path,
            key: view.path_of(key),
            span: view.text(key).map(|text| text.span),
            is_absolute: matches!(place, Place::Absolute(_)),
        }
    }
}

/// A path that agents are given and that the storage lies in, or that lies in the storage. Below the
/// state directory there is none: agents do not see it, and cannot be given it by accident.
fn given_path_beside<'c>(storage: &Territory<'_>, config: &'c Config) -> Option<&'c AbsPath> {
    if !storage.is_absolute {
        return None;
    }
    config
        .opened_paths()
        .find(|given| storage.path.is_within(given) || given.is_within(&storage.path))
}
