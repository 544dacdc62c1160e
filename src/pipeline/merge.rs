//! Merges a role's work into the shared branch: its files are committed, merged, and checked; then
//! the branch moves, atomically. Work that does not merge goes back to the role.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::agent::deadline::RunDeadline;
use crate::check_results::CheckResult;
use crate::error::{ExitStatus, Result};
use crate::event::{PipelineEvent, RunEvent};
use crate::id::AgentId;
use crate::layout::{RunLayout, RunName};
use crate::orchestrator::check_runner::{CheckRunner, CheckTarget, CheckedAgent, CheckedWorkspace};
use crate::orchestrator::environments::{AgentEnvironments, EnvironmentSpecs};
use crate::orchestrator::execution::validate_checks;
use crate::orchestrator::grants::checkout_grant;
use crate::orchestrator::overlays::OverlayFactory;
use crate::orchestrator::process_specs::EnvironmentSpec;
use crate::orchestrator::team::command_config_of_checks;
use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::Grant;
use crate::pipeline::commit::ANSWER_CHARS_MAX;
use crate::pipeline::repository::{CUMULATIVE_FILE, SHARED_FILE};
use crate::pipeline::role_instance::{WriteScope, common_commands};
use crate::pipeline::stage_run::{StageOutcome, StageResult, StageRun, StageTask};
use crate::pipeline::{PipelineRun, PipelineStop};
use crate::roles::built_in::UNDERSTAND;
use crate::roles::journal::{JournalEntry, MergeEntry};
use crate::roles::progress::RoleVerdict;
use crate::roles::sections::self_review;
use crate::text::{count_noun, list_first, single_line, truncate};
use crate::world::git::bare_repository::{ChangedFile, MergeResult};
use crate::world::git::object::ObjectId;

/// Maximum size of a file that is read from a tree, in bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Maximum number of files that a reason names.
const NAMED_MAX: usize = 5;
/// Maximum length of the explanations of excluded files in a reason, in characters.
const EXPLANATION_CHARS_MAX: usize = 300;
/// The directory of the checks' overlays, which is named after the run where there is one.
const CHECKS_DIRECTORY: &str = "merge";

/// Merges the work of a stage run.
#[derive(Debug)]
pub(super) struct StageMerger<'a> {
    pub(super) pipeline: &'a PipelineRun,
    pub(super) stage_run: &'a StageRun<'a>,
}

/// Rejection of work that cannot be merged.
struct MergeRejection {
    /// The reason, in one sentence.
    reason: String,
    /// The task for the role: what to repair.
    task: String,
    /// The tree that the repair starts from.
    tree: ObjectId,
}

/// Result of an attempt to merge.
enum MergeAttempt {
    Merged,
    Rejected(MergeRejection),
    Stopped(PipelineStop),
}

