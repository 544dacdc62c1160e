//! Owns how a script follows a run (`--automation`): `KEY: value` lines on standard output, one
//! line each, and nothing else there. The keys are those of the Python MassGen, `ERROR` for a run
//! that did not go well, and `TOKENS` with `COST` in US dollars, or with `COST_AT_LEAST` where the
//! cost of some request is not known.

use std::time::Duration;

use crate::cli::output::Output;
use crate::error::{ExitStatus, Result};
use crate::event::{Event, PipelineStep};
use crate::orchestrator::conduct::Places;
use crate::spending::books::Books;
use crate::wording::spelled;

/// The most of the answer that is shown, in characters. All of it is in the answer's file.
const PREVIEW_CHARS_MAX: usize = 200;

/// A run as a script sees it.
#[derive(Debug)]
pub(crate) struct Automation<'o, 'w> {
    output: &'o mut Output<'w>,
    places: Places,
    agent_count: usize,
    books: Books,
    answer: Option<String>,
}

impl<'o, 'w> Automation<'o, 'w> {
    /// A run that writes to `places` and of which nothing has been told yet.
    pub(crate) fn new(output: &'o mut Output<'w>, places: Places) -> Self {
        Self {
            output,
            places,
            agent_count: 0,
            books: Books::default(),
            answer: None,
        }
    }

    /// Tells what of the event matters to a script, which happened `elapsed` after the start.
    pub(crate) fn event(&mut self, event: &Event, elapsed: Duration) -> Result<()> {
        event.enter_into(&mut self.books);
        match event {
            Event::RunStarted {
                question,
                agents,
                attempt: 1,
            } => {
                self.agent_count = agents.len();
                self.tell("LOG_DIR", &self.places.log_dir.to_string())?;
                self.tell("STATUS", &self.places.status_file.to_string())?;
                self.tell("QUESTION", question)
            }
            Event::RunStarted { attempt, .. } => {
                self.tell("RESTART", &format!("Attempt {attempt}"))
            }
            Event::WinnerSelected { agent, .. } => self.tell("WINNER", agent.as_str()),
            Event::FinalAnswer { content, .. } => {
                self.answer = Some(content.chars().take(PREVIEW_CHARS_MAX).collect());
                Ok(())
            }
            Event::Warning { message } => {
                self.output.warning(message);
                Ok(())
            }
            Event::LimitMet { agent: None, limit } => {
                self.output.warning(limit);
                Ok(())
            }
            Event::DroppedOut { agent, reason, .. } => {
                self.output.warning(&format!("{agent} drops out: {reason}"));
                Ok(())
            }
            Event::Confined { by, .. } => self.tell("COMMANDS", &by.to_string()),
            Event::Checked { agent, finding, .. } => {
                let text = format!("{agent} {}: {}", finding.check, finding.verdict);
                self.tell("CHECK", &text)
            }
            Event::Pipeline { step } => self.step(step),
            Event::RunEnded { status, summary } => self.ended(*status, summary, elapsed),
            Event::Asking { .. }
            | Event::Text { .. }
            | Event::Reasoning { .. }
            | Event::Asked { .. }
            | Event::Replied { .. }
            | Event::Failed { .. }
            | Event::Held { .. }
            | Event::FellBack { .. }
            | Event::Shortened { .. }
            | Event::OwnTool { .. }
            | Event::LimitMet { agent: Some(_), .. }
            | Event::Retrying { .. }
            | Event::PersonAsked { .. }
            | Event::HookRan { .. }
            | Event::ServerWorks { .. }
            | Event::ToolCalled { .. }
            | Event::ToolFinished { .. }
            | Event::Answered { .. }
            | Event::Checking { .. }
            | Event::Voted { .. }
            | Event::VotesVoided { .. }
            | Event::Refused { .. }
            | Event::Informed { .. }
            | Event::FinalStarted { .. }
            | Event::Delivered { .. }
            | Event::CutShort { .. }
            | Event::Restarting { .. } => Ok(()),
        }
    }

    fn step(&mut self, step: &PipelineStep) -> Result<()> {
        match step {
            PipelineStep::Works {
                iteration, role, ..
            } => self.tell("STAGE", &format!("{role}, iteration {iteration}")),
            PipelineStep::Merged { role, commit, .. } => {
                self.tell("MERGED", &format!("{role} {commit}"))
            }
            PipelineStep::Refused { role, reason, .. } => {
                self.tell("REFUSED", &format!("{role}: {reason}"))
            }
        }
    }

