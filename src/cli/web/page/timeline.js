// The timeline of a run as lanes, one for each agent: requests, tool calls, waits and checks as bars of
// different heights and borders, answers and votes as marks. A list of the same spans follows for those who cannot see it.

import { html, nothing, svg } from './vendor/lit-html/lit-html.js';
import { empty } from './elements.js';
import { clock, counted, duration } from './format.js';
import { redraw } from './redraw.js';
import { go, runHref } from './router.js';

const LANE_HEIGHT = 34;
const AXIS_HEIGHT = 22;
/** Widths of the drawing, of its names and between marks of the axis; those where there is little room come second. */
const WIDTHS = { all: [1000, 420], name: [110, 72], mark: 80 };
const narrowScreen = window.matchMedia('(max-width: 700px)');
narrowScreen.addEventListener('change', redraw);
/** Number of spans of a lane that are drawn and listed. */
const SPANS_MAX = 400;
/** Distances between marks of the axis, in milliseconds. */
const STEPS_MS = [100, 500, 1000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000];
/** What the legend calls each kind of span. */
const KIND_WORDS = /** @type {Record<string, string>} */ ({ model: 'request', tool: 'tool call', denied: 'denied call', wait: 'wait to try again',
  others: 'wait for others', turn: 'wait for its turn', approval: 'wait for approval', check: 'check', answer: 'answer', vote: 'vote' });
/** Where the bar of a kind begins in its lane, and its height. */
const BARS = /** @type {Record<string, [number, number]>} */ ({ model: [8, 18], approval: [5, 24], others: [16, 2], turn: [15, 4] });
/** Kinds whose bars have others on top of them: a request has the retries, a tool call its approval. */
const KINDS_BELOW = ['model', 'tool'];

/** @param {Span} span @param {(ms: number) => number} x @param {number} top @param {() => void} open */
function spanShape(span, x, top, open) {
  const title = svg`<title>${KIND_WORDS[span.kind] ?? span.kind} ${span.label}, ${clock(span.from_ms)}, ${duration(span.to_ms - span.from_ms)}</title>`;
  const middle = top + LANE_HEIGHT / 2;
  const from = x(span.from_ms);
  if (span.kind === 'answer') return svg`<path class="span-answer" d="M${from} ${middle - 9}l7 9l-7 9l-7-9Z" @click=${open}>${title}</path>`;
  if (span.kind === 'vote') return svg`<circle class="span-vote" cx=${from} cy=${middle} r="6" @click=${open}>${title}</circle>`;
  if (span.kind === 'denied') return svg`<path class="span-denied" d="M${from - 4} ${middle - 4}l8 8m0-8l-8 8" @click=${open}>${title}</path>`;
  const width = Math.max(2, x(span.to_ms) - from);
  const [y, height] = BARS[span.kind] ?? [12, 10];
  return svg`<rect class="span-${span.kind}" x=${from} y=${top + y} width=${width} height=${height} rx="2" @click=${open}>${title}</rect>`;
}

