// Views whose modules are loaded when they are first opened, and what is said if one cannot be loaded.

import { ApiError, get } from './api.js';
import { whenLoaded } from './elements.js';
import { load, refresh } from './redraw.js';

/** Why a module could not be loaded: what the server says now, or what the browser said if the server answers.
 * @param {any} error */
async function loadError(error) {
  try {
    await get('/api/info');
  } catch (refusal) {
    return refusal;
  }
  return new ApiError(0, 'A part of the page could not be loaded.', [`the browser says: ${error?.message ?? error}`]);
}

/** Loads the page again once the server answers: a browser asks only once for a module. */
async function reload() {
  await get('/api/info');
  location.reload();
  return new Promise(() => {});
}

/** Draws a view whose module is loaded when it is first opened. @template T @param {string} name
 * @param {() => Promise<T>} ask @param {(module: T) => any} draw */
export function lazily(name, ask, draw) {
  const key = `module ${name}`;
  const loaded = load(key, () => ask().catch(async (error) => {
    throw await loadError(error);
  }));
  return whenLoaded(loaded, 'the view', draw, () => refresh(key, reload));
}
