// Hunks of a diff as tables, unified or side by side. The hunks come from the server; the page only
// pairs removed with added lines, marks the part of a pair that differs, and can show pairs that
// differ in white space alone as unchanged.

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

/** @param {Side} side @param {Side | null} other */
function markedText({ text }, other) {
  const part = other && differingPart(text, other.text);
  if (!part || part[0] >= part[1]) return text;
  return html`${text.slice(0, part[0])}<mark>${text.slice(part[0], part[1])}</mark>${text.slice(part[1])}`;
}

const SIGNS = { context: ' ', added: '+', removed: '−', space: '~' };
/** The signs as a screen reader says them. */
const SIGN_WORDS = { context: '', added: 'added', removed: 'removed', space: 'white space' };

/** @param {'context' | 'added' | 'removed' | 'space'} kind */
const signCell = (kind) => html`<td class="sign"><span aria-hidden="true">${SIGNS[kind]}</span>${kind === 'context' ? nothing
  : html`<span class="hidden">${SIGN_WORDS[kind]}</span>`}</td>`;

/** @typedef {{cursor: number | null, after: (at: number) => any}} HunkMarks
 *   the line of the cursor, and what follows a line */

/** @param {Row[]} rows @param {HunkMarks} marks */
function unified(rows, { cursor, after }) {
  /** @type {any[]} */
  const out = [];
  const line = (/** @type {any} */ kind, /** @type {Side | null} */ old, /** @type {Side | null} */ fresh, /** @type {Side} */ side, /** @type {Side | null} */ other) => {
    out.push(html`<tr class="${kind} ${side.at === cursor ? 'at' : ''}" data-at=${side.at}><td class="ln">${old?.number}</td>
      <td class="ln">${fresh?.number}</td>${signCell(kind)}<td class="src">${markedText(side, other)}</td></tr>`, after(side.at));
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

/** @param {Row[]} rows @param {HunkMarks} marks */
function split(rows, { cursor, after }) {
  const side = (/** @type {any} */ kind, /** @type {Side | null} */ own, /** @type {Side | null} */ other) => (own
    ? html`<td class="ln ${kind}">${own.number}</td>${signCell(kind)}<td class="src ${kind}">${markedText(own, other)}</td>`
    : html`<td class="ln none"></td><td class="sign none"></td><td class="src none"></td>`);
  return rows.map(({ kind, old, fresh }) => {
    const at = (fresh ?? old)?.at ?? -1;
    const isAt = cursor !== null && (old?.at === cursor || fresh?.at === cursor);
    const kinds = kind === 'change' ? ['removed', 'added'] : [kind, kind];
    const isChange = kind === 'change';
    return [html`<tr class="${isAt ? 'at' : ''}" data-at=${at}>${side(kinds[0], old, isChange ? fresh : null)}${side(kinds[1], fresh, isChange ? old : null)}</tr>`,
      old && old.at !== at ? after(old.at) : nothing, after(at)];
  });
}

/** One hunk as a table. @param {Hunk} hunk @param {string} label @param {DiffStyle} style @param {HunkMarks} marks
 * @param {number} linesMax the number of its lines that are shown */
export function hunkTable(hunk, label, style, marks, linesMax) {
  const shown = hunk.lines.length > linesMax ? { ...hunk, lines: hunk.lines.slice(0, linesMax) } : hunk;
  const rows = pairedRows(shown, style.hidesSpace);
  return html`<table class="diff ${style.isSplit ? 'split' : 'unified'}" aria-label=${label}><tbody>${style.isSplit
    ? split(rows, marks) : unified(rows, marks)}</tbody></table>`;
}

/** @param {Hunk} hunk */
export function hunkHeader(hunk) {
  if (hunk.header) return hunk.header;
  const linesExcept = (/** @type {string} */ kind) => hunk.lines.filter((line) => line.kind !== kind).length;
  return `@@ -${hunk.old_start},${linesExcept('added')} +${hunk.new_start},${linesExcept('removed')} @@`;
}

/** @param {Hunk[]} hunks */
export function changeCounts(hunks) {
  let [added, removed] = [0, 0];
  for (const { lines } of hunks) {
    for (const { kind } of lines) {
      if (kind === 'added') added += 1;
      if (kind === 'removed') removed += 1;
    }
  }
  return { added, removed };
}

/** @param {Hunk[]} hunks */
export function countsText(hunks) {
  if (!hunks.length) return nothing;
  const { added, removed } = changeCounts(hunks);
  return html`<span class="num counts"><span class="plus">+${added}</span> <span class="minus">−${removed}</span></span>`;
}
