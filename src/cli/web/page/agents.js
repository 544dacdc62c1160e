// The agents of a run: a column for each in the overview, or tabs where there is no room for columns,
// and one agent in full.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { checkList, icon, loading, planList, state } from './elements.js';
import { activityText, activityTone, clock, duration, money, tokens } from './format.js';
import { onKey } from './keys.js';
import { redraw } from './redraw.js';
import { batchOf, go, runHref } from './router.js';

/** @typedef {AgentSection} Agent */

/** Length of the end of a reply that a column shows, and that the view of one agent does, in characters. */
const COLUMN_CHARS = 4000;
const VIEW_CHARS = 64 * 1024;
const narrowScreen = window.matchMedia('(max-width: 700px)');
narrowScreen.addEventListener('change', redraw);
/** The agent whose tab is chosen where there is no room for columns. */
let chosenTab = 0;

/** @param {Call} call @param {number} now */
function callTime(call, now) {
  return call.outcome === 'running' ? duration(Math.max(0, now - call.started_ms)) : duration(call.elapsed_ms);
}

/** The calls that a person has unfolded: those above them come and go. @type {Set<string>} */
const unfolded = new Set();

/** @param {Call} call @param {number} now @param {string} agent */
function callRow(call, now, agent) {
  const key = `${agent} ${call.started_ms} ${call.tool} ${call.arguments}`;
  const toggle = (/** @type {Event} */ event) => {
    if (/** @type {HTMLDetailsElement} */ (event.target).open) unfolded.add(key);
    else unfolded.delete(key);
  };
  const tone = { running: 'work', succeeded: 'done', failed: 'bad', denied: 'ask' }[call.outcome];
  const word = call.outcome === 'running' ? html`<span class="word">running</span>` : nothing;
  const row = (/** @type {string} */ name, /** @type {any} */ value, form = 'text') =>
    (value ? html`<dt>${name}</dt><dd class=${form}>${value}</dd>` : nothing);
  return html`<li><details class="call tone-${tone}" ?open=${unfolded.has(key)} @toggle=${toggle}><summary>${icon(tone)}<span class="tool">${call.text}</span>
    <span class="args">${call.note}</span>${word}<span class="num">${callTime(call, now)}</span></summary>
    <dl class="facts">${row('tool', call.tool)}${row('arguments', call.arguments, 'mono')}${row('denied', call.reason)}
      ${row('rule', call.rule && html`<code>${call.rule}</code> · explained by <code>massgen explain</code>`)}
      ${row('result', call.summary, 'mono')}${row('started', clock(call.started_ms))}</dl></details></li>`;
}

/** The end of a reply in paragraphs, so that the browser lays out only those in sight.
 * @param {Speech | undefined} speech @param {number} charsMax */
function speechText(speech, charsMax) {
  if (!speech?.text) return html`<p class="muted">Nothing said yet.</p>`;
  const start = speech.text.length > charsMax ? speech.text.indexOf('\n\n', speech.text.length - charsMax) + 1 || speech.text.length - charsMax : 0;
  const paragraphs = speech.text.slice(start).trimStart().split(/\n{2,}/);
  const text = html`<div class="reply">${paragraphs.map((text) => html`<p>${text}</p>`)}</div>`;
  return speech.kind === 'reasoning'
    ? html`<details class="reasoning" open><summary>Reasoning</summary>${text}</details>` : text;
}

/** What an agent has used. @param {Agent} agent */
const usageLine = ({ usage }) => html`<p class="muted num model">tokens: ${tokens(usage.input_tokens)} in · ${tokens(usage.output_tokens)} out
  · ${money(usage.cost_usd, usage.cost_is_complete)}</p>`;

/** @param {Agent} agent @param {RunStream} stream */
function activityLine(agent, stream) {
  const isTimed = stream.isLive && agent.activity.state !== 'idle' && agent.activity.state !== 'dropped_out';
  return html`<div class="row now">${state(activityTone(agent), activityText(agent))}
    ${isTimed ? html`<span class="muted num">${duration(stream.now - agent.since_ms)}</span>` : nothing}</div>`;
}