impl StageMerger<'_> {
    /// Merges the work of a stage run, and lets its role repair what does not merge. Returns why
    /// the pipeline ends there, if it does.
    pub(super) async fn run(&self, first_result: StageResult) -> Result<Option<PipelineStop>> {
        let earlier_attempts = self
            .pipeline
            .newest_repair_attempt(&self.stage_run.instance)?;
        let tries_max = self.pipeline.workflow.merge_tries_max;
        let mut attempts_max = earlier_attempts.saturating_add(tries_max);
        // Earlier attempts are committed; the newest attempt has replaced their files. Should the
        // newest commit be rejected again, the newest attempt is resumed: so one less is counted.
        let mut attempt = earlier_attempts.saturating_sub(1);
        let mut commit = match earlier_attempts {
            0 => self.commit_work(&first_result, 0).await?,
            _ => self.newest_commit().await?,
        };
        let mut stage_result = first_result;
        loop {
            let rejection = match self.try_to_merge(&commit, attempt, &stage_result).await? {
                MergeAttempt::Merged => {
                    // The user may run git there, so nothing in its repository may come from an
                    // agent.
                    stage_result.checkout.remove_private_repository()?;
                    return Ok(None);
                }
                MergeAttempt::Stopped(stop) => return Ok(Some(stop)),
                MergeAttempt::Rejected(rejection) => rejection,
            };
            let mut task = rejection.task.clone();
            if attempt >= attempts_max {
                let role = &self.stage_run.stage.role.name;
                match self.pipeline.ask_for_advice(role, &rejection.reason).await {
                    Some(advice) => {
                        task = format!("{task}\n\nThe user says: {advice}");
                        attempts_max = attempts_max.saturating_add(1);
                    }
                    None => return Ok(Some(self.stop_after_attempts(attempt, &rejection.reason))),
                }
            }
            attempt = attempt.saturating_add(1);
            self.emit_rejection(&rejection.reason, attempt, attempts_max)
                .await;
            match Box::pin(self.run_repair(rejection.tree, task, attempt)).await? {
                StageOutcome::Stopped(stop) => return Ok(Some(stop)),
                StageOutcome::Completed(repaired) => stage_result = *repaired,
            }
            commit = self.commit_work(&stage_result, attempt).await?;
        }
    }

    async fn run_repair(&self, tree: ObjectId, task: String, attempt: u32) -> Result<StageOutcome> {
        let question = match &self.stage_run.task {
            StageTask::Initial { question } | StageTask::Repair { question, .. } => question,
        };
        let repair = StageRun {
            stage: self.stage_run.stage,
            instance: self.stage_run.instance.clone(),
            task: StageTask::Repair {
                question: format!("{question}\n\n{task}"),
                attempt,
                tree,
            },
        };
        let tip = self.pipeline.repository.tip().await?;
        Box::pin(self.pipeline.run_stage_instance(&repair, &tip)).await
    }

    async fn try_to_merge(
        &self,
        commit: &ObjectId,
        attempt: u32,
        stage_result: &StageResult,
    ) -> Result<MergeAttempt> {
        let repository = &self.pipeline.repository;
        let main = repository.tip().await?;
        let merge_result = repository.bare_repository.merge(&main, commit).await?;
        if let Some(explanation) = self.explain_excluded_files(commit).await? {
            // The commit of a repair has the shared branch as a parent, so its files must be there.
            let (MergeResult::Clean(tree) | MergeResult::Conflict { tree, .. }) = merge_result;
            return Ok(MergeAttempt::Rejected(excluded_files_rejection(
                &explanation,
                tree,
            )));
        }
        let tree = match merge_result {
            MergeResult::Clean(tree) => tree,
            MergeResult::Conflict { tree, files } => {
                return Ok(MergeAttempt::Rejected(conflict_rejection(&files, tree)));
            }
        };
        let changed_files = repository
            .bare_repository
            .changed_files(&main, &tree)
            .await?;
        if let Some(stop) = self.check_write_scope(&changed_files) {
            return Ok(MergeAttempt::Stopped(stop));
        }
        let names: Vec<String> = changed_files
            .into_iter()
            .map(|changed| changed.path)
            .collect();
        // A repair starts from files with both sides of a conflict.
        if attempt > 0 {
            let conflicting = self.files_with_conflict_markers(&tree, &names).await?;
            if !conflicting.is_empty() {
                return Ok(MergeAttempt::Rejected(conflict_rejection(
                    &conflicting,
                    tree,
                )));
            }
        }
        if let Some(rejection) = self.failed_check_rejection(&tree, stage_result).await? {
            return Ok(MergeAttempt::Rejected(rejection));
        }
        let (tree, work_state) = self.with_documents(&tree, &main, stage_result).await?;
        let instance = &self.stage_run.instance;
        let entry = JournalEntry::Merge(MergeEntry {
            iteration: instance.iteration,
            role: self.stage_run.stage.role.name.clone(),
            copy: instance.copy,
            copies: instance.copies,
            agent: stage_result.agent.clone(),
            satisfied: RoleVerdict::parse(&stage_result.answer) == RoleVerdict::Satisfied,
            tree_state: work_state.to_string(),
        });
        let commit_subject = self.commit_subject(stage_result);
        let summary = commit_subject
            .split_once("] ")
            .map_or("work", |(_, summary)| summary);
        let subject = format!("[supervisor] merge {}: {summary}", instance.name);
        let message = entry.message(&subject, &truncate(&stage_result.answer, ANSWER_CHARS_MAX));
        let merge_parents = std::slice::from_ref(commit);
        let merge_commit = repository
            .commit(&main, merge_parents, &tree, &message)
            .await?;
        let event = PipelineEvent::Merged {
            iteration: instance.iteration,
            role: instance.name.clone(),
            commit: merge_commit.to_string(),
            files: names.len(),
        };
        self.pipeline.events.emit(event).await;
        Ok(MergeAttempt::Merged)
    }

    /// Returns why the pipeline ends, if a role has changed files outside its scope.
    fn check_write_scope(&self, changed_files: &[ChangedFile]) -> Option<PipelineStop> {
        let role = &self.stage_run.stage.role;
        let write_scope = WriteScope::for_role(role, &self.pipeline.repository.record.directory);
        let is_outside =
            |path: &str| RelPath::new(path).is_none_or(|path| !write_scope.allows(&path));
        let paths = changed_files.iter().map(|file| file.path.as_str());
        let outside: Vec<&str> = paths.filter(|path| is_outside(path)).collect();
        let moved_submodule = changed_files.iter().find(|file| file.is_submodule);
        let reason = match (outside.as_slice(), moved_submodule) {
            ([], None) => return None,
            ([], Some(moved_submodule)) => format!(
                "{} moved the submodule `{}`",
                role.name, moved_submodule.path
            ),
            (outside, _) => {
                let paths = list_first(outside, NAMED_MAX);
                format!("{} changed what is not its own: {paths}", role.name)
            }
        };
        Some(PipelineStop {
            status: ExitStatus::Denied,
            reason,
            is_final: true,
            limit: None,
        })
    }

    /// Returns the files that still contain conflict markers.
    async fn files_with_conflict_markers(
        &self,
        tree: &ObjectId,
        names: &[String],
    ) -> Result<Vec<String>> {
        let mut conflicting = Vec::new();
        for name in names {
            let Some(path) = RelPath::new(name) else {
                continue;
            };
            let bare_repository = &self.pipeline.repository.bare_repository;
            let bytes = bare_repository.file(tree, &path, FILE_BYTES_MAX).await?;
            let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let text = text.unwrap_or_default();
            let has_marker = |marker: &str| text.lines().any(|line| line.starts_with(marker));
            if has_marker("<<<<<<< ") && has_marker(">>>>>>> ") {
                conflicting.push(name.clone());
            }
        }
        Ok(conflicting)
    }

    /// Returns `tree` with the documents that massgen writes to it, and the tree without them and
    /// without the files that roles leave for each other, which shows whether there is progress.
    async fn with_documents(
        &self,
        tree: &ObjectId,
        main: &ObjectId,
        stage_result: &StageResult,
    ) -> Result<(ObjectId, ObjectId)> {
        let repository = &self.pipeline.repository;
        let (role, instance) = (&self.stage_run.stage.role, &self.stage_run.instance);
        let mut files = Vec::new();
        if role.name.as_str() == UNDERSTAND {
            let text = self.pipeline.clarify_task(&stage_result.answer).await;
            files.push((repository.shared_file(SHARED_FILE), Some(text.into_bytes())));
        }
        let path = repository.shared_file(CUMULATIVE_FILE);
        let tree_before = repository.bare_repository.tree_of(main).await?;
        let previous_reviews = repository
            .bare_repository
            .file(&tree_before, &path, FILE_BYTES_MAX)
            .await?
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let previous_reviews =
            previous_reviews.unwrap_or_else(|| "# Cumulative understanding\n".to_owned());
        let review =
            self_review(&stage_result.answer).unwrap_or("It says nothing of its own work.");
        let (name, iteration) = (&instance.name, instance.iteration);
        let text = format!("{previous_reviews}\n## {name}, iteration {iteration}\n\n{review}\n");
        files.push((path, Some(text.into_bytes())));
        let tree_with_documents = repository.bare_repository.with_files(tree, &files).await?;
        let stages = self.pipeline.spec().stages.iter();
        let outputs = stages.filter_map(|stage| {
            let output = RelPath::new(stage.role.output.as_ref()?)?;
            Some(repository.role_directory(&stage.role.name).join(&output))
        });
        let massgen_documents =
            [SHARED_FILE, CUMULATIVE_FILE].map(|name| repository.shared_file(name));
        let removals: Vec<_> = outputs
            .chain(massgen_documents)
            .map(|path| (path, None))
            .collect();
        let work_state = repository
            .bare_repository
            .with_files(&tree_with_documents, &removals)
            .await?;
        Ok((tree_with_documents, work_state))
    }

    /// Returns why the config's checks reject this tree, if they do.
    async fn failed_check_rejection(
        &self,
        tree: &ObjectId,
        stage_result: &StageResult,
    ) -> Result<Option<MergeRejection>> {
        let pipeline = self.pipeline;
        if pipeline.config.checks.list.is_empty() {
            return Ok(None);
        }
        let checkout = pipeline.repository.checks_checkout();
        checkout.show(tree).await?;
        // The environment of the checks must exist as long as they run.
        let (check_runner, _environments) =
            pipeline.check_runner(&stage_result.agent, checkout.dir())?;
        let deadline = RunDeadline {
            deadline: check_deadline(),
            stop: pipeline.shutdown.graceful.clone(),
        };
        let target = CheckTarget::Delivery {
            settled: Vec::new(),
        };
        let results = check_runner
            .run_checks(
                &stage_result.agent,
                target,
                &deadline,
                pipeline.events.display(),
            )
            .await;
        let failed_checks: Vec<&CheckResult> = results.unmet_requirements().collect();
        if failed_checks.is_empty() {
            return Ok(None);
        }
        let outputs: Vec<String> = failed_checks
            .iter()
            .map(|result| {
                let CheckResult {
                    check,
                    verdict,
                    tail,
                    ..
                } = result;
                format!("`{check}` {verdict}\n{tail}")
            })
            .collect();
        let names: Vec<&str> = failed_checks
            .iter()
            .map(|result| result.check.as_str())
            .collect();
        Ok(Some(MergeRejection {
            reason: format!("required checks fail: {}", names.join(", ")),
            task: format!(
                "Your work was not merged: on the tree with it these checks do not pass. The checkout \
                 holds that tree; put it right.\n\n{}",
                outputs.join("\n\n")
            ),
            tree: tree.clone(),
        }))
    }

    async fn emit_rejection(&self, reason: &str, attempt: u32, attempts_max: u32) {
        let event = PipelineEvent::Refused {
            role: self.stage_run.instance.name.clone(),
            reason: reason.to_owned(),
            tried: attempt,
            tries_max: attempts_max,
        };
        self.pipeline.events.emit(event).await;
    }

    fn stop_after_attempts(&self, attempts: u32, reason: &str) -> PipelineStop {
        let role = &self.stage_run.stage.role.name;
        PipelineStop {
            status: ExitStatus::Failure,
            is_final: false,
            limit: None,
            reason: format!(
                "the work of {role} was not merged after {}: {reason}",
                match attempts {
                    1 => "1 attempt to fix it".to_owned(),
                    _ => format!("{attempts} attempts to fix it"),
                }
            ),
        }
    }
}

