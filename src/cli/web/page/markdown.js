// Markdown that the server has parsed, as elements. There is no HTML in it: every text is a text node.
// The tree is that of `src/markdown`; a block is one of
//   {kind: "paragraph", spans}                 {kind: "heading", level, spans}
//   {kind: "list", start, items: [{checked, blocks}]}   {kind: "quote", blocks}
//   {kind: "code", language, text}             {kind: "rule"}
//   {kind: "table", alignments, head: [{spans}], rows: [[{spans}]]}
// and a span is {kind: "text" | "code", text}, {kind: "emphasis" | "strong" | "strikethrough", spans},
// {kind: "link", url, spans} or {kind: "break"}. Images are links; the address of a link is shown.

import { html, nothing } from './vendor/lit-html/lit-html.js';

/** Addresses that a link may lead to. */
const SAFE_ADDRESS = /^(https?:\/\/|mailto:)/i;
/** Number of blocks that are shown at once. */
const BLOCKS_MAX = 2000;

/** @param {Inline[]} spans @returns {string} */
const plainText = (spans) => spans.map((span) => span.text ?? plainText(span.spans ?? [])).join('');

/** @param {Inline} span @returns {any} */
function link(span) {
  const url = span.url ?? '';
  const spans = span.spans ?? [];
  if (!SAFE_ADDRESS.test(url)) return inlines(spans);
  const text = plainText(spans).trim();
  const address = text === url ? nothing : html` <span class="address">(${url})</span>`;
  return html`<a href=${url} target="_blank" rel="noopener noreferrer">${text ? inlines(spans) : url}</a>${address}`;
}

/** @param {Inline} span @returns {any} */
function inline(span) {
  switch (span.kind) {
    case 'code': return html`<code>${span.text}</code>`;
    case 'emphasis': return html`<em>${inlines(span.spans)}</em>`;
    case 'strong': return html`<strong>${inlines(span.spans)}</strong>`;
    case 'strikethrough': return html`<s>${inlines(span.spans)}</s>`;
    case 'link': return link(span);
    case 'break': return html`<br>`;
    default: return span.text ?? inlines(span.spans);
  }
}

/** @param {Inline[] | undefined} spans @returns {any} */
const inlines = (spans) => (spans ?? []).map(inline);

/** The level of the last heading: none is more than one level below the one before it. */
let lastLevel = 2;

/** Headings of an answer come below that of the part of the page. @param {Block} block */
function heading({ level = 1, spans }) {
  lastLevel = Math.min(lastLevel + 1, level + 3, 6);
  return html`<div role="heading" aria-level=${lastLevel} class="heading md-${level}">${inlines(spans)}</div>`;
}

/** @param {Block} block */
function list({ start, items = [] }) {
  const item = (/** @type {NonNullable<Block['items']>[number]} */ { checked, blocks }) => html`<li
    class=${checked == null ? '' : 'task'}>${checked == null ? nothing
      : html`<span class="box" role="img" aria-label=${checked ? 'done' : 'open'}>${checked ? '☑' : '☐'}</span> `}${blocks
        .length === 1 && blocks[0].kind === 'paragraph' ? inlines(blocks[0].spans) : blocks.map(blockView)}</li>`;
  return start == null ? html`<ul>${items.map(item)}</ul>` : html`<ol start=${start}>${items.map(item)}</ol>`;
}

/** @param {Block} block */
function table({ alignments = [], head = [], rows = [] }) {
  const side = (/** @type {number} */ index) => `to-${alignments[index] ?? 'left'}`;
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Table"><table class="md-table">
    <thead><tr>${head.map((cell, index) => html`<th scope="col" class=${side(index)}>${inlines(cell.spans)}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${row
      .map((cell, index) => html`<td class=${side(index)}>${inlines(cell.spans)}</td>`)}</tr>`)}</tbody></table></div>`;
}

/** @param {Block} block @returns {any} */
function blockView(block) {
  switch (block.kind) {
    case 'heading': return heading(block);
    case 'list': return list(block);
    case 'code': return html`<pre class="code" tabindex="0" aria-label=${block.language ? `Code, ${block.language}` : 'Code'}><code>${block.text}</code></pre>`;
    case 'table': return table(block);
    case 'quote': return html`<blockquote>${(block.blocks ?? []).map(blockView)}</blockquote>`;
    case 'rule': return html`<hr>`;
    default: return html`<p>${block.spans ? inlines(block.spans) : block.text}</p>`;
  }
}

/** @param {Block[] | null | undefined} blocks @param {string} [content] the text, if it is not parsed
 * @param {number} [levelAbove] the level of the heading above it */
export function markdown(blocks, content = '', levelAbove = 3) {
  lastLevel = levelAbove;
  if (!blocks) return html`<div class="prose"><p class="plain">${content}</p></div>`;
  const rest = blocks.length - BLOCKS_MAX;
  return html`<div class="prose">${blocks.slice(0, BLOCKS_MAX).map(blockView)}
    ${rest > 0 ? html`<p class="muted">${rest} more blocks are not shown.</p>` : nothing}</div>`;
}
