import type { Mode, Problem } from '@sluice/netfilter';
import { needsRouteLocalnet } from '../compile/nodeports.ts';
import { looksAtWeights } from '../compile/ipvs/weights.ts';
import type { SluiceConfig, IpvsProfile, Profile } from '../config.ts';
import type { Path } from '../kube.ts';
import { Memo } from '../memo.ts';
import type { Node, Service } from '../model.ts';
import { profilesInUse } from '../profiles-in-use.ts';
import { schedulerKey, weightsKey } from '../read/annotations.ts';
import type { ReadService } from '../read/read-service.ts';
import { fleetOf } from '../select/guards.ts';
import { type ServiceDifference, differencesOf } from './differences-of.ts';
import type { MadeServices } from './service.ts';

type IpvsMember = Profile & { readonly ipvs: IpvsProfile };
type OtherMode = Exclude<Mode, 'iptables'>;
type Member = Profile & { readonly mode: OtherMode };

/**
 * Differences of nodes of modes ipvs and nftables from mode iptables: one problem of level `differs` for each Service, mode and kind, and
 * one for each profile and difference that affects all traffic. Also annotations of mode ipvs that have no effect.
 */
export function findDifferences(
  made: MadeServices,
  nodes: readonly Node[],
  config: SluiceConfig,
  memo = new Memo(),
): readonly Problem[] {
  const profiles = profilesInUse({ nodes }, config);
  const members = profiles.filter((profile): profile is Member => profile.mode !== 'iptables');
  const virtual = profiles.filter((profile): profile is IpvsMember => profile.ipvs !== undefined);
  const others = profiles.filter((profile) => profile.ipvs === undefined);
  const ignored = others.length === 0 ? [] : made.flatMap(([read]) => withoutEffect(read, others));
  if (members.length === 0) return ignored;
  return [
    ...ignored,
    ...members.flatMap((profile) => ofProfile(profile, made)),
    ...made.flatMap(([read, service]) => blindWeights(read, service, virtual)),
    ...ofServices(made, { nodes, config, members }, memo),
  ];
}

interface Cluster {
  readonly nodes: readonly Node[];
  readonly config: SluiceConfig;
  /** The profiles of modes ipvs and nftables that nodes have, derived from the two. */
  readonly members: readonly Member[];
}

/** A difference of a Service, and the profiles of one mode that have it. */
interface FoundDifference {
  readonly mode: OtherMode;
  readonly difference: ServiceDifference;
  readonly profiles: string[];
}

function ofServices(made: MadeServices, { nodes, config, members }: Cluster, memo: Memo): readonly Problem[] {
  const fleet = fleetOf(nodes);
  const views = members.map((profile) => ({
    profile,
    mode: profile.mode,
    localhost: needsRouteLocalnet({ ...profile, mode: 'iptables' }),
    nodes: nodes.filter((node) => node.profile === profile.name).map(({ name }) => name),
  }));
  const ofOne = ([read, service]: MadeServices[number]): readonly Problem[] => {
    const found = new Map<string, FoundDifference>();
    for (const view of views) {
      const { mode, profile } = view;
      for (const difference of differencesOf(service, profile.families, { ...view, fleet })) {
        const key = `${mode} ${difference.code}`;
        const same = found.get(key) ?? { mode, difference, profiles: [] };
        same.profiles.push(profile.name);
        found.set(key, same);
      }
    }
    return [...found.values()].map((entry) => differs(read, entry));
  };
  return made.flatMap((one) => memo.of('differences', one[0], [one[1], nodes, config], () => ofOne(one)));
}

function differs(read: ReadService, { mode, difference, profiles }: FoundDifference): Problem {
  const { code, path, why, hint } = difference;
  const message = `Mode ${mode} differs from mode iptables (${named(profiles)}): ${why}`;
  return { code, level: 'differs', ...subject(read, path), message, hint };
}

type TrafficDifference = Pick<ServiceDifference, 'code' | 'why' | 'hint'>;

