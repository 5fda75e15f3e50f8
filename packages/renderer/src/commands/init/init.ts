import { existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Format } from '@sluice/cli';
import { type Problem, refusal } from '@sluice/netfilter';
import { initConfig } from '../../emit/init.ts';
import { writeAgain } from '../../emit/tree.ts';
import { exitCodes } from '../../exit.ts';
import { isK3sNode } from '../../load/config/k3s-nodes.ts';
import { readKubeProxy } from '../../load/config/kubeproxy.ts';
import { childOf } from '../../load/config/settings.ts';
import { load } from '../../load/load.ts';
import { splitDocuments } from '../../load/parse/documents.ts';
import { parseDocument } from '../../load/parse/parse.ts';
import { printSluiceSchema } from '../../load/schema/sluice.ts';
import { readSources, type SourceFile } from '../../load/sources.ts';
import { type Json, type JsonObject, textOf } from '../../render/model/kube.ts';
import {
  isKubeProxyVersion,
  type KubeProxyVersion,
  kubeProxyVersions,
  versionByDefault,
} from '../../render/model/version.ts';
import { Stopped, writing } from '../failure/failure.ts';
import { isStopped } from '../failure/problems.ts';
import { printDocument, reportProblems } from '../output/output.ts';
import { say } from '../output/progress.ts';

/** `sluice init`: writes a commented config to start from. An existing file is kept unless `--force` is given. */
export async function initCommand(
  file: string,
  options: { readonly filename?: string; readonly force?: boolean; readonly output: Format },
): Promise<number> {
  const from = options.filename === undefined ? [] : [options.filename];
  const { sources, problems } = await readSources(from, { recursive: false, stdin: process.stdin });
  const loaded = load(sources);
  const read = readKubeProxy(loaded.kubeProxy);
  const found = [...problems, ...loaded.problems, ...read.problems];
  reportProblems(found);
  if (isStopped(found)) return exitCodes.problem;
  if (options.filename !== undefined && loaded.kubeProxy.length === 0) throw new Stopped(noKubeProxy(options.filename));
  const [version, ...newer] = kubeProxyImages(sources);
  writeConfig(file, initConfig(read, version), options.force ?? false);
  if (loaded.kubeProxy.length > 0 && version === undefined && !read.settings.has('kubeProxyVersion'))
    say(
      `kubeProxyVersion is set to "${versionByDefault}": the input does not contain the version; change it if nodes run another\n`,
    );
  if (newer.length > 0)
    say(`kube-proxy runs in versions ${[version, ...newer].join(', ')}: add a profile for the nodes of each version\n`);
  // The schema is for editors and belongs to this version of Sluice, so it is replaced, even if it is a link.
  const schema = join(dirname(file), 'sluiceconfig.schema.json');
  writing(schema, () => writeAgain(schema, printSluiceSchema()));
  say(`Wrote ${file}: review and edit it, then run sluice render -f MANIFESTS -c ${file} -o rendered\n`);
  printDocument(options.output, 'InitResult', { file, schema });
  return exitCodes.done;
}

/** Writes the config; replaces an existing one only with `force`. */
function writeConfig(file: string, text: string, force: boolean): void {
  if (!force && existsSync(file)) {
    throw new Stopped({
      code: 'OUTPUT_UNWRITABLE',
      level: 'error',
      message: `Cannot write ${file}: it already exists`,
      hint: 'Choose another file, or overwrite this one with --force',
    });
  }
  writing(file, () => writeFileSync(file, text, { flag: force ? 'w' : 'wx' }));
}

const noKubeProxy = (from: string): Problem =>
  refusal(
    'INPUT_EMPTY',
    `Cannot find a configuration of kube-proxy in ${from === '-' ? 'standard input' : from}: no document contains one`,
    `Pass its ConfigMap, DaemonSet or Pod (kubectl get configmap,daemonset,pod -n kube-system -o yaml), the config or Nodes of k3s, or kubeadm's`,
  );

/** `registry.k8s.io/kube-proxy:v1.34.2`, in some distributions with the platform in the name. */
const image = /(?:^|\/)kube-proxy(?:-[a-z0-9]+)?:v(\d+\.\d+)\./;

/**
 * The versions of the kube-proxy DaemonSets and Pods in the input, each once, oldest first, without unknown versions.
 * Nodes do not have it: `status.nodeInfo.kubeProxyVersion` is the version of the kubelet, which in k3s is that of kube-proxy, too.
 */
export function kubeProxyImages(sources: readonly SourceFile[]): readonly KubeProxyVersion[] {
  const values = sources.flatMap(({ file, text }) => splitDocuments(file, text).flatMap(parseDocument));
  const found = new Set(values.flatMap(({ value }) => (value === undefined ? [] : imagesOf(value))).flatMap(versionOf));
  return kubeProxyVersions.filter((version) => found.has(version));
}

/** Where the kinds that run kube-proxy have the spec of its pod. */
const podOf: Readonly<Record<string, readonly string[]>> = { DaemonSet: ['spec', 'template', 'spec'], Pod: ['spec'] };

/** The images of a DaemonSet or Pod, or of those in a list; of a Node of k3s or RKE2 the name that they would have. */
function imagesOf(value: Json): readonly Json[] {
  const items = childOf(value, 'items');
  if (Array.isArray(items)) return (items as readonly Json[]).flatMap(imagesOf);
  if (childOf(value, 'kind') === 'Node' && isK3sNode(value as JsonObject)) {
    const version = childOf(childOf(childOf(value, 'status'), 'nodeInfo'), 'kubeletVersion');
    return typeof version === 'string' ? [`kube-proxy:${version}`] : [];
  }
  const path = podOf[textOf(childOf(value, 'kind'))];
  const containers = path && [...path, 'containers'].reduce<Json | undefined>(childOf, value);
  return Array.isArray(containers) ? (containers as readonly Json[]).flatMap((one) => childOf(one, 'image') ?? []) : [];
}

function versionOf(name: Json): readonly KubeProxyVersion[] {
  const version = typeof name === 'string' ? image.exec(name)?.[1] : undefined;
  return version !== undefined && isKubeProxyVersion(version) ? [version] : [];
}
