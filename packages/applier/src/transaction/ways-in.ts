import { addAll } from '@sluice/bundle';
import type { TableProgram } from '@sluice/bundle';
import { frontendOf } from '../rollout/frontend.ts';
import type { Rule } from './left-over.ts';
import { withoutTag } from './service.ts';

/** Chains of one Service: what stands in them goes with its last endpoint. */
const isOwn = (name: string): boolean => /^(?:SLU|KUBE)-(?:SV[CL]|EXT|FW)-/.test(name);

/** From what comes from outside to the endpoints of this node: policy Local, while there are any. */
const toLocal = /^ -j ((?:SLU|KUBE)-SVL-\S+)$/;

/**
 * The ways into Services that rules of nat are, such as `tcp 10.96.0.10 80`. Rules in the chains of a Service that the other table lacks
 * go with its ways. With policy Local a Service that has endpoints elsewhere keeps its ways from outside; what they lose with the last
 * endpoint of this node is one rule, and filter drops what comes in by them (`hasLocalEndpoints` in kube-proxy's
 * `pkg/proxy/iptables/proxier.go`).
 * @param rules those that `table` has and the other one lacks
 * @returns undefined when a rule is neither
 */
export function waysIn(
  rules: readonly Rule[],
  table: TableProgram,
  other: TableProgram,
): readonly string[] | undefined {
  const kept = new Set([...other.chains.keys()].filter(isOwn).map(withoutTag));
  const ways: string[] = [];
  let frontends: ReadonlyMap<string, readonly string[]> | undefined;
  for (const { chain, body, isLast } of rules) {
    if (isOwn(chain) && !kept.has(chain)) continue;
    const target = / -j (\S+)$/.exec(body)?.[1] ?? '';
    if (!isOwn(target) || kept.has(target)) return undefined;
    if (!isOwn(chain)) {
      const way = wayOf(body);
      if (way === undefined) return undefined;
      ways.push(way);
      continue;
    }
    // Anywhere else it would take packets from the rules behind it.
    if (!isLast || !toLocal.test(body) || !isSameService(chain, target)) return undefined;
    frontends ??= frontendsOf(table);
    for (const frontend of [chain, chain.replace('-EXT-', '-FW-')]) addAll(ways, frontends.get(frontend) ?? []);
  }
  return ways;
}

/** Whether these are the chains of one port: one for what comes from outside, one with the endpoints of this node. */
const isSameService = (chain: string, target: string): boolean => chain === target.replace('-SVL-', '-EXT-');

/** The ways in from outside by the chain that they lead to; what they meet there is the same in both tables. */
function frontendsOf(table: TableProgram): ReadonlyMap<string, readonly string[]> {
  const frontends = new Map<string, string[]>();
  for (const [name, rules] of table.chains) {
    if (isOwn(name)) continue;
    for (const rule of rules) {
      const target = / -j ((?:SLU|KUBE)-(?:EXT|FW)-\S+)$/.exec(rule)?.[1];
      const way = target === undefined ? undefined : wayOf(rule);
      if (target === undefined || way === undefined) continue;
      const chain = withoutTag(target);
      frontends.set(chain, [...(frontends.get(chain) ?? []), way]);
    }
  }
  return frontends;
}

/** The way in that a rule of filter rejects or drops. */
export function rejected({ body }: Rule): string | undefined {
  return / -j (?:REJECT(?: --reject-with \S+)?|DROP)$/.test(body) ? wayOf(body) : undefined;
}

/** `tcp 10.96.0.10 80`; of a node port `tcp * 30080`. */
function wayOf(body: string): string | undefined {
  const frontend = frontendOf(body);
  return frontend && `${frontend.protocol} ${frontend.address ?? '*'} ${frontend.port}`;
}
