// @module-tag quick
import { expect, test } from 'vitest';
import { readQuarantine } from './node.ts';

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
