import { type FindingLevel, type PolicyCode, type PolicyLevel, policyRules } from './catalogue.ts';

/** `policy` of sluice.yaml. */
export interface PolicySettings {
  readonly levels?: Readonly<Partial<Record<PolicyCode, PolicyLevel>>>;
  /** CIDRs in which external IPs may lie; empty: none may be. */
  readonly externalIPs?: readonly string[];
  /** CIDRs besides the pod networks in which endpoints may lie. */
  readonly endpointRanges?: readonly string[];
  /** Addresses that no Service may have, such as routers and resolvers outside of the cluster. */
  readonly protected?: readonly string[];
  readonly endpointsChangedPercent?: number;
  readonly nodesChangedPercent?: number;
  readonly ruleGrowthPercent?: number;
  readonly waivers?: readonly Waiver[];
}

/** An exception that somebody answers for. */
export interface Waiver {
  readonly rule: PolicyCode;
  /** What it is for, as findings name it: `shop/web`, `profile default`; absent: everything. */
  readonly subject?: string;
  readonly reason: string;
  /** The last day on which it holds, `2026-12-31`. */
  readonly expires: string;
}

/** What holds where sluice.yaml says nothing. */
export const policyDefaults = {
  endpointsChangedPercent: 50,
  nodesChangedPercent: 100,
  ruleGrowthPercent: 50,
} as const;

/** The level of a rule; undefined where it is off. */
export function levelOf(code: PolicyCode, settings: PolicySettings): FindingLevel | undefined {
  const level: PolicyLevel = settings.levels?.[code] ?? policyRules[code].level;
  return level === 'off' ? undefined : level;
}
