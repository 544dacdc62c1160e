// What waits for the person: approvals of tool calls, a delivery to review, a failed check, an open
// question. Also counted in the title of the tab. The focus moves here unless a person types.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { post, runPath } from './api.js';
import { failure, icon } from './elements.js';
import { counted, duration } from './format.js';
import { AnswerHold, heldButton } from './held_button.js';
import { isTyping } from './keys.js';
import { redraw } from './redraw.js';
import { runHref } from './router.js';

/** @typedef {Record<string, any>} Question */

/** The keys of the questions in view that were answered. @type {Set<string>} */
const answered = new Set();
/** The run whose question was answered last. */
let answeredRun = '';
/** Why an answer was refused, and the key of its question. */
let refusal = { key: '', error: /** @type {any} */ (null) };
/** The question in view. */
const shown = new AnswerHold();

/** Distinguishes a question from those of all runs. @param {RunStream} stream @param {Question | undefined} question */
const keyOf = (stream, question) => (question ? `${stream.id} ${question.id}` : '');

/** Sends an answer, once. @param {RunStream} stream @param {Question} question @param {string} kind @param {string | null} answer */
async function reply(stream, question, kind, answer) {
  const key = keyOf(stream, question);
  if (answered.has(key)) return;
  answered.add(key);
  answeredRun = stream.id;
  refusal = { key: '', error: null };
  redraw();
  try {
    await post(runPath(stream.id, kind, question.id), { answer });
  } catch (error) {
    answered.delete(key);
    refusal = { key, error };
  }
  redraw();
}

/** The answerable questions, and approvals that wait in another place. @param {RunStream} stream */
export function pending(stream) {
  const questions = /** @type {Question[]} */ (stream.questions);
  const isAsked = (/** @type {any} */ one) => questions.some((question) => question.kind === 'approval'
    && question.agent === one.agent && question.tool === one.tool && (question.call_id ?? null) === (one.call_id ?? null));
  const elsewhere = stream.approvals.filter((one) => !isAsked(one))
    .map((one) => ({ ...one, kind: one.id ? 'approval' : 'elsewhere', id: one.id ?? `${one.agent} ${one.call_id} ${one.tool}` }));
  return [...questions, ...elsewhere];
}

/** @param {Question} question @param {RunStream} stream @param {boolean} mayAnswer */
function buttons(question, stream, mayAnswer) {
  const isAnswered = answered.has(keyOf(stream, question));
  const send = (/** @type {string} */ kind, /** @type {string | null} */ answer) => () => reply(stream, question, kind, answer);
  const button = (/** @type {string} */ text, /** @type {() => void} */ run, look = '') => heldButton(text, run, shown, { look, isAnswered });
  if (question.kind === 'elsewhere') return html`<p class="muted">It is answered in the terminal that started the run.</p>`;
  if (question.kind === 'delivery' || question.kind === 'review') return html`<a class="button primary" href=${runHref(stream.id, ['delivery'])}>Review the delivery</a>`;
  if (!mayAnswer) return html`<p class="muted">The page is read-only.</p>`;
  if (question.kind === 'approval') {
    return html`${button('Allow once', send('approvals', 'once'), 'primary')}${button('Allow for this run', send('approvals', 'session'))}
      ${button('Deny', send('approvals', 'no'), 'danger')}`;
  }
  if (question.kind === 'failed_check') {
    return html`${button('Keep the delivery', send('questions', 'keep'))}${button('Revert it', send('questions', 'revert'), 'danger')}`;
  }
  // Another question was in the same form.
  const isHeld = shown.isNew && answeredRun === stream.id;
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if (isHeld && shown.isNew) return;
    const text = new FormData(/** @type {HTMLFormElement} */ (event.target)).get('text');
    send('questions', String(text ?? ''))();
  };
  return html`<form class="row grow" @submit=${submit}><input class="input grow" name="text" aria-label="Your answer" autocomplete="off">
    <button class="button primary" aria-disabled=${isAnswered || isHeld ? 'true' : nothing}>Answer</button></form>
    ${button('No answer', send('questions', null))}`;
}

/** @param {Question} question */
function title(question) {
  if (question.kind === 'approval' || question.kind === 'elsewhere') return html`<bdi>${question.agent}</bdi> asks to run <code>${question.tool}</code>`;
  if (question.kind === 'failed_check') return 'A check of the delivery failed';
  if (question.kind === 'delivery' || question.kind === 'review') return 'The delivery waits for your review';
  return 'The run asks a question';
}

/** @param {string} clause */
const asSentence = (clause) => `${clause.charAt(0).toUpperCase()}${clause.slice(1)}.`;

/** @param {Question} question */
function description(question) {
  const effects = question.effects ?? [];
  if (question.kind === 'delivery') {
    const refused = question.refused ? `, ${question.refused} refused` : '';
    return html`<p>${counted(question.files ?? 0, 'file')}${refused}. Nothing is written before you apply it.</p>`;
  }
  if (question.kind === 'open') {
    return html`<p>${question.question}</p>${question.otherwise ? html`<p class="muted">${asSentence(question.otherwise)}</p>` : nothing}`;
  }
  if (question.lines) {
    const lines = /** @type {string[]} */ (question.lines);
    return html`<div class="output call" tabindex="0" aria-label="All of the call">${lines.map((line) => html`<div>${line}</div>`)}</div>`;
  }
  return html`${effects.length ? html`<ul class="effects">${effects.map((/** @type {string} */ effect) => html`<li>${effect}</li>`)}</ul>` : nothing}
    ${question.reason ? html`<p class="muted">${question.reason}</p>` : nothing}`;
}

/** Moves the focus to a new question, unless a person types. @param {string} key */
function focusNew(key) {
  if (!shown.show(key) || !key) return;
  setTimeout(() => {
    const dialog = document.querySelector('.question');
    const isFree = !isTyping(document.activeElement) && !document.querySelector('dialog[open]');
    if (isFree && dialog instanceof HTMLElement) dialog.focus({ preventScroll: true });
  });
}

/** What waits for the person, oldest first. @param {RunStream} stream @param {boolean} mayAnswer
 * @param {boolean} isReviewing whether the delivery is in view already */
export function questionPanel(stream, mayAnswer, isReviewing) {
  const all = pending(stream).filter((question) => !isReviewing || question.kind !== 'delivery');
  const [question] = all;
  const key = keyOf(stream, question);
  const waiting = new Set(all.map((one) => keyOf(stream, one)));
  for (const known of answered) if (!waiting.has(known)) answered.delete(known);
  focusNew(key);
  if (!question) return nothing;
  return html`<section class="question" role="alertdialog" tabindex="-1" aria-labelledby="question-title" aria-describedby="question-text">
    <div class="row wrap">${icon('ask')}<h2 id="question-title">${title(question)}</h2>
      ${question.since_ms != null ? html`<span class="muted num">for ${duration(Math.max(0, stream.now - question.since_ms))}</span>` : nothing}
      ${all.length > 1 ? html`<span class="chip">${all.length - 1} more after this</span>` : nothing}</div>
    <div id="question-text">${description(question)}</div>
    ${refusal.key === key ? failure(refusal.error) : nothing}
    <div class="row wrap actions">${buttons(question, stream, mayAnswer)}</div></section>`;
}
