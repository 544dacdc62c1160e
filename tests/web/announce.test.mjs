// Announcements for screen readers, all of them in one live region.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';

globalThis.window = globalThis;
const region = { textContent: '', replaceChildren() { this.textContent = ''; } };
globalThis.document = { getElementById: (id) => (id === 'announcements' ? region : null) };
const page = new URL('../../src/cli/web/page/', import.meta.url);
const { announce, announceChange, silence } = await import('../../src/cli/web/page/announce.js');

test('sentences that come together are said together, and only the last one about a subject', (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  announce('12 matches.', 'picker');
  announce('Sent to ann.');
  announce('1 match.', 'picker');
  announceChange('connection', 'broken', 'live');
  assert.equal(region.textContent, '');
  context.mock.timers.tick(1000);
  assert.equal(region.textContent, 'Sent to ann. 1 match. The connection is lost; the page tries again.');
  announce('Sent to ben.');
  context.mock.timers.tick(1000);
  assert.equal(region.textContent, 'Sent to ben.');
  // Nothing of it is said in another view.
  announce('The run has ended.');
  silence();
  context.mock.timers.tick(1000);
  assert.equal(region.textContent, '');
});

test('no view has a polite region of its own', () => {
  const scripts = readdirSync(page).filter((name) => name.endsWith('.js'));
  assert.ok(scripts.length > 20);
  for (const name of scripts) assert.doesNotMatch(readFileSync(new URL(name, page), 'utf8'), /role="status"|aria-live="(polite|assertive)"/, name);
  assert.match(readFileSync(new URL('index.html', page), 'utf8'), /id="announcements"[^>]*aria-live="polite"/);
});
