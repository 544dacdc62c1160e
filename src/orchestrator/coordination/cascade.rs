//! The order of a cascade: an agent starts when those before it in the config have failed.

use crate::agent::round::coordinate;
use crate::orchestrator::coordination::{CoordinationInputs, Coordinator};
use crate::prompts::call_answers;

impl Coordinator<'_> {
    /// Starts the next agent of a cascade if those that have started have failed. It is told how.
    pub(super) fn start_held_agent(&self, inputs: &mut CoordinationInputs<'_>) {
        let mut started = inputs.agents_by_task.values();
        if started.any(|agent| self.ballot.is_at_work(*agent)) || !self.running_checks.is_empty() {
            return;
        }
        let Some((mut session, handle)) = inputs.held_agents.pop_front() else {
            return;
        };
        let answers = self.answers.values();
        let failures =
            answers.filter_map(|answer| Some((answer.label, answer.check_results.as_ref()?)));
        if let Some(message) = call_answers::failed_attempts(failures) {
            session.add_user_message(message);
        }
        let number = handle.me;
        let task = inputs.tasks.spawn(coordinate(session, handle));
        inputs.agents_by_task.insert(task.id().to_string(), number);
    }
}

impl CoordinationInputs<'_> {
    /// Ends the sessions of the agents that have not started.
    pub(super) async fn shut_down_held_agents(&mut self) {
        for (session, _) in self.held_agents.drain(..) {
            session.shutdown().await;
        }
    }
}
