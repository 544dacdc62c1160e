// One run: its header with task, phase, time, tokens and cost, the tabs of its views, and the
// overview with one column for each agent.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { get } from './api.js';
import { agentColumns, agentKeys, agentView } from './agents.js';
import { pending, questionPanel } from './approvals.js';
import { ballotStrip, votesView } from './ballot.js';
import { commentBar } from './comments.js';
import { empty, failure, icon, loading, prose, state } from './elements.js';
import { clock, counted, money, tokens } from './format.js';
import { moveFocus, onKey } from './keys.js';
import { lazily } from './lazily.js';
import { forget, load, refresh } from './redraw.js';
import { batchOf, go, hrefTo, isPipeline, runHref } from './router.js';
import { FINISHED, filterRuns, laterOutcome, outcomeState, resumeFailure, resumeRun } from './runs.js';
import { steeringLine } from './steering.js';

/** @typedef {{stream: RunStream, info: Info, route: Route}} Context */

const PHASES = ['starting', 'coordinating', 'presenting', 'delivering', 'ended'];
/** Number of characters of the task that the header shows before it is unfolded. */
const TASK_CHARS = 180;

/** The views of a run: path, name and the second key after `g`. @type {[string, string, string][]} */
const VIEWS = [['', 'Overview', 'o'], ['answers', 'Answers', 'a'], ['diff', 'Diff', 'd'], ['delivery', 'Delivery', 'y'], ['votes', 'Votes', 'v'],
  ['timeline', 'Timeline', 't'], ['cost', 'Cost', 'c'], ['log', 'Log', 'l']];
/** The views of a pipeline; its stages have the others. */
const PIPELINE_VIEWS = ['', 'delivery', 'cost', 'log'];
/** The views of the run of a cell: a terminal delivers what it changed. */
const CELL_VIEWS = ['', 'answers', 'votes', 'timeline', 'cost', 'log'];

/** Whether the delivery waits for the person; the agents have ended then. @param {RunStream} stream */
const isReviewed = (stream) => pending(stream).some((question) => question.kind === 'delivery');

/** The state of a run in a word. @param {RunStream} stream @param {RunRow | undefined} row */
function runState(stream, row) {
  const { run } = stream;
  if (!run) return nothing;
  if (run.phase === 'ended') {
    if (run.status !== 'delivered') return state('bad', (run.status ?? 'ended').replaceAll('_', ' '));
    return outcomeState(laterOutcome(row) ?? (isPipeline(stream.id) ? FINISHED : run.status));
  }
  if (stream.state === 'ended') return state('wait', 'interrupted');
  if (pending(stream).length) return state('ask', 'waits for you');
  return state('work', run.is_stopped ? 'stopping' : isPipeline(stream.id) ? 'working' : run.phase);
}

/** @param {RunStream} stream */
function connection(stream) {
  if (stream.state === 'broken') return html`<span class="state tone-wait">${icon('wait')} connection lost, trying again: is <code>massgen web</code> still running?</span>`;
  return stream.state === 'paused' ? html`<span class="muted">paused while hidden</span>` : nothing;
}

/** The phases of a run, or the stage of a pipeline. @param {RunStream} stream */
function phases(stream) {
  if (isPipeline(stream.id)) {
    const { stages = [], stage_count: count } = stream.sections.get('pipeline') ?? {};
    const stage = stages.at(-1);
    return stage ? html`<span>iteration ${stage.iteration}, stage ${stage.stage} of ${count}: <bdi>${stage.role}</bdi></span>` : nothing;
  }
  const at = PHASES.indexOf(isReviewed(stream) ? 'delivering' : stream.run?.phase ?? 'starting');
  return html`<ol class="phases" aria-label="Phases">${PHASES.map((phase, index) => html`<li class=${index < at ? 'past' : index === at ? 'here' : ''}
    aria-current=${index === at ? 'step' : nothing}>${phase}</li>`)}</ol>`;
}

