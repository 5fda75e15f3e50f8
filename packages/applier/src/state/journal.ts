import type { SysctlKey } from '@sluice/netfilter';
import type { Drain } from '../ipvs/values.ts';
import { limits } from '../limits.ts';
import type {
  EndpointUpdate,
  Fault,
  FlowDifference,
  Generation,
  Journal,
  TransactionIntent,
  OpenTransaction,
  StoredGeneration,
} from '../ports/journal.ts';
import type { NodeState } from '../ports/node-state.ts';
import { StateError } from './state-error.ts';
import { Generations, noFlows } from './generations.ts';
import { type Checkpoint, GenerationNotes } from './generation-notes.ts';
import { type OpenOptions, RecordFile } from './record-file.ts';
import { recordFrom } from './remains.ts';
import { recent, remember, shortened, updated, without } from './keep.ts';
import {
  abandoned,
  accepted,
  endingOf,
  findGeneration,
  flowsOf,
  forgotten,
  generationsOf,
  backOffUntil,
  opened,
  releasesBetween,
} from './update.ts';
import { type GenerationRecord, type NodeRecord, openFrom, sysctlMap } from './record.ts';
import { CurrentText } from './text.ts';

/** What this process knows of the open transaction. */
interface InFlight {
  /** The generation that it leads to, and its flows. */
  readonly next?: Generation;
  readonly flows?: FlowDifference;
  readonly offered?: { readonly from: Generation; readonly to: Generation; readonly flows: FlowDifference };
  /** This process is counted in its recoveries. */
  readonly isCounted?: true;
}

/**
 * The journal on disk. Every method that changes something returns when the change is durable; the write of one slot decides it. Programs
 * are in the store before the journal names them, and are swept after it no longer does.
 */
export class DiskJournal implements Journal {
  readonly #file: RecordFile;
  readonly #generations: Generations;
  readonly #text: CurrentText;
  /** Releases and checkpoints, for operators. */
  readonly notes: GenerationNotes;
  #active: Generation | undefined;
  #inFlight: InFlight = {};
  /** Updates since the last sweep. */
  #updates = 0;

  private constructor(directory: string, node: string, now: () => Date, options: OpenOptions) {
    this.#file = new RecordFile(directory, node, now, options);
    this.#generations = new Generations(directory, options.isShared);
    this.notes = new GenerationNotes(directory);
    this.#text = new CurrentText(`${directory}/current`, () => now().getTime());
    this.#active = this.record.current ? this.#read(this.record.current) : undefined;
  }

  /**
   * Opens, or creates, a state directory. The caller holds its lock.
   * @param now the time of day, for the history; nothing is decided by it
   * @param whole false: both slots may be damaged, and then the journal is `lost`
   * @throws StateError when it cannot be read, or belongs to another node
   */
  static open(directory: string, node: string, now: () => Date, whole = true): DiskJournal {
    return new DiskJournal(directory, node, now, { whole, isShared: false });
  }

  /**
   * Opens a state directory read-only, beside a process that may hold its lock. Methods that change something must not be called.
   * @throws StateError when it cannot be read, is damaged, or belongs to another node
   */
  static look(directory: string, node: string, now: () => Date): DiskJournal {
    return new DiskJournal(directory, node, now, { whole: true, isShared: true });
  }

  get record(): NodeRecord {
    return this.#file.record;
  }

  get active(): Generation | undefined {
    return this.#active;
  }

  /** A node that was halted before waits for an operator anyway. */
  get damaged(): Journal['damaged'] {
    return this.record.held === null ? this.#damaged : undefined;
  }

  get #damaged(): Journal['damaged'] {
    const { current } = this.record;
    if (!current || this.#active) return undefined;
    const because = `the store has no whole copy of generation ${current.number}`;
    return { number: current.number, because };
  }

  get open(): OpenTransaction | undefined {
    return this.record.open ? openFrom(this.record.open) : undefined;
  }

  get halted(): string | undefined {
    return this.record.held ?? this.#file.lost ?? this.#damaged?.because;
  }

  get lost(): string | undefined {
    return this.#file.lost;
  }

  storedGenerations(): Iterable<StoredGeneration> {
    return this.#generations.remains();
  }

