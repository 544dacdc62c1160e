// The list of runs is read again for the view of one run as rarely as possible.

import assert from 'node:assert/strict';
import test from 'node:test';

globalThis.window = globalThis;
globalThis.addEventListener = () => {};
globalThis.matchMedia = () => ({ matches: false, addEventListener() {} });
globalThis.location = { hash: '#/runs/log_1' };
globalThis.BroadcastChannel = class { addEventListener() {} postMessage() {} };
globalThis.HTMLElement = class {};
globalThis.sessionStorage = { getItem: () => null };
globalThis.localStorage = { getItem: () => null };
globalThis.requestAnimationFrame = () => {};
globalThis.document = { visibilityState: 'visible', addEventListener() {}, createTreeWalker() {}, querySelector: () => null };
const { runView } = await import('../../src/cli/web/page/run.js');

let asked = 0;
/** The only run in the list. */
let row = { id: 'log_1', session: null, live: false, state: 'running', resumable: false };
globalThis.fetch = async () => {
  asked += 1;
  return Response.json({ runs: [row] });
};
const settled = () => new Promise((done) => setImmediate(done));
const stream = { id: 'log_1', reading: Symbol('first'), state: 'ended', questions: [], approvals: [], agents: [], isLive: false, now: 0,
  ballot: { answers: [], votes: [], winner: null } };
const draw = async () => {
  runView({ stream, info: { teams: [] }, route: { parts: ['runs', 'log_1'], params: new URLSearchParams() } });
  for (let turn = 0; turn < 5; turn += 1) await settled();
};

test('the list is read less and less often while it says that an ended run is active', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  await draw();
  assert.equal(asked, 1);
  const times = [];
  for (let time = 0; time < 30_000; time += 100) {
    const before = asked;
    await draw();
    context.mock.timers.tick(100);
    await settled();
    if (asked > before) times.push(time + 100);
  }
  const waits = times.map((time, index) => time - (times[index - 1] ?? 0));
  assert.ok(times.length >= 7 && times.length <= 10, `${times}`);
  assert.ok(waits[0] <= 400 && waits.at(-1) >= 5000, `${waits}`);
});

test('the list is read once when the run is read again, and not again once it agrees', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  row = { ...row, state: 'ended' };
  asked = 0;
  Object.assign(stream, { reading: Symbol('resumed'), state: 'ended' });
  for (let time = 0; time < 10_000; time += 500) {
    await draw();
    context.mock.timers.tick(500);
  }
  // The first draw knows only the old list.
  assert.ok(asked >= 1 && asked <= 2, `${asked}`);
});
