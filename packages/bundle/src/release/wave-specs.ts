import { compareText, type Problem } from '@sluice/netfilter';
import { checkOf } from '../checks.ts';
import { isProblem, readDocument } from '../documents.ts';
import { type JsonSchema, matches } from '../json-schema.ts';
import { releaseLimits } from '../names.ts';
import { fileDigest } from '../seal/seal.ts';
import { firstDuplicate, invalidWaves, type Wave, waveHint, waveName, waveNodes, wavesMismatch } from './waves.ts';

/** A wave in a user's file: a list of nodes, or what chooses them. README.md, "Waves", says what each field means. */
export interface WaveSpec {
  readonly name: string;
  /** `rest`: all nodes that no other wave has. */
  readonly nodes?: readonly string[] | 'rest';
  readonly label?: Readonly<Record<string, string>>;
  readonly zone?: string | readonly string[];
  /** Of all nodes with the labels and in the zones. */
  readonly percent?: number;
  readonly count?: number;
  /** The most nodes of one zone in a part of the wave: a number, or a share of the nodes of the zone, `10%`. */
  readonly maxUnavailable?: number | string;
}

/** A node of a release, as far as waves choose by it. */
export interface WaveNode {
  readonly name: string;
  readonly zone?: string | undefined;
  readonly labels: ReadonlyMap<string, string>;
}

/** A wave of a release that was made from a user's file. */
export interface MadeWave extends Wave {
  /** In words: `10 % of zone a, part 2 of 3`. */
  readonly chosenBy: string;
}

const labelValue = '^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$';
const zoneName: JsonSchema = { type: 'string', minLength: 1, pattern: labelValue };
const fields: Readonly<Record<string, JsonSchema>> = {
  name: waveName,
  nodes: {
    description: 'Its nodes; one wave may have `rest`: all that no other wave has.',
    anyOf: [{ const: 'rest' }, waveNodes],
  },
  label: {
    description: 'Labels that its nodes have, with these values; needs `--nodes` of `sluice release`.',
    type: 'object',
    additionalProperties: { type: 'string', pattern: labelValue },
  },
  zone: {
    description: 'The zone of its nodes, or several.',
    anyOf: [zoneName, { type: 'array', minItems: 1, items: zoneName }],
  },
  percent: {
    description: 'How many nodes of these labels and zones, or of the release; rounded up.',
    type: 'integer',
    minimum: 1,
    maximum: 100,
  },
  count: { description: 'How many nodes of these labels and zones, or of the release.', type: 'integer', minimum: 1 },
  maxUnavailable: {
    description: 'At most so many nodes of one zone, or this share of the zone, apply at once: the wave is in parts.',
    anyOf: [
      { type: 'integer', minimum: 1 },
      { type: 'string', pattern: '^(?:100|[1-9][0-9]?)%$' },
    ],
  },
};
const form = (required: string, ...more: readonly string[]): JsonSchema => ({
  type: 'object',
  additionalProperties: false,
  required: ['name', required],
  properties: Object.fromEntries(['name', required, ...more, 'maxUnavailable'].map((key) => [key, fields[key] ?? {}])),
});

/** The schema of a file of waves: what `readWaveSpecs` checks, and editors by docs/schema/waves.schema.json. */
export const wavesSchema = {
  description: 'Which nodes apply a release first, and which after them.',
  type: 'object',
  additionalProperties: false,
  required: ['apiVersion', 'kind', 'waves'],
  properties: {
    apiVersion: { description: 'The version of this format.', const: 'sluice.dev/v1alpha1' },
    kind: { description: 'The kind.', const: 'Waves' },
    waves: {
      description: 'The waves, in the order of opening.',
      type: 'array',
      minItems: 1,
      maxItems: releaseLimits.wavesMax,
      items: {
        anyOf: [
          form('nodes'),
          form('percent', 'label', 'zone'),
          form('count', 'label', 'zone'),
          form('label', 'zone'),
          form('zone'),
        ],
      },
    },
  },
} satisfies JsonSchema;

/**
 * Reads a user's file of waves.
 * @param file named in problems
 * @returns the waves as they are chosen, or `WAVES_INVALID`
 */
export function readWaveSpecs(file: string, text: string): readonly WaveSpec[] | Problem {
  const read = readDocument(file, text, 'Waves', {
    waves: checkOf<readonly WaveSpec[]>((value) => matches(wavesSchema.properties.waves, value)),
  });
  return isProblem(read) ? { ...read, code: 'WAVES_INVALID', hint: waveHint } : read.waves;
}

/**
 * Makes the waves of a release from a user's file. Nodes are chosen in the order of a digest of the cluster and their name, so that they are
 * spread over zones and racks, and further nodes replace few of them; the order of the input has no effect.
 * @param file named in problems
 * @param cluster its name
 * @param nodes all nodes of the release
 * @returns the waves in order, each node in exactly one; or `WAVES_INVALID`
 */
