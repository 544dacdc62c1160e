// Announcements for screen readers while a run is live: answers, votes, questions and the end, and
// nothing of the streamed text. One polite region has all of them.

/** Wait before a sentence is said, so that several come together, in milliseconds. */
const COLLECT_MS = 300;
/** @type {string[]} */
let waiting = [];
let timer = 0;

/** @param {string} sentence */
export function announce(sentence) {
  waiting.push(sentence);
  clearTimeout(timer);
  timer = window.setTimeout(() => {
    const region = document.getElementById('announcements');
    if (region) region.textContent = waiting.join(' ');
    waiting = [];
  }, COLLECT_MS);
}

/** Says what a change of a section means to a person. @param {string} section @param {any} value @param {any} before */
export function announceChange(section, value, before) {
  if (!before) return;
  if (section === 'ballot') {
    for (const answer of value.answers.slice(before.answers.length)) announce(`${answer.agent} answered as ${answer.label}.`);
    for (const vote of value.votes.slice(before.votes.length)) announce(`${vote.voter} voted for ${vote.label}.`);
    if (value.winner && !before.winner) announce(`${value.winner.agent} wins with ${value.winner.label}.`);
  } else if (section === 'questions' && value.length > before.length) {
    const { kind, agent, tool } = value[value.length - 1];
    announce(kind === 'approval' ? `${agent} asks for approval of ${tool}.` : 'The run waits for you.');
  } else if (section === 'run' && value.phase === 'ended' && before.phase !== 'ended') {
    announce(`The run has ended: ${value.summary ?? value.status}.`);
  }
}
