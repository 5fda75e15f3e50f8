import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { mutants } from './mutants/mutants.ts';

test.each(mutants)('$file has the line of a mutant exactly once: $harm', ({ file, from }) => {
  const text = readFileSync(join(import.meta.dirname, '..', file), 'utf8');
  expect(text.split(from)).toHaveLength(2);
});
