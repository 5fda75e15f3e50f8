import { type BundleFiles, profileFile, sysctlFile, valueOf } from '@sluice/bundle';
import { compareText, modeFacts, shortList } from '@sluice/netfilter';
import { usable } from '../bundle/endpoints.ts';
import { Memory } from '../bundle/memory.ts';
import { nodesOfProfile } from '../bundle/node.ts';
import { type BundleView, viewOf } from '../bundle/view.ts';
import { lineOf, serviceEntries } from '../facts/service-entries.ts';
import { isBroken, passes, type PortEffect } from '../failures/effect.ts';
import type { FailedPlace } from '../failures/failure.ts';
import { type Failures, failuresOf } from '../failures/failures.ts';
import type { DeclaredPort } from '../failures/ports.ts';
import { endpointRanges, externalIPs, localAddresses, rangesOfOneFamily, takenAddresses } from './addresses.ts';
import { type FindingLevel, policyRules, type PolicySubject } from './catalogue.ts';
import { changedFacts, lostServices, widenedRanges } from './changes.ts';
import type { ChangeContext, PolicyContext, ReviewedBundle } from './context.ts';
import { endpointsChanged, nodesChanged, profilesChanged } from './extent.ts';
import type { PolicyFinding, Violation, Violations } from './finding.ts';
import { deprecatedExternalIPs, endingModes, overlaps } from './frontends.ts';
import { checkInput, type ReviewedInput } from './input.ts';
import { lossesOf, type PlaceLoss, severalKinds, singlePlaces } from './losses.ts';
import { localhostNodePorts, nodePortsWidened } from './node-ports.ts';
import { levelOf, policyDefaults, type PolicySettings, type SurvivalSettings } from './settings.ts';
import { waive } from './waivers.ts';

const codes = { node: 'SURVIVES_NODE', zone: 'SURVIVES_ZONE' } as const;

/** SURVIVES_NODE and SURVIVES_ZONE: one finding for each Service and family. Every single failure is judged, so nothing is done while they are off. */
function survivals(context: PolicyContext): readonly Violation[] {
  const kinds = severalKinds(context).filter((kind) => levelOf(codes[kind], context.settings) !== undefined);
  if (kinds.length === 0) return [];
  const failures = failuresOf(context.view);
  return kinds.flatMap((kind) => survivalsOf(failures, kind, context.settings.survives ?? {}));
}

/** What a failure breaks. */
interface Casualty {
  readonly place: FailedPlace;
  readonly effect: PortEffect;
}

function survivalsOf(failures: Failures, kind: 'node' | 'zone', settings: SurvivalSettings): readonly Violation[] {
  const most = (settings.sharePercent ?? policyDefaults.survivesSharePercent) / 100;
  const isMeant = meant(settings.services);
  const found = failures.names(kind).flatMap((name): readonly Casualty[] => {
    const place = { kind, name };
    const { effects } = failures.effects([place]);
    return effects
      .filter((effect) => isMeant(effect.port.service) && isBroken(effect, most))
      .map((effect) => ({ place, effect }));
  });
  const groups = Map.groupBy(found, ({ effect: { port } }) => `${port.service} ${port.family} ${port.path}`);
  const broken = [...groups.values()].map((casualties) => violationOf(kind, casualties, most));
  const isIdle = ({ service, endpoints }: DeclaredPort): boolean => isMeant(service) && usable(endpoints).length === 0;
  const idle = settings.services === undefined ? [] : failures.ports.filter(isIdle);
  const unjudged = new Map(idle.map((port) => [`${port.service} ${port.family}`, unjudgedOf(kind, port)]));
  return [...broken, ...unjudged.values()];
}

/** What must stay up, and has nothing that it could lose. */
const unjudgedOf = (kind: 'node' | 'zone', { key, service, family, path }: DeclaredPort): Violation => ({
  code: codes[kind],
  subject: service,
  message: `Cannot tell whether ${key} survives the loss of a ${kind}: the bundle has no endpoint of it (${family})`,
  hint: 'Judge a bundle with the endpoints of the cluster, such as one of sluice render --from-cluster',
  path,
  line: 1,
});

/** Whether a Service is one of the list. @param list `shop/web`, `shop/*`; absent: every Service is */
function meant(list: readonly string[] | undefined): (service: string) => boolean {
  const names = new Set(list);
  return (service) =>
    list === undefined || names.has(service) || names.has(`${service.slice(0, service.indexOf('/'))}/*`);
}

/** Places that a message names. */
const namedMax = 3;

function violationOf(kind: 'node' | 'zone', casualties: readonly Casualty[], most: number): Violation {
  const { effect } = casualties[0]!;
  const { port } = effect;
  const places = [...new Set(casualties.map(({ place }) => place.name))];
  const others = new Set(casualties.map((one) => one.effect.port.key)).size - 1;
  const named = `${kind}${places.length > 1 ? 's' : ''} ${shortList(places, namedMax)}`;
  const ports = others === 0 ? '' : `; ${others} more of its ports, too`;
  return {
    code: codes[kind],
    subject: port.service,
    message: `Cannot survive the loss of ${places.length > 1 ? 'one of ' : ''}${named}: ${lossOf(effect, most)} (${port.family})${ports}`,
    hint: `Run more endpoints, on more than one ${kind}`,
    path: port.path,
    line: 1,
  };
}

