//! Owns the members of a run: each agent's grants, tools, texts and model, put together once. The
//! same values feed a dry run, so that what it shows is what would be sent.

mod seating;
pub mod serving;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::Sender;

use crate::agent::account::Account;
use crate::agent::memory::Memory;
use crate::agent::{Mind, emit};
use crate::backend::Model;
use crate::backend::conversation::Conversation;
use crate::brief::commands::{Held, Shell};
use crate::brief::{self, Makes, Standing};
use crate::call_rules::CallRules;
use crate::config::checks::Checks;
use crate::config::command_line::{CommandLineConfig, ExecutionMode};
use crate::config::programs::ProgramsConfig;
use crate::config::{AgentConfig, Config};
use crate::confinement::network::Network;
use crate::confinement::tier::{Tier, TierChoice};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::hooks::request::Setting;
use crate::id::{AgentId, AgentNumber};
use crate::layout::{Layout, RunName};
use crate::orchestrator::asking::Asker;
use crate::orchestrator::coordinate::Participant;
use crate::orchestrator::examiner::{Candidate, Examiner};
use crate::orchestrator::grants::{self, ContextGrants, Inherited, ruled};
use crate::orchestrator::hooks::{self, HookGround, Unrecorded};
use crate::orchestrator::review::Deliveries;
use crate::orchestrator::shells::{Machine, Programmer, Runner, Runners, Shells};
use crate::orchestrator::team::serving::{ServerGround, Serving, servings, unmatched};
use crate::orchestrator::wings::{Performance, Rest, Wings};
use crate::path::AbsPath;
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::permissions::guard::FolderGuard;
use crate::permissions::history::History;
use crate::programs::offer;
use crate::spending::ledger::Ledger;
use crate::tools::menu::{Commands as OfferedCommands, Directories, Menu};
use crate::tools::spec::ToolOffer;
use crate::tools::workflow;
use crate::world::commands::Commands;
use crate::world::delivery::store::Delivery;
use crate::world::exec::served;
use crate::world::gate::Gate;
use crate::world::hooks::{Held as HooksHeld, Hooks};
use crate::world::mcp::{Known, Pool};
use crate::world::policy::{Conflicts, GatePolicy, ParentNames};
use crate::world::programs::Programs;
use crate::world::stage::Stage;

/// One agent with all that it works with.
#[derive(Debug)]
pub struct Member {
    /// Its own name.
    pub id: AgentId,
    /// Its anonymous name.
    pub number: AgentNumber,
    /// Its workspace, if it has one.
    pub workspace: Option<AbsPath>,
    /// Everything that is opened for it, in both phases.
    pub grants: Vec<Grant>,
    /// What the config says about it.
    pub config: AgentConfig,
    /// What `permissions` says about its commands and tools.
    rules: Arc<CallRules>,
    /// How checks on its work are run.
    checks: CommandLineConfig,
    /// How hooks about it are run.
    hooks: CommandLineConfig,
    /// What holds its programs, if it works by them.
    programs: Option<CommandLineConfig>,
    /// Its servers.
    servers: Vec<Serving>,
    history: Arc<Mutex<History>>,
}

impl Member {
    /// The user's paths that it writes to, with what people have agreed to meanwhile.
    pub fn write_grants(&self) -> Vec<Grant> {
        let agreed = self
            .history
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .agreed();
        let with_consent = |grant: &Grant| Grant {
            ruled: grant
                .ruled
                .iter()
                .map(|rule| rule.once_agreed(&agreed))
                .collect(),
            ..grant.clone()
        };
        let roots = grants::write_roots(&self.grants).into_iter();
        roots.map(with_consent).collect()
    }

    /// What it can make in its workspace.
    fn makes(&self) -> Makes {
        let is_own = |grant: &Grant| {
            grant.kind == GrantKind::Workspace && grant.permission == Permission::Write
        };
        if self.grants.iter().any(is_own) {
            Makes::Files
        } else {
            Makes::Nothing
        }
    }

    /// Where relative paths of its calls begin, if its guard or its workspace says so.
    fn begins_at(&self) -> Option<AbsPath> {
        let workspace = self.workspace.as_ref();
        match self.config.folder_guard.opened(workspace) {
            Some(guarded) => guarded.root,
            None => workspace.cloned(),
        }
    }
}

