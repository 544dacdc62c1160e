//! Follows a run while it is executing: passes every event to the observer as it arrives, and
//! questions and messages of the user in between. A failing output does not end the run: the error
//! is returned when the run is over.

use std::panic::resume_unwind;

use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cli::approval_prompt::{CallDecision, ask_approval};
use crate::cli::deliveries::interactive_review::{TerminalLines, ask_after_failed_check, review};
use crate::cli::output::{CliOutput, TextStyle};
use crate::cli::report_files::RunReportFiles;
use crate::cli::run_observer::RunObserver;
use crate::cli::run_terminal::RunTerminal;
use crate::cli::standard_stream::RunEndSignal;
use crate::cli::steering::{KeyboardReader, SteeringInput};
use crate::error::{Error, Result};
use crate::event::{ApprovalAnswer, Event, RunEvent};
use crate::id::AgentId;
use crate::orchestrator::review::UserQuestion;
use crate::path::AbsPath;
use crate::text::escape_line;
use crate::world::approval::ApprovalRequest;
use crate::world::diagnostics::probe::terminal::{COLUMNS_DEFAULT, stderr_size};
use crate::world::io::clock::Stopwatch;
use crate::world::io::event_sink::sleep_until_due;
use crate::world::io::terminal_mode::TerminalModeGuard;

/// Questions of a run to the user, whether at the terminal or on the page that shows the run.
#[derive(Debug)]
pub(crate) struct TerminalQuestions {
    /// The channel on which they arrive.
    pub receiver: Receiver<UserQuestion>,
    /// Cancelled when the user wants to stop; later questions are not answered.
    pub stop: CancellationToken,
}

impl TerminalQuestions {
    /// Asks the user `question`: on the page or the dashboard that shows the run, else in lines,
    /// and then nothing else is shown before it is answered or withdrawn.
    fn answer_question(
        &self,
        question: UserQuestion,
        observer: &mut RunObserver<'_, '_>,
        steering: &mut SteeringInput,
    ) {
        if let Some(frontend) = observer.frontend() {
            return frontend.ask(question);
        }
        if let Some(terminal) = observer.terminal()
            && let Some(question) = terminal.show_question(question)
        {
            let output = terminal.output();
            tokio::task::block_in_place(|| self.ask_in_lines(question, output, steering));
        }
    }

    /// Asks the user `question` in lines. If there is no answer, the closed channel informs the
    /// run.
    fn ask_in_lines(
        &self,
        question: UserQuestion,
        output: &mut CliOutput<'_>,
        steering: &mut SteeringInput,
    ) {
        let lines = || TerminalLines::new(self.stop.clone());
        let is_answered = match question {
            UserQuestion::Call {
                agent,
                question,
                always,
                answer,
            } => {
                let call = (&agent, &question, always.as_ref());
                let decision = self.ask_about_call(call, &answer, output, steering);
                decision.map(|decision| answer.send(decision).is_ok())
            }
            UserQuestion::Apply {
                delivery,
                plan,
                answer,
            } => {
                let mut lines = lines();
                let mut next_line = || lines.next_unless(&|| answer.is_closed());
                let selection = review(&delivery, &plan, output, &mut next_line);
                selection
                    .ok()
                    .flatten()
                    .map(|selection| answer.send(selection).is_ok())
            }
            UserQuestion::Open {
                question,
                without_answer,
                answer,
            } => {
                let mut lines = lines();
                for line in question.lines() {
                    output.line(&[(TextStyle::Strong, &escape_line(line))]);
                }
                let default_line = format!("  {}", escape_line(&without_answer));
                output.line(&[(TextStyle::Faint, &default_line)]);
                output.ask("your answer (Ctrl-D: none), then Enter?");
                let line = lines.next_unless(&|| answer.is_closed());
                line.map(|line| answer.send(line).is_ok())
            }
            UserQuestion::FailedCheck { reason, answer } => {
                let mut lines = lines();
                let mut next_line = || lines.next_unless(&|| answer.is_closed());
                ask_after_failed_check(&reason, output, &mut next_line)
                    .map(|decision| answer.send(decision).is_ok())
            }
        };
        if is_answered != Some(true) {
            output.note("the question was not answered");
        }
    }

    /// Asks the user about a call, which a key answers. With the answer "no", they can tell the
    /// agent what to do instead.
    fn ask_about_call(
        &self,
        (agent, request, always): (&AgentId, &ApprovalRequest, Option<&AbsPath>),
        answer: &oneshot::Sender<ApprovalAnswer>,
        output: &mut CliOutput<'_>,
        steering: &mut SteeringInput,
    ) -> Option<ApprovalAnswer> {
        let width = stderr_size().map_or(COLUMNS_DEFAULT, |size| size.columns);
        let is_over = || answer.is_closed() || self.stop.is_cancelled();
        let key_mode = TerminalModeGuard::from_stdin();
        if let Some(key_mode) = &key_mode {
            key_mode.disable_echo();
        }
        let mut next_key = |output: &mut CliOutput<'_>| steering.next_answer_key(&is_over, output);
        let reply = ask_approval(agent, request, always, width, output, &mut next_key)?;
        drop(key_mode);
        match reply {
            CallDecision::Answer(decision) => Some(decision),
            CallDecision::Instead => {
                let mut lines = TerminalLines::new(self.stop.clone());
                output.ask(&format!("what should {agent} do instead? Enter sends it"));
                let text = lines.next_unless(&is_over)?;
                let message = format!("{agent}: {text}");
                let warning = (!text.is_empty())
                    .then(|| steering.send_line(&message))
                    .flatten();
                if let Some(warning) = warning {
                    output.warning(&warning);
                }
                Some(ApprovalAnswer::No)
            }
        }
    }
}

