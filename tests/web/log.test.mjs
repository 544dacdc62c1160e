// The log of a run that is resumed: lines that were known may be replaced.

import assert from 'node:assert/strict';
import test from 'node:test';
import { text } from './drawn.mjs';

globalThis.window = globalThis;
globalThis.BroadcastChannel = class { addEventListener() {} postMessage() {} };
globalThis.HTMLElement = class {};
globalThis.sessionStorage = { getItem: () => null };
globalThis.requestAnimationFrame = () => {};
globalThis.document = { visibilityState: 'visible', createTreeWalker() {}, querySelector: () => null };
const { logView } = await import('../../src/cli/web/page/log.js');

test('the log of a run that is resumed is read again', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  let events = ['run_started', 'coordination_stopped'];
  globalThis.fetch = async (address) => {
    const after = Number(new URL(address, 'http://localhost').searchParams.get('after') ?? 0);
    return Response.json({ events: events.slice(after).map((type) => ({ type, time: '2026-11-02T14:03:22Z' })), has_more: false });
  };
  const stream = { id: 'log_1', lastId: '2', reading: Symbol('first') };
  const shown = async () => {
    logView(stream);
    for (let turn = 0; turn < 5; turn += 1) await new Promise((done) => setImmediate(done));
    return text(logView(stream));
  };
  assert.match(await shown(), /coordination stopped/);
  events = ['run_started', 'answered'];
  stream.reading = Symbol('resumed');
  const again = await shown();
  assert.match(again, /answered/);
  assert.doesNotMatch(again, /coordination stopped/);
});

test('the log says in words what was checked, answered and delivered', async () => {
  const events = [{ type: 'checked', finding: { check: 'tests', verdict: 'not_run' } }, { type: 'final_answer', content: 'It is done.' },
    { type: 'delivered', rows: [{ path: '/p/a.txt', outcome: 'created', bytes: 3 }, { path: '/p/b.txt', outcome: 'taken_back' }] }, { type: 'delivered', rows: [] }];
  globalThis.fetch = async () => Response.json({ events: events.map((event) => ({ ...event, time: '2026-11-02T14:03:22Z' })), has_more: false });
  const stream = { id: 'log_2', lastId: '4', reading: Symbol('words') };
  logView(stream);
  for (let turn = 0; turn < 5; turn += 1) await new Promise((done) => setImmediate(done));
  const lines = [...text(logView(stream)).matchAll(/class="args">([^<]*)/g)].map(([, line]) => line);
  assert.deepEqual(lines, ['tests not run', 'It is done.', 'created /p/a.txt, taken back /p/b.txt', 'no files']);
});