/** Limits as numbers; 0 is none. @param {Limits} limits */
const limitNumbers = (limits) => ({ cost: Number(limits.max_cost_usd ?? 0), tokens: limits.max_tokens_total ?? 0, calls: limits.max_tool_calls ?? 0 });

/** The limits in force of a live run. If the server does not know them, they are those of the team that has its agents,
 * unless several have them with other limits. @param {Context} context */
function limitsOf({ stream, info }) {
  if (!stream.isLive) return limitNumbers({});
  const known = stream.run?.limits;
  if (known) return limitNumbers(known);
  const names = [...(stream.run?.agents ?? [])].sort().join(' ');
  const teams = info.teams.filter((team) => team.agents.map(({ id }) => id).sort().join(' ') === names);
  const all = teams.map(limitNumbers);
  const areSame = new Set(all.map((limits) => JSON.stringify(limits))).size === 1;
  return areSame ? all[0] : limitNumbers({});
}

/** What is used, and how much of its limit, if there is one. @param {string} name @param {string} text
 * @param {number} used @param {number} limit 0 if there is none */
const usageMeter = (name, text, used, limit) => html`<span class="num" title=${name}>${text}</span>${limit
  ? html`<meter min="0" max=${limit} high=${limit * 0.8} .value=${used} aria-label="${name} against the limit"></meter>` : nothing}`;

/** The usage of a run. @param {Context} context */
function usageMeters(context) {
  const { usage, tool_calls: calls } = /** @type {RunSection} */ (context.stream.run);
  const limits = limitsOf(context);
  const { input_tokens: input, output_tokens: output } = usage;
  const texts = { tokens: `tokens: ${tokens(input)} in · ${tokens(output)} out`, cost: money(usage.cost_usd, usage.cost_is_complete) };
  return html`${usageMeter('Tokens', limits.tokens ? `${texts.tokens}, at most ${tokens(limits.tokens)}` : texts.tokens, input + output, limits.tokens)}
    ${usageMeter('Cost', limits.cost ? `${texts.cost} of $${limits.cost}` : texts.cost, usage.cost_usd ?? 0, limits.cost)}
    ${isPipeline(context.stream.id) ? nothing : usageMeter('Tool calls', limits.calls ? `${calls} of ${counted(limits.calls, 'tool call')}` : counted(calls, 'tool call'), calls, limits.calls)}`;
}

/** @param {RunStream} stream */
function notes(stream) {
  const run = /** @type {RunSection} */ (stream.run);
  const count = run.warnings.length + run.more_warnings;
  const isolations = [...new Set(run.sandbox.map((note) => note.isolation))];
  const open = new Set(run.sandbox.flatMap((note) => note.leaves_open));
  const messages = run.messages ?? [];
  return html`${messages.length ? html`<details class="note-box"><summary>${icon('comment')} ${counted(messages.length, 'message')}</summary>
      <ul>${messages.map(({ agent, text, shown_to: shown }) => html`<li>to <bdi>${agent ?? 'all'}</bdi>: ${text}
        <span class="muted">${shown.length ? `read by ${shown.join(', ')}` : 'not read yet'}</span></li>`)}</ul></details>` : nothing}
    ${count ? html`<details class="note-box tone-wait"><summary>${icon('warn')} ${counted(count, 'warning')}</summary>
      <ul>${run.warnings.map((warning) => html`<li>${warning}</li>`)}</ul>
      ${run.more_warnings ? html`<p class="muted">${run.more_warnings} more are in the log.</p>` : nothing}</details>` : nothing}
    ${run.sandbox.length ? html`<details class="note-box"><summary>${icon('lock')} commands: ${prose(isolations.join(', '))}${open.size
      ? ` · what is not protected (${open.size})` : ''}</summary>${run.sandbox.map(({ agents, isolation, leaves_open: left }) => html`<p><bdi>${agents.join(', ')}</bdi>:
        ${prose(isolation)}${left.length ? '; not protected:' : ''}</p>${left.length ? html`<ul>${left.map((what) => html`<li>${prose(what)}</li>`)}</ul>` : nothing}`)}</details>` : nothing}`;
}

