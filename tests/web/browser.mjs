// A browser with one page of `massgen web`: starting it, what its console and network say, and the
// steps that several cases share.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { chromium } from 'playwright-core';

const here = dirname(fileURLToPath(import.meta.url));
const axe = readFileSync(join(here, 'node_modules/axe-core/axe.min.js'), 'utf8');
/** Time for what a run does, in milliseconds: on a busy machine, steps that take a second may take a minute. */
export const RUN_MS = 180_000;
/** Time between two looks at the page, in milliseconds. */
const POLL_MS = 20;
/** Time after which the question whether a run is really cancelled has gone, in milliseconds. */
const CONFIRM_MS = 6000;
/** Most of the text of a page that a failed case prints, in characters. */
const TEXT_CHARS_MAX = 2000;
/** Time after which the second key of a pair counts as too late, in milliseconds. */
const PAIR_MS = 6000;
/** Lets a case cut the streams of a page, as a network does: `cutStreams()` returns whether one was open. */
function makeStreamsBreakable() {
  const { fetch } = window;
  const cuts = new Set();
  window.cutStreams = () => {
    const isOpen = cuts.size > 0;
    cuts.forEach((cut) => cut());
    return isOpen;
  };
  window.fetch = async (...request) => {
    const response = await fetch(...request);
    if (!String(request[0]).endsWith('/stream')) return response;
    const reader = response.body.getReader();
    const body = new ReadableStream({
      start(controller) {
        const cut = () => {
          cuts.delete(cut);
          controller.error(new TypeError('network error'));
          reader.cancel();
        };
        cuts.add(cut);
      },
      async pull(controller) {
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      },
    });
    return new Response(body, { status: response.status, headers: response.headers });
  };
}

/** Makes frames take as long as on a busy machine: what happens between two of them has to work as well. */
function makeFramesSlow() {
  const draw = () => {
    const end = performance.now() + 600;
    while (performance.now() < end);
    setTimeout(() => requestAnimationFrame(draw), 150);
  };
  requestAnimationFrame(draw);
}

/** Number of bytes that the page may load before a view is opened, as they are sent. */
const FIRST_LOAD_MAX = 60 * 1024;

export class PageTester {
  constructor() {
    /** What no page of ours may cause: errors, refusals of the policy, foreign requests. */
    this.faults = [];
    this.firstLoad = 0;
  }

  async startBrowser() {
    this.browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'], timeout: RUN_MS });
  }

  /** Opens the page by the link that the server printed. */
  async open(link) {
    this.link = link;
    this.origin = new URL(link).origin;
    // Animations keep a processor busy.
    this.context = await this.browser.newContext({ viewport: { width: 1280, height: 860 }, reducedMotion: 'reduce' });
    this.context.setDefaultTimeout(RUN_MS);
    this.page = await this.tab();
    const sizes = [];
    const count = (response) => {
      if (!new URL(response.url()).pathname.startsWith('/api/')) sizes.push(response.finished().then(() => response.request().sizes()));
    };
    this.page.on('response', count);
    await this.page.goto(this.link);
    await this.page.getByRole('heading', { name: 'Runs' }).waitFor();
    await this.page.waitForLoadState('networkidle');
    this.page.off('response', count);
    const bytes = (await Promise.all(sizes)).reduce((sum, { responseBodySize }) => sum + responseBodySize, 0);
    assert.ok(bytes > 10_000 && bytes < FIRST_LOAD_MAX, `the page loads ${bytes} bytes`);
    assert.ok(!this.page.url().includes('#k='), 'the code stays in the address');
    this.firstLoad = bytes;
  }

  async close() {
    await this.browser?.close();
  }

