//! Removes items that have not been used for a long time, or the oldest ones if all together use
//! too much disk space: sessions, records and workspaces of runs, pipelines, and deliveries whose
//! run or pipeline is gone. An item in use stays, and so do the newest session, run and pipeline.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::config::retention::RetentionConfig;
use crate::config::storage_path::{BATCHES, DELIVERIES, LOGS, PIPELINES};
use crate::error::Result;
use crate::path::AbsPath;
use crate::world::store::delivery_names::pipeline_of;
use crate::world::store::existing_directories;
use crate::world::store::pipelines::{self, PipelineDir};
use crate::world::store::runs::{self, RunDir};
use crate::world::store::sessions::{self, SessionDir};
use crate::world::sys::state_files::disk_usage::{DiskUsage, unchanged_for};
use crate::world::sys::state_files::{clear, dir, file, process_directory};

/// The directory of agents' workspaces, below the state directory.
const WORKSPACES: &str = "workspaces";
/// The directory of their shared snapshots, there too.
const TEMP_WORKSPACES: &str = "temp_workspaces";
/// The length of the short name of a run, which the names of its directories contain, in
/// characters.
const SHORT_NAME_CHARS: usize = 8;

/// The directories in which a project keeps massgen's state.
#[derive(Clone, Debug)]
pub struct ProjectStore {
    /// The state directory.
    pub state: AbsPath,
    /// The directory of the sessions.
    pub sessions: AbsPath,
}

/// An item that can be removed as a whole.
#[derive(Debug)]
pub struct PrunableItem {
    /// The kind of the item.
    pub kind: PrunableKind,
    /// Its name.
    pub name: String,
    /// How long it has not been used.
    pub unused_for: Duration,
    /// The disk space that it uses and that no item before it does, in bytes.
    pub bytes: u64,
    paths: Vec<AbsPath>,
}

/// The kinds of items that can be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrunableKind {
    /// A session.
    Session(SessionDir),
    /// A run: its records and the workspaces that massgen created for it.
    Run(RunDir),
    /// A pipeline, with its repository, its checkouts and what its deliveries saved.
    Pipeline(PipelineDir),
    /// What a delivery saved so that it can be undone.
    Delivery,
}

impl PrunableKind {
    /// Returns the noun for it.
    pub fn noun(&self) -> &'static str {
        match self {
            PrunableKind::Session(_) => "session",
            PrunableKind::Run(_) => "run",
            PrunableKind::Pipeline(_) => "pipeline",
            PrunableKind::Delivery => "delivery",
        }
    }
}

/// Removes what killed processes left unfinished in the store. What cannot be removed stays.
pub fn sweep(store: &ProjectStore) {
    let state = &store.state;
    process_directory::sweep(state);
    sessions::sweep(&store.sessions);
    for name in [LOGS, DELIVERIES, PIPELINES, BATCHES, TEMP_WORKSPACES] {
        process_directory::sweep(&state.join(name));
    }
    // The items in these directories, and their turns, have temporary files of their own.
    for item in [&store.sessions, &state.join(LOGS)]
        .map(directories_in)
        .concat()
    {
        process_directory::sweep(&item);
        for turn in directories_in(&item) {
            process_directory::sweep(&turn);
        }
    }
}

/// Returns the directories in `parent`; no symlink counts as one.
fn directories_in(parent: &AbsPath) -> Vec<AbsPath> {
    let is_directory = |path: &AbsPath| matches!(file::is_directory(path), Ok(true));
    if !is_directory(parent) {
        return Vec::new();
    }
    let names = dir::names(parent).unwrap_or_default().into_iter();
    names
        .map(|name| parent.join(name))
        .filter(is_directory)
        .collect()
}

/// Returns the items that `retention` allows to remove, least recently used first.
pub fn list_prunable(
    store: &ProjectStore,
    retention: &RetentionConfig,
) -> Result<Vec<PrunableItem>> {
    let mut items = list_items(store)?;
    items.sort_by_key(|item| item.unused_for);
    let mut disk_usage = DiskUsage::default();
    let mut total_bytes: u64 = 0;
    let mut due_items = Vec::new();
    // The last used come first: space that is shared with one of them is not freed by the others.
    for mut item in items {
        item.bytes = item.paths.iter().map(|path| disk_usage.bytes(path)).sum();
        total_bytes = total_bytes.saturating_add(item.bytes);
        let age_max = retention.unused_seconds.map(Duration::from_secs);
        let is_old = age_max.is_some_and(|age_max| item.unused_for > age_max);
        let is_beyond_space = retention
            .bytes
            .is_some_and(|bytes_max| total_bytes > bytes_max);
        if is_old || is_beyond_space {
            due_items.push(item);
        }
    }
    due_items.reverse();
    Ok(due_items)
}

/// Removes `item` unless it is in use now. Returns whether it was removed.
pub fn remove(item: &PrunableItem) -> Result<bool> {
    match &item.kind {
        PrunableKind::Session(session) => session.remove().map(|()| true),
        PrunableKind::Run(run) if file::is_locked(&run.events_file())? => Ok(false),
        PrunableKind::Run(_) | PrunableKind::Delivery => remove_all(&item.paths),
        PrunableKind::Pipeline(pipeline) => match pipeline.lock() {
            Ok(_lock) => remove_all(&item.paths),
            Err(_) => Ok(false),
        },
    }
}

fn remove_all(paths: &[AbsPath]) -> Result<bool> {
    // The records go last, because they name what belongs to the run.
    for path in paths {
        clear::discard(path)?;
    }
    Ok(true)
}

