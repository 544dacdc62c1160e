//! Converts the paths of a turn to grants: workspaces, context paths, mentions, uploads and folder
//! guards; and describes grants to models. It opens nothing; the gate does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::call_rules::CallRules;
use crate::config::skills::SkillAuthor;
use crate::config::{AgentConfig, Config, ContextPath, OrchestratorConfig, ScriptSource};
use crate::error::{Error, ErrorKind, Result};
use crate::layout::RunLayout;
use crate::mentions::opened_paths::OpenedPath;
use crate::orchestrator::openings::{Openings, close_link_targets, file_grant};
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::PathPermissionManager;
use crate::permissions::folded::below_folded;
use crate::permissions::grant::{
    Grant, GrantKind, GrantScope, Permission, Phase, close_places, merge,
};
use crate::permissions::guard::{ContextPathAccess, FolderGuard, GuardedDirectories};
use crate::permissions::path_rules::{PathGlob, PathRule};
use crate::permissions::protected::{ENV_NAME, PROTECTED_NAMES};
use crate::prompts::DescribedPath;
use crate::text::join_with_commas;
use crate::tools::call::{ExistingTarget, FileSelection, ToolCall, UserPath};
use crate::world::git::ownership::{LinkedRepository, linked_repository, worktrees_inside};
use crate::world::io::locate::{LocatedPath, locate, places_on_way};
use crate::world::io::project_link::UserLocation;
use crate::world::io::secrets::env_files;

/// The paths that a turn inherits from its session.
#[derive(Clone, Copy, Debug, Default)]
pub struct InheritedPaths<'a> {
    /// The paths that the prompts opened, including this turn's.
    pub opened: &'a [OpenedPath],
    /// The workspaces of earlier turns.
    pub workspaces: &'a [AbsPath],
    /// The user's home directory, if it is known.
    pub home: Option<&'a AbsPath>,
    /// The configs that this run and others obey, and the files of the user's programs.
    pub own_files: &'a [AbsPath],
}

/// The context paths of a whole run, resolved once. Those of the config exist; a path that a prompt
/// opened need not.
#[derive(Clone, Debug)]
pub struct ContextGrants {
    shared: Vec<Grant>,
    /// The workspaces of earlier turns.
    earlier: Vec<RealPath>,
    state_dir: RealPath,
    /// The directories of skills and of types of subagents that came with the project.
    instruction_directories: Vec<RealPath>,
    /// The files that massgen reads as its own, and the symlinks on the way to them.
    own_files: Vec<RealPath>,
    /// The files with variables in each shared tree.
    env_files: BTreeMap<RealPath, Vec<RealPath>>,
}

impl ContextGrants {
    /// Resolves the context paths that all agents share, and the paths that the user's prompts
    /// opened; directories of folder guards must exist. One error lists all paths that are missing,
    /// and one all that are not directories. `base` is the user's current directory.
    ///
    /// # Errors
    /// Also if the user would have to confirm a path first.
    pub fn resolve(
        config: &Config,
        layout: &RunLayout,
        base: &AbsPath,
        inherited: InheritedPaths<'_>,
    ) -> Result<Self> {
        let state_dir = real_path(&layout.state)?;
        let home = inherited.home;
        let location = UserLocation { base, home };
        Openings::examine(config, inherited.opened, location)?.require_no_doubt()?;
        require_directories(
            &folder_guard_directories(config, layout),
            "folder guard directories",
        )?;
        let mut shared = resolve_context_paths(&config.orchestrator.context_paths, &state_dir)?;
        for opened_path in inherited.opened {
            let grant = match locate(&opened_path.path)? {
                LocatedPath::File(root) => {
                    file_grant(root, opened_path.permission, opened_path.is_confirmed)
                }
                LocatedPath::Directory(root) | LocatedPath::Missing(root) => {
                    let mut grant = Grant::tree(root, GrantKind::Context, opened_path.permission);
                    hide_state(&mut grant, &state_dir);
                    grant
                }
            };
            reject_state_access(&grant, &state_dir)?;
            merge(&mut shared, grant);
        }
        let trees = shared.iter().filter(|grant| is_context_tree(grant));
        let env_files = trees.map(|grant| (grant.root.clone(), env_files(&grant.root)));
        let env_files = env_files.collect();
        let earlier_roots = inherited.workspaces.iter().map(real_path);
        Ok(Self {
            shared,
            earlier: earlier_roots.collect::<Result<_>>()?,
            state_dir,
            instruction_directories: project_instruction_directories(&config.orchestrator),
            own_files: own_files(config, inherited.own_files)?,
            env_files,
        })
    }

