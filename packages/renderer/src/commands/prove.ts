import { printProblems } from '../emit/problems.ts';
import { printProof } from '../emit/review/prove.ts';
import { exitCodes } from '../exit.ts';
import { proveBundle } from '../review/prove.ts';
import { bundleAt } from './diff.ts';
import { print, progress, say } from './progress.ts';

/** `sluice prove`: whether the rules do what the Services declare. */
export function proveCommand(dir: string, options: { readonly output: 'text' | 'json' }): number {
  progress(`reading ${dir}`);
  const files = bundleAt(dir);
  progress('following packets');
  const proof = proveBundle(files);
  if (!('counterExamples' in proof)) {
    say(printProblems(proof));
    return exitCodes.problem;
  }
  print(printProof(proof, options.output));
  return proof.counterExamples.length === 0 ? exitCodes.done : exitCodes.different;
}
