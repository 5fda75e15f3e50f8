import { sysctlKeys, type SysctlKey } from '@sluice/bundle';
import * as v from 'valibot';
import type { OpenTransaction } from '../rollout/ports.ts';
import { StateError } from '../store/state-error.ts';

/** The record of the journal: everything that decides what the node runs. Programs are in the store. */
export const generation = v.strictObject({
  number: v.number(),
  revision: v.number(),
  version: v.string(),
  /** The digest of its manifest in the store. */
  manifest: v.string(),
});
const drain = v.strictObject({ server: v.string(), real: v.string(), until: v.number() });
const sysctls = v.record(v.picklist(sysctlKeys), v.number());
const open = v.strictObject({
  phase: v.picklist(['open', 'committed']),
  lane: v.picklist(['release', 'endpoints']),
  flip: v.picklist(['switch', 'ordered']),
  version: v.string(),
  from: generation,
  to: generation,
  sysctls,
  /** The digest of the flows that change, in the store. */
  flows: v.string(),
  /** Both generations with newer endpoints, which the kernel does not hold yet for sure. */
  update: v.optional(v.strictObject({ from: generation, to: generation, version: v.string(), flows: v.string() })),
  /** The version that it began with, where updates of endpoints made it another one. */
  began: v.optional(v.string()),
  at: v.string(),
  /** How many processes have tried to finish it. */
  recoveries: v.number(),
});
const entry = v.strictObject({
  at: v.string(),
  what: v.picklist(['first-run', 'confirmed', 'updated', 'rolled-back', 'held', 'chosen', 'fell-back', 'cleaned-up']),
  generation: v.number(),
  version: v.string(),
  because: v.optional(v.string()),
  /** Of what was taken back: it was no release. */
  lane: v.optional(v.literal('endpoints')),
  /** Of what was taken back: that says nothing against it, so releases after it need not wait. */
  blameless: v.optional(v.literal(true)),
});
const record = v.strictObject({
  schema: v.literal(2),
  node: v.string(),
  /** The tools that the rules are in; another backend needs `sluiced cleanup` first. */
  backend: v.optional(v.picklist(['legacy', 'nft'])),
  /** What the node boots. */
  current: v.nullable(generation),
  /** The newest revision of every generation that is kept, the newest last; `current` included. */
  kept: v.array(generation),
  next: v.number(),
  open: v.nullable(open),
  held: v.nullable(v.string()),
  quarantined: v.record(v.string(), v.string()),
  /** Releases taken back since the last one that was confirmed: the hold-down doubles with each. */
  failures: v.number(),
  originals: sysctls,
  /** The time-outs that IPVS had before Sluice first set them, in seconds. */
  originalTimeouts: v.optional(v.strictObject({ tcp: v.number(), tcpFin: v.number(), udp: v.number() })),
  /** Real servers of mode ipvs that are on their way out. */
  draining: v.array(drain),
  history: v.array(entry),
});

export type NodeRecord = v.InferOutput<typeof record>;
export type GenerationRecord = v.InferOutput<typeof generation>;
export type HistoryEntry = v.InferOutput<typeof entry>;
export type OpenRecord = v.InferOutput<typeof open>;

/** The record of a node that has never run Sluice. */
export function freshRecord(node: string): NodeRecord {
  return {
    schema: 2,
    node,
    current: null,
    kept: [],
    next: 1,
    open: null,
    held: null,
    quarantined: {},
    failures: 0,
    originals: {},
    draining: [],
    history: [],
  };
}

/**
 * Reads the text of a record.
 * @throws StateError for a schema of another Sluice and for another form: whoever guesses here loses the way back
 */
export function readRecord(text: string, path: string): NodeRecord {
  const hint = 'The kernel was not touched. Run the sluiced that wrote it, or restore the file from a backup';
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new StateError('NODE_STATE_INVALID', `${path} is damaged`, hint);
  }
  const schema = (value as { schema?: unknown } | null)?.schema;
  if (schema !== 2) {
    throw new StateError(
      'NODE_STATE_INVALID',
      `${path} has schema ${JSON.stringify(schema)}, this sluiced knows 2`,
      hint,
    );
  }
  const parsed = v.safeParse(record, value);
  if (parsed.success) return parsed.output;
  const where = parsed.issues[0].path?.map(({ key }) => String(key)).join('.') ?? '';
  throw new StateError('NODE_STATE_INVALID', `${path} is damaged at ${where === '' ? 'the top' : where}`, hint);
}

/** The transaction of a record as the state machine sees it. */
export function openFrom({
  phase,
  lane,
  flip,
  version,
  from,
  to,
  sysctls: values,
  update,
}: OpenRecord): OpenTransaction {
  return {
    phase,
    changeKind: lane,
    flip,
    version,
    from,
    to,
    sysctls: sysctlMap(values),
    ...(update ? { update } : {}),
  };
}

export function sysctlMap(values: Readonly<Partial<Record<SysctlKey, number>>>): ReadonlyMap<SysctlKey, number> {
  return new Map(Object.entries(values) as [SysctlKey, number][]);
}