    /// Returns all grants of one agent. `workspace` is its own tree, and `temp_workspaces` the
    /// snapshots of all agents.
    pub fn agent_grants(
        &self,
        agent: &AgentConfig,
        workspace: Option<&AbsPath>,
        temp_workspaces: Option<&AbsPath>,
    ) -> Result<Vec<Grant>> {
        let mut grants = Vec::new();
        if let Some(temp_workspaces) = temp_workspaces {
            let root = real_path(temp_workspaces)?;
            grants.push(Grant::tree(
                root,
                GrantKind::TempWorkspace,
                Permission::Read,
            ));
        }
        let earlier_grants = self.earlier.iter().cloned();
        grants.extend(
            earlier_grants.map(|root| Grant::tree(root, GrantKind::PreviousTurn, Permission::Read)),
        );
        match agent.folder_guard.resolve(workspace) {
            None => {
                if let Some(workspace) = workspace {
                    let root = real_path(workspace)?;
                    grants.push(Grant::tree(root, GrantKind::Workspace, Permission::Write));
                }
                let own_grants = self.own_grants(agent)?;
                for grant in self.shared.iter().cloned().chain(own_grants) {
                    merge(&mut grants, grant);
                }
            }
            Some(guarded_directories) => {
                self.add_folder_guard_grants(&mut grants, &guarded_directories, workspace)?;
                // A role of a pipeline may read context paths; other guards close them.
                if guarded_directories.context_paths == ContextPathAccess::ReadOnly {
                    let own_grants = self.own_grants(agent)?;
                    for grant in self.shared.iter().cloned().chain(own_grants) {
                        let permission = Permission::Read;
                        merge(
                            &mut grants,
                            Grant {
                                permission,
                                ..grant
                            },
                        );
                    }
                }
            }
        }
        reject_closed_workspace(agent, workspace, &grants)?;
        // What an agent wrote there would instruct later agents.
        close_places(&mut grants, &self.instruction_directories, &[]);
        self.hide_env_files(&mut grants);
        Ok(grants)
    }

    /// Hides files with variables, which hold keys, in the user's trees: unless the user opens such
    /// a file by itself, or the tree has `.env` in `unprotected`.
    fn hide_env_files(&self, grants: &mut [Grant]) {
        let files = grants
            .iter()
            .filter(|grant| grant.scope == GrantScope::File);
        let opened_files: BTreeSet<RealPath> = files.map(|grant| grant.root.clone()).collect();
        for grant in grants.iter_mut().filter(|grant| is_context_tree(grant)) {
            if grant.unprotected.iter().any(|name| name == ENV_NAME) {
                continue;
            }
            let known_files = self.env_files.get(&grant.root);
            let files = known_files.map_or_else(|| env_files(&grant.root), Clone::clone);
            let closed_files = files
                .into_iter()
                .filter(|file| !opened_files.contains(file));
            let hidden: Vec<RelPath> = closed_files
                .filter_map(|file| grant.relative_path(&file))
                .filter(|rel| !grant.hidden.contains(rel))
                .collect();
            grant.hidden.extend(hidden);
        }
    }

