// @module-tag all
import { expect, test } from 'vitest';
import type { Host } from '../netns/cluster-host.ts';
import { until } from '../netns/sluiced-node.ts';
import type { KubeItem } from './api-server.ts';
import { nodeAddresses, nodeName, nodes } from './clusters.ts';
import { withNodes } from './nodes.ts';
import { plainService } from './plain-service.ts';
import { needPrograms } from './programs.ts';
import type { SluiceNode } from './sluice-node.ts';
import { nftablesSettings, type ProxySetting, settings } from './settings.ts';

/** The health-check node port of a Service answers at the addresses at which it does with the real kube-proxy, in each mode. */

const programs = needPrograms();
const port = 32_001;

/** A Service with policy Local, and an endpoint on this node. */
function balanced(): readonly KubeItem[] {
  const [service, ...slices] = plainService({
    namespace: 'shop',
    name: 'web',
    clusterIPs: ['10.96.0.10', 'fd00:10:96::10'],
    port: { name: 'http', port: 80, targetPort: 8080 },
    endpoints: { IPv4: ['10.244.1.5'], IPv6: ['fd00:10:244:1::5'] },
    nodeName,
    zone: 'a',
  });
  const { spec, ...rest } = service as KubeItem & { readonly spec: object };
  const more = { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: port };
  const status = { loadBalancer: { ingress: [{ ip: '203.0.113.10' }] } };
  return [...nodes, { ...rest, spec: { ...spec, ...more }, status } as KubeItem, ...slices];
}

const places = ['127.0.0.1', '[::1]', nodeAddresses[0], `[${nodeAddresses[1]}]`];

/** Each place, and the status that it answers; `000`: no program listens. */
async function answersOn(host: Host): Promise<Readonly<Record<string, string>>> {
  const found: Record<string, string> = {};
  for (const place of places) {
    const ask = ['curl', '-s', '-g', '-m', '5', '-o', '/dev/null', '-w', '%{http_code}', `http://${place}:${port}/`];
    found[place] = (await host.exec(ask)).stdout;
  }
  return found;
}

/** Each form of `nodePortAddresses` that selects other addresses. */
const chosen = (all: readonly ProxySetting[]): readonly ProxySetting[] =>
  all.filter(({ title }) =>
    /^(?:nothing set|node ports on (?:the primary|networks without|localhost|a network of IPv4))/.test(title),
  );
const cases = [
  ...chosen(settings).map((setting) => ['iptables', setting.title, setting] as const),
  ...chosen(nftablesSettings).map((setting) => ['nftables', setting.title, setting] as const),
];

test.for(cases)('mode %s, %s: answers where that of kube-proxy does', { timeout: 300_000 }, ([, , setting]) =>
  withNodes(
    programs(),
    setting,
    async ({ theirs, ours, put }) => {
      await put(balanced());
      const [node] = ours as [SluiceNode];
      node.run();
      const isThere = async (one: Host): Promise<boolean> => Object.values(await answersOn(one)).includes('200');
      await until('kube-proxy answers', () => isThere(theirs.node.host), 30_000);
      const expected = await answersOn(theirs.node.host);
      await until('the node answers', () => isThere(node.node.host), 30_000).catch(() => undefined);
      expect(await answersOn(node.node.host)).toEqual(expected);
    },
    ['tree'],
  ),
);
