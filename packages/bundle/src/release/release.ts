import { allOf, hexOf, isInstant, oneOf, optional, recordOf, shape } from '../checks.ts';
import { type DocumentChecks, isProblem, type Need, needs, readDocument } from '../documents.ts';
import { type Mode, modes, compareText, type Problem, type Family, refusal } from '@sluice/netfilter';
import { releaseFile, releaseLimits } from '../names.ts';

/** Features that a reader of a release must support. README.md has the table. */
export const releaseFeatures = [
  'accept-removal',
  'endpoint-counters',
  'localhost-listener',
  'localhost-node-ports',
  'mode-iptables',
  'mode-ipvs',
  'mode-nftables',
  'nft-schedulers',
  'primary-node-ports',
  'revisions',
  'urgent',
  'waves',
] as const;
export type ReleaseFeature = (typeof releaseFeatures)[number];

/** Features of the first version, 0.1.0, which every node supports. */
const features010: ReadonlySet<ReleaseFeature> = new Set([
  'mode-iptables',
  'mode-ipvs',
  'revisions',
  'urgent',
  'waves',
]);

export interface ReleaseProfile {
  readonly mode: Mode;
  readonly families: readonly Family[];
  readonly needs: readonly Need[];
}

/** `release.yaml`. */
export interface Release {
  readonly format: 1;
  readonly requires: readonly ReleaseFeature[];
  readonly cluster: string;
  readonly serial: number;
  /** Of an endpoint update: from 1 for each serial. The release itself has none. */
  readonly revision?: number;
  /** The commit that it was made from. */
  readonly source: string;
  /** `YYYY-MM-DDTHH:MM:SSZ`. */
  readonly expires?: string;
  readonly profiles: Readonly<Record<string, ReleaseProfile>>;
  readonly nodes: Readonly<Record<string, { readonly profile: string; readonly version: string }>>;
}

/** True for a valid serial. */
export function isSerial(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= releaseLimits.serialMax;
}

/** True for the name of a commit, SHA-1 or SHA-256. */
function isCommit(value: unknown): value is string {
  return typeof value === 'string' && /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(value);
}

const checks: DocumentChecks<Release> = {
  format: oneOf(1),
  requires: allOf(...releaseFeatures),
  cluster: (value) => typeof value === 'string' && value !== '',
  serial: isSerial,
  revision: optional(isSerial),
  source: isCommit,
  expires: optional(isInstant),
  profiles: recordOf(
    shape({ mode: oneOf(...modes), families: allOf('ipv4', 'ipv6'), needs: allOf(...Object.keys(needs)) }),
  ),
  nodes: recordOf(shape({ profile: (value) => typeof value === 'string', version: hexOf(16) })),
};

/**
 * Reads `release.yaml`. Call it only after its digest and signatures are verified.
 * @returns the release, or `RELEASE_INVALID`
 */
export function readRelease(text: string): Release | Problem {
  const printed = readPrinted(text);
  if (printed) return printed;
  const read = readDocument<Release>(releaseFile, text, 'Release', checks);
  if (!isProblem(read)) return read;
  const newer = featuresBeyond(text);
  if (newer.length > 0) return tooNew(newer);
  const hint = 'Use a version of sluice that supports this release, or make the release again with `sluice release`';
  return { ...read, code: 'RELEASE_INVALID', hint };
}

const nodeLine = /^ {2}"([-.a-z0-9]{1,253})": \{ profile: "([-.\w]{1,253})", version: "([0-9a-f]{16})" \}$/;

/**
 * Reads the form that `printRelease` writes, and no other one: 500 nodes as YAML take 100 ms, and every node reads them at each release.
 * @returns undefined for any other text
 */
function readPrinted(text: string): Release | undefined {
  const [start = '', list] = text.split('\nnodes:\n', 2);
  if (list === undefined) return undefined;
  const head = readDocument<Release>(releaseFile, `${start}\nnodes: {}\n`, 'Release', checks);
  if (isProblem(head)) return undefined;
  const nodes = list
    .split('\n')
    .map((line) => nodeLine.exec(line) ?? [])
    .map(([, name = '', profile = '', version = '']) => [name, { profile, version }] as const)
    .filter(([name]) => name !== '');
  const release = { ...head, nodes: Object.fromEntries(nodes) };
  return printRelease(release) === text ? release : undefined;
}

/** The required features that this version does not support, read from the form that `printRelease` writes. */
function featuresBeyond(text: string): readonly string[] {
  const [, list = ''] = /^requires: \[([-a-z0-9, ]{1,500})\]$/m.exec(text) ?? [];
  const known: readonly string[] = releaseFeatures;
  return list.split(', ').filter((feature) => feature !== '' && !known.includes(feature));
}

const tooNew = (features: readonly string[]): Problem =>
  refusal(
    'RELEASE_INVALID',
    `Cannot read the release: it requires ${features.join(', ')}, but this version supports ${releaseFeatures.join(', ')}`,
    'Upgrade sluiced first (or sluice, where it reports this), then release; `sluiced version` prints the present version',
  );

/**
 * The required features that a node may not support yet: later than 0.1.0, and not of the release before.
 * @param before the release that nodes have
 */
export function newlyRequired(
  { requires }: Pick<Release, 'requires'>,
  before: Pick<Release, 'requires'> | undefined,
): readonly ReleaseFeature[] {
  return requires.filter((feature) => !features010.has(feature) && before?.requires.includes(feature) !== true);
}

/** Prints `release.yaml`: keys in the order of README.md, names sorted. */
export function printRelease(release: Release): string {
  const { requires, cluster, serial, revision, source, expires } = release;
  const profiles = sorted(release.profiles).map(
    ([name, { mode, families, needs: wanted }]) =>
      `  ${quoted(name)}: { mode: ${mode}, families: [${families.join(', ')}], needs: [${wanted.join(', ')}] }`,
  );
  const nodes = sorted(release.nodes).map(
    ([name, { profile, version }]) => `  ${quoted(name)}: { profile: ${quoted(profile)}, version: ${quoted(version)} }`,
  );
  const lines = [
    'apiVersion: sluice.dev/v1alpha1',
    'kind: Release',
    'format: 1',
    `requires: [${requires.join(', ')}]`,
    `cluster: ${quoted(cluster)}`,
    `serial: ${serial}`,
    ...(revision === undefined ? [] : [`revision: ${revision}`]),
    `source: ${quoted(source)}`,
    ...(expires === undefined ? [] : [`expires: ${quoted(expires)}`]),
    profiles.length === 0 ? 'profiles: {}' : 'profiles:',
    ...profiles,
    nodes.length === 0 ? 'nodes: {}' : 'nodes:',
    ...nodes,
  ];
  return lines.map((line) => `${line}\n`).join('');
}

/** Quotes prevent YAML from reading names such as `1e3` and commits of digits as numbers. */
const quoted = (text: string): string => JSON.stringify(text);

function sorted<T>(record: Readonly<Record<string, T>>): readonly (readonly [string, T])[] {
  return Object.entries(record).toSorted(([a], [b]) => compareText(a, b));
}
