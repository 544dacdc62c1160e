// The syntax colours of a hunk: tokens of each line, by the language that the name of the file tells. A
// colour only repeats what the text says.

import { load } from './redraw.js';
import { tokenizeWith } from './vendor/speed-highlight/dist/tokenize.js';

/** A part of a line, and what it is. @typedef {[string, string | undefined]} Piece */

/** The endings of files by language. @type {Record<string, string>} */
const ENDINGS = { bash: 'sh bash zsh', c: 'c h cc cpp hpp cxx', css: 'css', go: 'go', java: 'java kt cs', json: 'json', py: 'py pyi', rs: 'rs', sql: 'sql',
  toml: 'toml', ts: 'ts tsx mts js jsx mjs cjs', yaml: 'yaml yml' };
/** Number of lines that are read together, and of characters and of spaces in a row beyond which they are not: the
 * time for some texts grows with the square of these. */
const CHUNK_LINES = 100;
const CHUNK_CHARS_MAX = 8000;
const SPACES = /\s{200}/;
/** Time for a chunk after which no more are read, in milliseconds: agents may write texts that take long. */
const CHUNK_MS_MAX = 200;
let isOff = false;

/** The grammar of a file, once it is loaded. @param {string} path */
function grammarOf(path) {
  const ending = path.slice(path.lastIndexOf('.') + 1).toLowerCase();
  const language = Object.keys(ENDINGS).find((name) => ENDINGS[name].split(' ').includes(ending));
  return language && load(`language ${language}`, () => import(`./vendor/speed-highlight/dist/languages/${language}.js`)).value?.default;
}

/** @param {string[]} lines @param {any} grammar */
function piecesOf(lines, grammar) {
  /** @type {Piece[][]} */
  const pieces = lines.map(() => []);
  for (let start = 0; start < lines.length; start += CHUNK_LINES) {
    // The mark of a missing line feed is on a line of its own.
    const chunk = lines.slice(start, start + CHUNK_LINES).map((line) => line.split('\n', 1)[0]).join('\n');
    let line = start;
    if (!isOff && chunk.length <= CHUNK_CHARS_MAX && !SPACES.test(chunk)) {
      const began = performance.now();
      tokenizeWith(chunk, grammar, (/** @type {string} */ text, /** @type {string | undefined} */ type) => text.split('\n').forEach((part, at) => {
        line += Number(at > 0);
        if (part) pieces[line].push([part, type]);
      }), { languages: { js: grammar, py: grammar } });
      isOff = performance.now() - began > CHUNK_MS_MAX;
    }
  }
  return pieces;
}

/** @typedef {{grammar: any, old: Piece[][], fresh: Piece[][]}} Coloured the lines of both versions, from those above the hunk */
/** @type {WeakMap<Hunk, Coloured>} */
const known = new WeakMap();

/** @param {Hunk} hunk @param {string} path @returns {Coloured | undefined} */
export function coloured(hunk, path) {
  const grammar = grammarOf(path);
  if (!grammar || known.get(hunk)?.grammar === grammar) return known.get(hunk);
  const without = (/** @type {string} */ kind) => piecesOf([...hunk.above, ...hunk.lines.filter((line) => line.kind !== kind).map(({ text }) => text), ...hunk.below], grammar);
  const colours = { grammar, old: without('added'), fresh: without('removed') };
  known.set(hunk, colours);
  return colours;
}
