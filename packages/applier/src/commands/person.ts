import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import * as v from 'valibot';
import { readIfThere, writeDurably, writing } from '../store/files.ts';
import { peek } from '../journal/peek.ts';
import { exitCodes } from '../rollout/outcome.ts';
import type { Decision, Person } from '../rollout/ports.ts';
import { type CommonOptions, CommandError, loadConfig, type Terminal } from './terminal.ts';

/**
 * What an operator says is a file in the state directory, which only root writes: it needs no port, and says which version it means. It is
 * there before anything is said, in its full size, and is written in place: to cancel a release takes no room on the disk.
 */
const word = v.strictObject({
  version: v.string(),
  decision: v.variant('kind', [
    v.strictObject({ kind: v.literal('confirm') }),
    v.strictObject({ kind: v.literal('cancel') }),
    v.strictObject({
      kind: v.literal('extend'),
      seconds: v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(86_400)),
    }),
  ]),
});

const pathOf = (state: string): string => `${state}/decision.json`;

/**
 * Hears what a person at this machine says about the trial in progress.
 * @param trial the version on trial; what was said about another one is dropped
 */
export function wordsOf(state: string, trial: () => string | undefined): Person {
  return {
    async ask(): Promise<Decision | undefined> {
      const text = readIfThere(pathOf(state))?.trim() ?? '';
      if (text === '') return undefined;
      blank(state);
      return readWord(text, trial());
    },
    forget: () => blank(state),
  };
}

/** More than any decision takes. */
const sizeBytes = 512;

/** Nothing is said. Where the file cannot be made there is no room: then a decision is heard as soon as there is some. */
function blank(state: string): void {
  try {
    // Every change begins with it, so it must cost no write where nothing was said.
    const text = readIfThere(pathOf(state));
    if (text?.length !== sizeBytes || text.trim() !== '') write(state, '');
  } catch {
    // Of a word that is heard again only the first counts: it names the version.
  }
}

/** @throws StateError when the file is not there and the disk has no room for it, or takes no write at all */
function write(state: string, text: string): void {
  const path = pathOf(state);
  const body = `${text.padEnd(sizeBytes - 1)}\n`;
  if (readIfThere(path)?.length !== sizeBytes) return writeDurably(path, body);
  writing(path, () => {
    const fd = openSync(path, 'r+');
    try {
      writeSync(fd, body);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
  });
}

/** The decision in a file; undefined where it is not about this version, or is no decision. */
export function readWord(text: string, version: string | undefined): Decision | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const parsed = v.safeParse(word, value);
  return parsed.success && parsed.output.version === version ? parsed.output.decision : undefined;
}

/** `sluiced confirm`, `sluiced cancel`, `sluiced extend`: tells the process that has a release on trial. */
export async function say(decision: Decision, options: CommonOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  const open = peek(config.state)?.open;
  if (!open || open.phase !== 'open' || open.lane !== 'release') {
    throw new CommandError([
      {
        code: 'NODE_STATE_INVALID',
        level: 'error',
        message: `Cannot ${decision.kind} a release on node ${config.node}: none is on trial`,
        hint: '`sluiced status` says what stands and what is open',
      },
    ]);
  }
  write(config.state, JSON.stringify({ version: open.version, decision }));
  terminal.out(`told: ${decision.kind} version ${open.version}\n`);
  return exitCodes.done;
}