export function makeWaves(
  file: string,
  specs: readonly WaveSpec[],
  cluster: string,
  nodes: readonly WaveNode[],
): readonly MadeWave[] | Problem {
  if (specs.filter((spec) => spec.nodes === 'rest').length > 1)
    return invalidWaves(file, 'two waves have `nodes: rest`');
  const order = nodes
    .map((node) => ({ node, rank: fileDigest(`${cluster}\n${node.name}`) }))
    .toSorted((a, b) => compareText(a.rank, b.rank))
    .map(({ node }) => node);
  const chosen = choose(specs, order);
  const whole = specs.map((spec) => ({ name: spec.name, nodes: chosen.get(spec) ?? [] }));
  const waves = specs.flatMap((spec, at) => partsOf(spec, whole[at]?.nodes ?? [], order));
  const names = nodes.map(({ name }) => name).toSorted(compareText);
  const wrong = firstDuplicate(whole) ?? wavesMismatch(whole, names) ?? firstMisfit(waves) ?? firstDuplicate(waves);
  return wrong === undefined ? waves : invalidWaves(file, wrong);
}

/** Lists first, then the other waves in their order, then the rest. */
function choose(specs: readonly WaveSpec[], order: readonly WaveNode[]): ReadonlyMap<WaveSpec, readonly string[]> {
  const chosen = new Map<WaveSpec, readonly string[]>();
  const taken = new Set<string>();
  const take = (spec: WaveSpec, names: readonly string[]): void => {
    chosen.set(spec, names);
    for (const name of names) taken.add(name);
  };
  for (const spec of specs) if (spec.nodes !== undefined && spec.nodes !== 'rest') take(spec, spec.nodes);
  const left = (all: readonly WaveNode[]): readonly string[] =>
    all.map(({ name }) => name).filter((name) => !taken.has(name));
  for (const spec of specs.filter((one) => one.nodes === undefined)) {
    const fitting = order.filter((node) => isIn(spec, node));
    const share = spec.percent === undefined ? undefined : Math.ceil((fitting.length * spec.percent) / 100);
    take(spec, left(fitting).slice(0, spec.count ?? share));
  }
  for (const spec of specs.filter((one) => one.nodes === 'rest')) take(spec, left(order));
  return chosen;
}

const zonesOf = ({ zone = [] }: WaveSpec): readonly string[] => (typeof zone === 'string' ? [zone] : zone);

/** Whether a node has the labels of a wave, and is in one of its zones, if it names any. */
function isIn(spec: WaveSpec, { zone, labels }: WaveNode): boolean {
  const zones = zonesOf(spec);
  if (zones.length > 0 && (zone === undefined || !zones.includes(zone))) return false;
  return Object.entries(spec.label ?? {}).every(([key, value]) => labels.get(key) === value);
}

/** Nodes without a zone count as one zone. No label value is a dash. */
const zoneOf = ({ zone }: WaveNode): string => zone ?? '-';

/** Splits a wave so that a part has at most `maxUnavailable` nodes of each zone: `others`, `others-2`, … */
function partsOf(spec: WaveSpec, names: readonly string[], order: readonly WaveNode[]): readonly MadeWave[] {
  const own = new Set(names);
  const most = mostOf(spec, order);
  const [seen, parts] = [new Map<string, number>(), [] as string[][]];
  for (const node of order.filter(({ name }) => own.has(name))) {
    const zone = zoneOf(node);
    const before = seen.get(zone) ?? 0;
    seen.set(zone, before + 1);
    (parts[Math.floor(before / most(zone))] ??= []).push(node.name);
  }
  return parts.map((nodes, at) => ({
    name: at === 0 ? spec.name : `${spec.name}-${at + 1}`,
    nodes: nodes.toSorted(compareText),
    chosenBy: `${wordsOf(spec)}${parts.length === 1 ? '' : `, part ${at + 1} of ${parts.length}`}`,
  }));
}

/** The most nodes of a zone in a part: a share is of all nodes of the release in the zone, rounded down, and at least one. */
function mostOf({ maxUnavailable = Infinity }: WaveSpec, order: readonly WaveNode[]): (zone: string) => number {
  if (typeof maxUnavailable === 'number') return () => maxUnavailable;
  const percent = Number.parseInt(maxUnavailable, 10);
  const sizes = Map.groupBy(order, zoneOf);
  return (zone) => Math.max(1, Math.floor(((sizes.get(zone)?.length ?? 0) * percent) / 100));
}

/** What chooses the nodes of a wave, in words. */
function wordsOf(spec: WaveSpec): string {
  const { nodes, label = {}, percent, count } = spec;
  if (nodes !== undefined) return nodes === 'rest' ? 'the rest' : 'listed';
  const labels = Object.entries(label).map(([key, value]) => `label ${key}=${value}`);
  const zones = zonesOf(spec);
  const where = [...labels, ...(zones.length === 0 ? [] : [`zone ${zones.join(' or ')}`])].join(', ');
  const many = percent === undefined ? count : `${percent} %`;
  if (many === undefined) return where === '' ? 'all that are left' : where;
  return where === '' ? `${many} of all nodes` : `${many} of ${where}`;
}

/** The first wave that no release can have, in words. */
function firstMisfit(waves: readonly MadeWave[]): string | undefined {
  const { length } = waves;
  if (length > releaseLimits.wavesMax)
    return `with \`maxUnavailable\` they are ${length}, and a release has at most ${releaseLimits.wavesMax}; raise it`;
  const long = waves.find(({ name }) => !matches(waveName, name));
  return long && `the name ${long.name} is longer than 63 characters`;
}
