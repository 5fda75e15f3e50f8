import { expect, test } from 'vitest';
import { nftBundle, nftServices } from '../../../../bundle/src/virtual/nft.fixture.ts';
import { resolveSections } from '@sluice/bundle';
import { ipvsHost, readIpvs } from '@sluice/netfilter';
import { ipvsBundle } from '../../../../bundle/src/virtual/bundle.fixture.ts';
import type { ServiceNames } from '../../ports/node-state.ts';
import { ServicesMemory, servicesOfServers } from './admit.ts';

const memory = new ServicesMemory();

function read(services: Readonly<Record<string, string>>): ServiceNames {
  const resolved = resolveSections(nftBundle(services), 'node-a');
  if (!('version' in resolved) || !resolved.nft) throw new Error('the bundle is refused');
  return memory.of(resolved.nft);
}

test('names the frontends and the ports of health checks of each Service', () => {
  const services = read(nftServices);
  expect(services.get('shop/web')).toEqual([
    'frontend 10.96.0.30 . tcp . 80',
    'frontend 203.0.113.9 . tcp . 80',
    'frontend 0.0.0.0 . tcp . 30090',
    'health 32090',
  ]);
  expect([...services.keys()].toSorted()).toEqual([
    'shop/cart',
    'shop/chosen',
    'shop/empty',
    'shop/sticky',
    'shop/web',
  ]);
});

test('knows the next bundle by what changed: other endpoints change no name', () => {
  const before = read(nftServices);
  const text = (nftServices['shop/cart'] ?? '').replaceAll('10.244.2.7', '10.244.2.9');
  expect(read({ ...nftServices, 'shop/cart': text })).toBe(before);
  const { 'shop/empty': _, ...others } = nftServices;
  const after = read({
    ...others,
    'shop/late': (nftServices['shop/empty'] ?? '').replaceAll('10.96.0.40', '10.96.0.41'),
  });
  expect(after.has('shop/empty')).toBe(false);
  expect(after.get('shop/late')).toEqual(['frontend 10.96.0.41 . tcp . 80']);
  expect(after.get('shop/web')).toBe(before.get('shop/web'));
  expect(read(nftServices).get('shop/empty')).toEqual(['frontend 10.96.0.40 . tcp . 80']);
});

test('names the virtual servers of each Service, on each address of the node', () => {
  const resolved = resolveSections(ipvsBundle, 'node-a');
  if (!('version' in resolved) || !resolved.ipvs) throw new Error('the fixture is no bundle');
  const host = ipvsHost(resolved.profile, { ipv4: ['192.0.2.11', '198.51.100.1'], ipv6: [] });
  const services = servicesOfServers(resolved.ipvs, host);
  const files = [...ipvsBundle.keys()].filter((path) => path.endsWith('.ipvs') && path.includes('/services/'));
  const ofFiles = files.map((path) => path.replace(/^.*services\/(.*)\.ipvs$/, '$1'));
  expect([...services.keys()].toSorted()).toEqual(ofFiles.toSorted());
  expect(services.get('shop/web')).toContain('10.96.0.10:80/TCP');
  const state = readIpvs(resolved.ipvs, resolved.profile.families, host);
  if ('problems' in state) throw new Error('the fixture is refused');
  expect([...services.values()].flat().toSorted()).toEqual([...state.virtualServers.keys()].toSorted());
});
