// @module-tag test
import { oneInTurn } from '../one-in-turn.ts';
import { KernelError, RehearsalError } from '../../packages/applier/src/ports/failure.ts';
import { execaSync } from 'execa';
import { beforeEach, describe, expect, test } from 'vitest';
import { loadOf } from '../../packages/applier/src/kernel/scratch/load.ts';
import { rehearseInUnit } from '../../packages/applier/src/kernel/scratch/unit.ts';
import type { NodeState } from '../../packages/applier/src/ports/node-state.ts';
import { needBackend, needKernel } from './privileges.ts';
import { exampleStates, RehearsalUnit } from './rehearsal.ts';

/** `sluiced rehearse --stdin` as systemd starts it: a connection for standard input, a network and a /run of its own. */

beforeEach(needKernel);

const empty = { chains: new Map<string, readonly string[]>(), jumps: [] };
/** One rule in a chain that packets reach. */
const stateOf = (rule: string): NodeState => ({
  families: { ipv4: { filter: empty, nat: { chains: new Map([['KUBE-A', [rule]]]), jumps: ['-A OUTPUT -j KUBE-A'] } } },
  sysctls: new Map(),
});

describe.each(oneInTurn(['nft', 'legacy'] as const, 'rehearsal'))('on %s', (backend) => {
  beforeEach((context) => needBackend(context, backend));

  test.each(['tree', 'flat'] as const)(
    'accepts the rules of a node of each example in mode iptables, in layout %s',
    async (layout) => {
      await using unit = await RehearsalUnit.listen();
      // The last node of each.
      const states = new Map(exampleStates(layout).filter(([, state]) => !state.ipvs));
      expect(states.size).toBeGreaterThan(5);
      for (const state of states.values()) await rehearseInUnit(unit.path, loadOf(state, backend));
    },
  );

  test('refuses rules that the kernel refuses, with the reason; the next rehearsal succeeds', async () => {
    await using unit = await RehearsalUnit.listen();
    // `iptables-restore --test` accepts it.
    const bad = rehearseInUnit(unit.path, loadOf(stateOf('-A KUBE-A -j REJECT'), backend));
    await expect(bad).rejects.toBeInstanceOf(KernelError);
    await expect(bad).rejects.toThrow(/^Cannot run iptables-restore in a scratch namespace: exit code \d/);
    await rehearseInUnit(unit.path, loadOf(stateOf('-A KUBE-A -j RETURN'), backend));
    expect(unit.log).toMatch(/^part ipv4 was refused: .*\nthe rules were loaded in a scratch namespace\n$/);
  });

  test('two rehearsals at the same time do not interfere', async () => {
    await using unit = await RehearsalUnit.listen();
    const state = stateOf('-A KUBE-A -j RETURN');
    const both = [1, 2].map(() => rehearseInUnit(unit.path, loadOf(state, backend)));
    expect(await Promise.all(both)).toEqual([undefined, undefined]);
  });
});

test('loads nothing in a network with an interface', async () => {
  const place = [
    'unshare',
    '--net',
    'sh',
    '-c',
    'ip link add eth0 type veth peer name eth1; "$@"; iptables-nft-save >&2',
    'sh',
  ];
  await using unit = await RehearsalUnit.listen(place);
  const rehearsal = rehearseInUnit(unit.path, loadOf(stateOf('-A KUBE-A -j RETURN'), 'nft'));
  await expect(rehearsal).rejects.toBeInstanceOf(RehearsalError);
  await expect(rehearsal).rejects.toThrow(/it has the device eth[01]/);
  expect(unit.log).not.toContain('KUBE-A');
});

test('a process without the rights of its unit reports that, and does not blame the rules', async () => {
  await using unit = await RehearsalUnit.listen(['unshare', '--net', 'setpriv', '--bounding-set=-all']);
  const rehearsal = rehearseInUnit(unit.path, loadOf(stateOf('-A KUBE-A -j RETURN'), 'nft'));
  await expect(rehearsal).rejects.toBeInstanceOf(RehearsalError);
  await expect(rehearsal).rejects.toThrow('no working tool for part ipv4');
});

test.each([
  ['a file', '/dev/null'],
  ['a terminal or nothing at all', '/dev/zero'],
])('refuses standard input that is %s', (_title, input) => {
  const script = `exec "$0" rehearse --stdin <${input}`;
  const { exitCode, stderr } = execaSync('timeout', ['10', 'unshare', '--net', 'sh', '-c', script, 'bin/sluiced'], {
    reject: false,
  });
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining('Cannot')]);
});