function lossOf(effect: PortEffect, most: number): string {
  const { port, isGone, dark, share } = effect;
  if (isGone) return `${port.key} has no endpoint then`;
  if (dark.length > 0) return `no node answers ${dark[0]} of ${port.key} then`;
  if (passes(effect, most)) {
    const percent = Math.round(share.after * 100);
    return `${share.endpoint} gets ${percent} % of the connections to ${port.key} then`;
  }
  return `${port.key} has no endpoint on ${effect.without[0]!.nodes[0]} then`;
}

/** SYSCTL_CHANGED: by key, for each profile of both bundles. */
function sysctlsChanged(context: ChangeContext): readonly Violation[] {
  const { view, base } = context;
  return [...view.profiles.keys()].flatMap((name) => {
    const path = sysctlFile(name);
    if (!base.view.profiles.has(name)) return [];
    const [old, updated] = [sysctlsIn(base.view.files, path), sysctlsIn(view.files, path)];
    return [...new Set([...old.keys(), ...updated.keys()])].toSorted().flatMap((key) => {
      const change = changeOf(context, name, old.get(key), updated.get(key));
      if (change === undefined) return [];
      return {
        code: 'SYSCTL_CHANGED',
        subject: `profile ${name}`,
        message: `Sysctl ${key} will change ${change}; review required`,
        hint: 'A sysctl applies to everything on the nodes of the profile; one that is no longer set keeps its last value',
        path: updated.has(key) ? path : profileFile(name),
        line: updated.has(key) ? lineOf(view, path, key) : 1,
      };
    });
  });
}

const nodeVariable = /^\$\{node\.([A-Za-z]+)\}$/;

/** `from 1 to 2`; undefined for an equal value. A variable may have changed its value on some nodes. */
function changeOf(
  { view, base }: ChangeContext,
  profile: string,
  old: string | undefined,
  updated: string | undefined,
): string | undefined {
  if (old !== updated) return `from ${old ?? 'not set'} to ${updated ?? 'not set'}`;
  const name = nodeVariable.exec(updated ?? '')?.[1];
  if (name === undefined) return undefined;
  const values = nodesOfProfile(view, profile).flatMap((node) => {
    const [was, is] = [base.view.nodes.get(node), view.nodes.get(node)!];
    const [before, after] = [was, is].map((file) => String(valueOf(file?.values ?? {}, undefined, name) ?? 'not set'));
    return was === undefined || before === after ? [] : [`from ${before} to ${after}`];
  });
  if (values.length === 0) return undefined;
  return `${values[0]}${values.length === 1 ? ' on 1 node' : `, … on ${values.length} nodes`}`;
}

/** ROUTE_LOCALNET */
function routeLocalnet({ view }: PolicyContext): readonly Violation[] {
  return [...view.profiles].flatMap(([name, { mode }]) => {
    const path = sysctlFile(name);
    return [...sysctlsIn(view.files, path)]
      .filter(([key, value]) => key.endsWith('.route_localnet') && value === '1')
      .map(([key]) => ({
        code: 'ROUTE_LOCALNET',
        subject: `profile ${name}`,
        message: `Cannot keep other hosts from loopback addresses by routing alone: ${key} is 1`,
        hint: `${
          modeFacts[mode].nodePorts.onLoopback
            ? 'Set `iptables.localhostNodePorts: false`'
            : 'Take loopback addresses out of `nodePortAddresses`'
        } if no client uses node ports on 127.0.0.1`,
        path,
        line: lineOf(view, path, key),
      }));
  });
}

/** Values by key with its guard. Values are as written: some are variables that each node fills in. */
function sysctlsIn(files: BundleFiles, path: string): ReadonlyMap<string, string> {
  const lines = (files.get(path) ?? '').matchAll(/^([^#\s].*?) = (.*)$/gm);
  return new Map(Array.from(lines, ([, key = '', value = '']) => [key, value] as const));
}

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
] as const satisfies readonly ((context: PolicyContext) => Violations)[];

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
] as const satisfies readonly ((context: ChangeContext) => Violations)[];

/**
 * Checks a bundle against the policy. Pure: the day is an argument.
 * @returns the findings, waived or not
 * @throws Stopped with the problems for which nodes would refuse a bundle
 */
export function checkPolicy({ files, base, ...rest }: PolicyInput): PolicyResult {
  const memory = new Memory();
  const view = viewOf(files, memory);
  return checkViews({ view, ...(base && { base: viewOf(base, memory) }), ...rest });
}

/** The input of a policy check whose bundles are parsed; they should share one memory. */
interface ViewedInput extends Pick<PolicyInput, 'input' | 'settings' | 'today'> {
  readonly view: BundleView;
  readonly base?: BundleView;
}

/** `checkPolicy` for views. */
export function checkViews({ view, base, input, settings, today }: ViewedInput): PolicyResult {
  const context: PolicyContext = { ...sideOf(view), settings };
  const before = base && sideOf(base);
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

const sideOf = (view: BundleView): ReviewedBundle => ({ view, services: serviceEntries(view) });

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
