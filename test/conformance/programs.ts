import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Built, build, type GoProgram, pathOf } from '../parity/build.ts';
import { pinnedIn } from '../parity/binaries.ts';

/** What a cluster needs of Kubernetes, and its own tests of the network. */
export const programNames = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubelet',
  'kubectl',
  'agnhost',
  'regression-issue-74839',
  'ginkgo',
  'network.test',
  'coredns',
] as const;
export type ProgramName = (typeof programNames)[number];
export type Programs = Readonly<Record<ProgramName, string>>;

const module = join(import.meta.dirname, 'programs');
/** Kubernetes as it is tested here, such as `v1.37.2`. */
export const kubernetesVersion = pinnedIn(module, 'k8s.io/kubernetes');

const packages: Readonly<Record<Exclude<ProgramName, 'coredns' | 'network.test'>, string>> = {
  etcd: 'go.etcd.io/etcd/server/v3',
  'kube-apiserver': 'k8s.io/kubernetes/cmd/kube-apiserver',
  'kube-controller-manager': 'k8s.io/kubernetes/cmd/kube-controller-manager',
  'kube-scheduler': 'k8s.io/kubernetes/cmd/kube-scheduler',
  kubelet: 'k8s.io/kubernetes/cmd/kubelet',
  kubectl: 'k8s.io/kubernetes/cmd/kubectl',
  agnhost: 'k8s.io/kubernetes/test/images/agnhost',
  'regression-issue-74839': 'k8s.io/kubernetes/test/images/regression-issue-74839',
  ginkgo: 'github.com/onsi/ginkgo/v2/ginkgo',
};

/** A program of the modules beside this file. */
export function goProgram(name: ProgramName): GoProgram {
  if (name === 'coredns') {
    const own = join(import.meta.dirname, 'dns');
    return { name, module: own, package: '.', version: pinnedIn(own, 'github.com/coredns/coredns') };
  }
  const [major = '', minor = ''] = kubernetesVersion.slice(1).split('.');
  const values = { gitVersion: kubernetesVersion, gitMajor: major, gitMinor: minor };
  const variables = Object.fromEntries(
    Object.entries(values).map(([key, value]) => [`k8s.io/component-base/version.${key}`, value]),
  );
  const common = { name, module, version: kubernetesVersion, variables };
  return name === 'network.test' ? { ...common, package: '.', isTest: true } : { ...common, package: packages[name] };
}

/**
 * All programs, built one at a time where they are missing: 15 minutes on two processors.
 * @param mayBuild otherwise what is missing is named
 */
export async function buildPrograms(mayBuild: boolean): Promise<Programs | { readonly lack: string }> {
  const paths: [string, string][] = [];
  const missing = programNames.find((name) => !existsSync(pathOf(goProgram(name))));
  if (missing !== undefined && !mayBuild)
    return { lack: `${missing} ${kubernetesVersion} not built; ./dev test --all builds what is missing` };
  for (const name of programNames) {
    const built: Built = await build(goProgram(name));
    if ('lack' in built) return built;
    paths.push([name, built.path]);
  }
  return Object.fromEntries(paths) as Programs;
}
