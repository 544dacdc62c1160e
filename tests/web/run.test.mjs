// The view of one run: its limits, and how rarely it reads the list of runs again.

import assert from 'node:assert/strict';
import test from 'node:test';
import { text } from './drawn.mjs';

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
const { compareView } = await import('../../src/cli/web/page/compare.js');
const { votesView } = await import('../../src/cli/web/page/ballot.js');

let asked = 0;
/** The run in the list, and others. */
const others = [];
let row = { id: 'log_1', session: null, live: false, state: 'running', resumable: false };
globalThis.fetch = async () => {
  asked += 1;
  return Response.json({ runs: [row, ...others] });
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

test('what a live run has used is shown against the limits of its team', async () => {
  row = { ...row, live: true };
  const team = (limits) => ({ agents: [{ id: 'ben' }, { id: 'ann' }], ...limits });
  const usage = { input_tokens: 500, output_tokens: 250, cost_usd: 0.25, cost_is_complete: true };
  const run = { task: 'go', agents: ['ann', 'ben'], phase: 'coordinating', usage, tool_calls: 3, warnings: [], more_warnings: 0, sandbox: [] };
  const shown = (teams, isLive) => text(runView({
    stream: { ...stream, run, isLive, state: 'live', reading: Symbol('limits'), sections: new Map() }, info: { teams },
    route: { parts: ['runs', 'log_1', 'votes'], params: new URLSearchParams() },
  }));
  const limited = team({ max_cost_usd: '0.5', max_tokens_total: 900, max_tool_calls: 5 });
  const drawn = shown([limited, { agents: [{ id: 'cam' }] }], true);
  for (const part of ['500 in · 250 out, at most 900', '$0.25 of $0.5', '3 of 5 tool calls']) assert.ok(drawn.includes(part), `${part}: ${drawn}`);
  // What the run was started or continued with counts, not its config.
  run.limits = { max_cost_usd: '2', max_tokens_total: null, max_tool_calls: 100 };
  const own = shown([limited], true);
  for (const part of ['500 in · 250 out<', '$0.25 of $2', '3 of 100 tool calls']) assert.ok(own.includes(part), `${part}: ${own}`);
  const hint = 'limited to what the pipeline had left';
  for (const pipeline of ['pipeline_1', null]) {
    row = { ...row, pipeline };
    await draw();
    // When the run is resumed, the list is read again.
    stream.reading = Symbol(pipeline);
    await draw();
    assert.equal(shown([limited], true).includes(hint), pipeline !== null);
    assert.ok(!shown([limited], false).includes(hint));
  }
  delete run.limits;
  // A run that has ended, or of which it is not known which team it has.
  for (const other of [shown([limited], false), shown([limited, team({ max_tool_calls: 6 })], true), shown([team({})], true)]) {
    assert.ok(other.includes('3 tool calls') && !other.includes('<meter'), other);
  }
});

test('a turn leads to the others of its session', async () => {
  row = { ...row, session: 'session_1' };
  const link = async (session) => {
    others.splice(0, others.length, { ...row, id: 'log_2', session });
    await draw();
    // When the run is resumed, the list is read again.
    stream.reading = Symbol(session);
    await draw();
    const run = { task: 'go', agents: [], phase: 'ended', usage: {}, tool_calls: 0, warnings: [], more_warnings: 0, sandbox: [] };
    return text(runView({ stream: { ...stream, run, sections: new Map() }, info: { teams: [] }, route: { parts: ['runs', 'log_1', 'votes'], params: new URLSearchParams() } }));
  };
  assert.match(await link('session_1'), /one of 2 turns of a session/);
  assert.doesNotMatch(await link('session_2'), /turns of a session/);
});

test('what the sandbox does not protect is listed in the words of the server', () => {
  const sandbox = [{ agents: ['ann', 'ben'], isolation: 'sandbox level `namespaces` (namespaces)', leaves_open: ['bugs of the kernel', 'pipes in `/tmp`'] }];
  const run = { task: 'go', agents: [], phase: 'ended', usage: {}, tool_calls: 0, warnings: [], more_warnings: 0, sandbox };
  const drawn = text(runView({ stream: { ...stream, run, sections: new Map() }, info: { teams: [] }, route: { parts: ['runs', 'log_1', 'votes'], params: new URLSearchParams() } }));
  assert.match(drawn, /commands: sandbox level <code>namespaces<\/code> \(namespaces\) · what is not protected \(2\)<\/summary>/);
  assert.match(drawn, /not protected:<\/p><ul><li>bugs of the kernel<\/li><li>pipes in <code>\/tmp<\/code><\/li>/);
});

test('the header says what became of the files since the run ended', async () => {
  const header = async (outcome, status, rows = null) => {
    row = { ...row, live: false, state: 'ended', pipeline: null, outcome };
    await draw();
    // When the run is read again, so is the list.
    stream.reading = Symbol(outcome);
    await draw();
    const run = { task: 'go', agents: [], phase: 'ended', status, summary: 'ann answered; 2 files delivered', usage: {}, tool_calls: 0, warnings: [], more_warnings: 0, sandbox: [] };
    const drawn = text(runView({ stream: { ...stream, run, sections: new Map([['delivery', { agent: 'ann', rows }]]) }, info: { teams: [] }, route: { parts: ['runs', 'log_1', 'votes'], params: new URLSearchParams() } }));
    return [/class="state tone-(\w+)".*?<span>([^<]*)/s.exec(drawn).slice(1).join(' '), /class="summary">([^<]*)/.exec(drawn)[1]];
  };
  assert.deepEqual(await header('delivered', 'delivered'), ['done delivered', 'ann answered; 2 files delivered']);
  assert.deepEqual(await header('undone', 'delivered'), ['idle undone', 'ann answered; 2 files delivered; undone since']);
  assert.deepEqual(await header('partly undone', 'delivered'), ['idle partly undone', 'ann answered; 2 files delivered; partly undone since']);
  assert.deepEqual(await header('partly applied', 'delivered'), ['done partly applied', 'ann answered; 2 files delivered']);
  const part = [{ outcome: 'changed', hunks: { taken: 1, total: 2 } }, { outcome: 'created' }];
  assert.deepEqual(await header('partly applied', 'delivered', part), ['done partly applied', 'ann answered; 2 files delivered']);
  assert.deepEqual(await header('delivered', 'delivered', part), ['done delivered', 'ann answered; the rest of the delivery was applied since the run ended']);
  assert.deepEqual(await header('delivered', 'delivered', part.slice(1)), ['done delivered', 'ann answered; 2 files delivered']);
  assert.deepEqual(await header('partly applied', 'delivered', [{ outcome: 'declined' }]), ['done partly applied', 'ann answered; 2 files delivered; partly applied since']);
  assert.deepEqual(await header('interrupted', 'interrupted'), ['bad interrupted', 'ann answered; 2 files delivered']);
});

test('an answer without files is no failed diff', async () => {
  const drawn = async (id, isFileless) => {
    globalThis.fetch = async () => Response.json({ error: { message: 'the answer has no files' } }, { status: 400 });
    const answered = { ...stream, id, ballot: { answers: [{ label: 'agent1.1', agent: 'ann', has_files: !isFileless }], votes: [], winner: null } };
    const view = () => compareView(answered, { parts: [], params: new URLSearchParams() });
    view();
    for (let turn = 0; turn < 5; turn += 1) await settled();
    return text(view());
  };
  const fileless = await drawn('log_f1', true);
  assert.match(fileless, /agent1\.1 has no files, only text\./);
  assert.doesNotMatch(fileless, /Try again/);
  assert.match(await drawn('log_f2', false), /the answer has no files.*Try again/s);
});

test('a run that has ended promises no answers and votes', () => {
  const answers = [{ label: 'agent1.1', agent: 'ann', seen_by: [], at_ms: 0 }];
  const view = (isLive, found) => text(votesView({ ...stream, isLive, ballot: { answers: found, votes: [], winner: null } }));
  assert.match(view(true, []), /No answers and no votes yet/);
  assert.match(view(false, []), /No agent answered/);
  assert.match(view(true, answers), /No votes yet/);
  assert.match(view(false, answers), /No agent voted/);
});
