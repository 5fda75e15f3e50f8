// Nodes that fetch, as loops in one process, started by fetch-many.ts. Says when each of its nodes has another release.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readConfig } from '../../packages/applier/src/config.ts';
import { pauseAfterAttempt } from '../../packages/applier/src/fetch/loop.ts';
import { sourceOf } from '../../packages/applier/src/fetch/open.ts';
import { runChildren } from '../../packages/applier/src/kernel/run.ts';
import { isProblem } from '../../packages/bundle/src/documents.ts';
import { readRelease } from '../../packages/bundle/src/release/release.ts';
import { readSums } from '../../packages/bundle/src/release/sums.ts';
import type { LoopsSay } from './fetch-many.ts';

const [port = '', scratch = '', count = '', own = '', of = ''] = process.argv.slice(2);
const errors: string[] = [];
const serials = new Map<string, number>();

/** As `fetchOnce` does it: what is new is fetched, file by file where its digest changed. */
async function fetching(node: string): Promise<void> {
  const reference = `127.0.0.1:${port}/shop:production`;
  const config = readConfig(
    'loops',
    `apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\nnode: ${node}\nsource: { oci: { reference: "${reference}" }, directory: ${join(scratch, node)}, intervalSeconds: 2 }\n`,
  );
  if ('problems' in config || config.source === undefined) throw new Error(JSON.stringify(config));
  const open = sourceOf(config.source, node, { environment: {}, run: runChildren() });
  let found = '';
  let digests: ReadonlyMap<string, string> = new Map();
  await sleep(Math.random() * 2_000);
  for (let attempts = 1; ; attempts++) {
    const source = open();
    try {
      const now = await source.look();
      if (now !== found) {
        const release = await source.open(async () => 'default');
        const sums = readSums(release.top.get('SHA256SUMS') ?? '');
        const made = readRelease(release.top.get('release.yaml') ?? '');
        if (typeof sums === 'string' || isProblem(made)) throw new Error('not a release');
        const before = digests;
        const mine = [...sums].filter(([path]) => !path.startsWith('nodes/') || path.startsWith(`nodes/${node}/`));
        const wanted = new Set(mine.filter(([path, digest]) => before.get(path) !== digest).map(([path]) => path));
        for (const path of release.top.keys()) wanted.delete(path);
        for await (const files of release.read(wanted)) for (const path of files.keys()) wanted.delete(path);
        if (wanted.size > 0) throw new Error(`${[...wanted][0]} is missing`);
        release.placed?.();
        [found, digests] = [now, sums];
        serials.set(node, made.serial);
      }
    } catch (error) {
      errors.push((error as Error).message);
    } finally {
      source.close?.();
    }
    await sleep(pauseAfterAttempt({ attempts, failures: 0, outcome: 'same' }, 2_000, node));
  }
}

const nodes = Array.from({ length: Number(count) }, (_, n) => n).filter((n) => n % Number(of) === Number(own));
const names = nodes.map((n) => `node-${String(n).padStart(4, '0')}`);
for (const name of names) void fetching(name);

let said = 0;
setInterval(() => {
  const least = Math.min(...names.map((name) => serials.get(name) ?? 0));
  if (least === said) return;
  said = least;
  process.send?.({ serial: least, errors: errors.splice(0) } satisfies LoopsSay);
}, 50);
