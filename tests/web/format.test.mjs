// Words and numbers of the page.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { activityText, activityTone, moment } from '../../src/cli/web/page/format.js';

test('an agent that waits for personas is not idle', () => {
  const agent = { activity: { state: 'waiting_for_preparation', detail: 'personas' }, vote: null, candidate: null, answer: null };
  assert.equal(activityText(agent), 'waits for personas');
  assert.equal(activityTone(agent), 'idle');
});

test('an agent whose request for approval is queued is not idle', () => {
  const agent = { activity: { state: 'queued_for_approval', detail: 'write_file' }, vote: null, candidate: null, answer: null };
  assert.equal(activityText(agent), 'waits to ask for approval of write_file');
  assert.equal(activityTone(agent), 'ask');
});

test('an agent that voted says for whom', () => {
  const agent = { activity: { state: 'idle' }, vote: 'agent2.1', candidate: 'ben', answer: 'agent1.1' };
  assert.equal(activityText(agent), 'voted for ben');
  assert.equal(activityText({ ...agent, vote: null }), 'answered agent1.1');
});

test('a time has its date, the year if it is another one, and 24 hours', () => {
  const year = new Date().getFullYear();
  assert.equal(moment(`${year}-11-30T16:32:00`), '30 Nov, 16:32');
  assert.equal(moment('2019-03-01T00:05:00'), '1 Mar 2019, 00:05');
  assert.equal(moment(null), '-');
});
