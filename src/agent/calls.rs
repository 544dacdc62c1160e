//! Owns the way of a file tool call: parsed, asked at the gate, carried out, answered. Read-only
//! calls of one reply run at the same time; a call that changes something waits for all before it.

use futures_util::stream::{self, StreamExt};
use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::agent::ModelSession;
use crate::agent::deadline::RunDeadline;
use crate::agent::recorded_conversation::{EffectPersistence, ToolResultContent};
use crate::event::{Event, NestedRefusal, ToolEvent};
use crate::hooks::HookEvent;
use crate::permissions::grant::Permission;
use crate::prompts;
use crate::text::truncate;
use crate::tools::call::ToolCall;
use crate::tools::request::CallRequest;
use crate::tools::served::OutsideEffects;
use crate::world::clock::milliseconds;
use crate::world::exec::{self, ActionOutcome, Observation};
use crate::world::file_change::FileChange;
use crate::world::gate::{Action, Gate, Permitted};
use crate::world::hook_runner::HookRunner;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::verdict::{Denial, DeniedSubject};

/// Read-only calls of one reply that run at the same time.
const PARALLEL_READS_MAX: usize = 8;
/// Refused calls of a program that are told of.
const REFUSED_WITHIN_MAX: usize = 20;
/// Characters of arguments and results that events carry.
const SHOWN_CHARS_MAX: usize = 500;

/// A call that was understood as a file tool's, or the words that say why not.
#[derive(Debug)]
pub struct FileToolCall {
    /// As the model made it.
    pub request: CallRequest,
    /// What it asks for.
    pub call: Result<ToolCall, String>,
}

/// What calls did to files.
#[derive(Debug, Default)]
pub struct ToolEffects {
    /// What was changed.
    pub changes: Vec<FileChange>,
    /// The writes that the gate refused.
    pub denied: Vec<Denial>,
}

impl ToolEffects {
    /// Adds what later calls did.
    pub fn add(&mut self, later: ToolEffects) {
        self.changes.extend(later.changes);
        self.denied.extend(later.denied);
    }

    /// What a call did that was carried out.
    pub fn from_changes(changes: Vec<FileChange>) -> Self {
        Self {
            changes,
            denied: Vec::new(),
        }
    }

    /// What a call did that was refused.
    pub fn from_denial(denial: Denial) -> Self {
        let denied = match denial.refused {
            DeniedSubject::Access {
                wanted: Permission::Write,
                ..
            } => vec![denial],
            DeniedSubject::Access { .. }
            | DeniedSubject::Call { .. }
            | DeniedSubject::Command { .. }
            | DeniedSubject::Program => Vec::new(),
        };
        Self {
            changes: Vec::new(),
            denied,
        }
    }
}

impl FileToolCall {
    fn only_reads(&self) -> bool {
        match &self.call {
            Ok(call) => call.only_reads(),
            Err(_) => true,
        }
    }
}

/// The first calls that were refused within one that was carried out.
fn nested_refusals(observation: &Observation) -> Vec<NestedRefusal> {
    let all = match observation.outcome {
        ActionOutcome::Denied => &[],
        ActionOutcome::Done | ActionOutcome::Failed => observation.denied.as_slice(),
    };
    let told = |denial: &Denial| NestedRefusal {
        rule: denial.rule.to_owned(),
        reason: truncate(&denial.to_string(), SHOWN_CHARS_MAX),
    };
    all.iter().take(REFUSED_WITHIN_MAX).map(told).collect()
}

/// Whether a call changes something outside that must not happen again, although what it changed
/// inside is gone.
fn has_lasting_outside_effects(call: &Result<ToolCall, String>) -> bool {
    matches!(call, Ok(ToolCall::CallServer(call)) if call.outside == OutsideEffects::Some)
}

/// Whether a hook of the user's is asked before such a call.
fn is_hooked(gate: &Gate, call: &ToolCall) -> bool {
    let hooks = gate.hooks().map(HookRunner::hook_list);
    hooks.is_some_and(|hooks| {
        !hooks
            .matching(HookEvent::PreToolUse, Some(call.name()))
            .is_empty()
    })
}

