import { accessSync, readFileSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { parse } from 'yaml';
import { isMap, type Json, type JsonObject } from '../render/model/kube.ts';
import { ClusterFailure } from './failure.ts';

// The client library reads one kubeconfig and the account of a pod, and this module uses it for both. It refuses files with entries of
// the same name, does not ignore missing ones, and leaves paths of plugins relative: client-node.test.ts, "kubeconfig.ts".

/** The token of a pod's ServiceAccount. https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/ */
const accountToken = 'var/run/secrets/kubernetes.io/serviceaccount/token';

/** A kubeconfig as one text with absolute paths, and its source for messages. */
export interface Kubeconfig {
  readonly text: string;
  readonly from: string;
  readonly isOfPod?: boolean;
}

/**
 * Finds the kubeconfig like kubectl: the named file, or the merged files of `KUBECONFIG`, or `~/.kube/config`, or the ServiceAccount of the
 * pod. Of entries with the same name the first one wins, and missing files of `KUBECONFIG` are ignored.
 * https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
 * @param root the root directory of the pod, for tests
 * @throws ClusterFailure with `CLUSTER_ACCESS` when there is none or it cannot be read
 */
export function findKubeconfig(named: string | undefined, env: NodeJS.ProcessEnv, root = ''): Kubeconfig {
  if (named !== undefined) return merged([named]);
  const listed = (env['KUBECONFIG'] ?? '').split(':').filter((file) => file !== '');
  if (listed.length > 0) {
    const there = listed.filter(isThere);
    return merged(there.length > 0 ? there : listed);
  }
  const home = join(env['HOME'] ?? '/root', '.kube/config');
  if (isThere(home)) return merged([home]);
  if (isThere(`${root}/${accountToken}`)) return ofAccount(root);
  throw new ClusterFailure(
    'CLUSTER_ACCESS',
    `Cannot find a cluster: ${home} does not exist, KUBECONFIG is not set, and there is no ServiceAccount of a pod`,
    'Pass a kubeconfig with --kubeconfig',
  );
}

function ofAccount(root: string): Kubeconfig {
  const config = new KubeConfig();
  config.loadFromCluster(root);
  return { text: config.exportConfig(), from: 'the ServiceAccount of this pod', isOfPod: true };
}

function merged(files: readonly string[]): Kubeconfig {
  const configs = files.map(readConfig);
  const current = configs.map((config) => config['current-context']).find((name) => typeof name === 'string' && name);
  const entries = (key: string): JsonObject[] => firstByName(configs.flatMap((config) => mapsIn(config[key])));
  return {
    text: printed({
      clusters: entries('clusters'),
      users: entries('users'),
      contexts: entries('contexts'),
      ...(current === undefined ? {} : { 'current-context': current }),
    }),
    from: files.join(':'),
  };
}

/** Reads the entries of a file and makes its relative paths absolute. */
function readConfig(file: string): JsonObject {
  let config: unknown;
  try {
    config = parse(readFileSync(file, 'utf8'));
  } catch (error) {
    // Of an error of the system its words alone: `ENOENT: no such file or directory, open '/x'`.
    const why = error instanceof Error ? error.message : String(error);
    throw unreadable(file, why.replace(/^E[A-Z]+: (.*), \w+(?: '.*')?$/, '$1'));
  }
  if (!isMap(config)) throw unreadable(file, 'it is not a map');
  const dir = dirname(file);
  return {
    ...config,
    clusters: mapsIn(config['clusters']).map((entry) => withPaths(entry, 'cluster', ['certificate-authority'], dir)),
    users: mapsIn(config['users']).map((entry) =>
      withCommand(withPaths(entry, 'user', ['client-certificate', 'client-key', 'tokenFile'], dir), dir),
    ),
  };
}

function unreadable(file: string, why: string): ClusterFailure {
  return new ClusterFailure(
    'CLUSTER_ACCESS',
    `Cannot read the kubeconfig ${file}: ${why}`,
    'Check the file, or pass another one with --kubeconfig',
  );
}

function withPaths(entry: JsonObject, part: string, keys: readonly string[], dir: string): JsonObject {
  const body = entry[part];
  if (!isMap(body)) return entry;
  const paths = keys.flatMap((key) => {
    const path = body[key];
    return typeof path === 'string' && path !== '' ? [[key, absolute(dir, path)] as const] : [];
  });
  return { ...entry, [part]: { ...body, ...Object.fromEntries(paths) } };
}

/** A plugin's command with a slash is relative to the kubeconfig; without one it is looked up in PATH. */
function withCommand(entry: JsonObject, dir: string): JsonObject {
  const { user } = entry;
  if (!isMap(user) || !isMap(user['exec'])) return entry;
  const { command } = user['exec'];
  if (typeof command !== 'string' || !command.includes('/')) return entry;
  return { ...entry, user: { ...user, exec: { ...user['exec'], command: absolute(dir, command) } } };
}

function absolute(dir: string, path: string): string {
  return isAbsolute(path) ? path : join(dir, path);
}

function firstByName(entries: readonly JsonObject[]): JsonObject[] {
  const seen = new Map<Json | undefined, JsonObject>();
  for (const entry of entries) if (!seen.has(entry['name'])) seen.set(entry['name'], entry);
  return [...seen.values()];
}

/** The client library reads YAML, and JSON is YAML. */
const printed = (config: JsonObject): string => JSON.stringify(config);

function mapsIn(value: Json | undefined): JsonObject[] {
  return Array.isArray(value) ? (value as readonly Json[]).filter(isMap) : [];
}

function isThere(file: string): boolean {
  try {
    accessSync(file);
    return true;
  } catch {
    return false;
  }
}
