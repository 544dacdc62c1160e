// The parts of the page that need no browser: pairing the lines of a hunk, and writing mentions.

import assert from 'node:assert/strict';
import test from 'node:test';
import { text } from './drawn.mjs';

globalThis.document = { addEventListener() {}, createTreeWalker: () => ({}), createComment: () => ({}), visibilityState: 'visible' };
globalThis.BroadcastChannel = class { addEventListener() {} postMessage() {} };
globalThis.sessionStorage = { getItem: () => null };
globalThis.location = { hash: '' };
globalThis.window = globalThis;
globalThis.requestAnimationFrame = () => {};
const { differingPart, hunkTable, pairedRows } = await import('../../src/cli/web/page/diff.js');
const { mayBegin, mentionOf } = await import('../../src/cli/web/page/picker.js');
const { taskOf } = await import('../../src/cli/web/page/comments.js');

const KINDS = { ' ': 'context', '-': 'removed', '+': 'added' };
const hunk = (...lines) => ({ index: 0, digest: '', old_start: 5, new_start: 7, above: [], below: [], lines: lines.map((line) => ({ kind: KINDS[line[0]], text: line.slice(1) })) });
const shown = (rows) => rows.map(({ kind, old, fresh }) => [kind, old && `${old.number}${old.text}`, fresh && `${fresh.number}${fresh.text}`]);

test('removed lines are paired with the added lines after them', () => {
  assert.deepEqual(shown(pairedRows(hunk(' a', '-b', '-c', '+d', ' e', '+f'), false)), [
    ['context', '5a', '7a'], ['change', '6b', '8d'], ['change', '7c', null], ['context', '8e', '9e'], ['change', null, '10f']]);
});

test('pairs that differ in white space alone can be shown as unchanged', () => {
  const lines = hunk('-  a b', '+ab', '-c', '+d');
  assert.deepEqual(pairedRows(lines, true).map(({ kind }) => kind), ['space', 'change']);
  const separate = hunk('-  a b', '+ab', ' x', '-c', '+d');
  assert.deepEqual(pairedRows(separate, true).map(({ kind }) => kind), ['space', 'context', 'change']);
  assert.deepEqual(pairedRows(separate, false).map(({ kind }) => kind), ['change', 'context', 'change']);
});

test('the part of a line that differs ends at words', () => {
  const part = (text, other) => {
    const found = differingPart(text, other);
    return found && text.slice(...found);
  };
  assert.equal(part('let count = 1;', 'let counts = 1;'), 'count');
  assert.equal(part('return a + b;', 'return a - b;'), '+');
  assert.equal(part('abc', 'xyz'), null);
  assert.equal(part('same', 'same'), '');
});

test('mentions are written as the terminal writes them', () => {
  for (const [name, isWrite, expected] of [
    ['src/a.rs', false, '@src/a.rs'], ['src/a.rs', true, '@src/a.rs:w'], ['my file', true, '@"my file":w'], ['..', false, '@..'],
    ['a.', false, '@"a."'], ['ä/ö', false, '@ä/ö'], ['文', false, '@"文"'], ['<img src=x>', false, '@"<img src=x>"'],
    ['a"b', false, null], ['a\nb', false, null], ['', false, null],
  ]) assert.equal(mentionOf(name, isWrite), expected, name);
  for (const before of ['', 'see ', '(', 'x\n', 'ä', '"']) assert.ok(mayBegin(before), before);
  for (const before of ['a', 'me9', '_', 'https://', '\\', '@']) assert.ok(!mayBegin(before), before);
});

test('code that is quoted in a comment opens no path', () => {
  const task = taskOf([{ path: 'a@b/c.py', hunk: 0, at: 1, line: 3, code: '@secret:w `x`', text: 'Why?\nTell me.' }]);
  assert.equal(task, "Review of a\\@b/c.py: address this comment:\n\n- a\\@b/c.py, line 3, `\\@secret:w 'x'`:\n  Why?\n  Tell me.");
});

test('lines around a hunk are shown by request, and the colours of a language change no text', async () => {
  const shown = { ...hunk(' a = 1', '-b = "x"  # one', '+b = "y"  # one'), above: ['def f():', '    """', '    return 2 """'], below: ['last'] };
  const drawn = (path, above, below) => text(hunkTable(shown, path, 'hunk', { isSplit: false, hidesSpace: false }, { cursor: null, after: () => '' }, { lines: 600, above, below }));
  const sources = (drawing) => [...drawing.matchAll(/<td class="src">(.*?)<\/td>/gs)].map(([, source]) => source.replace(/<[^>]*>/g, ''));
  const lines = ['    return 2 """', 'a = 1', 'b = "x"  # one', 'b = "y"  # one', 'last'];
  assert.deepEqual(sources(drawn('a.txt', 1, 1)), lines);
  assert.deepEqual(sources(drawn('a.txt', 0, 0)), lines.slice(1, 4));
  assert.match(drawn('a.txt', 1, 1), /<td class="ln">4<\/td>\s*<td class="ln">6<\/td>.*return 2.*<td class="ln">7<\/td>\s*<td class="ln">9<\/td>[^\n]*last/s);
  drawn('a.py', 1, 1);
  while (!/tok-/.test(drawn('a.py', 1, 1))) await new Promise((done) => setTimeout(done, 5));
  assert.deepEqual(sources(drawn('a.py', 1, 1)), lines);
  // The text above the first line that is shown counts too.
  assert.match(drawn('a.py', 1, 1), /<span class="tok-cmnt">    return 2 """<\/span>/);
  assert.match(drawn('a.py', 1, 1), /<span class="tok-str">"<mark>x<\/mark>"<\/span>/);
});

test('the time for a text of an agent is bounded', async () => {
  for (const source of ['\t'.repeat(50_000), '\n \n'.repeat(4_000), 'a'.repeat(50_000), '`${'.repeat(20_000)]) {
    const long = { ...hunk(), above: source.split('\n') };
    const draw = () => hunkTable(long, 'a.ts', 'hunk', { isSplit: false, hidesSpace: false }, { cursor: null, after: () => '' }, { lines: 600, above: 0, below: 0 });
    draw();
    await new Promise((done) => setTimeout(done, 50));
    const began = performance.now();
    draw();
    assert.ok(performance.now() - began < 1000, `${performance.now() - began} ms`);
  }
});
