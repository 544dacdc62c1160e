//! The one gate between a model's tool calls and the disk. A [`ToolCall`] goes in; out comes a
//! [`Permitted`] action, which only `world` can open, or a [`PermitError`], which the model reads. It
//! must never act: it resolves paths, asks the pure rules and, where the config says so, the user's
//! hooks and a person.
//! Child modules can reach the private fields; they make no permits.
//!
//! An action is carried out only if it was permitted:
//!
//! ```
//! # use massgen::tools::call::ToolCall;
//! # use massgen::world::access::{gate::{Action, Gate, Permitted}, verdict::PermitError};
//! # use massgen::world::exec::{self, tool_result::Observation};
//! fn act(gate: &Gate, call: ToolCall) -> Result<Observation, PermitError> {
//!     Ok(exec::run(gate.check(call)?))
//! }
//! ```
//!
//! The same line without the check does not compile:
//!
//! ```compile_fail
//! # use massgen::tools::call::ToolCall;
//! # use massgen::world::access::{gate::{Action, Gate, Permitted}, verdict::PermitError};
//! # use massgen::world::exec::{self, tool_result::Observation};
//! fn act(gate: &Gate, call: ToolCall) -> Result<Observation, PermitError> {
//!     Ok(exec::run(call))
//! }
//! ```
//!
//! And only the gate can make what `run` takes:
//!
//! ```compile_fail
//! # use massgen::tools::call::ToolCall;
//! # use massgen::world::access::{gate::{Action, Gate, Permitted}, verdict::PermitError};
//! # use massgen::world::exec::{self, tool_result::Observation};
//! fn act(gate: &Gate, action: Action) -> Result<Observation, PermitError> {
//!     Ok(exec::run(Permitted { action, gate: gate.clone() }))
//! }
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::MutexGuard;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::call_rules::judge::CallJudgement;
use crate::error::Result;
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::grant::{Grant, GrantKind, GrantScope, Permission, Phase};
use crate::permissions::history::{AccessHistory, FileFingerprint};
use crate::permissions::path_rules::{CallApproval, PathRule, RuleAction, matching_rule};
use crate::permissions::rules::{ASKED_BY_CONFIG, DENIED_BY_CONFIG};
use crate::permissions::{DenyReason, PathPermissionManager, PermissionDecision};
use crate::sandbox_policy::FileIdentity;
use crate::tools::call::{FinalSymlink, ToolCall, UserPath, WORKSPACE};
use crate::tools::served::ToolCatalogue;
use crate::tools::task_plan::TaskPlan;
use crate::tools::tool_selection::CommandOffering;
use crate::world::access::admission::check_capabilities;
use crate::world::access::call_context::{CallContext, CallExecutor, CallHookResult};
use crate::world::access::hook_runner::{HookInvocation, HookRunner};
use crate::world::access::merge_bases::FileAccessReason;
use crate::world::access::policy::{GatePolicy, ParentDirPolicy, TrialAnswers, cannot_open};
use crate::world::access::verdict::{AccessRefusal, Denial, PermitError, denial_by_rule};
use crate::world::approval::{
    ApprovalDecision, ApprovalRequest, WORKSPACE_NAME, canonical_input, describe_path,
};
use crate::world::mcp::McpServers;
use crate::world::mcp::progress::ServerProgressSender;
use crate::world::sandbox::exec_environment::ExecEnvironment;
use crate::world::sandbox::overlay::WriteOverlay;
use crate::world::sys::content::FileContent;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::follow::FollowBase;
use crate::world::sys::grant::OpenGrant;
use crate::world::sys::meta::FileMetadata;

mod explanation;
mod external_tool_check;
mod spelling;

/// The gate of one agent in one phase. A clone is the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    state: Arc<GateState>,
    call_context: CallContext,
}

#[derive(Debug)]
struct GateState {
    manager: PathPermissionManager,
    /// The manager's grants in its order, opened.
    grants: Vec<Arc<OpenGrant>>,
    /// Base that paths are resolved from.
    follow_base: FollowBase,
    /// Staging directory for files that are about to be moved into place or removed.
    staging_dir: Option<DirectoryHandle>,
    policy: GatePolicy,
    /// The gate of the servers that agents share; without it these are not started.
    shared_servers: Option<Gate>,
}

