//! Owns what a gate holds an agent to beside the grants, as one value. It decides nothing.

use std::sync::{Arc, Mutex};

use crate::call_rules::CallRules;
use crate::error::{Error, ErrorKind, Result};
use crate::path::RealPath;
use crate::permissions::grant::Grant;
use crate::permissions::history::{AccessHistory, ReadBeforeDelete};
use crate::world::access::hook_runner::HookRunner;
use crate::world::access::merge_bases::MergeBases;
use crate::world::approval::CallApprover;
use crate::world::mcp::McpServers;
use crate::world::sandbox::exec_environment::ExecEnvironment;
use crate::world::sandbox::overlay::WriteOverlay;
use crate::world::sandbox::program_environment::ProgramEnvironment;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::follow::FollowBase;
use crate::world::sys::grant::{OpenGrant, grant_directory};
use crate::world::sys::meta::FileMetadata;

/// What a gate holds an agent to beside the grants.
#[derive(Clone, Debug)]
pub struct GatePolicy {
    /// The directory that relative paths begin at: the agent's workspace.
    pub base: RealPath,
    /// Whether `..` may stand in a path.
    pub parents: ParentDirPolicy,
    /// Whether files have to be read before they are deleted or overwritten.
    pub read_before_delete: ReadBeforeDelete,
    /// How the user's own edits during the run are protected; `None` where there is no run.
    pub conflicts: Option<ConflictPolicy>,
    /// What the agent has read and made. The agent's gate of the final phase gets the same one.
    pub history: Arc<Mutex<AccessHistory>>,
    /// How the agent's commands are run; without it they are denied.
    pub commands: Option<ExecEnvironment>,
    /// How the agent's programs are run; without it they are denied.
    pub programs: Option<ProgramEnvironment>,
    /// The agent's servers; without them calls of their tools are denied.
    pub servers: Option<McpServers>,
    /// What is kept of the user's files that the agent reads and may write to.
    pub bases: Option<MergeBases>,
    /// What is seen and changed in the place of the write paths; without it, these themselves.
    pub overlay: Option<WriteOverlay>,
    /// What `permissions` of the config says about commands and tools; what it says about paths is
    /// part of the grants.
    pub rules: Arc<CallRules>,
    /// What is asked about calls before a person is; without it, nothing.
    pub hooks: Option<HookRunner>,
    /// Who is asked about calls; without one, what would be asked is denied.
    pub approver: Option<Arc<dyn CallApprover>>,
}

impl GatePolicy {
    /// Opens a grant: in the overlay where it is part of one, or else on the machine.
    pub(in crate::world) fn open_grant(
        &self,
        grant: &Grant,
    ) -> std::result::Result<OpenGrant, FileSystemError> {
        let path = grant_directory(grant)?;
        let overlaid = self.overlay.as_ref();
        match overlaid.and_then(|overlay| overlay.directory(&path, grant.scope)) {
            Some(directory) => OpenGrant::with_directory(grant.clone(), directory?),
            None => OpenGrant::open(grant.clone()),
        }
    }

    /// Opens the place where the agent's paths are resolved.
    pub(in crate::world) fn open_follow_base(
        &self,
    ) -> std::result::Result<FollowBase, FileSystemError> {
        let overlay = self.overlay.as_ref();
        match overlay.and_then(|overlay| overlay.follow_base(&self.base)) {
            Some(base) => base,
            None => DirectoryHandle::open(&self.base).map(FollowBase::Machine),
        }
    }

    /// Opens the directory where files wait before they are moved into place. Without one they wait
    /// beside their places.
    pub(in crate::world) fn open_staging_dir(&self) -> Option<DirectoryHandle> {
        match (&self.conflicts, &self.commands) {
            (Some(conflicts), _) => DirectoryHandle::open(&conflicts.kept_in).ok(),
            (None, Some(commands)) => DirectoryHandle::open_own(commands.directories().root()).ok(),
            (None, None) => None,
        }
    }

    /// The policy of a single call outside a run: no history, and nobody to come into conflict with.
    pub fn single_call(base: RealPath) -> Self {
        Self {
            base,
            parents: ParentDirPolicy::Followed,
            read_before_delete: ReadBeforeDelete::Off,
            conflicts: None,
            history: Arc::default(),
            commands: None,
            programs: None,
            servers: None,
            bases: None,
            overlay: None,
            rules: Arc::default(),
            hooks: None,
            approver: None,
        }
    }
}

/// Whether `..` may stand in a path that a model writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentDirPolicy {
    /// It is followed like any name, and what it leads to is decided about.
    Followed,
    /// The path is denied, with `/` and with `\`; so it is under a folder guard.
    Refused,
}

/// How the user's own edits during the run are protected.
#[derive(Clone, Debug)]
pub struct ConflictPolicy {
    /// When the run began, in nanoseconds since 1970. A file in a context path that changed since
    /// then, and not by this agent, belongs to the user.
    pub run_started_ns: i128,
    /// The directory that receives what could not be written; it is made when it is needed.
    pub kept_in: RealPath,
}

impl ConflictPolicy {
    /// Protects what the user does from now on. `kept_in` has just been made, so that it shows the
    /// time by the clock that stamps files; that one lags behind the time of day by up to a tick,
    /// and what the user saves within it must not seem older than the run.
    pub fn from_now(kept_in: RealPath) -> Result<Self> {
        let made = DirectoryHandle::open(&kept_in).and_then(FileMetadata::from_handle);
        let made = made.map_err(|fault| cannot_open(&kept_in, fault))?;
        Ok(Self {
            run_started_ns: made.version.changed_ns,
            kept_in,
        })
    }
}

/// That a directory which an agent needs cannot be opened, with the way out.
pub(in crate::world) fn cannot_open(root: &RealPath, fault: FileSystemError) -> Error {
    if fault.is_missing_feature() {
        Error::new(
            ErrorKind::Environment,
            "the kernel does not offer `openat2`, which keeps agents inside their directories",
        )
        .with_hint(
            "use Linux 5.6 or newer, or a container runtime whose filter lets `openat2` through",
        )
    } else {
        Error::new(
            ErrorKind::Config,
            format!("cannot open `{root}`, which was to be given to an agent: {fault}"),
        )
        .with_hint("name a directory that exists and that you may enter")
    }
}
