//! Shows a run to a person: every event as plain lines on standard error, each with the name of its
//! agent, and the final answer alone on standard output. If both are the same terminal, the final
//! answer is shown once, as it is streamed. It decides nothing; besides the view of the run, it
//! keeps only what it needs to print complete lines.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::ballot::WinnerReason;
use crate::cli::json_report::event_warning;
use crate::cli::line_buffer::LineBuffer;
use crate::cli::output::{CliOutput, StyledLine, StyledPiece, TextStyle, line_pieces};
use crate::cli::render::event_lines::{EventLine, event_line, format_duration, tie_text};
use crate::cli::render::presentation::{MarkdownMode, Presentation, answer_lines};
use crate::error::{ExitStatus, Result};
use crate::event::{
    CoordinationEvent, DeliveryEvent, Event, ModelEvent, PipelineEvent, ReplyTextKind, RunEvent,
    SubagentEvent, ToolEvent,
};
use crate::id::{AgentId, AnswerLabel};
use crate::orchestrator::team::project_instructions::describe_size;
use crate::run_view::RunView;
use crate::run_view::tool_call::ToolCallOutcome;
use crate::sandbox_policy::sandbox_level::{ExecutionIsolation, SandboxLevel};
use crate::text::{count_noun, escape_name, join_with_commas, single_line};
use crate::world::io::clock::{Stopwatch, milliseconds};
use crate::world::io::event_sink::EventSink;

pub(crate) mod event_lines;
mod outcome;
mod presentation;

/// Interval at which the terminal may show which agents the run is waiting for.
const TICK: Duration = Duration::from_millis(250);
/// Time without output from which on the terminal shows which agents the run is waiting for.
const IDLE_MIN: Duration = Duration::from_secs(1);
/// Maximum length of the description of an agent's action, in characters.
const ACTION_CHARS_MAX: usize = 240;
/// Maximum number of lines of an answer that are shown during coordination.
const ANSWER_LINES_MAX: usize = 20;
/// Number of digits of a commit id that are shown.
const COMMIT_DIGITS_SHOWN: usize = 10;
/// Maximum length of the line that shows which agents the run is waiting for, in characters; it
/// must not wrap.
const WAITING_CHARS_MAX: usize = 78;

/// Renderer of a run for a person.
#[derive(Debug)]
pub(crate) struct RunRenderer<'o, 'w> {
    output: &'o mut CliOutput<'w>,
    view: RunView,
    replies: BTreeMap<AgentId, AgentReplyBuffer>,
    /// The text of the final agent, if it is shown as the final answer.
    presentation: Option<Presentation>,
    activity: DisplayActivity,
    /// The time of the run at the last tick that found it active.
    idle_since: Duration,
    /// Time since the last tick.
    last_tick: Stopwatch,
    detail: LineDetail,
}

/// How much of a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineDetail {
    /// Everything.
    All,
    /// What remains after the dashboard: the task, the winner, the answer, the files and the cost.
    Outcome,
    /// The answer, warnings and a bad end.
    Quiet,
}

/// The current reply of an agent.
#[derive(Debug)]
struct AgentReplyBuffer {
    kind: ReplyTextKind,
    lines: LineBuffer,
}

/// Whether something was shown since the last tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DisplayActivity {
    Active,
    Idle,
}

