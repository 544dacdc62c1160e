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

use crate::call_rules::judge::Judgement;
use crate::confinement::Identity;
use crate::error::Result;
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase, Scope};
use crate::permissions::history::{History, Version};
use crate::permissions::path_rules::{Consent, PathRule, Ruling, speaking};
use crate::permissions::rules::{ASKED_BY_CONFIG, DENIED_BY_CONFIG, Rule};
use crate::permissions::{Decision, DenyReason, PathPermissionManager, folded};
use crate::tools::call::{Access, FinalLink, ToolCall, UserPath, WORKSPACE};
use crate::tools::served::Catalogue;
use crate::world::admission::admit;
use crate::world::bases::Occasion;
use crate::world::calling::{Calling, CarriedOut, DENIED_BY_HOOK, Hooked};
use crate::world::commands::Commands;
use crate::world::consultation::{Answer, Question, told, whole};
use crate::world::hooks::{Hooks, Moment};
use crate::world::mcp::Servers;
use crate::world::policy::{GatePolicy, ParentNames, cannot_open};
use crate::world::stage::Stage;
use crate::world::sys::dir::Dir;
use crate::world::sys::fault::Fault;
use crate::world::sys::follow::{Followed, Ground, follow};
use crate::world::sys::grant::{OpenGrant, directory};
use crate::world::sys::meta::Meta;
use crate::world::verdict::{Denial, Refusal, Refused, Root, Verdict, by_rule};

/// The gate of one agent in one phase. A clone is the same gate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Inner>, Calling);

#[derive(Debug)]
struct Inner {
    manager: PathPermissionManager,
    /// The manager's grants in its order, opened.
    grants: Vec<Arc<OpenGrant>>,
    /// Where paths are followed.
    ground: Ground,
    /// Where a file waits for a moment before it is put in its place or removed.
    aside: Option<Dir>,
    policy: GatePolicy,
}

/// What was decided to happen: the call with every path as a place beneath an open grant.
pub type Action = ToolCall<Place>;

/// Where a path of an action leads. Nothing in it is resolved again from a text.
#[derive(Clone, Debug)]
pub struct Place {
    grant: Arc<OpenGrant>,
    rel: RelPath,
    real: RealPath,
}

impl Place {
    /// The directory handle beneath which the place is opened.
    pub(super) fn dir(&self) -> &Dir {
        self.grant.dir()
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
    pub(super) fn at(&self, rel: &RelPath) -> Self {
        Self {
            grant: Arc::clone(&self.grant),
            rel: self.rel.join(rel),
            real: self.real.join(rel),
        }
    }
}

/// A call whose places are open.
struct Placed {
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
        let open = |grant: &Grant| match opened(grant, policy.stage.as_ref()) {
            Ok(open) => Ok(Arc::new(open)),
            Err(fault) => Err(cannot_open(&grant.root, fault)),
        };
        let grants = manager
            .grants()
            .iter()
            .map(open)
            .collect::<Result<Vec<_>>>()?;
        let ground = ground(&policy).map_err(|fault| cannot_open(&policy.base, fault))?;
        let aside = aside(&policy);
        let inner = Inner {
            manager,
            grants,
            ground,
            aside,
            policy,
        };
        Ok(Self(Arc::new(inner), Calling::default()))
    }

    /// The same gate for the call `id` of a conversation; what is asked about it ends when `ended` is
    /// cancelled.
    #[must_use]
    pub fn for_call(&self, id: String, ended: CancellationToken) -> Self {
        self.calling(Calling {
            ended,
            id: Some(id),
            by: self.1.by,
            ..Calling::default()
        })
    }

    /// The same gate for calls that are made within this one, until `ended` is cancelled.
    pub(super) fn for_calls_within(&self, ended: CancellationToken) -> Self {
        self.calling(Calling {
            ended,
            hooked: None,
            ..self.1.clone()
        })
    }

    /// The same gate for another program, which carries its calls out itself.
    #[must_use]
    pub fn for_another_program(&self) -> Self {
        self.calling(Calling {
            by: CarriedOut::Elsewhere,
            ..self.1.clone()
        })
    }