/** The way to the other runs of the session, if there are any. @param {RunRow | undefined} row */
function sessionLink(row) {
  const session = row?.session;
  /** @type {RunRow[]} */
  const runs = load('runs', askRuns).value?.runs ?? [];
  const count = session ? runs.filter((run) => run.session === session).length : 0;
  return session && count > 1 ? html`<a href="#/" @click=${() => filterRuns(session)}>one of ${count} turns of a session</a>` : nothing;
}

/** The way to the pipeline of which a run is a stage, and whose limits it has. @param {Context} context @param {string} pipeline */
function pipelineLink(context, pipeline) {
  const isLimited = Object.values(limitsOf(context)).some((limit) => limit > 0);
  return html`<a href=${runHref(pipeline)}>stage of a pipeline</a>${isLimited ? html` <span class="muted">limited to what the pipeline had left</span>` : nothing}`;
}

/** How the run ended, and what became of its files since. @param {RunStream} stream @param {RunRow | undefined} row */
function summaryNow(stream, row) {
  const summary = stream.run?.summary ?? '';
  const later = stream.run?.phase === 'ended' ? laterOutcome(row) : null;
  /** @type {DeliverySection} */
  const { agent, rows } = stream.sections.get('delivery') ?? { rows: null };
  const isDeclined = (/** @type {DeliveryRow} */ { outcome }) => outcome === 'declined';
  if (/undone/.test(later ?? '') || (later === 'partly applied' && rows?.every(isDeclined))) return `${summary}; ${later} since`;
  const hadRest = rows?.some((delivered) => isDeclined(delivered) || (delivered.hunks?.taken ?? 0) < (delivered.hunks?.total ?? 0));
  return hadRest && row?.outcome === 'delivered' ? `${agent} answered; the rest of the delivery was applied since the run ended` : summary;
}

/** @param {Context} context @param {RunRow | undefined} row */
function header(context, row) {
  const { stream, info } = context;
  const { run } = stream;
  if (!run) return html`<header class="run-head"><h1 tabindex="-1">${stream.id}</h1></header>`;
  const isLong = run.task.length > TASK_CHARS || run.task.includes('\n');
  const short = run.task.split('\n')[0].slice(0, TASK_CHARS);
  return html`<header class="run-head">
    <div class="row wrap">${runState(stream, row)}${connection(stream)}<h1 tabindex="-1" class="task">${short || stream.id}${isLong ? ' …' : ''}</h1><span class="grow"></span>
      ${row?.resumable && run.status !== 'limit' && !stream.isLive && !info.read_only
        ? html`<button class="button small primary" id="resume" @click=${() => resumeRun(stream.id, () => stream.restart())}>Continue</button>` : nothing}
      ${row?.session && !stream.isLive && !info.read_only ? html`<a class="button small" title="Gives the agents another task: they keep what they know" href=${hrefTo(['new'], { continue: row.session })}>Next turn</a>` : nothing}</div>
    <div class="row wrap meta">${phases(stream)}<span class="num" title="Elapsed">${clock(stream.now)}</span>
      ${usageMeters(context)}
      ${batchOf(stream.id) ? html`<a href=${hrefTo(['batches', /** @type {string} */ (batchOf(stream.id))])}>cell of a batch</a>` : nothing}
      ${row?.pipeline ? pipelineLink(context, row.pipeline) : sessionLink(row)}
      ${isLong ? html`<details class="note-box"><summary>whole task</summary><p class="plain" tabindex="0">${run.task}</p></details>` : nothing}
      ${run.restart > 0 ? html`<span class="chip">restart ${run.restart}</span>` : nothing}${notes(stream)}</div>
    ${isPipeline(stream.id) && row?.resumable && run.status === 'limit' && !stream.isLive && !info.read_only ? lazily('pipeline', () => import('./pipeline.js'), (module) => module.limitForm(stream)) : nothing}
    ${resumeFailure(stream.id)}
    ${run.summary ? html`<p class="summary">${prose(summaryNow(stream, row))}</p>` : nothing}
    ${run.server_progress ? html`<p class="muted">${run.server_progress}</p>` : nothing}</header>`;
}