impl<'o, 'w> RunRenderer<'o, 'w> {
    /// Returns the output of the run, for other use.
    pub(crate) fn output(&mut self) -> &mut CliOutput<'w> {
        self.output
    }

    /// Creates the renderer of a run of which nothing has been shown yet.
    pub(crate) fn new(output: &'o mut CliOutput<'w>) -> Self {
        Self {
            output,
            view: RunView::default(),
            replies: BTreeMap::new(),
            presentation: None,
            activity: DisplayActivity::Idle,
            idle_since: Duration::ZERO,
            last_tick: Stopwatch::start(),
            detail: LineDetail::All,
        }
    }

    /// Sets how much is shown of the following events.
    pub(crate) fn set_detail(&mut self, detail: LineDetail) {
        self.detail = detail;
    }

    fn on_event_quietly(&mut self, event: &Event) -> Result<()> {
        if let Event::Delivery(DeliveryEvent::FinalAnswer { content, .. }) = event {
            return self.show_final_answer(content);
        }
        if let Some(warning) = event_warning(event) {
            self.show_warning(&warning);
        } else if let Event::Run(RunEvent::RunEnded { status, summary }) = event
            && *status != ExitStatus::Success
        {
            self.output.note(summary);
        }
        Ok(())
    }

    fn on_run_event(&mut self, event: &RunEvent, elapsed: Duration) {
        match event {
            RunEvent::RunStarted {
                agents, restart, ..
            } => self.show_start(agents, *restart),
            RunEvent::SetupStarted { command } => {
                self.show_labelled_line("setup", TextStyle::Strong, &escape_name(command));
            }
            RunEvent::BaselineStarted { checks } => {
                let text = join_with_commas(checks);
                self.show_labelled_line("checking your files", TextStyle::Strong, &text);
            }
            RunEvent::BaselineChecked { finding } => {
                let text = format!("{} {}", finding.check, finding.verdict);
                self.show_labelled_line("before any answer", TextStyle::Plain, &text);
            }
            RunEvent::Judged { label, verdict } => {
                let subject =
                    label.map_or_else(|| "the result".to_owned(), |label| label.to_string());
                let text = format!("{subject} {verdict}");
                self.show_labelled_line("judged", TextStyle::Plain, &text);
            }
            RunEvent::CoordinationRestarted {
                reason,
                instructions,
            } => self.show_restart(reason, instructions),
            RunEvent::SandboxSelected {
                agents,
                by,
                leaves_open,
            } => self.show_sandbox(agents, by, leaves_open),
            RunEvent::InstructionsRead {
                agents,
                path,
                size_bytes,
                is_truncated,
            } => {
                let size = describe_size(*size_bytes, *is_truncated);
                let text = format!(
                    "{} ({size}) for {}",
                    escape_name(path),
                    join_with_commas(agents)
                );
                self.show_labelled_line("instructions", TextStyle::Strong, &text);
            }
            RunEvent::SkillsOffered { agents, skills } => {
                let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
                let text = format!(
                    "{} for {}",
                    join_with_commas(&names),
                    join_with_commas(agents)
                );
                self.show_labelled_line("skills", TextStyle::Strong, &text);
            }
            RunEvent::MemoryRead { files, .. } => {
                self.show_labelled_line("notes read", TextStyle::Strong, &join_with_commas(files));
            }
            RunEvent::MemorySaved { files, .. } => {
                let text = format!("{} (`massgen memory list`)", join_with_commas(files));
                self.show_labelled_line("notes kept", TextStyle::Strong, &text);
            }
            RunEvent::Warning { message } => self.show_warning(message),
            RunEvent::RunEnded { status, summary } => self.show_end(*status, summary, elapsed),
            RunEvent::LimitMet { agent: None, limit } => self.show_warning(limit),
            RunEvent::UserMessage { agent, text, .. } => {
                self.show_user_message(agent.as_ref(), text);
            }
            RunEvent::LimitMet { agent: Some(_), .. }
            | RunEvent::CoordinationStopped { .. }
            | RunEvent::UserMessagesShown { .. } => {}
        }
    }

    fn on_model_event(&mut self, event: &ModelEvent) {
        if let ModelEvent::ModelRequestStarted { agent, .. } = event {
            self.start_reply(agent);
        } else if let ModelEvent::Text { agent, text } = event {
            self.show_text(agent, text);
        } else if let ModelEvent::Reasoning { agent, text } = event {
            self.append_reply(agent, ReplyTextKind::Reasoning, text);
        } else if let ModelEvent::ModelRequestFinished { agent, .. } = event {
            self.finish_reply(agent);
        }
    }

    fn on_coordination_event(&mut self, event: &CoordinationEvent) {
        if let CoordinationEvent::VotesVoided { voters, message } = event {
            self.show_void_votes(voters, *message);
        } else if let CoordinationEvent::WinnerSelected {
            agent,
            label,
            reason,
            votes,
        } = event
        {
            self.show_winner(agent, (*label, *reason), votes);
        } else if let CoordinationEvent::Answered { agent, content, .. } = event
            && !self.is_alone_at_terminal()
            && !self.has_streamed(agent, content)
        {
            self.show_quote(agent, content);
        }
    }

    /// Returns whether a terminal shows the run of one agent, whose answer is the final one.
    fn is_alone_at_terminal(&self) -> bool {
        self.output.has_terminal() && self.view.agents().len() == 1
    }

    /// Returns whether the terminal has just shown `content` as the reply of `agent`.
    fn has_streamed(&self, agent: &AgentId, content: &str) -> bool {
        let view = self.view.agent(agent);
        let reply = view.map(|agent| agent.reply_tail.text.trim());
        self.output.has_terminal() && reply == Some(content.trim())
    }

    fn on_delivery_event(&mut self, event: &DeliveryEvent) {
        if let DeliveryEvent::Delivered { rows, .. } = event {
            self.show_delivery(rows);
        } else if let DeliveryEvent::FinalStarted { agent } = event {
            self.start_presentation(agent);
        } else if let DeliveryEvent::Checked { agent, finding, .. } = event {
            self.show_quote(agent, &finding.tail);
        }
    }

    /// Shows a warning, which may come from an event or not.
    pub(crate) fn show_warning(&mut self, message: &str) {
        self.activity = DisplayActivity::Active;
        self.output.warning(message);
    }

    fn show_server_progress(&mut self, server: &str, text: &str) {
        self.activity = DisplayActivity::Active;
        let line = format!("{server}: {text}");
        self.output.line(&[(TextStyle::Faint, &line)]);
    }

    /// Starts the next reply of `agent`, if it presents.
    fn start_reply(&mut self, agent: &AgentId) {
        if let Some(presentation) = self.presentation_by(agent) {
            presentation.start_reply();
        }
    }

    fn show_text(&mut self, agent: &AgentId, text: &str) {
        if let Some(presentation) = self.presentation_by(agent) {
            let is_rendered = presentation.mode == MarkdownMode::Rendered;
            let lines = presentation.push(text);
            self.show_presented_lines(&lines);
            if is_rendered {
                return;
            }
        }
        self.append_reply(agent, ReplyTextKind::Text, text);
    }

    /// Starts to collect the text of `agent`, if it is shown as the final answer.
    fn start_presentation(&mut self, agent: &AgentId) {
        if self.output.are_both_terminals() {
            let mode = if self.output.renders_markdown() {
                MarkdownMode::Rendered
            } else {
                MarkdownMode::Source
            };
            self.presentation = Some(Presentation::new(agent.clone(), mode));
        }
    }

    /// Returns the presentation, if `agent` presents.
    fn presentation_by(&mut self, agent: &AgentId) -> Option<&mut Presentation> {
        let presentation = self.presentation.as_mut();
        presentation.filter(|presentation| presentation.agent == *agent)
    }

    fn show_presented_lines(&mut self, lines: &[StyledLine]) {
        for line in lines {
            self.activity = DisplayActivity::Active;
            self.output.line(&line_pieces(line));
        }
    }

    /// Returns whether the output is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.output.is_closed()
    }

    /// Shows which agents the run is waiting for, if nothing was shown for a while.
    pub(crate) fn on_tick(&mut self, elapsed: Duration) {
        if self.activity == DisplayActivity::Active {
            self.activity = DisplayActivity::Idle;
            self.idle_since = elapsed;
            return;
        }
        if elapsed.saturating_sub(self.idle_since) < IDLE_MIN {
            return;
        }
        let agents = self.view.agents().iter();
        let waiting: Vec<String> = agents
            .filter_map(|agent| match agent.running_call() {
                Some(call) => Some(format!("{} ({})", agent.id, call.text)),
                None => agent.has_open_request().then(|| agent.id.to_string()),
            })
            .collect();
        if !waiting.is_empty() {
            let text = format!(
                "{}: waiting for {}",
                format_duration(elapsed),
                waiting.join(", ")
            );
            self.output
                .transient(&single_line(&text, WAITING_CHARS_MAX));
        }
    }

    fn show_start(&mut self, agents: &[AgentId], restart: u32) {
        if restart > 0 {
            self.show_labelled_line("restart", TextStyle::Strong, &restart.to_string());
        }
        self.show_labelled_line("agents", TextStyle::Strong, &join_with_commas(agents));
    }

    /// Shows a step of a pipeline.
    fn show_pipeline_step(&mut self, step: &PipelineEvent) {
        self.finish_all_replies();
        match step {
            PipelineEvent::Works {
                iteration,
                role,
                stage,
                stages,
                agents,
            } => {
                let suffix = match join_with_commas(agents) {
                    names if names == *role => String::new(),
                    names => format!(" ({names})"),
                };
                let text = format!("{role}{suffix}, {stage} of {stages} in iteration {iteration}");
                self.show_labelled_line("stage", TextStyle::Strong, &text);
            }
            // The lines of the stage show the run; its name is for those who look for its log.
            PipelineEvent::StageRun { .. } => {}
            PipelineEvent::Merged {
                role,
                commit,
                files,
                ..
            } => {
                let short_commit = commit.get(..COMMIT_DIGITS_SHOWN).unwrap_or(commit);
                let files = count_noun(*files, "file");
                self.show_labelled_line(
                    "merged",
                    TextStyle::Good,
                    &format!("{role}: {files}, {short_commit}"),
                );
            }
            PipelineEvent::Refused {
                role,
                reason,
                tried,
                tries_max,
            } => {
                let text = format!("{role}, attempt {tried} of {tries_max}: {reason}");
                self.show_labelled_line("not merged", TextStyle::Warn, &text);
            }
        }
    }

    /// Shows how the commands of `agents` are isolated, and the limits of that isolation.
    fn show_sandbox(
        &mut self,
        agents: &[AgentId],
        isolation: &ExecutionIsolation,
        leaves_open: &[String],
    ) {
        let (agents, gaps) = (join_with_commas(agents), leaves_open.join("; "));
        let (style, text) = match isolation.level() {
            Some(SandboxLevel::Off) => (TextStyle::Bad, format!("no sandbox for {agents}: {gaps}")),
            Some(SandboxLevel::Unavailable) => (
                TextStyle::Bad,
                format!("refused for {agents}: no sandbox is available on this machine"),
            ),
            Some(SandboxLevel::Overlay | SandboxLevel::Namespaces | SandboxLevel::Landlock)
            | None => {
                // At a terminal, `/status` and `massgen doctor` say what it leaves open.
                let gaps =
                    (!self.output.has_terminal()).then(|| format!("; not protected: {gaps}"));
                let text = format!("{isolation} for {agents}{}", gaps.unwrap_or_default());
                (TextStyle::Strong, text)
            }
        };
        if self
            .output
            .is_new_notice(&format!("commands of {agents}"), &text)
        {
            self.show_labelled_line("commands", style, &text);
        }
    }

    /// Shows a message of the user to one agent or to all.
    fn show_user_message(&mut self, to: Option<&AgentId>, text: &str) {
        let to = to.map_or("all", AgentId::as_str);
        let text = single_line(text, ACTION_CHARS_MAX);
        self.show_labelled_line(&format!("you to {to}"), TextStyle::Strong, &text);
    }

    fn show_void_votes(&mut self, voters: &[AgentId], message: Option<u32>) {
        let cause = match message {
            None => "new answer",
            Some(_) => "your message",
        };
        let text = format!("{}: {cause}", join_with_commas(voters));
        self.show_labelled_line("votes void", TextStyle::Faint, &text);
    }

    /// Shows the winner, unless there is only one agent.
    fn show_winner(
        &mut self,
        agent: &AgentId,
        (label, reason): (AnswerLabel, WinnerReason),
        votes: &[(AgentId, u32)],
    ) {
        self.finish_all_replies();
        if self.view.agents().len() == 1 {
            return;
        }
        let was_voted = votes.iter().any(|(_, count)| *count > 0);
        let votes: Vec<String> = votes
            .iter()
            .map(|(agent, count)| format!("{agent} {count}"))
            .collect();
        let mut text = match reason {
            WinnerReason::Review | WinnerReason::FirstPassing | WinnerReason::Picked => {
                format!("{agent} with {label}; {}", reason.text())
            }
            WinnerReason::PassedChecks if !was_voted => format!("{agent} with {label}"),
            WinnerReason::OnlyAnswer
            | WinnerReason::MostVotes
            | WinnerReason::FirstOfTie
            | WinnerReason::PassedChecks => {
                format!("{agent} with {label} (votes: {})", votes.join(", "))
            }
        };
        let failing = self.view.ballot().failing_agents();
        if !failing.is_empty() {
            text = format!(
                "{text}; a required check failed: {}",
                join_with_commas(&failing)
            );
        }
        if let Some(tie) = tie_text(self.view.ballot()) {
            text = format!("{text}; {tie}");
        }
        self.show_labelled_line("winner", TextStyle::Good, &text);
    }

    fn show_restart(&mut self, reason: &str, instructions: &str) {
        self.finish_all_replies();
        self.show_labelled_line("starting again", TextStyle::Warn, reason);
        self.show_labelled_line("to be different", TextStyle::Plain, instructions);
    }

    fn append_reply(&mut self, agent: &AgentId, kind: ReplyTextKind, text: &str) {
        if self
            .replies
            .get(agent)
            .is_some_and(|reply| reply.kind != kind)
        {
            self.finish_reply(agent);
        }
        let reply = self.replies.entry(agent.clone());
        let new_buffer = || AgentReplyBuffer {
            kind,
            lines: LineBuffer::default(),
        };
        for line in reply.or_insert_with(new_buffer).lines.push(text) {
            self.show_reply_line(agent, kind, &line);
        }
    }

    fn finish_reply(&mut self, agent: &AgentId) {
        if let Some(presentation) = self.presentation_by(agent) {
            let lines = presentation.finish();
            self.show_presented_lines(&lines);
        }
        if let Some(mut reply) = self.replies.remove(agent)
            && let Some(line) = reply.lines.finish()
        {
            self.show_reply_line(agent, reply.kind, &line);
        }
    }

    /// Shows the incomplete lines of all replies.
    pub(crate) fn finish_all_replies(&mut self) {
        for agent in self.view.run().agents.clone() {
            self.finish_reply(&agent);
        }
    }

    fn show_reply_line(&mut self, agent: &AgentId, kind: ReplyTextKind, line: &str) {
        let style = match kind {
            ReplyTextKind::Text => TextStyle::Plain,
            ReplyTextKind::Reasoning => TextStyle::Faint,
        };
        if kind == ReplyTextKind::Text && self.presentation_by(agent).is_some() {
            self.activity = DisplayActivity::Active;
            self.output.line(&[(style, line)]);
        } else {
            self.show_agent_line(agent, &[(style, line)]);
        }
    }

    /// Shows an action of an agent, if the event is one.
    fn show_event_line(&mut self, event: &Event) {
        if self.output.has_terminal()
            && let Event::Tool(tool_event) = event
            && let Some(agent) = event.agent()
            && self.show_tool_call(agent, tool_event)
        {
            return;
        }
        let mut has_quote = true;
        if let Event::Coordination(CoordinationEvent::Answered { agent, content, .. }) = event {
            if self.is_alone_at_terminal() {
                return;
            }
            has_quote = !self.has_streamed(agent, content);
        }
        if let Some(agent) = event.agent()
            && let Some(EventLine { style, verb, rest }) = event_line(event)
        {
            self.finish_reply(agent);
            let text = single_line(&rest, ACTION_CHARS_MAX);
            let text = if has_quote {
                text.as_str()
            } else {
                text.trim_end_matches(':')
            };
            self.show_agent_line(
                agent,
                &[
                    (style, verb),
                    (TextStyle::Plain, " "),
                    (TextStyle::Plain, text),
                ],
            );
        }
    }

    /// Shows the tool call of `agent` that an event is about, in words, once it has ended: until
    /// then, the line of what the run waits for shows it. Returns whether the event is about one.
    fn show_tool_call(&mut self, agent: &AgentId, event: &ToolEvent) -> bool {
        let call_id = match event {
            ToolEvent::ToolCalled { call_id, .. } | ToolEvent::ToolFinished { call_id, .. } => {
                call_id
            }
            ToolEvent::NativeToolCall { .. } => "",
            ToolEvent::PlanUpdated { .. }
            | ToolEvent::ApprovalQueued { .. }
            | ToolEvent::Approval { .. }
            | ToolEvent::HookRan { .. }
            | ToolEvent::ServerProgress { .. } => return false,
        };
        let Some(call) = self.view.agent(agent).and_then(|view| view.call(call_id)) else {
            return false;
        };
        let note_style = match &call.outcome {
            ToolCallOutcome::Running => return true,
            ToolCallOutcome::Succeeded { .. } => TextStyle::Faint,
            ToolCallOutcome::Failed { .. } => TextStyle::Warn,
            ToolCallOutcome::Denied { .. } => TextStyle::Bad,
        };
        let (text, note) = (call.text.clone(), call.spaced_note());
        self.finish_reply(agent);
        self.show_agent_line(agent, &[(TextStyle::Plain, &text), (note_style, &note)]);
        true
    }

    /// Shows the beginning of an answer, which may not have been streamed.
    fn show_quote(&mut self, agent: &AgentId, content: &str) {
        let lines: Vec<&str> = content
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        for line in lines.iter().take(ANSWER_LINES_MAX) {
            self.show_agent_line(agent, &[(TextStyle::Faint, "| "), (TextStyle::Plain, line)]);
        }
        let hidden_count = lines.len().saturating_sub(ANSWER_LINES_MAX);
        if hidden_count > 0 {
            let more_lines = format!("| … {}", count_noun(hidden_count, "more line"));
            self.show_agent_line(agent, &[(TextStyle::Faint, &more_lines)]);
        }
    }

    fn show_agent_line(&mut self, agent: &AgentId, pieces: &[StyledPiece<'_>]) {
        let index = self.view.agent_index(agent).unwrap_or_default();
        let mut line = vec![
            (TextStyle::AgentFrame(index), "["),
            (TextStyle::AgentName, agent.as_str()),
            (TextStyle::AgentFrame(index), "]"),
            (TextStyle::Plain, " "),
        ];
        line.extend_from_slice(pieces);
        self.activity = DisplayActivity::Active;
        self.output.line(&line);
    }

    fn show_labelled_line(&mut self, label: &str, style: TextStyle, text: &str) {
        self.activity = DisplayActivity::Active;
        let text = single_line(text, usize::MAX);
        self.output.line(&[
            (style, label),
            (TextStyle::Plain, ": "),
            (TextStyle::Plain, &text),
        ]);
    }

    fn show_final_answer(&mut self, content: &str) -> Result<()> {
        self.finish_all_replies();
        self.activity = DisplayActivity::Active;
        let presentation = self.presentation.take();
        if presentation.is_some_and(|presentation| presentation.is_answer(content)) {
            return Ok(());
        }
        if self.output.renders_markdown() {
            let lines = answer_lines(content);
            let mut lines = lines.iter();
            return lines.try_for_each(|line| self.output.result_line(&line_pieces(line)));
        }
        let newline = if content.ends_with('\n') { "" } else { "\n" };
        self.output.answer(&format!("{content}{newline}"))
    }
}

