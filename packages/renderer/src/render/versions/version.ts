/** The versions of kube-proxy that a profile may name, oldest first. */
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
] as const;
export type KubeProxyVersion = (typeof kubeProxyVersions)[number];

/** What a profile follows that names no version. It stays when newer versions are known: rules do not change by an upgrade of Sluice. */
export const versionByDefault: KubeProxyVersion = '1.37';

/** Whether `text` is a version that a profile may name. */
export function isKubeProxyVersion(text: string): text is KubeProxyVersion {
  return kubeProxyVersions.some((version) => version === text);
}

/** Whether kube-proxy of a profile is older than `other`. @param version absent: the profile names none */
export function isBefore(version: KubeProxyVersion | undefined, other: KubeProxyVersion): boolean {
  return kubeProxyVersions.indexOf(version ?? versionByDefault) < kubeProxyVersions.indexOf(other);
}
