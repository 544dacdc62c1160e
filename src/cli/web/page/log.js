// The events of a run as its log has them: the view of the log, and what one agent said and did. Only
// a window of the log is kept; older events are loaded by request, new ones while the run is live.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { get, query, runPath } from './api.js';
import { empty, failure, icon, loading } from './elements.js';
import { clock, counted, duration, money, tokens } from './format.js';
import { leaveOnEscape, moveFocus, onKey, valueOf } from './keys.js';
import { redraw } from './redraw.js';

/** @typedef {Record<string, any>} LogEvent */

/** Number of events that are loaded at once, which is also what the server allows. */
const PAGE_EVENTS = 1000;
/** Number of events that are kept and shown. */
const EVENTS_MAX = 2000;
/** Wait between two requests for new events, in milliseconds. */
const FOLLOW_MS = 1000;

/** A part of the log of one run, always without gaps. */
class LogWindow {
  /** @param {RunStream} stream */
  constructor(stream) {
    this.stream = stream;
    this.reading = stream.reading;
    /** @type {LogEvent[]} */
    this.events = [];
    /** @type {number | null} The number of the event before the window. */
    this.before = null;
    this.last = 0;
    this.isLoading = false;
    /** @type {any} */
    this.error = null;
    this.timer = 0;
    this.began = NaN;
  }

  /** @param {number} after @param {number} limit @returns {Promise<LogEvent[]>} */
  async read(after, limit) {
    const { events } = await get(runPath(this.stream.id, 'log') + query({ after, limit }));
    return events.map((/** @type {LogEvent} */ event, /** @type {number} */ index) => ({ seq: after + index + 1, ...event }));
  }

  /** Loads a part of the log, unless another one is being loaded. @param {() => Promise<void>} loadSome */
  async loadAlone(loadSome) {
    if (this.isLoading) return;
    this.isLoading = true;
    try {
      await loadSome();
      this.error = null;
    } catch (error) {
      this.error = error;
    }
    this.isLoading = false;
    redraw();
  }

  /** Loads the end of the log, or what has been added to it. */
  follow() {
    const known = Number(this.stream.lastId) || 0;
    if (this.isLoading || this.timer || this.error || (this.before !== null && known <= this.last)) return;
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      redraw();
    }, FOLLOW_MS);
    this.loadAlone(async () => {
      if (this.before === null) {
        this.before = this.last = Math.max(0, known - PAGE_EVENTS);
        if (this.before > 0) [this.began] = (await this.read(0, 1)).map((event) => Date.parse(event.time));
      }
      const events = await this.read(this.last, PAGE_EVENTS);
      if (!events.length) this.last = Math.max(this.last, known);
      this.add([...this.events, ...events]);
      if (events.length) this.last = events[events.length - 1].seq;
      if (this.events.length > EVENTS_MAX) {
        const cut = this.events.length - EVENTS_MAX;
        this.before = this.events[cut - 1].seq;
        this.events = this.events.slice(cut);
      }
    });
  }

  /** Loads events before the window, in place of the newest if there are too many. */
  loadOlder() {
    this.loadAlone(async () => {
      const { before } = this;
      if (before === null || before === 0) return;
      const from = Math.max(0, before - PAGE_EVENTS);
      const events = (await this.read(from, before - from)).filter((event) => event.seq <= before);
      this.before = from;
      this.add([...events, ...this.events].slice(0, EVENTS_MAX * 2));
    });
  }

  /** @param {LogEvent[]} events */
  add(events) {
    this.events = events;
    if (Number.isNaN(this.began) && this.before === 0 && events[0]) this.began = Date.parse(events[0].time);
  }

  /** The time since the start of the run. @param {LogEvent} event */
  time(event) {
    const at = Date.parse(event.time) - this.began;
    return Number.isNaN(at) ? '' : clock(at);
  }
}

/** @type {LogWindow | null} */
let shownWindow = null;

/** The window of the log in view. Lines that are known may be replaced when the run is resumed. @param {RunStream} stream */
function windowOf(stream) {
  if (shownWindow?.stream !== stream || shownWindow.reading !== stream.reading) shownWindow = new LogWindow(stream);
  shownWindow.follow();
  return shownWindow;
}

/** The answers to a question for approval. @type {Record<string, string>} */
const APPROVALS = { once: 'is allowed once', session: 'is allowed for the run', no: 'is denied' };

