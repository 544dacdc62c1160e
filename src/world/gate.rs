//! Owns the one gate between what a model asks for and the disk. A [`ToolCall`] goes in; out comes
//! a [`Permitted`] action, which only `world` can open, or a [`Denial`], which the model reads.
//! It must never act: it follows paths, asks the pure rules and, where the config says so, a person.
//! It has no child modules, because they could reach the private fields.
//!
//! An action is carried out only if it was permitted:
//!
//! ```
//! # use massgen::{tools::call::ToolCall, world::{exec, gate::Gate, verdict::Denial}};
//! fn act(gate: &Gate, call: ToolCall) -> Result<exec::Observation, Denial> {
//!     Ok(exec::run(gate.check(call)?))
//! }
//! ```
//!
//! The same line without the check does not compile:
//!
//! ```compile_fail
//! # use massgen::{tools::call::ToolCall, world::{exec, gate::Gate, verdict::Denial}};
//! fn act(gate: &Gate, call: ToolCall) -> Result<exec::Observation, Denial> {
//!     Ok(exec::run(call))
//! }
//! ```
//!
//! And nobody but the gate can make what `run` takes:
//!
//! ```compile_fail
//! # use massgen::{tools::call::ToolCall, world::{exec, gate::{Action, Gate, Permitted}, verdict::Denial}};
//! fn act(gate: &Gate, action: Action) -> Result<exec::Observation, Denial> {
//!     Ok(exec::run(Permitted { action, gate: gate.clone() }))
//! }
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::call_rules::judge::CallJudgement;
use crate::error::Result;
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::grant::{Grant, GrantKind, GrantScope, Permission, Phase};
use crate::permissions::history::{AccessHistory, FileFingerprint};
use crate::permissions::path_rules::{CallApproval, PathRule, RuleAction, matching_rule};
use crate::permissions::rules::{ASKED_BY_CONFIG, DENIED_BY_CONFIG, PermissionRule};
use crate::permissions::{DenyReason, PathPermissionManager, PermissionDecision, folded};
use crate::sandbox_policy::FileIdentity;
use crate::tools::call::{FinalLink, RequestedAccess, ToolCall, UserPath, WORKSPACE};
use crate::tools::served::ToolCatalogue;
use crate::world::admission::check_capabilities;
use crate::world::approval::{ApprovalDecision, ApprovalRequest, canonical_input, describe_path};
use crate::world::call_context::{CallContext, CallExecutor, CallHookResult, DENIED_BY_HOOK};
use crate::world::exec_environment::ExecEnvironment;
use crate::world::hook_runner::{HookInvocation, HookRunner};
use crate::world::mcp::McpServers;
use crate::world::merge_bases::FileAccessReason;
use crate::world::overlay::WriteOverlay;
use crate::world::policy::{GatePolicy, ParentDirPolicy, cannot_open};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::follow::{FollowBase, FollowedPath, follow_path};
use crate::world::sys::grant::OpenGrant;
use crate::world::sys::meta::FileMetadata;
use crate::world::verdict::{
    AccessRefusal, Denial, DeniedSubject, GrantedRoot, PathVerdict, by_rule,
};

/// The gate of one agent in one phase. A clone is the same gate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<GateState>, CallContext);

#[derive(Debug)]
struct GateState {
    manager: PathPermissionManager,
    /// The manager's grants in its order, opened.
    grants: Vec<Arc<OpenGrant>>,
    /// Where paths are followed.
    ground: FollowBase,
    /// Where a file waits for a moment before it is put in its place or removed.
    aside: Option<DirectoryHandle>,
    policy: GatePolicy,
}

/// What was decided to happen: the call with every path as a place beneath an open grant.
pub type Action = ToolCall<ResolvedPath>;

/// Where a path of an action leads. Nothing in it is resolved again from a text.
#[derive(Clone, Debug)]
pub struct ResolvedPath {
    grant: Arc<OpenGrant>,
    rel: RelPath,
    real: RealPath,
}

impl ResolvedPath {
    /// The directory handle beneath which the place is opened.
    pub(super) fn dir(&self) -> &DirectoryHandle {
        self.grant.directory()
    }

    /// The names that lead from [`Place::dir`] to the place.
    pub(super) fn below(&self) -> RelPath {
        self.grant.below_dir(&self.rel)
    }

