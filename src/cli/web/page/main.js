// The page: it opens a session, follows the address, and draws the view for it.

import { html, nothing, render } from './vendor/lit-html/lit-html.js';
import { announceChange, silence } from './announce.js';
import { get, openSession } from './api.js';
import { empty, failure, loading } from './elements.js';
import { beginKeys, helpDialog, listenToKeys, onKey, openHelp } from './keys.js';
import { lazily } from './lazily.js';
import { drawWith, onceDrawn, redraw, redrawSoon } from './redraw.js';
import { go, parseRoute } from './router.js';
import { runTitle, runView } from './run.js';
import { runsView } from './runs.js';
import { RunStream } from './stream.js';

/** How often elapsed times are drawn while a run is live, in milliseconds. */
const TICK_MS = 1000;

const page = {
  /** @type {Info | null} */
  info: null,
  /** @type {any} */
  error: null,
  /** @type {RunStream | null} */
  stream: null,
  route: parseRoute('#/'),
};

/** Returns the stream of the run in view; another one is closed. @param {string} id */
function streamOf(id) {
  if (page.stream?.id !== id) {
    page.stream?.close();
    page.stream = new RunStream(id, redrawSoon);
    page.stream.listeners.push(announceChange);
  }
  return page.stream;
}

/** @param {Info} info */
function view(info) {
  const { route } = page;
  const [first, id] = route.parts;
  if (first === 'runs' && id) {
    const context = { stream: streamOf(id), info, route };
    document.title = runTitle(context);
    return runView(context);
  }
  page.stream?.close();
  page.stream = null;
  document.title = 'massgen';
  if (first === 'new') return lazily('composer', () => import('./composer.js'), (module) => module.composerView({ info, route }));
  if (first === 'config' && id) return lazily('editor', () => import('./editor.js'), (module) => module.editorView({ info, path: id }));
  if (first === 'config') return lazily('form', () => import('./form.js'), (module) => module.formView({ info }));
  if (first === 'batches') return lazily('batches', () => import('./batches.js'), (module) => module.batchesView({ route }));
  if (!first || first === 'runs') return runsView({ info });
  return html`<h1 class="hidden">massgen</h1>${empty('This address names no view.', html`<a href="#/">All runs</a>`)}`;
}

function sessionError() {
  const { error } = page;
  if (error.status !== 401) return html`<div class="page narrow"><h1 tabindex="-1">massgen</h1>${failure(error, () => location.reload())}</div>`;
  const hints = error.hints.length ? error.hints : ['press Enter in the terminal of `massgen web` and open the link that it prints'];
  return html`<div class="page narrow"><h1 tabindex="-1">This page needs a new link</h1>${failure({ message: error.message, hints })}</div>`;
}

function draw() {
  beginKeys();
  onKey('?', 'these keys', openHelp, 'Everywhere');
  onKey('g r', 'all runs', () => go('#/'), 'Everywhere');
  onKey('g b', 'all batches', () => go('#/batches'), 'Everywhere');
  onKey('g n', 'new run', () => go('#/new'), 'Everywhere');
  onKey('g f', 'new config', () => go('#/config'), 'Everywhere');
  const { info } = page;
  const main = page.error ? sessionError() : info ? view(info) : loading('Connecting …');
  const here = page.route.parts[0] ?? '';
  const link = (/** @type {string} */ href, /** @type {string} */ name, /** @type {boolean} */ isHere) =>
    html`<a href=${href} aria-current=${isHere ? 'page' : nothing}>${name}</a>`;
  render(html`<header class="top"><a class="brand" href="#/">massgen</a>
      <nav aria-label="Main">${link('#/', 'Runs', here === '' || here === 'runs')}${link('#/batches', 'Batches', here === 'batches')}${info?.read_only ? nothing : html`${link('#/new', 'New run', here === 'new')}${link('#/config', 'Config', here === 'config')}`}</nav>
      <span class="grow"></span>${info?.read_only ? html`<span class="chip">read-only</span>` : nothing}
      <span class="muted directory"><bdi>${info?.directory ?? ''}</bdi></span>
      <button class="button small quiet" aria-label="Keys" @click=${openHelp}><kbd>?</kbd></button></header>
    <main id="main" tabindex="-1">${main}</main>${helpDialog()}`, /** @type {HTMLElement} */ (document.getElementById('page')));
}

/** Follows the address; a new view begins at its heading. */
function follow() {
  if (location.hash.startsWith('#k=')) {
    location.reload();
    return;
  }
  const before = page.route.path;
  page.route = parseRoute(location.hash);
  redraw();
  if (before === page.route.path) return;
  silence();
  onceDrawn(() => {
    window.scrollTo(0, 0);
    document.querySelector('.run-tabs [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    const target = document.querySelector('main h1') ?? document.getElementById('main');
    if (target instanceof HTMLElement) target.focus({ preventScroll: true });
  });
}

async function start() {
  drawWith(draw);
  listenToKeys();
  window.addEventListener('hashchange', follow);
  setInterval(() => {
    if (page.stream?.isLive && document.visibilityState === 'visible') redraw();
  }, TICK_MS);
  redraw();
  try {
    await openSession();
    page.info = await get('/api/info');
  } catch (error) {
    page.error = error;
  }
  page.route = parseRoute(location.hash);
  redraw();
}

start();
