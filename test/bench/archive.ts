// A release for a node without a network: packed, then verified and unpacked there. Run it with
// `node test/bench/archive.ts [SERVICES]`.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeKey } from '@sluice/testing';
import { clusterList } from './data.ts';
import { interleave, ratio, report, runMeasured } from './measure.ts';

const root = join(import.meta.dirname, '../..');
const sluice = join(root, 'bin/sluice');
const sluiced = join(root, 'bin/sluiced');

/** Measures `sluice pack` and `sluiced import` of the archive for one node, compared with tar and sha256sum on the same files. */
export async function archiveBench(services: number, rounds = 3): Promise<void> {
  const scratch = mkdtempSync(join(tmpdir(), 'sluice-archive-bench-'));
  try {
    const at = (name: string): string => join(scratch, name);
    const node = release(at, services);
    const pack = ['pack', at('release'), '--node', node, '-o', at('a.tar.zst')];
    await runMeasured(sluice, pack);
    let round = 0;
    // A new directory for each: an import into an existing one would have less to do.
    const importInto = (dir: string) => {
      mkdirSync(dir);
      writeFileSync(join(dir, 'sluiced.yaml'), config(dir, node, at('allowed_signers')));
      return runMeasured(sluiced, ['import', at('a.tar.zst'), '-c', join(dir, 'sluiced.yaml')]);
    };
    const byHand =
      'mkdir "$2" && cd "$2" && tar --zstd -xf "$1" && sha256sum -c --quiet --ignore-missing SHA256SUMS && sync -f .';
    const runs = await interleave(rounds, {
      pack: () => runMeasured(sluice, pack),
      ours: () => importInto(at(`node-${round++}`)),
      again: () => importInto(at(`node-${round++}`)),
      tar: () => runMeasured('/bin/sh', ['-c', byHand, 'sh', at('a.tar.zst'), at(`tar-${round++}`)]),
    });
    const megabytes = (statSync(at('a.tar.zst')).size / 1e6).toFixed(1);
    const title = `a release of ${services} Services for one node, ${megabytes} MB packed`;
    report(
      `${title}: verify, unpack and sync (sluiced import)`,
      `${runs.ours.seconds.toFixed(2)} s, ${runs.ours.megabytes.toFixed(0)} MB`,
      'under 3 s',
      `tar, sha256sum and sync ${runs.tar.seconds.toFixed(2)} s, ratio ${ratio(runs.ours.seconds, runs.tar.seconds)}; A/A control ${ratio(runs.again.seconds, runs.ours.seconds)}`,
    );
    report(
      `${title}: packed (sluice pack)`,
      `${runs.pack.seconds.toFixed(2)} s, ${runs.pack.megabytes.toFixed(0)} MB`,
      'once per release',
      `sluiced import, ratio ${ratio(runs.pack.seconds, runs.ours.seconds)}`,
    );
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** Makes a signed release. @returns the name of its node */
function release(at: (name: string) => string, services: number): string {
  const run = (...args: readonly string[]): void => void execFileSync(sluice, args, { stdio: 'ignore' });
  writeFileSync(at('list.json'), JSON.stringify(clusterList({ services, endpointsPerService: 5, nodes: 1 })));
  run('render', '-f', at('list.json'), '-o', at('rendered'));
  run('release', at('rendered'), '--serial', '1', '--source', 'c'.repeat(40), '-o', at('release'));
  makeKey(at('key'));
  run('sign', at('release'), '--key', at('key'));
  const key = readFileSync(at('key.pub'), 'utf8').split(' ').slice(0, 2).join(' ');
  writeFileSync(at('allowed_signers'), `bench namespaces="sluice-release" ${key}\n`);
  return 'node-0000';
}

function config(dir: string, node: string, signers: string): string {
  return `apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\nnode: ${node}\nbundle: ${dir}/rendered\nstate: ${dir}/state\nsignatures: { allowedSigners: ${signers} }\n`;
}

if (import.meta.main) await archiveBench(Number(process.argv[2] ?? 10_000));
