import {
  families,
  type Family,
  fillRules,
  ipvsHost,
  linkFlat,
  modeFacts,
  type Problem,
  readIpvs,
  Stopped,
} from '@sluice/netfilter';
import { type BundleFiles, readPath, type ResolvedNode, resolveNode } from '@sluice/bundle';
import { declaredIn } from './declared.ts';
import { type DeclaredFlow, declaredFlows, isMet } from './declared-flows.ts';
import { type HeaderSpace, headerSpaceNode, headerSpaceOf, TracedPackets } from './header-space.ts';
import { nftStateOf } from '../flows/nft-state.ts';
import { factOf, nodesOfProfile, nodeOf, orProblems } from '../bundle/node.ts';
import { hostOf } from '../flows/program.ts';
import {
  declaredBaseTreatment,
  type BaseTreatment,
  baseTreatmentOf,
  baseTreatmentKeys,
} from '../flows/base-treatment.ts';
import { type BundleView, familiesOfProfile, viewOf } from '../bundle/view.ts';

/** A flow with another outcome than the Services declare. */
export type CounterExample = DeclaredFlow;

/** A wrong treatment of packets of established connections by a profile's base files. */
export interface ProfileFault {
  readonly profile: string;
  readonly family: Family;
  readonly what: keyof BaseTreatment;
  readonly expected: string;
  readonly found: string;
}

/** What a bundle does not say enough about: no verdict on it is certain. */
export interface Unjudged {
  readonly profile: string;
  readonly family: Family;
  readonly what: 'node-ports' | 'packets-of-the-node' | 'all';
  /** In byte order; none: no node has the profile. */
  readonly nodes: readonly string[];
}

/** The extent of the checks, and the faults found. */
export interface Proof {
  readonly profiles: readonly {
    readonly profile: string;
    readonly family: Family;
    readonly services: number;
    readonly flows: number;
    readonly headerSpace?: HeaderSpace;
  }[];
  readonly counterExamples: readonly CounterExample[];
  readonly faults: readonly ProfileFault[];
  readonly unjudged: readonly Unjudged[];
}

/** Whether no fault was found. */
export function isProved({ counterExamples, faults }: Proof): boolean {
  return counterExamples.length === 0 && faults.length === 0;
}

/**
 * Checks for every profile, node and Service that traffic from every source class has the outcome that the comment block of the
 * Service's file declares: all usable endpoints with equal shares, or rejected or dropped according to the traffic policies; that
 * addresses of no Service are not translated; and that base files treat packets of established connections as kube-proxy's rules do.
 * @returns the proof with its counter-examples
 * @throws Stopped with the problems for which nodes would refuse the bundle
 */
export function proveBundle(files: BundleFiles): Proof {
  const view = viewOf(files);
  const refused = linkProblems(view);
  if (refused.length > 0) throw new Stopped(refused);
  const parts = [...view.profiles.keys()].flatMap((profile) =>
    familiesOfProfile(view, profile).map((family) => {
      const { counterExamples, ...extent } = proveProfile(view, profile, family);
      const faults = faultsOf(view, profile, family);
      const unjudged = unjudgedOf(view, profile, family);
      return { extent: { profile, family, ...extent }, counterExamples, faults, unjudged };
    }),
  );
  return {
    profiles: parts.map(({ extent }) => extent),
    counterExamples: parts.flatMap(({ counterExamples }) => counterExamples),
    faults: parts.flatMap(({ faults }) => faults),
    unjudged: parts.flatMap(({ unjudged }) => unjudged),
  };
}

/** Where Services have a family, and a node no known address in it, neither its packets nor those to its node ports can be named. */
function unjudgedOf(view: BundleView, profile: string, family: Family): readonly Unjudged[] {
  const services = declaredIn(view, profile, family);
  if (services.length === 0) return [];
  const all = nodesOfProfile(view, profile);
  if (all.length === 0) return [{ profile, family, what: 'all', nodes: [] }];
  const nodes = all.filter((name) => factOf(nodeOf(view, name), family, 'address') === undefined);
  if (nodes.length === 0) return [];
  const hasNodePorts = services.some(({ notes }) => notes.ports.some(({ nodePort }) => nodePort > 0));
  const whats: readonly Unjudged['what'][] = [
    'packets-of-the-node',
    ...(hasNodePorts ? (['node-ports'] as const) : []),
  ];
  return whats.map((what) => ({ profile, family, what, nodes }));
}

function faultsOf(view: BundleView, profile: string, family: Family): readonly ProfileFault[] {
  const [declared, rules] = [declaredBaseTreatment(view, profile), baseTreatmentOf(view, profile, family)];
  return baseTreatmentKeys.flatMap((what) => {
    const [expected, found] = [declared[what], rules[what]];
    return expected === found ? [] : [{ profile, family, what, expected, found }];
  });
}

/** Problems that keep the first node of each profile from loading all of its rules. */
function linkProblems(view: BundleView): readonly Problem[] {
  return [...view.profiles.keys()].flatMap((profile) => {
    const [name] = nodesOfProfile(view, profile);
    if (name === undefined) return [];
    if (!modeFacts[view.profiles.get(profile)!.mode].hasTables) return tableProblems(view, profile, name);
    const node = resolveNode(view.files, name);
    if (!('version' in node)) return node;
    const linked = families.flatMap((family) => {
      const written = node.rules[family];
      if (!written) return [];
      const rules = fillRules(written, hostOf(nodeOf(view, name), family));
      if ('code' in rules) return [rules];
      return linkFlat(rules, family, (text, of) => view.memory.line(text, of), node.profile.mode).problems;
    });
    return [...linked, ...virtualProblems(node)];
  });
}

/** Problems that keep a node from loading its virtual servers and sets. */
function virtualProblems({ ipvs, profile }: ResolvedNode): readonly Problem[] {
  if (!ipvs) return [];
  const state = readIpvs(ipvs, profile.families, ipvsHost(profile, { ipv4: [], ipv6: [] }));
  return 'problems' in state ? state.problems : [];
}

/** Problems that keep a node of mode nftables from loading its table. Lines that are read here are not read again for flows. */
function tableProblems(view: BundleView, profile: string, name: string): readonly Problem[] {
  const withoutServices = [...view.files].filter(([path]) => readPath(path)?.kind !== 'service');
  const node = resolveNode(new Map(withoutServices), name);
  if (!('version' in node)) return node;
  return orProblems(() => {
    nftStateOf(view, nodeOf(view, name), view.index(profile, 'ipv4').paths);
    return [];
  });
}

interface ProfileProof {
  readonly services: number;
  readonly flows: number;
  readonly headerSpace?: HeaderSpace;
  readonly counterExamples: readonly CounterExample[];
}

function proveProfile(view: BundleView, profile: string, family: Family): ProfileProof {
  const counterExamples: CounterExample[] = [];
  let flows = 0;
  const node = headerSpaceNode(view, profile);
  const traced = new TracedPackets();
  for (const flow of declaredFlows(view, profile, family)) {
    flows++;
    if (flow.nodes.nodes[0] === node) traced.add(flow);
    if (!isMet(flow.expected, flow.found)) counterExamples.push(flow);
  }
  const headerSpace = node === undefined ? {} : { headerSpace: headerSpaceOf(view, node, family, traced) };
  return { services: declaredIn(view, profile, family).length, flows, ...headerSpace, counterExamples };
}
