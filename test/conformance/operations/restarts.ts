import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../netns/until.ts';
import type { RealCluster } from '../cluster.ts';

/** Kills a program, and starts it again after a pause. Ends once the API server answers. */
export async function killAndStart(cluster: RealCluster, name: string, pauseMs: number): Promise<void> {
  const daemon = cluster.daemons.get(name);
  if (daemon === undefined) throw new Error(`The cluster has no program ${name}`);
  await daemon.signal('KILL');
  await daemon.ended;
  await sleep(pauseMs);
  daemon.start();
  await untilReady(cluster);
}

/** Waits until the API server is ready. */
export async function untilReady({ control, plane, programs }: RealCluster): Promise<void> {
  const argv = [programs.kubectl, `--kubeconfig=${plane.kubeconfig}`, 'get', '--raw=/readyz'];
  await until('the API server is ready', async () => (await control.exec(argv)).exitCode === 0, 120_000);
}