/** What an event says, in a line. @param {LogEvent} event @returns {any} */
function summary(event) {
  switch (event.type) {
    case 'run_started': return event.question;
    case 'setup_started': return event.command;
    case 'baseline_started': return (event.checks ?? []).join(', ');
    case 'text': case 'reasoning': return event.text;
    case 'model_request_started': return event.model;
    case 'model_request_finished': return `${event.model}: ${tokens(event.input_tokens)} in, ${tokens(event.output_tokens)} out, ${money(event.cost_usd)}, ${duration(event.elapsed_ms)}`;
    case 'tool_called': case 'native_tool_call': return [event.tool, event.arguments ?? event.detail, event.denied].filter(Boolean).join(' ');
    case 'tool_finished': return `${event.tool} ${event.denied ? 'denied' : event.success ? 'succeeded' : 'failed'}: ${event.summary ?? ''}`;
    case 'approval': return `${event.tool} ${APPROVALS[event.answer] ?? event.answer ?? 'waits for approval'}: ${(event.effects ?? []).join('; ')}`;
    case 'plan_updated': return `${(event.entries ?? []).filter((/** @type {PlanEntry} */ { status }) => status === 'completed').length} of ${counted(event.entries?.length ?? 0, 'step')} done`;
    case 'answered': return `${event.label}: ${event.content ?? ''}`;
    case 'voted': return `for ${event.candidate} (${event.label}): ${event.reason ?? ''}`;
    case 'submission_rejected': return event.reason ?? '';
    case 'votes_voided': return (event.voters ?? []).join(', ');
    case 'answers_shown': return (event.labels ?? []).join(', ');
    case 'final_answer': return event.content;
    case 'checked': case 'baseline_checked': return `${event.finding?.check} ${event.finding?.verdict?.replaceAll('_', ' ')}`;
    case 'delivered': return (event.rows ?? []).map((/** @type {DeliveryRow} */ { path, outcome }) => `${(outcome ?? '').replaceAll('_', ' ')} ${path}`).join(', ') || 'no files';
    case 'winner_selected': return `${event.agent} with ${event.label}`;
    case 'run_ended': return `${event.status}: ${event.summary ?? ''}`;
    case 'replied': return [event.text, ...(event.calls ?? []).map((/** @type {LogEvent} */ call) => `calls ${call.name}`)].filter(Boolean).join(', ');
    case 'subagent_started': return `${event.subagent}: ${event.task}`;
    case 'subagent_model': case 'subagent_tool': return `${event.subagent}: ${summary(event.event ?? {})}`;
    case 'subagent_finished': return `${event.subagent}: ${[event.status, event.reason].filter(Boolean).join(': ')}`;
    default: {
      const { type, seq, time, agent, schema_version: version, ...rest } = event;
      return Object.entries(rest).map(([key, value]) => `${key}: ${typeof value === 'string' ? value : JSON.stringify(value)}`).join(', ');
    }
  }
}

let filter = '';

/** @param {LogWindow} log */
function olderButton(log) {
  if (!log.before) return nothing;
  return html`<button class="button small" ?disabled=${log.isLoading} @click=${() => log.loadOlder()}>Load ${Math.min(log.before, PAGE_EVENTS)} older events</button>`;
}

/** The log. @param {RunStream} stream */
export function logView(stream) {
  const log = windowOf(stream);
  onKey('/', 'filter the log', () => document.getElementById('log-filter')?.focus());
  onKey('j', 'next event', () => moveFocus('.log-row summary', 1));
  onKey('k', 'previous event', () => moveFocus('.log-row summary', -1));
  const setFilter = (/** @type {Event} */ event) => {
    filter = valueOf(event);
    redraw();
  };
  const wanted = filter.toLowerCase();
  const shown = log.events.filter((event) => !wanted || JSON.stringify(event).toLowerCase().includes(wanted)).slice(-EVENTS_MAX);
  const row = (/** @type {LogEvent} */ event) => html`<li class="log-row"><details><summary>
    <span class="num muted">${event.seq}</span><span class="num">${log.time(event)}</span><span class="kind">${event.type?.replaceAll('_', ' ')}</span>
    <bdi class="who">${event.agent ?? ''}</bdi><span class="args">${String(summary(event)).slice(0, 300)}</span></summary>
    <pre class="output" tabindex="0" aria-label="Event ${event.seq}">${JSON.stringify(event, null, 2).slice(0, 100_000)}</pre></details></li>`;
  return html`<div class="stack"><div class="bar"><h2>Log</h2><input id="log-filter" class="input grow" type="search" placeholder="Filter"
      aria-label="Filter the log" .value=${filter} @input=${setFilter} @keydown=${leaveOnEscape}>${olderButton(log)}</div>
    ${log.error ? failure(log.error, () => { log.error = null; redraw(); }) : nothing}
    ${shown.length ? html`<ol class="log-list">${shown.map(row)}</ol>`
      : log.isLoading ? loading('Loading the log …') : empty(filter ? 'No event matches the filter.' : 'The log is empty.')}</div>`;
}

