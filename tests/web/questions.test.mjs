// What is pressed for one question or run is never taken for another one.

import assert from 'node:assert/strict';
import test from 'node:test';
import { templates, text } from './drawn.mjs';

globalThis.window = globalThis;
globalThis.BroadcastChannel = class { addEventListener() {} postMessage() {} };
globalThis.HTMLElement = class {};
globalThis.sessionStorage = { getItem: () => null };
globalThis.requestAnimationFrame = () => {};
globalThis.document = { visibilityState: 'visible', createTreeWalker() {}, querySelector: () => null };
const { questionPanel } = await import('../../src/cli/web/page/approvals.js');
const { steeringLine } = await import('../../src/cli/web/page/steering.js');
const { listenToKeys, onKey } = await import('../../src/cli/web/page/keys.js');

/** What the server was asked, and what it replies next. */
const asked = [];
let refusal = '';
globalThis.fetch = async (address, { body }) => {
  asked.push(`${address} ${body}`);
  return refusal ? Response.json({ error: { message: refusal } }, { status: 409 }) : Response.json({});
};
const settled = () => new Promise((done) => setImmediate(done));

/** Returns the button with this label, as it is drawn. */
function button(drawn, label) {
  const found = templates(drawn).find(({ strings, values }) => strings[0].startsWith('<button') && values.includes(label));
  const bound = (name) => found.values[found.strings.findIndex((part) => part.endsWith(name))];
  return { isHeld: bound('aria-disabled=') === 'true', click: (detail = 1, timeStamp = performance.now()) => bound('@click=')({ detail, timeStamp }) };
}

const approval = (id) => ({ id, kind: 'approval', agent: 'ann', tool: 'write_file', call_id: id });
const panel = (run, ...questions) => questionPanel({ id: run, questions, approvals: [], now: 0 }, true, false);

test('a new question takes no answer at first, and none from the second click of two', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const allow = (id) => button(panel('log_a', approval(id)), 'Allow once');
  assert.equal(allow('q1').isHeld, true);
  allow('q1').click();
  context.mock.timers.tick(1000);
  assert.equal(allow('q1').isHeld, false);
  allow('q1').click(2);
  assert.deepEqual(asked.splice(0), []);
  allow('q1').click();
  allow('q1').click();
  assert.equal(allow('q1').isHeld, true);
  await settled();
  assert.deepEqual(asked.splice(0), ['/api/runs/log_a/approvals/q1 {"answer":"once"}']);
  // The key that answered repeats, and the next question is there.
  allow('q2').click(0);
  assert.deepEqual(asked.splice(0), []);
  context.mock.timers.tick(1000);
  allow('q2').click(0);
  assert.deepEqual(asked.splice(0), ['/api/runs/log_a/approvals/q2 {"answer":"once"}']);
  await settled();
});

test('a click that is read late answers no question that was new when it was made', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const early = performance.now();
  panel('log_d', approval('q1'));
  context.mock.timers.tick(1000);
  const allow = button(panel('log_d', approval('q1')), 'Allow once');
  assert.equal(allow.isHeld, false);
  allow.click(1, early);
  assert.deepEqual(asked.splice(0), []);
  allow.click();
  assert.deepEqual(asked.splice(0), ['/api/runs/log_d/approvals/q1 {"answer":"once"}']);
  await settled();
});

test('an open question says once what follows without an answer', () => {
  const question = { id: 'q1', kind: 'open', question: 'How wide?', otherwise: 'without an answer, assumed: 80' };
  assert.deepEqual(text(panel('log_e', question)).match(/without an answer[^<]*/gi), ['Without an answer, assumed: 80.']);
});

test('two keys belong together by the times when they were pressed', () => {
  /** @type {(key: string, timeStamp: number) => void} */
  let press = () => {};
  document.addEventListener = (_name, handle) => {
    press = (key, timeStamp) => handle({ key, timeStamp, preventDefault() {} });
  };
  let count = 0;
  onKey('g r', 'all runs', () => {
    count += 1;
  });
  listenToKeys();
  press('g', 1000);
  press('r', 2000);
  assert.equal(count, 1);
  press('g', 3000);
  press('r', 5000);
  assert.equal(count, 1);
});

test('the refusal of an answer is shown at its question, which can be answered again', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  panel('log_b', approval('q1'));
  context.mock.timers.tick(1000);
  refusal = 'nothing waits';
  button(panel('log_b', approval('q1')), 'Deny').click();
  await settled();
  refusal = '';
  asked.length = 0;
  assert.match(text(panel('log_b', approval('q1'))), /nothing waits/);
  assert.equal(button(panel('log_b', approval('q1')), 'Deny').isHeld, false);
  assert.doesNotMatch(text(panel('log_b', approval('q2'))), /nothing waits/);
  assert.doesNotMatch(text(panel('log_c', approval('q1'))), /nothing waits/);
});

test('a run is stopped only after a question about this run, and a new line says nothing of the last', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const stream = (id) => ({ id, reading: Symbol(id), agents: [] });
  const [one, other] = [stream('pipeline_1'), stream('pipeline_2')];
  button(steeringLine(one, null), 'Cancel').click();
  assert.match(text(steeringLine(one, null)), /Really cancel\?/);
  button(steeringLine(other, null), 'Cancel').click();
  assert.deepEqual(asked.splice(0), []);
  context.mock.timers.tick(1000);
  button(steeringLine(other, null), 'Really cancel?').click();
  assert.deepEqual(asked.splice(0), ['/api/runs/pipeline_2/stop {"mode":"cancel"}']);
  await settled();
  assert.match(text(steeringLine(other, null)), /it can be continued/);
  other.reading = Symbol('continued');
  assert.doesNotMatch(text(steeringLine(other, null)), /it can be continued/);
});

test('a message in the view of a stage goes to its pipeline, which is not stopped there', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const stream = { id: 'log_stage', reading: Symbol('log_stage'), run: { agents: ['planner'] } };
  const drawn = () => steeringLine(stream, 'planner', 'pipeline_4');
  assert.doesNotMatch(text(drawn()), /Cancel|End with the best/);
  const form = templates(drawn()).find(({ strings }) => strings.some((part) => part.endsWith('@submit=')));
  globalThis.FormData = class { get() { return ' be quick '; } };
  const submit = form.values[form.strings.findIndex((part) => part.endsWith('@submit='))];
  submit({ preventDefault() {}, target: { reset() {} } });
  assert.deepEqual(asked.splice(0), ['/api/runs/pipeline_4/messages {"agent":"planner","text":"be quick"}']);
  await settled();
  assert.match(text(drawn()), /Sent to planner/);
});

test('the second click of a double click confirms nothing', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const stream = { id: 'pipeline_3', reading: Symbol('pipeline_3'), agents: [] };
  const cancel = button(steeringLine(stream, null), 'Cancel');
  cancel.click(1);
  // The second click comes before and after the question is drawn.
  cancel.click(2);
  const sure = () => button(steeringLine(stream, null), 'Really cancel?');
  assert.equal(sure().isHeld, true);
  sure().click(2);
  sure().click(0);
  assert.deepEqual(asked.splice(0), []);
  context.mock.timers.tick(1000);
  assert.equal(sure().isHeld, false);
  sure().click(1);
  assert.deepEqual(asked.splice(0), ['/api/runs/pipeline_3/stop {"mode":"cancel"}']);
  await settled();
  // The question disappears if nothing follows, and is new when it comes again.
  button(steeringLine(stream, null), 'Cancel').click(1);
  context.mock.timers.tick(5000);
  button(steeringLine(stream, null), 'Cancel').click(1);
  assert.equal(sure().isHeld, true);
});
