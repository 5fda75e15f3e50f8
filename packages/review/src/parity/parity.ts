import {
  type BundleFiles,
  fileDigest,
  type NotCovered,
  type Observation,
  observedDigest,
  type ParityDifference,
  type ParityPacket,
  type ParityReport,
  resultOf,
  summariseNode,
} from '@sluice/bundle';
import { families, type Packet, Stopped } from '@sluice/netfilter';
import type { PlaceOf } from '../observed/place.ts';
import { nodeOf } from '../bundle/node.ts';
import { type BundleView, familiesOfProfile, hasFamily, viewOf } from '../bundle/view.ts';
import { adviceOfRule, causeOf } from './causes.ts';
import type { DifferingCase } from './differing-case.ts';
import { type ConnectionCase, placeOfRule } from './connections.ts';
import { compareFamily, type FamilyComparison } from './family.ts';
import { observedFrontends, titleOf } from './frontends.ts';
import { observedNode } from '../observed/node.ts';
import { missingParts, observedModes } from '../observed/parts.ts';
import type { SettingKind, Settings } from './settings.ts';
import { trackedConnections } from './tracked.ts';
import type { Branch, Destination, FlowOutcome } from '../flows/flow.ts';

/**
 * Compares how a node's kernel treats packets of Services with how a bundle would: every frontend of either side from every class of
 * sources, in both families.
 * @throws Stopped with the problems for which the node would refuse the bundle
 */
export function parityOf(
  files: BundleFiles,
  seen: Observation,
  name: string,
  placeOf: PlaceOf = () => undefined,
): ParityReport {
  const view = viewOf(files);
  const summary = summariseNode(files, name);
  if (!('version' in summary)) throw new Stopped(summary);
  const node = nodeOf(view, name);
  const modes = { observed: observedModes(seen), desired: node.profile.mode };
  const compared = familiesOfProfile(view, node.file.profile).map((family) =>
    compareFamily({ view, node, seen, family, modes }),
  );
  const hasNodePorts = compared.some(({ tracked }) => tracked.destinations.some(({ kind }) => kind === 'node-port'));
  const notCovered = [
    ...missingParts(seen, view, name, hasNodePorts),
    ...familiesWithout(view, node.file.profile, seen),
    ...compared.flatMap((one) => gapsOf(one, placeOf)),
  ];
  const differences = compared.flatMap((one) => [
    ...differencesOf(one),
    ...one.connections.flatMap((each) => connectionDifference(each, modes)),
  ]);
  const connections = trackedConnections(
    seen,
    compared.map(({ tracked }) => tracked),
  );
  const coverage = {
    frontends: sum(compared.map(({ frontends }) => frontends)),
    sources: new Set(compared.flatMap(({ sources }) => [...sources])).size,
    cases: sum(compared.map(({ cases }) => cases)),
    notCovered,
  };
  return {
    node: name,
    ...(seen.bootId === undefined ? {} : { bootId: seen.bootId }),
    observedDigest: observedDigest(seen),
    version: summary.version,
    modes,
    result: resultOf({ differences, coverage }),
    coverage,
    differences,
    ...(connections ? { connections } : {}),
  };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);

/** Families that the node serves, and the bundle does not: its rules would go with those of the proxy. */
function familiesWithout(view: BundleView, profile: string, seen: Observation): readonly NotCovered[] {
  return families.flatMap((family) => {
    if (hasFamily(view, profile, family)) return [];
    const cases = observedFrontends(seen, observedNode(seen, family, []), family).length;
    const why = `profile ${profile} of the bundle has no rules of this family, and the node has some`;
    return cases === 0 ? [] : [{ what: `frontends of ${family}`, why, cases, matters: true }];
  });
}

function gapsOf({ gaps }: FamilyComparison, placeOf: PlaceOf): readonly NotCovered[] {
  return gaps.map(({ what, why, rule, cases, matters }) => {
    const at = rule && placeOf(rule.text);
    return { what: shortened(what), ...(at === undefined ? {} : { at }), why, cases, matters };
  });
}

