//! Owns the way of a file tool call: parsed, asked at the gate, carried out, answered. Read-only
//! calls of one reply run at the same time; a call that changes something waits for all before it.

use futures_util::stream::{self, StreamExt};
use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::agent::Mind;
use crate::agent::memory::{Effects, Reading};
use crate::agent::patience::Patience;
use crate::brief;
use crate::event::{Event, RefusedWithin};
use crate::hooks::HookEvent;
use crate::permissions::grant::Permission;
use crate::tools::call::ToolCall;
use crate::tools::request::CallRequest;
use crate::tools::served::OutsideEffects;
use crate::wording::beginning;
use crate::world::change::Change;
use crate::world::clock::milliseconds;
use crate::world::exec::{self, Observation, Outcome};
use crate::world::gate::{Action, Gate, Permitted};
use crate::world::hooks::Hooks;
use crate::world::sandbox::interrupt::Interrupt;
use crate::world::verdict::{Denial, Refused};

/// Read-only calls of one reply that run at the same time.
const PARALLEL_READS_MAX: usize = 8;
/// Refused calls of a program that are told of.
const REFUSED_WITHIN_MAX: usize = 20;
/// Characters of arguments and results that events carry.
const SHOWN_CHARS_MAX: usize = 500;

/// A call that was understood as a file tool's, or the words that say why not.
#[derive(Debug)]
pub struct FileCall {
    /// As the model made it.
    pub request: CallRequest,
    /// What it asks for.
    pub call: Result<ToolCall, String>,
}

/// What calls did to files.
#[derive(Debug, Default)]
pub struct Worked {
    /// What was changed.
    pub changes: Vec<Change>,
    /// The writes that the gate refused.
    pub denied: Vec<Denial>,
}

impl Worked {
    /// Adds what later calls did.
    pub fn add(&mut self, later: Worked) {
        self.changes.extend(later.changes);
        self.denied.extend(later.denied);
    }

    /// What a call did that was carried out.
    pub fn done(changes: Vec<Change>) -> Self {
        Self {
            changes,
            denied: Vec::new(),
        }
    }

    /// What a call did that was refused.
    pub fn refused(denial: Denial) -> Self {
        let denied = match denial.refused {
            Refused::Access {
                wanted: Permission::Write,
                ..
            } => vec![denial],
            Refused::Access { .. }
            | Refused::Call { .. }
            | Refused::Command { .. }
            | Refused::Program => Vec::new(),
        };
        Self {
            changes: Vec::new(),
            denied,
        }
    }
}

impl FileCall {
    fn only_reads(&self) -> bool {
        match &self.call {
            Ok(call) => call.only_reads(),
            Err(_) => true,
        }
    }
}

/// The first calls that were refused within one that was carried out.
fn refused_within(observation: &Observation) -> Vec<RefusedWithin> {
    let all = match observation.outcome {
        Outcome::Denied => &[],
        Outcome::Done | Outcome::Failed => observation.denied.as_slice(),
    };
    let told = |denial: &Denial| RefusedWithin {
        rule: denial.rule.to_owned(),
        reason: beginning(&denial.to_string(), SHOWN_CHARS_MAX),
    };
    all.iter().take(REFUSED_WITHIN_MAX).map(told).collect()
}

/// Whether a call changes something outside that must not happen again, although what it changed
/// inside is gone.
fn is_once_for_all(call: &Result<ToolCall, String>) -> bool {
    matches!(call, Ok(ToolCall::CallServer(call)) if call.outside == OutsideEffects::Some)
}

/// Whether a hook of the user's is asked before such a call.
fn is_hooked(gate: &Gate, call: &ToolCall) -> bool {
    let hooks = gate.hooks().map(Hooks::listed);
    hooks.is_some_and(|hooks| {
        !hooks
            .of(HookEvent::PreToolUse, Some(call.name()))
            .is_empty()
    })
}

