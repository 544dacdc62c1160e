// Checks the types of the page's modules, which are written as JSDoc. They are copied beside the type
// declarations of the vendored libraries, which the page itself does without.

import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { dirname, join } from 'node:path';

const here = dirname(fileURLToPath(import.meta.url));
const page = join(here, '../../src/cli/web/page');
const copy = join(here, 'node_modules/.page-types');
rmSync(copy, { recursive: true, force: true });
mkdirSync(copy, { recursive: true });
cpSync(page, copy, { recursive: true });
cpSync(join(here, 'types.d.ts'), join(copy, 'types.d.ts'));
writeFileSync(join(copy, 'vendor/lit-html/lit-html.d.ts'), "export * from 'lit-html';\n");
writeFileSync(join(copy, 'vendor/speed-highlight/dist/tokenize.d.ts'), 
  'export function tokenizeWith(text: string, grammar: any, onToken: (text: string, type?: string) => void, options: any): void;\n');
writeFileSync(join(copy, 'tsconfig.json'), JSON.stringify({
  compilerOptions: {
    allowJs: true, checkJs: true, noEmit: true, strict: true, noUnusedLocals: true, noUnusedParameters: true,
    noFallthroughCasesInSwitch: true, noImplicitReturns: true, target: 'es2023', lib: ['es2024', 'dom', 'dom.iterable', 'dom.asynciterable'],
    module: 'esnext', moduleResolution: 'bundler', types: [],
  },
  include: ['*.js', 'types.d.ts'],
}));
const { status } = spawnSync(join(here, 'node_modules/.bin/tsc'), ['--project', copy], { cwd: copy, stdio: 'inherit' });
process.exit(status ?? 1);
