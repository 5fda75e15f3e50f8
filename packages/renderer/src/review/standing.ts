import type { Family, Rule } from '@sluice/bundle';
import { type BaseRule, baseRulesOf } from './base-rules.ts';
import type { View } from './view.ts';

/** What the base files of a profile do with packets that are not the first of a connection, and so show in no flow. */
export interface Standing {
  /** Forwarded packets of connections that stand, and those that are related to one. */
  readonly established: string;
  /** Forwarded packets that belong to no connection. */
  readonly invalid: string;
  /** Forwarded first packets that will be masqueraded: others' rules may not turn them away. */
  readonly masqueraded: string;
  /** The mark for masquerading, once a packet leaves: a tunnel that keeps it would have its own packets masqueraded again. */
  readonly mark: string;
  /** Of masqueraded connections. */
  readonly 'source-ports': string;
}

/** All of `Standing`, in the order in which it is told. */
export const standingQuestions = ['established', 'invalid', 'masqueraded', 'mark', 'source-ports'] as const;

/** The answers of one profile's base files, in words. */
export function standingOf(view: View, profile: string, family: Family): Standing {
  const rules = baseRulesOf(view, profile, family);
  const bit = bitOf(rules);
  const forwarded = (state: string, mark: number): string => verdictIn(rules, 'KUBE-FORWARD', { state, mark });
  const [standing, related] = [forwarded('ESTABLISHED', 0), forwarded('RELATED', 0)];
  return {
    established: standing === related ? standing : `${standing}, related ones ${related}`,
    invalid: forwarded('INVALID', 0),
    masqueraded: forwarded('NEW', bit),
    ...leaving(rules, bit),
  };
}

/** What kube-proxy does, as `profile.yaml` and the sysctls choose (`syncProxyRules` in `pkg/proxy/iptables` and `ipvs`). */
export function declaredStanding(view: View, profile: string): Standing {
  const { mode, needs } = view.profiles.get(profile)!;
  const sysctls = view.files.get(`profiles/${profile}/base/sysctl.conf`) ?? '';
  // A kernel that is liberal about TCP windows calls fewer packets INVALID, and kube-proxy lets those pass.
  const isLiberal = /^net\.netfilter\.nf_conntrack_tcp_be_liberal = 1$/m.test(sysctls);
  return {
    established: verdicts.accept,
    invalid: mode === 'iptables' && !isLiberal ? verdicts.drop : verdicts.none,
    masqueraded: verdicts.accept,
    mark: 'taken off',
    'source-ports': needs.includes('random-fully') ? 'at random' : 'in order',
  };
}

/** The mark that a packet has after KUBE-MARK-MASQ. */
function bitOf(rules: readonly BaseRule[]): number {
  return rules.reduce(
    (mark, { rule: { chain, target } }) =>
      chain === 'KUBE-MARK-MASQ' && target?.kind === 'mark' ? ((mark & ~target.mask) ^ target.value) >>> 0 : mark,
    0,
  );
}

interface Asked {
  readonly state: string;
  readonly mark: number;
}

const verdicts = { accept: 'let through', drop: 'DROP', reject: 'REJECT', none: 'left to other rules' } as const;

/** The verdict of a chain for most packets and, where rules single some out, what becomes of those. */
function verdictIn(rules: readonly BaseRule[], chain: string, asked: Asked): string {
  const some = new Set<string>();
  const verdict = walk(rules, chain, asked, some, []) ?? verdicts.none;
  some.delete(verdict);
  return [verdict, ...[...some].map((other) => `some ${other}`)].join(', ');
}

/** @param some gets the verdicts for packets that single rules ask for. @param way the chains that lead here: none is walked in a circle */
function walk(
  rules: readonly BaseRule[],
  chain: string,
  asked: Asked,
  some: Set<string>,
  way: readonly string[],
): string | undefined {
  for (const { rule, everywhere } of rules) {
    if (rule.chain !== chain) continue;
    const meets = meeting(rule, asked);
    if (meets === 'none') continue;
    const { target } = rule;
    const isJump = target?.kind === 'jump' || target?.kind === 'goto';
    const isAll = meets === 'all' && everywhere;
    if (target?.kind === 'return') {
      if (isAll) return undefined;
      some.add(verdicts.none);
    } else if (isJump && !way.includes(target.chain)) {
      const below = walk(rules, target.chain, asked, some, [...way, chain]);
      if (isAll && (below !== undefined || target.kind === 'goto')) return below;
      if (below !== undefined) some.add(below);
    } else if (target?.kind === 'accept' || target?.kind === 'drop' || target?.kind === 'reject') {
      if (isAll) return verdicts[target.kind];
      some.add(verdicts[target.kind]);
    }
  }
  return undefined;
}

/** Which of the packets that a question is about a rule is for. */
function meeting(rule: Rule, { state, mark }: Asked): 'all' | 'some' | 'none' {
  let isAll = (rule.source ?? rule.destination ?? rule.in ?? rule.out ?? rule.protocol) === undefined;
  for (const match of rule.matches) {
    if (match.kind === 'conntrack') {
      const isState = match.states.some((one) => one === state);
      // SNAT and DNAT are asked for beside the state, and a connection may have them.
      const mayBe = match.states.some((one) => one === 'SNAT' || one === 'DNAT');
      if (mayBe && !isState) isAll = false;
      else if (isState === match.negated) return 'none';
    } else if (match.kind === 'mark') {
      if (((mark & match.mask) >>> 0 === match.value) === match.negated) return 'none';
    } else if (match.kind !== 'comment') isAll = false;
  }
  return isAll ? 'all' : 'some';
}

/**
 * How a packet with the mark for masquerading leaves. In mode ipvs a rule that asks a set is for endpoints that meet themselves;
 * kube-proxy leaves their ports in order.
 */
function leaving(rules: readonly BaseRule[], bit: number): Pick<Standing, 'mark' | 'source-ports'> {
  let mark = bit;
  let isRandom = true;
  const end = (): Pick<Standing, 'mark' | 'source-ports'> => ({
    mark: mark === 0 ? 'taken off' : 'stays',
    'source-ports': isRandom ? 'at random' : 'in order',
  });
  for (const { rule, everywhere } of rules) {
    const { target, matches } = rule;
    if (rule.chain !== 'KUBE-POSTROUTING' || matches.some(({ kind }) => kind === 'set')) continue;
    const meets = meeting(rule, { state: 'NEW', mark });
    if (meets === 'none') continue;
    const isAll = meets === 'all' && everywhere;
    if (target?.kind === 'masquerade') isRandom &&= target.randomFully;
    if (!isAll || target === undefined) continue;
    if (target.kind !== 'mark') return end();
    mark = ((mark & ~target.mask) ^ target.value) >>> 0;
  }
  return end();
}
