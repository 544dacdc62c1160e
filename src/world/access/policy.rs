//! The restrictions that a gate enforces in addition to the grants, as one value. It decides
//! nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::answer_changes::ChangeLayers;
use crate::call_rules::CallRules;
use crate::config::SubagentsConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::id::AnswerLabel;
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::grant::Grant;
use crate::permissions::history::{AccessHistory, ReadBeforeDelete};
use crate::tools::call::FinalSymlink;
use crate::tools::media::MediaKind;
use crate::tools::tool_selection::CommandOffering;
use crate::tools::vendor_tool::VendorTool;
use crate::world::access::hook_runner::HookRunner;
use crate::world::access::merge_bases::MergeBases;
use crate::world::approval::{CallApprover, WORKSPACE_NAME};
use crate::world::io::page_fetcher::PageAccess;
use crate::world::mcp::McpServers;
use crate::world::sandbox::disk_watch::DiskReserve;
use crate::world::sandbox::exec_environment::ExecEnvironment;
use crate::world::sandbox::overlay::WriteOverlay;
use crate::world::sandbox::program_environment::ProgramEnvironment;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::follow::{FollowBase, FollowedPath, follow_path};
use crate::world::sys::grant::{OpenGrant, grant_directory};
use crate::world::sys::meta::FileMetadata;

/// The restrictions that a gate enforces in addition to the grants.
#[derive(Clone, Debug)]
pub struct GatePolicy {
    /// The directory that relative paths start from: the agent's workspace.
    pub base: RealPath,
    /// The name of the workspace in requests for the approval of commands. It is the same in every
    /// run, and no other agent's or subagent's.
    pub workspace_name: String,
    /// Whether `..` may occur in a path.
    pub parent_dirs: ParentDirPolicy,
    /// Whether files have to be read before they are deleted or overwritten.
    pub read_before_delete: ReadBeforeDelete,
    /// How the user's own edits during the run are protected; `None` where there is no run.
    pub conflicts: Option<ConflictPolicy>,
    /// What the agent has read and created. Its gate of the final phase shares it.
    pub history: Arc<Mutex<AccessHistory>>,
    /// How the agent's commands are run; without it they are denied.
    pub commands: Option<ExecEnvironment>,
    /// The answers on which the agent may run commands; without it, on none.
    pub answers: Option<TrialAnswers>,
    /// How the agent's programs are run; without it they are denied.
    pub programs: Option<ProgramEnvironment>,
    /// The limits of the agent's subagents; without them it may have none.
    pub subagents: Option<SubagentsConfig>,
    /// The agent's servers; without them calls of their tools are denied.
    pub servers: Option<McpServers>,
    /// The pages that the agent may read; without it, none.
    pub pages: Option<PageAccess>,
    /// The tools of its vendor that the agent may use by requests of their own.
    pub vendor_tools: Vec<VendorTool>,
    /// The kinds of media that the agent may have made.
    pub media: Vec<MediaKind>,
    /// The maximum number of entries of the agent's plan; without it, it keeps none.
    pub plan_entries_max: Option<usize>,
    /// The file to which its plan is written, if it is.
    pub plan_file: Option<AbsPath>,
    /// Merge bases of the user's files that the agent reads and may write to.
    pub merge_bases: Option<MergeBases>,
    /// What the run leaves free on each disk.
    pub disk_reserve: DiskReserve,
    /// The overlay that replaces the write paths; without it, they are changed directly.
    pub overlay: Option<WriteOverlay>,
    /// What `permissions` of the config says about commands and tools; what it says about paths is
    /// part of the grants.
    pub rules: Arc<CallRules>,
    /// Hooks that run on calls before a person is asked; without it, none.
    pub hooks: Option<HookRunner>,
    /// Answers approval requests; without one, calls that need approval are denied.
    pub approver: Option<Arc<dyn CallApprover>>,
}