    /// Where the place was when it was followed, for decisions and for texts.
    pub(super) fn real(&self) -> &RealPath {
        &self.real
    }

    /// The grant that speaks for the place.
    pub(super) fn grant(&self) -> &Grant {
        self.grant.grant()
    }

    /// A name that was found below the place. It is opened beneath the same handle; whether it may
    /// be touched is another question, which the gate answers.
    pub(super) fn join(&self, rel: &RelPath) -> Self {
        Self {
            grant: Arc::clone(&self.grant),
            rel: self.rel.join(rel),
            real: self.real.join(rel),
        }
    }
}

/// A call whose places are open.
struct ResolvedCall {
    action: Action,
    /// Why a person is asked first, if so.
    asked: Option<String>,
    /// What it would do, for them.
    deeds: Vec<String>,
    /// The paths that they agree to with it.
    to_agree: Vec<RealPath>,
}

/// An action that the gate lets through. Only the gate makes one, only `world` can open it, and it
/// can be carried out once.
#[must_use]
#[derive(Debug)]
pub struct Permitted<A> {
    action: A,
    gate: Gate,
}

impl<A> Permitted<A> {
    pub(super) fn into_action(self) -> (A, Gate) {
        (self.action, self.gate)
    }
}

impl Gate {
    /// Opens the root of every grant once. A root that cannot be opened is an error that names it.
    pub fn open(manager: PathPermissionManager, policy: GatePolicy) -> Result<Self> {
        let open = |grant: &Grant| match policy.open_grant(grant) {
            Ok(open) => Ok(Arc::new(open)),
            Err(fault) => Err(cannot_open(&grant.root, fault)),
        };
        let grants = manager
            .grants()
            .iter()
            .map(open)
            .collect::<Result<Vec<_>>>()?;
        let ground = policy
            .open_follow_base()
            .map_err(|fault| cannot_open(&policy.base, fault))?;
        let aside = policy.open_staging_dir();
        let inner = GateState {
            manager,
            grants,
            ground,
            aside,
            policy,
        };
        Ok(Self(Arc::new(inner), CallContext::default()))
    }

    /// The same gate for the call `id` of a conversation; what is asked about it ends when `ended` is
    /// cancelled.
    #[must_use]
    pub fn for_call(&self, id: String, ended: CancellationToken) -> Self {
        self.with_context(CallContext {
            ended,
            id: Some(id),
            by: self.1.by,
            ..CallContext::default()
        })
    }

    /// The same gate for calls that are made within this one, until `ended` is cancelled.
    pub(super) fn for_calls_within(&self, ended: CancellationToken) -> Self {
        self.with_context(CallContext {
            ended,
            hooked: None,
            ..self.1.clone()
        })
    }

    /// The same gate for another program, which carries its calls out itself.
    #[must_use]
    pub fn for_external_program(&self) -> Self {
        self.with_context(CallContext {
            by: CallExecutor::External,
            ..self.1.clone()
        })
    }

    /// The same gate for a part of a call that hooks have let through.
    #[must_use]
    pub fn without_hooks(&self) -> Self {
        self.with_hook_result(CallHookResult::default())
    }

    fn with_hook_result(&self, hooked: CallHookResult) -> Self {
        self.with_context(CallContext {
            hooked: Some(hooked),
            ..self.1.clone()
        })
    }

    fn with_context(&self, calling: CallContext) -> Self {
        Self(Arc::clone(&self.0), calling)
    }

