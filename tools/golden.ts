/** `./dev golden`: writes the golden bundle of every example anew. The diff is for a person to read. */
import { join } from 'node:path';
import { execaSync } from 'execa';
import { listExamples, renderArguments } from './examples.ts';

const sluice = join(import.meta.dirname, '..', 'bin', 'sluice');

for (const example of listExamples()) {
  process.stdout.write(`golden: ${example.name}\n`);
  const { exitCode } = execaSync(sluice, renderArguments(example), { stdio: 'inherit', reject: false });
  // The old golden stays where an example does not render; the others are written all the same.
  if (exitCode !== 0) process.exitCode = 1;
}
