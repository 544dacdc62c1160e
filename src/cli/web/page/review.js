// The files of a diff with their hunks: the tree of files, the cursor that keys move, comments, what
// has been viewed, and in a delivery the choice of each file and hunk.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { addComment, commentForm, commentsOf } from './comments.js';
import { countsText, hunkTable } from './diff.js';
import { empty, icon, whenLoaded } from './elements.js';
import { counted } from './format.js';
import { onKey } from './keys.js';
import { onceDrawn, redraw } from './redraw.js';

/** What can be chosen in a delivery.
 * @typedef {{fileState: (file: DiffFile) => 'all' | 'some' | 'none', setFile: (file: DiffFile, isSelected: boolean) => void,
 *   hasHunk: (file: DiffFile, hunk: Hunk) => boolean, setHunk: (file: DiffFile, hunk: Hunk, isSelected: boolean) => void,
 *   isOpen: boolean}} Choices */

/** Number of lines of a file from which on it is folded. */
const FOLDED_LINES = 1500;
/** Number of lines of a hunk, and of files, that are shown at first, and more by request. */
const LINES_SHOWN = 600;
/** Number of lines around a hunk that a press shows. */
const CONTEXT_LINES = 20;
const FILES_SHOWN = 200;
const CHANGES = /** @type {Record<string, string>} */ ({ created: 'new', deleted: 'removed', changed: '', refused: '' });

const narrowScreen = window.matchMedia('(max-width: 900px)');
const diffStyle = { isSplit: localStorage.getItem('massgen-split') === 'yes', hidesSpace: false };

/** @param {DiffFile} file */
export const isApplicable = (file) => !file.refused && !file.conflict;

/** All files of a diff; those that are refused come last. @param {DiffReply} reply @returns {DiffFile[]} */
export const filesOf = ({ files, refused = [] }) => [...files, ...refused.map((one) => ({ ...one, hunks: [] }))];

/** One diff as a person goes through it. */
export class Review {
  /** @param {string} run @param {string} key */
  constructor(run, key) {
    this.run = run;
    this.key = key;
    /** @type {DiffFile[]} */
    this.files = [];
    /** @type {Set<string>} */
    this.viewed = new Set();
    /** @type {Map<string, boolean>} */
    this.folded = new Map();
    this.cursor = { path: '', hunk: 0, at: -1 };
    this.isWriting = false;
    this.filesShown = FILES_SHOWN;
    /** The lines that are shown of each hunk and around it, if more than at first. @type {Map<Hunk, import('./diff.js').ShownLines>} */
    this.linesShown = new Map();
  }

  /** @param {Hunk} hunk */
  shownLines(hunk) {
    return this.linesShown.get(hunk) ?? { lines: LINES_SHOWN, above: 0, below: 0 };
  }

  /** @param {Hunk} hunk @param {'lines' | 'above' | 'below'} where @param {number} count */
  showMore(hunk, where, count) {
    const shown = this.shownLines(hunk);
    this.linesShown.set(hunk, { ...shown, [where]: Math.min(shown[where] + count, hunk[where].length) });
    redraw();
  }

