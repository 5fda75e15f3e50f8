/**
 * Opens a cluster for a person: `node test/conformance/open.ts [iptables|nftables]` prints how to reach it, and ends it with the process.
 * Programs are taken from the cache: `./dev test --all test/conformance` builds them.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildTestPrograms } from '../../tools/test-programs.ts';
import { openRealCluster } from './cluster.ts';
import { buildPrograms } from './programs.ts';
import { sluiceSystem } from './systems.ts';

process.env['SLUICE_PROGRAMS'] ??= await buildTestPrograms(join(import.meta.dirname, '..', '..'));
const mode = process.argv[2] === 'iptables' ? 'iptables' : 'nftables';
const programs = await buildPrograms(false);
if ('lack' in programs) throw new Error(programs.lack);
const folder = mkdtempSync(join(tmpdir(), 'sluice-cluster-'));
const ended = new Promise((resolve) => {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, resolve);
});
try {
  await using cluster = await openRealCluster(programs, sluiceSystem({ mode, layout: 'tree' }), folder);
  const { pid } = cluster.control;
  const enter = `nsenter --target=${pid} --net --mount --pid=/proc/${pid}/ns/pid_for_children --`;
  process.stdout.write(`${enter} ${programs.kubectl} --kubeconfig=${cluster.plane.kubeconfig} get nodes\n`);
  await ended;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
