import { deepEqual, doesNotMatch, equal, match, ok } from 'node:assert/strict';
import { planeOf } from '@sluice/netfilter';
import { atTier, randomOf, seed as runSeed } from '@sluice/testing';
import { expect, test } from 'vitest';
import type { DiskJournal } from '../../state/journal.ts';
import type { Outcome } from '../../ports/outcome.ts';
import type { NodeState } from '../../ports/node-state.ts';
import { hash16, sampleBundle, type SampleOptions } from '../../testing/bundle.fixture.ts';
import { settledElements } from '../../testing/nftables.fixture.ts';
import { type ProcessFaults, World } from '../../testing/world.fixture.ts';
import type { Offers } from '../transaction/offers.ts';

/**
 * Random histories of a node: releases, changes of mode, crashes at any call, failing tools, slow calls, boots, hours that pass, drift,
 * endpoint updates during probation. A number identifies a history: `SLUICE_HISTORY=7 ./dev test FILE` replays it.
 */
const only = process.env['SLUICE_HISTORY'];
const count = atTier({ quick: 8, test: 80, soak: 5_000 });
const first = only === undefined ? runSeed : Number(only);
const seeds = Array.from({ length: only === undefined ? count : 1 }, (_, n) => first + n);

const foreign = '*nat\n:CNI-X - [0:0]\n-A POSTROUTING -s 10.244.0.0/16 -j CNI-X\n-A CNI-X -j RETURN\nCOMMIT\n';
/** The last byte of an endpoint's address by Service: two endpoints stay, the third one changes. `shop/edge` has one, or 0: none. */
type Pods = Readonly<Record<string, number>>;
const firstPods: Pods = { 'shop/web': 10, 'shop/cart': 20, 'shop/new': 30 };
const shapes: readonly (readonly string[])[] = [
  ['shop/web', 'shop/edge'],
  ['shop/web', 'shop/edge'],
  ['shop/web', 'shop/cart', 'shop/edge'],
  ['shop/web', 'shop/cart', 'shop/new', 'shop/edge'],
  ['shop/cart', 'shop/web'],
];
type Mode = NonNullable<SampleOptions['mode']>;
/** Modes ipvs and nftables know a Service by its address, which is the same in every shape. */
const names = ['shop/web', 'shop/cart', 'shop/new', 'shop/edge'] as const;
const keyOf = (name: string): string => `10.96.0.${(names as readonly string[]).indexOf(name) + 11}:80/TCP`;
const bundleOf = (pods: Pods, mode: Mode): Map<string, string> => {
  const listed = mode === 'iptables' ? Object.keys(pods) : names;
  const services = listed.map((name) => {
    const pod = pods[name];
    return [name, pod === undefined ? undefined : pod === 0 ? [] : [...own(name), pod]] as const;
  });
  return sampleBundle({ services: Object.fromEntries(services), families: ['ipv4', 'ipv6'], mode });
};
const own = (name: string): readonly number[] => {
  const pod = firstPods[name];
  return pod === undefined ? [] : [pod, pod + 1];
};

const modes = ['iptables', 'iptables', 'nftables', 'nftables', 'ipvs'] as const satisfies readonly Mode[];

const modeOf = ({ nft, ipvs }: NodeState): Mode => (nft ? 'nftables' : ipvs ? 'ipvs' : 'iptables');

const none: ProcessFaults = {
  diesAt: undefined,
  fault: 'before',
  refuses: () => false,
  healthy: () => true,
  takesMs: () => 1,
};

class History {
  readonly #chance: () => number;
  readonly #world: World;
  /** Whether drift or a boot changed the kernel since it last equalled the journal. */
  #disturbed = false;
  /** Whether the present process has no faults except failing probes and slow calls. */
  #isCalm = true;
  /** The endpoints that each Service may have now. */
  readonly #pods = new Map<string, readonly number[]>();
  readonly #layout: 'tree' | 'flat';
  #mode: Mode = 'iptables';
  /** Moments at which packets met two programs. Collected, not thrown: the transaction would take an error for a refusal. */
  readonly #seen: string[] = [];

