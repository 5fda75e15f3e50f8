import { isHex } from '../checks.ts';
import { type DocumentChecks, isProblem, readDocument } from '../documents.ts';
import { compareText, type Problem } from '@sluice/netfilter';
import { type JsonSchema, matches } from '../json-schema.ts';
import { openingFile, releaseLimits, wavesFile } from '../names.ts';

/** Nodes that apply a release at the same time. */
export interface Wave {
  readonly name: string;
  /** Sorted. */
  readonly nodes: readonly string[];
}

/** A wave in a user's file: one of them may be `rest`, for all nodes that no other wave lists. */
export interface WaveSpec {
  readonly name: string;
  readonly nodes: readonly string[] | 'rest';
}

/** The progress of a release through its waves. */
export interface WavesOpening {
  /** The digest of the release's `SHA256SUMS`; without effect on other releases. */
  readonly release: string;
  /** The number of open waves, from the first. */
  readonly open: number;
}

const label = '^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$';
const subdomain = '^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$';

const waveSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['name', 'nodes'],
  properties: {
    name: { description: 'The name of the wave.', type: 'string', pattern: label },
    nodes: {
      description: 'Its nodes; in a file for `sluice release`, one wave may have all that no other lists.',
      anyOf: [
        { const: 'rest' },
        { type: 'array', minItems: 1, items: { type: 'string', maxLength: 253, pattern: subdomain } },
      ],
    },
  },
};

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
      items: waveSchema,
    },
  },
} satisfies JsonSchema;

const wavesChecks: DocumentChecks<{ waves: readonly WaveSpec[] }> = {
  waves: (value) => matches(wavesSchema.properties.waves, value),
};
const openingChecks: DocumentChecks<WavesOpening> = {
  release: (value) => isHex(value, 64),
  open: (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) <= releaseLimits.wavesMax,
};

/**
 * Reads a user's file of waves.
 * @param file named in problems
 * @returns the waves with `rest`, or `WAVES_INVALID`
 */
export function readWaveSpecs(file: string, text: string): readonly WaveSpec[] | Problem {
  const read = readDocument<{ waves: readonly WaveSpec[] }>(file, text, 'Waves', wavesChecks);
  return isProblem(read) ? { ...read, code: 'WAVES_INVALID', hint: waveHint } : read.waves;
}

/**
 * Reads `waves.yaml` of a release: every wave lists its nodes.
 * @returns the waves in order, or `WAVES_INVALID`
 */
export function readWaves(text: string): readonly Wave[] | Problem {
  const specs = readWaveSpecs(wavesFile, text);
  if (isProblem(specs)) return specs;
  const waves = specs.filter((one): one is Wave => one.nodes !== 'rest');
  if (waves.length < specs.length) return invalid(wavesFile, 'in a release each wave must list its nodes');
  const wrong = firstDuplicate(waves);
  return wrong === undefined ? waves : invalid(wavesFile, wrong);
}

/**
 * Makes the waves of a release from a user's file by replacing `rest` with its nodes.
 * @param file named in problems
 * @param nodes all nodes of the release
 * @returns the waves in order, each node in exactly one; or `WAVES_INVALID`
 */
export function makeWaves(
  file: string,
  specs: readonly WaveSpec[],
  nodes: readonly string[],
): readonly Wave[] | Problem {
  const listed = specs.flatMap((spec) => (spec.nodes === 'rest' ? [] : spec.nodes));
  const rest = nodes.filter((node) => !listed.includes(node));
  const waves = specs.map((spec) => ({
    name: spec.name,
    nodes: (spec.nodes === 'rest' ? rest : spec.nodes).toSorted(compareText),
  }));
  if (specs.filter((spec) => spec.nodes === 'rest').length > 1) return invalid(file, 'two waves have `nodes: rest`');
  const wrong = firstDuplicate(waves) ?? wavesMismatch(waves, nodes);
  return wrong === undefined ? waves : invalid(file, wrong);
}

/** Compares the nodes of the waves with these; returns the first difference in words. */
export function wavesMismatch(waves: readonly Wave[], nodes: readonly string[]): string | undefined {
  const known = new Set(nodes);
  const named = new Set(waves.flatMap((wave) => wave.nodes));
  const empty = waves.find((wave) => wave.nodes.length === 0);
  if (empty) return `wave ${empty.name} has no node`;
  const strange = [...named].find((node) => !known.has(node));
  if (strange !== undefined) return `the release has no node ${strange}`;
  const missing = nodes.find((node) => !named.has(node));
  return missing === undefined ? undefined : `node ${missing} is in no wave`;
}

function firstDuplicate(waves: readonly Wave[]): string | undefined {
  const seen = new Map<string, string>();
  for (const { name, nodes } of waves) {
    if (waves.filter((wave) => wave.name === name).length > 1) return `two waves are called ${name}`;
    for (const node of nodes) {
      if (seen.has(node)) return `node ${node} is in wave ${seen.get(node)} and ${name}, or twice in one`;
      seen.set(node, name);
    }
  }
  return undefined;
}

/** Prints `waves.yaml`: waves in their order, nodes sorted. */
export function printWaves(waves: readonly Wave[]): string {
  const lines = waves.map(({ name, nodes }) => {
    const quoted = nodes.toSorted(compareText).map((node) => JSON.stringify(node));
    return `  - name: ${JSON.stringify(name)}\n    nodes:\n${quoted.map((node) => `      - ${node}\n`).join('')}`;
  });
  return `apiVersion: sluice.dev/v1alpha1\nkind: Waves\nwaves:\n${lines.join('')}`;
}

/**
 * Reads `waves-open.yaml`. Where signatures are required, call it only after its signature is verified.
 * @returns the number of open waves and their release, or `WAVES_INVALID`
 */
export function readOpening(text: string): WavesOpening | Problem {
  const read = readDocument<WavesOpening>(openingFile, text, 'WavesOpen', openingChecks);
  const hint = '`sluice promote` writes it; change only the number after `open:`';
  return isProblem(read) ? { ...read, code: 'WAVES_INVALID', hint } : read;
}

/** Prints `waves-open.yaml`. Opening a wave changes only its last line. */
export function printOpening({ release, open }: WavesOpening): string {
  return `apiVersion: sluice.dev/v1alpha1\nkind: WavesOpen\nrelease: "${release}"\nopen: ${open}\n`;
}

const waveHint = 'A wave is `- { name: canary, nodes: [node-a] }`; the last one may have `nodes: rest`';

function invalid(file: string, why: string): Problem {
  return {
    code: 'WAVES_INVALID',
    level: 'error',
    at: { file, line: 1, column: 1 },
    message: `Cannot use the waves: ${why}`,
    hint: waveHint,
  };
}
