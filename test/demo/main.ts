/** `./dev demo`: exit code 0 when every step succeeded, 1 when one failed. `--record` stores the run beside the pictures of the pages. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { picturesFolder } from '../../tools/pictures.ts';
import { runDemo } from './demo.ts';
import { castOf, type Printed, svgOf } from './recording.ts';

const interrupted = new AbortController();
// Not `once`: without a listener execa ends the process at the next signal.
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => interrupted.abort());

const started = performance.now();
try {
  const printed: Printed[] = [{ seconds: 0, text: '# ./dev demo\n' }];
  const say = (line: string): void => {
    process.stdout.write(`${line}\n`);
    printed.push({ seconds: (performance.now() - started) / 1000, text: `${line}\n` });
  };
  const has = (option: string): boolean => process.argv.includes(option);
  await runDemo({ say, short: has('--short'), keep: has('--keep'), signal: interrupted.signal });
  if (has('--record')) {
    const cast = castOf(printed);
    writeFileSync(join(picturesFolder, 'demo.cast'), cast);
    writeFileSync(join(picturesFolder, 'demo.svg'), svgOf(cast));
  }
  process.stdout.write(`(${((performance.now() - started) / 1000).toFixed(0)} s)\n`);
} catch (error) {
  process.stderr.write(`\nThe demo failed: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
