// @module-tag test
import {
  linkTree,
  printProgram,
  sectionsOf,
  settledEntries,
  settledProgram,
  tableNames,
  type TreeProgram,
  type Family,
} from '@sluice/netfilter';
import { beforeEach, describe, expect, test } from 'vitest';
import { cart, cartIPv6 } from '../../packages/netfilter/src/link/cart.fixture.ts';
import { rulesOf, type ServiceSpec } from '../../packages/netfilter/src/link/tree/cluster.fixture.ts';
import { readBack } from '../../packages/netfilter/src/link/tree/read-back.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { feed, inScratchNamespace } from './scratch.ts';

beforeEach(needKernel);

/** Services enough for trees of several levels, ports on one address, and one with its endpoints in groups. */
function crowd(family: Family): ReturnType<typeof rulesOf> {
  const address = (number: number): string =>
    family === 'ipv4' ? `10.96.${number >> 4}.${(number & 15) * 16}` : `fd00:10:96::${number.toString(16)}`;
  const specs = Array.from(
    { length: 90 },
    (_, index): ServiceSpec => ({
      protocol: (['tcp', 'udp', 'sctp'] as const)[index % 3] ?? 'tcp',
      port: 1000 + index * 7,
      cluster: address(index < 50 ? index : 200),
      external: index % 5 === 0 ? address(1000 + index) : undefined,
      balancer: index % 7 === 0 ? address(2000 + index) : undefined,
      nodePort: index % 2 === 0 ? 30_000 + index : undefined,
      endpoints: index === 3 ? 70 : index % 4,
      local: index % 3 === 0,
    }),
  );
  return rulesOf(specs, family);
}

function link(rules: ReturnType<typeof rulesOf>, family: Family): TreeProgram {
  const { program, problems } = linkTree(sectionsOf(rules), { family, provideKubeChains: true });
  expect(problems).toEqual([]);
  return program;
}

describe.each([
  ['ipv4', 'iptables', 'nft'],
  ['ipv4', 'iptables', 'legacy'],
  ['ipv6', 'ip6tables', 'nft'],
  ['ipv6', 'ip6tables', 'legacy'],
] as const)('%s with %s-%s', (family, tool, backend) => {
  beforeEach((context) => needBackend(context, backend));
  const restore = (payload: string): string => feed(`${tool}-${backend}-restore --noflush`, payload);
  const save = `${tool}-${backend}-save\n`;

  test.each([
    ['one Service', family === 'ipv4' ? cart() : cartIPv6()],
    ['many Services', crowd(family)],
  ] as const)('%s: the kernel prints every chain as the linker does', (_title, rules) => {
    const program = link(rules, family);
    const held = readBack(inScratchNamespace(`${restore(printProgram(settledProgram(program)))}${save}`), family);
    for (const table of tableNames) {
      const { chains, baseChains, jumps } = program[table];
      expect(Object.fromEntries(held[table].chains)).toEqual(
        Object.fromEntries([...chains].map(([name, { digest }]) => [name, digest])),
      );
      expect(Object.fromEntries(held[table].others)).toEqual(
        Object.fromEntries([...baseChains, ...settledEntries(program[table])]),
      );
      expect(held[table].jumps.toSorted()).toEqual([...jumps].toSorted());
    }
  });
});
