import { fstatSync } from 'node:fs';
import { isJournal, type Paint, printable, withPriorities } from '@sluice/cli';

// The current stage is shown on one line of a terminal, which every other text clears first. It is printed before each stage: the
// stages are synchronous, so no timer could print it later.

let isShown = false;

/** Shows the current stage on one line, until something else is printed. Does nothing without a terminal. */
export function progress(what: string): void {
  if (!process.stderr.isTTY) return;
  clearProgress();
  process.stderr.write(`${what} …`);
  isShown = true;
}

/** Clears the line of the progress. */
export function clearProgress(): void {
  if (isShown) process.stderr.write('\r\u001B[K');
  isShown = false;
}

let paint: Readonly<Record<'out' | 'err', Paint>> = { out: (text) => text, err: (text) => text };

/** Sets the colours of both standard streams: none before. */
export function setColours(colours: typeof paint): void {
  paint = colours;
}

const isInJournal = isJournal(process.env['JOURNAL_STREAM'], () => fstatSync(process.stderr.fd));

/** Prints problems, summaries and hints to standard error. */
export function say(text: string): void {
  clearProgress();
  if (text !== '') process.stderr.write(isInJournal ? printable(withPriorities(text)) : paint.err(printable(text)));
}

let isPrinted = false;

/** Whether anything was printed by `print`. */
export const hasPrinted = (): boolean => isPrinted;

/** Prints the result of the command to standard output. */
export function print(text: string): void {
  clearProgress();
  isPrinted ||= text !== '';
  if (text !== '') process.stdout.write(paint.out(printable(text)));
}