  /** @param {DiffFile} file */
  isFolded(file) {
    const lines = file.hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0);
    return this.folded.get(file.path) ?? (this.viewed.has(file.path) || lines > FOLDED_LINES);
  }

  /** All hunks that are in sight, in order. */
  visibleHunks() {
    return this.files.slice(0, this.filesShown).flatMap((file) => (this.isFolded(file) ? [] : file.hunks.map((hunk) => ({ file, hunk }))));
  }

  current() {
    const file = this.files.find((one) => one.path === this.cursor.path);
    return { file, hunk: file?.hunks[this.cursor.hunk] };
  }

  /** @param {string} path @param {number} hunk @param {number} at @param {boolean} isFar */
  moveTo(path, hunk, at, isFar) {
    this.cursor = { path, hunk, at };
    this.isWriting = false;
    redraw();
    onceDrawn(() => {
      const target = document.querySelector(isFar ? '.hunk.current' : 'tr.at');
      if (isFar && target instanceof HTMLElement) target.focus({ preventScroll: true });
      target?.scrollIntoView({ block: isFar ? 'start' : 'nearest' });
    });
  }

  /** @param {number} by */
  stepHunk(by) {
    const all = this.visibleHunks();
    if (!all.length) return;
    const at = all.findIndex(({ file, hunk }) => file.path === this.cursor.path && file.hunks.indexOf(hunk) === this.cursor.hunk);
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))];
    const first = next.hunk.lines.findIndex((line) => line.kind !== 'context');
    this.moveTo(next.file.path, next.file.hunks.indexOf(next.hunk), Math.max(0, first), true);
  }

  /** @param {number} by */
  stepLine(by) {
    const { file, hunk } = this.current();
    if (!file || !hunk) return this.stepHunk(1);
    const at = this.cursor.at + by;
    if (at >= this.shownLines(hunk).lines && at < hunk.lines.length) this.showMore(hunk, 'lines', LINES_SHOWN);
    if (at >= 0 && at < hunk.lines.length) return this.moveTo(file.path, this.cursor.hunk, at, false);
    return this.stepHunk(by);
  }

  /** @param {number} by */
  stepFile(by) {
    const at = this.files.findIndex((file) => file.path === this.cursor.path);
    const next = this.files[Math.min(this.files.length - 1, Math.max(0, at + by))];
    if (next) this.openFile(next);
  }

  /** @param {DiffFile} file */
  openFile(file) {
    this.folded.set(file.path, false);
    this.cursor = { path: file.path, hunk: 0, at: -1 };
    redraw();
    onceDrawn(() => {
      const target = document.getElementById(`file-${this.files.indexOf(file)}`);
      target?.scrollIntoView({ block: 'start' });
      target?.focus({ preventScroll: true });
    });
  }

  /** @param {DiffFile} file */
  toggleViewed(file) {
    if (!this.viewed.delete(file.path)) this.viewed.add(file.path);
    this.folded.delete(file.path);
    redraw();
  }

  comment() {
    const { hunk } = this.current();
    if (!hunk) return this.stepHunk(1);
    this.isWriting = true;
    redraw();
    onceDrawn(() => {
      const area = document.querySelector('.comment-form textarea');
      if (area instanceof HTMLElement) area.focus();
    });
  }

  /** @param {string | null} text */
  endComment(text) {
    const { file, hunk } = this.current();
    this.isWriting = false;
    if (file && hunk && text !== null) {
      const { at } = this.cursor;
      const side = hunk.lines[at]?.kind === 'removed' ? 'added' : 'removed';
      const start = side === 'added' ? hunk.old_start : hunk.new_start;
      const line = start + hunk.lines.slice(0, at).filter((one) => one.kind !== side).length;
      addComment(this.run, { path: file.path, hunk: this.cursor.hunk, at, line, code: hunk.lines[at]?.text ?? '', text });
    }
    redraw();
    requestAnimationFrame(() => {
      const target = document.querySelector('.hunk.current');
      if (target instanceof HTMLElement) target.focus({ preventScroll: true });
    });
  }
}

/** @param {Review} review @param {Choices | null} choices */
function nameKeys(review, choices) {
  onKey('n', 'next hunk', () => review.stepHunk(1), 'Diff');
  onKey('p', 'previous hunk', () => review.stepHunk(-1), 'Diff');
  onKey('j', 'next line', () => review.stepLine(1), 'Diff');
  onKey('k', 'previous line', () => review.stepLine(-1), 'Diff');
  onKey(']', 'next file', () => review.stepFile(1), 'Diff');
  onKey('[', 'previous file', () => review.stepFile(-1), 'Diff');
  onKey('m', 'comment on the line', () => review.comment(), 'Diff');
  onKey('v', 'viewed: fold the file', () => {
    const { file } = review.current();
    if (file) review.toggleViewed(file);
  }, 'Diff');
  onKey('t', 'split or unified', toggleSplit, 'Diff');
  onKey('w', 'hide or show white space', toggleSpace, 'Diff');
  if (!choices?.isOpen) return;
  const choose = (/** @type {boolean} */ isSelected) => () => {
    const { file, hunk } = review.current();
    if (!file || !isApplicable(file)) return;
    if (hunk) choices.setHunk(file, hunk, isSelected);
    else choices.setFile(file, isSelected);
  };
  onKey('y', 'select the hunk', choose(true), 'Diff');
  onKey('x', 'skip the hunk', choose(false), 'Diff');
}

function toggleSplit() {
  diffStyle.isSplit = !diffStyle.isSplit;
  localStorage.setItem('massgen-split', diffStyle.isSplit ? 'yes' : 'no');
  redraw();
}

function toggleSpace() {
  diffStyle.hidesSpace = !diffStyle.hidesSpace;
  redraw();
}

/** Why nothing of a file can be applied. @param {DiffFile} file */
const refusal = (file) => (file.refused ? `${file.protected ? 'protected' : 'refused'}: ${file.refused}`
  : file.conflict ? `conflict: ${file.conflict}` : '');

/** @param {DiffFile} file @param {'before' | 'after'} when */
function sideText(file, when) {
  const side = file[when];
  if (side?.type === 'binary') return `binary, ${side.size} bytes, sha256 ${side.sha256?.slice(0, 12)}…`;
  if (side?.type === 'link') return `link to ${side.target}`;
  return { nothing: 'nothing', directory: 'a directory', lost: 'not kept' }[side?.type ?? ''] ?? 'text';
}

