//! Writes a team as a config for replaying its run: scripted agents with the same rules, paths and
//! tools. Instructions to models are left out, because recorded models do not read them. The config
//! must never contain an API key.

use serde_json::{Map, Value, json};

use crate::config::keys::{
    ConfigKey, agents, backend, context_paths, coordination, limits, media, orchestrator,
    preparation, root,
};
use crate::config::{
    AgentConfig, Config, ContextPath, NoveltyRequirement, OrchestratorConfig, PlanningMode,
    PresentationMode, WriteMode,
};
use crate::path::RelPath;
use crate::permissions::guard::{DownloadsAccess, FolderGuard, GuardPreset};
use crate::permissions::history::ReadBeforeDelete;

/// Returns a config of `config`'s team with recorded replies. Workspaces are massgen's, named after
/// their agents.
pub fn recorded_config(config: &Config) -> Value {
    let orchestrator = &config.orchestrator;
    let agents: Vec<Value> = config.agents.iter().map(agent_entry).collect();
    let mut rules = ballot_rules(orchestrator);
    let mut add = |key: &ConfigKey, value: Value| rules.insert(key.name().to_owned(), value);
    add(
        &context_paths::KEY,
        context_path_entries(&orchestrator.context_paths),
    );
    add(
        &orchestrator::MAX_NEW_ANSWERS_PER_AGENT,
        json!(orchestrator.max_new_answers_per_agent),
    );
    add(
        &orchestrator::MAX_NEW_ANSWERS_GLOBAL,
        json!(orchestrator.max_new_answers_global),
    );
    let novelty = match orchestrator.answer_novelty {
        NoveltyRequirement::Lenient => "lenient",
        NoveltyRequirement::Balanced => "balanced",
        NoveltyRequirement::Strict => "strict",
    };
    add(&orchestrator::ANSWER_NOVELTY_REQUIREMENT, json!(novelty));
    add(
        &orchestrator::SKIP_COORDINATION_ROUNDS,
        json!(orchestrator.skips_coordination),
    );
    // By default they are read.
    add(&orchestrator::PROJECT_INSTRUCTIONS, json!(false));
    add(
        &orchestrator::COORDINATION,
        coordination_section(orchestrator),
    );
    // A replay runs no checks, because their results are recorded; but such a strategy needs one.
    let checks = if orchestrator.strategy.ends_at_first_pass() {
        json!(["true"])
    } else {
        json!([])
    };
    json!({
        root::AGENTS.name(): agents,
        root::ORCHESTRATOR.name(): rules,
        root::CHECKS.name(): checks,
    })
}

/// Returns the entries of the section `orchestrator` about answers and votes: how many answers an
/// agent may be ahead of the others, and the other rules that differ from the defaults.
fn ballot_rules(orchestrator: &OrchestratorConfig) -> Map<String, Value> {
    let mut rules = Map::new();
    let mut add = |key: &ConfigKey, value: Value| drop(rules.insert(key.name().to_owned(), value));
    match orchestrator.answer_lead_max {
        None => add(&orchestrator::FAIRNESS_ENABLED, json!(false)),
        Some(lead_max) => add(&orchestrator::FAIRNESS_LEAD_CAP_ANSWERS, json!(lead_max)),
    }
    match orchestrator.new_answers_shown_max {
        None => {}
        Some(0) => add(&orchestrator::DISABLE_INJECTION, json!(true)),
        Some(shown_max) => add(&orchestrator::MAX_MIDSTREAM_INJECTIONS, json!(shown_max)),
    }
    if orchestrator.strategy.is_independent() {
        add(&orchestrator::STRATEGY, json!(orchestrator.strategy.name()));
    }
    if let Some(reviewer) = &orchestrator.reviewer {
        add(&orchestrator::REVIEWER, json!(reviewer));
    }
    match orchestrator.presentation {
        PresentationMode::Presented => {}
        PresentationMode::Always => {
            add(
                &orchestrator::FINAL_ANSWER_STRATEGY,
                json!(orchestrator::WINNER_PRESENTS),
            );
        }
        PresentationMode::Skipped => add(&orchestrator::SKIP_FINAL_PRESENTATION, json!(true)),
    }
    if let Some(checklist) = &orchestrator.checklist {
        add(&orchestrator::VOTING_SENSITIVITY, json!("checklist_gated"));
        add(&orchestrator::VOTING_THRESHOLD, json!(checklist.threshold));
    }
    rules
}