/// A call whose every path is resolved beneath an open grant.
pub type Action = ToolCall<ResolvedPath>;

/// Resolved path of an action. It is never resolved again from a string.
#[derive(Clone, Debug)]
pub struct ResolvedPath {
    grant: Arc<OpenGrant>,
    rel: RelPath,
    real: RealPath,
}

impl ResolvedPath {
    /// Returns the root of a grant.
    fn root_of(open_grant: &Arc<OpenGrant>) -> Self {
        Self {
            grant: Arc::clone(open_grant),
            rel: RelPath::default(),
            real: open_grant.grant().root.clone(),
        }
    }

    /// Returns the directory handle beneath which the path is opened.
    pub(in crate::world) fn dir(&self) -> &DirectoryHandle {
        self.grant.directory()
    }

    /// Returns the path below [`ResolvedPath::dir`].
    pub(in crate::world) fn below(&self) -> RelPath {
        self.grant.below_dir(&self.rel)
    }

    /// Returns the metadata of what exists at the path.
    pub(in crate::world) fn meta(&self) -> std::result::Result<FileMetadata, FileSystemError> {
        self.dir().meta(&self.below())
    }

    /// Opens the regular file at the path.
    pub(in crate::world) fn open_file(
        &self,
    ) -> std::result::Result<(FileContent, FileMetadata), FileSystemError> {
        self.dir().open_file(&self.below())
    }

    /// Opens the directory at the path.
    pub(in crate::world) fn open_dir(
        &self,
    ) -> std::result::Result<DirectoryHandle, FileSystemError> {
        self.dir().dir(&self.below())
    }

    /// Returns the target of the symlink at the path.
    pub(in crate::world) fn link_target(&self) -> std::result::Result<PathBuf, FileSystemError> {
        self.dir().link_target(&self.below())
    }

    /// Returns the real path at the time of resolution, for decisions and messages.
    pub(in crate::world) fn real(&self) -> &RealPath {
        &self.real
    }

    /// Returns the grant that covers the path.
    pub(in crate::world) fn grant(&self) -> &Grant {
        self.grant.grant()
    }

    /// Resolves a name that was found below the path, beneath the same handle. It may be accessed
    /// only if the gate allows it, which is not checked here.
    pub(in crate::world) fn join(&self, rel: &RelPath) -> Self {
        Self {
            grant: Arc::clone(&self.grant),
            rel: self.rel.join(rel),
            real: self.real.join(rel),
        }
    }
}

/// A call whose paths are resolved.
struct ResolvedCall {
    action: Action,
    /// Why approval is needed, if it is.
    ask_reason: Option<String>,
    /// Effects of the call, for the approval request.
    effects: Vec<String>,
    /// The paths that an approval would cover.
    paths_to_approve: Vec<RealPath>,
}

/// An action that the gate permits. Only the gate creates one, only `world` can open it, and it can
/// be carried out only once.
#[must_use]
#[derive(Debug)]
pub struct Permitted<A> {
    action: A,
    gate: Gate,
}

impl Permitted<Action> {
    /// Returns the plan that the action writes, if it does.
    pub fn plan(&self) -> Option<&TaskPlan> {
        if let ToolCall::UpdatePlan { plan } = &self.action {
            Some(plan)
        } else {
            None
        }
    }
}

impl<A> Permitted<A> {
    pub(in crate::world) fn into_action(self) -> (A, Gate) {
        (self.action, self.gate)
    }
}

impl Gate {
    /// Opens the root of every grant once. A root that cannot be opened is an error that names it.
    pub fn open(manager: PathPermissionManager, policy: GatePolicy) -> Result<Self> {
        Self::open_with_shared_servers(manager, policy, None)
    }

