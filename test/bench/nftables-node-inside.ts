// All of sluiced in mode nftables, at a number of Services: the first load, endpoint updates, releases. Runs inside network and mount
// namespaces of its own, started by nftables.ts. Prints one JSON line.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { completeFile } from '@sluice/bundle';
import { openSession } from '../../packages/applier/src/commands/session/session.ts';
import { defaultConfig } from '../../packages/applier/src/config.ts';
import { Inbox } from '../../packages/applier/src/inbox/inbox.ts';
import { planTree, writeTree } from '../../packages/renderer/src/emit/tree.ts';
import { listTree } from '../../packages/renderer/src/load/tree.ts';
import { publish } from './inbox.ts';
import { mustBeInNamespace } from './in-namespace.ts';
import { median } from './measure.ts';

mustBeInNamespace();
const services = Number(process.argv[2] ?? 1_000);
const updates = 21;
const releases = 7;
const perRelease = 100;
const scratch = mkdtempSync(join(tmpdir(), 'sluice-nftables-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
const bundle = join(scratch, 'rendered');
publish(bundle, services, 'nftables');

const files = new Map(listTree(bundle).map((path) => [path, readFileSync(join(bundle, path), 'utf8')]));
files.delete(completeFile);
const paths = [...files.keys()].filter((path) => path.includes('/services/'));

/** Writes some files anew, as `sluice watch` does. */
function change(some: readonly string[], edit: (text: string) => string): void {
  for (const path of some) files.set(path, edit(files.get(path) ?? ''));
  const plan = planTree(bundle, files);
  if ('code' in plan) throw new Error(plan.message);
  writeTree(bundle, files, plan);
}

/** When each phase, and the first step, was entered. */
const at = new Map<string, number>();
const probation = { ...defaultConfig('node-0000').probation, seconds: 0 };
const config = { ...defaultConfig('node-0000'), state: join(scratch, 'state'), probation };
const session = await openSession(config, 'change', (event, fields) => {
  const name = event === 'phase' ? String(fields['phase']) : event;
  if (!at.has(name)) at.set(name, performance.now());
});
const inbox = new Inbox(bundle, Date.now);

/** @returns milliseconds from the complete bundle to packets that meet it */
async function put(): Promise<number> {
  at.clear();
  const started = performance.now();
  const arrival = await inbox.look('changed');
  if (arrival.kind !== 'bundle') throw new Error(JSON.stringify(arrival));
  const outcome = await session.reconciler.put(arrival.tree.files, false);
  if (outcome.kind !== 'confirmed') throw new Error(JSON.stringify(outcome));
  return (at.get('verify') ?? Number.NaN) - started;
}

const between = (from: string, to: string): number => (at.get(to) ?? Number.NaN) - (at.get(from) ?? Number.NaN);

const coldMs = await put();
const endpoint: number[] = [];
for (let round = 0; round < updates; round++) {
  const path = paths[(round * 37) % paths.length] as string;
  change([path], (text) => text.replace(/ : \S+ \. (\d+) \}\n$/, ` : 10.250.0.${round + 1} . $1 }\n`));
  endpoint.push(await put());
  session.idle();
}
const release = { switchMs: [] as number[], commitMs: [] as number[] };
for (let round = 0; round < releases; round++) {
  const some = paths.slice(round * perRelease, (round + 1) * perRelease);
  change(some, (text) => text.replaceAll('goto n${count}', 'goto s${count}t600'));
  await put();
  release.switchMs.push(between('step', 'verify'));
  release.commitMs.push(between('finish', 'end'));
  session.idle();
}
session.close();
process.stdout.write(
  `${JSON.stringify({ coldMs, endpointMs: median(endpoint), switchMs: median(release.switchMs), commitMs: median(release.commitMs) })}\n`,
);
