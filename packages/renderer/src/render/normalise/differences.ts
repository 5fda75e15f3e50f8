import type { Problem } from '@sluice/netfilter';
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

/**
 * Differences of nodes of mode ipvs from mode iptables: one problem of level `differs` for each Service and kind, and one for each profile
 * and difference that affects all traffic; none without nodes of mode ipvs. Also annotations of this mode that have no effect.
 */
export function findDifferences(
  made: MadeServices,
  nodes: readonly Node[],
  config: SluiceConfig,
  memo = new Memo(),
): readonly Problem[] {
  const profiles = profilesInUse({ nodes }, config);
  const members = profiles.filter((profile): profile is IpvsMember => profile.ipvs !== undefined);
  const others = profiles.filter((profile) => profile.ipvs === undefined).map(({ name }) => name);
  const ignored = others.length === 0 ? [] : made.flatMap(([read]) => withoutEffect(read, others));
  if (members.length === 0) return ignored;
  return [
    ...ignored,
    ...members.flatMap(ofProfile),
    ...made.flatMap(([read, service]) => blindWeights(read, service, members)),
    ...ofServices(made, { nodes, config, members }, memo),
  ];
}

interface Cluster {
  readonly nodes: readonly Node[];
  readonly config: SluiceConfig;
  /** The profiles of mode ipvs that nodes have, derived from the two. */
  readonly members: readonly IpvsMember[];
}

function ofServices(made: MadeServices, { nodes, config, members }: Cluster, memo: Memo): readonly Problem[] {
  const fleet = fleetOf(nodes);
  const views = members.map((profile) => ({
    profile,
    localhost: needsRouteLocalnet({ ...profile, mode: 'iptables' }),
    nodes: nodes.filter((node) => node.profile === profile.name).map(({ name }) => name),
  }));
  const ofOne = ([read, service]: MadeServices[number]): readonly Problem[] => {
    const found = new Map<ServiceDifference['code'], { difference: ServiceDifference; profiles: string[] }>();
    for (const view of views) {
      for (const difference of differencesOf(service, view.profile.families, { ...view, fleet })) {
        const same = found.get(difference.code) ?? { difference, profiles: [] };
        same.profiles.push(view.profile.name);
        found.set(difference.code, same);
      }
    }
    return [...found.values()].map((entry) => differs(read, entry.difference, entry.profiles));
  };
  return made.flatMap((one) => memo.of('differences', one[0], [one[1], nodes, config], () => ofOne(one)));
}

function differs(
  read: ReadService,
  { code, path, why, hint }: ServiceDifference,
  profiles: readonly string[],
): Problem {
  const message = `Mode ipvs differs from mode iptables (${named(profiles)}): ${why}`;
  return { code, level: 'differs', ...subject(read, path), message, hint };
}

/** Differences that affect all traffic on nodes of the profile. */
function ofProfile(profile: IpvsMember): readonly Problem[] {
  const problem = (code: Problem['code'], why: string, hint: string): Problem => ({
    code,
    level: 'differs',
    object: `Profile ${profile.name}`,
    message: `Mode ipvs differs from mode iptables: ${why}`,
    hint,
  });
  const otherPorts = problem(
    'DIFFERS_OTHER_PORTS',
    'every node carries the addresses of Services, so that they answer ping, and ports that no Service has are rejected',
    'No change is needed unless clients depend on getting no answer there',
  );
  if (profile.conntrack.tcpBeLiberal) return [otherPorts];
  const invalid = problem(
    'DIFFERS_INVALID',
    'forwarded packets in conntrack state INVALID are not dropped',
    'Set conntrack.tcpBeLiberal in the profile if such packets reset connections',
  );
  return [otherPorts, invalid];
}

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

function withoutEffect(read: ReadService, profiles: readonly string[]): readonly Problem[] {
  const keys = [
    ...(read.scheduler === undefined ? [] : [schedulerKey]),
    ...(read.weights.length === 0 ? [] : [weightsKey]),
  ];
  return keys.map((key) => ({
    code: 'ANNOTATION_IGNORED',
    level: 'note',
    ...subject(read, ['metadata', 'annotations', key]),
    message: `Cannot apply annotation ${key} (${named(profiles)}): mode iptables chooses all endpoints with equal probability`,
    hint: 'No change is needed if the annotation is for nodes of mode ipvs; otherwise set mode: ipvs in the profile',
  }));
}

function subject(read: ReadService, path: Path): Pick<Problem, 'at' | 'object'> & { at: NonNullable<Problem['at']> } {
  return { at: read.object.origin.place(path), object: `Service ${read.key}` };
}

function named(profiles: readonly string[]): string {
  return `profile${profiles.length === 1 ? '' : 's'} ${profiles.join(', ')}`;
}
