import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import type { SysctlKey } from '@sluice/bundle';
import type { Drain } from '../ipvs/values.ts';
import { limits } from '../limits.ts';
import type { Fault, Generation, Intent, Journal } from '../rollout/ports.ts';
import type { NodeState } from '../rollout/state.ts';
import { publishDirectory, readIfThere, writeDurably, writing } from './files.ts';
import { printGeneration, readGeneration } from './generation.ts';
import {
  freshRecord,
  type HistoryEntry,
  intentFrom,
  type NodeRecord,
  readRecord,
  StateError,
  sysctlMap,
} from './record.ts';

/** The text of state.json, for commands that only look. */
export function peek(directory: string): NodeRecord | undefined {
  const text = readIfThere(`${directory}/state.json`);
  return text === undefined ? undefined : readRecord(text, `${directory}/state.json`);
}

/**
 * The journal on disk. Every method that changes something returns when it is durable; the change of state.json is the one moment
 * at which it happens. Generations are written before state.json names them and removed after it does not.
 */
export class History implements Journal {
  readonly #directory: string;
  readonly #now: () => Date;
  #record: NodeRecord;
  #standing: Generation | undefined;
  #damaged: Journal['damaged'];
  /** The generation that the open transaction leads to, on the disk since it began. */
  #stored: Generation | undefined;

  private constructor(directory: string, record: NodeRecord, now: () => Date) {
    this.#directory = directory;
    this.#record = record;
    this.#now = now;
  }

  /**
   * Opens, or makes, a state directory. The caller holds its lock.
   * @param now the time of day, for people who read the history; nothing is decided by it
   */
  static async open(directory: string, node: string, now: () => Date): Promise<History> {
    writing(directory, () => mkdirSync(`${directory}/generations`, { recursive: true, mode: 0o700 }));
    const known = peek(directory);
    if (known && known.node !== node) {
      const hint = 'Use another state directory, or the node name that this one was made for';
      throw new StateError('NODE_STATE_INVALID', `it belongs to node ${known.node}, not to ${node}`, hint);
    }
    const history = new History(directory, known ?? freshRecord(node), now);
    if (known && known.current !== null) history.#stand(known.current);
    return history;
  }

