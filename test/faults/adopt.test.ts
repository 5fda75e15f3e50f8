// @module-tag test
import { availableParallelism } from 'node:os';
import { atTier, isShare, reaches } from '@sluice/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { needBackend, needKernel, needStrace } from '../netns/privileges.ts';
import { type Move, MovingNode } from './moving-node.ts';
import { type Cycle, cyclesOf, type Last, orders, printCycle, readCycle, rename, tryCycle } from './moves.ts';

/**
 * `sluiced adopt` and `sluiced adopt --undo` are killed between any two effects on a node under load: no connection is lost, and the next
 * process ends as docs/adopt.md says. A soak has every point; tier all some by the seed, `SLUICE_POINTS` of each direction. `SLUICE_MOVE`
 * runs one move (`nft nft iptables, Sluice last`), or one cycle of it, as a failure prints it.
 */
const wanted = process.env['SLUICE_MOVE'];
const moves: readonly Move[] = [
  { proxy: 'nft', backend: 'nft', mode: 'iptables' },
  { proxy: 'legacy', backend: 'legacy', mode: 'iptables' },
  { proxy: 'nft', backend: 'nft', mode: 'nftables' },
  { proxy: 'legacy', backend: 'legacy', mode: 'nftables' },
  { proxy: 'nftables', backend: 'nft', mode: 'nftables' },
];
const most = Number(process.env['SLUICE_POINTS'] ?? (isShare ? 2 : atTier({ quick: 1, all: 6, soak: Infinity })));

/** Between the name of a move and one cycle of it. */
const separator = ': ';
const nameOf = ({ proxy, backend, mode }: Move, last: Last): string => `${proxy} ${backend} ${mode}, ${last} last`;
const all = moves.flatMap((move) => orders.map((last) => ({ move, last, name: nameOf(move, last) })));
const cases =
  wanted === undefined
    ? all.slice(0, isShare ? 4 : atTier({ quick: 1, all: all.length }))
    : all.filter(({ name }) => wanted.startsWith(name));

beforeEach(needKernel);
beforeEach(needStrace);

describe.each(cases)(
  'a move from $move.proxy to $move.mode (store $move.backend), $last last',
  ({ move, last, name }) => {
    beforeEach((context) => needBackend(context, move.backend));

    test('killed between any two effects, there and back, it loses no connection and can be finished', {
      timeout: atTier({ quick: 600_000, all: 3_600_000, soak: 14_400_000 }),
    }, async () => {
      const cycles = await chosenCycles(move, last, name);
      const wrong = await failures(move, last, cycles);
      const again = ([cycle, found]: (typeof wrong)[number]): string =>
        [...found, `SLUICE_MOVE='${name}${separator}${printCycle(cycle)}' ./dev test test/faults/adopt.test.ts`].join(
          '\n  ',
        );
      expect(wrong.map(again)).toEqual([]);
    });
  },
);

async function chosenCycles(move: Move, last: Last, name: string): Promise<readonly Cycle[]> {
  const only = wanted?.slice(name.length + separator.length) ?? '';
  if (only !== '') return [readCycle(only)];
  if (!reaches('all')) return [{ next: 'again', there: rename, back: rename }];
  const node = await MovingNode.start(move);
  try {
    if (last === 'kube-proxy') await node.putProxyLast();
    const [there, back] = [await node.record(false), await node.record(true)];
    const cycles = cyclesOf(there, back, most);
    console.log(`${name}: ${there.length} points there and ${back.length} back, killed in ${cycles.length} cycles`);
    return cycles;
  } finally {
    await node.close();
  }
}

/** Runs cycles on as many nodes as there are processors; a node on which something went wrong is not used any more. */
async function failures(
  move: Move,
  last: Last,
  cycles: readonly Cycle[],
): Promise<readonly (readonly [Cycle, readonly string[]])[]> {
  const queue = [...cycles];
  const found: (readonly [Cycle, readonly string[]])[] = [];
  const worker = async (): Promise<void> => {
    let node: MovingNode | undefined;
    for (let cycle = queue.shift(); cycle; cycle = queue.shift()) {
      node ??= await MovingNode.start(move);
      const wrong = await tryCycle(node, last, cycle).catch((error: unknown) => [String(error)]);
      if (wanted !== undefined) console.log(`${wrong.length} wrong: ${printCycle(cycle)}`);
      if (wrong.length === 0) continue;
      found.push([cycle, wrong]);
      console.log(nameOf(move, last), printCycle(cycle), wrong.join('\n'));
      await node.close();
      node = undefined;
    }
    await node?.close();
  };
  await Promise.all(Array.from({ length: Math.min(availableParallelism(), cycles.length) }, worker));
  return found;
}

test('reads a cycle back as it was printed', () => {
  const cycle: Cycle = { next: 'opposite', there: rename, back: undefined };
  expect(readCycle(printCycle(cycle))).toEqual(cycle);
});
