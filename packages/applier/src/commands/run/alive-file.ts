import { writeFileSync } from 'node:fs';
import { uptime } from 'node:os';
import { limits } from '../../limits.ts';
import { messageOf } from '../../message.ts';
import type { DaemonLog } from '../../daemon/reports.ts';

/**
 * While the main loop makes progress, writes the seconds since the machine's start to a file every 10 s: a probe of the kubelet compares
 * them with /proc/uptime, without a port that another program could take, and without a process of Node.
 * @param path undefined: nothing is written
 * @param alive checked before each write
 * @returns ends it
 */
export function startAliveFile(
  path: string | undefined,
  alive: () => boolean,
  log: Pick<DaemonLog, 'warn'>,
): () => void {
  if (path === undefined) return () => undefined;
  let failed: string | undefined;
  const write = (): void => {
    if (!alive()) return;
    try {
      writeFileSync(path, `${Math.floor(uptime())}\n`);
      failed = undefined;
    } catch (error) {
      const because = messageOf(error);
      if (because !== failed) log.warn({ because, path }, 'cannot write that sluiced is alive; retrying');
      failed = because;
    }
  };
  write();
  const timer = setInterval(write, limits.aliveMs);
  return () => clearInterval(timer);
}
