// What a change of endpoints leaves in memory, in one process: what `sluice watch` renders and writes, and what `sluiced` reads, admits and
// plans, after a forced collection. No time is measured.
// @module-tag all
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { changePlacement, differing, Layered, settledPlacement } from '@sluice/netfilter';
import { afterAll, expect, test } from 'vitest';
import { admit, AdmitMemory, isRefusal } from '../packages/applier/src/apply/admission/admit.ts';
import { Inbox } from '../packages/applier/src/inbox/inbox.ts';
import { packSome } from '../packages/applier/src/inbox/packed.ts';
import type { NodeState } from '../packages/applier/src/ports/node-state.ts';
import { LiveTree } from '../packages/renderer/src/emit/live-tree.ts';
import { readConfig } from '../packages/renderer/src/load/config/config.ts';
import type { JsonObject, KubeObject } from '../packages/renderer/src/render/model/kube.ts';
import { LiveRender } from '../packages/renderer/src/render/incremental/live-render.ts';
import { clusterList } from './bench/data.ts';
import { sampleFacts } from '../packages/applier/src/testing/node-facts.fixture.ts';

const scratch = mkdtempSync(join(tmpdir(), 'sluice-memory-'));
afterAll(() => rmSync(scratch, { recursive: true }));

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const services = 100;
const changes = 1_500;
/** A change that kept its file would keep three times as much. Names of chains are kept up to a bound. */
const bytesAChange = 300;

const facts = { ...sampleFacts, addresses: { ipv4: ['192.168.0.1'], ipv6: [] }, kernelRelease: '6.12.0' };

function configOf(mode: string) {
  const profiles = [{ name: 'default', mode, clusterCIDR: ['10.244.0.0/16'] }];
  const text = JSON.stringify({ apiVersion: 'sluice.dev/v1alpha1', kind: 'SluiceConfig', complete: true, profiles });
  return readConfig({ sluice: { file: 'sluice.yaml', text }, kubeProxy: [] }).config;
}

const origin = { place: () => ({ file: '', line: 1, column: 1 }) };
const objectOf = (value: JsonObject): KubeObject => ({
  kind: value['kind'] as KubeObject['kind'],
  apiVersion: value['apiVersion'] as string,
  value,
  origin,
});

/** Both programs around one directory. */
class Path {
  readonly #raw: readonly JsonObject[];
  readonly #slices: readonly number[];
  #objects: Layered<KubeObject>;
  readonly #live: LiveRender;
  readonly #tree: LiveTree;
  readonly #inbox: Inbox;
  readonly #memory = new AdmitMemory();
  #state: NodeState | undefined;
  #placement = settledPlacement({ settings: [], frontends: new Map() }, new Map());

  constructor(mode: string, size = services) {
    const { items } = clusterList({ services: size, endpointsPerService: 5, nodes: 1 });
    this.#raw = items as unknown as readonly JsonObject[];
    this.#slices = this.#raw.flatMap(({ kind }, at) => (kind === 'EndpointSlice' ? [at] : []));
    this.#objects = Layered.of(new Map(this.#raw.map((one, at) => [String(at), objectOf(one)])));
    this.#live = new LiveRender(configOf(mode));
    const directory = mkdtempSync(join(scratch, mode));
    this.#tree = new LiveTree(directory);
    this.#inbox = new Inbox(directory, Date.now);
  }

  /** Gives an endpoint of a Service another address, and brings that to the node. */
  async change(turn: number): Promise<void> {
    const at = this.#slices[turn % services]!;
    const text = JSON.stringify(this.#raw[at]).replace(
      /"addresses":\["[^"]+"\]/,
      `"addresses":["10.244.${(turn >> 8) & 255}.${turn & 255}"]`,
    );
    this.#objects = this.#objects.with([[String(at), objectOf(JSON.parse(text) as JsonObject)]]);
    this.#publish();
    await this.#take();
  }

  /** Brings all of the cluster to the node for the first time. @returns bytes of the heap that `sluice watch` and `sluiced` keep of it */
  async start(): Promise<{ readonly watch: number; readonly sluiced: number }> {
    const before = heapUsed();
    this.#publish();
    this.#live.forget();
    this.#live.pack();
    const published = heapUsed();
    await this.#take();
    return { watch: published - before, sluiced: heapUsed() - published };
  }

  #publish(): void {
    const { files, errors } = this.#live.render(this.#objects, (path) => this.#tree.text(path));
    if (errors.length > 0) throw new Error(JSON.stringify(errors));
    this.#tree.publish(files);
  }

  async #take(): Promise<void> {
    const arrival = await this.#inbox.look('changed');
    if (arrival.kind !== 'bundle') throw new Error(JSON.stringify(arrival));
    const options = { node: 'node-0000', allowPartial: false, layout: 'tree' } as const;
    const admitted = admit(arrival.tree.files, options, facts, this.#memory, { active: this.#state });
    if (isRefusal(admitted)) throw new Error(JSON.stringify(admitted.problems));
    this.#state = admitted.state;
    const { nft } = admitted.state;
    if (nft) {
      const keys = differing(this.#placement.state.frontends, nft.frontends);
      const target = { state: nft, inHalfB: this.#placement.inHalfB, overlay: new Map() };
      this.#placement = changePlacement(this.#placement, target, keys).afterLate;
    }
    // What a WeakRef was asked for stays until a turn of the event loop ends.
    await nextTurn();
    // As the daemon does when it is idle.
    while (packSome());
  }
}

function heapUsed(): number {
  collect();
  collect();
  return process.memoryUsage().heapUsed;
}

test.each(['nftables', 'iptables'])(
  'keeps the same memory over thousands of changes (mode %s)',
  async (mode) => {
    const path = new Path(mode);
    // Each Service has changed often, and maps with layers were merged.
    for (let turn = 0; turn < changes; turn++) await path.change(turn);
    const before = heapUsed();
    for (let turn = changes; turn < 2 * changes; turn++) await path.change(turn);
    expect(heapUsed() - before).toBeLessThan(bytesAChange * changes);
  },
  300_000,
);

/** Bytes for each Service with five endpoints: 2,800 and 4,000. With what is read of objects and of files they are 9,000 and 8,100. */
const bytesAService = { watch: 3_600, sluiced: 5_200 };

test('keeps of a cluster its texts and what the kernel holds, not what was read on the way (mode nftables)', async () => {
  const kept = await new Path('nftables', 1_000).start();
  expect(kept.watch).toBeLessThan(bytesAService.watch * 1_000);
  expect(kept.sluiced).toBeLessThan(bytesAService.sluiced * 1_000);
}, 300_000);
