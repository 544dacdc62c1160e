//! An agent as the config describes it: its access, its tools and its limits.

use std::sync::Arc;

use crate::config::backend::BackendConfig;
use crate::config::code_mode::CodeModeConfig;
use crate::config::command_line::CommandLineConfig;
use crate::config::context_path::ContextPath;
use crate::config::permissions::PermissionsConfig;
use crate::config::servers::ServerConfig;
use crate::config::storage_path::StoragePath;
use crate::config::uploads::UploadedFile;
use crate::hooks::HookList;
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::permissions::guard::FolderGuard;
use crate::permissions::history::ReadBeforeDelete;
use crate::sandbox_policy::network::NetworkPolicy;
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
