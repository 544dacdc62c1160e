// The list of runs: those of the directory, also those that were started in a terminal. A filter
// narrows it; the newest is first.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { get, post, refusedField, runPath } from './api.js';
import { empty, failure, icon, numberCell, state, whenLoaded } from './elements.js';
import { counted, duration, money, moment, tokens } from './format.js';
import { leaveOnEscape, moveFocus, onKey, valueOf } from './keys.js';
import { forget, load, redraw, refresh } from './redraw.js';
import { go, isPipeline, runHref } from './router.js';

const KEY = 'runs';
/** How often the list is read again while it shows an active run, in milliseconds. */
const REFRESH_MS = 5000;
/** The outcome of a pipeline before the person has applied what it made. */
export const FINISHED = 'finished';
let filter = '';
let timer = 0;

const ask = () => get('/api/runs?limit=500');

const isShown = () => /^#?\/?$/.test(location.hash) && document.visibilityState === 'visible';

/** Reads the list again when the page is looked at. */
function refreshShown() {
  if (isShown()) refresh(KEY, ask);
}
window.addEventListener('focus', refreshShown);
window.addEventListener('hashchange', refreshShown);

/** Reads the list again after a while, if a run in it has not ended. @param {RunRow[]} runs */
function followActive(runs) {
  if (timer || !runs.some((run) => run.live || run.state === 'running')) return;
  timer = window.setTimeout(() => {
    timer = 0;
    refreshShown();
  }, REFRESH_MS);
}

/** What became of the files of a run since it ended: the outcomes that only the list of runs knows. */
const LATER_OUTCOMES = ['undone', 'partly undone', 'partly applied', 'nothing applied'];

/** What became of the files that a run delivered, if it is not simply that. @param {RunRow | undefined} row */
export const laterOutcome = (row) => (row?.outcome && row.state === 'ended' && LATER_OUTCOMES.includes(row.outcome) ? row.outcome : null);

/** How a run ended, or what became of its files since. @param {string} outcome */
export function outcomeState(outcome) {
  if (['nothing applied', 'undone', 'partly undone'].includes(outcome)) return state('idle', outcome);
  return state(/^(delivered|answered|ended|finished|partly applied)/.test(outcome) ? 'done' : 'bad', outcome.replaceAll('_', ' '));
}

/** @param {RunRow} run */
function runState(run) {
  if (run.live || run.state === 'running') return state('work', run.live ? 'running here' : 'running');
  if (run.state === 'interrupted') return state('wait', 'interrupted');
  return outcomeState(isPipeline(run.id) && run.outcome === 'delivered' ? FINISHED : run.outcome ?? run.state);
}

/** The run that could not be resumed, and why. @type {{id: string, error: any} | null} */
let refusal = null;

/** Resumes an interrupted run, or a pipeline with other limits. @param {string} id @param {() => void} resumed
 * @param {import('./limits.js').TypedLimits} [limits] */
export async function resumeRun(id, resumed, limits = {}) {
  refusal = null;
  try {
    await post(runPath(id, 'continue'), { limits });
    forget(KEY);
    resumed();
  } catch (error) {
    refusal = { id, error };
    redraw();
  }
}

/** Why a run could not be resumed; of any run without an id. What is wrong with a limit is said beside its field.
 * @param {string} [id] */
export const resumeFailure = (id) => (refusal && (!id || refusal.id === id) && !refusedField(refusal.error) ? failure(refusal.error) : nothing);

/** Why this run could not be resumed, if it is because of a limit. @param {string} id */
export const limitRefusal = (id) => (refusal?.id === id && refusedField(refusal.error) ? refusal.error : null);

/** Forgets why a run could not be resumed. */
export function forgetRefusal() {
  refusal = null;
  redraw();
}

/** Filters the list by this text. @param {string} text */
export function filterRuns(text) {
  filter = text;
  redraw();
}

