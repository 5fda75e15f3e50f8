import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BundleFiles, nodeFile, nodesOf, readNode, readProfile, isProblem, profileFile } from '@sluice/bundle';
import { families, modeFacts, type Mode } from '@sluice/netfilter';
import { programPath } from '@sluice/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { declaredHealth } from '../packages/applier/src/observe/health/declared.ts';

/** Every health-check node port that the header of a Service's files names is opened on each node, whatever its mode. */

const examples = join(import.meta.dirname, '../examples');

function filesIn(out: string): BundleFiles {
  const names = readdirSync(out, { recursive: true, encoding: 'utf8', withFileTypes: true });
  return new Map(
    names
      .filter((entry) => entry.isFile())
      .map((entry) => {
        const path = join(entry.parentPath, entry.name);
        return [path.slice(out.length + 1), readFileSync(path, 'utf8')];
      }),
  );
}

interface Cell {
  readonly mode: Mode;
  readonly node: string;
  readonly declared: readonly string[];
  readonly named: readonly string[];
}

function cellsOf(files: BundleFiles): readonly Cell[] {
  return nodesOf(files).flatMap((node): readonly Cell[] => {
    const own = readNode(nodeFile(node), files.get(nodeFile(node)) ?? '');
    if (isProblem(own)) throw new Error(own.message);
    const path = profileFile(own.profile);
    const profile = readProfile(path, files.get(path) ?? '');
    if (isProblem(profile)) throw new Error(profile.message);
    const tools = new Set(families.map((family) => modeFacts[profile.mode].serviceTool(family)));
    const named = [...files].flatMap(([file, text]) => {
      const [, name, tool] = new RegExp(`^profiles/${own.profile}/services/(.+)\\.([a-z0-9]+)$`).exec(file) ?? [];
      const [, port] = /^# health-check node port (\d+)$/m.exec(text) ?? [];
      return name !== undefined && port !== undefined && [...tools].some((one) => one === tool)
        ? [`${name} ${port}`]
        : [];
    });
    const { services } = declaredHealth(files, node);
    const declared = services.map((one) => `${one.namespace}/${one.name} ${one.port}`);
    return [{ mode: profile.mode, node, declared: declared.toSorted(), named: [...new Set(named)].toSorted() }];
  });
}

const all = readdirSync(examples).flatMap((example) => {
  const isRendered = existsSync(join(examples, example, 'out'));
  return isRendered ? cellsOf(filesIn(join(examples, example, 'out'))).map((cell) => ({ example, ...cell })) : [];
});

test.each(all)('$example opens on $node what its Services name', ({ declared, named }) => {
  expect(declared).toEqual(named);
});

const service = `apiVersion: v1
kind: Service
metadata: {name: hc, namespace: x}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  clusterIPs: [10.96.0.71, fd00:96::71]
  clusterIP: 10.96.0.71
  ipFamilies: [IPv4, IPv6]
  ipFamilyPolicy: RequireDualStack
  healthCheckNodePort: 30600
  selector: {a: b}
  ports: [{port: 80, targetPort: 8080, nodePort: 30071}]
status: {loadBalancer: {ingress: [{ip: 203.0.113.71}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: hc-4, namespace: x, labels: {kubernetes.io/service-name: hc}}
addressType: IPv4
ports: [{name: "", port: 8080}]
endpoints:
- {addresses: [10.244.1.5], nodeName: node-1, conditions: {ready: true}}
- {addresses: [10.244.1.6], nodeName: node-1, conditions: {ready: false}}
- {addresses: [10.244.2.5], nodeName: node-2, conditions: {ready: true}}
---
apiVersion: v1
kind: Node
metadata: {name: node-3}
status: {addresses: [{type: InternalIP, address: 192.0.2.3}]}
`;

let scratch: string;
beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'sluice-health-'));
});
afterEach(() => rmSync(scratch, { recursive: true, force: true }));

test.each(Object.keys(modeFacts))('mode %s declares the port and the ready endpoints of each node', (mode) => {
  const [input, config, out] = ['in.yaml', 'sluice.yaml', 'out'].map((name) => join(scratch, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(input, service);
  writeFileSync(
    config,
    `apiVersion: sluice.dev/v1alpha1
kind: SluiceConfig
clusterName: health
complete: true
serviceCIDRs: [10.96.0.0/12, 'fd00:96::/112']
profiles: [{name: default, mode: ${mode}, clusterCIDR: '10.244.0.0/16,fd00:244::/56'}]
`,
  );
  execFileSync(programPath('sluice'), ['render', '-f', input, '-c', config, '-o', out], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const files = filesIn(out);
  const counts = ['node-1', 'node-2', 'node-3'].map((node) => declaredHealth(files, node).services);
  expect(counts).toEqual(
    [1, 1, 0].map((localEndpoints) => [{ namespace: 'x', name: 'hc', port: 30_600, localEndpoints }]),
  );
});
