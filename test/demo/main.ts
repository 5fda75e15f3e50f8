/** `./dev demo`: exit code 0 when everything happened that should, 1 when something did not. */
import { runDemo } from './demo.ts';

const started = performance.now();
try {
  await runDemo({ say: (line) => process.stdout.write(`${line}\n`), short: process.argv.includes('--short') });
  process.stdout.write(`(${((performance.now() - started) / 1000).toFixed(0)} s)\n`);
} catch (error) {
  process.stderr.write(`\nThe demo failed: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
