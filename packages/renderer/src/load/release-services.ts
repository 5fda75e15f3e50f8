import {
  commentBlockOf,
  fileDigest,
  isProblem,
  notesOf,
  profileFile,
  readPath,
  readRelease,
  readSums,
  releaseFile,
  serviceOf,
  sumsFile,
} from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import type { JsonObject, KubeObject } from '../render/model/kube.ts';
import { schedulerKey, tableSizeKey, weightsKey } from '../render/read/annotations.ts';
import { readBytes } from './release.ts';

/** The Services of a release for one node, as the comment blocks of its files declare them. Signatures are not verified. */
export interface ReleaseServices {
  /** `release 42` */
  readonly name: string;
  /** That of the node. */
  readonly profile: string;
  /** The digest of its profile.yaml. */
  readonly profileDigest: string | undefined;
  /** By `shop/web`: an object with all that rules need but endpoints. */
  readonly services: ReadonlyMap<string, KubeObject>;
  /** By `shop/web`: path → text of its files. */
  readonly files: ReadonlyMap<string, ReadonlyMap<string, string>>;
}

/**
 * Reads the Services of a release directory, each file only if its digest is that of `SHA256SUMS`: while the directory changes there is a
 * problem, and never a mixture.
 * @param node whose profile is read
 * @returns the Services; `RELEASE_INVALID` for a directory that is no whole release, `RELEASE_ELSEWHERE` without the node
 * @throws errors of the file system
 */
export function readReleaseServices(dir: string, node: string): ReleaseServices | Problem {
  const sums = readBytes(dir, sumsFile)?.toString('utf8');
  const digests = sums === undefined ? `${sumsFile} is missing` : readSums(sums);
  if (typeof digests === 'string') return invalid(dir, digests);
  const read = (path: string): string | undefined => {
    const bytes = readBytes(dir, path);
    return bytes !== undefined && fileDigest(bytes) === digests.get(path) ? bytes.toString('utf8') : undefined;
  };
  const text = read(releaseFile);
  if (text === undefined) return invalid(dir, unlike(releaseFile));
  const release = readRelease(text);
  if (isProblem(release)) return release;
  const profile = Object.hasOwn(release.nodes, node) ? release.nodes[node]?.profile : undefined;
  if (profile === undefined) return withoutNode(dir, node);
  const files = new Map<string, Map<string, string>>();
  for (const path of digests.keys()) {
    const what = readPath(path);
    if (what?.kind !== 'service' || what.profile !== profile) continue;
    const own = read(path);
    if (own === undefined) return invalid(dir, unlike(path));
    const key = serviceOf(path);
    files.set(key, (files.get(key) ?? new Map<string, string>()).set(path, own));
  }
  const services = new Map([...files].map(([key, texts]) => [key, serviceObject(key, [...texts.values()])]));
  const profileDigest = digests.get(profileFile(profile));
  return { name: `release ${release.serial}`, profile, profileDigest, services, files };
}

/** Whether two texts of a Service's file declare the same Service, whatever its endpoints. */
export const declaresSame = (a: string, b: string): boolean => declaration(a).join() === declaration(b).join();

const declaration = (text: string): readonly string[] =>
  commentBlockOf(text).filter((line) => !line.startsWith('endpoint '));

/** @param texts of its files: each may have one family */
function serviceObject(key: string, texts: readonly string[]): KubeObject {
  const [namespace = '', name = ''] = key.split('/');
  const lines = [...new Set(texts.flatMap(declaration))];
  const notes = notesOf(lines);
  const ports = new Map(
    notes.ports.map(({ name: port, protocol, port: number, nodePort }) => [
      `${number}/${protocol}`,
      {
        ...(port === '' ? {} : { name: port }),
        protocol: protocol.toUpperCase(),
        port: number,
        ...(nodePort === 0 ? {} : { nodePort }),
      },
    ]),
  );
  const clusterIPs = [...new Set(notes.ports.map(({ clusterIP }) => clusterIP))];
  const spec: JsonObject = {
    type: notes.type ?? 'ClusterIP',
    clusterIPs,
    ports: [...ports.values()],
    externalIPs: notes.externalAddresses,
    loadBalancerSourceRanges: notes.sourceRanges,
    internalTrafficPolicy: notes.internalPolicy,
    externalTrafficPolicy: notes.externalPolicy,
    allocateLoadBalancerNodePorts: notes.ports.some(({ nodePort }) => nodePort > 0),
    ...(notes.healthCheckPort === 0 ? {} : { healthCheckNodePort: notes.healthCheckPort }),
    ...(notes.affinitySeconds === undefined
      ? {}
      : {
          sessionAffinity: 'ClientIP',
          sessionAffinityConfig: { clientIP: { timeoutSeconds: notes.affinitySeconds } },
        }),
  };
  const ingress = notes.loadBalancerAddresses.map((ip) => ({ ip }));
  const place = { file: `release/${key}`, line: 1, column: 1 };
  return {
    kind: 'Service',
    apiVersion: 'v1',
    value: {
      metadata: { namespace, name, annotations: annotationsOf(notes.scheduler, lines) },
      spec,
      status: { loadBalancer: { ingress } },
    },
    origin: { place: () => place },
  };
}

/** @param scheduler as its mode names it: `maglev 1009` has the size of its table */
function annotationsOf(scheduler: string | undefined, lines: readonly string[]): JsonObject {
  const [name, size] = scheduler?.split(' ') ?? [];
  const weights = lines.flatMap((line) => {
    const [, weight, label, value] = /^weight (\d+) where ([^=]+)=(.*)$/.exec(line) ?? [];
    return label === undefined ? [] : [`${label}=${value}:${weight}`];
  });
  return {
    ...(name === undefined ? {} : { [schedulerKey]: name }),
    ...(size === undefined ? {} : { [tableSizeKey]: size }),
    ...(weights.length === 0 ? {} : { [weightsKey]: weights.join(',') }),
  };
}

const unlike = (path: string): string => `${path} is not as ${sumsFile} has it`;

function invalid(dir: string, why: string): Problem {
  return refusal(
    'RELEASE_INVALID',
    `Cannot read the Services of the release in ${dir}: ${why}`,
    'Pass a release directory, as `sluice release` writes it; one that is being written is read again',
  );
}

function withoutNode(dir: string, node: string): Problem {
  return refusal(
    'RELEASE_ELSEWHERE',
    `Cannot render endpoints for Node ${node}: the release in ${dir} has no such node`,
    'Make a release after the Node was added',
  );
}
