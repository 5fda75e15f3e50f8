import { programPath } from '@sluice/testing';
import { execa } from 'execa';
import { expect, vi } from 'vitest';

export { freePort } from './port.fixture.ts';

export const sluicePath = programPath('sluice');

/** Starts the program as a user does. A test that starts it ends it. @param within a command that becomes the program, such as `unshare` */
export function startSluice(args: readonly string[], cwd?: string, within: readonly string[] = []) {
  const [file = '', ...rest] = [...within, sluicePath, ...args];
  // After a signal it finishes a commit and a push, which takes time on a busy machine.
  const patience = { forceKillAfterDelay: 30_000 };
  return execa(file, rest, { ...(cwd !== undefined && { cwd }), reject: false, all: true, ...patience });
}

export type Started = ReturnType<typeof startSluice>;

/** Waits for a condition, and fails after the time-out. */
export async function until(condition: () => boolean | Promise<boolean>, timeout = 20_000): Promise<void> {
  await vi.waitFor(async () => expect(await condition()).toBe(true), { timeout, interval: 10 });
}

/** The output of the program up to now. */
export function outputOf(started: Started): () => string {
  let text = '';
  started.all?.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')));
  return () => text;
}
