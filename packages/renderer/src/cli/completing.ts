import type { Command } from 'commander';
import { complete } from './complete.ts';
import { completionScripts, filesMark, type Shell } from './completion.ts';
import { exitCodes } from '../exit.ts';
import { bundleNames } from '../load/names.ts';
import { print } from '../commands/progress.ts';

/** `sluice completion`: the script that a shell reads. */
export function completionCommand(shell: Shell): number {
  print(completionScripts[shell]);
  return exitCodes.done;
}

/** `sluice complete`: what the last word may become, one candidate a line, for the scripts of `sluice completion`. */
export function completeCommand(program: Command, words: readonly string[]): number {
  const found = complete(program, words, bundleNames);
  const lines = found.words.map(({ value, description }) => (description === '' ? value : `${value}\t${description}`));
  print([...lines, ...(found.files ? [filesMark] : [])].map((line) => `${line}\n`).join(''));
  return exitCodes.done;
}
