import { type Problem, refusal } from '@sluice/netfilter';
import type { ReadSources } from '../../load/sources.ts';

/**
 * Adds a problem when a layer or standard input has no document: a failed kustomize must not render a bundle that removes every
 * Service.
 */
export function emptyInput(read: ReadSources, option: '-f' | '--base', recursive: boolean): ReadSources {
  if (read.problems.length > 0) return read;
  const blank = read.sources.filter(({ text }) => isBlank(text));
  const stdin = blank.find(({ file }) => file === 'stdin');
  if (stdin !== undefined) return { ...read, problems: [nothingIn('standard input', pipeHint)] };
  if (blank.length < read.sources.length) return read;
  const hint = recursive || option === '--base' || read.sources.length > 0 ? listHint : recursiveHint;
  return { ...read, problems: [nothingIn(`the input of ${option}`, hint)] };
}

/** True for a text of blank lines, comments and document markers. Stops at the first other line. */
function isBlank(text: string): boolean {
  return !/^(?!---[ \t\r]*$|\.\.\.[ \t\r]*$)[ \t]*[^#\s]/m.test(text.replace(/^\uFEFF/, ''));
}

const listHint = 'To render a cluster without Services, pass an empty List: {apiVersion: v1, kind: List, items: []}';
const pipeHint = `Check whether the command before the pipe failed. ${listHint}`;
const recursiveHint = `Only .yaml, .yml and .json files of a directory are read; pass -R to read its subdirectories`;

const nothingIn = (where: string, hint: string): Problem =>
  refusal('INPUT_EMPTY', `Cannot find an object in ${where}: it contains no document`, hint);
