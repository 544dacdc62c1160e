//! Runs the checks on the user's trees as they are, before any model is asked.

use crate::agent::deadline::RunDeadline;
use crate::check_results::CheckStanding;
use crate::error::{Error, ErrorKind, Result};
use crate::event::RunEvent;
use crate::orchestrator::PreparedTurn;
use crate::orchestrator::check_runner::CheckTarget;

impl PreparedTurn {
    /// Runs the checks, so that the user learns what they say without any answer.
    ///
    /// # Errors
    /// A required check cannot run: no answer could pass it.
    pub(super) async fn check_baseline(&self, deadline: &RunDeadline) -> Result<()> {
        // A run that follows a recording has begun already.
        let runner = self.team.check_runner().filter(|_| self.replay.is_none());
        // A role begins with what has passed them.
        let member = self.team.members.first().filter(|member| !member.is_role());
        let (Some(runner), Some(member)) = (runner, member) else {
            return Ok(());
        };
        let checks = &self.config.checks;
        self.emit(RunEvent::BaselineStarted {
            checks: checks.list.iter().map(|check| check.name.clone()).collect(),
        })
        .await;
        let results = runner
            .run_checks(&member.id, CheckTarget::Baseline, deadline, &self.events)
            .await;
        if deadline.stop.is_cancelled() {
            return Ok(());
        }
        if let Some((check, reason)) = results.prevented_requirement() {
            let message = format!("the required check `{check}` cannot run: {reason}");
            return Err(Error::new(ErrorKind::Environment, message)
                .with_hint("no model was asked; see `massgen doctor`"));
        }
        let chooses = self.config.orchestrator.strategy.is_independent() && checks.has_required();
        if chooses && results.standing() == CheckStanding::Holds {
            let message = "the required checks pass on your files as they are, so that they show \
                           only which answers break something"
                .to_owned();
            self.emit(RunEvent::Warning { message }).await;
        }
        Ok(())
    }
}