    /// Follows every path of `call` and asks the manager about it, then the user's hooks, and then
    /// whoever is to be asked. The call is used up either way.
    pub fn check(&self, call: ToolCall) -> std::result::Result<Permitted<Action>, Denial> {
        check_capabilities(&self.0.policy, &self.0.manager, &call)?;
        let asked = self.check_rules(&call)?;
        let call = self.with_open_start_dir(call);
        let told = self
            .needs_description()
            .then(|| (call.name().to_owned(), call.input()));
        let deeds = call.command().map(str::to_owned).into_iter().collect();
        let placed = self.resolve_call(call, (asked, deeds))?;
        let (hooked, changed) = self.run_hooks(told.as_ref())?;
        if let Some(changed) = changed {
            return self.with_hook_result(hooked).check(changed);
        }
        if let Some(reason) = placed.asked.or_else(|| hooked.asked.clone()) {
            let (tool, input) = told.unwrap_or_default();
            let mut deeds = placed.deeds;
            // What a server does with its arguments, nobody knows.
            if deeds.is_empty() || matches!(placed.action, ToolCall::CallServer(_)) {
                deeds.push(canonical_input(&input));
            }
            let question = ApprovalRequest {
                tool,
                input,
                deeds,
                reason,
                phase: self.phase(),
                call_id: self.1.id.clone(),
            };
            self.request_approval(question)?;
        }
        let consent = match placed.to_agree.as_slice() {
            [] => CallApproval::Missing,
            [_, ..] => CallApproval::Given,
        };
        for path in placed.to_agree {
            self.history().record_approval(path);
        }
        let calling = CallContext {
            consent,
            hooked: Some(hooked),
            ..self.1.clone()
        };
        Ok(Permitted {
            action: placed.action,
            gate: self.with_context(calling),
        })
    }

    /// Follows every path of `call` and asks the manager about it. `asked` says why a person is asked
    /// anyway, and `deeds` what is known of what it would do.
    fn resolve_call(
        &self,
        call: ToolCall,
        (mut asked, mut deeds): (Option<String>, Vec<String>),
    ) -> std::result::Result<ResolvedCall, Denial> {
        let is_told = self.needs_description();
        // What a command changes is not known before it runs: for it, what is asked is closed.
        let consent = if call.is_about_commands() {
            CallApproval::Missing
        } else {
            CallApproval::Given
        };
        let mut to_agree = Vec::new();
        let declared: Vec<_> = call
            .accesses()
            .into_iter()
            .map(|access| (access.path.clone(), access.wanted, access.link))
            .collect();
        let mut declared = declared.into_iter();
        let action = call.try_map(|path| match declared.next() {
            Some((expected, wanted, link)) if expected == path => {
                let (_, outcome) = self.resolve_path(&path, (wanted, link), consent);
                let place = outcome.map_err(|refusal| self.deny(&path, wanted, refusal))?;
                if is_told {
                    deeds.push(format!(
                        "{wanted} {}",
                        describe_path(place.real(), place.grant())
                    ));
                }
                let here = (place.real(), wanted);
                if consent == CallApproval::Given
                    && let Some(rule) = matching_rule(self.path_rules(), RuleAction::Ask, here)
                {
                    to_agree.push(place.real().clone());
                    asked.get_or_insert_with(|| ask_reason(rule));
                }
                Ok(place)
            }
            _ => Err(self.deny(&path, Permission::Write, AccessRefusal::outside())),
        })?;
        Ok(ResolvedCall {
            action,
            asked,
            deeds,
            to_agree,
        })
    }

    /// Whether somebody may have to be told what a call would do.
    fn needs_description(&self) -> bool {
        self.has_call_rules() || self.hooks().is_some()
    }

    /// Asks `permissions` of the config about the tool and the command of `call`. Gives the reason why
    /// a person has to be asked, if so.
    fn check_rules(&self, call: &ToolCall) -> std::result::Result<Option<String>, Denial> {
        match self.judge_rules(call) {
            CallJudgement::Silent | CallJudgement::Allowed => Ok(None),
            CallJudgement::Asked(spoken) => Ok(Some(spoken.reason)),
            CallJudgement::Denied(spoken) => {
                Err(by_rule(DENIED_BY_CONFIG, spoken.subject, spoken.reason))
            }
        }
    }