impl ModelSession {
    /// Carries out `calls`, adds one result for each in their order, and returns what they did. When
    /// patience is over, no other call begins.
    pub async fn execute_calls(&mut self, calls: Vec<FileToolCall>) -> ToolEffects {
        let (calls, too_many) = self.within_limits(calls).await;
        let mut worked = ToolEffects::default();
        let mut results = Vec::new();
        let mut reads = Vec::new();
        let mut too_late = Vec::new();
        for call in calls {
            if self.deadline.as_ref().is_some_and(RunDeadline::is_reached) {
                too_late.push(call);
            } else if call.only_reads() {
                reads.push(call);
            } else {
                results.extend(self.read_concurrently(std::mem::take(&mut reads)).await);
                let (request, read, done) = self.execute_call(call).await;
                results.push((request, read));
                worked.add(done);
            }
        }
        results.extend(self.read_concurrently(reads).await);
        for (request, read) in results {
            let result = self.result_message(&request, read);
            self.conversation.push(result);
        }
        for call in too_late {
            self.add_call_result(&call.request.id, prompts::tools_closed());
        }
        for call in too_many {
            self.add_call_result(&call.request.id, prompts::no_calls_left(self.phase));
        }
        worked
    }

    /// Counts `calls` as far as a limit lets them through; after them come those that it does not.
    async fn within_limits(
        &self,
        mut calls: Vec<FileToolCall>,
    ) -> (Vec<FileToolCall>, Vec<FileToolCall>) {
        let mut within = 0_usize;
        for call in &calls {
            if !self.may_execute(&call.request.id).await {
                break;
            }
            within = within.saturating_add(1);
        }
        let too_many = calls.split_off(within);
        (calls, too_many)
    }

    /// Whether the call `id` may be carried out. One that is recorded was counted then; one that is
    /// not, although later replies are, was turned away without a word.
    async fn may_execute(&self, id: &str) -> bool {
        match &self.recorded {
            Some(memory) if memory.contains_call(id) => true,
            Some(memory) if !memory.is_exhausted() => false,
            Some(_) | None => self.may_call_tool().await,
        }
    }

    async fn read_concurrently(
        &self,
        calls: Vec<FileToolCall>,
    ) -> Vec<(CallRequest, ToolResultContent)> {
        let run = |call| async {
            let (request, read, _) = self.execute_call(call).await;
            (request, read)
        };
        stream::iter(calls)
            .map(run)
            .buffered(PARALLEL_READS_MAX)
            .collect()
            .await
    }

    async fn execute_call(
        &self,
        call: FileToolCall,
    ) -> (CallRequest, ToolResultContent, ToolEffects) {
        let FileToolCall { request, call } = call;
        let read = self.recorded.as_ref().and_then(|memory| {
            let read = memory.result_of(&request.id)?.clone();
            Some((read, memory.effects_of(&request.id, self.phase)))
        });
        let (read, worked) = match read {
            Some((read, effects))
                if effects == EffectPersistence::Present || has_lasting_outside_effects(&call) =>
            {
                self.restore_access_history(&request.id, call).await;
                (read, ToolEffects::default())
            }
            Some((read, _)) => {
                let (_, worked) = self.execute_live(&request, call).await;
                (read, worked)
            }
            None => self.execute_live(&request, call).await,
        };
        (request, read, worked)
    }

    /// Notes what the agent has seen by a call that was carried out before.
    async fn restore_access_history(&self, id: &str, call: Result<ToolCall, String>) {
        let (Ok(call), Some(gate)) = (call, self.gate.as_ref()) else {
            return;
        };
        // Hooks may have had it see something else, or nothing.
        if is_hooked(gate, &call) {
            return;
        }
        // What was said of the call is recorded under its id: nobody is asked again.
        let gate = gate.for_call(id.to_owned(), CancellationToken::new());
        let look = move || gate.check(call).map(exec::refresh_versions);
        // What cannot be looked at any more has not been seen: the agent has to read it again.
        let _looked = tokio::task::spawn_blocking(look).await;
    }

    async fn execute_live(
        &self,
        request: &CallRequest,
        call: Result<ToolCall, String>,
    ) -> (ToolResultContent, ToolEffects) {
        match (call, &self.gate) {
            (Err(reason), _) => self.reject_call(request, reason, None).await,
            (Ok(call), Some(gate)) if self.offers(&request.name) => {
                self.execute_through_gate(request, call, gate.clone()).await
            }
            (Ok(_), _) => {
                let reason = prompts::not_offered(&request.name);
                self.reject_call(request, reason, Some("not-offered")).await
            }
        }
    }