  async rescue(target: Generation, because: string): Promise<void> {
    const current = this.#stored(target);
    const { number, version } = target;
    this.#file.replace();
    const { lost, record } = this.#file;
    Object.assign(this.#file, { lost: undefined, record: recordFrom(record.node, current) });
    try {
      this.#stands(target, {
        history: this.#file.historyWith({ what: 'fell-back', generation: number, version, because }),
      });
    } catch (error) {
      // The disk took no write: it is tried again later.
      Object.assign(this.#file, { lost, record });
      throw error;
    }
  }

  /** Starts anew from the rules in the kernel, where their history is not known. */
  async recognised(state: NodeState, because: string): Promise<Generation> {
    const target: Generation = { number: 1, revision: 0, version: 'recognised', state };
    const { node, backend } = this.record;
    if (this.#file.lost !== undefined) {
      this.#file.replace();
      this.#file.lost = undefined;
    }
    this.#file.record = { ...recordFrom(node, this.#stored(target)), ...(backend ? { backend } : {}) };
    const history = this.#file.historyWith({ what: 'fell-back', generation: 1, version: target.version, because });
    this.#stands(target, { history });
    return target;
  }

  get failures(): number {
    return this.record.failures;
  }

  get notBeforeMs(): number {
    return backOffUntil(this.record, this.#file.nowMs);
  }

  releasesSince(sinceMs: number): number {
    return releasesBetween(this.record.history, sinceMs, this.#file.nowMs);
  }

  get originals(): ReadonlyMap<SysctlKey, number> {
    return sysctlMap(this.record.originals);
  }

  get originalTimeouts(): Journal['originalTimeouts'] {
    return this.record.originalTimeouts;
  }

  quarantined(version: string): string | undefined {
    return Object.hasOwn(this.record.quarantined, version) ? this.record.quarantined[version] : undefined;
  }

  async generation(number: number, revision?: number): Promise<Generation | undefined> {
    const found = findGeneration(this.record, number, revision);
    return found && this.#read(found);
  }

  /** @returns undefined where an older `sluiced` swept its programs */
  async checkpointed({ generation }: Checkpoint): Promise<Generation | undefined> {
    return this.#read(generation);
  }

  /**
   * Keeps the active generation under a name, with its current endpoints, until the name is removed.
   * @throws StateError when the disk takes no write
   */
  checkpoint(name: string): Checkpoint | undefined {
    const { current } = this.record;
    if (!current) return undefined;
    const one = { name, at: this.#file.time, generation: current };
    this.notes.pin(one);
    return one;
  }

  async openFlows(): Promise<FlowDifference> {
    const { open } = this.record;
    return this.#inFlight.flows ?? (open ? this.#generations.readFlows(open.flows) : noFlows);
  }

  #read(record: GenerationRecord): Generation | undefined {
    const { next, offered } = this.#inFlight;
    return this.#generations.read(record, [this.#active, next, offered?.from, offered?.to]);
  }

  /**
   * Remembers the rule store of the rules, so that they are never written to another one by accident. Written to the disk with the first
   * change: a refused command does not claim a state directory.
   * @throws StateError when the rules are in the other store
   */
  async pin(backend: 'legacy' | 'nft'): Promise<void> {
    const pinned = this.record.backend;
    if (pinned === backend || this.#file.lost !== undefined) return;
    if (pinned !== undefined && this.record.current !== null) {
      const hint = `Set \`backend: ${pinned}\` in sluiced.yaml, or move the rules with \`sluiced backend ${backend}\``;
      const why = `the node's rules are in the ${pinned} store, not in ${backend}`;
      throw new StateError('NODE_STATE_INVALID', why, hint);
    }
    if (this.record.current === null) this.#file.record = { ...this.record, backend };
    else this.#file.save({ ...this.record, backend });
  }

  /** The rules are in another store from now on. */
  async moved(backend: 'legacy' | 'nft'): Promise<void> {
    this.#file.save({ ...this.record, backend });
  }

  async adopt(state: NodeState): Promise<Generation> {
    const generation: Generation = { number: 0, revision: 0, version: 'before', state };
    const current = this.#stored(generation);
    const history = this.#file.historyWith({ what: 'first-run', generation: 0, version: 'before' });
    this.#file.save({ ...this.record, current, kept: [current], history });
    this.#active = generation;
    return generation;
  }

  async begin({ changeKind, flip, version, state, sysctls, timeouts, flows }: TransactionIntent): Promise<void> {
    const { current, next } = this.record;
    if (!current) throw new Error('no generation is active');
    const isUpdate = changeKind === 'endpoints';
    const number = isUpdate ? current.number : next;
    const generation: Generation = { number, revision: isUpdate ? current.revision + 1 : 0, version, state };
    const to = this.#stored(generation, isUpdate ? current : undefined);
    const at = this.#file.time;
    const kept = this.#generations.writeFlows(flows);
    const open = {
      lane: changeKind,
      flip,
      version,
      to,
      from: current,
      sysctls: Object.fromEntries(sysctls),
      flows: kept,
      at,
    };
    this.#file.save(opened(this.record, { phase: 'open', ...open, recoveries: 0 }, timeouts));
    this.#inFlight = { ...this.#inFlight, next: generation, flows };
  }

  async offer({ from, to, version, flows }: EndpointUpdate): Promise<void> {
    const { open } = this.record;
    const [active, next] = [this.#active, open && this.#read(open.to)];
    if (!open || !active || !next) throw new Error('no transaction is open');
    const old = from === active.state ? active : { ...active, revision: active.revision + 1, state: from };
    const fresh = { ...next, revision: next.revision + 1, version, state: to };
    const stored = old === active ? open.from : this.#stored(old, open.from);
    const update = {
      from: stored,
      to: this.#stored(fresh, open.to),
      version,
      flows: this.#generations.writeFlows(flows),
    };
    this.#file.save({ ...this.record, open: { ...open, update } });
    this.#inFlight = { ...this.#inFlight, offered: { from: old, to: fresh, flows } };
  }

  async accept(): Promise<Generation> {
    const { offered, ...inFlight } = this.#inFlight;
    if (!offered) throw new Error('nothing was offered');
    this.#file.save(accepted(this.record, this.#file.time));
    const { from, to, flows } = offered;
    this.#active = from;
    this.#inFlight = { ...inFlight, next: to, flows };
    this.#sweepSometimes();
    return from;
  }

  async commit(note?: string): Promise<void> {
    const { open, kept, history } = this.record;
    if (!open) throw new Error('no transaction is open');
    const { to, version, lane } = open;
    const quarantined = without(this.record.quarantined, version);
    const release = lane === 'release';
    const entries = release
      ? this.#file.historyWith({
          what: 'confirmed',
          generation: to.number,
          version,
          ...(note === undefined ? {} : { because: note }),
        })
      : updated(history, to, this.#file.time);
    const others = kept.filter(({ number }) => number !== to.number);
    const active = this.#read(to);
    this.#file.save({
      ...this.record,
      current: to,
      kept: recent([...others, to]),
      next: Math.max(this.record.next, to.number + 1),
      // An update is finished when it is committed: its old endpoints left the kernel with it.
      open: release ? { ...open, phase: 'committed', recoveries: 0 } : null,
      quarantined,
      failures: release ? 0 : this.record.failures,
      history: entries,
    });
    this.#active = active;
  }

  async finish(): Promise<Generation> {
    const active = this.#active as Generation;
    if (this.record.open) {
      this.#file.save({ ...this.record, open: null });
      this.#sweep();
      this.#text.write(active, this.record.current?.manifest ?? '');
    } else this.#sweepSometimes();
    this.#inFlight = {};
    return active;
  }

  async tidy(): Promise<void> {
    if (this.#updates >= limits.updatesPerSweep) this.#sweep();
    if (this.#active) this.#text.catchUp(this.#active, this.record.current?.manifest ?? '');
  }

  async abandon(because: string, fault: Fault): Promise<void> {
    const { open } = this.record;
    if (!open) return;
    const history = this.#file.historyWith(endingOf(open, because));
    this.#file.save(abandoned({ ...this.record, history }, open, because, fault));
    this.#inFlight = {};
    this.#sweep();
  }

  async halt(because: string): Promise<void> {
    const generation = this.record.open?.from.number ?? this.record.current?.number ?? 0;
    const history = this.#file.historyWith({
      what: 'held',
      generation,
      version: this.record.open?.version ?? '',
      because,
    });
    this.#file.save({ ...this.record, held: shortened(because), history });
  }

  async choose(target: Generation): Promise<Generation> {
    this.#stands(target, this.#chosen(target));
    return target;
  }

  chooseUnwritten(target: Generation, stored: Generation): void {
    const { current, open, held } = this.record;
    const record = this.#stored(stored);
    // The journal may already name the stored generation, without the newest endpoints, for which there was no room.
    const isChosen = open === null && held === null && current?.manifest === record.manifest;
    if (!isChosen) this.#file.record = { ...this.record, ...this.#chosen(target), current: record };
    this.#active = target;
    this.#inFlight = {};
  }

  /** The record's changes for a manual rollback. */
  #chosen(target: Generation): Partial<NodeRecord> {
    const { open, current } = this.record;
    // The open change may be this very rollback, announced before it was done.
    // Generation 0 is the state before Sluice: no bundle has its version.
    const active = current?.number === 0 ? undefined : current?.version;
    const versions = [open?.began, open?.version, active].filter((one) => one !== undefined);
    const left = new Set(versions.filter((one) => one !== target.version));
    const because = `rolled back manually to generation ${target.number}`;
    const others = without(this.record.quarantined, target.version);
    const quarantined = [...left].reduce((all, one) => remember(all, one, because), others);
    const history = this.#file.historyWith({ what: 'chosen', generation: target.number, version: target.version });
    return { open: null, held: null, quarantined, history };
  }

