import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { clusterList } from './data.ts';
import { interleave, ratio, report, runMeasured } from './measure.ts';

const services = 10_000;
const node = 'node-0000';

/**
 * `sluice parity` at 10,000 Services with 5 endpoints, of all types: what kube-proxy in mode iptables left, whose rules are those of layout
 * `flat`, against bundles in modes iptables and nftables.
 * @param scratch a directory to write into
 */
export async function observedBench(sluice: string, sluiced: string, scratch: string, rounds: number): Promise<void> {
  const dir = join(scratch, 'observed');
  mkdirSync(join(dir, 'saved'), { recursive: true });
  writeFileSync(join(dir, 'cluster.json'), JSON.stringify(mixedCluster()));
  const bundles = (['iptables', 'nftables'] as const).map((mode) => {
    const [config, out] = [join(dir, `${mode}.yaml`), join(dir, mode)];
    writeFileSync(config, stringify(proxyConfig(mode)));
    execFileSync(sluice, ['render', '-f', join(dir, 'cluster.json'), '-f', config, '-o', out], { stdio: 'ignore' });
    return out;
  });
  const [iptables, nftables] = bundles as [string, string];
  const file = join(dir, 'observed.json');
  saveRules(sluice, iptables, join(dir, 'saved'));
  execFileSync(sluiced, ['observe', '--from', join(dir, 'saved'), '--node', node, '-o', file], { stdio: 'ignore' });
  const compared = (bundle: string) => runMeasured(sluice, ['parity', file, bundle, '--node', node]);
  const runs = await interleave(rounds, {
    same: () => compared(iptables),
    again: () => compared(iptables),
    other: () => compared(nftables),
    list: () => runMeasured(sluice, ['ls', iptables]),
  });
  const list = `sluice ls ${runs.list.seconds.toFixed(2)} s, ratio `;
  const control = `; A/A control ${ratio(runs.again.seconds, runs.same.seconds)}`;
  for (const [mode, run] of [
    ['iptables', runs.same],
    ['nftables', runs.other],
  ] as const)
    report(
      `sluice parity, ${services} Services, kube-proxy in mode iptables and a bundle in mode ${mode}`,
      `${run.seconds.toFixed(2)} s, ${run.megabytes.toFixed(0)} MB`,
      'under 20 s and 2 GB',
      `${list}${ratio(run.seconds, runs.list.seconds)}${mode === 'iptables' ? control : ''}`,
    );
}

const proxyConfig = (mode: string): object => ({
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  kind: 'KubeProxyConfiguration',
  mode,
  clusterCIDR: '10.128.0.0/9',
  detectLocalMode: 'ClusterCIDR',
});

type Item = Record<string, unknown> & { readonly kind?: string; readonly spec: Record<string, unknown> };

/** Every tenth Service is a NodePort, every fiftieth a load balancer with source ranges, every twentieth has session affinity. */
function mixedCluster(): object {
  const list = clusterList({ services, endpointsPerService: 5, nodes: 20 });
  let n = 0;
  const items = (list.items as Item[]).map((item) => {
    if (item.kind !== 'Service') return item;
    n++;
    const isBalanced = n % 50 === 0;
    const nodePort = isBalanced || n % 10 === 0 ? { nodePort: 30_000 + (n % 2_768) } : undefined;
    const type = isBalanced ? 'LoadBalancer' : nodePort ? 'NodePort' : 'ClusterIP';
    const [port] = item.spec['ports'] as [object];
    const ofType = {
      type,
      ...(nodePort ? { ports: [{ ...port, ...nodePort }], externalTrafficPolicy: 'Cluster' } : {}),
      ...(isBalanced ? { loadBalancerSourceRanges: ['198.51.100.0/24', '203.0.113.0/24'] } : {}),
      ...(n % 20 === 5 ? { sessionAffinity: 'ClientIP' } : {}),
    };
    const ip = `100.64.${n >> 8}.${n & 255}`;
    const status = { loadBalancer: isBalanced ? { ingress: [{ ip }] } : {} };
    return { ...item, spec: { ...item.spec, ...ofType }, status };
  });
  return { ...list, items };
}

const builtIn: Readonly<Record<string, readonly string[]>> = {
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
};

/** The rules of the node as `iptables-save` prints them, and empty files for what it lacks. */
function saveRules(sluice: string, bundle: string, dir: string): void {
  const show = ['show', bundle, '--node', node, '--layout', 'flat', '--tool', 'iptables'];
  const text = execFileSync(sluice, show, {
    encoding: 'utf8',
    maxBuffer: 2 ** 30,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const saved = text
    .replaceAll(/^-I (\S+) \d+ /gm, '-A $1 ')
    .replaceAll(/^\*(\w+)$/gm, (line, table: string) =>
      [line, ...(builtIn[table] ?? []).map((chain) => `:${chain} ACCEPT [0:0]`)].join('\n'),
    );
  const empty = ['iptables-legacy-save.txt', 'ip6tables-legacy-save.txt', 'ipset.txt', 'ipvsadm.txt'];
  for (const name of [...empty, 'ip-route.txt', 'nft.txt']) writeFileSync(join(dir, name), '');
  writeFileSync(join(dir, 'iptables-save.txt'), saved);
  // IPv6 has chains of the kernel alone; an empty file beside rules of Services would be a tool that failed.
  const chains = (table: string): string => (builtIn[table] ?? []).map((chain) => `:${chain} ACCEPT [0:0]\n`).join('');
  const tables = Object.keys(builtIn).map((table) => `*${table}\n${chains(table)}COMMIT\n`);
  writeFileSync(join(dir, 'ip6tables-save.txt'), tables.join(''));
  writeFileSync(join(dir, 'sysctl.txt'), 'net.ipv4.conf.all.route_localnet = 1\n');
  const addresses = ['eth0 192.168.0.0/16', 'cni0 10.244.0.1/24', 'dns0 169.254.20.10/32'];
  const lines = addresses.map((one, at) => {
    const [name, address] = one.split(' ');
    return `${at + 2}: ${name}: <UP>\n    inet ${address} scope global ${name}\n`;
  });
  writeFileSync(join(dir, 'ip-addr.txt'), lines.join(''));
}
