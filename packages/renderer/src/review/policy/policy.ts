import type { BundleFiles } from '@sluice/bundle';
import { compareText, type Problem } from '@sluice/netfilter';
import { Memory } from '../bundle/memory.ts';
import { ReviewStopped } from '../bundle/node.ts';
import { type BundleView, viewOf } from '../bundle/view.ts';
import { endpointRanges, externalIPs, localAddresses, rangesOfOneFamily, takenAddresses } from './addresses.ts';
import { type FindingLevel, policyRules, type PolicySubject } from './catalogue.ts';
import { changedFacts, lostServices, widenedRanges } from './changes.ts';
import { endpointsChanged, nodesChanged, profilesChanged } from './extent.ts';
import type { PolicyFinding, Violation } from './finding.ts';
import { deprecatedExternalIPs, endingModes, overlaps } from './frontends.ts';
import { checkInput, type ReviewedInput } from './input.ts';
import { serviceEntries } from '../facts/service-entries.ts';
import { type PlaceLoss, lossesOf, singlePlaces } from './losses.ts';
import { localhostNodePorts, nodePortsWidened } from './node-ports.ts';
import type { ChangeContext, PolicyContext, ReviewedBundle } from './context.ts';
import { levelOf, type PolicySettings } from './settings.ts';
import { routeLocalnet, sysctlsChanged } from './sysctls.ts';
import { survivals } from './survives.ts';
import { waive } from './waivers.ts';

/** The input of a policy check. */
interface PolicyInput {
  readonly files: BundleFiles;
  /** The bundle that it replaces; without it rules about changes are not checked. */
  readonly base?: BundleFiles;
  /** The objects that were rendered; without them rules about input are not checked. */
  readonly input?: ReviewedInput;
  readonly settings: PolicySettings;
  /** `2026-11-21`: the day against which waivers expire. */
  readonly today: string;
}

/** The result of a policy check. */
export interface PolicyResult {
  /** By level, the gravest first, then by code, subject and message. */
  readonly findings: readonly PolicyFinding[];
  /** Service ports that are unavailable when a node or a zone fails. */
  readonly losses: readonly PlaceLoss[];
  /** What rules were checked about: always `bundle`. */
  readonly checked: readonly PolicySubject[];
}

/** Rules about one bundle. */
const stateRules = [
  externalIPs,
  deprecatedExternalIPs,
  endingModes,
  endpointRanges,
  localAddresses,
  routeLocalnet,
  takenAddresses,
  overlaps,
  localhostNodePorts,
  rangesOfOneFamily,
  singlePlaces,
  survivals,
] as const satisfies readonly ((context: PolicyContext) => readonly Violation[])[];

/** Rules about changes. */
const changeRules = [
  lostServices,
  changedFacts,
  widenedRanges,
  nodePortsWidened,
  endpointsChanged,
  nodesChanged,
  profilesChanged,
  sysctlsChanged,
] as const satisfies readonly ((context: ChangeContext) => readonly Violation[])[];

/**
 * Checks a bundle against the policy. Pure: the day is an argument.
 * @returns the findings, waived or not; or the problems for which nodes would refuse a bundle
 */
export function checkPolicy({ files, base, ...rest }: PolicyInput): PolicyResult | readonly Problem[] {
  const memory = new Memory();
  const view = viewOf(files, memory);
  if (!('index' in view)) return view;
  const before = base && viewOf(base, memory);
  if (before && !('index' in before)) return before;
  return checkViews({ view, ...(before && { base: before }), ...rest });
}

/** The input of a policy check whose bundles are parsed; they should share one memory. */
interface ViewedInput extends Pick<PolicyInput, 'input' | 'settings' | 'today'> {
  readonly view: BundleView;
  readonly base?: BundleView;
}

/** `checkPolicy` for views. */
export function checkViews({ view, base, input, settings, today }: ViewedInput): PolicyResult | readonly Problem[] {
  const side = sideOf(view);
  const before = base && sideOf(base);
  if (!('view' in side)) return side;
  if (before && !('view' in before)) return before;
  const context: PolicyContext = { ...side, settings };
  const found = [
    ...stateRules.flatMap((rule) => rule(context)),
    ...(before === undefined ? [] : changeRules.flatMap((rule) => rule({ ...context, base: before }))),
    ...(input === undefined ? [] : checkInput(input)),
  ];
  const checked: readonly PolicySubject[] = [
    'bundle',
    ...(before === undefined ? [] : (['change'] as const)),
    ...(input === undefined ? [] : (['input'] as const)),
  ];
  const findings = [...waive(ranked(found, settings), settings, today, checked)].toSorted(compareFindings);
  return { findings, losses: lossesOf(context), checked };
}

function sideOf(view: BundleView): ReviewedBundle | readonly Problem[] {
  try {
    return { view, services: serviceEntries(view) };
  } catch (error) {
    if (error instanceof ReviewStopped) return error.problems;
    throw error;
  }
}

/** Findings with their level, without duplicates from several profiles. */
function ranked(found: readonly Violation[], settings: PolicySettings): readonly PolicyFinding[] {
  const known = new Map<string, PolicyFinding>();
  for (const one of found) {
    const level = levelOf(one.code, settings);
    const key = `${one.code} ${one.subject} ${one.message}`;
    if (level !== undefined && !known.has(key)) known.set(key, { ...one, level, reason: policyRules[one.code].reason });
  }
  return [...known.values()];
}

const order = { error: 0, warning: 1, note: 2 } as const satisfies Record<FindingLevel, number>;

function compareFindings(a: PolicyFinding, b: PolicyFinding): number {
  return (
    Number(a.waived !== undefined) - Number(b.waived !== undefined) ||
    order[a.level] - order[b.level] ||
    compareText(a.code, b.code) ||
    compareText(a.subject, b.subject) ||
    compareText(a.message, b.message)
  );
}

/** The findings that fail the command. @param strict warnings fail it too */
export function failing({ findings }: PolicyResult, strict: boolean): readonly PolicyFinding[] {
  return findings.filter(
    ({ waived, level }) => waived === undefined && (level === 'error' || (strict && level === 'warning')),
  );
}
