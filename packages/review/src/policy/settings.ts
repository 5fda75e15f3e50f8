import { type FindingLevel, type PolicyCode, type PolicyLevel, policyRules } from './catalogue.ts';

/** `policy` of sluice.yaml. */
export interface PolicySettings {
  readonly levels?: Readonly<Partial<Record<PolicyCode, PolicyLevel>>>;
  /** CIDRs of permitted external IPs; empty: none is permitted. */
  readonly externalIPs?: readonly string[];
  /** CIDRs of permitted endpoints besides the pod networks. */
  readonly endpointRanges?: readonly string[];
  /** Addresses that no Service may have, such as routers and resolvers outside of the cluster. */
  readonly protected?: readonly string[];
  readonly endpointsChangedPercent?: number;
  readonly nodesChangedPercent?: number;
  readonly ruleGrowthPercent?: number;
  readonly survives?: SurvivalSettings;
  readonly waivers?: readonly Waiver[];
}

/** `policy.survives`: what must stay up when a node or a zone fails. */
export interface SurvivalSettings {
  /** `shop/web`, or `shop/*` for a namespace; absent: all. */
  readonly services?: readonly string[];
  /** The percentage of a port's connections that one endpoint may get. */
  readonly sharePercent?: number;
}

/** An accepted exception. */
export interface Waiver {
  readonly rule: PolicyCode;
  /** The subject of findings: `shop/web`, `profile default`; absent: every subject. */
  readonly subject?: string;
  readonly reason: string;
  /** Its last day, `2026-12-31`. */
  readonly expires: string;
}

/** Defaults for settings that sluice.yaml leaves out. */
export const policyDefaults = {
  endpointsChangedPercent: 50,
  nodesChangedPercent: 100,
  ruleGrowthPercent: 50,
  survivesSharePercent: 100,
} as const;

/** The level of a rule; undefined where it is off. */
export function levelOf(code: PolicyCode, settings: PolicySettings): FindingLevel | undefined {
  const level: PolicyLevel = settings.levels?.[code] ?? policyRules[code].level;
  return level === 'off' ? undefined : level;
}
