import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { programPath } from '@sluice/testing';
import type { SluicedNode } from './sluiced-node.ts';

/** The frontend of its Service, as it is asked for. */
export const vipFrontend = '203.0.113.9:80';

const service = `apiVersion: v1
kind: Service
metadata: {name: web, namespace: x}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  clusterIP: 10.96.0.71
  healthCheckNodePort: 30600
  selector: {a: b}
  ports: [{port: 80, targetPort: 8080, nodePort: 30071}]
status: {loadBalancer: {ingress: [{ip: 203.0.113.9}]}}
---
apiVersion: v1
kind: Node
metadata: {name: node-a}
spec: {podCIDRs: [10.244.1.0/24]}
status: {addresses: [{type: InternalIP, address: 192.0.2.11}]}
---
apiVersion: v1
kind: Node
metadata: {name: node-b}
spec: {podCIDRs: [10.244.2.0/24]}
status: {addresses: [{type: InternalIP, address: 192.0.2.12}]}
`;

/** Renders a Service of policy Local for a node. @param local endpoints on it, besides one on another node */
export function renderVip(node: SluicedNode, mode: string, local: readonly string[]): void {
  const endpoints = [...local.map((address) => ({ address, at: 'node-a' })), { address: '10.244.2.9', at: 'node-b' }];
  const lines = endpoints.map(
    ({ address, at }) => `- {addresses: [${address}], nodeName: ${at}, conditions: {ready: true}}\n`,
  );
  const slice = `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: x, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: "", port: 8080}]
endpoints:
${lines.join('')}`;
  const config = `apiVersion: sluice.dev/v1alpha1
kind: SluiceConfig
clusterName: vip
complete: true
serviceCIDRs: [10.96.0.0/12]
profiles: [{name: default, mode: ${mode}, clusterCIDR: 10.244.0.0/16}]
`;
  writeFileSync(`${node.directory}/sluice.yaml`, config);
  writeFileSync(`${node.directory}/in.yaml`, `${service}${slice}`);
  mkdirSync(`${node.directory}/rendered`, { recursive: true });
  const [input, output] = [`${node.directory}/in.yaml`, `${node.directory}/rendered`];
  const args = ['render', '-f', input, '-c', `${node.directory}/sluice.yaml`, '-o', output];
  execFileSync(process.execPath, [programPath('sluice'), ...args], { stdio: ['ignore', 'ignore', 'pipe'] });
}
