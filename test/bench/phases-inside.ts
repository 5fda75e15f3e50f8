// One change of an endpoint or a Service, from the API's event to the journal, phase by phase: `sluice watch` and `sluiced` in one process, on the real
// kernel. Runs inside network and mount namespaces of its own, started by phases.ts. Prints one JSON line.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Admission } from '../../packages/applier/src/apply/admission/admission.ts';
import { openSession } from '../../packages/applier/src/commands/session/session.ts';
import { defaultConfig } from '../../packages/applier/src/config.ts';
import { Inbox } from '../../packages/applier/src/inbox/inbox.ts';
import { watchBundle } from '../../packages/applier/src/inbox/watch.ts';
import { LinuxNft } from '../../packages/applier/src/kernel/nft/nft-linux.ts';
import { LinuxKernel } from '../../packages/applier/src/kernel/linux/linux.ts';
import { Changes } from '../../packages/applier/src/apply/reconcile/changes.ts';
import { DiskJournal } from '../../packages/applier/src/state/journal.ts';
import { Layered } from '../../packages/netfilter/src/layered.ts';
import { keep } from '../../packages/renderer/src/cluster/keep.ts';
import { listedKinds } from '../../packages/renderer/src/cluster/kinds.ts';
import { LiveTree } from '../../packages/renderer/src/emit/live-tree.ts';
import { readConfig } from '../../packages/renderer/src/load/config/config.ts';
import type { JsonObject, KubeObject } from '../../packages/renderer/src/render/model/kube.ts';
import { LiveRender } from '../../packages/renderer/src/render/incremental/live-render.ts';
import { clusterList } from './data.ts';
import { mustBeInNamespace } from './in-namespace.ts';
import { median } from './measure.ts';

