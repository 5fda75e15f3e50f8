/** `./dev golden`: renders the golden bundle of every example again. Review the diff. */
import { join } from 'node:path';
import { execaSync } from 'execa';
import { listExamples, renderArguments } from './examples.ts';

const sluice = join(import.meta.dirname, '..', 'bin', 'sluice');

for (const example of listExamples()) {
  process.stdout.write(`golden: ${example.name}\n`);
  const { exitCode } = execaSync(sluice, renderArguments(example), { stdio: 'inherit', reject: false });
  // An example that does not render keeps its old golden; the others are written all the same.
  if (exitCode !== 0) process.exitCode = 1;
}