/// Returns the section `coordination`.
fn coordination_section(orchestrator: &OrchestratorConfig) -> Value {
    let mut rules = Map::new();
    let mut add = |name: &str, value: Value| drop(rules.insert(name.to_owned(), value));
    add(
        coordination::MAX_ORCHESTRATION_RESTARTS.name(),
        json!(orchestrator.max_orchestration_restarts),
    );
    // Both modes decide whether there is a final phase.
    if orchestrator.write_mode == WriteMode::Legacy {
        let mode = coordination::LEGACY_WRITE_MODE;
        add(coordination::WRITE_MODE.name(), json!(mode));
    }
    if orchestrator.planning != PlanningMode::Off {
        add(coordination::ENABLE_PLANNING_MODE.name(), json!(true));
    }
    let task_planning = orchestrator.task_planning;
    add(
        coordination::ENABLE_AGENT_TASK_PLANNING.name(),
        json!(task_planning.entries_max().is_some()),
    );
    add(
        coordination::MAX_TASKS_PER_PLAN.name(),
        json!(task_planning.entries_max()),
    );
    if let Some(subagents) = orchestrator.subagents {
        add(coordination::ENABLE_SUBAGENTS.name(), json!(true));
        add(
            coordination::SUBAGENT_DEFAULT_TIMEOUT.name(),
            json!(subagents.timeout_seconds),
        );
        add(
            coordination::SUBAGENT_MAX_CONCURRENT.name(),
            json!(subagents.concurrent_max),
        );
    }
    if let Some(checklist) = &orchestrator.checklist {
        // Their texts are instructions, but their number has to fit the recorded scores.
        let numbers = 1..=checklist.criteria.len();
        let criteria: Vec<String> = numbers
            .map(|number| format!("criterion {number}"))
            .collect();
        add(coordination::CHECKLIST_CRITERIA.name(), json!(criteria));
    }
    if let Some(generated) = orchestrator.preparation.criteria {
        add(
            preparation::CRITERIA.name(),
            json!({
                preparation::ENABLED.name(): true,
                preparation::MIN_CRITERIA.name(): generated.count_min,
                preparation::MAX_CRITERIA.name(): generated.count_max,
            }),
        );
    }
    Value::Object(rules)
}

/// Returns the entries of `upload_files` of `agent`.
fn upload_entries(agent: &AgentConfig) -> Vec<Value> {
    let images = agent
        .uploaded_images
        .iter()
        .map(|image| json!({media::IMAGE_PATH.name(): image.to_string()}));
    let urls = agent
        .uploaded_image_urls
        .iter()
        .map(|url| json!({media::IMAGE_URL.name(): url.as_str()}));
    let files = agent
        .uploaded_files
        .iter()
        .map(|file| json!({file.key(): file.source.to_string()}));
    images.chain(urls).chain(files).collect()
}

/// Returns the entry of an agent in the list `agents`.
fn agent_entry(agent: &AgentConfig) -> Value {
    let mut backend = Map::new();
    let mut add = |key: &ConfigKey, value: Value| backend.insert(key.name().to_owned(), value);
    add(&backend::TYPE, json!("scripted"));
    add(
        &backend::SCRIPT,
        json!(format!("replies/{}.yaml", agent.id)),
    );
    if agent.cwd.is_some() {
        add(&backend::CWD, json!(agent.id));
    }
    add(
        &context_paths::KEY,
        context_path_entries(&agent.context_paths),
    );
    let upload_entries = upload_entries(agent);
    if !upload_entries.is_empty() {
        add(&media::UPLOAD_FILES, json!(upload_entries));
    }
    if let Some(allowed_tools) = &agent.tools.allowed {
        add(&backend::ALLOWED_TOOLS, json!(allowed_tools));
    }
    add(&backend::EXCLUDE_TOOLS, json!(agent.tools.excluded));
    let is_enforced = agent.read_before_delete == ReadBeforeDelete::Enforced;
    add(&backend::ENFORCE_READ_BEFORE_DELETE, json!(is_enforced));
    if let FolderGuard::On {
        root,
        read,
        write,
        workspace_preset,
        downloads,
    } = &agent.folder_guard
    {
        let read: Vec<String> = read.iter().map(ToString::to_string).collect();
        let write: Vec<String> = write.iter().map(ToString::to_string).collect();
        let downloads = *downloads == DownloadsAccess::Open;
        add(
            &context_paths::GUARD,
            json!({
                context_paths::ROOT.name(): root.as_ref().map(ToString::to_string),
                context_paths::PRESET.name(): workspace_preset.map(GuardPreset::name),
                context_paths::READ.name(): read,
                context_paths::WRITE.name(): write,
                context_paths::DOWNLOADS.name(): downloads,
            }),
        );
    }
    json!({
        agents::ID.name(): agent.id,
        limits::KEY.name(): {
            limits::MAX_STEPS_PER_ROUND.name(): agent.steps_per_round_max,
        },
        agents::BACKEND.name(): backend,
    })
}

