import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { problemCodes } from '@sluice/netfilter';
import { expect, test } from 'vitest';

const page = join(import.meta.dirname, '..', 'docs', 'problems.md');

/** The page of all codes: what every `[CODE]` in a message means. */
const text = `# Problems

Both programs print a problem as one line and a hint below it; \`sluice validate -o json\` prints them as a document.

\`\`\`
shop/web.yaml:9:17: error: Service shop/web: Cannot … [FIELD_VALUE]
    what to do next
\`\`\`

Levels: an **error** stops the command before anything is written; a **warning** does so with \`--strict\`; **differs** (mode ipvs or nftables behaves differently from mode iptables), a **guess** (Sluice assumed the most likely value) and a **note** stop nothing.
The document has \`apiVersion: sluice.dev/v1alpha1\`, \`kind: ProblemList\` and \`items\`; each item has \`code\`, \`level\`, \`message\` and \`hint\`, and if known \`at\` (\`file\`, \`line\`, \`column\`, from 1) and \`object\`.
With \`-o json\` every other command that fails prints a document of kind \`Error\`: \`error\` has \`code\`, \`message\` and \`hint\` of the first error, \`problems\` lists all problems.
A version may add fields; no field changes its meaning or is removed.

A code never changes its meaning and is never reused for another problem.

| code | means |
|---|---|
${Object.entries(problemCodes)
  .map(([code, meaning]) => `| \`${code}\` | ${meaning} |\n`)
  .join('')}`;

/** UPDATE_DOCS=1 rewrites the page. */
if (process.env['UPDATE_DOCS'] === '1') writeFileSync(page, text);

test('docs/problems.md is up to date', () => {
  expect(readFileSync(page, 'utf8')).toBe(text);
});

test('codes are words in capitals, and meanings are sentences without a full stop', () => {
  for (const [code, meaning] of Object.entries(problemCodes)) {
    expect(code).toMatch(/^[A-Z]+(_[A-Z]+)*$/);
    expect(meaning).toMatch(/^[a-z].*[^.]$|^sluice/i);
  }
});
