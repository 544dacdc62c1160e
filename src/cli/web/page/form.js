// The form that writes a config. Its questions, the YAML and what is wrong come from the server; the
// page keeps the answers, asks for a check while they are typed, and saves them where the user says.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { announce } from './announce.js';
import { get, post } from './api.js';
import { empty, failure, icon, openDialog, prose, whenLoaded } from './elements.js';
import { counted } from './format.js';
import { valueOf } from './keys.js';
import { forget, load, onceDrawn, redraw } from './redraw.js';
import { go, hrefTo } from './router.js';

/** @typedef {Record<string, string>} Answers */
/** @typedef {Record<string, Answers[]>} Draft */
/** @typedef {{yaml: string, findings: Finding[], is_valid: boolean}} Check */

const DRAFT_KEY = 'massgen-draft';
/** Wait for more typing before a check, in milliseconds. */
const TYPING_MS = 250;

const form = {
  /** @type {Draft | null} */
  draft: null,
  path: '',
  /** @type {Check | null} */
  check: null,
  /** The answers that have been given or left; what others lack is not said yet. @type {Set<string>} */
  visited: new Set(),
  isAllShown: false,
  isSaving: false,
  /** @type {any} */
  error: null,
  /** @type {{path: string, commands: string[]} | null} */
  saved: null,
  /** The file that is in the way, by its digest. @type {{digest: string} | null} */
  occupied: null,
  timer: 0,
  controller: new AbortController(),
};

/** @param {string} group @param {number} entry @param {string} name */
const idOf = (group, entry, name) => `answer-${group}-${entry}-${name}`;

/** Asks for a check of the draft once nothing has been typed for a while. @param {number} [wait] */
function checkSoon(wait = TYPING_MS) {
  sessionStorage.setItem(DRAFT_KEY, JSON.stringify(form.draft));
  clearTimeout(form.timer);
  form.timer = window.setTimeout(check, wait);
}

async function check() {
  form.controller.abort();
  form.controller = new AbortController();
  const { signal } = form.controller;
  try {
    const before = form.check;
    form.check = /** @type {Check} */ (await post('/api/config/check', { content: { draft: form.draft } }, signal));
    form.error = null;
    const [errors, errorsBefore] = [errorsOf(form.check), before && errorsOf(before)];
    if (errorsBefore != null && errors !== errorsBefore) announce(errors ? `${counted(errors, 'error')} in the config.` : 'The config has no errors.');
  } catch (error) {
    if (signal.aborted) return;
    form.error = error;
  }
  redraw();
}

/** @param {{findings: Finding[]}} result */
const errorsOf = (result) => result.findings.filter(({ severity }) => severity === 'error').length;

/** @param {Draft} draft @param {string} group @param {number} entry @param {string} name @param {string} answer */
function setAnswer(draft, group, entry, name, answer) {
  const answers = draft[group]?.[entry];
  if (!answers) return;
  if (answer) answers[name] = answer;
  else delete answers[name];
  form.saved = null;
  checkSoon();
  redraw();
}

/** @param {Draft} draft @param {FormGroup} group */
function addEntry(draft, group) {
  const entries = draft[group.id] ?? [];
  const initial = (/** @type {number} */ number) => Object.fromEntries(group.questions
    .filter((question) => question.initial).map((question) => [question.name, question.initial.replaceAll('#', String(number))]));
  let number = entries.length + 1;
  const isTaken = () => Object.entries(initial(number)).some(([name, answer]) => entries.some((entry) => entry[name] === answer));
  while (isTaken()) number += 1;
  const type = entries.at(-1)?.type;
  draft[group.id] = [...entries, { ...initial(number), ...(type && { type }) }];
  changed();
  focusSoon(idOf(group.id, entries.length, group.questions[0]?.name ?? ''));
}

/** @param {Draft} draft @param {FormGroup} group @param {number} at */
function removeEntry(draft, group, at) {
  draft[group.id]?.splice(at, 1);
  // The answers after it have other places now.
  for (const id of [...form.visited]) if (id.startsWith(`answer-${group.id}-`)) form.visited.delete(id);
  changed();
  focusSoon(`add-${group.id}`);
}

function changed() {
  form.saved = null;
  checkSoon(0);
  redraw();
}