/** What a file is, if lines do not say it. @param {DiffFile} file */
function fileNote(file) {
  const notes = [];
  if (file.mode) notes.push(`mode ${file.mode.before} → ${file.mode.after}`);
  const types = [file.before?.type, file.after?.type];
  if (types.some((type) => type && !['text', 'nothing'].includes(type))) notes.push(`${sideText(file, 'before')} → ${sideText(file, 'after')}`);
  if (file.too_long) notes.push('too long to show: only the whole file can be applied');
  return notes.join('; ');
}

/** @param {Review} review @param {DiffFile} file @param {Hunk} hunk @param {number} index @param {Choices | null} choices */
function hunkSection(review, file, hunk, index, choices) {
  const isCurrent = review.cursor.path === file.path && review.cursor.hunk === index && review.cursor.at >= 0;
  const comments = commentsOf(review.run).filter((one) => one.path === file.path && one.hunk === index);
  const columns = diffStyle.isSplit && !narrowScreen.matches ? 6 : 4;
  const after = (/** @type {number} */ at) => {
    const isHere = isCurrent && review.cursor.at === at;
    const comment = comments.find((one) => one.at === at);
    if (isHere && review.isWriting) return html`<tr class="inset"><td colspan=${columns}>${commentForm(comment?.text ?? '', (text) => review.endComment(text))}</td></tr>`;
    return comment ? html`<tr class="inset"><td colspan=${columns}><div class="comment">${icon('comment')}<p>${comment.text}</p>
      <button class="button small" @click=${() => { review.moveTo(file.path, index, at, false); review.comment(); }}>Edit</button></div></td></tr>` : nothing;
  };
  const click = (/** @type {MouseEvent} */ event) => {
    if (!(event.target instanceof Element) || event.target.closest('.inset')) return;
    const row = event.target.closest('tr[data-at]');
    if (!row || String(getSelection())) return;
    const at = Number(row.getAttribute('data-at'));
    if (at < 0) return;
    review.moveTo(file.path, index, at, false);
    if (event.target.closest('.ln')) review.comment();
  };
  const isSelected = choices?.hasHunk(file, hunk) ?? false;
  const label = `Hunk ${index + 1} of ${file.hunks.length} of ${file.path}`;
  const shown = review.shownLines(hunk);
  const aroundButton = (/** @type {'above' | 'below'} */ where) => {
    const count = Math.min(CONTEXT_LINES, hunk[where].length - shown[where]);
    return count > 0 && shown.lines >= hunk.lines.length ? html`<button class="button small quiet" @click=${() => review.showMore(hunk, where, count)}>Show ${counted(count, 'more line')} ${where}<span class="hidden"> hunk ${index + 1} of ${file.path}</span></button>` : nothing;
  };
  return html`<section class="hunk ${isCurrent ? 'current' : ''} ${choices && !isSelected ? 'skipped' : ''}" tabindex="-1" aria-label=${label}>
    <header class="hunk-head"><code>${hunk.header}</code>${aroundButton('above')}<span class="grow"></span>
      <button class="button small quiet" @click=${() => {
        const at = isCurrent ? review.cursor.at : Math.max(0, hunk.lines.findIndex((line) => line.kind !== 'context'));
        review.moveTo(file.path, index, at, false);
        review.comment();
      }}>Comment</button>
      ${choices ? html`<label class="check"><input type="checkbox" class="hunk-choice" .checked=${isSelected} ?disabled=${!choices.isOpen || !isApplicable(file)}
        @change=${(/** @type {Event} */ event) => choices.setHunk(file, hunk, /** @type {HTMLInputElement} */ (event.target).checked)}>
        ${isSelected ? 'selected' : 'skipped'}<span class="hidden"> hunk ${index + 1} of ${file.path}</span></label>` : nothing}</header>
    <div class="hunk-body" @click=${click}>${hunkTable(hunk, file.path, label, { ...diffStyle, isSplit: diffStyle.isSplit && !narrowScreen.matches },
      { cursor: isCurrent ? review.cursor.at : null, after }, shown)}</div>
    ${hunk.lines.length > shown.lines ? html`<p class="pad"><button class="button small" @click=${() => review.showMore(hunk, 'lines', LINES_SHOWN)}>Show more of ${hunk.lines.length} lines</button></p>`
      : html`<p class="hunk-more">${aroundButton('below')}</p>`}</section>`;
}

