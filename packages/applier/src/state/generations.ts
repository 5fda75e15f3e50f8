import type { FlowDifference, Generation, StoredGeneration } from '../ports/journal.ts';
import type { NodeState } from '../ports/node-state.ts';
import { getState, type ManifestMemory, type NamedMemory, neededObjects, putState } from './manifest.ts';
import { flowsOf, type GenerationRecord, generationsOf, type NodeRecord } from './record.ts';
import { remainsOf } from './remains.ts';
import { Store, type StoreOptions, type Texts } from './store.ts';

/** The states of generations in the store, by the digests of their manifests. */
export class Generations {
  readonly #directory: string;
  readonly #store: Store;
  readonly #memory: ManifestMemory = new Map();
  readonly #named: NamedMemory = new Map();
  /** The manifests of states that were read or written: storing one again needs no disk space. */
  readonly #manifests = new WeakMap<NodeState, string>();

  /** @param onDamage as of a store */
  constructor(directory: string, isShared: boolean, onDamage: NonNullable<StoreOptions['onDamage']>) {
    this.#directory = directory;
    const copies = copiesIn(`${directory}/copies`, isShared);
    this.#store = new Store(`${directory}/store`, { isShared, onDamage, ...(copies ? { copies } : {}) });
  }

  /** Keeps a second copy of the objects of manifests, and of these alone. @throws StateError as of `Store.copy` */
  copy(manifests: readonly string[]): void {
    this.#store.copy(this.#objectsOf(manifests));
  }

  /**
   * The same, and reads all of them again.
   * @returns whether the store has all of them
   * @throws StateError as of `Store.check`
   */
  check(manifests: readonly string[]): boolean {
    return this.#store.check(this.#objectsOf(manifests));
  }

  /** Whether an object is there and whole. @param digest its name */
  has(digest: string): boolean {
    return this.#store.get(digest) !== undefined;
  }

  #hasAll(manifest: string): boolean {
    return [...this.#needed([manifest])].every((digest) => this.#store.has(digest));
  }

  #needed(manifests: Iterable<string>): ReadonlySet<string> {
    return neededObjects(manifests, this.#store, this.#named);
  }

  #objectsOf(manifests: readonly string[]): readonly string[] {
    return [...this.#needed(manifests.filter((one) => one !== ''))];
  }

  /** Stores a generation again, whose objects are lost. @throws StateError when the disk takes no write */
  writeAgain(generation: Generation): GenerationRecord {
    this.#manifests.delete(generation.state);
    this.#memory.clear();
    return this.write(generation);
  }

  /** @param known generations that this process has in memory */
  read(record: GenerationRecord, known: readonly (Generation | undefined)[] = []): Generation | undefined {
    const { number, revision, version, manifest, partial } = record;
    const isSame = (one: Generation): boolean =>
      one.number === number && one.revision === revision && one.version === version;
    // After a rollback, another state may have had this revision.
    const found = known.find((one) => one && isSame(one) && this.#manifests.get(one.state) === manifest);
    if (found) return found;
    const state = getState(manifest, this.#store);
    if (state) this.#manifests.set(state, manifest);
    return state && { number, revision, version, state, ...(partial ? { partial } : {}) };
  }

  /**
   * @param base a generation that differs little, with its record
   * @param isSynced false: it is on the disk only after `sync`
   */
  write(
    { number, revision, version, state, partial }: Generation,
    base?: { readonly record: GenerationRecord; readonly read: () => NodeState | undefined },
    isSynced = true,
  ): GenerationRecord {
    const manifest = this.#manifests.get(state);
    const only = {
      ...(state.nft ? { mode: 'nftables' as const } : {}),
      ...(partial ? { partial: { ...partial, services: [...partial.services] } } : {}),
    };
    if (manifest !== undefined && this.#hasAll(manifest)) {
      if (isSynced) this.#store.sync();
      return { number, revision, version, manifest, ...only };
    }
    const known = base?.read();
    const stored = base && known && { digest: base.record.manifest, state: known };
    const texts: Texts = isSynced ? this.#store : unsynced(this.#store);
    const written = putState(state, texts, this.#memory, stored);
    this.#manifests.set(state, written);
    return { number, revision, version, manifest: written, ...only };
  }

  /**
   * Stores the flows of a change. Only connections depend on them, and this process has them: a disk without room for them must not prevent
   * a rollback.
   * @param isSynced as of `write`
   * @returns their digest, empty where there are none, or they could not be stored
   */
  writeFlows(flows: FlowDifference, isSynced = true): string {
    if (flows.old.length + flows.fresh.length === 0) return '';
    try {
      return this.#store.put([JSON.stringify(flows)], isSynced)[0] ?? '';
    } catch {
      return '';
    }
  }

  /** Waits for what was written without waiting. @throws StateError when the disk takes no write */
  sync(): void {
    this.#store.sync();
  }

  /** The same for what an earlier process wrote for its open change. */
  syncAgain({ to, flows }: NonNullable<NodeRecord['open']>): void {
    this.#store.syncAgain([...this.#needed([to.manifest]), flows]);
  }

  readFlows(digest: string): FlowDifference {
    const text = this.#store.get(digest);
    return text === undefined ? noFlows : (JSON.parse(text) as FlowDifference);
  }

  /** The generations that are left in the store of a lost journal. */
  remains(): Iterable<StoredGeneration> {
    return remainsOf(this.#directory, this.#store);
  }

  /** Removes objects that neither a record nor one of these manifests needs. A failed read or write loses space only. */
  sweep(record: NodeRecord, manifests: readonly string[]): void {
    try {
      const all = [...generationsOf(record).map(({ manifest }) => manifest), ...manifests];
      const needed = this.#needed(all);
      for (const digest of this.#named.keys()) if (!needed.has(digest)) this.#named.delete(digest);
      this.#store.sweep(new Set([...needed, ...flowsOf(record)]));
    } catch {
      // The next transaction sweeps again.
    }
  }
}

/** @returns undefined where there is no room for a directory: without copies a node runs as well */
function copiesIn(directory: string, isShared: boolean): Store | undefined {
  try {
    return new Store(directory, { isShared });
  } catch {
    return undefined;
  }
}

/** A store whose texts wait for `sync`. */
const unsynced = (store: Store): Texts => ({
  put: (texts) => store.put(texts, false),
  get: (digest) => store.get(digest),
  has: (digest) => store.has(digest),
});

const noFlows: FlowDifference = { old: [], fresh: [] };
