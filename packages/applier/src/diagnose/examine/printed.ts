import type { Command, Run } from '../../kernel/command.ts';
import { findTool } from '../../kernel/tools.ts';
import { bounds } from './bounds.ts';

/** What a tool prints, within bounds unless `onOutput` takes it. @throws Error when it is not installed, or fails */
export async function printedBy(
  tool: string,
  args: readonly string[],
  run: Run,
  more: Partial<Command> = {},
): Promise<string> {
  const file = findTool(tool);
  if (file === undefined) throw new Error(`${tool} is not installed`);
  const ran = await run({ file, args, timeoutMs: bounds.toolMs, outputBytesMax: bounds.toolBytes, ...more });
  if (ran.exitCode !== 0) throw new Error(ran.why);
  return ran.stdout;
}