    /// Asks `permissions` of the config about another program's tool, and about what it gives to the
    /// shell; and then a person, where there is one who can be asked.
    pub fn check_external(
        &self,
        tool: &str,
        command: Option<&str>,
    ) -> std::result::Result<(), Denial> {
        let reason = match self.0.policy.rules.judge(tool, command) {
            CallJudgement::Silent | CallJudgement::Allowed => None,
            CallJudgement::Asked(spoken) if self.0.policy.approver.is_none() => {
                return Err(by_rule(ASKED_BY_CONFIG, spoken.subject, spoken.reason));
            }
            CallJudgement::Asked(spoken) => Some(spoken.reason),
            CallJudgement::Denied(spoken) => {
                return Err(by_rule(DENIED_BY_CONFIG, spoken.subject, spoken.reason));
            }
        };
        // About what is no command, they are asked with the call that it stands for.
        let told = command.map(|line| (tool.to_owned(), json!({ "command": line })));
        let (hooked, _) = self.run_hooks(told.as_ref())?;
        let reason = match (reason, hooked.asked) {
            (_, Some(asked)) if self.0.policy.approver.is_none() => {
                return Err(by_rule(DENIED_BY_HOOK, tool.to_owned(), asked));
            }
            (reason, asked) => reason.or(asked),
        };
        let Some(reason) = reason else {
            return Ok(());
        };
        self.request_approval(ApprovalRequest {
            tool: tool.to_owned(),
            input: command.map_or(Value::Null, |line| json!({ "command": line })),
            deeds: vec![command.unwrap_or(tool).to_owned()],
            reason,
            phase: self.phase(),
            call_id: self.1.id.clone(),
        })
    }

    /// What `permissions` of the config says about the tool and the command of `call`.
    pub fn judge_rules(&self, call: &ToolCall) -> CallJudgement {
        self.0.policy.rules.judge(call.name(), call.command())
    }

    /// The user's hooks, if there are any.
    pub fn hooks(&self) -> Option<&HookRunner> {
        self.0.policy.hooks.as_ref()
    }

    /// What they have said of the call that this gate has let through.
    pub(super) fn hook_result(&self) -> Option<(&HookRunner, &CallHookResult)> {
        Some((self.hooks()?, self.1.hooked.as_ref()?))
    }

