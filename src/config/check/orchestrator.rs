//! Reads the rules of coordination and the timeouts from a config.

use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, TextValue};
use crate::config::diagnostic::{Diagnostic, quote};
use crate::config::storage_path::StoragePath;
use crate::config::{
    CoordinationMode, NoveltyRequirement, OrchestratorConfig, PlanningMode, TimeoutConfig,
    VotingSensitivity,
};

impl ConfigChecker<'_> {
    /// Returns the section `orchestrator`, or the defaults without it.
    pub(super) fn orchestrator(&mut self, root: &MappingView<'_>) -> OrchestratorConfig {
        let default = OrchestratorConfig::default();
        let Some(view) = root.section("orchestrator") else {
            return default;
        };
        let degree = |key| view.text(key).map(|text| text.written);
        OrchestratorConfig {
            context_paths: self.context_paths(&view),
            snapshot_storage: self.storage(&view, "snapshot_storage", default.snapshot_storage),
            agent_temporary_workspace: self.storage(
                &view,
                "agent_temporary_workspace",
                default.agent_temporary_workspace,
            ),
            session_storage: self.storage(&view, "session_storage", default.session_storage),
            voting_sensitivity: match degree("voting_sensitivity") {
                Some("balanced") => VotingSensitivity::Balanced,
                Some("strict") => VotingSensitivity::Strict,
                _ => VotingSensitivity::Lenient,
            },
            max_new_answers_per_agent: count(&view, "max_new_answers_per_agent"),
            answer_novelty: match degree("answer_novelty_requirement") {
                Some("balanced") => NoveltyRequirement::Balanced,
                Some("strict") => NoveltyRequirement::Strict,
                _ => NoveltyRequirement::Lenient,
            },
            coordination: match view.flag("skip_coordination_rounds") {
                Some(true) => CoordinationMode::Skip,
                _ => CoordinationMode::Vote,
            },
            planning: planning(&view),
            max_orchestration_restarts: view
                .section("coordination")
                .and_then(|view| count(&view, "max_orchestration_restarts"))
                .unwrap_or(default.max_orchestration_restarts),
        }
    }

    fn storage(&mut self, view: &MappingView<'_>, key: &str, default: StoragePath) -> StoragePath {
        match view.text(key) {
            Some(text) => self.place(&text).unwrap_or(default),
            None => default,
        }
    }

    /// Returns the directory that a string names, below the state directory unless absolute. Adds
    /// an error if it is invalid.
    pub(super) fn place(&mut self, text: &TextValue<'_>) -> Option<StoragePath> {
        if text.written.starts_with('~') {
            return self.path(text).map(StoragePath::Absolute);
        }
        let place = StoragePath::parse(text.written);
        if place.is_none() {
            let message = format!("{} is not a directory of massgen", quote(text.written));
            let error = Diagnostic::error(&text.path, message).with_span(text.span);
            self.findings.push(error.with_suggestion(
                "use a name without `..`, which is then below `.massgen/`, or an absolute path",
            ));
        }
        place
    }
}

/// Returns the section `timeout_settings`, or the defaults without it.
pub(super) fn timeouts(root: &MappingView<'_>) -> TimeoutConfig {
    let default = TimeoutConfig::default();
    let Some(view) = root.section("timeout_settings") else {
        return default;
    };
    let seconds = |key| view.integer(key);
    TimeoutConfig {
        orchestrator_seconds: seconds("orchestrator_timeout_seconds")
            .unwrap_or(default.orchestrator_seconds),
        initial_round_seconds: seconds("initial_round_timeout_seconds"),
        subsequent_round_seconds: seconds("subsequent_round_timeout_seconds"),
        round_grace_seconds: seconds("round_timeout_grace_seconds")
            .unwrap_or(default.round_grace_seconds),
    }
}

fn planning(view: &MappingView<'_>) -> PlanningMode {
    let Some(view) = view.section("coordination") else {
        return PlanningMode::Off;
    };
    let instruction = view.text("planning_mode_instruction");
    match view.flag("enable_planning_mode") {
        Some(true) => PlanningMode::On {
            instruction: instruction.map(|text| text.written.to_owned()),
        },
        _ => PlanningMode::Off,
    }
}

fn count(view: &MappingView<'_>, key: &str) -> Option<u32> {
    view.integer(key)
        .and_then(|count| u32::try_from(count).ok())
}
