// Numbers, times and states in words, as the terminal writes them.

/** @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms == null) return '-';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(seconds % 60).padStart(2, '0')} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, '0')} min`;
}

/** Formats a position on the clock of the run. @param {number} ms */
export function clock(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const parts = [Math.floor(seconds / 60) % 60, seconds % 60];
  const hours = Math.floor(seconds / 3600);
  const text = parts.map((part) => String(part).padStart(2, '0')).join(':');
  return hours ? `${hours}:${text}` : text;
}

/** @param {number | null | undefined} count */
export function tokens(count) {
  if (count == null) return '-';
  if (count < 1000) return String(count);
  if (count < 100_000) return `${(count / 1000).toFixed(1)}k`;
  if (count < 1_000_000) return `${Math.round(count / 1000)}k`;
  return `${(count / 1_000_000).toFixed(2)}M`;
}

/** @param {number | null | undefined} dollars @param {boolean} [isComplete] */
export function money(dollars, isComplete = true) {
  if (dollars == null) return 'unknown';
  // Rounded up to four decimals, as in the terminal; the subtraction removes what the binary form adds.
  return `${isComplete ? '' : '≥ '}$${Math.ceil(dollars * 1e4 - 1e-6) / 1e4}`;
}

/** @param {number} count @param {string} noun @param {string} [plural] */
export const counted = (count, noun, plural = `${noun}s`) => `${count} ${count === 1 ? noun : plural}`;

/** A date and a time, the same for every locale. @param {string | null | undefined} time */
export function moment(time) {
  const date = time ? new Date(time) : null;
  if (!date || Number.isNaN(date.getTime())) return time ?? '-';
  const year = date.getFullYear() === new Date().getFullYear() ? undefined : 'numeric';
  return date.toLocaleString('en-GB', { day: 'numeric', month: 'short', year, hour: '2-digit', minute: '2-digit' });
}

/** What an agent does, in words. @param {AgentSection} agent */
export function activityText({ activity, vote, candidate, answer }) {
  const { state, detail } = activity;
  switch (state) {
    case 'idle': return vote ? `voted for ${candidate}` : answer ? `answered ${answer}` : 'idle';
    case 'waiting_for_turn': return 'waits for its turn';
    case 'waiting_for_model': return 'waits for its model';
    case 'writing': return 'writes';
    case 'reasoning': return 'reasons';
    case 'preparing': return `writes ${detail}`;
    case 'waiting_for_preparation': return `waits for ${detail}`;
    case 'running_tool': return `runs ${detail}`;
    case 'submitting': return `submits ${detail}`;
    case 'waiting_for_approval': return `asks for approval of ${detail}`;
    case 'queued_for_approval': return `waits to ask for approval of ${detail}`;
    case 'retrying': return `retries in ${Math.ceil((detail?.wait_ms ?? 0) / 1000)} s: ${detail?.reason ?? ''}`;
    case 'rate_limited': return `rate limited for ${Math.ceil((detail?.wait_ms ?? 0) / 1000)} s`;
    case 'checking': return `is checked by ${detail}`;
    case 'dropped_out': return `dropped out: ${detail}`;
    default: return state.replaceAll('_', ' ');
  }
}

/** The kind of a state, which chooses its shape and colour.
 * @param {AgentSection} agent */
export function activityTone({ activity, vote, answer }) {
  switch (activity.state) {
    case 'idle': return vote || answer ? 'done' : 'idle';
    case 'waiting_for_turn': case 'waiting_for_preparation': return 'idle';
    case 'waiting_for_approval': case 'queued_for_approval': return 'ask';
    case 'retrying': case 'rate_limited': return 'wait';
    case 'dropped_out': return 'bad';
    default: return 'work';
  }
}

/** Why an answer won, as the end of a sentence. @param {string} reason */
export const winnerReason = (reason) => ({
  only_answer: 'it is the only answer',
  most_votes: 'it has the most votes',
  first_of_tie: 'it comes first in the config among those with most votes',
  passed_checks: 'it passed the required checks, which others failed',
})[reason] ?? reason;
