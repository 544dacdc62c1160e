// Keys: what each does in the current view, the table of them that `?` shows, and which keys are left
// alone because a person types or a dialog is open.

import { html } from './vendor/lit-html/lit-html.js';
import { openDialog } from './elements.js';

/** @typedef {{keys: string, label: string, run: () => void, group: string}} Binding */

/** @type {Binding[]} */
let bindings = [];
/** The first key of a pair such as `g r`, while the second one is awaited, and when it was pressed. */
let pending = { key: '', time: 0 };
/** Time for the second key, in milliseconds. */
const PAIR_MS = 1200;

/** Forgets all keys, before the views name theirs while they are drawn. */
export function beginKeys() {
  bindings = [];
}

/** Names a key of the current view. @param {string} keys @param {string} label @param {() => void} run
 * @param {string} [group] */
export function onKey(keys, label, run, group = 'This view') {
  bindings.push({ keys, label, run, group });
}

/** The text in the control of an event. @param {Event} event */
export const valueOf = (event) => /** @type {HTMLInputElement} */ (event.target).value;

/** Lets Escape leave an input, so that keys count again. @param {KeyboardEvent} event */
export function leaveOnEscape(event) {
  if (event.key === 'Escape') /** @type {HTMLElement} */ (event.target).blur();
}

/** @param {Element | null} element */
export function isTyping(element) {
  if (!(element instanceof HTMLElement)) return false;
  if (element instanceof HTMLInputElement) return !['checkbox', 'radio', 'button'].includes(element.type);
  return element.matches('textarea, select, [contenteditable]');
}

/** @param {KeyboardEvent} event */
function handle(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (isTyping(document.activeElement) || document.querySelector('dialog[open]')) return;
  // A busy page may read a key long after it was pressed.
  const isSecond = pending.key && event.timeStamp - pending.time <= PAIR_MS;
  const pair = isSecond ? `${pending.key} ${event.key}` : event.key;
  pending.key = '';
  const found = bindings.findLast(({ keys }) => keys.split(', ').includes(pair));
  if (found) {
    event.preventDefault();
    found.run();
  } else if (bindings.some(({ keys }) => keys.startsWith(`${event.key} `))) {
    pending = { key: event.key, time: event.timeStamp };
  }
}

export function listenToKeys() {
  document.addEventListener('keydown', handle);
}

/** Shows all keys of the current view. */
export const openHelp = () => openDialog('help');

/** @returns {any} */
export function helpDialog() {
  const groups = [...new Set(bindings.map(({ group }) => group))];
  const row = (/** @type {Binding} */ { keys, label }) => html`<div>
    <dt>${keys.split(', ').map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${label}</dd></div>`;
  return html`<dialog id="help" aria-labelledby="help-title"><form method="dialog">
    <h2 id="help-title">Keys</h2>
    ${groups.map((group) => html`<h3>${group}</h3><dl class="keys">${bindings
      .filter((binding) => binding.group === group).map(row)}</dl>`)}
    <button class="button primary">Close</button></form></dialog>`;
}

/** Moves the focus among the elements that match. @param {string} selector @param {number} step */
export function moveFocus(selector, step) {
  const all = [...document.querySelectorAll(selector)];
  const at = all.findIndex((element) => element.contains(document.activeElement));
  const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step))];
  if (next instanceof HTMLElement) {
    next.focus();
    next.scrollIntoView({ block: 'nearest' });
  }
}