/** @param {Agent} agent @param {number} index @param {RunStream} stream @param {any} role */
function column(agent, index, stream, role) {
  const calls = [...agent.calls].reverse();
  return html`<section class="column" id="column-${index}" role=${role} aria-labelledby="agent-${index}">
    <header><h3 id="agent-${index}"><a href=${runHref(stream.id, ['agents', agent.id])}><bdi>${agent.id}</bdi></a>
        <kbd aria-hidden="true">${index + 1}</kbd></h3>
      <span class="muted model"><bdi>${agent.model ?? 'no model yet'}</bdi></span></header>
    ${activityLine(agent, stream)}${usageLine(agent)}${planList(agent.plan, agent.id)}
    <div class="tail" role="log" aria-live="off" tabindex="0" aria-label="Reply of ${agent.id}">
      <div>${speechText(stream.speech.get(agent.id), COLUMN_CHARS)}</div></div>
    ${calls.length ? html`<ul class="calls" aria-label="Last tool calls of ${agent.id}">${calls
      .map((call) => callRow(call, stream.now, agent.id))}</ul>` : html`<p class="muted">No tool calls yet.</p>`}</section>`;
}

/** @param {KeyboardEvent} event @param {number} count */
function tabKey(event, count) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  chosenTab = (chosenTab + step + count) % count;
  redraw();
  requestAnimationFrame(() => document.getElementById(`tab-${chosenTab}`)?.focus());
}

/** All agents side by side. @param {RunStream} stream */
export function agentColumns(stream) {
  const { agents } = stream;
  if (!agents.length) return stream.isLive ? loading('No agent works yet …') : html`<p class="muted">No agent worked in this run.</p>`;
  if (!narrowScreen.matches) {
    return html`<div class="columns" data-count=${agents.length}>${agents
      .map((agent, index) => column(agent, index, stream, nothing))}</div>`;
  }
  chosenTab = Math.min(chosenTab, agents.length - 1);
  const choose = (/** @type {number} */ index) => {
    chosenTab = index;
    redraw();
  };
  const agent = agents[chosenTab];
  return html`<div class="tabs" role="tablist" aria-label="Agents" @keydown=${(/** @type {KeyboardEvent} */ event) => tabKey(event, agents.length)}>
    ${agents.map((one, index) => html`<button role="tab" id="tab-${index}" aria-selected=${index === chosenTab}
      aria-controls="agent-panel" tabindex=${index === chosenTab ? 0 : -1} @click=${() => choose(index)}>${icon(activityTone(one))}
      <bdi>${one.id}</bdi></button>`)}</div>
    <div id="agent-panel" role="tabpanel" aria-labelledby="tab-${chosenTab}">${column(agent, chosenTab, stream, nothing)}</div>`;
}

/** Names the keys that choose an agent. @param {RunStream} stream */
export function agentKeys(stream) {
  stream.agents.slice(0, 9).forEach((agent, index) => {
    onKey(String(index + 1), `agent ${agent.id} in full`, () => go(runHref(stream.id, ['agents', agent.id])), 'Run');
  });
  onKey('a', 'all agents', () => go(runHref(stream.id)), 'Run');
}

/** One agent in full. @param {RunStream} stream @param {string} id
 * @param {(stream: RunStream, id: string) => any} transcript what it said and did */
export function agentView(stream, id, transcript) {
  const { agents } = stream;
  const at = agents.findIndex((agent) => agent.id === id);
  const agent = agents[at];
  if (!agent) return stream.state === 'connecting' ? loading('Loading the agent …') : html`<p class="muted">No agent ${id} in this coordination.</p>`;
  const step = (/** @type {number} */ by) => {
    const next = agents[(at + by + agents.length) % agents.length];
    go(runHref(stream.id, ['agents', next.id]));
  };
  onKey('j', 'next agent', () => step(1));
  onKey('k', 'previous agent', () => step(-1));
  const answer = stream.ballot.answers.findLast((one) => one.agent === id);
  return html`<div class="agent-full"><header class="bar"><h2><bdi>${agent.id}</bdi></h2>
      <span class="muted"><bdi>${agent.model ?? ''}</bdi></span>${activityLine(agent, stream)}<span class="grow"></span>
      ${answer ? html`<a class="button small" href=${runHref(stream.id, ['answers'], { left: answer.label })}>Read ${answer.label}</a>
        ${batchOf(stream.id) ? nothing : html`<a class="button small" href=${runHref(stream.id, ['diff'], { answer: answer.label })}>Diff</a>`}` : nothing}</header>
    ${usageLine(agent)}${planList(agent.plan, agent.id)}
    ${answer?.checks?.checks.length ? html`<section aria-labelledby="agent-checks"><h3 id="agent-checks">Checks of ${answer.label}</h3>
      ${checkList(answer.checks.checks)}</section>` : nothing}
    <section aria-labelledby="agent-now"><h3 id="agent-now">${stream.isLive ? 'Now' : 'Last words'}</h3><div class="tail large" role="log" aria-live="off"
      tabindex="0" aria-label="Reply of ${agent.id}"><div>${speechText(stream.speech.get(id), VIEW_CHARS)}</div></div></section>
    ${transcript(stream, id)}</div>`;
}
