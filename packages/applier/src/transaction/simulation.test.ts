import { deepEqual, doesNotMatch, equal, match } from 'node:assert/strict';
import { expect, test } from 'vitest';
import type { DiskJournal } from '../journal/journal.ts';
import type { Outcome } from '../rollout/outcome.ts';
import type { NodeState } from '../rollout/state.ts';
import { sampleBundle } from '../testing/bundle.fixture.ts';
import { type Troubles, World } from '../testing/world.fixture.ts';

/**
 * Histories of a machine by chance: releases, processes that end at any call, tools that fail, calls that take long, boots, hours that
 * pass, somebody who empties a chain. A seed says all of it: `SLUICE_SEED=7 vitest run --project unit simulation` plays one again.
 */
const only = process.env['SLUICE_SEED'];
const count = process.env['SLUICE_SOAK'] ? 5_000 : 150;
const first = only === undefined ? Math.floor(Math.random() * 1e9) : Number(only);
const seeds = Array.from({ length: only === undefined ? count : 1 }, (_, n) => first + n);

const foreign = '*nat\n:CNI-X - [0:0]\n-A POSTROUTING -s 10.244.0.0/16 -j CNI-X\n-A CNI-X -j RETURN\nCOMMIT\n';
const services = (web: readonly number[], cart: readonly number[]): Map<string, string> =>
  sampleBundle({ services: { 'shop/web': web, 'shop/cart': cart }, families: ['ipv4', 'ipv6'] });
const bundles = [services([1], [2]), services([3, 4], [2]), services([1], []), services([5], [6, 7])];

/** Mulberry32. */
function chances(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const none: Troubles = {
  diesAt: undefined,
  fault: 'before',
  refuses: () => false,
  healthy: () => true,
  takesMs: () => 1,
};

class History {
  readonly #chance: () => number;
  readonly #world: World;
  /** Whether somebody else, or a boot, changed the kernel since it was last as it should be. */
  #disturbed = false;
  readonly #layout: 'tree' | 'flat';
  /** Moments at which packets met two programs. Not thrown where they are seen: the transaction would take it for a refusal. */
  readonly #seen: string[] = [];

  constructor(seed: number) {
    this.#chance = chances(seed);
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

  #troubles(): Troubles {
    const refusing = this.#chance() < 0.3 ? this.#chance() * 0.3 : 0;
    const sick = this.#chance() < 0.3 ? this.#chance() : 0;
    const slow = this.#chance() < 0.2 ? 0.1 : 0;
    return {
      diesAt: this.#chance() < 0.6 ? this.#below(45) : undefined,
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
      const chain = this.#world.kernel.save('ipv4').match(/(?<=^:)(SLU|KUBE)\S+/gm)?.[0];
      if (chain !== undefined) this.#world.kernel.load('ipv4', `*filter\n:${chain} - [0:0]\nCOMMIT\n`);
      this.#disturbed = true;
    } else if (kind === 2) this.#world.nowMs += this.#below(120_000);
    await this.#put();
  }

  /** One process tries a release. */
  async #put(): Promise<void> {
    const { keeper, journal } = this.#world.start(this.#troubles(), (seen) => this.#moment(seen));
    const before = journal.standing?.version;
    const files = bundles[this.#below(bundles.length)] as Map<string, string>;
    const outcome: Outcome | undefined = await keeper.put(files, true).catch(() => undefined);
    deepEqual(this.#seen, []);
    // What it says is what the journal says.
    if (outcome?.kind === 'confirmed') equal(journal.standing?.version, outcome.generation.version);
    if (outcome?.kind === 'rolled-back' && before !== undefined) equal(journal.standing?.version, before);
  }

  /** After every change: packets meet one program, and never another nat than filter. */
  #moment({ standing, record }: DiskJournal): void {
    if (this.#layout === 'flat' || this.#disturbed || !standing) return;
    if (!this.#world.meets(standing.state))
      this.#seen.push(`packets meet two programs (open: ${record.open?.phase}) ${this.#world.told}`);
  }

  /** A process without troubles comes next: it ends on one program, whole, within bounds, and leaves nothing. */
  async #restart(): Promise<void> {
    this.#world.nowMs += 1000;
    const { keeper, journal } = this.#world.start(none, () => undefined);
    await keeper.recover();
    if (journal.held !== undefined) {
      const target = journal.standing ?? (await journal.generation(0));
      equal(target && (await keeper.backTo(target)).kind, 'confirmed');
    }
    await keeper.settle();
    this.#disturbed = false;
    deepEqual([journal.open, journal.held], [undefined, undefined]);
    equal(await keeper.settle(), 0, 'the kernel is not what the journal says');
    equal(await this.#world.kernel.switch?.look(), undefined, 'a set is left');
    const save = this.#world.kernel.save('ipv4');
    match(save, /^-A POSTROUTING -s 10\.244\.0\.0\/16 -j CNI-X$/m);
    doesNotMatch(save, /--match-set/);
    if (journal.standing) deepEqual(ownChains(save), namesOf(journal.standing.state));
  }
}

const ownChains = (save: string): readonly string[] => [...new Set(save.match(/(?<=^:)(SLU|KUBE)\S+/gm))].toSorted();
const namesOf = ({ families }: NodeState): readonly string[] =>
  [
    ...new Set([...(families.ipv4?.filter.chains.keys() ?? []), ...(families.ipv4?.nat.chains.keys() ?? [])]),
  ].toSorted();

test('whatever happens to a machine, it ends on one program whole, and packets never meet two', {
  timeout: 600_000,
}, async () => {
  let played = 0;
  for (const seed of seeds) {
    await new History(seed).run().catch((error: unknown) => {
      throw new Error(`SLUICE_SEED=${seed}: ${error instanceof Error ? error.message : String(error)}`, {
        cause: error,
      });
    });
    played++;
  }
  expect(played).toBe(seeds.length);
});