/// Executes `run`, passes its events to `observer` and `report` until the last sender is dropped, and
/// answers questions meanwhile. Returns the result of the run, and the first error of the output.
///
/// The run, which is to end at `end`, has its own task: while a person is asked in lines or the output
/// is not read, its limits continue to apply.
pub(crate) async fn follow_run<T: Send + 'static>(
    run: impl Future<Output = Result<T>> + Send + 'static,
    end: RunEndSignal,
    events: Receiver<Event>,
    observer: RunObserver<'_, '_>,
    report: Option<&mut RunReportFiles>,
    questions: TerminalQuestions,
    steering: &mut SteeringInput,
) -> (Result<T>, Result<()>) {
    // The set aborts the run if this future is dropped.
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let result = run.await;
        end.record_end();
        result
    });
    let outcome = forward_events(events, observer, report, questions, steering).await;
    match tasks.join_next().await {
        Some(Ok(result)) => (result, outcome),
        Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
        Some(Err(_)) | None => (Err(Error::bug("the run was lost")), outcome),
    }
}

/// Shows all events until the last sender is dropped, and answers questions meanwhile. Returns the
/// first error of the output.
async fn forward_events(
    mut events: Receiver<Event>,
    mut observer: RunObserver<'_, '_>,
    mut report: Option<&mut RunReportFiles>,
    mut questions: TerminalQuestions,
    steering: &mut SteeringInput,
) -> Result<()> {
    let since_start = Stopwatch::start();
    let mut outcome = Ok(());
    loop {
        let mut warnings = Vec::new();
        let reader = if observer.has_dashboard() {
            KeyboardReader::Dashboard
        } else {
            KeyboardReader::MessageLine
        };
        tokio::select! {
            event = events.recv() => {
                let Some(event) = event else {
                    outcome = outcome.and(observer.show_end(&questions.stop).await);
                    let Some(terminal) = observer.terminal() else {
                        return outcome;
                    };
                    let leave_result = terminal.leave_dashboard();
                    steering.keep_unsent_message(&terminal.take_unsent_message());
                    return outcome.and(leave_result);
                };
                if let Some(report) = &mut report {
                    report.apply(&event, since_start.elapsed());
                }
                let event_result = observer.on_event(&event, since_start.elapsed());
                outcome = outcome.and(event_result);
            },
            Some(question) = questions.receiver.recv() => {
                questions.answer_question(question, &mut observer, steering);
            }
            new_warnings = steering.forward(&questions.stop, reader) => warnings = new_warnings,
            () = sleep_until_due(observer.due()) => {}
            input = observer.next_input() => match observer.on_input(&input, &questions.stop) {
                Ok(line) => {
                    warnings = line.and_then(|line| steering.send_line(&line)).into_iter().collect();
                }
                Err(error) => outcome = outcome.and(Err(error)),
            },
        }
        if let Some(terminal) = observer.terminal() {
            if let Some(report) = steering.report.take() {
                terminal.show_report(report);
            }
            let typed_text = terminal.take_typed_text();
            warnings.extend(steering.push_typed_text(&typed_text, &questions.stop));
        }
        for message in warnings {
            let warning = Event::Run(RunEvent::Warning { message });
            let event_result = observer.on_event(&warning, since_start.elapsed());
            outcome = outcome.and(event_result);
        }
        let terminal = observer.terminal();
        for question in terminal.map_or_else(Vec::new, RunTerminal::take_unanswered_questions) {
            questions.answer_question(question, &mut observer, steering);
        }
        outcome = outcome.and(observer.on_due(since_start.elapsed()));
        if observer.has_dashboard() {
            continue;
        }
        if let (Some(line), Some(terminal)) = (steering.line.display_text(), observer.terminal()) {
            terminal.output().transient(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind, Write};
    use std::sync::Arc;

    use super::*;
    use crate::agent::user_messages::user_message_channel;
    use crate::cli::output::CliOutput;
    use crate::cli::render::RunRenderer;
    use crate::error::ExitStatus;
    use crate::event::DeliveryEvent;

    /// A writer that fails like a full disk.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(Error::from(ErrorKind::StorageFull))
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_failing_output_is_reported_when_the_run_is_over() {
        let agent = AgentId::parse("ann").unwrap();
        let (sender, events) = tokio::sync::mpsc::channel(4);
        let mut err = Vec::new();
        let mut output = CliOutput::with_writers(Full, &mut err);
        let observer =
            RunObserver::Terminal(RunTerminal::with_lines(RunRenderer::new(&mut output)).into());
        let answer = Event::Delivery(DeliveryEvent::FinalAnswer {
            agent,
            content: Arc::from("yes"),
        });
        let ended = Event::Run(RunEvent::RunEnded {
            status: ExitStatus::Success,
            summary: "well".to_owned(),
        });
        sender.send(answer).await.unwrap();
        sender.send(ended).await.unwrap();
        drop(sender);
        let questions = TerminalQuestions {
            receiver: tokio::sync::mpsc::channel(1).1,
            stop: CancellationToken::new(),
        };
        let sender = user_message_channel([]).0;
        let mut steering = SteeringInput::open(sender, None, None).unwrap();
        let followed = forward_events(events, observer, None, questions, &mut steering);
        let error = followed.await.unwrap_err();
        drop(output);
        assert_eq!(
            error.to_string(),
            "cannot write the result to standard output"
        );
        assert!(String::from_utf8(err).unwrap().starts_with("done: well"));
    }
}
