import { document, type Format } from '@sluice/cli';
import { compareProblems } from '@sluice/netfilter';
import { ignoredText } from '../../emit/ignored.ts';
import { countProblems, printProblems } from '../../emit/problems.ts';
import { exitCodes } from '../../exit.ts';
import { render } from '../../render/render.ts';
import { type InputOptions, readInput } from '../input/input.ts';
import { print, progress, say } from '../output/progress.ts';
import { isStopped, joinProblems } from '../failure/problems.ts';

/** `sluice validate`: reports the problems of the input without writing. */
export async function validateCommand(
  options: Omit<InputOptions, 'output'> & {
    readonly output: Format;
    /** The former name of `output`. */
    readonly report?: Format;
    readonly verbose?: boolean;
  },
): Promise<number> {
  progress('reading');
  const { output: _format, ...inputs } = options;
  const { input, ignored, problems } = await readInput(inputs);
  progress(`rendering ${input.base.length + input.change.length} objects`);
  const rendered = render(input);
  const found = joinProblems(problems, rendered.problems);
  const format = options.report ?? options.output;
  print(
    format === 'json'
      ? document('ProblemList', { items: found.toSorted(compareProblems) })
      : printProblems(found, options.verbose ?? false),
  );
  const objects = input.base.length + input.change.length;
  say(`${objects} objects read: ${countProblems(found) || 'no problems'}\n${ignoredText(ignored)}`);
  return isStopped(found, options.strict) ? exitCodes.problem : exitCodes.done;
}
