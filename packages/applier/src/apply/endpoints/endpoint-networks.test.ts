import { expect, test } from 'vitest';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { scene } from '../../testing/scene.fixture.ts';
import { limits } from '../../limits.ts';
import { networksOf } from './endpoint-networks.ts';

const nodeText = (values: string): string =>
  `apiVersion: sluice.dev/v1alpha1\nkind: Node\nprofile: default\nvalues: ${values}\n`;

test('reads the addresses and networks of pods of all Nodes of a bundle', () => {
  const files = new Map([
    ['nodes/a/node.yaml', nodeText('{cores: 4, ipv4: {address: 192.0.2.11, podCIDR: 10.244.1.0/24}}')],
    [
      'nodes/b/node.yaml',
      nodeText('{ipv4: {address: 192.0.2.12}, ipv6: {address: "fd00::12", podCIDR: "fd00:10::/64"}}'),
    ],
    ['nodes/c/node.yaml', 'not a node'],
    ['profiles/default/profile.yaml', nodeText('{ipv4: {address: 192.0.2.99}}')],
  ]);
  expect(networksOf(files)).toEqual(['10.244.1.0/24', '192.0.2.11', '192.0.2.12', 'fd00:10::/64', 'fd00::12']);
});

test('takes the allowed networks from a confirmed release, not from an update by keys for endpoints', async () => {
  const node = scene();
  try {
    let networks: readonly string[] = [];
    const released = { read: () => networks, write: (all: readonly string[]) => void (networks = all) };
    const { reconciler } = await node.start({}, { networks: released });
    const bundle = (endpoint: number, podCIDR: string) =>
      new Map([
        ...sampleBundle({ services: { 'shop/web': [endpoint] } }),
        ['nodes/other/node.yaml', nodeText(`{ipv4: {podCIDR: ${podCIDR}}}`)],
      ]);
    await reconciler.put(bundle(1, '10.244.0.0/28'), false);
    expect(networks).toEqual(['10.244.0.0/28']);
    // Endpoint n has the address 10.244.0.(n + 1).
    expect((await reconciler.put(bundle(9, '10.244.0.0/16'), false, undefined, true)).kind).toBe('confirmed');
    expect(networks).toEqual(['10.244.0.0/28']);
    expect(await reconciler.put(bundle(99, '10.244.0.0/16'), false, undefined, true)).toMatchObject({
      refusal: {
        problems: [
          {
            code: 'RELEASE_ENDPOINTS_ONLY',
            message: expect.stringContaining('10.244.0.100:8080 of shop/web is outside'),
          },
        ],
      },
    });
    expect(await reconciler.preview(bundle(99, '10.244.0.0/16'), true)).toHaveProperty('problems');
  } finally {
    node.end();
  }
});

test('counts the share of Services that keys for endpoints change within an hour', async () => {
  const node = scene();
  try {
    let nowMs = 0;
    const clock = { now: () => nowMs, bootMs: () => nowMs, sleep: async () => undefined };
    const { reconciler } = await node.start({}, { clock });
    const bundle = (web: number, cart: number) =>
      sampleBundle({ services: { 'shop/web': [web], 'shop/cart': [cart], 'shop/c': [3], 'shop/d': [4] } });
    await reconciler.put(bundle(1, 2), false);
    await reconciler.put(bundle(1, 7), false);
    expect(reconciler.endpointShare).toBe(0);
    await reconciler.put(bundle(5, 7), false, undefined, true);
    await reconciler.put(bundle(6, 7), false, undefined, true);
    expect(reconciler.endpointShare).toBe(0.25);
    nowMs = limits.hourMs - 1;
    await reconciler.put(bundle(6, 8), false, undefined, true);
    expect(reconciler.endpointShare).toBe(0.5);
    nowMs += 2;
    expect(reconciler.endpointShare).toBe(0.25);
  } finally {
    node.end();
  }
});
