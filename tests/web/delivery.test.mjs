// A delivery that was made in parts is undone part by part.

import assert from 'node:assert/strict';
import test from 'node:test';
import { templates, text } from './drawn.mjs';

globalThis.window = globalThis;
/** What happens when the page is looked at again. */
const focused = [];
globalThis.addEventListener = (name, then) => name === 'focus' && focused.push(then);
globalThis.matchMedia = () => ({ matches: false, addEventListener() {} });
globalThis.BroadcastChannel = class { addEventListener() {} postMessage() {} };
globalThis.HTMLElement = class {};
globalThis.sessionStorage = { getItem: () => null };
globalThis.localStorage = { getItem: () => null };
globalThis.requestAnimationFrame = () => {};
globalThis.document = { visibilityState: 'visible', createTreeWalker() {}, querySelector: () => null };
const { deliveryView } = await import('../../src/cli/web/page/delivery.js');

/** The parts that are applied, newest first, and the bodies of the requests to undo one. */
const parts = ['pipeline_3_a', 'pipeline_2_a', 'pipeline_1_a'];
const undone = [];
globalThis.fetch = async (address, { method, body }) => {
  if (method === 'POST') {
    undone.push(`${address} ${body}`);
    parts.shift();
    return Response.json({ rows: [{ path: 'a.txt', outcome: 'restored' }], may_apply_again: false });
  }
  return Response.json({ state: 'kept', files: [], applied: [{ path: 'a.txt', change: 'changed', state: 'applied', hunks: [] }], parts: [...parts] });
};
const settled = async () => {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((done) => setImmediate(done));
};

const stream = { id: 'pipeline_x_a', questions: [], isLive: false, sections: new Map([['delivery', { agent: 'ann', answer: '', rows: null, checks: [] }]]) };

/** The button that undoes something, as the view draws it now: its text and what a click does. */
async function undoButton() {
  const view = () => deliveryView(stream, { isReadOnly: false, directory: '/project', answer: '' });
  view();
  await settled();
  const found = templates(view()).find(({ values }) => values.includes('undo'));
  if (!found) return null;
  const at = (name) => found.values[found.strings.findIndex((part) => part.endsWith(name))];
  return { text: /Undo .*/.exec(text(found))[0].replace('</button>', ''), isHeld: at('aria-disabled=') === 'true', click: () => at('@click=')({ detail: 1 }) };
}

test('each part is undone in turn, the newest first, and no click undoes two', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const texts = ['Undo the newest of 3 parts', 'Undo the part before it, the newest of 2', 'Undo the part before it'];
  for (const [index, expected] of texts.entries()) {
    const button = await undoButton();
    assert.equal(button.text, expected);
    if (index) {
      // It is where the button of the later part was pressed.
      assert.equal(button.isHeld, true);
      button.click();
      await settled();
      assert.equal(undone.length, index);
      context.mock.timers.tick(1000);
    }
    const ready = await undoButton();
    ready.click();
    ready.click();
    await settled();
    assert.equal(undone.length, index + 1);
    assert.equal(undone[index], `/api/runs/pipeline_x_a/undo {"part":"pipeline_${3 - index}_a"}`);
  }
  assert.equal(await undoButton(), null);
});

test('a delivery that waits is answered even if nothing of it can be applied any more', async () => {
  const conflict = 'you changed it since the run began';
  globalThis.fetch = async () => Response.json({ state: 'pending', files: [{ path: 'a.txt', change: 'changed', conflict, hunks: [] }] });
  const waiting = { ...stream, id: 'log_y', isLive: true, questions: [{ kind: 'delivery' }] };
  const view = () => deliveryView(waiting, { isReadOnly: false, directory: '/project', answer: '' });
  view();
  await settled();
  const drawn = text(view());
  assert.match(drawn, /Apply nothing/);
  assert.match(drawn, /conflict: you changed it since the run began/);
});

