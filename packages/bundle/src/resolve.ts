import { hash } from 'node:crypto';
import {
  cidrContains,
  type Family,
  type TableName,
  printSection,
  type ResolvedSection,
  fillFrom,
  chainOf,
  jumpTargetOf,
} from '@sluice/netfilter';
import type { Guard, GuardedRule, RuleFile } from './rulefile.ts';
import { type NodeFile, ownAddress, type ProfileFile, type VariableValues } from './documents.ts';
import { isMap } from './checks.ts';

/** The node that a rule file is resolved for. */
export interface Scope {
  readonly family: Family;
  readonly node: string;
  readonly zone?: string | undefined;
  readonly nodeValues: VariableValues;
  readonly profileValues: VariableValues;
}

/**
 * Resolves a rule file for one node. README.md, "Resolving".
 * @param keepChains true for base files, whose chains stay even without references
 */
export function resolveFile(file: RuleFile, scope: Scope, keepChains = false): readonly ResolvedSection[] {
  const applicable = file.sections.map((section) => ({
    ...section,
    rules: section.rules.filter(({ guard }) => !guard || guard.kind === 'local' || guardHolds(guard, scope)),
  }));
  const filled = chainsWithRules(applicable.find((section) => section.table === 'nat')?.rules ?? []);
  return applicable.flatMap((section) => {
    const rules = section.rules
      .filter(({ guard }) => guard?.kind !== 'local' || filled.has(guard.chain) !== guard.negated)
      .flatMap(({ text }) => fillVariables(text, scope));
    const resolved = keepChains ? { ...section, rules } : withoutUnreferenced(section.table, section.chains, rules);
    return resolved.chains.length + resolved.rules.length > 0 ? [resolved] : [];
  });
}

/** What lines ask of a node: where its answers are those of another node, they resolve to the same. */
export interface Asks {
  /** Whether it is one of these. */
  readonly nodes: ReadonlySet<string>;
  /** Which zone it is in. */
  readonly zone: boolean;
  /** Values of `node.yaml`. */
  readonly values: boolean;
}

export function asksOf(lines: readonly GuardedRule[]): Asks {
  const guards = lines.flatMap(({ guard }) => guard ?? []);
  return {
    nodes: new Set(guards.flatMap((guard) => (guard.kind === 'node' ? guard.values : []))),
    zone: guards.some(({ kind }) => kind === 'zone'),
    values: guards.some(({ kind }) => kind === 'ip-in') || lines.some(({ text }) => text.includes('${node.')),
  };
}

/** True when the file resolves to the same on every node of a profile, so that one result serves all of them. */
export function isSameEverywhere(file: RuleFile): boolean {
  return file.sections.every((section) =>
    section.rules.every(({ guard, text }) => !guard && !text.includes('${node.')),
  );
}

/** The digest of a resolved file, for the digest of a node's version; undefined for an empty result. */
export function resolvedDigest(sections: readonly ResolvedSection[]): string | undefined {
  if (sections.length === 0) return undefined;
  return hash('sha256', sections.map(printSection).join(''), 'hex');
}

/** Whether a line with this guard applies to the node. */
export function guardHolds(guard: Exclude<Guard, { kind: 'local' }>, scope: Scope): boolean {
  switch (guard.kind) {
    case 'zone':
      return (scope.zone !== undefined && guard.values.includes(scope.zone)) !== guard.negated;
    case 'node':
      return guard.values.includes(scope.node) !== guard.negated;
    case 'ip-in': {
      const address = valueOf(scope.nodeValues, scope.family, 'address');
      const inside = typeof address === 'string' && guard.values.some((cidr) => cidrContains(cidr, address));
      return inside !== guard.negated;
    }
  }
}

function chainsWithRules(rules: readonly GuardedRule[]): ReadonlySet<string> {
  return new Set(rules.filter(({ guard }) => guard?.kind !== 'local').map(({ text }) => chainOf(text)));
}

/** Leaves out the file's own chains that are not reachable from its other rules. */
function withoutUnreferenced(table: TableName, chains: readonly string[], rules: readonly string[]): ResolvedSection {
  const own = new Set(chains);
  const rulesOf = Map.groupBy(rules, chainOf);
  const wanted = new Set<string>();
  // A growing list instead of recursion: chains nested as deep as a file allows must not exhaust the stack.
  const waiting = [...rulesOf].filter(([chain]) => !own.has(chain)).map(([, list]) => list);
  for (const list of waiting) {
    for (const rule of list) {
      const target = jumpTargetOf(rule);
      if (target === undefined || !own.has(target) || wanted.has(target)) continue;
      wanted.add(target);
      waiting.push(rulesOf.get(target) ?? []);
    }
  }
  if (wanted.size === own.size) return { table, chains, rules };
  const stays = (chain: string): boolean => !own.has(chain) || wanted.has(chain);
  return { table, chains: chains.filter(stays), rules: rules.filter((rule) => stays(chainOf(rule))) };
}

/** The profile for one node: `nodePortAddresses` with the node's own addresses for `primary`. */
export function profileOn(profile: ProfileFile, { values }: NodeFile): ProfileFile {
  if (!profile.nodePortAddresses.includes(ownAddress)) return profile;
  const own = profile.families.flatMap((family) => {
    const address = valueOf(values, family, 'address');
    return typeof address === 'string' ? [`${address}/${family === 'ipv4' ? 32 : 128}`] : [];
  });
  return {
    ...profile,
    nodePortAddresses: [...profile.nodePortAddresses.filter((text) => text !== ownAddress), ...own],
  };
}

const variable = /\$\{(node|profile)\.([A-Za-z]+)\}/g;

/** Whether a line depends on `node.yaml` or `profile.yaml`. Others are filled on the machine, or by the linker. */
export const hasVariable = (text: string): boolean => text.includes('${node.') || text.includes('${profile.');

/** Fills in `${node.*}` and `${profile.*}`: one line, several for a list, none when a value is empty. */
export function fillVariables(text: string, scope: Omit<Scope, 'family'> & { family?: Family }): readonly string[] {
  if (!hasVariable(text)) return [text];
  return fillFrom(text, variable, (owner, name) =>
    valueOf(owner === 'node' ? scope.nodeValues : scope.profileValues, scope.family, name),
  );
}

/** A value of `node.yaml` or `profile.yaml`; that of the family takes precedence over the common one. */
export function valueOf(
  values: VariableValues,
  family: Family | undefined,
  name: string,
): string | number | readonly string[] | undefined {
  const own = family === undefined ? undefined : values[family];
  const value =
    isMap(own) && Object.hasOwn(own, name) ? own[name] : Object.hasOwn(values, name) ? values[name] : undefined;
  return isMap(value) ? undefined : value;
}
