//! Derives spans from run events: the span of a run contains those of its agents, which contain
//! those of model requests and tool calls. It knows only the events and the time that it is given;
//! it must never send anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::error::ExitStatus;
use crate::event::{
    CoordinationEvent, DeliveryEvent, Event, ModelEvent, RunEvent, StopReason, ToolEvent,
};
use crate::id::AgentId;
use crate::permissions::grant::Phase;
use crate::spending::TokenUsage;
use crate::spending::money::Money;
use crate::text::truncate;
use crate::tools::CallRequest;
use crate::world::diagnostics::telemetry::content_filter::{ContentFilter, GenAiMessage};
use crate::world::diagnostics::telemetry::conventions::{ProviderNames, finish_reason};
use crate::world::diagnostics::telemetry::otlp::{
    KIND_CLIENT, KIND_INTERNAL, KeyValue, OtlpSpan, STATUS_ERROR, SpanEvent, SpanStatus, attribute,
};
use crate::world::diagnostics::telemetry::span_events::{self, TelemetryEvent};

/// Largest number of events of one span: the default of the specification,
/// <https://opentelemetry.io/docs/specs/otel/trace/sdk/#span-limits>.
const EVENTS_PER_SPAN_MAX: usize = 128;
/// Longest tool name that is exported, in characters: a model can call a tool that does not exist.
const TOOL_NAME_CHARS_MAX: usize = 64;

const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

/// The open spans of a run.
#[derive(Debug)]
pub(crate) struct SpanTracker {
    run_span: OtlpSpan,
    agents: BTreeMap<AgentId, OpenSpans>,
    providers: ProviderNames,
    filter: ContentFilter,
    finished_spans: Vec<OtlpSpan>,
}

/// The open spans of an agent.
#[derive(Debug, Default)]
struct OpenSpans {
    agent_span: Option<OtlpSpan>,
    /// A request that is running, or one that has ended without a report so far on whether its
    /// reply was complete.
    request: Option<OtlpSpan>,
    tools: BTreeMap<String, OtlpSpan>,
}

impl SpanTracker {
    /// Starts the span of a run at the time `time_ns`, in nanoseconds since 1970.
    pub(crate) fn begin(providers: ProviderNames, filter: ContentFilter, time_ns: u64) -> Self {
        let trace_id = Uuid::new_v4().into_bytes().to_vec();
        let mut run_span = new_span(trace_id, Vec::new(), "invoke_workflow massgen", time_ns);
        run_span.attributes = vec![
            attribute("gen_ai.operation.name", "invoke_workflow"),
            attribute("gen_ai.workflow.name", "massgen"),
        ];
        Self {
            run_span,
            agents: BTreeMap::new(),
            providers,
            filter,
            finished_spans: Vec::new(),
        }
    }

    /// Processes an event that happened at the time `time_ns`, and returns the spans that it ended.
    pub(crate) fn on_event(&mut self, event: &Event, time_ns: u64) -> Vec<OtlpSpan> {
        if let Some(error_type) = span_events::request_error_type(event)
            && let Some(agent) = event.agent()
        {
            self.end_request(agent, Some(error_type), time_ns);
        }
        if let Some(span_event) = span_events::span_event(event, &self.filter) {
            self.add_span_event(span_event, time_ns);
        }
        match event {
            Event::Run(event) => self.on_run_event(event, time_ns),
            Event::Model(event) => self.on_model_event(event, time_ns),
            Event::Tool(event) => self.on_tool_event(event, time_ns),
            Event::Subagent(_) => self.on_subagent_event(event, time_ns),
            Event::Coordination(event) => self.on_coordination_event(event, time_ns),
            Event::Delivery(event) => self.on_delivery_event(event, time_ns),
            Event::Pipeline(_) => {}
        }
        std::mem::take(&mut self.finished_spans)
    }

    fn on_run_event(&mut self, event: &RunEvent, time_ns: u64) {
        if let RunEvent::RunStarted {
            question, agents, ..
        } = event
        {
            self.start_run(question, agents);
        } else if let RunEvent::CoordinationRestarted { .. } = event {
            self.end_agents(None, time_ns);
        } else if let RunEvent::RunEnded { status, .. } = event {
            self.end_run(*status, time_ns);
        }
    }

    fn on_model_event(&mut self, event: &ModelEvent, time_ns: u64) {
        if let ModelEvent::ModelRequestStarted { agent, model } = event {
            self.start_request(agent, model, time_ns);
        } else if let ModelEvent::ModelRequestFinished {
            agent,
            usage,
            cost_usd,
            ..
        } = event
        {
            self.record_usage(agent, *usage, *cost_usd, time_ns);
        } else if let ModelEvent::Replied {
            agent,
            text,
            calls,
            stop,
            ..
        } = event
        {
            self.record_reply(agent, text, calls, *stop, time_ns);
        }
    }

