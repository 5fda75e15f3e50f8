import { type FileSections, type Mode, perObject } from '@sluice/netfilter';
import { type FileFormat, scopeKeys } from './file-cache.ts';
import { scopeProblems } from './file-scope.ts';
import { readRuleFile } from './read-rulefile.ts';
import { asksOf, isSameEverywhere, resolvedDigest, resolveFile, type Scope } from './resolve.ts';
import type { RuleFile } from './rulefile.ts';
import { readPath } from './tree.ts';

/** The node and mode that rule files are resolved for. */
export interface RuleScope {
  readonly scope: Scope;
  readonly mode: Mode;
}

const kindOf = (path: string): 'base' | 'service' => (readPath(path)?.kind === 'base' ? 'base' : 'service');

/** Files of iptables and ip6tables. */
export const ruleFileFormat: FileFormat<RuleFile, FileSections, RuleScope> = {
  read: (path, text) => {
    const file = readRuleFile(path, text);
    return 'sections' in file ? { value: file } : { problems: file };
  },
  isSameEverywhere,
  asksOf: ({ sections }) => asksOf(sections.flatMap(({ rules }) => rules)),
  resolve: (path, file, { scope }) => ({ value: resolveFile(file, scope, kindOf(path) === 'base') }),
  refuse: (path, file, sections, { mode }) => scopeProblems(path, kindOf(path), file, sections, mode),
  keysOf: perObject(({ scope, mode }: RuleScope) => scopeKeys(scope, `${mode} ${JSON.stringify(scope.profileValues)}`)),
  digestOf: resolvedDigest,
};