/** @param {RunStream} stream */
export function timelineView(stream) {
  /** @type {TimelineSection} */
  const timeline = stream.sections.get('timeline') ?? { lanes: [] };
  const order = (/** @type {{agent: string}} */ { agent }) => stream.run?.agents.indexOf(agent) ?? 0;
  const now = stream.isLive ? stream.now : stream.run?.elapsed_ms ?? 0;
  /** What has not ended is a span up to now. @param {TimelineSection['lanes'][number]} lane */
  const withOpen = (lane) => (lane.open ? { ...lane, spans: [...lane.spans, { ...lane.open, to_ms: Math.max(now, lane.open.from_ms) }] } : lane);
  const lanes = timeline.lanes.map(withOpen).sort((one, other) => order(one) - order(other));
  if (!lanes.some(({ spans }) => spans.length)) return empty(stream.isLive ? 'Nothing has happened yet.' : 'No agent worked in this run.');
  const ends = lanes.flatMap(({ spans }) => spans.map((span) => span.to_ms));
  const end = Math.max(1000, stream.run?.elapsed_ms ?? 0, ...ends);
  const [width, nameWidth] = [WIDTHS.all, WIDTHS.name].map((widths) => widths[Number(narrowScreen.matches)]);
  const x = (/** @type {number} */ ms) => Math.round((nameWidth + (ms / end) * (width - nameWidth - 14)) * 10) / 10;
  const marksMax = Math.floor((width - nameWidth) / WIDTHS.mark) + 1;
  const step = STEPS_MS.find((ms) => end / ms <= marksMax) ?? Math.ceil(end / marksMax);
  const marks = Array.from({ length: Math.floor(end / step) + 1 }, (_, index) => index * step);
  const height = AXIS_HEIGHT + lanes.length * LANE_HEIGHT + 6;
  const open = (/** @type {Span} */ span, /** @type {string} */ agent) => go(span.kind === 'answer'
    ? runHref(stream.id, ['answers'], { left: span.label }) : span.kind === 'vote' ? runHref(stream.id, ['votes'])
      : runHref(stream.id, ['agents', agent]));
  const lane = (/** @type {typeof lanes[number]} */ { agent }, /** @type {number} */ index) => {
    const top = AXIS_HEIGHT + index * LANE_HEIGHT;
    return svg`<rect class="lane ${index % 2 ? 'odd' : ''}" x="0" y=${top} width=${width} height=${LANE_HEIGHT}></rect>
      <text class="lane-name" x="8" y=${top + LANE_HEIGHT / 2 + 4}>${agent.length * 8 > nameWidth ? `${agent.slice(0, nameWidth / 8 - 1)}…` : agent}</text>`;
  };
  const legend = Object.keys(KIND_WORDS);
  const layers = (/** @type {Span[]} */ spans) => {
    const shown = spans.slice(-SPANS_MAX);
    return [...shown.filter(({ kind }) => KINDS_BELOW.includes(kind)), ...shown.filter(({ kind }) => !KINDS_BELOW.includes(kind))];
  };
  return html`<div class="stack"><h2>Timeline</h2>
    <div class="scroll timeline" role="region" tabindex="0" aria-label="Timeline, drawn"><svg viewBox="0 0 ${width} ${height}" role="img"
      aria-label="What each agent did when; the tables below say the same">
      ${lanes.map(lane)}
      ${marks.map((ms) => svg`<line class="tick" x1=${x(ms)} x2=${x(ms)} y1=${AXIS_HEIGHT} y2=${height}></line>
        <text class="tick-text" x=${x(ms)} y="14" text-anchor=${!ms ? 'start' : x(ms) > width - 30 ? 'end' : 'middle'}>${step < 1000 ? duration(ms) : clock(ms)}</text>`)}
      ${lanes.map(({ agent, spans }, index) => layers(spans).map((span) => spanShape(span, x, AXIS_HEIGHT + index * LANE_HEIGHT, () => open(span, agent))))}</svg></div>
    <ul class="legend" aria-label="Legend">${legend.map((kind) => html`<li><svg viewBox="0 0 16 16" class="swatch" aria-hidden="true">${spanShape(
      { kind, from_ms: ['answer', 'vote', 'denied'].includes(kind) ? 8 : 1, to_ms: 15, label: '' },
      (ms) => ms, -9, () => {})}</svg>${KIND_WORDS[kind]}</li>`)}</ul>
    ${lanes.map(({ agent, spans, dropped }) => html`<details class="panel"><summary><bdi>${agent}</bdi>: ${counted(spans.length, 'step')}</summary>
      <div class="scroll" role="region" tabindex="0" aria-label="Steps of ${agent}"><table class="rows"><thead><tr><th scope="col">From</th><th scope="col">What</th>
        <th scope="col">Name</th><th scope="col" class="num">Time</th></tr></thead><tbody>${spans.slice(-SPANS_MAX).map((span) => html`<tr>
        <td class="num">${clock(span.from_ms)}</td><td>${KIND_WORDS[span.kind] ?? span.kind}</td><td><bdi>${span.label}</bdi></td>
        <td class="num">${duration(span.to_ms - span.from_ms)}</td></tr>`)}</tbody></table></div>
      ${dropped ? html`<p class="muted">${counted(dropped, 'older step')} not kept.</p>` : nothing}</details>`)}</div>`;
}
