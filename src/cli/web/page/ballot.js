// Answers and votes of a run: the strip in the overview, and the view of all votes with reasons.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { chip, empty, icon, verdict } from './elements.js';
import { clock, counted, winnerReason } from './format.js';
import { moveFocus, onKey } from './keys.js';
import { runHref } from './router.js';

/** @param {BallotAnswer} answer */
function checksMark(answer) {
  const checks = answer.checks?.checks ?? [];
  if (!checks.length) return nothing;
  const failed = checks.filter((check) => check.verdict !== 'passed').length;
  return failed ? html`<span class="tone-bad mark">${icon('bad')} ${failed} of ${counted(checks.length, 'check')} failed</span>`
    : html`<span class="tone-done mark">${icon('done')} ${counted(checks.length, 'check')} passed</span>`;
}

/** @param {BallotAnswer} answer @param {RunStream} stream */
function answerChip(answer, stream) {
  const voters = stream.ballot.votes.filter((vote) => !vote.is_void && vote.label === answer.label).map(({ voter }) => voter);
  const seen = answer.seen_by.length ? `seen by ${answer.seen_by.join(', ')}` : `seen by no other agent${stream.isLive ? ' yet' : ''}`;
  return html`<li class="answer-chip ${answer.is_replaced ? 'replaced' : ''}">
    <a href=${runHref(stream.id, ['answers'], { left: answer.label })}>${answer.label}</a>
    <bdi class="muted">${answer.agent}</bdi>
    ${answer.is_replaced ? html`<span class="muted">replaced</span>` : html`<span>${counted(voters.length, 'vote')}${voters.length ? html`: <bdi>${voters.join(', ')}</bdi>` : nothing}</span>`}
    ${checksMark(answer)}<span class="muted seen">${seen}</span></li>`;
}

/** @param {Vote} vote */
const voteText = (vote) => html`<bdi>${vote.voter}</bdi> → <bdi>${vote.candidate}</bdi> <span class="label">${vote.label}</span>`;

/** The strip with the winner, and all answers with their votes so far. @param {RunStream} stream */
export function ballotStrip(stream) {
  const { answers, winner } = stream.ballot;
  if (!answers.length) return html`<section class="strip" aria-label="Ballot"><p class="muted">${stream.isLive ? 'No answers yet.' : 'No agent answered.'}</p></section>`;
  const isWinner = (/** @type {BallotAnswer} */ answer) => Number(answer.label === winner?.label);
  const winnerFirst = [...answers].sort((one, other) => isWinner(other) - isWinner(one));
  return html`<section class="strip" aria-label="Ballot">
    ${winner ? html`<p class="winner">${icon('trophy')} <b><bdi>${winner.agent}</bdi></b> wins with ${winner.label}: ${winnerReason(winner.reason)}.</p>`
      : nothing}
    <ul class="answer-chips" aria-label="Answers">${winnerFirst.map((answer) => answerChip(answer, stream))}</ul></section>`;
}

/** @param {RunStream} stream */
function matrix(stream) {
  const { votes, answers } = stream.ballot;
  const team = stream.run?.agents ?? [];
  const candidates = [...new Set(answers.map((answer) => answer.agent))].sort((one, other) => team.indexOf(one) - team.indexOf(other));
  const cell = (/** @type {string} */ voter, /** @type {string} */ candidate) => {
    const cast = votes.filter((vote) => vote.voter === voter && vote.candidate === candidate);
    if (!cast.length) return html`<td class="muted">-</td>`;
    return html`<td>${cast.map((vote) => (vote.is_void ? html`<s>${vote.label}</s> ${chip('void', 'idle')} `
      : html`<span class="vote-mark">${icon('done')} ${vote.label}</span> `))}</td>`;
  };
  const count = (/** @type {string} */ candidate) => votes.filter((vote) => !vote.is_void && vote.candidate === candidate).length;
  return html`<div class="scroll" role="region" tabindex="0" aria-label="Votes by voter and candidate"><table class="matrix">
    <thead><tr><td><span class="muted">voter \\ candidate</span></td>${candidates.map((one) => html`<th scope="col"><bdi>${one}</bdi></th>`)}</tr></thead>
    <tbody>${team.map((voter) => html`<tr><th scope="row"><bdi>${voter}</bdi></th>${candidates
      .map((candidate) => cell(voter, candidate))}</tr>`)}</tbody>
    <tfoot><tr><th scope="row">votes that count</th>${candidates.map((one) => html`<td class="num">${count(one)}</td>`)}</tr></tfoot></table></div>`;
}

/** All votes with their reasons. @param {RunStream} stream */
export function votesView(stream) {
  onKey('j', 'next vote', () => moveFocus('.vote-card', 1));
  onKey('k', 'previous vote', () => moveFocus('.vote-card', -1));
  const { votes, answers, winner } = stream.ballot;
  if (!answers.length) return empty(stream.isLive ? 'No answers and no votes yet.' : 'No agent answered, so there was no vote.');
  return html`<div class="stack"><h2>Votes</h2>
    ${winner ? html`<p class="winner">${icon('trophy')} <b><bdi>${winner.agent}</bdi></b> wins with ${winner.label}: ${winnerReason(winner.reason)}.
      ${winner.votes.map(({ agent, count }) => chip(html`<bdi>${agent}</bdi> ${count}`))}</p>` : nothing}
    ${matrix(stream)}
    <h3>Reasons</h3>
    ${votes.length ? html`<ol class="cards">${votes.map((vote) => html`<li class="card vote-card ${vote.is_void ? 'void' : ''}" tabindex="-1">
      <div class="row wrap">${vote.is_void ? html`<s>${voteText(vote)}</s> ${chip(`void: ${vote.voiding_message == null ? 'a new answer' : 'your message'} came`, 'idle')}` : voteText(vote)}</div>
      <p>${vote.reason}</p></li>`)}</ol>` : html`<p class="muted">${stream.isLive ? 'No votes yet.' : 'No agent voted.'}</p>`}
    <h3>Who has seen what</h3>
    <ul class="plain-list">${answers.map((answer) => html`<li><span class="label">${answer.label}</span> of <bdi>${answer.agent}</bdi>, at
      <span class="num">${clock(answer.at_ms)}</span>: ${answer.seen_by.length ? `seen by ${answer.seen_by.join(', ')}` : 'seen by no other agent'}
      ${(answer.checks?.checks ?? []).map((check) => html` ${verdict(check)}`)}</li>`)}</ul></div>`;
}
