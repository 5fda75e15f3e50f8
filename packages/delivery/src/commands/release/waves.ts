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
} from '@sluice/bundle';
import { columns } from '@sluice/cli';
import { compareText, type Problem, refusal, terminalText } from '@sluice/netfilter';
import { orStop, reading, Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { readText } from '@sluice/renderer/load/tree.ts';
import { nodesText } from '../../emit/fleet/words.ts';
import { labelsOf } from '../input/node-labels.ts';

/** The waves of a release. */
export interface ReleaseWaves {
  /** `waves.yaml`. */
  readonly text: string;
  /** Each with zone → its number of nodes in the wave, sorted; `-` for nodes without a zone. */
  readonly waves: readonly (MadeWave & { readonly zones: Readonly<Record<string, number>> })[];
}

interface WaveOptions {
  readonly output: string;
  /** A file with the waves. */
  readonly wave?: string;
  /** A file with the Nodes, for waves by label. */
  readonly nodes?: string;
}

type ZoneOf = (node: string) => string | undefined;
/** Makes the waves of a release, with the text of its file. */
type Make = (release: Release, zoneOf: ZoneOf) => { readonly text: string; readonly waves: readonly MadeWave[] };

/**
 * Where the waves of a release come from, read before it is made.
 * @param files of the bundle
 * @param updated the release in the output directory that an endpoint update is for: it keeps the waves
 * @returns the waves for a release; undefined when it has none
 * @throws Stopped when the waves cannot be read
 */
export function readWavesFor(
  { output, wave, nodes }: WaveOptions,
  files: BundleFiles,
  updated: Release | undefined,
): ((release: Release) => ReleaseWaves) | undefined {
  const make = wave === undefined ? updated && wavesToCarryOver(output, updated) : wavesBy(wave, nodes);
  // Of the same bundle every candidate has the same nodes.
  let known: ReleaseWaves | undefined;
  return make && ((release) => (known ??= withZones(make, files, release)));
}

function withZones(make: Make, files: BundleFiles, release: Release): ReleaseWaves {
  const zones = new Map(
    Object.keys(release.nodes).map((node) => {
      const read = readNode(nodeFile(node), files.get(nodeFile(node)) ?? '');
      return [node, isProblem(read) ? undefined : read.zone];
    }),
  );
  const { text, waves } = make(release, (node) => zones.get(node));
  const count = (nodes: readonly string[]): Readonly<Record<string, number>> => {
    const groups = Map.groupBy(nodes, (node) => zones.get(node) ?? '-');
    const counts = [...groups].map(([zone, { length }]) => [zone, length] as const);
    return Object.fromEntries(counts.toSorted(([a], [b]) => compareText(a, b)));
  };
  return { text, waves: waves.map((wave) => ({ ...wave, zones: count(wave.nodes) })) };
}

/** Prints the waves for review, a line for each: its place, its nodes by zone, and what chose them. */
export function wavesText({ waves }: ReleaseWaves): string {
  const rows = waves.map(({ name, nodes, zones, chosenBy }, at) => {
    const counts = Object.entries(zones).map(
      ([zone, count]) => `${zone === '-' ? 'no zone' : `zone ${zone}`}: ${count}`,
    );
    return [`wave ${at + 1}`, name, `${nodesText(nodes.length)} (${counts.join(', ')})  ${chosenBy}`].map(terminalText);
  });
  return columns(rows);
}

/** @param nodes a file with the Nodes */
function wavesBy(file: string, nodes: string | undefined): Make {
  const text = reading(file, () => readFileSync(file, 'utf8'));
  const specs = orStop(readWaveSpecs(file, text));
  const labels = nodes === undefined ? undefined : labelsOf(nodes);
  const asking = specs.find(({ label }) => label);
  if (asking && !labels) throw new Stopped(unlabelled(file, `wave ${asking.name} chooses by label, without --nodes`));
  return (release, zoneOf) => {
    const all = Object.keys(release.nodes).map((name) => {
      const own = labels?.get(name);
      if (asking && !own) throw new Stopped(unlabelled(file, `${nodes} has no Node ${name}`));
      return { name, zone: zoneOf(name), labels: own ?? new Map<string, string>() };
    });
    const waves = orStop(makeWaves(file, specs, release.cluster, all));
    return { text: printWaves(waves), waves };
  };
}

const unlabelled = (file: string, why: string): Problem =>
  refusal(
    'WAVES_INVALID',
    `Cannot choose the nodes of waves by ${file}: ${why}`,
    'A bundle has no labels: pass --nodes with the output of `kubectl get nodes -o json`',
  );

/**
 * Reads the waves of the release to update. Without them, an update signed by a release key would go to all nodes at once.
 * @returns undefined when the release has no waves
 * @throws Stopped when the waves cannot be read; and then, when their nodes are not those of the update
 */
function wavesToCarryOver(output: string, { requires }: Release): Make | undefined {
  if (!requires.includes('waves')) return undefined;
  const text = reading(output, () => readText(output, wavesFile));
  if (text === undefined) throw new Stopped(wavesNotCarried('waves.yaml is missing'));
  const waves = orStop(readWaves(text)).map((wave) => ({ ...wave, chosenBy: 'as in the updated release' }));
  return ({ nodes }) => {
    const wrong = wavesMismatch(waves, Object.keys(nodes));
    if (wrong !== undefined) throw new Stopped(wavesNotCarried(wrong));
    return { text, waves };
  };
}

const wavesNotCarried = (why: string): Problem =>
  refusal(
    'WAVES_INVALID',
    `Cannot take over the waves of the updated release: ${why}`,
    'Make a release instead, with `--serial auto --wave FILE`: an endpoint update uses the waves of its release',
  );
