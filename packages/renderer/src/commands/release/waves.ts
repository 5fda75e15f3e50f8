import { readFileSync } from 'node:fs';
import {
  isProblem,
  makeWaves,
  printWaves,
  readWaves,
  readWaveSpecs,
  type Release,
  wavesFile,
  wavesMismatch,
  type WaveSpec,
} from '@sluice/bundle';
import { compareText, type Problem } from '@sluice/netfilter';
import { readText } from '../../load/tree.ts';
import { reading, Stopped } from '../failure/failure.ts';

/**
 * Where the waves of a release come from, read before it is made.
 * @param file of `--wave`
 * @param updated the release in the output directory that an endpoint update is for: it keeps the waves
 * @returns the text of waves.yaml for a release; undefined when it has none
 * @throws Stopped when the waves cannot be read
 */
export function readWavesFor(
  output: string,
  file: string | undefined,
  updated: Release | undefined,
): ((release: Release) => string | undefined) | undefined {
  if (file !== undefined) {
    const wishes = wishesOf(file);
    return (release) => wavesText(file, wishes, release);
  }
  const kept = updated && wavesToCarryOver(output, updated);
  return kept === undefined ? undefined : (release) => fitting(kept, release);
}

function wishesOf(file: string): readonly WaveSpec[] {
  const wishes = readWaveSpecs(
    file,
    reading(file, () => readFileSync(file, 'utf8')),
  );
  if (isProblem(wishes)) throw new Stopped(wishes);
  return wishes;
}

function wavesText(file: string, wishes: readonly WaveSpec[], { nodes }: Release): string {
  const waves = makeWaves(file, wishes, Object.keys(nodes).toSorted(compareText));
  if (isProblem(waves)) throw new Stopped(waves);
  return printWaves(waves);
}

/**
 * Reads the waves of the release to update. Without them, an update signed by a release key would go to all nodes at once.
 * @returns undefined when the release has no waves
 * @throws Stopped when the waves cannot be read
 */
function wavesToCarryOver(output: string, { requires }: Release): string | undefined {
  if (!requires.includes('waves')) return undefined;
  const text = reading(output, () => readText(output, wavesFile));
  if (text === undefined) throw new Stopped(wavesNotCarried('waves.yaml is missing'));
  const waves = readWaves(text);
  if (isProblem(waves)) throw new Stopped(waves);
  return text;
}

/** @throws Stopped when the nodes of the waves are not the nodes of the update */
function fitting(text: string | undefined, { nodes }: Release): string | undefined {
  const waves = text === undefined ? [] : readWaves(text);
  if (text === undefined || isProblem(waves)) return undefined;
  const wrong = wavesMismatch(waves, Object.keys(nodes));
  if (wrong !== undefined) throw new Stopped(wavesNotCarried(wrong));
  return text;
}

function wavesNotCarried(why: string): Problem {
  return {
    code: 'WAVES_INVALID',
    level: 'error',
    message: `Cannot take over the waves of the updated release: ${why}`,
    hint: 'Make a release instead, with `--serial auto --wave FILE`: an endpoint update uses the waves of its release',
  };
}
