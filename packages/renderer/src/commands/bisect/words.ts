import { Command, CommanderError } from 'commander';
import type { Problem } from '@sluice/netfilter';
import { withPacket } from '../options/trace.ts';
import type { PacketOptions } from '../question/question.ts';
import { Stopped } from '../failure/failure.ts';

/** `trace [DIR] --node …` as words. */
export interface TraceWords {
  readonly dir: string;
  readonly options: PacketOptions;
}

/** Parses the words after `--`. @throws Stopped with `USAGE_INVALID` */
export function readTraceWords(words: readonly string[]): TraceWords {
  const [verb, ...rest] = words;
  if (verb !== 'trace')
    throw new Stopped(badWords(`${JSON.stringify(verb)} is not a command that it knows: it takes trace`));
  const trace = withPacket(new Command('trace').argument('[DIR]', '', 'rendered').exitOverride().helpOption(false));
  trace.configureOutput({ writeErr: () => undefined });
  try {
    trace.parse(rest, { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) throw new Stopped(badWords(error.message.replace(/^error: /, '')));
    throw error;
  }
  return { dir: (trace.processedArgs as readonly string[])[0]!, options: trace.opts<PacketOptions>() };
}

const badWords = (why: string): Problem => ({
  code: 'USAGE_INVALID',
  level: 'error',
  message: `Cannot use the command after --: ${why}`,
  hint: 'Put options of bisect, such as -o, before the --, and write it like: sluice bisect --from v1.4 -- trace --node node-a --from 10.244.1.7 --to shop/web:80',
});
