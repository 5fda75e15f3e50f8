import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';

/** The chart as helm renders it, and the objects of manifests. */

export const deploy = join(import.meta.dirname, '..', '..', 'deploy');
export const folder = mkdtempSync(join(tmpdir(), 'sluice-chart-'));

interface Metadata {
  readonly name: string;
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
}
export interface Manifest {
  readonly kind: string;
  readonly metadata: Metadata;
  readonly spec?: unknown;
  readonly data?: Readonly<Record<string, string>>;
}

export const objectsIn = (text: string): readonly Manifest[] =>
  parseAllDocuments(text, { merge: true }).flatMap((document) => (document.toJS() as Manifest | null) ?? []);
export const keyOf = ({ kind, metadata: { namespace = '', name } }: Manifest): string => `${kind} ${namespace}/${name}`;
export const byKey = (objects: readonly Manifest[]): ReadonlyMap<string, Manifest> =>
  new Map(objects.map((one) => [keyOf(one), one] as const).toSorted(([a], [b]) => (a < b ? -1 : 1)));

/** `helm template` with these values. */
export function rendered(helm: string, values = ''): string {
  const args = [
    'template',
    'sluice',
    join(deploy, 'chart'),
    '--kube-version',
    '1.37.0',
    '--namespace',
    'sluice',
    '-f',
    '-',
  ];
  return execFileSync(helm, args, {
    input: values,
    encoding: 'utf8',
    stdio: 'pipe',
    env: { PATH: '/usr/bin', HOME: folder },
  });
}

/** The pod of the DaemonSet in a plain manifest, and its ConfigMap. */
export const daemonSetIn = (name: string) => daemonSetOf(readFileSync(join(deploy, name), 'utf8'));

/** The same in a text. */
export function daemonSetOf(text: string) {
  const objects = objectsIn(text);
  const config = objects.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'sluiced')?.data ?? {};
  const { spec } = objects.find(({ kind }) => kind === 'DaemonSet') as unknown as DaemonSet;
  const pod = spec.template.spec;
  const named = (name: string): NodeContainer => {
    const found = pod.containers.find((one) => one.name === name);
    if (!found) throw new Error(`the pod has no container ${name}`);
    return found;
  };
  return { objects, config, pod, named };
}

interface DaemonSet {
  readonly spec: { readonly template: { readonly spec: NodePod } };
}
export interface NodePod {
  readonly initContainers: readonly NodeContainer[];
  readonly containers: readonly NodeContainer[];
  readonly volumes: readonly {
    readonly name: string;
    readonly secret?: { readonly secretName: string; readonly optional?: boolean };
  }[];
}
export interface NodeContainer {
  readonly name: string;
  readonly command: readonly string[];
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly securityContext: {
    readonly runAsUser: number;
    readonly capabilities?: { readonly add?: readonly string[] };
  };
  readonly volumeMounts: readonly {
    readonly name: string;
    readonly mountPath: string;
    readonly subPath?: string;
    readonly readOnly?: boolean;
  }[];
}
