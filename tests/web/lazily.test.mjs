// What is said of a view whose module cannot be loaded, and when the page is loaded again.

import assert from 'node:assert/strict';
import test from 'node:test';
import { templates, text } from './drawn.mjs';

globalThis.window = globalThis;
globalThis.BroadcastChannel = class { addEventListener() {} postMessage() {} };
globalThis.sessionStorage = { getItem: () => null };
globalThis.requestAnimationFrame = () => {};
globalThis.document = { visibilityState: 'visible', createTreeWalker() {} };
let reloads = 0;
globalThis.location = { reload: () => { reloads += 1; } };
const { lazily } = await import('../../src/cli/web/page/lazily.js');

/** What the server answers; an error if it does not. */
let answer = () => Response.json({});
globalThis.fetch = async () => answer();
const settled = async () => {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((done) => setImmediate(done));
};
const gone = () => {
  throw new TypeError('Failed to fetch');
};

/** The view of a module that the browser cannot fetch, drawn once it has failed. */
async function failedView(name) {
  const view = () => lazily(name, () => Promise.reject(new TypeError('Failed to fetch dynamically imported module')), () => 'drawn');
  view();
  await settled();
  return view;
}
const press = async (drawn) => {
  const button = templates(drawn).find(({ strings }) => strings[0].startsWith('<button'));
  button.values[0]();
  await settled();
};

test('a module that cannot be loaded because the server has gone leads to a new start of the server', async () => {
  answer = gone;
  const view = await failedView('one');
  assert.match(text(view()), /The server does not answer\..*start it again and open the link/s);
  assert.doesNotMatch(text(view()), /dynamically/);
  // The page stays while a reload would show nothing.
  await press(view());
  assert.equal(reloads, 0);
  assert.match(text(view()), /The server does not answer/);
  answer = () => Response.json({});
  await press(view());
  assert.equal(reloads, 1);
});

test('a module that cannot be loaded though the server answers is not blamed on the server', async () => {
  answer = () => Response.json({});
  const view = await failedView('two');
  assert.match(text(view()), /A part of the page could not be loaded\..*the browser says: Failed to fetch/s);
  assert.doesNotMatch(text(view()), /does not answer/);
});

test('the words of a server that was started again are shown', async () => {
  answer = () => Response.json({ error: { message: 'the token is not known', hints: ['open a new link'] } }, { status: 401 });
  const view = await failedView('three');
  assert.match(text(view()), /the token is not known.*open a new link/s);
});

test('a module that is loaded draws the view', async () => {
  const view = () => lazily('four', async () => ({ word: 'hello' }), ({ word }) => word);
  assert.match(text(view()), /Loading the view/);
  await settled();
  assert.equal(view(), 'hello');
});
