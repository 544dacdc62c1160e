// The stages of a pipeline as a board: a row for each iteration, a card for each role's work.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { empty, state } from './elements.js';
import { counted } from './format.js';

/** @param {Stage} stage */
function card(stage) {
  const tone = { working: 'work', merged: 'done', rejected: 'bad' }[stage.state] ?? 'idle';
  const word = stage.state === 'rejected' && stage.attempt ? `rejected, attempt ${stage.attempt} of ${stage.attempts_max}` : stage.state;
  return html`<li class="card stage"><div class="row wrap"><b><bdi>${stage.role}</bdi></b>${state(tone, word)}</div>
    <p class="muted">stage ${stage.stage} · <bdi>${stage.agents.join(', ')}</bdi></p>
    ${stage.commit ? html`<p><code>${stage.commit.slice(0, 10)}</code> · ${counted(stage.files ?? 0, 'file')}</p>` : nothing}
    ${stage.reason ? html`<p class="reason">${stage.reason}</p>` : nothing}</li>`;
}

/** @param {RunStream} stream */
export function pipelineView(stream) {
  /** @type {PipelineSection} */
  const { stages, stage_count: count } = stream.sections.get('pipeline') ?? { stages: [], stage_count: 0 };
  if (!stages.length) return empty('This run has no pipeline.');
  const iterations = [...new Set(stages.map((stage) => stage.iteration))];
  return html`<div class="stack"><h2>Pipeline</h2>${iterations.map((iteration) => {
    const own = stages.filter((stage) => stage.iteration === iteration);
    const merged = own.filter((stage) => stage.state === 'merged').length;
    return html`<section aria-labelledby="iteration-${iteration}"><h3 id="iteration-${iteration}">Iteration ${iteration}
      <span class="muted num">${merged} of ${Math.max(count, own.length)} merged</span></h3><ol class="board">${own.map(card)}</ol></section>`;
  })}</div>`;
}
