// @module-tag quick
import { readQuarantine } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { serviceOfFrontend } from './node.ts';

test('reads the Services of quarantine.yaml with their codes, and nothing else of it', () => {
  const text = `apiVersion: sluice.dev/v1alpha1
kind: Quarantine
items:
  - object: Service shop/web
    rules: none
    problems:
      - code: VIP_CONFLICT
        object: Service shop/web
      - code: FIELD_INVALID
        object: Service shop/web
  - object: EndpointSlice shop/cart-x7
    rules: last good
    problems:
      - code: FIELD_INVALID
        object: EndpointSlice shop/cart-x7
  - object: Service shop/cart; reboot
    problems:
      - code: FIELD_INVALID
`;
  expect([...readQuarantine(text)]).toEqual([['shop/web', ['VIP_CONFLICT', 'FIELD_INVALID']]]);
  expect(readQuarantine('')).toEqual(new Map());
});

const named = (nft: boolean, ...names: readonly string[]) => ({
  services: new Map([['shop/web', names]]),
  ...(nft ? { nft: { settings: [], frontends: new Map() } } : {}),
});

test.each([
  ['a frontend of mode nftables', named(true, 'frontend 10.96.0.10 . tcp . 80'), 'ipv4', '10.96.0.10', 80],
  ['a node port of mode nftables', named(true, 'frontend :: . tcp . 30080'), 'ipv6', undefined, 30_080],
  ['a virtual server', named(false, '[fd00::10]:80/TCP'), 'ipv6', 'fd00::10', 80],
] as const)('names the Service of %s', (_, state, family, address, port) => {
  expect(serviceOfFrontend(state, family, { address, protocol: 'tcp', port })).toBe('shop/web');
  expect(serviceOfFrontend(state, family, { address, protocol: 'udp', port })).toBeUndefined();
  expect(serviceOfFrontend({}, family, { address, protocol: 'tcp', port })).toBeUndefined();
});
