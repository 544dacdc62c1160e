// The delivery: which files and hunks of the final answer go into the project, then what became of
// each, and undo. Conflicts, protected and refused files are shown with the reason, never hidden.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { get, post, query, runPath } from './api.js';
import { checkList, empty, failure, icon, state } from './elements.js';
import { counted } from './format.js';
import { AnswerHold, heldButton } from './held_button.js';
import { markdown } from './markdown.js';
import { forget, load, redraw, refresh } from './redraw.js';
import { Review, diffToggles, filesOf, isApplicable, reviewBody, whenDiff } from './review.js';
import { isPipeline, runHref } from './router.js';

/** What the person has chosen of one delivery. */
class DeliveryChoice {
  /** @param {string} run @param {string} answer the answer whose files are offered, if not the result */
  constructor(run, answer) {
    this.answer = answer;
    this.review = new Review(run, `delivery ${run} ${answer}`);
    /** The key of the reply that is shown. */
    this.key = '';
    /** The files that are skipped, and the hunks that are skipped of others. @type {Map<string, Set<number> | 'all'>} */
    this.skipped = new Map();
    /** The reply that the choice is about. @type {DiffReply | null} */
    this.reply = null;
    this.isOpen = true;
    this.isSending = false;
    /** @type {any} */
    this.error = null;
    /** What became of each file, as the server answered. @type {DeliveryRow[] | null} */
    this.rows = null;
    this.wasUndone = false;
    /** The part that was undone last. @type {string | undefined} */
    this.undonePart = undefined;
    this.mayApplyAgain = false;
    /** The commit that has all files of a pipeline. @type {{commit: string, branch: string} | null} */
    this.commit = null;
  }

  /** Reads what can be applied, and what was.
   * @returns {Promise<DiffReply>} */
  ask() {
    return get(runPath(this.review.run, 'diff') + query({ answer: this.answer }));
  }

  /** Reads it again, as a terminal may have applied or undone a part of it. What the person has chosen stays unless
   * something has changed. */
  async askAgain() {
    const before = this.reply;
    if (before?.state !== 'kept' || this.isSending) return;
    const reply = await this.ask().catch(() => null);
    if (!reply || this.reply !== before || this.isSending || JSON.stringify(reply) === JSON.stringify(before)) return;
    this.rows = null;
    this.wasUndone = false;
    this.undonePart = undefined;
    this.mayApplyAgain = false;
    this.commit = null;
    await refresh(this.key, async () => reply);
  }

  /** Begins to choose: all that waits is selected, and nothing of what was skipped before.
   * @param {DiffReply} reply */
  begin(reply) {
    if (this.reply === reply) return;
    this.reply = reply;
    this.skipped = new Map(reply.files.filter((file) => reply.state === 'kept' || file.consent).map((file) => [file.path, 'all']));
  }

  /** @param {DiffFile} file */
  fileState(file) {
    const skipped = this.skipped.get(file.path);
    if (!isApplicable(file) || skipped === 'all') return 'none';
    return skipped?.size ? 'some' : 'all';
  }

  /** @param {DiffFile} file @param {boolean} isSelected */
  setFile(file, isSelected) {
    if (!this.isOpen || !isApplicable(file)) return redraw();
    if (isSelected) this.skipped.delete(file.path);
    else this.skipped.set(file.path, 'all');
    return redraw();
  }

  /** @param {DiffFile} file @param {Hunk} hunk */
  hasHunk(file, hunk) {
    const skipped = this.skipped.get(file.path);
    return isApplicable(file) && skipped !== 'all' && !skipped?.has(hunk.index);
  }

  /** @param {DiffFile} file @param {Hunk} hunk @param {boolean} isSelected */
  setHunk(file, hunk, isSelected) {
    if (!this.isOpen || !isApplicable(file)) return redraw();
    const known = this.skipped.get(file.path);
    const skipped = new Set(known === 'all' ? file.hunks.map(({ index }) => index) : known);
    if (isSelected) skipped.delete(hunk.index);
    else skipped.add(hunk.index);
    if (!skipped.size) this.skipped.delete(file.path);
    else this.skipped.set(file.path, skipped.size === file.hunks.length ? 'all' : skipped);
    return redraw();
  }

  /** The files as the server wants them: without hunks, a file is applied as a whole. @param {DiffFile[]} files */
  body(files) {
    const hunks = (/** @type {DiffFile} */ file) => (file.hunks.length
      ? { hunks: file.hunks.filter((hunk) => this.hasHunk(file, hunk)).map(({ index, digest }) => ({ index, digest })) } : {});
    const chosen = files.filter(isApplicable).map((file) => ({ path: file.path, take: this.fileState(file) !== 'none', ...hunks(file) }));
    return { files: chosen, ...(this.answer && { answer: this.answer }) };
  }

