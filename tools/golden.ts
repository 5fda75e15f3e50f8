/** `./dev golden`: writes the golden bundle of every example anew. The diff is for a person to read. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { listExamples, renderArguments } from './examples.ts';

const sluice = join(import.meta.dirname, '..', 'bin', 'sluice');

for (const example of listExamples()) {
  process.stdout.write(`golden: ${example.name}\n`);
  rmSync(example.output, { recursive: true, force: true });
  execaSync(sluice, renderArguments(example), { cwd: example.dir, stdio: 'inherit' });
}