fn context_path_entries(paths: &[ContextPath]) -> Value {
    let entry = |context: &ContextPath| {
        let to_strings =
            |paths: &[RelPath]| -> Vec<String> { paths.iter().map(ToString::to_string).collect() };
        json!({
            context_paths::PATH.name(): context.path.to_string(),
            context_paths::PERMISSION.name(): context.permission.to_string(),
            context_paths::PROTECTED_PATHS.name(): to_strings(&context.protected),
            context_paths::HIDDEN_PATHS.name(): to_strings(&context.hidden),
            context_paths::UNPROTECTED.name(): context.unprotected,
            // The run was allowed to open it.
            context_paths::ALLOW_BROAD.name(): true,
        })
    };
    paths.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::machine_policy::MachinePolicy;
    use crate::config::{ConfigContext, ConfigOrigin, load};
    use crate::dotenv::ConfigVariables;
    use crate::path::AbsPath;

    fn load_config(text: &str) -> Config {
        let base = AbsPath::new("/p").unwrap();
        let origin = ConfigOrigin {
            name: "c.yaml".to_owned(),
            directory: Some(base.clone()),
        };
        let context = ConfigContext {
            base: &base,
            state_parent: &base,
            home: Some(&base),
            env: &ConfigVariables::default(),
            packages: &BTreeSet::new(),
            policy: &MachinePolicy::default(),
        };
        match load(text.as_bytes(), &origin, &context) {
            Ok(loaded) => loaded.config,
            Err(invalid) => panic!("{}", invalid.render()),
        }
    }

    /// A team with what is recorded of its agents and of their common rules.
    const TEAM: &str = r"
agents:
  - id: one
    backend:
      type: chatcompletion
      model: m
      api_key: a-secret-key
      cwd: /srv/one
      allowed_tools: [read_text_file]
      exclude_tools: [delete_file]
      enforce_read_before_delete: false
      context_paths: [{path: docs, permission: write, protected_paths: [a], hidden_paths: [b/c]}]
      upload_files:
        - {image_path: pictures/a.png}
        - {image_url: 'https://example.org/b.png'}
        - {file_path: papers/a.pdf, audio_path: /srv/a.wav}
        - {video_path: 'https://example.org/a.mp4'}
  - id: two
    folder_guard: {read: [/srv/r], write: [/srv/w], downloads: false}
    backend: {type: ollama, model: m, cwd: w2}
  - id: three
    folder_guard: {preset: planning}
    backend: {type: ollama, model: m, cwd: w3}
  - id: four
    folder_guard: {preset: validation, root: /srv/v}
    backend: {type: ollama, model: m, cwd: w4}
orchestrator:
  context_paths: [{path: /p, permission: write, unprotected: [.git], allow_broad: true}]
  max_new_answers_per_agent: 3
  answer_novelty_requirement: strict
  fairness_lead_cap_answers: 5
  max_midstream_injections_per_round: 3
  skip_final_presentation: true
  skip_coordination_rounds: true
  voting_sensitivity: checklist_gated
  voting_threshold: 2
  coordination:
    checklist_criteria_inline: [complete, tested]
    evaluation_criteria_generator: {enabled: true, max_criteria: 5}
    max_orchestration_restarts: 2
    enable_planning_mode: true
    enable_agent_task_planning: true
    max_tasks_per_plan: 7
    enable_subagents: true
    subagent_max_concurrent: 2
";

    #[test]
    fn a_team_is_read_back_with_its_rules_paths_and_tools() {
        let config = load_config(TEAM);
        let written = recorded_config(&config);
        assert!(!written.to_string().contains("secret"), "{written}");
        let again = load_config(&written.to_string());
        let seen = |config: &Config| {
            let agents = config.agents.iter();
            let agents = agents.map(|agent| {
                let AgentConfig {
                    id,
                    context_paths,
                    uploaded_images,
                    uploaded_image_urls,
                    uploaded_files,
                    folder_guard,
                    read_before_delete,
                    tools,
                    ..
                } = agent;
                let has_workspace = agent.cwd.is_some();
                format!(
                    "{id} {has_workspace} {context_paths:?} {uploaded_images:?} \
                     {uploaded_image_urls:?} {uploaded_files:?} {folder_guard:?} \
                     {read_before_delete:?} {tools:?}"
                )
            });
            let agents: Vec<String> = agents.collect();
            let rules = &config.orchestrator;
            (
                agents,
                rules.context_paths.clone(),
                (rules.max_new_answers_per_agent, rules.answer_novelty),
                (rules.answer_lead_max, rules.new_answers_shown_max),
                (rules.strategy, rules.reviewer.clone()),
                (rules.skips_coordination, rules.presentation),
                rules.planning.clone(),
                rules
                    .checklist
                    .as_ref()
                    .map(|list| (list.criteria.len(), list.threshold)),
                rules.preparation.criteria,
                rules.max_orchestration_restarts,
                rules.task_planning,
                rules.subagents,
            )
        };
        assert_eq!(seen(&again), seen(&config));
        assert_eq!(recorded_config(&again), written);
    }
}
