// @module-tag quick
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { kubeProxyMetrics } from '../tools/docs/kube-proxy-metrics.ts';
import type { Status } from '../packages/applier/src/observe/status/status.ts';
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
  const answers = Object.values(kubeProxyMetrics).flatMap((one) => (one.kind === 'own' ? [one.name] : []));
  expect(answers.filter((name) => !all.has(name))).toEqual([]);
});

test.for([newest, '1.38'])('the table has every metric of kube-proxy %s, and no other', (minor, context) => {
  const pinned = moduleFolder('k8s.io/kubernetes');
  const beside = pinned === undefined ? [] : globSync(join(dirname(pinned), `kubernetes@v${minor}.*`));
  const folder = minor === newest ? pinned : beside.toSorted().at(-1);
  if (folder === undefined) return context.skip(`the modules of Kubernetes ${minor} are not in Go's module cache`);
  const source = readFileSync(join(folder, 'pkg/proxy/metrics/metrics.go'), 'utf8');
  const names = [
    ...[...source.matchAll(/Subsystem: +kubeProxySubsystem,\s+Name: +"(\w+)"/g)].map(([, name]) => `kubeproxy_${name}`),
    ...[...source.matchAll(/^\t\t"(kubeproxy_\w+)",$/gm)].map(([, name]) => name ?? ''),
  ];
  expect(names.length).toBeGreaterThan(20);
  expect(Object.keys(kubeProxyMetrics).toSorted()).toEqual(names.toSorted());
});
