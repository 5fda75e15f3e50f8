import { isDeepStrictEqual } from 'node:util';
import type { SysctlKey } from '@sluice/netfilter';
import type { Drain } from '../ports/ipvs/values.ts';
import type {
  EndpointUpdate,
  Fault,
  FlowDifference,
  Generation,
  Journal,
  TransactionIntent,
  OpenTransaction,
  QuarantinedService,
  StoredGeneration,
} from '../ports/journal.ts';
import type { NodeState } from '../ports/node-state.ts';
import { Damage } from './damage.ts';
import { Generations } from './generations.ts';
import { type Checkpoint, GenerationNotes } from './generation-notes.ts';
import { type OpenOptions, RecordFile } from './record-file.ts';
import { recordFrom } from './remains.ts';
import { backOffUntil, failuresBetween, partialOf } from './transitions.ts';
import { sharesObjects } from './manifest.ts';
import { findGeneration, type GenerationRecord, type NodeRecord, openFrom, sysctlMap } from './record.ts';
import { CurrentText } from './text.ts';
import * as transitions from './transitions.ts';
import { Upkeep } from './upkeep.ts';

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
 *
 * The beginning of an endpoint update alone is durable later, at the latest before the next record, which is its commit: packets need not
 * wait for the disk. A process that crashes before leaves it to the next one, and with the power the kernel's rules go, too: then the
 * generation before is loaded, whether the disk has the beginning, without what it names, or not.
 */
export class DiskJournal implements Journal {
  readonly #file: RecordFile;
  readonly #generations: Generations;
  /** Releases and checkpoints, for operators. */
  readonly notes: GenerationNotes;
  readonly #upkeep: Upkeep;
  #active: Generation | undefined;
  #inFlight: InFlight = {};

  private constructor(directory: string, node: string, now: () => Date, options: OpenOptions) {
    this.#file = new RecordFile(directory, node, now, options);
    const damage = new Damage(directory, now, options.isShared);
    this.#generations = new Generations(directory, options.isShared, (...found) => damage.found(...found));
    this.notes = new GenerationNotes(directory);
    const nowMs = (): number => now().getTime();
    const text = new CurrentText(`${directory}/current`, nowMs);
    this.#upkeep = new Upkeep(this.#generations, text, this.notes, damage, nowMs);
    const { current } = this.record;
    this.#active = current ? (this.#read(current) ?? this.#earlierRevision(current)) : undefined;
    const { open } = this.record;
    if (open && !options.isShared) this.#file.settleAgain(() => this.#generations.syncAgain(open));
  }

  #earlierRevision(damaged: GenerationRecord): Generation | undefined {
    const earlier = this.#upkeep.earlierRevision(damaged);
    if (earlier) this.#file.record = transitions.storedElsewhere(this.record, damaged, earlier.record);
    return earlier?.generation;
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

  /** What this process is bringing into the kernel, or has on probation there, before it is decided; undefined: nothing. */
  get undecided(): Generation | undefined {
    return this.record.open?.phase === 'open' ? this.#inFlight.next : undefined;
  }

