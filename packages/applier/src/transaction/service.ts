import type { TableProgram } from '@sluice/bundle';
import { limits } from '../limits.ts';
import { addressOf } from './approved.ts';

/** The endpoints of one Service in nat, and what rules lead to them. */
export interface ServiceRules {
  /** What a client meets besides endpoints, rule by rule. */
  readonly fixed: readonly string[];
  /** How an endpoint is chosen and what is done for it, without what differs between endpoints. */
  readonly forms: ReadonlySet<string>;
  /** Each `address:port`. */
  readonly endpoints: ReadonlySet<string>;
  /** The chains of endpoints and of groups of these. */
  readonly chains: readonly string[];
}

/** Whether a chain chooses an endpoint of a Service, in either layout. */
export const isService = (name: string): boolean => /^(?:SLU|KUBE)-SV[CL]-/.test(name);
/** Whether a chain is that of an endpoint, or of a group of these. */
export const isEndpoint = (name: string): boolean => /^(?:SLU|KUBE)-(?:SEP|GRP)-/.test(name);
/** The name of a chain without what its content decides. */
export const withoutTag = (name: string): string => name.replace(/\.[0-9a-z]{2}$/, '');

const endpointTarget = / -[jg] ((?:SLU|KUBE)-(?:SEP|GRP)-\S+)$/;

/** Reads what stands behind a Service's chain. */
export function readService(chain: string, table: TableProgram): ServiceRules {
  const fixed: string[] = [];
  const forms = new Set<string>();
  const endpoints = new Set<string>();
  const chains = new Set<string>();
  const walk = (name: string): void => {
    for (const rule of table.chains.get(name) ?? []) {
      const body = bodyOf(name, rule);
      const target = endpointTarget.exec(rule)?.[1];
      if (isService(name) && target === undefined) fixed.push(body);
      else forms.add(target === undefined ? endpointForm(body) : choiceForm(body, target));
      const endpoint = / --to-destination (\S+)/.exec(rule)?.[1];
      if (endpoint !== undefined) endpoints.add(endpoint);
      if (target === undefined || chains.has(target)) continue;
      chains.add(target);
      walk(target);
    }
  };
  walk(chain);
  return { fixed, forms, endpoints, chains: [...chains] };
}

/** What a rule asks and does; comments are for people. */
function bodyOf(chain: string, rule: string): string {
  return rule.slice(3 + chain.length).replace(/ -m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+)/, '');
}

const choiceForm = (body: string, target: string): string =>
  `choose${body
    .slice(0, -target.length)
    .replace(/ -m statistic --mode random --probability \S+/, '')
    .replace(/ --name \S+/, ' --name *')}`;

const endpointForm = (body: string): string =>
  `endpoint${body
    .replace(/ -s \S+/, ' -s *')
    .replace(/ --name \S+/, ' --name *')
    .replace(/--to-destination \S+:(\d+)/, '--to-destination *:$1')}`;

/**
 * Whether a Service differs by its endpoints alone, within the bounds of what goes in without a trial: it keeps endpoints, loses
 * one or at most `limits.endpointsLostShareMax` of them at once, and their port and all other rules stay what they were.
 * @param isApproved whether an endpoint may come at this address (`approvedBy`)
 */
export function onlyEndpointsDiffer(
  before: ServiceRules,
  after: ServiceRules,
  isApproved: (address: string) => boolean,
): boolean {
  if (before.fixed.join('\n') !== after.fixed.join('\n')) return false;
  if ([...after.forms].some((form) => !before.forms.has(form))) return false;
  const fresh = [...after.endpoints].filter((one) => !before.endpoints.has(one));
  return fresh.every((one) => isApproved(addressOf(one))) && losesFew(before.endpoints, after.endpoints);
}

/** Whether a Service keeps endpoints, and loses one or at most `limits.endpointsLostShareMax` of them. */
export function losesFew(before: ReadonlySet<string>, after: ReadonlySet<string>): boolean {
  const lost = [...before].filter((one) => !after.has(one)).length;
  return after.size > 0 && lost <= Math.max(1, before.size * limits.endpointsLostShareMax);
}