  /** @param {DiffFile[]} files */
  counts(files) {
    const selected = files.filter((file) => this.fileState(file) !== 'none');
    return { files: selected.length, hunks: selected.reduce((sum, file) => sum + file.hunks.filter((hunk) => this.hasHunk(file, hunk)).length, 0) };
  }

  /** @param {string} action @param {any} body */
  async send(action, body) {
    this.isSending = true;
    this.error = null;
    redraw();
    try {
      const { rows, commit, branch, may_apply_again: mayApplyAgain } = await post(runPath(this.review.run, action), body);
      this.rows = rows ?? null;
      this.commit = commit ? { commit, branch } : null;
      this.wasUndone = action === 'undo';
      this.undonePart = body.part;
      this.mayApplyAgain = mayApplyAgain === true;
      this.reply = null;
      for (const what of ['delivery', 'diff']) forget(`${what} ${this.review.run} `);
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

window.addEventListener('focus', () => choice?.askAgain());

const OUTCOMES = /** @type {Record<string, [string, string]>} */ ({ created: ['done', 'created'], changed: ['done', 'changed'], deleted: ['done', 'deleted'],
  mode: ['done', 'mode changed'], declined: ['idle', 'not applied'], denied: ['bad', 'denied'], conflict: ['ask', 'conflict'], failed: ['bad', 'failed'],
  taken_back: ['wait', 'reverted'], undone: ['idle', 'undone'], left: ['idle', 'left as it is'] });

/** The outcome in a word, and its tone. @param {DeliveryRow} row @param {boolean} wasUndone whether the rows are of an undo */
function outcomeWord({ outcome: word }, wasUndone) {
  // The server says the same of a file whether it was undone or delivered again.
  if (word === 'restored' || word === 'removed') return ['done', wasUndone ? 'undone' : 'delivered again'];
  return OUTCOMES[word] ?? ['idle', word];
}

/** Why an undo leaves a file, as the server says it. */
const CHANGED_SINCE = 'it was changed since';

/** @param {string} path @param {string} directory */
const relativePath = (path, directory) => (path.startsWith(`${directory}/`) ? path.slice(directory.length + 1) : path);

/** Paths below `directory` are shown relative to it. @param {DeliveryRow[]} rows @param {string} directory
 * @param {boolean} wasUndone whether the rows are of an undo */
const rowsTable = (rows, directory, wasUndone) => html`<div class="scroll" role="region" tabindex="0" aria-label="Outcome for each file"><table class="rows"><thead><tr>
  <th scope="col">Outcome</th><th scope="col">File</th><th scope="col">Note</th></tr></thead><tbody>${rows.map((row) => {
    const [tone, word] = outcomeWord(row, wasUndone);
    const path = relativePath(row.path, directory);
    const note = row.reason ?? (row.outcome === 'removed' ? 'removed' : row.kept ? `your version was kept; theirs is ${row.kept}` : row.after ? `${row.before ?? 'new'} → ${row.after}` : '');
    const part = row.hunks ? ` (${row.hunks.taken} of ${counted(row.hunks.total, 'hunk')})` : '';
    return html`<tr><td>${state(tone, word + part)}</td><td class="path"><bdi>${path}</bdi>${row.details ? html` <span class="muted">${row.details}</span>` : nothing}</td><td>${note}</td></tr>`;
  })}</tbody></table></div>`;

/** The ways to commit all files of a pipeline to the branch that is checked out. @param {DeliveryChoice} chosen */
const commitButtons = (chosen) => [['merge', 'Merge all', 'with the history of the pipeline'], ['squash', 'Commit all', 'as one commit']]
  .map(([history, name, how]) => html`<button class="button" title="Delivers all files, and commits them ${how}" ?disabled=${chosen.isSending}
    @click=${() => chosen.send('delivery', { files: [], history })}>${name}</button>`);

/** @param {DeliveryChoice} chosen @param {DiffFile[]} files */
function applyBar(chosen, files) {
  const { files: fileCount, hunks } = chosen.counts(files);
  // What leads out is chosen by itself.
  const all = (/** @type {boolean} */ isSelected) => () => files.filter((file) => !isSelected || !file.consent).forEach((file) => chosen.setFile(file, isSelected));
  const isAny = fileCount > 0;
  return html`<div class="sticky-bar" role="region" aria-label="Apply the delivery"><button class="button primary" id="apply" ?disabled=${chosen.isSending || (!isAny && chosen.reply?.state !== 'pending')}
      @click=${() => chosen.send('delivery', chosen.body(files))}>${isAny ? `Apply ${counted(fileCount, 'file')}, ${counted(hunks, 'hunk')}` : chosen.reply?.state === 'pending' ? 'Apply nothing' : 'Nothing is selected'}</button>
    <button class="button" @click=${all(true)}>Select all</button><button class="button" @click=${all(false)}>Skip all</button>
    ${chosen.reply?.may_commit ? commitButtons(chosen) : nothing}<span class="grow"></span>
    <span class="muted wide-only"><kbd>n</kbd> <kbd>p</kbd> hunk · <kbd>y</kbd> select · <kbd>x</kbd> skip</span></div>`;
}

/** The button of the next undo. */
const undoHold = new AnswerHold();

/** Undoes the newest part that is applied: each part of a delivery is undone alone. The button of an earlier part
 * appears where that of the later one was pressed. @param {DeliveryChoice} chosen @param {string[]} parts */
function undoButton(chosen, parts) {
  const [part] = parts;
  const isEarlier = chosen.wasUndone && part !== chosen.undonePart;
  undoHold.show(isEarlier ? `${chosen.review.run} ${part}` : '');
  const text = isEarlier ? (parts.length > 1 ? `Undo the part before it, the newest of ${parts.length}` : 'Undo the part before it')
    : parts.length > 1 ? `Undo the newest of ${parts.length} parts` : 'Undo the delivery';
  const undo = () => {
    if (!chosen.isSending) chosen.send('undo', { part });
  };
  return heldButton(html`${icon('undo')} ${text}`, undo, isEarlier ? undoHold : null, { id: 'undo', isAnswered: chosen.isSending });
}

/** The outcomes of files that were delivered. */
const DELIVERED = ['created', 'changed', 'deleted', 'mode'];

/** What became of a file since it was delivered, or skipped. Returns the row itself if that is still true.
 * @param {DeliveryRow} row @param {DiffFile | undefined} file the file as it was applied, if it was
 * @returns {DeliveryRow} */
function rowNow(row, file) {
  const wasDelivered = DELIVERED.includes(row.outcome);
  if (file?.state === 'applied' && !wasDelivered) return { path: row.path, outcome: file.change ?? 'changed' };
  if (file?.state === 'reverted' && wasDelivered) return { path: row.path, outcome: 'undone' };
  return file?.state === 'changed since' && wasDelivered ? { ...row, reason: CHANGED_SINCE } : row;
}

/** The rows of a delivery as its files are now: the rest of one that was applied in part may have been applied since.
 * @param {DeliveryRow[]} rows @param {DiffReply | null} reply @param {string} directory */
function rowsNow(rows, reply, directory) {
  const files = new Map(reply?.applied?.map((file) => [file.path, file]));
  return rows.map((row) => {
    const path = relativePath(row.path, directory);
    const now = rowNow(row, files.get(path));
    const isWhole = now.hunks && files.get(path)?.state === 'applied' && !reply?.files.some((file) => file.path === path);
    return isWhole ? { ...now, hunks: undefined } : now;
  });
}

/** What is applied, if the page does not know how it was delivered. @param {DiffFile[]} applied @returns {DeliveryRow[]} */
const appliedRows = (applied) => applied.map((file) => rowNow({ path: file.path, outcome: file.change ?? 'changed' }, file));

/** The heading of what became of the files. @param {DeliveryChoice} chosen @param {DeliveryRow[]} rows */
function outcomeTitle(chosen, rows) {
  if (chosen.wasUndone) return 'Undone';
  const count = rows.filter(({ outcome: word }) => word === 'undone').length;
  if (!count) return 'What was delivered';
  return rows.some(({ outcome: word }) => DELIVERED.includes(word)) ? 'Partly undone' : 'Undone';
}

/** The files that are applied again as they were: without hunks, a file that was undone is as before. A page that has
 * undone nothing itself knows them from the server.
 * @param {DeliveryChoice} chosen @param {DeliveryRow[]} shown @param {DiffFile[]} offered */
function filesAgain(chosen, shown, offered) {
  const undone = chosen.wasUndone && chosen.mayApplyAgain ? shown.filter(({ outcome: word }) => word !== 'left')
    : chosen.rows ? [] : offered.filter((file) => file.undone && isApplicable(file));
  return undone.map(({ path }) => ({ path, take: true }));
}

/** @param {DeliveryChoice} chosen @param {RunStream} stream @param {{parts: string[] | null, offered: DiffFile[], directory: string}} files
 * the parts that can be undone, `null` if none may be, and the files that can be applied */
function outcome(chosen, stream, { parts, offered, directory }) {
  /** @type {DeliverySection} */
  const { rows, checks } = stream.sections.get('delivery') ?? { rows: null, checks: [] };
  const applied = chosen.reply?.applied ?? [];
  const recorded = chosen.answer ? null : rows;
  const current = recorded && rowsNow(recorded, chosen.reply, directory);
  const shown = chosen.rows ?? current ?? (parts?.length ? appliedRows(applied) : null);
  const shownChecks = chosen.answer ? [] : checks;
  if (!shown && !shownChecks.length) return nothing;
  // The checks are of what was delivered when the run ended.
  const isOutdated = chosen.reply ? current?.some((row, at) => row !== recorded?.[at]) : chosen.wasUndone;
  const again = filesAgain(chosen, shown ?? [], offered);
  const isKept = chosen.wasUndone && shown?.some(({ outcome: word, reason }) => word === 'left' && reason === CHANGED_SINCE);
  return html`<section aria-labelledby="outcome"><div class="bar"><h3 id="outcome" tabindex="-1">${outcomeTitle(chosen, shown ?? [])}</h3>
      ${parts ? undoButton(chosen, parts) : nothing}
      ${again.length ? html`<button class="button" id="again" ?disabled=${chosen.isSending} @click=${() => chosen.send('delivery', { files: again })}>Apply it again</button>` : nothing}</div>
    ${chosen.commit ? html`<p>${state('done', html`committed to <bdi>${chosen.commit.branch}</bdi>: <code>${chosen.commit.commit.slice(0, 10)}</code>`)}</p>` : nothing}
    ${shown?.length ? rowsTable(shown, directory, chosen.wasUndone) : html`<p class="muted">No file was delivered.</p>`}
    ${isKept ? html`<p>What you changed since stays. This reverts it too, and keeps your version with the delivery: <code>massgen undo ${chosen.undonePart ?? chosen.review.run} --force</code></p>` : nothing}
    ${shownChecks.length ? html`<h3>Checks after the delivery</h3>${isOutdated
      ? html`<p>They checked the files as the run delivered them. Other files are in the project now.</p>` : nothing}${checkList(shownChecks)}` : nothing}</section>`;
}

/** @param {RunStream} stream @param {{isReadOnly: boolean, directory: string, answer: string}} options */
export function deliveryView(stream, { isReadOnly, directory, answer }) {
  if (choice?.review.run !== stream.id || choice.answer !== answer) choice = new DeliveryChoice(stream.id, answer);
  const chosen = choice;
  /** @type {DeliverySection | undefined} */
  const delivery = stream.sections.get('delivery');
  const isPending = stream.questions.some((question) => question.kind === 'delivery');
  if (!delivery?.agent && !isPending && !answer) {
    if (isPipeline(stream.id)) return empty('The pipeline has nothing to deliver yet.', 'What its roles merge is delivered when its last role has ended.');
    return empty(stream.isLive ? 'Nothing is delivered yet.' : 'This run delivered nothing.', stream.isLive ? 'The winner delivers after the votes.'
      : html`The <a href=${runHref(stream.id, ['answers'])}>answers</a> are still there.`);
  }
  const isDone = delivery?.rows != null;
  chosen.key = `${chosen.review.key} ${isPending} ${isDone}`;
  const loaded = load(chosen.key, () => chosen.ask());
  /** @type {DiffReply | undefined} */
  const reply = loaded.value;
  if (reply) chosen.begin(reply);
  const files = reply ? filesOf(reply) : [];
  const applied = reply?.applied ?? [];
  // A delivery that waits needs an answer, even if nothing of it can be applied any more.
  const isReviewable = !isReadOnly && (isPending || (!stream.isLive && files.some(isApplicable)));
  chosen.isOpen = isReviewable && !chosen.isSending;
  const parts = reply?.parts ?? [];
  // What was just applied is the newest part, also before the server has said so.
  const mayUndo = !isReadOnly && !stream.isLive && (parts.length > 0 || (chosen.rows !== null && !chosen.wasUndone));
  const restHeading = isDone && !answer && files.length ? html`<h3>Not delivered</h3>` : nothing;
  return html`<div class="stack wide"><div class="bar"><h2>Delivery${answer ? html` of ${answer}` : nothing}</h2>
      ${delivery?.agent && !answer ? html`<span class="muted">by <bdi>${delivery.agent}</bdi></span>` : nothing}
      ${isPending ? state('ask', 'waits for your review') : nothing}${diffToggles()}</div>
    ${chosen.error ? failure(chosen.error, () => {
      chosen.error = null;
      forget(chosen.review.key);
    }) : nothing}
    ${outcome(chosen, stream, { parts: mayUndo ? parts : null, offered: isReviewable && !isPending ? files : [], directory })}
    ${delivery?.answer ? html`<details class="panel"><summary>Final answer</summary>${markdown(/** @type {any} */ (delivery).markdown, delivery.answer, 2)}</details>` : nothing}
    ${whenDiff(loaded, () => html`${restHeading}${isReviewable ? applyBar(chosen, files) : nothing}
      ${files.length ? reviewBody(chosen.review, files, isReviewable ? chosen : null)
        : applied.length ? html`<h3>Changes that were applied</h3>${reviewBody(chosen.review, applied, null)}` : empty('No file differs from the project.')}`, () => forget(chosen.review.key))}</div>`;
}
