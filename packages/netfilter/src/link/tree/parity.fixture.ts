import { expect } from 'vitest';
import type { Family } from '../../family.ts';
import { trace } from '../../trace/trace.ts';
import type { Outcome, Packet } from '../../packet/packet.ts';
import type { World } from '../../trace/world.ts';
import { linkFlat } from '../flat.ts';
import type { FamilyProgram, ResolvedRules } from '../program.ts';
import { endpointOf, nodeAddress, type ServiceSpec } from './cluster.fixture.ts';
import { linkTree, sectionsOf } from './link.ts';
import type { TreeProgram } from './program.ts';

export const worldOf = (family: Family): World => ({ localAddresses: [nodeAddress(family)] });

export function treeOf(rules: ResolvedRules, family: Family, knowsBpf = true): TreeProgram {
  const { program, problems } = linkTree(sectionsOf(rules), { family, knowsBpf });
  expect(problems).toEqual([]);
  return program;
}

export function flatOf(rules: ResolvedRules, family: Family): FamilyProgram {
  const { program, problems } = linkFlat(rules, family);
  expect(problems).toEqual([]);
  return program;
}

/** Packets to every address and port of the Services, and to neighbouring ones, from clients of every kind. */
export function packetsTo(
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
export function differences(
  tree: FamilyProgram,
  flat: FamilyProgram,
  packets: readonly Packet[],
  switches: readonly string[] = [],
): readonly string[] {
  return packets
    .map((packet) => difference(tree, flat, packet, { ...worldOf(packet.family), switches }))
    .filter(Boolean);
}
