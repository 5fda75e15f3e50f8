import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { completeFile } from '@sluice/bundle';
import { makeKey, programPath } from '@sluice/testing';
import { expect } from 'vitest';
import { limits } from '../../packages/applier/src/limits.ts';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { type SluicedNode, until } from '../netns/sluiced-node.ts';

/** Faults of a node with `sluiced`, mode iptables on nf_tables, each with the alert that fires. */

export interface Fault {
  readonly alert: string;
  readonly title: string;
  /** The codes of /vip for the ClusterIP of `shop/web`, and of /readyz; undefined: no answer. */
  readonly says: readonly [vip: string | undefined, ready: string | undefined];
  /** What `sluiced` is started with; it runs, with generation 1, when `prepare` and the start have ended. */
  readonly prepare?: (node: SluicedNode) => Promise<Start>;
  readonly make: (node: SluicedNode, daemon: ReturnType<SluicedNode['start']>) => Promise<unknown>;
}

/** How the daemon starts. */
export interface Start {
  /** Shell text before it, in its mount namespace. */
  readonly before?: string;
  /** Whether it has a generation. */
  readonly isEmpty?: true;
}

const webFile = (node: SluicedNode): string => join(bundleOf(node), 'profiles/default/services/shop/web.iptables');
const bundleOf = (node: SluicedNode): string => join(node.directory, 'rendered');
export const publish = (node: SluicedNode, ...endpoints: readonly number[]): void =>
  writeBundle(
    bundleOf(node),
    sampleBundle({ services: { 'shop/web': endpoints, 'shop/cart': [50] }, families: ['ipv4', 'ipv6'] }),
  );

/** Endpoint 1 of `shop/web` and endpoint 4 answer on the node; others do not. */
async function serve(node: SluicedNode): Promise<void> {
  const addresses = 'ip addr add 10.244.0.2/32 dev lo && ip addr add 10.244.0.5/32 dev lo';
  await node.tool(['sh', '-c', `${addresses} && ip route add 10.96.0.0/12 dev lo`]);
  const servers = `for (const a of ['10.244.0.2', '10.244.0.5']) require('node:http').createServer((_, to) => to.end('ok')).listen(8080, a);`;
  writeFileSync(`${node.directory}/servers.cjs`, servers);
  node.startProgram([process.execPath, `${node.directory}/servers.cjs`]);
  await until(
    'an endpoint answers',
    async () => (await node.tool(['curl', '-s', '-m', '1', 'http://10.244.0.2:8080/']).catch(() => '')) === 'ok',
  );
}

/** Generation 1, which a probe watches. */
async function probed(node: SluicedNode): Promise<Start> {
  await serve(node);
  await confirmed(node);
  const { vip } = webOf(node);
  node.writeConfig('nft', `probation: {seconds: 1}\nprobes: [{name: web, http: "http://${vip}/", attempts: 2}]\n`);
  return {};
}

/** What the status port says of the ClusterIP of `shop/web`, and of the confirmed rules. */
export async function saysOf(node: SluicedNode): Promise<Fault['says']> {
  const vip = existsSync(webFile(node)) ? webOf(node).vip : '10.96.0.11';
  const code = (text: string | undefined): string | undefined => text?.split(/[:\n]/)[0];
  return [code(await node.get(`/vip/${vip}`)), code(await node.get('/readyz'))];
}

/** The first ClusterIP of `shop/web` in the bundle. */
function webOf(node: SluicedNode): { readonly vip: string } {
  const text = readFileSync(webFile(node), 'utf8');
  const [, vip] = /-d (10\.96\.\d+\.\d+)/.exec(text) ?? [];
  if (vip === undefined) throw new Error('the bundle has no ClusterIP of shop/web');
  return { vip };
}

/** Generation 1 on a node that counts everything; then `connect` opens connections. */
export async function counting(node: SluicedNode): Promise<Start> {
  await serve(node);
  node.writeConfig('nft', 'countConnections: true\ncountTraffic: true\n');
  publish(node, 1, 4);
  expect(await node.apply()).toMatchObject({ exitCode: 0 });
  await node.tool(['sysctl', '-q', '-w', 'net.netfilter.nf_conntrack_acct=1']);
  return {};
}

/** A connection to `shop/web`, after which its numbers are exported. */
export async function connect(node: SluicedNode): Promise<void> {
  await node.tool(['curl', '-s', '-m', '2', `http://${webOf(node).vip}/`]);
  const isThere = async (): Promise<boolean> => {
    const text = (await node.get('/metrics')) ?? '';
    return ['connections', 'live_connections', 'bytes'].every((name) => text.includes(`sluice_service_${name}{`));
  };
  await until('connections and bytes are read', isThere, 40_000);
}

