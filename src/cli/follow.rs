//! Owns how a run is followed while it goes on: every event is shown as it comes, and the time
//! between events is told too. An output that fails ends nothing: the run goes on, and the failure
//! is told when it is over.

use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::cli::asking::may_call;
use crate::cli::automation::Automation;
use crate::cli::deliveries::review::{Typed, on_red, review};
use crate::cli::mcp::board::Board;
use crate::cli::output::{Output, Style};
use crate::cli::render::Render;
use crate::cli::report::{Report, warning};
use crate::error::Result;
use crate::event::Event;
use crate::orchestrator::review::Question;
use crate::wording::visible;
use crate::world::clock::Stopwatch;

/// How often the terminal may be told who is being waited for.
const TICK: Duration = Duration::from_millis(250);

/// Who follows a run.
#[derive(Debug)]
pub(crate) enum View<'o, 'w> {
    /// A person.
    Person(Render<'o, 'w>),
    /// A script that reads `KEY: value` lines.
    Script(Automation<'o, 'w>),
    /// A script that reads JSON.
    Json(&'o mut Report, &'o mut Output<'w>),
    /// Agents of others.
    Agents(&'o Board, &'o mut Output<'w>),
}

impl View<'_, '_> {
    fn event(&mut self, event: &Event, elapsed: Duration) -> Result<()> {
        match self {
            View::Person(render) => render.event(event, elapsed),
            View::Script(automation) => automation.event(event, elapsed),
            View::Json(report, output) => report.event(event, output),
            View::Agents(board, output) => {
                if let Some(warning) = warning(event) {
                    output.warning(&warning);
                }
                board.event(event);
                Ok(())
            }
        }
    }

    fn tick(&mut self, elapsed: Duration) {
        match self {
            View::Person(render) => render.tick(elapsed),
            View::Script(_) | View::Json(..) | View::Agents(..) => {}
        }
    }
}

/// The questions of a run to whoever sits at the terminal.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Where they arrive.
    pub questions: Receiver<Question>,
    /// Says that the user wants to stop; then they are not answered.
    pub stop: CancellationToken,
}

impl Asked {
    /// Puts `question` to the user. Nothing else is shown meanwhile.
    fn answer(&self, question: Question, view: &mut View<'_, '_>) {
        let View::Person(render) = view else {
            return;
        };
        // Without an answer, the run is told by the end of the channel.
        tokio::task::block_in_place(|| {
            let mut lines = Typed::until(self.stop.clone());
            let output = render.output();
            match question {
                Question::Apply {
                    delivery,
                    plan,
                    answer,
                } => {
                    let choice = review(&delivery, &plan, output, &mut || lines.next());
                    if let Ok(Some(choice)) = choice {
                        answer.send(choice).unwrap_or_default();
                    }
                }
                Question::Call {
                    agent,
                    question,
                    always,
                    answer,
                } => {
                    let mut next = || lines.next_unless(&|| answer.is_closed());
                    let asked = (&agent, &question, always.as_ref());
                    match may_call(asked, output, &mut next) {
                        Some(said) => answer.send(said).unwrap_or_default(),
                        None => output.note("the question is not asked any more"),
                    }
                }
                Question::Open {
                    question,
                    otherwise,
                    answer,
                } => {
                    output.line(&[(Style::Strong, &visible(&question))]);
                    output.line(&[(Style::Faint, &format!("  {}", visible(&otherwise)))]);
                    output.ask("your answer, and Enter?");
                    if let Some(said) = lines.next() {
                        answer.send(said).unwrap_or_default();
                    }
                }
                Question::Red { reason, answer } => {
                    if let Some(red) = on_red(&reason, output, &mut || lines.next()) {
                        answer.send(red).unwrap_or_default();
                    }
                }
            }
        });
    }
}

/// Shows all events until the last sender is gone, and answers what is asked meanwhile. Gives the first
/// error of the output.
pub(crate) async fn follow(
    mut events: Receiver<Event>,
    mut view: View<'_, '_>,
    mut asked: Asked,
) -> Result<()> {
    let since_start = Stopwatch::start();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut outcome = Ok(());
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => {
                    let shown = view.event(&event, since_start.elapsed());
                    outcome = outcome.and(shown);
                }
                None => return outcome,
            },
            Some(question) = asked.questions.recv() => asked.answer(question, &mut view),
            _ = ticks.tick() => view.tick(since_start.elapsed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind, Write};
    use std::sync::Arc;

    use super::*;
    use crate::error::ExitStatus;
    use crate::id::AgentId;

    /// A disk on which nothing fits.
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
    async fn an_output_that_fails_is_told_when_the_run_is_over() {
        let agent = AgentId::parse("ann").unwrap();
        let (sender, events) = tokio::sync::mpsc::channel(4);
        let mut err = Vec::new();
        let mut output = Output::to(Full, &mut err);
        let view = View::Person(Render::new(&mut output));
        let answer = Event::FinalAnswer {
            agent,
            content: Arc::from("yes"),
        };
        let ended = Event::RunEnded {
            status: ExitStatus::Delivered,
            summary: "well".to_owned(),
        };
        sender.send(answer).await.unwrap();
        sender.send(ended).await.unwrap();
        drop(sender);
        let asked = Asked {
            questions: tokio::sync::mpsc::channel(1).1,
            stop: CancellationToken::new(),
        };
        let error = follow(events, view, asked).await.unwrap_err();
        drop(output);
        assert_eq!(
            error.to_string(),
            "the result could not be written to standard output"
        );
        assert!(String::from_utf8(err).unwrap().starts_with("done: well"));
    }
}
