// @module-tag test
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { atTier, programPath } from '@sluice/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { needBackend, needKernel } from './privileges.ts';
import { SluicedNode, until } from './sluiced-node.ts';

/**
 * A load balancer asks each node whether it has an endpoint: the same answer in every mode, as kube-proxy gives it. Where the profile names no
 * network, mode nftables listens on the node's own address alone, as it opens node ports.
 */

let node: SluicedNode;
beforeEach(needKernel);
beforeEach(async () => {
  node = await SluicedNode.make();
});
afterEach(() => node.remove());

const service = `apiVersion: v1
kind: Service
metadata: {name: hc, namespace: x}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  clusterIP: 10.96.0.71
  healthCheckNodePort: 30600
  selector: {a: b}
  ports: [{port: 80, targetPort: 8080, nodePort: 30071}]
status: {loadBalancer: {ingress: [{ip: 203.0.113.71}]}}
`;

const nodes = ['a', 'b']
  .map(
    (name, index) => `---
apiVersion: v1
kind: Node
metadata: {name: node-${name}}
spec: {podCIDRs: [10.244.${index + 1}.0/24]}
status: {addresses: [{type: InternalIP, address: 192.0.2.1${index + 1}}]}
`,
  )
  .join('');

/** @param local the addresses of endpoints on this node, besides one on another node */
function slice(local: readonly string[]): string {
  const endpoints = [...local.map((address) => ({ address, at: 'node-a' })), { address: '10.244.2.9', at: 'node-b' }];
  const lines = endpoints.map(
    ({ address, at }) => `- {addresses: [${address}], nodeName: ${at}, conditions: {ready: true}}\n`,
  );
  return `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: hc-1, namespace: x, labels: {kubernetes.io/service-name: hc}}
addressType: IPv4
ports: [{name: "", port: 8080}]
endpoints:
${lines.join('')}`;
}

function render(mode: 'iptables' | 'nftables', local: readonly string[]): void {
  const config = `${node.directory}/sluice.yaml`;
  writeFileSync(
    config,
    `apiVersion: sluice.dev/v1alpha1
kind: SluiceConfig
clusterName: health
complete: true
serviceCIDRs: [10.96.0.0/12]
profiles: [{name: default, mode: ${mode}, clusterCIDR: 10.244.0.0/16}]
`,
  );
  writeFileSync(`${node.directory}/in.yaml`, `${service}${slice(local)}${nodes}`);
  mkdirSync(`${node.directory}/rendered`, { recursive: true });
  const args = ['render', '-f', `${node.directory}/in.yaml`, '-c', config, '-o', `${node.directory}/rendered`];
  execFileSync(programPath('sluice'), args, { stdio: ['ignore', 'ignore', 'pipe'] });
}

const [first, ...others] = [
  ['nftables', 'tree', 'nft'],
  ['iptables', 'tree', 'nft'],
  ['iptables', 'flat', 'nft'],
  ['iptables', 'tree', 'legacy'],
] as const;
const planes = atTier({ quick: [first], all: [first, ...others] });

/** The address of the node, and one that every machine has. */
const [own, loopback] = ['192.0.2.11', '127.0.0.1'];

/** The status and the count that the port answers at an address; undefined: nothing does. */
async function answer(address = own): Promise<string | undefined> {
  const ask = ['curl', '-s', '-m', '2', '-w', ' %{http_code}', `http://${address}:30600/`];
  const text = await node.tool(ask).catch(() => '');
  const [, endpoints, status] = /"localEndpoints": (\d+),[^]* (\d{3})$/.exec(text) ?? [];
  return status === undefined ? undefined : `${status} ${endpoints}`;
}

for (const [mode, layout, store] of planes)
  test(`mode ${mode}, layout ${layout}, store ${store}: answers 200 with local endpoints, and 503 without`, {
    timeout: 60_000,
  }, async (context) => {
    needBackend(context, store);
    node.writeConfig(store, layout === 'flat' ? 'layout: flat\n' : '');
    render(mode, ['10.244.1.5']);
    await node.tool(['ip', 'address', 'add', `${own}/32`, 'dev', 'lo']);
    node.start();
    const answers: string[] = [];
    for (const [local, expected] of [
      [['10.244.1.5'], '200 1'],
      [['10.244.1.5', '10.244.1.6'], '200 2'],
      [[], '503 0'],
    ] as const) {
      render(mode, local);
      await until(`it answers ${expected}`, async () => (await answer()) === expected).catch(() => undefined);
      answers.push((await answer()) ?? 'nothing');
    }
    expect(answers).toEqual(['200 1', '200 2', '503 0']);
    expect(await answer(loopback)).toBe(mode === 'nftables' ? undefined : '503 0');
    render(mode, ['10.244.1.5']);
    await until('it answers 200 again', async () => (await answer()) === '200 1');
    expect(await node.sluiced('drain')).toMatchObject({ exitCode: 0 });
    expect(await answer(), 'drained').toBe('503 1');
    expect(await node.sluiced('undrain')).toMatchObject({ exitCode: 0 });
    expect(await answer(), 'not drained').toBe('200 1');
  });
