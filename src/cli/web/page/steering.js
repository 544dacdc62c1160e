// The line below a live run: a message to one agent or to all of them, and buttons that stop the run
// in two steps.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { announce } from './announce.js';
import { post, runPath } from './api.js';
import { failure } from './elements.js';
import { AnswerHold, heldButton } from './held_button.js';
import { leaveOnEscape, onKey, valueOf } from './keys.js';
import { redraw } from './redraw.js';
import { isPipeline } from './router.js';

/** Time in which the second step of a stop must follow, in milliseconds. */
const CONFIRM_MS = 5000;
/** The line of a run before anything is done there. */
const BLANK = { agent: '', error: /** @type {any} */ (null), note: '', timer: 0 };
/** What was done at the line in view. */
let steering = { ...BLANK };
/** What was read of its run. @type {symbol | null} */
let reading = null;
/** The question whether to stop, which the second press answers. */
const confirmation = new AnswerHold();

/** The key of the question. @param {string} run @param {'finish' | 'cancel'} mode */
const stopQuestion = (run, mode) => `${run} ${mode}`;

/** Forgets what was done at the line of another run, or before this one was continued. @param {RunStream} stream */
function beginLine(stream) {
  if (reading === stream.reading) return;
  clearTimeout(steering.timer);
  steering = { ...BLANK };
  confirmation.show('');
  reading = stream.reading;
}

/** @param {string} path @param {any} body @param {string} note */
async function send(path, body, note) {
  const line = steering;
  line.error = null;
  line.note = '';
  try {
    await post(path, body);
    line.note = note;
    announce(note);
  } catch (error) {
    line.error = error;
  }
  redraw();
}

/** What follows from a stop. @param {string} run @param {'finish' | 'cancel'} mode */
function outcome(run, mode) {
  if (isPipeline(run)) return 'The pipeline stops; it can be continued.';
  return mode === 'finish' ? 'The run ends with the best answer so far.' : 'The run is cancelled.';
}

/** The first press asks, the second one within some seconds does it, but not that of a double click.
 * @param {string} run @param {'finish' | 'cancel'} mode */
function stop(run, mode) {
  const line = steering;
  const question = stopQuestion(run, mode);
  const isAsked = confirmation.key === question;
  if (isAsked && confirmation.isNew) return;
  clearTimeout(line.timer);
  if (isAsked) {
    confirmation.show('');
    send(runPath(run, 'stop'), { mode }, outcome(run, mode));
  } else {
    confirmation.show(question);
    line.timer = window.setTimeout(() => {
      confirmation.show('');
      redraw();
    }, CONFIRM_MS);
  }
  redraw();
}

/** When a message is read: a warning of the run says so about one that waits for a stage. @param {RunStream} stream @param {string} to its recipient, if it is one agent */
function whenRead(stream, to) {
  const stages = isPipeline(stream.id) ? stream.sections.get('pipeline')?.stages ?? [] : null;
  const working = (stages ?? []).filter((/** @type {Stage} */ { state }) => state !== 'merged').flatMap((/** @type {Stage} */ { agents }) => agents);
  if (!stages || (to ? working.includes(to) : working.length)) return 'it is read before the next request';
  return `${to ? `${to} does not work now` : 'no role works now'}, and the warnings of the run say when it is read`;
}

/** The message to one agent or to all. @param {RunStream} stream @param {string | null} agent the agent in view, if it is one
 * @param {string} run the run that takes it */
function messageForm(stream, agent, run) {
  onKey('s', 'message to the agents', () => document.getElementById('steer')?.focus(), 'Run');
  const to = agent ?? steering.agent;
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const text = String(new FormData(form).get('text') ?? '').trim();
    if (!text) return;
    form.reset();
    send(runPath(run, 'messages'), to ? { agent: to, text } : { text }, `Sent to ${to || 'all agents'}; ${whenRead(stream, to)}.`);
  };
  return html`<form class="row grow" @submit=${submit}><label class="hidden" for="steer-to">To</label>
    <select id="steer-to" class="input" .value=${to} ?disabled=${agent !== null} @change=${(/** @type {Event} */ event) => {
      steering.agent = valueOf(event);
      redraw();
    }}><option value="" ?selected=${!to}>all agents</option>${(stream.run?.agents ?? []).map((id) => html`<option value=${id} ?selected=${id === to}>${id}</option>`)}</select>
    <input id="steer" class="input grow" name="text" autocomplete="off" placeholder="Message" aria-label="Message" @keydown=${leaveOnEscape}>
    <button class="button">Send</button></form>`;
}

/** @param {RunStream} stream @param {string | null} agent the agent in view, if it is one
 * @param {string} [run] the run that is steered: that in view, or the pipeline of which it is a stage */
export function steeringLine(stream, agent, run = stream.id) {
  beginLine(stream);
  const stopButton = (/** @type {'finish' | 'cancel'} */ mode, /** @type {string} */ text, /** @type {string} */ sure, look = '') => {
    const isAsked = confirmation.key === stopQuestion(stream.id, mode);
    return heldButton(isAsked ? sure : text, () => stop(stream.id, mode), isAsked ? confirmation : null, { look, id: `stop-${mode}` });
  };
  const isStage = run !== stream.id;
  return html`<div class="sticky-bar steering" role="region" aria-label="Steering">
    ${messageForm(stream, agent, run)}
    ${isPipeline(run) ? nothing : stopButton('finish', 'End with the best', 'Really end now?')}${isStage ? nothing : stopButton('cancel', 'Cancel', 'Really cancel?', 'danger')}
    ${steering.note ? html`<span class="muted">${steering.note}</span>` : nothing}
    ${steering.error ? failure(steering.error) : nothing}</div>`;
}