/** Differences that affect all traffic on nodes of the profile. */
function ofProfile(profile: Member, made: MadeServices): readonly Problem[] {
  const hasNodePorts = made.some(([, { ports }]) => ports.some(({ nodePort }) => nodePort !== 0));
  const found = [
    profile.mode === 'ipvs' ? otherPorts : clusterIPs,
    ...(hasNodePorts ? [closedNodePorts] : []),
    ...(profile.mode === 'nftables' && profile.nodePortAddresses.length === 0 ? [nodePorts] : []),
    ...(profile.conntrack.tcpBeLiberal ? [] : [invalid]),
  ];
  return found.map(({ code, why, hint }) => ({
    code,
    level: 'differs',
    object: `Profile ${profile.name}`,
    message: `Mode ${profile.mode} differs from mode iptables: ${why}`,
    hint,
  }));
}

const noAnswer = 'No change is needed unless clients depend on getting no answer there';

const otherPorts: TrafficDifference = {
  code: 'DIFFERS_OTHER_PORTS',
  why: 'every node carries the addresses of Services, so that they answer ping, and ports that no Service has are rejected',
  hint: noAnswer,
};

const clusterIPs: TrafficDifference = {
  code: 'DIFFERS_CLUSTER_IPS',
  why: 'packets to other ports of ClusterIPs are rejected, and those to unused addresses of Service CIDRs dropped',
  hint: noAnswer,
};

const closedNodePorts: TrafficDifference = {
  code: 'DIFFERS_CLOSED_NODE_PORTS',
  why: 'where node ports are not open, such as on loopback addresses, no rule rejects or drops packets to them, with or without endpoints',
  hint: 'No change is needed unless a process of the node listens on such a port: it gets these packets',
};

const nodePorts: TrafficDifference = {
  code: 'DIFFERS_NODE_PORTS',
  why: "without nodePortAddresses, node ports are open only on the node's own address",
  hint: 'Set nodePortAddresses: [all] in the profile to open them on every address',
};

const invalid: TrafficDifference = {
  code: 'DIFFERS_INVALID',
  why: 'forwarded packets in conntrack state INVALID are not dropped',
  hint: 'Set conntrack.tcpBeLiberal in the profile if such packets reset connections',
};

/** Weights that the scheduler of a profile ignores. */
function blindWeights(read: ReadService, service: Service, members: readonly IpvsMember[]): readonly Problem[] {
  if (service.weights === undefined) return [];
  const blind = members.filter(({ ipvs }) => !looksAtWeights(service.scheduler ?? ipvs.scheduler));
  if (blind.length === 0) return [];
  const schedulers = [...new Set(blind.map(({ ipvs }) => service.scheduler ?? ipvs.scheduler))].join(', ');
  return [
    {
      code: 'WEIGHTS_IGNORED',
      level: 'warning',
      ...subject(read, ['metadata', 'annotations', weightsKey]),
      message: `Cannot apply annotation ${weightsKey} (${named(blind.map(({ name }) => name))}): scheduler ${schedulers} ignores weights`,
      hint: `Set ${schedulerKey} to a scheduler that uses weights, such as wrr or wlc, or remove the weights`,
    },
  ];
}

/** Annotations of mode ipvs on nodes of other modes. */
function withoutEffect(read: ReadService, profiles: readonly Profile[]): readonly Problem[] {
  const keys = [
    ...(read.scheduler === undefined ? [] : [schedulerKey]),
    ...(read.weights.length === 0 ? [] : [weightsKey]),
  ];
  const modes = [...new Set(profiles.map(({ mode }) => mode))].join(' or ');
  return keys.map((key) => ({
    code: 'ANNOTATION_IGNORED',
    level: 'note',
    ...subject(read, ['metadata', 'annotations', key]),
    message: `Cannot apply annotation ${key} (${named(profiles.map(({ name }) => name))}): mode ${modes} chooses all endpoints with equal probability`,
    hint: 'No change is needed if the annotation is for nodes of mode ipvs; otherwise set mode: ipvs in the profile',
  }));
}

function subject(read: ReadService, path: Path): Pick<Problem, 'at' | 'object'> & { at: NonNullable<Problem['at']> } {
  return { at: read.object.origin.place(path), object: `Service ${read.key}` };
}

function named(profiles: readonly string[]): string {
  return `profile${profiles.length === 1 ? '' : 's'} ${profiles.join(', ')}`;
}
