// Answers side by side, each with its checks. Names can be hidden, so that one reads them as the
// agents did.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { get, runPath } from './api.js';
import { checkList, empty, icon, planList, whenLoaded } from './elements.js';
import { clock, counted } from './format.js';
import { onKey, valueOf } from './keys.js';
import { markdown } from './markdown.js';
import { forget, load, redraw } from './redraw.js';
import { batchOf, replaceParams, runHref } from './router.js';

let isAnonymous = false;

/** The name under which the agents know each other. @param {string} label */
const anonymousName = (label) => label.split('.')[0];

/** @param {BallotAnswer} answer @param {RunStream} stream */
function answerBody(answer, stream) {
  const key = `answer ${stream.id} ${answer.label}`;
  const loaded = load(key, () => get(runPath(stream.id, 'answers', answer.label)));
  return whenLoaded(loaded, `answer ${answer.label}`, (value) => markdown(value.markdown, value.content), () => forget(key));
}

/** @param {BallotAnswer} answer @param {RunStream} stream */
function answerColumn(answer, stream) {
  const { votes, winner } = stream.ballot;
  const own = votes.filter((vote) => vote.label === answer.label && !vote.is_void);
  const changes = answer.checks?.changes;
  const counts = changes ? Object.entries(changes).filter(([, value]) => typeof value === 'number') : [];
  return html`<article class="answer" aria-labelledby="answer-${answer.label}">
    <header class="row wrap"><h3 id="answer-${answer.label}" class="label">${answer.label}</h3>
      <bdi class="muted">${isAnonymous ? anonymousName(answer.label) : answer.agent}</bdi>
      ${winner?.label === answer.label && !isAnonymous ? html`<span class="tone-done mark">${icon('trophy')} winner</span>` : nothing}
      ${answer.is_replaced ? html`<span class="chip">replaced by a later answer</span>` : nothing}
      <span class="muted num">at ${clock(answer.at_ms)}</span><span class="num">${counted(own.length, 'vote')}</span><span class="grow"></span>
      ${batchOf(stream.id) ? nothing : html`<a class="button small" href=${runHref(stream.id, ['diff'], { answer: answer.label })}>Diff</a>`}</header>
    ${counts.length ? html`<p class="muted num">${counts.map(([name, value]) => `${name.replaceAll('_', ' ')} ${value}`).join(' · ')}</p>` : nothing}
    ${answer.checks?.checks.length ? checkList(answer.checks.checks) : nothing}
    ${planList(answer.plan, answer.label)}
    ${answerBody(answer, stream)}</article>`;
}

/** @param {RunStream} stream @param {Route} route */
export function answersView(stream, route) {
  const { answers } = stream.ballot;
  if (!answers.length) return stream.isLive ? empty('No answers yet.', 'They appear here as agents submit them.') : empty('No agent answered.');
  const labels = answers.map((answer) => answer.label);
  const wanted = (/** @type {string} */ name) => labels.find((label) => label === route.params.get(name));
  const current = answers.filter((answer) => !answer.is_replaced);
  const left = wanted('left') ?? stream.ballot.winner?.label ?? current[0]?.label ?? labels[0];
  const isAlone = route.params.get('right') === 'none';
  const right = isAlone ? undefined : wanted('right') ?? current.find((answer) => answer.label !== left)?.label;
  const choose = (/** @type {string} */ name) => (/** @type {Event} */ event) =>
    replaceParams(route, { [name]: valueOf(event) });
  const toggle = () => {
    isAnonymous = !isAnonymous;
    redraw();
  };
  const step = (/** @type {number} */ by) => {
    const at = labels.indexOf(left);
    replaceParams(route, { left: labels[(at + by + labels.length) % labels.length] });
  };
  onKey('j', 'next answer', () => step(1));
  onKey('k', 'previous answer', () => step(-1));
  onKey('h', 'hide or show names', toggle);
  const name = (/** @type {BallotAnswer} */ answer) => `${answer.label} - ${isAnonymous ? anonymousName(answer.label) : answer.agent}`;
  const select = (/** @type {string} */ id, /** @type {string | undefined} */ value, withNone = false) => html`<label>${id === 'left' ? 'Left' : 'Right'}
    <select class="input" @change=${choose(id)}>${withNone ? html`<option value="none" ?selected=${!value}>nothing</option>` : nothing}
      ${answers.map((answer) => html`<option value=${answer.label} ?selected=${answer.label === value}>${name(answer)}</option>`)}</select></label>`;
  const shown = [left, right].map((label) => answers.find((answer) => answer.label === label)).filter((answer) => answer !== undefined);
  return html`<div class="stack"><div class="bar"><h2>Answers</h2>${select('left', left)}${select('right', right, true)}
      ${right && !batchOf(stream.id) ? html`<a class="button small" href=${runHref(stream.id, ['diff'], { answer: left, against: right })}>Diff of both</a>` : nothing}
      <label class="check"><input type="checkbox" .checked=${isAnonymous} @change=${toggle}> Anonymous, as agents see them</label></div>
    <div class="side-by-side" data-count=${shown.length}>${shown.map((answer) => answerColumn(answer, stream))}</div></div>`;
}