    /// Adds a span for each request and each call of a subagent. Several may be open at once.
    fn on_subagent_event(&mut self, event: &Event, time_ns: u64) {
        if let Some(call) = event.as_scoped_tool_event() {
            self.on_tool_event(&call, time_ns);
        }
        let Event::Subagent(subagent) = event else {
            return;
        };
        if let Some(ModelEvent::ModelRequestFinished {
            agent,
            model,
            usage,
            cost_usd,
            elapsed_ms,
            ..
        }) = event.as_model_event()
        {
            let start_ns =
                time_ns.saturating_sub(elapsed_ms.saturating_mul(NANOSECONDS_PER_MILLISECOND));
            if let Some(mut request) = self.request_span(agent, model, start_ns) {
                let name = subagent.key().subagent.as_str();
                request.attributes.push(attribute("massgen.subagent", name));
                add_usage(&mut request, *usage, *cost_usd);
                self.finish_span(request, None, time_ns);
            }
        }
    }

    fn on_coordination_event(&mut self, event: &CoordinationEvent, time_ns: u64) {
        if let CoordinationEvent::DroppedOut {
            agent, timed_out, ..
        } = event
        {
            let error_type = if *timed_out { "timeout" } else { "dropped_out" };
            self.end_agent(agent, Some(error_type), time_ns);
        } else if let CoordinationEvent::WinnerSelected { .. } = event {
            self.end_agents(None, time_ns);
        }
    }

    fn on_delivery_event(&mut self, event: &DeliveryEvent, time_ns: u64) {
        if let DeliveryEvent::FinalStarted { agent } = event {
            self.start_agent(agent, Phase::Final, time_ns);
        } else if let DeliveryEvent::FinalAnswer { content, .. } = event {
            self.record_answer(content, time_ns);
        }
    }

    fn start_run(&mut self, question: &str, agents: &[AgentId]) {
        let names_agents = |pair: &KeyValue| pair.key == "massgen.agents";
        if self.run_span.attributes.iter().any(names_agents) {
            // A further coordination has the same agents and the same task.
            return;
        }
        let names: Vec<String> = agents.iter().map(|id| id.as_str().to_owned()).collect();
        let task = GenAiMessage {
            role: "user",
            text: question,
            calls: &[],
            finish_reason: None,
        };
        let task = self.filter.message_attribute("gen_ai.input.messages", task);
        let attributes = std::iter::once(attribute("massgen.agents", names)).chain(task);
        self.run_span.attributes.extend(attributes);
    }

    fn start_agent(&mut self, agent: &AgentId, phase: Phase, time_ns: u64) {
        let name = format!("invoke_agent {}", agent.as_str());
        let mut agent_span = self.child_span(&self.run_span, &name, time_ns);
        agent_span.attributes = vec![
            attribute("gen_ai.operation.name", "invoke_agent"),
            attribute("gen_ai.agent.name", agent.as_str()),
            attribute("massgen.phase", phase.to_string()),
        ];
        self.agents.entry(agent.clone()).or_default().agent_span = Some(agent_span);
    }

    fn start_request(&mut self, agent: &AgentId, model: &Arc<str>, time_ns: u64) {
        let has_agent_span = |spans: &OpenSpans| spans.agent_span.is_some();
        if !self.agents.get(agent).is_some_and(has_agent_span) {
            self.start_agent(agent, Phase::Coordination, time_ns);
        }
        let request = self.request_span(agent, model, time_ns);
        if let Some(agent_spans) = self.agents.get_mut(agent) {
            agent_spans.request = request;
        }
    }

    /// Returns a span for a request of an agent that has a span.
    fn request_span(&self, agent: &AgentId, model: &Arc<str>, time_ns: u64) -> Option<OtlpSpan> {
        let spans = self.agents.get(agent)?;
        let agent_span = spans.agent_span.as_ref()?;
        let mut request = self.child_span(agent_span, &format!("chat {model}"), time_ns);
        request.kind = KIND_CLIENT;
        request.attributes = vec![
            attribute("gen_ai.operation.name", "chat"),
            attribute("gen_ai.agent.name", agent.as_str()),
            attribute("gen_ai.request.model", model.as_ref()),
        ];
        let provider = self
            .providers
            .name(agent, model)
            .map(|name| attribute("gen_ai.provider.name", name));
        request.attributes.extend(provider);
        Some(request)
    }

