// What a run used: tokens and money by agent, model and phase.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { empty, numberCell } from './elements.js';
import { money, tokens } from './format.js';

/** @param {Usage} usage */
const cells = (usage) => html`${numberCell('Requests', usage.requests)}${numberCell('Input', tokens(usage.input_tokens))}
  ${numberCell('of it cached', tokens(usage.cached_tokens))}${numberCell('Output', tokens(usage.output_tokens))}
  ${numberCell('of it reasoning', tokens(usage.reasoning_tokens))}${numberCell('Cost', money(usage.cost_usd, usage.cost_is_complete))}`;

/** @param {RunStream} stream */
export function costView(stream) {
  /** @type {UsageRow[]} */
  const usageRows = stream.sections.get('usage') ?? [];
  const team = stream.run?.agents ?? [];
  const rows = usageRows.toSorted((one, other) => team.indexOf(one.agent) - team.indexOf(other.agent));
  const total = stream.run?.usage;
  if (!rows.length && !total?.requests) return empty(stream.isLive ? 'No model has replied yet.' : 'No model replied.');
  const highestCost = Math.max(1e-9, ...rows.map((row) => row.cost_usd ?? 0));
  return html`<div class="stack"><h2>Cost</h2><div class="scroll" role="region" tabindex="0" aria-label="Cost"><table class="rows">
    <thead><tr><th scope="col">Agent</th><th scope="col">Model</th><th scope="col">Phase</th><th scope="col" class="num">Requests</th>
      <th scope="col" class="num">Input</th><th scope="col" class="num">of it cached</th><th scope="col" class="num">Output</th>
      <th scope="col" class="num">of it reasoning</th><th scope="col" class="num">Cost</th><th scope="col"><span class="hidden">Share</span></th></tr></thead>
    <tbody>${rows.map((row) => html`<tr><th scope="row"><bdi>${row.agent}</bdi></th><td><bdi>${row.model}</bdi></td><td>${row.phase}</td>${cells(row)}
      <td>${row.cost_usd ? html`<meter min="0" max=${highestCost} .value=${row.cost_usd} aria-label="Share of ${row.agent} in the cost"></meter>` : nothing}</td></tr>`)}</tbody>
    ${total ? html`<tfoot><tr><th scope="row" colspan="3">Run</th>${cells(total)}<td></td></tr></tfoot>` : nothing}</table></div>
    ${total && !total.cost_is_complete ? html`<p class="muted">The price of some models is not known, so the cost is at least this.</p>` : nothing}</div>`;
}
