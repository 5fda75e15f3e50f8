// @module-tag quick
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { kubeProxyMetrics } from '../packages/applier/src/status/kube-proxy-metrics.ts';
import type { Status } from '../packages/applier/src/status/status.ts';
import { Metrics } from '../packages/renderer/src/commands/watch/metrics.ts';
import { newest } from './parity/binaries.ts';
import { moduleFolder } from './parity/go-fields.ts';
import { freshStatus } from './status.fixture.ts';

/** The table of docs/kube-proxy-metrics.md compared with what programs export, and with kube-proxy's source. */

const status = freshStatus();

const exported = async ({ registry }: Pick<Status, 'registry'>): Promise<readonly string[]> =>
  [...(await registry.metrics()).matchAll(/^# HELP (\S+)/gm)].map(([, name]) => name ?? '');

test('a node exports those with the same meaning, and no other of kube-proxy', async () => {
  const same = Object.entries(kubeProxyMetrics).flatMap(([name, { kind }]) => (kind === 'same' ? [name] : []));
  const found = (await exported(status)).filter((name) => name.startsWith('kubeproxy_'));
  expect(found.toSorted()).toEqual(same.toSorted());
});

test('a metric that answers for one of kube-proxy is exported', async () => {
  const all = new Set([...(await exported(status)), ...(await exported(new Metrics()))]);
  const answers = Object.values(kubeProxyMetrics).flatMap((fate) => (fate.kind === 'own' ? [fate.name] : []));
  expect(answers.filter((name) => !all.has(name))).toEqual([]);
});

test('the table has every metric of the pinned kube-proxy, and no other', (context) => {
  const folder = moduleFolder('k8s.io/kubernetes');
  if (folder === undefined) return context.skip(`the modules of Kubernetes ${newest} are not in Go's module cache`);
  const source = readFileSync(join(folder, 'pkg/proxy/metrics/metrics.go'), 'utf8');
  const names = [
    ...[...source.matchAll(/Subsystem: +kubeProxySubsystem,\s+Name: +"(\w+)"/g)].map(([, name]) => `kubeproxy_${name}`),
    ...[...source.matchAll(/^\t\t"(kubeproxy_\w+)",$/gm)].map(([, name]) => name ?? ''),
  ];
  expect(names.length).toBeGreaterThan(20);
  expect(Object.keys(kubeProxyMetrics).toSorted()).toEqual(names.toSorted());
});
