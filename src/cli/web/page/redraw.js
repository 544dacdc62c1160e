// Draws the page at most once per frame, however often its state changes, and loads what views need.

/** @type {() => void} */
let draw = () => {};
let isWanted = false;
let timer = 0;
/** Wait of `redrawSoon`, in milliseconds. */
const SOON_MS = 60;

/** Sets what draws the page. @param {() => void} drawing */
export function drawWith(drawing) {
  draw = drawing;
}

/** Draws the page before the next frame. A hidden tab has no frames, so it waits a little. */
export function redraw() {
  if (isWanted) return;
  isWanted = true;
  const run = () => {
    isWanted = false;
    draw();
  };
  if (document.visibilityState === 'hidden') setTimeout(run, 500);
  else requestAnimationFrame(run);
}

/** Draws the page soon, for changes that come many times a second. */
export function redrawSoon() {
  if (timer || isWanted) return;
  timer = window.setTimeout(() => {
    timer = 0;
    redraw();
  }, SOON_MS);
}

/** Calls `then` once the page shows what it is to draw now. @param {() => void} then */
export const onceDrawn = (then) => requestAnimationFrame(() => requestAnimationFrame(then));

/** Draws the page at once, where the focus must go to what is drawn. */
export const drawNow = () => draw();

/** @template [T=any] @typedef {{state: 'loading' | 'ready' | 'failed', value: T, error: any}} Loaded */
/** @type {Map<string, Loaded>} */
const loaded = new Map();
/** Number of replies that are kept; the oldest go first. */
const LOADED_MAX = 40;

/**
 * Returns the reply for `key`, and asks for it the first time.
 * @template T @param {string} key @param {() => Promise<T>} ask @returns {Loaded<T>}
 */
export function load(key, ask) {
  const known = loaded.get(key);
  if (known) return known;
  /** @type {Loaded<any>} */
  const entry = { state: 'loading', value: undefined, error: undefined };
  loaded.set(key, entry);
  for (const old of loaded.keys()) {
    if (loaded.size <= LOADED_MAX) break;
    loaded.delete(old);
  }
  ask().then(
    (value) => Object.assign(entry, { state: 'ready', value }),
    (error) => Object.assign(entry, { state: 'failed', error }),
  ).finally(redraw);
  return entry;
}

/** Asks again for everything whose key begins so. @param {string} prefix */
export function forget(prefix) {
  for (const key of loaded.keys()) if (key.startsWith(prefix)) loaded.delete(key);
  redraw();
}

/** Asks again for `key`, and shows the earlier reply until the next one is there.
 * @param {string} key @param {() => Promise<any>} ask */
export async function refresh(key, ask) {
  try {
    const value = await ask();
    loaded.set(key, { state: 'ready', value, error: undefined });
  } catch (error) {
    if (loaded.get(key)?.state !== 'ready') loaded.set(key, { state: 'failed', value: undefined, error });
  }
  redraw();
}
