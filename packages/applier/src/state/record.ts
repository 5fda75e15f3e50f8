import { parsedJson } from '@sluice/bundle';
import { objectOf, sysctlKeys, type SysctlKey } from '@sluice/netfilter';
import * as v from 'valibot';
import type { OpenTransaction } from '../ports/journal.ts';
import { StateError } from './state-error.ts';

/** The record of the journal: everything that decides which rules the node runs. Programs are in the store. */
export const generation = v.strictObject({
  number: v.number(),
  revision: v.number(),
  version: v.string(),
  /** The digest of its manifest in the store. */
  manifest: v.string(),
  /** Left out: iptables or ipvs, which every sluiced reads. */
  mode: v.optional(v.literal('nftables')),
  /** Mode nftables: a release without some Services. */
  partial: v.optional(v.strictObject({ of: v.string(), services: v.array(v.string()), because: v.string() })),
});
const drain = v.strictObject({ server: v.string(), real: v.string(), until: v.number() });
const sysctls = v.record(v.picklist(sysctlKeys), v.number());
const openForm = v.strictObject({
  phase: v.picklist(['open', 'committed']),
  lane: v.picklist(['release', 'endpoints']),
  flip: v.picklist(['switch', 'ordered']),
  version: v.string(),
  from: generation,
  to: generation,
  sysctls,
  /** The digest of the changed flows, in the store. */
  flows: v.string(),
  /** Both generations with newer endpoints, which the kernel may not hold yet. */
  update: v.optional(v.strictObject({ from: generation, to: generation, version: v.string(), flows: v.string() })),
  /** The version that it began with, when endpoint updates changed it. */
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
  /** On a rollback: the change was an endpoint update, not a release. */
  lane: v.optional(v.literal('endpoints')),
  /** On a rollback: the version is not to blame, so later releases need not wait. */
  blameless: v.optional(v.literal(true)),
  /** On a confirmed release: the Services that were left out. */
  without: v.optional(v.array(v.string())),
});
const quarantinedService = v.strictObject({ service: v.string(), version: v.string(), because: v.string() });
const hold = v.variant('kind', [
  v.strictObject({ kind: v.literal('unit'), unit: v.string() }),
  v.strictObject({ kind: v.literal('manifest'), manifest: v.string() }),
  v.strictObject({ kind: v.literal('operator') }),
]);
const adoption = v.strictObject({
  goal: v.picklist(['sluice', 'kube-proxy']),
  hold,
  isStored: v.boolean(),
  leftovers: v.optional(v.strictObject({ ipv4: v.optional(v.string()), ipv6: v.optional(v.string()) })),
});
const recordForm = v.strictObject({
  /** 3 where a generation is in mode nftables, or kube-proxy was moved, which the first sluiced does not know: it then refuses the state directory. */
  schema: v.picklist([2, 3]),
  node: v.string(),
  /** The rule store of the rules; `sluiced backend` moves them. */
  backend: v.optional(v.picklist(['legacy', 'nft'])),
  /** The generation that is loaded at boot. */
  current: v.nullable(generation),
  /** The newest revision of every kept generation, newest last; includes `current`. */
  kept: v.array(generation),
  next: v.number(),
  open: v.nullable(openForm),
  held: v.nullable(v.string()),
  quarantined: v.record(v.string(), v.string()),
  /** Versions of Services of mode nftables. */
  quarantinedServices: v.optional(v.array(quarantinedService)),
  /** Releases rolled back since the last confirmed one: the back-off doubles with each. */
  failures: v.number(),
  originals: sysctls,
  /** The timeouts of IPVS before Sluice first set them, in seconds. */
  originalTimeouts: v.optional(v.strictObject({ tcp: v.number(), tcpFin: v.number(), udp: v.number() })),
  /** The move from kube-proxy. */
  adoption: v.optional(adoption),
  /** Draining real servers of mode ipvs. */
  draining: v.array(drain),
  history: v.array(entry),
});

export type NodeRecord = v.InferOutput<typeof recordForm>;
export type GenerationRecord = v.InferOutput<typeof generation>;
export type HistoryEntry = v.InferOutput<typeof entry>;
export type OpenRecord = v.InferOutput<typeof openForm>;

/** The record of a node that has never run Sluice. */
export function emptyRecord(node: string): NodeRecord {
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
 * @throws StateError for another schema or form: guessing here could lose the target of a rollback
 */
export function readRecord(text: string, path: string): NodeRecord {
  const hint = 'The kernel was not changed. Run the sluiced that wrote it, or restore the file from a backup';
  const value = parsedJson(text);
  if (value === undefined) throw new StateError('NODE_STATE_INVALID', `${path} is damaged`, hint);
  const { schema } = objectOf(value);
  if (schema !== 2 && schema !== 3) {
    throw new StateError(
      'NODE_STATE_INVALID',
      `${path} has schema ${JSON.stringify(schema)}; this sluiced reads schemas 2 and 3`,
      hint,
    );
  }
  const parsed = v.safeParse(recordForm, value);
  if (parsed.success) return parsed.output;
  const where = parsed.issues[0].path?.map(({ key }) => String(key)).join('.') ?? '';
  throw new StateError('NODE_STATE_INVALID', `${path} is damaged at ${where === '' ? 'the top' : where}`, hint);
}

/** The record with the least schema that can hold it. Without a generation of mode nftables, what only that mode has is of no use. */
export function withSchema(record: NodeRecord): NodeRecord {
  const isNft = generationsOf(record).some(({ mode }) => mode === 'nftables');
  if (isNft || record.adoption) return record.schema === 3 ? record : { ...record, schema: 3 };
  const { quarantinedServices, history, ...others } = record;
  const hasMore = quarantinedServices !== undefined || history.some(({ without }) => without !== undefined);
  if (!hasMore) return record.schema === 2 ? record : { ...record, schema: 2 };
  return { ...others, schema: 2, history: history.map(withoutServices) };
}

function withoutServices(one: HistoryEntry): HistoryEntry {
  const { without: _, ...others } = one;
  return others;
}

/** Every generation that a record names. */
export function generationsOf({ kept, current, open }: NodeRecord): readonly GenerationRecord[] {
  const ofOpen = open ? [open.from, open.to, ...(open.update ? [open.update.from, open.update.to] : [])] : [];
  return [...kept, ...(current ? [current] : []), ...ofOpen];
}

/** The digests of the flows that an open transaction changes. */
export function flowsOf({ open }: NodeRecord): readonly string[] {
  return open ? [open.flows, ...(open.update ? [open.update.flows] : [])] : [];
}

/** A kept generation. Without a revision: its newest active one, not one in progress. */
export function findGeneration(
  record: NodeRecord,
  number: number,
  revision: number | undefined,
): GenerationRecord | undefined {
  const { kept, current } = record;
  if (revision === undefined) return [...kept, ...(current ? [current] : [])].findLast((one) => one.number === number);
  return generationsOf(record).findLast((one) => one.number === number && one.revision === revision);
}

/** An open transaction as the reconciler sees it. */
export function openFrom(open: OpenRecord): OpenTransaction {
  const { phase, lane: changeKind, flip, version, from, to, update } = open;
  const sysctlsBefore = sysctlMap(open.sysctls);
  return { phase, changeKind, flip, version, from, to, sysctls: sysctlsBefore, ...(update ? { update } : {}) };
}

export function sysctlMap(values: Readonly<Partial<Record<SysctlKey, number>>>): ReadonlyMap<SysctlKey, number> {
  return new Map(Object.entries(values) as [SysctlKey, number][]);
}
