import { decline, type EndpointChange, endpointChanges, printEndpointChanges } from '../endpoints/endpoint-changes.ts';
import { endpointsText } from '../endpoints/bounds.ts';
import type { Outcome } from '../ports/outcome.ts';
import type { Generation, VersionedState } from '../ports/journal.ts';
import type { ProbeResult } from '../ports/probes.ts';
import type { TransactionResult } from '../transaction/planned-change.ts';
import { VerifiedAnswers } from '../transaction/verified-answers.ts';
import type { Changes } from './changes.ts';
import type { ReconcileParts } from './parts.ts';

/**
 * Ends a release: endpoints that were declined before a confirmed one are offered again, and a rollback for a failed probe may concern its
 * early endpoints, too.
 */
export async function afterRelease(
  { outcome, failed }: TransactionResult,
  baseline: VerifiedAnswers,
  parts: Pick<ReconcileParts, 'changes' | 'keeper' | 'ports'>,
): Promise<Outcome> {
  if (outcome.kind === 'confirmed') decline(new Map(), parts.ports);
  if (outcome.kind !== 'rolled-back' || failed !== 'health') return outcome;
  const { rules } = baseline;
  if (rules.kind === 'generation') return rollBackEndpoints(outcome.because, baseline.before, rules.generation, parts);
  if (rules.kind === 'earlier') return outcome;
  return { ...outcome, because: `${outcome.because}; whether it failed before is not known: ${rules.why}` };
}

/** Puts endpoints in, however many they are. @returns undefined: they were refused */
async function restoreEndpoints(target: VersionedState, changes: Changes): Promise<Outcome | undefined> {
  const change = await changes.decide(target, { changeKind: 'endpoints' });
  return 'problems' in change ? undefined : (await changes.update(change)).outcome;
}

/**
 * Follows the rollback of a release that failed its probes. The node then serves the old release with the newest endpoints, and these
 * may be what broke the probe: they went in early, before probation. So the probes run again, and if they still fail, the changed
 * Services get their old endpoints. If the probes fail with these, too, the newest ones are kept: they are more likely to exist.
 * @param because why the release was rolled back
 * @param answers before any part of it was in the kernel @param generation the rules at that time
 * @returns the outcome `rolled-back` with what became of the endpoints, or `held`
 */
async function rollBackEndpoints(
  because: string,
  answers: readonly ProbeResult[],
  generation: Generation,
  { changes, keeper, ports }: Pick<ReconcileParts, 'changes' | 'keeper' | 'ports'>,
): Promise<Outcome> {
  const { journal, declined, report } = ports;
  const rolledBack = (endpoints: string): Outcome => ({ kind: 'rolled-back', because: `${because}; ${endpoints}` });
  const active = journal.active;
  const differing = active?.number === generation.number ? endpointChanges(generation.state, active.state) : [];
  if (!active || differing.length === 0) return { kind: 'rolled-back', because };
  const now = await VerifiedAnswers.take(keeper, ports);
  if ('problems' in now)
    return rolledBack('the newest endpoints stay: another program changes the rules that they are tried on');
  const failed = regressed(answers, now.answers);
  if (failed.length === 0) return rolledBack('the newest endpoints stay: with them the probes pass again');
  report('endpoint-rollback', { probes: failed, endpoints: printEndpointChanges(differing) });
  const restored = await restoreEndpoints({ ...active, state: generation.state }, changes);
  if (restored?.kind === 'held' || restored?.kind === 'pending') return restored;
  const names = failed.join(', ');
  if (restored?.kind !== 'confirmed')
    return rolledBack(`the newest endpoints fail ${names}, too, and the old ones cannot be restored`);
  const then = await VerifiedAnswers.take(keeper, ports);
  if (!('problems' in then) && regressed(answers, then.answers).length === 0) {
    decline(new Map([...declined.read(), ...differing.map(keyed)]), { declined, report });
    const what = printEndpointChanges(differing.map(reversed));
    return rolledBack(`old endpoints restored, for the newest ones fail ${names}, too: ${what}`);
  }
  const newest = await restoreEndpoints(active, changes);
  return newest?.kind === 'held' || newest?.kind === 'pending'
    ? newest
    : rolledBack(`the newest endpoints stay: ${names} failed with the old ones, too`);
}

/** The probes that passed before and fail now. */
function regressed(before: readonly ProbeResult[], now: readonly ProbeResult[]): readonly string[] {
  const good = new Set(before.filter(({ healthy }) => healthy).map(({ name }) => name));
  return now.filter(({ name, healthy }) => !healthy && good.has(name)).map(({ name }) => name);
}

const reversed = (change: EndpointChange): EndpointChange => ({
  ...change,
  before: change.after,
  after: change.before,
});

const keyed = ({ key, after }: EndpointChange): readonly [string, string] => [key, endpointsText(after)];