    /// Like [`Gate::open`], with the gate of the servers that agents share, which allows what all
    /// of them may do.
    pub fn open_with_shared_servers(
        manager: PathPermissionManager,
        policy: GatePolicy,
        shared_servers: Option<Self>,
    ) -> Result<Self> {
        let open_grant = |grant: &Grant| match policy.open_grant(grant) {
            Ok(open) => Ok(Arc::new(open)),
            Err(error) => Err(cannot_open(&grant.root, error)),
        };
        let grants = manager
            .grants()
            .iter()
            .map(open_grant)
            .collect::<Result<Vec<_>>>()?;
        let follow_base = policy
            .open_follow_base()
            .map_err(|error| cannot_open(&policy.base, error))?;
        let staging_dir = policy.open_staging_dir();
        let state = GateState {
            manager,
            grants,
            follow_base,
            staging_dir,
            policy,
            shared_servers,
        };
        Ok(Self {
            state: Arc::new(state),
            call_context: CallContext::default(),
        })
    }

    /// Returns the same gate for the call `id` of a conversation. Requests about it end when
    /// `cancellation` is cancelled.
    #[must_use]
    pub fn for_call(&self, id: String, cancellation: CancellationToken) -> Self {
        self.with_context(CallContext {
            cancellation,
            id: Some(id),
            executor: self.call_context.executor,
            // What was approved, answered by hooks or is to be reported belongs to one call.
            ..CallContext::default()
        })
    }

    /// Returns the same gate for a caller that wants to know the progress of servers.
    #[must_use]
    pub fn with_progress(&self, progress: ServerProgressSender) -> Self {
        self.with_context(CallContext {
            progress: Some(progress),
            ..self.call_context.clone()
        })
    }

    /// Returns the receiver of the progress that servers report.
    pub(in crate::world) fn progress(&self) -> Option<&ServerProgressSender> {
        self.call_context.progress.as_ref()
    }

    /// Returns the same gate for calls within this one, until `cancellation` is cancelled.
    pub(in crate::world) fn for_calls_within(&self, cancellation: CancellationToken) -> Self {
        self.with_context(CallContext {
            cancellation,
            hook_result: None,
            ..self.call_context.clone()
        })
    }

    /// Returns the same gate for another program, which carries its calls out itself.
    #[must_use]
    pub fn for_external_program(&self) -> Self {
        self.with_context(CallContext {
            executor: CallExecutor::External,
            ..self.call_context.clone()
        })
    }

    /// Returns the same gate for accesses that hooks do not decide about: those of a call that they
    /// have already allowed, and those of massgen itself.
    #[must_use]
    pub fn without_hooks(&self) -> Self {
        self.with_hook_result(CallHookResult::default())
    }

    fn with_hook_result(&self, hook_result: CallHookResult) -> Self {
        self.with_context(CallContext {
            hook_result: Some(hook_result),
            ..self.call_context.clone()
        })
    }

    fn with_context(&self, call_context: CallContext) -> Self {
        Self {
            state: Arc::clone(&self.state),
            call_context,
        }
    }

    /// Resolves every path in `call`, checks permissions, runs the hooks, then asks for approval if
    /// required. Consumes the call.
    pub fn check(&self, call: ToolCall) -> std::result::Result<Permitted<Action>, PermitError> {
        check_capabilities(&self.state.policy, &self.state.manager, &call)?;
        let ask_reason = self.check_rules(&call)?;
        let call = self.with_adapted_paths(call);
        let described_call = self
            .needs_description()
            .then(|| (call.name().to_owned(), call.input()));
        let effects = call.command().map(str::to_owned).into_iter().collect();
        let resolved_call = self.resolve_call(call, ask_reason, effects)?;
        let (hook_result, changed_call) = self.run_hooks(described_call.as_ref())?;
        if let Some(changed_call) = changed_call {
            // With their result, the hooks are not run again.
            return self.with_hook_result(hook_result).check(changed_call);
        }
        if let Some(reason) = resolved_call
            .ask_reason
            .or_else(|| hook_result.ask_reason.clone())
        {
            // Only rules and hooks give a reason, and with either the call is described.
            let (tool, input) = described_call.unwrap_or_default();
            let mut effects = resolved_call.effects;
            // The effects of a server call are unknown, so the whole input stands for them.
            if effects.is_empty() || matches!(resolved_call.action, ToolCall::CallServer(_)) {
                effects.push(canonical_input(&input));
            }
            let request = ApprovalRequest {
                tool,
                input,
                effects,
                reason,
                phase: self.phase(),
                call_id: self.call_context.id.clone(),
            };
            self.request_approval(request)?;
        }
        let approval = match resolved_call.paths_to_approve.as_slice() {
            [] => CallApproval::Missing,
            [_, ..] => CallApproval::Given,
        };
        for path in resolved_call.paths_to_approve {
            self.history().record_approval(path);
        }
        let call_context = CallContext {
            approval,
            hook_result: Some(hook_result),
            ..self.call_context.clone()
        };
        Ok(Permitted {
            action: resolved_call.action,
            gate: self.with_context(call_context),
        })
    }

