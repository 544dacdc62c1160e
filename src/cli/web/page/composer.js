// Starting a run: the task with its `@` mentions, the team, a preview of what each agent would be
// told, and the question before a path is opened for writing. Also the next turn of a session.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { post, refusedField } from './api.js';
import { commentsOf, discardComments, taskOf } from './comments.js';
import { chip, empty, failure, icon, openDialog } from './elements.js';
import { counted } from './format.js';
import { valueOf } from './keys.js';
import { focusRefused, givenLimits, limitFields, limitWords } from './limits.js';
import { allIsPasted, forgetPasted, noteInput, noteTransfer, pastedParts } from './pasted.js';
import { FilePicker, mayBegin } from './picker.js';
import { drawNow, forget, onceDrawn, redraw } from './redraw.js';
import { go, runHref } from './router.js';

/** @typedef {{task: string, team: string, limits: import('./limits.js').TypedLimits, isReviewed: boolean, picker: FilePicker | null, isSending: boolean, error: any, preview: any,
 *   asks: {opens: string[], writes: string[], reasons: Record<string, string>} | null, filledFrom: string}} ComposerState */

/** @type {ComposerState} */
const composer = { task: sessionStorage.getItem('massgen-task') ?? '', team: '', limits: {}, isReviewed: false, picker: null, isSending: false, error: null, preview: null, asks: null, filledFrom: '' };

if (!composer.task) forgetPasted();

/** @param {string} task */
function setTask(task) {
  if (!task) forgetPasted();
  composer.task = task;
  sessionStorage.setItem('massgen-task', task);
}

/** Opens the picker after an `@` was typed where a mention may begin. @param {InputEvent} event */
function taskTyped(event) {
  const area = /** @type {HTMLTextAreaElement} */ (event.target);
  // The picker sends events of its own, and notes what is typed into it.
  if (event.isTrusted) noteInput(event);
  setTask(area.value);
  const at = area.selectionStart - 1;
  const isSign = event.data?.endsWith('@') && area.value[at] === '@' && !event.isComposing;
  if (isSign && mayBegin(area.value.slice(0, at))) openPicker(area, at);
  redraw();
}

/** Opens the picker, which gets every key from now on. @param {HTMLTextAreaElement} area @param {number} at */
function openPicker(area, at) {
  composer.picker = new FilePicker(area, at);
  drawNow();
  const input = /** @type {HTMLInputElement | null} */ (document.getElementById('picker-input'));
  if (!input) return;
  // It may be the element of a picker that was closed since the last frame.
  input.value = '';
  input.focus();
}

/** @param {Team | undefined} team */
const hasIterations = (team) => team?.max_iterations != null;

/** Whether a review can be chosen: a pipeline is applied after its end anyway. @param {Team | undefined} team */
const mayReview = (team) => Boolean(team && !team.stages && !team.review);

/** @param {{dry_run?: boolean, opens?: string[]}} options @param {string | null} session @param {Team | undefined} team */
async function send(options, session, team) {
  composer.isSending = true;
  composer.error = null;
  composer.asks = null;
  redraw();
  try {
    const limits = givenLimits(composer.limits, hasIterations(team));
    const review = (composer.isReviewed && mayReview(team)) || undefined;
    const body = { task: composer.task, team: team?.id, continue: session ?? undefined, limits, review, pasted: pastedParts(), ...options };
    const reply = await post('/api/runs', body);
    if (options.dry_run) composer.preview = reply;
    else {
      discardComments(composer.filledFrom);
      setTask('');
      composer.limits = {};
      composer.preview = null;
      composer.filledFrom = '';
      forget('runs');
      go(runHref(reply.run));
    }
  } catch (error) {
    const { status, details } = /** @type {any} */ (error);
    if (status === 409 && details?.opens) {
      composer.asks = { opens: details.opens, writes: details.writes ?? details.opens, reasons: details.reasons ?? {} };
      onceDrawn(() => openDialog('opens'));
    } else {
      composer.error = error;
      focusRefused('limit', error);
    }
  }
  composer.isSending = false;
  redraw();
}

/** @param {string | null} session @param {Team | undefined} team */
function opensDialog(session, team) {
  const { asks } = composer;
  if (!asks) return nothing;
  const close = () => {
    // The event comes with the next frame: another question may have been asked meanwhile.
    if (composer.asks === asks) composer.asks = null;
    redraw();
  };
  return html`<dialog id="opens" aria-labelledby="opens-title" @close=${close}><h2 id="opens-title">${icon('ask')} The task opens these paths</h2>
    <ul class="effects">${asks.opens.map((path) => html`<li><bdi>${path}</bdi> ${chip(asks.writes.includes(path) ? 'opens for writing' : 'opens for reading', 'ask')}${asks.reasons[path] ? html`<p class="warning">${asks.reasons[path]}</p>` : nothing}</li>`)}</ul>
    <p class="muted">The agents may ${asks.writes.length ? 'change what is opened for writing' : 'read what is opened'}, in this run only.</p>
    <div class="row"><button class="button primary" @click=${() => send({ opens: asks.opens }, session, team)}>Open and start</button>
      <button class="button" @click=${(/** @type {Event} */ event) => /** @type {Element} */ (event.target).closest('dialog')?.close()}>Cancel</button></div></dialog>`;
}

