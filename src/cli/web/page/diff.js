// Hunks of a diff as tables, unified or side by side. The hunks come from the server; the page only
// pairs removed with added lines, marks the part of a pair that differs, can show pairs that differ in
// white space alone as unchanged, and more of the lines around a hunk.

import { coloured } from './highlight.js';
import { html, nothing } from './vendor/lit-html/lit-html.js';

/** @typedef {{number: number, text: string, at: number}} Side `at` is the index in the hunk's lines */
/** @typedef {{kind: 'context' | 'change' | 'space', old: Side | null, fresh: Side | null}} Row */
/** @typedef {{isSplit: boolean, hidesSpace: boolean}} DiffStyle */

/** Share of a pair of lines that must be equal for the rest to be marked. */
const EQUAL_SHARE_MIN = 0.3;
/** Length of lines beyond which nothing in them is marked. */
const MARKED_CHARS_MAX = 2000;

/** @param {Row[]} rows @param {Side[]} removed @param {Side[]} added @param {boolean} hidesSpace */
function addPairs(rows, removed, added, hidesSpace) {
  const count = Math.max(removed.length, added.length);
  for (let index = 0; index < count; index += 1) {
    const [old, fresh] = [removed[index] ?? null, added[index] ?? null];
    const isSpace = hidesSpace && old && fresh && old.text.replace(/\s+/g, '') === fresh.text.replace(/\s+/g, '');
    rows.push({ kind: isSpace ? 'space' : 'change', old, fresh });
  }
  removed.length = 0;
  added.length = 0;
}

/** Pairs the lines of a hunk. @param {Hunk} hunk @param {boolean} hidesSpace @returns {Row[]} */
export function pairedRows(hunk, hidesSpace) {
  /** @type {Row[]} */
  const rows = [];
  /** @type {Side[]} */
  const removed = [];
  /** @type {Side[]} */
  const added = [];
  let [oldNumber, newNumber] = [hunk.old_start, hunk.new_start];
  hunk.lines.forEach((line, at) => {
    if (line.kind === 'context') {
      addPairs(rows, removed, added, hidesSpace);
      rows.push({ kind: 'context', old: { number: oldNumber, text: line.text, at }, fresh: { number: newNumber, text: line.text, at } });
    }
    if (line.kind === 'removed') removed.push({ number: oldNumber, text: line.text, at });
    if (line.kind === 'added') added.push({ number: newNumber, text: line.text, at });
    if (line.kind !== 'added') oldNumber += 1;
    if (line.kind !== 'removed') newNumber += 1;
  });
  addPairs(rows, removed, added, hidesSpace);
  return rows;
}

/** The part of `text` that differs from `other`; `null` if they have too little in common.
 * @param {string} text @param {string} other @returns {[number, number] | null} */
export function differingPart(text, other) {
  if (text.length > MARKED_CHARS_MAX || other.length > MARKED_CHARS_MAX) return null;
  const shortest = Math.min(text.length, other.length);
  let start = 0;
  while (start < shortest && text[start] === other[start]) start += 1;
  let end = 0;
  while (end < shortest - start && text[text.length - 1 - end] === other[other.length - 1 - end]) end += 1;
  const isWord = (/** @type {string} */ char) => /\w/.test(char ?? '');
  while (start > 0 && isWord(text[start - 1]) && (isWord(text[start]) || isWord(other[start]))) start -= 1;
  while (end > 0 && isWord(text[text.length - end]) && (isWord(text[text.length - end - 1]) || isWord(other[other.length - end - 1]))) end -= 1;
  const equal = text.slice(0, start).trim().length + text.slice(text.length - end).trim().length;
  return equal < EQUAL_SHARE_MIN * Math.max(text.trim().length, other.trim().length) ? null : [start, text.length - end];
}

/** @param {Side} side @param {Side | null} other @param {import('./highlight.js').Piece[]} [pieces] its tokens */
function markedText({ text }, other, pieces = []) {
  const [start, end] = (other && differingPart(text, other.text)) ?? [0, 0];
  const rest = text.slice(pieces.reduce((sum, [piece]) => sum + piece.length, 0));
  let at = 0;
  return [...pieces, [rest, undefined]].map(([piece = '', type]) => {
    const [from, to] = [start, end].map((cut) => Math.min(Math.max(cut - at, 0), piece.length));
    at += piece.length;
    const drawn = from < to ? html`${piece.slice(0, from)}<mark>${piece.slice(from, to)}</mark>${piece.slice(to)}` : piece;
    return type ? html`<span class="tok-${type}">${drawn}</span>` : drawn;
  });
}

const SIGNS = { context: ' ', added: '+', removed: '−', space: '~' };
/** The signs as a screen reader says them. */
const SIGN_WORDS = { context: '', added: 'added', removed: 'removed', space: 'white space' };