  constructor(seed: number) {
    this.#chance = randomOf(seed);
    this.#layout = this.#chance() < 0.8 ? 'tree' : 'flat';
    this.#world = new World(this.#layout, foreign, this.#chance() < 0.1);
  }

  async run(): Promise<void> {
    try {
      for (let events = 0; events < 8; events++) {
        await this.#event();
        await this.#restart();
      }
    } finally {
      this.#world.end();
    }
  }

  #below(most: number): number {
    return Math.floor(this.#chance() * most);
  }

  #troubles(): ProcessFaults {
    const refusing = this.#chance() < 0.3 ? this.#chance() * 0.3 : 0;
    const sick = this.#chance() < 0.3 ? this.#chance() : 0;
    const slow = this.#chance() < 0.2 ? 0.1 : 0;
    const diesAt = this.#chance() < 0.6 ? this.#below(60) : undefined;
    this.#isCalm = diesAt === undefined && refusing === 0;
    return {
      diesAt,
      fault: this.#chance() < 0.5 ? 'before' : 'after',
      refuses: () => this.#chance() < refusing,
      healthy: () => this.#chance() >= sick,
      takesMs: () => (this.#chance() < slow ? this.#below(60_000) : this.#below(50)),
    };
  }

  async #event(): Promise<void> {
    const kind = this.#below(10);
    if (kind === 0) {
      this.#world.kernel.reboot();
      this.#world.kernel.load('ipv4', foreign);
      this.#disturbed = true;
    } else if (kind === 1) {
      await this.#disturb();
      this.#disturbed = true;
    } else if (kind === 2) this.#world.nowMs += this.#below(120_000);
    if (this.#chance() < 0.3) this.#mode = modes[this.#below(modes.length)] as Mode;
    await this.#put();
  }

