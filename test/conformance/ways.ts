import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { makeKey } from '@sluice/testing';
import { parseAllDocuments } from 'yaml';
import type { Host } from '../netns/cluster-host.ts';
import { until } from '../netns/until.ts';
import { controlAddresses } from './addresses.ts';
import { type LoggedDaemon, startLogged } from './control-plane.ts';
import {
  applyProxyConfig,
  commit,
  sluiceCommand,
  sluicedCommand,
  startSluiced,
  type System,
  writeNodeConfig,
} from './systems.ts';

/** Ways of delivery beside a watch on each node: one watch on the machine of the API server, and what carries its changes to the nodes. */

const setting = { mode: 'nftables', layout: 'tree' } as const;
const port = 9443;

/** `sluice watch --serve`, which signs each change, and `sluiced fetch` on each node, which follows it. */
export const servedSystem: System = {
  title: 'Sluice, mode nftables, one watch that serves signed changes',
  mode: 'nftables',
  version: commit,
  start: async (place) => {
    const { control, plane, nodes, folder } = place;
    await applyProxyConfig(plane, 'nftables');
    const plain = (name: string): string => join(dirname(plane.kubeconfig), name);
    const [key, signers] = [join(folder, 'release-key'), join(folder, 'allowed_signers')];
    writeFileSync(signers, `watch namespaces="sluice-release" ${makeKey(key)}\n`);
    const push = ['--push', `oci:${join(folder, 'releases')}:production`, '--key', key];
    const certificate = ['--tls-cert', plain('server.crt'), '--tls-key', plain('server.key')];
    const serve = ['--serve', `${controlAddresses[0]}:${port}`, ...certificate];
    const watch = sluiceCommand(place, ['watch', '-o', join(folder, 'served'), ...push, ...serve]);
    const daemons = new Map([['watch', startLogged(control, join(folder, 'watch-served.log'), watch)]]);
    for (const [name, host] of nodes) {
      const https = { url: `https://${controlAddresses[0]}:${port}`, tag: 'production', events: true };
      const config = writeNodeConfig(place, setting, name, {
        bundle: undefined,
        cluster: 'conformance',
        signatures: { allowedSigners: signers },
        source: { https, caFile: plain('ca.crt'), directory: join(folder, name, 'fetched') },
      });
      const fetch = sluicedCommand('fetch', config);
      daemons.set(`fetch ${name}`, startLogged(host, join(folder, `fetch-${name}.log`), fetch));
      daemons.set(`sluiced ${name}`, await startSluiced(place, name, host, config));
    }
    return daemons;
  },
};

/** The command of the container in deploy/sluiced.yaml that pulls releases. */
function pulling(): readonly string[] {
  const text = readFileSync(join(import.meta.dirname, '../../deploy/sluiced.yaml'), 'utf8');
  type Manifest = {
    readonly spec?: {
      readonly template?: { readonly spec: { readonly containers: readonly { name: string; command: string[] }[] } };
    };
  };
  const manifests = parseAllDocuments(text).map((document) => document.toJS() as Manifest);
  const containers = manifests.flatMap(({ spec }) => spec?.template?.spec.containers ?? []);
  const command = containers.find(({ name }) => name === 'releases')?.command;
  if (command === undefined) throw new Error('deploy/sluiced.yaml has no container releases');
  return command;
}

/** Makes a repository, and a clone of it with one empty commit. */
async function makeRepository(host: Host, origin: string, work: string): Promise<void> {
  const git = (...args: readonly string[]): Promise<string> =>
    host.run(['git', '-c', 'init.defaultBranch=main', ...args]);
  await git('init', '--quiet', '--bare', origin);
  await git('clone', '--quiet', origin, work);
  await git('-C', work, 'config', 'user.name', 'sluice');
  await git('-C', work, 'config', 'user.email', 'sluice@example.com');
  await git('-C', work, 'commit', '--quiet', '--allow-empty', '-m', 'begin');
  await git('-C', work, 'push', '--quiet', '-u', 'origin', 'HEAD');
}

/** `sluice watch --commit --push`, and on each node the loop of deploy/sluiced.yaml that pulls. Nothing is reviewed, so nothing is signed. */
export const gitSystem: System = {
  title: 'Sluice, mode nftables, by Git',
  mode: 'nftables',
  version: commit,
  start: async (place) => {
    const { control, plane, nodes, folder } = place;
    await applyProxyConfig(plane, 'nftables');
    const [origin, work] = [join(folder, 'origin.git'), join(folder, 'git-work')];
    await makeRepository(control, origin, work);
    const watch = sluiceCommand(place, ['watch', '-o', join(work, 'rendered'), '--commit', '--push']);
    const daemons = new Map<string, LoggedDaemon>([
      ['watch git', startLogged(control, join(folder, 'watch-git.log'), watch)],
    ]);
    const count = ['git', `--git-dir=${origin}`, 'rev-list', '--count', 'main'];
    await until('rules are in the repository', async () => Number(await control.run(count)) > 1, 60_000);
    for (const [name, host] of nodes) {
      const releases = '/var/lib/sluice-releases';
      await host.run(['mkdir', '-p', releases]);
      const pull = ['env', 'HOME=/tmp', `REPOSITORY=${origin}`, ...pulling()];
      daemons.set(`pull ${name}`, startLogged(host, join(folder, `pull-${name}.log`), pull));
      const config = writeNodeConfig(place, setting, name, { bundle: `${releases}/work/rendered` });
      daemons.set(`sluiced ${name}`, await startSluiced(place, name, host, config));
    }
    return daemons;
  },
};
