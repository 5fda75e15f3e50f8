import { failed } from '../failure.ts';
import { familiesServed, servicesAt } from '../../apply/counts/frontends.ts';
import { TrafficReader, type TrafficReading, TrafficSums } from '../../apply/counts/traffic.ts';
import { limits } from '../../limits.ts';
import type { NodeState } from '../../ports/node-state.ts';
import type { Run } from '../command.ts';

/**
 * Reads the tracked connections of a state's Services, in modes iptables and nftables. The kernel hands its table out in small pieces, so
 * that no packet waits for it; a million connections take some seconds of a processor.
 * @throws KernelError when conntrack fails
 */
export async function readTrackedTraffic(conntrack: string, state: NodeState, run: Run): Promise<TrafficReading> {
  const sums = new TrafficSums();
  for (const family of familiesServed(state)) {
    const reader = new TrafficReader(servicesAt(state, family), sums);
    const args = ['-L', '-f', family];
    const timeoutMs = limits.trackedReadMsMax;
    const ran = await run({ file: conntrack, args, timeoutMs, onOutput: (part) => reader.take(part) });
    if (ran.exitCode !== 0) throw failed(`${conntrack} ${args.join(' ')}`, ran);
    reader.take('\n');
  }
  return sums.reading;
}
