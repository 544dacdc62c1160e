//! Owns how a person follows a run: every event as plain lines on standard error, each with the
//! name of the agent that it is about, and the final answer alone on standard output. Where both are
//! the same terminal, the final answer is shown once, as it is spoken. It decides nothing and keeps
//! only what it needs to print whole lines.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::cli::lines::Lines;
use crate::cli::output::{Output, Piece, Style};
use crate::cli::render::deeds::{clock, deed, outcome, used};
use crate::confinement::tier::{Enclosure, Tier};
use crate::error::{ExitStatus, Result};
use crate::event::{DeliveryRow, Event, PipelineStep, Voice};
use crate::evidence::{Evidence, Standing};
use crate::id::{AgentId, AnswerLabel};
use crate::spending::books::Books;
use crate::wording::{counted, joined, one_line, spelled};

pub(crate) mod deeds;

/// How long nothing may be shown before the terminal says who is being waited for.
const QUIET_MAX: Duration = Duration::from_secs(1);
/// The most of what an agent did that is shown on its line, in characters.
const DEED_CHARS_MAX: usize = 240;
/// The most lines of an answer that are shown while agents still coordinate.
const ANSWER_LINES_MAX: usize = 20;
/// How many digits of a commit are shown.
const COMMIT_DIGITS_SHOWN: usize = 10;
/// The longest line that tells who is being waited for, in characters; it must not wrap.
const WAITING_CHARS_MAX: usize = 78;

/// A run as a person sees it.
#[derive(Debug)]
pub(crate) struct Render<'o, 'w> {
    output: &'o mut Output<'w>,
    agents: Vec<AgentId>,
    speech: BTreeMap<AgentId, Speech>,
    asked: BTreeSet<AgentId>,
    /// Whose answers fail a required check.
    failing: BTreeSet<AgentId>,
    books: Books,
    /// What the final agent has said since it was last asked, where that is shown as the final answer.
    presented: Option<(AgentId, String)>,
    activity: Activity,
    quiet_since: Duration,
}

/// What an agent is saying at the moment.
#[derive(Debug)]
struct Speech {
    voice: Voice,
    lines: Lines,
}

/// Whether something was shown since the last tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    Shown,
    Quiet,
}

