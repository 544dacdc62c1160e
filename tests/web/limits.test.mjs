// The limits that a person types when a run is started, or a pipeline continued: what is sent, and where the
// server's refusal is shown.

import assert from 'node:assert/strict';
import test from 'node:test';
import { templates, text } from './drawn.mjs';

globalThis.window = globalThis;
globalThis.addEventListener = () => {};
globalThis.BroadcastChannel = class { addEventListener() {} postMessage() {} };
globalThis.HTMLElement = class {};
globalThis.sessionStorage = { getItem: (name) => (name === 'massgen-pasted' ? null : 'say it'), setItem() {} };
globalThis.location = { hash: '#/new' };
globalThis.requestAnimationFrame = (draw) => setImmediate(draw);
/** The element that gets the focus. */
let focused = '';
const folded = { open: false };
globalThis.document = { visibilityState: 'visible', addEventListener() {}, createTreeWalker() {}, querySelector: () => null,
  getElementById: (id) => ({ closest: () => folded, focus: () => { focused = id; } }) };
const { composerView } = await import('../../src/cli/web/page/composer.js');
const { limitForm } = await import('../../src/cli/web/page/pipeline.js');
const { resumeFailure } = await import('../../src/cli/web/page/runs.js');

/** What the server was sent, and the field that it refuses next. */
const sent = [];
let refused = '';
globalThis.fetch = async (address, { body }) => {
  sent.push([address, JSON.parse(body)]);
  const error = { message: `\`${refused}\`: expected a whole number`, hints: [] };
  return refused ? Response.json({ error, field: refused }, { status: 400 }) : Response.json({ text: 'shown', notes: '' });
};
const settled = async () => {
  for (let turn = 0; turn < 8; turn += 1) await new Promise((done) => setImmediate(done));
};

/** The value that is bound behind this text. */
function bound({ strings, values }, name) {
  return values[strings.findIndex((part) => part.endsWith(name))];
}

/** The field of a limit as it is drawn, and what describes it. */
function field(drawn, id) {
  const found = templates(drawn).find(({ strings, values }) => strings[0].includes('answer-field') && values.includes(id));
  return found && { type: (value) => bound(found, '@input=')({ target: { value } }), value: bound(found, '.value='), isInvalid: bound(found, 'aria-invalid='), describedBy: bound(found, 'aria-describedby=') };
}

const team = { id: 'team.yaml', name: 'team.yaml', agents: [], max_tool_calls: 50, max_cost_usd: null, orchestrator_timeout_seconds: 1800, max_iterations: null };
const draw = (teams = [team]) => composerView({ info: { teams }, route: { params: new URLSearchParams() } });

test('limits are sent as they are typed, and a refusal is said beside its field, which gets the focus', async () => {
  assert.match(text(draw()), /config: 50/);
  assert.match(text(draw()), /those of the config/);
  assert.equal(field(draw(), 'limit-max_iterations'), undefined);
  field(draw(), 'limit-max_tool_calls').type(' -3 ');
  field(draw(), 'limit-max_cost_usd').type('  ');
  const press = async () => {
    const whole = templates(draw()).find(({ strings }) => strings.some((part) => part.includes('id="dry-run"')));
    whole.values[whole.strings.findIndex((part) => part.includes('id="dry-run"')) + 1]();
    await settled();
  };
  refused = 'max_tool_calls';
  await press();
  assert.deepEqual(sent.splice(0), [['/api/runs', { task: 'say it', team: 'team.yaml', limits: { max_tool_calls: '-3' }, dry_run: true }]]);
  assert.deepEqual([focused, folded.open], ['limit-max_tool_calls', true]);
  const wrong = field(draw(), 'limit-max_tool_calls');
  assert.deepEqual([wrong.isInvalid, wrong.describedBy], ['true', 'limit-max_tool_calls-now limit-max_tool_calls-error']);
  assert.match(text(draw()), /<span>expected a whole number/);
  assert.doesNotMatch(text(draw()), /role="alert"/);
  wrong.type('3');
  assert.equal(field(draw(), 'limit-max_tool_calls').isInvalid, 'false');
  assert.match(text(draw()), /Tool calls: 3/);
  refused = '';
  await press();
  assert.match(text(draw()), /shown/);
  // What is shown is not that of other limits.
  field(draw(), 'limit-max_tool_calls').type('4');
  assert.doesNotMatch(text(draw()), /shown/);
  const pipeline = { ...team, stages: ['planner'], max_iterations: 3 };
  assert.ok(field(draw([pipeline]), 'limit-max_iterations'));
});

test('a pipeline is continued with the limits that are typed for it, and for no other', async () => {
  sent.length = 0;
  let isRestarted = false;
  const stream = (id) => ({ id, run: { limits: { max_tool_calls: 1 } }, restart: () => { isRestarted = true; } });
  const [one, other] = [stream('pipeline_1'), stream('pipeline_2')];
  field(limitForm(one), 'continue-max_iterations').type('x');
  const submit = async () => {
    bound(limitForm(one), '@submit=')({ preventDefault() {} });
    await settled();
  };
  refused = 'max_iterations';
  await submit();
  assert.deepEqual(sent.splice(0), [['/api/runs/pipeline_1/continue', { limits: { max_iterations: 'x' } }]]);
  assert.equal(focused, 'continue-max_iterations');
  assert.match(text(limitForm(one)), /until now: 1/);
  assert.equal(field(limitForm(one), 'continue-max_iterations').isInvalid, 'true');
  assert.equal(text(resumeFailure('pipeline_1')), '');
  field(limitForm(one), 'continue-max_iterations').type('2');
  assert.equal(field(limitForm(one), 'continue-max_iterations').isInvalid, 'false');
  refused = '';
  await submit();
  assert.deepEqual([sent.splice(0)[0][1].limits, isRestarted], [{ max_iterations: '2' }, true]);
  assert.equal(field(limitForm(one), 'continue-max_iterations').value, '');
  field(limitForm(one), 'continue-max_iterations').type('5');
  assert.equal(field(limitForm(other), 'continue-max_iterations').value, '');
});

test('without a team the page leads to the form that writes a config', () => {
  assert.match(text(draw([])), /No agents are configured.* <a href="#\/config">Write a config<\/a>.*<code>massgen web --config @examples\/basic\/offline_demo<\/code>/s);
  assert.doesNotMatch(text(draw()), /No agents are configured|offline_demo/);
});

test('a review is chosen where the config has none, and a pipeline has none to choose', async () => {
  const box = (teams) => templates(draw(teams)).find(({ strings }) => strings.some((part) => part.includes('id="review"')));
  bound(box(), '@change=')();
  const whole = templates(draw()).find(({ strings }) => strings.some((part) => part.includes('id="dry-run"')));
  whole.values[whole.strings.findIndex((part) => part.includes('id="dry-run"')) + 1]();
  await settled();
  assert.equal(sent.splice(0)[0][1].review, true);
  bound(box(), '@change=')();
  const reviewed = [{ ...team, review: true }];
  assert.equal(box(reviewed), undefined);
  assert.match(text(draw(reviewed)), /waits for your review/);
  assert.equal(box([{ ...team, stages: ['planner'] }]), undefined);
});