    /// Resolves every path in `call` and checks permissions. `ask_reason` is the reason for which
    /// approval is needed already, and `effects` holds those that are known so far.
    fn resolve_call(
        &self,
        call: ToolCall,
        mut ask_reason: Option<String>,
        mut effects: Vec<String>,
    ) -> std::result::Result<ResolvedCall, PermitError> {
        let call = self.with_subagent_directories(call);
        let is_described = self.needs_description();
        // A command's changes are unknown before it runs: paths with an `ask` rule stay closed.
        let is_about_commands = call.is_about_commands();
        let assumed_approval = if is_about_commands {
            CallApproval::Missing
        } else {
            CallApproval::Given
        };
        let mut paths_to_approve = Vec::new();
        let accesses: Vec<_> = call
            .accesses()
            .into_iter()
            .map(|access| (access.path.clone(), access.permission, access.link))
            .collect();
        let mut accesses_left = accesses.into_iter();
        let resolve = |path| match accesses_left.next() {
            Some((declared_path, requested, link)) if declared_path == path => {
                let (_, outcome) = self.resolve_path(&path, requested, link, assumed_approval);
                let resolved_path =
                    outcome.map_err(|error| self.permit_error(&path, requested, error))?;
                if is_described {
                    let (path, grant) = (resolved_path.real(), resolved_path.grant());
                    effects.push(if is_about_commands {
                        let workspace = &self.state.policy.workspace_name;
                        format!("in {}", describe_path(path, grant, workspace))
                    } else {
                        format!("{requested} {}", describe_path(path, grant, WORKSPACE_NAME))
                    });
                }
                let rules = self.path_rules();
                if assumed_approval == CallApproval::Given
                    && let Some(rule) =
                        matching_rule(rules, RuleAction::Ask, resolved_path.real(), requested)
                {
                    paths_to_approve.push(resolved_path.real().clone());
                    ask_reason.get_or_insert_with(|| explanation::approval_reason(rule));
                }
                Ok(resolved_path)
            }
            // A path that the call does not declare as an access is never opened.
            _ => Err(self
                .deny(&path, Permission::Write, AccessRefusal::outside())
                .into()),
        };
        let action = call.try_map::<_, PermitError>(resolve)?;
        Ok(ResolvedCall {
            action,
            ask_reason,
            effects,
            paths_to_approve,
        })
    }

    /// Returns `call` with the directories of subagents in the agent's workspace, wherever its other
    /// relative paths start.
    fn with_subagent_directories(&self, call: ToolCall) -> ToolCall {
        let ToolCall::SpawnSubagents { tasks, dirs } = call else {
            return call;
        };
        let in_workspace = |dir: &UserPath| {
            let workspace = self.state.manager.workspace()?.to_abs();
            UserPath::parse(workspace.join(dir.as_str()).as_path().to_str()?).ok()
        };
        let dirs = dirs
            .into_iter()
            .map(|dir| in_workspace(&dir).unwrap_or(dir));
        ToolCall::SpawnSubagents {
            dirs: dirs.collect(),
            tasks,
        }
    }

    /// Returns whether a hook or a person may have to see what a call would do.
    fn needs_description(&self) -> bool {
        self.has_call_rules() || self.hooks().is_some()
    }

