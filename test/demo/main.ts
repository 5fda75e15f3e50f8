/** `./dev demo`: exit code 0 when everything happened that should, 1 when something did not. */
import { runDemo } from './demo.ts';

const interrupted = new AbortController();
// Not `once`: execa ends the process at once when it finds itself alone with a signal.
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
