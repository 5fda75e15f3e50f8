import {
  type BehaviourVersion,
  isBefore,
  type KubeProxyVersion,
  kubeProxyVersions,
  versionByDefault,
} from '../model/version.ts';
import { addAll, compareText, notice, type Problem, shortList } from '@sluice/netfilter';
import type { Profile } from '../model/config.ts';
import type { Memo } from '../model/memo.ts';
import type { Model, Service } from '../model/model.ts';
import { ruleDifferences, objectDifferences } from './differences.ts';
import type { ServiceWithSlices } from './downgrades.ts';

/** The first of the versions that read Services as this one does. @param version absent: the default version */
export function behaviourOf(version: KubeProxyVersion = versionByDefault): BehaviourVersion {
  const begun = objectDifferences.find(({ since }) => !isBefore(version, since));
  return begun?.since ?? kubeProxyVersions[0];
}

/** The same of the versions of profiles, newest first. */
export function behavioursOf(profiles: readonly Profile[]): readonly BehaviourVersion[] {
  const versions = new Set(profiles.map(({ kubeProxyVersion }) => behaviourOf(kubeProxyVersion)));
  return [...versions].toSorted((a, b) => (isBefore(a, b) ? 1 : -1));
}

/** The Services as kube-proxy of a profile's version serves them. */
export function servicesOf(model: Model, { kubeProxyVersion }: Profile): readonly Service[] {
  return model.older?.get(behaviourOf(kubeProxyVersion)) ?? model.services;
}

/**
 * A Service as kube-proxy of a version reads it.
 * @param problems receives the objects that it ignores
 * @returns undefined where it does not serve the Service; the same object where the version makes no difference
 */
export function asReadBy(
  version: BehaviourVersion,
  input: ServiceWithSlices,
  problems: Problem[],
  memo: Memo,
): ServiceWithSlices | undefined {
  const later = objectDifferences.filter(({ since }) => isBefore(version, since));
  if (later.length === 0) return input;
  const { result, found } = memo.of(`version ${version}`, input.service, input.slices, () => {
    const mine: Problem[] = [];
    const last = later.reduce<ServiceWithSlices | undefined>(
      (before, { older }) => before && older(before, mine),
      input,
    );
    return { result: last === input ? undefined : { input: last }, found: mine };
  });
  addAll(problems, found);
  return result === undefined ? input : result.input;
}

/** The most Services named in one message. */
const namesMax = 3;

/**
 * A note for each profile without a version, if an older version would serve a Service of the input differently.
 * @param profiles the profiles of the bundle
 */
export function unsetVersions(
  profiles: readonly Profile[],
  all: readonly ServiceWithSlices[],
  memo: Memo,
): readonly Problem[] {
  return profiles.flatMap((profile) => {
    if (profile.kubeProxyVersion !== undefined) return [];
    const concerned = all.flatMap((input) => {
      const inputs = [profile, ...input.slices];
      const since = memo.of(`versions ${profile.name}`, input.service, inputs, () =>
        newestThatConcerns(input, profile),
      );
      return since === undefined ? [] : [{ key: input.service.key, since }];
    });
    return concerned.length === 0 ? [] : [unset(profile, concerned)];
  });
}

function newestThatConcerns(input: ServiceWithSlices, profile: Profile): KubeProxyVersion | undefined {
  const difference =
    objectDifferences.find(({ older }) => older(input, []) !== input) ??
    ruleDifferences.find(({ concerns }) => concerns(input, profile));
  return difference?.since;
}

function unset(
  { name }: Profile,
  concerned: readonly { readonly key: string; readonly since: KubeProxyVersion }[],
): Problem {
  const keys = concerned.map(({ key }) => key).toSorted(compareText);
  const since = concerned.map((one) => one.since).reduce((a, b) => (isBefore(a, b) ? b : a));
  return notice(
    'KUBE_PROXY_VERSION_UNSET',
    `kubeProxyVersion is not set, so the rules are those of ${versionByDefault}; kube-proxy before ${since} serves ${shortList(keys, namesMax)} differently`,
    'Set kubeProxyVersion in the profile to the version of kube-proxy that its nodes run; /usr/share/doc/sluice/kube-proxy-versions.md lists the differences',
    { object: `Profile ${name}` },
  );
}
