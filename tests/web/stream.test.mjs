// The order in which sections and pieces of text may come: no word is lost or repeated.

import assert from 'node:assert/strict';
import test from 'node:test';

globalThis.BroadcastChannel = class { addEventListener() {} postMessage() {} };
globalThis.sessionStorage = { getItem: () => null };
globalThis.document = { addEventListener() {}, visibilityState: 'visible' };
globalThis.fetch = () => new Promise(() => {});
const locks = { request: (name, options, taken) => taken(lock) };
/** What the next request for a lock gets: `null` if all streams are taken. */
let lock = {};
Object.defineProperty(globalThis, 'navigator', { value: { locks }, configurable: true });
const { RunStream, parseEvents } = await import('../../src/cli/web/page/stream.js');

const section = (text, length = text.length, kind = 'text') => ['section', {
  section: 'agents/0', value: { id: 'ann', activity: { state: 'waiting_for_model' }, speech: { kind: length ? kind : null, length, text } },
}];
const piece = (at, text, kind = 'text') => ['text', { agent: 'ann', kind, at, text }];

function fold(events) {
  const stream = new RunStream('log', () => {});
  for (const [name, data] of events) stream.apply({ name, id: null, data: JSON.stringify(data) });
  return stream;
}

const orders = {
  'pieces after their section': [[section('', 0), piece(0, 'ab'), piece(2, 'cd')], 'abcd'],
  'a section that is older than a piece': [[piece(0, 'ab'), section('', 0), piece(2, 'cd')], 'abcd'],
  'a piece that a section contains in part': [[section('abc'), piece(0, 'abcd')], 'abcd'],
  'a piece that a section contains': [[section('abcd'), piece(0, 'ab')], 'abcd'],
  'a gap, until the section comes': [[section('', 0), piece(2, 'cd')], ''],
  'a section after a gap': [[section('', 0), piece(2, 'cd'), section('abcd')], 'abcd'],
  'characters of several bytes': [[section('ä', 2), piece(0, 'äöü')], 'äöü'],
  'another kind': [[piece(0, 'hm', 'reasoning'), piece(2, 'yes')], 'yes'],
  'the end of a long reply': [[section('yz', 26), piece(26, '!')], 'yz!'],
};
for (const [name, [events, expected]] of Object.entries(orders)) {
  test(name, () => assert.equal(fold(events).speech.get('ann')?.text ?? '', expected));
}

test('an agent writes as soon as its pieces come', () => {
  assert.equal(fold([section('', 0), piece(0, 'x')]).agents[0].activity.state, 'writing');
  assert.equal(fold([section('x'), piece(0, 'x')]).agents[0].activity.state, 'waiting_for_model');
});

test('events are split wherever the network splits them', () => {
  const text = 'retry: 1000\n\n: comment\n\nevent: section\nid: 7\ndata: {"a":\ndata: 1}\n\nevent: end\ndata: {}\n\n';
  for (let cut = 0; cut <= text.length; cut += 1) {
    const found = [];
    const emit = ({ name, id, data }) => found.push([name, id, data]);
    assert.equal(parseEvents(parseEvents(text.slice(0, cut), emit) + text.slice(cut), emit), '');
    assert.deepEqual(found, [['section', '7', '{"a":\n1}'], ['end', null, '{}']]);
  }
});

test('a tab that is opened in the background closes its connection until it is shown', (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  globalThis.window = globalThis;
  document.visibilityState = 'hidden';
  const stream = fold([]);
  context.mock.timers.tick(30_000);
  assert.equal(stream.state, 'paused');
  document.visibilityState = 'visible';
  stream.onVisibility();
  assert.equal(stream.state, 'connecting');
});

test('a run that is resumed is read again from its beginning', () => {
  const stream = fold([section('ab'), ['end', { state: 'interrupted' }]]);
  assert.equal(stream.state, 'ended');
  const { reading } = stream;
  stream.restart();
  assert.notEqual(stream.reading, reading);
  assert.deepEqual([stream.state, stream.sections.size, stream.lastId], ['connecting', 0, '']);
});

test('a run that has ended is asked about now and then if it may be resumed, and read again if it was', async () => {
  const { fetch, setTimeout: wait } = globalThis;
  const asked = [];
  const waits = [];
  globalThis.setTimeout = (run, ms) => {
    waits.push(ms);
    return wait(run, 0);
  };
  /** What the server answers to each request for the stream, and for the resumption. */
  const ends = [{ state: 'interrupted', log_bytes: 120 }, { state: 'ended', log_bytes: null }];
  const answers = [{ is_resumed: false }, { is_resumed: true }];
  globalThis.fetch = async (address) => {
    asked.push(address);
    return address.endsWith('/stream') ? new Response(`event: end\ndata: ${JSON.stringify(ends.shift())}\n\n`) : Response.json(answers.shift());
  };
  const stream = fold([]);
  while (ends.length || stream.state !== 'ended') await new Promise((done) => wait(done, 1));
  await new Promise((done) => wait(done, 20));
  const question = '/api/runs/log/resumption?log_bytes=120';
  assert.deepEqual(asked, ['/api/runs/log/stream', question, question, '/api/runs/log/stream']);
  assert.deepEqual(waits, [3000, 3000]);
  // Nor is it asked about when it is not known any more.
  ends.push({ state: 'interrupted', log_bytes: 7 });
  asked.length = 0;
  const gone = new RunStream('gone', () => {});
  const known = globalThis.fetch;
  globalThis.fetch = async (address) => {
    if (address.endsWith('/stream')) return known(address);
    asked.push(address);
    return new Response('{}', { status: 404 });
  };
  while (gone.logBytes !== null || asked.length < 2) await new Promise((done) => wait(done, 1));
  await new Promise((done) => wait(done, 20));
  assert.deepEqual(asked, ['/api/runs/gone/stream', '/api/runs/gone/resumption?log_bytes=7']);
  Object.assign(globalThis, { fetch, setTimeout: wait });
});

test('a tab asks without following if the other tabs have all streams', async () => {
  const asked = [];
  const { fetch } = globalThis;
  globalThis.fetch = async (address) => {
    asked.push(address);
    return new Response('event: section\nid: 3\ndata: {"section":"run","value":{"phase":"ended"}}\n\nevent: end\ndata: {}\n\n');
  };
  for (const [given, address] of [[null, '/api/runs/log/stream?follow=false'], [{}, '/api/runs/log/stream']]) {
    lock = given;
    const stream = fold([]);
    while (stream.state !== 'ended') await new Promise((done) => setTimeout(done, 1));
    assert.equal(asked.pop(), address);
    assert.equal(stream.lastId, '3');
  }
  globalThis.fetch = fetch;
});