    /// Checks the tool and the command of `call` against `permissions` of the config. Returns the
    /// reason for which approval is needed, if it is.
    fn check_rules(&self, call: &ToolCall) -> std::result::Result<Option<String>, Denial> {
        match self.judge_rules(call) {
            CallJudgement::Undecided | CallJudgement::Allowed => Ok(None),
            CallJudgement::Asked(rule) => Ok(Some(rule.reason)),
            CallJudgement::Denied(rule) => {
                Err(denial_by_rule(DENIED_BY_CONFIG, rule.subject, rule.reason))
            }
        }
    }

    /// Judges the tool, the command and the page of `call` by `permissions` of the config.
    pub fn judge_rules(&self, call: &ToolCall) -> CallJudgement {
        let rules = &self.state.policy.rules;
        let judgement = rules.judge(call.name(), call.command());
        match call.page() {
            Some(page) => judgement.stricter(rules.judge_page(page)),
            None => judgement,
        }
    }

    /// Returns the user's hooks, if there are any.
    pub fn hooks(&self) -> Option<&HookRunner> {
        self.state.policy.hooks.as_ref()
    }

    /// Returns the decisions of the hooks about the call that this gate has allowed.
    pub(in crate::world) fn hook_result(&self) -> Option<(&HookRunner, &CallHookResult)> {
        Some((self.hooks()?, self.call_context.hook_result.as_ref()?))
    }

