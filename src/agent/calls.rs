//! Executes tool calls: asks the gate, runs them, and adds their results to the conversation.
//! Read-only calls of one reply run concurrently; a call that changes something waits for all calls
//! before it.

use futures_util::stream::{self, StreamExt};
use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::agent::ModelSession;
use crate::agent::deadline::RunDeadline;
use crate::agent::recorded_conversation::{EffectPersistence, ToolResultContent};
use crate::event::{Event, NestedRefusal, ToolEvent};
use crate::hooks::HookEvent;
use crate::permissions::grant::{Permission, Phase};
use crate::prompts::call_answers;
use crate::text::truncate;
use crate::tools::CallRequest;
use crate::tools::call::ToolCall;
use crate::tools::call_text::measure_result;
use crate::tools::served::OutsideEffects;
use crate::world::access::gate::{Action, Gate, Permitted};
use crate::world::access::hook_runner::HookRunner;
use crate::world::access::verdict::{Denial, DeniedSubject, PermitError};
use crate::world::exec::media::MediaRunner;
use crate::world::exec::subagents::SubagentRunner;
use crate::world::exec::tool_result::{ActionOutcome, Observation};
use crate::world::exec::vendor_tools::VendorToolRunner;
use crate::world::exec::{self, CallRunners};
use crate::world::io::clock::milliseconds;
use crate::world::io::file_change::FileChange;
use crate::world::sandbox::interrupt::CommandInterrupt;

/// Maximum number of read-only calls of one reply that run at the same time.
const PARALLEL_READS_MAX: usize = 8;
/// Maximum number of denied calls within a program that are reported.
const NESTED_REFUSALS_MAX: usize = 20;
/// Maximum length of arguments and results in events, in characters.
const SHOWN_CHARS_MAX: usize = 500;

/// A tool call that a model requests, or the reason why it could not be parsed.
#[derive(Debug)]
pub struct RequestedToolCall {
    /// The request as the model made it.
    pub request: CallRequest,
    /// The parsed call.
    pub call: Result<ToolCall, String>,
}

/// Effects of calls on files.
#[derive(Debug, Default)]
pub struct ToolEffects {
    /// The changes, in their order.
    pub changes: Vec<FileChange>,
    /// The writes that the gate denied.
    pub denials: Vec<Denial>,
}

impl ToolEffects {
    /// Adds the effects of later calls.
    pub fn add(&mut self, later: ToolEffects) {
        self.changes.extend(later.changes);
        self.denials.extend(later.denials);
    }

    /// Returns the effects of a call that was executed.
    pub fn from_changes(changes: Vec<FileChange>) -> Self {
        Self {
            changes,
            denials: Vec::new(),
        }
    }

    /// Returns the effects of a call that was denied.
    pub fn from_denial(denial: Denial) -> Self {
        let denials = match denial.subject {
            DeniedSubject::Access {
                requested: Permission::Write,
                ..
            } => vec![denial],
            DeniedSubject::Access { .. }
            | DeniedSubject::Call { .. }
            | DeniedSubject::Command { .. }
            | DeniedSubject::Program => Vec::new(),
        };
        Self {
            changes: Vec::new(),
            denials,
        }
    }
}

impl RequestedToolCall {
    fn only_reads(&self) -> bool {
        match &self.call {
            Ok(call) => call.only_reads(),
            Err(_) => true,
        }
    }
}

/// Returns the first calls that were denied within an executed one.
fn nested_refusals(observation: &Observation) -> Vec<NestedRefusal> {
    let denials = match observation.outcome {
        ActionOutcome::Denied => &[],
        ActionOutcome::Done | ActionOutcome::Failed => observation.denials.as_slice(),
    };
    let nested_refusal = |denial: &Denial| NestedRefusal {
        rule: denial.rule.to_owned(),
        reason: truncate(&denial.to_string(), SHOWN_CHARS_MAX),
    };
    denials
        .iter()
        .take(NESTED_REFUSALS_MAX)
        .map(nested_refusal)
        .collect()
}