/// The members of a run in registration order.
#[derive(Debug)]
pub struct Team {
    /// The members.
    pub members: Vec<Member>,
    config: Config,
    base: AbsPath,
    conflicts: Option<Conflicts>,
    reach: Reach,
    shells: Option<Shells>,
    server_ground: Option<ServerGround>,
    /// What the servers of the run have said of their tools.
    known: Known,
    /// The servers that members share.
    pool: Pool,
    deliveries: Option<Deliveries>,
    wings: Option<Wings>,
    asker: Option<Asker>,
    hook_ground: Option<HookGround>,
    /// What has been said of servers: they start anew for each phase, and say it again.
    said: Mutex<BTreeSet<String>>,
}

/// How far the final agent reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// It writes what the grants open for writing.
    Delivers,
    /// It writes nothing of the user's: a run that is played again delivers nothing.
    OnlyReads,
}

impl Team {
    /// Follows all paths and puts the team together. Nothing is created and nobody is called.
    pub fn assemble(
        config: &Config,
        layout: &Layout,
        base: &AbsPath,
        inherited: Inherited<'_>,
    ) -> Result<Self> {
        let context = ContextGrants::follow(config, layout, inherited)?;
        let mut sorted: Vec<&AgentId> = config.agents.iter().map(|agent| &agent.id).collect();
        sorted.sort();
        let shares_files = config.agents.iter().any(|agent| agent.cwd.is_some());
        let temp = shares_files.then_some(&layout.temp_workspaces);
        let mut members = Vec::new();
        for agent in &config.agents {
            let index = sorted
                .iter()
                .position(|id| **id == agent.id)
                .unwrap_or_default();
            let workspace = layout
                .workspaces
                .get(&agent.id)
                .map(|workspace| workspace.path.clone());
            members.push(Member {
                id: agent.id.clone(),
                number: AgentNumber::from_index(index),
                grants: ruled(
                    seating::held_back(agent, context.of_agent(agent, workspace.as_ref(), temp)?),
                    &agent.permissions.rules,
                    base,
                )?,
                rules: Arc::new(agent.permissions.rules.clone()),
                workspace,
                config: agent.clone(),
                checks: for_checks(agent.commands.as_ref(), config.checks.sandbox),
                hooks: for_hooks(agent.commands.as_ref()),
                programs: agent.programs.as_ref().map(ProgramsConfig::held),
                servers: servings(agent),
                history: Arc::default(),
            });
        }
        let (config, base) = (config.clone(), base.clone());
        Ok(Self {
            members,
            config,
            base,
            conflicts: None,
            reach: Reach::Delivers,
            shells: None,
            server_ground: None,
            known: Known::default(),
            pool: Pool::default(),
            deliveries: None,
            wings: None,
            asker: None,
            hook_ground: None,
            said: Mutex::default(),
        })
    }

    /// From now on a final agent does not replace what the user changed since the run began.
    pub fn watch_conflicts(&mut self, conflicts: Conflicts) {
        self.conflicts = Some(conflicts);
    }

    /// From now on what the final agent offers is delivered so.
    pub fn deliver_by(&mut self, deliveries: Deliveries) {
        self.deliveries = Some(deliveries);
    }

    /// Begins the delivery of a final agent, if it delivers anything.
    pub async fn hold_delivery(&self) -> Result<Option<Arc<Delivery>>> {
        match self.delivers_by() {
            Some((how, _)) => how.begin().await.map(Some),
            None => Ok(None),
        }
    }

    /// How what the final agent offers is delivered, and the conflicts with what the user does
    /// meanwhile; `None` where nothing is.
    pub fn delivers_by(&self) -> Option<(&Deliveries, &Conflicts)> {
        match self.reach {
            Reach::Delivers => Some((self.deliveries.as_ref()?, self.conflicts.as_ref()?)),
            Reach::OnlyReads => None,
        }
    }

