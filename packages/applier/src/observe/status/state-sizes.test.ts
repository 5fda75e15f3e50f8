// @module-tag quick
import { emptyTable, Layered } from '@sluice/netfilter';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import type { NodeState } from '../../ports/node-state.ts';
import { StateSizes } from './state-sizes.ts';

const choice = (chain: string, endpoint: string): string =>
  `-A ${chain} -p tcp -m tcp -j DNAT --to-destination ${endpoint}`;
const chains = Layered.of(
  new Map([
    ['SLUICE-SERVICES', ['-A SLUICE-SERVICES -g SLUICE-R-A.00']],
    ['SLU-SVC-AAAAAAAAAAAAAAAA.00', [choice('SLU-SVC-AAAAAAAAAAAAAAAA.00', '10.0.0.1:80')]],
  ]),
);
const state = (nat: typeof chains): NodeState => ({
  families: { ipv4: { nat: { chains: nat, jumps: [] }, filter: emptyTable } },
  sysctls: new Map(),
});

async function sizesOf(registry: Registry): Promise<readonly string[]> {
  return (await registry.metrics()).split('\n').filter((line) => line.startsWith('sluice_'));
}

test('counts Service ports and endpoints over changes of single chains', async () => {
  const registry = new Registry();
  const sizes = new StateSizes(registry);
  sizes.activate(state(chains));
  expect(await sizesOf(registry)).toContain('sluice_service_ports{ip_family="IPv4"} 1');
  const name = 'SLU-SVC-AAAAAAAAAAAAAAAA.01';
  const grown = chains.with([
    ['SLU-SVC-AAAAAAAAAAAAAAAA.00', undefined],
    [name, [choice(name, '10.0.0.1:80'), choice(name, '10.0.0.2:80')]],
  ]);
  sizes.activate(state(grown));
  expect(await sizesOf(registry)).toEqual([
    'sluice_service_ports{ip_family="IPv4"} 1',
    'sluice_service_ports{ip_family="IPv6"} 0',
    'sluice_endpoints{ip_family="IPv4"} 2',
    'sluice_endpoints{ip_family="IPv6"} 0',
  ]);
  sizes.activate(undefined);
  sizes.activate(state(chains));
  expect(await sizesOf(registry)).toContain('sluice_endpoints{ip_family="IPv4"} 1');
});

test('counts again in another mode, and there single frontends over changes', async () => {
  const registry = new Registry();
  const sizes = new StateSizes(registry);
  const inNft = (frontends: Layered<readonly string[]>): NodeState => ({
    families: {},
    sysctls: new Map(),
    nft: { settings: [], frontends },
  });
  sizes.activate(state(chains));
  const key = '10.96.0.1 . tcp . 80';
  const one = Layered.of(new Map([[key, ['cluster-ip', 'endpoint 10.0.0.1 . 80', 'endpoint 10.0.0.2 . 80']]]));
  sizes.activate(inNft(one));
  expect(await sizesOf(registry)).toContain('sluice_endpoints{ip_family="IPv4"} 2');
  sizes.activate(inNft(one.with([[key, ['cluster-ip']]])));
  expect(await sizesOf(registry)).toEqual([
    'sluice_service_ports{ip_family="IPv4"} 0',
    'sluice_service_ports{ip_family="IPv6"} 0',
    'sluice_endpoints{ip_family="IPv4"} 0',
    'sluice_endpoints{ip_family="IPv6"} 0',
  ]);
  sizes.activate(state(chains));
  expect(await sizesOf(registry)).toContain('sluice_endpoints{ip_family="IPv4"} 1');
});

test('counts frontends of mode nftables that have endpoints', async () => {
  const registry = new Registry();
  const frontends = new Map([
    ['10.96.0.1 . tcp . 80', ['cluster-ip', 'endpoint 10.0.0.1 . 80', 'endpoint 10.0.0.2 . 80', 'local 10.0.0.1 . 80']],
    ['10.96.0.2 . tcp . 80', ['cluster-ip']],
    ['fd00::1 . tcp . 80', ['endpoint fd00::2 . 80']],
  ]);
  new StateSizes(registry).activate({ families: {}, sysctls: new Map(), nft: { settings: [], frontends } });
  expect(await sizesOf(registry)).toEqual([
    'sluice_service_ports{ip_family="IPv4"} 1',
    'sluice_service_ports{ip_family="IPv6"} 1',
    'sluice_endpoints{ip_family="IPv4"} 2',
    'sluice_endpoints{ip_family="IPv6"} 1',
  ]);
});