impl<'o, 'w> Render<'o, 'w> {
    /// What the run is shown on, for something else.
    pub(crate) fn output(&mut self) -> &mut Output<'w> {
        self.output
    }

    /// A run of which nothing has been shown yet.
    pub(crate) fn new(output: &'o mut Output<'w>) -> Self {
        Self {
            output,
            agents: Vec::new(),
            speech: BTreeMap::new(),
            asked: BTreeSet::new(),
            books: Books::default(),
            presented: None,
            failing: BTreeSet::new(),
            activity: Activity::Quiet,
            quiet_since: Duration::ZERO,
        }
    }

    /// Shows one event, which happened `elapsed` after the start of the run.
    pub(crate) fn event(&mut self, event: &Event, elapsed: Duration) -> Result<()> {
        event.enter_into(&mut self.books);
        match event {
            Event::RunStarted {
                agents, attempt, ..
            } => self.started(agents, *attempt),
            Event::VotesVoided { voters } => self.voided(voters),
            Event::WinnerSelected {
                agent,
                label,
                votes,
            } => self.winner(agent, *label, votes),
            Event::FinalAnswer { content, .. } => return self.final_answer(content),
            Event::Delivered { rows } => self.delivered(rows),
            Event::Restarting {
                reason,
                instructions,
            } => self.restarting(reason, instructions),
            Event::Confined {
                agents,
                by,
                leaves_open,
            } => self.confined(agents, by, leaves_open),
            Event::ServerWorks { server, text } => self.server_works(server, text),
            Event::Pipeline { step } => self.step(step),
            Event::Warning { message } => self.warn(message),
            Event::RunEnded { status, summary } => self.ended(*status, summary, elapsed),
            Event::Asking { agent, .. } => self.asking(agent),
            Event::FinalStarted { agent } => {
                self.act(agent, event);
                self.presents(agent);
            }
            Event::Text { agent, text } => self.says(agent, text),
            Event::Reasoning { agent, text } => self.speak(agent, Voice::Reasoning, text),
            Event::Asked { agent, .. } => {
                self.asked.remove(agent);
                self.finish_speech(agent);
            }
            Event::Answered { agent, .. } => self.answered(agent, event),
            Event::DroppedOut { agent, .. } => {
                self.asked.remove(agent);
                self.act(agent, event);
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
            | Event::Checking { agent, .. } => self.act(agent, event),
            Event::Checked { agent, finding, .. } => {
                self.act(agent, event);
                self.quote(agent, &finding.tail);
            }
        }
        Ok(())
    }

    fn warn(&mut self, message: &str) {
        self.activity = Activity::Shown;
        self.output.warning(message);
    }

    fn server_works(&mut self, server: &str, text: &str) {
        self.activity = Activity::Shown;
        let told = format!("{server}: {text}");
        self.output.line(&[(Style::Faint, &told)]);
    }

    fn asking(&mut self, agent: &AgentId) {
        self.asked.insert(agent.clone());
        if let Some((_, said)) = self.presented_by(agent) {
            said.clear();
        }
    }

    fn says(&mut self, agent: &AgentId, text: &str) {
        if let Some((_, said)) = self.presented_by(agent) {
            said.push_str(text);
        }
        self.speak(agent, Voice::Text, text);
    }

    /// Keeps what `agent` says, where that is shown beside the answer.
    fn presents(&mut self, agent: &AgentId) {
        if self.output.is_one_terminal() {
            self.presented = Some((agent.clone(), String::new()));
        }
    }

    /// What is kept of the words of `agent`, if it presents.
    fn presented_by(&mut self, agent: &AgentId) -> Option<&mut (AgentId, String)> {
        self.presented.as_mut().filter(|(by, _)| by == agent)
    }

    fn answered(&mut self, agent: &AgentId, event: &Event) {
        self.act(agent, event);
        let Event::Answered {
            content, evidence, ..
        } = event
        else {
            return;
        };
        match evidence.as_ref().map(Evidence::standing) {
            Some(Standing::Fails) => self.failing.insert(agent.clone()),
            Some(Standing::Holds) | None => self.failing.remove(agent),
        };
        self.quote(agent, content);
    }

    /// Shows something that is not an event.
    pub(crate) fn say(&mut self, message: &str) {
        self.activity = Activity::Shown;
        self.output.warning(message);
    }

    /// Whether nobody looks any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.output.is_closed()
    }

    /// Shows what was begun, of a run that says no more.
    pub(crate) fn break_off(&mut self) {
        self.finish_all_speech();
    }

    /// Lets the terminal say who is being waited for, when nothing was shown for a while.
    pub(crate) fn tick(&mut self, elapsed: Duration) {
        if self.activity == Activity::Shown {
            self.activity = Activity::Quiet;
            self.quiet_since = elapsed;
        } else if elapsed.saturating_sub(self.quiet_since) >= QUIET_MAX && !self.asked.is_empty() {
            let waiting: Vec<&str> = self.asked.iter().map(AgentId::as_str).collect();
            let text = format!("{}: waiting for {}", clock(elapsed), waiting.join(", "));
            self.output.transient(&one_line(&text, WAITING_CHARS_MAX));
        }
    }

    fn started(&mut self, agents: &[AgentId], attempt: u32) {
        self.agents = agents.to_vec();
        if attempt > 1 {
            self.line("attempt", Style::Strong, &attempt.to_string());
        }
        self.line("agents", Style::Strong, &joined(agents));
    }

    /// Says how a pipeline has got further.
    fn step(&mut self, step: &PipelineStep) {
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
                let played = match joined(agents) {
                    same if same == *role => String::new(),
                    others => format!(" ({others})"),
                };
                let text = format!("{role}{played}, {stage} of {stages} in iteration {iteration}");
                self.line("stage", Style::Strong, &text);
            }
            PipelineStep::Merged {
                role,
                commit,
                files,
                ..
            } => {
                let short = commit.get(..COMMIT_DIGITS_SHOWN).unwrap_or(commit);
                let files = counted(*files, "file");
                self.line("merged", Style::Good, &format!("{role}: {files}, {short}"));
            }
            PipelineStep::Refused {
                role,
                reason,
                tried,
                tries_max,
            } => {
                let text = format!("{role}, try {tried} of {tries_max}: {reason}");
                self.line("not merged", Style::Warn, &text);
            }
        }
    }

    /// Says what holds the commands of `agents`, and what that does not promise.
    fn confined(&mut self, agents: &[AgentId], by: &Enclosure, leaves_open: &[String]) {
        let (agents, open) = (joined(agents), leaves_open.join("; "));
        let (style, text) = match by {
            Enclosure::Sandbox {
                tier: Tier::Off, ..
            } => (
                Style::Bad,
                format!("the sandbox is off, and nothing holds those of {agents}: {open}"),
            ),
            Enclosure::Sandbox { tier: Tier::D, .. } => (
                Style::Bad,
                format!("those of {agents} are refused: nothing on this machine can hold them"),
            ),
            Enclosure::Sandbox { .. } | Enclosure::Container { .. } => (
                Style::Strong,
                format!("{by} holds those of {agents}; left open: {open}"),
            ),
        };
        self.line("commands", style, &text);
    }

    fn voided(&mut self, voters: &[AgentId]) {
        let text = format!("{}: a new answer came", joined(voters));
        self.line("votes void", Style::Faint, &text);
    }

    /// Says who won; an agent that is alone was not chosen.
    fn winner(&mut self, agent: &AgentId, label: AnswerLabel, votes: &[(AgentId, u32)]) {
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
            text = format!("{text}; a required check fails: {}", joined(&failing));
        }
        self.line("winner", Style::Good, &text);
    }

    fn restarting(&mut self, reason: &str, instructions: &str) {
        self.finish_all_speech();
        self.line("starting again", Style::Warn, reason);
        self.line("to be different", Style::Plain, instructions);
    }

    fn speak(&mut self, agent: &AgentId, voice: Voice, text: &str) {
        if self
            .speech
            .get(agent)
            .is_some_and(|speech| speech.voice != voice)
        {
            self.finish_speech(agent);
        }
        let speech = self.speech.entry(agent.clone());
        let new = || Speech {
            voice,
            lines: Lines::default(),
        };
        for line in speech.or_insert_with(new).lines.push(text) {
            self.spoken(agent, voice, &line);
        }
    }

    fn finish_speech(&mut self, agent: &AgentId) {
        if let Some(mut speech) = self.speech.remove(agent)
            && let Some(line) = speech.lines.finish()
        {
            self.spoken(agent, speech.voice, &line);
        }
    }

    fn finish_all_speech(&mut self) {
        for agent in self.agents.clone() {
            self.finish_speech(&agent);
        }
    }

    fn spoken(&mut self, agent: &AgentId, voice: Voice, line: &str) {
        let style = match voice {
            Voice::Text => Style::Plain,
            Voice::Reasoning => Style::Faint,
        };
        if voice == Voice::Text && self.presented_by(agent).is_some() {
            self.activity = Activity::Shown;
            self.output.line(&[(style, line)]);
        } else {
            self.prefixed(agent, &[(style, line)]);
        }
    }

    /// Shows what an agent did.
    fn act(&mut self, agent: &AgentId, event: &Event) {
        self.finish_speech(agent);
        if let Some((style, verb, text)) = deed(event) {
            let text = one_line(&text, DEED_CHARS_MAX);
            self.prefixed(
                agent,
                &[(style, verb), (Style::Plain, " "), (Style::Plain, &text)],
            );
        }
    }

    /// Shows the beginning of an answer, which may not have been in the stream.
    fn quote(&mut self, agent: &AgentId, content: &str) {
        let lines: Vec<&str> = content
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        for line in lines.iter().take(ANSWER_LINES_MAX) {
            self.prefixed(agent, &[(Style::Faint, "| "), (Style::Plain, line)]);
        }
        if let Some(more) = lines
            .len()
            .checked_sub(ANSWER_LINES_MAX)
            .filter(|more| *more > 0)
        {
            self.prefixed(
                agent,
                &[(Style::Faint, &format!("| … {}", counted(more, "more line")))],
            );
        }
    }

    fn prefixed(&mut self, agent: &AgentId, pieces: &[Piece<'_>]) {
        let place = self
            .agents
            .iter()
            .position(|known| known == agent)
            .unwrap_or_default();
        let prefix = format!("[{agent}]");
        let mut line = vec![(Style::Agent(place), prefix.as_str()), (Style::Plain, " ")];
        line.extend_from_slice(pieces);
        self.activity = Activity::Shown;
        self.output.line(&line);
    }

    fn line(&mut self, label: &str, style: Style, text: &str) {
        self.activity = Activity::Shown;
        let text = one_line(text, usize::MAX);
        self.output
            .line(&[(style, label), (Style::Plain, ": "), (Style::Plain, &text)]);
    }

    fn final_answer(&mut self, content: &str) -> Result<()> {
        self.finish_all_speech();
        self.activity = Activity::Shown;
        let presented = self.presented.take();
        if presented.is_some_and(|(_, said)| said.trim() == content.trim()) {
            return Ok(());
        }
        let newline = if content.ends_with('\n') { "" } else { "\n" };
        self.output.result(&format!("{content}{newline}"))
    }

    fn delivered(&mut self, rows: &[DeliveryRow]) {
        self.finish_all_speech();
        self.activity = Activity::Shown;
        if rows.is_empty() {
            self.output.line(&[(Style::Faint, "no file was delivered")]);
        } else {
            self.output
                .line(&[(Style::Strong, "delivered"), (Style::Plain, ":")]);
        }
        for row in rows {
            let (style, word, note) = outcome(&row.outcome);
            let padded = format!("  {word:<8} ");
            let path = format!("{}{note}", spelled(&row.path));
            self.output.line(&[(style, &padded), (Style::Plain, &path)]);
        }
    }

    fn ended(&mut self, status: ExitStatus, summary: &str, elapsed: Duration) {
        self.finish_all_speech();
        self.asked.clear();
        let (label, style) = if status == ExitStatus::Delivered {
            ("done", Style::Good)
        } else {
            ("ended", Style::Bad)
        };
        if self.agents.len() > 1 {
            self.shares();
        }
        let mut facts = vec![clock(elapsed)];
        facts.extend(used(&self.books.run()));
        self.line(label, style, &format!("{summary} ({})", facts.join(", ")));
    }

    /// Says what each agent used, if anything was counted.
    fn shares(&mut self) {
        let share = |agent: &AgentId| {
            let used = used(&self.books.agent(agent))?;
            Some(format!("{agent} {used}"))
        };
        let shares: Vec<String> = self.agents.iter().filter_map(share).collect();
        if !shares.is_empty() {
            self.line("used", Style::Faint, &shares.join("; "));
        }
    }
}

#[cfg(test)]
mod tests;
