// Comments on lines of diffs. They wait in this tab until all of them together become the task of the
// next turn.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { counted } from './format.js';
import { redraw } from './redraw.js';
import { go, hrefTo } from './router.js';

/** @typedef {{path: string, hunk: number, at: number, line: number, code: string, text: string}} Comment */

/** @param {string} run */
const keyOf = (run) => `massgen-comments ${run}`;

/** @param {string} run @returns {Comment[]} */
export function commentsOf(run) {
  try {
    return JSON.parse(sessionStorage.getItem(keyOf(run)) ?? '[]');
  } catch {
    return [];
  }
}

/** @param {string} run @param {Comment[]} comments */
function keep(run, comments) {
  if (comments.length) sessionStorage.setItem(keyOf(run), JSON.stringify(comments));
  else sessionStorage.removeItem(keyOf(run));
  redraw();
}

/** @param {string} run */
export const discardComments = (run) => keep(run, []);

/** Adds a comment, or changes the one on the same line. @param {string} run @param {Comment} comment */
export function addComment(run, comment) {
  const others = commentsOf(run).filter((one) => one.path !== comment.path || one.hunk !== comment.hunk || one.at !== comment.at);
  keep(run, comment.text.trim() ? [...others, comment] : others);
}

/** The task that the comments make. An `@` in quoted code must open no path, so it is escaped.
 * @param {Comment[]} comments */
export function taskOf(comments) {
  const quoted = (/** @type {string} */ text) => text.trim().slice(0, 200).replaceAll('`', "'").replaceAll('@', '\\@');
  const one = (/** @type {Comment} */ { path, line, code, text }) => `- ${path.replaceAll('@', '\\@')}, line ${line}, \`${quoted(code)}\`:\n  ${text.trim().replaceAll('\n', '\n  ')}`;
  const files = [...new Set(comments.map(({ path }) => path.replaceAll('@', '\\@')))].join(', ');
  return `Review of ${files}: address ${comments.length === 1 ? 'this comment' : `these ${comments.length} comments`}:\n\n${comments.map(one).join('\n')}`;
}

/** The form for a comment on a line. @param {string} text @param {(text: string | null) => void} done */
export function commentForm(text, done) {
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    done(String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get('text') ?? ''));
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'Escape') done(null);
    else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) /** @type {HTMLTextAreaElement} */ (event.target).form?.requestSubmit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<form class="comment-form" @submit=${submit} @keydown=${key}><textarea class="input" name="text" rows="3" aria-label="Comment on this line"
      placeholder="What should change here?" .value=${text}></textarea>
    <div class="row"><button class="button primary small">Keep comment</button><button type="button" class="button small" @click=${() => done(null)}>Cancel</button>
    <span class="muted"><kbd>Ctrl</kbd> <kbd>Enter</kbd> keeps it</span></div></form>`;
}

/** The comments that wait, with what can be done with them.
 * @param {string} run @param {string | null} session @param {boolean} mayStart */
export function commentBar(run, session, mayStart) {
  const comments = commentsOf(run);
  if (!comments.length) return nothing;
  const isSendable = mayStart && session;
  return html`<div class="sticky-bar" role="region" aria-label="Pending comments"><span>${counted(comments.length, 'pending comment')}</span><span class="grow"></span>
    ${isSendable ? html`<button class="button primary" @click=${() => go(hrefTo(['new'], { continue: session, comments: run }))}>Make ${comments.length === 1 ? 'it' : 'them'} the next task …</button>`
      : html`<span class="muted">${mayStart ? 'The run has no session to continue.' : 'The page is read-only.'}</span>`}
    <button class="button" @click=${() => discardComments(run)}>Discard</button></div>`;
}
