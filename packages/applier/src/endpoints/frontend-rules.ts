import { addAll, type TableProgram } from '@sluice/netfilter';
import { frontendOf } from '../plan/frontend.ts';
import type { PlainRule } from './rule-differences.ts';
import { withoutTag } from './service-rules.ts';

/** Chains of one Service, which are removed with its last endpoint. */
const isOwn = (name: string): boolean => /^(?:SLU|KUBE)-(?:SV[CL]|EXT|FW)-/.test(name);

/** The rule of policy Local that leads external traffic to the endpoints of this node, while there are any. */
const toLocal = /^ -j ((?:SLU|KUBE)-SVL-\S+)$/;

/**
 * The frontends that rules of nat serve, such as `tcp 10.96.0.10 80`. Rules in the chains of a Service that the other table lacks belong
 * to its frontends. With policy Local a Service with endpoints on other nodes keeps its external frontends; with the last endpoint of
 * this node they lose one rule, and filter drops their packets (`hasLocalEndpoints` in kube-proxy's `pkg/proxy/iptables/proxier.go`).
 * @param rules those of `table` that the other one lacks
 * @returns undefined if a rule is none of these
 */
export function natFrontends(
  rules: readonly PlainRule[],
  table: TableProgram,
  other: TableProgram,
): readonly string[] | undefined {
  const kept = new Set([...other.chains.keys()].filter(isOwn).map(withoutTag));
  const found: string[] = [];
  let byChain: ReadonlyMap<string, readonly string[]> | undefined;
  for (const { chain, body, isLast } of rules) {
    if (isOwn(chain) && !kept.has(chain)) continue;
    const target = / -j (\S+)$/.exec(body)?.[1] ?? '';
    if (!isOwn(target) || kept.has(target)) return undefined;
    if (!isOwn(chain)) {
      const frontend = frontendText(body);
      if (frontend === undefined) return undefined;
      found.push(frontend);
      continue;
    }
    // Before other rules it would take their packets.
    if (!isLast || !toLocal.test(body) || !isSameService(chain, target)) return undefined;
    byChain ??= externalFrontends(table);
    for (const chainName of [chain, chain.replace('-EXT-', '-FW-')]) addAll(found, byChain.get(chainName) ?? []);
  }
  return found;
}

/** Whether these are the chains of one port: that of external traffic, and that with the endpoints of this node. */
const isSameService = (chain: string, target: string): boolean => chain === target.replace('-SVL-', '-EXT-');

/** The external frontends by the chain that they lead to. The rules of that chain are the same in both tables. */
function externalFrontends(table: TableProgram): ReadonlyMap<string, readonly string[]> {
  const byChain = new Map<string, string[]>();
  for (const [name, rules] of table.chains) {
    if (isOwn(name)) continue;
    for (const rule of rules) {
      const target = / -j ((?:SLU|KUBE)-(?:EXT|FW)-\S+)$/.exec(rule)?.[1];
      const frontend = target === undefined ? undefined : frontendText(rule);
      if (target === undefined || frontend === undefined) continue;
      const chain = withoutTag(target);
      byChain.set(chain, [...(byChain.get(chain) ?? []), frontend]);
    }
  }
  return byChain;
}

/** The frontend whose packets a rule of filter rejects or drops. */
export function rejectedFrontend({ body }: PlainRule): string | undefined {
  return / -j (?:REJECT(?: --reject-with \S+)?|DROP)$/.test(body) ? frontendText(body) : undefined;
}

/** `tcp 10.96.0.10 80`; of a node port `tcp * 30080`. */
function frontendText(body: string): string | undefined {
  const frontend = frontendOf(body);
  return frontend && `${frontend.protocol} ${frontend.address ?? '*'} ${frontend.port}`;
}
