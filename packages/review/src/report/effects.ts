import { sysctlFile } from '@sluice/bundle';
import { compareText, plural } from '@sluice/netfilter';
import type { BundleDiff } from '../diff/diff.ts';
import type { ChangedFlow } from '../diff/flow-changes.ts';
import type { ProfileChange } from '../diff/profile-changes.ts';
import type { FlowOutcome } from '../flows/flow.ts';
import type { Effect, SingleEffect } from './effect.ts';
import { factEffects } from './fact-effects.ts';
import type { ReportService } from './services.ts';
import { compareSeverity, type Severity } from './severity.ts';
import { effectOf } from './turn.ts';
import { destinationText, sourceText } from './words.ts';

/** What changes of profiles, nodes and settings do. */
function profileEffects({ profiles, nodes, settings }: BundleDiff): readonly SingleEffect[] {
  const moved = new Set(profiles.flatMap(({ profile, what }) => (what === 'mode' ? [profile] : [])));
  const own = profiles.filter(({ profile, what }) => what === 'mode' || !moved.has(profile));
  const files = settings.filter(({ file }) => !own.some((change) => covers(change, file)));
  return [
    ...own.map(profileEffect),
    ...nodes.added.map((node) => other('adds', 'joins the cluster', node)),
    ...nodes.removed.map((node) => other('closes', 'leaves the cluster', node)),
    ...files.map(({ file, old, new: updated }) => {
      const lines = [
        updated.length > 0 ? `${plural(updated.length, 'line')} added` : '',
        old.length > 0 ? `${plural(old.length, 'line')} removed` : '',
      ];
      return other('settings', 'has other settings', file, lines.filter(Boolean).join(', '));
    }),
  ];
}

/** Whether a change of a profile says what a changed file of it does. All files of a profile follow from its mode. */
function covers({ profile, what }: ProfileChange, file: string): boolean {
  if (what === 'mode') return file.startsWith(`profiles/${profile}/`);
  const isSysctl = file === sysctlFile(profile);
  return what === 'sysctl' ? isSysctl : !isSysctl && file.startsWith(`profiles/${profile}/base/`);
}

function profileEffect({ profile, nodes, what, old, new: updated }: ProfileChange): SingleEffect {
  const [name, on] = [`profile ${profile}`, plural(nodes, 'node')];
  const turn = `${old ?? 'none'} → ${updated ?? 'none'}, on ${on}`;
  if (what === 'mode') {
    const mode = updated?.split(',')[0] ?? '';
    return other('connections', `changes to mode ${mode}: established connections break`, name, turn);
  }
  if (what === 'sysctl') return other('settings', 'changes a sysctl of its nodes', name, turn);
  return other('settings', `treats other packets differently (${whats[what]})`, name, turn);
}

const whats = {
  established: 'packets of established connections',
  invalid: 'packets of no connection',
  masqueraded: 'first packets to be masqueraded',
  mark: 'the mark for masquerading',
  'source-ports': 'source ports of masqueraded connections',
} as const satisfies Record<Exclude<ProfileChange['what'], 'mode' | 'sysctl'>, string>;

const other = (severity: Severity, sentence: string, name: string, detail = ''): SingleEffect => ({
  severity,
  sentence,
  name,
  isService: false,
  detail,
});

/**
 * What changed flows do beyond what declarations say: source addresses, and what base rules, guards or nodes change. A Service whose
 * declarations have the same severity is not named again.
 */
function flowEffects(
  { flows }: BundleDiff,
  services: readonly ReportService[],
  declared: readonly SingleEffect[],
): readonly SingleEffect[] {
  const outside = outsideAddresses(services);
  const known = knownSeverities(declared);
  return flows.flatMap((flow) => {
    const [severity, sentence] = judge(flow, outside);
    const names = flow.destination.services.length === 0 ? ['other traffic'] : flow.destination.services;
    return names.flatMap((name): readonly SingleEffect[] =>
      covering[severity].some((one) => known.get(name)?.has(one))
        ? []
        : [{ severity, sentence, name, isService: flow.destination.services.length > 0, detail: detailOf(flow) }],
    );
  });
}

/** The severities of declarations that already say what a flow of a severity says. */
const covering = {
  'last-endpoint': ['last-endpoint'],
  opens: ['opens'],
  'source-address': [],
  connections: ['connections'],
  closes: ['last-endpoint', 'closes'],
  moves: ['opens', 'connections', 'closes', 'moves', 'adds'],
  adds: ['adds', 'opens'],
  settings: [],
} as const satisfies Record<Severity, readonly Severity[]>;

function knownSeverities(declared: readonly SingleEffect[]): ReadonlyMap<string, ReadonlySet<Severity>> {
  const known = new Map<string, Set<Severity>>();
  for (const { name, severity } of declared) known.set(name, (known.get(name) ?? new Set()).add(severity));
  return known;
}

/** Addresses that clients outside of the cluster use; `203.0.113.9:80`. */
function outsideAddresses(services: readonly ReportService[]): ReadonlySet<string> {
  return new Set(
    services.flatMap(({ frontends }) =>
      frontends.flatMap(({ kind, text }) => (kind === 'external' || kind === 'load-balancer' ? [text] : [])),
    ),
  );
}

