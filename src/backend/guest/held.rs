//! Owns what of a guest lasts between two replies: its process, the relay, and how much of the
//! conversation it knows.

use std::collections::BTreeMap;

use tokio::task::spawn_blocking;

use crate::backend::conversation::{Message, Version};
use crate::backend::guest::Seated;
use crate::backend::guest::parting::part;
use crate::backend::guest::relay::{AnswerSender, Answered, Relay};
use crate::backend::guest::session::{Process, start};
use crate::backend::guest::told;
use crate::backend::guest::tongue::{Around, Heard, Life, Tongue, Trouble};
use crate::brief::guests::GO_ON;
use crate::world::exec::guest::Lodging;
use crate::world::foreigner::{Foreigner, Held as HeldBy};

/// What of a guest lasts between two replies.
pub(super) struct Held {
    pub(super) relay: Relay,
    pub(super) tongue: Box<dyn Tongue>,
    around: Around,
    pub(super) process: Option<Process>,
    /// How much of which conversation it knows.
    pub(super) known: Option<(Version, usize)>,
    /// The calls that it waits for in the middle of its turn.
    pub(super) waiting: BTreeMap<String, AnswerSender>,
    /// Whether it is in the middle of its turn.
    pub(super) progress: Progress,
    /// What is told to it when its turn is to end while it waits for the answer to a question.
    pub(super) refusal: Option<String>,
}

/// How far a turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Open,
    Ended,
}

/// Whether a process goes on from where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GoesOn {
    Yes,
    No,
}

impl Held {
    /// Ends the process; the next one knows nothing.
    pub(super) fn forget(&mut self) {
        self.process = None;
        self.known = None;
        self.waiting.clear();
        self.refusal = None;
        self.progress = Progress::Ended;
    }

    /// Ends the process. One that is in the middle of its turn gets a moment to end that; what it has
    /// counted by then is given.
    pub(super) async fn stop(&mut self) -> Vec<Heard> {
        let counted = part(self).await;
        let process = self.process.take();
        // It takes a moment to end.
        let _ended = spawn_blocking(move || drop(process)).await;
        self.forget();
        counted
    }

    /// Tells a process that knows the rest what is new.
    pub(super) async fn go_on(
        &mut self,
        seated: &Seated,
        news: &[Message],
    ) -> Result<GoesOn, Trouble> {
        if self.progress == Progress::Open {
            return Ok(self.answer(news));
        }
        let life = self.tongue.life();
        if life == Life::Whole && self.process.is_none() {
            return Ok(GoesOn::No);
        }
        let text = told::news(news, |_| false);
        let text = if text.is_empty() {
            GO_ON.to_owned()
        } else {
            text
        };
        if life == Life::OneTurn {
            self.start(seated).await?;
        }
        let lines = self.tongue.prompt(text);
        match &mut self.process {
            Some(process) => process.tell(&lines, life).await.map(|()| GoesOn::Yes),
            None => Ok(GoesOn::No),
        }
    }

    /// Answers the calls that the guest waits for. What is said besides goes with the last of them.
    fn answer(&mut self, news: &[Message]) -> GoesOn {
        let said = told::news(news, |id| self.waiting.contains_key(id));
        let mut results = Vec::new();
        let mut shown = Vec::new();
        for message in news {
            match message {
                Message::CallResult { call_id, content } => {
                    let answered = |answer| (answer, Answered::text(content.clone()));
                    results.extend(self.waiting.remove(call_id).map(answered));
                }
                Message::Images { images, .. } => shown.extend_from_slice(images),
                Message::User(_) | Message::Assistant { .. } => {}
            }
        }
        let Some((_, last)) = results.last_mut() else {
            return GoesOn::No;
        };
        if !said.is_empty() {
            last.text.push_str("\n\n");
            last.text.push_str(&said);
        }
        last.images = shown;
        for (answer, answered) in results {
            // Whoever has stopped waiting has said so to its own model.
            let _told = answer.send(Ok(answered));
        }
        GoesOn::Yes
    }

    /// Begins with a new process, which is told everything.
    pub(super) async fn begin_anew(
        &mut self,
        seated: &Seated,
        text: String,
    ) -> Result<(), Trouble> {
        self.stop().await;
        // What an earlier process asked for nobody waits for any more.
        while self.relay.incoming.try_recv().is_ok() {}
        let lines = self.tongue.begin(&self.around, text);
        self.start(seated).await?;
        let life = self.tongue.life();
        match &mut self.process {
            Some(process) => process.tell(&lines, life).await,
            None => Ok(()),
        }
    }

    async fn start(&mut self, seated: &Seated) -> Result<(), Trouble> {
        let seat = &seated.seat;
        let how = (&*self.tongue, &self.around);
        let process = start(&seat.lodging, &seat.command, how, &self.relay.door).await?;
        self.process = Some(process);
        Ok(())
    }
}

/// What a guest needs once.
pub(super) fn opened(seated: &Seated) -> Result<Held, Trouble> {
    let lodging = &seated.seat.lodging;
    let made = lodging.door().and_then(|door| Ok((door, Lodging::ours()?)));
    let (door, ours) = made.map_err(|error| Trouble::Lasting(error.to_string()))?;
    let relay = Relay::open(door, foreigner(lodging));
    Ok(Held {
        around: Around {
            dir: lodging.dir(),
            ours,
            socket: relay.socket().clone(),
            model: seated.config.model.clone(),
        },
        relay,
        tongue: seated.tongue(),
        process: None,
        known: None,
        waiting: BTreeMap::new(),
        progress: Progress::Ended,
        refusal: None,
    })
}

/// Whose calls are decided about.
pub(super) fn foreigner(lodging: &Lodging) -> Foreigner {
    Foreigner {
        gate: lodging.gate.for_another_program(),
        commands: Some(lodging.commands.rules().clone()),
        tools: lodging.tools.clone(),
        held: HeldBy::BySandbox,
    }
}
