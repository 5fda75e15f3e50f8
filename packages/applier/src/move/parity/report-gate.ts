import {
  certificateMisfit,
  digestWithoutProxy,
  isProblem,
  makeCertificate,
  type Observation,
  observedDigest,
  printObservation,
  readParityReport,
} from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import { messageOf } from '../../message.ts';
import type { ParityGate } from '../../ports/parity.ts';

interface ReportGateDependencies {
  readonly node: string;
  /** Differences that the operator accepts, by id. */
  readonly accepted: readonly string[];
  readonly observe: () => Promise<Observation>;
  /**
   * Compares what was observed with the bundle.
   * @param observed the text of the observation
   * @returns the text of a parity report
   */
  readonly compare: (observed: string) => Promise<string>;
  readonly servesElsewhere: () => Promise<boolean>;
  readonly nowMs: () => number;
}

/**
 * Allows a take-over by a comparison that is made at this moment, on this node, by an operator who is root here: no signature is needed.
 */
export const reportGate = (parts: ReportGateDependencies): ParityGate => ({
  servesElsewhere: parts.servesElsewhere,
  async refuse(version) {
    try {
      const why = await misfit(version, parts);
      return why === undefined ? undefined : { problems: [notEquivalent(why)] };
    } catch (error) {
      return { problems: [notEquivalent(`nothing could be compared: ${messageOf(error)}`)] };
    }
  },
});

/**
 * A comparison takes seconds, in which rules may change: it counts once the node is as it was compared. On a node whose endpoints change
 * all the time each of several states must be equivalent, and kube-proxy's next change is one that Sluice's bundle brings, too. What
 * another program changes is compared, or nothing is taken over.
 */
async function misfit(version: string, parts: ReportGateDependencies): Promise<string | undefined> {
  let compared = await parts.observe();
  for (let n = 1; ; n++) {
    const why = await misfitOf(compared, version, parts);
    if (why !== undefined) return why;
    const after = await parts.observe();
    if (observedDigest(after) === observedDigest(compared)) return undefined;
    if (n === comparisonsMax) return restless(compared, after);
    compared = after;
  }
}

async function misfitOf(
  observation: Observation,
  version: string,
  { node, accepted, compare, nowMs }: ReportGateDependencies,
): Promise<string | undefined> {
  const report = readParityReport(
    'the result of the comparison',
    await compare([...printObservation(observation)].join('')),
  );
  if (isProblem(report)) return report.message;
  const terms = { accepted, by: 'the operator', nowMs: nowMs(), seconds: 60 };
  const judged = makeCertificate(report, terms);
  if (typeof judged === 'string') return judged;
  const { bootId = '' } = observation;
  const facts = { node, bootId, version, observed: observedDigest(observation), nowMs: terms.nowMs };
  const why = certificateMisfit(judged, facts);
  return why === undefined ? undefined : `the comparison does not fit: ${why}`;
}

/** States of a node that changes while it is compared. */
const comparisonsMax = 3;

/** Why a node is not taken over that another program changed during the last comparison; what changed before was compared. */
const restless = (compared: Observation, after: Observation): string | undefined =>
  digestWithoutProxy(after) === digestWithoutProxy(compared)
    ? undefined
    : `rules of another program changed during the last of ${comparisonsMax} comparisons; run the same command again`;

const notEquivalent = (why: string): Problem =>
  refusal(
    'NODE_PARITY_MISSING',
    `Cannot take over the Service rules of this node: ${why}`,
    'Nothing was touched. `sluice parity` shows each difference with a packet; mend it, or accept it by its id: --accept ID',
  );
