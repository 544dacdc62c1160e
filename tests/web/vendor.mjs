// Compares the vendored files of the page with the packages that `npm pack` fetches.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const libraries = join(dirname(fileURLToPath(import.meta.url)), '../../src/cli/web/page/vendor');

function compare(library) {
  const vendor = join(libraries, library);
  const source = Object.fromEntries(readFileSync(join(vendor, 'SOURCE'), 'utf8').trim().split('\n').map((line) => line.split(/: (.*)/)));
  const scratch = mkdtempSync(join(tmpdir(), 'vendor-'));
  try {
    const [{ filename }] = JSON.parse(execFileSync('npm', ['pack', '--json', `${source.name}@${source.version}`], { cwd: scratch, encoding: 'utf8' }));
    const archive = readFileSync(join(scratch, filename));
    const [algorithm] = source.integrity.split('-');
    assert.equal(`${algorithm}-${createHash(algorithm).update(archive).digest('base64')}`, source.integrity);
    execFileSync('tar', ['-xzf', filename], { cwd: scratch });
    for (const file of source.files.split(' ')) {
      assert.deepEqual(readFileSync(join(vendor, file)), readFileSync(join(scratch, 'package', file)), file);
    }
    console.log(`${source.name} ${source.version} is as published`);
  } finally {
    rmSync(scratch, { recursive: true });
  }
}

readdirSync(libraries).forEach(compare);
