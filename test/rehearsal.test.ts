import { describe, expect, test } from 'vitest';
import { loadOf } from '../packages/applier/src/kernel/scratch/load.ts';
import { printRequest, readRequest } from '../packages/applier/src/kernel/scratch/request.ts';
import { exampleStates } from './netns/rehearsal.ts';

/** The rehearsal unit reads a closed grammar, which must cover the rules that nodes load. */

describe.each([
  ['tree', 'nft'],
  ['tree', 'legacy'],
  ['flat', 'nft'],
  ['flat', 'legacy'],
] as const)('in layout %s on %s', (layout, backend) => {
  test.each(exampleStates(layout))('the unit reads the rehearsal of a node of %s unchanged', async (_name, state) => {
    const sent = loadOf(state, backend);
    const wanted = Object.fromEntries([...sent.rules].map(([family, text]) => [family, [...text].join('')]));
    const { parts } = await readRequest(asSource(printRequest(loadOf(state, backend))));
    const seen: Record<string, string> = {};
    for await (const { name, text } of parts) {
      seen[name] = '';
      for await (const piece of text) seen[name] += piece;
    }
    const setup = Object.fromEntries(
      Object.entries({ sets: sent.sets, servers: sent.servers, nft: sent.nft }).filter(([, text]) => text),
    );
    expect(seen).toEqual({ ...setup, ...wanted });
  });
});

async function* asSource(pieces: Iterable<Buffer>): AsyncGenerator<Buffer> {
  yield* pieces;
}