  /** Another program empties a chain of ours, or removes what leads packets to endpoints. */
  async #disturb(): Promise<void> {
    const { kernel } = this.#world;
    const chain = kernel.save('ipv4').match(/(?<=^:)(SLU|KUBE)\S+/gm)?.[0];
    if (chain !== undefined) kernel.load('ipv4', `*filter\n:${chain} - [0:0]\nCOMMIT\n`);
    if (await kernel.nft.exists()) await kernel.nft.load('flush map inet sluice svc4\n');
  }

  /** One process tries a release, and endpoint updates arrive meanwhile. */
  async #put(): Promise<void> {
    const { reconciler, journal } = this.#world.start(this.#troubles(), (seen) => this.#moment(seen));
    // The endpoints of another mode cannot go into the old program.
    if (journal.active && modeOf(journal.active.state) !== this.#mode) this.#isCalm = false;
    const before = journal.active?.version;
    const offered = [this.#somePods()];
    const outcome: Outcome | undefined = await reconciler
      .put(bundleOf(offered[0] as Pods, this.#mode), true, this.#offers(offered))
      .catch(() => undefined);
    deepEqual(this.#seen, []);
    // The outcome agrees with the journal.
    if (outcome?.kind === 'confirmed') equal(journal.active?.version, outcome.generation.version);
    if (outcome?.kind === 'rolled-back' && before !== undefined) equal(journal.active?.version, before);
    this.#remember(offered);
  }

  /** If only probes failed, the newest endpoints are expected; otherwise older ones are allowed, too. */
  #remember(offered: readonly Pods[]): void {
    const newest = new Map(offered.flatMap((pods) => Object.entries(pods)));
    const all = Map.groupBy(
      offered.flatMap((pods) => Object.entries(pods)),
      ([name]) => name,
    );
    for (const [name, pod] of newest) {
      const others = [...(this.#pods.get(name) ?? []), ...(all.get(name) ?? []).map(([, one]) => one)];
      this.#pods.set(name, this.#isCalm ? [pod] : others);
    }
  }

  #holdsNewest(state: NodeState): void {
    // Declined endpoints are not expected.
    if (this.#world.declined.size > 0) return;
    for (const [name, pods] of this.#pods) {
      const services = planeOf(state).read(state);
      const chains = ['KUBE-SVC', 'KUBE-SVL', 'SLU-SVC', 'SLU-SVL'].map((kind) => `ipv4 ${kind}-${hash16(name)}`);
      for (const key of state.nft || state.ipvs ? [keyOf(name)] : chains) {
        const service = services.service(key);
        // Mode iptables has no chain for a Service without endpoints.
        if (!service || service.endpoints.size === 0) continue;
        const endpoints = [...service.endpoints.keys()];
        const [pod] = endpoints.flatMap((one) => pods.find((known) => one === `10.244.0.${known + 1}:8080`) ?? []);
        // After a rollback the last endpoint stays.
        ok(pod !== undefined || pods.includes(0), `${name} has ${endpoints.join()}, not the newest of ${pods.join()}`);
      }
    }
  }

  /** Replaces one endpoint of some Services at random. */
  #somePods(): Pods {
    const some = shapes[this.#below(shapes.length)] as readonly string[];
    const podOf = (name: string): number => (name === 'shop/edge' && this.#chance() < 0.5 ? 0 : 100 + this.#below(100));
    return Object.fromEntries(some.map((name) => [name, podOf(name)]));
  }

  /** @param offered collects the bundles that were read */
  #offers(offered: Pods[]): Offers {
    let left = this.#below(4);
    return {
      arrival: () => (left > 0 && this.#chance() < 0.7 ? Promise.resolve() : new Promise(() => undefined)),
      look: async () => {
        left--;
        const pods = this.#somePods();
        offered.push(pods);
        return { files: bundleOf(pods, this.#mode), onlyEndpoints: false };
      },
    };
  }

  /** After every change: packets meet one program, and never another nat than filter. */
  #moment({ active, record }: DiskJournal): void {
    if (this.#layout === 'flat' || this.#disturbed || !active) return;
    if (!this.#world.meets(active.state))
      this.#seen.push(`packets meet two programs (open: ${record.open?.phase}) ${this.#world.summary}`);
  }

  /** The next process has no faults: it ends on one whole program, within bounds, and leaves nothing behind. */
  async #restart(): Promise<void> {
    this.#world.nowMs += 1000;
    const { reconciler, journal } = this.#world.start(none, () => undefined);
    await reconciler.recover();
    if (journal.halted !== undefined) {
      const target = journal.active ?? (await journal.generation(0));
      equal(target && (await reconciler.rollBackTo(target)).kind, 'confirmed');
    }
    await reconciler.repair();
    this.#disturbed = false;
    deepEqual([journal.open, journal.halted], [undefined, undefined]);
    equal(await reconciler.repair(), 0, 'the kernel differs from the journal');
    equal(await this.#world.kernel.switch?.look(), undefined, 'a set is left');
    const save = this.#world.kernel.save('ipv4');
    match(save, /^-A POSTROUTING -s 10\.244\.0\.0\/16 -j CNI-X$/m);
    if (!journal.active?.state.ipvs) doesNotMatch(save, /--match-set/);
    const { held, expected } = await settledElements(this.#world.kernel, journal.active?.state);
    deepEqual(held, expected);
    const { servers, bound } = await this.#world.kernel.ipvs.observe();
    equal(bound !== undefined || servers.size > 0, journal.active?.state.ipvs !== undefined, 'mode ipvs');
    if (journal.active) deepEqual(ownChains(save), namesOf(journal.active.state));
    if (journal.active && journal.active.number > 0) this.#holdsNewest(journal.active.state);
  }
}

const ownChains = (save: string): readonly string[] => [...new Set(save.match(/(?<=^:)(SLU|KUBE)\S+/gm))].toSorted();
const namesOf = ({ families }: NodeState): readonly string[] =>
  [
    ...new Set([...(families.ipv4?.filter.chains.keys() ?? []), ...(families.ipv4?.nat.chains.keys() ?? [])]),
  ].toSorted();

test('ends on one whole program after any sequence of events, and packets never meet two', {
  timeout: 600_000,
}, async () => {
  let played = 0;
  for (const seed of seeds) {
    await new History(seed).run().catch((error: unknown) => {
      throw new Error(`SLUICE_HISTORY=${seed}: ${error instanceof Error ? error.message : String(error)}`, {
        cause: error,
      });
    });
    played++;
  }
  expect(played).toBe(seeds.length);
});
