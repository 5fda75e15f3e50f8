// Runs on the machine of the API server: makes Services and removes them again, changes endpoints of others, and asks each node. Prints JSON.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Asking } from '../askers.ts';
import { senderOf, services, serviceOf, sliceOf, slices } from './api.ts';
import { type ByNode, Measured, notice, nowMs, type Used, usedOn } from './nodes.ts';

/** Milliseconds of each Service, on each node. */
export interface Churned {
  /** From the API server's answer about its endpoints to the first connection. */
  readonly served: ByNode<readonly number[]>;
  /** From its answer about the removal to the first connection that is not taken. */
  readonly removed: ByNode<readonly number[]>;
  /** From its answer about the last of many changes of endpoints to the first answer of the last endpoint. */
  readonly settled: ByNode<readonly number[]>;
  /** Changes of endpoints in a second, as the API server took them. */
  readonly rate: number;
  /** Of a processor, by node and program: while Services came and went, and while endpoints changed. */
  readonly seconds: readonly ByNode<Readonly<Record<string, number>>>[];
}

const [kubeconfig = '', asking = ''] = process.argv.slice(2);
const { nodes, pods } = JSON.parse(asking) as Asking;
const [[, first] = ['', '']] = pods;
const send = senderOf(kubeconfig);
const everyMs = 25;

/** @returns its address */
async function make(name: string): Promise<string> {
  const made = (await send('POST', services, serviceOf(name))) as { readonly spec: { readonly clusterIP: string } };
  return made.spec.clusterIP;
}

/** Services that live for some seconds, so many in this time. */
async function comeAndGo(count: number, seconds: number): Promise<Pick<Churned, 'served' | 'removed'>> {
  const [served, removed] = [new Measured(), new Measured()];
  const live = async (name: string): Promise<void> => {
    const address = await make(name);
    const come = await notice(nodes, { address, wanted: 'any', everyMs });
    await send('POST', slices, sliceOf(name, first));
    const comeMs = nowMs();
    served.add(await come.times, comeMs);
    await sleep(2_000);
    await send('DELETE', `${services}/${name}`);
    await send('DELETE', `${slices}/${name}`);
    const goneMs = nowMs();
    const gone = await notice(nodes, { address, wanted: 'none', everyMs });
    removed.add(await gone.times, goneMs);
  };
  const lives: Promise<void>[] = [];
  const startMs = nowMs();
  for (let n = 0; n < count; n++) {
    // By the clock, so that a slow answer makes no pause.
    await sleep(Math.max(0, startMs + (n * seconds * 1_000) / count - nowMs()));
    lives.push(live(`churn-${n}`));
  }
  await Promise.all(lives);
  return { served: served.values, removed: removed.values };
}

/** Fifty Services whose endpoint changes twice a second. */
async function change(): Promise<Pick<Churned, 'settled' | 'rate'>> {
  const names = Array.from({ length: 50 }, (_, n) => `changed-${n}`);
  const addresses = await Promise.all(names.map(make));
  await Promise.all(names.map((name) => send('POST', slices, sliceOf(name, first))));
  const [startMs, turns] = [nowMs(), 20];
  for (let turn = 1; turn <= turns; turn++) {
    const [, address] = pods[turn % 2] ?? ['', ''];
    const put = names.map((name) => send('PUT', `${slices}/${name}`, sliceOf(name, address)));
    await Promise.all([sleep(500), ...put]);
  }
  const lastMs = nowMs();
  const rate = Math.round((turns * names.length * 1_000) / (lastMs - startMs));
  const [wanted = ''] = pods[turns % 2] ?? [];
  const settled = new Measured();
  await Promise.all(
    addresses.map(async (address) =>
      settled.add(await (await notice(nodes, { address, wanted, everyMs })).times, lastMs),
    ),
  );
  return { settled: settled.values, rate };
}

/** Runs work. @returns its result, and the seconds of a processor that programs of each node used meanwhile */
async function costOf<T>(work: () => Promise<T>): Promise<readonly [T, ByNode<Readonly<Record<string, number>>>]> {
  const before = await usedOn(nodes);
  const result = await work();
  const after = await usedOn(nodes);
  const spent = (node: string, programs: Readonly<Record<string, Used>>) =>
    Object.fromEntries(
      Object.entries(programs).map(([name, { seconds }]) => [
        name,
        Number((seconds - (before[node]?.[name]?.seconds ?? 0)).toFixed(1)),
      ]),
    );
  return [result, Object.fromEntries(Object.entries(after).map(([node, programs]) => [node, spent(node, programs)]))];
}

const [cameAndWent, costOfServices] = await costOf(() => comeAndGo(300, 60));
const [changed, costOfEndpoints] = await costOf(change);
const churned: Churned = { ...cameAndWent, ...changed, seconds: [costOfServices, costOfEndpoints] };
process.stdout.write(JSON.stringify(churned));