/** @param {Review} review @param {DiffFile} file @param {number} index @param {Choices | null} choices */
function fileSection(review, file, index, choices) {
  const isFolded = review.isFolded(file);
  const selected = choices?.fileState(file);
  const fold = () => {
    review.folded.set(file.path, !isFolded);
    redraw();
  };
  const reason = refusal(file);
  const change = CHANGES[file.change ?? ''] ?? file.change;
  const note = fileNote(file);
  return html`<section class="file ${reason ? 'refused' : ''}" id="file-${index}" tabindex="-1" aria-labelledby="file-name-${index}">
    <header class="file-head"><button class="fold" aria-expanded=${!isFolded} aria-label="${isFolded ? 'Unfold' : 'Fold'} ${file.path}" @click=${fold}>${isFolded ? '▸' : '▾'}</button>
      ${choices ? html`<input type="checkbox" class="file-choice" aria-label="Select ${file.path}" .checked=${selected === 'all'} .indeterminate=${selected === 'some'}
        ?disabled=${!choices.isOpen || !isApplicable(file)} @change=${(/** @type {Event} */ event) => choices.setFile(file, /** @type {HTMLInputElement} */ (event.target).checked)}>` : nothing}
      <h3 id="file-name-${index}" class="path"><bdi>${file.path}</bdi></h3>
      ${change ? html`<span class="chip">${change}</span>` : nothing}${file.state ? html`<span class="chip">${file.state === 'reverted' ? 'undone' : file.state}</span>` : nothing}
      ${file.undone ? html`<span class="chip">${icon('undo')} undone</span>` : nothing}
      ${file.details ? html`<span class="chip tone-ask">${file.details}</span>` : nothing}${file.consent ? html`<span class="chip tone-ask">${file.consent}: select it by itself</span>` : nothing}
      ${reason ? html`<span class="chip tone-ask">${icon('lock')} ${reason}</span>` : nothing}
      ${countsText(file)}<span class="grow"></span>
      <label class="check"><input type="checkbox" .checked=${review.viewed.has(file.path)} @change=${() => review.toggleViewed(file)}> Viewed<span class="hidden"> ${file.path}</span></label></header>
    ${isFolded ? nothing : html`${note ? html`<p class="muted pad">${note}</p>` : nothing}
      ${file.hunks.map((hunk, number) => hunkSection(review, file, hunk, number, choices))}
      ${file.hunks.length || note || file.refused ? nothing : html`<p class="muted pad">No lines differ.</p>`}`}</section>`;
}

/** @param {Review} review */
function fileTree(review) {
  /** @type {Map<string, DiffFile[]>} */
  const folders = new Map();
  for (const file of review.files.slice(0, review.filesShown)) {
    const folder = file.path.slice(0, file.path.lastIndexOf('/') + 1);
    folders.set(folder, [...(folders.get(folder) ?? []), file]);
  }
  const rest = review.files.length - review.filesShown;
  const entry = (/** @type {DiffFile} */ file) => html`<li><button class="tree-file ${review.cursor.path === file.path ? 'here' : ''}" aria-current=${review.cursor.path === file.path}
    @click=${() => review.openFile(file)}>${icon(isApplicable(file) ? 'file' : 'lock')}<bdi>${file.path.slice(file.path.lastIndexOf('/') + 1)}</bdi>
    ${review.viewed.has(file.path) ? html`<span class="muted">viewed</span>` : nothing}${countsText(file)}</button></li>`;
  return html`<nav class="tree" aria-label="Changed files"><p class="muted">${counted(review.files.length, 'file')}</p>
    ${[...folders].sort(([one], [other]) => (one < other ? -1 : 1)).map(([folder, files]) => html`${folder ? html`<p class="folder">${icon('folder')}<bdi>${folder}</bdi></p>` : nothing}<ul>${files.map(entry)}</ul>`)}
    ${rest > 0 ? html`<button class="button small" @click=${() => { review.filesShown += FILES_SHOWN; redraw(); }}>Show more of ${review.files.length} files</button>` : nothing}</nav>`;
}

/** Shows a diff; that there is none is no error. @param {Loaded} loaded
 * @param {(value: DiffReply) => any} shown @param {() => void} again */
export function whenDiff(loaded, shown, again) {
  const { error } = loaded;
  return error?.status === 404 ? empty(error.message, error.hints[0]) : whenLoaded(loaded, 'the diff', shown, again);
}

/** The choice between unified and split, and of white space. */
export const diffToggles = () => html`<label class="check"><input type="checkbox" .checked=${diffStyle.isSplit} @change=${toggleSplit}> Split</label>
  <label class="check"><input type="checkbox" .checked=${diffStyle.hidesSpace} @change=${toggleSpace}> Hide white space</label>`;

/** @param {Review} review @param {DiffFile[]} files @param {Choices | null} choices */
export function reviewBody(review, files, choices) {
  review.files = files;
  if (!files.length) return empty('No file differs.');
  nameKeys(review, choices);
  return html`<div class="review">${fileTree(review)}<div class="files">${files.slice(0, review.filesShown).map((file, index) => fileSection(review, file, index, choices))}</div></div>`;
}
