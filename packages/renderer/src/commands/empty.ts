import type { Problem } from '@sluice/bundle';
import type { ReadSources } from '../load/sources.ts';

/**
 * Adds a problem when a layer, or what came through a pipe, holds no document at all: a kustomize that failed must not render
 * a bundle that takes every Service away.
 */
export function emptyInput(read: ReadSources, option: '-f' | '--base', recursive: boolean): ReadSources {
  if (read.problems.length > 0) return read;
  const blank = read.sources.filter(({ text }) => isBlank(text));
  const stdin = blank.find(({ file }) => file === 'stdin');
  if (stdin !== undefined) return { ...read, problems: [nothingIn('standard input', pipeHint)] };
  if (blank.length < read.sources.length) return read;
  const hint = recursive || option === '--base' || read.sources.length > 0 ? listHint : recursiveHint;
  return { ...read, problems: [nothingIn(`what ${option} names`, hint)] };
}

/** True for a text of blank lines, comments and document markers. Stops at the first line that says something. */
function isBlank(text: string): boolean {
  return !/^(?!---[ \t\r]*$|\.\.\.[ \t\r]*$)[ \t]*[^#\s]/m.test(text.replace(/^\uFEFF/, ''));
}

const listHint = 'To render a cluster without Services, give an empty List: {apiVersion: v1, kind: List, items: []}';
const pipeHint = `Look whether the command before the pipe failed. ${listHint}`;
const recursiveHint = `Of a directory, only the .yaml, .yml and .json files are read; -R reads the directories below it too`;

function nothingIn(where: string, hint: string): Problem {
  return {
    code: 'INPUT_EMPTY',
    level: 'error',
    message: `Cannot find an object in ${where}: there is no document in it`,
    hint,
  };
}