test('a file that was undone can be applied by hunk, and one that was changed cannot', async () => {
  const hunk = (index) => ({ index, digest: `d${index}`, header: '', old_start: 1, new_start: 1, above: [], below: [], lines: [{ kind: 'added', text: 'x' }] });
  const files = [['a.txt', { undone: true }], ['b.txt', { conflict: 'you changed it' }]]
    .map(([path, why]) => ({ path, change: 'changed', hunks: [hunk(0), hunk(1)], ...why }));
  let sent = null;
  globalThis.fetch = async (address, { method, body }) => {
    if (method !== 'POST') return Response.json({ state: 'kept', files, applied: [], parts: [] });
    sent = JSON.parse(body);
    return Response.json({ rows: [{ path: 'a.txt', outcome: 'restored', hunks: { taken: 1, total: 2 } }] });
  };
  const view = () => deliveryView({ ...stream, id: 'log_z' }, { isReadOnly: false, directory: '/project', answer: '' });
  view();
  await settled();
  const drawn = text(view());
  assert.match(drawn, / undone</);
  assert.equal(drawn.split('conflict: ').length, 2);
  const choices = templates(view()).filter(({ strings }) => strings.some((part) => part.includes('class="hunk-choice"')));
  assert.equal(choices.length, 4);
  const handler = ({ strings, values }, name) => values[strings.findIndex((part) => part.endsWith(name))];
  for (const index of [1, 2]) handler(choices[index], '@change=')({ target: { checked: true } });
  const apply = templates(view()).find(({ strings }) => strings.some((part) => part.includes('id="apply"')));
  assert.match(text(apply), /Apply 1 file, 1 hunk/);
  handler(apply, '@click=')();
  await settled();
  assert.deepEqual(sent, { files: [{ path: 'a.txt', take: true, hunks: [{ index: 1, digest: 'd1' }] }] });
  assert.match(text(view()), /delivered again \(1 of 2 hunks\)/);
});

test('an undo that leaves a changed file says how to revert it too', async () => {
  const rows = [{ path: 'a.txt', outcome: 'left', reason: 'it was changed since' }, { path: 'b.txt', outcome: 'restored' }];
  globalThis.fetch = async (address, { method }) => Response.json(method === 'POST' ? { rows, may_apply_again: true }
    : { state: 'kept', files: [], applied: [{ path: 'a.txt', change: 'changed', state: 'changed since', hunks: [] }], parts: ['log_k'] });
  const view = () => deliveryView({ ...stream, id: 'log_k' }, { isReadOnly: false, directory: '/project', answer: '' });
  const command = /massgen undo log_k --force/;
  view();
  await settled();
  assert.doesNotMatch(text(view()), command);
  const undo = async () => {
    const button = templates(view()).find(({ values }) => values.includes('undo'));
    button.values[button.strings.findIndex((part) => part.endsWith('@click='))]({ detail: 1 });
    await settled();
    view();
    await settled();
  };
  await undo();
  assert.match(text(view()), command);
  assert.match(text(view()), /<span>undone<\/span>/);
  assert.doesNotMatch(text(view()), /delivered again|restored/);
  rows[0].reason = 'it contains files that are kept';
  await undo();
  assert.doesNotMatch(text(view()), command);
});

test('what was undone since is not shown as delivered, and the checks were of other files', async () => {
  const rows = [['a.txt', 'changed'], ['b.txt', 'created'], ['c.txt', 'declined']].map(([path, outcome]) => ({ path: `/project/${path}`, outcome }));
  const checks = [{ check: 'tests', need: 'told', verdict: 'passed', elapsed_ms: 1 }];
  const shown = async (id, states, files = []) => {
    const applied = Object.entries(states).map(([path, state]) => ({ path, change: 'changed', state, hunks: [] }));
    globalThis.fetch = async () => Response.json({ state: 'kept', files, applied, parts: Object.values(states).includes('applied') ? [id] : [] });
    const ended = { ...stream, id, sections: new Map([['delivery', { agent: 'ann', answer: '', rows, checks }]]) };
    const view = () => deliveryView(ended, { isReadOnly: false, directory: '/project', answer: '' });
    view();
    await settled();
    const found = templates(view()).find(({ strings }) => strings[0].includes('<section aria-labelledby="outcome"'));
    const drawn = text(found);
    const outcomes = templates(found).filter(({ strings }) => strings[0] === '<tr><td>').map((row) => /<span>([^<]*)/.exec(text(row))[1]);
    return { title: /tabindex="-1">([^<]*)/.exec(drawn)[1], outcomes, isQualified: /as the run delivered them/.test(drawn), drawn };
  };
  const whole = await shown('log_u1', { 'a.txt': 'applied', 'b.txt': 'applied' });
  assert.deepEqual([whole.title, whole.outcomes, whole.isQualified], ['What was delivered', ['changed', 'created', 'not applied'], false]);
  const part = await shown('log_u2', { 'a.txt': 'reverted', 'b.txt': 'applied' });
  assert.deepEqual([part.title, part.outcomes, part.isQualified], ['Partly undone', ['undone', 'created', 'not applied'], true]);
  const none = await shown('log_u3', { 'a.txt': 'reverted', 'b.txt': 'reverted' });
  assert.deepEqual([none.title, none.outcomes, none.isQualified], ['Undone', ['undone', 'undone', 'not applied'], true]);
  const edited = await shown('log_u4', { 'a.txt': 'applied', 'b.txt': 'changed since' });
  assert.match(edited.drawn, /it was changed since/);
  assert.deepEqual([edited.title, edited.isQualified], ['What was delivered', true]);
  const more = await shown('log_u5', { 'a.txt': 'applied', 'b.txt': 'applied', 'c.txt': 'applied' });
  assert.deepEqual([more.title, more.outcomes, more.isQualified], ['What was delivered', ['changed', 'created', 'changed'], true]);
  rows[0].hunks = { taken: 1, total: 2 };
  const rest = await shown('log_u6', { 'a.txt': 'applied', 'b.txt': 'applied' }, [{ path: 'a.txt', change: 'changed', hunks: [] }]);
  assert.deepEqual([rest.outcomes[0], rest.isQualified], ['changed (1 of 2 hunks)', false]);
  const all = await shown('log_u7', { 'a.txt': 'applied', 'b.txt': 'applied' });
  assert.deepEqual([all.outcomes[0], all.isQualified], ['changed', true]);
});

