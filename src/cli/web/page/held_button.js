// Questions that have just appeared take no answer at first: their buttons may be where a person is
// about to press, or presses a second time.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { redraw } from './redraw.js';

/** Time for which a new question takes no answer, in milliseconds. */
const SETTLE_MS = 700;

/** Which question is in view, and whether it has just appeared. */
export class AnswerHold {
  constructor() {
    this.key = '';
    this.isNew = false;
    /** When it stopped to be new, by the page's clock. */
    this.knownSince = 0;
    this.timer = 0;
  }

  /** Notes the question in view; another one is new for a while. Returns whether it is another one.
   * @param {string} key identifies the question; empty for none */
  show(key) {
    if (key === this.key) return false;
    clearTimeout(this.timer);
    this.key = key;
    this.isNew = key !== '';
    if (key) {
      this.timer = window.setTimeout(() => {
        this.isNew = false;
        this.knownSince = performance.now();
        redraw();
      }, SETTLE_MS);
    }
    return true;
  }

  /** Whether the question takes this click as an answer. A busy page may read one long after it was made.
   * @param {MouseEvent} event */
  takes(event) {
    return event.detail <= 1 && !this.isNew && !(event.timeStamp < this.knownSince);
  }
}

/** A button that answers a question. Tab reaches it while it waits. The second click of a double click may
 * be meant for an earlier question. @param {any} text @param {() => void} run
 * @param {AnswerHold | null} hold that of the question; `null` if the button answers none
 * @param {{look?: string, id?: string, isAnswered?: boolean}} [more] */
export const heldButton = (text, run, hold, { look = '', id, isAnswered = false } = {}) =>
  html`<button class="button ${look}" id=${id ?? nothing} type="button" aria-disabled=${isAnswered || hold?.isNew ? 'true' : nothing}
    @click=${(/** @type {MouseEvent} */ event) => {
      if (!hold || hold.takes(event)) run();
    }}>${text}</button>`;
