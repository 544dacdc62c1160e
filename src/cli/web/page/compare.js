// The diff of an answer: against the project, or against another answer.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { get, query, runPath } from './api.js';
import { empty } from './elements.js';
import { valueOf } from './keys.js';
import { forget, load } from './redraw.js';
import { Review, diffToggles, filesOf, reviewBody, whenDiff } from './review.js';
import { replaceParams, runHref } from './router.js';

/** @type {Review | null} */
let review = null;

/** @param {RunStream} stream @param {Route} route */
export function compareView(stream, route) {
  const { answers, winner } = stream.ballot;
  if (!answers.length) return empty(stream.isLive ? 'No answers yet.' : 'No agent answered.', 'A diff shows what an answer changes in your files.');
  const labels = answers.map((answer) => answer.label);
  const answer = labels.find((label) => label === route.params.get('answer')) ?? winner?.label ?? labels[labels.length - 1];
  const against = labels.find((label) => label === route.params.get('against')) ?? '';
  const key = `diff ${stream.id} ${answer} ${against}`;
  if (review?.key !== key) review = new Review(stream.id, key);
  const shown = review;
  const loaded = load(key, () => get(runPath(stream.id, 'diff') + query({ answer, against })));
  const choose = (/** @type {string} */ name) => (/** @type {Event} */ event) =>
    replaceParams(route, { [name]: valueOf(event) });
  const fileless = answers.filter((one) => [answer, against].includes(one.label) && !one.has_files).map(({ label }) => label);
  const option = (/** @type {string} */ label, /** @type {string} */ chosen) => html`<option value=${label} ?selected=${label === chosen}>${label} - ${answers
    .find((one) => one.label === label)?.agent}</option>`;
  return html`<div class="stack wide"><div class="bar"><h2>Diff</h2>
      <label>of <select class="input" @change=${choose('answer')}>${labels.map((label) => option(label, answer))}</select></label>
      <label>against <select class="input" @change=${choose('against')}><option value="" ?selected=${!against}>the project</option>
        ${labels.filter((label) => label !== answer).map((label) => option(label, against))}</select></label>${diffToggles()}
      ${stream.isLive || against ? nothing : html`<a class="button small" href=${runHref(stream.id, ['delivery'], { answer })}>Apply from it …</a>`}</div>
    ${fileless.length && loaded.state === 'failed' ? empty(`${fileless.join(' and ')} ${fileless.length > 1 ? 'have' : 'has'} no files, only text.`, html`<a href=${runHref(stream.id, ['answers'], { left: answer })}>Read the answer</a>`)
      : whenDiff(loaded, (value) => reviewBody(shown, filesOf(value), null), () => forget(key))}</div>`;
}
