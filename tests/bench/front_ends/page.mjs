// Measures the page of a program in a browser: time until it can be used, what it loads, whether axe-core
// and a narrow screen find fault with its views, whom its server answers, and the memory of the server.
//
//   node page.mjs rust|python COMMAND
//
// Runs in a directory with team.yaml, while endpoint.mjs listens; needs the packages of tests/web.
// Prints one line of JSON.

import { spawn } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { createRequire } from 'node:module';

const require = createRequire(new URL('../../web/package.json', import.meta.url));
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const PORT = 8462;
const ORIGIN = `http://127.0.0.1:${PORT}`;
const FOREIGN = 'http://evil.example';
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** What differs between the programs. */
const programs = {
  rust: {
    words: ['web', '--no-browser', '--port', PORT, '--config', 'team.yaml'],
    link: (printed) => printed.match(/http:\S+#k=\w+/)?.[0],
    usable: (page) => page.getByRole('heading', { name: 'Runs' }),
    async start(page) {
      await page.evaluate(() => { location.hash = '#/new'; });
      await page.getByLabel('Task', { exact: true }).fill('hi');
      await page.getByRole('button', { name: 'Start', exact: true }).click();
    },
    running: (page) => page.getByRole('heading', { name: 'delta', exact: true }),
    ended: (page) => page.locator('.phases .here', { hasText: 'ended' }),
    views: Object.fromEntries(['Answers', 'Diff', 'Delivery', 'Votes', 'Timeline', 'Cost', 'Log']
      .map((name) => [name, (page) => page.locator('.run-tabs').getByText(name, { exact: false }).click()])),
    read: '/api/runs',
    write: ['/api/runs', { task: 'hi', team: 'team.yaml' }],
    socket: null,
  },
  python: {
    words: ['--web', '--web-port', PORT, '--no-browser', '--config', 'team.yaml'],
    link: () => `${ORIGIN}/?config=team.yaml`,
    usable: (page) => page.getByPlaceholder('Type a question to start...'),
    async start(page) {
      await page.getByPlaceholder('Type a question to start...').fill('hi');
      await page.getByRole('button', { name: 'Start', exact: true }).click();
    },
    running: (page) => page.getByText('delta').first(),
    ended: (page) => page.getByText(/final answer/i).first(),
    views: Object.fromEntries(['Answers / Votes', 'Timeline', 'Browse files', 'Settings']
      .map((name) => [name, async (page) => {
        await page.keyboard.press('Escape');
        await page.getByRole('button', { name, exact: true }).first().click();
      }])),
    read: '/api/sessions',
    write: ['/api/sessions', {}],
    socket: '/ws/measured',
  },
};

/** Returns the proportional set size of a process and all below it, in MiB. */
function memory(root) {
  const parents = readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap((name) => {
    try {
      return [[Number(name), Number(readFileSync(`/proc/${name}/stat`, 'utf8').replace(/^.*\) \S /s, '').split(' ')[0])]];
    } catch {
      return [];
    }
  });
  const tree = [root];
  for (const one of tree) tree.push(...parents.filter(([, parent]) => parent === one).map(([child]) => child));
  const kib = tree.map((one) => {
    try {
      return Number(readFileSync(`/proc/${one}/smaps_rollup`, 'utf8').match(/^Pss: +(\d+)/m)[1]);
    } catch {
      return 0;
    }
  });
  return Math.round(kib.reduce((sum, one) => sum + one, 0) / 102.4) / 10;
}