    /// When and where hooks are asked about a call.
    pub(super) fn hook_invocation(&self) -> HookInvocation<'_> {
        HookInvocation {
            phase: self.phase(),
            stage: self.overlay(),
            ended: &self.1.ended,
        }
    }

    /// The id of the call in its conversation.
    pub(super) fn call_id(&self) -> Option<&str> {
        self.1.id.as_deref()
    }

    /// Asks the user's hooks about a call that rules and grants let through.
    fn run_hooks(
        &self,
        told: Option<&(String, Value)>,
    ) -> std::result::Result<(CallHookResult, Option<ToolCall>), Denial> {
        let asked = (self.hooks(), self.hook_invocation());
        self.1.run_hooks(asked, told, &self.catalogue())
    }

    /// Asks a person. Without a yes, the call is denied.
    fn request_approval(&self, question: ApprovalRequest) -> std::result::Result<(), Denial> {
        let subject = question.tool.clone();
        let reason = question.reason.clone();
        let answer = match &self.0.policy.approver {
            Some(consult) => consult.request_approval(question, &self.1.ended),
            None => ApprovalDecision::Denied("nobody can be asked here".to_owned()),
        };
        match answer {
            ApprovalDecision::Approved => Ok(()),
            ApprovalDecision::Denied(why) => Err(by_rule(
                ASKED_BY_CONFIG,
                subject,
                format!("{reason}; {why}"),
            )),
        }
    }

    /// A command that would begin in the agent's workspace begins in the first directory that is
    /// open to the agent, where the workspace itself is not. Without any, relative paths are texts.
    fn with_open_start_dir(&self, mut call: ToolCall) -> ToolCall {
        if let ToolCall::ExecuteCommand { dir, .. } | ToolCall::StartBackgroundCommand { dir, .. } =
            &mut call
            && dir.as_str() == WORKSPACE
            && let Some(open) = self.command_start_dir()
        {
            *dir = open;
        }
        if let (ToolCall::CallServer(call), []) = (&mut call, self.0.manager.grants()) {
            call.drop_relative_paths();
        }
        call
    }

    /// Where relative paths begin.
    pub(super) fn base(&self) -> &RealPath {
        &self.0.policy.base
    }

    /// Whether the agent is held to the directories of a folder guard.
    pub fn is_guarded(&self) -> bool {
        self.0.policy.parents == ParentDirPolicy::Refused
    }

    /// Where commands begin, if that is not where relative paths do.
    pub(super) fn command_start_dir(&self) -> Option<UserPath> {
        let is_open = self.allows(&self.0.policy.base, Permission::Read);
        (!is_open).then(|| self.first_directory()).flatten()
    }

    /// The first directory that the agent may read; those that the user names come before those that
    /// massgen adds.
    pub(super) fn first_directory(&self) -> Option<UserPath> {
        let roots = self.roots();
        let trees = || roots.iter().filter(|root| root.scope == GrantScope::Tree);
        let named = trees().find(|root| root.kind == GrantKind::Context);
        let first = named.or_else(|| trees().next())?;
        UserPath::parse(first.path.as_path().to_str()?).ok()
    }

    /// Whether `permissions` of the config says anything of this agent's calls.
    fn has_call_rules(&self) -> bool {
        !self.0.policy.rules.is_empty() || !self.path_rules().is_empty()
    }

    /// Whether the agent may use servers.
    pub fn has_servers(&self) -> bool {
        self.0.policy.servers.is_some()
    }

    /// The tools of servers that the agent may use, as far as they are known.
    pub fn catalogue(&self) -> Arc<ToolCatalogue> {
        let servers = self.0.policy.servers.as_ref();
        servers.map(McpServers::catalogue).unwrap_or_default()
    }

    /// How the agent's commands are run; `None` if it may run none.
    pub fn commands(&self) -> Option<&ExecEnvironment> {
        self.0.policy.commands.as_ref()
    }

    /// Whether `call` looks through a directory in which something may not be read. massgen's own tools
    /// leave it out.
    pub fn crosses_hidden(&self, call: &ToolCall) -> bool {
        let searches = matches!(
            call,
            ToolCall::GrepFiles { .. }
                | ToolCall::SearchFiles { .. }
                | ToolCall::DirectoryTree { .. }
        );
        let from = call.accesses().into_iter().filter_map(|access| {
            let wanted = (access.wanted, access.link);
            self.resolve_path(access.path, wanted, CallApproval::Missing)
                .0
        });
        let from: Vec<RealPath> = from.collect();
        let is_below = |path: &AbsPath| folded::is_within_any(path, &from);
        let grants = self.0.manager.grants().iter();
        let mut hidden =
            grants.flat_map(|grant| grant.hidden.iter().map(|rel| grant.root.join(rel).to_abs()));
        let closes = |rule: &PathRule| {
            rule.blocks(Permission::Read) && rule.single_path().is_none_or(|path| is_below(&path))
        };
        searches && (hidden.any(|path| is_below(&path)) || self.path_rules().iter().any(closes))
    }

    /// What [`Gate::check`] would decide about each path of `call`, with the reasons.
    pub fn explain(&self, call: &ToolCall) -> Vec<PathVerdict> {
        let call = self.with_open_start_dir(call.clone());
        let accesses = call.accesses().into_iter();
        accesses.map(|access| self.verdict(&access)).collect()
    }

    /// The decision about one path, with its reason.
    pub fn verdict(&self, access: &RequestedAccess<'_>) -> PathVerdict {
        let wanted = (access.wanted, access.link);
        let (real, outcome) = self.resolve_path(access.path, wanted, CallApproval::Missing);
        let named = |grant: &Grant| (grant.root.clone(), grant.kind);
        let manager = &self.0.manager;
        let grant = real.as_ref().and_then(|real| {
            let decision = manager.decide(real, access.wanted);
            decision.grant().map(named)
        });
        let allowed = real.as_ref().filter(|_| outcome.is_ok());
        let agreeing = allowed.map(|real| manager.grants_in_other_spelling(real));
        PathVerdict {
            path: access.path.clone(),
            wanted: access.wanted,
            grant,
            agreeing: agreeing.into_iter().flatten().map(named).collect(),
            real,
            refusal: outcome.err(),
        }
    }

    /// What the agent was given, most specific first, with its permissions in this phase.
    pub fn roots(&self) -> Vec<GrantedRoot> {
        let now = |grant: &Grant| {
            let allows = |wanted| self.0.manager.allows(&grant.root, wanted);
            let permission = [Permission::Write, Permission::Read]
                .into_iter()
                .find(|wanted| allows(*wanted))?;
            Some(GrantedRoot {
                path: grant.root.clone(),
                kind: grant.kind,
                scope: grant.scope,
                permission,
            })
        };
        self.0.manager.grants().iter().filter_map(now).collect()
    }

    /// The phase that the gate decides for.
    pub fn phase(&self) -> Phase {
        self.0.manager.phase()
    }

    /// Whether the pure rules allow an access to a name that was found below a place.
    pub(super) fn allows(&self, path: &RealPath, wanted: Permission) -> bool {
        self.check_access(path, wanted).is_ok()
    }

    /// As [`Gate::allows`], with the grant that allows the access or the rule that denies it.
    pub(super) fn check_access(
        &self,
        path: &RealPath,
        wanted: Permission,
    ) -> std::result::Result<&Grant, AccessRefusal> {
        self.check_access_with(path, wanted, self.1.consent)
    }

    fn check_access_with(
        &self,
        path: &RealPath,
        wanted: Permission,
        consent: CallApproval,
    ) -> std::result::Result<&Grant, AccessRefusal> {
        match self.0.manager.decide_with_approval(path, wanted, consent) {
            PermissionDecision::Allow { grant } => Ok(grant),
            PermissionDecision::Deny(DenyReason::OutsideGrants) => Err(AccessRefusal::outside()),
            PermissionDecision::Deny(DenyReason::Lowered { rule, .. }) => {
                Err(self.lowering_refusal(rule, path, wanted))
            }
        }
    }

    /// That a rule lowers what a grant gives; of a rule of the config, which one.
    fn lowering_refusal(
        &self,
        rule: &PermissionRule,
        path: &RealPath,
        wanted: Permission,
    ) -> AccessRefusal {
        let ruling = match rule.name {
            DENIED_BY_CONFIG => RuleAction::Deny,
            ASKED_BY_CONFIG => RuleAction::Ask,
            _ => return AccessRefusal::new(rule.name, rule.because),
        };
        match matching_rule(self.path_rules(), ruling, (path, wanted)) {
            Some(written) => {
                AccessRefusal::new(rule.name, format!("{}: `{written}`", rule.because))
            }
            None => AccessRefusal::new(rule.name, rule.because),
        }
    }

    /// The most specific grant that reaches `path`.
    pub(super) fn most_specific_grant(&self, path: &RealPath) -> Option<&Grant> {
        let mut grants = self.0.manager.grants().iter();
        grants.find(|grant| grant.relative_path(path).is_some())
    }

    /// The pure rules.
    pub fn manager(&self) -> &PathPermissionManager {
        &self.0.manager
    }

    /// What stands where the grants were opened, by the path that it had then.
    pub(super) fn identities(
        &self,
    ) -> std::result::Result<BTreeMap<AbsPath, FileIdentity>, FileSystemError> {
        let identity = |open: &Arc<OpenGrant>| {
            let stage = self.overlay();
            let meta = match stage.and_then(|stage| stage.hidden_metadata(open.root())) {
                Some(users) => users,
                None => FileMetadata::from_handle(open.directory())?,
            };
            let FileFingerprint { device, inode, .. } = meta.version;
            Ok((open.root().to_abs(), FileIdentity { device, inode }))
        };
        self.0.grants.iter().map(identity).collect()
    }

    /// What stands in the place of the write paths, if something does.
    pub(super) fn overlay(&self) -> Option<&WriteOverlay> {
        self.0.policy.overlay.as_ref()
    }

    /// The root of the grant of the whole tree `root`, if it may be written to.
    pub(super) fn writable_tree(&self, root: &AbsPath) -> Option<ResolvedPath> {
        let is_meant = |open: &&Arc<OpenGrant>| {
            let grant = open.grant();
            grant.scope == GrantScope::Tree && grant.root.as_path() == root.as_path()
        };
        let grant = self.0.grants.iter().find(is_meant)?;
        let real = grant.grant().root.clone();
        self.allows(&real, Permission::Write).then(|| ResolvedPath {
            grant: Arc::clone(grant),
            rel: RelPath::default(),
            real,
        })
    }

    /// What `permissions` of the config says about paths.
    pub(super) fn path_rules(&self) -> &[PathRule] {
        let first = self.0.manager.grants().first();
        first.map_or(&[], |grant| &grant.ruled)
    }

    /// The roots of the trees that may be read.
    pub(super) fn trees(&self) -> Vec<ResolvedPath> {
        let open = self.0.grants.iter().filter(|open| {
            let grant = open.grant();
            grant.scope == GrantScope::Tree && self.allows(&grant.root, Permission::Read)
        });
        let place = |open: &Arc<OpenGrant>| ResolvedPath {
            grant: Arc::clone(open),
            rel: RelPath::default(),
            real: open.grant().root.clone(),
        };
        open.map(place).collect()
    }

    /// A directory of massgen's in which files may wait for a moment, so that a process that is
    /// killed leaves nothing in the user's tree.
    pub(super) fn staging_dir(&self) -> Option<&DirectoryHandle> {
        self.0.aside.as_ref()
    }

    /// What the agent is held to beside the grants.
    pub(super) fn policy(&self) -> &GatePolicy {
        &self.0.policy
    }

    /// What the agent has read and made.
    pub(super) fn history(&self) -> MutexGuard<'_, AccessHistory> {
        let history = &self.0.policy.history;
        history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what stands at `place`, if it is the user's and the agent may write to it.
    pub(super) fn record_base(
        &self,
        place: &ResolvedPath,
        seen: &FileFingerprint,
        occasion: FileAccessReason,
    ) {
        let grant = place.grant();
        if let Some(bases) = &self.0.policy.bases
            && (grant.kind, grant.permission) == (GrantKind::Context, Permission::Write)
        {
            bases.record(place.real(), seen, occasion);
        }
    }

    /// Where `path` leads as far as it can be followed, and the place if the access is allowed.
    fn resolve_path(
        &self,
        path: &UserPath,
        (wanted, link): (Permission, FinalLink),
        consent: CallApproval,
    ) -> (
        Option<RealPath>,
        std::result::Result<ResolvedPath, AccessRefusal>,
    ) {
        let mut names = path.as_str().split(['/', '\\']);
        let path = Path::new(path.as_str());
        if names.any(|name| name == "..") && self.0.policy.parents == ParentDirPolicy::Refused {
            let refusal = AccessRefusal::new("parent-names", "`..` is not taken in a path");
            return (None, Err(refusal));
        }
        let (real, obstacle) = match follow_path(&self.0.ground, path, link) {
            Ok(FollowedPath::Place(real)) => (real, None),
            Ok(FollowedPath::Stuck(real, obstacle)) => (real, Some(obstacle)),
            Ok(FollowedPath::Nowhere) => return (None, Err(AccessRefusal::outside())),
            Err(fault) => {
                let refusal = AccessRefusal::new("not-followed", fault.to_string());
                return (None, Err(refusal));
            }
        };
        let mut outcome = self.decide(&real, (wanted, link), consent);
        if let (Ok(_), Some(obstacle)) = (&outcome, obstacle) {
            outcome = Err(AccessRefusal::new("not-followed", obstacle.to_string()));
        }
        (Some(real), outcome)
    }

    fn decide(
        &self,
        real: &RealPath,
        (wanted, link): (Permission, FinalLink),
        consent: CallApproval,
    ) -> std::result::Result<ResolvedPath, AccessRefusal> {
        let manager = &self.0.manager;
        let grant = self.check_access_with(real, wanted, consent)?;
        let is_root = manager.is_a_root(real) || manager.contains_grant_root(real);
        if wanted == Permission::Write && link == FinalLink::Itself && is_root {
            let reason = "it is, or holds, a directory that was given to you as a whole";
            return Err(AccessRefusal::new("grant-root", reason));
        }
        let pairs = manager.grants().iter().zip(&self.0.grants);
        let mut open = pairs.filter(|(listed, _)| std::ptr::eq(*listed, grant));
        match (open.next(), grant.relative_path(real)) {
            (Some((_, open)), Some(below)) => Ok(ResolvedPath {
                grant: Arc::clone(open),
                rel: below,
                real: real.clone(),
            }),
            _ => Err(AccessRefusal::outside()),
        }
    }

    fn deny(&self, path: &UserPath, wanted: Permission, refusal: AccessRefusal) -> Denial {
        let roots = self.roots().into_iter();
        Denial {
            refused: DeniedSubject::Access {
                path: path.as_str().to_owned(),
                wanted,
                roots: roots
                    .filter(|root| root.permission >= wanted)
                    .map(|root| root.path)
                    .collect(),
            },
            rule: refusal.rule,
            reason: refusal.reason,
        }
    }
}

/// Why a person is asked about a path.
fn ask_reason(rule: &PathRule) -> String {
    format!("`permissions` has a person asked first: `{rule}`")
}
