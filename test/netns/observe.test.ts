// @module-tag test
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { programPath } from '@sluice/testing';
import { execa } from 'execa';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Host } from './cluster-host.ts';
import { needBackend, needKernel } from './privileges.ts';

/** With the facts that `sluiced observe` writes on a node, `sluice show` prints elsewhere what `sluiced apply` loads there. */

const cluster = `apiVersion: v1
kind: Node
metadata: { name: node-1 }
spec: { podCIDR: 10.244.1.0/24 }
status: { addresses: [{ type: InternalIP, address: 192.0.2.11 }, { type: InternalIP, address: "fd00::11" }] }
---
apiVersion: v1
kind: Service
metadata: { name: web, namespace: shop }
spec:
  type: NodePort
  clusterIPs: [10.96.0.10, "fd00:10:96::10"]
  ipFamilies: [IPv4, IPv6]
  ipFamilyPolicy: RequireDualStack
  ports: [{ name: http, port: 80, targetPort: 8080, nodePort: 30080 }]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: web-1, namespace: shop, labels: { kubernetes.io/service-name: web } }
addressType: IPv4
ports: [{ name: http, port: 8080, protocol: TCP }]
endpoints: [{ addresses: [10.244.1.5], nodeName: node-1 }, { addresses: [10.244.1.6], nodeName: node-1 }]
`;
const config = `apiVersion: sluice.dev/v1alpha1
kind: SluiceConfig
clusterName: observed
complete: true
profiles:
  - name: default
    clusterCIDR: "10.244.0.0/16,fd00:10:244::/48"
    nodePortAddresses: [192.0.2.0/24, "fd00::/64"]
    conntrack: { maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s }
`;

let dir: string;
let node: Host;
beforeEach(async (context) => {
  needKernel(context);
  needBackend(context, 'nft');
  dir = mkdtempSync(join(tmpdir(), 'sluice-observe-'));
  writeFileSync(join(dir, 'cluster.yaml'), cluster);
  writeFileSync(join(dir, 'sluice.yaml'), config);
  await execa(programPath('sluice'), ['render', '-f', 'cluster.yaml', '-c', 'sluice.yaml', '-o', 'rendered'], {
    cwd: dir,
  });
  node = await machine();
});
afterEach(async () => {
  await node?.close();
  if (dir) rmSync(dir, { recursive: true, force: true });
});

/** A machine with more addresses for node ports than its Node object has. */
async function machine(): Promise<Host> {
  const host = await Host.start('node-1');
  const addresses = ['192.0.2.11', '192.0.2.77', '198.51.100.1', 'fd00::11', 'fd00::77'];
  await shell(host, ['ip link set lo up', ...addresses.map((one) => `ip addr add ${one} dev lo`)].join(' && '));
  return host;
}

const shell = (host: Host, script: string, input?: string): Promise<string> =>
  host.run(['/bin/sh', '-c', script], input === undefined ? {} : { input });

async function sluiced(layout: string, ...args: readonly string[]): Promise<string> {
  const settings = {
    apiVersion: 'sluice.dev/v1alpha1',
    kind: 'SluicedConfig',
    node: 'node-1',
    state: join(dir, 'state'),
    backend: 'nft',
    layout,
    signatures: { policy: 'none' },
    receipts: { directory: join(dir, 'receipts') },
  };
  writeFileSync(join(dir, 'sluiced.yaml'), JSON.stringify(settings));
  const command = [process.execPath, programPath('sluiced'), ...args, '-c', join(dir, 'sluiced.yaml')];
  return node.run(command, { timeoutMs: 60_000 });
}

const show = (layout: string, ...more: readonly string[]) =>
  execa(programPath('sluice'), ['show', 'rendered', '--node', 'node-1', '--layout', layout, ...more], {
    cwd: dir,
    stripFinalNewline: false,
  });

const tools = ['iptables', 'ip6tables'] as const;