/// Returns all items that are not in use, without the newest session, run and pipeline.
fn list_items(store: &ProjectStore) -> Result<Vec<PrunableItem>> {
    let mut items = Vec::new();
    let session_sandboxes = sessions::list(&store.sessions)?.into_iter();
    let is_idle = |session: &SessionDir| Ok(!session.is_running()?);
    let idle_sessions = existing_directories(session_sandboxes, is_idle)?;
    for session in idle_sessions.into_iter().skip(1) {
        let (name, path) = (session.id(), session.dir().clone());
        items.extend(new_item(PrunableKind::Session(session), name, vec![path]));
    }
    let logs = store.state.join(LOGS);
    let mut run_names = BTreeSet::new();
    for (index, run) in runs::list(&logs)?.into_iter().enumerate() {
        let short_name = short_run_name(&run);
        run_names.insert(run.name());
        if index > 0 && !file::is_locked(&run.events_file())? {
            let own_paths =
                short_name.map(|short_name| own_directories(&run, &short_name, &store.state));
            let mut paths = own_paths.transpose()?.unwrap_or_default();
            paths.push(run.log().clone());
            items.extend(new_item(PrunableKind::Run(run.clone()), run.name(), paths));
        }
    }
    let deliveries = store.state.join(DELIVERIES);
    let delivery_names = dir::names_if_exists(&deliveries)?;
    let mut pipelines = BTreeSet::new();
    let pipeline_dirs = pipelines::list(&store.state.join(PIPELINES))?.into_iter();
    for (index, pipeline) in pipeline_dirs.enumerate() {
        let (name, short_name) = (pipeline.name(), pipeline.short_name());
        if index > 0 && !pipeline.is_running()? {
            let own_names = delivery_names
                .iter()
                .filter(|name| pipeline_of(name) == Some(&short_name));
            let own_deliveries = own_names.map(|name| deliveries.join(name));
            let mut paths = existing_directories(own_deliveries, dir::is_owned_by_user)?;
            paths.push(pipeline.dir().clone());
            items.extend(new_item(PrunableKind::Pipeline(pipeline), name, paths));
        }
        pipelines.insert(short_name);
    }
    // What the delivery of a run or a pipeline saved is removed with it.
    let is_orphan = |name: &String| match pipeline_of(name) {
        Some(pipeline) => !pipelines.contains(pipeline),
        None => runs::is_name(name) && !run_names.contains(name),
    };
    for name in delivery_names
        .iter()
        .filter(|name| is_orphan(name))
        .cloned()
    {
        let path = deliveries.join(&name);
        if dir::is_owned_by_user(&path)? && !dir::is_locked(&path)? {
            items.extend(new_item(PrunableKind::Delivery, name, vec![path]));
        }
    }
    Ok(items)
}

/// Returns an item that was last used when its event log, its branches or the last of `paths` last
/// changed; `None` if that is gone.
fn new_item(kind: PrunableKind, name: String, paths: Vec<AbsPath>) -> Option<PrunableItem> {
    let used_path = match &kind {
        PrunableKind::Run(run) => run.events_file(),
        PrunableKind::Pipeline(pipeline) => pipeline.branches(),
        PrunableKind::Session(_) | PrunableKind::Delivery => paths.last()?.clone(),
    };
    Some(PrunableItem {
        unused_for: unchanged_for(&used_path)?,
        kind,
        name,
        bytes: 0,
        paths,
    })
}

/// Returns the short name of a run, according to its records.
fn short_run_name(run: &RunDir) -> Option<String> {
    let manifest = run.manifest().ok()?;
    let temp = AbsPath::new(manifest.temp_workspaces.first()?)?;
    let name = temp.as_path().file_name()?.to_str()?;
    let is_name =
        name.len() == SHORT_NAME_CHARS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name.then(|| name.to_owned())
}

/// Returns the directories that massgen created for `run` below `state`. The run's records are not
/// trusted: a directory counts only if its name contains a name of the run and no symlink leads to
/// it.
fn own_directories(run: &RunDir, short_name: &str, state: &AbsPath) -> Result<Vec<AbsPath>> {
    let manifest = run.manifest().ok();
    let workspace_lists = manifest
        .iter()
        .flat_map(|manifest| manifest.workspaces.values());
    let listed_workspaces = workspace_lists.filter_map(|paths| AbsPath::new(paths.first()?));
    let run_dirs = [
        state.join(TEMP_WORKSPACES).join(short_name),
        state.join(DELIVERIES).join(run.name()),
    ];
    let is_named_after_run = |path: &AbsPath| {
        let last_name = path.as_path().file_name().and_then(|last| last.to_str());
        last_name.is_some_and(|last| last.ends_with(&format!("_{short_name}")))
    };
    let workspaces = state.join(WORKSPACES);
    let own_workspaces =
        listed_workspaces.filter(|path| is_named_after_run(path) && path.is_within(&workspaces));
    let all_dirs = own_workspaces.chain(run_dirs);
    let own_dirs = all_dirs.filter_map(|path| match is_beyond_link(&path, state) {
        Ok(true) => None,
        Ok(false) => Some(Ok(path)),
        Err(error) => Some(Err(error)),
    });
    own_dirs.collect()
}

/// Returns whether there is a symlink on the path from `state` to `path`.
fn is_beyond_link(path: &AbsPath, state: &AbsPath) -> Result<bool> {
    let mut next = Some(path.clone());
    while let Some(ancestor) = next.filter(|ancestor| ancestor != state) {
        if file::is_link(&ancestor)? {
            return Ok(true);
        }
        next = ancestor.parent();
    }
    Ok(false)
}