impl Mind {
    /// Carries out `calls`, adds one result for each in their order, and returns what they did. When
    /// patience is over, no other call begins.
    pub async fn carry_out(&mut self, calls: Vec<FileCall>) -> Worked {
        let (calls, too_many) = self.within_limits(calls).await;
        let mut worked = Worked::default();
        let mut results = Vec::new();
        let mut reads = Vec::new();
        let mut too_late = Vec::new();
        for call in calls {
            if self.patience.as_ref().is_some_and(Patience::is_over) {
                too_late.push(call);
            } else if call.only_reads() {
                reads.push(call);
            } else {
                results.extend(self.read_at_once(std::mem::take(&mut reads)).await);
                let (request, read, done) = self.carry_out_one(call).await;
                results.push((request, read));
                worked.add(done);
            }
        }
        results.extend(self.read_at_once(reads).await);
        for (request, read) in results {
            let result = self.take_reading(&request, read);
            self.conversation.push(result);
        }
        for call in too_late {
            self.answer_call(&call.request.id, brief::too_late());
        }
        for call in too_many {
            self.answer_call(&call.request.id, brief::no_calls_left(self.phase));
        }
        worked
    }

    /// Counts `calls` as far as a limit lets them through; after them come those that it does not.
    async fn within_limits(&self, mut calls: Vec<FileCall>) -> (Vec<FileCall>, Vec<FileCall>) {
        let mut within = 0_usize;
        for call in &calls {
            if !self.may_carry_out(&call.request.id).await {
                break;
            }
            within = within.saturating_add(1);
        }
        let too_many = calls.split_off(within);
        (calls, too_many)
    }

    /// Whether the call `id` may be carried out. One that is recorded was counted then; one that is
    /// not, although later replies are, was turned away without a word.
    async fn may_carry_out(&self, id: &str) -> bool {
        match &self.memory {
            Some(memory) if memory.knows(id) => true,
            Some(memory) if !memory.is_over() => false,
            Some(_) | None => self.may_call_tool().await,
        }
    }

    async fn read_at_once(&self, calls: Vec<FileCall>) -> Vec<(CallRequest, Reading)> {
        let run = |call| async {
            let (request, read, _) = self.carry_out_one(call).await;
            (request, read)
        };
        stream::iter(calls)
            .map(run)
            .buffered(PARALLEL_READS_MAX)
            .collect()
            .await
    }

    async fn carry_out_one(&self, call: FileCall) -> (CallRequest, Reading, Worked) {
        let FileCall { request, call } = call;
        let read = self.memory.as_ref().and_then(|memory| {
            let read = memory.read(&request.id)?.clone();
            Some((read, memory.effects_of(&request.id, self.phase)))
        });
        let (read, worked) = match read {
            Some((read, effects)) if effects == Effects::There || is_once_for_all(&call) => {
                self.look_again(&request.id, call).await;
                (read, Worked::default())
            }
            Some((read, _)) => {
                let (_, worked) = self.carry_out_now(&request, call).await;
                (read, worked)
            }
            None => self.carry_out_now(&request, call).await,
        };
        (request, read, worked)
    }

    /// Notes what the agent has seen by a call that was carried out before.
    async fn look_again(&self, id: &str, call: Result<ToolCall, String>) {
        let (Ok(call), Some(gate)) = (call, self.gate.as_ref()) else {
            return;
        };
        // Hooks may have had it see something else, or nothing.
        if is_hooked(gate, &call) {
            return;
        }
        // What was said of the call is recorded under its id: nobody is asked again.
        let gate = gate.for_call(id.to_owned(), CancellationToken::new());
        let look = move || gate.check(call).map(exec::look_again);
        // What cannot be looked at any more has not been seen: the agent has to read it again.
        let _looked = tokio::task::spawn_blocking(look).await;
    }

    async fn carry_out_now(
        &self,
        request: &CallRequest,
        call: Result<ToolCall, String>,
    ) -> (Reading, Worked) {
        match (call, &self.gate) {
            (Err(reason), _) => self.turned_away(request, reason, None).await,
            (Ok(call), Some(gate)) if self.offers(&request.name) => {
                self.through_gate(request, call, gate.clone()).await
            }
            (Ok(_), _) => {
                let reason = brief::not_offered(&request.name);
                self.turned_away(request, reason, Some("not-offered")).await
            }
        }
    }