/** Asks for a WebSocket from a foreign origin, and returns the status line. */
const openSocket = (path) => new Promise((done) => {
  const socket = connect(PORT, '127.0.0.1', () => socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${PORT}\r\nUpgrade: websocket\r\n`
    + `Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: ${FOREIGN}\r\n\r\n`));
  socket.once('data', (data) => {
    done(String(data).split('\r\n')[0]);
    socket.destroy();
  });
  socket.once('error', (error) => done(String(error)));
});

const [, , name, command] = process.argv;
const program = programs[name];
await fetch('http://127.0.0.1:8461/reset', { method: 'POST' });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage();
const foreign = new Set();
await page.route((url) => url.origin !== ORIGIN && url.protocol.startsWith('http'), (route) => {
  foreign.add(route.request().url());
  return route.abort();
});
const network = await page.context().newCDPSession(page);
await network.send('Network.enable');
const loaded = { requests: 0, bytes: 0 };
network.on('Network.loadingFinished', ({ encodedDataLength }) => {
  loaded.requests += 1;
  loaded.bytes += encodedDataLength;
});

const began = performance.now();
let printed = '';
const server = spawn(command, program.words.map(String), { stdio: ['ignore', 'pipe', 'pipe'] });
for (const output of [server.stdout, server.stderr]) output.on('data', (data) => { printed += data; });
const result = { program: name };
try {
  while (!(program.link(printed) && await fetch(`${ORIGIN}/`).then((reply) => reply.ok, () => false))) await pause(10);
  result.server_ms = Math.round(performance.now() - began);
  await page.goto(program.link(printed), { waitUntil: 'commit' });
  await program.usable(page).waitFor({ timeout: 60_000 });
  result.usable_ms = Math.round(performance.now() - began);
  result.first_paint_ms = await page.evaluate(() => Math.round(performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1));
  await page.waitForLoadState('networkidle');
  result.first_load = { ...loaded };

  const views = result.views = {};
  const look = async (view) => {
    await pause(500);
    if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axe);
    const found = await page.evaluate(async () => (await window.axe.run(document, { resultTypes: ['violations'] })).violations
      .map(({ id, nodes }) => [id, nodes.length]));
    await page.setViewportSize({ width: 390, height: 844 });
    await pause(300);
    // What is laid out beside the screen cannot be reached if the page does not scroll there.
    const narrow = await page.evaluate(() => {
      const isOutside = (element) => {
        const { left, right, width } = element.getBoundingClientRect();
        if (!width || (left >= 0 && right <= innerWidth)) return false;
        for (let parent = element.parentElement; parent; parent = parent.parentElement) {
          if (parent.scrollWidth > parent.clientWidth && ['auto', 'scroll'].includes(getComputedStyle(parent).overflowX)) return false;
        }
        return true;
      };
      return { too_wide: document.scrollingElement.scrollWidth - innerWidth,
        controls_outside: [...document.querySelectorAll('a, button, input, select, textarea')].filter(isOutside).length };
    });
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${name}-${view.replace(/\W+/g, '-')}.png` });
    await page.setViewportSize({ width: 1280, height: 800 });
    views[view] = { axe: Object.fromEntries(found), ...narrow };
  };
  await look('start');
  await program.start(page);
  await program.running(page).waitFor({ timeout: 60_000 });
  await look('running');
  await program.ended(page).waitFor({ timeout: 90_000 });
  await look('ended');
  for (const [view, open] of Object.entries(program.views)) {
    try {
      await open(page);
      await look(view);
    } catch (error) {
      views[view] = String(error).split('\n')[0];
    }
  }
  result.axe = { rules: new Set(Object.values(views).flatMap((view) => Object.keys(view.axe ?? {}))).size,
    nodes: Object.values(views).flatMap((view) => Object.values(view.axe ?? {})).reduce((sum, count) => sum + count, 0) };
  result.whole_visit = { ...loaded };
  result.foreign_requests = [...foreign];
  result.server_mib = memory(server.pid);

  const read = await fetch(ORIGIN + program.read, { headers: { origin: FOREIGN } });
  const write = await fetch(ORIGIN + program.write[0], { method: 'POST', body: JSON.stringify(program.write[1]),
    headers: { origin: FOREIGN, 'content-type': 'application/json' } });
  result.foreign_origin = { read: read.status, write: write.status, allow_origin: read.headers.get('access-control-allow-origin'),
    socket: program.socket && await openSocket(program.socket) };
} catch (error) {
  result.error = String(error.stack ?? error);
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${name}-error.png` });
} finally {
  console.log(JSON.stringify(result));
  await browser.close();
  server.kill('SIGKILL');
}
