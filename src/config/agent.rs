//! An agent as the config describes it: its access, with the paths that are opened to it and the
//! rules about its calls, its tools and its limits.

use std::sync::Arc;

use crate::call_rules::CallRules;
use crate::config::backend::BackendConfig;
use crate::config::command_line::{CodeModeConfig, CommandLineConfig};
use crate::config::servers::ServerConfig;
use crate::config::storage_path::StoragePath;
use crate::config::uploads::UploadedFile;
use crate::hooks::HookList;
use crate::id::AgentId;
use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::Permission;
use crate::permissions::guard::FolderGuard;
use crate::permissions::history::ReadBeforeDelete;
use crate::sandbox_policy::NetworkPolicy;
use crate::spending::limits::BudgetLimits;
use crate::tools::page_url::PageUrl;
use crate::tools::spec::ToolSpec;
use crate::tools::tool_selection::names_tool;

/// An agent.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Its name in logs and directories.
    pub id: AgentId,
    /// The user's instructions for this agent, in addition to the task.
    pub system_message: Option<String>,
    /// Its model.
    pub backend: BackendConfig,
    /// Its workspace (relative paths start at `.massgen/workspaces`); `None` leaves it without file
    /// tools.
    pub cwd: Option<StoragePath>,
    /// Paths that are opened to this agent only.
    pub context_paths: Vec<ContextPath>,
    /// Image files that are part of its first message; it may read them.
    pub uploaded_images: Vec<AbsPath>,
    /// The addresses of further images that are part of its first message; massgen reads them.
    pub uploaded_image_urls: Vec<PageUrl>,
    /// Documents, recordings and videos that are part of its first message; it may read those on
    /// this machine.
    pub uploaded_files: Vec<UploadedFile>,
    /// Whether it is restricted to listed directories.
    pub folder_guard: FolderGuard,
    /// Whether it must read a file before deleting or overwriting it.
    pub read_before_delete: ReadBeforeDelete,
    /// The tools that it is offered.
    pub tools: ToolFilter,
    /// How its commands are run; `None` if it may run none.
    pub commands: Option<CommandLineConfig>,
    /// How its programs are run; if set, the agent makes all its calls through programs.
    pub programs: Option<CodeModeConfig>,
    /// Whether it is asked, as the final agent, to merge the files of all agents into one.
    pub merges_files: bool,
    /// The hosts whose pages it may read with `fetch_url`.
    pub pages: NetworkPolicy,
    /// The servers with tools that it may use.
    pub servers: Vec<Arc<ServerConfig>>,
    /// The file to which its model's replies are recorded.
    pub record: Option<AbsPath>,
    /// Its limits, within those of the run.
    pub limits: BudgetLimits,
    /// The permission rules for it, including those for every agent.
    pub permissions: PermissionsConfig,
    /// The hooks for it, including those for every agent.
    pub hooks: HookList,
    /// The maximum number of requests to its model in one round or presentation, which stops an
    /// endless loop.
    pub steps_per_round_max: u32,
}

/// The default maximum of requests in one round or presentation.
pub(super) const STEPS_PER_ROUND_DEFAULT: u32 = 200;

/// The tools that an agent is offered, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// If set, only these tools (`allowed_tools`).
    pub allowed: Option<Vec<String>>,
    /// Tools that are excluded (`exclude_tools`, `disallowed_tools`).
    pub excluded: Vec<String>,
}

impl ToolFilter {
    /// Returns whether the agent is offered `tool`.
    pub fn keeps(&self, tool: &ToolSpec) -> bool {
        let is_listed = |list: &[String]| list.iter().any(|entry| names_tool(entry, tool));
        self.allowed.as_deref().is_none_or(is_listed) && !is_listed(&self.excluded)
    }
}

/// A path of the user that agents are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextPath {
    /// The path.
    pub path: AbsPath,
    /// The permission of the final agent; every agent may read during coordination.
    pub permission: Permission,
    /// Paths inside that stay read-only.
    pub protected: Vec<RelPath>,
    /// Paths inside that cannot be read either.
    pub hidden: Vec<RelPath>,
    /// Names that are removed from the protected ones here.
    pub unprotected: Vec<String>,
}

impl ContextPath {
    /// Creates a read-only context path.
    pub fn read_only(path: AbsPath) -> Self {
        Self {
            path,
            permission: Permission::Read,
            protected: Vec::new(),
            hidden: Vec::new(),
            unprotected: Vec::new(),
        }
    }
}

/// The default timeout of an approval request, in seconds.
pub(crate) const ASK_SECONDS_DEFAULT: u64 = 300;

/// The rules of one `permissions` section, and the timeout of approval requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermissionsConfig {
    /// The rules.
    pub rules: CallRules,
    /// The timeout of an approval request, in seconds; `None` uses the default.
    pub ask_timeout_seconds: Option<u64>,
}

impl PermissionsConfig {
    /// Merges the rules with those of `other`; the shorter timeout applies.
    #[must_use]
    pub fn merged_with(&self, other: &Self) -> Self {
        let timeouts = [self.ask_timeout_seconds, other.ask_timeout_seconds];
        Self {
            rules: self.rules.extended_by(&other.rules),
            ask_timeout_seconds: timeouts.into_iter().flatten().min(),
        }
    }

    /// Returns the timeout of an approval request, in seconds.
    pub fn approval_timeout_seconds(&self) -> u64 {
        self.ask_timeout_seconds.unwrap_or(ASK_SECONDS_DEFAULT)
    }
}
