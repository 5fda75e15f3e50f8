import { usable } from '../bundle/endpoints.ts';
import type { BundleFiles, HeaderNotes } from '@sluice/bundle';
import { appendTo, compareText, type Problem, refusal, Stopped } from '@sluice/netfilter';
import { type BundleView, viewOf } from '../bundle/view.ts';
import type { EndpointFacts, PortFacts } from '../facts/facts.ts';
import type { ServiceEntries, ServiceEntry } from '../facts/service-entries.ts';
import { isBroken, passes, type PortEffect } from '../failures/effect.ts';
import type { FailedPlace, Outage } from '../failures/failure.ts';
import { type Failures, failuresOf } from '../failures/failures.ts';
import type { DeclaredPort } from '../failures/ports.ts';
import type { FindingLevel, PolicyCode } from '../policy/catalogue.ts';
import { lostServices } from '../policy/changes.ts';
import type { PolicyContext } from '../policy/context.ts';
import type { Violation } from '../policy/finding.ts';
import { singlePlaces } from '../policy/losses.ts';
import { levelOf, type PolicySettings } from '../policy/settings.ts';
import { waiverOf } from '../policy/waivers.ts';

/** A rule of the policy that a failure breaks. */
interface BrokenRule {
  readonly code: PolicyCode;
  readonly level: FindingLevel;
  /** Of findings without a waiver, in byte order: `shop/web`. */
  readonly subjects: readonly string[];
}

/** A bundle with the policy that is to hold after a failure, too. */
interface RuleQuestion {
  readonly view: BundleView;
  readonly failures: Failures;
  readonly settings: PolicySettings;
  readonly today: string;
}

/**
 * The rules about endpoints that a bundle without the lost ones would break: LAST_ENDPOINT, and SINGLE_NODE and SINGLE_ZONE where they
 * are not broken already. Rules about addresses and settings see no difference.
 */
