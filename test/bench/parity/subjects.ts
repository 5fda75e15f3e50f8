// The subjects: how each is set up on an empty node, and the programs whose processor time and memory count.
import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import type { RuleStore } from '../../../packages/applier/src/kernel/tools.ts';
import { join } from 'node:path';
import { makeKey } from '@sluice/testing';
import { allocator } from '../allocator.ts';
import type { Api } from './api.ts';
import { clusterCIDR, nodeName } from './cluster.ts';
import type { BenchPrograms } from './programs.ts';

export interface SubjectCommand {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** @param dir empty, for what the programs read and write @param node whose name they have; left out: the one of the bench */
type SetUp = (programs: BenchPrograms, api: Api, dir: string, node?: string) => readonly SubjectCommand[];

export interface BenchSubject {
  /** Words in the command lines of its programs, that of the rule writer first. */
  readonly programs: readonly string[];
  readonly setUp: SetUp;
}

/** By name, in the order of a round. Ratios refer to the first, and `… again` is its A/A control. */
export const subjects = {
  'Sluice, nf_tables': sluice('nft'),
  'Sluice nftables': sluice('nft', 'nftables'),
  "Sluice nftables, a node's own watch": sluice('nft', 'nftables', 'node'),
  'kube-proxy iptables, nf_tables': kubeProxy('iptables', 'nft'),
  'kube-proxy nftables': kubeProxy('nftables', 'nft'),
  'Sluice, legacy': sluice('legacy'),
  'kube-proxy iptables, legacy': kubeProxy('iptables', 'legacy'),
  'Sluice, nf_tables, again': sluice('nft'),
  'Sluice nftables, again': sluice('nft', 'nftables'),
  'Sluice nftables, live endpoints': sluice('nft', 'nftables', 'live'),
} as const satisfies Readonly<Record<string, BenchSubject>>;
export type SubjectName = keyof typeof subjects;
export const subjectNames = Object.keys(subjects) as readonly SubjectName[];

/** @param from all of the cluster, a node's own watch, or a signed release with the endpoints of that watch */
function sluice(
  backend: RuleStore,
  mode: 'iptables' | 'nftables' = 'iptables',
  from: 'cluster' | 'node' | 'live' = 'cluster',
): BenchSubject {
  return {
    programs: ['sluiced run', 'sluice watch'],
    setUp: (programs, { kubeconfig }, dir, node = nodeName) => {
      const files = { bundle: join(dir, 'rendered'), state: join(dir, 'state') };
      mkdirSync(files.state, { mode: 0o700 });
      const profile = { name: 'default', mode, clusterCIDR, conntrack: { maxPerCore: 0 } };
      const watched = write(dir, 'sluice.yaml', { kind: 'SluiceConfig', complete: true, profiles: [profile] });
      const cluster = ['--kubeconfig', kubeconfig, '-c', watched];
      const live = from === 'live' ? releaseOf(programs.sluice, dir, cluster) : undefined;
      const applied = write(dir, 'sluiced.yaml', {
        kind: 'SluicedConfig',
        node,
        ...files,
        backend,
        layout: 'tree',
        ...(live?.config ?? { signatures: { policy: 'none' } }),
      });
      const own = from === 'cluster' ? [] : ['--node', node];
      const watch = ['watch', ...cluster, ...own, ...(live?.options ?? ['-o', files.bundle])];
      return [
        { argv: [programs.sluice, ...watch], env: allocator },
        {
          argv: [programs.sluiced, 'run', '-c', applied],
          // In memory, as the runtime directory of its unit.
          env: { ...allocator, RUNTIME_DIRECTORY: '/run' },
        },
      ];
    },
  };
}

/** Makes a signed release of what the cluster has now. @returns how `sluiced` takes it, and how `sluice watch` renders its endpoints */
function releaseOf(program: string, dir: string, cluster: readonly string[]) {
  const at = (name: string): string => join(dir, name);
  const run = (...args: readonly string[]): unknown => execFileSync(program, args, { stdio: 'pipe' });
  run('render', '--from-cluster', ...cluster, '-o', at('rendered'));
  run('release', at('rendered'), '--serial', '1', '--source', 'c'.repeat(40), '-o', at('release'));
  writeFileSync(at('allowed_signers'), `bench namespaces="sluice-release" ${makeKey(at('key'))}\n`);
  run('sign', at('release'), '--key', at('key'));
  return {
    config: {
      bundle: at('release'),
      signatures: { policy: 'required', allowedSigners: at('allowed_signers') },
      endpoints: { live: { directory: at('live') } },
    },
    options: ['--release', at('release'), '-o', at('live')],
  };
}

const write = (dir: string, name: string, config: object): string => {
  const path = join(dir, name);
  writeFileSync(path, JSON.stringify({ apiVersion: 'sluice.dev/v1alpha1', ...config }));
  return path;
};

function kubeProxy(mode: 'iptables' | 'nftables', backend: RuleStore): BenchSubject {
  return {
    programs: ['kube-proxy'],
    setUp: (programs, { kubeconfig, contentType }, dir, node = nodeName) => {
      const config = {
        apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
        kind: 'KubeProxyConfiguration',
        mode,
        hostnameOverride: node,
        clusterCIDR,
        detectLocalMode: 'ClusterCIDR',
        clientConnection: { kubeconfig, contentType, acceptContentTypes: contentType },
        // A namespace cannot set the node's own limits.
        conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
      };
      const path = join(dir, 'kube-proxy.yaml');
      writeFileSync(path, JSON.stringify(config));
      const env = { PATH: `${iptablesOf(backend, dir)}:/usr/sbin:/usr/bin:/sbin:/bin` };
      return [{ argv: [programs.kubeProxy, '--config', path], env }];
    },
  };
}

/** kube-proxy calls `iptables`, of either store. @returns a folder where it is the one for this store */
function iptablesOf(backend: RuleStore, dir: string): string {
  const folder = join(dir, 'bin');
  mkdirSync(folder);
  for (const family of ['iptables', 'ip6tables'])
    for (const tool of ['', '-save', '-restore'])
      symlinkSync(`/usr/sbin/${family}-${backend}${tool}`, join(folder, `${family}${tool}`));
  return folder;
}