/** Moves the focus once the page is drawn. @param {string} id */
function focusSoon(id) {
  onceDrawn(() => document.getElementById(id)?.focus());
}

/** Saves the draft, or goes to the first answer that keeps it from being run. @param {string} [replaces] */
async function save(replaces) {
  if (form.isSaving) return;
  form.isSaving = true;
  clearTimeout(form.timer);
  await check();
  if (!form.check?.is_valid) {
    Object.assign(form, { isAllShown: true, isSaving: false });
    redraw();
    const first = form.check?.findings.find(({ severity, group }) => severity === 'error' && group);
    if (first?.group) focusSoon(idOf(first.group, first.entry ?? 0, first.name ?? ''));
    return;
  }
  form.saved = null;
  redraw();
  try {
    form.saved = await post('/api/config/save', { content: { draft: form.draft }, path: form.path, replaces });
    announce(`Saved as ${form.path}.`);
    focusSoon('saved');
  } catch (error) {
    const { status, details } = /** @type {any} */ (error);
    if (status === 409 && details?.digest) {
      form.occupied = { digest: details.digest };
      onceDrawn(() => openDialog('occupied'));
    } else form.error = error;
  }
  form.isSaving = false;
  redraw();
}

function occupiedDialog() {
  const { occupied } = form;
  if (!occupied) return nothing;
  const close = () => {
    // The event comes with the next frame: another question may have been asked meanwhile.
    if (form.occupied === occupied) form.occupied = null;
    redraw();
  };
  const replace = (/** @type {Event} */ event) => {
    /** @type {Element} */ (event.target).closest('dialog')?.close();
    save(occupied.digest);
  };
  return html`<dialog id="occupied" aria-labelledby="occupied-title" @close=${close}><h2 id="occupied-title">${icon('ask')} <bdi>${form.path}</bdi> exists already</h2>
    <p>What is in it now is lost if you replace it.</p>
    <p class="muted">SHA-256 <code>${occupied.digest.slice(0, 16)}…</code></p>
    <div class="row"><button class="button danger" @click=${replace}>Replace it</button>
      <button class="button" @click=${(/** @type {Event} */ event) => /** @type {Element} */ (event.target).closest('dialog')?.close()}>Cancel</button></div></dialog>`;
}

/** The control of a question. @param {FormQuestion} question @param {any} common @param {Vendor | undefined} vendor @param {Vendor[]} vendors */
function control(question, common, vendor, vendors) {
  const { id, value, onInput, onLeave, describedBy, isInvalid } = common;
  const placeholder = question.default ?? '';
  if (question.kind === 'flag' || question.kind === 'choice') {
    const choices = question.kind === 'flag' ? ['true', 'false'] : question.choices;
    const labelOf = (/** @type {string} */ choice) => {
      const known = question.name === 'type' && vendors.find(({ name }) => name === choice);
      return known && known.needs_key ? `${choice} (${known.variables.some(({ is_set }) => is_set) ? 'key set' : 'no key'})` : choice;
    };
    return html`<select id=${id} class="input" aria-describedby=${describedBy} aria-invalid=${isInvalid} @change=${onInput} @blur=${onLeave}>
      ${question.is_required && value ? nothing : html`<option value="" ?selected=${!value}>${question.default ? `${question.default} (default)` : '-'}</option>`}
      ${choices.map((choice) => html`<option value=${choice} ?selected=${choice === value}>${labelOf(choice)}</option>`)}</select>`;
  }
  if (question.kind === 'paragraph' || question.kind === 'list' || question.kind === 'choice_or_list') {
    return html`<textarea id=${id} class="input" rows=${question.kind === 'paragraph' ? 4 : 2} placeholder=${placeholder} aria-describedby=${describedBy}
      aria-invalid=${isInvalid} .value=${value} @input=${onInput} @blur=${onLeave}></textarea>`;
  }
  const models = question.kind === 'model' ? vendor?.models ?? [] : [];
  return html`<input id=${id} class="input" type="text" autocomplete="off" spellcheck="false" inputmode=${question.kind === 'number' ? 'decimal' : 'text'}
      list=${models.length ? `${id}-models` : nothing} placeholder=${question.kind === 'model' ? vendor?.default_model ?? '' : placeholder}
      aria-describedby=${describedBy} aria-invalid=${isInvalid} aria-required=${question.is_required} .value=${value} @input=${onInput} @blur=${onLeave}>
    ${models.length ? html`<datalist id="${id}-models">${models.map((model) => html`<option value=${model}></option>`)}</datalist>` : nothing}`;
}

