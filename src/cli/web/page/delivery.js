// The delivery: which files and hunks of the final answer go into the project, then what became of
// each, and undo. Conflicts, protected and refused files are shown with the reason, never hidden.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { get, post, runPath } from './api.js';
import { checkList, empty, failure, icon, state, whenLoaded } from './elements.js';
import { counted } from './format.js';
import { markdown } from './markdown.js';
import { forget, load, redraw } from './redraw.js';
import { Review, diffToggles, isTakeable, reviewBody } from './review.js';
import { runHref } from './router.js';

/** @typedef {import('./types.js').DiffFile} DiffFile */
/** @typedef {import('./types.js').Hunk} Hunk */
/** @typedef {import('./types.js').DeliveryRow} DeliveryRow */
/** @typedef {import('./stream.js').RunStream} RunStream */

/** What the person has chosen of one delivery. Everything that can be taken is, at first. */
class DeliveryChoice {
  /** @param {string} run */
  constructor(run) {
    this.review = new Review(run, `delivery ${run}`);
    /** The files that are left, and the hunks that are left of others. @type {Map<string, Set<number> | 'all'>} */
    this.left = new Map();
    this.isOpen = true;
    this.isSending = false;
    /** @type {any} */
    this.error = null;
    /** @type {any} The server's answer to what was applied or undone. */
    this.reply = null;
    this.wasUndone = false;
  }

  /** @param {DiffFile} file */
  fileState(file) {
    const left = this.left.get(file.path);
    if (!isTakeable(file) || left === 'all') return 'none';
    return left?.size ? 'some' : 'all';
  }

  /** @param {DiffFile} file @param {boolean} isTaken */
  setFile(file, isTaken) {
    if (!this.isOpen || !isTakeable(file)) return redraw();
    if (isTaken) this.left.delete(file.path);
    else this.left.set(file.path, 'all');
    return redraw();
  }

  /** @param {DiffFile} file @param {Hunk} hunk */
  hasHunk(file, hunk) {
    const left = this.left.get(file.path);
    return isTakeable(file) && left !== 'all' && !left?.has(hunk.index);
  }

  /** @param {DiffFile} file @param {Hunk} hunk @param {boolean} isTaken */
  setHunk(file, hunk, isTaken) {
    if (!this.isOpen || !isTakeable(file)) return redraw();
    const known = this.left.get(file.path);
    const left = new Set(known === 'all' ? file.hunks.map(({ index }) => index) : known);
    if (isTaken) left.delete(hunk.index);
    else left.add(hunk.index);
    if (!left.size) this.left.delete(file.path);
    else this.left.set(file.path, left.size === file.hunks.length ? 'all' : left);
    return redraw();
  }

  /** The files as the server wants them. @param {DiffFile[]} files */
  body(files) {
    return { files: files.filter(isTakeable).map((file) => ({
      path: file.path,
      take: this.fileState(file) !== 'none',
      hunks: file.hunks.filter((hunk) => this.hasHunk(file, hunk)).map(({ index, digest }) => ({ index, digest })),
    })) };
  }

  /** @param {DiffFile[]} files */
  counts(files) {
    const taken = files.filter((file) => this.fileState(file) !== 'none');
    return { files: taken.length, hunks: taken.reduce((sum, file) => sum + file.hunks.filter((hunk) => this.hasHunk(file, hunk)).length, 0) };
  }

  /** @param {string} action @param {any} body */
  async send(action, body) {
    this.isSending = true;
    this.error = null;
    redraw();
    try {
      this.reply = await post(runPath(this.review.run, action), body);
      this.wasUndone = action === 'undo';
      this.isOpen = false;
      forget(this.review.key);
      forget('runs');
    } catch (error) {
      this.error = error;
    }
    this.isSending = false;
    redraw();
  }
}

/** @type {DeliveryChoice | null} */
let choice = null;

const OUTCOMES = /** @type {Record<string, [string, string]>} */ ({ created: ['done', 'created'], changed: ['done', 'changed'], deleted: ['done', 'deleted'],
  mode: ['done', 'mode changed'], declined: ['idle', 'declined'], denied: ['bad', 'denied'], conflict: ['ask', 'conflict'], failed: ['bad', 'failed'],
  taken_back: ['wait', 'reverted'], left: ['idle', 'left'], reverted: ['wait', 'reverted'] });

/** @param {DeliveryRow[]} rows */
const rowsTable = (rows) => html`<div class="scroll" role="region" tabindex="0" aria-label="Outcome for each file"><table><thead><tr>
  <th scope="col">Outcome</th><th scope="col">File</th><th scope="col">Note</th></tr></thead><tbody>${rows.map((row) => {
    const [tone, word] = OUTCOMES[row.outcome] ?? ['idle', row.outcome];
    const note = row.reason ?? (row.kept ? `your version was kept; theirs is ${row.kept}` : row.after ? `${row.before ?? 'new'} → ${row.after}` : '');
    return html`<tr><td>${state(tone, word)}</td><td class="path"><bdi>${row.path}</bdi></td><td>${note}</td></tr>`;
  })}</tbody></table></div>`;

