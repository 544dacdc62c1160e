// The batches of the directory, and one of them: its counts and money, the table by tag, how it compares
// with another one, and its cells in pages, of which each leads to its run. A batch is asked for again while cells are open.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { get, query } from './api.js';
import { empty, numberCell, state, whenLoaded } from './elements.js';
import { counted, duration, moment, money } from './format.js';
import { leaveOnEscape, moveFocus, onKey, valueOf } from './keys.js';
import { lazily } from './lazily.js';
import { forget, load, refresh } from './redraw.js';
import { hrefTo, replaceParams, runHref } from './router.js';

/** How often a batch in view is read again, in milliseconds. */
const REFRESH_MS = 5000;
/** Number of cells on a page. */
const PAGE_CELLS = 100;
/** The states of cells, with a shape and words for each. @type {[string, string, string][]} */
const STATES = [['completed', 'done', 'completed'], ['partial', 'warn', 'partial'], ['failed', 'bad', 'failed'], ['running', 'work', 'running'],
  ['parked', 'wait', 'parked, to be resumed'], ['held', 'wait', 'held: endpoints fail'], ['out_of_money', 'wait', 'waiting for money'], ['lost', 'warn', 'to be repeated'], ['waiting', 'idle', 'waiting']];
let timer = 0;

/** Reads `path` again after a while, if this view is looked at then. @param {string} path */
function readAgain(path) {
  if (timer) return;
  timer = window.setTimeout(() => {
    timer = 0;
    if (location.hash.startsWith('#/batches') && document.visibilityState === 'visible') refresh(path, () => get(path));
  }, REFRESH_MS);
}

/** @param {string} name */
function cellState(name) {
  const [, tone, words] = STATES.find(([known]) => known === name) ?? [name, 'idle', name];
  return state(tone, words);
}

/** @param {BatchRow} batch */
const batchRow = (batch) => html`<tr>
  <td class="cell-state">${batch.is_cancelled ? state('wait', 'cancelled') : batch.finished >= batch.cells ? state('done', 'finished') : state('work', 'open')}</td>
  <td class="cell-task"><a class="batch-link" href=${hrefTo(['batches', batch.id])}><bdi>${batch.tasks}</bdi></a><span class="muted sub"><bdi>${batch.team}</bdi> · ${batch.id}</span></td>
  ${numberCell('Started', moment(batch.began))}${numberCell('Finished', `${batch.finished} of ${counted(batch.cells, 'cell')}`)}</tr>`;

function allBatches() {
  const path = '/api/batches';
  onKey('j', 'next batch', () => moveFocus('.batch-link', 1));
  onKey('k', 'previous batch', () => moveFocus('.batch-link', -1));
  return html`<div class="page"><div class="bar"><h1 tabindex="-1">Batches</h1></div>${whenLoaded(load(path, () => get(path)), 'batches', ({ batches }) => {
    if (batches.some((/** @type {BatchRow} */ batch) => batch.finished < batch.cells && !batch.is_cancelled)) readAgain(path);
    if (!batches.length) return empty('No batches in this directory yet.', html`Start one in a terminal: <code>massgen batch run tasks.jsonl</code>`);
    return html`<div class="scroll" role="region" tabindex="0" aria-label="Batches"><table class="rows"><thead><tr><th scope="col">State</th>
      <th scope="col">Tasks</th><th scope="col" class="num">Started</th><th scope="col" class="num">Finished</th></tr></thead>
      <tbody>${batches.map(batchRow)}</tbody></table></div>`;
  }, () => forget(path))}</div>`;
}

