/** The text of the module that pins a version of Kubernetes. Pure. */

/** Whether it is a released version, or one before its release: a beta or a candidate. Alphas have no staging modules of their own. */
export const isVersion = (text: string): boolean => /^1\.\d+\.\d+(?:-(?:beta|rc)\.\d+)?$/.test(text);

/** The first Go with `tool` lines in a module. */
const firstGo = '1.24.0';

/** What Kubernetes requires and the module proxy refuses, and what takes its place. A row goes once the proxy has the module. */
const standIns: readonly (readonly [module: string, inItsPlace: string])[] = [
  // Runs the tools of iptables. Its rules are kube-proxy's own.
  ['sigs.k8s.io/iptables-wrappers v1.0.0', '../../stand-ins/iptables-wrappers'],
  // Serves server-side apply, which kube-proxy does not use.
  ['sigs.k8s.io/structured-merge-diff/v7 v7.0.1', 'sigs.k8s.io/structured-merge-diff/v7 v7.0.0'],
];

/**
 * `go.mod` for kube-proxy of a version and further packages, from Kubernetes' own.
 *
 * Kubernetes replaces its own parts by folders of its repository, which are modules with other version numbers outside of it: found by
 * the replacements, so that a part that moves into a repository of its own is an ordinary dependency. Its language version determines the
 * behaviour of the programs (GODEBUG), so it stays; the Go that it asks for is asked for here, too, so that the build takes it.
 */
export function moduleFor(version: string, theirs: string, packages: readonly string[] = []): string {
  const parts = [...theirs.matchAll(/(k8s\.io\/\S+) => \.\/staging\//g)].map(([, path]) => path);
  const replaced = [
    ...parts.map((path) => `${path} => ${path} v0.${version.slice(2)}`),
    ...standIns.flatMap(([module, other]) => (theirs.includes(`\t${module}\n`) ? [`${module} => ${other}`] : [])),
  ];
  const asked = /^go (\d+\.\d+(?:\.\d+)?)/m.exec(theirs)?.[1] ?? firstGo;
  const [, minor = '0', patch = '0'] = asked.split('.');
  const go = Number(minor) < Number(firstGo.split('.')[1]) ? firstGo : `1.${minor}.${patch}`;
  return `module sluice.dev/parity

go ${go}

godebug default=go1.${minor}

require k8s.io/kubernetes v${version}

tool (
${['k8s.io/kubernetes/cmd/kube-proxy', ...packages].map((path) => `\t${path}`).join('\n')}
)

replace (
${replaced.map((line) => `\t${line}`).join('\n')}
)
`;
}
