// Addresses of the views: the part after `#` is a path with a query, so that each view can be linked
// to, reloaded, and reached by the browser's back button.

/** @typedef {{path: string, parts: string[], params: URLSearchParams}} Route */

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @param {string} hash @returns {Route} */
export function parseRoute(hash) {
  const [path = '/', search = ''] = hash.replace(/^#/, '').split('?', 2);
  const parts = path.split('/').filter(Boolean).map(decode);
  return { path, parts, params: new URLSearchParams(search) };
}

/** Returns the address of a view. @param {string[]} parts @param {Record<string, any>} [params] */
export function hrefTo(parts, params = {}) {
  const pairs = Object.entries(params).filter(([, value]) => value != null && value !== '');
  const search = pairs.length ? `?${new URLSearchParams(pairs)}` : '';
  return `#/${parts.map(encodeURIComponent).join('/')}${search}`;
}

/** Returns the address of a view of a run. @param {string} run @param {string[]} parts
 * @param {Record<string, any>} [params] */
export const runHref = (run, parts = [], params = {}) => hrefTo(['runs', run, ...parts], params);

/** Whether a run is a pipeline, whose stages are runs. @param {string} run */
export const isPipeline = (run) => run.startsWith('pipeline_');

/** The batch of a run that is a cell of one; `null` for other runs. @param {string} run */
export const batchOf = (run) => (run.includes(':') ? run.split(':')[0] : null);

/** @param {string} href */
export function go(href) {
  location.hash = href.slice(1);
}

/** Changes a parameter of the address without a new entry in the history.
 * @param {Route} route @param {Record<string, any>} changes */
export function replaceParams(route, changes) {
  const params = { ...Object.fromEntries(route.params), ...changes };
  history.replaceState(null, '', hrefTo(route.parts, params));
  window.dispatchEvent(new HashChangeEvent('hashchange'));
}
