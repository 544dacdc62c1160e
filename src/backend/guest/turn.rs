//! Owns one reply of a guest: what it does not know yet is told to it, and what it says streams back,
//! until its turn ends or a call of it has to be answered first.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use crate::backend::guest::Seated;
use crate::backend::guest::held::{GoesOn, Held, Progress, opened};
use crate::backend::guest::relay::{Answered, Incoming};
use crate::backend::guest::told;
use crate::backend::guest::tongue::{Heard, Life, Trouble, Wish};
use crate::backend::guest::wishes::{fulfilled, refused};
use crate::backend::{BackendError, FaultKind, OwnTool, ReplyEvent, Request};
use crate::brief::guests::{HANDED_IN, HAS_DECIDED};
use crate::event::StopReason;
use crate::permissions::grant::Phase;
use crate::spending::Usage;
use crate::tools::request::CallRequest;
use crate::tools::served::SERVED_PREFIX;
use crate::tools::spec::ToolOffer;
use crate::tools::workflow::{COORDINATION, EVALUATION};

/// How long a turn may go on after its decision.
const WIND_UP_MAX: Duration = Duration::from_mins(1);
/// The most that one reply may say, in bytes.
const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The most deeds of one reply that people are told of.
const OWN_TOOLS_TOLD_MAX: usize = 2_000;

/// How far a reply has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    New,
    Running,
    Over,
}

/// One reply.
pub(super) struct Turn<'a> {
    seated: &'a Seated,
    request: Request<'a>,
    held: Option<Held>,
    stage: Stage,
    ready: VecDeque<ReplyEvent>,
    /// Why it has come to nothing, if it has.
    failed: Option<BackendError>,
    calls: Vec<CallRequest>,
    has_decided: bool,
    /// Whether it has said what it used.
    is_counted: bool,
    /// When it is cut.
    until: Instant,
    /// Until when it may say nothing.
    silent_until: Instant,
    bytes: usize,
    own_tools: usize,
}

/// What happens next.
enum Next {
    Line(Result<String, Trouble>),
    Incoming(Incoming),
    Silence,
    TimeOver,
}

impl<'a> Turn<'a> {
    pub(super) fn new(seated: &'a Seated, request: Request<'a>) -> Self {
        let now = Instant::now();
        Self {
            seated,
            request,
            held: None,
            stage: Stage::New,
            ready: VecDeque::new(),
            failed: None,
            calls: Vec::new(),
            has_decided: false,
            is_counted: false,
            until: after(now, seated.time_max()),
            silent_until: after(now, seated.silence_max()),
            bytes: 0,
            own_tools: 0,
        }
    }