/** @param {DeliveryChoice} chosen @param {DiffFile[]} files */
function applyBar(chosen, files) {
  const { files: fileCount, hunks } = chosen.counts(files);
  const all = (/** @type {boolean} */ isTaken) => () => files.forEach((file) => chosen.setFile(file, isTaken));
  const isAny = fileCount > 0;
  return html`<div class="sticky-bar" role="region" aria-label="Apply the delivery"><button class="button primary" id="apply" ?disabled=${chosen.isSending}
      @click=${() => chosen.send('delivery', chosen.body(files))}>${isAny ? `Apply ${counted(fileCount, 'file')}, ${counted(hunks, 'hunk')}` : 'Apply nothing'}</button>
    <button class="button" @click=${all(true)}>Take all</button><button class="button" @click=${all(false)}>Leave all</button><span class="grow"></span>
    <span class="muted wide-only"><kbd>n</kbd> <kbd>p</kbd> hunk · <kbd>y</kbd> take · <kbd>x</kbd> leave</span></div>`;
}

/** @param {DeliveryChoice} chosen @param {RunStream} stream @param {boolean} mayUndo */
function outcome(chosen, stream, mayUndo) {
  /** @type {import('./types.js').DeliverySection} */
  const { rows, checks } = stream.sections.get('delivery') ?? { rows: null, checks: [] };
  const shown = chosen.reply?.rows ?? chosen.reply?.files ?? rows;
  const undo = () => chosen.send('undo', {});
  const isDelivered = (shown ?? []).some((/** @type {DeliveryRow} */ row) => ['created', 'changed', 'deleted', 'mode'].includes(row.outcome));
  if (!shown && !checks.length && !chosen.reply) return nothing;
  return html`<section aria-labelledby="outcome"><div class="bar"><h3 id="outcome" tabindex="-1">${chosen.wasUndone ? 'Undone' : 'What was delivered'}</h3>
      ${mayUndo && isDelivered && !chosen.wasUndone ? html`<button class="button" id="undo" ?disabled=${chosen.isSending} @click=${undo}>${icon('undo')} Undo the delivery</button>` : nothing}</div>
    ${shown?.length ? rowsTable(shown) : shown ? html`<p class="muted">No file was delivered.</p>` : nothing}
    ${checks.length ? html`<h3>Checks after the delivery</h3>${checkList(checks)}` : nothing}</section>`;
}

/** @param {RunStream} stream @param {{isReadOnly: boolean}} may */
export function deliveryView(stream, { isReadOnly }) {
  if (choice?.review.run !== stream.id) choice = new DeliveryChoice(stream.id);
  const chosen = choice;
  /** @type {import('./types.js').DeliverySection | undefined} */
  const delivery = stream.sections.get('delivery');
  const isPending = stream.questions.some((question) => question.kind === 'delivery' || question.kind === 'review');
  const isDone = delivery?.rows != null && !isPending;
  const left = (delivery?.rows ?? []).some((row) => row.outcome === 'declined');
  const isReviewable = !isReadOnly && (isPending || (isDone && left && !chosen.reply));
  chosen.isOpen = isReviewable && !chosen.isSending && !chosen.reply;
  const loaded = delivery?.agent || isPending ? load(`${chosen.review.key} ${isPending} ${isDone}`, () => get(runPath(stream.id, 'diff'))) : null;
  if (!loaded) {
    return empty(stream.isLive ? 'Nothing is delivered yet.' : 'This run delivered nothing.', stream.isLive ? 'The winner delivers after the votes.'
      : html`The <a href=${runHref(stream.id, ['answers'])}>answers</a> are still there.`);
  }
  const answer = delivery?.answer;
  return html`<div class="stack wide"><div class="bar"><h2>Delivery</h2>${delivery?.agent ? html`<span class="muted">by <bdi>${delivery.agent}</bdi></span>` : nothing}
      ${isPending ? state('ask', 'waits for your review') : nothing}${diffToggles()}</div>
    ${chosen.error ? failure(chosen.error) : nothing}
    ${outcome(chosen, stream, !isReadOnly)}
    ${answer ? html`<details class="panel"><summary>Final answer</summary>${markdown(/** @type {any} */ (delivery).markdown, answer, 2)}</details>` : nothing}
    ${whenLoaded(loaded, 'the delivery', ({ files }) => html`${isReviewable ? applyBar(chosen, files) : nothing}
      ${reviewBody(chosen.review, files, isReviewable ? chosen : null)}`, () => forget(chosen.review.key))}</div>`;
}