/// The environment of the checks on what would be merged, with what it was built from.
#[derive(Debug)]
struct CheckSetup {
    environments: AgentEnvironments,
    grants: Vec<Grant>,
    layout: RunLayout,
}

impl PipelineRun {
    /// Returns the runner of the checks in the checkout `dir`, for the work of `agent`.
    fn check_runner(
        &self,
        agent: &AgentId,
        dir: &AbsPath,
    ) -> Result<(CheckRunner, AgentEnvironments)> {
        let CheckSetup {
            environments,
            grants,
            layout,
        } = self.prepare_checks(agent, dir)?;
        let environment = environments.check_environment(agent).cloned();
        let checked_agent = CheckedAgent {
            grants,
            environment,
            left_out: Vec::new(),
            files: CheckedWorkspace::Tree,
        };
        let checked_agents = BTreeMap::from([(agent.clone(), checked_agent)]);
        let (executable, env) = (
            &self.context.run.host.executable,
            &self.context.run.host.env,
        );
        let overlays = OverlayFactory::new(&layout, CHECKS_DIRECTORY, 1, executable, env);
        Ok((
            CheckRunner::new(&self.config.checks, checked_agents, overlays),
            environments,
        ))
    }

    fn prepare_checks(&self, agent: &AgentId, dir: &AbsPath) -> Result<CheckSetup> {
        let mut layout = RunLayout::plan(&self.config, &self.context.state_parent, RunName::new(0));
        layout.deliveries = self.repository.dir.dir().join("checks");
        let commands = common_commands(&self.config);
        let command_config = command_config_of_checks(Some(&commands), self.config.checks.sandbox);
        let grants = vec![checkout_grant(dir)?];
        let spec = EnvironmentSpec {
            id: agent,
            config: &command_config,
            grants: &grants,
            workspace: dir,
        };
        let specs = EnvironmentSpecs {
            checks: vec![spec],
            ..EnvironmentSpecs::default()
        };
        let environments = AgentEnvironments::prepare(specs, &layout, &self.context.run.host)?;
        Ok(CheckSetup {
            environments,
            grants,
            layout,
        })
    }