    /// The next event of the reply; `None` after its end.
    pub(super) async fn next(&mut self) -> Option<Result<ReplyEvent, BackendError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            let done = match self.stage {
                Stage::Over => return self.failed.take().map(Err),
                Stage::New => self.begin().await,
                Stage::Running => self.go_on().await,
            };
            if let Err(trouble) = done {
                self.failed = Some(error(trouble));
                self.stop().await;
            }
        }
    }

    /// Tells the guest what it does not know yet.
    async fn begin(&mut self) -> Result<(), Trouble> {
        let kept = self.seated.held().take();
        let held = match kept {
            Some(held) => held,
            None => opened(self.seated)?,
        };
        let held = self.held.insert(held);
        let offers: Vec<&ToolOffer> = self
            .request
            .tools
            .iter()
            .filter(|offer| is_relayed(&offer.name))
            .collect();
        held.relay.offer(&offers).await;
        let conversation = self.request.conversation;
        let messages = conversation.messages();
        let known = held.known.take();
        let known = known.filter(|(version, _)| version.is(conversation.version()));
        let goes_on = match known.and_then(|(_, count)| messages.get(count..)) {
            Some(news) => held.go_on(self.seated, news).await?,
            None => GoesOn::No,
        };
        if goes_on == GoesOn::No {
            let text = told::whole(&self.request.system, messages);
            held.begin_anew(self.seated, text).await?;
        }
        held.known = Some((conversation.version().clone(), messages.len()));
        held.progress = Progress::Open;
        self.stage = Stage::Running;
        self.ready.push_back(ReplyEvent::Uncounted);
        Ok(())
    }

    async fn go_on(&mut self) -> Result<(), Trouble> {
        let Some(held) = &mut self.held else {
            return Err(Trouble::Lasting("massgen has a bug".to_owned()));
        };
        let Some(process) = &mut held.process else {
            return Err(Trouble::Passing("the program is gone".to_owned()));
        };
        let next = tokio::select! {
            biased;
            Some(incoming) = held.relay.incoming.recv() => Next::Incoming(incoming),
            line = process.hear() => Next::Line(line),
            () = sleep_until(self.silent_until) => Next::Silence,
            () = sleep_until(self.until) => Next::TimeOver,
        };
        match next {
            Next::Line(line) => {
                let line = match line {
                    Err(_) if self.has_decided => {
                        self.cut_off().await;
                        return Ok(());
                    }
                    line => line?,
                };
                self.count(line.len())?;
                self.take_in(&line).await?;
            }
            Next::Incoming(incoming) => self.take_call(incoming),
            Next::Silence | Next::TimeOver if self.has_decided => self.cut_off().await,
            Next::Silence => {
                let seconds = self.seated.silence_max().as_secs();
                let why = format!("the program said nothing for {seconds} s");
                return Err(Trouble::Passing(why));
            }
            Next::TimeOver => {
                let seconds = self.seated.time_max().as_secs();
                let why = format!("the program's turn took more than {seconds} s");
                return Err(Trouble::Passing(why));
            }
        }
        // While it worked, a person may have been asked.
        self.silent_until = after(Instant::now(), self.seated.silence_max());
        Ok(())
    }

    fn count(&mut self, bytes: usize) -> Result<(), Trouble> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > REPLY_BYTES_MAX {
            let why = format!("the program said more than {REPLY_BYTES_MAX} bytes in one turn");
            return Err(Trouble::Lasting(why));
        }
        Ok(())
    }

    /// Takes what a line says.
    async fn take_in(&mut self, line: &str) -> Result<(), Trouble> {
        let Some(held) = &mut self.held else {
            return Ok(());
        };
        for heard in held.tongue.hear(line)? {
            match heard {
                Heard::Text(text) => self.ready.push_back(ReplyEvent::Text(text)),
                Heard::Reasoning(text) => self.ready.push_back(ReplyEvent::Reasoning(text)),
                Heard::OwnTool(tool) => self.tell_of(tool),
                Heard::Usage(_) | Heard::Cost(_) => {
                    self.is_counted = true;
                    self.ready.extend(used(&heard));
                }
                Heard::Send(line) => self.say(line).await?,
                Heard::Wish(id, wish) => self.fulfil(&id, *wish).await?,
                Heard::TurnEnded => self.turn_ended().await,
                Heard::Failed(trouble) => {
                    if let Some(held) = &mut self.held {
                        held.progress = Progress::Ended;
                    }
                    // What it has handed in counts, however it ended.
                    if !self.has_decided {
                        return Err(trouble);
                    }
                    self.cut_off().await;
                }
            }
        }
        Ok(())
    }

    fn tell_of(&mut self, tool: OwnTool) {
        self.own_tools = self.own_tools.saturating_add(1);
        if self.own_tools <= OWN_TOOLS_TOLD_MAX {
            self.ready.push_back(ReplyEvent::OwnTool(tool));
        }
    }

    async fn say(&mut self, line: String) -> Result<(), Trouble> {
        match self.held.as_mut().and_then(|held| held.process.as_mut()) {
            Some(process) => process.tell(&[line], Life::Whole).await,
            None => Ok(()),
        }
    }

    /// Answers what the guest asks for.
    async fn fulfil(&mut self, id: &Value, wish: Wish) -> Result<(), Trouble> {
        let Some(held) = &mut self.held else {
            return Ok(());
        };
        held.refusal = refused(&*held.tongue, id, &wish);
        let lodging = self.seated.seat.lodging.clone();
        let (answer, told) = fulfilled(&*held.tongue, lodging, (id, wish)).await;
        held.refusal = None;
        if let Some(told) = told {
            self.tell_of(told);
        }
        match answer {
            Some(line) => self.say(line).await,
            None => Ok(()),
        }
    }

    /// Takes what comes over the relay.
    fn take_call(&mut self, incoming: Incoming) {
        let (name, arguments, answer) = match incoming {
            Incoming::Refused(tool) => return self.tell_of(tool),
            Incoming::Call {
                name,
                arguments,
                answer,
            } => (name, arguments, answer),
        };
        if self.has_decided {
            let _told = answer.send(Err(HAS_DECIDED.to_owned()));
            return;
        }
        let call = CallRequest {
            id: self.request.conversation.call_id("", &self.calls),
            name,
            arguments,
        };
        self.calls.push(call.clone());
        if is_decision(&call.name) {
            self.has_decided = true;
            self.until = self.until.min(after(Instant::now(), WIND_UP_MAX));
            let _told = answer.send(Ok(Answered::text(HANDED_IN.to_owned())));
            self.ready.push_back(ReplyEvent::Call(call));
            return;
        }
        if let Some(held) = &mut self.held {
            held.waiting.insert(call.id.clone(), answer);
        }
        self.ready.push_back(ReplyEvent::Call(call));
        self.end();
    }

    /// The guest's turn has ended. In the final phase its process ends with it: nobody is to write on a
    /// stage that is being delivered.
    async fn turn_ended(&mut self) {
        if !self.is_counted {
            // Nothing more is counted.
            self.ready.push_back(ReplyEvent::Usage(Usage::default()));
        }
        let is_last = self.seated.seat.lodging.gate.phase() == Phase::Final;
        if let Some(held) = &mut self.held {
            held.progress = Progress::Ended;
            held.waiting.clear();
            if held.tongue.life() == Life::OneTurn || is_last {
                let process = held.process.take();
                // It takes a moment to end.
                let _ended = spawn_blocking(move || drop(process)).await;
            }
        }
        self.end();
    }

    /// Ends a reply whose decision is handed in, and the process with it.
    async fn cut_off(&mut self) {
        self.stop().await;
        self.end();
    }

    /// Ends the process; the reply says nothing more than what was used by then.
    async fn stop(&mut self) {
        self.stage = Stage::Over;
        if let Some(held) = &mut self.held {
            let counted = held.stop().await;
            self.ready.extend(counted.iter().filter_map(used));
        }
    }

    /// The reply is whole.
    fn end(&mut self) {
        self.stage = Stage::Over;
        self.ready.push_back(ReplyEvent::End(StopReason::Done));
        *self.seated.held() = self.held.take();
    }
}

