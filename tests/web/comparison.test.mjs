// Two batches compared, as the server says it.

import assert from 'node:assert/strict';
import test from 'node:test';
import { text } from './drawn.mjs';

globalThis.document = { createTreeWalker: () => ({}), createComment: () => ({}) };
const { comparisonView } = await import('../../src/cli/web/page/comparison.js');

const figures = (batch, team, tasks) => ({ batch, team, tasks, unjudged: [], pass_at_1: { [`model of ${team}`]: { value: 0.5, low: 0.4, high: 0.6 } }, selected: { value: 0.625, low: 0.45, high: 0.78 },
  cost_usd: null, selection_share: 0.125 });

test('what follows is in sentences, and the tasks that differ lead to their runs', () => {
  const differences = [{ first: 'one.yaml', second: 'three.yaml', sentences: ['three.yaml is better than one.yaml: +20 points', 'a task costs more'], only_first: [], only_second: ['t1', 't2'] }];
  const drawn = text(comparisonView({ batches: [figures('b1', 'one.yaml', 20), figures('b2', 'three.yaml', 20)], differences })).replace(/\s+/g, ' ');
  assert.match(drawn, /<p>three\.yaml is better than one\.yaml: \+20 points\.<\/p>.*<p>A task costs more\.<\/p>/);
  assert.match(drawn, /Only <b><bdi>three\.yaml<\/bdi><\/b> solves 2 tasks: .*#\/runs\/b2%3At1.*t2/);
  assert.doesNotMatch(drawn, /<bdi>one\.yaml<\/bdi><\/b> solves/);
  assert.match(drawn, /<bdi>solved<\/bdi>.*?63% <span class="muted">\(45% to 78%\)/);
  assert.match(drawn, /one attempt of model of one\.yaml.*?50%.*?>-<\/td>/);
  assert.match(drawn, /tokens for the selection.*?13%/);
  assert.doesNotMatch(drawn, /cost of a task/);
  assert.match(text(comparisonView({ batches: [figures('b1', 'one.yaml', 0), figures('b2', 'three.yaml', 20)], differences })), /has no result yet/);
});