test('what was undone is applied again as it was, also by a page that was loaded since', async () => {
  const hunks = [{ index: 0, digest: 'd0', header: '', old_start: 1, new_start: 1, above: [], below: [], lines: [{ kind: 'added', text: 'x' }] }];
  const files = [{ path: 'a.txt', change: 'changed', hunks, undone: true }, { path: 'b.txt', change: 'changed', hunks }];
  const applied = [{ path: 'a.txt', change: 'changed', state: 'reverted', hunks }];
  let sent = null;
  globalThis.fetch = async (address, { method, body }) => {
    if (method !== 'POST') return Response.json({ state: 'kept', files, applied, parts: [] });
    sent = JSON.parse(body);
    return Response.json({ rows: [{ path: 'a.txt', outcome: 'restored' }] });
  };
  const rows = [{ path: '/project/a.txt', outcome: 'changed' }, { path: '/project/b.txt', outcome: 'declined' }];
  const ended = { ...stream, id: 'log_again', sections: new Map([['delivery', { agent: 'ann', answer: '', rows, checks: [] }]]) };
  const view = (isReadOnly = false) => deliveryView(ended, { isReadOnly, directory: '/project', answer: '' });
  view();
  await settled();
  assert.doesNotMatch(text(view(true)), /Apply it again/);
  const again = templates(view()).find(({ strings }) => strings.some((part) => part.includes('id="again"')));
  again.values[again.strings.findIndex((part) => part.endsWith('@click='))]();
  await settled();
  assert.deepEqual(sent, { files: [{ path: 'a.txt', take: true }] });
  assert.match(text(view()), /delivered again/);
  assert.doesNotMatch(text(view()), /Apply it again/);
});

test('a page that is looked at again shows what a terminal has undone, and otherwise keeps what was chosen', async () => {
  const hunks = [0, 1].map((index) => ({ index, digest: `d${index}`, header: '', old_start: 1, new_start: 1, above: [], below: [], lines: [{ kind: 'added', text: 'x' }] }));
  const rest = { path: 'b.txt', change: 'changed', hunks };
  const a = { path: 'a.txt', change: 'changed', hunks };
  let reply = { state: 'kept', files: [rest], applied: [{ ...a, state: 'applied' }], parts: ['log_focus'] };
  globalThis.fetch = async () => Response.json(reply);
  const rows = [{ path: '/project/a.txt', outcome: 'changed' }, { path: '/project/b.txt', outcome: 'declined' }];
  const ended = { ...stream, id: 'log_focus', sections: new Map([['delivery', { agent: 'ann', answer: '', rows, checks: [] }]]) };
  const view = () => deliveryView(ended, { isReadOnly: false, directory: '/project', answer: '' });
  const focus = async () => {
    focused.forEach((then) => then());
    await settled();
    return text(view());
  };
  view();
  await settled();
  const choice = templates(view()).find(({ strings }) => strings.some((part) => part.includes('class="hunk-choice"')));
  choice.values[choice.strings.findIndex((part) => part.endsWith('@change='))]({ target: { checked: true } });
  assert.match(text(view()), /Apply 1 file, 1 hunk/);
  const same = await focus();
  assert.match(same, /Apply 1 file, 1 hunk/);
  assert.match(same, /What was delivered/);
  reply = { state: 'kept', files: [{ ...a, undone: true }, rest], applied: [{ ...a, state: 'reverted' }], parts: [] };
  const after = await focus();
  assert.match(after, />Undone</);
  assert.match(after, /Apply it again/);
  assert.doesNotMatch(after, /Undo the delivery|Apply 1 file/);
});
