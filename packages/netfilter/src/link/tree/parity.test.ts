import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { addresses, rulesOf, services } from './cluster.fixture.ts';
import { settledProgram } from './flatten.ts';
import { differences, flatOf, packetsTo, treeOf } from './parity.fixture.ts';

/** Printed by fast-check when a property fails. */
const families = ['ipv4', 'ipv6'] as const;

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