  /** A node that was halted before waits for an operator anyway. */
  get damaged(): Journal['damaged'] {
    const { number } = this.record.current ?? {};
    if (this.record.held !== null || number === undefined || this.#active) return undefined;
    return { number, because: `the store has no whole copy of generation ${number}` };
  }

  get open(): OpenTransaction | undefined {
    return this.record.open ? openFrom(this.record.open) : undefined;
  }

  get halted(): string | undefined {
    return this.record.held ?? this.#file.lost ?? this.damaged?.because;
  }

  get lost(): string | undefined {
    return this.#file.lost;
  }

  storedGenerations(): Iterable<StoredGeneration> {
    return this.#generations.remains();
  }

  async rescue(target: Generation, because: string): Promise<void> {
    const { node, backend } = this.record;
    const current = this.#stored(target);
    const record = { ...recordFrom(node, current), ...(backend ? { backend } : {}) };
    this.#file.startAgain(transitions.fellBack(record, target, because, this.#file.time));
    this.#activate(target, current);
  }

  /** Starts again from the rules in the kernel, where their history is not known. */
  async recognised(state: NodeState, because: string): Promise<Generation> {
    const target: Generation = { number: 1, revision: 0, version: 'recognised', state };
    await this.rescue(target, because);
    return target;
  }

  get notBeforeMs(): number {
    return backOffUntil(this.record, this.#file.nowMs);
  }

  failuresSince(sinceMs: number): number {
    return failuresBetween(this.record.history, sinceMs, this.#file.nowMs);
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

  get quarantinedServices(): readonly QuarantinedService[] {
    return this.record.quarantinedServices ?? [];
  }

  async lift(quarantined: string): Promise<boolean> {
    const record = transitions.lifted(this.record, quarantined);
    if (record) this.#file.save(record);
    return record !== undefined;
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
    const one = current ? { name, at: this.#file.time, generation: current } : undefined;
    if (one) this.notes.pin(one);
    return one;
  }

  async openFlows(): Promise<FlowDifference> {
    return this.#inFlight.flows ?? this.#generations.readFlows(this.record.open?.flows ?? '');
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
    const { backend: pinned, current } = this.record;
    if (pinned === backend || this.#file.lost !== undefined) return;
    const record = transitions.pinned(this.record, backend);
    if (current === null) this.#file.record = record;
    else this.#file.save(record);
  }

  /** The rules are in another store from now on. */
  async moved(backend: 'legacy' | 'nft'): Promise<void> {
    this.#file.save({ ...this.record, backend });
  }

  async adopt(state: NodeState): Promise<Generation> {
    const generation: Generation = { number: 0, revision: 0, version: 'before', state };
    const current = this.#stored(generation);
    this.#file.save(transitions.adopted(this.record, current, this.#file.time));
    this.#active = generation;
    return generation;
  }

  async begin({ state, timeouts, ...intent }: TransactionIntent): Promise<void> {
    const { current: from, next } = this.record;
    if (!from) throw new Error('no generation is active');
    const isUpdate = intent.changeKind === 'endpoints';
    const id = isUpdate ? { number: from.number, revision: from.revision + 1 } : { number: next, revision: 0 };
    const generation: Generation = { ...id, version: intent.version, state, ...partialOf(intent.partial) };
    const to = this.#stored(generation, isUpdate || sharesObjects(state) ? from : undefined, false);
    const flows = this.#generations.writeFlows(intent.flows, false);
    const opened = transitions.opened(this.record, { ...intent, from, to, flows }, timeouts, this.#file.time);
    if (isUpdate) this.#file.saveSoon(opened, () => this.#generations.sync());
    else {
      this.#generations.sync();
      this.#file.save(opened);
    }
    this.#inFlight = { ...this.#inFlight, next: generation, flows: intent.flows };
  }

  async offer({ from: oldState, to: state, version, partial, flows }: EndpointUpdate): Promise<void> {
    const { open } = this.record;
    const [active, next] = [this.#active, open && this.#read(open.to)];
    if (!open || !active || !next) throw new Error('no transaction is open');
    const last = next.number === active.number ? next : active;
    const old = oldState === active.state ? active : { ...active, revision: last.revision + 1, state: oldState };
    const newer: Generation = { ...next, revision: next.revision + 1, version, state, partial };
    const from = old === active ? open.from : this.#stored(old, open.from);
    const target = state === next.state && version === next.version ? next : newer;
    const to = target === next ? open.to : this.#stored(newer, open.to);
    const update = { from, to, version, flows: this.#generations.writeFlows(flows) };
    this.#file.save(transitions.offered(this.record, open, update));
    this.#inFlight = { ...this.#inFlight, offered: { from: old, to: target, flows } };
  }

  async accept(): Promise<Generation> {
    const { offered, ...inFlight } = this.#inFlight;
    if (!offered) throw new Error('nothing was offered');
    this.#file.save(transitions.accepted(this.record, this.#file.time));
    this.#active = offered.from;
    this.#inFlight = { ...inFlight, next: offered.to, flows: offered.flows };
    this.#upkeep.updated(this.record);
    return offered.from;
  }

  async commit(note?: string, services?: readonly QuarantinedService[]): Promise<void> {
    const { open } = this.record;
    if (!open) throw new Error('no transaction is open');
    const active = this.#read(open.to);
    const record = services ? transitions.withQuarantined(this.record, services) : this.record;
    this.#file.save(transitions.committed(record, open, note, this.#file.time));
    this.#active = active;
  }

  async finish(): Promise<Generation> {
    const active = this.#active as Generation;
    if (this.record.open) {
      this.#file.save({ ...this.record, open: null, held: null });
      this.#upkeep.sweep(this.record);
      this.#upkeep.wrote(active, this.record.current?.manifest ?? '');
    } else this.#upkeep.updated(this.record);
    this.#inFlight = {};
    return active;
  }

  async tidy(): Promise<void> {
    const { current } = this.record;
    const again = this.#upkeep.tidy(this.#active, this.record);
    if (again && current) this.#file.save(transitions.storedElsewhere(this.record, current, again));
  }

  get damage(): Damage {
    return this.#upkeep.damage;
  }

  async abandon(because: string, fault: Fault): Promise<void> {
    const { open } = this.record;
    if (!open) return;
    this.#file.save(transitions.abandoned(this.record, open, because, fault, this.#file.time));
    this.#inFlight = {};
    this.#upkeep.sweep(this.record);
  }

  async halt(because: string): Promise<void> {
    this.#file.save(transitions.halted(this.record, because, this.#file.time));
  }

  async choose(target: Generation): Promise<Generation> {
    this.#activateBy(target, transitions.chosen(this.record, target, this.#file.time));
    return target;
  }

  chooseUnwritten(target: Generation, stored: Generation): void {
    const { current, open, held } = this.record;
    const record = this.#stored(stored);
    // The journal may already name the stored generation, without the newest endpoints, for which there was no room.
    const isChosen = open === null && held === null && current?.manifest === record.manifest;
    if (!isChosen) this.#file.record = { ...transitions.chosen(this.record, target, this.#file.time), current: record };
    this.#active = target;
    this.#inFlight = {};
  }

  async fallBack(target: Generation, because: string): Promise<void> {
    this.#activateBy(target, transitions.fellBack(this.record, target, because, this.#file.time));
  }

  /** Called before an older generation is loaded while the transaction stays open. */
  async recordStandIn({ number, revision }: Generation): Promise<void> {
    const record = transitions.standingIn(this.record, number, revision);
    if (record) this.#file.save(record);
  }

  /** A generation is active by a record, which gets its newest form. */
  #activateBy(target: Generation, record: NodeRecord): void {
    const current = this.#stored(target);
    this.#file.save({ ...record, current });
    this.#activate(target, current);
  }

  #activate(target: Generation, { manifest }: GenerationRecord): void {
    this.#active = target;
    this.#inFlight = {};
    this.#upkeep.wrote(target, manifest);
  }

  async forget(): Promise<void> {
    this.#file.save(transitions.forgotten(this.record, this.#file.time));
    this.#active = undefined;
    this.#inFlight = {};
    this.#upkeep.sweep(this.record);
  }

  get adoption(): Journal['adoption'] {
    return this.record.adoption;
  }

  async keepAdoption(adoption: NonNullable<Journal['adoption']>): Promise<void> {
    if (!isDeepStrictEqual(adoption, this.record.adoption)) this.#file.save({ ...this.record, adoption });
  }

  async keepReplaced(state: NodeState): Promise<void> {
    const { revision = 0, version = 'before' } = this.record.kept[0] ?? {};
    const replaced = this.#stored({ number: 0, revision: revision + 1, version, state });
    this.#file.save(transitions.withReplaced(this.record, replaced));
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
    // A process that is alive and retries has not crashed.
    if (!open || this.#inFlight.isCounted) return open?.recoveries ?? 0;
    this.#file.save({ ...this.record, open: { ...open, recoveries: open.recoveries + 1 } });
    this.#inFlight = { ...this.#inFlight, isCounted: true };
    return open.recoveries + 1;
  }

  async outlived(): Promise<void> {
    if (this.record.open?.recoveries) this.#file.save(transitions.recovering(this.record, 0));
  }

  /** @param base the record of a generation that differs little @param isSynced see `Generations.write` */
  #stored(generation: Generation, base?: GenerationRecord, isSynced = true): GenerationRecord {
    return this.#generations.write(generation, base && { record: base, read: () => this.#read(base)?.state }, isSynced);
  }
}