/** @param {FormQuestion} question @param {FormGroup} group @param {number} entry @param {Draft} draft @param {FormKeys} keys */
function answer(question, group, entry, draft, keys) {
  const id = idOf(group.id, entry, question.name);
  const answers = draft[group.id]?.[entry] ?? {};
  const isShown = form.isAllShown || form.visited.has(id);
  const findings = (form.check?.findings ?? []).filter((finding) => finding.group === group.id && finding.entry === entry
    && finding.name === question.name && (isShown || finding.severity !== 'error'));
  const describedBy = [`${id}-doc`, ...findings.map((_, at) => `${id}-${at}`)].join(' ');
  const common = {
    id,
    value: answers[question.name] ?? '',
    describedBy,
    isInvalid: String(findings.some(({ severity }) => severity === 'error')),
    onInput: (/** @type {Event} */ event) => {
      form.visited.add(id);
      setAnswer(draft, group.id, entry, question.name, valueOf(event));
    },
    onLeave: () => {
      form.visited.add(id);
      redraw();
    },
  };
  const vendor = keys.vendors.find(({ name }) => name === answers.type);
  return html`<div class="answer-field"><label for=${id}>${question.label}</label>
    ${control(question, common, vendor, keys.vendors)}
    <p id="${id}-doc" class="muted">${prose(question.doc)}</p>
    ${findings.map((finding, at) => note(finding, `${id}-${at}`))}</div>`;
}

/** @param {Finding} finding @param {string} id */
export function note({ severity, message, expected, suggestion }, id) {
  const [tone, sign] = { error: ['bad', 'bad'], warning: ['wait', 'warn'], note: ['wait', 'warn'] }[severity];
  return html`<p id=${id} class="finding tone-${tone}">${icon(sign)} <span>${prose(message)}${expected ? html`; ${prose(expected)}` : nothing}${suggestion
    ? html`<br>hint: ${prose(suggestion)}` : nothing}</span></p>`;
}

/** @param {FormGroup} group @param {Draft} draft @param {FormKeys} keys */
function groupView(group, draft, keys) {
  const entries = draft[group.id] ?? [];
  const answersOf = (/** @type {number} */ entry) => group.questions.map((question) => answer(question, group, entry, draft, keys));
  const heading = html`<h2 id="group-${group.id}">${group.title}</h2>${group.doc ? html`<p class="muted">${prose(group.doc)}</p>` : nothing}`;
  const { noun } = group;
  if (!noun) return html`<section class="panel form-group" aria-labelledby="group-${group.id}">${heading}<div class="answers">${answersOf(0)}</div></section>`;
  return html`<section class="form-group" aria-labelledby="group-${group.id}">${heading}
    ${entries.map((_, at) => html`<div class="panel answers" role="group" aria-label="${noun} ${at + 1}">${answersOf(at)}
      ${entries.length > group.initial_entries ? html`<div class="row"><button class="button small danger" @click=${() => removeEntry(draft, group, at)}>Remove ${noun} ${at + 1}</button></div>` : nothing}</div>`)}
    ${entries.length < keys.entries_max ? html`<div class="row"><button class="button" id="add-${group.id}" @click=${() => addEntry(draft, group)}>Add ${noun}</button></div>` : nothing}</section>`;
}

/** Whether the config can be run: a note names what a run needs that is not part of it. @param {{findings: Finding[]}} result */
export function wholeVerdict(result) {
  const errors = errorsOf(result);
  const [tone, sign, words] = errors ? ['bad', 'bad', counted(errors, 'error')]
    : result.findings.some(({ severity }) => severity === 'note') ? ['wait', 'warn', 'No errors. A run also needs what the notes beside the fields say.']
      : ['done', 'done', 'It can be run.'];
  return html`<p class="tone-${tone}" id="verdict">${icon(sign)} ${words}</p>`;
}

