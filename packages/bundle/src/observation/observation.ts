import { families, parseAddress, type Family } from '@sluice/netfilter';
import {
  type Check,
  type Checked,
  type CheckedMap,
  checkOf,
  type Checks,
  isCount,
  isFlag,
  isKernelRelease,
  isMap,
  isNodeName,
  listOf,
  oneOf,
  optional,
  shape,
  textOf,
} from '../checks.ts';
import type { HostFacts } from '../host-facts.ts';
import { oddRuleLine } from './rule-lines.ts';

/** The parts of an observation that may be missing. */
export const parts = [
  'host',
  'rules-nft-ipv4',
  'rules-nft-ipv6',
  'rules-legacy-ipv4',
  'rules-legacy-ipv6',
  'sets',
  'servers',
  'addresses',
  'nft-tables',
  'routes',
  'sysctls',
  'connections',
] as const;
export type ObservationPart = (typeof parts)[number];

/** The format that `sluiced observe` writes; a reader refuses any other. */
export const observationFormat = 1;

/** Bounds of a file and of its parts. README.md, "Observations". */
export const observationLimits = {
  fileBytesMax: 512 * 1024 * 1024,
  /** Of one part. At 10,000 Services with 5 endpoints each a store has 230,000 rules. */
  linesMax: 4_000_000,
  lineBytesMax: 64 * 1024,
  nftTablesMax: 64,
  nftObjectsMax: 2_000_000,
  /** Of lists and maps in each other in one object of nft; the deepest statement that nft prints has some ten. */
  nftDepthMax: 32,
  namesMax: 10_000,
  /** Of `conntrack -L`: twice the connections of a busy node. */
  connectionLinesMax: 1_000_000,
  connectionPairsMax: 100_000,
} as const;

/**
 * Whether lists and maps in an object of nft are nested no deeper than the limit, so that code which follows them does not run out of stack.
 * @param left how much deeper it may be
 */
export const isShallow = (value: unknown, left: number = observationLimits.nftDepthMax): boolean =>
  typeof value !== 'object' ||
  value === null ||
  (left > 0 && Object.values(value).every((one: unknown) => isShallow(one, left - 1)));

const { linesMax, lineBytesMax, nftTablesMax, nftObjectsMax, namesMax } = observationLimits;

const isLine = checkOf<string>(
  (value) =>
    typeof value === 'string' && value.length <= lineBytesMax && !value.includes('\n') && !value.includes('\0'),
);
const lines = listOf(isLine, linesMax);
const named = checkOf<Readonly<Record<string, string>>>(
  (value) => isMap(value) && Object.keys(value).length <= namesMax && Object.values(value).every(isLine),
);
const addresses = checkOf<Readonly<Record<Family, readonly string[]>>>(
  (value) =>
    isMap(value) &&
    Object.keys(value).join() === 'ipv4,ipv6' &&
    families.every((family) =>
      listOf(
        checkOf((one) => typeof one === 'string' && parseAddress(one)?.family === family),
        linesMax,
      )(value[family]),
    ),
);
/** Of two with one key a reader would follow the first, and the digest have both. */
const each = <C extends Checks>(
  keyOf: (value: CheckedMap<C>) => string,
  keys: C,
  most: number,
): Check<readonly CheckedMap<C>[]> => {
  const list = listOf(shape(keys), most);
  return checkOf((value) => list(value) && new Set(value.map(keyOf)).size === value.length);
};
/** `10.96.0.10:80`, `[fd00::a]:80`. */
const isPlace = textOf(/^(?:[0-9.]+|\[[0-9a-f:.]+\]):\d{1,5}$/, 64);

const missingPart = shape({
  part: oneOf(...parts),
  /** A clause: `ipset is not installed`. */
  why: isLine,
});
export type MissingPart = Checked<typeof missingPart>;

/** Tracked connections from one frontend to one endpoint. */
const connection = shape({
  protocol: oneOf('tcp', 'udp', 'sctp'),
  /** The destination as clients send it: `10.96.0.10:80`; of a node port, an address of the node. */
  frontend: isPlace,
  /** Where connection tracking translates it to: `10.244.1.5:8080`. */
  endpoint: isPlace,
  /** TCP and SCTP: established ones. UDP: flows, answered or not. */
  count: isCount,
});
export type ObservedConnections = Checked<typeof connection>;