    fn record_usage(
        &mut self,
        agent: &AgentId,
        usage: TokenUsage,
        cost: Option<Money>,
        time_ns: u64,
    ) {
        let Some(request) = self
            .agents
            .get_mut(agent)
            .and_then(|spans| spans.request.as_mut())
        else {
            return;
        };
        request.end_time_unix_nano = time_ns;
        add_usage(request, usage, cost);
    }

    fn record_reply(
        &mut self,
        agent: &AgentId,
        text: &str,
        calls: &[CallRequest],
        stop: StopReason,
        time_ns: u64,
    ) {
        let reason = finish_reason(stop, !calls.is_empty());
        let reply = GenAiMessage {
            role: "assistant",
            text,
            calls,
            finish_reason: Some(reason),
        };
        let reply = self
            .filter
            .message_attribute("gen_ai.output.messages", reply);
        let agent_spans = self.agents.get_mut(agent);
        if let Some(request) = agent_spans.and_then(|spans| spans.request.as_mut()) {
            let reasons = vec![reason.to_owned()];
            let reasons = attribute("gen_ai.response.finish_reasons", reasons);
            request.attributes.push(reasons);
            request.attributes.extend(reply);
        }
        self.end_request(agent, None, time_ns);
    }

    /// Ends the request of an agent, if it has one. The request may have ended before `time_ns`,
    /// which is when its result became known.
    fn end_request(&mut self, agent: &AgentId, error_type: Option<&str>, time_ns: u64) {
        let agent_spans = self.agents.get_mut(agent);
        if let Some(request) = agent_spans.and_then(|spans| spans.request.take()) {
            // It is 0 unless the end of the request was reported.
            let end_time = match request.end_time_unix_nano {
                0 => time_ns,
                end_time => end_time,
            };
            self.finish_span(request, error_type, end_time);
        }
    }

    fn on_tool_event(&mut self, event: &ToolEvent, time_ns: u64) {
        if let ToolEvent::ToolCalled {
            agent,
            call_id,
            tool,
            arguments,
            denied,
            rule,
        } = event
        {
            let agent_spans = self.agents.get(agent);
            let parent = agent_spans.and_then(|spans| spans.agent_span.as_ref());
            let tool = truncate(tool, TOOL_NAME_CHARS_MAX);
            let name = format!("execute_tool {tool}");
            let mut call = self.child_span(parent.unwrap_or(&self.run_span), &name, time_ns);
            call.attributes = vec![
                attribute("gen_ai.operation.name", "execute_tool"),
                attribute("gen_ai.agent.name", agent.as_str()),
                attribute("gen_ai.tool.name", tool),
                attribute("gen_ai.tool.type", "function"),
                attribute("gen_ai.tool.call.id", call_id.as_str()),
            ];
            let arguments = self
                .filter
                .text_attribute("gen_ai.tool.call.arguments", arguments);
            call.attributes.extend(arguments);
            let rule = rule.as_ref();
            let rule = rule.map(|rule| attribute("massgen.rule", rule.as_str()));
            call.attributes.extend(rule);
            if let Some(reason) = denied {
                let reason = self
                    .filter
                    .text_attribute("gen_ai.tool.call.result", reason);
                call.attributes.extend(reason);
                self.finish_span(call, Some("denied"), time_ns);
            } else if let Some(agent_spans) = self.agents.get_mut(agent) {
                agent_spans.tools.insert(call_id.clone(), call);
            }
        }
        if let ToolEvent::ToolFinished {
            agent,
            call_id,
            success,
            denied,
            summary,
            elapsed_ms,
            ..
        } = event
            && let Some(agent_spans) = self.agents.get_mut(agent)
            && let Some(mut call) = agent_spans.tools.remove(call_id)
        {
            let result = self
                .filter
                .text_attribute("gen_ai.tool.call.result", summary);
            call.attributes.extend(result);
            // `ToolCalled` is emitted after the gate's decision, when the call may have ended
            // already.
            let start_ns =
                time_ns.saturating_sub(elapsed_ms.saturating_mul(NANOSECONDS_PER_MILLISECOND));
            call.start_time_unix_nano = call.start_time_unix_nano.min(start_ns);
            let error_type = if *denied { "denied" } else { "failed" };
            self.finish_span(call, (!success).then_some(error_type), time_ns);
        }
    }

