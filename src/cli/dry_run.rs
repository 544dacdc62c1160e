//! Implements `--dry-run`: shows the team, what each agent may access in both phases, and the first
//! request to each model. Creates nothing on disk and sends no request.

use std::fmt::Write as _;

use crate::cli::explain::command::describe_isolation;
use crate::cli::model_prices::uncounted_models_warning;
use crate::cli::output::CliOutput;
use crate::cli::pipeline::roles;
use crate::cli::run_context::own_files;
use crate::cli::run_context::{PreparedRun, connect_all};
use crate::config::AgentConfig;
use crate::config::custom_tools::ProgramInterface;
use crate::config::pricing_vendor::model_query;
use crate::config::servers::{ProgramPlace, ServerConfig, ServerTransport};
use crate::error::{ExitStatus, Result};
use crate::layout::RunLayout;
use crate::orchestrator::execution::new_run_name;
use crate::orchestrator::grants::{self, InheritedPaths};
use crate::orchestrator::memory::{
    MemoryOrigin, keeps_memory, previous_workspaces, read_memory, turn_history,
};
use crate::orchestrator::team::project_instructions::describe_size;
use crate::orchestrator::team::{AgentTeam, DeliveryAccess, TeamMember};
use crate::permissions::grant::{Grant, GrantScope, Permission, Phase};
use crate::prompts::previous_turns::CommandHome;
use crate::prompts::{self, TaskPrompt};
use crate::spending::models::ModelList;
use crate::spending::price::ModelPrice;
use crate::text::{count_noun, escape_name};

/// Shows what a run would do.
pub(crate) async fn show(prepared: &PreparedRun, output: &mut CliOutput<'_>) -> Result<ExitStatus> {
    let config = &prepared.team.config;
    let text = match &config.workflow {
        Some(workflow) => {
            let checks = config.checks.list.len();
            roles::show_preview(workflow, checks, &prepared.team.host, output).await?;
            let seconds = config.timeouts.orchestrator_seconds;
            format!(
                "limits of the pipeline: {}\ntimeout of each stage: {seconds} s\n",
                config.limits
            )
        }
        None => describe_team(prepared)?,
    };
    let policy = prepared.team.host.policy.describe();
    let policy = policy.map(|text| format!("policy of this machine: {text}\n"));
    let text = [text, policy.unwrap_or_default()].concat();
    output.result(&format!("{text}nothing was sent or written\n"))?;
    warn_about_models(prepared, output);
    Ok(ExitStatus::Success)
}

/// Describes the team, its first requests and what earlier runs left for it.
fn describe_team(prepared: &PreparedRun) -> Result<String> {
    let config = &prepared.team.config;
    let run = new_run_name();
    let layout = RunLayout::plan(config, &prepared.team.host.state_parent, run);
    let turns = prepared
        .continued_session
        .as_ref()
        .map(|session| session.session_dir.turns())
        .transpose()?
        .unwrap_or_default();
    let own_files = own_files(prepared.team.file.as_ref(), &prepared.team.other_files);
    let inherited = InheritedPaths {
        own_files: &own_files,
        opened: &prepared.opened_paths,
        workspaces: &previous_workspaces(&turns),
        home: prepared.team.host.home.as_ref(),
    };
    let has_commands = config.agents.iter().any(|agent| agent.commands.is_some());
    let task = TaskPrompt {
        question: prepared.prompt.cleaned_prompt.as_str().into(),
        previous_turns: turn_history(&turns, has_commands.then_some(CommandHome::New)).into(),
    };
    let access = DeliveryAccess::ReadWrite;
    let team = AgentTeam::assemble(config, &layout, &prepared.team.host.cwd, inherited, access)?
        .with_project_instructions()?
        .with_skills()?
        .with_subagent_types()?;
    let memory = keeps_memory(config)
        .then(|| read_memory(&layout, MemoryOrigin::Preview))
        .transpose()?;
    let team = team.with_memory(memory);
    let mut text = String::new();
    for (agent, member) in config.agents.iter().zip(&team.members) {
        push_heading(&mut text, agent, member);
        push_prices(&mut text, agent, &prepared.team.models);
        push_resources(&mut text, agent, member);
        for phase in [member.working_phase(), Phase::Final] {
            push_permissions(&mut text, member, phase);
        }
        push_first_request(&mut text, &team, member, &task);
    }
    for notice in team.skill_notices() {
        push_line(&mut text, notice);
    }
    for notice in team.subagent_choice_notices() {
        push_line(&mut text, &notice);
    }
    for note in team.memory().into_iter().flat_map(|memory| &memory.notes) {
        let size = count_noun(note.size_bytes, "byte");
        let line = format!("note of earlier agents: {} ({size})", note.name);
        push_line(&mut text, &line);
    }
    if let Some(warning) = team.memory_warning() {
        push_line(&mut text, warning);
    }
    push_line(&mut text, &format!("limits of the run: {}", config.limits));
    let seconds = config.timeouts.orchestrator_seconds;
    push_line(&mut text, &format!("timeout of the run: {seconds} s"));
    Ok(text)
}

/// Appends the limits, commands, servers, instructions and skills of an agent.
fn push_resources(text: &mut String, agent: &AgentConfig, member: &TeamMember) {
    push_line(text, &format!("  limits: {}", agent.limits));
    if let (Some(commands), Some(_)) = (&agent.commands, &member.workspace) {
        push_line(
            text,
            &format!("  commands: {}", describe_isolation(commands)),
        );
    }
    for server in &agent.servers {
        push_line(text, &describe_server(server));
    }
    push_instructions(text, member);
    for skill in &member.skills().skills {
        let file = escape_name(&skill.file);
        push_line(text, &format!("  skill: {} ({file})", skill.name));
    }
}