/** Cases that are reported as one difference. */
interface FoundDifference {
  first: Omit<ParityDifference, 'id' | 'alsoFrom'>;
  readonly destination: Destination;
  /** What the id is of, besides outcomes and sources. */
  readonly what: readonly string[];
  readonly outcomes: Set<string>;
  readonly sources: string[];
}

/**
 * Cases with one cause and the same two outcomes are one difference, with one source as its example: the first that is not the node. What a
 * setting makes of a frontend is one, whatever the outcomes. Its id is of all sources, so that an exception for it does not cover others
 * that join later.
 */
function differencesOf({ differing, settings }: FamilyComparison): readonly ParityDifference[] {
  const found = new Map<string, FoundDifference>();
  for (const one of differing) {
    const { setting, ...difference } = differenceOf(one, settings);
    const { family, frontend, cause, code = '', observed, desired } = difference;
    const rule = cause === 'foreign-rule' && one.foreign ? placeOfRule(one.foreign) : '';
    const what = [family, frontend, cause, code, rule];
    const outcome = `${observed}\n${desired}`;
    const key = [...what, setting ?? outcome].join('\n');
    const { destination, source } = one.row;
    const known = found.get(key) ?? { first: difference, destination, what, outcomes: new Set(), sources: [] };
    found.set(key, known);
    // Masqueraded or not, packets of the node have one of its addresses: another source shows more.
    const isClearer = known.first.source.class === 'node' && source.class !== 'node';
    if (isClearer) {
      known.first = difference;
      known.sources.unshift(sourceText(one));
    } else known.sources.push(sourceText(one));
    known.outcomes.add(outcome);
  }
  return withoutLocalhost([...found.values()]).map(({ first, what, outcomes, sources }) => ({
    id: fileDigest([...what, ...[...outcomes].toSorted(), ...new Set(sources.toSorted())].join('\n')).slice(0, 16),
    ...first,
    alsoFrom: sources.slice(1),
  }));
}

/** A setting that closes a node port at an address closes it on localhost, too: that is one difference. */
function withoutLocalhost(list: readonly FoundDifference[]): readonly FoundDifference[] {
  const isOf = ({ destination, first }: FoundDifference, kind: Destination['kind']): boolean =>
    destination.kind === kind && first.cause === 'config';
  const wholeOf = ({ destination: { port, protocol } }: FoundDifference): FoundDifference | undefined =>
    list.find(
      (one) => isOf(one, 'node-port') && one.destination.port === port && one.destination.protocol === protocol,
    );
  return list.filter((one) => {
    const whole = isOf(one, 'localhost') ? wholeOf(one) : undefined;
    whole?.sources.push('node to localhost');
    return whole === undefined;
  });
}

/** A later packet of a connection, or one of none, that one side drops. Its id is of all packets that the same rule decides about. */
function connectionDifference(
  { state, packet, from, ways, observed, desired, rule: decisive, isToFrontend }: ConnectionCase,
  modes: ParityReport['modes'],
): ParityDifference | readonly [] {
  if (observed === desired) return [];
  const { family, source } = packet;
  const isOfMode = state === 'invalid' && !isToFrontend && !modes.observed.some((mode) => mode === modes.desired);
  const foreign = decisive?.owner === 'foreign' ? decisive : undefined;
  // No setting has a proxy's rule drop packets of established connections, or refuse any but new ones at a frontend.
  const isChanged = (state === 'established' || isToFrontend) && observed === 'drop' && decisive !== undefined;
  const usual = isOfMode ? 'mode' : isChanged ? 'bug' : 'config';
  const cause = foreign === undefined ? usual : 'foreign-rule';
  const shown = cause === 'bug' ? decisive : foreign;
  const rule = shown ? placeOfRule(shown) : '';
  const words = { drop: 'drop', pass: 'left to other rules' } as const;
  return {
    id: fileDigest([family, state, observed, cause, rule, ...ways.toSorted()].join('\n')).slice(0, 16),
    frontend: `${state} connections`,
    family,
    services: [],
    source: { class: from, address: source },
    observed: words[observed],
    desired: words[desired],
    cause,
    ...(cause === 'mode' ? { code: 'DIFFERS_INVALID' } : {}),
    ...(shown === undefined ? {} : { rule: shortened(shown.rule) }),
    packet: { ...reported(packet), state },
    alsoFrom: ways.slice(1),
    advice: foreign
      ? shortened(adviceOfRule(foreign))
      : cause === 'bug'
        ? 'A rule of the proxy drops packets that begin no connection: it was changed by hand. Restart the proxy, which writes its rules again, and observe again'
        : 'Compare conntrack.tcpBeLiberal of kube-proxy, and nf_conntrack_tcp_be_liberal of the node, with the profile',
  };
}

