import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { atTier, isShare, reaches, type Tier, tier } from '@sluice/testing';
import { type Built, build, type GoProgram, pathOf } from './build.ts';

/** The real programs of Kubernetes. `versions` pins their modules, by minor version; `pin.ts` writes it. */

/** Oldest first. */
export const minors = ['1.28', '1.31', '1.34', '1.37', '1.38'] as const;
export type Minor = (typeof minors)[number];
/** The newest that is released. What comes after it is pinned before its release, and tier all alone builds it. */
export const newest: Minor = '1.37';

/** The versions that a tier compares with. A build takes minutes, so CI's share has only the newest. */
export const minorsAt = (at: Tier, share: boolean): readonly Minor[] =>
  share ? [newest] : atTier<readonly Minor[]>({ quick: [newest], all: minors }, at);
export const minorsOfTier = minorsAt(tier, isShare).filter(
  (minor) => minor === (process.env['SLUICE_KUBE_PROXY'] ?? minor),
);
/** Of these the newest release and what comes after it: compared in all modes, and with the most clusters. */
export const currentOfTier = minorsOfTier.filter((minor) => minor >= newest);

/** The folder with the module of a version. */
export const moduleOf = (minor: Minor): string => join(import.meta.dirname, 'versions', minor);

/** The version of a module that a `go.mod` requires. */
export function pinnedIn(module: string, path: string): string {
  const text = readFileSync(join(module, 'go.mod'), 'utf8');
  const line = text.split('\n').find((one) => one.replace('require', '').trim().startsWith(`${path} v`));
  const version = line?.split(`${path} `)[1]?.split(' ')[0];
  if (version === undefined)
    throw new Error(`${module}/go.mod does not require ${path}; node test/parity/pin.ts creates it`);
  return version;
}

/** A program of Kubernetes, as pinned in `versions`. */
export function ofKubernetes(name: string, minor: Minor): GoProgram {
  const module = moduleOf(minor);
  const version = pinnedIn(module, 'k8s.io/kubernetes');
  const [gitMajor = '', gitMinor = ''] = minor.split('.');
  const values = { gitVersion: version, gitMajor, gitMinor };
  const variables = Object.fromEntries(
    Object.entries(values).map(([key, value]) => [`k8s.io/component-base/version.${key}`, value]),
  );
  return { name, module, package: `k8s.io/kubernetes/cmd/${name}`, version, variables };
}

/** kube-proxy of a minor version, built if it is missing: 4 minutes on two processors. */
export const kubeProxy = (minor: Minor = newest): Promise<Built> => build(ofKubernetes('kube-proxy', minor));

/** The program at the far ends of a node's wires (`wire/`): builds in seconds, without third-party modules. */
export const wireProgram = (): Promise<Built> => build(wire);

const wire: GoProgram = { name: 'wire', module: join(import.meta.dirname, 'wire'), package: '.', version: 'own' };

/** Those of the guest: every kube-proxy that the tier compares with. */
export const guestParityPrograms = (): readonly GoProgram[] => [
  ...minorsOfTier.map((minor) => ofKubernetes('kube-proxy', minor)),
  wire,
];

/** A real API server with its store. */
export interface ApiServerPrograms {
  readonly apiserver: string;
  readonly etcd: string;
}

/** Only tier all builds what takes more than kube-proxy: CI's share has what is built already. */
const mayBuildAll = reaches('all') && !isShare;

/**
 * kube-apiserver of the newest version and the etcd of its release: from `KUBEBUILDER_ASSETS`, a folder with both in the layout of
 * controller-runtime's envtest, or from the cache. Only tier all builds them there: that takes 20 minutes.
 */
export async function apiServerPrograms(
  mayBuild = mayBuildAll,
): Promise<ApiServerPrograms | { readonly lack: string }> {
  const assets = process.env['KUBEBUILDER_ASSETS'];
  if (assets !== undefined) return { apiserver: join(assets, 'kube-apiserver'), etcd: join(assets, 'etcd') };
  const module = moduleOf(newest);
  const etcdPackage = 'go.etcd.io/etcd/server/v3';
  const built = await buildEach(
    {
      etcd: { name: 'etcd', module, package: etcdPackage, version: pinnedIn(module, etcdPackage) },
      apiserver: ofKubernetes('kube-apiserver', newest),
    },
    mayBuild,
  );
  return 'lack' in built ? { lack: `${built.lack}; or KUBEBUILDER_ASSETS names a folder with both` } : built;
}

/** What starts and ends the pods of a DaemonSet and of a static pod, and kubectl: of the newest version. */
export interface WorkloadPrograms {
  readonly workloads: string;
  readonly kubectl: string;
}

/** The folder of the module with `workloads` and kubectl. */
export const workloadsModule = join(import.meta.dirname, 'workloads');

/** The programs of `workloads/`: most of their packages are those of the API server. */
export function workloadPrograms(mayBuild = mayBuildAll): Promise<WorkloadPrograms | { readonly lack: string }> {
  const [module, version] = [workloadsModule, pinnedIn(workloadsModule, 'k8s.io/kubernetes')];
  const programs = {
    workloads: { name: 'workloads', module, package: '.', version },
    kubectl: { name: 'kubectl', module, package: 'k8s.io/kubernetes/cmd/kubectl', version },
  };
  return buildEach(programs, mayBuild);
}

/** The paths of programs, built one at a time, as each build uses all processors. */
async function buildEach<Name extends string>(
  programs: Readonly<Record<Name, GoProgram>>,
  mayBuild: boolean,
): Promise<Readonly<Record<Name, string>> | { readonly lack: string }> {
  const all = Object.entries<GoProgram>(programs);
  const missing = all.filter(([, program]) => !existsSync(pathOf(program)));
  if (missing.length > 0 && !mayBuild) {
    const names = missing.map(([, { name, version }]) => `${name} ${version}`).join(' and ');
    return { lack: `${names} not built; ./dev test --all builds what is missing` };
  }
  const paths: [string, string][] = [];
  for (const [name, program] of all) {
    const built = await build(program);
    if ('lack' in built) return built;
    paths.push([name, built.path]);
  }
  return Object.fromEntries(paths) as Readonly<Record<Name, string>>;
}
