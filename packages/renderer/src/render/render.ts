import { type Problem, compareProblems } from '@sluice/netfilter';
import type { Allocation } from './allocate/allocation.ts';
import { type Assembled, assemble } from './assemble.ts';
import { Memo } from './model/memo.ts';
import { type Normalised, type NormaliseInput, normalise } from './normalise.ts';

/** The input of a render. */
export interface RenderInput extends NormaliseInput {
  /** Warnings are errors. */
  readonly strict: boolean;
}

export interface Rendered {
  /** Path → text, by path in byte order. Empty when there is an error. */
  readonly files: ReadonlyMap<string, string>;
  /** By place. */
  readonly problems: readonly Problem[];
  /** Allocations of this run, to be written beside the config. Empty when there is an error. */
  readonly created: readonly Allocation[];
}

/**
 * Kubernetes objects in, one bundle for all nodes out. Pure: same input in any order, same bytes.
 * @param memo results of earlier renders of the same cluster, with which unchanged parts are not computed again; the bytes are the same
 */
export function render(input: RenderInput, memo = new Memo()): Rendered {
  const { created, problems, ...normalised } = normalise(input, memo);
  const found = ranked(problems, input.strict);
  if (found.some(isError)) return refused(found);
  const assembled = assembleModel(normalised, input, memo);
  const all = [...found, ...assembled.problems];
  return all.some(isError) ? refused(all) : { files: assembled.files, problems: sorted(all), created };
}

/** Assembles a model. Chain names of removed Services stay in the memo, so a collision counts only if it occurs without them too. */
export function assembleModel(
  { model, config }: Pick<Normalised, 'model' | 'config'>,
  { snapshot }: Pick<RenderInput, 'snapshot'>,
  memo: Memo,
): Assembled {
  const complete = snapshot || config.complete;
  let assembled = assemble(model, config, complete, memo);
  if (assembled.problems.some(({ code }) => code === 'CHAIN_COLLISION')) {
    memo.clear();
    assembled = assemble(model, config, complete, memo);
  }
  memo.tidy();
  return assembled;
}

/** A result without files, with the problems that prevent them. */
export function refused(problems: readonly Problem[]): Rendered {
  return { files: new Map(), problems: sorted(problems), created: [] };
}

/** With `strict`, warnings are errors. */
export function ranked(problems: readonly Problem[], strict: boolean): readonly Problem[] {
  if (!strict) return problems;
  return problems.map((problem) => (problem.level === 'warning' ? { ...problem, level: 'error' } : problem));
}

export function isError(problem: Problem): boolean {
  return problem.level === 'error';
}

/** By place. */
export function sorted(problems: readonly Problem[]): readonly Problem[] {
  return problems.toSorted(compareProblems);
}