/** @param {'context' | 'added' | 'removed' | 'space'} kind */
const signCell = (kind) => html`<td class="sign"><span aria-hidden="true">${SIGNS[kind]}</span>${kind === 'context' ? nothing
  : html`<span class="hidden">${SIGN_WORDS[kind]}</span>`}</td>`;

/** @typedef {{cursor: number | null, after: (at: number) => any}} HunkMarks
 *   the line of the cursor, and what follows a line */
/** @typedef {(version: 'old' | 'fresh', side: Side) => import('./highlight.js').Piece[] | undefined} Tokens */

/** @param {Row[]} rows @param {HunkMarks} marks @param {Tokens} tokens */
function unified(rows, { cursor, after }, tokens) {
  /** @type {any[]} */
  const out = [];
  const line = (/** @type {any} */ kind, /** @type {Side | null} */ old, /** @type {Side | null} */ fresh, /** @type {Side} */ side, /** @type {Side | null} */ other) => {
    out.push(html`<tr class="${kind} ${side.at === cursor ? 'at' : ''}" data-at=${side.at}><td class="ln">${old?.number}</td>
      <td class="ln">${fresh?.number}</td>${signCell(kind)}<td class="src">${markedText(side, other, tokens(kind === 'removed' ? 'old' : 'fresh', side))}</td></tr>`, after(side.at));
  };
  for (let index = 0; index < rows.length; index += 1) {
    const row = rows[index];
    if (row.kind !== 'change') line(row.kind, row.old, row.fresh, /** @type {Side} */ (row.fresh), null);
    else {
      let end = index;
      while (rows[end]?.kind === 'change') end += 1;
      const block = rows.slice(index, end);
      for (const { old, fresh } of block) if (old) line('removed', old, null, old, fresh);
      for (const { old, fresh } of block) if (fresh) line('added', null, fresh, fresh, old);
      index = end - 1;
    }
  }
  return out;
}

/** @param {Row[]} rows @param {HunkMarks} marks @param {Tokens} tokens */
function split(rows, { cursor, after }, tokens) {
  const side = (/** @type {'old' | 'fresh'} */ version, /** @type {any} */ kind, /** @type {Side | null} */ own, /** @type {Side | null} */ other) => (own
    ? html`<td class="ln ${kind}">${own.number}</td>${signCell(kind)}<td class="src ${kind}">${markedText(own, other, tokens(version, own))}</td>`
    : html`<td class="ln none"></td><td class="sign none"></td><td class="src none"></td>`);
  return rows.map(({ kind, old, fresh }) => {
    const at = (fresh ?? old)?.at ?? -1;
    const isAt = cursor !== null && (old?.at === cursor || fresh?.at === cursor);
    const kinds = kind === 'change' ? ['removed', 'added'] : [kind, kind];
    const isChange = kind === 'change';
    return [html`<tr class="${isAt ? 'at' : ''}" data-at=${at}>${side('old', kinds[0], old, isChange ? fresh : null)}${side('fresh', kinds[1], fresh, isChange ? old : null)}</tr>`,
      old && old.at !== at ? after(old.at) : nothing, after(at)];
  });
}

/** How much of a hunk is shown: the number of its lines, and of those around it.
 * @typedef {{lines: number, above: number, below: number}} ShownLines */

/** Unchanged lines around a hunk, which are not part of it. @param {string[]} texts @param {number} oldStart @param {number} newStart @returns {Row[]} */
const rowsAround = (texts, oldStart, newStart) => texts.map((text, index) => ({ kind: 'context', old: { number: oldStart + index, text, at: -1 }, fresh: { number: newStart + index, text, at: -1 } }));

/** One hunk as a table. @param {Hunk} hunk @param {string} path @param {string} label @param {DiffStyle} style @param {HunkMarks} marks
 * @param {ShownLines} shown */
export function hunkTable(hunk, path, label, style, marks, shown) {
  const { above, below, old_start: oldStart, new_start: newStart } = hunk;
  const without = (/** @type {string} */ kind) => hunk.lines.filter((line) => line.kind !== kind).length;
  const rows = [...rowsAround(above.slice(above.length - shown.above), oldStart - shown.above, newStart - shown.above),
    ...pairedRows({ ...hunk, lines: hunk.lines.slice(0, shown.lines) }, style.hidesSpace),
    ...rowsAround(below.slice(0, shown.below), oldStart + without('added'), newStart + without('removed'))];
  const colours = coloured(hunk, path);
  const first = { old: oldStart - above.length, fresh: newStart - above.length };
  /** @type {Tokens} */
  const tokens = (version, side) => colours?.[version][side.number - first[version]];
  return html`<table class="diff ${style.isSplit ? 'split' : 'unified'}" aria-label=${label}><tbody>${style.isSplit
    ? split(rows, marks, tokens) : unified(rows, marks, tokens)}</tbody></table>`;
}

/** @param {DiffFile} file */
export const countsText = ({ added, removed }) => (added || removed
  ? html`<span class="num counts"><span class="plus">+${added}</span> <span class="minus">−${removed}</span></span>` : nothing);
