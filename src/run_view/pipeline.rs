//! The stages of a pipeline of roles, over its iterations.

use serde::Serialize;

use crate::event::PipelineEvent;
use crate::id::AgentId;

/// Maximum number of stages that are kept, over all iterations; the oldest go first.
pub const STAGES_MAX: usize = 500;
/// Maximum number of runs that a stage names; later ones are left out.
const STAGE_RUNS_MAX: usize = 32;

/// The stages that have begun, in order.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PipelineStages {
    /// The stages.
    pub stages: Vec<StageView>,
    /// The number of stages in each iteration.
    pub stage_count: usize,
}

/// The work of one role in one iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StageView {
    /// The iteration, from 1.
    pub iteration: u32,
    /// The stage, from 1.
    pub stage: usize,
    /// The role; instances of a replicated role have a number after its name.
    pub role: String,
    /// The agents of the role.
    pub agents: Vec<AgentId>,
    /// The names of the runs in which it worked, oldest first.
    pub runs: Vec<String>,
    /// How far it is.
    #[serde(flatten)]
    pub progress: StageProgress,
}

/// How far a stage is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum StageProgress {
    /// The role works.
    Working,
    /// Its work was merged.
    Merged {
        /// The merge commit.
        commit: String,
        /// The number of files that the role changed.
        files: usize,
    },
    /// Its work was rejected.
    Rejected {
        /// The reason.
        reason: String,
        /// The attempt that was rejected, from 1.
        attempt: u32,
        /// The maximum number of attempts.
        attempts_max: u32,
    },
}

impl PipelineStages {
    /// Folds an event into the stages.
    pub(super) fn apply(&mut self, event: &PipelineEvent) {
        match event {
            PipelineEvent::Works {
                iteration,
                role,
                stage,
                stages,
                agents,
            } => {
                self.stage_count = *stages;
                self.begin_stage(StageView {
                    iteration: *iteration,
                    stage: *stage,
                    role: role.clone(),
                    agents: agents.clone(),
                    runs: Vec::new(),
                    progress: StageProgress::Working,
                });
            }
            PipelineEvent::StageRun { role, run } => {
                if let Some(stage) = self.last_stage(role)
                    && !stage.runs.contains(run)
                    && stage.runs.len() < STAGE_RUNS_MAX
                {
                    stage.runs.push(run.clone());
                }
            }
            PipelineEvent::Merged {
                role,
                commit,
                files,
                ..
            } => self.set_progress(
                role,
                StageProgress::Merged {
                    commit: commit.clone(),
                    files: *files,
                },
            ),
            PipelineEvent::Refused {
                role,
                reason,
                tried,
                tries_max,
            } => self.set_progress(
                role,
                StageProgress::Rejected {
                    reason: reason.clone(),
                    attempt: *tried,
                    attempts_max: *tries_max,
                },
            ),
        }
    }

    /// Returns the agents of the last stage of a role.
    pub(super) fn agents_of(&self, role: &str) -> &[AgentId] {
        let mut stages = self.stages.iter().rev();
        let stage = stages.find(|stage| stage.role == role);
        stage.map_or(&[], |stage| stage.agents.as_slice())
    }

    /// Returns the agents of the last stage in which `agent` works, among them itself.
    pub(super) fn teammates(&self, agent: &AgentId) -> &[AgentId] {
        let mut stages = self.stages.iter().rev();
        let stage = stages.find(|stage| stage.agents.contains(agent));
        stage.map_or(&[], |stage| stage.agents.as_slice())
    }

    /// Adds a stage. One that begins again, because the pipeline was resumed, keeps its runs.
    fn begin_stage(&mut self, stage: StageView) {
        let is_same_stage = |known: &&mut StageView| {
            known.iteration == stage.iteration && known.stage == stage.stage
        };
        if let Some(known_stage) = self.last_stage(&stage.role).filter(is_same_stage) {
            known_stage.progress = StageProgress::Working;
            return;
        }
        if self.stages.len() == STAGES_MAX {
            self.stages.remove(0);
        }
        self.stages.push(stage);
    }

    fn set_progress(&mut self, role: &str, progress: StageProgress) {
        if let Some(stage) = self.last_stage(role) {
            stage.progress = progress;
        }
    }

    /// Returns the last stage of a role.
    fn last_stage(&mut self, role: &str) -> Option<&mut StageView> {
        let mut stages = self.stages.iter_mut().rev();
        stages.find(|stage| stage.role == role)
    }
}
