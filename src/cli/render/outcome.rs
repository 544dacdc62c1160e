//! The outcome of a run in lines: the files, what was refused of them, and how it ended. After the
//! dashboard, only the outcome is shown.

use std::time::Duration;

use crate::cli::output::TextStyle;
use crate::cli::render::event_lines::{
    OutcomeText, delivered_path, delivery_outcome, format_duration, usage_shares, usage_text,
};
use crate::cli::render::{ACTION_CHARS_MAX, DisplayActivity, RunRenderer};
use crate::cli::typed_message::RunReport;
use crate::error::{ExitStatus, Result};
use crate::event::{
    CoordinationEvent, DeliveryEvent, DeliveryOutcome, DeliveryRow, Event, RunEvent,
};
use crate::id::AgentId;
use crate::run_view::agent::AgentView;
use crate::run_view::tool_call::ToolCallOutcome;
use crate::text::single_line;
use crate::tools::call_text::is_change;

impl RunRenderer<'_, '_> {
    /// Shows an event of a run that was seen on the dashboard, if it is a part of the outcome.
    pub(super) fn on_outcome_event(&mut self, event: &Event, elapsed: Duration) -> Result<()> {
        match event {
            Event::Run(RunEvent::RunStarted { question, .. }) => {
                let task = single_line(question, ACTION_CHARS_MAX);
                self.show_labelled_line("task", TextStyle::Strong, &task);
            }
            Event::Run(event @ (RunEvent::Warning { .. } | RunEvent::LimitMet { .. })) => {
                self.on_run_event(event, elapsed);
            }
            Event::Run(event @ RunEvent::RunEnded { .. }) => {
                self.on_run_event(event, elapsed);
                let command = if self.output.is_of_session() {
                    "/dashboard"
                } else {
                    "massgen logs follow last --dashboard"
                };
                self.show_labelled_line("all of it", TextStyle::Faint, command);
            }
            Event::Coordination(CoordinationEvent::DroppedOut { .. }) => {
                self.show_event_line(event);
            }
            Event::Coordination(event @ CoordinationEvent::WinnerSelected { .. }) => {
                self.on_coordination_event(event);
            }
            Event::Delivery(DeliveryEvent::FinalAnswer { content, .. }) => {
                return self.show_final_answer(content);
            }
            Event::Delivery(event @ DeliveryEvent::Delivered { .. }) => {
                self.on_delivery_event(event);
            }
            Event::Pipeline(step) => self.show_pipeline_step(step),
            Event::Run(_)
            | Event::Model(_)
            | Event::Tool(_)
            | Event::Subagent(_)
            | Event::Coordination(_)
            | Event::Delivery(_) => {}
        }
        Ok(())
    }

    pub(super) fn show_delivery(&mut self, rows: &[DeliveryRow]) {
        self.finish_all_replies();
        self.activity = DisplayActivity::Active;
        let denied_changes = self.denied_changes();
        if rows.is_empty() && denied_changes.is_empty() {
            self.output
                .line(&[(TextStyle::Faint, "no file was delivered")]);
        } else if rows.is_empty() {
            let text = format!("the winner was denied: {}", denied_changes.join("; "));
            self.show_labelled_line("no file was delivered", TextStyle::Warn, &text);
        }
        let (delivered, others): (Vec<_>, Vec<_>) =
            rows.iter().partition(|row| row.outcome.is_delivered());
        for (title, rows) in [("delivered", delivered), ("not delivered", others)] {
            if !rows.is_empty() {
                self.output
                    .line(&[(TextStyle::Strong, title), (TextStyle::Plain, ":")]);
            }
            for row in rows {
                let OutcomeText { style, word, note } = delivery_outcome(&row.outcome);
                let outcome_column = format!("  {word:<8} ");
                let path = delivered_path(row, &note);
                self.output
                    .line(&[(style, &outcome_column), (TextStyle::Plain, &path)]);
            }
        }
    }

