import { type Family, type Problem } from '@sluice/netfilter';
import { hexOf, oneOf } from '../checks.ts';
import { readJson } from '../documents.ts';
import { observedDigest } from './digest.ts';
import {
  type NftTable,
  type Observation,
  observationChecks,
  observationFormat,
  observationLimits,
  type SavedRules,
} from './observation.ts';

const checks = { format: oneOf(observationFormat), digest: hexOf(64), ...observationChecks };

/**
 * Reads the file that `printObservation` writes; unknown keys, other formats and a digest of other content are refused.
 * @param file named in the problem
 * @returns the observation, or `OBSERVATION_INVALID`
 */
export function readObservation(file: string, text: string): Observation | Problem {
  if (text.length > observationLimits.fileBytesMax)
    return observationProblem(`Cannot read ${file}: it is larger than ${observationLimits.fileBytesMax} bytes`);
  const found = readJson(text, 'Observation', checks);
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