/** @param {RunStream} stream @param {string} here */
function tabs(stream, here) {
  const paths = isPipeline(stream.id) ? PIPELINE_VIEWS : batchOf(stream.id) ? CELL_VIEWS : null;
  const shown = VIEWS.filter(([path]) => paths?.includes(path) ?? true);
  for (const [path, name, key] of shown) onKey(`g ${key}`, name.toLowerCase(), () => go(runHref(stream.id, path ? [path] : [])), 'Run');
  const count = /** @type {Record<string, number>} */ ({ answers: stream.ballot.answers.length, votes: stream.ballot.votes.filter((vote) => !vote.is_void).length });
  return html`<nav class="run-tabs" aria-label="Views of the run">${shown.map(([path, name]) => html`<a href=${runHref(stream.id, path ? [path] : [])}
    aria-current=${path === here ? 'page' : nothing}>${name}${count[path] ? html` <span class="count">${count[path]}</span>` : nothing}</a>`)}</nav>`;
}

/** @param {RunStream} stream */
function overview(stream) {
  const [noun, links] = isPipeline(stream.id) ? ['stage', '.stage-link'] : ['agent', '.column h3 a'];
  onKey('j', `next ${noun}`, () => moveFocus(links, 1));
  onKey('k', `previous ${noun}`, () => moveFocus(links, -1));
  const delivery = stream.sections.get('delivery');
  const answer = delivery?.answer ? html`<details class="panel final-answer" open><summary>Final answer of <bdi>${delivery.agent}</bdi></summary>
    ${lazily('markdown', () => import('./markdown.js'), (module) => module.markdown(delivery.markdown, delivery.answer, 2))}</details>` : nothing;
  if (isPipeline(stream.id)) return html`<h2 class="hidden">Overview</h2>${answer}${lazily('pipeline', () => import('./pipeline.js'), (module) => module.pipelineView(stream))}`;
  return html`<h2 class="hidden">Overview</h2>${ballotStrip(stream)}${answer}${agentColumns(stream)}`;
}

/** @param {Context} context @param {string} view */
function body({ stream, info, route }, view) {
  const answer = route.params.get('answer') ?? '';
  switch (view) {
    case '': return overview(stream);
    case 'votes': return votesView(stream);
    case 'agents': return lazily('log', () => import('./log.js'), (log) => agentView(stream, route.parts[3] ?? '', log.transcript));
    case 'answers': return lazily(view, () => import('./answers.js'), (module) => module.answersView(stream, route));
    case 'diff': return lazily(view, () => import('./compare.js'), (module) => module.compareView(stream, route));
    case 'delivery': return lazily(view, () => import('./delivery.js'), (module) => module.deliveryView(stream, { isReadOnly: info.read_only, directory: info.directory, answer }));
    case 'timeline': return lazily(view, () => import('./timeline.js'), (module) => module.timelineView(stream));
    case 'cost': return lazily(view, () => import('./cost.js'), (module) => module.costView(stream));
    case 'log': return lazily(view, () => import('./log.js'), (module) => module.logView(stream));
    default: return empty('This address names no view.', html`<a href=${runHref(stream.id)}>Overview of the run</a>`);
  }
}

const askRuns = () => get('/api/runs?limit=500');
/** The run for which the list was read again, because it was not in it. */
let missingRun = '';
/** Waits before the list is read again, because the run has ended since: the first one, in milliseconds, and the
 * last one. Each is twice the one before. */
const OUTDATED_MS = 300;
const OUTDATED_MS_MAX = 5000;
/** What was read of the run in view, and the wait before the list is read again. */
const outdated = { stream: /** @type {RunStream | null} */ (null), reading: /** @type {symbol | null} */ (null), wait: OUTDATED_MS, timer: 0 };

