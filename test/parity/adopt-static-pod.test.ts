// @module-tag all
import { readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { AdoptNode } from '../netns/adopt-node.ts';
import { addPods } from '../netns/clients.ts';
import { needBackend, needKernel } from '../netns/privileges.ts';
import { until } from '../netns/until.ts';
import { workloadPrograms, type WorkloadPrograms } from './binaries.ts';

/**
 * The manifest of a static pod, seen by the real reader of static pods of the kubelet: its pod goes with `sluiced adopt`, and the same one comes
 * back with `--undo`. Stand-ins run kube-proxy itself.
 */

let programs: WorkloadPrograms | { readonly lack: string };
beforeAll(async () => {
  programs = await workloadPrograms();
}, 3_600_000);

let node: AdoptNode;
beforeEach(async (context) => {
  needKernel(context);
  needBackend(context, 'nft');
  if ('lack' in programs) return context.skip(programs.lack);
  node = await AdoptNode.start();
  await addPods(node);
});
afterEach(async () => node?.close());

/** With what a program that reads and writes it would change: a comment, two kinds of indentation, spaces at an end, no last line break. */
const manifest = `# Written by nodeup
apiVersion: v1
kind: Pod
metadata:
    name: kube-proxy
    namespace: kube-system   \nspec:
  hostNetwork: true
  containers:
  - {name: kube-proxy, image: "registry.k8s.io/kube-proxy:v1.37.2"}`;

/** All that the kubelet, an administrator or a tool that compares files can see of a file. */
function seen(path: string): unknown {
  const { mode, uid, gid, mtimeMs, ino } = statSync(path);
  return { text: readFileSync(path, 'utf8'), mode, uid, gid, mtimeMs, ino };
}

test('the kubelet removes the pod in the middle of a move, and adds it again after an undo, byte for byte', {
  timeout: 120_000,
}, async () => {
  await node.startKubeProxy('nft');
  writeFileSync(node.manifest, manifest, { mode: 0o600 });
  utimesSync(node.manifest, 1_700_000_000, 1_700_000_000);
  const before = seen(node.manifest);
  const log = `${node.directory}/pods`;
  writeFileSync(log, '');
  const { workloads } = programs as WorkloadPrograms;
  const folder = `${node.directory}/manifests`;
  const reader = node.host.start([
    'sh',
    '-c',
    'exec "$1" manifests "$2" > "$3" 2> /dev/null',
    'sh',
    workloads,
    folder,
    log,
  ]);
  const pod = 'kube-system/kube-proxy-node-a';
  const untilSaid = (lines: readonly string[]): Promise<unknown> =>
    until(lines.join(', '), async () => readFileSync(log, 'utf8') === lines.map((line) => `${line}\n`).join(''));
  await untilSaid([`ADD ${pod}`]);
  node.writeConfig('nft');
  writeBundle(
    `${node.directory}/rendered`,
    sampleBundle({ services: { 'shop/web': [1, 2], 'shop/cart': [3] }, families: ['ipv4', 'ipv6'] }),
  );
  const there = await node.sluiced('adopt', '--manifest', node.manifest, '--without-parity');
  expect(there).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('adopted: Sluice serves alone') });
  await untilSaid([`ADD ${pod}`, `REMOVE ${pod}`]);
  const back = await node.sluiced('adopt', '--undo', '--wait', '20');
  expect(back).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('undone: kube-proxy serves') });
  await untilSaid([`ADD ${pod}`, `REMOVE ${pod}`, `ADD ${pod}`]);
  expect(seen(node.manifest)).toEqual(before);
  await reader.stop();
});