    /// Whose processes need something to run in.
    pub fn runners(&self) -> Runners<'_> {
        Runners {
            commands: self.commanders().collect(),
            checked: self.checked().collect(),
            programs: self.programmers().collect(),
            served: self.served().collect(),
            guests: self.guests().collect(),
            hooked: self.hooked().collect(),
        }
    }

    /// Those that hooks are asked about, and how these are run. Those of a run that is played again have
    /// answered.
    pub fn hooked(&self) -> impl Iterator<Item = Runner<'_>> {
        let members = self.members.iter();
        let members = members
            .filter(|member| self.reach == Reach::Delivers && !member.config.hooks.is_empty());
        members.map(|member| Runner {
            id: &member.id,
            config: &member.hooks,
            grants: &member.grants,
            workspace: member.workspace.as_ref().unwrap_or(&self.base),
        })
    }

    /// Refuses hooks that could not be run or are not the user's own.
    pub fn expect_hooks(&self, machine: &Machine) -> Result<()> {
        match self.reach {
            Reach::Delivers => hooks::expect(&self.members, &self.base, machine),
            Reach::OnlyReads => Ok(()),
        }
    }

    /// From now on what hooks say is told there.
    pub fn tell_of_hooks(&mut self, ground: HookGround) {
        self.hook_ground = Some(ground);
    }

    /// Where the files of a run of this team would lie.
    pub fn layout(&self, number: u32) -> Layout {
        Layout::plan(&self.config, &self.base, RunName::new(number))
    }

    /// The hooks about `member`, if there are any.
    pub fn hooks(&self, member: &Member) -> Result<Option<Hooks>> {
        if member.config.hooks.is_empty() || self.reach == Reach::OnlyReads {
            return Ok(None);
        }
        let commands = self
            .shells
            .as_ref()
            .and_then(|shells| shells.hooks(&member.id));
        let held = match commands {
            None => None,
            Some(commands) => Some(HooksHeld {
                commands: commands.clone(),
                readable: self.readable_for_hooks(member)?,
            }),
        };
        let ground = self.hook_ground.as_ref();
        let setting = Setting {
            session_id: ground.map(|ground| ground.session_id.clone()),
            project: grants::real(&self.base)?.to_abs(),
            agent: Some(member.id.clone()),
            workspace: member.workspace.clone(),
        };
        let witness = match ground {
            Some(ground) => ground.witness(&member.id),
            None => Arc::new(Unrecorded),
        };
        let listed = member.config.hooks.clone();
        Ok(Some(Hooks::new(listed, setting, held, witness)))
    }

    /// What hooks may read: the directory that massgen was started in, and what the agent may. They are
    /// the user's own, and rules about the agent's calls are not about them.
    fn readable_for_hooks(&self, member: &Member) -> Result<PathPermissionManager> {
        let project = grants::real(&self.base)?;
        let project = Grant::tree(project, GrantKind::Context, Permission::Read);
        let agents = member.grants.iter().map(|grant| Grant {
            permission: Permission::Read,
            ruled: Arc::default(),
            ..grant.clone()
        });
        let grants = std::iter::once(project).chain(agents).collect();
        Ok(PathPermissionManager::new(grants, Phase::Coordination))
    }

    /// The members that work by programs.
    fn programmers(&self) -> impl Iterator<Item = Programmer<'_>> {
        self.members.iter().filter_map(|member| {
            Some(Programmer {
                runner: Runner {
                    id: &member.id,
                    config: member.programs.as_ref()?,
                    grants: &member.grants,
                    workspace: member.workspace.as_ref()?,
                },
                dialect: member.config.programs?.dialect,
                tools: &member.config.tools,
            })
        })
    }

    /// The members that may run commands.
    fn commanders(&self) -> impl Iterator<Item = Runner<'_>> {
        self.members.iter().filter_map(|member| {
            Some(Runner {
                id: &member.id,
                config: member.config.commands.as_ref()?,
                grants: &member.grants,
                workspace: member.workspace.as_ref()?,
            })
        })
    }

    /// Whose work is checked, and how the checks are run: as the agent's commands, but for the lists
    /// of commands, which are about agents. Without checks, nobody's.
    fn checked(&self) -> impl Iterator<Item = Runner<'_>> {
        let is_checked = self.is_checked();
        let members = self.members.iter().filter(move |_| is_checked);
        members.map(|member| Runner {
            id: &member.id,
            config: &member.checks,
            grants: &member.grants,
            workspace: member.workspace.as_ref().unwrap_or(&self.base),
        })
    }

    /// What tells whether answers hold.
    pub fn checks(&self) -> &Checks {
        &self.config.checks
    }

    /// Whether checks run at all. Those of a run that is played again have run.
    fn is_checked(&self) -> bool {
        !self.config.checks.list.is_empty() && self.reach == Reach::Delivers
    }

    /// What examines answers and deliveries, if the config has checks and something is made to
    /// deliver from.
    pub fn examiner(&self) -> Option<Examiner> {
        let checks = &self.config.checks.list;
        let wings = self.wings.clone().filter(|_| self.is_checked())?;
        let candidate = |member: &Member| {
            let commands = self.shells.as_ref()?.checking(&member.id);
            let candidate = Candidate {
                grants: member.grants.clone(),
                commands: commands.cloned(),
            };
            Some((member.id.clone(), candidate))
        };
        let candidates = self.members.iter().filter_map(candidate).collect();
        Some(Examiner::new(checks.clone(), candidates, wings))
    }

    /// From now on `asker` asks about the calls that `permissions` has asked. A socket that an agent
    /// could put its own in the place of is an error.
    pub fn ask(&mut self, asker: Asker) -> Result<()> {
        if let Some(socket) = asker.socket() {
            // A socket is nothing that could be granted; what holds it may be.
            let holder = socket.parent().unwrap_or_else(AbsPath::top);
            let real = grants::real(&holder)?;
            let mut grants = self.members.iter().flat_map(|member| &member.grants);
            let is_open = |grant: &&Grant| {
                grant.permission == Permission::Write && grant.reach(&real).is_some()
            };
            if let Some(grant) = grants.find(is_open) {
                let message = format!(
                    "agents may write to `{}`, where the answers come from",
                    grant.root
                );
                return Err(Error::new(ErrorKind::Config, message)
                    .hint("name a socket in a directory that is not opened to them"));
            }
        }
        self.asker = Some(asker);
        Ok(())
    }

    /// From now on agents that may run commands run them in these.
    pub fn run_commands_in(&mut self, shells: Shells) {
        self.shells = Some(shells);
    }

    /// From now on final agents work on stages that are made from these.
    pub fn deliver_from(&mut self, wings: Wings) {
        self.wings = Some(wings);
    }

    /// Removes what nobody needs any more of what was changed on stages. Nobody works on one.
    pub fn clear_stages(&self, rest: Rest) -> Result<()> {
        match &self.wings {
            Some(wings) => wings.clear(rest),
            None => Ok(()),
        }
    }

    /// The stage of `member` as the final agent of an attempt, if it has one, and what the user should
    /// know of it.
    pub async fn stage(
        &self,
        member: &Member,
        attempt: u32,
    ) -> Result<(Option<Stage>, Vec<String>)> {
        match (&self.wings, self.reach) {
            (Some(wings), Reach::Delivers) => {
                let commands = self.commands(member);
                let performance = Performance::Final(attempt);
                wings.open(performance, &member.grants, commands).await
            }
            (Some(_), Reach::OnlyReads) | (None, _) => Ok((None, Vec::new())),
        }
    }

    /// From now on nobody writes to the user's paths, not even the final agent.
    pub fn deliver_nothing(&mut self) {
        self.reach = Reach::OnlyReads;
    }

    /// The member with this anonymous name.
    pub fn member(&self, number: AgentNumber) -> Option<&Member> {
        self.members.iter().find(|member| member.number == number)
    }

    /// The gate of `member` for `phase`, on a stage if there is one; `None` if nothing is opened for
    /// it.
    pub fn gate(
        &self,
        member: &Member,
        phase: Phase,
        stage: Option<&Stage>,
    ) -> Result<Option<Gate>> {
        let seconds = member.config.permissions.ask_seconds();
        let consult = self.asker.as_ref();
        let policy = GatePolicy {
            read_before_delete: member.config.read_before_delete,
            servers: self.servers(member, phase),
            hooks: self.hooks(member)?,
            common: self.common(member)?,
            consult: consult.map(|asker| asker.of(&member.id, seconds)),
            ..self.policy(member, stage)?
        };
        self.open_gate(member, phase, policy)
    }

    /// The gate that carries the winner's files to the user, or to `stage` where it has not done so
    /// itself.
    pub fn delivery_gate(&self, member: &Member, stage: Option<&Stage>) -> Result<Option<Gate>> {
        self.open_gate(member, Phase::Final, self.policy(member, stage)?)
    }

    /// What every gate of `member` holds to.
    fn policy(&self, member: &Member, stage: Option<&Stage>) -> Result<GatePolicy> {
        let base = grants::real(member.begins_at().as_ref().unwrap_or(&self.base))?;
        Ok(GatePolicy {
            parents: match member.config.folder_guard {
                FolderGuard::Off | FolderGuard::Role { .. } => ParentNames::Followed,
                FolderGuard::On { .. } => ParentNames::Refused,
            },
            history: Arc::clone(&member.history),
            conflicts: self.conflicts.clone(),
            commands: self.commands(member).cloned(),
            programs: self.programs(member).cloned(),
            bases: self.deliveries.as_ref().map(|how| how.bases.clone()),
            stage: stage.cloned(),
            rules: Arc::clone(&member.rules),
            ..GatePolicy::single_call(base)
        })
    }

    fn open_gate(&self, member: &Member, phase: Phase, policy: GatePolicy) -> Result<Option<Gate>> {
        if member.grants.is_empty() && policy.servers.is_none() {
            return Ok(None);
        }
        let phase = match self.reach {
            Reach::Delivers => phase,
            Reach::OnlyReads => Phase::Coordination,
        };
        Gate::open(grants::manager(&member.grants, phase), policy).map(Some)
    }

    /// Whether nothing like `message` has been said of servers before.
    fn is_news(&self, message: &str) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.insert(message.to_owned())
    }

    /// What `member`'s model is told first in `phase`.
    pub fn system(&self, member: &Member, phase: Phase) -> String {
        let places = grants::places(&grants::manager(&member.grants, phase));
        let workspace = member.workspace.as_ref().map(ToString::to_string);
        let begin = member.begins_at();
        let begin = begin.filter(|begin| Some(begin) != member.workspace.as_ref());
        let begin = begin.as_ref().map(ToString::to_string);
        let standing = Standing {
            begin: begin.as_deref(),
            system_message: member.config.system_message.as_deref(),
            me: member.number,
            agents: self.members.len(),
            sensitivity: self.config.orchestrator.voting_sensitivity,
            planning: &self.config.orchestrator.planning,
            places: &places,
            workspace: workspace.as_deref(),
            makes: member.makes(),
            shell: self.shell(member),
            programs: seating::work(&member.config),
            checks: &self.config.checks.list,
        };
        match phase {
            Phase::Coordination => brief::coordination_system(&standing),
            Phase::Final => {
                let roots = grants::write_roots(&member.grants);
                let roots: Vec<String> = roots.iter().map(|g| g.root.to_string()).collect();
                brief::final_system(&standing, &roots)
            }
        }
    }

    /// What the commands of `member` run in, once that is made.
    fn commands(&self, member: &Member) -> Option<&Commands> {
        self.shells.as_ref()?.of(&member.id)
    }

    /// What the programs of `member` run in, once that is made.
    fn programs(&self, member: &Member) -> Option<&Programs> {
        self.shells.as_ref()?.programs(&member.id)
    }

    /// What `member` is told about its commands, if it may run some. As long as nothing is made,
    /// as in a dry run, the config alone says so.
    fn shell<'a>(&self, member: &'a Member) -> Option<Shell<'a>> {
        let (commands, Some(_)) = (member.config.commands.as_ref()?, &member.workspace) else {
            return None;
        };
        let shells = self.shells.as_ref();
        if shells.is_some_and(|shells| shells.refuses(&member.id)) {
            return None;
        }
        let tier = match commands.sandbox {
            TierChoice::Only(tier) => tier,
            TierChoice::Auto => self.commands(member).map_or(Tier::A, Commands::tier),
        };
        Some(Shell {
            network: &commands.network,
            held: match (&commands.mode, tier) {
                (ExecutionMode::Docker(_), _) => Held::Contained,
                (ExecutionMode::Local, Tier::A | Tier::B | Tier::D) => Held::Apart,
                (ExecutionMode::Local, Tier::C) => Held::Narrowly,
                (ExecutionMode::Local, Tier::Off) => Held::Loosely,
            },
        })
    }

    /// The tools that `member` is offered in `phase`.
    pub fn tools(&self, member: &Member, phase: Phase) -> Arc<[ToolOffer]> {
        let permissions = grants::manager(&member.grants, phase);
        let menu = Menu {
            allowed: member.config.tools.allowed.as_deref(),
            excluded: &member.config.tools.excluded,
            permissions: &permissions,
            directories: match member.config.folder_guard {
                FolderGuard::Off => Directories::Unnamed,
                FolderGuard::On { .. } | FolderGuard::Role { .. } => Directories::Named,
            },
            commands: OfferedCommands::run_in(self.shell(member).as_ref()),
        };
        let mut offers = match (&member.config.backend.guest, member.config.programs) {
            (Some(_), _) => Vec::new(),
            (None, Some(programs)) => offer::offers(programs.dialect, &offer::tools(menu)),
            (None, None) => menu.offers(),
        };
        if phase == Phase::Coordination {
            offers.extend(workflow::coordination_offers(self.members.len()));
        }
        offers.into()
    }

    /// `member` with its conversation begun: `task` is told.
    pub async fn participant(
        &self,
        member: &Member,
        task: &str,
        line: Line,
    ) -> Result<Participant> {
        Ok(Participant {
            hooks: self.hooks(member)?,
            id: member.id.clone(),
            number: member.number,
            workspace: member.workspace.clone(),
            mind: self
                .mind(member, (Phase::Coordination, None), task, line)
                .await?,
        })
    }

    /// A new conversation of `member` in `phase`, on a stage if there is one, with `first` told. Its
    /// servers are met: one that cannot be used is an error.
    pub async fn mind(
        &self,
        member: &Member,
        (phase, stage): (Phase, Option<&Stage>),
        first: &str,
        line: Line,
    ) -> Result<Mind> {
        let gate = self.gate(member, phase, stage)?;
        if let Some(gate) = &gate {
            let mut said = served::meet(gate).await?;
            said.extend(unmatched(&member.rules, &member.servers, &gate.catalogue()));
            for message in said {
                if self.is_news(&message) {
                    emit(&line.events, Event::Warning { message }).await;
                }
            }
        }
        let left = line.memory.as_ref().map_or(0, |memory| memory.models_left);
        let last = line.models.len().saturating_sub(1);
        let models = self.seated(member, gate.as_ref(), line.models);
        let mut mind = Mind {
            agent: member.id.clone(),
            models: models.into_iter().skip(left.min(last)).collect(),
            phase,
            system: self.system(member, phase).into(),
            tools: self.tools(member, phase),
            served: Arc::default(),
            gate,
            conversation: Conversation::default(),
            to_show: Vec::new(),
            steps_max: member.config.steps_per_round_max,
            patience: None,
            account: Account::new(member.id.clone(), line.ledger),
            memory: line.memory,
            events: line.events,
        };
        mind.take_up_served();
        mind.tell(first);
        Ok(mind)
    }
}