/// Returns whether a call is not repeated even if its effects on the agent's paths are gone: it has
/// effects outside of them, or none.
fn is_never_repeated(call: &Result<ToolCall, String>) -> bool {
    match call {
        Ok(ToolCall::ExecuteCommand { answer, .. }) => answer.is_some(),
        Ok(ToolCall::CallServer(call)) => call.outside == OutsideEffects::Some,
        // What subagents have done is in the workspace, which is never reset; a vendor was paid.
        Ok(ToolCall::SpawnSubagents { .. } | ToolCall::AskVendor { .. }) => true,
        Ok(_) | Err(_) => false,
    }
}

/// Returns whether one of the user's hooks runs before `call`.
fn has_pre_tool_hook(gate: &Gate, call: &ToolCall) -> bool {
    let hooks = gate.hooks().map(HookRunner::hook_list);
    hooks.is_some_and(|hooks| {
        !hooks
            .matching(HookEvent::PreToolUse, Some(call.name()))
            .is_empty()
    })
}

impl ModelSession {
    /// Executes `calls`, adds one result for each in their order, and returns their effects. No
    /// call begins after the deadline.
    pub async fn execute_calls(&mut self, calls: Vec<RequestedToolCall>) -> ToolEffects {
        let (calls, excess_calls) = self.split_at_limit(calls).await;
        let mut effects = ToolEffects::default();
        let mut results = Vec::new();
        let mut reads = Vec::new();
        let mut late_calls = Vec::new();
        for call in calls {
            if self.deadline.as_ref().is_some_and(RunDeadline::is_reached) {
                late_calls.push(call);
            } else if call.only_reads() {
                reads.push(call);
            } else {
                results.extend(self.read_concurrently(std::mem::take(&mut reads)).await);
                let (request, result, effect) = self.execute_call(call).await;
                results.push((request, result));
                effects.add(effect);
            }
        }
        results.extend(self.read_concurrently(reads).await);
        let note = self.call_progress.count_results(&results);
        for (request, result) in results {
            let message = self.result_message(&request, result);
            self.conversation.push(message);
        }
        for call in late_calls {
            self.add_call_result(&call.request.id, call_answers::tools_closed());
        }
        for call in excess_calls {
            // A subagent decides nothing; it ends with a text, as a final agent does.
            let phase = match self.call_scope {
                Some(_) => Phase::Final,
                None => self.phase,
            };
            self.add_call_result(&call.request.id, call_answers::no_calls_left(phase));
        }
        if let Some(note) = note {
            self.add_user_message(note);
        }
        effects
    }

    /// Counts `calls` against the limits. Returns the calls that are allowed, and those that are
    /// not.
    async fn split_at_limit(
        &self,
        mut calls: Vec<RequestedToolCall>,
    ) -> (Vec<RequestedToolCall>, Vec<RequestedToolCall>) {
        let mut allowed_count = 0_usize;
        for call in &calls {
            if !self.may_execute(&call.request.id).await {
                break;
            }
            allowed_count = allowed_count.saturating_add(1);
        }
        let excess_calls = calls.split_off(allowed_count);
        (calls, excess_calls)
    }

    /// Returns whether the call `id` may be executed. A recorded call was counted when it was
    /// recorded; a call that is not recorded, although later replies are, was rejected without an
    /// event.
    async fn may_execute(&self, id: &str) -> bool {
        match &self.recorded {
            Some(recorded) if recorded.contains_call(id) => true,
            Some(recorded) if !recorded.is_exhausted() => false,
            Some(_) | None => self.may_call_tool().await,
        }
    }

    async fn read_concurrently(
        &self,
        calls: Vec<RequestedToolCall>,
    ) -> Vec<(CallRequest, ToolResultContent)> {
        let execute = |call| async {
            let (request, result, _) = self.execute_call(call).await;
            (request, result)
        };
        stream::iter(calls)
            .map(execute)
            .buffered(PARALLEL_READS_MAX)
            .collect()
            .await
    }

