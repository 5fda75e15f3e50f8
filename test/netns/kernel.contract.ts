import type { Family } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import type { Kernel, Step } from '../../packages/applier/src/ports/kernel.ts';
import type { ObservedChain } from '../../packages/applier/src/ports/node-state.ts';
import { Interrupted } from '../../packages/applier/src/apply/transaction/restore.ts';

/** A kernel under test, with a way to put foreign rules in. */
export interface KernelCandidate {
  readonly kernel: Kernel;
  /** Runs `iptables-restore --noflush`, as another program would. */
  readonly foreign: (family: Family, text: string) => Promise<void>;
}

const restore = (family: Family, table: 'filter' | 'nat', ...lines: readonly string[]): Step => ({
  kind: 'restore-table',
  family,
  table,
  text: `*${table}\n${lines.map((line) => `${line}\n`).join('')}COMMIT\n`,
  because: 'the contract suite needs it',
});

const dnat = { ipv4: '10.244.1.5:8080', ipv6: '[fd00:10::5]:8080' } as const;
const sep = (family: Family, chain: string): string =>
  `-A ${chain} -p tcp -m tcp -j DNAT --to-destination ${dnat[family]}`;

/**
 * The contract of every kernel, the fake one and the real ones: what the transaction relies on.
 * @param open gives a kernel without rules
 */
