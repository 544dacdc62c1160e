//! What the model of a member is given: its system message, its tools, and the images and files
//! that belong to the task.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::agent::subagents::SubagentSetup;
use crate::code_mode::offer;
use crate::config::api_parameters::separate_tools;
use crate::config::uploads::UploadedFile;
use crate::config::vendors::ImageInput;
use crate::config::{AgentConfig, SubagentsConfig};
use crate::id::AgentNumber;
use crate::orchestrator::grants;
use crate::orchestrator::team::{AgentTeam, TeamMember, external_agents};
use crate::path::{AbsPath, RealPath};
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{GrantKind, GrantScope, Phase};
use crate::permissions::guard::FolderGuard;
use crate::prompts::checklist::ScoringCriteria;
use crate::prompts::commands::{CommandAccess, IsolationKind, describe_commands};
use crate::prompts::subagent_types::SubagentChoices;
use crate::prompts::{self, SystemPromptInput, WorkspaceOutput};
use crate::sandbox_policy::NetworkPolicy;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use crate::text::list_first;
use crate::tools::image::is_image_name;
use crate::tools::media::MediaKind;
use crate::tools::page_url::PageUrl;
use crate::tools::spec::{
    COMMANDS, MEDIA, PAGES, PLANNING, SUBAGENTS, ToolOffer, ToolSpec, VENDOR_TOOLS,
};
use crate::tools::tool_selection::{
    CommandOffering, DirectoryNaming, EditFormat, ImageOffering, ToolSelection, names_any,
    names_tool,
};
use crate::tools::vendor_tool::VendorTool;
use crate::tools::workflow::{self, VoteScoring};
use crate::world::sandbox::exec_environment::ExecEnvironment;
use crate::world::store::paid_media::PaidMedia;

/// The file with an agent's plan, in its workspace.
const PLAN_FILE: &str = "tasks/plan.json";
/// The maximum number of domains that a description names.
const DOMAINS_NAMED_MAX: usize = 20;

/// Returns the offer of a tool that reads pages of these hosts.
fn page_offer(tool: &ToolSpec, hosts: &NetworkPolicy) -> ToolOffer {
    let mut offer = tool.offer();
    if let NetworkPolicy::Domains(domains) = hosts {
        let domain_list = list_first(domains, DOMAINS_NAMED_MAX);
        offer.description = format!("{} Only of {domain_list}.", offer.description);
    }
    offer
}

/// Returns the offer of the tool by which an agent starts subagents, with what it may choose.
fn subagent_offer(tool: &ToolSpec, choices: &SubagentChoices) -> ToolOffer {
    let mut offer = tool.offer();
    offer.description.push_str(&choices.describe());
    let types: Vec<&str> = choices.types.iter().map(|choice| &*choice.name).collect();
    let models: Vec<&str> = choices
        .offered_models()
        .iter()
        .map(|choice| &*choice.name)
        .collect();
    let pointer = "/properties/tasks/items/properties";
    let fields = offer.parameters.pointer_mut(pointer);
    if let Some(fields) = fields.and_then(Value::as_object_mut) {
        for (name, names) in [("subagent_type", types), ("agent", models)] {
            if !names.is_empty() {
                fields.insert(name.to_owned(), json!({"type": "string", "enum": names}));
            }
        }
    }
    offer
}

impl AgentTeam {
    /// Returns what tells the agent `number` who it is, after its task; empty if it sees no others.
    pub fn identity_message(&self, number: AgentNumber) -> String {
        if self.collaborators() > 1 {
            prompts::identity_message(number)
        } else {
            String::new()
        }
    }

    /// Returns the system message of `member` in `phase`.
    pub fn system_prompt(&self, member: &TeamMember, phase: Phase) -> String {
        let open_paths =
            grants::describe_grants(&grants::permission_manager(&member.grants, phase));
        let workspace = member.workspace.as_ref().map(ToString::to_string);
        let base_directory = member
            .working_directory()
            .filter(|directory| Some(directory) != member.workspace.as_ref());
        let base_directory = base_directory.as_ref().map(ToString::to_string);
        let input = SystemPromptInput {
            base_directory: base_directory.as_deref(),
            system_message: member.config.system_message.as_deref(),
            agent: member.number,
            agent_count: self.collaborators(),
            sensitivity: self.config.orchestrator.voting_sensitivity,
            criteria: self.scoring_criteria(),
            planning: &self.config.orchestrator.planning,
            open_paths: &open_paths,
            workspace: workspace.as_deref(),
            output: member.workspace_output(),
            commands: self.command_access(member),
            work: external_agents::work_mode(&member.config),
            checks: &self.config.checks.list,
            instructions: &member.instructions.files,
            skills: &member.skills.skills,
            memory: self.memory.as_ref(),
            merges_files: member.config.merges_files,
            rounds: self.config.orchestrator.rounds,
        };
        match phase {
            Phase::Coordination | Phase::Attempt => {
                prompts::coordination_system_prompt(&input, phase)
            }
            Phase::Final => {
                let write_roots = grants::write_roots(&member.grants);
                let roots: Vec<String> = write_roots
                    .iter()
                    .map(|grant| grant.root.to_string())
                    .collect();
                prompts::final_system_prompt(&input, &roots)
            }
        }
    }