/** What the check says as a whole, and where the file goes. */
function savePanel() {
  const { check: result, saved } = form;
  const whole = (result?.findings ?? []).filter(({ group }) => !group);
  const saveOnEnter = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== 'Enter' || event.isComposing) return;
    event.preventDefault();
    save();
  };
  const setPath = (/** @type {Event} */ event) => {
    form.path = valueOf(event);
    form.error = null;
    form.saved = null;
    redraw();
  };
  return html`<section class="preview" aria-labelledby="preview-title"><h2 id="preview-title">Preview</h2>
    <pre class="output tall" role="region" tabindex="0" aria-label="YAML of the config">${result?.yaml ?? ''}</pre>
    ${result ? wholeVerdict(result) : html`<p id="verdict"></p>`}
    ${whole.map((finding, at) => note(finding, `whole-${at}`))}
    ${form.error ? failure(form.error) : nothing}
    <div class="answer-field"><label for="config-path">Save as</label>
      <input id="config-path" class="input" type="text" autocomplete="off" spellcheck="false" aria-describedby="config-path-doc" .value=${form.path} @input=${setPath} @keydown=${saveOnEnter}>
      <p id="config-path-doc" class="muted">A name below the directory of the server that ends in <code>.yaml</code>. Runs use <code>.massgen/config.yaml</code> without being told.</p></div>
    <div class="row"><button class="button primary" ?disabled=${form.isSaving} @click=${() => save()}>Save</button></div>
    ${savedPanel(saved)}</section>`;
}

/** How a config that was saved is used. @param {{path: string, commands: string[]} | null} saved */
export const savedPanel = (saved) => (saved ? html`<div class="panel stack" id="saved" tabindex="-1"><p>${icon('done')} Saved as <bdi>${saved.path}</bdi>. This page keeps the teams that it was started with. To use the config as it is now, start:</p>
  ${saved.commands.map((command, at) => html`<pre class="output" tabindex="0" aria-label="Command ${at + 1}">${command}</pre>`)}</div>` : nothing);

/** Asks which config of the project is to be edited. @param {Info} info */
function openForm(info) {
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const path = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get('path') ?? '').trim();
    if (path) go(hrefTo(['config', path]));
  };
  return html`<form class="row" @submit=${submit}><label for="open-path">Edit a config</label><input id="open-path" name="path" class="input" autocomplete="off" spellcheck="false" list="open-paths" placeholder="team.yaml">
    <datalist id="open-paths">${info.teams.filter(({ name }) => /^[^@~/].*\.ya?ml$/.test(name)).map(({ name }) => html`<option value=${name}></option>`)}</datalist><button class="button">Open</button></form>`;
}

/** @param {FormKeys} keys @param {Info} info */
function formPage(keys, info) {
  if (!form.draft) {
    form.draft = /** @type {Draft} */ (storedDraft() ?? structuredClone(keys.draft));
    form.path = keys.path;
    checkSoon(0);
  }
  const { draft } = form;
  const startOver = () => {
    Object.assign(form, { draft: null, check: null, error: null, saved: null, isAllShown: false });
    form.visited.clear();
    sessionStorage.removeItem(DRAFT_KEY);
    redraw();
  };
  return html`<div class="page"><div class="bar"><h1 tabindex="-1">New config</h1><span class="grow"></span>${openForm(info)}<button class="button small quiet" @click=${startOver}>Start over</button></div>
    <p class="muted">Only what differs from the defaults has to be answered. Keys of vendors are read from the environment and never typed here.</p>
    <div class="config-form"><div class="groups">${keys.groups.map((group) => groupView(group, draft, keys))}</div>${savePanel()}</div>${occupiedDialog()}</div>`;
}

function storedDraft() {
  try {
    return JSON.parse(sessionStorage.getItem(DRAFT_KEY) ?? 'null');
  } catch {
    return null;
  }
}

/** @param {{info: Info}} context */
export function formView({ info }) {
  if (info.read_only) return html`<h1 class="hidden">New config</h1>${empty('The page is read-only.', html`The server was started with <code>--read-only</code>.`)}`;
  const keys = load('config keys', () => get('/api/config/keys'));
  if (keys.state === 'ready') return formPage(keys.value, info);
  return html`<div class="page"><h1 tabindex="-1">New config</h1>${whenLoaded(keys, 'the form', (value) => formPage(value, info), () => forget('config keys'))}</div>`;
}
