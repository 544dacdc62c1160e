//! Follows a run while it is executing: shows every event as it arrives, and calls the observer
//! regularly in between. A failing output does not end the run: the error is returned when the run
//! is over.

use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use crate::cli::approval_prompt::ask_approval;
use crate::cli::deliveries::interactive_review::{TerminalLines, ask_after_failed_check, review};
use crate::cli::output::TextStyle;
use crate::cli::run_observer::RunObserver;
use crate::cli::steering::{KeyboardReader, SteeringInput};
use crate::error::Result;
use crate::event::{Event, RunEvent};
use crate::orchestrator::review::UserQuestion;
use crate::text::escape_line;
use crate::world::io::clock::Stopwatch;
use crate::world::io::event_sink::sleep_until_due;

/// Questions of a run to the user at the terminal.
#[derive(Debug)]
pub(crate) struct TerminalQuestions {
    /// The channel on which they arrive.
    pub questions: Receiver<UserQuestion>,
    /// Cancelled when the user wants to stop; later questions are not answered.
    pub stop: CancellationToken,
}

impl TerminalQuestions {
    /// Asks the user `question`: on the page or the dashboard that shows the run, else in lines,
    /// and then nothing else is shown meanwhile.
    fn answer_question(&self, question: UserQuestion, view: &mut RunObserver<'_, '_>) {
        if let Some(page) = view.page() {
            return page.ask(question);
        }
        let Some(question) = view.show_question(question) else {
            return;
        };
        let Some(output) = view.terminal() else {
            return;
        };
        // If there is no answer, the closed channel informs the run.
        tokio::task::block_in_place(|| {
            let mut lines = TerminalLines::new(self.stop.clone());
            match question {
                UserQuestion::Apply {
                    delivery,
                    plan,
                    answer,
                } => {
                    let choice = review(&delivery, &plan, output, &mut || lines.next());
                    if let Ok(Some(choice)) = choice {
                        answer.send(choice).unwrap_or_default();
                    }
                }
                UserQuestion::Call {
                    agent,
                    question,
                    always,
                    answer,
                } => {
                    let mut next_line = || lines.next_unless(&|| answer.is_closed());
                    match ask_approval(&agent, &question, always.as_ref(), output, &mut next_line) {
                        Some(decision) => answer.send(decision).unwrap_or_default(),
                        None => output.note("the question was withdrawn"),
                    }
                }
                UserQuestion::Open {
                    question,
                    without_answer,
                    answer,
                } => {
                    output.line(&[(TextStyle::Strong, &escape_line(&question))]);
                    output.line(&[(
                        TextStyle::Faint,
                        &format!("  {}", escape_line(&without_answer)),
                    )]);
                    output.ask("your answer, then Enter?");
                    if let Some(line) = lines.next() {
                        answer.send(line).unwrap_or_default();
                    }
                }
                UserQuestion::FailedCheck { reason, answer } => {
                    if let Some(red) = ask_after_failed_check(&reason, output, &mut || lines.next())
                    {
                        answer.send(red).unwrap_or_default();
                    }
                }
            }
        });
    }
}

/// Shows all events until the last sender is dropped, and answers questions meanwhile. Returns the
/// first error of the output.
pub(crate) async fn forward_events(
    mut events: Receiver<Event>,
    mut view: RunObserver<'_, '_>,
    mut reviewer: TerminalQuestions,
    steering: &mut SteeringInput,
) -> Result<()> {
    let since_start = Stopwatch::start();
    let mut outcome = Ok(());
    loop {
        let mut warnings = Vec::new();
        let reader = if view.has_dashboard() {
            KeyboardReader::Dashboard
        } else {
            KeyboardReader::MessageLine
        };
        tokio::select! {
            event = events.recv() => {
                let Some(event) = event else {
                    let (leave_result, unsent) = view.leave_dashboard();
                    steering.keep_unsent(&unsent);
                    return outcome.and(leave_result).and(view.finish().await);
                };
                let view_result = view.on_event(&event, since_start.elapsed());
                outcome = outcome.and(view_result);
            },
            Some(question) = reviewer.questions.recv() => reviewer.answer_question(question, &mut view),
            new_warnings = steering.forward(&reviewer.stop, reader) => warnings = new_warnings,
            () = sleep_until_due(view.due()) => {}
            input = view.next_input() => match view.on_input(&input) {
                Ok(line) => {
                    warnings = line.and_then(|line| steering.send_line(&line)).into_iter().collect();
                }
                Err(error) => outcome = outcome.and(Err(error)),
            },
        }
        warnings.extend(steering.push_typed(&view.take_typed(), &reviewer.stop));
        for message in warnings {
            let warning = Event::Run(RunEvent::Warning { message });
            let view_result = view.on_event(&warning, since_start.elapsed());
            outcome = outcome.and(view_result);
        }
        for question in view.take_unanswered() {
            reviewer.answer_question(question, &mut view);
        }
        outcome = outcome.and(view.on_due(since_start.elapsed()));
        if view.has_dashboard() {
            continue;
        }
        if let (Some(line), Some(output)) = (steering.line.display_text(), view.terminal()) {
            output.transient(&line);
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
    use crate::cli::run_terminal::RunTerminal;
    use crate::error::ExitStatus;
    use crate::event::DeliveryEvent;
    use crate::id::AgentId;

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
        let view =
            RunObserver::with_terminal(RunTerminal::with_lines(RunRenderer::new(&mut output)));
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
        let reviewer = TerminalQuestions {
            questions: tokio::sync::mpsc::channel(1).1,
            stop: CancellationToken::new(),
        };
        let sender = user_message_channel([]).0;
        let mut steering = SteeringInput::open(sender, None, None).unwrap();
        let followed = forward_events(events, view, reviewer, &mut steering);
        let error = followed.await.unwrap_err();
        drop(output);
        assert_eq!(
            error.to_string(),
            "cannot write the result to standard output"
        );
        assert!(String::from_utf8(err).unwrap().starts_with("done: well"));
    }
}
