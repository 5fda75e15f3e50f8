import { type RuleFile, type VirtualFile } from '@sluice/bundle';
import { hasLines, Stopped } from '@sluice/netfilter';
import { commentBlockOf } from './header.ts';
import { toolAt } from './tools.ts';
import type { BundleView } from './view.ts';

/** The part of a view in which files are read. */
export type ViewedFiles = Pick<BundleView, 'files' | 'memory'>;

/**
 * The rules in a file of a view.
 * @throws Stopped with its problems
 */
export function rulesAt(view: ViewedFiles, path: string): RuleFile {
  const file = view.memory.file(path, view.files.get(path) ?? '');
  if ('sections' in file) return file;
  throw new Stopped(file);
}

/**
 * An `.ipset`, `.ipvs` or `.nft` file of a view.
 * @throws Stopped with its problems
 */
export function virtualAt(view: ViewedFiles, path: string): VirtualFile {
  const file = view.memory.virtual(path, view.files.get(path)!);
  if ('lines' in file) return file;
  throw new Stopped(file);
}

/**
 * The comment block above the lines of a file.
 * @throws Stopped with the problems of a file of rules
 */
export function commentBlockAt(view: ViewedFiles, path: string): readonly string[] {
  const { tool } = toolAt(path);
  return hasLines(tool) ? commentBlockOf(view.files.get(path)!) : rulesAt(view, path).header;
}
