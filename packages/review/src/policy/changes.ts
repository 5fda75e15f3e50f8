import { networkOf, compareText, parseCidr, plural } from '@sluice/netfilter';
import { type FactChange, factChanges } from '../facts/fact-changes.ts';
import type { PolicyCode } from './catalogue.ts';
import type { Violation } from './finding.ts';
import { type ServiceEntry, hostsOf, lineOf } from '../facts/service-entries.ts';
import type { ChangeContext } from './context.ts';
import { nodesOfProfile } from '../bundle/node.ts';
import { portPairs } from '../facts/facts.ts';

/** A Service in one family, before and after. */
interface ServicePair {
  readonly old?: ServiceEntry;
  readonly new?: ServiceEntry;
}

/** The Services of both bundles by name and family. Where profiles differ, each one is a pair. */
function pairsOf({ services, base }: ChangeContext): readonly ServicePair[] {
  const keys = [...new Set([...base.services.keys(), ...services.keys()])].toSorted(compareText);
  return keys.flatMap((key) => {
    const [old, updated] = [base.services.get(key) ?? [], services.get(key) ?? []];
    const first = old[0];
    if (updated.length === 0) return old.slice(0, 1).map((entry) => ({ old: entry }));
    return updated.map((entry): ServicePair => {
      const before = old.find(({ profile }) => profile === entry.profile) ?? first;
      return { new: entry, ...(before === undefined ? {} : { old: before }) };
    });
  });
}

/** LAST_ENDPOINT and SERVICE_REMOVED */
export function lostServices(context: ChangeContext): readonly Violation[] {
  return pairsOf(context).flatMap(({ old, new: updated }) => {
    if (old === undefined) return [];
    const served = portPairs(old.facts, updated?.facts).filter((pair) => (pair.old?.endpoints.length ?? 0) > 0);
    if (updated === undefined) return served.length === 0 ? [] : [removed(old, old.facts.service)];
    return served.flatMap(({ old: was, new: is }): readonly Violation[] => {
      if (is === undefined) return [removed(old, was!.key)];
      return is.endpoints.length > 0 ? [] : [emptied(updated, is.key)];
    });
  });
}

function emptied({ facts, path }: ServiceEntry, port: string): Violation {
  return {
    code: 'LAST_ENDPOINT',
    subject: facts.service,
    message: `Cannot remove the last endpoint of ${port} (${facts.family}): its traffic would be rejected`,
    hint: 'Keep an endpoint until no client uses the port, or remove the Service instead',
    path,
    line: 1,
  };
}

/** @param what the Service, or one of its ports */
function removed({ facts, profile }: ServiceEntry, what: string): Violation {
  return {
    code: 'SERVICE_REMOVED',
    subject: facts.service,
    message: `${what} (${facts.family}) will be removed with its endpoints; review required`,
    hint: 'Make sure that no client uses it, then waive the finding',
    // The Service may have no file in the new bundle; its profile does.
    path: `profiles/${profile}/profile.yaml`,
    line: 1,
  };
}

/** NODE_PORT_OPENED, AFFINITY_CHANGED and TRAFFIC_POLICY_CHANGED */
export function changedFacts(context: ChangeContext): readonly Violation[] {
  return pairsOf(context).flatMap(({ old, new: updated }) => {
    if (updated === undefined) return [];
    return factChanges(old?.facts, updated.facts).flatMap((change) => {
      const code = codeOf(change, old !== undefined);
      if (code === undefined) return [];
      return {
        code,
        subject: updated.facts.service,
        message: messageOf(change, nodesOfProfile(context.view, updated.profile).length),
        hint: hints[code],
        path: updated.path,
        line: lineOf(context.view, updated.path, code === 'NODE_PORT_OPENED' ? `node port ${change.new}` : '#'),
      };
    });
  });
}

type FactCode = Extract<PolicyCode, 'NODE_PORT_OPENED' | 'AFFINITY_CHANGED' | 'TRAFFIC_POLICY_CHANGED'>;

const hints = {
  NODE_PORT_OPENED: 'Use type ClusterIP, or set allocateLoadBalancerNodePorts: false, if no client needs the node port',
  AFFINITY_CHANGED: 'Make the change at a time when clients may lose their sessions',
  TRAFFIC_POLICY_CHANGED: 'Check the flows that `sluice diff` lists',
} as const satisfies Record<FactCode, string>;

function codeOf({ what, new: updated }: FactChange, isKnown: boolean): FactCode | undefined {
  if (what === 'node-port') return updated === undefined ? undefined : 'NODE_PORT_OPENED';
  if (!isKnown) return undefined;
  if (what === 'affinity') return 'AFFINITY_CHANGED';
  return what === 'internal-policy' || what === 'external-policy' ? 'TRAFFIC_POLICY_CHANGED' : undefined;
}

function messageOf({ what, port, old, new: updated }: FactChange, nodes: number): string {
  if (what === 'node-port')
    return `Node port ${updated} of ${port} will open on ${plural(nodes, 'node')}; review required`;
  const name = { affinity: 'Session affinity', 'internal-policy': 'internalTrafficPolicy' }[what as string];
  return `${name ?? 'externalTrafficPolicy'} of ${port} will change from ${old ?? 'none'} to ${updated ?? 'none'}; review required`;
}

/** RANGES_WIDENED: sources that were blocked must stay blocked. */
export function widenedRanges(context: ChangeContext): readonly Violation[] {
  return pairsOf(context).flatMap(({ old, new: updated }) => {
    if (!old || !updated) return [];
    return portPairs(old.facts, updated.facts).flatMap(({ old: was, new: port }) => {
      // All ports of a Service have the same ranges, so an added one is compared with the first.
      const before = (was ?? old.facts.ports[0])?.sourceRanges ?? [];
      if (port === undefined || before.length === 0 || hostsOf([port], ['load-balancer']).length === 0) return [];
      const wider = port.sourceRanges.filter((range) => !before.some((known) => covers(known, range)));
      const isDropped = port.sourceRanges.length === 0;
      if (!isDropped && wider.length === 0) return [];
      return {
        code: 'RANGES_WIDENED' as const,
        subject: updated.facts.service,
        message: `Cannot admit more sources to ${port.key} (${updated.facts.family}): ${
          isDropped
            ? 'its source ranges are removed, so that it is open to all sources'
            : `${wider.join(', ')} was not allowed before`
        }`,
        hint: 'Keep loadBalancerSourceRanges, or waive the finding with the reason for the wider ranges',
        path: updated.path,
        line: 1,
      };
    });
  });
}

/** Whether every address of the second network is in the first. A single address is a network of its own. */
export function covers(outer: string, inner: string): boolean {
  const [out, into] = [networkOf(outer), networkOf(inner)];
  if (!out || !into || out.family !== into.family || out.prefix > into.prefix) return false;
  return parseCidr(`${into.text.slice(0, into.text.indexOf('/'))}/${out.prefix}`)?.text === out.text;
}