/** What a run would do, as the server says it. @param {any} preview */
function previewPanel(preview) {
  const text = preview.text ?? preview.preview ?? JSON.stringify(preview.dry_run ?? preview, null, 2);
  return html`<section class="panel" aria-labelledby="preview"><h2 id="preview" tabindex="-1">Dry run: what each agent may do and its first prompt</h2>
    ${preview.notes ? html`<p class="warning">${preview.notes}</p>` : nothing}
    <pre class="output tall" role="region" tabindex="0" aria-label="Dry run">${text}</pre></section>`;
}

/** The folded fields of the limits. @param {Team} team @param {(event: KeyboardEvent) => void} key */
function limitsPanel(team, key) {
  const { limits: typed, error } = composer;
  const changed = () => {
    if (refusedField(error)) composer.error = null;
    composer.preview = null;
    redraw();
  };
  return html`<details class="panel" id="limits" @keydown=${key}><summary>Limits <span class="muted">${limitWords(typed, hasIterations(team)) || 'those of the config'}</span></summary>
    <p class="muted">What you type replaces the limit of the config in this run, up or down.${team.stages ? ' The time is that of each stage.' : nothing}</p>
    ${limitFields({ prefix: 'limit', typed, hasIterations: hasIterations(team), now: team, whose: 'config', error, changed })}</details>`;
}

/** When files of the project change. @param {Team | undefined} team */
function reviewChoice(team) {
  if (team?.review) return html`<p class="muted">What the winner delivers waits for your review.</p>`;
  if (!mayReview(team)) return nothing;
  const toggle = () => {
    composer.isReviewed = !composer.isReviewed;
    composer.preview = null;
    redraw();
  };
  return html`<label class="check"><input type="checkbox" id="review" .checked=${composer.isReviewed} @change=${toggle}> Ask me before files of the project change</label>`;
}

/** @param {{info: Info, route: Route}} context */
export function composerView({ info, route }) {
  if (info.read_only) return html`<h1 class="hidden">New run</h1>${empty('The page is read-only.', html`The server was started with <code>--read-only</code>.`)}`;
  const session = route.params.get('continue');
  const run = route.params.get('comments');
  if (run && composer.filledFrom !== run && commentsOf(run).length) {
    composer.filledFrom = run;
    // Comments quote what agents wrote.
    allIsPasted();
    setTask(taskOf(commentsOf(run)));
  }
  // A pipeline is not part of a session.
  const teams = info.teams.filter((team) => !session || !team.stages);
  const team = teams.find((one) => one.id === composer.team) ?? teams[0];
  const id = team?.id ?? '';
  const start = () => {
    if (composer.task.trim() && !composer.isSending) send({}, session, team);
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) start();
    else if (event.key === 'Escape') /** @type {HTMLElement} */ (event.target).blur();
    else return;
    event.preventDefault();
  };
  const choose = (/** @type {Event} */ event) => {
    composer.team = valueOf(event);
    composer.preview = null;
    redraw();
  };
  const isReady = composer.task.trim() !== '' && !composer.isSending;
  return html`<div class="page narrow"><h1 tabindex="-1">${session ? 'Next turn' : 'New run'}</h1>
    ${session ? html`<p class="muted">It continues the session <code>${session}</code>: agents keep what they know and what was opened.</p>` : nothing}
    <div class="composer"><label for="task">Task</label>
      <textarea id="task" class="input" rows="8" aria-describedby="task-help" placeholder="What should the agents do?" .value=${composer.task} @input=${taskTyped} @paste=${noteTransfer} @drop=${noteTransfer} @keydown=${key}></textarea>
      <p id="task-help" class="muted"><kbd>@</kbd> names a file or directory that the agents may read; <code>:w</code> after it opens it for writing. <kbd>Ctrl</kbd> <kbd>Enter</kbd> starts.</p>
      ${composer.picker?.view() ?? nothing}</div>
    <div class="row"><label for="team">Team</label><select id="team" class="input" @change=${choose}>${teams.map((one) => html`<option value=${one.id} ?selected=${one.id === id}>${one.name}</option>`)}</select></div>
    ${team?.stages ? html`<p>Pipeline: <bdi>${team.stages.join(' → ')}</bdi></p>` : nothing}
    ${team ? html`<ul class="team" aria-label="Its agents">${team.agents.map((agent) => html`<li><b><bdi>${agent.id}</bdi></b> <span class="muted"><bdi>${agent.model ?? ''}</bdi></span></li>`)}</ul>
      ${team.max_cost_usd && !composer.limits.max_cost_usd ? html`<p class="muted">${counted(team.agents.length, 'agent')}, at most $${team.max_cost_usd}.</p>` : nothing}${limitsPanel(team, key)}`
      : info.teams.length ? failure(new Error('A session is continued by a team of agents, and the server was started with pipelines only.'))
      : html`<p>No agents are configured, so nothing can be started here yet. <a href="#/config">Write a config</a>, and start the server again with it.
        To try massgen without an API key, stop the server and start <code>massgen web --config @examples/basic/offline_demo</code>.</p>`}
    ${composer.error && !refusedField(composer.error) ? failure(composer.error) : nothing}
    ${reviewChoice(team)}
    <div class="row"><button class="button primary" id="start" ?disabled=${!isReady || !team} @click=${start}>${session ? 'Start the turn' : 'Start'}</button>
      <button class="button" id="dry-run" title="Shows the permissions and the first prompt of each agent, without starting the run" ?disabled=${!isReady || !team} @click=${() => send({ dry_run: true }, session, team)}>Dry run</button></div>
    ${composer.preview ? previewPanel(composer.preview) : nothing}${opensDialog(session, team)}</div>`;
}
