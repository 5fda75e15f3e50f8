import { addAll, compareText, type Family, parseAddress, parseCidr, type Problem } from '@sluice/netfilter';
import type { ConfigNode, LabelSelector, SluiceConfig } from '../../render/model/config.ts';
import type { Path } from '../../render/model/kube.ts';
import { isBefore } from '../../render/model/version.ts';
import { parsePortRange } from '../schema/formats.ts';
import { removedGates } from '../schema/gates.ts';
import type { SchemaFinding } from '../schema/schema.ts';
import type { KubeProxyInput } from './kube-proxy-sources.ts';
import { type ClusterFacts, type NamedGate, readKubeProxy } from './kubeproxy.ts';
import { configProblem, findingProblem, ignoredProblem } from './problems.ts';
import { makeProfile, type ProfileDraft } from './profiles.ts';
import { settingsOf } from './settings.ts';
import { entriesOf, fieldOf, isWrong, noSluice, readSluice, sluiceObject, type SluiceText } from './sluice.ts';

/**
 * Reads the profiles of sluice.yaml in their order; the last one matches every node.
 * @returns drafts to merge; a profile with an invalid name or selector is left out, as its problem is already reported
 */
function draftProfiles(sluice: SluiceText): { drafts: readonly ProfileDraft[]; problems: readonly Problem[] } {
  const problems: Problem[] = [];
  const drafts: ProfileDraft[] = [];
  const wrong = sluice.findings.map((finding) => finding.path);
  for (const [index, value] of entriesOf(sluice, 'profiles')) {
    const path: Path = ['profiles', index];
    const [name, nodeSelector] = [value['name'], (value['nodeSelector'] ?? {}) as LabelSelector];
    if (typeof name !== 'string' || isWrong(sluice, [...path, 'name']) || isWrong(sluice, [...path, 'nodeSelector']))
      continue;
    const place = sluice.origin.place([...path, 'name']);
    const complain = (field: string, why: string, hint: string): void => {
      problems.push(configProblem(sluice.origin.place([...path, field]), sluiceObject, [...path, field], why, hint));
    };
    const earlier = drafts.find((draft) => matchesEveryNode(draft.nodeSelector));
    if (drafts.some((draft) => draft.name === name))
      complain('name', `there are two profiles named ${name}`, 'Rename one of them');
    const why = `it is unreachable: the earlier profile ${earlier?.name} matches every node`;
    if (earlier) complain('name', why, `Move ${earlier.name} to the end`);
    addAll(problems, checkExpressions(sluice, [...path, 'nodeSelector', 'matchExpressions'], nodeSelector));
    drafts.push({ name, nodeSelector, settings: settingsOf(value, sluice.origin, path, wrong), place, path });
  }
  return { drafts: close(sluice, drafts, problems), problems };
}

/** Adds the built-in profile `default` unless another profile matches every node. */
function close(sluice: SluiceText, drafts: readonly ProfileDraft[], problems: Problem[]): readonly ProfileDraft[] {
  if (drafts.some((draft) => matchesEveryNode(draft.nodeSelector))) return drafts;
  const taken = drafts.find((draft) => draft.name === 'default');
  if (taken) {
    const why = 'default is the name of the built-in profile for nodes that no other profile matches';
    const hint = 'Rename it, or remove its nodeSelector and move it to the end';
    problems.push(configProblem(taken.place, sluiceObject, [...taken.path, 'name'], why, hint));
    return drafts;
  }
  const place = sluice.origin.place([]);
  return [...drafts, { name: 'default', nodeSelector: {}, settings: new Map(), place, path: ['profiles'] }];
}

function matchesEveryNode(selector: LabelSelector): boolean {
  return Object.keys(selector.matchLabels ?? {}).length === 0 && (selector.matchExpressions ?? []).length === 0;
}

/** Kubernetes' `ValidateLabelSelectorRequirement`: In and NotIn need values, Exists and DoesNotExist take none. */
function checkExpressions(sluice: SluiceText, path: Path, selector: LabelSelector): Problem[] {
  return (selector.matchExpressions ?? []).flatMap((expression, index) => {
    const needsValues = expression.operator === 'In' || expression.operator === 'NotIn';
    const count = expression.values?.length ?? 0;
    if (needsValues === count > 0) return [];
    const at = [...path, index, 'values'];
    const why = needsValues
      ? `operator ${expression.operator} needs values`
      : `operator ${expression.operator} takes no values`;
    const hint = needsValues ? 'List the values' : 'Remove the values, or use In or NotIn';
    return [configProblem(sluice.origin.place(at), sluiceObject, at, why, hint)];
  });
}

interface ConfigInput {
  /** `sluice.yaml`; absent: only defaults. */
  readonly sluice?: { readonly file: string; readonly text: string };
  /** Everything in the input that says how kube-proxy runs. */
  readonly kubeProxy: readonly KubeProxyInput[];
}

/**
 * Merges sluice.yaml over KubeProxyConfiguration over kube-proxy's defaults.
 * @returns a complete config, so that later stages can find more problems, and all problems; after one of level `error` the config must
 * not be rendered
 */