    /// Protects the files that massgen reads as its own in the user's paths, and returns those that
    /// `grants` would have let an agent write: an agent that changed them would decide about later
    /// runs.
    pub fn protect_own_files(&self, grants: &mut [Grant]) -> Vec<RealPath> {
        let manager = permission_manager(grants, Phase::Final);
        let is_context = |grant: &&mut Grant| grant.kind == GrantKind::Context;
        let mut protected = Vec::new();
        for grant in grants.iter_mut().filter(is_context) {
            for file in &self.own_files {
                match (grant.relative_path(file), grant.scope) {
                    (Some(_), GrantScope::File) => grant.permission = Permission::Read,
                    (Some(inside), GrantScope::Tree) if !inside.is_root() => {
                        grant.protected.push(inside);
                    }
                    // A write path as a whole is what the agents work on.
                    (Some(_), GrantScope::Tree) | (None, _) => continue,
                }
                if manager.allows(file, Permission::Write) {
                    protected.push(file.clone());
                }
            }
        }
        protected
    }

    /// Returns the grants of the paths that the config opens only to `agent`: its context paths and
    /// its uploads.
    fn own_grants(&self, agent: &AgentConfig) -> Result<Vec<Grant>> {
        let mut grants = resolve_context_paths(&agent.context_paths, &self.state_dir)?;
        for image in &agent.uploaded_images {
            grants.push(upload_grant(image, "image_path")?);
        }
        for file in &agent.uploaded_files {
            if let Some(path) = file.path() {
                grants.push(upload_grant(path, file.key())?);
            }
        }
        Ok(grants)
    }

    /// Adds the grants of a folder guard. Directories in the agent's own workspace are created
    /// there; the others are the user's and must exist, except `Downloads/`, which is opened only
    /// if it exists.
    fn add_folder_guard_grants(
        &self,
        grants: &mut Vec<Grant>,
        guarded_directories: &GuardedDirectories,
        workspace: Option<&AbsPath>,
    ) -> Result<()> {
        let guarded_lists = [
            (&guarded_directories.read, Permission::Read),
            (&guarded_directories.write, Permission::Write),
        ];
        for (paths, permission) in guarded_lists {
            for path in paths {
                merge(
                    grants,
                    self.folder_guard_grant(path, permission, workspace)?,
                );
            }
        }
        match &guarded_directories.downloads {
            // massgen creates it in the workspace.
            Some((path, permission)) if is_within(path, workspace) => {
                grants.push(Grant::tree(
                    real_path(path)?,
                    GrantKind::BuiltIn,
                    *permission,
                ));
            }
            Some((path, permission)) if matches!(locate(path)?, LocatedPath::Directory(_)) => {
                merge(
                    grants,
                    self.folder_guard_grant(path, *permission, workspace)?,
                );
            }
            Some(_) | None => {}
        }
        Ok(())
    }

    /// Returns the grant for a directory of a folder guard: part of the agent's own tree if it is
    /// in there, otherwise one of the user's paths, which are writable only in the final phase.
    fn folder_guard_grant(
        &self,
        path: &AbsPath,
        permission: Permission,
        workspace: Option<&AbsPath>,
    ) -> Result<Grant> {
        let root = real_path(path)?;
        let is_in_workspace = match workspace {
            Some(workspace) => root.is_within(&real_path(workspace)?),
            None => false,
        };
        let kind = if is_in_workspace {
            GrantKind::Workspace
        } else {
            GrantKind::Context
        };
        let mut grant = Grant::tree(root, kind, permission);
        hide_state(&mut grant, &self.state_dir);
        reject_state_access(&grant, &self.state_dir)?;
        Ok(grant)
    }
}

