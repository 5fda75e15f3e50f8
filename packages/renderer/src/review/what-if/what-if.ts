import type { BundleFiles } from '@sluice/bundle';
import { compareText, type Problem } from '@sluice/netfilter';
import { type BundleView, viewOf } from '../bundle/view.ts';
import { isBroken, passes, type PortEffect } from '../failures/effect.ts';
import type { FailedPlace } from '../failures/failure.ts';
import { type Failures, failuresOf } from '../failures/failures.ts';
import type { PolicySettings } from '../policy/settings.ts';
import { type BrokenRule, brokenRules, type RuleQuestion } from './broken-rules.ts';

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
 * @returns the rows, the worst first; or the problems of the bundle, also when a place of `without` is not in it
 */
export function whatIf(files: BundleFiles, question: WhatIfQuestion): WhatIf | readonly Problem[] {
  const view = viewOf(files);
  if (!('index' in view)) return view;
  const failures = failuresOf(view);
  const unknown = question.without.filter((place) => !isKnown(failures, place));
  if (unknown.length > 0) return unknown.map((place) => unknownPlace(failures, place));
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
  return {
    code: 'INPUT_EMPTY',
    level: 'error',
    message: `Cannot judge the bundle without ${kind} ${name}: it has no such ${kind}`,
    hint: names.length === 0 ? `The bundle names no ${kind}` : `It has ${some}`,
  };
}