    /// Rejects required checks that cannot run, before any model is paid; emits a warning if
    /// optional ones cannot.
    pub(super) async fn validate_checks(&self) -> Result<()> {
        let checks = &self.config.checks;
        let agent = self.config.agents.first().map(|agent| &agent.id);
        let Some(agent) = agent.filter(|_| !checks.list.is_empty()) else {
            return Ok(());
        };
        let checkout = self.repository.checks_checkout();
        checkout.show(&self.repository.tip().await?).await?;
        let check_setup = self.prepare_checks(agent, checkout.dir())?;
        if let Some(message) = validate_checks(&check_setup.environments, checks)? {
            self.events.emit(RunEvent::Warning { message }).await;
        }
        Ok(())
    }
}

/// Returns a deadline that no check reaches: each check has its own timeout.
fn check_deadline() -> Instant {
    const DAYS: u64 = 365;
    let now = Instant::now();
    let time_left = std::time::Duration::from_hours(DAYS * 24);
    now.checked_add(time_left).unwrap_or(now)
}

fn excluded_files_rejection(explanation: &str, tree: ObjectId) -> MergeRejection {
    MergeRejection {
        reason: format!(
            "git cannot hold all of it: {}",
            single_line(explanation, EXPLANATION_CHARS_MAX)
        ),
        task: format!(
            "Your work was not merged: git cannot hold these files. Remove them, or give them other \
             names; all else that you made is there.\n\n{explanation}"
        ),
        tree,
    }
}

fn conflict_rejection(files: &[String], tree: ObjectId) -> MergeRejection {
    let file_count = count_noun(files.len(), "file");
    MergeRejection {
        reason: format!("conflict in {file_count}: {}", list_first(files, NAMED_MAX)),
        task: format!(
            "Your work was not merged: others have changed the same lines meanwhile. The checkout holds \
             both sides: in the files below, what is shared is after `<<<<<<<`, what both began with \
             after `|||||||`, and your own after `=======`, up to `>>>>>>>`. Put it right so that the \
             sense of both is kept and nothing is lost, and take out the marks.\n\n{}",
            files.join("\n")
        ),
        tree,
    }
}