/** @param {BatchReply} batch */
function tagTable({ rows, more_rows: more }) {
  if (!rows[0]?.cells) return nothing;
  return html`<section class="stack"><h2>By tag</h2><div class="scroll" role="region" tabindex="0" aria-label="Results by tag"><table class="rows">
    <thead><tr><th scope="col">Tag</th>${['Cells', 'Success', 'Completed', 'Partial', 'Failed', 'Cost', 'Median time', '95% within'].map((name) => html`<th scope="col" class="num">${name}</th>`)}
      <th scope="col">Winners</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr><th scope="row"><bdi>${row.tag}</bdi></th>${numberCell('Cells', row.cells)}
      ${numberCell('Success', `${row.successes} (${Math.floor((row.successes * 100) / (row.cells || 1))}%)`)}${numberCell('Completed', row.completed)}
      ${numberCell('Partial', row.partial)}${numberCell('Failed', row.failed)}${numberCell('Cost', money(row.cost_usd, row.cost_is_complete))}
      ${numberCell('Median time', duration(row.p50_ms))}${numberCell('95% within', duration(row.p95_ms))}<td data-name="Winners"><bdi>${Object.entries(row.winners).map(([agent, count]) => `${agent} ${count}`).join(', ')}</bdi></td></tr>`)}</tbody></table></div>
    ${more ? html`<p class="muted">${counted(more, 'more tag')}: <code>massgen batch results</code></p>` : nothing}</section>`;
}

/** @param {BatchCell} cell */
const cellRow = (cell) => html`<tr><td class="cell-state">${cellState(cell.state)}</td>
  <td class="cell-task">${cell.run ? html`<a class="cell-link" href=${runHref(cell.run)}>${cell.id}</a>` : cell.id}
    <span class="muted sub"><bdi>${cell.reason ?? cell.tags?.join(', ') ?? ''}</bdi></span></td>
  <td data-name="Winner">${cell.winner ? html`<bdi>${cell.winner}</bdi>` : nothing}</td>
  <td data-name="Checks">${cell.checks && cell.checks !== 'none' ? state(cell.checks === 'passed' ? 'done' : 'bad', cell.checks) : nothing}</td>
  ${numberCell('Files', cell.files ?? '-')}${numberCell('Attempts', cell.attempts)}
  ${numberCell('Time', duration(cell.since && cell.state === 'running' ? Date.now() - Date.parse(cell.since) : cell.duration_ms))}
  ${numberCell('Cost', cell.cost_usd == null ? '-' : money(cell.cost_usd, cell.cost_is_complete))}<td class="muted" data-name="Host"><bdi>${cell.host ?? ''}</bdi></td></tr>`;

/** @param {BatchReply} batch @param {Route} route */
function cellTable({ cells, matching }, route) {
  const offset = Number(route.params.get('offset')) || 0;
  const end = offset + cells.length;
  const page = (/** @type {number} */ to, /** @type {string} */ name, /** @type {boolean} */ may) =>
    html`<button class="button small" ?disabled=${!may} @click=${() => replaceParams(route, { offset: to || null })}>${name}</button>`;
  if (!cells.length) return empty(matching ? 'There are no further cells.' : 'No cell that was begun matches.');
  return html`<div class="scroll" role="region" tabindex="0" aria-label="Cells"><table class="rows"><thead><tr><th scope="col">State</th><th scope="col">Cell</th>
      <th scope="col">Winner</th><th scope="col">Checks</th>${['Files', 'Attempts', 'Time', 'Cost'].map((name) => html`<th scope="col" class="num">${name}</th>`)}
      <th scope="col">Host</th></tr></thead><tbody>${cells.map(cellRow)}</tbody></table></div>
    <div class="row wrap"><span class="muted count num">${offset + 1} to ${end} of ${counted(matching, 'cell')}</span>
      ${page(Math.max(0, offset - PAGE_CELLS), 'Previous', offset > 0)}${page(end, 'Next', end < matching)}</div>`;
}

/** @param {BatchReply} batch */
function head({ counts, money: budget, is_cancelled: isCancelled }) {
  const finished = counts.completed + counts.partial + counts.failed;
  return html`<div class="row wrap meta"><meter min="0" max=${counts.cells || 1} .value=${finished} aria-label="Finished cells"></meter>
      <span class="num">${finished} of ${counted(counts.cells, 'cell')}</span>
      ${STATES.filter(([name]) => counts[name]).map(([name, tone, words]) => state(tone, `${counts[name]} ${words}`))}
      <span class="num" title="Cost of all attempts">${money(budget.spent_usd)}${budget.limit_usd == null ? '' : ` of $${budget.limit_usd}`}</span>
      ${isCancelled ? state('wait', 'cancelled') : nothing}</div>`;
}

/** The choice of a batch to compare with, and the comparison. @param {Route} route */
function comparison(route) {
  const id = route.parts[1];
  const other = route.params.get('with');
  const path = `/api/batches/${encodeURIComponent(id)}/comparison${query({ with: other })}`;
  /** @type {BatchRow[]} */
  const others = (load('/api/batches', () => get('/api/batches')).value?.batches ?? []).filter((/** @type {BatchRow} */ batch) => batch.id !== id);
  if (!others.length) return nothing;
  return html`<section class="stack"><div class="bar"><h2>Comparison</h2><label>with <select class="input" @change=${(/** @type {Event} */ event) => replaceParams(route, { with: valueOf(event) })}>
      <option value="">no other batch</option>${others.map((batch) => html`<option value=${batch.id} ?selected=${batch.id === other}>${batch.team} · ${batch.tasks} · ${moment(batch.began)}</option>`)}</select></label></div>
    ${other ? whenLoaded(load(path, () => get(path)), 'the comparison', (reply) => lazily('comparison', () => import('./comparison.js'), (module) => module.comparisonView(reply)), () => forget(path)) : nothing}</section>`;
}

/** @param {Route} route */
function oneBatch(route) {
  const id = route.parts[1];
  const shown = { state: route.params.get('state'), search: route.params.get('search'), offset: route.params.get('offset'), limit: PAGE_CELLS };
  const path = `/api/batches/${encodeURIComponent(id)}${query(shown)}`;
  const change = (/** @type {Record<string, any>} */ changes) => replaceParams(route, { ...changes, offset: null });
  onKey('/', 'find a cell', () => document.getElementById('cells-search')?.focus());
  onKey('j', 'next cell', () => moveFocus('.cell-link', 1));
  onKey('k', 'previous cell', () => moveFocus('.cell-link', -1));
  const loaded = load(path, () => get(path));
  /** @type {BatchReply | undefined} */
  const batch = loaded.value;
  const isOpen = batch && !batch.is_cancelled && batch.counts.completed + batch.counts.partial + batch.counts.failed < batch.counts.cells;
  if (isOpen) readAgain(path);
  const again = () => forget(path);
  return html`<div class="page stack"><div class="bar"><h1 tabindex="-1">${id}</h1><bdi class="muted">${batch?.tasks} · ${batch?.team}</bdi><span class="grow"></span><a href="#/batches">All batches</a></div>
    ${batch ? html`${head(batch)}${tagTable(batch)}${comparison(route)}` : nothing}
    <section class="stack"><div class="bar"><h2>Cells</h2>
      <select class="input" aria-label="State" @change=${(/** @type {Event} */ event) => change({ state: valueOf(event) })}>
        <option value="">all that were begun</option>${STATES.filter(([name]) => name !== 'waiting').map(([name, , words]) => html`<option value=${name} ?selected=${shown.state === name}>${words}</option>`)}</select>
      <input id="cells-search" class="input grow" type="search" placeholder="Id or tag" aria-label="Find cells" .value=${shown.search ?? ''}
        @change=${(/** @type {Event} */ event) => change({ search: valueOf(event) })} @keydown=${leaveOnEscape}></div>
      ${whenLoaded(loaded, 'cells', (value) => cellTable(value, route), again)}</section></div>`;
}

/** @param {{route: Route}} context */
export const batchesView = ({ route }) => (route.parts[1] ? oneBatch(route) : allBatches());
