import { type Observation, observedDigest, observationOf, printParityReport, textsOf } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { differenceWith, reportWith } from '../../../../bundle/src/parity/report.fixture.ts';
import { reportGate } from './report-gate.ts';

const version = '8'.repeat(16);
const bootId = '0f3b1e0e-7d6b-4a35-9c22-6d1f54a6c1b2';

/** A node whose kube-proxy has a chain of this name, beside a foreign rule for this address: `A`, `A 10.0.0.1`. */
function stateOf(name: string): Observation {
  const [chain = '', address = '10.0.0.0'] = name.split(' ');
  const nat = `:PREROUTING ACCEPT\n:KUBE-SERVICES -\n:KUBE-SVC-${chain} -\n-A KUBE-SERVICES -j KUBE-SVC-${chain}`;
  const filter = `:FORWARD ACCEPT\n-A FORWARD -d ${address}/32 -j DROP`;
  const text = `*filter\n${filter}\nCOMMIT\n*nat\n${nat}\nCOMMIT\n`;
  return observationOf({ node: 'node-a', tools: {}, bootId }, textsOf(new Map([['iptables-save.txt', text]])));
}

const reportOf = (seen: Observation, isDifferent: boolean): string =>
  printParityReport(
    reportWith({
      bootId,
      observedDigest: observedDigest(seen),
      version,
      modes: { observed: ['iptables'], desired: 'iptables' },
      differences: isDifferent ? [differenceWith()] : [],
    }),
  );

/** @param chains what the node has at each look; the last one stays @param bad the chain with which it is treated differently */
async function refusal(chains: readonly string[], bad?: string) {
  const compared: string[] = [];
  let looks = 0;
  let now = '';
  const gate = reportGate({
    node: 'node-a',
    accepted: [],
    observe: async () => stateOf((now = chains[Math.min(looks++, chains.length - 1)] ?? '')),
    compare: async () => {
      compared.push(now);
      return reportOf(stateOf(now), now === bad);
    },
    servesElsewhere: async () => false,
    nowMs: () => Date.parse('2026-12-01T12:00:00Z'),
  });
  const refused = await gate.refuse(version);
  return { compared, why: refused?.problems[0]?.message };
}

test('a comparison counts when the node is still as it was compared', async () => {
  expect(await refusal(['A', 'A'])).toEqual({ compared: ['A'], why: undefined });
});

test('what changed while it was compared is compared, too', async () => {
  expect(await refusal(['A', 'B', 'B'])).toEqual({ compared: ['A', 'B'], why: undefined });
  const { compared, why } = await refusal(['A', 'B', 'B'], 'B');
  expect(compared).toEqual(['A', 'B']);
  expect(why).toContain('1111111111111111');
});

test('of a node that never rests three states are compared', async () => {
  const chains = ['A', 'B', 'C', 'D', 'E'];
  expect(await refusal(chains)).toEqual({ compared: ['A', 'B', 'C'], why: undefined });
  expect((await refusal(chains, 'C')).why).toContain('not accepted');
});

test('what another program changed at last is not taken over, however often kube-proxy changes', async () => {
  const { compared, why } = await refusal(['A', 'B', 'C', 'D 10.0.0.1']);
  expect(compared).toEqual(['A', 'B', 'C']);
  expect(why).toContain(
    'rules of another program changed during the last of 3 comparisons; run the same command again',
  );
  expect(await refusal(['A', 'B', 'C 10.0.0.1', 'D 10.0.0.1'])).toEqual({
    compared: ['A', 'B', 'C 10.0.0.1'],
    why: undefined,
  });
});

test('a report about another state, or of another bundle, does not fit', async () => {
  const gate = (text: string) =>
    reportGate({
      node: 'node-a',
      accepted: [],
      observe: async () => stateOf('A'),
      compare: async () => text,
      servesElsewhere: async () => false,
      nowMs: () => Date.parse('2026-12-01T12:00:00Z'),
    });
  const whyOf = async (text: string, of = version) => (await gate(text).refuse(of))?.problems[0]?.message;
  expect(await whyOf(reportOf(stateOf('A'), false))).toBeUndefined();
  expect(await whyOf(reportOf(stateOf('B'), false))).toContain('have changed since');
  expect(await whyOf(reportOf(stateOf('A'), false), '9'.repeat(16))).toContain('it is for version');
  expect(await whyOf('{}')).toContain('apiVersion is missing');
});
