import { type Check, type CheckedMap, checkOf, hexOf, isCount, optional } from '../checks.ts';
import { isProblem, readDocument } from '../documents.ts';
import { compareText, type Problem, refusal } from '@sluice/netfilter';
import { type JsonSchema, matches } from '../json-schema.ts';
import { openingFile, releaseLimits, wavesFile } from '../names.ts';

/** Nodes that apply a release at the same time. */
export interface Wave {
  readonly name: string;
  /** Sorted. */
  readonly nodes: readonly string[];
}

const label = '^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$';
const subdomain = '^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$';

/** The name of a wave: a DNS label. */
export const waveName: JsonSchema = { description: 'The name of the wave.', type: 'string', pattern: label };
/** Names of nodes, at least one. */
export const waveNodes: JsonSchema = {
  type: 'array',
  minItems: 1,
  items: { type: 'string', maxLength: 253, pattern: subdomain },
};
const waveSchema: JsonSchema = {
  type: 'object',
  required: ['name', 'nodes'],
  properties: { name: waveName, nodes: waveNodes },
};
const listSchema: JsonSchema = { type: 'array', minItems: 1, maxItems: releaseLimits.wavesMax, items: waveSchema };

const numberOf = (least: number, most: number): Check<number> =>
  checkOf((value) => isCount(value) && value >= least && value <= most);
const openingChecks = {
  /** The digest of the release's `SHA256SUMS`; without effect on other releases. */
  release: hexOf(64),
  /** How often waves of the release were closed again; left out before the first time. An opening with fewer does not count any more. */
  closings: optional(numberOf(1, releaseLimits.closingsMax)),
  /** The number of open waves, from the first. */
  open: numberOf(0, releaseLimits.wavesMax),
};
/** The progress of a release through its waves. */
export type WavesOpening = CheckedMap<typeof openingChecks>;

/**
 * Reads `waves.yaml` of a release: every wave lists its nodes.
 * @returns the waves in order, or `WAVES_INVALID`
 */
export function readWaves(text: string): readonly Wave[] | Problem {
  const read = readDocument(wavesFile, text, 'Waves', {
    waves: checkOf<readonly Wave[]>((value) => matches(listSchema, value)),
  });
  if (isProblem(read)) return { ...read, code: 'WAVES_INVALID', hint: 'In a release each wave is a list of nodes' };
  const wrong = firstDuplicate(read.waves);
  return wrong === undefined ? read.waves : invalidWaves(wavesFile, wrong);
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

/** The first name or node that is in the waves twice, in words. */
export function firstDuplicate(waves: readonly Wave[]): string | undefined {
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
  const read = readDocument(openingFile, text, 'WavesOpen', openingChecks);
  const hint = '`sluice promote` writes it; change only the number after `open:`';
  return isProblem(read) ? { ...read, code: 'WAVES_INVALID', hint } : read;
}

/** Prints `waves-open.yaml`. Opening a wave changes only its last line. */
export function printOpening({ release, closings, open }: WavesOpening): string {
  const closed = closings === undefined ? '' : `closings: ${closings}\n`;
  return `apiVersion: sluice.dev/v1alpha1\nkind: WavesOpen\nrelease: "${release}"\n${closed}open: ${open}\n`;
}

/** What to write in a file of waves. */
export const waveHint =
  'A wave is `- { name: canary, nodes: [node-a] }`, or has `label`, `zone`, `percent` or `count`; one may have `nodes: rest`';

/** The problem of a file of waves, with why it cannot be used. */
export const invalidWaves = (file: string, why: string): Problem =>
  refusal('WAVES_INVALID', `Cannot use the waves: ${why}`, waveHint, { at: { file, line: 1, column: 1 } });
