import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { buildProgram } from './program.ts';

const example = join(import.meta.dirname, '../../../examples/10-ipvs/out');

/** What `sluice complete` prints for the words so far. */
async function completed(...words: readonly string[]): Promise<readonly string[]> {
  let out = '';
  const write = vi.spyOn(process.stdout, 'write').mockImplementation((text) => ((out += String(text)), true));
  try {
    await buildProgram().parseAsync(['complete', '--', ...words], { from: 'user' });
  } finally {
    write.mockRestore();
  }
  return out.split('\n').slice(0, -1);
}

test.each([
  ['a command, with its summary', ['sho'], ['show\tprint the rules of a node in native syntax']],
  ['a subcommand', ['allocations', 'f'], ['fix\t']],
  ['the nodes of a bundle', ['show', example, '--node', ''], ['node-1', 'node-2']],
  ['the nodes of a bundle, for a commit of it', ['trace', example, '--at', 'HEAD', '--node', ''], ['node-1', 'node-2']],
  ['the nodes of a bundle, behind --', ['bisect', '--', 'trace', example, '--node', ''], ['node-1', 'node-2']],
  ['the Services of a bundle', ['show', example, '--service', 'shop/we'], ['shop/web']],
  ['a file, for manifests', ['render', '-f', 'man'], [':files']],
  ['a directory, for diff', ['diff', 'a', ''], [':files']],
] as const)('completes %s', async (_title, words, lines) => {
  const found = await completed(...words);
  expect(found).toHaveLength(lines.length);
  for (const [index, line] of lines.entries()) expect(found[index]).toContain(line);
});
