// The limits of a run as fields. What is typed replaces a limit of the config, as a flag does: the server
// judges it, and what it refuses is said beside the field.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { refusedField } from './api.js';
import { icon, prose } from './elements.js';
import { valueOf } from './keys.js';
import { onceDrawn } from './redraw.js';

/** What was typed, by the names of the limits. @typedef {Record<string, string>} TypedLimits */

/** The limits: name, label and keyboard. @type {[keyof Limits, string, 'decimal' | 'numeric'][]} */
const LIMITS = [['max_cost_usd', 'Cost in US dollars', 'decimal'], ['max_tokens_total', 'Tokens', 'numeric'], ['max_tool_calls', 'Tool calls', 'numeric'],
  ['orchestrator_timeout_seconds', 'Time in seconds', 'numeric'], ['max_iterations', 'Iterations', 'numeric']];

/** The limits that a run may have. @param {boolean} hasIterations */
const limitsOf = (hasIterations) => LIMITS.filter(([name]) => hasIterations || name !== 'max_iterations');

/** The limits that were typed, as a request has them. @param {TypedLimits} typed @param {boolean} hasIterations
 * @returns {TypedLimits} */
export const givenLimits = (typed, hasIterations) => Object.fromEntries(limitsOf(hasIterations)
  .map(([name]) => [name, (typed[name] ?? '').trim()]).filter(([, text]) => text));

/** The limits that were typed, in words. @param {TypedLimits} typed @param {boolean} hasIterations */
export function limitWords(typed, hasIterations) {
  const given = givenLimits(typed, hasIterations);
  return limitsOf(hasIterations).filter(([name]) => given[name]).map(([name, label]) => `${label}: ${given[name]}`).join(' · ');
}

/** Moves the focus to the limit that the server refused, once it is drawn. @param {string} prefix @param {any} error */
export function focusRefused(prefix, error) {
  const name = refusedField(error);
  if (!name) return;
  onceDrawn(() => {
    const field = document.getElementById(`${prefix}-${name}`);
    const folded = field?.closest('details');
    if (folded) folded.open = true;
    field?.focus();
  });
}

/** The fields; `now` are the limits that they replace, as far as they are known, and `whose` says in a word whose
 * those are. @param {{prefix: string, typed: TypedLimits, hasIterations: boolean, now: Limits | undefined, whose: string,
 * error: any, changed: () => void}} form */
export function limitFields({ prefix, typed, hasIterations, now, whose, error, changed }) {
  return html`<div class="limits">${limitsOf(hasIterations).map(([name, label, keyboard]) => {
    const id = `${prefix}-${name}`;
    const isKnown = now?.[name] !== undefined;
    const isRefused = refusedField(error) === name;
    const described = [isKnown && `${id}-now`, isRefused && `${id}-error`].filter(Boolean).join(' ');
    const type = (/** @type {Event} */ event) => {
      typed[name] = valueOf(event);
      changed();
    };
    return html`<div class="answer-field"><label for=${id}>${label}</label>
      <input id=${id} class="input" type="text" inputmode=${keyboard} autocomplete="off" spellcheck="false" aria-describedby=${described || nothing}
        aria-invalid=${String(isRefused)} .value=${typed[name] ?? ''} @input=${type}>
      ${isKnown ? html`<p id="${id}-now" class="muted">${whose}: ${now?.[name] ?? 'no limit'}</p>` : nothing}
      ${isRefused ? html`<p id="${id}-error" class="finding tone-bad">${icon('bad')} <span>${prose(error.message.replace(/^`\w+`: /, ''))}${(error.hints ?? [])
        .map((/** @type {string} */ hint) => html`<br>hint: ${prose(hint)}`)}</span></p>` : nothing}</div>`;
  })}</div>`;
}
