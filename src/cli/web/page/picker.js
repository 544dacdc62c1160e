// The file picker of the composer: a combobox that an `@` opens. What is typed in it appears in the
// task as well; the chosen name replaces it, in quotes if it needs them. Names are text, never HTML.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { announce } from './announce.js';
import { post } from './api.js';
import { icon } from './elements.js';
import { counted } from './format.js';
import { valueOf } from './keys.js';
import { noteInput, noteTransfer } from './pasted.js';
import { onceDrawn, redraw } from './redraw.js';

/** Number of entries that are asked for. */
const ENTRIES_MAX = 20;
/** Wait for more keys before a lookup, in milliseconds. */
const TYPING_MS = 60;
/** Wait before a lookup that another one replaced is made again, in milliseconds. */
const AGAIN_MS = 300;
/** Characters of a name that needs no quotes. */
const BARE = /^[\p{L}\p{N}/._+~=%-]*$/u;
/** From here on, letters may end a name without quotes. */
const UNSPACED = /[\u2e80-\u{10ffff}]/u;

/** The mention of a path as it is typed; `null` if no mention can name it.
 * @param {string} name @param {boolean} isWrite */
export function mentionOf(name, isWrite) {
  if (!name || /["\p{Cc}]/u.test(name)) return null;
  const isBare = BARE.test(name) && !UNSPACED.test(name) && (/^\.\.?$/.test(name) || !/[.-]$/.test(name));
  return `@${isBare ? name : `"${name}"`}${isWrite ? ':w' : ''}`;
}

/** Whether a mention may begin after this text. @param {string} before */
export const mayBegin = (before) => !/[A-Za-z0-9_/\\@]$/.test(before);

export class FilePicker {
  /** @param {HTMLTextAreaElement} area @param {number} start the position of the `@` */
  constructor(area, start) {
    this.area = area;
    this.start = start;
    this.typed = '';
    this.isWrite = false;
    /** @type {BrowseEntry[]} */
    this.entries = [];
    this.path = '';
    this.hasMore = false;
    this.active = 0;
    this.isLoading = true;
    /** @type {any} */
    this.error = null;
    this.isOpen = true;
    this.timer = 0;
    this.controller = new AbortController();
    this.lookUp();
  }

  /** The text from the `@` to the end of what was typed. @param {string} text */
  replace(text) {
    const end = this.start + 1 + this.shownText().length;
    this.area.setRangeText(text, this.start, end, 'end');
    this.area.dispatchEvent(new Event('input', { bubbles: true }));
  }

  /** What the task shows of the mention so far. */
  shownText() {
    return this.typed + (this.isWrite ? ':w' : '');
  }

  /** @param {string} typed @param {boolean} isWrite */
  update(typed, isWrite) {
    const end = this.start + 1 + this.shownText().length;
    this.typed = typed;
    this.isWrite = isWrite;
    this.area.setRangeText(this.shownText(), this.start + 1, end, 'end');
    this.area.dispatchEvent(new Event('input', { bubbles: true }));
    redraw();
  }

  /** Looks up what was typed, once no more keys come. */
  lookUp() {
    clearTimeout(this.timer);
    this.controller.abort();
    this.controller = new AbortController();
    const { signal } = this.controller;
    this.isLoading = true;
    this.timer = window.setTimeout(async () => {
      try {
        await this.find(signal);
      } catch (error) {
        // A later lookup shows what it finds.
        if (signal.aborted) return;
        this.error = error;
        this.entries = [];
        this.active = 0;
      }
      this.isLoading = false;
      this.announceResult();
      redraw();
    }, TYPING_MS);
  }

  /** What was found, or why nothing was, in words. */
  resultText() {
    if (this.error) return this.error.message;
    if (!this.entries.length) return 'no matches';
    return `${this.hasMore ? 'the first ' : ''}${counted(this.entries.length, 'match', 'matches')}`;
  }

  announceResult() {
    announce(this.resultText().replace(/\.?$/, '.'), 'picker');
  }

  /** Asks for the entries until the whole tree has been searched. @param {AbortSignal} signal */
  async find(signal) {
    const wanted = { path: this.typed.replace(/^"/, ''), limit: ENTRIES_MAX };
    for (let isFirst = true, isPartial = true; isPartial; isFirst = false) {
      try {
        const found = await post('/api/browse', { ...wanted, waits: !isFirst }, signal);
        isPartial = found.is_partial;
        this.entries = found.entries;
        this.path = found.path ?? '';
        this.hasMore = found.has_more;
        this.error = null;
        if (isFirst || this.active >= this.entries.length) this.active = 0;
        if (isPartial) redraw();
      } catch (error) {
        // An earlier lookup reached the server after this one, or another tab looks for a file.
        if (signal.aborted || /** @type {any} */ (error).status !== 409) throw error;
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    }
  }

  /** Chooses an entry: a directory is opened by Tab, everything else ends the picker.
   * @param {BrowseEntry | undefined} entry @param {boolean} opensDirectory */
  choose(entry, opensDirectory) {
    if (!entry) return this.close();
    const name = this.path + entry.name;
    if (opensDirectory && entry.type === 'directory') {
      this.update(name.endsWith('/') ? name : `${name}/`, this.isWrite);
      return this.lookUp();
    }
    const mention = mentionOf(name, this.isWrite);
    if (mention === null) {
      this.error = new Error('No mention can name this file: its name has a quote or a control character.');
      this.announceResult();
      return redraw();
    }
    this.replace(`${mention} `);
    return this.close();
  }

  close() {
    clearTimeout(this.timer);
    this.controller.abort();
    this.isOpen = false;
    this.area.focus();
    redraw();
  }

  /** @param {number} by */
  move(by) {
    const count = this.entries.length;
    if (count) this.active = (this.active + by + count) % count;
    redraw();
    onceDrawn(() => document.getElementById(`file-option-${this.active}`)?.scrollIntoView({ block: 'nearest' }));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.isComposing) return;
    const input = /** @type {HTMLInputElement} */ (event.target);
    const isStart = input.selectionStart === 0 && input.selectionEnd === 0;
    if (event.key === 'ArrowDown') this.move(1);
    else if (event.key === 'ArrowUp') this.move(-1);
    else if (event.key === 'Enter') this.choose(this.entries[this.active], false);
    else if (event.key === 'Tab' && !event.shiftKey) this.choose(this.entries[this.active], true);
    else if (event.key === 'Escape') this.close();
    else if (event.key.toLowerCase() === 'w' && (event.ctrlKey || event.altKey) && !event.metaKey) this.update(this.typed, !this.isWrite);
    else if (event.key === 'Backspace' && isStart) {
      this.replace('');
      this.close();
    } else if (event.key === ' ' && !this.typed.startsWith('"')) {
      this.replace(`@${this.shownText()} `);
      this.close();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {InputEvent} event */
  input(event) {
    noteInput(event);
    let typed = valueOf(event);
    let { isWrite } = this;
    if (typed.endsWith(':w')) [typed, isWrite] = [typed.slice(0, -2), true];
    this.update(typed, isWrite);
    this.lookUp();
  }

  view() {
    if (!this.isOpen) return nothing;
    const active = this.entries[this.active] ? `file-option-${this.active}` : nothing;
    return html`<div class="picker" @focusout=${(/** @type {FocusEvent} */ event) => {
      const next = /** @type {Node | null} */ (event.relatedTarget);
      if (next && !/** @type {Element} */ (event.currentTarget).contains(next) && this.isOpen) this.close();
    }}><div class="row picker-head"><span aria-hidden="true" class="muted">@</span>
      <input id="picker-input" class="input grow" role="combobox" aria-label="File or directory" aria-expanded="true" aria-controls="picker-list" aria-autocomplete="list"
        aria-activedescendant=${active} autocomplete="off" autocapitalize="off" spellcheck="false" .value=${this.typed} @input=${(/** @type {InputEvent} */ event) => this.input(event)} @paste=${noteTransfer} @drop=${noteTransfer}
        @keydown=${(/** @type {KeyboardEvent} */ event) => this.key(event)}>
      <label class="check"><input type="checkbox" .checked=${this.isWrite} @change=${() => this.update(this.typed, !this.isWrite)}> open for writing <kbd>Ctrl</kbd>/<kbd>Alt</kbd> <kbd>W</kbd></label></div>
      <ul id="picker-list" role="listbox" aria-label="Files">${this.entries.map((entry, index) => this.option(entry, index))}</ul>
      <p class="muted picker-foot">${this.isLoading && !this.error ? 'searching' : this.resultText()}</p>
      <p class="muted picker-foot"><kbd>↑</kbd> <kbd>↓</kbd> choose · <kbd>Enter</kbd> insert · <kbd>Tab</kbd> open a directory · <kbd>Esc</kbd> close</p></div>`;
  }

  /** @param {BrowseEntry} entry @param {number} index */
  option(entry, index) {
    const isActive = index === this.active;
    const permission = entry.permission ?? (this.isWrite ? 'write' : 'read');
    return html`<li id="file-option-${index}" role="option" aria-selected=${isActive} class=${isActive ? 'active' : ''}
      @mousedown=${(/** @type {Event} */ event) => event.preventDefault()} @click=${() => this.choose(entry, false)}>${icon(entry.type === 'directory' ? 'folder' : 'file')}
      <span class="name"><span class="muted">${this.path}</span>${nameWithMatches(entry)}</span>
      ${entry.language ? html`<span class="muted">${entry.language}</span>` : nothing}<span class="permission">${permission}</span></li>`;
  }
}

/** The name with the parts that match what was typed. @param {BrowseEntry} entry */
function nameWithMatches({ name, match }) {
  if (!match?.length) return html`<bdi>${name}</bdi>`;
  const chars = [...name];
  let at = 0;
  const parts = match.map(([from, to]) => {
    const part = html`${chars.slice(at, from).join('')}<b>${chars.slice(from, to).join('')}</b>`;
    at = to;
    return part;
  });
  return html`<bdi>${parts}${chars.slice(at).join('')}</bdi>`;
}