  /** A generation that cannot be read leaves the kernel as it is until a person chooses another. */
  #stand(number: number): void {
    try {
      this.#standing = this.#read(number);
    } catch (error) {
      const because = error instanceof StateError ? error.message : String(error);
      this.#damaged = { number, because };
    }
  }

  get record(): NodeRecord {
    return this.#record;
  }

  get standing(): Generation | undefined {
    return this.#standing;
  }

  get open(): Intent | undefined {
    return this.#record.open ? intentFrom(this.#record.open) : undefined;
  }

  get held(): string | undefined {
    return this.#record.held ?? this.#damaged?.because;
  }

  get originals(): ReadonlyMap<SysctlKey, number> {
    return sysctlMap(this.#record.originals);
  }

  /** A node that was held before waits for a person anyway. */
  get damaged(): Journal['damaged'] {
    return this.#record.held === null ? this.#damaged : undefined;
  }

  quarantined(version: string): string | undefined {
    return Object.hasOwn(this.#record.quarantined, version) ? this.#record.quarantined[version] : undefined;
  }

  async generation(number: number): Promise<Generation | undefined> {
    if (this.#standing?.number === number) return this.#standing;
    // What an open transaction leads to is on the disk and was never confirmed.
    if (number >= this.#record.next) return undefined;
    try {
      return this.#read(number);
    } catch {
      return undefined;
    }
  }

  #read(number: number): Generation {
    const path = this.#path(number);
    const text = readIfThere(`${path}/program.json`);
    const sums = readIfThere(`${path}/program.sha256`);
    if (text === undefined || sums === undefined) {
      const hint = 'Choose another generation of `sluiced history` with `sluiced rollback N`';
      throw new StateError('NODE_STATE_INVALID', `generation ${number} is not there`, hint);
    }
    return readGeneration(`${path}/program.json`, text, sums);
  }

  /** Remembers in which rule store the rules are; they are never written to another one by accident. */
  async pin(backend: 'legacy' | 'nft'): Promise<void> {
    const pinned = this.#record.backend;
    if (pinned === backend) return;
    if (pinned !== undefined && this.#record.current !== null) {
      const hint = `Set \`backend: ${pinned}\` in sluiced.yaml, or run \`sluiced cleanup\` with it before you change the backend`;
      throw new StateError(
        'NODE_STATE_INVALID',
        `the node's rules are in the ${pinned} store, not in ${backend}`,
        hint,
      );
    }
    this.#save({ ...this.#record, backend });
  }

  async adopt(state: NodeState): Promise<Generation> {
    const generation: Generation = { number: 0, version: 'before', state };
    publishDirectory(this.#path(0), printGeneration(generation));
    this.#save({
      ...this.#record,
      current: 0,
      history: this.#and({ what: 'first-run', generation: 0, version: 'before' }),
    });
    this.#standing = generation;
    return generation;
  }

  async begin(intent: Intent, state: NodeState): Promise<void> {
    const generation: Generation = { number: this.#record.next, version: intent.version, state };
    publishDirectory(this.#path(generation.number), printGeneration(generation));
    this.#stored = generation;
    const copy = (
      names: { filter: readonly string[]; nat: readonly string[] } | undefined,
    ): { filter: string[]; nat: string[] } => ({
      filter: [...(names?.filter ?? [])],
      nat: [...(names?.nat ?? [])],
    });
    const { ipv4, ipv6, ipvs } = intent.creates;
    const creates = {
      ...(ipv4 ? { ipv4: copy(ipv4) } : {}),
      ...(ipv6 ? { ipv6: copy(ipv6) } : {}),
      ...(ipvs ? { ipvs: { servers: [...ipvs.servers], sets: [...ipvs.sets], addresses: [...ipvs.addresses] } } : {}),
    };
    const sysctls = Object.fromEntries(intent.sysctls);
    const open = { from: intent.from, version: intent.version, creates, sysctls, at: this.#time(), recoveries: 0 };
    this.#save({ ...this.#record, open, originals: { ...sysctls, ...this.#record.originals } });
  }

  get draining(): readonly Drain[] {
    return this.#record.draining;
  }

  async keepDraining(draining: readonly Drain[]): Promise<void> {
    if (JSON.stringify(draining) !== JSON.stringify(this.#record.draining))
      this.#save({ ...this.#record, draining: [...draining] });
  }

  async confirm(version: string, state: NodeState): Promise<Generation> {
    const generation: Generation = { number: this.#record.next, version, state };
    const { number, state: its } = this.#stored ?? {};
    if (number !== generation.number || its !== state)
      publishDirectory(this.#path(generation.number), printGeneration(generation));
    const quarantinedNow = { ...this.#record.quarantined };
    delete quarantinedNow[version];
    this.#save({
      ...this.#record,
      current: generation.number,
      next: generation.number + 1,
      open: null,
      quarantined: quarantinedNow,
      history: this.#and({ what: 'confirmed', generation: generation.number, version }),
    });
    this.#standing = generation;
    this.#collect();
    return generation;
  }

  async abandon(because: string, fault: Fault): Promise<void> {
    const { open, quarantined } = this.#record;
    if (!open) return;
    const history = this.#and({ what: 'rolled-back', generation: open.from, version: open.version, because });
    const since = history.findLastIndex(({ what, version }) => what === 'confirmed' && version === open.version);
    const tries = history
      .slice(since + 1)
      .filter((one) => one.version === open.version && one.because === because).length;
    const isBad = fault === 'bundle' || tries >= limits.interruptedMax;
    const bad = isBad ? { ...quarantined, [open.version]: because } : quarantined;
    this.#save({ ...this.#record, open: null, quarantined: bad, history });
  }

  async hold(because: string): Promise<void> {
    const generation = this.#record.open?.from ?? this.#record.current ?? 0;
    const history = this.#and({ what: 'held', generation, version: this.#record.open?.version ?? '', because });
    this.#save({ ...this.#record, held: because, history });
  }

  async fallBack(target: Generation, because: string): Promise<void> {
    const history = this.#and({ what: 'fell-back', generation: target.number, version: target.version, because });
    this.#save({ ...this.#record, current: target.number, open: null, history });
    this.#standing = target;
    this.#damaged = undefined;
  }

  async choose(target: Generation): Promise<Generation> {
    const { open } = this.#record;
    const left = open?.version ?? this.#standing?.version;
    const because = `a person went back to generation ${target.number}`;
    const quarantinedNow = { ...this.#record.quarantined };
    if (left !== undefined && left !== target.version) quarantinedNow[left] = because;
    delete quarantinedNow[target.version];
    const history = this.#and({ what: 'chosen', generation: target.number, version: target.version });
    this.#save({
      ...this.#record,
      current: target.number,
      open: null,
      held: null,
      quarantined: quarantinedNow,
      history,
    });
    this.#standing = target;
    this.#damaged = undefined;
    return target;
  }

  async forget(): Promise<void> {
    const history = this.#and({
      what: 'cleaned-up',
      generation: this.#record.current ?? 0,
      version: this.#standing?.version ?? '',
    });
    this.#save({ ...this.#record, current: null, open: null, held: null, originals: {}, history });
    this.#standing = undefined;
    this.#damaged = undefined;
  }

  /** Counts one more process that tries to finish the open transaction. @returns how many there were, this one included */
  async countRecovery(): Promise<number> {
    const { open } = this.#record;
    if (!open) return 0;
    const recoveries = open.recoveries + 1;
    this.#save({ ...this.#record, open: { ...open, recoveries } });
    return recoveries;
  }

  #save(record: NodeRecord): void {
    writeDurably(`${this.#directory}/state.json`, `${JSON.stringify(record)}\n`);
    this.#record = record;
  }

  #and(entry: Omit<HistoryEntry, 'at'>): HistoryEntry[] {
    return [...this.#record.history, { at: this.#time(), ...entry }].slice(-limits.historyEntriesMax);
  }

  #time(): string {
    return this.#now().toISOString();
  }

  #path(number: number): string {
    return `${this.#directory}/generations/${number}`;
  }

  /** Removes generations that are neither recent nor the first nor needed, and what a crash left half written. */
  #collect(): void {
    const newest = this.#record.next - 1;
    for (const name of readdirSync(`${this.#directory}/generations`)) {
      const number = /^\d+$/.test(name) ? Number(name) : -1;
      const stays = number === 0 || number === this.#record.current || number > newest - limits.generationsKept;
      if (!stays || number > newest) rmSync(`${this.#directory}/generations/${name}`, { recursive: true, force: true });
    }
  }
}
