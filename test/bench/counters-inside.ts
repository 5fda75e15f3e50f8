// Three nodes side by side, each in a network namespace of its own: without counters, with them, and without them again. Started by
// counters.ts, inside namespaces of its own, with the number of Services, the store of mode iptables or `nftables`, and the numbers of idle
// seconds and changes. Prints one JSON line, `CounterCosts`.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { bundleProgram } from '../../tools/bundle.ts';
import { copyAsInstalled } from './as-installed.ts';
import type { NodeCost } from './counters.ts';
import { mustBeInNamespace } from './in-namespace.ts';
import { LiveNode } from './live-node.ts';
import { median } from './measure.ts';

mustBeInNamespace();
const [count = '10000', way = 'nft', seconds = '180', changes = '21'] = process.argv.slice(2);
const scratch = mkdtempSync(join(tmpdir(), 'sluice-counters-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
const program = join(scratch, 'sluiced.mjs');
await bundleProgram(join(import.meta.dirname, '../..'), 'sluiced', program, true);
const executable = copyAsInstalled(process.execPath, join(scratch, 'node'));

function nodeOf(name: string, isCounting: boolean): LiveNode {
  const isNftables = way === 'nftables';
  const profile = isNftables ? { mode: way, nftables: { endpointCounters: isCounting } } : { mode: 'iptables' };
  return new LiveNode(join(scratch, name), Number(count), profile, [
    `backend: ${isNftables ? 'nft' : way}`,
    `countConnections: ${isCounting && !isNftables}`,
    `countTraffic: ${isCounting}`,
  ]);
}

const nodes = { without: nodeOf('without', false), with: nodeOf('with', true), again: nodeOf('again', false) };
const all = Object.entries(nodes);

/** Until none has had work for a while. */
async function untilQuiet(): Promise<void> {
  for (let tries = 0, quiet = 0; tries < 60 && quiet < 4; tries++) {
    const before = all.map(([, node]) => node.processorSeconds);
    await sleep(5_000);
    const isQuiet = all.every(([, node], at) => node.processorSeconds - (before[at] ?? 0) < 0.15);
    quiet = isQuiet ? quiet + 1 : 0;
  }
}

try {
  for (const [, node] of all) await node.start(executable, program);
  await untilQuiet();
  const before = all.map(([, node]) => node.processorSeconds);
  await sleep(Number(seconds) * 1000);
  const idle = all.map(([, node], at) => ((node.processorSeconds - (before[at] ?? 0)) / Number(seconds)) * 100);
  const resident = all.map(([, node]) => node.resident);
  const spent = all.map(() => ({ processor: [] as number[], elapsed: [] as number[] }));
  for (let round = 0; round < Number(changes); round++) {
    for (const [at, [, node]] of all.entries()) {
      const used = node.processorSeconds;
      spent[at]?.elapsed.push(await node.change(round));
      // What comes behind the change, such as the next tools.
      await sleep(1_000);
      spent[at]?.processor.push(node.processorSeconds - used);
    }
  }
  const costs = all.map(([name], at): readonly [string, NodeCost] => {
    const { processor = [], elapsed = [] } = spent[at] ?? {};
    return [
      name,
      {
        idle: idle[at] ?? Number.NaN,
        resident: resident[at] ?? { all: Number.NaN, own: Number.NaN },
        change: {
          processorMedian: median(processor),
          processorMean: processor.reduce((sum, one) => sum + one, 0) / processor.length,
          elapsed: median(elapsed),
        },
      },
    ];
  });
  process.stdout.write(`${JSON.stringify(Object.fromEntries(costs))}\n`);
} finally {
  for (const [, node] of all) await node.stop();
}
