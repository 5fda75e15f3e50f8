// The cost of scanning a bundle directory: copied for the first time, unchanged, with one file touched, and with one file replaced, as
// after an event. Run it with
// `node test/bench/inbox.ts [SERVICES]`.
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { completeFile } from '@sluice/bundle';
import { Inbox } from '../../packages/applier/src/inbox/inbox.ts';
import { trustOf } from '../../packages/applier/src/inbox/trust.ts';
import { planTree, writeTree } from '../../packages/renderer/src/emit/tree.ts';
import { readConfig } from '../../packages/renderer/src/load/config/config.ts';
import { load } from '../../packages/renderer/src/load/load.ts';
import { listTree } from '../../packages/renderer/src/load/tree.ts';
import { render } from '../../packages/renderer/src/render/render.ts';
import { clusterList } from './data.ts';
import { median, ms, ratio, report } from './measure.ts';

/** Writes a bundle of this many Services and compares the inbox with reading and hashing the same files by name. */
export async function inboxBench(services: number, rounds = 7): Promise<void> {
  const scratch = mkdtempSync(join(tmpdir(), 'sluice-inbox-'));
  try {
    const bundle = join(scratch, 'rendered');
    publish(bundle, services);
    const copied: number[] = [];
    const unchanged: number[] = [];
    const oneFile: number[] = [];
    const replaced: number[] = [];
    const eventIdle: number[] = [];
    const plain: number[] = [];
    // The clock is ahead, so that files count as old and are cached although they were just written.
    for (let round = 0; round < rounds; round++) {
      const inbox = new Inbox(bundle, () => Date.now() + 60_000, trustOf(undefined));
      copied.push(await timed(() => inbox.look()));
      unchanged.push(await timed(() => inbox.look()));
      utimesSync(join(bundle, 'cluster.yaml'), 1, round);
      oneFile.push(await timed(() => inbox.look()));
      replaceOne(bundle, round);
      replaced.push(await timed(() => inbox.look('changed')));
      eventIdle.push(await timed(() => inbox.look('changed')));
      plain.push(await timed(async () => readAll(bundle)));
    }
    const floor = `reading and hashing by name ${ms(median(plain))}`;
    const files = listTree(bundle).length;
    const title = `inbox, ${services} Services, ${files} files`;
    report(
      `${title}: copy and hash`,
      ms(median(copied)),
      'once at start',
      `${floor}, ratio ${ratio(median(copied), median(plain))}`,
    );
    report(
      `${title}: nothing changed`,
      ms(median(unchanged)),
      'each scan',
      `${floor}, ratio ${ratio(median(unchanged), median(plain))}`,
    );
    report(
      `${title}: one file touched`,
      ms(median(oneFile)),
      'each scan',
      `${floor}, ratio ${ratio(median(oneFile), median(plain))}`,
    );
    const whole = `a scan of the whole directory ${ms(median(oneFile))}`;
    report(
      `${title}: one file replaced, after an event`,
      ms(median(replaced)),
      'each endpoint update',
      `${whole}, ratio ${ratio(median(replaced), median(oneFile))}`,
    );
    report(
      `${title}: nothing changed, after an event`,
      ms(median(eventIdle)),
      'each event',
      `${whole}, ratio ${ratio(median(eventIdle), median(oneFile))}`,
    );
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return (performance.now() - started) / 1000;
}

function readAll(directory: string): void {
  for (const path of listTree(directory))
    createHash('sha256')
      .update(readFileSync(join(directory, path)))
      .digest('hex');
}

/** As `sluice watch` does when an endpoint changes: remove the seal, replace one file, write the new seal. */
function replaceOne(bundle: string, round: number): void {
  const files = new Map(listTree(bundle).map((path) => [path, readFileSync(join(bundle, path), 'utf8')]));
  files.delete(completeFile);
  const path = [...files.keys()].find((one) => one.endsWith('.iptables') && one.includes('/services/')) as string;
  files.set(path, `${files.get(path)}# ${round}\n`);
  const plan = planTree(bundle, files);
  if ('code' in plan) throw new Error(plan.message);
  writeTree(bundle, files, plan);
}

/** Writes the rendered bundle of a synthetic cluster of one node, `node-0000`. @param more lines of its profile */
export function publish(
  bundle: string,
  services: number,
  mode: 'iptables' | 'nftables' = 'iptables',
  more: readonly string[] = [],
): void {
  const lines = [`mode: ${mode}`, 'clusterCIDR: 10.128.0.0/9', 'conntrack: { maxPerCore: 0 }', ...more];
  const profile = `name: default\n${lines.map((line) => `  ${line}\n`).join('')}`;
  const sluice = `apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\ncomplete: true\nprofiles:\n- ${profile}`;
  const { config } = readConfig({ sluice: { file: 'sluice.yaml', text: sluice }, kubeProxy: [] });
  const text = JSON.stringify(clusterList({ services, endpointsPerService: 5, nodes: 1 }));
  const change = load([{ file: 'list.json', text }]).objects;
  const { files, problems } = render({
    base: [],
    change,
    config,
    allocations: [],
    allocate: false,
    snapshot: true,
    strict: false,
  });
  if (files.size === 0) throw new Error(JSON.stringify(problems.slice(0, 3)));
  const plan = planTree(bundle, files);
  if ('code' in plan) throw new Error(plan.message);
  writeTree(bundle, files, plan);
}

if (import.meta.main) await inboxBench(Number(process.argv[2] ?? 10_000));
