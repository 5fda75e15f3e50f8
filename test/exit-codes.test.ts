import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { exitCodes as ofSluiced } from '../packages/applier/src/ports/outcome.ts';
import { buildProgram as buildSluiced } from '../packages/applier/src/program.ts';
import { exitCodes, exitMeanings } from '../packages/cli/src/exit-codes.ts';
import { buildProgram as buildSluice } from '../packages/sluice/src/program.ts';
import { exitCodes as ofSluice } from '../packages/renderer/src/exit.ts';
import { exitDetails } from '../tools/docs/exit-details.ts';

const page = join(import.meta.dirname, '..', 'docs', 'exit-codes.md');

const rows = (name: 'sluice' | 'sluiced'): string =>
  Object.entries(exitDetails[name])
    .map(([command, codes]) => `| \`${name} ${command}\` | ${codes} |\n`)
    .join('');

/** The one page on exit codes. */
const text = `# Exit codes

Both programs exit with the same codes; \`sluice\` with 0, 1 or 2. A code never changes its meaning.

| code | means |
|---|---|
${Object.entries(exitMeanings)
  .map(([code, meaning]) => `| ${code} | ${meaning} |\n`)
  .join('')}
Every command ends with 0 when it has done its work, and with 2 for a command line that it cannot parse or input that it cannot read. With \`-o json\` (\`--report json\` where
\`-o\` is a path) a command that has no result prints a document of kind \`Error\` on standard output: \`error\` has \`code\` ([problems.md](problems.md)), \`message\` and \`hint\`, and \`problems\` lists all problems.

| command | further codes |
|---|---|
${rows('sluice')}${rows('sluiced')}
A process that a signal ended has 128 plus the number of the signal, as shells show it. \`apply\`, \`recover\`, \`backend\` with a store and \`cleanup\` exit with 3 while a daemon uses the same state directory.
`;

/** UPDATE_DOCS=1 rewrites the page. */
if (process.env['UPDATE_DOCS'] === '1') writeFileSync(page, text);

test('docs/exit-codes.md is up to date', () => {
  expect(readFileSync(page, 'utf8')).toBe(text);
});

test('both programs share one table of codes', () => {
  expect(ofSluice).toBe(exitCodes);
  expect(ofSluiced).toBe(exitCodes);
  expect(Object.values(exitCodes)).toEqual(Object.keys(exitMeanings).map(Number));
});

test.each([
  ['sluice', buildSluice()],
  ['sluiced', buildSluiced()],
] as const)('the page names only commands of %s', (name, program) => {
  const known = program.commands.flatMap((command) => [
    command.name(),
    ...command.commands.map((one) => `${command.name()} ${one.name()}`),
  ]);
  expect(Object.keys(exitDetails[name]).filter((command) => !known.includes(command))).toEqual([]);
});
