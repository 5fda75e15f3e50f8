import { type ProblemCode, sysctlKeys, type SysctlKey } from '@sluice/bundle';
import * as v from 'valibot';
import type { Intent } from '../rollout/ports.ts';

/** state.json: everything that must survive, apart from the generations' own files. */
const names = v.strictObject({ filter: v.array(v.string()), nat: v.array(v.string()) });
const ipvsNames = v.strictObject({
  servers: v.array(v.string()),
  sets: v.array(v.string()),
  addresses: v.array(v.string()),
});
const drain = v.strictObject({ server: v.string(), real: v.string(), until: v.number() });
const sysctls = v.record(v.picklist(sysctlKeys), v.number());
const intent = v.strictObject({
  from: v.number(),
  version: v.string(),
  creates: v.strictObject({ ipv4: v.optional(names), ipv6: v.optional(names), ipvs: v.optional(ipvsNames) }),
  sysctls,
  at: v.string(),
  /** How many processes have tried to finish it. */
  recoveries: v.number(),
});
const entry = v.strictObject({
  at: v.string(),
  what: v.picklist(['first-run', 'confirmed', 'rolled-back', 'held', 'chosen', 'fell-back', 'cleaned-up']),
  generation: v.number(),
  version: v.string(),
  because: v.optional(v.string()),
});
const record = v.strictObject({
  schema: v.literal(1),
  node: v.string(),
  /** The tools that the rules are in; another backend needs `sluiced cleanup` first. */
  backend: v.optional(v.picklist(['legacy', 'nft'])),
  current: v.nullable(v.number()),
  next: v.number(),
  open: v.nullable(intent),
  held: v.nullable(v.string()),
  quarantined: v.record(v.string(), v.string()),
  originals: sysctls,
  /** Real servers of mode ipvs that are on their way out. */
  draining: v.optional(v.array(drain), []),
  history: v.array(entry),
});

export type NodeRecord = v.InferOutput<typeof record>;
export type HistoryEntry = v.InferOutput<typeof entry>;
export type OpenIntent = v.InferOutput<typeof intent>;

/** What is wrong with the state directory; nothing was touched. */
export class StateError extends Error {
  override readonly name = 'StateError';
  readonly code: ProblemCode;
  readonly hint: string;

  constructor(code: ProblemCode, why: string, hint: string) {
    super(`Cannot use the state directory: ${why}`);
    this.code = code;
    this.hint = hint;
  }
}

/** The record of a node that has never run Sluice. */
export function freshRecord(node: string): NodeRecord {
  return {
    schema: 1,
    node,
    current: null,
    next: 1,
    open: null,
    held: null,
    quarantined: {},
    originals: {},
    draining: [],
    history: [],
  };
}

/**
 * Reads state.json.
 * @throws StateError for a schema of another Sluice and for a damaged file: whoever guesses here loses the way back
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
  if (schema !== 1) {
    throw new StateError(
      'NODE_STATE_INVALID',
      `${path} has schema ${JSON.stringify(schema)}, this sluiced knows 1`,
      hint,
    );
  }
  const parsed = v.safeParse(record, value);
  if (parsed.success) return parsed.output;
  const where = parsed.issues[0].path?.map(({ key }) => String(key)).join('.') ?? '';
  throw new StateError('NODE_STATE_INVALID', `${path} is damaged at ${where === '' ? 'the top' : where}`, hint);
}

export function intentFrom(open: OpenIntent): Intent {
  const { ipv4, ipv6, ipvs } = open.creates;
  const creates = { ...(ipv4 ? { ipv4 } : {}), ...(ipv6 ? { ipv6 } : {}), ...(ipvs ? { ipvs } : {}) };
  return { from: open.from, version: open.version, creates, sysctls: sysctlMap(open.sysctls) };
}

export function sysctlMap(values: Readonly<Partial<Record<SysctlKey, number>>>): ReadonlyMap<SysctlKey, number> {
  return new Map(Object.entries(values) as [SysctlKey, number][]);
}
