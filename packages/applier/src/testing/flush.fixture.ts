import { readSave } from '../kernel/save.fixture.ts';
import type { FakeKernel } from '../kernel/fake/fake.fixture.ts';

/** For tests only: how another program removes rules. `empties`: `iptables -F; iptables -t nat -F`; `removes`: `nft flush ruleset`; `clears`: `ipvsadm -C`. */
export type Flush = 'empties' | 'removes' | 'clears';

/** Removes the rules of all tables, of all programs; in mode ipvs the virtual servers (`ipvsadm -C`), in mode nftables the table. */
export function flush(kernel: FakeKernel, how: Flush, mode: string): void {
  if (how === 'clears') return kernel.ipvs.clearServers();
  if (mode === 'nftables') kernel.nft.clear();
  if (mode === 'ipvs') kernel.ipvs.clear();
  for (const family of ['ipv4', 'ipv6'] as const) {
    const read = readSave(kernel.save(family));
    for (const table of ['filter', 'nat'] as const) {
      const chains = [...read[table].chains];
      const own = chains.flatMap(([name, { builtIn }]) => (builtIn ? [] : [name]));
      const lines = [
        ...chains.flatMap(([, { builtIn, rules }]) => (builtIn ? rules.map((rule) => rule.replace(/^-A/, '-D')) : [])),
        ...own.map((name) => `:${name} - [0:0]`),
        ...(how === 'removes' ? own.map((name) => `-X ${name}`) : []),
      ];
      kernel.load(family, `*${table}\n${lines.join('\n')}\nCOMMIT\n`.replace('\n\n', '\n'));
    }
  }
}
