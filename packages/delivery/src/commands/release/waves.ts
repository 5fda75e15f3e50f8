import { readFileSync } from 'node:fs';
import {
  type BundleFiles,
  isProblem,
  type MadeWave,
  makeWaves,
  nodeFile,
  printWaves,
  readNode,
  readWaves,
  readWaveSpecs,
  type Release,
  wavesFile,
  wavesMismatch,
  type WaveSpec,
} from '@sluice/bundle';
import { compareText, type Problem, terminalText } from '@sluice/netfilter';
import { reading, Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { readText } from '@sluice/renderer/load/tree.ts';
import { nodesText } from '../../emit/fleet/words.ts';
import { labelsOf } from '../input/node-labels.ts';

/** The waves of a release. */
export interface ReleaseWaves {
  /** `waves.yaml`. */
  readonly text: string;
  readonly waves: readonly ReleaseWave[];
}

/** A wave as reviewers see it. */
interface ReleaseWave extends MadeWave {
  /** Zone → its number of nodes in the wave, sorted; `-` for nodes without a zone. */
  readonly zones: Readonly<Record<string, number>>;
}

interface WaveOptions {
  readonly output: string;
  /** A file with the waves. */
  readonly wave?: string;
  /** A file with the Nodes, for waves by label. */
  readonly nodes?: string;
}

/**
 * Where the waves of a release come from, read before it is made.
 * @param files of the bundle
 * @param updated the release in the output directory that an endpoint update is for: it keeps the waves
 * @returns the waves for a release; undefined when it has none
 * @throws Stopped when the waves cannot be read
 */
export function readWavesFor(
  { output, wave: file, nodes }: WaveOptions,
  files: BundleFiles,
  updated: Release | undefined,
): ((release: Release) => ReleaseWaves) | undefined {
  const zoneOf = zonesOf(files);
  const seen = (waves: readonly MadeWave[]): readonly ReleaseWave[] =>
    waves.map((wave) => ({ ...wave, zones: countZones(wave.nodes.map((node) => zoneOf(node) ?? '-')) }));
  if (file !== undefined) {
    const specs = specsOf(file);
    const labels = nodes === undefined ? undefined : labelsOf(nodes);
    return (release) => {
      const waves = made({ file, specs, nodes, labels }, release, zoneOf);
      return { text: printWaves(waves), waves: seen(waves) };
    };
  }
  const kept = updated && wavesToCarryOver(output, updated);
  return kept && ((release) => ({ text: kept.text, waves: seen(fitting(kept.waves, release)) }));
}

/** Node → its zone, read once. */
function zonesOf(files: BundleFiles): (node: string) => string | undefined {
  const known = new Map<string, string | undefined>();
  return (node) => {
    if (!known.has(node)) {
      const read = readNode(nodeFile(node), files.get(nodeFile(node)) ?? '');
      known.set(node, isProblem(read) ? undefined : read.zone);
    }
    return known.get(node);
  };
}

function countZones(zones: readonly string[]): Readonly<Record<string, number>> {
  const groups = Map.groupBy(zones, (zone) => zone);
  return Object.fromEntries(
    [...groups].map(([zone, { length }]) => [zone, length] as const).toSorted(([a], [b]) => compareText(a, b)),
  );
}

/** Prints the waves for review, a line for each: its place, its nodes by zone, and what chose them. */
export function wavesText({ waves }: ReleaseWaves): string {
  const width = Math.max(0, ...waves.map(({ name }) => name.length));
  const lines = waves.map(({ name, nodes, zones, chosenBy }, at) => {
    const counts = Object.entries(zones).map(
      ([zone, count]) => `${zone === '-' ? 'no zone' : `zone ${zone}`}: ${count}`,
    );
    return `wave ${at + 1}  ${name.padEnd(width)}  ${nodesText(nodes.length)} (${counts.join(', ')})  ${chosenBy}`;
  });
  return lines.map((line) => `${terminalText(line)}\n`).join('');
}

function specsOf(file: string): readonly WaveSpec[] {
  const specs = readWaveSpecs(
    file,
    reading(file, () => readFileSync(file, 'utf8')),
  );
  if (isProblem(specs)) throw new Stopped(specs);
  return specs;
}

interface WaveInput {
  readonly file: string;
  readonly specs: readonly WaveSpec[];
  /** The file with the Nodes. */
  readonly nodes: string | undefined;
  readonly labels: ReadonlyMap<string, ReadonlyMap<string, string>> | undefined;
}

function made(
  { file, specs, nodes, labels }: WaveInput,
  release: Release,
  zoneOf: (node: string) => string | undefined,
): readonly MadeWave[] {
  const names = Object.keys(release.nodes).toSorted(compareText);
  const [asking, strange] = [specs.find(({ label }) => label), names.find((name) => labels?.has(name) === false)];
  if (asking && !labels) throw new Stopped(unlabelled(file, `wave ${asking.name} chooses by label, without --nodes`));
  if (asking && strange !== undefined) throw new Stopped(unlabelled(file, `${nodes} has no Node ${strange}`));
  const all = names.map((name) => ({ name, zone: zoneOf(name), labels: labels?.get(name) ?? new Map() }));
  const waves = makeWaves(file, specs, release.cluster, all);
  if (isProblem(waves)) throw new Stopped(waves);
  return waves;
}

function unlabelled(file: string, why: string): Problem {
  return {
    code: 'WAVES_INVALID',
    level: 'error',
    message: `Cannot choose the nodes of waves by ${file}: ${why}`,
    hint: 'A bundle has no labels: pass --nodes with the output of `kubectl get nodes -o json`',
  };
}

/**
 * Reads the waves of the release to update. Without them, an update signed by a release key would go to all nodes at once.
 * @returns undefined when the release has no waves
 * @throws Stopped when the waves cannot be read
 */
function wavesToCarryOver(
  output: string,
  { requires }: Release,
): { readonly text: string; readonly waves: readonly MadeWave[] } | undefined {
  if (!requires.includes('waves')) return undefined;
  const text = reading(output, () => readText(output, wavesFile));
  if (text === undefined) throw new Stopped(wavesNotCarried('waves.yaml is missing'));
  const waves = readWaves(text);
  if (isProblem(waves)) throw new Stopped(waves);
  return { text, waves: waves.map((wave) => ({ ...wave, chosenBy: 'as in the updated release' })) };
}

/** @throws Stopped when the nodes of the waves are not the nodes of the update */
function fitting(waves: readonly MadeWave[], { nodes }: Release): readonly MadeWave[] {
  const wrong = wavesMismatch(waves, Object.keys(nodes));
  if (wrong !== undefined) throw new Stopped(wavesNotCarried(wrong));
  return waves;
}

function wavesNotCarried(why: string): Problem {
  return {
    code: 'WAVES_INVALID',
    level: 'error',
    message: `Cannot take over the waves of the updated release: ${why}`,
    hint: 'Make a release instead, with `--serial auto --wave FILE`: an endpoint update uses the waves of its release',
  };
}
