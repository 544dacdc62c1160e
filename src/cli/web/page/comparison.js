// Two batches compared: what follows in sentences, the tasks that only one team solves, and the figures of both.
// All of it is computed by the server.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { empty } from './elements.js';
import { counted } from './format.js';
import { runHref } from './router.js';

/** Number of tasks that are named of each team. */
const TASKS_MAX = 50;

/** @param {number} value */
const percent = (value) => `${Math.round(value * 100)}%`;
/** @param {number} value */
const dollars = (value) => `$${value.toFixed(4)}`;

/** @param {(value: number) => string} text */
const within = (text) => (/** @type {Estimate} */ { value, low, high }) => html`${text(value)} <span class="muted">(${text(low)} to ${text(high)})</span>`;

/** The figures of a batch: key, name, and how a value is written. @type {[keyof Figures, string, (value: any) => any][]} */
const FIGURES = [['tasks', 'tasks', String], ['selected', 'solved', within(percent)], ['best', 'solved by a perfect choice', within(percent)],
  ['votes_alone', 'solved by the votes alone', within(percent)], ['checks_alone', 'solved by the checks alone', within(percent)],
  ['selection_efficiency', 'selection efficiency', within(percent)], ['cost_usd', 'cost of a task', within(dollars)],
  ['cost_usd_of_success', 'cost of a solved task', within(dollars)], ['tokens_of_success', 'tokens of a solved task', within((value) => value.toFixed(0))],
  ['minutes_of_success', 'minutes of a solved task', within((value) => value.toFixed(2))], ['selection_share', 'tokens for the selection', percent],
  ['presentation_share', 'tokens for the presentation', percent]];

/** The tasks that only one of two teams solves; each leads to its run. @param {string} team @param {string} batch @param {string[]} tasks */
function onlySolved(team, batch, tasks) {
  if (!tasks.length) return nothing;
  return html`<p>Only <b><bdi>${team}</bdi></b> solves ${counted(tasks.length, 'task')}:
    ${tasks.slice(0, TASKS_MAX).map((task, at) => html`${at ? ', ' : ''}<a href=${runHref(`${batch}:${task}`)}>${task}</a>`)}${tasks.length > TASKS_MAX ? ', …' : ''}</p>`;
}

/** @param {ComparisonReply} reply */
export function comparisonView({ batches, differences }) {
  if (!batches.every(({ tasks }) => tasks)) return empty('One of the batches has no result yet.');
  const models = [...new Set(batches.flatMap((batch) => Object.keys(batch.pass_at_1)))];
  const row = (/** @type {string} */ name, /** @type {any[]} */ values, /** @type {(value: any) => any} */ text) => (values.every((value) => value == null) ? nothing
    : html`<tr><th scope="row"><bdi>${name}</bdi></th>${values.map((value, at) => html`<td data-name=${batches[at].team}>${value == null ? '-' : text(value)}</td>`)}</tr>`);
  return html`${differences.map(({ first, second, sentences, only_first: onlyFirst, only_second: onlySecond }) => html`<section class="stack" aria-label="Result">
      ${sentences.map((sentence) => html`<p>${sentence.replace(/^(a|the) /, (word) => word[0].toUpperCase() + word.slice(1))}.</p>`)}
      ${onlySolved(first, batches[0].batch, onlyFirst)}${onlySolved(second, batches[1].batch, onlySecond)}</section>`)}
    ${batches.filter(({ unjudged }) => unjudged.length).map(({ team, unjudged }) => html`<p>${counted(unjudged.length, 'task')} of <bdi>${team}</bdi> ${unjudged.length === 1 ? 'is' : 'are'} left out: the judge gave no verdict.</p>`)}
    <p class="muted">In parentheses: the range in which a figure lies with 95% certainty.</p>
    <div class="scroll" role="region" tabindex="0" aria-label="Figures of both batches"><table class="rows"><thead><tr><td></td>${batches.map(({ team }) => html`<th scope="col"><bdi>${team}</bdi></th>`)}</tr></thead>
      <tbody>${FIGURES.slice(0, 2).map(([key, name, text]) => row(name, batches.map((batch) => batch[key]), text))}
        ${models.map((model) => row(`solved by one attempt of ${model}`, batches.map((batch) => batch.pass_at_1[model]), within(percent)))}
        ${FIGURES.slice(2).map(([key, name, text]) => row(name, batches.map((batch) => batch[key]), text))}</tbody></table></div>`;
}
