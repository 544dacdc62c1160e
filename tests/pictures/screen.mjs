// Draws a terminal screen as an SVG: reads what `tmux capture-pane -e -p` printed from standard input,
// and writes the picture to standard output. The argument is its description for readers who do not
// see it.

import { readFileSync } from 'node:fs';

/** The size of a cell, in pixels. */
const WIDTH = 8.4;
const HEIGHT = 17;
const FONT_SIZE = 14;
const MARGIN = 12;
const BACKGROUND = '#15181e';
const FOREGROUND = '#dfe3ea';
/** The first eight colours of a terminal; the others are bright and the dashboard does not use them. */
const COLOURS = ['#3b4048', '#ff7b72', '#7ee787', '#e3b341', '#79b8ff', '#d2a8ff', '#56d4dd', '#dfe3ea'];
/** In which directions a border character has a line from the middle of its cell. */
const BORDERS = { '─': 'lr', '│': 'ud', '┌': 'rd', '┐': 'ld', '└': 'ru', '┘': 'lu', '├': 'udr', '┤': 'udl', '┬': 'lrd', '┴': 'lru', '┼': 'lrud' };

const PLAIN = { colour: null, isBold: false, isFaint: false, isReversed: false };

/** Returns `style` after the parameters of one SGR sequence. */
function restyle(style, parameters) {
  const rest = parameters.split(';').map(Number);
  let next = { ...style };
  while (rest.length) {
    const code = rest.shift();
    if (code === 0) next = { ...PLAIN };
    else if (code === 1) next.isBold = true;
    else if (code === 2) next.isFaint = true;
    else if (code === 7) next.isReversed = true;
    else if (code >= 30 && code <= 37) next.colour = code - 30;
    else if (code === 38 && rest[0] === 5) next.colour = rest.splice(0, 2)[1];
    else if (code === 39) next.colour = null;
    else if (code !== 49 && code !== 4 && code !== 24) throw new Error(`unknown SGR parameter ${code} in ${parameters}`);
  }
  return next;
}

/** Returns the rows of the screen, each a list of cells. A style goes on in the next row. */
function parse(text) {
  let style = PLAIN;
  return text.replace(/\n$/, '').split('\n').map((line) => {
    const cells = [];
    for (const [, parameters, character] of line.matchAll(/\x1b\[([\d;]*)m|([^\x1b])/gu)) {
      if (character === undefined) style = restyle(style, parameters || '0');
      else cells.push({ character, style });
    }
    return cells;
  });
}

const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
const place = (number) => String(Math.round(number * 10) / 10);
const colourOf = (style) => (style.isReversed ? BACKGROUND : style.colour === null ? FOREGROUND : COLOURS[style.colour % COLOURS.length]);

function attributes(style) {
  const colour = colourOf(style);
  return [colour === FOREGROUND ? '' : ` fill="${colour}"`, style.isBold ? ' font-weight="700"' : '',
    style.isFaint && !style.isReversed ? ' opacity=".62"' : ''].join('');
}

/** Joins neighbouring cells of one look to texts without borders and without two spaces in a row, which
 * some viewers would draw as one. */
function runs(cells) {
  const found = [];
  let last = null;
  cells.forEach(({ character, style }, column) => {
    if (character in BORDERS) last = null;
    else if (last && last.look === attributes(style)) last.text += character;
    else found.push(last = { column, text: character, look: attributes(style) });
  });
  return found.flatMap(({ column, text, look }) => [...text.matchAll(/\S+(?: \S+)*/g)]
    .map((words) => ({ column: column + words.index, text: words[0], look })));
}

/** Returns the paths of all borders, by their look. */
function borders(rows) {
  const paths = new Map();
  rows.forEach((cells, row) => cells.forEach(({ character, style }, column) => {
    const ends = BORDERS[character];
    if (!ends) return;
    const [x, y] = [MARGIN + (column + 0.5) * WIDTH, MARGIN + (row + 0.5) * HEIGHT];
    const to = { l: `h${place(-WIDTH / 2)}`, r: `h${place(WIDTH / 2)}`, u: `v${place(-HEIGHT / 2)}`, d: `v${place(HEIGHT / 2)}` };
    const look = `${colourOf(style)}" opacity="${style.isFaint ? '.45' : '1'}`;
    const drawn = ends === 'lr' ? `M${place(x - WIDTH / 2)} ${place(y)}h${place(WIDTH)}`
      : ends === 'ud' ? `M${place(x)} ${place(y - HEIGHT / 2)}v${place(HEIGHT)}`
        : [...ends].map((end) => `M${place(x)} ${place(y)}${to[end]}`).join('');
    paths.set(look, (paths.get(look) ?? '') + drawn);
  }));
  return [...paths].map(([look, path]) => `<path fill="none" stroke="${look}" d="${path}"/>`);
}

/** Returns the backgrounds of reversed cells. */
function backgrounds(rows) {
  const found = [];
  rows.forEach((cells, row) => cells.forEach(({ style }, column) => {
    if (!style.isReversed) return;
    const fill = style.colour === null ? FOREGROUND : COLOURS[style.colour % COLOURS.length];
    const last = found.at(-1);
    if (last?.row === row && last.fill === fill && last.column + last.count === column) last.count += 1;
    else found.push({ row, column, fill, count: 1 });
  }));
  return found.map(({ row, column, fill, count }) =>
    `<rect x="${place(MARGIN + column * WIDTH)}" y="${place(MARGIN + row * HEIGHT)}" width="${place(count * WIDTH)}" height="${HEIGHT}" fill="${fill}"/>`);
}

const rows = parse(readFileSync(0, 'utf8'));
const columns = Math.max(...rows.map((cells) => cells.length));
const [width, height] = [columns * WIDTH + 2 * MARGIN, rows.length * HEIGHT + 2 * MARGIN];
const description = escape(process.argv[2] ?? 'A terminal');
const texts = rows.flatMap((cells, row) => runs(cells).map(({ column, text, look }) =>
  `<text x="${place(MARGIN + column * WIDTH)}" y="${place(MARGIN + row * HEIGHT + 13)}" textLength="${place([...text].length * WIDTH)}"${look}>${escape(text)}</text>`));
console.log([
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${place(width)} ${place(height)}" width="${place(width)}" height="${place(height)}" role="img" aria-label="${description}">`,
  `<title>${description}</title>`,
  `<rect width="100%" height="100%" rx="8" fill="${BACKGROUND}"/>`,
  ...backgrounds(rows), ...borders(rows),
  `<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="${FONT_SIZE}" fill="${FOREGROUND}">`,
  ...texts, '</g>', '</svg>',
].join('\n'));
