//! Writes a team as a config for replaying its run: scripted agents with the same rules, paths and
//! tools. Instructions to models are left out, because recorded models do not read them. It must
//! never contain a key.

use serde_json::{Map, Value, json};

use crate::config::{AgentConfig, Config, ContextPath, CoordinationMode, NoveltyRequirement};
use crate::path::RelPath;
use crate::permissions::guard::{DownloadsAccess, FolderGuard, GuardPreset};
use crate::permissions::history::ReadBeforeDelete;

/// Returns a config of `config`'s team with recorded replies. Workspaces are massgen's, named after
/// their agents.
pub fn recorded_config(config: &Config) -> Value {
    let orchestrator = &config.orchestrator;
    let agents: Vec<Value> = config.agents.iter().map(agent).collect();
    json!({
        "agents": agents,
        "orchestrator": {
            "context_paths": context_paths(&orchestrator.context_paths),
            "max_new_answers_per_agent": orchestrator.max_new_answers_per_agent,
            "answer_novelty_requirement": match orchestrator.answer_novelty {
                NoveltyRequirement::Lenient => "lenient",
                NoveltyRequirement::Balanced => "balanced",
                NoveltyRequirement::Strict => "strict",
            },
            "skip_coordination_rounds": orchestrator.coordination == CoordinationMode::Skip,
            "coordination": {
                "max_orchestration_restarts": orchestrator.max_orchestration_restarts,
            },
        },
    })
}

fn agent(agent: &AgentConfig) -> Value {
    let mut backend = Map::new();
    let mut add = |key: &str, value: Value| backend.insert(key.to_owned(), value);
    add("type", json!("scripted"));
    add("script", json!(format!("replies/{}.yaml", agent.id)));
    if agent.cwd.is_some() {
        add("cwd", json!(agent.id));
    }
    add("context_paths", context_paths(&agent.context_paths));
    if let Some(allowed) = &agent.tools.allowed {
        add("allowed_tools", json!(allowed));
    }
    add("exclude_tools", json!(agent.tools.excluded));
    let enforced = agent.read_before_delete == ReadBeforeDelete::Enforced;
    add("enforce_read_before_delete", json!(enforced));
    if let FolderGuard::On {
        root,
        read,
        write,
        own,
        downloads,
    } = &agent.folder_guard
    {
        let read: Vec<String> = read.iter().map(ToString::to_string).collect();
        let write: Vec<String> = write.iter().map(ToString::to_string).collect();
        let downloads = *downloads == DownloadsAccess::Open;
        add(
            "folder_guard",
            json!({
                "root": root.as_ref().map(ToString::to_string),
                "preset": own.map(GuardPreset::name),
                "read": read,
                "write": write,
                "downloads": downloads,
            }),
        );
    }
    json!({
        "id": agent.id,
        "limits": {"max_steps_per_round": agent.steps_per_round_max},
        "backend": backend,
    })
}

fn context_paths(paths: &[ContextPath]) -> Value {
    let entry = |context: &ContextPath| {
        let inside =
            |paths: &[RelPath]| -> Vec<String> { paths.iter().map(ToString::to_string).collect() };
        json!({
            "path": context.path.to_string(),
            "permission": context.permission.to_string(),
            "protected_paths": inside(&context.protected),
            "hidden_paths": inside(&context.hidden),
            "unprotected": context.unprotected,
            "allow_broad": true,
        })
    };
    paths.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigContext, ConfigOrigin, load};
    use crate::dotenv::ConfigVariables;
    use crate::path::AbsPath;

    fn loaded(text: &str) -> Config {
        let base = AbsPath::new("/p").unwrap();
        let origin = ConfigOrigin {
            name: "c.yaml".to_owned(),
            directory: Some(base.clone()),
        };
        let context = ConfigContext {
            base: &base,
            home: Some(&base),
            env: &ConfigVariables::default(),
        };
        match load(text.as_bytes(), &origin, &context) {
            Ok(loaded) => loaded.config,
            Err(invalid) => panic!("{}", invalid.render()),
        }
    }

    #[test]
    fn a_team_is_read_back_with_its_rules_paths_and_tools() {
        let config = loaded(
            r"
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
  skip_coordination_rounds: true
  coordination: {max_orchestration_restarts: 2}
",
        );
        let written = recorded_config(&config);
        assert!(!written.to_string().contains("secret"), "{written}");
        let again = loaded(&written.to_string());
        let seen = |config: &Config| {
            let agents = config.agents.iter();
            let agents = agents.map(|agent| {
                let AgentConfig {
                    id,
                    context_paths,
                    folder_guard,
                    read_before_delete,
                    tools,
                    ..
                } = agent;
                let has_workspace = agent.cwd.is_some();
                format!(
                    "{id} {has_workspace} {context_paths:?} {folder_guard:?} \
                     {read_before_delete:?} {tools:?}"
                )
            });
            let agents: Vec<String> = agents.collect();
            let rules = &config.orchestrator;
            (
                agents,
                rules.context_paths.clone(),
                rules.max_new_answers_per_agent,
                rules.answer_novelty,
                rules.coordination,
                rules.max_orchestration_restarts,
            )
        };
        assert_eq!(seen(&again), seen(&config));
        assert_eq!(recorded_config(&again), written);
    }
}