/** Generation 1. */
export async function confirmed(node: SluicedNode): Promise<Start> {
  node.writeConfig('nft');
  publish(node, 1, 4);
  expect(await node.apply()).toMatchObject({ exitCode: 0 });
  return {};
}

/** Generation 1 with twelve more Services. */
async function crowd(node: SluicedNode): Promise<Start> {
  node.writeConfig('nft');
  const more = Object.fromEntries(Array.from({ length: 12 }, (_, n) => [`shop/s${n}`, [n + 60]]));
  const services = { 'shop/web': [1], 'shop/cart': [50], ...more };
  writeBundle(bundleOf(node), sampleBundle({ services, families: ['ipv4', 'ipv6'] }));
  expect(await node.apply()).toMatchObject({ exitCode: 0 });
  return {};
}

/** A tool that refuses, in its own words, while a condition holds: what it prints otherwise is no answer of the kernel. @returns shell text that puts it over the system's */
async function breakable(node: SluicedNode, tool: string, when: string): Promise<string> {
  const tools = `${node.directory}/tools`;
  mkdirSync(tools, { recursive: true });
  const isNode = 'iptables-nft -w 5 -t nat -S SLT-NODE >/dev/null 2>&1';
  const script = `#!/bin/sh\nif ${isNode} && ${when}; then cat >/dev/null; echo '${tool}: line 1 failed: broken on purpose' >&2; exit 1; fi\nexec xtables-nft-multi ${tool} "$@"\n`;
  writeFileSync(`${tools}/${tool}`, script, { mode: 0o755 });
  return `mount -t overlay overlay -o lowerdir=${tools}:/usr/sbin /usr/sbin &&`;
}

/** In the middle of a change, and again in its rollback. */
async function halting(node: SluicedNode): Promise<Start> {
  await confirmed(node);
  // Scratch namespaces lack the chain that marks the node.
  for (const tool of ['iptables-nft', 'ip6tables-nft']) await node.tool([tool, '-t', 'nat', '-N', 'SLT-NODE']);
  const flag = `${node.directory}/broken`;
  await breakable(node, 'ip6tables-nft-restore', `touch ${flag}`);
  return { before: await breakable(node, 'iptables-nft-restore', `test -e ${flag}`) };
}

async function unreadable(node: SluicedNode): Promise<Start> {
  await confirmed(node);
  await node.tool(['iptables-nft', '-t', 'nat', '-N', 'SLT-NODE']);
  return { before: await breakable(node, 'iptables-nft-save', `test -e ${node.directory}/broken`) };
}

const flush = (node: SluicedNode): Promise<string> => node.tool(['iptables-nft', '-t', 'nat', '-F', 'SLUICE-SERVICES']);

async function flushOften(node: SluicedNode): Promise<void> {
  const good = await node.rules('nft');
  for (let times = 0; times <= limits.repairsMax; times++) {
    await flush(node);
    await until('it is repaired', async () => (await node.rules('nft')) === good, 30_000);
  }
}

/** A signed release that expires in an hour. */
async function expiring(node: SluicedNode): Promise<Start> {
  const [bundle, release, key, signers] = ['bundle', 'rendered', 'alice', 'allowed_signers'].map((name) =>
    join(node.directory, name),
  ) as [string, string, string, string];
  writeFileSync(signers, `alice namespaces="sluice-release" ${makeKey(key)}\n`, { mode: 0o644 });
  writeBundle(bundle, sampleBundle({ services: { 'shop/web': [1, 4] }, families: ['ipv4', 'ipv6'] }));
  const expires = `${new Date(Date.now() + 3_600_000).toISOString().slice(0, 19)}Z`;
  const sluice = (...args: readonly string[]): Buffer =>
    execFileSync(programPath('sluice'), args, { stdio: ['ignore', 'pipe', 'pipe'] });
  sluice('release', bundle, '--serial', '1', '--source', 'c'.repeat(40), '--expires', expires, '-o', release);
  sluice('sign', release, '--key', key);
  node.writeConfig('nft', `signatures: {allowedSigners: ${signers}}\n`);
  return { isEmpty: true };
}

/** The limit of entries is one for all namespaces: files stand in the place of what the kernel tells the daemon. */
async function crowded(node: SluicedNode): Promise<Start> {
  await confirmed(node);
  const mounts = Object.entries({ nf_conntrack_count: 100, nf_conntrack_max: 1000 }).map(([name, value]) => {
    writeFileSync(`${node.directory}/${name}`, `${value}\n`);
    return `mount --bind ${node.directory}/${name} /proc/sys/net/netfilter/${name} &&`;
  });
  return { before: mounts.join(' ') };
}