/// A reply that is given up: the process may be in the middle of its turn, and the next one begins anew.
impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(mut held) = self.held.take() {
            held.known = None;
            *self.seated.held() = Some(held);
        }
    }
}

/// What was used, as the reply tells it.
fn used(heard: &Heard) -> Option<ReplyEvent> {
    match heard {
        Heard::Usage(usage) => Some(ReplyEvent::Usage(*usage)),
        Heard::Cost(cost) => Some(ReplyEvent::Cost(*cost)),
        Heard::Text(_)
        | Heard::Reasoning(_)
        | Heard::OwnTool(_)
        | Heard::Send(_)
        | Heard::Failed(_)
        | Heard::Wish(..)
        | Heard::TurnEnded => None,
    }
}

/// Whether a tool reaches guests: what massgen has for files and commands they have themselves.
fn is_relayed(name: &str) -> bool {
    is_decision(name) || name.starts_with(SERVED_PREFIX)
}

fn is_decision(name: &str) -> bool {
    let mut decisions = COORDINATION.iter().chain(EVALUATION);
    decisions.any(|tool| tool.name == name)
}

fn error(trouble: Trouble) -> BackendError {
    let (kind, message) = match trouble {
        Trouble::Passing(message) => (FaultKind::Transient { retry_after: None }, message),
        Trouble::Lasting(message) => (FaultKind::Permanent, message),
    };
    BackendError { kind, message }
}

fn after(now: Instant, time: Duration) -> Instant {
    now.checked_add(time).unwrap_or(now)
}
