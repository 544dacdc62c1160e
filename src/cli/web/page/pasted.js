// Which parts of the task were pasted, dropped or inserted by other means than typing: someone else
// may have written them, so the server asks before their mentions open a path.

/** Name of the parts in the storage of the tab, which also keeps the task. */
const STORED = 'massgen-pasted';
/** Maximum number of parts; with more, all of the task counts as pasted. */
const PARTS_MAX = 100;
/** Kinds of input that are typing. */
const TYPING = /^(insertText|insertCompositionText|insertFromComposition|insertLineBreak|insertParagraph|delete\w*)$/;

/** The parts; `null` if they are not known: then all of the task counts as pasted.
 * @type {string[] | null} */
let parts = JSON.parse(sessionStorage.getItem(STORED) ?? 'null');
/** The text of the paste or drop whose input event follows. @type {string | null} */
let transferred = null;

/** @param {string[] | null} known */
function setParts(known) {
  parts = known;
  sessionStorage.setItem(STORED, JSON.stringify(parts));
}

/** The parts, as they are sent to the server; `undefined` if they are not known. */
export const pastedParts = () => parts ?? undefined;
/** The task is empty: whatever comes next is typed, or noticed here. */
export const forgetPasted = () => setParts([]);
/** All of the task was written by something else than the keyboard. */
export const allIsPasted = () => setParts(null);

/** Keeps the text that a paste or a drop brings. @param {ClipboardEvent | DragEvent} event */
export function noteTransfer(event) {
  const data = 'clipboardData' in event ? event.clipboardData : event.dataTransfer;
  transferred = data?.getData('text/plain') ?? null;
}

/** Notes what an input event of the task, or of a field that writes into it, inserts.
 * @param {InputEvent} event */
export function noteInput(event) {
  const text = event.data ?? transferred;
  transferred = null;
  // An input method may insert a whole text at once.
  const isTyped = TYPING.test(event.inputType) && !(event.data && event.data.length > 1 && event.data.includes('@'));
  if (isTyped || parts === null) return;
  setParts(text === null || parts.length >= PARTS_MAX ? null : [...parts, text]);
}
