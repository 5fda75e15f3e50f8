import { type Family, parseAddress, type Problem } from '@sluice/netfilter';
import {
  type Check,
  type Checks,
  hexOf,
  isCount,
  isFlag,
  isKernelRelease,
  isMap,
  isNodeName,
  listOf,
  oneOf,
  optional,
  shape,
} from '../checks.ts';
import { type DocumentChecks, readJson } from '../documents.ts';
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

const { linesMax, lineBytesMax, nftTablesMax, nftObjectsMax, namesMax } = observationLimits;

const isLine = (value: unknown): boolean =>
  typeof value === 'string' && value.length <= lineBytesMax && !value.includes('\n') && !value.includes('\0');
const areLines = listOf(isLine, linesMax);
const areNamed = (value: unknown): boolean =>
  isMap(value) && Object.keys(value).length <= namesMax && Object.values(value).every(isLine);
const isAddressOf = (value: unknown, family: Family): boolean =>
  typeof value === 'string' && parseAddress(value)?.family === family;
const areAddresses = (value: unknown): boolean =>
  isMap(value) &&
  Object.keys(value).join() === 'ipv4,ipv6' &&
  (['ipv4', 'ipv6'] as const).every((family) => listOf((one) => isAddressOf(one, family), linesMax)(value[family]));
/** Of two with one key a reader would follow the first, and the digest have both. */
const each =
  (keyOf: (value: Json) => string, keys: Checks, most: number): Check =>
  (value) =>
    listOf(shape(keys), most)(value) &&
    new Set((value as readonly Json[]).map(keyOf)).size === (value as unknown[]).length;
/** `10.96.0.10:80`, `[fd00::a]:80`. */
const isPlace = (value: unknown): boolean =>
  typeof value === 'string' && value.length <= 64 && /^(?:[0-9.]+|\[[0-9a-f:.]+\]):\d{1,5}$/.test(value);

const isHost = shape({
  kernelRelease: isKernelRelease,
  addresses: areAddresses,
  tcpBeLiberal: isFlag,
  knowsBpf: isFlag,
  providesKubeChains: isFlag,
});

type ObservationFile = Observation & { readonly format: number; readonly digest: string };

const checks: DocumentChecks<ObservationFile> = {
  format: oneOf(observationFormat),
  node: isNodeName,
  bootId: optional((value) => typeof value === 'string' && /^[0-9a-f-]{36}$/.test(value)),
  digest: hexOf(64),
  tools: areNamed,
  missing: listOf(shape({ part: oneOf(...parts), why: isLine }), parts.length),
  host: optional(isHost),
  sysctls: areNamed,
  serverAddresses: areAddresses,
  interfaces: areLines,
  routes: areLines,
  sets: areLines,
  servers: areLines,
  connections: optional(
    shape({
      left: isCount,
      pairs: listOf(
        shape({ protocol: oneOf('tcp', 'udp', 'sctp'), frontend: isPlace, endpoint: isPlace, count: isCount }),
        observationLimits.connectionPairsMax,
      ),
    }),
  ),
  nftTables: each(
    (one) => `${String(one['family'])} ${String(one['name'])}`,
    {
      family: oneOf('ip', 'ip6', 'inet'),
      name: isLine,
      objects: listOf((one) => isMap(one) && isShallow(one), nftObjectsMax),
    },
    nftTablesMax,
  ),
  rules: each(
    (one) => `${String(one['store'])} ${String(one['family'])}`,
    {
      store: oneOf('nft', 'legacy'),
      family: oneOf('ipv4', 'ipv6'),
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
  const found = readJson<ObservationFile>(text, 'Observation', checks);
  if (typeof found === 'string') return observationProblem(`Cannot read ${file}: ${found}`);
  const { format: _format, digest, ...observation } = found;
  if (observedDigest(observation) !== digest)
    return observationProblem(`Cannot read ${file}: its content does not have the digest that it names`);
  return observation;
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