/** @param {RunRow} run @param {string} wanted */
function matches(run, wanted) {
  // The stages of a pipeline are in its own row, unless they are looked for.
  if (!wanted && run.pipeline) return false;
  const text = [run.task, run.id, run.session, run.pipeline, run.state, run.outcome, ...run.agents].join(' ').toLowerCase();
  return wanted.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** The time that a run took, or takes until now. @param {RunRow} run */
function time(run) {
  const began = Date.parse(run.started ?? '');
  return (run.live || run.state === 'running') && began ? Date.now() - began : run.duration_ms;
}

/** @param {RunRow} run @param {boolean} mayStart */
function row(run, mayStart) {
  // A pipeline that met a limit is continued in its own view, which asks for another one.
  const resume = run.resumable && run.outcome !== 'limit' && mayStart
    ? html`<button class="button small" @click=${() => resumeRun(run.id, () => go(runHref(run.id)))}>Continue</button>` : nothing;
  return html`<tr>
    <td class="cell-state">${runState(run)}</td>
    <td class="cell-task"><a class="run-link" href=${runHref(run.id)}><bdi>${run.task || run.id}</bdi></a>
      <span class="muted sub">${isPipeline(run.id) ? 'pipeline: ' : nothing}<bdi>${run.agents.join(', ')}</bdi>${run.winner && run.outcome !== 'interrupted' ? html` · ${icon('trophy')} <bdi>${run.winner}</bdi>` : nothing}</span></td>
    ${numberCell('Started', moment(run.started))}${numberCell('Time', duration(time(run)))}${numberCell('Tokens', tokens(run.tokens))}
    ${numberCell('Cost', run.cost_usd == null ? html`<span class="muted">-</span>` : money(run.cost_usd))}
    <td>${resume}</td></tr>`;
}

/** @param {RunRow[]} runs @param {Info} info */
function table(runs, info) {
  followActive(runs);
  const shown = runs.filter((run) => matches(run, filter));
  if (!runs.length) {
    return empty('No runs in this directory yet.', info.read_only ? 'The page is read-only: start one in a terminal.'
      : html`<a class="button primary" href="#/new">Start a run</a>`);
  }
  if (!shown.length) return empty('No run matches the filter.', html`Press <kbd>/</kbd> to change it.`);
  return html`<div class="scroll" role="region" tabindex="0" aria-label="Runs"><table class="rows">
    <thead><tr><th scope="col">State</th><th scope="col">Task</th><th scope="col" class="num">Started</th>
      <th scope="col" class="num">Time</th><th scope="col" class="num">Tokens</th><th scope="col" class="num">Cost</th>
      <th scope="col"><span class="hidden">Actions</span></th></tr></thead>
    <tbody>${shown.map((run) => row(run, !info.read_only))}</tbody></table></div>
    <p class="muted count">${filter ? `${shown.length} of ${runs.length} runs, stages of pipelines among them` : counted(shown.length, 'run')}</p>`;
}

/** @param {{info: Info}} context */
export function runsView({ info }) {
  onKey('/', 'filter the runs', () => document.getElementById('runs-filter')?.focus());
  onKey('j', 'next run', () => moveFocus('.run-link', 1));
  onKey('k', 'previous run', () => moveFocus('.run-link', -1));
  if (!info.read_only) onKey('c', 'start a run', () => go('#/new'));
  return html`<div class="page"><div class="bar"><h1 tabindex="-1">Runs</h1>
      <input id="runs-filter" class="input grow" type="search" placeholder="Task, agent or state"
        aria-label="Filter runs" .value=${filter} @input=${(/** @type {Event} */ event) => filterRuns(valueOf(event))} @keydown=${leaveOnEscape}>
      ${info.read_only ? nothing : html`<a class="button primary" href="#/new">New run</a>`}</div>
    ${resumeFailure()}${whenLoaded(load(KEY, ask), 'runs', ({ runs }) => table(runs, info), () => forget(KEY))}</div>`;
}
