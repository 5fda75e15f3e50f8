// Runs on the machine of the API server: how long after its answer a packet of each node meets a change. Prints JSON.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Asking } from '../askers.ts';
import { follow, senderOf, services, serviceOf, sliceOf, slices } from './api.ts';
import { type ByNode, Measured, notice, nowMs, type Used, usedOn } from './nodes.ts';

/** Milliseconds of each change on each node, and what the programs that serve Services use there. */
export interface Delivered {
  readonly added: ByNode<readonly number[]>;
  readonly replaced: ByNode<readonly number[]>;
  /** Of each new pod, from its event. */
  readonly scaled: ByNode<readonly number[]>;
  readonly used: ByNode<Readonly<Record<string, Used>>>;
}

const [kubeconfig = '', asking = ''] = process.argv.slice(2);
const { nodes, pods, scaled: deployment, services: more = 0 } = JSON.parse(asking) as Asking;
const [[before, beforeAddress] = ['', ''], [after, afterAddress] = ['', '']] = pods;
const send = senderOf(kubeconfig);
const everyMs = 10;
/** A way that is slow meets the next changes before it has answered these. */
const [rounds, pauseMs] = [15, 2_000];
const names = Array.from({ length: rounds }, (_, n) => `delivered-${n}`);

/** Begins to ask each node, makes a change, and measures from the API server's answer. */
async function measure(into: Measured, address: string, wanted: string, change: () => Promise<unknown>): Promise<void> {
  const { times } = await notice(nodes, { address, wanted, everyMs });
  await change();
  const sinceMs = nowMs();
  into.add(await times, sinceMs);
}

/** One change after the other, some time apart. */
async function each(act: (name: string) => Promise<void>): Promise<void> {
  const acts: Promise<void>[] = [];
  for (const name of names) {
    acts.push(act(name));
    await sleep(pauseMs);
  }
  await Promise.all(acts);
}

interface Slice {
  readonly endpoints?: readonly {
    readonly conditions: { readonly ready?: boolean };
    readonly targetRef?: { readonly name: string };
  }[];
}

/** Scales a Deployment from two to four pods and back. */
async function scale(into: Measured, name: string): Promise<void> {
  const { spec } = (await send('GET', `${services}/${name}`)) as { readonly spec: { readonly clusterIP: string } };
  const measured: Promise<void>[] = [];
  let [ready, known] = [new Set<string>(), new Set<string>()];
  let isFirst = true;
  follow(kubeconfig, `${slices}?labelSelector=kubernetes.io/service-name=${name}`, (object) => {
    const sinceMs = nowMs();
    const { endpoints } = object as Slice;
    const served = (endpoints ?? []).filter(({ conditions }) => conditions.ready === true);
    ready = new Set(served.map(({ targetRef }) => targetRef?.name ?? ''));
    for (const pod of isFirst ? [] : [...ready].filter((one) => !known.has(one)))
      measured.push(
        notice(nodes, { address: spec.clusterIP, wanted: pod, everyMs }).then(async ({ times }) =>
          into.add(await times, sinceMs),
        ),
      );
    known = new Set([...known, ...ready]);
    isFirst = false;
  });
  const path = `/apis/apps/v1/namespaces/default/deployments/${name}/scale`;
  for (const replicas of [2, 4, 2, 4, 2, 4, 2, 4]) {
    const metadata = { name, namespace: 'default' };
    await send('PUT', path, { apiVersion: 'autoscaling/v1', kind: 'Scale', metadata, spec: { replicas } });
    for (const endMs = nowMs() + 120_000; ready.size !== replicas && nowMs() < endMs; ) await sleep(100);
    await sleep(pauseMs);
    await Promise.all(measured);
  }
}

for (let at = 0; at < more; at += 20) {
  const some = Array.from({ length: 20 }, (_, n) => `more-${at + n}`);
  await Promise.all(some.map((name) => send('POST', services, serviceOf(name))));
  await Promise.all(some.map((name) => send('POST', slices, sliceOf(name, beforeAddress, afterAddress))));
}
if (more > 0) await sleep(15_000);
const [added, replaced, scaled] = [new Measured(), new Measured(), new Measured()];
const addresses = new Map<string, string>();
await each(async (name) => {
  const { spec } = (await send('POST', services, serviceOf(name))) as { readonly spec: { readonly clusterIP: string } };
  addresses.set(name, spec.clusterIP);
  await measure(added, spec.clusterIP, before, () => send('POST', slices, sliceOf(name, beforeAddress)));
});
await each((name) =>
  measure(replaced, addresses.get(name) ?? '', after, () =>
    send('PUT', `${slices}/${name}`, sliceOf(name, afterAddress)),
  ),
);
if (deployment !== undefined) await scale(scaled, deployment);
const delivered: Delivered = {
  added: added.values,
  replaced: replaced.values,
  scaled: scaled.values,
  used: await usedOn(nodes),
};
// What follows the slices does not end.
process.stdout.write(JSON.stringify(delivered), () => process.exit(0));
