import type { Json } from '../render/model/kube.ts';
import { isKubeProxyVersion, type KubeProxyVersion, kubeProxyVersions } from '../render/model/version.ts';
import { childOf } from './config/settings.ts';
import { splitDocuments } from './parse/documents.ts';
import { parseDocument } from './parse/parse.ts';
import type { SourceFile } from './sources.ts';

/** `registry.k8s.io/kube-proxy:v1.34.2`, in some distributions with the platform in the name. */
const image = /(?:^|\/)kube-proxy(?:-[a-z0-9]+)?:v(\d+\.\d+)\./;

/**
 * The versions of the kube-proxy DaemonSets in the input, each once, oldest first, without unknown versions.
 * Nodes do not have it: `status.nodeInfo.kubeProxyVersion` is the version of the kubelet.
 */
export function kubeProxyImages(sources: readonly SourceFile[]): readonly KubeProxyVersion[] {
  const values = sources.flatMap(({ file, text }) => splitDocuments(file, text).flatMap(parseDocument));
  const found = new Set(values.flatMap(({ value }) => (value === undefined ? [] : imagesOf(value))).flatMap(versionOf));
  return kubeProxyVersions.filter((version) => found.has(version));
}

/** The images of a DaemonSet, or of the DaemonSets in a list. */
function imagesOf(value: Json): readonly Json[] {
  const items = childOf(value, 'items');
  if (Array.isArray(items)) return (items as readonly Json[]).flatMap(imagesOf);
  if (childOf(value, 'kind') !== 'DaemonSet') return [];
  const containers = ['spec', 'template', 'spec', 'containers'].reduce<Json | undefined>(childOf, value);
  return Array.isArray(containers) ? (containers as readonly Json[]).flatMap((one) => childOf(one, 'image') ?? []) : [];
}

function versionOf(name: Json): readonly KubeProxyVersion[] {
  const version = typeof name === 'string' ? image.exec(name)?.[1] : undefined;
  return version !== undefined && isKubeProxyVersion(version) ? [version] : [];
}
