/** The supported versions of kube-proxy, oldest first. */
export const kubeProxyVersions = [
  '1.28',
  '1.29',
  '1.30',
  '1.31',
  '1.32',
  '1.33',
  '1.34',
  '1.35',
  '1.36',
  '1.37',
  '1.38',
] as const;
export type KubeProxyVersion = (typeof kubeProxyVersions)[number];

/** The default version of profiles. It stays when newer versions are supported, so that an upgrade of Sluice does not change rules. */
export const versionByDefault: KubeProxyVersion = '1.37';

/** Whether `text` is a supported version. */
export function isKubeProxyVersion(text: string): text is KubeProxyVersion {
  return kubeProxyVersions.some((version) => version === text);
}

/** Whether kube-proxy of a profile is older than `other`. @param version absent: the default version */
export function isBefore(version: KubeProxyVersion | undefined, other: KubeProxyVersion): boolean {
  return kubeProxyVersions.indexOf(version ?? versionByDefault) < kubeProxyVersions.indexOf(other);
}

/** The first of several versions that read Services and endpoints equally: for rules of Services, 1.35 equals 1.34. */
export type BehaviourVersion = KubeProxyVersion;
