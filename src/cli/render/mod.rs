//! Shows a run to a person: every event as plain lines on standard error, each with the name of its
//! agent, and the final answer alone on standard output. If both are the same terminal, the final
//! answer is shown once, as it is streamed. It decides nothing and keeps only the state that it
//! needs to print complete lines.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::check_results::{CheckResults, CheckStanding};
use crate::cli::line_buffer::LineBuffer;
use crate::cli::output::{CliOutput, StyledPiece, TextStyle};
use crate::cli::render::event_lines::{delivery_outcome, event_line, format_duration, usage_text};
use crate::error::{ExitStatus, Result};
use crate::event::{DeliveryRow, Event, PipelineStep, ReplyTextKind};
use crate::id::{AgentId, AnswerLabel};
use crate::sandbox_policy::sandbox_level::{ExecutionIsolation, SandboxLevel};
use crate::spending::totals::UsageTotals;
use crate::text::{count_noun, escape_name, join_with_commas, single_line};

pub(crate) mod event_lines;

/// Time without output after which the terminal shows which agents the run is waiting for.
const QUIET_MAX: Duration = Duration::from_secs(1);
/// Maximum length of the description of an agent's action, in characters.
const DEED_CHARS_MAX: usize = 240;
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
    agents: Vec<AgentId>,
    speech: BTreeMap<AgentId, AgentReplyBuffer>,
    asked: BTreeSet<AgentId>,
    /// Agents whose answers fail a required check.
    failing: BTreeSet<AgentId>,
    usage: UsageTotals,
    /// Text of the final agent since its last request, if it is shown as the final answer.
    presented: Option<(AgentId, String)>,
    activity: DisplayActivity,
    quiet_since: Duration,
}

/// The current reply of an agent.
#[derive(Debug)]
struct AgentReplyBuffer {
    voice: ReplyTextKind,
    lines: LineBuffer,
}

