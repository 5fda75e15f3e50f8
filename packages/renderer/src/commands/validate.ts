import { countProblems, printProblems, problemsJson } from '../emit/problems.ts';
import { exitCodes } from '../exit.ts';
import { render } from '../render/render.ts';
import { type InputOptions, readInput } from './input.ts';
import { progress } from './progress.ts';
import { isStopped } from './render.ts';

/** `sluice validate`: everything that `render` would say, without a directory. */
export async function validateCommand(options: InputOptions & { readonly report: 'text' | 'json' }): Promise<number> {
  progress('reading');
  const { input, problems } = await readInput(options);
  const rendered = render(input);
  const found = [...problems, ...rendered.problems];
  progress('');
  process.stdout.write(options.report === 'json' ? problemsJson(found) : printProblems(found));
  const objects = input.base.length + input.change.length;
  process.stderr.write(`${objects} objects read: ${countProblems(found) || 'no problems'}\n`);
  return isStopped(found, options.strict) ? exitCodes.problem : exitCodes.done;
}