    async fn execute_through_gate(
        &self,
        request: &CallRequest,
        call: ToolCall,
        gate: Gate,
    ) -> (ToolResultContent, ToolEffects) {
        // What may take long ends when nobody waits for it any more, or when patience is over.
        let interrupt = call.is_long_running().then(CommandInterrupt::new);
        let interrupt = interrupt.and_then(Result::ok);
        let _ends = interrupt.as_ref().map(CommandInterrupt::on_drop);
        let ending = interrupt.clone();
        // Hooks are asked on both sides of the call.
        let ended = CancellationToken::new();
        let _given_up = ended.clone().drop_guard();
        let gate = gate.for_call(request.id.clone(), ended.clone());
        let permitted = match self.ask_gate(request, call, (&gate, &ended)).await {
            Ok(Ok(permitted)) => permitted,
            Ok(Err(denial)) => {
                let (reason, rule) = (denial.to_string(), Some(denial.rule));
                let (reason, _) = self.reject_call(request, reason, rule).await;
                return (reason, ToolEffects::from_denial(denial));
            }
            Err(_) => {
                let reason = prompts::call_interrupted().to_owned();
                return self.reject_call(request, reason, None).await;
            }
        };
        // Told before it is carried out: it may take long, and massgen may be killed meanwhile.
        self.emit_tool_called(request, None, None).await;
        let begun = Instant::now();
        let work = move || exec::run_until(permitted, interrupt.as_ref());
        let mut working = tokio::task::spawn_blocking(work);
        let done = tokio::select! {
            done = &mut working => done,
            () = self.wait_for_deadline() => {
                ending.as_ref().map(CommandInterrupt::raise).unwrap_or_default();
                ended.cancel();
                working.await
            }
        };
        let broke_off = |_| Observation::new(ActionOutcome::Failed, prompts::call_interrupted());
        let observation = done.unwrap_or_else(broke_off);
        let summary = truncate(
            observation.summary.as_ref().unwrap_or(&observation.content),
            SHOWN_CHARS_MAX,
        );
        let finished = Event::Tool(ToolEvent::ToolFinished {
            agent: self.agent.clone(),
            call_id: request.id.clone(),
            tool: request.name.clone(),
            success: observation.outcome == ActionOutcome::Done,
            denied: observation.outcome == ActionOutcome::Denied,
            content: (summary != observation.content).then(|| observation.content.as_str().into()),
            images: observation.images.clone(),
            summary,
            refused: nested_refusals(&observation),
            elapsed_ms: milliseconds(begun.elapsed()),
        });
        self.emit(finished).await;
        let Observation {
            content,
            images,
            changes,
            denied,
            ..
        } = observation;
        let mut worked = ToolEffects::from_changes(changes);
        for denial in denied {
            worked.add(ToolEffects::from_denial(denial));
        }
        (ToolResultContent { content, images }, worked)
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
            () = self.wait_for_deadline() => {
                ended.cancel();
                asking.await
            }
        }
    }

    async fn wait_for_deadline(&self) {
        match &self.deadline {
            Some(patience) => drop(patience.wait().await),
            None => std::future::pending().await,
        }
    }

    /// A call that is not carried out changes nothing, and the model reads why. `rule` forbids it,
    /// unless it could not even be understood.
    async fn reject_call(
        &self,
        request: &CallRequest,
        reason: String,
        rule: Option<&str>,
    ) -> (ToolResultContent, ToolEffects) {
        let reading = ToolResultContent::from_rejection(&reason);
        self.emit_tool_called(request, Some(reason), rule).await;
        (reading, ToolEffects::default())
    }

    async fn emit_tool_called(
        &self,
        request: &CallRequest,
        denied: Option<String>,
        rule: Option<&str>,
    ) {
        let event = Event::Tool(ToolEvent::ToolCalled {
            agent: self.agent.clone(),
            call_id: request.id.clone(),
            tool: request.name.clone(),
            arguments: truncate(&request.arguments, SHOWN_CHARS_MAX),
            denied,
            rule: rule.map(str::to_owned),
        });
        self.emit(event).await;
    }
}
