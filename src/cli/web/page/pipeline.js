// A pipeline: the stages of each iteration as a board with a card for each role's work, which leads to
// the runs in which the role worked, and the answer of the last role.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { loading, state } from './elements.js';
import { counted } from './format.js';
import { focusRefused, givenLimits, limitFields } from './limits.js';
import { redraw } from './redraw.js';
import { runHref } from './router.js';
import { forgetRefusal, limitRefusal, resumeRun } from './runs.js';

/** @param {Stage} stage @param {boolean} isLive */
function card(stage, isLive) {
  const tone = { working: isLive ? 'work' : 'wait', merged: 'done', rejected: 'bad' }[stage.state] ?? 'idle';
  const word = stage.state === 'rejected' && stage.attempt ? `rejected, attempt ${stage.attempt} of ${stage.attempts_max}`
    : stage.state === 'working' && !isLive ? 'interrupted' : stage.state;
  const link = (/** @type {string} */ run, /** @type {number} */ index) => html`<a class="stage-link" href=${runHref(run)}>${index
    ? `run ${index + 1}` : html`<bdi>${stage.role}</bdi>`}</a> `;
  return html`<li class="card stage"><div class="row wrap"><b>${stage.runs.length ? stage.runs.map(link) : html`<bdi>${stage.role}</bdi>`}</b>${state(tone, word)}</div>
    <p class="muted">stage ${stage.stage} · <bdi>${stage.agents.join(', ')}</bdi></p>
    ${stage.commit ? html`<p><code>${stage.commit.slice(0, 10)}</code> · ${counted(stage.files ?? 0, 'file')}</p>` : nothing}
    ${stage.reason ? html`<p class="reason">${stage.reason}</p>` : nothing}</li>`;
}

/** The limits that are typed for the pipeline in view. */
const form = { id: '', typed: /** @type {import('./limits.js').TypedLimits} */ ({}) };

/** Asks for the limits for continuing a pipeline that has reached one. @param {RunStream} stream */
export function limitForm(stream) {
  if (form.id !== stream.id) Object.assign(form, { id: stream.id, typed: {} });
  const error = limitRefusal(stream.id);
  const resumed = () => {
    form.typed = {};
    stream.restart();
  };
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    await resumeRun(stream.id, resumed, givenLimits(form.typed, true));
    focusRefused('continue', limitRefusal(stream.id));
  };
  const changed = () => (error ? forgetRefusal() : redraw());
  return html`<form class="stack" aria-label="Continue with other limits" @submit=${submit}><p>A limit was met. What is spent counts; limits that you leave empty stay.</p>
    ${limitFields({ prefix: 'continue', typed: form.typed, hasIterations: true, now: stream.run?.limits, whose: 'until now', error, changed })}
    <div class="row"><button class="button small primary">Continue</button></div></form>`;
}

/** @param {RunStream} stream */
export function pipelineView(stream) {
  /** @type {PipelineSection} */
  const { stages, stage_count: count } = stream.sections.get('pipeline') ?? { stages: [], stage_count: 0 };
  if (!stages.length) return stream.isLive ? loading('No role works yet …') : html`<p class="muted">No role worked in this pipeline.</p>`;
  const iterations = [...new Set(stages.map((stage) => stage.iteration))];
  const review = stream.run?.status === 'delivered' ? html`<p><a class="button primary" href=${runHref(stream.id, ['delivery'])}>Review the delivery</a></p>` : nothing;
  return html`<div class="stack">${review}${iterations.map((iteration) => {
    const shown = stages.filter((stage) => stage.iteration === iteration);
    const merged = shown.filter((stage) => stage.state === 'merged').length;
    // The first role may work in the first iteration alone.
    const all = Math.max(count - shown[0].stage + 1, shown.length);
    return html`<section aria-labelledby="iteration-${iteration}"><h3 id="iteration-${iteration}">Iteration ${iteration}
      <span class="muted num">${merged} of ${all} merged</span></h3><ol class="board">${shown.map((stage) => card(stage, stream.isLive))}</ol></section>`;
  })}</div>`;
}
