import type { Family } from '../../family.ts';
import { reflexiveBytecode } from '../../rules/reflexive.ts';
import { printEndpoint, type Rule } from '../../rules/rule.ts';
import { Layered } from '../../layered.ts';
import type { TableProgram } from '../program.ts';
import type { EndpointRule, LinkedRule, FileUnits } from './program.ts';

/**
 * Endpoints in place: most endpoint chains mark hairpin packets (a pod that reaches itself), so that they are masqueraded, and then
 * translate. Both work without the chain: the rule that chooses an endpoint has the DNAT target, and one rule in POSTROUTING matches
 * packets whose source is their destination. With 10,000 Services and 50,000 endpoints this leaves 11,000 chains of 61,000, and the
 * kernel checks the nat table in 73 ms instead of 148 at each commit (Linux 6.18, iptables-nft 1.8.9).
 */

/** A rule of a file, and the chain that it jumps to. */
interface RuleAndCallee {
  readonly rule: Rule;
  readonly targetChain?: string;
}

/**
 * Decides which endpoints of a file need no chain: their chain has the rules that kube-proxy writes without session affinity, and rules that
 * jump to it match a probability only.
 * @param own the rules of each chain of the file
 * @param base its other rules
 * @param isChoice whether a rule matches a probability only
 */
export function endpointsInPlace(
  own: ReadonlyMap<string, readonly RuleAndCallee[]>,
  base: readonly RuleAndCallee[],
  isChoice: (rule: Rule) => boolean,
): ReadonlyMap<string, EndpointRule> {
  const rules = new Map<string, EndpointRule>();
  for (const [chain, reads] of own) {
    const replacement = chain.startsWith('KUBE-SEP-') ? endpointRuleOf(reads.map(({ rule }) => rule)) : undefined;
    if (replacement) rules.set(chain, replacement);
  }
  if (rules.size === 0) return rules;
  for (const { targetChain } of base) if (targetChain !== undefined) rules.delete(targetChain);
  for (const reads of own.values())
    for (const { rule, targetChain } of reads)
      if (targetChain !== undefined && !isChoice(rule)) rules.delete(targetChain);
  return rules;
}

/** The rule that replaces an endpoint's chain of two rules; undefined for chains of another form. */
function endpointRuleOf([self, translate, ...more]: readonly Rule[]): EndpointRule | undefined {
  const target = translate?.target;
  const protocol = translate?.protocol;
  if (!self || more.length > 0 || target?.kind !== 'dnat' || !protocol) return undefined;
  if (self.target?.kind !== 'jump' || self.target.chain !== 'KUBE-MARK-MASQ' || self.protocol) return undefined;
  const whole = `${target.address}/${target.address.includes(':') ? 128 : 32}`;
  if (self.source?.negated !== false || self.source.value !== whole || translate.source) return undefined;
  if (/^(?:127\.|::1$)/.test(target.address)) return undefined;
  if ([self, translate].some((rule) => rule.destination ?? rule.in ?? rule.out)) return undefined;
  if (!self.matches.every(({ kind }) => kind === 'comment')) return undefined;
  const isBare = translate.matches.every(
    (match) => match.kind === 'comment' || (match.kind === protocol && !('destinationPort' in match)),
  );
  if (!isBare) return undefined;
  return {
    match: `-p ${protocol} `,
    target: `-j DNAT --to-destination ${printEndpoint(target.address, target.port)}`,
  };
}

const marking = /^-j MARK --set-xmark (0x[0-9a-f]+)\/\1$/;

/** Whether a rule has a match of the packet's mark. */
export const matchesMark = ({ body }: LinkedRule): boolean => hasMarkMatch(body.text);

const hasMarkMatch = (text: string): boolean => text.includes('-m mark ');

/**
 * Whether packets can be marked after DNAT: only the rules that kube-proxy writes match the mark, the first of KUBE-POSTROUTING and one
 * of KUBE-FORWARD.
 */
export function canMarkLate(units: readonly FileUnits[]): boolean {
  const matching = { filter: [] as LinkedRule[], nat: [] as LinkedRule[] };
  const marks: LinkedRule[] = [];
  const postrouting: LinkedRule[] = [];
  for (const { filter, nat } of units) {
    for (const rule of filter.base) if (matchesMark(rule)) matching.filter.push(rule);
    for (const rule of nat.base) {
      if (matchesMark(rule)) matching.nat.push(rule);
      if (rule.chain === 'KUBE-MARK-MASQ') marks.push(rule);
      if (rule.chain === 'KUBE-POSTROUTING') postrouting.push(rule);
    }
  }
  const bit = marks.length === 1 ? marking.exec(marks[0]?.body.text ?? '')?.[1] : undefined;
  if (bit === undefined || matching.nat.length !== 1 || matching.nat[0] !== postrouting[0]) return false;
  const accepts = `-m mark --mark ${bit}/${bit} -j ACCEPT`;
  return (
    postrouting[0]?.body.text === `-m mark ! --mark ${bit}/${bit} -j RETURN` &&
    matching.filter.every(({ chain, body }) => chain === 'KUBE-FORWARD' && withoutComment(body.text) === accepts)
  );
}

const withoutComment = (text: string): string => text.replace(/^-m comment --comment ("(?:[^"\\]|\\.)*"|\S+) /, '');

/** Packets of the machine to itself through foreign redirections keep their source: no endpoint has a loopback address. */
const loopback = { ipv4: '127.0.0.0/8', ipv6: '::1/128' } as const satisfies Record<Family, string>;

/**
 * The rules of a base chain with those for hairpin packets: these are marked before POSTROUTING matches the mark, and accepted where
 * FORWARD accepts marked packets. Hairpin packets that foreign rules translated match, too: these need masquerading as well, and no
 * network policy applies to them.
 * @param rules without `-A <name> `
 */
export function markLate(base: string, rules: readonly string[], family: Family): readonly string[] {
  const isHairpin = `! -s ${loopback[family]} -m conntrack --ctstate DNAT -m bpf --bytecode "${reflexiveBytecode[family]}" `;
  if (base === 'KUBE-POSTROUTING') return [`${isHairpin}-j SLUICE-MARK-MASQ`, ...rules];
  if (base !== 'KUBE-FORWARD') return rules;
  return rules.flatMap((rule) => (hasMarkMatch(rule) ? [`${isHairpin}-j ACCEPT`, rule] : [rule]));
}

const hasBpfMatch = (rule: string): boolean => rule.includes(' -m bpf ');

/** Whether a desired nat table marks late, as it does with endpoints in place. */
export function marksLate({ chains }: TableProgram): boolean {
  return chains.get('SLUICE-POSTROUTING')?.some(hasBpfMatch) ?? false;
}

/** A table without the rules of `markLate`, for a kernel without `-m bpf`; the same object where it has none. */
export function withoutLateMarks(table: TableProgram): TableProgram {
  const { chains, jumps } = table;
  const changed = ['SLUICE-POSTROUTING', 'SLUICE-FORWARD'].flatMap((name) => {
    const rules = chains.get(name);
    return rules?.some(hasBpfMatch) ? [[name, rules.filter((rule) => !hasBpfMatch(rule))] as const] : [];
  });
  return changed.length === 0 ? table : { chains: Layered.of(chains).with(changed), jumps };
}