async function rulesOf(host: Host, tool: (typeof tools)[number]): Promise<readonly string[]> {
  const saved = await host.run([`/usr/sbin/${tool}-nft-save`, '-t', 'nat']);
  const filter = await host.run([`/usr/sbin/${tool}-nft-save`, '-t', 'filter']);
  return `${saved}\n${filter}`
    .split('\n')
    .filter((line) => /^-A|^:(KUBE|SLU)/.test(line))
    .toSorted();
}

/** What a machine without rules holds after the text was loaded by hand. */
async function loaded(tool: (typeof tools)[number], text: string): Promise<readonly string[]> {
  const bare = await Host.start('bare');
  try {
    await shell(bare, `/usr/sbin/${tool}-nft-restore --noflush`, text);
    return await rulesOf(bare, tool);
  } finally {
    await bare.close();
  }
}

test.each([
  ['flat', 0],
  ['flat', 1],
  ['tree', 0],
  ['tree', 1],
] as const)(
  'layout %s, nf_conntrack_tcp_be_liberal %i: show with the facts of a node prints what the node loads',
  { timeout: 120_000 },
  async (layout, liberal) => {
    await shell(node, `echo ${liberal} > /proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal`);
    const before = await rulesOf(node, 'iptables');
    const host = join(dir, 'host.yaml');
    expect(await sluiced(layout, 'observe', '-o', host)).toContain('host.yaml: node-1');
    expect(await rulesOf(node, 'iptables'), 'observe changes nothing').toEqual(before);
    await sluiced(layout, 'apply', join(dir, 'rendered'));
    for (const tool of tools) {
      const { stdout, stderr } = await show(layout, '--tool', tool, '--host', host);
      expect(stderr).toBe('');
      expect(await loaded(tool, stdout)).toEqual(await rulesOf(node, tool));
    }
    const rules = (await rulesOf(node, 'iptables')).join('\n');
    expect(rules.includes('--ctstate INVALID')).toBe(liberal === 0);
    for (const address of ['192.0.2.11', '192.0.2.77']) expect(rules).toContain(`-d ${address}/32`);
    expect(rules).not.toContain('198.51.100.1');
  },
);

test('a node that became liberal leaves the INVALID drop out of the same bundle, and restores it afterwards', {
  timeout: 120_000,
}, async () => {
  const seen: boolean[] = [];
  for (const liberal of [0, 1, 0]) {
    await shell(node, `echo ${liberal} > /proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal`);
    await sluiced('flat', 'apply', join(dir, 'rendered'));
    seen.push((await rulesOf(node, 'iptables')).some((rule) => rule.includes('INVALID')));
    expect(JSON.parse(await sluiced('flat', 'apply', join(dir, 'rendered'), '-o', 'json'))).toMatchObject({
      outcome: 'same',
    });
  }
  expect(seen).toEqual([true, false, true]);
});

test('prints the same bytes for the same facts, on standard output, too', async () => {
  const host = join(dir, 'host.yaml');
  const report = JSON.parse(await sluiced('flat', 'observe', '-o', host, '--report', 'json')) as object;
  expect(report).toMatchObject({ kind: 'Observation', node: 'node-1', file: host });
  expect(`${(await sluiced('flat', 'observe', '-o', '-')).trimEnd()}\n`).toBe(readFileSync(host, 'utf8'));
});

test('without the facts, show names each value that only the node knows', async () => {
  const { stderr, stdout } = await show('flat');
  expect(stderr).toContain('note: only the node knows ${host.nodePortAddresses}');
  expect(stderr).toContain('note: only the node knows net.netfilter.nf_conntrack_tcp_be_liberal');
  expect(stderr.match(/^note: .*--host FILE\)$/gm)).toHaveLength(2);
  expect(stdout).toContain('-d 192.0.2.11/32');
  expect((await show('tree')).stderr).toContain('note: only the node knows iptables -m bpf');
});

test('refuses facts of another node', async () => {
  const host = join(dir, 'host.yaml');
  await sluiced('flat', 'observe', '-o', host);
  writeFileSync(host, readFileSync(host, 'utf8').replace('node-1', 'node-2'));
  await expect(show('flat', '--host', host)).rejects.toThrow(/HOST_FACTS_INVALID/);
});
