// Small parts that several views use: icons, states as shape and word, chips, and what is shown while
// something loads, fails or is empty.

import { html, nothing, svg } from './vendor/lit-html/lit-html.js';
import { duration } from './format.js';

/** The outlines of all icons, in a square of 16. @type {Record<string, any>} */
const ICONS = {
  done: svg`<circle cx="8" cy="8" r="7" class="fill"/><path d="M4.8 8.2 7 10.4l4.3-4.6" class="cut"/>`,
  work: svg`<circle cx="8" cy="8" r="6" class="dim"/><path d="M8 2a6 6 0 0 1 6 6" class="turn"/>`,
  idle: svg`<circle cx="8" cy="8" r="6" stroke-dasharray="2.4 2.3"/>`,
  ask: svg`<path d="M8 1 15 8 8 15 1 8Z" class="fill"/><path d="M8 4.6v4M8 10.6v.9" class="cut"/>`,
  wait: svg`<circle cx="8" cy="8" r="6"/><path d="M6.2 5.5v5M9.8 5.5v5"/>`,
  bad: svg`<path d="M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1Z" class="fill"/>
    <path d="m5.6 5.6 4.8 4.8m0-4.8-4.8 4.8" class="cut"/>`,
  warn: svg`<path d="M8 1.6 15 14H1Z"/><path d="M8 6v4M8 11.6v.7"/>`,
  file: svg`<path d="M3.5 1.5h6l3 3v10h-9Z"/><path d="M9.5 1.5v3h3"/>`,
  folder: svg`<path d="M1.5 3.5h5l1.5 2h6.5v8h-13Z"/>`,
  lock: svg`<path d="M3.5 7h9v7h-9Z"/><path d="M5.5 7V5a2.5 2.5 0 0 1 5 0v2"/>`,
  trophy: svg`<path d="M4.5 2h7v4a3.5 3.5 0 0 1-7 0Z"/><path d="M4.5 3H2c0 3 1 4 3 4M11.5 3H14c0 3-1 4-3 4M8 9.5V13M5 14h6"/>`,
  comment: svg`<path d="M2 2.5h12v8.5H8L4.5 14v-3H2Z"/>`,
  undo: svg`<path d="M5.5 3 2.5 6l3 3"/><path d="M2.5 6H10a3.5 3.5 0 0 1 0 7H6"/>`,
};

/** @param {string} name */
export const icon = (name) => html`<svg class="icon icon-${name}" viewBox="0 0 16 16" aria-hidden="true"
  focusable="false">${ICONS[name] ?? nothing}</svg>`;

/** A state: shape, word and colour. @param {string} tone @param {any} text */
export const state = (tone, text) => html`<span class="state tone-${tone}">${icon(tone)}<span>${text}</span></span>`;

/** A cell with a number, named where a table has no room for its head. @param {string} name @param {any} value */
export const numberCell = (name, value) => html`<td class="num" data-name=${name}>${value}</td>`;

/** @param {any} text @param {string} [tone] */
export const chip = (text, tone = '') => html`<span class="chip ${tone && `tone-${tone}`}">${text}</span>`;

/** Text with `code`, and links as their names. @param {string} text */
export const prose = (text) => text.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').split('`').map((part, at) => (at % 2 ? html`<code>${part}</code>` : part));

/** @param {string} text */
export const loading = (text) => html`<p class="note loading">${icon('work')} ${text}</p>`;

/** @param {string} title @param {any} [more] */
export const empty = (title, more = nothing) =>
  html`<div class="empty"><p class="empty-title">${title}</p>${more ? html`<p>${more}</p>` : nothing}</div>`;

/** @param {any} error @param {(() => void) | null} [again] */
export const failure = (error, again = null) => html`<div class="failure" role="alert">
  ${icon('bad')}<div><p><strong>${prose(error?.message ?? String(error))}</strong></p>
  ${(error?.hints ?? []).map((/** @type {string} */ hint) => html`<p class="hint">hint: ${prose(hint)}</p>`)}
  ${again ? html`<button class="button small" @click=${again}>Try again</button>` : nothing}</div></div>`;

/** Shows what `load` returned. @template T @param {Loaded<T>} loaded @param {string} what
 * @param {(value: T) => any} shown @param {(() => void) | null} [again] */
export function whenLoaded(loaded, what, shown, again = null) {
  if (loaded.state === 'ready') return shown(loaded.value);
  return loaded.state === 'failed' ? failure(loaded.error, again) : loading(`Loading ${what} …`);
}

/** The verdict of a check. @param {Check} check */
export function verdict(check) {
  const tone = { passed: 'done', failed: 'bad', not_run: 'wait' }[check.verdict] ?? 'idle';
  const word = { passed: 'passed', failed: 'failed', not_run: 'did not run' }[check.verdict] ?? check.verdict;
  return state(tone, `${check.check} ${word}`);
}

/** All checks of an answer with the ends of their outputs.
 * @param {Check[]} checks */
export const checkList = (checks) => html`<ul class="checks">${checks.map((check) => html`<li>
  <div class="row">${verdict(check)}<span class="muted num">${duration(check.elapsed_ms)}</span>
    ${check.need === 'told' ? html`<span class="muted">for information</span>` : nothing}</div>
  ${check.how || check.why ? html`<p class="muted">${check.how ?? check.why}</p>` : nothing}
  ${check.tail ? html`<pre class="output" tabindex="0" aria-label="Output of ${check.check}">${check.tail}</pre>`
    : nothing}</li>`)}</ul>`;

/** The steps of a plan, with the one in progress beside the count.
 * @param {PlanEntry[] | null | undefined} plan @param {string} owner whose plan it is */
export function planList(plan, owner) {
  if (!plan?.length) return nothing;
  const done = plan.filter((entry) => entry.status === 'completed').length;
  const current = plan.find((entry) => entry.status === 'in_progress');
  const tones = { pending: 'idle', in_progress: 'work', completed: 'done' };
  return html`<details class="plan"><summary><span class="chip">plan <b class="num">${done}/${plan.length}</b></span>
      <bdi class="muted">${current?.content}</bdi></summary>
    <ol aria-label="Plan of ${owner}">${plan.map((entry) => html`<li class=${entry.status}>${icon(tones[entry.status] ?? 'idle')}
      <span class="hidden">${entry.status.replace('_', ' ')}: </span><bdi>${entry.content}</bdi></li>`)}</ol></details>`;
}

/** The keys that do something, beside its name. @param {string} key */
export const kbd = (key) => html`<kbd>${key}</kbd>`;

/** Opens a dialog that is drawn, unless it is open. @param {string} id */
export function openDialog(id) {
  const dialog = /** @type {HTMLDialogElement | null} */ (document.getElementById(id));
  if (dialog && !dialog.open) dialog.showModal();
}
