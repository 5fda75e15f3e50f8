import { readFileSync } from 'node:fs';
import { TestRunner, type RunnerTestCase } from 'vitest';

declare module 'vitest' {
  interface TaskMeta {
    /** The duration and processor time of a test's body, without its hooks, in milliseconds. */
    profile?: { readonly tookMs: number; readonly cpuMs: number };
  }
}

/** The runner of `./dev test --profile`: records duration and processor time of each test's body. */
export default class ProfileRunner extends TestRunner {
  async runTask(test: RunnerTestCase): Promise<void> {
    const [startMs, startCpuMs] = [performance.now(), cpuMs()];
    try {
      await TestRunner.getTestFn(test)();
    } finally {
      test.meta.profile = { tookMs: performance.now() - startMs, cpuMs: cpuMs() - startCpuMs };
    }
  }
}

/** Clock ticks of Linux are hundredths of a second on every architecture (proc(5), sysconf(3) _SC_CLK_TCK). */
const tickMs = 10;

/** Processor time of this process and of its children that have ended, in milliseconds: fields 14 to 17 of /proc/self/stat, proc(5). */
function cpuMs(): number {
  const stat = readFileSync('/proc/self/stat', 'utf8');
  // The second field is the program's name in brackets, which may contain blanks.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) * tickMs;
}