    /// Records that a model has written the criteria by which voters score answers, so that voters
    /// read them in their first messages.
    pub(in crate::orchestrator) fn use_generated_criteria(&mut self) {
        self.has_generated_criteria = true;
    }

    /// Returns where voters read the criteria by which they score answers.
    fn scoring_criteria(&self) -> ScoringCriteria<'_> {
        match &self.config.orchestrator.checklist {
            None => ScoringCriteria::None,
            Some(_) if self.has_generated_criteria => ScoringCriteria::InFirstMessage,
            Some(checklist) => ScoringCriteria::Listed(&checklist.criteria),
        }
    }

    /// Returns the description of its commands for `member`, if it may run some. Without
    /// environments, as in a dry run, it comes from the config alone.
    fn command_access<'a>(&self, member: &'a TeamMember) -> Option<CommandAccess<'a>> {
        let (commands, Some(_)) = (member.config.commands.as_ref()?, &member.workspace) else {
            return None;
        };
        let environments = self.resources.environments.as_ref();
        if environments.is_some_and(|environments| environments.is_rejected(&member.id)) {
            return None;
        }
        let level = match commands.sandbox {
            SandboxLevelChoice::Only(level) => level,
            SandboxLevelChoice::Auto => self
                .command_environment(member)
                // A dry run tests nothing, and assumes the best level.
                .map_or(SandboxLevel::Overlay, ExecEnvironment::sandbox_level),
        };
        Some(CommandAccess {
            network: commands.network_access(),
            isolation: match level {
                _ if !commands.mode.is_local() => IsolationKind::Container,
                SandboxLevel::Overlay | SandboxLevel::Namespaces | SandboxLevel::Unavailable => {
                    IsolationKind::PrivateNamespaces
                }
                SandboxLevel::Landlock => IsolationKind::SharedWithHost,
                SandboxLevel::Off => IsolationKind::Unsandboxed,
            },
        })
    }

    /// Returns whether `member` may run commands on answers of others in `phase`: it is shown them,
    /// works in an attempt, and has a sandbox that can show it their changes.
    pub(super) fn tries_answers(&self, member: &TeamMember, phase: Phase) -> bool {
        let is_external = member.config.backend.external_agent.is_some();
        let is_chosen = COMMANDS
            .first()
            .is_some_and(|tool| member.config.tools.keeps(tool));
        let access = self.command_access(member);
        let is_isolated = access.is_some_and(|access| match access.isolation {
            IsolationKind::PrivateNamespaces | IsolationKind::SharedWithHost => true,
            IsolationKind::Container | IsolationKind::Unsandboxed => false,
        });
        phase == Phase::Attempt
            && self.collaborators() > 1
            && is_chosen
            && is_isolated
            && !is_external
    }

    /// Returns the limits of the subagents of `member`, if it may have some: it needs a workspace
    /// of its own that they can work in, and a model that they can ask too.
    pub(in crate::orchestrator) fn subagent_limits(
        &self,
        member: &TeamMember,
    ) -> Option<SubagentsConfig> {
        let limits = self.config.orchestrator.subagents?;
        let config = &member.config;
        let has_tools = SUBAGENTS.iter().all(|tool| config.tools.keeps(tool));
        (has_tools && subagent_obstacle(member).is_none()).then_some(limits)
    }

    /// Returns the notes for the user about members that cannot have subagents, although the config
    /// enables them.
    pub fn subagent_notes(&self) -> Vec<String> {
        if self.config.orchestrator.subagents.is_none() {
            return Vec::new();
        }
        let members = self.members.iter();
        let note = |member: &TeamMember| {
            let obstacle = subagent_obstacle(member)?;
            Some(format!("{} has no subagents: {obstacle}", member.id))
        };
        members.filter_map(note).collect()
    }

    /// Returns the setup of the subagents of `member` in `phase`, if it may have some. They
    /// call file and command tools one by one, even if their agent writes programs.
    pub(super) fn subagent_setup(
        &self,
        member: &TeamMember,
        phase: Phase,
    ) -> Option<SubagentSetup> {
        let limits = self.subagent_limits(member)?;
        let permissions = grants::permission_manager(&member.grants, phase);
        let shell = self.command_access(member);
        let offering = match shell {
            Some(_) => CommandOffering::Offered,
            None => CommandOffering::NotOffered,
        };
        let tools = Self::tool_selection(member, &permissions, offering).offers();
        let mut commands = String::new();
        if let Some(shell) = &shell {
            describe_commands(&mut commands, shell, phase);
        }
        let (tools, commands) = (tools.into(), commands.into());
        let choices = self.subagent_choices(member);
        Some(SubagentSetup::new(limits, tools, commands, choices))
    }

    /// Returns where the media are kept that `member` has made in `phase`, if its run has records.
    pub(super) fn paid_media(&self, member: &TeamMember, phase: Phase) -> Option<PaidMedia> {
        let records = self.resources.records.as_ref()?;
        Some(PaidMedia::of_agent(records, &member.id, phase))
    }

    /// Returns the selection of file and command tools for `member`.
    fn tool_selection<'a>(
        member: &'a TeamMember,
        permissions: &'a PathPermissionManager,
        commands: CommandOffering,
    ) -> ToolSelection<'a> {
        let format = EditFormat::of_model(&member.config.backend.model);
        ToolSelection {
            allowed: member.config.tools.allowed.as_deref(),
            excluded: &member.config.tools.excluded,
            permissions,
            directories: match member.config.folder_guard {
                FolderGuard::Off => DirectoryNaming::Unnamed,
                FolderGuard::On { .. } | FolderGuard::Role { .. } => DirectoryNaming::Named,
            },
            commands,
            images: match member.config.backend.image_input {
                ImageInput::Accepted => ImageOffering::Offered,
                ImageInput::Refused => ImageOffering::NotOffered,
            },
            // A hook on edits reads the path of one file.
            edits: if format == EditFormat::Patch && !member.config.hooks.is_empty() {
                EditFormat::Replacements
            } else {
                format
            },
        }
    }

    /// Returns the maximum number of entries of the plan of `member`; `None` if it is offered no
    /// tool for plans: planning is off, the tool is excluded, or the agent is an external one,
    /// which keeps its plan itself.
    pub(super) fn plan_entries_max(&self, member: &TeamMember) -> Option<usize> {
        let is_external = member.config.backend.external_agent.is_some();
        let is_excluded = names_any(&member.config.tools.excluded, PLANNING);
        let planning = self.config.orchestrator.task_planning;
        planning
            .entries_max()
            .filter(|_| !is_external && !is_excluded)
    }

    /// Returns the file in the workspace of `member` to which its plan is written, if it is.
    pub(super) fn plan_file(&self, member: &TeamMember) -> Option<AbsPath> {
        self.plan_entries_max(member)?;
        let is_written = self.config.orchestrator.task_planning.writes_file();
        let has_files = member.workspace_output() == WorkspaceOutput::Files;
        let workspace = member
            .workspace
            .as_ref()
            .filter(|_| is_written && has_files)?;
        Some(workspace.join(PLAN_FILE))
    }

    /// Returns the tools that `member` is offered in `phase`.
    pub fn tools(&self, member: &TeamMember, phase: Phase) -> Arc<[ToolOffer]> {
        let permissions = grants::permission_manager(&member.grants, phase);
        let offering = match self.command_access(member) {
            Some(_) if self.tries_answers(member, phase) => CommandOffering::WithAnswers,
            Some(_) => CommandOffering::Offered,
            None => CommandOffering::NotOffered,
        };
        let selection = Self::tool_selection(member, &permissions, offering);
        let mut offers = match (
            &member.config.backend.external_agent,
            member.config.programs,
        ) {
            (Some(_), _) => Vec::new(),
            (None, Some(programs)) => {
                offer::offers(programs.dialect, &offer::callable_tools(selection))
            }
            (None, None) => selection.offers(),
        };
        if let Some(pages) = self.page_access(member) {
            offers.extend(PAGES.iter().map(|tool| page_offer(tool, &pages.hosts)));
        }
        let vendor_tools = vendor_tools(&member.config);
        let vendor_specs = VENDOR_TOOLS
            .iter()
            .filter(|spec| vendor_tools.iter().any(|tool| tool.name() == spec.name));
        offers.extend(vendor_specs.map(ToolSpec::offer));
        let can_write = member.workspace_output() == WorkspaceOutput::Files;
        if can_write && !media_kinds(&member.config).is_empty() {
            offers.extend(MEDIA.iter().map(ToolSpec::offer));
        }
        if self.plan_entries_max(member).is_some() {
            offers.extend(PLANNING.iter().map(ToolSpec::offer));
        }
        if self.subagent_limits(member).is_some() {
            let choices = self.subagent_choices(member).unwrap_or_default();
            let offer = |tool: &ToolSpec| subagent_offer(tool, &choices);
            offers.extend(SUBAGENTS.iter().map(offer));
        }
        if phase != Phase::Final {
            let scoring = match self.config.orchestrator.checklist {
                Some(_) => VoteScoring::Checklist,
                None => VoteScoring::None,
            };
            offers.extend(workflow::coordination_offers(self.collaborators(), scoring));
        }
        offers.into()
    }

    /// Returns the image files that are open to `member` by themselves, because a prompt mentions
    /// them.
    pub(super) fn mentioned_images(member: &TeamMember) -> Vec<RealPath> {
        // External agents look at files with tools of their own.
        if member.config.backend.external_agent.is_some() {
            return Vec::new();
        }
        let grants = member.grants.iter();
        let files = grants
            .filter(|grant| grant.kind == GrantKind::Context && grant.scope == GrantScope::File);
        let roots = files.map(|grant| grant.root.clone());
        roots.filter(|root| is_image_name(root.as_path())).collect()
    }

    /// Returns the warnings about images that the config uploads for `member`, whose model does not
    /// receive any.
    pub(super) fn unseen_images(member: &TeamMember) -> Vec<String> {
        let AgentConfig {
            backend,
            uploaded_images,
            uploaded_image_urls,
            ..
        } = &member.config;
        let is_external = backend.external_agent.is_some();
        let reason = match backend.image_input {
            _ if is_external => {
                "it looks at files on this machine with tools of its own".to_owned()
            }
            ImageInput::Accepted => return Vec::new(),
            ImageInput::Refused => format!(
                "as far as massgen knows, `{}` accepts no images; `image_input: true` in its \
                 backend says that it does",
                backend.model
            ),
        };
        let files = uploaded_images
            .iter()
            .filter(|_| !is_external)
            .map(ToString::to_string);
        let urls = uploaded_image_urls.iter().map(ToString::to_string);
        files
            .chain(urls)
            .map(|image| format!("`{image}` is not sent to {}: {reason}", member.id))
            .collect()
    }

    /// Returns the addresses of the images that are part of the first message of `member`.
    pub(super) fn uploaded_image_urls(member: &TeamMember) -> &[PageUrl] {
        match member.config.backend.external_agent {
            Some(_) => &[],
            None => &member.config.uploaded_image_urls,
        }
    }

    /// Returns the documents, recordings and videos that are part of the first message of `member`.
    pub(super) fn uploaded_files(member: &TeamMember) -> Vec<UploadedFile> {
        // External agents look at files on this machine with tools of their own.
        let is_external = member.config.backend.external_agent.is_some();
        let files = member
            .config
            .uploaded_files
            .iter()
            .filter(|file| !is_external || file.path().is_none());
        files.cloned().collect()
    }
}

