// The stream of one run: sections of the state that the server folds, and pieces of text between
// them. Read by `fetch`, because `EventSource` cannot send the token. After a break it resumes after the
// last section by `Last-Event-ID`; a piece that does not fit is ignored until its section comes.

import { errorOf, get, headers, query, runPath } from './api.js';

/** Length at which the text of an agent is cut, and to which, in characters. */
const TEXT_CHARS_MAX = 64 * 1024;
const TEXT_CHARS_KEPT = 48 * 1024;
/** Waits between attempts to connect, in milliseconds. */
const RETRY_MS = [250, 500, 1000, 2000, 5000];
/** A hidden tab closes its connection after this time: browsers open only six to a server. */
const HIDDEN_MS = 30_000;
/** Number of streams that all tabs of a browser have open; a tab without one asks again after a wait. */
const STREAMS_MAX = 3;
const FREE_STREAM_MS = 1000;
/** How often the server is asked whether an ended run was resumed, in milliseconds. */
const RESUMPTION_MS = 3000;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * Splits a stream of server-sent events. Returns what follows the last complete event.
 * @param {string} text @param {(event: {name: string, id: string | null, data: string}) => void} emit
 */
export function parseEvents(text, emit) {
  const blocks = text.split(/\r?\n\r?\n/);
  const rest = blocks.pop() ?? '';
  for (const block of blocks) {
    const event = { name: 'message', id: /** @type {string | null} */ (null), data: '' };
    const data = [];
    for (const line of block.split(/\r?\n/)) {
      const [, field, value] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
      if (field === 'event') event.name = value ?? '';
      else if (field === 'id') event.id = value ?? '';
      else if (field === 'data') data.push(value ?? '');
    }
    event.data = data.join('\n');
    if (event.data || event.name === 'end') emit(event);
  }
  return rest;
}

/** Takes one of the streams of all tabs. Returns what gives it back; `null` if none is free.
 * @returns {Promise<(() => void) | null>} */
async function takeStream() {
  // Only pages of this machine, or over TLS, have locks.
  if (!navigator.locks) return () => {};
  for (let number = 0; number < STREAMS_MAX; number += 1) {
    /** @type {(() => void) | null} */
    const release = await new Promise((taken) => {
      navigator.locks.request(`massgen-stream-${number}`, { ifAvailable: true }, (lock) => {
        if (lock) return new Promise((/** @type {(value: void) => void} */ done) => taken(done));
        taken(null);
        return undefined;
      });
    });
    if (release) return release;
  }
  return null;
}

/** The state of one run, as far as the stream has told it. */
export class RunStream {
  /** @param {string} id @param {() => void} changed */
  constructor(id, changed) {
    this.id = id;
    this.changed = changed;
    /** @type {Map<string, any>} */
    this.sections = new Map();
    /** @type {Map<string, Speech>} */
    this.speech = new Map();
    /** @type {'connecting' | 'live' | 'broken' | 'paused' | 'ended' | 'failed'} */
    this.state = 'connecting';
    /** @type {any} */
    this.error = null;
    this.lastId = '';
    /** The length of the log of a run that has ended and may be resumed. @type {number | null} */
    this.logBytes = null;
    /** Identifies what was read: another value once the run is read again from its beginning. */
    this.reading = Symbol('reading');
    /** Reading of the page's clock when `run` came, to show elapsed times between sections. */
    this.runReceived = 0;
    /** @type {((name: string, value: any, before: any) => void)[]} */
    this.listeners = [];
    this.controller = new AbortController();
    this.hiddenTimer = 0;
    this.onVisibility = () => this.follow(document.visibilityState === 'visible');
    document.addEventListener('visibilitychange', this.onVisibility);
    this.read();
    // A tab that is opened in the background gets no event before it is shown.
    this.onVisibility();
  }

  /** Reads everything again, as the run was resumed. */
  restart() {
    this.controller.abort();
    this.controller = new AbortController();
    this.sections.clear();
    this.speech.clear();
    this.lastId = '';
    this.logBytes = null;
    this.reading = Symbol('reading');
    this.state = 'connecting';
    this.read();
    this.changed();
  }

  close() {
    document.removeEventListener('visibilitychange', this.onVisibility);
    clearTimeout(this.hiddenTimer);
    this.state = 'ended';
    this.controller.abort();
  }

  /** Closes the connection of a hidden tab, and opens it again. @param {boolean} isVisible */
  follow(isVisible) {
    clearTimeout(this.hiddenTimer);
    if (!isVisible) {
      this.hiddenTimer = window.setTimeout(() => {
        if (this.state === 'ended' || this.state === 'failed') return;
        this.state = 'paused';
        this.controller.abort();
      }, HIDDEN_MS);
    } else if (this.state === 'paused') {
      this.controller = new AbortController();
      this.state = 'connecting';
      this.read();
    }
  }

  /** Reads the run to its end, and again if it is resumed. */
  async read() {
    const { signal } = this.controller;
    await this.readToEnd(signal);
    while (this.state === 'ended' && this.logBytes !== null && !signal.aborted) {
      await new Promise((resolve) => setTimeout(resolve, RESUMPTION_MS));
      if (signal.aborted || document.visibilityState !== 'visible') continue;
      if (await this.isResumed(signal)) this.restart();
    }
  }

  /** Returns whether the run was resumed since it ended, as far as the server says. It is not asked again about
   * a run that it does not know any more. @param {AbortSignal} signal */
  async isResumed(signal) {
    try {
      const { is_resumed: isResumed } = await get(runPath(this.id, 'resumption') + query({ log_bytes: this.logBytes }), signal);
      return isResumed && !signal.aborted;
    } catch (error) {
      const { status } = /** @type {any} */ (error);
      if (status >= 400 && status < 500 && !signal.aborted) this.logBytes = null;
      return false;
    }
  }

