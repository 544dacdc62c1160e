//! Output for scripts (`--automation`): `KEY: value` lines on standard output, and nothing else
//! there. Besides the keys of the Python MassGen, there are `ERROR` for a run that did not succeed,
//! `TOKENS` with `COST` in US dollars, or with `COST_AT_LEAST` if the cost of some request is
//! unknown, and keys for the sandbox, checks, restarts, the inbox and the stages of a pipeline.

use std::time::Duration;

use crate::cli::json_report::event_warning;
use crate::cli::output::CliOutput;
use crate::error::{ExitStatus, Result};
use crate::event::{CoordinationEvent, DeliveryEvent, Event, PipelineEvent, RunEvent};
use crate::id::AgentId;
use crate::orchestrator::execution::RunOutputPaths;
use crate::spending::totals::UsageTotals;
use crate::text::escape_name;
use crate::world::io::event_sink::EventSink;

/// Maximum length of the answer preview, in characters. The answer's file holds all of it.
const PREVIEW_CHARS_MAX: usize = 200;

/// Prints a run as `KEY: value` lines.
#[derive(Debug)]
pub(crate) struct AutomationOutput<'o, 'w> {
    output: &'o mut CliOutput<'w>,
    output_paths: RunOutputPaths,
    agent_count: usize,
    usage: UsageTotals,
    /// The preview of the final answer.
    answer: Option<String>,
}

impl<'o, 'w> AutomationOutput<'o, 'w> {
    /// Creates the output of a run that writes to `output_paths` and has printed nothing yet.
    pub(crate) fn new(output: &'o mut CliOutput<'w>, output_paths: RunOutputPaths) -> Self {
        Self {
            output,
            output_paths,
            agent_count: 0,
            usage: UsageTotals::default(),
            answer: None,
        }
    }

    fn on_run_event(&mut self, event: &RunEvent, elapsed: Duration) -> Result<()> {
        if let RunEvent::RunStarted {
            question,
            agents,
            restart,
            ..
        } = event
        {
            self.write_run_start(question, agents, *restart)
        } else if let RunEvent::SandboxSelected { by, .. } = event {
            self.write_value("COMMANDS", &by.to_string())
        } else if let RunEvent::RunEnded { status, summary } = event {
            self.write_run_end(*status, summary, elapsed)
        } else {
            Ok(())
        }
    }

    fn on_coordination_event(&mut self, event: &CoordinationEvent) -> Result<()> {
        if let CoordinationEvent::WinnerSelected { agent, .. } = event {
            self.write_value("WINNER", agent.as_str())
        } else {
            Ok(())
        }
    }

    fn on_delivery_event(&mut self, event: &DeliveryEvent) -> Result<()> {
        if let DeliveryEvent::FinalAnswer { content, .. } = event {
            // Only the preview is printed; it follows when the run has ended.
            self.answer = Some(content.chars().take(PREVIEW_CHARS_MAX).collect());
            Ok(())
        } else if let DeliveryEvent::Checked { agent, finding, .. } = event {
            let text = format!("{agent} {}: {}", finding.check, finding.verdict);
            self.write_value("CHECK", &text)
        } else {
            Ok(())
        }
    }

    fn write_run_start(&mut self, question: &str, agents: &[AgentId], restart: u32) -> Result<()> {
        if restart > 0 {
            return self.write_value("RESTART", &restart.to_string());
        }
        self.agent_count = agents.len();
        self.write_value("LOG_DIR", &self.output_paths.log_dir.to_string())?;
        self.write_value("STATUS", &self.output_paths.status_file.to_string())?;
        if let Some(inbox) = &self.output_paths.inbox {
            self.write_value("RUNTIME_INBOX", &inbox.to_string())?;
        }
        self.write_value("QUESTION", question)
    }

    fn write_step(&mut self, step: &PipelineEvent) -> Result<()> {
        match step {
            PipelineEvent::Works {
                iteration, role, ..
            } => self.write_value("STAGE", &format!("{role}, iteration {iteration}")),
            PipelineEvent::StageRun { .. } => Ok(()),
            PipelineEvent::Merged { role, commit, .. } => {
                self.write_value("MERGED", &format!("{role} {commit}"))
            }
            PipelineEvent::Refused { role, reason, .. } => {
                self.write_value("REFUSED", &format!("{role}: {reason}"))
            }
        }
    }