    fn ended(&mut self, status: ExitStatus, summary: &str, elapsed: Duration) -> Result<()> {
        if status != ExitStatus::Delivered {
            self.tell("ERROR", summary)?;
        }
        let seconds = format!("{:.1}s", elapsed.as_secs_f64());
        let answer = self.answer.take();
        if answer.is_some() {
            self.tell("ANSWER_FILE", &self.places.answer_file.to_string())?;
        }
        self.tell("DURATION", &seconds)?;
        let spent = self.books.run();
        self.tell("TOKENS", &spent.usage.total_tokens().to_string())?;
        let key = if spent.cost_is_complete {
            "COST"
        } else {
            "COST_AT_LEAST"
        };
        self.tell(key, &spent.known_cost().to_string())?;
        if let Some(preview) = answer {
            self.tell("ANSWER_PREVIEW", &preview)?;
        }
        let agents = self.agent_count;
        self.tell("COMPLETED", &format!("{agents} agents, {seconds} total"))
    }

    fn tell(&mut self, key: &str, value: &str) -> Result<()> {
        self.output.result(&format!("{key}: {}\n", spelled(value)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::id::{AgentId, AgentNumber, AnswerLabel};
    use crate::path::AbsPath;

    fn run(events: &[Event]) -> (String, String) {
        let root = AbsPath::new("/").unwrap();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut output = Output::to(&mut out, &mut err);
        let places = Places {
            log_dir: root.join("log"),
            status_file: root.join("log/status.json"),
            answer_file: root.join("log/answer.txt"),
        };
        let mut automation = Automation::new(&mut output, places);
        for event in events {
            automation
                .event(event, Duration::from_millis(12_340))
                .unwrap();
        }
        drop(output);
        (
            String::from_utf8(out).unwrap(),
            String::from_utf8(err).unwrap(),
        )
    }

    #[test]
    fn a_script_reads_one_line_for_each_fact() {
        let agent = AgentId::parse("writer").unwrap();
        let label = AnswerLabel {
            agent: AgentNumber::from_index(0),
            ordinal: 1,
        };
        let (out, err) = run(&[
            Event::RunStarted {
                question: Arc::from("two\nlines"),
                agents: vec![agent.clone(), AgentId::parse("b").unwrap()],
                attempt: 1,
            },
            Event::Text {
                agent: agent.clone(),
                text: "not shown".to_owned(),
            },
            Event::Warning {
                message: "careful".to_owned(),
            },
            Event::WinnerSelected {
                agent: agent.clone(),
                label,
                votes: Vec::new(),
            },
            Event::FinalAnswer {
                agent,
                content: Arc::from("yes\u{1b}[31m\nno"),
            },
            Event::RunEnded {
                status: ExitStatus::Delivered,
                summary: "all well".to_owned(),
            },
        ]);
        insta::assert_snapshot!(out, @r"
        LOG_DIR: /log
        STATUS: /log/status.json
        QUESTION: two\nlines
        WINNER: writer
        ANSWER_FILE: /log/answer.txt
        DURATION: 12.3s
        TOKENS: 0
        COST: 0
        ANSWER_PREVIEW: yes\u{1b}[31m\nno
        COMPLETED: 2 agents, 12.3s total
        ");
        assert_eq!(err, "warning: careful\n");
    }

    #[test]
    fn without_an_answer_the_reason_is_told_and_no_file_is_named() {
        let (out, err) = run(&[
            Event::DroppedOut {
                agent: AgentId::parse("writer").unwrap(),
                reason: "401".to_owned(),
                timed_out: false,
            },
            Event::RunEnded {
                status: ExitStatus::NoAnswer,
                summary: "no agent answered".to_owned(),
            },
        ]);
        insta::assert_snapshot!(out, @r"
        ERROR: no agent answered
        DURATION: 12.3s
        TOKENS: 0
        COST: 0
        COMPLETED: 0 agents, 12.3s total
        ");
        assert_eq!(err, "warning: writer drops out: 401\n");
    }
}