/// Whether something was shown since the last tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DisplayActivity {
    Shown,
    Quiet,
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
            agents: Vec::new(),
            speech: BTreeMap::new(),
            asked: BTreeSet::new(),
            usage: UsageTotals::default(),
            presented: None,
            failing: BTreeSet::new(),
            activity: DisplayActivity::Quiet,
            quiet_since: Duration::ZERO,
        }
    }

    /// Shows one event that happened `elapsed` after the start of the run.
    pub(crate) fn on_event(&mut self, event: &Event, elapsed: Duration) -> Result<()> {
        event.add_to_totals(&mut self.usage);
        match event {
            Event::RunStarted {
                agents, attempt, ..
            } => self.show_start(agents, *attempt),
            Event::VotesVoided { voters } => self.show_void_votes(voters),
            Event::WinnerSelected {
                agent,
                label,
                votes,
            } => self.show_winner(agent, *label, votes),
            Event::FinalAnswer { content, .. } => return self.show_final_answer(content),
            Event::Delivered { rows } => self.show_delivery(rows),
            Event::Restarting {
                reason,
                instructions,
            } => self.show_restart(reason, instructions),
            Event::Confined {
                agents,
                by,
                leaves_open,
            } => self.show_sandbox(agents, by, leaves_open),
            Event::ServerWorks { server, text } => self.show_server_progress(server, text),
            Event::Pipeline { step } => self.show_pipeline_step(step),
            Event::Warning { message } => self.warn(message),
            Event::RunEnded { status, summary } => self.show_end(*status, summary, elapsed),
            Event::Asking { agent, .. } => self.show_waiting(agent),
            Event::FinalStarted { agent } => {
                self.show_event_line(agent, event);
                self.start_presentation(agent);
            }
            Event::Text { agent, text } => self.show_text(agent, text),
            Event::Reasoning { agent, text } => {
                self.append_reply(agent, ReplyTextKind::Reasoning, text);
            }
            Event::Asked { agent, .. } => {
                self.asked.remove(agent);
                self.finish_speech(agent);
            }
            Event::Answered { agent, .. } => self.show_answer(agent, event),
            Event::DroppedOut { agent, .. } => {
                self.asked.remove(agent);
                self.show_event_line(agent, event);
            }
            Event::Replied { .. } | Event::Failed { .. } | Event::CutShort { .. } => {}
            Event::LimitMet { agent: None, limit } => self.warn(limit),
            Event::LimitMet {
                agent: Some(agent), ..
            }
            | Event::Retrying { agent, .. }
            | Event::Held { agent, .. }
            | Event::FellBack { agent, .. }
            | Event::Shortened { agent, .. }
            | Event::OwnTool { agent, .. }
            | Event::PersonAsked { agent, .. }
            | Event::HookRan { agent, .. }
            | Event::ToolCalled { agent, .. }
            | Event::ToolFinished { agent, .. }
            | Event::Voted { agent, .. }
            | Event::Refused { agent, .. }
            | Event::Informed { agent, .. }
            | Event::Checking { agent, .. } => self.show_event_line(agent, event),
            Event::Checked { agent, finding, .. } => {
                self.show_event_line(agent, event);
                self.show_quote(agent, &finding.tail);
            }
        }
        Ok(())
    }

    fn warn(&mut self, message: &str) {
        self.activity = DisplayActivity::Shown;
        self.output.warning(message);
    }

    fn show_server_progress(&mut self, server: &str, text: &str) {
        self.activity = DisplayActivity::Shown;
        let told = format!("{server}: {text}");
        self.output.line(&[(TextStyle::Faint, &told)]);
    }

    fn show_waiting(&mut self, agent: &AgentId) {
        self.asked.insert(agent.clone());
        if let Some((_, said)) = self.presented_text(agent) {
            said.clear();
        }
    }

    fn show_text(&mut self, agent: &AgentId, text: &str) {
        if let Some((_, said)) = self.presented_text(agent) {
            said.push_str(text);
        }
        self.append_reply(agent, ReplyTextKind::Text, text);
    }

    /// Starts to collect what `agent` says, if it is shown next to the answer.
    fn start_presentation(&mut self, agent: &AgentId) {
        if self.output.is_one_terminal() {
            self.presented = Some((agent.clone(), String::new()));
        }
    }

    /// Returns the collected text of `agent`, if it presents.
    fn presented_text(&mut self, agent: &AgentId) -> Option<&mut (AgentId, String)> {
        self.presented.as_mut().filter(|(by, _)| by == agent)
    }

    fn show_answer(&mut self, agent: &AgentId, event: &Event) {
        self.show_event_line(agent, event);
        let Event::Answered {
            content, evidence, ..
        } = event
        else {
            return;
        };
        match evidence.as_ref().map(CheckResults::standing) {
            Some(CheckStanding::Fails) => self.failing.insert(agent.clone()),
            Some(CheckStanding::Holds) | None => self.failing.remove(agent),
        };
        self.show_quote(agent, content);
    }

    /// Shows a message that is not an event.
    pub(crate) fn show_note(&mut self, message: &str) {
        self.activity = DisplayActivity::Shown;
        self.output.warning(message);
    }

    /// Returns whether the output is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.output.is_closed()
    }

    /// Shows incomplete lines, for a run without further events.
    pub(crate) fn flush_partial(&mut self) {
        self.finish_all_speech();
    }

    /// Shows which agents the run is waiting for, if nothing was shown for a while.
    pub(crate) fn on_tick(&mut self, elapsed: Duration) {
        if self.activity == DisplayActivity::Shown {
            self.activity = DisplayActivity::Quiet;
            self.quiet_since = elapsed;
        } else if elapsed.saturating_sub(self.quiet_since) >= QUIET_MAX && !self.asked.is_empty() {
            let waiting: Vec<&str> = self.asked.iter().map(AgentId::as_str).collect();
            let text = format!(
                "{}: waiting for {}",
                format_duration(elapsed),
                waiting.join(", ")
            );
            self.output
                .transient(&single_line(&text, WAITING_CHARS_MAX));
        }
    }

    fn show_start(&mut self, agents: &[AgentId], attempt: u32) {
        self.agents = agents.to_vec();
        if attempt > 1 {
            self.show_line("attempt", TextStyle::Strong, &attempt.to_string());
        }
        self.show_line("agents", TextStyle::Strong, &join_with_commas(agents));
    }

    /// Shows a step of a pipeline.
    fn show_pipeline_step(&mut self, step: &PipelineStep) {
        self.finish_all_speech();
        match step {
            PipelineStep::Works {
                iteration,
                role,
                stage,
                stages,
                agents,
            } => {
                self.agents.clone_from(agents);
                let played = match join_with_commas(agents) {
                    same if same == *role => String::new(),
                    others => format!(" ({others})"),
                };
                let text = format!("{role}{played}, {stage} of {stages} in iteration {iteration}");
                self.show_line("stage", TextStyle::Strong, &text);
            }
            PipelineStep::Merged {
                role,
                commit,
                files,
                ..
            } => {
                let short = commit.get(..COMMIT_DIGITS_SHOWN).unwrap_or(commit);
                let files = count_noun(*files, "file");
                self.show_line(
                    "merged",
                    TextStyle::Good,
                    &format!("{role}: {files}, {short}"),
                );
            }
            PipelineStep::Refused {
                role,
                reason,
                tried,
                tries_max,
            } => {
                let text = format!("{role}, try {tried} of {tries_max}: {reason}");
                self.show_line("not merged", TextStyle::Warn, &text);
            }
        }
    }

    /// Shows how the commands of `agents` are isolated, and what that does not promise.
    fn show_sandbox(
        &mut self,
        agents: &[AgentId],
        by: &ExecutionIsolation,
        leaves_open: &[String],
    ) {
        let (agents, open) = (join_with_commas(agents), leaves_open.join("; "));
        let (style, text) = match by {
            ExecutionIsolation::Sandbox {
                tier: SandboxLevel::Off,
                ..
            } => (
                TextStyle::Bad,
                format!("the sandbox is off, and nothing holds those of {agents}: {open}"),
            ),
            ExecutionIsolation::Sandbox {
                tier: SandboxLevel::D,
                ..
            } => (
                TextStyle::Bad,
                format!("those of {agents} are refused: nothing on this machine can hold them"),
            ),
            ExecutionIsolation::Sandbox { .. } | ExecutionIsolation::Container { .. } => (
                TextStyle::Strong,
                format!("{by} holds those of {agents}; left open: {open}"),
            ),
        };
        self.show_line("commands", style, &text);
    }

    fn show_void_votes(&mut self, voters: &[AgentId]) {
        let text = format!("{}: a new answer came", join_with_commas(voters));
        self.show_line("votes void", TextStyle::Faint, &text);
    }

    /// Shows the winner, unless there is only one agent.
    fn show_winner(&mut self, agent: &AgentId, label: AnswerLabel, votes: &[(AgentId, u32)]) {
        self.finish_all_speech();
        if self.agents.len() == 1 {
            return;
        }
        let votes: Vec<String> = votes
            .iter()
            .map(|(agent, count)| format!("{agent} {count}"))
            .collect();
        let mut text = format!("{agent} with {label} (votes: {})", votes.join(", "));
        if !self.failing.is_empty() {
            let failing: Vec<&AgentId> = self.failing.iter().collect();
            text = format!(
                "{text}; a required check fails: {}",
                join_with_commas(&failing)
            );
        }
        self.show_line("winner", TextStyle::Good, &text);
    }

    fn show_restart(&mut self, reason: &str, instructions: &str) {
        self.finish_all_speech();
        self.show_line("starting again", TextStyle::Warn, reason);
        self.show_line("to be different", TextStyle::Plain, instructions);
    }

    fn append_reply(&mut self, agent: &AgentId, voice: ReplyTextKind, text: &str) {
        if self
            .speech
            .get(agent)
            .is_some_and(|speech| speech.voice != voice)
        {
            self.finish_speech(agent);
        }
        let speech = self.speech.entry(agent.clone());
        let new = || AgentReplyBuffer {
            voice,
            lines: LineBuffer::default(),
        };
        for line in speech.or_insert_with(new).lines.push(text) {
            self.show_reply_line(agent, voice, &line);
        }
    }

    fn finish_speech(&mut self, agent: &AgentId) {
        if let Some(mut speech) = self.speech.remove(agent)
            && let Some(line) = speech.lines.finish()
        {
            self.show_reply_line(agent, speech.voice, &line);
        }
    }

    fn finish_all_speech(&mut self) {
        for agent in self.agents.clone() {
            self.finish_speech(&agent);
        }
    }

    fn show_reply_line(&mut self, agent: &AgentId, voice: ReplyTextKind, line: &str) {
        let style = match voice {
            ReplyTextKind::Text => TextStyle::Plain,
            ReplyTextKind::Reasoning => TextStyle::Faint,
        };
        if voice == ReplyTextKind::Text && self.presented_text(agent).is_some() {
            self.activity = DisplayActivity::Shown;
            self.output.line(&[(style, line)]);
        } else {
            self.show_prefixed(agent, &[(style, line)]);
        }
    }

    /// Shows an action of an agent.
    fn show_event_line(&mut self, agent: &AgentId, event: &Event) {
        self.finish_speech(agent);
        if let Some((style, verb, text)) = event_line(event) {
            let text = single_line(&text, DEED_CHARS_MAX);
            self.show_prefixed(
                agent,
                &[
                    (style, verb),
                    (TextStyle::Plain, " "),
                    (TextStyle::Plain, &text),
                ],
            );
        }
    }

    /// Shows the beginning of an answer, which may not have been streamed.
    fn show_quote(&mut self, agent: &AgentId, content: &str) {
        let lines: Vec<&str> = content
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        for line in lines.iter().take(ANSWER_LINES_MAX) {
            self.show_prefixed(agent, &[(TextStyle::Faint, "| "), (TextStyle::Plain, line)]);
        }
        if let Some(more) = lines
            .len()
            .checked_sub(ANSWER_LINES_MAX)
            .filter(|more| *more > 0)
        {
            self.show_prefixed(
                agent,
                &[(
                    TextStyle::Faint,
                    &format!("| … {}", count_noun(more, "more line")),
                )],
            );
        }
    }

    fn show_prefixed(&mut self, agent: &AgentId, pieces: &[StyledPiece<'_>]) {
        let place = self
            .agents
            .iter()
            .position(|known| known == agent)
            .unwrap_or_default();
        let prefix = format!("[{agent}]");
        let mut line = vec![
            (TextStyle::Agent(place), prefix.as_str()),
            (TextStyle::Plain, " "),
        ];
        line.extend_from_slice(pieces);
        self.activity = DisplayActivity::Shown;
        self.output.line(&line);
    }

    fn show_line(&mut self, label: &str, style: TextStyle, text: &str) {
        self.activity = DisplayActivity::Shown;
        let text = single_line(text, usize::MAX);
        self.output.line(&[
            (style, label),
            (TextStyle::Plain, ": "),
            (TextStyle::Plain, &text),
        ]);
    }

    fn show_final_answer(&mut self, content: &str) -> Result<()> {
        self.finish_all_speech();
        self.activity = DisplayActivity::Shown;
        let presented = self.presented.take();
        if presented.is_some_and(|(_, said)| said.trim() == content.trim()) {
            return Ok(());
        }
        let newline = if content.ends_with('\n') { "" } else { "\n" };
        self.output.result(&format!("{content}{newline}"))
    }

    fn show_delivery(&mut self, rows: &[DeliveryRow]) {
        self.finish_all_speech();
        self.activity = DisplayActivity::Shown;
        if rows.is_empty() {
            self.output
                .line(&[(TextStyle::Faint, "no file was delivered")]);
        } else {
            self.output
                .line(&[(TextStyle::Strong, "delivered"), (TextStyle::Plain, ":")]);
        }
        for row in rows {
            let (style, word, note) = delivery_outcome(&row.outcome);
            let padded = format!("  {word:<8} ");
            let path = format!("{}{note}", escape_name(&row.path));
            self.output
                .line(&[(style, &padded), (TextStyle::Plain, &path)]);
        }
    }

    fn show_end(&mut self, status: ExitStatus, summary: &str, elapsed: Duration) {
        self.finish_all_speech();
        self.asked.clear();
        let (label, style) = if status == ExitStatus::Delivered {
            ("done", TextStyle::Good)
        } else {
            ("ended", TextStyle::Bad)
        };
        if self.agents.len() > 1 {
            self.show_usage();
        }
        let mut facts = vec![format_duration(elapsed)];
        facts.extend(usage_text(&self.usage.run()));
        self.show_line(label, style, &format!("{summary} ({})", facts.join(", ")));
    }

    /// Shows what each agent used, if anything was counted.
    fn show_usage(&mut self) {
        let share = |agent: &AgentId| {
            let used = usage_text(&self.usage.agent(agent))?;
            Some(format!("{agent} {used}"))
        };
        let shares: Vec<String> = self.agents.iter().filter_map(share).collect();
        if !shares.is_empty() {
            self.show_line("used", TextStyle::Faint, &shares.join("; "));
        }
    }
}

#[cfg(test)]
mod tests;
