import { expect, test } from 'vitest';
import { lostFlows } from './flows.ts';
import { server, state } from './states.fixture.ts';

const dns = '10.96.0.10:53/UDP';
const two = state([server(dns, { '10.244.1.5:53': 1, '10.244.2.6:53': 1 })]);
const flow = (endpoint: string): object => ({
  family: 'ipv4',
  protocol: 'udp',
  address: '10.96.0.10',
  port: 53,
  endpoint,
});

test.each([
  ['one endpoint goes', two, state([server(dns, { '10.244.2.6:53': 1 })]), [flow('10.244.1.5:53')]],
  ['the last endpoints go', two, state([server(dns)]), [flow('10.244.1.5:53'), flow('10.244.2.6:53')]],
  ['the Service goes', two, state([]), [flow('10.244.1.5:53'), flow('10.244.2.6:53')]],
  ['the node leaves mode ipvs', two, undefined, [flow('10.244.1.5:53'), flow('10.244.2.6:53')]],
  ['only a weight changes', two, state([server(dns, { '10.244.1.5:53': 9, '10.244.2.6:53': 1 })]), []],
  ['an endpoint comes', state([server(dns)]), two, []],
  ['nothing stood before', undefined, two, []],
])('%s: what is left without its endpoint', (_title, before, after, flows) => {
  expect(lostFlows(before, after)).toEqual(flows);
});

test('connections of TCP and SCTP are never among them', () => {
  const others = state([
    server('10.96.0.1:80/TCP', { '10.244.1.5:80': 1 }),
    server('10.96.0.1:90/SCTP', { '10.244.1.5:90': 1 }),
  ]);
  expect(lostFlows(others, undefined)).toEqual([]);
});