function brokenRules(
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
    appendTo(entries, `${service} ${family}`, { path, profile: profiles[0]!, facts });
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

/** What to let fail. */
interface WhatIfQuestion {
  /** All of them fail at once. Empty: every node and every zone, one after the other. */
  readonly without: readonly FailedPlace[];
  /** With an empty `without`: every endpoint, too. */
  readonly endpoints: boolean;
  /** The share of a port's connections that one endpoint may get, in percent; 100: any. */
  readonly sharePercent: number;
  readonly settings: PolicySettings;
  /** `2026-11-21`: the day against which waivers expire. */
  readonly today: string;
}

/** What failures do to a bundle. */
export interface WhatIf {
  readonly sharePercent: number;
  readonly nodes: number;
  readonly zones: number;
  readonly services: number;
  /** Endpoints by address and port. */
  readonly endpoints: number;
  /** Endpoints whose node, or zone, the bundle does not say: they survive every failure of one. */
  readonly unplaced: { readonly node: number; readonly zone: number };
  /** The worst first. */
  readonly rows: readonly FailureRow[];
}

/** One failure. */
export interface FailureRow {
  readonly places: readonly FailedPlace[];
  /** Nodes that are lost. */
  readonly nodes: number;
  /** Endpoints that are lost, by address and port. */
  readonly endpoints: number;
  /** Services that lose an endpoint. */
  readonly services: number;
  /** Ports that lose every endpoint, and those that do so on some nodes only. */
  readonly gone: number;
  readonly partly: number;
  /** Frontends that no node answers for clients from outside. */
  readonly dark: number;
  /** Ports of which one endpoint comes to get more than `sharePercent`. */
  readonly overloaded: number;
  /** The ports that these numbers count, and those whose traffic leaves its zone; by key. */
  readonly effects: readonly PortEffect[];
  /** Rules of the policy that hold now, and are broken then. */
  readonly rules: readonly BrokenRule[];
}

/** Whether a failure takes something from clients. @param sharePercent of the question */
export const breaks = ({ gone, partly, dark, overloaded }: FailureRow): boolean =>
  gone + partly + dark + overloaded > 0;

/**
 * Judges failures by what a bundle declares.
 * @returns the rows, the worst first
 * @throws Stopped with the problems of the bundle, also when a place of `without` is not in it
 */
export function whatIf(files: BundleFiles, question: WhatIfQuestion): WhatIf {
  const view = viewOf(files);
  const failures = failuresOf(view);
  const unknown = question.without.filter((place) => !isKnown(failures, place));
  if (unknown.length > 0) throw new Stopped(unknown.map((place) => unknownPlace(failures, place)));
  const context = { view, failures, settings: question.settings, today: question.today };
  const most = question.sharePercent / 100;
  const rows = failuresToJudge(failures, question).map((places) => rowOf(context, places, most));
  return { sharePercent: question.sharePercent, ...extentOf(view, failures), rows: rows.toSorted(compareRows) };
}

function failuresToJudge(
  failures: Failures,
  { without, endpoints }: WhatIfQuestion,
): readonly (readonly FailedPlace[])[] {
  if (without.length > 0) return [without];
  const kinds = endpoints ? (['zone', 'node', 'endpoint'] as const) : (['zone', 'node'] as const);
  return kinds.flatMap((kind) => failures.names(kind).map((name) => [{ kind, name }]));
}

function rowOf(context: RuleQuestion, places: readonly FailedPlace[], most: number): FailureRow {
  const { outage, endpoints, effects } = context.failures.effects(places);
  const broken = effects.filter((effect) => isBroken(effect, most));
  return {
    places,
    nodes: context.view.nodes.size - outage.survivors.zones.size,
    endpoints,
    services: new Set(effects.map(({ port }) => port.service)).size,
    gone: count(effects, ({ isGone }) => isGone),
    partly: count(effects, ({ without }) => without.length > 0),
    dark: new Set(effects.flatMap(({ port, dark }) => dark.map((frontend) => `${port.key} ${frontend}`))).size,
    overloaded: count(effects, (effect) => passes(effect, most)),
    effects: effects.filter((effect) => effect.leaving.length > 0 || broken.includes(effect)),
    rules: brokenRules(context, effects, outage),
  };
}

/** Ports, each once, though profiles may declare it differently. */
function count(effects: readonly PortEffect[], isIt: (effect: PortEffect) => boolean): number {
  return new Set(effects.filter(isIt).map(({ port }) => `${port.key} ${port.family}`)).size;
}

function compareRows(a: FailureRow, b: FailureRow): number {
  return (
    b.gone - a.gone ||
    b.dark - a.dark ||
    b.partly - a.partly ||
    b.overloaded - a.overloaded ||
    b.endpoints - a.endpoints ||
    b.rules.length - a.rules.length ||
    compareText(nameOf(a), nameOf(b))
  );
}

const nameOf = ({ places }: FailureRow): string => places.map(placeText).join();

/** `node node-a` */
export const placeText = ({ kind, name }: FailedPlace): string => `${kind} ${name}`;

function extentOf(view: BundleView, failures: Failures): Omit<WhatIf, 'sharePercent' | 'rows'> {
  const all = new Map(failures.ports.flatMap(({ endpoints }) => endpoints.map((one) => [one.text, one])));
  const without = (kind: 'node' | 'zone'): number => [...all.values()].filter((one) => one[kind] === undefined).length;
  return {
    nodes: view.nodes.size,
    zones: failures.names('zone').length,
    services: new Set(failures.ports.map(({ service }) => service)).size,
    endpoints: all.size,
    unplaced: { node: without('node'), zone: without('zone') },
  };
}

function isKnown(failures: Failures, { kind, name }: FailedPlace): boolean {
  if (kind !== 'endpoint' || failures.names(kind).includes(name)) return failures.names(kind).includes(name);
  return failures.ports.some(({ endpoints }) => endpoints.some(({ text }) => text === name));
}

/** The most names in a hint. */
const namedMax = 5;

function unknownPlace(failures: Failures, { kind, name }: FailedPlace): Problem {
  const names = failures.names(kind);
  const some = names.slice(0, namedMax).join(', ') + (names.length > namedMax ? `, … (${names.length} in all)` : '');
  return refusal(
    'INPUT_EMPTY',
    `Cannot judge the bundle without ${kind} ${name}: it has no such ${kind}`,
    names.length === 0 ? `The bundle names no ${kind}` : `It has ${some}`,
  );
}
