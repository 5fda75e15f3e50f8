import { compareText } from '@sluice/netfilter';
import type { HeaderNotes } from '../bundle/header.ts';
import type { BundleView } from '../bundle/view.ts';
import type { EndpointFacts, PortFacts } from '../facts/facts.ts';
import type { ServiceEntries, ServiceEntry } from '../facts/service-entries.ts';
import type { PortEffect } from '../failures/effect.ts';
import type { Outage } from '../failures/failure.ts';
import type { Failures } from '../failures/failures.ts';
import type { DeclaredPort } from '../failures/ports.ts';
import { usable } from '../failures/selection.ts';
import type { FindingLevel, PolicyCode } from '../policy/catalogue.ts';
import { lostServices } from '../policy/changes.ts';
import type { PolicyContext } from '../policy/context.ts';
import type { Violation } from '../policy/finding.ts';
import { singlePlaces } from '../policy/losses.ts';
import { levelOf, type PolicySettings } from '../policy/settings.ts';
import { waiverOf } from '../policy/waivers.ts';

/** A rule of the policy that a failure breaks. */
export interface BrokenRule {
  readonly code: PolicyCode;
  readonly level: FindingLevel;
  /** Of findings without a waiver, in byte order: `shop/web`. */
  readonly subjects: readonly string[];
}

/** A bundle with the policy that is to hold after a failure, too. */
export interface RuleQuestion {
  readonly view: BundleView;
  readonly failures: Failures;
  readonly settings: PolicySettings;
  readonly today: string;
}

/**
 * The rules about endpoints that a bundle without the lost ones would break: LAST_ENDPOINT, and SINGLE_NODE and SINGLE_ZONE where they
 * are not broken already. Rules about addresses and settings see no difference.
 */
export function brokenRules(
  { view, settings, today }: RuleQuestion,
  effects: readonly PortEffect[],
  { isLost, survivors }: Outage,
): readonly BrokenRule[] {
  const ports = effects.map(({ port }) => port);
  const nodes = new Map([...view.nodes].filter(([name]) => survivors.zones.has(name)));
  const before: PolicyContext = { view, settings, services: entriesOf(ports, () => false) };
  const after: PolicyContext = { view: { ...view, nodes }, settings, services: entriesOf(ports, isLost) };
  const known = new Set(singlePlaces(before).map(keyOf));
  const found = [
    ...lostServices({ ...after, base: before }),
    ...singlePlaces(after).filter((one) => !known.has(keyOf(one))),
  ].filter((one) => waiverOf(one, settings, today) === undefined);
  return [...Map.groupBy(found, ({ code }) => code)]
    .flatMap(([code, list]) => {
      const level = levelOf(code, settings);
      const subjects = [...new Set(list.map(({ subject }) => subject))].toSorted(compareText);
      return level === undefined ? [] : [{ code, level, subjects }];
    })
    .toSorted((a, b) => compareText(a.code, b.code));
}

/** A Service for which a rule is broken already does not count. */
const keyOf = ({ code, subject }: Violation): string => `${code} ${subject}`;

function entriesOf(ports: readonly DeclaredPort[], isLost: Outage['isLost']): ServiceEntries {
  const entries = new Map<string, ServiceEntry[]>();
  for (const own of Map.groupBy(ports, ({ path, family }) => `${path} ${family}`).values()) {
    const { service, family, path, profiles } = own[0]!;
    const facts = { service, family, ports: own.map((port) => factsOf(port, isLost)) };
    const key = `${service} ${family}`;
    entries.set(key, [...(entries.get(key) ?? []), { path, profile: profiles[0]!, facts }]);
  }
  return entries;
}

/** As far as rules about endpoints read it. */
function factsOf(
  { key, endpoints, internalPolicy, externalPolicy }: DeclaredPort,
  isLost: Outage['isLost'],
): PortFacts {
  return {
    key,
    protocol: 'tcp',
    addresses: [],
    nodePort: 0,
    endpoints: usable(endpoints.filter((one) => !isLost(one))).map(placed),
    internalPolicy,
    externalPolicy,
    sourceRanges: [],
    healthCheckPort: 0,
  };
}

const placed = ({ text, node, zone }: HeaderNotes['endpoints'][number]): EndpointFacts => ({
  text,
  ...(node === undefined ? {} : { node }),
  ...(zone === undefined ? {} : { zone }),
});
