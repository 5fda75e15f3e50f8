import { expect, test } from 'vitest';
import { summarise, trace } from '../trace/trace.ts';
import type { Packet } from '../packet/packet.ts';
import { cart, clusterPolicy, withoutEndpoints, withoutLocal } from './cart.fixture.ts';
import { widen } from './change.ts';
import { linkFlat } from './flat.ts';
import type { FamilyProgram, ResolvedRules } from './program.ts';
import { settledProgram } from './tree/flatten.ts';
import { linkTree, sectionsOf } from './tree/link.ts';

const nothing = { chains: [], rules: [] };

/** States of a node between which a Service may change. */
const states: readonly (readonly [string, ResolvedRules])[] = [
  ['endpoints', cart()],
  ['no local endpoint', withoutLocal],
  ['no endpoint', withoutEndpoints],
  ['policy Cluster', clusterPolicy],
  ['another mark', cart({ filter: otherMark, nat: otherMark })],
  ['no Service', cart({ filter: withoutCart, nat: withoutCart })],
  ['nothing', { filter: nothing, nat: nothing }],
];

function otherMark(text: string): string {
  return text.replaceAll('0x00004000', '0x00008000');
}

function withoutCart(text: string): string {
  return text.replaceAll(/^.*(shop\/cart|-(EXT|SVC|SVL|SEP|FW)-).*\n/gm, '');
}

const sources = [
  { source: '10.244.2.30', in: 'veth1' },
  { source: '10.244.2.9', in: 'veth2' },
  { source: '198.51.100.7', in: 'eth0' },
  { source: '192.0.2.200', in: 'eth0' },
  { source: '172.18.0.2' },
  { source: '127.0.0.1' },
];

const destinations = [
  { destination: '10.96.7.1', port: 80 },
  { destination: '192.0.2.50', port: 80 },
  { destination: '203.0.113.9', port: 80 },
  { destination: '172.18.0.2', port: 30080 },
  { destination: '172.18.0.2', port: 32000 },
  { destination: '127.0.0.1', port: 30080 },
];

const packets: readonly Packet[] = sources.flatMap((from) =>
  destinations.map((to) => ({ family: 'ipv4', protocol: 'tcp', ...from, ...to })),
);

const traceSummary = (program: FamilyProgram, packet: Packet): string =>
  summarise(trace(program, packet, { localAddresses: ['172.18.0.2'] }));

/** The programs that a packet may traverse while the rules change. */
function allowed(old: string, updated: string): readonly string[] {
  const served = [old, updated].every((summary) => summary.includes('dnat') || summary === 'accept');
  if (served) return [old, updated];
  // A packet that one of the two drops may be rejected in between.
  return [old, updated, 'drop', ...(old === 'drop' || updated === 'drop' ? ['reject'] : [])];
}

const layouts = {
  flat: (rules: ResolvedRules): FamilyProgram => linkFlat(rules, 'ipv4').program,
  tree: (rules: ResolvedRules, taken?: FamilyProgram): FamilyProgram =>
    settledProgram(linkTree(sectionsOf(rules), { family: 'ipv4', ...(taken ? { taken } : {}) }).program),
};
const layoutNames = ['flat', 'tree'] as const;
const changes = layoutNames.flatMap((layout) =>
  states.flatMap(([a, from]) => states.map(([b, to]) => [layout, a, b, from, to] as const)),
);

test.each(changes)('layout %s, from %s to %s: packets served before and after are served all the time', (...change) => {
  const [layout, , , old, updated] = change;
  const from = layouts[layout](old);
  const to = layouts[layout](updated, from);
  const filter = widen(from.filter, to.filter);
  for (const packet of packets) {
    const permitted = allowed(traceSummary(from, packet), traceSummary(to, packet));
    for (const nat of [from.nat, to.nat]) {
      const actual = traceSummary({ filter, nat }, packet);
      expect({ packet, actual, fine: permitted.includes(actual) }).toEqual({ packet, actual, fine: true });
    }
  }
});
