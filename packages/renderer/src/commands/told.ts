import { addAll, type Problem } from '@sluice/bundle';
import { document, errorDocument, type Format } from '@sluice/cli';
import { printProblems } from '../emit/problems.ts';
import { hasPrinted, print, say } from './progress.ts';

// With format json a command prints one document: its result, or, where it has none, its error. Both hold every problem that was told.

const told: Problem[] = [];

/**
 * Prints problems for people, and remembers them for the document.
 * @param verbose `printProblems`
 */
export function tellProblems(problems: readonly Problem[], verbose?: boolean): void {
  addAll(told, problems);
  say(printProblems(problems, verbose));
}

/** Prints the result of a command that was asked for json; to standard error where standard output holds what it wrote. */
export function printDocument(format: Format, kind: string, fields: object, isTaken = false): void {
  if (format === 'json') (isTaken ? say : print)(document(kind, { ...fields, problems: told }));
}

/** Ends a command that was asked for json and failed: with the document of its error, unless it has printed one. */
export function printError(problems: readonly Problem[] = told): void {
  if (!hasPrinted()) print(errorDocument(problems));
}
