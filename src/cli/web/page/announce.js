// Announcements for screen readers: answers, votes, questions and the end of a live run, what became of a
// person's action, and nothing of the streamed text. One polite region has all of them.

/** Wait before a sentence is said, so that several come together, in milliseconds. */
const COLLECT_MS = 300;
/** The sentences that are said next, by subject. @type {Map<string, string>} */
const sentences = new Map();
let timer = 0;

/** Says a sentence soon; a later one about the same subject replaces it.
 * @param {string} sentence @param {string} [subject] */
export function announce(sentence, subject = sentence) {
  sentences.delete(subject);
  sentences.set(subject, sentence);
  clearTimeout(timer);
  timer = window.setTimeout(() => {
    const region = document.getElementById('announcements');
    if (region) region.textContent = [...sentences.values()].join(' ');
    sentences.clear();
  }, COLLECT_MS);
}

/** Forgets what was said in another view. */
export function silence() {
  clearTimeout(timer);
  sentences.clear();
  document.getElementById('announcements')?.replaceChildren();
}

/** Says what a change of a section means to a person. @param {string} section @param {any} value @param {any} before */
export function announceChange(section, value, before) {
  if (!before) return;
  if (section === 'ballot') {
    for (const answer of value.answers.slice(before.answers.length)) announce(`${answer.agent} answered as ${answer.label}.`);
    for (const vote of value.votes.slice(before.votes.length)) announce(`${vote.voter} voted for ${vote.candidate} (${vote.label}).`);
    if (value.winner && !before.winner) announce(`${value.winner.agent} wins with ${value.winner.label}.`);
  } else if (section === 'questions' && value.length > before.length) {
    const { kind, agent, tool } = value[value.length - 1];
    announce(kind === 'approval' ? `${agent} asks for approval of ${tool}.` : 'The run waits for you.');
  } else if (section === 'run' && value.phase === 'ended' && before.phase !== 'ended') {
    announce(`The run has ended: ${value.summary ?? value.status}.`);
  } else if (section === 'connection') {
    announce('The connection is lost; the page tries again.', section);
  }
}
