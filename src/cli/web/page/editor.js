// A config of the project as text: what the check says is beside its lines, and the file is replaced only
// if it is still the one that was opened.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { announce } from './announce.js';
import { post } from './api.js';
import { empty, failure, whenLoaded } from './elements.js';
import { note, savedPanel, wholeVerdict } from './form.js';
import { valueOf } from './keys.js';
import { forget, load, redraw } from './redraw.js';

/** Wait for more typing before a check, in milliseconds. */
const TYPING_MS = 250;

/** The text of one file as a person changes it. */
class Editor {
  /** @param {{path: string, text: string, digest: string}} opened */
  constructor({ path, text, digest }) {
    this.path = path;
    this.text = text;
    this.digest = digest;
    /** @type {Finding[] | null} */
    this.findings = null;
    /** @type {any} */
    this.error = null;
    /** @type {{path: string, digest: string, commands: string[]} | null} */
    this.saved = null;
    this.isSaving = false;
    this.timer = 0;
    this.check();
  }

  /** @param {string} text */
  type(text) {
    this.text = text;
    this.saved = null;
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.check(), TYPING_MS);
    redraw();
  }

  async check() {
    const { text, path } = this;
    try {
      const { errors, warnings } = await post('/api/config/check', { content: { text }, path });
      if (text !== this.text) return;
      const as = (/** @type {Finding['severity']} */ severity) => (/** @type {Finding} */ finding) => ({ ...finding, severity });
      this.findings = [...errors.map(as('error')), ...warnings.map(as('warning'))];
      this.error = null;
    } catch (error) {
      this.error = error;
    }
    redraw();
  }

  async save() {
    const { text, path } = this;
    this.isSaving = true;
    redraw();
    try {
      this.saved = await post('/api/config/save', { content: { text }, path, replaces: this.digest });
      this.digest = this.saved?.digest ?? '';
      this.error = null;
      announce(`Saved as ${path}.`);
    } catch (error) {
      this.error = error;
    }
    this.isSaving = false;
    redraw();
  }

  /** Reads the file again; what was typed is lost. */
  reopen() {
    editors.delete(this.path);
    forget(`config ${this.path}`);
  }
}

/** What was typed into each file stays until the tab is closed. @type {Map<string, Editor>} */
const editors = new Map();

/** Puts the cursor at the beginning of a line. @param {string} text @param {number} line */
function goToLine(text, line) {
  const area = /** @type {HTMLTextAreaElement} */ (document.getElementById('config-text'));
  const at = text.split('\n').slice(0, line - 1).join('\n').length + Number(line > 1);
  area.focus();
  area.setSelectionRange(at, at);
}

/** @param {Editor} editor */
function editorBody(editor) {
  const { text, findings } = editor;
  const lines = text.split('\n');
  const signs = new Map((findings ?? []).toReversed().map(({ line, severity }) => [line, severity === 'error' ? '✕' : '!']));
  const item = (/** @type {Finding} */ finding, /** @type {number} */ at) => html`<li class="row">${finding.line
    ? html`<button class="button small" @click=${() => goToLine(text, finding.line ?? 1)}>Line ${finding.line}</button>` : nothing}${note(finding, `finding-${at}`)}</li>`;
  return html`<div class="config-form"><div class="editor"><pre aria-hidden="true">${lines.map((_, at) => `${signs.get(at + 1) ?? ' '} ${at + 1}\n`)}</pre>
      <textarea id="config-text" class="input" wrap="off" rows=${lines.length} spellcheck="false" autocomplete="off" aria-label="YAML of ${editor.path}" aria-describedby="verdict"
        .value=${text} @input=${(/** @type {Event} */ event) => editor.type(valueOf(event))}></textarea></div>
    <section class="preview" aria-labelledby="findings-title"><h2 id="findings-title">Check</h2>
      ${findings ? wholeVerdict({ findings }) : html`<p id="verdict"></p>`}
      <ul class="cards" aria-label="Findings">${(findings ?? []).map(item)}</ul>
      ${editor.error ? failure(editor.error) : nothing}
      <div class="row"><button class="button primary" ?disabled=${editor.isSaving} @click=${() => editor.save()}>Save</button>
        <button class="button" @click=${() => editor.reopen()}>Discard changes</button></div>
      ${savedPanel(editor.saved)}</section></div>`;
}

/** @param {{info: Info, path: string}} context */
export function editorView({ info, path }) {
  const heading = html`<div class="bar"><h1 tabindex="-1">Edit <bdi>${path}</bdi></h1><span class="grow"></span><a href="#/config">New config</a></div>`;
  if (info.read_only) return html`${heading}${empty('The page is read-only.', html`The server was started with <code>--read-only</code>.`)}`;
  const key = `config ${path}`;
  return html`<div class="page">${heading}${whenLoaded(load(key, () => post('/api/config/open', { path })), 'the config', (opened) => {
    if (!editors.has(path)) editors.set(path, new Editor(opened));
    return editorBody(/** @type {Editor} */ (editors.get(path)));
  }, () => forget(key))}</div>`;
}
