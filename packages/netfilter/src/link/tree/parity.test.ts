import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Family } from '../../family.ts';
import { trace } from '../../trace/trace.ts';
import type { Outcome, Packet } from '../../trace/packet.ts';
import type { World } from '../../trace/world.ts';
import { linkFlat } from '../flat.ts';
import type { FamilyProgram, ResolvedRules } from '../program.ts';
import { addresses, endpointOf, nodeAddress, rulesOf, type ServiceSpec, services } from './cluster.fixture.ts';
import { settledProgram, trialProgram } from './flatten.ts';
import { linkTree, sectionsOf } from './link.ts';
import type { TreeProgram } from './program.ts';

/** Printed by fast-check when a property fails. */
const families = ['ipv4', 'ipv6'] as const;

const worldOf = (family: Family): World => ({ localAddresses: [nodeAddress(family)] });

function treeOf(rules: ResolvedRules, family: Family, knowsBpf = true): TreeProgram {
  const { program, problems } = linkTree(sectionsOf(rules), { family, knowsBpf });
  expect(problems).toEqual([]);
  return program;
}

function flatOf(rules: ResolvedRules, family: Family): FamilyProgram {
  const { program, problems } = linkFlat(rules, family);
  expect(problems).toEqual([]);
  return program;
}

/** Packets to every address and port of the Services, and to neighbouring ones, from clients of every kind. */
function packetsTo(
  specs: readonly ServiceSpec[],
  family: Family,
  unusedAddresses: readonly string[],
): readonly Packet[] {
  const clients: readonly Pick<Packet, 'source' | 'in'>[] =
    family === 'ipv4'
      ? [{ source: '198.51.100.7', in: 'eth0' }, { source: '203.0.113.7', in: 'eth0' }, { source: nodeAddress(family) }]
      : [
          { source: '2001:db8:51::7', in: 'eth0' },
          { source: '2001:db8:9::7', in: 'eth0' },
          { source: nodeAddress(family) },
        ];
  const places = specs.flatMap((spec, index) => {
    const { cluster, external, balancer, nodePort, port, protocol } = spec;
    const vips = [cluster, external, balancer].flatMap((address) =>
      address === undefined ? [] : [{ destination: address, port, protocol }],
    );
    const node = [nodePort ?? 30_050, 32_000 + index, port].map((own) => ({
      destination: nodeAddress(family),
      port: own,
      protocol,
    }));
    const misses = [
      { destination: cluster, port: port ^ 1 || 2, protocol },
      { destination: unusedAddresses[index] ?? cluster, port, protocol },
    ];
    const other = protocol === 'udp' ? ('tcp' as const) : ('udp' as const);
    return [...vips, ...node, ...misses, { destination: cluster, port, protocol: other }];
  });
  const pods = specs.flatMap(({ cluster, port, protocol, endpoints }, index) =>
    Array.from({ length: Math.min(endpoints, 2) }, (_, at) => {
      const source = endpointOf(family, index, at);
      return { destination: cluster, port, protocol, family, source, in: 'cni0' };
    }),
  );
  return [...pods, ...places.flatMap((place) => clients.map((client) => ({ ...place, ...client, family })))];
}

/** Outcomes without their paths, and their probabilities. */
const kinds = (outcomes: readonly Outcome[]): ReadonlyMap<string, number> =>
  new Map(
    outcomes.map(({ verdict, to, masquerade, probability }) => [`${verdict} ${to ?? ''} ${masquerade}`, probability]),
  );

/** The difference between two programs for a packet; `''` if they are equivalent. */
function difference(tree: FamilyProgram, flat: FamilyProgram, packet: Packet, world: World): string {
  const expected = kinds(trace(flat, packet, worldOf(packet.family)));
  const found = kinds(trace(tree, packet, world));
  const differs = [...new Set([...expected.keys(), ...found.keys()])].some((kind) => {
    // The flat rules have ten digits; the kernel's own unit is 2^-31.
    return Math.abs((found.get(kind) ?? 2) - (expected.get(kind) ?? 0)) > 1e-8;
  });
  if (!differs) return '';
  const place = `${packet.source} to ${packet.destination} ${packet.protocol}/${packet.port}`;
  return `${place}: ${JSON.stringify([...found])} instead of ${JSON.stringify([...expected])}`;
}

/** The distinguishing packets of two programs. */
function differences(
  tree: FamilyProgram,
  flat: FamilyProgram,
  packets: readonly Packet[],
  switches: readonly string[] = [],
): readonly string[] {
  return packets
    .map((packet) => difference(tree, flat, packet, { ...worldOf(packet.family), switches }))
    .filter(Boolean);
}

test.each(families)('%s: flat and tree are equivalent for every packet, with equal shares of endpoints', (family) => {
  fc.assert(
    fc.property(
      services(family),
      fc.array(addresses(family), { minLength: 30, maxLength: 30 }),
      (specs, unusedAddresses) => {
        const rules = rulesOf(specs, family);
        const flat = flatOf(rules, family);
        for (const knowsBpf of [true, false]) {
          const tree = settledProgram(treeOf(rules, family, knowsBpf));
          expect(differences(tree, flat, packetsTo(specs, family, unusedAddresses))).toEqual([]);
        }
      },
    ),
    { ...runs(12), endOnFailure: true },
  );
});

const both = ['SLUICE-F', 'SLUICE-N'];

test.each(families)('%s: during probation the switches choose between two programs', (family) => {
  fc.assert(
    fc.property(services(family), services(family), (before, after) => {
      const [a, b] = [rulesOf(before, family), rulesOf(after, family)];
      const trial = trialProgram(treeOf(a, family), treeOf(b, family));
      expect(differences(trial, flatOf(a, family), packetsTo(before, family, []))).toEqual([]);
      // With the switch on, the filter tests both; a packet that only A rejects or drops has no verdict of B.
      const served = packetsTo(after, family, []).filter((packet) =>
        trace(flatOf(b, family), packet, worldOf(family)).every(({ verdict }) => verdict === 'dnat'),
      );
      expect(differences(trial, flatOf(b, family), served, both)).toEqual([]);
    }),
    { ...runs(4), endOnFailure: true },
  );
});

test('with the filter switched before nat, a Service of both programs is served by the old endpoints', () => {
  const spec: ServiceSpec = { protocol: 'udp', port: 53, cluster: '10.96.0.10', endpoints: 2, local: false };
  const gone: ServiceSpec = { ...spec, endpoints: 0 };
  const [a, b] = [rulesOf([spec], 'ipv4'), rulesOf([gone], 'ipv4')];
  const trial = trialProgram(treeOf(a, 'ipv4'), treeOf(b, 'ipv4'));
  const packet = {
    family: 'ipv4',
    source: '198.51.100.7',
    in: 'eth0',
    destination: '10.96.0.10',
    protocol: 'udp',
    port: 53,
  } as const;
  const verdicts = (switches: readonly string[]): readonly string[] =>
    trace(trial, packet, { localAddresses: [], switches }).map(({ verdict, to }) => `${verdict} ${to ?? ''}`.trim());
  const served = [`dnat ${endpointOf('ipv4', 0, 0)}:8080`, `dnat ${endpointOf('ipv4', 0, 1)}:8080`];
  expect(verdicts([]).toSorted()).toEqual(served);
  expect(verdicts(['SLUICE-F']).toSorted()).toEqual(served);
  expect(verdicts(both)).toEqual(['reject']);
  // The state nat on and filter off never occurs: the packet would leave the node with the Service's address.
  expect(verdicts(['SLUICE-N'])).toEqual(['pass']);
});
