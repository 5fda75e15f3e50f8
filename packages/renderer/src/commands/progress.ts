import { fstatSync } from 'node:fs';
import { isJournal, withPriorities } from '@sluice/cli';

// What is being done stands on one line of a terminal, which every other text clears first. It is said before each stage:
// the stages are synchronous, so no timer could say it later.

let isShown = false;

/** Says on one line of a terminal what is being done, until something else is printed. Silent where nobody watches. */
export function progress(what: string): void {
  if (!process.stderr.isTTY) return;
  clearProgress();
  process.stderr.write(`${what} …`);
  isShown = true;
}

/** Leaves a clean line. */
export function clearProgress(): void {
  if (isShown) process.stderr.write('\r\u001B[K');
  isShown = false;
}

const isInJournal = isJournal(process.env['JOURNAL_STREAM'], () => fstatSync(process.stderr.fd));

/** Prints for people: problems, summaries, hints. */
export function say(text: string): void {
  clearProgress();
  if (text !== '') process.stderr.write(isInJournal ? withPriorities(text) : text);
}

let isPrinted = false;

/** Whether anything was printed by `print`. */
export const hasPrinted = (): boolean => isPrinted;

/** Prints what the command was asked for. */
export function print(text: string): void {
  clearProgress();
  isPrinted ||= text !== '';
  if (text !== '') process.stdout.write(text);
}
