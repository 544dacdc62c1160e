// Takes the pictures of the page of a running `massgen web`.
//
//   node page.mjs LINK TEAM TASK DIRECTORY

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PageTester } from '../web/browser.mjs';

const SIZE = { width: 1280, height: 800 };
const [, , link, team, task, directory] = process.argv;
const tester = new PageTester();
await tester.startBrowser();
await tester.open(link);
const { page } = tester;
await page.setViewportSize(SIZE);
const encoder = await (await tester.browser.newContext()).newPage();

/** Returns a picture as WebP. */
const encode = (png) => encoder.evaluate(async (data) => {
  const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  canvas.getContext('2d').drawImage(bitmap, 0, 0);
  const bytes = new Uint8Array(await (await canvas.convertToBlob({ type: 'image/webp', quality: 0.85 })).arrayBuffer());
  return bytes.toBase64();
}, png.toString('base64'));

async function take(name) {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await tester.settled();
    const webp = await encode(await page.screenshot());
    writeFileSync(join(directory, `${name}-${colorScheme}.webp`), Buffer.from(webp, 'base64'));
  }
}

await tester.start(team, task);
const review = page.getByText('Review the delivery', { exact: true });
await review.waitFor();
await page.locator('body').click({ position: { x: 640, y: 20 } });
await take('page');
await review.click();
await page.getByText('Skip all').waitFor();
await page.keyboard.press('n');
await page.keyboard.press('n');
await page.keyboard.press('x');
await page.evaluate(() => scrollTo(0, 0));
await take('page-review');
tester.expectNoFaults();
await tester.close();