mustBeInNamespace();
const [mode = 'nftables', count = '1000', changesText = '31', what = 'endpoint'] = process.argv.slice(2);
const services = Number(count);
const scratch = mkdtempSync(join(tmpdir(), 'sluice-phases-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));

/** Elapsed time, and processor time of this process and its tools, in milliseconds. */
interface Spent {
  readonly elapsedMs: number;
  readonly ownMs: number;
  readonly toolsMs: number;
}

/** By kind of change and phase, one entry for each change. */
const spent = new Map<string, Map<string, Spent[]>>();
/** Of the phases in the current change; a phase in another one counts for itself alone. */
let current = new Map<string, Spent>();

function clock(): Spent {
  const { user, system } = process.cpuUsage();
  const running = readFileSync('/proc/thread-self/children', 'utf8').split(' ').filter(Boolean);
  return {
    elapsedMs: performance.now(),
    ownMs: (user + system) / 1000,
    toolsMs: running.reduce((sum, id) => sum + ticksOf(id, 11, 15) * 10, ticksOf('self', 13, 15) * 10),
  };
}

/**
 * Processor time of a process in hundredths of a second: fields 14 and 15 of /proc/PID/stat, and 16 and 17 of its children that have ended, as
 * of the shell that starts small tools.
 */
function ticksOf(id: string, from: number, to: number): number {
  try {
    const fields = readFileSync(`/proc/${id}/stat`, 'utf8')
      .replace(/^.*\) /, '')
      .split(' ');
    return fields.slice(from, to).reduce((sum, field) => sum + Number(field), 0);
  } catch {
    // It has ended meanwhile.
    return 0;
  }
}

/** When the kernel took the last step. */
let inKernel: Spent | undefined;
const open: { inner: Spent }[] = [];
const none: Spent = { elapsedMs: 0, ownMs: 0, toolsMs: 0 };
const minus = (a: Spent, b: Spent): Spent => ({
  elapsedMs: a.elapsedMs - b.elapsedMs,
  ownMs: a.ownMs - b.ownMs,
  toolsMs: a.toolsMs - b.toolsMs,
});
const plus = (a: Spent, b: Spent): Spent => minus(a, minus(none, b));

/** Runs work as a phase; phases within it are subtracted. */
async function phase<T>(name: string, work: () => T | Promise<T>): Promise<T> {
  const begun = clock();
  const own = { inner: none };
  open.push(own);
  try {
    return await work();
  } finally {
    open.pop();
    const end = clock();
    if (name === 'kernel') inKernel = end;
    const all = minus(end, begun);
    current.set(name, plus(current.get(name) ?? none, minus(all, own.inner)));
    const outer = open.at(-1);
    if (outer) outer.inner = plus(outer.inner, all);
  }
}

/** Makes a method of a class a phase. */
function watched<T extends object>(name: string, prototype: T, ...methods: readonly (keyof T)[]): void {
  for (const method of methods) {
    const whole = prototype[method] as (...args: unknown[]) => unknown;
    Object.assign(prototype, {
      [method](this: T, ...args: unknown[]) {
        return phase(name, () => whole.apply(this, args));
      },
    });
  }
}

watched('admit, link', Admission.prototype, 'of');
watched('plan', Changes.prototype, 'decide');
watched('journal, before the kernel', DiskJournal.prototype, 'begin');
watched('journal, after it', DiskJournal.prototype, 'commit', 'finish');
watched('kernel', LinuxKernel.prototype, 'apply');
watched('verify', LinuxKernel.prototype, 'observe', 'observeChains');
watched('verify', LinuxNft.prototype, 'observe', 'members');

const { config } = readConfig({
  sluice: {
    file: 'sluice.yaml',
    text: JSON.stringify({
      apiVersion: 'sluice.dev/v1alpha1',
      kind: 'SluiceConfig',
      complete: true,
      profiles: [{ name: 'default', mode, clusterCIDR: ['10.244.0.0/16'] }],
    }),
  },
  kubeProxy: [],
});
const kinds = Object.values(listedKinds);
const decoded = (text: string): KubeObject => {
  const raw = JSON.parse(text) as JsonObject;
  const kind = kinds.find((one) => one.kind === raw['kind'])!;
  const value = keep(kind, raw);
  return {
    kind: kind.kind,
    apiVersion: kind.apiVersion,
    value,
    origin: { place: () => ({ file: '', line: 1, column: 1 }) },
  };
};

const { items } = clusterList({ services, endpointsPerService: 5, nodes: 3 });
const raw = items.map((item) => JSON.stringify(item));
const tree = new LiveTree(join(scratch, 'rendered'));
const live = new LiveRender(config);
const first = raw.map(decoded);
/** By their places in the list. */
let objects = Layered.of(new Map(first.map((one, at) => [String(at), one])));
const probation = { ...defaultConfig('node-0000').probation, seconds: 0 };
const session = await openSession(
  { ...defaultConfig('node-0000'), layout: 'tree', state: join(scratch, 'state'), probation },
  'change',
  () => undefined,
);
const inbox = new Inbox(join(scratch, 'rendered'), Date.now);

async function publish(): Promise<void> {
  const { files, errors } = await phase('render', () => live.render(objects, (path) => tree.text(path)));
  if (errors.length > 0) throw new Error(JSON.stringify(errors[0]));
  await phase('write', () => tree.publish(files));
}

let noticed = Promise.withResolvers<void>();

async function apply(byHand: boolean): Promise<void> {
  if (!byHand) await phase('notice', () => noticed.promise);
  const arrival = await phase('read', () => inbox.look('changed'));
  if (arrival.kind !== 'bundle') throw new Error(JSON.stringify(arrival));
  const outcome = await phase('rest of the change', () => session.reconciler.put(arrival.tree.files, byHand));
  if (outcome.kind !== 'confirmed') throw new Error(JSON.stringify(outcome));
}

await publish();
await apply(true);
session.idle();
const watcher = await watchBundle(join(scratch, 'rendered'), {
  onEvent: () => noticed.resolve(),
  failed: () => undefined,
});
const slices = first.flatMap(({ kind }, at) => (kind === 'EndpointSlice' ? [at] : []));

/** The objects that the API tells of one change, as texts; undefined: it is gone. */
type Told = readonly (readonly [key: string, text: string | undefined])[];

function endpointChange(change: number): Told {
  const at = slices[(change * 37) % slices.length]!;
  return [[String(at), raw[at]!.replace(/"addresses":\["[^"]+"\]/, `"addresses":["10.244.250.${change + 1}"]`)]];
}

/** A Service comes with its slice, gets another port, and goes. */
const serviceChanges: Readonly<Record<string, (change: number) => Told>> = {
  added: (change) => {
    const at = slices[(change * 37) % slices.length]!;
    const renamed = (text: string): string =>
      text.replaceAll(/svc-\d+/g, `new-${change}`).replaceAll(/"10\.9\d\.[\d.]+"/g, `"10.111.0.${change + 1}"`);
    return [at - 1, at].map((one) => [`new ${one - at}`, renamed(raw[one]!).replaceAll('"10.128.', '"10.244.')]);
  },
  changed: (change) =>
    serviceChanges['added']!(change).map(([key, text]) => [key, text?.replace('"port":80,', '"port":8000,')] as const),
  removed: () => [-1, 0].map((one) => [`new ${one}`, undefined] as const),
};
const kindsOfChange = what === 'endpoint' ? { endpoint: endpointChange } : serviceChanges;
const inTurn = Array.from({ length: Number(changesText) }, (_, change) => change).flatMap((change) =>
  Object.entries(kindsOfChange).map(([kind, make]) => ({ kind, told: make(change) })),
);
for (const { kind, told } of inTurn) {
  current = new Map();
  const begun = clock();
  const changes = await phase('decode', () => told.map(([key, text]) => [key, text && decoded(text)] as const));
  objects = objects.with(changes.map(([key, object]) => [key, object || undefined] as const));
  noticed = Promise.withResolvers();
  await publish();
  await apply(false);
  if (inKernel) current.set('until the kernel has it', minus(inKernel, begun));
  current.set('all', minus(clock(), begun));
  // The next tools start while nothing waits for them.
  const idle = clock();
  session.idle();
  await new Promise((resolve) => setTimeout(resolve, 300));
  current.set('idle, afterwards', minus(clock(), idle));
  const own = spent.get(kind) ?? new Map<string, Spent[]>();
  spent.set(kind, own);
  for (const [name, one] of current) own.set(name, [...(own.get(name) ?? []), one]);
}
session.close();
await watcher.close();
const mid = (all: readonly Spent[]): Spent => ({
  elapsedMs: median(all.map(({ elapsedMs }) => elapsedMs)),
  ownMs: median(all.map(({ ownMs }) => ownMs)),
  // In hundredths of a second: the mean of all is finer.
  toolsMs: all.reduce((sum, { toolsMs }) => sum + toolsMs, 0) / all.length,
});
const phases = [...spent].map(([kind, own]) => [kind, [...own].map(([name, all]) => ({ name, ...mid(all) }))] as const);
process.stdout.write(`${JSON.stringify(Object.fromEntries(phases))}\n`);