    /// The same gate for a part of a call that hooks have let through.
    #[must_use]
    pub fn past_hooks(&self) -> Self {
        self.past(Hooked::default())
    }

    fn past(&self, hooked: Hooked) -> Self {
        self.calling(Calling {
            hooked: Some(hooked),
            ..self.1.clone()
        })
    }

    fn calling(&self, calling: Calling) -> Self {
        Self(Arc::clone(&self.0), calling)
    }

    /// Follows every path of `call` and asks the manager about it, then the user's hooks, and then
    /// whoever is to be asked. The call is used up either way.
    pub fn check(&self, call: ToolCall) -> std::result::Result<Permitted<Action>, Denial> {
        admit(&self.0.policy, &self.0.manager, &call)?;
        let asked = self.check_rules(&call)?;
        let call = self.begun_where_open(call);
        let told = self
            .is_told()
            .then(|| (call.name().to_owned(), call.input()));
        let deeds = call.command().map(str::to_owned).into_iter().collect();
        let placed = self.placed(call, (asked, deeds))?;
        let (hooked, changed) = self.ask_hooks(told.as_ref())?;
        if let Some(changed) = changed {
            return self.past(hooked).check(changed);
        }
        if let Some(reason) = placed.asked.or_else(|| hooked.asked.clone()) {
            let (tool, input) = told.unwrap_or_default();
            let mut deeds = placed.deeds;
            // What a server does with its arguments, nobody knows.
            if deeds.is_empty() || matches!(placed.action, ToolCall::CallServer(_)) {
                deeds.push(whole(&input));
            }
            let question = Question {
                tool,
                input,
                deeds,
                reason,
                phase: self.phase(),
                call_id: self.1.id.clone(),
            };
            self.ask_person(question)?;
        }
        let consent = match placed.to_agree.as_slice() {
            [] => Consent::Missing,
            [_, ..] => Consent::Given,
        };
        for path in placed.to_agree {
            self.history().agree(path);
        }
        let calling = Calling {
            consent,
            hooked: Some(hooked),
            ..self.1.clone()
        };
        Ok(Permitted {
            action: placed.action,
            gate: self.calling(calling),
        })
    }

