import { decline } from '../endpoints/decline.ts';
import type { Outcome } from '../ports/outcome.ts';
import type { Generation, VersionedState } from '../ports/journal.ts';
import type { Ports } from '../ports/ports.ts';
import type { ProbeResult } from '../ports/probes.ts';
import { type EndpointChange, endpointChanges, printEndpointChanges } from '../endpoints/endpoint-changes.ts';
import { endpointsText } from '../endpoints/endpoints-text.ts';

/** The answers of the probes before any part of a release was in the kernel, early endpoints included. */
export interface Baseline {
  readonly answers: readonly ProbeResult[];
  /** The active generation at that time. */
  readonly generation: Generation;
}

/** The part of the reconciler that an endpoint rollback needs. */
export interface EndpointRollbackParts {
  readonly ports: Ports;
  /** Carries out an endpoint update; undefined: it was refused. */
  readonly update: (target: VersionedState) => Promise<Outcome | undefined>;
}

/**
 * Follows the rollback of a release that failed its probes. The node then serves the old release with the newest endpoints, and these
 * may be what broke the probe: they went in early, before probation. So the probes run again, and if they still fail, the changed
 * Services get their old endpoints. If the probes fail with these, too, the newest ones are kept: they are more likely to exist.
 * @param because why the release was rolled back
 * @returns the outcome `rolled-back` with what became of the endpoints, or `held`
 */
export async function rollBackEndpoints(
  because: string,
  { generation, answers }: Baseline,
  { ports, update }: EndpointRollbackParts,
): Promise<Outcome> {
  const { journal, probes, declined, report } = ports;
  const rolledBack = (endpoints: string): Outcome => ({ kind: 'rolled-back', because: `${because}; ${endpoints}` });
  const active = journal.active;
  const changes = active?.number === generation.number ? endpointChanges(generation.state, active.state) : [];
  if (!active || changes.length === 0) return { kind: 'rolled-back', because };
  const failed = regressed(answers, await probes.untilVerdict());
  if (failed.length === 0) return rolledBack('the newest endpoints stay: with them the probes pass again');
  report('endpoint-rollback', { probes: failed, endpoints: printEndpointChanges(changes) });
  const restored = await update({ version: active.version, state: generation.state });
  if (restored?.kind === 'held') return restored;
  const names = failed.join(', ');
  if (restored?.kind !== 'confirmed')
    return rolledBack(`the newest endpoints fail ${names}, too, and the old ones cannot be restored`);
  const still = regressed(answers, await probes.untilVerdict());
  if (still.length === 0) {
    decline(new Map([...declined.read(), ...changes.map(keyed)]), { declined, report });
    const what = printEndpointChanges(changes.map(reversed));
    return rolledBack(`old endpoints restored, for the newest ones fail ${names}, too: ${what}`);
  }
  const newest = await update({ version: active.version, state: active.state });
  return newest?.kind === 'held'
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
