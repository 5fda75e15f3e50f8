import { closeSync, constants, openSync, readSync } from 'node:fs';
import { bounds } from './bounds.ts';

/**
 * The rules of store legacy that a traced packet met: the kernel logs them, `TRACE: nat:OUTPUT:rule:1 IN= OUT=lo SRC=… SPT=…`, where a
 * logger is loaded (`nf_log_syslog`); from other network namespaces than the first one only with `nf_log_all_netns`. The bit of the packet
 * that `meta nftrace` sets is the one that legacy tables ask for (`skb->nf_trace` in `ip_tables.c`), so no rule of theirs is needed.
 * @param work sends the packet
 * @param port its source port
 * @returns with the result of the work; without a log there are no lines
 */
export async function withLegacyTrace<T>(
  port: number,
  work: () => Promise<T>,
): Promise<{ readonly result: T; readonly lines: readonly string[] }> {
  const log = openLog();
  if (log === undefined) return { result: await work(), lines: [] };
  try {
    records(log, () => false);
    const result = await work();
    const mine = new RegExp(` SPT=${port} `);
    return { result, lines: records(log, (text) => text.startsWith('TRACE: ') && mine.test(text)) };
  } finally {
    closeSync(log);
  }
}

function openLog(): number | undefined {
  try {
    return openSync('/dev/kmsg', constants.O_RDONLY | constants.O_NONBLOCK);
  } catch {
    return undefined;
  }
}

/** Reads to the end: each read gives one record, `6,339,5140900,-;text`, with further lines of properties. */
function records(log: number, isWanted: (text: string) => boolean): readonly string[] {
  const found: string[] = [];
  const buffer = Buffer.alloc(8192);
  for (let n = 0; n < bounds.logRecords; n++) {
    try {
      const text = buffer.toString('latin1', 0, readSync(log, buffer));
      const message = text.slice(text.indexOf(';') + 1).split('\n')[0] ?? '';
      if (found.length < bounds.traceLines && isWanted(message)) found.push(message);
    } catch (error) {
      // EPIPE: the oldest records were overwritten meanwhile, and the next one follows.
      if ((error as NodeJS.ErrnoException).code !== 'EPIPE') break;
    }
  }
  return found;
}
