// @module-tag quick
import { frontendMark, tableLine } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { WorkCost } from '../../kernel/processor-time.ts';
import { Counting } from './counting.ts';

const frontend = '10.96.0.10 . tcp . 80';

test('reports the new connections of Services that the table of mode nftables counts', async () => {
  const settings = [tableLine({ detector: 'address', masqueradeAll: false, endpointCounters: true })];
  const state = {
    families: {},
    sysctls: new Map(),
    nft: { settings, frontends: new Map([[frontend, ['endpoint 10.244.1.5 . 8080']]]) },
    services: new Map([['shop/web', [`${frontendMark}${frontend}`]]]),
  };
  const read = async (): Promise<object[]> => [{ frontend, endpoint: '10.244.1.5 . 8080', connections: 7 }];
  const node = {
    config: { countConnections: false, countTraffic: false, countedServices: 10 },
    journal: { active: { number: 1, revision: 0, version: 'a', state } },
    kernel: { nft: { counts: { read } } },
    repairs: () => 0,
  };
  const counting = new Counting(node as unknown as ConstructorParameters<typeof Counting>[0]);
  const { endpoints, services } = await counting.counts(new WorkCost());
  expect(endpoints).toHaveLength(1);
  expect(services?.services).toMatchObject([
    { service: 'shop/web', connections: 7, endpoints: [{ endpoint: '10.244.1.5:8080', connections: 7 }] },
  ]);
});
