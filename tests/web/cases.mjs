// The cases: what a person does with the page, and what they must see, or find on disk.

import assert from 'node:assert/strict';
import { existsSync, linkSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { RUN_MS } from './browser.mjs';

/** The tree in which the picker searches: 20,000 files, and 150,000 in the long suite. */
const TREE_FOLDERS = process.env.MASSGEN_TEST_LONG === '1' ? 300 : 40;
const TREE_FILES = 500;
const TREE_LAST = `folder${TREE_FOLDERS - 1}/file${TREE_FILES - 1}`;
/** A file whose name is HTML. */
const HOSTILE_NAME = '<img src=x onerror=window.hacked=1>.txt';
const STORY = Array.from({ length: 24 }, (_, index) => `${index + 1}\n`).join('');
const STREAM = 'one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty';

/** The views of a run. */
const RUN_VIEWS = ['', '/agents/ann', '/answers', '/diff', '/delivery', '/votes', '/timeline', '/cost', '/log'];

/** The runs that earlier cases started, by team. */
const runs = {};

async function runOf(tester, team) {
  if (!runs[team]) {
    runs[team] = await tester.start(`${team}.yaml`, `a task for ${team}`);
    if (team === 'slow') await tester.cancel();
    if (team !== 'review' && team !== 'ask') await tester.ended();
  }
  return runs[team];
}

export const cases = {
  /** A run is watched from its start; a reload and a second tab in the middle lose and repeat nothing. */
  async watch(self) {
    const { page } = self;
    runs.watch = await self.start('watch.yaml', 'which number is it?');
    await page.getByRole('heading', { name: 'ann', exact: true }).waitFor();
    const reply = page.getByRole('log', { name: 'Reply of ann' });
    await reply.getByText('STREAM one two three').waitFor();
    await page.reload();
    const second = await self.tab();
    await second.goto(`${self.origin}/#/runs/${runs.watch}`);
    const other = second.getByRole('log', { name: 'Reply of ann' });
    for (const one of [reply, other]) {
      // What follows the reply may be in the same text already.
      await one.getByText(`STREAM ${STREAM} END`).waitFor();
      assert.equal((await one.innerText()).split('one two three').length, 2);
    }
    // Until now, the run has waited for the answer to a call.
    await self.allow();
    await Promise.all([self.ended(page), self.ended(second)]);
    await second.locator('.winner').getByText('wins with agent1.1').waitFor();
    await second.close();
    await page.locator('.calls .args', { hasText: 'denied' }).first().waitFor();
    await page.locator('.winner').getByText('wins with agent1.1').waitFor();
    await page.waitForFunction(() => document.title.startsWith('which number is it'));
    await page.keyboard.press('1');
    await page.locator('.transcript').getByText(`STREAM ${STREAM} END`).waitFor();
    await page.locator('.plan > summary').getByText('1/2').click();
    await page.getByRole('list', { name: 'Plan of ann' }).getByText('read <b>the</b> file').waitFor();
    await page.locator('.transcript').getByText('read_text_file').waitFor();
    await self.pressPair('g', 'v', page.getByText('Ann read the file.'));
    await self.pressPair('g', 'a', page.locator('.answer em', { hasText: '42' }));
  },

  /** A lost connection is found again with every word once, and a run is cancelled in two steps, and
   * continued. */
  async reconnect(self) {
    const { page } = self;
    runs.slow = await self.start('slow.yaml', 'say all words');
    const reply = page.getByRole('log', { name: 'Reply of ann' });
    await reply.getByText('w1 w2 w3').waitFor();
    for (let cuts = 0; cuts < 3; cuts += 1) {
      const again = page.waitForResponse((response) => response.url().endsWith('/stream'));
      // The page may not have opened the next one yet.
      await self.becomes(() => page.evaluate(() => window.cutStreams()), true);
      await again;
      await page.waitForTimeout(400);
    }
    await reply.getByText('w9').waitFor();
    const words = (await reply.innerText()).trim().split(/\s+/);
    assert.deepEqual(words, words.map((_, index) => `w${index + 1}`));
    assert.ok(words.length > 8, `${words.length} words`);
    await page.keyboard.press('s');
    await page.waitForFunction(() => document.activeElement?.id === 'steer');
    await page.keyboard.type('say them <b>faster</b>');
    await page.keyboard.press('Enter');
    await page.getByText('Sent to all agents').waitFor();
    await page.locator('summary', { hasText: '1 message' }).click();
    await page.getByText('say them <b>faster</b>').waitFor();
    await page.getByText('not read yet').waitFor();
    await self.cancel();
    await self.ended();
    await page.locator('.steering').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Continue', exact: true }).click();
    await page.locator('.steering').waitFor();
    await reply.getByText('w1 w2 w3').waitFor();
    await self.cancel();
    await self.ended();
  },

  /** Seven tabs that are looked at follow a run, and requests still have a connection. */
  async tabs(self) {
    const { page } = self;
    const run = await self.start('slow.yaml', 'say all words in seven tabs');
    const open = new Set();
    const all = [page];
    for (let count = 0; count < 6; count += 1) {
      const tab = await self.tab();
      tab.on('request', (request) => request.url().endsWith('/stream') && open.add(request));
      for (const event of ['requestfinished', 'requestfailed']) tab.on(event, (request) => open.delete(request));
      all.push(tab);
    }
    await Promise.all(all.slice(1).map((tab) => tab.goto(`${self.origin}/#/runs/${run}`)));
    const words = async (tab) => (await tab.getByRole('log', { name: 'Reply of ann' }).innerText()).trim().split(/\s+/);
    await Promise.all(all.map(async (tab) => {
      assert.equal(await tab.evaluate(() => document.visibilityState), 'visible');
      await tab.getByRole('log', { name: 'Reply of ann' }).getByText('w1 w2 w3').waitFor();
      const known = (await words(tab)).length;
      await tab.getByText(`w${known + 2} `).waitFor();
      const found = await words(tab);
      assert.deepEqual(found, found.map((_, index) => `w${index + 1}`));
    }));
    // Each of these requests is reported after it has ended.
    await self.becomes(() => open.size <= 3, true);
    await self.show('#/', all[6]);
    await all[6].getByRole('link', { name: 'say all words in seven tabs' }).waitFor();
    await Promise.all(all.slice(1).map((tab) => tab.close()));
    await self.cancel();
    await self.ended();
  },

  /** A pipeline is answered, cancelled and continued on its board, which leads to the runs of its stages. */
  async pipeline(self) {
    const { page } = self;
    const question = page.getByRole('alertdialog');
    const stage = (role) => page.locator('.stage', { hasText: role });
    const state = (word) => page.locator('.run-head > .row > .state', { hasText: word });
    await self.show('#/new');
    await page.getByLabel('Team', { exact: true }).selectOption('line.yaml');
    await page.getByText('understand → implementer').waitFor();
    await self.start('line.yaml', 'make a coloured file');
    await question.getByText('Which colour?').waitFor();
    await question.getByLabel('Your answer').fill('blue');
    await page.keyboard.press('Enter');
    await question.getByText('write_file').first().waitFor();
    await stage('understand').getByText('merged').waitFor();
    await stage('implementer').getByText('working').waitFor();
    await page.getByText('iteration 1, stage 2 of 2').waitFor();
    await self.axe('a pipeline');
    await self.cancel();
    await state('interrupted').waitFor();
    await stage('implementer').getByText('interrupted').waitFor();
    await page.getByRole('button', { name: 'Continue', exact: true }).click();
    await self.allow();
    await state('finished').waitFor();
    await stage('implementer').getByText('merged').waitFor();
    await page.locator('.final-answer').getByText('wrote it').waitFor();
    await page.getByRole('link', { name: 'Review the delivery' }).click();
    await page.getByRole('button', { name: /^Apply \d+ files/ }).waitFor();
    await self.axe('the delivery of a pipeline');
    await page.goBack();
    await stage('implementer').getByRole('link').last().click();
    await page.getByRole('heading', { name: /^.implementer, iteration 1/ }).waitFor();
    await page.getByRole('link', { name: 'stage of a pipeline' }).click();
    await stage('implementer').getByText('merged').waitFor();
    await self.show('#/');
    await page.getByText('pipeline: understand, implementer').waitFor();
    assert.equal(await page.getByText('implementer, iteration 1').count(), 0);
  },

  /** One of three hunks is selected by keys, and the file on disk has that change and no other. */
  async hunks(self, directory) {
    const { page } = self;
    const story = join(directory, 'src/story.txt');
    assert.equal(readFileSync(story, 'utf8'), STORY);
    await runOf(self, 'review');
    await page.getByRole('link', { name: 'Review the delivery' }).click();
    await page.locator('.hunk').nth(2).waitFor();
    const lines = page.locator('.hunk').nth(2).locator('.src');
    const count = await lines.count();
    await page.getByRole('button', { name: 'Show 3 more lines above hunk 2 of src/story.txt' }).click();
    await self.becomes(() => lines.count(), count + 3);
    await page.getByRole('button', { name: 'Skip all' }).click();
    await page.getByRole('button', { name: 'Apply nothing' }).waitFor();
    const first = page.locator('.file', { hasText: 'story.txt' });
    await first.locator('.fold').focus();
    const current = page.locator('.hunk.current');
    while (!(await current.count()) || !(await current.getAttribute('aria-label')).startsWith('Hunk 2 of 3')) {
      await page.keyboard.press('n');
      await self.settled();
    }
    await page.keyboard.press('y');
    assert.equal(readFileSync(story, 'utf8'), STORY, 'nothing is written before it is applied');
    await page.getByRole('button', { name: 'Apply 1 file, 1 hunk' }).click();
    await page.getByRole('heading', { name: 'What was delivered' }).waitFor();
    assert.equal(readFileSync(story, 'utf8'), STORY.replace('11\n', 'SECOND\n'));
    assert.ok(!existsSync(join(directory, 'src/made.txt')));
    await self.ended();
    await page.getByRole('button', { name: 'Undo the delivery' }).click();
    await page.getByRole('heading', { name: 'Undone' }).waitFor();
    assert.equal(readFileSync(story, 'utf8'), STORY);
    await page.getByRole('button', { name: 'Apply it again' }).click();
    await page.getByRole('heading', { name: 'What was delivered' }).waitFor();
    assert.equal(readFileSync(story, 'utf8'), STORY.replace('11\n', 'SECOND\n'));
    assert.ok(!existsSync(join(directory, 'src/made.txt')));
    await page.getByRole('button', { name: 'Undo the delivery' }).click();
    await page.getByRole('heading', { name: 'Undone' }).waitFor();
    assert.equal(readFileSync(story, 'utf8'), STORY);
    // What was undone can be chosen again, and what was left too.
    await first.getByText('undone').waitFor();
    await first.locator('.hunk-choice').first().check();
    await page.getByRole('button', { name: 'Apply 1 file, 1 hunk' }).click();
    await page.getByRole('heading', { name: 'What was delivered' }).waitFor();
    assert.equal(readFileSync(story, 'utf8'), STORY.replace('1\n', 'FIRST\n'));
    await page.getByRole('button', { name: 'Undo the delivery' }).click();
    await page.getByRole('heading', { name: 'Undone' }).waitFor();
    assert.equal(readFileSync(story, 'utf8'), STORY);
    // A page that is loaded again knows it too.
    await page.reload();
    await page.getByRole('heading', { name: 'Undone' }).waitFor();
    await page.locator('.run-head .state', { hasText: 'undone' }).waitFor();
    await page.getByRole('button', { name: 'Apply it again' }).click();
    await page.getByRole('heading', { name: 'What was delivered' }).waitFor();
    assert.equal(readFileSync(story, 'utf8'), STORY.replace('1\n', 'FIRST\n'));
    await page.getByRole('button', { name: 'Undo the delivery' }).click();
    await page.getByRole('heading', { name: 'Undone' }).waitFor();
    assert.equal(readFileSync(story, 'utf8'), STORY);
    // What is applied elsewhere meanwhile is shown when the page is looked at again.
    const tab = await self.tab();
    await tab.goto(page.url());
    await tab.getByRole('button', { name: 'Apply it again' }).click();
    await tab.getByRole('heading', { name: 'What was delivered' }).waitFor();
    assert.equal(readFileSync(story, 'utf8'), STORY.replace('1\n', 'FIRST\n'));
    await page.evaluate(() => window.dispatchEvent(new Event('focus')));
    await page.getByRole('heading', { name: 'What was delivered' }).waitFor();
    await page.locator('.run-head .state', { hasText: 'partly applied' }).waitFor();
    await tab.getByRole('button', { name: 'Undo the delivery' }).click();
    await tab.getByRole('heading', { name: 'Undone' }).waitFor();
    assert.equal(readFileSync(story, 'utf8'), STORY);
    await page.evaluate(() => window.dispatchEvent(new Event('focus')));
    await page.getByRole('button', { name: 'Apply it again' }).waitFor();
    await page.locator('.run-head .state', { hasText: 'undone' }).waitFor();
    await tab.close();
  },

  /** Comments on lines become the task of the next turn, and open no path. */
  async comments(self) {
    const { page } = self;
    await self.show(`#/runs/${await runOf(self, 'review')}/delivery`);
    await page.locator('.hunk').first().waitFor();
    await page.keyboard.press('n');
    await page.locator('.hunk.current').waitFor();
    await page.keyboard.press('m');
    await page.getByLabel('Comment on this line').fill('Why not lower case?');
    await page.keyboard.press('Control+Enter');
    await page.getByText('1 pending comment').waitFor();
    await page.getByRole('button', { name: /next task/ }).click();
    await page.getByRole('heading', { name: 'Next turn' }).waitFor();
    const task = await page.getByLabel('Task', { exact: true }).inputValue();
    assert.match(task, /src\/.*line \d+.*\n  Why not lower case\?/s);
    await page.getByLabel('Task', { exact: true }).fill('');
  },

  /** An approval is announced in the title, gets the focus, and is answered by keys. */
  async approval(self, directory) {
    const { page } = self;
    await runOf(self, 'ask');
    const question = page.getByRole('alertdialog');
    await question.getByText('write_file').first().waitFor();
    await page.waitForFunction(() => document.title.startsWith('(1) '));
    await page.waitForFunction(() => document.activeElement?.getAttribute('role') === 'alertdialog');
    await self.axe('an approval');
    // A new question takes no answer at first.
    await question.locator('[aria-disabled]').first().waitFor({ state: 'detached' });
    while (!(await page.evaluate(() => document.activeElement?.textContent?.trim() === 'Allow once'))) await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await question.waitFor({ state: 'detached' });
    await self.ended();
    await page.waitForFunction(() => !document.title.startsWith('('));
    await page.locator('.calls .tone-done', { hasText: 'write_file' }).first().waitFor();
  },

  /** The picker finds a file among thousands by keys, and shows hostile names as text. */
  async picker(self, directory) {
    const { page } = self;
    if (!existsSync(join(directory, 'tree'))) {
      for (let folder = 0; folder < TREE_FOLDERS; folder += 1) {
        const path = join(directory, 'tree', `folder${folder}`);
        mkdirSync(path, { recursive: true });
        // Links are created faster than files.
        writeFileSync(join(path, 'file0.rs'), '');
        for (let file = 1; file < TREE_FILES; file += 1) linkSync(join(path, 'file0.rs'), join(path, `file${file}.rs`));
      }
      writeFileSync(join(directory, HOSTILE_NAME), 'x');
      writeFileSync(join(directory, 'two words.txt'), 'x');
    }
    await self.show('#/new');
    const task = page.getByLabel('Task', { exact: true });
    await task.fill('');
    await task.pressSequentially('Look at @');
    const input = page.getByRole('combobox', { name: 'File or directory' });
    await input.waitFor();
    const isFocused = (field) => field.evaluate((element) => element === document.activeElement);
    await self.becomes(() => isFocused(input), true);
    await page.keyboard.type(`tree/${TREE_LAST}`);
    // What a part of the name finds may be shown before.
    const option = page.getByRole('option', { name: `${TREE_LAST}.rs`, selected: true });
    await option.waitFor();
    await self.becomes(() => input.getAttribute('aria-expanded'), 'true');
    const active = await input.getAttribute('aria-activedescendant');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowUp');
    await self.becomes(() => input.getAttribute('aria-activedescendant'), active);
    await self.axe('the picker');
    await page.keyboard.press('Control+w');
    await page.getByRole('option', { name: /write/ }).first().waitFor();
    await page.keyboard.press('Enter');
    await self.becomes(() => task.inputValue(), `Look at @tree/${TREE_LAST}.rs:w `);
    await self.becomes(() => isFocused(task), true);
    await page.keyboard.type('and @onerror');
    const hostile = page.getByRole('option', { name: /<img src=x onerror=/, selected: true });
    await hostile.waitFor();
    assert.equal(await page.locator('.picker img').count(), 0);
    await page.keyboard.press('Enter');
    await self.becomes(() => task.inputValue(), `Look at @tree/${TREE_LAST}.rs:w and @"${HOSTILE_NAME}" `);
    await self.becomes(() => isFocused(task), true);
    await page.keyboard.type('@none such');
    await page.locator('.picker').waitFor({ state: 'detached' });
    await self.becomes(() => isFocused(task), true);
    await task.fill('');
    await task.pressSequentially('@two wo');
    assert.equal(await task.inputValue(), '@two wo');
    await task.fill('');
    await task.pressSequentially('@two');
    await page.getByRole('option', { name: /two words\.txt/, selected: true }).waitFor();
    await page.keyboard.press('Tab');
    await self.becomes(() => task.inputValue(), '@"two words.txt" ');
    await task.fill('');
    assert.equal(await page.evaluate(() => window.hacked), undefined);
  },

  /** A path that the task opens for writing is opened only after a question; a dry run starts nothing. */
  async opens(self, directory) {
    const { page } = self;
    await self.show('#/new');
    await page.getByLabel('Team', { exact: true }).selectOption('watch.yaml');
    const task = page.getByLabel('Task', { exact: true });
    await task.fill('change @src/story.txt:w');
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: /opens these paths/ });
    await dialog.getByText('opens for writing').first().waitFor();
    await dialog.getByText(join(directory, 'src/story.txt')).waitFor();
    await self.axe('the question about paths');
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await dialog.waitFor({ state: 'detached' });
    assert.match(page.url(), /#\/new$/);
    await task.fill('say it');
    await page.getByRole('button', { name: 'Dry run' }).click();
    await page.getByRole('heading', { name: /^Dry run/ }).waitFor();
    await self.axe('a dry run');
    assert.match(page.url(), /#\/new$/);
    await task.fill('');
  },

  /** A limit is set by keys: what is wrong with it is said beside its field, and a dry run shows it. */
  async limits(self) {
    const { page } = self;
    await self.show('#/new');
    await page.getByLabel('Team', { exact: true }).selectOption('watch.yaml');
    await page.getByLabel('Task', { exact: true }).fill('say it');
    await page.locator('#limits > summary').press('Enter');
    const calls = page.getByLabel('Tool calls', { exact: true });
    await calls.waitFor();
    await calls.pressSequentially('many');
    const dryRun = page.getByRole('button', { name: 'Dry run' });
    await dryRun.press('Enter');
    await page.waitForFunction(() => document.activeElement?.id === 'limit-max_tool_calls' && document.activeElement.getAttribute('aria-invalid') === 'true');
    const described = await calls.evaluate((field) => field.getAttribute('aria-describedby').split(' ').map((id) => document.getElementById(id).textContent).join(' '));
    assert.match(described, /expected a whole number from 0/);
    await self.axe('a limit that is refused');
    await page.setViewportSize({ width: 390, height: 800 });
    await self.expectNoSidewaysScroll('the limits');
    await page.setViewportSize({ width: 1280, height: 860 });
    await page.keyboard.press('ControlOrMeta+a');
    await page.keyboard.type('7');
    await page.locator('#limit-max_tool_calls-error').waitFor({ state: 'detached' });
    await page.locator('#limits > summary', { hasText: 'Tool calls: 7' }).waitFor();
    await dryRun.press('Enter');
    await page.locator('pre', { hasText: 'limits of the run: 7 tool calls' }).waitFor();
    await calls.fill('');
    await page.getByLabel('Task', { exact: true }).fill('');
  },

  /** A config is written by keys alone: what is wrong is said beside its field, and it is saved as typed. */
  async config(self, directory) {
    const { page } = self;
    const file = join(directory, 'written.yaml');
    const focused = () => page.evaluate(() => ({ id: document.activeElement?.id, label: document.activeElement?.labels?.[0]?.textContent }));
    const keys = async (...all) => { for (const key of all) await page.keyboard.press(key); };
    await self.show('#/');
    await self.pressPair('g', 'f', page.getByRole('heading', { name: 'New config' }));
    await page.getByText('OPENAI_API_KEY is not set').waitFor();
    await page.getByText('No errors. A run also needs what the notes').waitFor();
    await self.settled();
    await self.axe('a new config');
    await page.getByRole('button', { name: 'Start over' }).focus();
    await keys('Tab');
    await self.becomes(async () => (await focused()).label, 'Name');
    await page.keyboard.type('ann');
    await keys('Tab');
    await page.keyboard.type('ollama');
    await keys('Tab');
    await page.keyboard.type('qwen3');
    await keys('Tab', 'Tab', 'Tab');
    await self.becomes(async () => (await focused()).label, 'Instructions');
    await page.keyboard.type('Say "yes": # {a: b} <b>\n\n- !!tag');
    const preview = page.getByLabel('YAML of the config');
    await preview.getByText('- !!tag').waitFor();
    await keys('Tab', 'Enter');
    await page.waitForFunction(() => document.activeElement?.id === 'answer-agents-1-id');
    await page.keyboard.press('ControlOrMeta+a');
    await page.keyboard.type('my agent');
    const finding = page.getByText('my agent is not an agent id');
    await finding.waitFor();
    const name = page.locator('#answer-agents-1-id');
    await self.becomes(() => name.getAttribute('aria-invalid'), 'true');
    const described = await name.evaluate((field) => field.getAttribute('aria-describedby').split(' ').map((id) => document.getElementById(id).textContent).join(' '));
    assert.match(described, /is not an agent id/);
    await self.axe('a config with an error');
    await page.keyboard.press('ControlOrMeta+a');
    await page.keyboard.type('ben');
    await finding.waitFor({ state: 'detached' });
    await page.getByLabel('Save as').focus();
    await page.keyboard.press('ControlOrMeta+a');
    await page.keyboard.type('written.yaml');
    await keys('Enter');
    await page.waitForFunction(() => document.activeElement?.id === 'answer-agents-1-model');
    await page.getByText('model is missing').waitFor();
    assert.ok(!existsSync(file));
    await page.keyboard.type('llama3');
    await page.getByText('It can be run.').waitFor();
    await page.getByLabel('Save as').focus();
    await keys('Enter');
    await page.getByText('massgen web --config written.yaml').waitFor();
    await self.axe('a saved config');
    const saved = readFileSync(file, 'utf8');
    assert.match(saved, /id: ben/);
    await page.locator('#answer-checks-0-command').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Add check' }).press('Enter');
    await page.waitForFunction(() => document.activeElement?.id === 'answer-checks-0-command');
    await page.keyboard.type('test -e "a b"');
    await page.reload();
    await preview.getByText('test -e').waitFor();
    await page.getByLabel('Save as').fill('written.yaml');
    await keys('Enter');
    const dialog = page.getByRole('dialog', { name: /exists already/ });
    await dialog.waitFor();
    await self.axe('the question about a file that exists');
    await dialog.getByRole('button', { name: 'Cancel' }).press('Enter');
    await dialog.waitFor({ state: 'detached' });
    assert.equal(readFileSync(file, 'utf8'), saved);
    await page.getByLabel('Save as').press('Enter');
    await dialog.getByRole('button', { name: 'Replace it' }).press('Enter');
    await page.getByText('massgen web --config written.yaml').waitFor();
    assert.match(readFileSync(file, 'utf8'), /command: "test -e \\"a b\\""/);
  },

  /** A config of the project is opened, what is wrong is said at its line, and a file that has changed since is kept. */
  async edit(self, directory) {
    const { page } = self;
    const file = join(directory, 'cell.yaml');
    const before = readFileSync(file, 'utf8');
    await self.show('#/config');
    await page.getByLabel('Edit a config').fill('cell.yaml');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Edit cell.yaml' }).waitFor();
    const text = page.getByLabel('YAML of cell.yaml');
    await page.getByText('It can be run.').waitFor();
    assert.equal(await text.inputValue(), before);
    await text.fill(before.replace('scripted', 'skripted'));
    await page.getByRole('button', { name: 'Line 5' }).click();
    assert.equal(await text.evaluate((area) => area.value.slice(0, area.selectionStart).split('\n').length), 5);
    await page.getByText('1 error', { exact: true }).waitFor();
    await self.axe('a config with an error at a line');
    const ours = before.replace('hello', 'good day');
    await text.fill(ours);
    await page.getByText('It can be run.').waitFor();
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('massgen web --config cell.yaml').waitFor();
    assert.equal(readFileSync(file, 'utf8'), ours);
    writeFileSync(file, before);
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('has changed since it was opened').waitFor();
    assert.equal(readFileSync(file, 'utf8'), before);
    await page.getByRole('button', { name: 'Discard changes' }).click();
    await self.becomes(() => text.inputValue(), before);
  },

  /** No text of a model becomes an element, a script, a request or a link that is not one. */
  async hostile(self) {
    const { page } = self;
    const run = await runOf(self, 'hostile');
    const scripts = await page.evaluate(() => document.scripts.length);
    for (const view of RUN_VIEWS.map((path) => path.replace('ann', 'eve'))) {
      await self.show(`#/runs/${run}${view}`);
      await self.settled();
      const found = await page.evaluate(() => ({
        hacked: window.hacked,
        scripts: document.scripts.length,
        elements: document.querySelectorAll('main :is(img, iframe, object, embed, script, style, link, base, form[action])').length,
        handlers: [...document.querySelectorAll('main *')].filter((element) => [...element.attributes].some(({ name }) => name.startsWith('on') || name === 'style')).length,
        links: [...document.querySelectorAll('main a')].map((link) => link.getAttribute('href')).filter((href) => !/^(#|https?:\/\/|mailto:)/.test(href)),
      }));
      assert.deepEqual(found, { hacked: undefined, scripts, elements: 0, handlers: 0, links: [] }, view);
    }
    await self.show(`#/runs/${run}/answers`);
    await page.locator('.answer').getByText('(https://example.org/pixel.png)').waitFor();
  },

  /** Every view is without faults for axe-core, in light and dark, and its keys are listed. */
  async axe(self) {
    const { page } = self;
    const [watch, review, slow] = [await runOf(self, 'watch'), await runOf(self, 'review'), await runOf(self, 'slow')];
    const views = ['#/', '#/batches', '#/new', '#/config', '#/config/watch.yaml', ...RUN_VIEWS.map((view) => `#/runs/${watch}${view}`), `#/runs/${review}/diff`,
      `#/runs/${review}/delivery`, `#/runs/${slow}/delivery`, '#/nothing', '#/runs/log_none'];
    for (const view of views) {
      await page.emulateMedia({ colorScheme: 'light' });
      await self.show(view);
      await self.settled();
      await self.axe(`${view}, light`);
      await page.emulateMedia({ colorScheme: 'dark' });
      await self.settled();
      await self.axeColours(`${view}, dark`);
    }
    // Colours that a person has chosen: two views have all that the page draws differently then.
    const [run, delivery] = [`#/runs/${watch}`, `#/runs/${review}/delivery`];
    for (const [view, colorScheme] of [[run, 'light'], [run, 'dark'], [delivery, 'dark']]) {
      await page.emulateMedia({ colorScheme, forcedColors: 'active' });
      await self.show(view);
      await self.settled();
      assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
      await self.axe(`${view}, forced colours, ${colorScheme}`);
    }
    await page.emulateMedia({ colorScheme: null, forcedColors: null });
    await self.show(run);
    await self.settled();
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).getByText('all runs').waitFor();
    await self.axe('the keys');
    await page.keyboard.press('Escape');
  },

  /** A batch is found beside the runs, narrowed to the cells with an outcome, and leads to the run of a cell. */
  async batches(self) {
    const { page } = self;
    await self.show('#/');
    await page.getByRole('link', { name: 'Batches', exact: true }).click();
    await page.locator('tr', { hasText: 'cell.yaml' }).getByRole('link', { name: 'tasks.jsonl' }).click();
    await page.getByRole('region', { name: 'Results by tag' }).getByText('<b>easy</b>').waitFor();
    await page.getByText('1 of 1 cell', { exact: true }).waitFor();
    await self.settled();
    await self.axe('a batch');
    await page.getByLabel('with').selectOption({ index: 1 });
    await page.getByText(/^The data do not tell which is better: 1 task in common, which is too few\.$/).waitFor();
    await page.getByRole('region', { name: 'Figures of both batches' }).getByText('hostile.yaml').waitFor();
    await self.settled();
    await self.axe('a comparison of batches');
    await page.setViewportSize({ width: 390, height: 800 });
    await self.expectNoSidewaysScroll('a comparison of batches');
    await page.setViewportSize({ width: 1280, height: 860 });
    await page.getByLabel('State').selectOption('failed');
    await page.getByText('No cell that was begun matches.').waitFor();
    await page.getByLabel('State').selectOption('completed');
    await page.getByRole('link', { name: 'greet' }).click();
    await page.getByRole('heading', { name: 'say hello in one line' }).waitFor();
    assert.equal(await page.getByRole('link', { name: 'Delivery' }).count(), 0);
    await page.getByRole('link', { name: 'cell of a batch' }).click();
    await page.getByRole('region', { name: 'Cells' }).waitFor();
  },

  /** At 390 pixels nothing is wider than the screen, and the agents are tabs. */
  async narrow(self) {
    const { page } = self;
    const [watch, review] = [await runOf(self, 'watch'), await runOf(self, 'review')];
    await page.setViewportSize({ width: 390, height: 800 });
    for (const view of ['#/', '#/batches', '#/new', '#/config', '#/config/watch.yaml', ...RUN_VIEWS.map((path) => `#/runs/${watch}${path}`), `#/runs/${review}/diff`, `#/runs/${review}/delivery`]) {
      await self.show(view);
      await self.settled();
      await self.expectNoSidewaysScroll(view);
      await page.emulateMedia({ colorScheme: 'light' });
      await self.axe(`${view}, narrow`);
      await page.emulateMedia({ colorScheme: 'dark' });
      await self.axeColours(`${view}, narrow and dark`);
    }
    await page.emulateMedia({ colorScheme: null });
    await self.show(`#/runs/${watch}`);
    await page.getByRole('tab', { name: 'ann' }).focus();
    await page.keyboard.press('ArrowRight');
    await page.getByRole('tabpanel', { name: 'ben' }).getByText('scripted-b').waitFor();
    await self.axe('the tabs');
    await page.setViewportSize({ width: 1280, height: 860 });
  },

  /** Without a session, the page says how to get one. */
  async session(self) {
    const context = await self.browser.newContext();
    const page = await context.newPage();
    await page.goto(self.origin);
    await page.getByRole('heading', { name: 'This page needs a new link' }).waitFor({ timeout: RUN_MS });
    await self.axe('a page without a session', page);
    await page.goto(`${self.link}`);
    await page.getByText(/used already|older than a minute/).waitFor();
    await context.close();
  },
};