impl EventSink for RunRenderer<'_, '_> {
    fn on_event(&mut self, event: &Event, elapsed: Duration) -> Result<()> {
        self.view.apply_next(event, milliseconds(elapsed));
        match self.detail {
            LineDetail::All => {}
            LineDetail::Outcome => return self.on_outcome_event(event, elapsed),
            LineDetail::Quiet => return self.on_event_quietly(event),
        }
        self.show_event_line(event);
        match event {
            Event::Run(event) => self.on_run_event(event, elapsed),
            Event::Model(event) => self.on_model_event(event),
            Event::Coordination(event) => self.on_coordination_event(event),
            Event::Delivery(DeliveryEvent::FinalAnswer { content, .. }) => {
                return self.show_final_answer(content);
            }
            Event::Delivery(event) => self.on_delivery_event(event),
            Event::Pipeline(step) => self.show_pipeline_step(step),
            Event::Tool(ToolEvent::ServerProgress { server, text }) => {
                self.show_server_progress(server, text);
            }
            // It tells agents how to work, or which answer is the best; no other line shows it.
            Event::Subagent(
                subagent_event @ SubagentEvent::SubagentModel {
                    agent,
                    event: ModelEvent::Replied { text, .. },
                    ..
                },
            ) if subagent_event.separate_call().is_some() => self.show_quote(agent, text),
            Event::Tool(_) | Event::Subagent(_) => {}
        }
        Ok(())
    }

    fn due(&self) -> Option<Duration> {
        Some(TICK.saturating_sub(self.last_tick.elapsed()))
    }

    fn on_due(&mut self, elapsed: Duration) -> Result<()> {
        if self.due() == Some(Duration::ZERO) && self.detail == LineDetail::All {
            self.last_tick = Stopwatch::start();
            self.on_tick(elapsed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
