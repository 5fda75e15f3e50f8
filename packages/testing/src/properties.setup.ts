import { relative } from 'node:path';
import fc, { type RunDetails } from 'fast-check';
import { expect } from 'vitest';
import { replay, seed } from './random.ts';
import { runs } from './tier.ts';

/** A set-up file of vitest: every property uses the seed of the run, and a failing one prints the command that replays it. */
fc.configureGlobal({
  ...fc.readConfigureGlobal(),
  ...runs(100),
  seed,
  // fast-check uses it for asynchronous properties, too.
  reporter: report,
});

function report<T>(details: RunDetails<T>): void {
  if (!details.failed) return;
  const file = relative(process.cwd(), expect.getState().testPath ?? '');
  throw new Error(`${fc.defaultReportMessage(details)}\nReplay: ${replay(file)}`, { cause: details.errorInstance });
}