/** `outside 203.0.113.0/24`; of a node port at another address of the node, `outside to 10.244.1.1`. */
function sourceText({ row: { source, destination, packet }, isOtherAddress }: DifferingCase): string {
  const from = source.network === undefined ? source.class : `${source.class} ${source.network}`;
  return destination.kind === 'node-port' && isOtherAddress ? `${from} to ${packet.destination}` : from;
}

function differenceOf(
  of: DifferingCase,
  settings: Settings,
): FoundDifference['first'] & { readonly setting: SettingKind | undefined } {
  const { row, observed, desired, foreign } = of;
  const { source, destination, family, packet } = row;
  const { code, advice, aspect, setting, ...final } = causeOf(of, (what) => settings.settingOf(of, what));
  const frontend = titleOf(destination);
  const isChosen = aspect === 'scheduler';
  const texts = { observed: printOutcome(observed, isChosen), desired: printOutcome(desired, isChosen) };
  return {
    setting,
    frontend,
    family,
    services: destination.services,
    source: {
      class: source.class,
      ...(source.network === undefined ? {} : { network: source.network }),
      address: source.address,
    },
    ...texts,
    cause: final.cause,
    ...(code === undefined ? {} : { code }),
    ...(final.cause === 'foreign-rule' && foreign ? { rule: shortened(foreign.rule) } : {}),
    packet: reported(packet),
    advice: shortened(advice),
  };
}

const reported = ({ source, in: incoming, destination, port, protocol }: Packet): ParityPacket => ({
  from: source,
  ...(incoming === undefined ? {} : { in: incoming }),
  to: destination,
  port,
  protocol,
});

/** A rule may name thousands of addresses. */
const shortened = (text: string): string => (text.length > textMax ? `${text.slice(0, textMax)} …` : text);
const textMax = 2_000;

/** `masquerade dnat 10.244.1.5:8080 50 % | 10.244.2.7:8080 50 %; affinity 10800 s`: branches that are treated alike are listed together. */
function printOutcome({ branches, affinity, scheduler = 'random' }: FlowOutcome, isChosen: boolean): string {
  const groups = Map.groupBy(branches, labelOf);
  const texts = [...groups].map(([label, list]) => {
    const ends = list.flatMap(({ to, share }) =>
      to === undefined ? [] : [`${to}${shareText(share, branches.length)}`],
    );
    return [label, ends.join(' | ')].filter(Boolean).join(' ');
  });
  const chosen = isChosen ? [`scheduler ${scheduler}`] : [];
  return [texts.join(', '), ...(affinity === undefined ? [] : [`affinity ${affinity}`]), ...chosen].join('; ');
}

const labelOf = ({ verdict, masquerade, reject }: Branch): string =>
  [masquerade ? 'masquerade' : '', verdict, reject ?? ''].filter(Boolean).join(' ');

const shareText = (share: number, count: number): string => (count < 2 ? '' : ` ${Number((share * 100).toFixed(2))} %`);