/// Returns the tools of its vendor that an agent may use by requests of their own: those that the
/// config enables, and that it does not exclude by their names.
pub(super) fn vendor_tools(agent: &AgentConfig) -> Vec<VendorTool> {
    let is_excluded = |tool: &VendorTool| {
        let mut specs = VENDOR_TOOLS.iter().filter(|spec| spec.name == tool.name());
        let is_spec_excluded = |spec: &ToolSpec| {
            agent
                .tools
                .excluded
                .iter()
                .any(|name| names_tool(name, spec))
        };
        specs.any(is_spec_excluded)
    };
    let models = agent.backend.with_fallbacks();
    let tools: BTreeSet<VendorTool> = models.flat_map(separate_tools).collect();
    tools
        .into_iter()
        .filter(|tool| !is_excluded(tool))
        .collect()
}

/// Returns the kinds of media that an agent may have made.
pub(super) fn media_kinds(agent: &AgentConfig) -> Vec<MediaKind> {
    if names_any(&agent.tools.excluded, MEDIA) {
        return Vec::new();
    }
    let models = agent.backend.with_fallbacks();
    let kinds: BTreeSet<MediaKind> = models.flat_map(|model| model.media.kinds()).collect();
    kinds.into_iter().collect()
}

/// Returns why `member` cannot have subagents, if it cannot.
fn subagent_obstacle(member: &TeamMember) -> Option<&'static str> {
    let backend = &member.config.backend;
    if backend.external_agent.is_some() && backend.subagent_models.is_empty() {
        Some("it is a program of its own (name a model in `subagent_orchestrator`)")
    } else if member.workspace_output() != WorkspaceOutput::Files {
        Some("it has no workspace that it may write to")
    } else if !matches!(member.config.folder_guard, FolderGuard::Off) {
        Some("a folder guard or a role decides where it works")
    } else {
        None
    }
}
