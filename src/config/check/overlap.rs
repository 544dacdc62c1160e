//! Owns what directories of a config must not share: an agent could otherwise write what is
//! another's, or massgen clear what is the user's.

use crate::config::check::view::View;
use crate::config::check::{Checker, paths};
use crate::config::diagnostic::{Diagnostic, Span, quote};
use crate::config::place::{LOGS, Place, STATE_DIR};
use crate::config::{Config, OrchestratorConfig};
use crate::path::AbsPath;
use crate::permissions::guard::FolderGuard;

/// A directory that massgen writes, or that one agent writes.
struct Territory<'a> {
    /// Where it is.
    path: AbsPath,
    /// The key that names it; empty for the log directory.
    key: String,
    /// Where the key's value stands.
    span: Option<&'a Span>,
    /// Whether the user chose the path in full.
    is_absolute: bool,
}

impl Checker<'_> {
    /// Says which directories lie in one another that must not.
    pub(super) fn overlaps(&mut self, root: &View<'_>, config: &Config) {
        let mut all = self.workspaces(root, config);
        let workspaces = all.len();
        all.extend(self.storage_directories(root, &config.orchestrator));
        for territory in &all {
            self.refuse_territory(territory);
        }
        for storage in all.iter().skip(workspaces) {
            self.refuse_shared_with_grants(storage, config);
        }
        all.sort_by(|a, b| a.path.cmp(&b.path));
        let mut outer: Option<&Territory<'_>> = None;
        for inner in &all {
            match outer {
                Some(outer) if is_within(&inner.path, &outer.path) => {
                    self.refuse_pair(outer, inner)
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
                Some(territory(place, path, &backend, "cwd"))
            })
            .collect()
    }

    fn storage_directories<'n>(
        &self,
        root: &View<'n>,
        orchestrator: &OrchestratorConfig,
    ) -> Vec<Territory<'n>> {
        let view = root.section("orchestrator").unwrap_or_else(|| root.clone());
        let storages = [
            ("snapshot_storage", &orchestrator.snapshot_storage),
            (
                "agent_temporary_workspace",
                &orchestrator.agent_temporary_workspace,
            ),
            ("session_storage", &orchestrator.session_storage),
        ];
        let logs = Territory {
            path: self.context.base.join(STATE_DIR).join(LOGS),
            key: String::new(),
            span: None,
            is_absolute: false,
        };
        storages
            .into_iter()
            .map(|(key, place)| {
                let path = place.resolve(self.context.base, None);
                territory(place, path, &view, key)
            })
            .chain([logs])
            .collect()
    }

    /// A directory of massgen's or an agent's may not be the user's home, and not hold all state.
    fn refuse_territory(&mut self, territory: &Territory<'_>) {
        let state = self.context.base.join(STATE_DIR);
        let path = &territory.path;
        let is_inside_state = is_within(path, &state) && *path != state;
        let reason = match paths::breadth(path, self.context) {
            _ if !territory.is_absolute || is_inside_state => return,
            Some(reason) => reason,
            None if path == self.context.base => "the directory that you are in",
            None => return,
        };
        let message = format!("{} is {reason}", quote(&path.to_string()));
        let hint = if territory.key.ends_with("cwd") {
            "let the agent work in a directory of its own, and open this one in `context_paths`"
        } else {
            "name a directory that is for massgen alone, or leave the key out"
        };
        self.refuse(territory, message, hint);
    }

    /// Storage may not lie in what agents are given, nor hold it.
    fn refuse_shared_with_grants(&mut self, storage: &Territory<'_>, config: &Config) {
        let shared = config.orchestrator.context_paths.iter();
        let own = config.agents.iter().flat_map(|agent| &agent.context_paths);
        let paths = shared.chain(own).map(|entry| &entry.path);
        let guarded = config
            .agents
            .iter()
            .flat_map(|agent| match &agent.folder_guard {
                FolderGuard::Off => [].iter().chain([].iter()),
                FolderGuard::On { read, write, .. } => read.iter().chain(write),
            });
        let overlapping = paths.chain(guarded).find(|path| {
            let inside = storage.is_absolute && is_within(&storage.path, path);
            inside || is_within(path, &storage.path)
        });
        if let Some(path) = overlapping {
            let message = format!(
                "the storage shares a directory with {}",
                quote(&path.to_string())
            );
            let hint = "name a directory outside of what agents are given, or leave the key out";
            self.refuse(storage, message, hint);
        }
    }

    fn refuse_pair(&mut self, outer: &Territory<'_>, inner: &Territory<'_>) {
        let (blamed, other) = match (inner.span, outer.span) {
            (None, Some(_)) => (outer, inner),
            _ => (inner, outer),
        };
        let other = if other.key.is_empty() {
            "massgen's log"
        } else {
            other.key.as_str()
        };
        let message = format!("this directory and the one of `{other}` lie in one another");
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

fn territory<'n>(place: &Place, path: AbsPath, view: &View<'n>, key: &str) -> Territory<'n> {
    Territory {
        path,
        key: view.path_of(key),
        span: view.text(key).map(|text| text.span),
        is_absolute: matches!(place, Place::Absolute(_)),
    }
}

fn is_within(inner: &AbsPath, outer: &AbsPath) -> bool {
    inner.as_path().starts_with(outer.as_path())
}
