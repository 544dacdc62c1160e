// Tests the page of a running `massgen web` in a browser.
//
//   node page.mjs DIRECTORY [CASE...]
//
// Prints a line when the browser is ready, and then reads a line: the link that the server printed, which
// is valid for a minute. The server was started in DIRECTORY, a copy of `project`, with all configs in it.
// Prints one line for each case, and the number of cases that passed and failed.

import { createInterface } from 'node:readline';
import { PageTester } from './browser.mjs';
import { cases } from './cases.mjs';

const [directory, ...wanted] = process.argv.slice(2);
if (!directory) {
  console.error('usage: node page.mjs DIRECTORY [CASE...]');
  process.exit(2);
}
const tester = new PageTester();
let [passed, failed] = [0, 0];
try {
  await tester.startBrowser();
  console.log('the browser is ready');
  const input = createInterface({ input: process.stdin });
  const { value: link } = await input[Symbol.asyncIterator]().next();
  input.close();
  await tester.open(link);
  for (const [name, run] of Object.entries(cases)) {
    if (wanted.length && !wanted.includes(name)) continue;
    const began = performance.now();
    try {
      await run(tester, directory);
      tester.expectNoFaults();
      passed += 1;
      console.log(`ok ${name} (${Math.round(performance.now() - began)} ms)`);
    } catch (error) {
      failed += 1;
      tester.faults.length = 0;
      console.log(`failed ${name}: ${error.stack}`);
      console.log(`the page then: ${await tester.text()}`);
      if (process.env.SHOTS) await tester.page.screenshot({ path: `${process.env.SHOTS}/${name}.png` });
    }
  }
} catch (error) {
  failed += 1;
  console.log(`failed: ${error.stack}`);
} finally {
  await tester.close();
}
console.log(`page tests: ${passed} passed; ${failed} failed; first load ${tester.firstLoad} bytes`);
process.exit(failed ? 1 : 0);