export function readConfig(input: ConfigInput): { config: SluiceConfig; problems: Problem[] } {
  const kubeProxy = readKubeProxy(input.kubeProxy);
  const sluice = input.sluice ? readSluice(input.sluice.file, input.sluice.text) : noSluice;
  const drafts = draftProfiles(sluice);
  const profiles = drafts.drafts.map((draft) => makeProfile(draft, kubeProxy.settings));
  const nodes = readNodes(sluice);
  const serviceCIDRs = readServiceCIDRs(sluice, kubeProxy.facts);
  const config: SluiceConfig = {
    clusterName: (fieldOf(sluice, 'clusterName') ?? 'kubernetes') as string,
    complete: fieldOf(sluice, 'complete') === true,
    profiles: profiles.map(({ profile }) => profile),
    serviceCIDRs: Object.fromEntries(Map.groupBy(serviceCIDRs.cidrs, familyOf)),
    primaryFamily: familyOf(serviceCIDRs.cidrs[0]),
    nodePortRange: readPortRange(sluice, kubeProxy.facts),
    named: {
      serviceCIDRs: fieldOf(sluice, 'serviceCIDRs') !== undefined,
      nodePortRange: fieldOf(sluice, 'nodePortRange') !== undefined,
    },
    nodes: nodes.nodes,
  };
  const ofProfiles = [...profiles.flatMap(({ problems }) => problems), ...removedGateProblems(config, kubeProxy.gates)];
  const problems = [kubeProxy, sluice, drafts, nodes, serviceCIDRs].flatMap((part) => part.problems);
  return { config, problems: [...problems, ...ofProfiles] };
}

/** A warning for each gate that kube-proxy of a profile does not start with: `--strict` stops at it. */
function removedGateProblems({ profiles }: SluiceConfig, named: readonly NamedGate[]): readonly Problem[] {
  return named.flatMap(({ name, place, object }) => {
    const removed = Object.hasOwn(removedGates, name) ? removedGates[name] : undefined;
    const profile = profiles.find(({ kubeProxyVersion: version }) => removed && version && !isBefore(version, removed));
    if (removed === undefined || profile === undefined) return [];
    const why = `kube-proxy ${removed} does not start with it, and profile ${profile.name} follows ${profile.kubeProxyVersion}`;
    const hint = 'Remove it: what it turned on is always on';
    return [ignoredProblem(place, object, [['featureGates', name]], why, hint)];
  });
}

/** kubeadm's default (`networking.serviceSubnet`). */
const serviceCIDRsByDefault: readonly string[] = ['10.96.0.0/12'];

function readServiceCIDRs(
  sluice: SluiceText,
  facts: ClusterFacts,
): { cidrs: readonly string[]; problems: readonly Problem[] } {
  const found = facts.serviceCIDRs?.text.split(',').map((text) => text.trim());
  const written = (fieldOf(sluice, 'serviceCIDRs') ?? found ?? serviceCIDRsByDefault) as readonly string[];
  const cidrs = written.map((text) => parseCidr(text)?.text ?? text);
  if (new Set(cidrs.map(familyOf)).size === cidrs.length) return { cidrs, problems: [] };
  const finding: SchemaFinding = {
    path: ['serviceCIDRs', 1],
    about: 'value',
    kind: 'address',
    why: 'it has the same family as the first',
    hint: 'Use one CIDR, or one of IPv4 and one of IPv6',
  };
  return { cidrs, problems: [findingProblem(finding, sluice.origin, sluiceObject)] };
}

/** The API server's default (`--service-node-port-range`). */
function readPortRange(sluice: SluiceText, facts: ClusterFacts): SluiceConfig['nodePortRange'] {
  const text = fieldOf(sluice, 'nodePortRange') ?? facts.nodePortRange?.text;
  return (typeof text === 'string' && parsePortRange(text)) || { from: 30000, to: 32767 };
}

function familyOf(cidr: string | undefined): Family {
  return (cidr === undefined ? undefined : parseCidr(cidr)?.family) ?? 'ipv4';
}

/** An entry of `nodes` that passed the schema. */
interface NodeText {
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly addresses?: readonly string[];
  readonly podCIDRs?: readonly string[];
  readonly cores?: number;
}

/** Reads the nodes of sluice.yaml, sorted by name, with canonical addresses. Invalid entries are left out. */
function readNodes(sluice: SluiceText): { nodes: readonly ConfigNode[]; problems: readonly Problem[] } {
  const problems: Problem[] = [];
  const nodes = new Map<string, ConfigNode>();
  for (const [index, value] of entriesOf(sluice, 'nodes')) {
    if (isWrong(sluice, ['nodes', index])) continue;
    const node = value as unknown as NodeText;
    const complain = (field: string, why: string, hint: string): void => {
      const path = ['nodes', index, field];
      problems.push(configProblem(sluice.origin.place(path), sluiceObject, path, why, hint));
    };
    if (nodes.has(node.name)) complain('name', `there are two nodes named ${node.name}`, 'Remove one of them');
    const families = (node.podCIDRs ?? []).map((cidr) => parseCidr(cidr)?.family);
    if (new Set(families).size < families.length)
      complain('podCIDRs', 'both CIDRs are of the same family', 'Use one CIDR per family');
    nodes.set(node.name, toNode(node));
  }
  return { nodes: [...nodes.values()].toSorted((a, b) => compareText(a.name, b.name)), problems };
}

function toNode(node: NodeText): ConfigNode {
  return {
    name: node.name,
    labels: Object.fromEntries(Object.entries(node.labels ?? {}).toSorted(([a], [b]) => compareText(a, b))),
    addresses: (node.addresses ?? []).map((text) => parseAddress(text)?.text ?? text),
    podCIDRs: (node.podCIDRs ?? []).map((text) => parseCidr(text)?.text ?? text),
    ...(node.cores !== undefined && { cores: node.cores }),
  };
}