    async fn execute_call(
        &self,
        call: RequestedToolCall,
    ) -> (CallRequest, ToolResultContent, ToolEffects) {
        let RequestedToolCall { request, call } = call;
        let recorded_result = self.recorded.as_ref().and_then(|recorded| {
            let result = recorded.result_of(&request.id)?.clone();
            Some((result, recorded.effects_of(&request.id, self.phase)))
        });
        let (result, effects) = match recorded_result {
            Some((result, persistence))
                if persistence == EffectPersistence::Present || is_never_repeated(&call) =>
            {
                self.count_recorded_requests(&request.id, &call);
                self.restore_access_history(&request.id, call).await;
                (result, ToolEffects::default())
            }
            // Executed again only for its effects: later replies refer to the recorded result.
            Some((result, _)) => {
                let (_, effects) = self.execute_live(&request, call).await;
                (result, effects)
            }
            None => self.execute_live(&request, call).await,
        };
        (request, result, effects)
    }

    /// Counts the subagents that a recorded call started, or its request to the vendor for a tool
    /// or for media. A call that was rejected started none.
    fn count_recorded_requests(&self, id: &str, call: &Result<ToolCall, String>) {
        let subagents = self
            .recorded
            .iter()
            .flat_map(|recorded| &recorded.subagents);
        let has_started = subagents.into_iter().any(|known| known.call_id == id);
        if let (true, Some(subagents), Ok(ToolCall::SpawnSubagents { tasks, .. })) =
            (has_started, &self.subagents, call)
        {
            // They were within the limit when they were recorded.
            let _counted = subagents.count(tasks);
        }
        if let (true, Ok(ToolCall::AskVendor { .. } | ToolCall::GenerateMedia { .. })) =
            (has_started, call)
        {
            let _counted = self.vendor_requests.add();
        }
    }

    /// Returns the id of a call that differs from those of the agent's other conversations in this
    /// phase.
    fn scoped_call_id(&self, id: &str) -> String {
        match &self.call_scope {
            Some(scope) => format!("{scope}/{id}"),
            None => id.to_owned(),
        }
    }

    /// Records what the agent has seen by a call that was executed before.
    async fn restore_access_history(&self, id: &str, call: Result<ToolCall, String>) {
        let (Ok(call), Some(gate)) = (call, self.gate.as_ref()) else {
            return;
        };
        // A hook may have changed the call or blocked it, so what the agent saw is unknown.
        if has_pre_tool_hook(gate, &call) {
            return;
        }
        // Decisions about the call are recorded under its id, so that no approval is requested
        // again.
        let gate = gate.for_call(self.scoped_call_id(id), CancellationToken::new());
        let refresh = move || gate.check(call).map(exec::refresh_versions);
        // Files that can no longer be read count as unseen: the agent has to read them again.
        let _refreshed = tokio::task::spawn_blocking(refresh).await;
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
                let reason = call_answers::not_offered(&request.name);
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
        // A long-running call ends when the future is dropped, or at the deadline. If no interrupt
        // can be created, it is executed without one.
        let interrupt = call
            .is_long_running()
            .then(CommandInterrupt::new)
            .and_then(Result::ok);
        let _interrupt_on_drop = interrupt.as_ref().map(CommandInterrupt::on_drop);
        let interrupt_at_deadline = interrupt.clone();
        // Hooks run before and after the call.
        let cancellation = CancellationToken::new();
        let _cancel_on_drop = cancellation.clone().drop_guard();
        let gate = gate.for_call(self.scoped_call_id(&request.id), cancellation.clone());
        let asks_vendor = matches!(call, ToolCall::AskVendor { .. });
        let makes_media = matches!(call, ToolCall::GenerateMedia { .. });
        let permit = match self.ask_gate(request, call, &gate, &cancellation).await {
            Ok(Err(PermitError::Denied(denial))) => {
                let (reason, rule) = (denial.to_string(), Some(denial.rule));
                let (reason, _) = self.reject_call(request, reason, rule).await;
                return (reason, ToolEffects::from_denial(denial));
            }
            Ok(permit) => permit,
            Err(_) => {
                let reason = call_answers::call_interrupted().to_owned();
                return self.reject_call(request, reason, None).await;
            }
        };
        // Before the call runs: it may take long, and massgen may be killed meanwhile.
        self.emit_tool_called(request, None, None).await;
        let start = Instant::now();
        let plan = permit.as_ref().ok().and_then(Permitted::plan).cloned();
        let subagents = self.subagent_call();
        let vendor_tools = asks_vendor.then(|| self.vendor_tool_call());
        let media = makes_media.then(|| self.media_call());
        let execute = move || {
            let (subagents, vendor_tools) = (subagents.as_ref(), vendor_tools.as_ref());
            let runners = CallRunners {
                subagents: subagents.map(|call| -> &dyn SubagentRunner { call }),
                vendor_tools: vendor_tools.map(|call| -> &dyn VendorToolRunner { call }),
                media: media.as_ref().map(|call| -> &dyn MediaRunner { call }),
            };
            match permit {
                Ok(permitted) => exec::run_with_runners(permitted, interrupt.as_ref(), runners),
                Err(error) => error.into(),
            }
        };
        let mut execution = tokio::task::spawn_blocking(execute);
        let execution_result = tokio::select! {
            result = &mut execution => result,
            () = self.wait_for_deadline() => {
                interrupt_at_deadline.as_ref().map(CommandInterrupt::raise).unwrap_or_default();
                cancellation.cancel();
                execution.await
            }
        };
        let observation = execution_result.unwrap_or_else(|_| interrupted_observation());
        let summary = truncate(
            observation.summary.as_ref().unwrap_or(&observation.content),
            SHOWN_CHARS_MAX,
        );
        if let Some(plan) = plan.filter(|_| observation.outcome == ActionOutcome::Done) {
            self.update_plan(Some(&request.id), plan).await;
        }
        let finish_event = Event::Tool(ToolEvent::ToolFinished {
            agent: self.agent.clone(),
            call_id: request.id.clone(),
            tool: request.name.clone(),
            success: observation.outcome == ActionOutcome::Done,
            denied: observation.outcome == ActionOutcome::Denied,
            content: (summary != observation.content).then(|| observation.content.as_str().into()),
            images: observation.images.clone(),
            measure: measure_observation(&request.name, &observation),
            summary,
            refused: nested_refusals(&observation),
            elapsed_ms: milliseconds(start.elapsed()),
        });
        self.emit(finish_event).await;
        let mut effects = ToolEffects::from_changes(observation.changes);
        for denial in observation.denials {
            effects.add(ToolEffects::from_denial(denial));
        }
        let result = ToolResultContent {
            has_failed: observation.outcome != ActionOutcome::Done,
            content: observation.content,
            images: observation.images,
        };
        (result, effects)
    }

