import * as v from 'valibot';
import type { NodeRecord } from '../../state/record.ts';
import type { Checkpoint } from '../../state/generation-notes.ts';
import type { DrainState } from '../../ports/drain.ts';
import type { Decision, ProbationProgress } from '../../ports/operator.ts';
import type { Outcome } from '../../ports/outcome.ts';
import type { RepairAt } from '../../observe/status/repairs.ts';
import type { StatusReport } from '../../observe/status/status.ts';
import type { EndpointChange } from '../../apply/endpoints/endpoint-changes.ts';

/**
 * Requests of commands to the `sluiced` that holds the same state directory: HTTP on a Unix socket in that directory, which only root can
 * open. One POST with the request as JSON; the answer is its result, or problems with an exit code. Both ends have the same version, as
 * they come in one package; a request of another form is refused.
 */

/** The socket in the state directory: its path has at most 107 bytes, unix(7). */
export const controlPath = (state: string): string => `${state}/control.sock`;

/** unix(7): with a longer path, bind(2) would truncate the name. */
export const pathBytesMax = 107;

export const isTooLong = (path: string): boolean => Buffer.byteLength(path) > pathBytesMax;

const text = v.pipe(v.string(), v.maxLength(256));
const generationNumber = v.pipe(v.number(), v.integer(), v.minValue(0));

const decisionSchema = v.variant('kind', [
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
  v.strictObject({ do: v.literal('look') }),
  v.strictObject({
    do: v.literal('drain'),
    seconds: v.nullable(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(86_400))),
  }),
  v.strictObject({ do: v.literal('undrain') }),
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
  v.strictObject({ do: v.literal('liftQuarantine'), name: text }),
]);

export type ControlRequest = v.InferOutput<typeof requestSchema>;

/** The kinds of requests: the names of the methods of `Control`. */
export const requestKinds = requestSchema.options.map(({ entries }) => entries.do.literal) satisfies (keyof Control)[];
type RequestOf<K extends ControlRequest['do']> = Omit<Extract<ControlRequest, { do: K }>, 'do'>;

export type Decide = RequestOf<'decide'>;
/** `to`: a generation, a version or a prefix of one, or a checkpoint; default: the previous generation. */
export type RollbackRequest = RequestOf<'planRollback'>;
/** `from`, `generation` (that of `to`) and `cancels` are those of the plan, so that only the agreed change is made. */
export type RollbackOrder = RequestOf<'rollBack'>;

/** The result of each request. */
export interface Control {
  status(): Promise<ControlStatus>;
  /** Has the bundle directory looked at now; does not wait for that. */
  look(): Promise<Record<string, never>>;
  /** Drains the node: for so long; null: until `undrain` or a boot. */
  drain(request: RequestOf<'drain'>): Promise<DrainState>;
  undrain(): Promise<Record<string, never>>;
  /** @returns the release that was decided about; the next round carries the decision out */
  decide(request: Decide): Promise<Pick<ProbationStatus, 'version' | 'generation'>>;
  planRollback(request: RollbackRequest): Promise<RollbackPlan>;
  rollBack(order: RollbackOrder): Promise<RollbackEnding>;
  /** Pins the active generation under a name. */
  checkpoint(request: RequestOf<'checkpoint'>): Promise<Checkpoint>;
  removeCheckpoint(request: RequestOf<'removeCheckpoint'>): Promise<Checkpoint>;
  /** Lifts the quarantine of a version, or of all versions of a Service: the next look at the bundle directory tries it again. */
  liftQuarantine(request: RequestOf<'liftQuarantine'>): Promise<{ readonly name: string }>;
}

/** The status of the process that holds the state directory. */
export interface ControlStatus {
  /** null in `sluiced apply`, which has no daemon status. */
  readonly report: StatusReport | null;
  readonly probation: ProbationStatus | null;
  readonly record: NodeRecord;
  readonly repairs: readonly RepairAt[];
}

/** A release on probation. */
export interface ProbationStatus {
  readonly version: string;
  /** Differs for each probation: `sluiced confirm --token` confirms only this one. */
  readonly token: string;
  /** The generation that it becomes. */
  readonly generation: number;
  /** A decision of an operator that the next round takes; null: none waits. */
  readonly decision: Decision['kind'] | null;
  /** Null while it is prepared or ends. */
  readonly progress: ProbationProgress | null;
}

/** A rollback, planned before anything is changed. */
export interface RollbackPlan {
  /** The active generation; null where none can be read. */
  readonly from: number | null;
  readonly to: RollbackTarget;
  /** The release on probation, which is rolled back first; the order names its token. */
  readonly cancels: Pick<ProbationStatus, 'version' | 'token'> | null;
  readonly endpoints: 'newest' | 'old';
  /** Null where the active generation cannot be read, so that there is nothing to compare. */
  readonly services: { readonly removed: readonly string[]; readonly restored: readonly string[] } | null;
  /** Services in both generations that get the endpoints of the target, which may be stale. */
  readonly stale: readonly EndpointChange[];
  /** The number of changed rule lines. */
  readonly lines: number;
}

export interface RollbackTarget {
  readonly generation: number;
  readonly version: string;
  /** When it was confirmed, RFC 3339; null where the history does not tell. */
  readonly confirmedAt: string | null;
  /** The serial of the release; null without one. */
  readonly serial: number | null;
}

export type RollbackEnding =
  /** @property unwritten why the journal could not be updated; null when it was */
  | { readonly kind: 'done'; readonly unwritten: string | null }
  | Extract<Outcome, { readonly kind: 'held' | 'pending' }>;
