import { getOrInsert, type Mode, modeFacts, type Problem } from '@sluice/netfilter';
import { localhostOfTable, needsRouteLocalnet } from '../model/nodeports.ts';
import type { SluiceConfig, Profile } from '../model/config.ts';
import { Memo } from '../model/memo.ts';
import type { Node } from '../model/model.ts';
import { profilesInUse } from '../model/profiles-in-use.ts';
import type { ReadService } from '../read/read-service.ts';
import { fleetOf } from '../select/guards.ts';
import { type ServiceDifference, differencesOf } from './differences-of.ts';
import { named, schedulerProblems, subject } from './scheduler-problems.ts';
import type { MadeServices } from './service.ts';

type OtherMode = Exclude<Mode, 'iptables'>;
type Member = Profile & { readonly mode: OtherMode };

/**
 * Differences of nodes of modes ipvs and nftables from mode iptables: one problem of level `differs` for each Service, mode and kind, and
 * one for each profile and difference that affects all traffic. Also annotations about the choice of endpoints that have no effect.
 */
export function findDifferences(
  made: MadeServices,
  nodes: readonly Node[],
  config: SluiceConfig,
  memo = new Memo(),
): readonly Problem[] {
  const profiles = profilesInUse({ nodes }, config);
  const members = profiles.filter((profile): profile is Member => profile.mode !== 'iptables');
  const ignored = made.flatMap(([read, service]) => schedulerProblems(read, service, profiles));
  if (members.length === 0) return ignored;
  return [
    ...ignored,
    ...members.flatMap((profile) => ofProfile(profile, made)),
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
    localhost: needsRouteLocalnet({ ...profile, mode: 'iptables' }) && !needsRouteLocalnet(profile),
    nodes: nodes.filter((node) => node.profile === profile.name).map(({ name }) => name),
  }));
  const ofOne = ([read, service]: MadeServices[number]): readonly Problem[] => {
    const found = new Map<string, FoundDifference>();
    for (const view of views) {
      const { mode, profile } = view;
      for (const difference of differencesOf(service, profile.families, { ...view, fleet })) {
        const key = `${mode} ${difference.code}`;
        getOrInsert(found, key, () => ({ mode, difference, profiles: [] })).profiles.push(profile.name);
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
    modeFacts[profile.mode].dropsUnallocated ? clusterIPs : otherPorts,
    ...(hasNodePorts ? [localhostOfTable(profile) ? otherClosedNodePorts : closedNodePorts] : []),
    ...(modeFacts[profile.mode].nodePorts.onlyOnOwnAddress && profile.nodePortAddresses.length === 0
      ? [nodePorts]
      : []),
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

/** Where rules serve or reject those on loopback addresses. */
const otherClosedNodePorts: TrafficDifference = {
  ...closedNodePorts,
  why: 'where node ports are not open, apart from loopback addresses, no rule rejects or drops packets to them, with or without endpoints',
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