    /// Asks the gate about a call. This may request approval, which may take long.
    async fn ask_gate(
        &self,
        request: &CallRequest,
        call: ToolCall,
        gate: &Gate,
        cancellation: &CancellationToken,
    ) -> Result<Result<Permitted<Action>, PermitError>, JoinError> {
        let gate = gate.clone();
        let tool = request.name.clone();
        let ask = move || {
            let decision = gate.check(call);
            let allowed = decision.is_ok();
            tracing::debug!(%tool, allowed, phase = %gate.phase(), "the gate has decided");
            decision
        };
        let mut decision = tokio::task::spawn_blocking(ask);
        tokio::select! {
            result = &mut decision => result,
            () = self.wait_for_deadline() => {
                cancellation.cancel();
                decision.await
            }
        }
    }

    /// Waits for the deadline of the run; forever if there is none.
    pub(super) async fn wait_for_deadline(&self) {
        match &self.deadline {
            Some(deadline) => drop(deadline.wait().await),
            None => std::future::pending().await,
        }
    }

    /// Rejects a call: it has no effects, and the model reads why. `rule` names the rule that
    /// forbids it; `None` if the call could not be parsed, or no decision was reached.
    async fn reject_call(
        &self,
        request: &CallRequest,
        reason: String,
        rule: Option<&str>,
    ) -> (ToolResultContent, ToolEffects) {
        let content = ToolResultContent::from_rejection(&reason);
        self.emit_tool_called(request, Some(reason), rule).await;
        (content, ToolEffects::default())
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

fn interrupted_observation() -> Observation {
    Observation::new(ActionOutcome::Failed, call_answers::call_interrupted())
}

/// Returns the size of the result of a call of `tool` that succeeded.
fn measure_observation(tool: &str, observation: &Observation) -> Option<String> {
    let is_done = observation.outcome == ActionOutcome::Done;
    is_done.then(|| measure_result(tool, &observation.content))?
}