    fn write_run_end(
        &mut self,
        status: ExitStatus,
        summary: &str,
        elapsed: Duration,
    ) -> Result<()> {
        if status != ExitStatus::Success {
            self.write_value("ERROR", summary)?;
        }
        let seconds = format!("{:.1}s", elapsed.as_secs_f64());
        let answer = self.answer.take();
        if answer.is_some() {
            self.write_value("ANSWER_FILE", &self.output_paths.answer_file.to_string())?;
        }
        self.write_value("DURATION", &seconds)?;
        let totals = self.usage.run();
        self.write_value("TOKENS", &totals.usage.total_tokens().to_string())?;
        let key = if totals.cost_is_complete {
            "COST"
        } else {
            "COST_AT_LEAST"
        };
        self.write_value(key, &totals.known_cost().to_string())?;
        if let Some(preview) = answer {
            self.write_value("ANSWER_PREVIEW", &preview)?;
        }
        let agents = self.agent_count;
        self.write_value("COMPLETED", &format!("{agents} agents, {seconds} total"))
    }

    fn write_value(&mut self, key: &str, value: &str) -> Result<()> {
        self.output
            .result(&format!("{key}: {}\n", escape_name(value)))
    }
}

impl EventSink for AutomationOutput<'_, '_> {
    fn on_event(&mut self, event: &Event, elapsed: Duration) -> Result<()> {
        event.add_to_totals(&mut self.usage);
        if let Some(warning) = event_warning(event) {
            self.output.warning(&warning);
        }
        match event {
            Event::Run(event) => self.on_run_event(event, elapsed),
            Event::Coordination(event) => self.on_coordination_event(event),
            Event::Delivery(event) => self.on_delivery_event(event),
            Event::Pipeline(step) => self.write_step(step),
            Event::Model(_) | Event::Tool(_) | Event::Subagent(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ballot::WinnerReason;
    use crate::event::ModelEvent;
    use crate::id::{AgentNumber, AnswerLabel};
    use crate::path::AbsPath;

    fn run(events: &[Event]) -> (String, String) {
        let root = AbsPath::new("/").unwrap();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut output = CliOutput::with_writers(&mut out, &mut err);
        let output_paths = RunOutputPaths {
            log_dir: root.join("log"),
            status_file: root.join("log/status.json"),
            answer_file: root.join("log/answer.txt"),
            workspace: root.join("log/workspace"),
            inbox: None,
        };
        let mut automation = AutomationOutput::new(&mut output, output_paths);
        for event in events {
            automation
                .on_event(event, Duration::from_millis(12_340))
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
            Event::Run(RunEvent::RunStarted {
                question: Arc::from("two\nlines"),
                agents: vec![agent.clone(), AgentId::parse("b").unwrap()],
                restart: 0,
                cwd: None,
            }),
            Event::Model(ModelEvent::Text {
                agent: agent.clone(),
                text: "not shown".to_owned(),
            }),
            Event::Run(RunEvent::Warning {
                message: "careful".to_owned(),
            }),
            Event::Coordination(CoordinationEvent::WinnerSelected {
                agent: agent.clone(),
                label,
                reason: WinnerReason::OnlyAnswer,
                votes: Vec::new(),
            }),
            Event::Delivery(DeliveryEvent::FinalAnswer {
                agent,
                content: Arc::from("yes\u{1b}[31m\nno"),
            }),
            Event::Run(RunEvent::RunEnded {
                status: ExitStatus::Success,
                summary: "all well".to_owned(),
            }),
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
    fn without_an_answer_the_reason_is_printed_and_no_file() {
        let (out, err) = run(&[
            Event::Coordination(CoordinationEvent::DroppedOut {
                agent: AgentId::parse("writer").unwrap(),
                reason: "401".to_owned(),
                timed_out: false,
            }),
            Event::Run(RunEvent::RunEnded {
                status: ExitStatus::Failure,
                summary: "no agent answered".to_owned(),
            }),
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