    /// Ends all open spans of an agent.
    fn end_agent(&mut self, agent: &AgentId, error_type: Option<&str>, time_ns: u64) {
        self.end_request(agent, Some(error_type.unwrap_or("cancelled")), time_ns);
        let Some(agent_spans) = self.agents.remove(agent) else {
            return;
        };
        for (_, call) in agent_spans.tools {
            self.finish_span(call, Some("cancelled"), time_ns);
        }
        if let Some(agent_span) = agent_spans.agent_span {
            self.finish_span(agent_span, error_type, time_ns);
        }
    }

    fn end_agents(&mut self, error_type: Option<&str>, time_ns: u64) {
        let agents: Vec<AgentId> = self.agents.keys().cloned().collect();
        for agent in agents {
            self.end_agent(&agent, error_type, time_ns);
        }
    }

    fn record_answer(&mut self, content: &str, time_ns: u64) {
        let answer = GenAiMessage {
            role: "assistant",
            text: content,
            calls: &[],
            finish_reason: None,
        };
        let answer = self
            .filter
            .message_attribute("gen_ai.output.messages", answer);
        self.run_span.attributes.extend(answer);
        self.end_agents(None, time_ns);
    }

    fn end_run(&mut self, status: ExitStatus, time_ns: u64) {
        let name = status_name(status);
        let error_type = (status != ExitStatus::Success).then_some(name.as_str());
        self.end_agents(error_type, time_ns);
        let mut run_span = self.run_span.clone();
        run_span
            .attributes
            .push(attribute("massgen.exit_status", u64::from(status.code())));
        self.finish_span(run_span, error_type, time_ns);
    }

    fn add_span_event(&mut self, event: TelemetryEvent<'_>, time_ns: u64) {
        let agent_spans = event.agent.and_then(|agent| self.agents.get_mut(agent));
        let agent_span = agent_spans.and_then(|spans| spans.agent_span.as_mut());
        let span = agent_span.unwrap_or(&mut self.run_span);
        if span.events.len() < EVENTS_PER_SPAN_MAX {
            span.events.push(SpanEvent {
                time_unix_nano: time_ns,
                name: event.name.to_owned(),
                attributes: event.attributes,
            });
        } else {
            span.dropped_events_count = span.dropped_events_count.saturating_add(1);
        }
    }

    fn child_span(&self, parent: &OtlpSpan, name: &str, time_ns: u64) -> OtlpSpan {
        new_span(
            self.run_span.trace_id.clone(),
            parent.id.clone(),
            name,
            time_ns,
        )
    }

    fn finish_span(&mut self, mut span: OtlpSpan, error_type: Option<&str>, time_ns: u64) {
        span.end_time_unix_nano = time_ns;
        if let Some(error_type) = error_type {
            span.attributes.push(attribute("error.type", error_type));
            span.status = Some(SpanStatus {
                message: String::new(),
                code: STATUS_ERROR,
            });
        }
        self.filter.redact_span(&mut span);
        self.finished_spans.push(span);
    }
}

/// Adds what a request used.
fn add_usage(request: &mut OtlpSpan, usage: TokenUsage, cost: Option<Money>) {
    let counts = [
        ("gen_ai.usage.input_tokens", usage.input_tokens),
        ("gen_ai.usage.output_tokens", usage.output_tokens),
        ("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens),
        (
            "gen_ai.usage.cache_creation.input_tokens",
            usage.cache_write_tokens,
        ),
        (
            "gen_ai.usage.reasoning.output_tokens",
            usage.reasoning_tokens,
        ),
    ];
    let nonzero_counts = counts.into_iter().filter(|(_, count)| *count > 0);
    request
        .attributes
        .extend(nonzero_counts.map(|(key, count)| attribute(key, count)));
    let dollars = cost.and_then(|cost| cost.to_string().parse::<f64>().ok());
    let cost = dollars.map(|dollars| attribute("massgen.cost_usd", dollars));
    request.attributes.extend(cost);
}

fn new_span(trace_id: Vec<u8>, parent_span_id: Vec<u8>, name: &str, time_ns: u64) -> OtlpSpan {
    let id = Uuid::new_v4().as_u64_pair().0;
    OtlpSpan {
        trace_id,
        id: id.to_be_bytes().to_vec(),
        parent_span_id,
        name: name.to_owned(),
        kind: KIND_INTERNAL,
        start_time_unix_nano: time_ns,
        ..OtlpSpan::default()
    }
}

/// Returns the name of an exit status as it is written in records.
fn status_name(status: ExitStatus) -> String {
    let status_json = serde_json::to_value(status).unwrap_or_default();
    status_json.as_str().unwrap_or_default().to_owned()
}