/** By alert of the group `sluiced` of rules.yaml. */
export const faults: readonly Fault[] = [
  {
    alert: 'SluicedDown',
    title: 'sluiced is killed',
    says: [undefined, undefined],
    make: (node, daemon) => node.kill(daemon),
  },
  {
    alert: 'SluiceNodeHalted',
    title: 'the kernel refuses the middle of a release, and its rollback',
    says: ['ALARM', 'NODE_HELD'],
    prepare: halting,
    make: async (node) => {
      publish(node, 2, 3);
      await until('the node is halted', async () => node.journal()?.held != null, 60_000);
    },
  },
  {
    alert: 'SluiceRulesInDoubt',
    title: 'the tool that lists rules fails',
    says: ['ALARM', 'KERNEL'],
    prepare: unreadable,
    make: async (node) => {
      writeFileSync(`${node.directory}/broken`, '');
      await flush(node);
    },
  },
  {
    alert: 'SluiceNoGeneration',
    title: 'the bundle directory is empty since the installation',
    says: ['ALARM', 'NO_GENERATION'],
    prepare: async (node) => {
      node.writeConfig('nft');
      mkdirSync(bundleOf(node));
      return { isEmpty: true };
    },
    make: async () => undefined,
  },
  {
    alert: 'SluiceDriftLoop',
    title: 'another program flushes a chain again and again',
    says: ['ALARM', 'DRIFT_LOOP'],
    make: flushOften,
  },
  {
    alert: 'SluiceRolledBack',
    title: 'no endpoint of a release answers',
    says: ['SERVED', 'ok'],
    prepare: probed,
    make: async (node) => publish(node, 2, 3),
  },
  {
    alert: 'SluiceBundleRefused',
    title: 'a rule of the bundle was edited',
    says: ['SERVED', 'ok'],
    make: async (node) => {
      const file = webFile(node);
      writeFileSync(file, `${readFileSync(file, 'utf8')}# edited\n`);
      writeFileSync(join(bundleOf(node), completeFile), `${'0'.repeat(64)}\n`);
    },
  },
  {
    alert: 'SluiceRemovalHeld',
    title: 'a bundle comes without most Services',
    says: ['SERVED', 'ok'],
    prepare: crowd,
    make: async (node) => {
      // `writeBundle` leaves the files of Services that are gone.
      rmSync(bundleOf(node), { recursive: true });
      publish(node, 1);
    },
  },
  {
    alert: 'SluiceForeignRuleFirst',
    title: 'another program inserts a rule for a ClusterIP',
    says: ['FOREIGN_RULE_FIRST', 'ok'],
    make: (node) => node.tool(['iptables-nft', '-t', 'nat', '-I', 'PREROUTING', '-d', webOf(node).vip, '-j', 'ACCEPT']),
  },
  {
    alert: 'SluiceConntrackNearlyFull',
    title: 'nearly all entries of connection tracking are used',
    says: ['SERVED', 'ok'],
    prepare: crowded,
    make: async (node) => writeFileSync(`${node.directory}/nf_conntrack_count`, '950\n'),
  },
  {
    alert: 'SluiceProbeFails',
    title: 'the endpoints of an update do not answer',
    says: ['PROBE_FAILS', 'ok'],
    prepare: async (node) => {
      await serve(node);
      node.writeConfig('nft');
      publish(node, 1);
      expect(await node.apply()).toMatchObject({ exitCode: 0 });
      node.writeConfig(
        'nft',
        `probation: {seconds: 1}\nprobes: [{name: web, http: "http://${webOf(node).vip}/", attempts: 2}]\n`,
      );
      return {};
    },
    make: async (node) => publish(node, 9),
  },
  {
    alert: 'SluiceReleaseExpires',
    title: 'the release expires in an hour',
    says: ['SERVED', 'ok'],
    prepare: expiring,
    make: (node) => until('the release is confirmed', async () => node.journal()?.current?.number === 1, 30_000),
  },
  {
    alert: 'SluiceNodeDrained',
    title: 'an operator drains the node, and forgets it',
    says: ['NODE_DRAINS', 'ok'],
    make: (node) => node.sluiced('drain'),
  },
  {
    alert: 'SluiceNodeDegraded',
    title: 'something lies in the place of the socket for orders',
    says: ['SERVED', 'ok'],
    prepare: async (node) => {
      const start = await confirmed(node);
      mkdirSync(join(node.directory, 'state', 'control.sock', 'x'), { recursive: true });
      return start;
    },
    make: async () => undefined,
  },
];
