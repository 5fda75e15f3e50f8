import {
  allOf,
  type Checked,
  type CheckedMap,
  checkOf,
  hexOf,
  isCount,
  isInstant,
  oneOf,
  optional,
  recordOf,
  shape,
  textOf,
} from '../checks.ts';
import { isProblem, type Need, needs, readDocument } from '../documents.ts';
import { modes, compareText, type Problem, families, refusal } from '@sluice/netfilter';
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

/** True for a valid serial. */
export const isSerial = checkOf<number>((value) => isCount(value) && value >= 1 && value <= releaseLimits.serialMax);

const releaseProfile = shape({
  mode: oneOf(...modes),
  families: allOf(...families),
  needs: allOf(...(Object.keys(needs) as Need[])),
});
export type ReleaseProfile = Checked<typeof releaseProfile>;

const anyText = checkOf<string>((value) => typeof value === 'string');
const checks = {
  format: oneOf(1),
  requires: allOf(...releaseFeatures),
  cluster: checkOf<string>((value) => typeof value === 'string' && value !== ''),
  serial: isSerial,
  /** Of an endpoint update: from 1 for each serial. The release itself has none. */
  revision: optional(isSerial),
  /** The commit that it was made from: its name, SHA-1 or SHA-256. */
  source: textOf(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/, 64),
  expires: optional(isInstant),
  profiles: recordOf(releaseProfile),
  nodes: recordOf(shape({ profile: anyText, version: hexOf(16) })),
};
/** `release.yaml`. */
export type Release = CheckedMap<typeof checks>;

/**
 * Reads `release.yaml`. Call it only after its digest and signatures are verified.
 * @returns the release, or `RELEASE_INVALID`
 */
export function readRelease(text: string): Release | Problem {
  const printed = readPrinted(text);
  if (printed) return printed;
  const read = readDocument(releaseFile, text, 'Release', checks);
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
  const head = readDocument(releaseFile, `${start}\nnodes: {}\n`, 'Release', checks);
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
    ([name, { mode, families: used, needs: wanted }]) =>
      `  ${quoted(name)}: { mode: ${mode}, families: [${used.join(', ')}], needs: [${wanted.join(', ')}] }`,
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