  async fallBack(target: Generation, because: string): Promise<void> {
    const history = this.#file.historyWith({
      what: 'fell-back',
      generation: target.number,
      version: target.version,
      because,
    });
    this.#stands(target, { open: null, history });
  }

  /**
   * Called before an older generation is loaded while the transaction stays open: the next process has to know that the kernel may hold its
   * chains. Recorded like an update in progress; one that is in progress already stays.
   */
  async standsIn({ number, revision }: Generation): Promise<void> {
    const { open } = this.record;
    const from = findGeneration(this.record, number, revision);
    if (!open || !from || (open.update && open.update.to.revision !== open.to.revision)) return;
    const { to, version, flows } = open;
    this.#file.save({ ...this.record, open: { ...open, update: { from, to, version, flows } } });
  }

  #stands(target: Generation, changes: Partial<NodeRecord>): void {
    const current = this.#stored(target);
    this.#file.save({ ...this.record, ...changes, current });
    this.#active = target;
    this.#inFlight = {};
    this.#text.write(target, current.manifest);
  }

  async forget(): Promise<void> {
    const { current } = this.record;
    const what = { what: 'cleaned-up', generation: current?.number ?? 0, version: current?.version ?? '' } as const;
    this.#file.save({ ...forgotten(this.record), history: this.#file.historyWith(what) });
    this.#active = undefined;
    this.#inFlight = {};
    this.#sweep();
  }

  get draining(): readonly Drain[] {
    return this.record.draining;
  }

  async keepDraining(draining: readonly Drain[]): Promise<void> {
    if (JSON.stringify(draining) === JSON.stringify(this.record.draining)) return;
    this.#file.save({ ...this.record, draining: [...draining] });
  }

  async countRecovery(): Promise<number> {
    const { open } = this.record;
    if (!open) return 0;
    // A process that is alive and retries has not crashed.
    if (this.#inFlight.isCounted) return open.recoveries;
    const recoveries = open.recoveries + 1;
    this.#file.save({ ...this.record, open: { ...open, recoveries } });
    this.#inFlight = { ...this.#inFlight, isCounted: true };
    return recoveries;
  }

  /** @param base the record of a generation that differs little */
  #stored(generation: Generation, base?: GenerationRecord): GenerationRecord {
    return this.#generations.write(generation, base && { record: base, read: () => this.#read(base)?.state });
  }

  /** For processes that never idle. */
  #sweepSometimes(): void {
    this.#updates += 1;
    if (this.#updates >= limits.updatesPerSweepMax) this.#sweep();
  }

  /** Removes objects that no kept generation needs. */
  #sweep(): void {
    this.#updates = 0;
    const pinned = this.notes.checkpoints.map(({ generation }) => generation);
    const manifests = [...generationsOf(this.record), ...pinned].map(({ manifest }) => manifest);
    // The generation of the text counts, too: without the journal it is the one known to have been active.
    this.#generations.sweep([...manifests, this.#text.manifest], flowsOf(this.record));
  }
}