/** What connection tracking has at one moment, summed up. */
const connections = shape({
  /** Lines behind the limit of lines, and connections of pairs behind that of pairs: not counted in `pairs`. */
  left: isCount,
  /** By protocol, frontend and endpoint. */
  pairs: listOf(connection, observationLimits.connectionPairsMax),
});
export type ConnectionSummary = Checked<typeof connections>;

/** `{"chain": {…}}`, `{"rule": {…}}` … of libnftables-json(5). */
export type NftObject = Readonly<Record<string, unknown>>;

/** A table as `nft -j list table` prints it. */
const nftTable = {
  family: oneOf('ip', 'ip6', 'inet'),
  name: isLine,
  /** Chains, sets, maps and rules, without handles, counters, and the elements that packets add. */
  objects: listOf(
    checkOf<NftObject>((one) => isMap(one) && isShallow(one)),
    nftObjectsMax,
  ),
};
export type NftTable = CheckedMap<typeof nftTable>;

/** One rule store of one family as its save tool prints it, without comments and counters. */
const savedRules = {
  store: oneOf('nft', 'legacy'),
  family: oneOf(...families),
  lines: checkOf<readonly string[]>((value) => lines(value) && oddRuleLine(value) === undefined),
};
export type SavedRules = CheckedMap<typeof savedRules>;
export type RuleStoreName = SavedRules['store'];

/** The checks of `ObservedState`. */
const stateChecks = {
  /** Absent where only outputs of tools were saved. */
  host: optional(
    checkOf<Omit<HostFacts, 'node'>>(
      shape({
        kernelRelease: isKernelRelease,
        addresses,
        tcpBeLiberal: isFlag,
        knowsBpf: isFlag,
        providesKubeChains: isFlag,
      }),
    ),
  ),
  /** One for each store and family that could be read, nft before legacy, IPv4 before IPv6. */
  rules: each(({ store, family }) => `${store} ${family}`, savedRules, 4),
  /** `ipset save`: each set with its entries, without counters and time-outs, sorted. */
  sets: lines,
  /** `ipvsadm -S -n`: each virtual server with its real servers, sorted. */
  servers: lines,
  /** Addresses of `kube-ipvs0`, sorted. */
  serverAddresses: addresses,
  /** Tables of nftables with a hook that packets meet, without those of iptables, by family and name. */
  nftTables: each(({ family, name }) => `${family} ${name}`, nftTable, nftTablesMax),
  /** `ip route show table all`, sorted, without expiry. Not in the digest: routes of pods come and go. */
  routes: lines,
  /** Addresses with their interfaces, `eth0 192.0.2.11/24`, sorted. Not in the digest, for the same reason. */
  interfaces: lines,
  /** By name, such as `net.ipv4.ip_forward`; a name that the kernel lacks is absent. */
  sysctls: named,
};
/** What the digest covers: equal for equal kernel states, whenever and by whichever tools they were read. */
export type ObservedState = CheckedMap<typeof stateChecks>;

/** The checks of `Observation`. */
export const observationChecks = {
  ...stateChecks,
  /** The node's name in the bundle; of saved outputs, as the command line says. */
  node: isNodeName,
  /** `/proc/sys/kernel/random/boot_id`; absent where it was not saved. */
  bootId: optional(textOf(/^[0-9a-f-]{36}$/, 36)),
  /** By tool: the version that it prints. */
  tools: named,
  /** Tracked connections; absent where they were not read. Not in the digest: traffic changes them. */
  connections: optional(connections),
  /** Parts that could not be read, in the order of `parts`. */
  missing: listOf(missingPart, parts.length),
};
/**
 * The Service data plane of a machine as its kernel has it: `sluiced observe` writes it, `sluice parity`, `sluice trace --live` and
 * `sluice show --host` read it. README.md, "Observations".
 */
export type Observation = CheckedMap<typeof observationChecks>;
