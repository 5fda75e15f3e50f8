import { expect, test } from 'vitest';
import { readReceiptSpec } from './spec.ts';

const shown = (text: string): unknown => {
  const spec = readReceiptSpec(text);
  if (typeof spec === 'string') return spec;
  return spec.kind === 'https' ? { ...spec, url: spec.url.href } : spec;
};

test.each([
  ['oci://registry.example.com/sluice/shop', 'oci'],
  ['https://cdn.example.com/sluice', 'https'],
  ['http://127.0.0.1:8080/sluice', 'https'],
  ['git+https://git.example.com/shop.git', 'git'],
  ['git+ssh://git@git.example.com/shop.git', 'git'],
  ['git+http://[::1]:8080/shop.git', 'git'],
  ['/srv/receipts', 'dir'],
  ['receipts', 'dir'],
])('reads %s', (text, kind) => {
  expect(shown(text)).toMatchObject({ kind });
});

test.each([
  ['oci://shop', 'oci://REGISTRY/REPOSITORY'],
  ['oci://registry.example.com/sluice/shop:42', 'oci://REGISTRY/REPOSITORY'],
  ['http://cdn.example.com/sluice', 'http is for this machine alone'],
  ['git+http://git.example.com/shop.git', 'http is for this machine alone'],
  ['https://token@cdn.example.com/sluice', 'which other users of this machine could read'],
  ['git+ssh://git:secret@git.example.com/shop.git', 'which other users of this machine could read'],
  ['https://cdn.example.com/sluice?token=1', 'without a query'],
  ['https://', 'without a query'],
  ['git+ext://sh', 'is none of'],
  ['git+file:///srv/shop.git', 'is none of'],
  ['file:///srv/receipts', 'is none of'],
  ['ssh://git.example.com/shop.git', 'is none of'],
])('refuses %s', (text, why) => {
  expect(shown(text)).toContain(why);
});
