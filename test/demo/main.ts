/** `./dev demo`: exit code 0 when every step succeeded, 1 when one failed. */
import { runDemo } from './demo.ts';

const interrupted = new AbortController();
// Not `once`: without a listener execa ends the process at the next signal.
for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => interrupted.abort());

const started = performance.now();
try {
  const say = (line: string): boolean => process.stdout.write(`${line}\n`);
  await runDemo({ say, short: process.argv.includes('--short'), signal: interrupted.signal });
  process.stdout.write(`(${((performance.now() - started) / 1000).toFixed(0)} s)\n`);
} catch (error) {
  process.stderr.write(`\nThe demo failed: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