function judge(flow: ChangedFlow, outside: ReadonlySet<string>): readonly [Severity, string] {
  const turn = effectOf(flow.old, flow.new);
  if (turn === 'closes') return ['closes', 'no longer accepts connections'];
  if (turn === 'opens') {
    return isFromOutside(flow, outside)
      ? ['opens', 'accepts connections from outside that it did not accept']
      : ['adds', 'accepts connections that it did not accept'];
  }
  // On most nodes such a packet cannot be: an endpoint is elsewhere.
  if ([flow.source, ...flow.alsoFrom].every((one) => one.class === 'endpoint'))
    return ['moves', 'treats connections of its own endpoints differently'];
  const mask = maskOf(flow.old, flow.new);
  if (mask === 'on') return ['source-address', "shows its endpoints a node's address instead of the client's"];
  if (mask === 'off') return ['source-address', "shows its endpoints the client's address instead of a node's"];
  return ['moves', refusalTurn(flow.old, flow.new) ?? 'sends connections elsewhere, or in other shares'];
}

/** What happens to packets that are served neither before nor after a change; undefined for others. */
function refusalTurn({ branches: old }: FlowOutcome, { branches: updated }: FlowOutcome): string | undefined {
  const isUnserved = [...old, ...updated].every(({ verdict }) => verdict !== 'dnat' && verdict !== 'accept');
  if (!isUnserved) return undefined;
  const passes = (branches: FlowOutcome['branches']): boolean => branches.some(({ verdict }) => verdict === 'pass');
  const [did, does] = [passes(old), passes(updated)];
  if (did === does) return 'refuses packets in another way';
  return does ? 'lets packets pass that it refused' : 'refuses packets that matched no Service';
}

function isFromOutside({ source, alsoFrom, destination }: ChangedFlow, outside: ReadonlySet<string>): boolean {
  if (![source, ...alsoFrom].some((one) => one.class === 'outside')) return false;
  const { kind } = destination;
  return (
    kind === 'node-port' || kind === 'elsewhere' || outside.has(destinationText(destination).replace(/\/\w+$/, ''))
  );
}

/**
 * Whether masquerading starts or ends: for the endpoints of both sides, or, if there are none, for all of either. Masquerading replaces the
 * client's address with one of the node.
 */
function maskOf(old: FlowOutcome, updated: FlowOutcome): 'on' | 'off' | undefined {
  const was = new Map(
    old.branches.flatMap(({ to, masquerade }) => (to === undefined ? [] : [[to, masquerade] as const])),
  );
  const is = updated.branches.flatMap(({ to, masquerade }) => (to === undefined ? [] : [[to, masquerade] as const]));
  const both = is.filter(([to]) => was.has(to));
  const turned = both.find(([to, masked]) => was.get(to) !== masked);
  if (turned) return turned[1] ? 'on' : 'off';
  if (both.length > 0 || was.size === 0 || is.length === 0) return undefined;
  const [wasMasked, isMasked] = [[...was.values()], is.map(([, masked]) => masked)];
  if (wasMasked.every(Boolean) && !isMasked.some(Boolean)) return 'off';
  return !wasMasked.some(Boolean) && isMasked.every(Boolean) ? 'on' : undefined;
}

function detailOf({ source, alsoFrom, destination }: ChangedFlow): string {
  const from = [...new Set([source, ...alsoFrom].map(sourceText))].toSorted(compareText);
  const shown = from.length > 2 ? `${from[0]} and ${from.length - 1} more` : from.join(' and ');
  return `${destinationText(destination)} from ${shown}`;
}

/** What a change does, worst first; a sentence that holds for many subjects is there once. */
export function effectsOf(diff: BundleDiff, services: readonly ReportService[]): readonly Effect[] {
  const declared = [...factEffects(diff, services), ...profileEffects(diff)];
  return merged([...declared, ...flowEffects(diff, services, declared)]);
}

function merged(all: readonly SingleEffect[]): readonly Effect[] {
  const groups = [...Map.groupBy(all, ({ severity, sentence }) => `${severity} ${sentence}`).values()];
  return groups
    .map((group): Effect => {
      const subjects = [...Map.groupBy(group, ({ name, isService }) => `${isService} ${name}`).values()];
      return {
        severity: group[0]!.severity,
        sentence: group[0]!.sentence,
        subjects: subjects
          .map((own) => ({
            name: own[0]!.name,
            isService: own[0]!.isService,
            details: [...new Set(own.map(({ detail }) => detail))].filter(Boolean),
          }))
          .toSorted((a, b) => compareText(a.name, b.name)),
      };
    })
    .toSorted(
      (a, b) =>
        compareSeverity(a.severity, b.severity) ||
        b.subjects.length - a.subjects.length ||
        compareText(a.sentence, b.sentence),
    );
}

/** The worst severity of each Service that an effect names. */
export function severityByService(effects: readonly Effect[]): ReadonlyMap<string, Severity> {
  const found = new Map<string, Severity>();
  for (const { severity, subjects } of effects) {
    for (const { name, isService } of subjects) if (isService && !found.has(name)) found.set(name, severity);
  }
  return found;
}
