import {
  canonicalRule,
  type FamilyProgram,
  linkFlat,
  linkTree,
  type ResolvedRules,
  sectionsOf,
  settledProgram,
} from '@sluice/netfilter';
import { describe, expect, test } from 'vitest';
import { server } from '../../ports/ipvs/states.fixture.ts';
import { holds, isNowhere, type ServiceView, type Unnamed, viewService } from './service-view.ts';
import type { NodeState, Observed } from '../../ports/node-state.ts';

const chain = 'KUBE-SVC-AAAAAAAAAAAAAAAA';
const base = {
  filter: ['KUBE-SERVICES', 'KUBE-FORWARD'],
  nat: ['KUBE-SERVICES', 'KUBE-POSTROUTING', 'KUBE-MARK-MASQ'],
};
const rules: ResolvedRules = {
  filter: { chains: base.filter, rules: [] },
  nat: {
    chains: [...base.nat, chain],
    rules: [
      '-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN',
      '-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000',
      `-A KUBE-SERVICES -m comment --comment "shop/web:http cluster IP" -m tcp -p tcp -d 10.96.0.10 --dport 80 -j ${chain}`,
      `-A ${chain} -m tcp -p tcp -j DNAT --to-destination 10.244.1.5:8080`,
    ],
  },
};
const programs: Readonly<Record<'flat' | 'tree', FamilyProgram>> = {
  flat: linkFlat(rules, 'ipv4').program,
  tree: settledProgram(linkTree(sectionsOf(rules), { family: 'ipv4' }).program),
};
/** The same with a rule before the last one. */
const longer: ResolvedRules = {
  ...rules,
  nat: {
    ...rules.nat,
    rules: [
      ...rules.nat.rules.slice(0, -1),
      `-A ${chain} -s 10.244.1.5 -j KUBE-MARK-MASQ`,
      ...rules.nat.rules.slice(-1),
    ],
  },
};
const twice: typeof programs = {
  flat: linkFlat(longer, 'ipv4').program,
  tree: settledProgram(linkTree(sectionsOf(longer), { family: 'ipv4' }).program),
};
const emptyIpvs: Unnamed = { servers: new Set(), rules: new Set() };
const stateOf = (program: FamilyProgram): NodeState => ({ families: { ipv4: program }, sysctls: new Map() });

/** The contents of a kernel with this program, after changes to the lines of its nat table. */
function observedOf(
  { filter, nat }: FamilyProgram,
  edit = (lines: readonly string[]): readonly string[] => lines,
): Observed {
  const table = ({ chains }: FamilyProgram['nat'], change = edit) => ({
    chains: new Map([...chains].map(([name, lines]) => [name, { builtIn: false, rules: change(lines) }])),
  });
  return { ipv4: { filter: table(filter, (lines) => lines), nat: table(nat) } };
}

const textsOf = (view: ServiceView): readonly string[] =>
  view.rules.flatMap(({ lines }) => lines).map((line) => `${line.in} ${line.text}`);

describe.each(['flat', 'tree'] as const)('layout %s', (layout) => {
  const program = programs[layout];
  const own = layout === 'flat' ? chain : /SLU-SVC-A+\.../.exec([...program.nat.chains.keys()].join(' '))?.[0];

  test('holds a Service whose lines are all in the kernel', () => {
    const view = viewService('shop/web', stateOf(program), { observed: observedOf(program) }, emptyIpvs);
    expect(holds(view)).toBe(true);
    expect(textsOf(view)).toEqual([
      `both :${own} - [0:0]`,
      expect.stringMatching(/^both -A (?:KUBE-SERVICES|SLUICE-T-\S+) .*"shop\/web:http cluster IP"/),
      `both -A ${own} -p tcp -m tcp -j DNAT --to-destination 10.244.1.5:8080`,
    ]);
  });

  test('shows an added and a missing line', () => {
    const edited = observedOf(program, (lines) =>
      lines.map((line) => line.replace('10.244.1.5:8080', '10.244.6.6:8080')),
    );
    const view = viewService('shop/web', stateOf(program), { observed: edited }, emptyIpvs);
    expect(holds(view)).toBe(false);
    expect(textsOf(view).filter((line) => !line.startsWith('both '))).toEqual([
      expect.stringMatching(/^kernel -A .*10\.244\.6\.6:8080$/),
      expect.stringMatching(/^generation -A .*10\.244\.1\.5:8080$/),
    ]);
  });

  test('shows reordered and duplicate rules', () => {
    const leads = (lines: readonly string[]): boolean => lines.some((line) => line.includes('--to-destination'));
    for (const edit of [
      (lines: readonly string[]) => (leads(lines) ? [...lines, ...lines] : lines),
      (lines: readonly string[]) => (leads(lines) ? lines.toReversed() : lines),
    ]) {
      const view = viewService(
        'shop/web',
        stateOf(twice[layout]),
        { observed: observedOf(twice[layout], edit) },
        emptyIpvs,
      );
      expect([holds(view), view.rules.map(({ isReordered }) => isReordered)]).toEqual([false, [true]]);
    }
    const same = viewService('shop/web', stateOf(twice[layout]), { observed: observedOf(twice[layout]) }, emptyIpvs);
    expect(holds(same)).toBe(true);
  });

  test('shows all lines as missing without tables', () => {
    const view = viewService(
      'shop/web',
      stateOf(program),
      { observed: { ipv4: { filter: { chains: new Map() }, nat: { chains: new Map() } } } },
      emptyIpvs,
    );
    expect(textsOf(view).map((line) => line.split(' ')[0])).toEqual(['generation', 'generation', 'generation']);
    expect(holds(view)).toBe(false);
  });

  test('reports an unknown Service as nowhere', () => {
    expect(isNowhere(viewService('shop/we', stateOf(program), { observed: observedOf(program) }, emptyIpvs))).toBe(
      true,
    );
  });
});

