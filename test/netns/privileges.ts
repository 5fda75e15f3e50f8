import { execaSync } from 'execa';
import type { TestContext } from 'vitest';

/** `beforeEach(needKernel)`: skips the tests of a file where this machine gives us no namespaces; the summary says why. */
export function needKernel(context: TestContext): void {
  const reason = (answer ??= whyNot());
  if (reason !== '') context.skip(reason);
}

let answer: string | undefined;

function whyNot(): string {
  if (process.getuid?.() !== 0) return 'needs root: sudo ./dev test';
  const { failed, stderr } = execaSync('unshare', ['--net', '--mount', '--pid', '--fork', 'true'], { reject: false });
  return failed ? `needs the right to create namespaces: ${stderr.trim()}` : '';
}
