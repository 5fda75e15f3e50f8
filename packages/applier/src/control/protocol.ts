import * as v from 'valibot';
import type { NodeRecord } from '../journal/record.ts';
import type { Checkpoint } from '../journal/generation-notes.ts';
import type { RepairAt } from '../repairs.ts';
import type { StatusReport } from '../status.ts';
import type { EndpointChange } from '../transaction/endpoint-changes.ts';

/**
 * What a command asks of the `sluiced` that works on the same state directory: HTTP on a Unix socket in that directory, which only root
 * opens. One POST of a request as JSON; the answer is its result, or problems with an exit code. Both ends are of one version, as one
 * package holds them; a request of another form is refused.
 */

/** The socket, below the state directory: its path has at most 107 bytes, unix(7). */
export const controlPath = (state: string): string => `${state}/control.sock`;

/** unix(7): with a longer path, bind(2) would take another name than the one that is asked for. */
export const pathBytesMax = 107;

export const isTooLong = (path: string): boolean => Buffer.byteLength(path) > pathBytesMax;

const text = v.pipe(v.string(), v.maxLength(256));
const generationNumber = v.pipe(v.number(), v.integer(), v.minValue(0));

export const decisionSchema = v.variant('kind', [
  v.strictObject({ kind: v.literal('confirm') }),
  v.strictObject({ kind: v.literal('cancel') }),
  v.strictObject({
    kind: v.literal('extend'),
    seconds: v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(86_400)),
  }),
]);

const endpoints = v.picklist(['newest', 'old']);

export const requestSchema = v.variant('do', [
  v.strictObject({ do: v.literal('status') }),
  v.strictObject({ do: v.literal('decide'), decision: decisionSchema, token: v.optional(text) }),
  v.strictObject({
    do: v.literal('planRollback'),
    to: v.optional(text),
    endpoints,
    removeAllServices: v.boolean(),
  }),
  v.strictObject({
    do: v.literal('rollBack'),
    from: v.nullable(generationNumber),
    to: text,
    generation: generationNumber,
    cancels: v.nullable(text),
    endpoints,
    removeAllServices: v.boolean(),
  }),
  v.strictObject({ do: v.literal('checkpoint'), name: text }),
  v.strictObject({ do: v.literal('removeCheckpoint'), name: text }),
]);

export type ControlRequest = v.InferOutput<typeof requestSchema>;
type Of<K extends ControlRequest['do']> = Omit<Extract<ControlRequest, { do: K }>, 'do'>;

export type Decide = Of<'decide'>;
/** `to`: a generation, a version or how it begins, or a checkpoint; left out: the generation before the active one. */
export type RollbackRequest = Of<'planRollback'>;
/** `from`, `generation` (that of `to`) and `cancels` as the plan has them, so that no other change is made than the one that was agreed to. */
export type RollbackOrder = Of<'rollBack'>;

/** What each request is answered with. */
export interface Control {
  status(): Promise<ControlStatus>;
  /** @returns the version that the decision is about */
  decide(request: Decide): Promise<{ readonly version: string }>;
  planRollback(request: RollbackRequest): Promise<RollbackPlan>;
  rollBack(order: RollbackOrder): Promise<RollbackEnding>;
  /** Pins the active generation under a name. */
  checkpoint(request: Of<'checkpoint'>): Promise<Checkpoint>;
  removeCheckpoint(request: Of<'removeCheckpoint'>): Promise<Checkpoint>;
}

/** The process that holds the state directory, and what it knows. */
export interface ControlStatus {
  /** null of `sluiced apply`, which watches nothing. */
  readonly report: StatusReport | null;
  readonly probation: Probation | null;
  readonly record: NodeRecord;
  readonly repairs: readonly RepairAt[];
}

/** A release on probation. */
export interface Probation {
  readonly version: string;
  /** Another one for each probation: `sluiced confirm --token` takes it alone. */
  readonly token: string;
}

/** A rollback, decided before anything is touched. */
export interface RollbackPlan {
  /** The active generation; null where none can be read. */
  readonly from: number | null;
  readonly to: RollbackTarget;
  /** The release on probation, which is taken back first; an order names its token. */
  readonly cancels: Probation | null;
  readonly endpoints: 'newest' | 'old';
  /** Null where the active generation cannot be read, so that nothing can be compared. */
  readonly services: { readonly removed: readonly string[]; readonly restored: readonly string[] } | null;
  /** Services of both that get the endpoints of the target, which may be stale. */
  readonly stale: readonly EndpointChange[];
  /** How many lines of rules change. */
  readonly lines: number;
}

export interface RollbackTarget {
  readonly generation: number;
  readonly version: string;
  /** When it was confirmed, RFC 3339; null where the history does not say. */
  readonly confirmedAt: string | null;
  /** The serial of the release; null without one. */
  readonly serial: number | null;
}

export type RollbackEnding =
  /** @property unwritten why the journal does not know of it */
  | { readonly kind: 'done'; readonly unwritten: string | null }
  | { readonly kind: 'held'; readonly because: string; readonly rollback: string };
