// @module-tag quick
import { summariseNode } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { ipvsBundle } from '../../../bundle/src/virtual/bundle.fixture.ts';
import { namesOfServers, readQuarantine } from './names.ts';

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

test('names the Services of virtual servers by the files that have them', () => {
  const resolved = summariseNode(ipvsBundle, 'node-a');
  if (!('version' in resolved)) throw new Error('the fixture is no bundle');
  const names = namesOfServers(resolved, { ipv4: ['192.0.2.11'], ipv6: [] });
  const files = [...ipvsBundle.keys()].filter((path) => path.endsWith('.ipvs') && path.includes('/services/'));
  expect(new Set(names.values())).toEqual(new Set(files.map((path) => path.replace(/^.*services\/(.*)\.ipvs$/, '$1'))));
  expect(names.get('ipv4 10.96.0.10 tcp 80')).toBe('shop/web');
  expect(namesOfServers({ ...resolved, ipvs: undefined as never }, { ipv4: [], ipv6: [] }).size).toBe(0);
});
