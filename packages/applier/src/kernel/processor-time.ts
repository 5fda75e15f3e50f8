import { readFileSync } from 'node:fs';

/** USER_HZ, which /proc counts in; 100 on every architecture that Node runs on (proc(5), `sysconf(_SC_CLK_TCK)`). */
const ticksPerSecond = 100;

/**
 * Processor time in milliseconds that this process has used, with its ended children. The cost of a poll must not depend on waiting: a busy
 * machine would be polled least often.
 */
export function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000 + childrenMs();
}

/** `cutime` and `cstime`, fields 16 and 17 of /proc/self/stat (proc(5)); the name in field 2 may contain anything. */
function childrenMs(): number {
  try {
    const text = readFileSync('/proc/self/stat', 'latin1');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return ((Number(fields[13]) + Number(fields[14])) * 1_000) / ticksPerSecond;
  } catch {
    return 0;
  }
}
