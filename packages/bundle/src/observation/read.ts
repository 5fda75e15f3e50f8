import { type Family, parseAddress, parseKernelRelease, type Problem } from '@sluice/netfilter';
import { isMap } from '../is-map.ts';
import { observedDigest } from './digest.ts';
import {
  type NftTable,
  type Observation,
  observationFormat,
  observationLimits,
  parts,
  type SavedRules,
} from './observation.ts';
import { oddRuleLine } from './rule-lines.ts';
import { isShallow } from './shallow.ts';

type Json = Readonly<Record<string, unknown>>;
type Checks = Readonly<Record<string, (value: unknown) => boolean>>;

const { linesMax, lineBytesMax, nftTablesMax, nftObjectsMax, namesMax } = observationLimits;

const isLine = (value: unknown): boolean =>
  typeof value === 'string' && value.length <= lineBytesMax && !value.includes('\n') && !value.includes('\0');
const areLines = (value: unknown): boolean => Array.isArray(value) && value.length <= linesMax && value.every(isLine);
const areNamed = (value: unknown): boolean =>
  isMap(value) && Object.keys(value).length <= namesMax && Object.values(value).every(isLine);
const isOne = (value: unknown, ...choices: readonly unknown[]): boolean => choices.includes(value);
const isAddressOf = (value: unknown, family: Family): boolean =>
  typeof value === 'string' && parseAddress(value)?.family === family;
const areAddresses = (value: unknown): boolean =>
  isMap(value) &&
  Object.keys(value).join() === 'ipv4,ipv6' &&
  (['ipv4', 'ipv6'] as const).every((family) => {
    const list = value[family];
    return Array.isArray(list) && list.length <= linesMax && list.every((one) => isAddressOf(one, family));
  });
const hasExactly = (value: Json, checks: Checks): boolean =>
  Object.keys(value).every((key) => Object.hasOwn(checks, key)) &&
  Object.entries(checks).every(([key, check]) => check(value[key]));
const optional =
  (check: (value: unknown) => boolean) =>
  (value: unknown): boolean =>
    value === undefined || check(value);
const listOf =
  (checks: Checks, most: number) =>
  (value: unknown): boolean =>
    Array.isArray(value) && value.length <= most && value.every((one) => isMap(one) && hasExactly(one, checks));
/** Of two with one key a reader would follow the first, and the digest have both. */
const each =
  (keyOf: (value: Json) => string, checks: Checks, most: number) =>
  (value: unknown): boolean =>
    listOf(checks, most)(value) && new Set((value as readonly Json[]).map(keyOf)).size === (value as unknown[]).length;
const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
/** `10.96.0.10:80`, `[fd00::a]:80`. */
const isPlace = (value: unknown): boolean =>
  typeof value === 'string' && value.length <= 64 && /^(?:[0-9.]+|\[[0-9a-f:.]+\]):\d{1,5}$/.test(value);
const isFlag = (value: unknown): boolean => typeof value === 'boolean';

const subdomain = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;

const hostChecks: Checks = {
  kernelRelease: (value) => typeof value === 'string' && value.length <= 64 && parseKernelRelease(value) !== undefined,
  addresses: areAddresses,
  tcpBeLiberal: isFlag,
  knowsBpf: isFlag,
  providesKubeChains: isFlag,
};

const checks: Checks = {
  apiVersion: (value) => value === 'sluice.dev/v1alpha1',
  kind: (value) => value === 'Observation',
  format: (value) => value === observationFormat,
  node: (value) => typeof value === 'string' && value.length <= 253 && subdomain.test(value),
  bootId: optional((value) => typeof value === 'string' && /^[0-9a-f-]{36}$/.test(value)),
  digest: (value) => typeof value === 'string' && /^[0-9a-f]{64}$/.test(value),
  tools: areNamed,
  missing: listOf({ part: (value) => (parts as readonly unknown[]).includes(value), why: isLine }, parts.length),
  host: optional((value) => isMap(value) && hasExactly(value, hostChecks)),
  sysctls: areNamed,
  serverAddresses: areAddresses,
  interfaces: areLines,
  routes: areLines,
  sets: areLines,
  servers: areLines,
  connections: optional(
    (value) =>
      isMap(value) &&
      hasExactly(value, {
        left: isCount,
        pairs: listOf(
          { protocol: (one) => isOne(one, 'tcp', 'udp', 'sctp'), frontend: isPlace, endpoint: isPlace, count: isCount },
          observationLimits.connectionPairsMax,
        ),
      }),
  ),
  nftTables: each(
    (one) => `${String(one['family'])} ${String(one['name'])}`,
    {
      family: (value) => isOne(value, 'ip', 'ip6', 'inet'),
      name: isLine,
      objects: (value) =>
        Array.isArray(value) && value.length <= nftObjectsMax && value.every((one) => isMap(one) && isShallow(one)),
    },
    nftTablesMax,
  ),
  rules: each(
    (one) => `${String(one['store'])} ${String(one['family'])}`,
    {
      store: (value) => isOne(value, 'nft', 'legacy'),
      family: (value) => isOne(value, 'ipv4', 'ipv6'),
      lines: (value) => areLines(value) && oddRuleLine(value as readonly string[]) === undefined,
    },
    4,
  ),
};

/**
 * Reads the file that `printObservation` writes; unknown keys, other formats and a digest of other content are refused.
 * @param file named in the problem
 * @returns the observation, or `OBSERVATION_INVALID`
 */
export function readObservation(file: string, text: string): Observation | Problem {
  if (text.length > observationLimits.fileBytesMax)
    return observationProblem(`Cannot read ${file}: it is larger than ${observationLimits.fileBytesMax} bytes`);
  const value = parsed(text);
  if (!isMap(value)) return observationProblem(`Cannot read ${file}: it is not a JSON object`);
  const unknown = Object.keys(value).find((key) => !Object.hasOwn(checks, key));
  if (unknown !== undefined)
    return observationProblem(
      `Cannot read ${file}: an Observation has no key ${JSON.stringify(unknown)} in this format`,
    );
  const bad = Object.entries(checks).find(([key, check]) => !check(value[key]));
  if (bad)
    return observationProblem(
      `Cannot read ${file}: ${bad[0]} is ${Object.hasOwn(value, bad[0]) ? 'not valid' : 'missing'}`,
    );
  const { apiVersion: _apiVersion, kind: _kind, format: _format, digest, ...seen } = value;
  const observation = seen as unknown as Observation;
  if (observedDigest(observation) !== digest)
    return observationProblem(`Cannot read ${file}: its content does not have the digest that it names`);
  return observation;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The problem of a file of `sluiced observe` that cannot be used. @param message a sentence without a full stop */
export function observationProblem(message: string): Problem {
  const hint = 'Write it on the node with `sluiced observe -o FILE`, and read it with a Sluice of the same version';
  return { code: 'OBSERVATION_INVALID', level: 'error', message, hint };
}

/** The rules of a store and family; undefined: they were not read. */
export const rulesIn = (
  { rules }: Pick<Observation, 'rules'>,
  store: SavedRules['store'],
  family: Family,
): SavedRules | undefined => rules.find((one) => one.store === store && one.family === family);

/** A table of nftables; undefined: the kernel has none of this name. */
export const nftTableIn = (
  { nftTables }: Pick<Observation, 'nftTables'>,
  family: NftTable['family'],
  name: string,
): NftTable | undefined => nftTables.find((one) => one.family === family && one.name === name);