    /// Follows every path of `call` and asks the manager about it. `asked` says why a person is asked
    /// anyway, and `deeds` what is known of what it would do.
    fn placed(
        &self,
        call: ToolCall,
        (mut asked, mut deeds): (Option<String>, Vec<String>),
    ) -> std::result::Result<Placed, Denial> {
        let is_told = self.is_told();
        // What a command changes is not known before it runs: for it, what is asked is closed.
        let consent = if call.is_about_commands() {
            Consent::Missing
        } else {
            Consent::Given
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
                let (_, outcome) = self.place(&path, (wanted, link), consent);
                let place = outcome.map_err(|refusal| self.deny(&path, wanted, refusal))?;
                if is_told {
                    deeds.push(format!("{wanted} {}", told(place.real(), place.grant())));
                }
                let here = (place.real(), wanted);
                if consent == Consent::Given
                    && let Some(rule) = speaking(self.path_rules(), Ruling::Ask, here)
                {
                    to_agree.push(place.real().clone());
                    asked.get_or_insert_with(|| asked_by(rule));
                }
                Ok(place)
            }
            _ => Err(self.deny(&path, Permission::Write, Refusal::outside())),
        })?;
        Ok(Placed {
            action,
            asked,
            deeds,
            to_agree,
        })
    }

    /// Whether somebody may have to be told what a call would do.
    fn is_told(&self) -> bool {
        self.is_ruled() || self.hooks().is_some()
    }

    /// Asks `permissions` of the config about the tool and the command of `call`. Gives the reason why
    /// a person has to be asked, if so.
    fn check_rules(&self, call: &ToolCall) -> std::result::Result<Option<String>, Denial> {
        match self.judged(call) {
            Judgement::Silent | Judgement::Allowed => Ok(None),
            Judgement::Asked(spoken) => Ok(Some(spoken.reason)),
            Judgement::Denied(spoken) => {
                Err(by_rule(DENIED_BY_CONFIG, spoken.subject, spoken.reason))
            }
        }
    }

    /// Asks `permissions` of the config about another program's tool, and about what it gives to the
    /// shell; and then a person, where there is one who can be asked.
    pub fn check_foreign(
        &self,
        tool: &str,
        command: Option<&str>,
    ) -> std::result::Result<(), Denial> {
        let reason = match self.0.policy.rules.judge(tool, command) {
            Judgement::Silent | Judgement::Allowed => None,
            Judgement::Asked(spoken) if self.0.policy.consult.is_none() => {
                return Err(by_rule(ASKED_BY_CONFIG, spoken.subject, spoken.reason));
            }
            Judgement::Asked(spoken) => Some(spoken.reason),
            Judgement::Denied(spoken) => {
                return Err(by_rule(DENIED_BY_CONFIG, spoken.subject, spoken.reason));
            }
        };
        // About what is no command, they are asked with the call that it stands for.
        let told = command.map(|line| (tool.to_owned(), json!({ "command": line })));
        let (hooked, _) = self.ask_hooks(told.as_ref())?;
        let reason = match (reason, hooked.asked) {
            (_, Some(asked)) if self.0.policy.consult.is_none() => {
                return Err(by_rule(DENIED_BY_HOOK, tool.to_owned(), asked));
            }
            (reason, asked) => reason.or(asked),
        };
        let Some(reason) = reason else {
            return Ok(());
        };
        self.ask_person(Question {
            tool: tool.to_owned(),
            input: command.map_or(Value::Null, |line| json!({ "command": line })),
            deeds: vec![command.unwrap_or(tool).to_owned()],
            reason,
            phase: self.phase(),
            call_id: self.1.id.clone(),
        })
    }

    /// What `permissions` of the config says about the tool and the command of `call`.
    pub fn judged(&self, call: &ToolCall) -> Judgement {
        self.0.policy.rules.judge(call.name(), call.command())
    }

    /// The user's hooks, if there are any.
    pub fn hooks(&self) -> Option<&Hooks> {
        self.0.policy.hooks.as_ref()
    }

    /// What they have said of the call that this gate has let through.
    pub(super) fn hooked(&self) -> Option<(&Hooks, &Hooked)> {
        Some((self.hooks()?, self.1.hooked.as_ref()?))
    }

    /// When and where hooks are asked about a call.
    pub(super) fn moment(&self) -> Moment<'_> {
        Moment {
            phase: self.phase(),
            stage: self.stage(),
            ended: &self.1.ended,
        }
    }

    /// The id of the call in its conversation.
    pub(super) fn call_id(&self) -> Option<&str> {
        self.1.id.as_deref()
    }

    /// Asks the user's hooks about a call that rules and grants let through.
    fn ask_hooks(
        &self,
        told: Option<&(String, Value)>,
    ) -> std::result::Result<(Hooked, Option<ToolCall>), Denial> {
        let asked = (self.hooks(), self.moment());
        self.1.ask_hooks(asked, told, &self.catalogue())
    }

    /// Asks a person. Without a yes, the call is denied.
    fn ask_person(&self, question: Question) -> std::result::Result<(), Denial> {
        let subject = question.tool.clone();
        let reason = question.reason.clone();
        let answer = match &self.0.policy.consult {
            Some(consult) => consult.ask(question, &self.1.ended),
            None => Answer::Refused("nobody can be asked here".to_owned()),
        };
        match answer {
            Answer::Agreed => Ok(()),
            Answer::Refused(why) => Err(by_rule(
                ASKED_BY_CONFIG,
                subject,
                format!("{reason}; {why}"),
            )),
        }
    }

    /// A command that would begin in the agent's workspace begins in the first directory that is
    /// open to the agent, where the workspace itself is not. Without any, relative paths are texts.
    fn begun_where_open(&self, mut call: ToolCall) -> ToolCall {
        if let ToolCall::ExecuteCommand { dir, .. } | ToolCall::StartBackgroundCommand { dir, .. } =
            &mut call
            && dir.as_str() == WORKSPACE
            && let Some(open) = self.commands_begin()
        {
            *dir = open;
        }
        if let (ToolCall::CallServer(call), []) = (&mut call, self.0.manager.grants()) {
            call.forget_relative();
        }
        call
    }

    /// Where relative paths begin.
    pub(super) fn base(&self) -> &RealPath {
        &self.0.policy.base
    }

    /// Whether the agent is held to the directories of a folder guard.
    pub fn is_guarded(&self) -> bool {
        self.0.policy.parents == ParentNames::Refused
    }

    /// Where commands begin, if that is not where relative paths do.
    pub(super) fn commands_begin(&self) -> Option<UserPath> {
        let is_open = self.allows(&self.0.policy.base, Permission::Read);
        (!is_open).then(|| self.first_directory()).flatten()
    }

    /// The first directory that the agent may read; those that the user names come before those that
    /// massgen adds.
    pub(super) fn first_directory(&self) -> Option<UserPath> {
        let roots = self.roots();
        let trees = || roots.iter().filter(|root| root.scope == Scope::Tree);
        let named = trees().find(|root| root.kind == GrantKind::Context);
        let first = named.or_else(|| trees().next())?;
        UserPath::parse(first.path.as_path().to_str()?).ok()
    }

    /// Whether `permissions` of the config says anything of this agent's calls.
    fn is_ruled(&self) -> bool {
        !self.0.policy.rules.is_empty() || !self.path_rules().is_empty()
    }

    /// Whether the agent may use servers.
    pub fn has_servers(&self) -> bool {
        self.0.policy.servers.is_some()
    }

    /// The tools of servers that the agent may use, as far as they are known.
    pub fn catalogue(&self) -> Arc<Catalogue> {
        let servers = self.0.policy.servers.as_ref();
        servers.map(Servers::catalogue).unwrap_or_default()
    }

    /// How the agent's commands are run; `None` if it may run none.
    pub fn commands(&self) -> Option<&Commands> {
        self.0.policy.commands.as_ref()
    }

    /// Whether `call` looks through a directory in which something may not be read. massgen's own tools
    /// leave it out.
    pub fn goes_past_closed(&self, call: &ToolCall) -> bool {
        let searches = matches!(
            call,
            ToolCall::GrepFiles { .. }
                | ToolCall::SearchFiles { .. }
                | ToolCall::DirectoryTree { .. }
        );
        let from = call.accesses().into_iter().filter_map(|access| {
            let wanted = (access.wanted, access.link);
            self.place(access.path, wanted, Consent::Missing).0
        });
        let from: Vec<RealPath> = from.collect();
        let is_below = |path: &AbsPath| folded::is_within_any(path, &from);
        let grants = self.0.manager.grants().iter();
        let mut hidden =
            grants.flat_map(|grant| grant.hidden.iter().map(|rel| grant.root.join(rel).to_abs()));
        let closes = |rule: &PathRule| {
            rule.closes(Permission::Read) && rule.named().is_none_or(|path| is_below(&path))
        };
        searches && (hidden.any(|path| is_below(&path)) || self.path_rules().iter().any(closes))
    }

    /// What [`Gate::check`] would decide about each path of `call`, with the reasons.
    pub fn explain(&self, call: &ToolCall) -> Vec<Verdict> {
        let call = self.begun_where_open(call.clone());
        let accesses = call.accesses().into_iter();
        accesses.map(|access| self.verdict(&access)).collect()
    }

    /// The decision about one path, with its reason.
    pub fn verdict(&self, access: &Access<'_>) -> Verdict {
        let wanted = (access.wanted, access.link);
        let (real, outcome) = self.place(access.path, wanted, Consent::Missing);
        let speaking = real.as_ref().and_then(|real| self.speaking_for(real));
        Verdict {
            path: access.path.clone(),
            wanted: access.wanted,
            grant: speaking.map(|grant| (grant.root.clone(), grant.kind)),
            real,
            refusal: outcome.err(),
        }
    }

    /// What the agent was given, most specific first, with its permissions in this phase.
    pub fn roots(&self) -> Vec<Root> {
        let now = |grant: &Grant| {
            let allows = |wanted| self.0.manager.allows(&grant.root, wanted);
            let permission = [Permission::Write, Permission::Read]
                .into_iter()
                .find(|wanted| allows(*wanted))?;
            Some(Root {
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
        self.ask(path, wanted).is_ok()
    }

    /// As [`Gate::allows`], with the grant that allows the access or the rule that denies it.
    pub(super) fn ask(
        &self,
        path: &RealPath,
        wanted: Permission,
    ) -> std::result::Result<&Grant, Refusal> {
        self.ask_with(path, wanted, self.1.consent)
    }

    fn ask_with(
        &self,
        path: &RealPath,
        wanted: Permission,
        consent: Consent,
    ) -> std::result::Result<&Grant, Refusal> {
        match self.0.manager.decide_with(path, wanted, consent) {
            Decision::Allow { grant } => Ok(grant),
            Decision::Deny(DenyReason::OutsideGrants) => Err(Refusal::outside()),
            Decision::Deny(DenyReason::Lowered { rule, .. }) => {
                Err(self.lowered(rule, path, wanted))
            }
        }
    }

    /// That a rule lowers what a grant gives; of a rule of the config, which one.
    fn lowered(&self, rule: &Rule, path: &RealPath, wanted: Permission) -> Refusal {
        let ruling = match rule.name {
            DENIED_BY_CONFIG => Ruling::Deny,
            ASKED_BY_CONFIG => Ruling::Ask,
            _ => return Refusal::new(rule.name, rule.because),
        };
        match speaking(self.path_rules(), ruling, (path, wanted)) {
            Some(written) => Refusal::new(rule.name, format!("{}: `{written}`", rule.because)),
            None => Refusal::new(rule.name, rule.because),
        }
    }

    /// The most specific grant that reaches `path`.
    pub(super) fn speaking_for(&self, path: &RealPath) -> Option<&Grant> {
        let mut grants = self.0.manager.grants().iter();
        grants.find(|grant| grant.reach(path).is_some())
    }

    /// The pure rules.
    pub fn manager(&self) -> &PathPermissionManager {
        &self.0.manager
    }

    /// What stands where the grants were opened, by the path that it had then.
    pub(super) fn identities(&self) -> std::result::Result<BTreeMap<AbsPath, Identity>, Fault> {
        let identity = |open: &Arc<OpenGrant>| {
            let stage = self.stage();
            let meta = match stage.and_then(|stage| stage.unseen(open.root())) {
                Some(users) => users,
                None => Meta::of(open.dir())?,
            };
            let Version { device, inode, .. } = meta.version;
            Ok((open.root().to_abs(), Identity { device, inode }))
        };
        self.0.grants.iter().map(identity).collect()
    }

    /// What stands in the place of the write paths, if something does.
    pub(super) fn stage(&self) -> Option<&Stage> {
        self.0.policy.stage.as_ref()
    }

    /// The root of the grant of the whole tree `root`, if it may be written to.
    pub(super) fn writable_tree(&self, root: &AbsPath) -> Option<Place> {
        let is_meant = |open: &&Arc<OpenGrant>| {
            let grant = open.grant();
            grant.scope == Scope::Tree && grant.root.as_path() == root.as_path()
        };
        let grant = self.0.grants.iter().find(is_meant)?;
        let real = grant.grant().root.clone();
        self.allows(&real, Permission::Write).then(|| Place {
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
    pub(super) fn trees(&self) -> Vec<Place> {
        let open = self.0.grants.iter().filter(|open| {
            let grant = open.grant();
            grant.scope == Scope::Tree && self.allows(&grant.root, Permission::Read)
        });
        let place = |open: &Arc<OpenGrant>| Place {
            grant: Arc::clone(open),
            rel: RelPath::default(),
            real: open.grant().root.clone(),
        };
        open.map(place).collect()
    }

    /// A directory of massgen's in which files may wait for a moment, so that a process that is
    /// killed leaves nothing in the user's tree.
    pub(super) fn aside(&self) -> Option<&Dir> {
        self.0.aside.as_ref()
    }

    /// What the agent is held to beside the grants.
    pub(super) fn policy(&self) -> &GatePolicy {
        &self.0.policy
    }

    /// What the agent has read and made.
    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        let history = &self.0.policy.history;
        history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what stands at `place`, if it is the user's and the agent may write to it.
    pub(super) fn note_base(&self, place: &Place, seen: &Version, occasion: Occasion) {
        let grant = place.grant();
        if let Some(bases) = &self.0.policy.bases
            && (grant.kind, grant.permission) == (GrantKind::Context, Permission::Write)
        {
            bases.note(place.real(), seen, occasion);
        }
    }

    /// Where `path` leads as far as it can be followed, and the place if the access is allowed.
    fn place(
        &self,
        path: &UserPath,
        (wanted, link): (Permission, FinalLink),
        consent: Consent,
    ) -> (Option<RealPath>, std::result::Result<Place, Refusal>) {
        let mut names = path.as_str().split(['/', '\\']);
        let path = Path::new(path.as_str());
        if names.any(|name| name == "..") && self.0.policy.parents == ParentNames::Refused {
            let refusal = Refusal::new("parent-names", "`..` is not taken in a path");
            return (None, Err(refusal));
        }
        let (real, obstacle) = match follow(&self.0.ground, path, link) {
            Ok(Followed::Place(real)) => (real, None),
            Ok(Followed::Stuck(real, obstacle)) => (real, Some(obstacle)),
            Ok(Followed::Nowhere) => return (None, Err(Refusal::outside())),
            Err(fault) => {
                let refusal = Refusal::new("not-followed", fault.to_string());
                return (None, Err(refusal));
            }
        };
        let mut outcome = self.decide(&real, (wanted, link), consent);
        if let (Ok(_), Some(obstacle)) = (&outcome, obstacle) {
            outcome = Err(Refusal::new("not-followed", obstacle.to_string()));
        }
        (Some(real), outcome)
    }

    fn decide(
        &self,
        real: &RealPath,
        (wanted, link): (Permission, FinalLink),
        consent: Consent,
    ) -> std::result::Result<Place, Refusal> {
        let manager = &self.0.manager;
        let grant = self.ask_with(real, wanted, consent)?;
        let is_root = manager.is_a_root(real) || manager.holds_a_root(real);
        if wanted == Permission::Write && link == FinalLink::Itself && is_root {
            let reason = "it is, or holds, a directory that was given to you as a whole";
            return Err(Refusal::new("grant-root", reason));
        }
        let pairs = manager.grants().iter().zip(&self.0.grants);
        let mut open = pairs.filter(|(listed, _)| std::ptr::eq(*listed, grant));
        match (open.next(), grant.reach(real)) {
            (Some((_, open)), Some(below)) => Ok(Place {
                grant: Arc::clone(open),
                rel: below,
                real: real.clone(),
            }),
            _ => Err(Refusal::outside()),
        }
    }

    fn deny(&self, path: &UserPath, wanted: Permission, refusal: Refusal) -> Denial {
        let roots = self.roots().into_iter();
        Denial {
            refused: Refused::Access {
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
fn asked_by(rule: &PathRule) -> String {
    format!("`permissions` has a person asked first: `{rule}`")
}

/// A grant with its handle: on the machine, or on the stage.
fn opened(grant: &Grant, stage: Option<&Stage>) -> std::result::Result<OpenGrant, Fault> {
    let path = directory(grant)?;
    match stage.and_then(|stage| stage.dir(&path, grant.scope)) {
        Some(staged) => OpenGrant::staged(grant.clone(), staged?),
        None => OpenGrant::open(grant.clone()),
    }
}

/// Where the paths of an agent are followed.
fn ground(policy: &GatePolicy) -> std::result::Result<Ground, Fault> {
    let stage = policy.stage.as_ref();
    match stage.and_then(|stage| stage.ground(&policy.base)) {
        Some(world) => world,
        None => Dir::open(&policy.base).map(Ground::Machine),
    }
}

/// Where files wait for a moment. Without such a directory they wait beside their places.
fn aside(policy: &GatePolicy) -> Option<Dir> {
    match (&policy.conflicts, &policy.commands) {
        (Some(conflicts), _) => Dir::open(&conflicts.kept_in).ok(),
        (None, Some(commands)) => Dir::own(commands.room().root()).ok(),
        (None, None) => None,
    }
}
