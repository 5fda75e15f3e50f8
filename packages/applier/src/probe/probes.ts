import type { ProbeConfig } from '../config.ts';
import type { Run } from '../kernel/run.ts';
import { limits } from '../limits.ts';
import type { Clock, ProbePolicy, ProbeResult, Probes } from '../rollout/ports.ts';
import { tryCommand } from './command.ts';
import { tryDns } from './dns.ts';
import { tryHttp } from './http.ts';
import type { Seen } from './seen.ts';
import { tryTcp } from './tcp.ts';

/**
 * The node's health checks. Each try opens a new connection: an old one rides on conntrack and hides that new ones fail.
 * @param probes from the node's config; a bundle brings none
 */
export function configuredProbes(probes: readonly ProbeConfig[], clock: Pick<Clock, 'sleep'>, run: Run): Probes {
  const once = async (probe: ProbeConfig): Promise<ProbeResult> => ({
    name: probe.name,
    ...(await tryOnce(probe, run)),
  });
  return {
    policies: probes.map(policyOf),
    intervalMs: Math.min(...probes.map(({ intervalSeconds }) => intervalSeconds * 1000), limits.probeIntervalMsMax),
    once: () => Promise.all(probes.map(once)),
    patiently: () => Promise.all(probes.map((probe) => judged(probe, () => once(probe), clock))),
  };
}

function policyOf({ name, attempts, failures }: ProbeConfig): ProbePolicy {
  return { name, window: attempts, failures: failures ?? attempts };
}

/** One window of tries, ended as soon as the rest of it cannot change the verdict. */
async function judged(
  probe: ProbeConfig,
  once: () => Promise<ProbeResult>,
  clock: Pick<Clock, 'sleep'>,
): Promise<ProbeResult> {
  const { window, failures } = policyOf(probe);
  let bad = 0;
  let last: ProbeResult | undefined;
  for (let tries = 1; ; tries++) {
    const result = await once();
    if (!result.healthy) {
      bad++;
      last = result;
    }
    if (bad >= failures)
      return last === undefined || window === 1 ? result : { ...last, seen: counted(last.seen, bad, tries) };
    if (window - tries + bad < failures) return { ...result, healthy: true };
    await clock.sleep(probe.intervalSeconds * 1000);
  }
}

function counted(seen: string, bad: number, tries: number): string {
  return `failed ${bad} of ${tries} times, the last: ${seen}`;
}

function tryOnce(probe: ProbeConfig, run: Run): Promise<Seen> {
  const timeoutMs = probe.timeoutSeconds * 1000;
  if ('http' in probe) return tryHttp(probe.http, timeoutMs);
  if ('tcp' in probe) return tryTcp(probe.tcp, timeoutMs);
  if ('dns' in probe) return tryDns(probe, timeoutMs);
  return tryCommand(probe.exec, timeoutMs, run);
}