impl GatePolicy {
    /// Opens a grant: in the overlay if it is part of one, otherwise on the machine.
    pub(in crate::world) fn open_grant(
        &self,
        grant: &Grant,
    ) -> std::result::Result<OpenGrant, FileSystemError> {
        let path = grant_directory(grant)?;
        let overlay = self.overlay.as_ref();
        match overlay.and_then(|overlay| overlay.directory(&path, grant.scope)) {
            Some(directory) => OpenGrant::with_directory(grant.clone(), directory?),
            None => OpenGrant::open(grant.clone()),
        }
    }

    /// Opens the directory that the agent's relative paths are resolved from.
    pub(in crate::world) fn open_follow_base(
        &self,
    ) -> std::result::Result<FollowBase, FileSystemError> {
        let overlay = self.overlay.as_ref();
        if let Some(base) = overlay.and_then(|overlay| overlay.follow_base(&self.base)) {
            return base;
        }
        let directory = match self.relocated_path(self.base.as_path()) {
            Some(path) => DirectoryHandle::open_own(&path),
            None => DirectoryHandle::open(&self.base),
        };
        directory.map(FollowBase::Machine)
    }

    /// Follows `path`, which begins at `base` unless it is absolute. Where commands find an overlaid
    /// tree at another path, the symlinks there count, and both paths lead to the same place.
    pub(in crate::world) fn follow(
        &self,
        base: &FollowBase,
        path: &Path,
        link: FinalSymlink,
    ) -> std::result::Result<FollowedPath, FileSystemError> {
        let relocated = self.relocated_path(path);
        let path = relocated.as_ref().map_or(path, AbsPath::as_path);
        let original = |real: RealPath| {
            let overlay = self.overlay.as_ref();
            let original = overlay.and_then(|overlay| overlay.original_path(&real));
            original.unwrap_or(real)
        };
        Ok(match follow_path(base, path, link)? {
            FollowedPath::Place(real) => FollowedPath::Place(original(real)),
            FollowedPath::Blocked(real, obstacle) => {
                FollowedPath::Blocked(original(real), obstacle)
            }
            FollowedPath::Broken => FollowedPath::Broken,
        })
    }

    fn relocated_path(&self, path: &Path) -> Option<AbsPath> {
        let path = AbsPath::new(path)?;
        self.overlay.as_ref()?.relocated_path(&path)
    }

    /// Opens the directory where files are staged before they are moved into place. Without one
    /// they are staged next to their destination.
    pub(in crate::world) fn open_staging_dir(&self) -> Option<DirectoryHandle> {
        match (&self.conflicts, &self.commands) {
            (Some(conflicts), _) => DirectoryHandle::open(&conflicts.dir).ok(),
            (None, Some(commands)) => DirectoryHandle::open_own(commands.directories().root()).ok(),
            (None, None) => None,
        }
    }

    /// Returns which command tools the agent may be offered.
    pub(in crate::world) fn command_offering(&self) -> CommandOffering {
        match (&self.commands, &self.answers) {
            (None, _) => CommandOffering::NotOffered,
            (Some(_), None) => CommandOffering::Offered,
            (Some(_), Some(_)) => CommandOffering::WithAnswers,
        }
    }

    /// Returns whether the agent may make calls that touch no file of its grants.
    pub fn has_tools_without_files(&self) -> bool {
        self.servers.is_some()
            || self.pages.is_some()
            || !self.vendor_tools.is_empty()
            || self.plan_entries_max.is_some()
    }

    /// Returns the policy of a subagent whose paths start from `base`, which is `below` its parent's
    /// workspace: the same rules, hooks and approvals; `commands` instead of its parent's; and no
    /// other tools than those for files. Its parent does not count as having read what it reads.
    pub(in crate::world) fn for_subagent(
        &self,
        base: RealPath,
        below: &RelPath,
        commands: Option<ExecEnvironment>,
    ) -> Self {
        Self {
            workspace_name: format!("`{below}` in {}", self.workspace_name),
            base,
            parent_dirs: self.parent_dirs,
            read_before_delete: self.read_before_delete,
            conflicts: self.conflicts.clone(),
            commands,
            disk_reserve: self.disk_reserve.clone(),
            overlay: self.overlay.clone(),
            rules: Arc::clone(&self.rules),
            hooks: self.hooks.clone(),
            approver: self.approver.clone(),
            history: Arc::default(),
            answers: None,
            programs: None,
            subagents: None,
            servers: None,
            pages: None,
            vendor_tools: Vec::new(),
            media: Vec::new(),
            plan_entries_max: None,
            plan_file: None,
            merge_bases: None,
        }
    }

