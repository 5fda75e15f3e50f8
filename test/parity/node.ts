import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { programPath } from '@sluice/testing';
import { execa } from 'execa';
import { Host } from '../netns/cluster-host.ts';
import type { KubeItem } from './api-server.ts';
import { clusterCIDR, nodeAddresses, nodeName } from './clusters.ts';

/** What a node loads of both families, as the save tools print it. */
export interface Saved {
  readonly IPv4: string;
  readonly IPv6: string;
}

const port = 18_080;

/** A node of its own, with the addresses of the cluster's first. */
export async function startNode(name: string): Promise<Host> {
  const host = await Host.start(name);
  await host.run([
    '/bin/sh',
    '-c',
    `ip link set lo up && ${nodeAddresses.map((one) => `ip addr add ${one} dev lo`).join(' && ')}`,
  ]);
  return host;
}

export async function save(host: Host): Promise<Saved> {
  return {
    IPv4: await host.run(['/usr/sbin/iptables-nft-save']),
    IPv6: await host.run(['/usr/sbin/ip6tables-nft-save']),
  };
}

/**
 * What kube-proxy makes of a cluster in mode iptables.
 * @param dir an empty directory @throws where it has not synced within 30 s, with what it said
 */
export async function kubeProxyRules(binary: string, cluster: readonly KubeItem[], dir: string): Promise<Saved> {
  const host = await startNode('kube-proxy');
  try {
    writeFileSync(join(dir, 'objects.json'), JSON.stringify(cluster));
    writeFileSync(join(dir, 'kubeconfig'), JSON.stringify(kubeconfig));
    writeFileSync(join(dir, 'kube-proxy.yaml'), JSON.stringify(kubeProxyConfig(dir)));
    const api = host.start([
      process.execPath,
      join(import.meta.dirname, 'api-server.ts'),
      join(dir, 'objects.json'),
      String(port),
    ]);
    const proxy = host.start([binary, '--config', join(dir, 'kube-proxy.yaml')]);
    try {
      return await settled(host);
    } catch (error) {
      await proxy.stop();
      throw new Error(`${(error as Error).message}\n${(await proxy.ended).output}`, { cause: error });
    } finally {
      await proxy.stop();
      await api.stop();
    }
  } finally {
    await host.close();
  }
}

/** It is synced when both families have their last chain, and two looks are alike. */
async function settled(host: Host): Promise<Saved> {
  let last: Saved | undefined;
  for (let tries = 0; tries < 60; tries++) {
    await sleep(500);
    const now = await save(host);
    const isWhole = [now.IPv4, now.IPv6].every((text) => text.includes('-A KUBE-POSTROUTING'));
    if (isWhole && last && rules(last.IPv4) === rules(now.IPv4) && rules(last.IPv6) === rules(now.IPv6)) return now;
    last = now;
  }
  throw new Error('kube-proxy did not sync within 30 s');
}

const rules = (text: string): string => text.replaceAll(/^[#:].*$/gm, '');

const kubeconfig = {
  apiVersion: 'v1',
  kind: 'Config',
  clusters: [{ name: 'c', cluster: { server: `http://127.0.0.1:${port}` } }],
  users: [{ name: 'u', user: {} }],
  contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
  'current-context': 'x',
};

const kubeProxyConfig = (dir: string): object => ({
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  kind: 'KubeProxyConfiguration',
  mode: 'iptables',
  hostnameOverride: nodeName,
  clusterCIDR: clusterCIDR.join(','),
  detectLocalMode: 'ClusterCIDR',
  clientConnection: {
    kubeconfig: join(dir, 'kubeconfig'),
    contentType: 'application/json',
    acceptContentTypes: 'application/json',
  },
  // A namespace may not set the node's own limits.
  conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
});

/** What `sluice render` and `sluiced apply` in layout flat make of the same cluster. */
export async function sluiceRules(cluster: readonly KubeItem[], dir: string): Promise<Saved> {
  mkdirSync(join(dir, 'manifests'));
  writeFileSync(join(dir, 'manifests', 'all.yaml'), cluster.map((item) => `${JSON.stringify(item)}\n`).join('---\n'));
  const profile = `{name: default, clusterCIDR: "${clusterCIDR.join(',')}"}`;
  writeFileSync(
    join(dir, 'sluice.yaml'),
    `apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\nclusterName: parity\ncomplete: true\nprofiles: [${profile}]\n`,
  );
  await execa(programPath('sluice'), ['render', '-f', 'manifests', '-c', 'sluice.yaml', '-o', 'rendered'], {
    cwd: dir,
  });
  const config = {
    apiVersion: 'sluice.dev/v1alpha1',
    kind: 'SluicedConfig',
    node: nodeName,
    state: join(dir, 'state'),
  };
  const choices = {
    backend: 'nft',
    layout: 'flat',
    signatures: { policy: 'none' },
    receipts: { directory: join(dir, 'receipts') },
  };
  writeFileSync(join(dir, 'sluiced.yaml'), JSON.stringify({ ...config, ...choices }));
  const host = await startNode('sluice');
  try {
    await host.run(
      [process.execPath, programPath('sluiced'), 'apply', join(dir, 'rendered'), '-c', join(dir, 'sluiced.yaml')],
      { timeoutMs: 60_000 },
    );
    return await save(host);
  } finally {
    await host.close();
  }
}
