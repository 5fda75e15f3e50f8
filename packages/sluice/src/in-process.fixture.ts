import { CommanderError } from 'commander';
import { vi } from 'vitest';
import { buildProgram } from './program.ts';
import { reportFailure } from '@sluice/renderer/commands/failure/failure.ts';

/** How a command ended, and what it printed. */
export interface Ran {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `sluice` in this process, because starting Node takes most of the time. */
export async function sluice(...args: readonly string[]): Promise<Ran> {
  const output = { stdout: '', stderr: '' };
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => ((output[name] += String(text)), true)),
  );
  const before = process.exitCode;
  try {
    await buildProgram().parseAsync(args, { from: 'user' });
    return { status: Number(process.exitCode), ...output };
  } catch (error) {
    return { status: error instanceof CommanderError ? 2 : reportFailure(error), ...output };
  } finally {
    process.exitCode = before;
    for (const spy of spies) spy.mockRestore();
  }
}