/// Rejects a workspace inside a context path that closes something in it: in a workspace, nothing is
/// closed.
fn reject_closed_workspace(
    agent: &AgentConfig,
    workspace: Option<&AbsPath>,
    grants: &[Grant],
) -> Result<()> {
    let Some(workspace) = workspace.map(real_path).transpose()? else {
        return Ok(());
    };
    for outer in grants
        .iter()
        .filter(|grant| grant.kind == GrantKind::Context)
    {
        let closed = outer.hidden.iter().chain(&outer.protected);
        let mut closed = closed.map(|rel| outer.root.join(rel));
        if let Some(path) = closed.find(|path| path.is_within(&workspace)) {
            let message = format!(
                "the workspace `{workspace}` of agent `{}` contains `{path}`, which the context path \
                 `{}` closes",
                agent.id, outer.root
            );
            return Err(Error::new(ErrorKind::Config, message)
                .with_hint("give the agent a `cwd` outside of the context path"));
        }
    }
    Ok(())
}

/// Returns the files among `obeyed` and the scripts of `config`, with every symlink on the way to
/// them: who replaces one, or creates a missing one, decides what is read.
fn own_files(config: &Config, obeyed: &[AbsPath]) -> Result<Vec<RealPath>> {
    let scripts = config
        .agents
        .iter()
        .filter_map(|agent| match &agent.backend.script {
            Some(ScriptSource::File(path)) => Some(path),
            Some(ScriptSource::Inline { .. }) | None => None,
        });
    let mut files = Vec::new();
    for path in obeyed.iter().chain(scripts) {
        files.extend(places_on_way(path)?);
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// Returns the project's directories of skills and of types of subagents, existing or not. A
/// directory that cannot be resolved is left out: nothing is read from it.
fn project_instruction_directories(config: &OrchestratorConfig) -> Vec<RealPath> {
    let skills = config
        .skills
        .directories
        .iter()
        .filter(|directory| directory.author == SkillAuthor::Project);
    let types = config.subagent_types.project_directories.iter();
    let directories = skills.map(|directory| &directory.path).chain(types);
    let located_paths = directories.filter_map(|directory| locate(directory).ok());
    located_paths.map(LocatedPath::into_real).collect()
}

/// Closes what closed paths of `grants` lead to through symlinks, and restricts them by what `rules`
/// say about paths. Relative globs apply in every open tree, and in `base`, which mentions are
/// relative to.
pub fn apply_path_rules(
    mut grants: Vec<Grant>,
    rules: &CallRules,
    base: &AbsPath,
) -> Result<Vec<Grant>> {
    close_link_targets(&mut grants)?;
    let tree_grants = grants
        .iter()
        .filter(|grant| grant.scope == GrantScope::Tree);
    let roots = tree_grants.map(|grant| grant.root.to_abs());
    let mut trees: Vec<AbsPath> = roots.chain([real_path(base)?.to_abs()]).collect();
    trees.sort();
    trees.dedup();
    let mut path_rules = Vec::new();
    for (action, permission, glob) in rules.path_rules() {
        let rule = |glob: &PathGlob, anchor| PathRule::new(action, permission, glob, anchor);
        match glob.prefix() {
            None => {
                path_rules.extend(trees.iter().map(|tree| rule(glob, tree.clone())));
                let Some((literal, rest)) = glob.split_literal() else {
                    continue;
                };
                // What the glob names may be, or lie behind, a symlink.
                for tree in &trees {
                    let spelled = tree.join(literal.as_path());
                    let target = real_path(&spelled)?.to_abs();
                    path_rules.extend((target != spelled).then(|| rule(&rest, target)));
                }
            }
            Some(prefix) => {
                let mut spellings = vec![prefix.clone(), real_path(prefix)?.to_abs()];
                spellings.dedup();
                path_rules.extend(spellings.into_iter().map(|anchor| rule(glob, anchor)));
            }
        }
    }
    let path_rules: Arc<[PathRule]> = path_rules.into();
    for grant in &mut grants {
        grant.path_rules = Arc::clone(&path_rules);
    }
    Ok(grants)
}

/// Opens for reading the repository of each open working tree whose `.git` is a file, as if it were
/// in the tree: without it, git does not work there. Only a repository that names the tree counts,
/// and only if the tree's `.git` may be read.
pub fn open_linked_repositories(grants: Vec<Grant>) -> Result<Vec<Grant>> {
    let manager = permission_manager(&grants, Phase::Coordination);
    let mut all_grants = grants;
    for tree in manager.grants() {
        if tree.kind != GrantKind::Context || tree.scope != GrantScope::Tree {
            continue;
        }
        let Some(LinkedRepository::Own(root)) = linked_repository(&tree.root.to_abs())? else {
            continue;
        };
        let head = RelPath::new(".git/HEAD").map(|rel| tree.root.join(&rel));
        let is_closed = head.is_none_or(|head| !manager.allows(&head, Permission::Read));
        let is_in_grant =
            |grant: &Grant| below_folded(root.as_path(), grant.root.as_path()).is_some();
        if !is_closed && !manager.grants().iter().any(is_in_grant) {
            let worktrees = worktrees_inside(&root)?;
            let mut grant = Grant::tree(root, GrantKind::Context, Permission::Read);
            grant.hidden.extend(worktrees);
            grant.path_rules = Arc::clone(&tree.path_rules);
            merge(&mut all_grants, grant);
        }
    }
    Ok(all_grants)
}

/// Returns the user's directories that the folder guards of all agents list, each once.
fn folder_guard_directories(config: &Config, layout: &RunLayout) -> Vec<AbsPath> {
    let user_directories = config.agents.iter().flat_map(|agent| {
        let workspace = layout
            .workspaces
            .get(&agent.id)
            .map(|workspace| &workspace.path);
        let directories = agent.folder_guard.directories();
        directories.filter(move |path| !is_within(path, workspace))
    });
    let unique_directories: BTreeSet<&AbsPath> = user_directories.collect();
    unique_directories.into_iter().cloned().collect()
}

/// Returns the directories that must be created before the grants of `agent` can be opened. Those
/// of a role are part of the tree that it works in.
pub fn directories_to_create(agent: &AgentConfig, workspace: Option<&AbsPath>) -> Vec<AbsPath> {
    if matches!(agent.folder_guard, FolderGuard::Role { .. }) {
        return Vec::new();
    }
    let Some(guarded_directories) = agent.folder_guard.resolve(workspace) else {
        return Vec::new();
    };
    let downloads = guarded_directories
        .downloads
        .into_iter()
        .map(|(path, _)| path);
    let guarded_paths = guarded_directories
        .read
        .into_iter()
        .chain(guarded_directories.write);
    guarded_paths
        .chain(downloads)
        .filter(|path| is_within(path, workspace))
        .collect()
}

fn is_within(path: &AbsPath, workspace: Option<&AbsPath>) -> bool {
    workspace.is_some_and(|workspace| path.is_within(workspace))
}

fn resolve_context_paths(paths: &[ContextPath], state_dir: &RealPath) -> Result<Vec<Grant>> {
    let context_paths: Vec<AbsPath> = paths.iter().map(|context| context.path.clone()).collect();
    require_directories(&context_paths, "context paths")?;
    paths
        .iter()
        .map(|context| context_grant(context, state_dir))
        .collect()
}

/// Fails if paths are missing or are not directories. One error lists all missing paths, or all
/// that are not directories; `noun` says what the paths are.
fn require_directories(paths: &[AbsPath], noun: &str) -> Result<()> {
    let mut missing_paths = Vec::new();
    let mut non_directories = Vec::new();
    for path in paths {
        match locate(path)? {
            LocatedPath::Directory(_) => {}
            LocatedPath::File(_) => non_directories.push(format!("`{path}`")),
            LocatedPath::Missing(_) => missing_paths.push(format!("`{path}`")),
        }
    }
    if !missing_paths.is_empty() {
        let message = format!("{noun} not found: {}", join_with_commas(&missing_paths));
        return Err(Error::new(ErrorKind::Config, message)
            .with_hint("create the directory first, or correct the path in the config"));
    }
    if !non_directories.is_empty() {
        let list = join_with_commas(&non_directories);
        let message = format!("{noun} must be directories, not files: {list}");
        return Err(Error::new(ErrorKind::Config, message)
            .with_hint("use the parent directory instead, or mention it in the prompt: @path"));
    }
    Ok(())
}

/// Returns the grant of a file of `upload_files`, which `key` names.
fn upload_grant(path: &AbsPath, key: &str) -> Result<Grant> {
    let message = match locate(path)? {
        LocatedPath::File(root) => return Ok(Grant::file(root, Permission::Read)),
        LocatedPath::Directory(_) => {
            format!("`{key}` must be a file, not a directory: {path}")
        }
        LocatedPath::Missing(_) => format!("`{key}` not found: {path}"),
    };
    let hint = format!("correct `{key}` in `upload_files` of the config, or remove the entry");
    Err(Error::new(ErrorKind::Config, message).with_hint(hint))
}

fn is_context_tree(grant: &Grant) -> bool {
    grant.kind == GrantKind::Context && grant.scope == GrantScope::Tree
}

fn context_grant(context: &ContextPath, state_dir: &RealPath) -> Result<Grant> {
    let root = real_path(&context.path)?;
    let mut grant = Grant::tree(root, GrantKind::Context, context.permission);
    grant.protected.clone_from(&context.protected);
    grant.hidden.clone_from(&context.hidden);
    grant.unprotected.clone_from(&context.unprotected);
    hide_state(&mut grant, state_dir);
    reject_state_access(&grant, state_dir)?;
    Ok(grant)
}

/// Rejects one of the user's paths that would let agents write to massgen's own state: its journals
/// determine what is done to files.
fn reject_state_access(grant: &Grant, state_dir: &RealPath) -> Result<()> {
    let is_writable = grant.kind == GrantKind::Context && grant.permission == Permission::Write;
    let is_in_state = below_folded(grant.root.as_path(), state_dir.as_path()).is_some();
    if is_writable && is_in_state {
        let message = format!("`{}` is part of massgen's own state", grant.root);
        return Err(Error::new(ErrorKind::Config, message)
            .with_hint("open it for reading, or copy what is to be changed out of `.massgen`"));
    }
    Ok(())
}

/// Hides massgen's own state inside a grant: other agents' workspaces, sessions and logs.
pub fn hide_state(grant: &mut Grant, state_dir: &RealPath) {
    if grant.scope == GrantScope::Tree && grant.kind == GrantKind::Context {
        grant.hidden.extend(
            below_folded(state_dir.as_path(), grant.root.as_path()).filter(|rel| !rel.is_root()),
        );
    }
}

/// Resolves `path`, whether or not it exists.
pub fn real_path(path: &AbsPath) -> Result<RealPath> {
    locate(path).map(LocatedPath::into_real)
}

/// Returns the grants of checks on the work of `agent`, which has `grants`: in a role of a pipeline
/// they have the checkout that is its workspace.
pub fn check_grants(
    agent: &AgentConfig,
    workspace: Option<&AbsPath>,
    grants: &[Grant],
) -> Result<Vec<Grant>> {
    match (&agent.folder_guard, workspace) {
        (FolderGuard::Role { .. }, Some(checkout)) => Ok(vec![checkout_grant(checkout)?]),
        (FolderGuard::Role { .. }, None) | (FolderGuard::Off | FolderGuard::On { .. }, _) => {
            Ok(grants.to_vec())
        }
    }
}

/// Returns the grant of checks to the checkout `dir` of a pipeline: no name in it is the user's own.
pub fn checkout_grant(dir: &AbsPath) -> Result<Grant> {
    let unprotected = PROTECTED_NAMES.iter().map(|name| (*name).to_owned());
    Ok(Grant {
        unprotected: unprotected.collect(),
        ..Grant::tree(real_path(dir)?, GrantKind::Context, Permission::Write)
    })
}

/// Returns the descriptions of the grants for the model's system message in this phase.
pub fn describe_grants(manager: &PathPermissionManager) -> Vec<DescribedPath> {
    let described_path = |grant: &Grant| {
        let note = match (grant.kind, manager.phase()) {
            (GrantKind::Workspace, _) => match grant.permission {
                Permission::Write => "your workspace, read and write",
                Permission::Read => "read",
            },
            (GrantKind::TempWorkspace, _) => "files of all answers, by label (agent1.1), read",
            (GrantKind::PreviousTurn, _) => "result of an earlier turn, read",
            (GrantKind::Skill, _) => "a skill, read",
            (GrantKind::BuiltIn, _) => match grant.permission {
                Permission::Write => "read and write",
                Permission::Read => "read",
            },
            (GrantKind::Context, Phase::Coordination) => match grant.permission {
                Permission::Read => "the user's, read",
                Permission::Write => "the user's, read; the winner may write at the end",
            },
            (GrantKind::Context, Phase::Attempt) => match grant.permission {
                Permission::Read => "the user's, read",
                Permission::Write => "your own copy of the user's, read and write",
            },
            (GrantKind::Context, Phase::Final) => match grant.permission {
                Permission::Read => "the user's, read",
                Permission::Write => "the user's, read and write",
            },
        };
        DescribedPath {
            path: grant.root.to_string(),
            note,
        }
    };
    // The list of skills names their paths. In an attempt, weak models take the workspace for the
    // project if they read of it, and it is not delivered.
    let described_grants = manager.grants().iter().filter(|grant| match grant.kind {
        GrantKind::Skill => false,
        GrantKind::Workspace => manager.phase() != Phase::Attempt,
        GrantKind::Context
        | GrantKind::TempWorkspace
        | GrantKind::PreviousTurn
        | GrantKind::BuiltIn => true,
    });
    let mut described_paths: Vec<DescribedPath> = described_grants.map(described_path).collect();
    // The agent's own workspace comes first.
    described_paths.sort_by_key(|path| !path.note.starts_with("your workspace"));
    described_paths
}

/// Returns the user's paths that are open for writing in the final phase.
pub fn write_roots(grants: &[Grant]) -> Vec<&Grant> {
    let is_writable_context =
        |grant: &&Grant| grant.kind == GrantKind::Context && grant.permission == Permission::Write;
    grants.iter().filter(is_writable_context).collect()
}

/// Returns the first of the user's directories that is open for writing in the final phase.
pub fn first_write_tree(grants: &[Grant]) -> Option<&RealPath> {
    let mut roots = write_roots(grants).into_iter();
    let tree = roots.find(|grant| grant.scope == GrantScope::Tree)?;
    Some(&tree.root)
}

/// Creates the permission manager of a gate for one phase.
pub fn permission_manager(grants: &[Grant], phase: Phase) -> PathPermissionManager {
    PathPermissionManager::new(grants.to_vec(), phase)
}

/// Returns the call that copies the content of a directory, without its subdirectories `left_out`,
/// over that of another.
pub(super) fn copy_all_call(
    from: &AbsPath,
    to: &RealPath,
    left_out: impl IntoIterator<Item = &'static str>,
) -> Option<ToolCall> {
    Some(ToolCall::CopyFilesBatch {
        source: UserPath::parse(from.as_path().to_str()?).ok()?,
        destination: UserPath::parse(to.as_path().to_str()?).ok()?,
        selection: FileSelection {
            include: vec!["*".to_owned()],
            exclude: left_out
                .into_iter()
                .map(|name| format!("{name}/*"))
                .collect(),
        },
        existing: ExistingTarget::Overwrite,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_about_several_paths_is_one_line() {
        let root = tempfile::tempdir().unwrap();
        let root = AbsPath::new(root.path()).unwrap();
        let paths = ["missing", "absent"].map(|name| root.join(name));
        let error = require_directories(&paths, "context paths").unwrap_err();
        let [missing, absent] = &paths;
        assert_eq!(
            error.to_string(),
            format!("context paths not found: `{missing}`, `{absent}`")
        );
    }
}