    /// Returns the least policy, to which callers add what they need: no history, no conflicts to
    /// detect, and no other tools than those for files.
    pub fn minimal(base: RealPath) -> Self {
        Self {
            base,
            workspace_name: WORKSPACE_NAME.to_owned(),
            parent_dirs: ParentDirPolicy::Followed,
            read_before_delete: ReadBeforeDelete::Off,
            conflicts: None,
            history: Arc::default(),
            commands: None,
            answers: None,
            programs: None,
            subagents: None,
            servers: None,
            pages: None,
            vendor_tools: Vec::new(),
            media: Vec::new(),
            plan_entries_max: None,
            plan_file: None,
            merge_bases: None,
            disk_reserve: DiskReserve::default(),
            overlay: None,
            rules: Arc::default(),
            hooks: None,
            approver: None,
        }
    }
}

/// The answers of others that an agent has been shown and on which it may run commands, each with
/// what it changes in the user's paths. A clone is the same.
#[derive(Clone, Debug, Default)]
pub struct TrialAnswers(Arc<Mutex<BTreeMap<AnswerLabel, ChangeLayers>>>);

impl TrialAnswers {
    /// Adds an answer.
    pub fn add(&self, label: AnswerLabel, changes: ChangeLayers) {
        self.0.lock().insert(label, changes);
    }

    /// Returns what an answer changes.
    ///
    /// # Errors
    /// It was not shown; the error has the labels of those that were.
    pub(in crate::world) fn find(
        &self,
        label: AnswerLabel,
    ) -> std::result::Result<ChangeLayers, Vec<AnswerLabel>> {
        let answers = self.0.lock();
        let changes = answers.get(&label).cloned();
        changes.ok_or_else(|| answers.keys().copied().collect())
    }
}

/// Whether `..` may occur in a path that a model writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentDirPolicy {
    /// It is followed like any name, and the decision is about the path that it leads to.
    Followed,
    /// The path is denied, both with `/` and with `\`. A folder guard uses this.
    Refused,
}

/// How the user's own edits during the run are protected.
#[derive(Clone, Debug)]
pub struct ConflictPolicy {
    /// Start of the run, in nanoseconds since 1970. A file in a context path that changed since
    /// then, but not by this agent, belongs to the user.
    pub run_started_ns: i128,
    /// The directory for versions that could not be written; it is created when it is needed.
    pub dir: RealPath,
}

impl ConflictPolicy {
    /// Protects the user's edits from now on. `dir` must just have been created: its timestamp
    /// comes from the clock that stamps files, which lags behind the time of day by up to a tick. A
    /// file that the user saves within that tick must not seem older than the run.
    pub fn from_now(dir: RealPath) -> Result<Self> {
        let metadata = DirectoryHandle::open(&dir)
            .and_then(FileMetadata::from_handle)
            .map_err(|error| cannot_open(&dir, error))?;
        Ok(Self {
            run_started_ns: metadata.version.changed_ns,
            dir,
        })
    }
}

/// Error for a directory which an agent needs and which cannot be opened, with a hint.
pub(in crate::world) fn cannot_open(root: &RealPath, error: FileSystemError) -> Error {
    if error.is_missing_feature() {
        Error::new(
            ErrorKind::Environment,
            "the kernel lacks `openat2`, which restricts agents to their directories",
        )
        .with_hint(
            "use Linux 5.6 or newer, or a container runtime whose seccomp profile allows `openat2`",
        )
    } else if error.is_exhaustion() {
        Error::new(
            ErrorKind::Environment,
            format!("cannot open `{root}` for an agent: {error}"),
        )
        .with_hint("check the limit of open files: `ulimit -n`")
    } else {
        Error::new(
            ErrorKind::Config,
            format!("cannot open `{root}` for an agent: {error}"),
        )
        .with_hint("use an existing directory that you can access")
    }
}