    async fn through_gate(
        &self,
        request: &CallRequest,
        call: ToolCall,
        gate: Gate,
    ) -> (Reading, Worked) {
        // What may take long ends when nobody waits for it any more, or when patience is over.
        let interrupt = call.takes_time().then(Interrupt::new);
        let interrupt = interrupt.and_then(Result::ok);
        let _ends = interrupt.as_ref().map(Interrupt::on_drop);
        let ending = interrupt.clone();
        // Hooks are asked on both sides of the call.
        let ended = CancellationToken::new();
        let _given_up = ended.clone().drop_guard();
        let gate = gate.for_call(request.id.clone(), ended.clone());
        let permitted = match self.ask_gate(request, call, (&gate, &ended)).await {
            Ok(Ok(permitted)) => permitted,
            Ok(Err(denial)) => {
                let (reason, rule) = (denial.to_string(), Some(denial.rule));
                let (reason, _) = self.turned_away(request, reason, rule).await;
                return (reason, Worked::refused(denial));
            }
            Err(_) => {
                let reason = brief::call_broke_off().to_owned();
                return self.turned_away(request, reason, None).await;
            }
        };
        // Told before it is carried out: it may take long, and massgen may be killed meanwhile.
        self.called(request, None, None).await;
        let begun = Instant::now();
        let work = move || exec::run_until(permitted, interrupt.as_ref());
        let mut working = tokio::task::spawn_blocking(work);
        let done = tokio::select! {
            done = &mut working => done,
            () = self.out_of_patience() => {
                ending.as_ref().map(Interrupt::raise).unwrap_or_default();
                ended.cancel();
                working.await
            }
        };
        let broke_off = |_| Observation::told(Outcome::Failed, brief::call_broke_off());
        let observation = done.unwrap_or_else(broke_off);
        let summary = beginning(
            observation.summary.as_ref().unwrap_or(&observation.content),
            SHOWN_CHARS_MAX,
        );
        let finished = Event::ToolFinished {
            agent: self.agent.clone(),
            call_id: request.id.clone(),
            tool: request.name.clone(),
            success: observation.outcome == Outcome::Done,
            denied: observation.outcome == Outcome::Denied,
            content: (summary != observation.content).then(|| observation.content.as_str().into()),
            images: observation.images.clone(),
            summary,
            refused: refused_within(&observation),
            elapsed_ms: milliseconds(begun.elapsed()),
        };
        self.emit(finished).await;
        let Observation {
            content,
            images,
            changes,
            denied,
            ..
        } = observation;
        let mut worked = Worked::done(changes);
        for denial in denied {
            worked.add(Worked::refused(denial));
        }
        (Reading { content, images }, worked)
    }

    /// Asks the gate about a call, and with it whoever it asks, who may take their time.
    async fn ask_gate(
        &self,
        request: &CallRequest,
        call: ToolCall,
        (gate, ended): (&Gate, &CancellationToken),
    ) -> Result<Result<Permitted<Action>, Denial>, JoinError> {
        let gate = gate.clone();
        let tool = request.name.clone();
        let ask = move || {
            let asked = gate.check(call);
            let allowed = asked.is_ok();
            tracing::debug!(%tool, allowed, phase = %gate.phase(), "the gate has decided");
            asked
        };
        let mut asking = tokio::task::spawn_blocking(ask);
        tokio::select! {
            asked = &mut asking => asked,
            () = self.out_of_patience() => {
                ended.cancel();
                asking.await
            }
        }
    }

    async fn out_of_patience(&self) {
        match &self.patience {
            Some(patience) => drop(patience.over().await),
            None => std::future::pending().await,
        }
    }

    /// A call that is not carried out changes nothing, and the model reads why. `rule` forbids it,
    /// unless it could not even be understood.
    async fn turned_away(
        &self,
        request: &CallRequest,
        reason: String,
        rule: Option<&str>,
    ) -> (Reading, Worked) {
        let reading = Reading::turned_away(&reason);
        self.called(request, Some(reason), rule).await;
        (reading, Worked::default())
    }

    async fn called(&self, request: &CallRequest, denied: Option<String>, rule: Option<&str>) {
        let event = Event::ToolCalled {
            agent: self.agent.clone(),
            call_id: request.id.clone(),
            tool: request.name.clone(),
            arguments: beginning(&request.arguments, SHOWN_CHARS_MAX),
            denied,
            rule: rule.map(str::to_owned),
        };
        self.emit(event).await;
    }
}