test("kube-proxy's own rules of the Service are not Sluice's", () => {
  const observed = observedOf({
    filter: programs.tree.filter,
    nat: { chains: new Map([...programs.tree.nat.chains, ...programs.flat.nat.chains]), jumps: [] },
  });
  const view = viewService('shop/web', stateOf(programs.tree), { observed }, emptyIpvs);
  expect(holds(view)).toBe(true);
});

test('shows the rules of a release in probation', () => {
  const next = settledProgram(
    linkTree(
      sectionsOf({
        ...rules,
        nat: { ...rules.nat, rules: rules.nat.rules.map((rule) => rule.replace('1.5:8080', '1.6:8080')) },
      }),
      {
        family: 'ipv4',
      },
    ).program,
  );
  const both = new Map([...next.nat.chains, ...programs.tree.nat.chains]);
  const observed = observedOf({ filter: programs.tree.filter, nat: { chains: both, jumps: [] } });
  const view = viewService('shop/web', stateOf(programs.tree), { observed }, emptyIpvs);
  expect(textsOf(view).filter((line) => line.startsWith('kernel '))).toHaveLength(3);
  expect(textsOf(view).filter((line) => line.startsWith('both '))).toHaveLength(3);
});

describe('mode ipvs', () => {
  const outFilter =
    '-A KUBE-IPVS-OUT-FILTER -s 203.0.113.71/32 -m ipvs --vaddr 203.0.113.71 --vproto tcp --vport 80 -j DROP';
  const unnamed: Unnamed = { servers: new Set(['-t 10.96.0.10:80']), rules: new Set([canonicalRule(outFilter)]) };
  const [web, other] = [server('10.96.0.10:80/TCP', { '10.244.1.5:8080': 1 }), server('10.96.0.11:80/TCP', {})];
  const virtualServers = new Map([
    ['10.96.0.10:80/TCP', web],
    ['10.96.0.11:80/TCP', other],
  ]);
  const program: FamilyProgram = {
    nat: { chains: new Map(), jumps: [] },
    filter: { chains: new Map([['KUBE-IPVS-OUT-FILTER', [outFilter, outFilter.replaceAll('.71', '.72')]]]), jumps: [] },
  };
  const ipvs = { virtualServers, sets: new Map(), addresses: { ipv4: [], ipv6: [] }, excludeCIDRs: [] };
  const state: NodeState = { ...stateOf(program), ipvs };
  const seen = (servers: typeof virtualServers): ServiceView => {
    const { filter } = program;
    const chains = new Map([...filter.chains].map(([name, lines]) => [name, { builtIn: false, rules: lines }]));
    return viewService(
      'shop/web',
      state,
      { observed: { ipv4: { filter: { chains }, nat: { chains: new Map() } } }, servers },
      unnamed,
    );
  };

  test('shows the virtual servers and rules that its files name', () => {
    const view = seen(virtualServers);
    expect(view.virtualServers).toEqual([
      { text: '-A -t 10.96.0.10:80 -s rr', in: 'both' },
      { text: '-a -t 10.96.0.10:80 -r 10.244.1.5:8080 -m -w 1', in: 'both' },
    ]);
    expect(textsOf(view)).toEqual([`both ${outFilter}`]);
  });

  test('does not count a draining real server as a difference', () => {
    const draining = [{ server: '10.96.0.10:80/TCP', real: '10.244.1.9:8080', until: 0 }];
    const real = new Map([...web.real, ['10.244.1.9:8080', { address: '10.244.1.9', port: 8080, weight: 0 }] as const]);
    const servers = new Map([['10.96.0.10:80/TCP', { ...web, real }]]);
    const lines = (drains: typeof draining) =>
      viewService('shop/web', state, { observed: {}, servers, draining: drains }, { ...unnamed, rules: new Set() });
    expect([holds(lines(draining)), lines(draining).virtualServers.map((line) => line.in)]).toEqual([
      true,
      ['both', 'both', 'draining'],
    ]);
    expect(holds(lines([]))).toBe(false);
  });

  test('shows a missing real server', () => {
    const view = seen(new Map([['10.96.0.10:80/TCP', { ...web, real: new Map() }]]));
    expect([holds(view), view.virtualServers.map((line) => line.in)]).toEqual([false, ['both', 'generation']]);
  });
});