/** @type {Record<string, [string, string]>} The icon and the words of an entry of a transcript. */
const ENTRIES = { text: ['comment', 'says'], reasoning: ['idle', 'reasons'], answered: ['done', 'answers'], voted: ['done', 'votes'],
  approval: ['ask', 'approval'], dropped_out: ['bad', 'drops out'], submission_rejected: ['bad', 'decision'], failed: ['bad', 'failed'],
  retrying: ['wait', 'retries'], rate_limited: ['wait', 'rate limited'], answers_shown: ['file', 'sees'], checked: ['work', 'is checked'],
  subagent_started: ['work', 'starts subagent'], subagent_model: ['comment', 'subagent'], subagent_tool: ['work', 'subagent'], subagent_finished: ['done', 'subagent'],
  hook_ran: ['work', 'hook'], winner_selected: ['trophy', 'wins'], final_answer: ['done', 'final answer'], native_tool_call: ['work', 'native tool'] };
/** Events that a transcript leaves out. */
const HIDDEN = new Set(['model_request_started', 'replied', 'tool_finished', 'checking', 'final_started']);
/** Of a subagent, whose replies are not streamed, and whose calls follow them. */
const HIDDEN_OF_SUBAGENTS = new Set(['model_request_started', 'model_request_finished', 'tool_finished']);

/** Whether a transcript leaves the event out. @param {LogEvent} event */
function isHidden(event) {
  const inner = event.event;
  return inner && event.type?.startsWith('subagent_')
    ? HIDDEN_OF_SUBAGENTS.has(inner.type) || (inner.type === 'replied' && !inner.text) : HIDDEN.has(event.type);
}

/** What one agent said and did. @param {RunStream} stream @param {string} id */
export function transcript(stream, id) {
  const log = windowOf(stream);
  const own = log.events.filter((event) => event.agent === id);
  const results = new Map(own.filter((event) => event.type === 'tool_finished').map((event) => [event.call_id, event]));
  const body = (/** @type {LogEvent} */ event) => {
    if (event.type === 'tool_called') {
      const result = results.get(event.call_id);
      const isDenied = event.denied || result?.denied;
      const tone = isDenied ? 'ask' : !result ? 'work' : result.success ? 'done' : 'bad';
      const word = isDenied ? 'denied' : !result ? 'running' : result.success ? 'succeeded' : 'failed';
      return html`<details class="call tone-${tone}"><summary>${icon(tone)}<span class="tool">${event.tool}</span><span class="args">${event.arguments}</span>
        <span class="word">${word}</span><span class="num">${result ? duration(result.elapsed_ms) : ''}</span></summary>
        <dl class="facts"><dt>arguments</dt><dd class="mono">${event.arguments}</dd>
        ${event.denied ? html`<dt>denied</dt><dd>${event.denied}</dd>` : nothing}${event.rule ? html`<dt>rule</dt><dd><code>${event.rule}</code></dd>` : nothing}
        ${result ? html`<dt>result</dt><dd class="mono">${result.content ?? result.summary}</dd>` : nothing}</dl></details>`;
    }
    if (event.type === 'model_request_finished') return html`<p class="muted num wide">${summary(event)}</p>`;
    const [usualIcon, words] = ENTRIES[event.type] ?? ['idle', event.type?.replaceAll('_', ' ')];
    const iconName = event.event?.denied ? 'ask' : event.type === 'subagent_finished' && event.status !== 'completed' ? 'bad' : usualIcon;
    const text = summary(event);
    const paragraph = html`<p class="reply-text">${text}</p>`;
    return event.type === 'reasoning' ? html`<details class="reasoning"><summary>${icon(iconName)} reasons</summary>${paragraph}</details>`
      : html`<span class="entry-head">${icon(iconName)} ${words}</span>${paragraph}`;
  };
  const shown = own.filter((event) => !isHidden(event)).slice(-EVENTS_MAX);
  return html`<section aria-labelledby="agent-log"><div class="bar"><h3 id="agent-log">What it said and did</h3>${olderButton(log)}</div>
    ${log.error ? failure(log.error, () => { log.error = null; redraw(); }) : nothing}
    ${shown.length ? html`<ol class="transcript">${shown.map((event) => html`<li><span class="num muted">${log.time(event)}</span>${body(event)}</li>`)}</ol>`
      : log.isLoading ? loading('Loading …') : html`<p class="muted">Nothing yet.</p>`}</section>`;
}