    /// Shows what the user has asked about the run so far.
    pub(crate) fn show_report(&mut self, report: RunReport) {
        self.activity = DisplayActivity::Active;
        let ballot = self.view.ballot();
        let lines: Vec<String> = match report {
            RunReport::Status => {
                let agents = self.view.agents().iter();
                let state = |agent: &AgentView| format!("{}: {}", agent.id, agent.state_text());
                agents.map(state).collect()
            }
            RunReport::Cost => {
                let shares =
                    usage_shares(self.view.usage(), &self.view.run().agents, "nothing yet");
                shares
                    .map(|(name, text)| format!("{name}: {text}"))
                    .collect()
            }
            RunReport::Votes => {
                let answers = ballot.current_answers();
                let answers =
                    answers.map(|answer| format!("{} is of {}", answer.label, answer.agent));
                let votes = ballot.votes.iter().filter(|vote| !vote.is_void);
                let votes =
                    votes.map(|vote| format!("{} votes for {}", vote.voter, vote.candidate));
                answers.chain(votes).collect()
            }
        };
        for line in &lines {
            self.output.line(&[(TextStyle::Plain, line)]);
        }
        if lines.is_empty() {
            self.output.line(&[(TextStyle::Faint, "no answer yet")]);
        }
    }

    /// Returns the last changes that the winner tried to make and was denied.
    fn denied_changes(&self) -> Vec<String> {
        let winner = self.view.ballot().winner.as_ref();
        let agent = winner.and_then(|winner| self.view.agent(&winner.agent));
        let calls = agent.into_iter().flat_map(|agent| &agent.calls);
        let denied = calls.filter(|call| {
            matches!(call.outcome, ToolCallOutcome::Denied { .. }) && is_change(&call.tool)
        });
        denied.map(|call| call.text.clone()).collect()
    }

    /// Returns whether files that the agents changed were not delivered, and not by the user's
    /// choice.
    fn has_failed_delivery(&self) -> bool {
        let rows = self.view.delivery().rows.as_deref().unwrap_or_default();
        let is_failed = |row: &DeliveryRow| match row.outcome {
            DeliveryOutcome::Denied { .. }
            | DeliveryOutcome::Conflict { .. }
            | DeliveryOutcome::Failed { .. }
            | DeliveryOutcome::Reverted { .. } => true,
            DeliveryOutcome::Created
            | DeliveryOutcome::Changed { .. }
            | DeliveryOutcome::Deleted
            | DeliveryOutcome::Mode { .. }
            | DeliveryOutcome::Declined => false,
        };
        rows.iter().any(is_failed) || (rows.is_empty() && !self.denied_changes().is_empty())
    }

    pub(super) fn show_end(&mut self, status: ExitStatus, summary: &str, elapsed: Duration) {
        self.finish_all_replies();
        let (label, style) = if status != ExitStatus::Success {
            ("ended", TextStyle::Bad)
        } else if self.has_failed_delivery() {
            ("done", TextStyle::Warn)
        } else {
            ("done", TextStyle::Good)
        };
        if self.view.agents().len() > 1 {
            self.show_usage();
        }
        let total = self.view.usage().run();
        if let Some(worth) = self.view.candidate_report().line(&total) {
            self.show_labelled_line("worth", TextStyle::Faint, &worth);
        }
        let mut facts = vec![format_duration(elapsed)];
        facts.extend(usage_text(&self.view.usage().run()));
        self.show_labelled_line(label, style, &format!("{summary} ({})", facts.join(", ")));
    }

    /// Shows what each agent used, if anything was counted.
    fn show_usage(&mut self) {
        let share = |agent: &AgentId| {
            let usage = usage_text(&self.view.usage().agent(agent))?;
            Some(format!("{agent} {usage}"))
        };
        let agents = self.view.run().agents.iter();
        let shares: Vec<String> = agents.filter_map(share).collect();
        if !shares.is_empty() {
            self.show_labelled_line("used", TextStyle::Faint, &shares.join("; "));
        }
    }
}
