// What many watchers cost one API server: kube-proxies, or `sluice watch --node`, each on a node of its own, beside none.
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { apiServerPrograms } from '../../parity/binaries.ts';
import { ratio, report } from '../measure.ts';
import { preparePrograms } from './programs.ts';
import type { WatchersCost, WatchersPlan } from './watchers-inside.ts';

/**
 * Needs root, the real kube-apiserver and kube-proxy.
 * @param root the checkout @param dir where a folder for programs and their files is made
 */
export async function watchersBench(root: string, dir: string, services: number, nodes: number): Promise<void> {
  const own = join(dir, 'watchers');
  mkdirSync(own);
  const programs = await preparePrograms(root, own);
  const apiServer = await apiServerPrograms(false);
  const lack = 'lack' in programs ? programs.lack : 'lack' in apiServer ? apiServer.lack : undefined;
  if ('lack' in programs || 'lack' in apiServer) {
    process.stdout.write(`watchers of an API server: not measured, ${lack}\n`);
    return;
  }
  const plan: WatchersPlan = { services, nodes, changes: 20, programs, apiServer, dir: own };
  const script = join(import.meta.dirname, 'watchers-inside.ts');
  const shell = 'mount -t tmpfs tmpfs /run && exec "$@"';
  const namespaces = ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
  const argv = [...namespaces, 'sh', '-c', shell, 'sh', process.execPath, script, JSON.stringify(plan)];
  const text = execFileSync('/usr/bin/unshare', argv, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
  const [none, kubeProxy, sluice] = JSON.parse(text) as readonly [WatchersCost, WatchersCost, WatchersCost];
  const of = ({ startCpuMs, startBytes, changeCpuMs, changeBytes }: WatchersCost): string =>
    `a start ${(startCpuMs / nodes).toFixed(0)} ms of a processor and ${(startBytes / nodes / 1000).toFixed(0)} kB; a change ${((changeCpuMs - none.changeCpuMs) / nodes).toFixed(2)} ms and ${(changeBytes / nodes).toFixed(0)} bytes`;
  const compared = (key: keyof WatchersCost): string => ratio(sluice[key], kubeProxy[key]);
  report(
    `kube-apiserver and etcd, ${services} Services, ${nodes} × sluice watch --node: cost of a node`,
    of(sluice),
    "kube-proxy's",
    `kube-proxy, Protobuf: ${of(kubeProxy)}; ratios ${compared('startCpuMs')}, ${compared('startBytes')}, ${ratio(sluice.changeCpuMs - none.changeCpuMs, kubeProxy.changeCpuMs - none.changeCpuMs)}, ${compared('changeBytes')}; a change without watchers ${none.changeCpuMs.toFixed(1)} ms`,
  );
}