/// How hooks about an agent with these commands are run: on this machine, without a network unless the
/// hook has one, and without variables of the user's.
fn for_hooks(commands: Option<&CommandLineConfig>) -> CommandLineConfig {
    CommandLineConfig {
        mode: ExecutionMode::Local,
        network: Network::Off,
        env: BTreeMap::new(),
        ..for_checks(commands, None)
    }
}

/// How checks are run on the work of an agent with these commands: what the user lists is about what
/// agents may run.
pub fn for_checks(
    commands: Option<&CommandLineConfig>,
    sandbox: Option<TierChoice>,
) -> CommandLineConfig {
    let commands = commands.cloned().unwrap_or_default();
    CommandLineConfig {
        allowed: None,
        blocked: Vec::new(),
        sandbox: sandbox.unwrap_or(commands.sandbox),
        ..commands
    }
}

/// How a conversation reaches its model, and who hears of it.
#[derive(Clone, Debug)]
pub struct Line {
    /// The model, and after it those that are asked when it cannot go on.
    pub models: Vec<Model>,
    /// What is charged for it.
    pub ledger: Arc<Mutex<Ledger>>,
    /// What is recorded of it, where a run is gone on with.
    pub memory: Option<Memory>,
    /// Where events go.
    pub events: Sender<Event>,
}