/// Warns if the models could not be connected, or a limit does not count them.
fn warn_about_models(prepared: &PreparedRun, output: &mut CliOutput<'_>) {
    if let Err(error) = connect_all(
        &prepared.team.config,
        &prepared.team.models,
        &prepared.team.host,
    ) {
        output.warning(&format!("a run would fail immediately: {error:#}"));
    }
    if let Some(warning) = uncounted_models_warning(&prepared.team.config, &prepared.team.models) {
        output.warning(&warning);
    }
}

// Writing to a `String` cannot fail.
fn push_line(text: &mut String, line: &str) {
    writeln!(text, "{line}").unwrap_or_default();
}

fn push_heading(text: &mut String, agent: &AgentConfig, member: &TeamMember) {
    let backend = &agent.backend;
    let vendor = backend.vendor.name;
    let model = if backend.model == vendor {
        ""
    } else {
        &backend.model
    };
    let title = format!("agent {} ({}): {vendor} {model}", member.id, member.number);
    push_line(text, title.trim_end());
    for fallback in &backend.fallback {
        let vendor = fallback.vendor.name;
        push_line(
            text,
            &format!("  falls back on {vendor} {}", fallback.model),
        );
    }
}

/// Describes a server, or the user's own tools, as far as possible without starting them.
fn describe_server(server: &ServerConfig) -> String {
    let (name, permission) = (server.name(), server.rules.permission);
    let tool_descriptions = server
        .program_interface()
        .map(ProgramInterface::describe_tools);
    if let Some(tools) = tool_descriptions.filter(|tools| !tools.is_empty()) {
        let lines = tools
            .iter()
            .map(|tool| format!("  tool: {tool}, {permission}"));
        return lines.collect::<Vec<_>>().join("\n");
    }
    let endpoint = match &server.transport {
        ServerTransport::Program(program) => program.command.first().map_or("", String::as_str),
        ServerTransport::Remote(remote) => remote.url.host_str().unwrap_or_default(),
    };
    let location = match &server.transport {
        ServerTransport::Program(program) if program.run_in != ProgramPlace::Sandbox => {
            ", in a container"
        }
        ServerTransport::Program(_) | ServerTransport::Remote(_) => "",
    };
    format!(
        "  server: {name} ({endpoint}, {permission}{location}); its tools are known once it is started"
    )
}

/// Appends the prices of the agent's models.
fn push_prices(text: &mut String, agent: &AgentConfig, models: &ModelList) {
    for backend in agent.backend.with_subagent_models() {
        let price = match models.price(&model_query(backend)) {
            None => "not known".to_owned(),
            Some(price) if price.is_free() => "nothing".to_owned(),
            Some(ModelPrice { rates, .. }) => {
                let [input, cached, output] = [rates.input, rates.cached, rates.output]
                    .map(|token| token.saturating_mul(1_000_000));
                format!("${input} input, ${cached} cached, ${output} output per million tokens")
            }
        };
        push_line(text, &format!("  price of {}: {price}", backend.model));
    }
}

/// Appends the files with instructions that the agent is given, and those that are not used.
fn push_instructions(text: &mut String, member: &TeamMember) {
    for file in &member.instructions().files {
        let size = describe_size(file.size_bytes, file.is_truncated);
        push_line(text, &format!("  instructions: {} ({size})", file.path));
    }
    for notice in &member.instructions().notices {
        push_line(text, &format!("  {notice}"));
    }
}

fn push_permissions(text: &mut String, member: &TeamMember, phase: Phase) {
    let manager = grants::permission_manager(&member.grants, phase);
    push_line(text, &format!("  {phase} phase"));
    if manager.grants().is_empty() {
        push_line(text, "    no file access");
    }
    for grant in manager.grants() {
        let allowed_permission = [Permission::Write, Permission::Read]
            .into_iter()
            .find(|permission| manager.allows(&grant.root, *permission));
        let permission = allowed_permission
            .map_or_else(|| "nothing".to_owned(), |permission| permission.to_string());
        push_line(
            text,
            &format!(
                "    {permission:<6} {}{}",
                escape_name(&grant.root.to_string()),
                grant_exceptions(grant)
            ),
        );
    }
}

/// Lists what a grant leaves closed in addition to the protected names, which are the same for all.
fn grant_exceptions(grant: &Grant) -> String {
    let mut notes = vec![grant.kind.to_string()];
    if grant.scope == GrantScope::File {
        notes.push("this file only".to_owned());
    }
    notes.extend(
        grant
            .protected
            .iter()
            .map(|path| format!("{path} read-only")),
    );
    notes.extend(grant.hidden.iter().map(|path| format!("{path} hidden")));
    notes.extend(
        grant
            .unprotected
            .iter()
            .map(|name| format!("{name} unprotected")),
    );
    format!("  ({})", notes.join(", "))
}

fn push_first_request(text: &mut String, team: &AgentTeam, member: &TeamMember, task: &TaskPrompt) {
    let phase = member.working_phase();
    let system = team.system_prompt(member, phase);
    let tools = team.tools(member, phase);
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    let first_message = prompts::task_message(task) + &team.identity_message(member.number);
    push_line(text, "  first request");
    for (role, prompt) in [("system", system.as_str()), ("user", &first_message)] {
        for (index, line) in prompt.lines().enumerate() {
            let role = if index == 0 { role } else { "" };
            push_line(text, format!("    {role:<7}{line}").trim_end());
        }
    }
    push_line(text, &format!("    {:<7}{}", "tools", names.join(", ")));
    text.push('\n');
}
