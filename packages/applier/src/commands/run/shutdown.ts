import { setTimeout as sleep } from 'node:timers/promises';
import type { DaemonLog } from '../../daemon/reports.ts';
import type { Drain } from '../../health/drain.ts';
import type { Run } from '../../kernel/command.ts';
import { findTool } from '../../kernel/tools.ts';
import { messageOf } from '../../message.ts';

/** Whether systemd shuts the machine down: then load balancers must send elsewhere before the node is gone. Else a restart needs no drain. */
async function isShutdown(run: Run): Promise<boolean> {
  const file = findTool('systemctl');
  return file !== undefined && (await run({ file, args: ['is-system-running'] })).stdout.trim() === 'stopping';
}

/**
 * Drains a machine that shuts down, for so long that load balancers know.
 * @param seconds of the config; 0: not at all
 */
export async function drainBeforeShutdown(
  seconds: number,
  drain: Pick<Drain, 'begin'> | undefined,
  run: Run,
  log: Pick<DaemonLog, 'info' | 'warn'>,
): Promise<void> {
  if (seconds === 0 || !drain || !(await isShutdown(run))) return;
  try {
    drain.begin(null, 'shutdown');
  } catch (error) {
    // It is drained nonetheless: only a restart would not know.
    log.warn({ because: messageOf(error) }, 'cannot save that the node is drained');
  }
  log.info({ seconds }, 'the machine shuts down: its ports for load balancers answer 503 before sluiced stops');
  await sleep(seconds * 1000);
}
