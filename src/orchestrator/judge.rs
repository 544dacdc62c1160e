//! Measures a run when it is over: the judge runs on every answer and on what was delivered. Its
//! verdicts decide nothing, and no agent sees them.

use std::time::Duration;

use tokio::time::Instant;

use crate::agent::deadline::RunDeadline;
use crate::check_results::CheckVerdict;
use crate::error::{Error, ErrorKind, Result};
use crate::event::RunEvent;
use crate::id::AgentNumber;
use crate::orchestrator::PreparedTurn;
use crate::orchestrator::check_runner::{CheckTarget, CheckedFiles};
use crate::orchestrator::coordination_result::{AcceptedAnswer, CoordinationResult};
use crate::orchestrator::grants::permission_manager;
use crate::orchestrator::team::AgentTeam;
use crate::permissions::grant::{Permission, Phase};
use crate::world::io::locate::{LocatedPath, locate};
use crate::world::io::run_blocking;
use crate::world::store::event_log;

impl PreparedTurn {
    /// Runs the judge, if there is one, on all answers, and on what the final agent `presenter` has
    /// delivered. A user who stops the run is not kept waiting.
    pub(super) async fn judge(
        &self,
        coordination: &CoordinationResult,
        presenter: Option<AgentNumber>,
    ) {
        let runner = self.team.check_runner();
        let config = self.config.checks.judge.as_ref();
        let (Some(runner), Some(config)) = (runner, config) else {
            return;
        };
        let timeout = Duration::from_secs(config.check.timeout_seconds);
        let answers = coordination.answers.values().map(|answer| {
            let target = CheckTarget::Answer(Ok(checked_files(answer)));
            (answer.label.agent, Some(answer.label), target)
        });
        let settled = Vec::new();
        let delivery =
            presenter.map(|presenter| (presenter, None, CheckTarget::Delivery { settled }));
        let leak = match &config.canary {
            Some(canary) => self.leak(canary.clone()).await,
            None => None,
        };
        for (agent, label, target) in answers.chain(delivery) {
            if let Some(reason) = leak.clone() {
                let verdict = CheckVerdict::NotRun { reason };
                self.emit(RunEvent::Judged { label, verdict }).await;
                continue;
            }
            let Ok(member) = self.member(agent) else {
                continue;
            };
            let begin = Instant::now();
            let deadline = RunDeadline {
                // The command has a timeout of its own, and time to be stopped.
                deadline: begin
                    .checked_add(timeout.saturating_mul(2))
                    .unwrap_or(begin),
                stop: self.stop.clone(),
            };
            if let Some(verdict) = runner.judge(&member.id, target, &deadline).await {
                self.emit(RunEvent::Judged { label, verdict }).await;
            }
        }
    }

    /// Returns why the files of the judge with this canary may have been seen, if they may.
    async fn leak(&self, canary: String) -> Option<String> {
        let log = self.event_log.clone();
        match run_blocking(move || event_log::contains(&log, &canary)).await {
            Ok(false) => None,
            Ok(true) => Some("the canary of its files is in the log of the run".to_owned()),
            Err(error) => Some(format!("the log of the run cannot be searched: {error:#}")),
        }
    }
}

/// Returns the files of an answer as checks see them.
fn checked_files(answer: &AcceptedAnswer) -> CheckedFiles {
    match &answer.changes {
        Some(changes) => CheckedFiles::Changes(changes.clone()),
        None => CheckedFiles::Copy(answer.snapshot.clone()),
    }
}

impl AgentTeam {
    /// Rejects files of the judge that do not exist or that an agent can read.
    pub(super) fn validate_judge(&self) -> Result<()> {
        let judge = self.checks().judge.as_ref();
        let Some(files) = judge.and_then(|judge| judge.check.files.as_ref()) else {
            return Ok(());
        };
        let hint = "name a directory outside of everything that agents can read";
        let error = |reason: &str| {
            let message = format!("the files of the judge, `{files}`, {reason}");
            Error::new(ErrorKind::Config, message).with_hint(hint)
        };
        let Ok(LocatedPath::Directory(directory)) = locate(files) else {
            return Err(error("are not a directory"));
        };
        for member in &self.members {
            for phase in [Phase::Coordination, Phase::Attempt, Phase::Final] {
                let manager = permission_manager(&member.grants, phase);
                if manager.allows(&directory, Permission::Read) {
                    return Err(error(&format!("can be read by {}", member.id)));
                }
            }
        }
        Ok(())
    }
}
