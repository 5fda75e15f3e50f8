import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { serviceFile } from '@sluice/bundle';
import { type Started, until } from '../cluster/program.fixture.ts';
import { LeaseServer } from '../cluster/lease.fixture.ts';
import type { LiveCluster } from '../cluster/live.fixture.ts';
import { serviceOf, slice } from '../cluster/objects.fixture.ts';

/** A running `sluice watch`. */
export interface Watch {
  readonly cluster: LiveCluster;
  readonly process: Started;
  /** The bundle directory. */
  readonly out: string;
}

/** Faults of `sluice watch`, each with the alert that fires. */
export interface WatchFault {
  readonly alert: string;
  readonly title: string;
  readonly options?: readonly string[];
  /** Before it starts. */
  readonly prepare?: (cluster: LiveCluster) => void;
  readonly make: (watch: Watch) => Promise<void> | void;
}

/** A Lease that another pod, which is gone, holds for an hour. */
function heldElsewhere(cluster: LiveCluster): void {
  const leases = new LeaseServer();
  const now = new Date().toISOString().replace('Z', '000Z');
  leases.put('sluice-watch', {
    holderIdentity: 'another-pod',
    leaseDurationSeconds: 3600,
    acquireTime: now,
    renewTime: now,
    leaseTransitions: 1,
  });
  cluster.server.intercept = (path, request, response) =>
    leases.answer(path, request, response) || cluster.answer(path, request, response);
}

export const watchFaults: readonly WatchFault[] = [
  {
    alert: 'SluiceWatchDown',
    title: 'it is killed',
    make: async ({ process }) => {
      process.kill('SIGKILL');
      await process;
    },
  },
  {
    alert: 'SluiceWatchNotLeading',
    title: 'a pod that is gone holds the Lease',
    options: ['--lease=sluice/sluice-watch'],
    prepare: heldElsewhere,
    make: () => undefined,
  },
  {
    alert: 'SluiceWatchApiAway',
    title: 'the API server ends every connection',
    make: ({ cluster }) => {
      cluster.server.intercept = (_path, request) => (request.socket.destroy(), true);
      cluster.drop();
    },
  },
  {
    alert: 'SluiceWatchRemovalHeld',
    title: 'an API server that was restored empty',
    make: async ({ cluster, out }) => {
      const names = Array.from({ length: 12 }, (_, index) => `s${index}`);
      const metadata = (name: string): object => ({
        name: `${name}-1`,
        namespace: 'shop',
        labels: { 'kubernetes.io/service-name': name },
      });
      for (const [index, name] of names.entries()) {
        cluster.put('services', serviceOf(name, index + 10));
        cluster.put('endpointslices', { ...slice, metadata: metadata(name) });
      }
      const last = join(out, serviceFile('default', 'shop', 's11', 'iptables'));
      await until(() => existsSync(last) && readFileSync(last, 'utf8').includes('10.244.1.5'));
      cluster.lose('services');
    },
  },
  {
    alert: 'SluiceWatchFails',
    title: 'a file lies in the place of the directory',
    make: ({ cluster, out }) => {
      rmSync(out, { recursive: true });
      writeFileSync(out, 'dear');
      cluster.put('services', serviceOf('b', 2));
    },
  },
];

/** Alerts about several nodes, which `promtool test rules` shows on series that are given. */
export interface UnitTest {
  readonly alert: string;
  /** Series that raise it after a day and an hour, and series that do not. */
  readonly raises: readonly string[];
  readonly silent: readonly string[];
}

const serial = (node: number, values: string): string =>
  `sluice_release_serial{job="sluiced",instance="node-${node}"} ${values}`;

export const unitTests: readonly UnitTest[] = [
  {
    alert: 'SluiceFleetSplit',
    raises: [serial(1, '7x160'), serial(2, '6x160')],
    // The second node follows within a day.
    silent: [serial(1, '7x160'), serial(2, '6x100 7x60')],
  },
];

/** Runs `promtool test rules`. @returns its output; throws with it when an expectation is wrong */
export function runUnitTest(
  promtool: string,
  file: string,
  rules: string,
  alert: string,
  series: readonly string[],
  labels: readonly object[],
): string {
  const inputs = series.map((line) => ({
    series: line.slice(0, line.indexOf('} ') + 1),
    values: line.slice(line.indexOf('} ') + 2),
  }));
  const test = {
    rule_files: [rules],
    evaluation_interval: '10m',
    tests: [
      {
        interval: '10m',
        input_series: inputs,
        alert_rule_test: [{ eval_time: '25h', alertname: alert, exp_alerts: labels }],
      },
    ],
  };
  writeFileSync(file, JSON.stringify(test));
  return execFileSync(promtool, ['test', 'rules', file], { encoding: 'utf8', stdio: 'pipe' });
}
