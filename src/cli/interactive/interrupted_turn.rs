//! Resumes the interrupted turn of a session before its first prompt. It asks about a turn that the
//! user stopped.

use crate::cli::directory_question::{DirectoryAnswer, parse_answer};
use crate::cli::editor::LinePurpose;
use crate::cli::interactive::{InteractiveSession, LoopControl, TurnInput, UserInput};
use crate::cli::resume::find_interrupted_run;
use crate::error::Result;
use crate::resume::InterruptionCause;

/// Question about a turn that the user stopped.
const QUESTION: &str = "The last turn was stopped. Resume it? [Y]es (default) / [N]o: ";

impl InteractiveSession {
    /// Resumes the interrupted turn of the session, if there is one.
    pub(super) async fn resume_interrupted_turn(&mut self) -> Result<LoopControl> {
        let Some(interrupted_run) = find_interrupted_run(&self.arguments, &self.state.host)? else {
            return Ok(LoopControl::Continue);
        };
        if interrupted_run.cause == InterruptionCause::Killed {
            return Ok(self.run_turn(TurnInput::Interrupted(interrupted_run)).await);
        }
        loop {
            let input = self
                .read_input(QUESTION, String::new(), LinePurpose::Question)
                .await?;
            let UserInput::Text(line) = input else {
                return Ok(LoopControl::Leave);
            };
            match parse_answer(&line.text) {
                Some(DirectoryAnswer::Yes) => break,
                Some(DirectoryAnswer::No) => return Ok(LoopControl::Continue),
                Some(DirectoryAnswer::Custom | DirectoryAnswer::Protect) | None => {
                    self.output.note("   expected `y` or `n`");
                }
            }
        }
        Ok(self.run_turn(TurnInput::Interrupted(interrupted_run)).await)
    }
}