  /** @param {AbortSignal} signal */
  async readToEnd(signal) {
    for (let attempt = 0; !signal.aborted && this.state !== 'ended'; attempt += 1) {
      const release = await takeStream();
      let isAsked = false;
      try {
        if (await this.readOnce(signal, release !== null)) attempt = 0;
        isAsked = release === null;
      } catch (error) {
        if (signal.aborted) return;
        const status = /** @type {any} */ (error).status;
        if (status >= 400 && status < 500 && status !== 429) {
          this.state = 'failed';
          this.error = error;
          this.changed();
          return;
        }
      } finally {
        release?.();
      }
      if (signal.aborted || /** @type {string} */ (this.state) === 'ended') return;
      if (!isAsked) {
        if (this.state !== 'broken') for (const listener of this.listeners) listener('connection', 'broken', this.state);
        this.state = 'broken';
        this.changed();
      }
      const wait = isAsked ? FREE_STREAM_MS : RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)];
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  /** Reads one connection to its end; returns whether it brought anything. @param {AbortSignal} signal
   * @param {boolean} follows whether it stays open until the run ends */
  async readOnce(signal, follows) {
    const accepted = { Accept: 'text/event-stream', ...(this.lastId && { 'Last-Event-ID': this.lastId }) };
    const address = runPath(this.id, 'stream') + query(follows ? {} : { follow: false });
    const response = await fetch(address, { signal, headers: headers(accepted), cache: 'no-store' });
    if (!response.ok || !response.body) throw await errorOf(response);
    this.state = 'live';
    this.changed();
    let rest = '';
    let hasEvents = false;
    const pieces = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await pieces.read();
      if (done) return hasEvents;
      rest = parseEvents(rest + value, (event) => {
        hasEvents = true;
        this.apply(event);
      });
    }
  }

  /** @param {{name: string, id: string | null, data: string}} event */
  apply(event) {
    if (event.id) this.lastId = event.id;
    if (event.name === 'end') {
      this.state = 'ended';
      this.logBytes = JSON.parse(event.data || '{}').log_bytes ?? null;
    } else if (event.name === 'section') this.applySection(JSON.parse(event.data));
    else if (event.name === 'text') this.applyText(JSON.parse(event.data));
    this.changed();
  }

  /** @param {{section: string, value: any}} change */
  applySection({ section, value }) {
    const before = this.sections.get(section);
    this.sections.set(section, value);
    if (section === 'run') this.runReceived = performance.now();
    if (section.startsWith('agents/') && value?.speech) this.applySpeech(value.id, value.speech);
    for (const listener of this.listeners) listener(section, value, before);
  }

  /** Takes the end of a reply, unless it is known already: pieces come before the section that
   * contains them, and a section may be older than a piece. @param {string} agent @param {Speech} speech */
  applySpeech(agent, speech) {
    const known = this.speech.get(agent);
    const isSame = known?.length === speech.length && known.kind === speech.kind && known.text.endsWith(speech.text);
    if (known && (isSame || known.length > speech.length)) return;
    this.speech.set(agent, { ...speech });
  }

  /** @param {{agent: string, kind: string, at: number, text: string}} piece `at` and lengths are in bytes */
  applyText({ agent, kind, at, text: piece }) {
    const known = this.speech.get(agent) ?? { kind: null, length: 0, text: '' };
    const bytes = encoder.encode(piece);
    const length = at + bytes.length;
    if (known.length < at || known.length >= length) return;
    const text = known.length === at ? piece : decoder.decode(bytes.subarray(known.length - at));
    let all = known.kind === kind ? known.text + text : text;
    if (all.length > TEXT_CHARS_MAX) {
      const cut = all.length - TEXT_CHARS_KEPT;
      const line = all.indexOf('\n', cut);
      all = all.slice(line < 0 ? cut : line + 1);
    }
    this.speech.set(agent, { kind, length, text: all });
  }

  /** @returns {RunSection | undefined} */
  get run() {
    return this.sections.get('run');
  }

  /** @returns {AgentSection[]} */
  get agents() {
    const agents = [];
    for (let index = 0; this.sections.has(`agents/${index}`); index += 1) {
      agents.push(this.sections.get(`agents/${index}`));
    }
    const count = this.run?.agents.length;
    return (count ? agents.slice(0, count) : agents).map((agent) => this.withSpeech(agent));
  }

  /** Returns the agent as it is while pieces arrive: they come before the section that contains them.
   * @param {AgentSection} agent @returns {AgentSection} */
  withSpeech(agent) {
    const speech = this.speech.get(agent.id);
    const isAhead = speech && speech.length > agent.speech.length;
    if (!isAhead || !['waiting_for_model', 'reasoning', 'writing'].includes(agent.activity.state)) return agent;
    return { ...agent, activity: { state: speech.kind === 'reasoning' ? 'reasoning' : 'writing' } };
  }

  /** @returns {BallotSection} */
  get ballot() {
    return this.sections.get('ballot') ?? { answers: [], votes: [], winner: null };
  }

  /** @returns {Approval[]} */
  get approvals() {
    return this.sections.get('approvals') ?? [];
  }

  /** @returns {Question[]} */
  get questions() {
    const value = this.sections.get('questions');
    return Array.isArray(value) ? value : value ? [value] : [];
  }

  /** Whether the run is live. */
  get isLive() {
    return this.run !== undefined && this.run.phase !== 'ended' && this.state !== 'ended';
  }

  /** The time since the start of the run, in milliseconds. */
  get now() {
    const elapsed = this.run?.elapsed_ms ?? 0;
    return this.isLive && this.state === 'live' ? elapsed + performance.now() - this.runReceived : elapsed;
  }
}