/** Begins to wait anew when another run is in view, or this one is read again as it was resumed: then what was
 * loaded of it is too. Returns whether it was. @param {RunStream} stream */
function noteReading(stream) {
  const { id, reading } = stream;
  if (outdated.reading === reading) return false;
  const isResumed = outdated.stream === stream;
  clearTimeout(outdated.timer);
  Object.assign(outdated, { stream, reading, wait: OUTDATED_MS, timer: 0 });
  if (isResumed) for (const what of ['answer', 'diff', 'delivery']) forget(`${what} ${id} `);
  return isResumed;
}

/** The row of this run in the list of runs. @param {RunStream} stream @returns {RunRow | undefined} */
function rowOf(stream) {
  const { id, state: progress } = stream;
  if (batchOf(id)) return undefined;
  const { state: listed, value } = load('runs', askRuns);
  if (noteReading(stream) && listed !== 'loading') refresh('runs', askRuns);
  const row = value?.runs.find((/** @type {RunRow} */ run) => run.id === id);
  if (value && !row && missingRun !== id) {
    missingRun = id;
    refresh('runs', askRuns);
  }
  if (row && progress === 'ended' && (row.live || row.state === 'running') && !outdated.timer) {
    outdated.timer = window.setTimeout(() => {
      outdated.timer = 0;
      refresh('runs', askRuns);
    }, outdated.wait);
    outdated.wait = Math.min(2 * outdated.wait, OUTDATED_MS_MAX);
  }
  return row;
}

/** Reads the list again when the page is looked at: a terminal may have applied or undone files of the run. */
async function refreshShown() {
  const { stream } = outdated;
  if (!stream || !location.hash.startsWith(runHref(stream.id)) || document.visibilityState !== 'visible') return;
  const outcome = () => load('runs', askRuns).value?.runs.find((/** @type {RunRow} */ run) => run.id === stream.id)?.outcome;
  const before = outcome();
  await refresh('runs', askRuns);
  if (outcome() !== before) forget(`diff ${stream.id} `);
}
window.addEventListener('focus', refreshShown);

/** The run that the page can steer in this view: the run itself, or the pipeline of which it is a stage.
 * @param {RunRow | undefined} row @returns {string | null} */
function steeredRun(row) {
  if (!row || row.live) return row?.id ?? null;
  const runs = row.pipeline ? load('runs', askRuns).value?.runs ?? [] : [];
  return runs.some((/** @type {RunRow} */ run) => run.id === row.pipeline && run.live) ? row.pipeline : null;
}

/** @param {Context} context */
export function runView(context) {
  const { stream, info, route } = context;
  const view = route.parts[2] ?? '';
  const row = rowOf(stream);
  if (stream.state === 'failed') return html`<div class="page"><h1 tabindex="-1">${stream.id}</h1>${failure(stream.error)}<p><a href="#/">All runs</a></p></div>`;
  if (!isPipeline(stream.id)) agentKeys(stream);
  const steered = stream.isLive && !info.read_only ? steeredRun(row) : null;
  const agent = view === 'agents' ? route.parts[3] ?? null : null;
  return html`<div class="run ${stream.isLive ? 'live' : ''}">${header(context, row)}${tabs(stream, view === 'agents' ? 'none' : view)}
    ${questionPanel(stream, !info.read_only, view === 'delivery')}
    <div class="run-body">${stream.run ? body(context, view) : loading('Loading the run …')}</div>
    ${commentBar(stream.id, row?.session ?? null, !info.read_only)}
    ${steered && !isReviewed(stream) ? steeringLine(stream, agent, steered) : nothing}</div>`;
}

/** The number of questions that wait, and the title of the tab. @param {Context} context */
export function runTitle({ stream }) {
  const count = pending(stream).length;
  const task = stream.run?.task.split('\n')[0].slice(0, 60) ?? stream.id;
  return `${count ? `(${count}) ` : ''}${task} - massgen`;
}
