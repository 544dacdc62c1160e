// Requests to the server: the token of this tab, and JSON in both directions. The token comes from
// the one-time code in the link, or from another tab of this page; it is in no address and no cookie.

const TOKEN_KEY = 'massgen-token';
/** How long another tab may take to hand its token over, in milliseconds: it may be busy. */
const HANDOVER_MS = 10_000;
/** The same if it is not known whether there is another tab. */
const UNKNOWN_TAB_MS = 5000;
/** The lock that every tab with a token shares. */
const TOKEN_LOCK = 'massgen-token';
const tabs = new BroadcastChannel('massgen-session');

/** An error that the server reports, or that kept the request from it. */
export class ApiError extends Error {
  /** @param {number} status @param {string} message @param {string[]} hints @param {any} details */
  constructor(status, message, hints = [], details = {}) {
    super(message);
    this.status = status;
    this.hints = hints;
    this.details = details;
  }
}

tabs.onmessage = ({ data }) => {
  const token = sessionStorage.getItem(TOKEN_KEY);
  if (data?.wants && token) tabs.postMessage({ reply: data.wants, token });
};

/** How long to wait for the token of another tab, in milliseconds. */
async function handoverTime() {
  // Only pages of this machine, or over TLS, have locks.
  if (!navigator.locks) return UNKNOWN_TAB_MS;
  const { held } = await navigator.locks.query();
  return held?.some(({ name }) => name === TOKEN_LOCK) ? HANDOVER_MS : 0;
}

/** Asks the other tabs for their token. @returns {Promise<string | null>} */
async function tokenOfOtherTab() {
  const waitMs = await handoverTime();
  if (!waitMs) return null;
  return new Promise((resolve) => {
    const wants = crypto.getRandomValues(new Uint32Array(4)).join('-');
    const timer = setTimeout(() => resolve(null), waitMs);
    tabs.addEventListener('message', ({ data }) => {
      if (data?.reply !== wants) return;
      clearTimeout(timer);
      resolve(data.token);
    });
    tabs.postMessage({ wants });
  });
}

/** Keeps the token of this tab, and tells other tabs by a lock that it has one. @param {string} token */
function keepToken(token) {
  sessionStorage.setItem(TOKEN_KEY, token);
  navigator.locks?.request(TOKEN_LOCK, { mode: 'shared' }, () => new Promise(() => {}));
}

/** Exchanges the code of the link for a token, or finds one that this page has already. */
export async function openSession() {
  const code = new URLSearchParams(location.hash.slice(1)).get('k');
  let refusal = new ApiError(401, 'This page was opened without a link that is valid.');
  if (code) {
    history.replaceState(null, '', `${location.pathname}#/`);
    try {
      const { token } = await send('POST', '/api/session', { code });
      keepToken(token);
      return;
    } catch (error) {
      refusal = /** @type {ApiError} */ (error);
    }
  }
  const token = sessionStorage.getItem(TOKEN_KEY) ?? await tokenOfOtherTab();
  if (!token) throw refusal;
  keepToken(token);
}

/** @param {Record<string, string>} [others] @returns {Record<string, string>} */
export function headers(others = {}) {
  const token = sessionStorage.getItem(TOKEN_KEY);
  return token ? { ...others, Authorization: `Bearer ${token}` } : others;
}

/** The field of the request that the server refused, if it names one. @param {any} error @returns {string | null} */
export const refusedField = (error) => error?.details?.field ?? null;

/** Reads the error of a reply that is not a success. @param {Response} response */
export async function errorOf(response) {
  const body = await response.json().catch(() => ({}));
  const error = body.error ?? {};
  const message = error.message ?? body.message ?? `the server answered ${response.status}`;
  return new ApiError(response.status, message, error.hints ?? [], body);
}

/**
 * @param {string} method @param {string} path @param {any} [body] @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
async function send(method, path, body, signal) {
  const init = { method, signal, headers: headers(body && { 'Content-Type': 'application/json' }) };
  let response;
  try {
    response = await fetch(path, { ...init, body: body && JSON.stringify(body) });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, 'The server does not answer.', ['if `massgen web` does not run any more, start it again and open the link that it prints']);
  }
  if (!response.ok) throw await errorOf(response);
  return response.status === 204 ? {} : response.json();
}

/** @param {string} path @param {AbortSignal} [signal] */
export const get = (path, signal) => send('GET', path, undefined, signal);
/** @param {string} path @param {any} [body] @param {AbortSignal} [signal] */
export const post = (path, body = {}, signal) => send('POST', path, body, signal);

/** Builds the address of something of a run. @param {string} run @param {string[]} parts */
export const runPath = (run, ...parts) =>
  ['/api/runs', encodeURIComponent(run), ...parts.map(encodeURIComponent)].join('/');

/** Builds a query string without empty values. @param {Record<string, any>} values */
export function query(values) {
  const pairs = Object.entries(values).filter(([, value]) => value != null && value !== '');
  return pairs.length ? `?${new URLSearchParams(pairs)}` : '';
}