    /// Returns the context in which hooks are run on a call.
    pub(in crate::world) fn hook_invocation(&self) -> HookInvocation<'_> {
        HookInvocation {
            phase: self.phase(),
            overlay: self.overlay(),
            cancellation: &self.call_context.cancellation,
        }
    }

    /// Returns the id of the call in its conversation.
    pub(in crate::world) fn call_id(&self) -> Option<&str> {
        self.call_context.id.as_deref()
    }

    /// Runs the user's hooks on a call that rules and grants allow.
    fn run_hooks(
        &self,
        described_call: Option<&(String, Value)>,
    ) -> std::result::Result<(CallHookResult, Option<ToolCall>), Denial> {
        self.call_context.run_hooks(
            self.hooks(),
            self.hook_invocation(),
            described_call,
            &self.catalogue(),
        )
    }

    /// Asks for approval. Unless it is given, the call is denied.
    fn request_approval(&self, request: ApprovalRequest) -> std::result::Result<(), Denial> {
        let subject = request.tool.clone();
        let reason = request.reason.clone();
        let decision = match &self.state.policy.approver {
            Some(approver) => approver.request_approval(request, &self.call_context.cancellation),
            None => ApprovalDecision::Denied("no user can be asked here".to_owned()),
        };
        match decision {
            ApprovalDecision::Approved => Ok(()),
            ApprovalDecision::Denied(refusal) => Err(denial_by_rule(
                ASKED_BY_CONFIG,
                subject,
                format!("{reason}; {refusal}"),
            )),
        }
    }

    /// Adapts the paths of `call` to what is open to the agent. A command starts in the first
    /// directory that the agent may read if its workspace is closed to it. Without any grants,
    /// paths in a server call count as plain strings.
    fn with_adapted_paths(&self, mut call: ToolCall) -> ToolCall {
        if let ToolCall::ExecuteCommand { dir, .. } | ToolCall::StartBackgroundCommand { dir, .. } =
            &mut call
            && dir.as_str() == WORKSPACE
            && let Some(start_dir) = self.command_start_dir()
        {
            *dir = start_dir;
        }
        if let (ToolCall::CallServer(call), []) = (&mut call, self.state.manager.grants()) {
            call.drop_relative_paths();
        }
        call
    }

    /// Returns the directory that relative paths start from.
    pub(in crate::world) fn base(&self) -> &RealPath {
        &self.state.policy.base
    }

    /// Returns whether the agent is restricted to the directories of a folder guard.
    pub fn is_guarded(&self) -> bool {
        self.state.policy.parent_dirs == ParentDirPolicy::Refused
    }

    /// Returns the directory that commands start in instead of the one where relative paths start,
    /// if the agent may not read that one.
    pub(in crate::world) fn command_start_dir(&self) -> Option<UserPath> {
        let is_readable = self.allows(&self.state.policy.base, Permission::Read);
        (!is_readable)
            .then(|| self.first_readable_directory())
            .flatten()
    }

    /// Returns the first directory that the agent may read. Those that the user names come before
    /// those that massgen adds.
    pub(in crate::world) fn first_readable_directory(&self) -> Option<UserPath> {
        let roots = self.roots();
        let trees = || roots.iter().filter(|root| root.scope == GrantScope::Tree);
        let context_root = trees().find(|root| root.kind == GrantKind::Context);
        let start_root = context_root.or_else(|| trees().next())?;
        UserPath::parse(start_root.path.as_path().to_str()?).ok()
    }

    /// Returns whether `permissions` of the config has rules for this agent's calls.
    fn has_call_rules(&self) -> bool {
        !self.state.policy.rules.is_empty() || !self.path_rules().is_empty()
    }

    /// Returns whether the agent may use servers.
    pub fn has_servers(&self) -> bool {
        self.state.policy.servers.is_some()
    }

    /// Returns the server tools that the agent may use, as far as they are known.
    pub fn catalogue(&self) -> Arc<ToolCatalogue> {
        let servers = self.state.policy.servers.as_ref();
        servers.map(McpServers::catalogue).unwrap_or_default()
    }

    /// Returns the environment of the agent's commands; `None` if it may run none.
    pub fn commands(&self) -> Option<&ExecEnvironment> {
        self.state.policy.commands.as_ref()
    }

    /// Returns which command tools the agent may be offered.
    pub fn command_offering(&self) -> CommandOffering {
        self.state.policy.command_offering()
    }

    /// Returns the answers on which the agent may run commands; `None` if it may not.
    pub fn trial_answers(&self) -> Option<&TrialAnswers> {
        self.state.policy.answers.as_ref()
    }

    /// Returns the phase that the gate decides for.
    pub fn phase(&self) -> Phase {
        self.state.manager.phase()
    }

    /// Returns whether the pure rules allow an access to a name that was found below a resolved
    /// path.
    pub(in crate::world) fn allows(&self, path: &RealPath, requested: Permission) -> bool {
        self.check_access(path, requested).is_ok()
    }

    /// Like [`Gate::allows`], but returns the grant that allows the access, or why it is refused.
    pub(in crate::world) fn check_access(
        &self,
        path: &RealPath,
        requested: Permission,
    ) -> std::result::Result<&Grant, AccessRefusal> {
        self.check_access_with(path, requested, self.call_context.approval)
    }

    fn check_access_with(
        &self,
        path: &RealPath,
        requested: Permission,
        approval: CallApproval,
    ) -> std::result::Result<&Grant, AccessRefusal> {
        match self
            .state
            .manager
            .decide_with_approval(path, requested, approval)
        {
            PermissionDecision::Allow { grant } => Ok(grant),
            PermissionDecision::Deny(DenyReason::OutsideGrants) => Err(AccessRefusal::outside()),
            PermissionDecision::Deny(DenyReason::Lowered { rule, .. }) => {
                Err(self.lowering_refusal(rule, path, requested))
            }
        }
    }

    /// Resolves `path`, which another gate has resolved, for reading.
    pub(in crate::world) fn resolve_again(
        &self,
        path: &RealPath,
    ) -> std::result::Result<ResolvedPath, AccessRefusal> {
        let link = FinalSymlink::Followed;
        self.decide(path, Permission::Read, link, CallApproval::Missing)
    }

    /// Returns the most specific grant that covers `path`.
    pub(in crate::world) fn most_specific_grant(&self, path: &RealPath) -> Option<&Grant> {
        // They are sorted, the most specific first.
        let mut grants = self.state.manager.grants().iter();
        grants.find(|grant| grant.relative_path(path).is_some())
    }

    /// Returns the pure rules.
    pub fn manager(&self) -> &PathPermissionManager {
        &self.state.manager
    }

    /// Returns the identities of the grants' roots, by the path that each had when it was opened.
    pub(in crate::world) fn identities(
        &self,
    ) -> std::result::Result<BTreeMap<AbsPath, FileIdentity>, FileSystemError> {
        let identity = |grant: &Arc<OpenGrant>| {
            let overlay = self.overlay();
            let meta = match overlay.and_then(|overlay| overlay.hidden_metadata(grant.root())) {
                Some(hidden_meta) => hidden_meta,
                None => FileMetadata::from_handle(grant.directory())?,
            };
            Ok((grant.root().to_abs(), meta.identity()))
        };
        self.state.grants.iter().map(identity).collect()
    }

    /// Returns the overlay that replaces the write paths, if there is one.
    pub(in crate::world) fn overlay(&self) -> Option<&WriteOverlay> {
        self.state.policy.overlay.as_ref()
    }

    /// Returns the root of the grant of the whole tree `root`, if it may be written to.
    pub(in crate::world) fn writable_tree(&self, root: &AbsPath) -> Option<ResolvedPath> {
        let is_whole_tree = |open_grant: &&Arc<OpenGrant>| {
            let grant = open_grant.grant();
            grant.scope == GrantScope::Tree && grant.root.as_path() == root.as_path()
        };
        let open_grant = self.state.grants.iter().find(is_whole_tree)?;
        let is_writable = self.allows(&open_grant.grant().root, Permission::Write);
        is_writable.then(|| ResolvedPath::root_of(open_grant))
    }

    /// Returns the rules about paths in `permissions` of the config.
    pub(in crate::world) fn path_rules(&self) -> &[PathRule] {
        let first_grant = self.state.manager.grants().first();
        first_grant.map_or(&[], |grant| &grant.path_rules)
    }

    /// Returns the roots of the trees that may be read.
    pub(in crate::world) fn trees(&self) -> Vec<ResolvedPath> {
        let readable_trees = self.state.grants.iter().filter(|open| {
            let grant = open.grant();
            grant.scope == GrantScope::Tree && self.allows(&grant.root, Permission::Read)
        });
        readable_trees.map(ResolvedPath::root_of).collect()
    }

    /// Returns a directory of massgen's for staging files, so that a process that is killed leaves
    /// nothing in the user's tree.
    pub(in crate::world) fn staging_dir(&self) -> Option<&DirectoryHandle> {
        self.state.staging_dir.as_ref()
    }

    /// Returns the gate of the servers that agents share, if there are any.
    pub(in crate::world) fn shared_servers(&self) -> Option<&Self> {
        self.state.shared_servers.as_ref()
    }

    /// Returns the restrictions on the agent in addition to its grants.
    pub(in crate::world) fn policy(&self) -> &GatePolicy {
        &self.state.policy
    }

    /// Returns what the agent has read and created.
    pub(in crate::world) fn history(&self) -> MutexGuard<'_, AccessHistory> {
        self.state.policy.history.lock()
    }

    /// Records the version of `resolved` with this fingerprint as its merge base, if the file is
    /// the user's and the agent may write to it.
    pub(in crate::world) fn record_base(
        &self,
        resolved: &ResolvedPath,
        fingerprint: &FileFingerprint,
        reason: FileAccessReason,
    ) {
        let grant = resolved.grant();
        if let Some(bases) = &self.state.policy.merge_bases
            && (grant.kind, grant.permission) == (GrantKind::Context, Permission::Write)
        {
            bases.record(resolved.real(), fingerprint, reason);
        }
    }

    fn decide(
        &self,
        real: &RealPath,
        requested: Permission,
        link: FinalSymlink,
        approval: CallApproval,
    ) -> std::result::Result<ResolvedPath, AccessRefusal> {
        let manager = &self.state.manager;
        let grant = self.check_access_with(real, requested, approval)?;
        let is_root = manager.is_grant_root(real) || manager.contains_grant_root(real);
        if requested == Permission::Write && link == FinalSymlink::NotFollowed && is_root {
            let reason = "it is, or holds, a directory that was given to you as a whole";
            return Err(AccessRefusal::new("grant-root", reason));
        }
        let pairs = manager.grants().iter().zip(&self.state.grants);
        let mut open_grants = pairs.filter(|(listed, _)| std::ptr::eq(*listed, grant));
        match (open_grants.next(), grant.relative_path(real)) {
            (Some((_, open_grant)), Some(below)) => Ok(ResolvedPath {
                grant: Arc::clone(open_grant),
                rel: below,
                real: real.clone(),
            }),
            _ => Err(AccessRefusal::outside()),
        }
    }
}
