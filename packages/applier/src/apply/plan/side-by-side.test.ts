import { type Family, type FamilyProgram, type ResolvedRules, settledProgram, trace } from '@sluice/netfilter';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  addresses,
  endpointOf,
  rulesOf,
  type ServiceSpec,
  services,
} from '../../../../netfilter/src/link/tree/cluster.fixture.ts';
import { differences, flatOf, packetsTo, treeOf, worldOf } from '../../../../netfilter/src/link/tree/parity.fixture.ts';
import { type Lead, sideBySide } from './side-by-side.ts';

const families = ['ipv4', 'ipv6'] as const;
const both = ['SLUICE-F', 'SLUICE-N'];

/** Two programs in one kernel. */
function beside(old: ResolvedRules, fresh: ResolvedRules, family: Family, lead: Lead): FamilyProgram {
  const [a, b] = [settledProgram(treeOf(old, family)), settledProgram(treeOf(fresh, family))];
  return { filter: sideBySide('filter', a.filter, b.filter, lead), nat: sideBySide('nat', a.nat, b.nat, lead) };
}

test.each(families)('%s: during probation the switches choose between two programs', (family) => {
  fc.assert(
    fc.property(services(family), services(family), (before, after) => {
      const [a, b] = [rulesOf(before, family), rulesOf(after, family)];
      const trial = beside(a, b, family, 'switch');
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

test.each(families)('%s: when the new program leads, every packet is treated as by it alone', (family) => {
  fc.assert(
    fc.property(
      services(family),
      services(family),
      fc.array(addresses(family), { minLength: 30, maxLength: 30 }),
      (before, after, unused) => {
        const [a, b] = [rulesOf(before, family), rulesOf(after, family)];
        const packets = [...packetsTo(before, family, []), ...packetsTo(after, family, unused)];
        expect(differences(beside(a, b, family, 'new'), flatOf(b, family), packets)).toEqual([]);
      },
    ),
    { ...runs(4), endOnFailure: true },
  );
});

const spec: ServiceSpec = { protocol: 'udp', port: 53, cluster: '10.96.0.10', endpoints: 2, local: false };
const gone: ServiceSpec = { ...spec, endpoints: 0 };

/** The verdicts for a packet to the Service of two programs during probation, with these switches on. */
function verdictsOf(old: ServiceSpec, fresh: ServiceSpec, switches: readonly string[]): readonly string[] {
  const trial = beside(rulesOf([old], 'ipv4'), rulesOf([fresh], 'ipv4'), 'ipv4', 'switch');
  const { cluster: destination, protocol, port } = spec;
  const packet = { family: 'ipv4', source: '198.51.100.7', in: 'eth0', destination, protocol, port } as const;
  return trace(trial, packet, { localAddresses: [], switches })
    .map(({ verdict, to }) => `${verdict} ${to ?? ''}`.trim())
    .toSorted();
}

const served = [`dnat ${endpointOf('ipv4', 0, 0)}:8080`, `dnat ${endpointOf('ipv4', 0, 1)}:8080`];

test('with the filter switched before nat, a Service of both programs is served by the old endpoints', () => {
  expect(verdictsOf(spec, gone, [])).toEqual(served);
  expect(verdictsOf(spec, gone, ['SLUICE-F'])).toEqual(served);
  expect(verdictsOf(spec, gone, both)).toEqual(['reject']);
  // The state nat on and filter off never occurs: the packet would leave the node with the Service's address.
  expect(verdictsOf(spec, gone, ['SLUICE-N'])).toEqual(['pass']);
});

test('with the filter switched before nat, a Service that gets its first endpoint is refused, and leaves the node in no case', () => {
  expect(verdictsOf(gone, spec, [])).toEqual(['reject']);
  expect(verdictsOf(gone, spec, ['SLUICE-F'])).toEqual(['reject']);
  expect(verdictsOf(gone, spec, both)).toEqual(served);
});