  /** Opens another tab of the same browser. */
  async tab() {
    const page = await this.context.newPage();
    await page.addInitScript(makeStreamsBreakable);
    if (process.env.MASSGEN_TEST_LONG === '1') await page.addInitScript(makeFramesSlow);
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type()) && !/status of 40[049]|net::ERR_/.test(message.text())) this.faults.push(message.text());
    });
    page.on('pageerror', (error) => this.faults.push(String(error.stack ?? error)));
    page.on('dialog', (dialog) => {
      this.faults.push(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    page.on('request', (request) => {
      if (!request.url().startsWith(this.origin) && !request.url().startsWith('data:')) this.faults.push(`foreign request: ${request.url()}`);
    });
    return page;
  }

  expectNoFaults() {
    assert.deepEqual(this.faults, []);
  }

  /** Waits until `read` returns `expected`: what follows from a key may come with one of the next frames. */
  async becomes(read, expected) {
    const end = performance.now() + RUN_MS;
    let found = await read();
    while (!isDeepStrictEqual(found, expected) && performance.now() < end) {
      await pause(POLL_MS);
      found = await read();
    }
    assert.deepEqual(found, expected);
  }

  /** Returns the beginning of the text on the page, for a case that failed. */
  async text() {
    const read = this.page.locator('body').innerText({ timeout: CONFIRM_MS });
    return (await read.catch((error) => String(error))).slice(0, TEXT_CHARS_MAX);
  }

  /** Opens a view by its address. */
  async show(hash, page = this.page) {
    await page.evaluate((to) => new Promise((done) => {
      location.hash = to;
      setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)));
    }), hash);
  }

  /** Starts a run with the composer, and returns its name. */
  async start(team, task, page = this.page) {
    await this.show('#/new', page);
    await page.getByLabel('Team', { exact: true }).selectOption(team);
    await page.getByLabel('Task', { exact: true }).fill(task);
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    await page.waitForFunction(() => location.hash.startsWith('#/runs/'));
    return decodeURIComponent(new URL(page.url()).hash.split('/')[2]);
  }

  /** Waits until the run in view has ended. */
  async ended(page = this.page) {
    await this.phase('ended', page).waitFor({ timeout: RUN_MS });
  }

  /** Returns the mark of a phase, which is there while the run in view is in it. */
  phase(word, page = this.page) {
    return page.locator('.phases .here', { hasText: word });
  }

  /** Allows the call that waits for an approval. */
  async allow(page = this.page) {
    await page.getByRole('alertdialog').getByRole('button', { name: 'Allow once' }).click();
  }

  /** Cancels the run in view in two steps. The second question goes after a while: on a busy machine, it may
   * have gone before it is answered, or the answer is reported as late although the run has got it. */
  async cancel(page = this.page) {
    const button = page.getByRole('button', { name: 'Cancel', exact: true });
    const confirm = page.getByRole('button', { name: 'Really cancel?' });
    const ended = this.phase('ended', page);
    for (let attempt = 0; ; attempt += 1) {
      // The second click of a double click answers no question.
      try {
        await button.dblclick({ timeout: CONFIRM_MS });
        return await confirm.click({ timeout: CONFIRM_MS });
      } catch (error) {
        if (attempt === 9) throw error;
      }
      await button.or(ended).first().waitFor({ timeout: RUN_MS });
      if (await ended.isVisible()) return;
    }
  }

  /** Presses two keys that belong together, until `shown` is there: on a busy machine, the second one may come
   * too late. */
  async pressPair(first, second, shown, page = this.page) {
    for (let attempt = 0; ; attempt += 1) {
      await page.keyboard.press(first);
      await page.keyboard.press(second);
      try {
        return await shown.waitFor({ timeout: PAIR_MS });
      } catch (error) {
        if (attempt === 9) throw error;
      }
    }
  }

  /** Waits until what the view shows has been loaded. */
  async settled(page = this.page) {
    await page.waitForFunction(() => !document.querySelector('.loading'));
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  }

  /** Finds what axe-core objects to in the view, by all rules or by those that are named. */
  async axe(name, page = this.page, rules = null) {
    // The policy of the page forbids scripts from elsewhere; the protocol of the browser does not ask it.
    if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axe);
    const options = { resultTypes: ['violations'], ...(rules && { runOnly: rules }) };
    const violations = await page.evaluate(async (options) => (await window.axe.run(document, options)).violations
      .map(({ id, impact, nodes }) => ({ id, impact, nodes: nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.failureSummary}`) })), options);
    assert.deepEqual(violations, [], `axe in ${name}`);
  }

  /** Finds what axe-core objects to in the colours of the view; its other rules are about what is the same in all colours. */
  async axeColours(name, page = this.page) {
    await this.axe(name, page, ['color-contrast', 'link-in-text-block']);
  }

  /** Fails if the page can be scrolled sideways, or a table or a row of links of it. */
  async expectNoSidewaysScroll(name, page = this.page) {
    const wide = await page.evaluate(() => [document.scrollingElement, ...document.querySelectorAll('.scroll, nav')]
      .filter((element) => element.scrollWidth > element.clientWidth).map((element) => `${element.tagName} ${element.className} ${element.scrollWidth - element.clientWidth}`));
    assert.deepEqual(wide, [], `${name} is too wide`);
  }
}