export function kernelContract(name: string, open: () => Promise<KernelCandidate>): void {
  const chains = async (kernel: Kernel, family: Family): Promise<Record<string, readonly string[]>> => {
    const nat = (await kernel.observe([family]))[family]?.nat.chains ?? new Map<string, ObservedChain>();
    return Object.fromEntries([...nat].filter(([, chain]) => !chain.builtIn).map(([key, chain]) => [key, chain.rules]));
  };

  test(`${name}: accepts removal of connections that do not exist`, async () => {
    const { kernel } = await open();
    const flow = { family: 'ipv4', protocol: 'udp', address: '10.96.0.10', port: 53, endpoint: undefined } as const;
    expect(await kernel.forgetFlows([flow])).toBe(0);
  });

  test(`${name}: where changes are counted, a change by any program counts, and reading does not`, async () => {
    const { kernel, foreign } = await open();
    const before = await kernel.changeCount?.();
    if (before === undefined) return;
    await kernel.observe(['ipv4', 'ipv6']);
    expect(await kernel.changeCount?.()).toBe(before);
    await kernel.apply(restore('ipv4', 'nat', ':KUBE-A - [0:0]'));
    const own = await kernel.changeCount?.();
    await foreign('ipv6', '*nat\n:CNI-X - [0:0]\nCOMMIT\n');
    expect(new Set([before, own, await kernel.changeCount?.()]).size).toBe(3);
  });

  for (const family of ['ipv4', 'ipv6'] as const) {
    test(`${name}, ${family}: a declared chain is created with its rules, and printed as the grammar prints it`, async () => {
      const { kernel } = await open();
      await kernel.apply(restore(family, 'nat', ':KUBE-SEP-A - [0:0]', sep(family, 'KUBE-SEP-A')));
      expect(await chains(kernel, family)).toEqual({ 'KUBE-SEP-A': [sep(family, 'KUBE-SEP-A')] });
    });

    test(`${name}, ${family}: an observation is aborted when its signal fires`, async () => {
      const { kernel } = await open();
      await expect(kernel.observe([family], undefined, AbortSignal.abort())).rejects.toThrow(Interrupted);
      expect((await kernel.observe([family]))[family]).toBeDefined();
    });

    test(`${name}, ${family}: declaring a chain again flushes this chain and no other`, async () => {
      const { kernel } = await open();
      await kernel.apply(
        restore(family, 'nat', ':KUBE-A - [0:0]', ':KUBE-B - [0:0]', '-A KUBE-A -j RETURN', '-A KUBE-B -j RETURN'),
      );
      await kernel.apply(restore(family, 'nat', ':KUBE-A - [0:0]'));
      expect(await chains(kernel, family)).toEqual({ 'KUBE-A': [], 'KUBE-B': ['-A KUBE-B -j RETURN'] });
    });

    test(`${name}, ${family}: foreign chains and rules stay as they are`, async () => {
      const { kernel, foreign } = await open();
      await foreign(family, '*nat\n:CNI-X - [0:0]\n-A CNI-X -j RETURN\n-A OUTPUT -j CNI-X\nCOMMIT\n');
      await kernel.apply(restore(family, 'nat', ':KUBE-A - [0:0]', '-I OUTPUT 1 -j KUBE-A'));
      await kernel.apply(restore(family, 'nat', ':KUBE-A - [0:0]', '-D OUTPUT -j KUBE-A', '-X KUBE-A'));
      const seen = (await kernel.observe([family]))[family]?.nat.chains;
      expect(seen?.get('CNI-X')?.rules).toEqual(['-A CNI-X -j RETURN']);
      expect(seen?.get('OUTPUT')).toEqual({ builtIn: true, rules: ['-A OUTPUT -j CNI-X'] });
      expect(seen?.has('KUBE-A')).toBe(false);
    });

    test(`${name}, ${family}: jumps are inserted at the named position`, async () => {
      const { kernel, foreign } = await open();
      await foreign(family, '*nat\n-A OUTPUT -j RETURN\nCOMMIT\n');
      await kernel.apply(
        restore(family, 'nat', ':KUBE-A - [0:0]', ':KUBE-B - [0:0]', '-I OUTPUT 1 -j KUBE-A', '-I OUTPUT 2 -j KUBE-B'),
      );
      const rules = (await kernel.observe([family]))[family]?.nat.chains.get('OUTPUT')?.rules;
      expect(rules).toEqual(['-A OUTPUT -j KUBE-A', '-A OUTPUT -j KUBE-B', '-A OUTPUT -j RETURN']);
    });

    test.each([
      ['a rule whose target chain is missing', ['-A KUBE-A -j KUBE-MISSING']],
      ['deleting a missing jump', ['-D OUTPUT -j KUBE-A']],
      ['deleting a chain that a rule refers to', [':KUBE-C - [0:0]', '-A KUBE-A -j KUBE-C', '-X KUBE-C']],
      ['a target of another table', ['-A KUBE-A -j REJECT', '-A OUTPUT -j KUBE-A']],
    ] as const)(`${name}, ${family}: refuses a step as a whole: %s`, async (_title, lines) => {
      const { kernel } = await open();
      await kernel.apply(restore(family, 'nat', ':KUBE-A - [0:0]', '-A KUBE-A -j RETURN'));
      const before = await kernel.observe([family]);
      await expect(
        kernel.apply(restore(family, 'nat', ':KUBE-A - [0:0]', ':KUBE-NEW - [0:0]', ...lines)),
      ).rejects.toThrow('Cannot run');
      expect(await kernel.observe([family])).toEqual(before);
    });

    test(`${name}, ${family}: single chains are read like the whole table; a missing one is absent`, async () => {
      const { kernel } = await open();
      await kernel.apply(restore(family, 'nat', ':KUBE-SEP-A - [0:0]', ':KUBE-E - [0:0]', sep(family, 'KUBE-SEP-A')));
      const all = { 'KUBE-SEP-A': [sep(family, 'KUBE-SEP-A')], 'KUBE-E': [] };
      for (const names of [
        ['KUBE-SEP-A', 'KUBE-E', 'KUBE-NONE'],
        ['KUBE-NONE', 'KUBE-NONE', 'KUBE-SEP-A', 'KUBE-NO', 'KUBE-E'],
        ['KUBE-E', 'KUBE-SEP-A'],
      ])
        expect(Object.fromEntries((await kernel.observeChains(family, { nat: names })).nat)).toEqual(all);
      expect([...(await kernel.observeChains(family, { nat: ['KUBE-NONE'] })).nat]).toEqual([]);
      await kernel.apply(restore(family, 'filter', ':KUBE-E - [0:0]', '-A KUBE-E -j DROP', ':KUBE-F - [0:0]'));
      for (const filter of [
        ['KUBE-E', 'KUBE-F'],
        ['KUBE-F', 'KUBE-SEP-A', 'KUBE-E'],
        ['KUBE-E', 'KUBE-F', 'KUBE-NONE'],
      ]) {
        const read = await kernel.observeChains(family, { filter, nat: ['KUBE-NONE', 'KUBE-E', 'KUBE-SEP-A'] });
        expect(Object.fromEntries(read.filter)).toEqual({ 'KUBE-E': ['-A KUBE-E -j DROP'], 'KUBE-F': [] });
        expect(Object.fromEntries(read.nat)).toEqual(all);
      }
    });

    test(`${name}, ${family}: a rehearsal accepts good rules, refuses bad ones, and changes nothing`, async () => {
      const { kernel } = await open();
      const before = await kernel.observe([family]);
      const empty = { chains: new Map(), jumps: [] };
      const state = (rule: string): Parameters<Kernel['rehearse']>[0] => ({
        families: {
          [family]: {
            filter: empty,
            nat: { chains: new Map([['KUBE-SERVICES', [rule]]]), jumps: ['-A OUTPUT -j KUBE-SERVICES'] },
          },
        },
        sysctls: new Map(),
      });
      await kernel.rehearse(state(sep(family, 'KUBE-SERVICES')));
      await expect(kernel.rehearse(state('-A KUBE-SERVICES -j REJECT'))).rejects.toThrow('Cannot run');
      expect(await kernel.observe([family])).toEqual(before);
    });
  }

  test(`${name}: unused tables are empty, with or without their built-in chains`, async () => {
    const { kernel } = await open();
    const observed = await kernel.observe(['ipv4', 'ipv6']);
    const rules = [observed.ipv4, observed.ipv6].flatMap((one) =>
      [...(one?.nat.chains.values() ?? [])].flatMap((chain) => chain.rules),
    );
    expect(rules).toEqual([]);
  });

  test(`${name}: a sysctl that is set is read back`, async () => {
    const { kernel } = await open();
    await kernel.apply({
      kind: 'set-sysctl',
      key: 'net.ipv4.conf.all.route_localnet',
      value: 1,
      because: 'the contract suite needs it',
    });
    expect(await kernel.readSysctl('net.ipv4.conf.all.route_localnet')).toBe(1);
  });
}
