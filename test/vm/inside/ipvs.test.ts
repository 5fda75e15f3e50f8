// @module-tag all
import { execaSync } from 'execa';
import { afterAll, expect, test } from 'vitest';
import { server, state } from '../../../packages/applier/src/ports/ipvs/states.fixture.ts';
import { ipvsSteps, planIpvs } from '../../../packages/applier/src/ports/ipvs/plan.ts';
import { emptyIpvs, ownedBy } from '../../../packages/applier/src/ports/ipvs/values.ts';
import { LinuxIpvs } from '../../../packages/applier/src/kernel/ipvs/ipvs-linux.ts';
import { findIpvsTools } from '../../../packages/applier/src/kernel/tools.ts';
import type { Run } from '../../../packages/applier/src/kernel/command.ts';
import { runChildren } from '../../../packages/applier/src/kernel/run.ts';
import { ipvsContract } from '../ipvs.contract.ts';

/** Mode ipvs on a real kernel, each time in a network namespace of its own. */

/** 50,000 real servers take an emulator 20 to 70 s; a node's limit is a minute. */
const emulatedMsMax = 200_000;

const made: string[] = [];
afterAll(() => {
  for (const name of made) execaSync('ip', ['netns', 'delete', name], { reject: false });
});

function open(count = { processes: 0 }): LinuxIpvs {
  const name = `ipvs-${made.length}`;
  execaSync('ip', ['netns', 'add', name]);
  made.push(name);
  execaSync('ip', ['-n', name, 'link', 'set', 'lo', 'up']);
  const tools = findIpvsTools();
  if ('missing' in tools) throw new Error(`the guest lacks ${tools.missing.join(', ')}`);
  const run = runChildren();
  const inside: Run = (command) => {
    count.processes++;
    const args = ['netns', 'exec', name, command.file, ...command.args];
    return run({ timeoutMs: emulatedMsMax, ...command, file: tools.ip, args });
  };
  return new LinuxIpvs(tools, inside);
}

ipvsContract('linux', async () => open());

test('10,000 servers with 5 real ones need one batch of each tool, and one changed endpoint needs two', async () => {
  const count = { processes: 0 };
  const kernel = open(count);
  const address = (n: number): string => `10.${100 + (n >> 16)}.${(n >> 8) & 255}.${n & 255}:80/TCP`;
  const five = { '10.244.1.1:80': 1, '10.244.1.2:80': 1, '10.244.1.3:80': 1, '10.244.1.4:80': 1, '10.244.1.5:80': 1 };
  const all = Array.from({ length: 10_000 }, (_, n) => server(address(n), five));
  const wanted = state(all);
  const options = { now: 0, drainMs: 1, excludeCIDRs: [] };
  const to = async (desired: typeof wanted): Promise<number> => {
    count.processes = 0;
    const started = performance.now();
    for (const step of ipvsSteps(planIpvs(await kernel.observe(), desired, ownedBy(wanted), [], options)))
      await kernel.apply(step);
    process.stdout.write(`guest: ${count.processes} processes, ${Math.round(performance.now() - started)} ms\n`);
    return count.processes;
  };
  expect(await to(wanted)).toBeLessThanOrEqual(20);
  const { '10.244.1.5:80': _, ...four } = five;
  expect(await to(state([...all.slice(1), server(address(0), { ...four, '10.244.1.6:80': 1 })]))).toBeLessThanOrEqual(
    6,
  );
  expect(await to(emptyIpvs)).toBeLessThanOrEqual(20);
}, 900_000);
