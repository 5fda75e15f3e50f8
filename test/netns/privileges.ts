import { execaSync } from 'execa';
import type { TestContext } from 'vitest';

/** `beforeEach(needKernel)`: skips the tests of a file where this machine allows no namespaces; the summary says why. */
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

/** Skips a test where the kernel or the machine lacks one of the two variants of iptables; newer kernels are built without legacy tables. */
export function needBackend(context: TestContext, backend: 'nft' | 'legacy'): void {
  const reason = (lacks[backend] ??= whyNoBackend(backend));
  if (reason !== '') context.skip(reason);
}

const lacks: Partial<Record<'nft' | 'legacy', string>> = {};

function whyNoBackend(backend: 'nft' | 'legacy'): string {
  const list = `mount -t tmpfs tmpfs /run && iptables-${backend} -t nat -S && ip6tables-${backend} -t nat -S`;
  const { failed, stderr } = execaSync('unshare', ['--net', '--mount', 'sh', '-c', list], { reject: false });
  return failed ? `iptables-${backend} does not work here: ${stderr.trim()}` : '';
}

/** Skips tests that inject errors into system calls where strace cannot. */
export function needStrace(context: TestContext): void {
  const { failed, shortMessage } = execaSync('strace', ['-qq', '-o', '/dev/null', 'true'], { reject: false });
  if (failed) context.skip(`needs strace, and the right to trace: ${shortMessage ?? ''}`);
}
