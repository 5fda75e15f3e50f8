import { addAll, type Problem } from '@sluice/netfilter';
import { document, errorDocument, type Format } from '@sluice/cli';
import { printProblems } from '../../emit/problems.ts';
import { hasPrinted, print, say } from './progress.ts';

// With format json a command prints one document: its result or its error. Both contain all problems that were printed.

const reported: Problem[] = [];

/**
 * Prints problems as text, and keeps them for the JSON document.
 * @param verbose `printProblems`
 */
export function reportProblems(problems: readonly Problem[], verbose?: boolean): void {
  addAll(reported, problems);
  say(printProblems(problems, verbose));
}

/** Prints the JSON result of a command; to standard error when `isTaken`, because standard output has the artifact. */
export function printDocument(format: Format, kind: string, fields: object, isTaken = false): void {
  if (format === 'json') (isTaken ? say : print)(document(kind, { ...fields, problems: reported }));
}

/** Prints the JSON error of a failed command, unless it has already printed a document. */
export function printError(problems: readonly Problem[] = reported): void {
  if (!hasPrinted()) print(errorDocument(problems));
}
