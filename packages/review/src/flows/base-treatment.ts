import { type Family, modeFacts, type Rule } from '@sluice/netfilter';
import { type ProfileBaseRule, baseRulesOf } from './base-rules.ts';
import type { BundleView } from '../bundle/view.ts';

/** The treatment by base files of packets that no flow shows, because they are not the first of a connection. */
export interface BaseTreatment {
  /** Forwarded packets of established connections, and related ones. */
  readonly established: string;
  /** Forwarded packets that belong to no connection. */
  readonly invalid: string;
  /** Forwarded first packets that will be masqueraded: foreign rules must not reject them. */
  readonly masqueraded: string;
  /** The mark for masquerading on leaving packets: a tunnel that keeps it would have its own packets masqueraded again. */
  readonly mark: string;
  /** The choice of source ports of masqueraded connections. */
  readonly 'source-ports': string;
}

/** All keys of `BaseTreatment`, in the order of reports. */
export const baseTreatmentKeys = ['established', 'invalid', 'masqueraded', 'mark', 'source-ports'] as const;

/** Reads the treatment from the base files of a profile. */
export function baseTreatmentOf(view: BundleView, profile: string, family: Family): BaseTreatment {
  if (!modeFacts[view.profiles.get(profile)!.mode].hasTables) return tableTreatment;
  const rules = baseRulesOf(view, profile, family);
  const bit = bitOf(rules);
  const forwarded = (state: string, mark: number): string => verdictIn(rules, 'KUBE-FORWARD', { state, mark });
  const [established, related] = [forwarded('ESTABLISHED', 0), forwarded('RELATED', 0)];
  return {
    established: established === related ? established : `${established}, related ones ${related}`,
    invalid: forwarded('INVALID', 0),
    masqueraded: forwarded('NEW', bit),
    ...leaving(rules, bit),
  };
}

/** The treatment by kube-proxy with the settings of `profile.yaml` and the sysctls (`syncProxyRules` in `pkg/proxy/iptables` and `ipvs`). */
export function declaredBaseTreatment(view: BundleView, profile: string): BaseTreatment {
  const { mode, needs } = view.profiles.get(profile)!;
  const { hasTables, dropsInvalid } = modeFacts[mode];
  if (!hasTables) return tableTreatment;
  const sysctls = view.files.get(`profiles/${profile}/base/sysctl.conf`) ?? '';
  // With tcp_be_liberal the kernel marks fewer packets INVALID, and kube-proxy has no rule that drops them.
  const isLiberal = /^net\.netfilter\.nf_conntrack_tcp_be_liberal = 1$/m.test(sysctls);
  return {
    established: verdicts.accept,
    invalid: dropsInvalid && !isLiberal ? verdicts.drop : verdicts.none,
    masqueraded: verdicts.accept,
    mark: 'taken off',
    'source-ports': needs.includes('random-fully') ? 'at random' : 'in order',
  };
}

/** The table of mode nftables is the same in every bundle: it judges first packets only, and uses no mark. */
const tableTreatment: BaseTreatment = {
  established: 'left to other rules',
  invalid: 'left to other rules',
  masqueraded: 'left to other rules',
  mark: 'not used',
  'source-ports': 'at random',
};

/** The mark that a packet has after KUBE-MARK-MASQ. */
function bitOf(rules: readonly ProfileBaseRule[]): number {
  return rules.reduce(
    (mark, { rule: { chain, target } }) =>
      chain === 'KUBE-MARK-MASQ' && target?.kind === 'mark' ? ((mark & ~target.mask) ^ target.value) >>> 0 : mark,
    0,
  );
}

interface PacketState {
  readonly state: string;
  readonly mark: number;
}

const verdicts = { accept: 'let through', drop: 'DROP', reject: 'REJECT', none: 'left to other rules' } as const;

/** The verdict of a chain for most packets, then the verdicts for packets that single rules match. */
function verdictIn(rules: readonly ProfileBaseRule[], chain: string, packet: PacketState): string {
  const some = new Set<string>();
  const verdict = walk(rules, chain, packet, some, []) ?? verdicts.none;
  some.delete(verdict);
  return [verdict, ...[...some].map((other) => `some ${other}`)].join(', ');
}

/** @param some collects verdicts for packets that single rules match. @param path the chains walked so far, against loops */
function walk(
  rules: readonly ProfileBaseRule[],
  chain: string,
  packet: PacketState,
  some: Set<string>,
  path: readonly string[],
): string | undefined {
  for (const { rule, everywhere } of rules) {
    if (rule.chain !== chain) continue;
    const matched = matching(rule, packet);
    if (matched === 'none') continue;
    const { target } = rule;
    const isJump = target?.kind === 'jump' || target?.kind === 'goto';
    const isAll = matched === 'all' && everywhere;
    if (target?.kind === 'return') {
      if (isAll) return undefined;
      some.add(verdicts.none);
    } else if (isJump && !path.includes(target.chain)) {
      const below = walk(rules, target.chain, packet, some, [...path, chain]);
      if (isAll && (below !== undefined || target.kind === 'goto')) return below;
      if (below !== undefined) some.add(below);
    } else if (target?.kind === 'accept' || target?.kind === 'drop' || target?.kind === 'reject') {
      if (isAll) return verdicts[target.kind];
      some.add(verdicts[target.kind]);
    }
  }
  return undefined;
}

/** Whether a rule matches all, some or none of the packets. */
function matching(rule: Rule, { state, mark }: PacketState): 'all' | 'some' | 'none' {
  let isAll = (rule.source ?? rule.destination ?? rule.in ?? rule.out ?? rule.protocol) === undefined;
  for (const match of rule.matches) {
    if (match.kind === 'conntrack') {
      const isState = match.states.some((one) => one === state);
      // A connection has SNAT or DNAT beside its state.
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
 * The treatment of a leaving packet with the mark for masquerading. In mode ipvs the rule with a set is for hairpin traffic, whose
 * ports kube-proxy does not randomise.
 */
function leaving(rules: readonly ProfileBaseRule[], bit: number): Pick<BaseTreatment, 'mark' | 'source-ports'> {
  let mark = bit;
  let isRandom = true;
  const end = (): Pick<BaseTreatment, 'mark' | 'source-ports'> => ({
    mark: mark === 0 ? 'taken off' : 'stays',
    'source-ports': isRandom ? 'at random' : 'in order',
  });
  for (const { rule, everywhere } of rules) {
    const { target, matches } = rule;
    if (rule.chain !== 'KUBE-POSTROUTING' || matches.some(({ kind }) => kind === 'set')) continue;
    const matched = matching(rule, { state: 'NEW', mark });
    if (matched === 'none') continue;
    const isAll = matched === 'all' && everywhere;
    if (target?.kind === 'masquerade') isRandom &&= target.randomFully;
    if (!isAll || target === undefined) continue;
    if (target.kind !== 'mark') return end();
    mark = ((mark & ~target.mask) ^ target.value) >>> 0;
  }
  return end();
}
