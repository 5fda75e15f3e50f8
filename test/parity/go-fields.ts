/**
 * The configuration fields that kube-proxy of the pinned version reads, from its Go source:
 * `node test/parity/go-fields.ts >test/parity/kube-proxy-fields.txt` writes the list that the tests compare with.
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { moduleOf, newest } from './binaries.ts';

const goMod = readFileSync(join(moduleOf(newest), 'go.mod'), 'utf8');

/** The folder of a module of the pinned version in Go's module cache; undefined if it is missing. */
export function moduleFolder(module: string): string | undefined {
  const versions = [...goMod.matchAll(/(k8s\.io\/[a-z-]+) (v\S+)/g)] as unknown as [string, string, string][];
  // The last one is in `replace`.
  const version = versions.findLast(([, name]) => name === module)?.[2];
  const go = process.env['GOPATH'] ?? join(homedir(), 'go');
  const folder = join(process.env['GOMODCACHE'] ?? join(go, 'pkg/mod'), `${module}@${version}`);
  return existsSync(folder) ? folder : undefined;
}

/** A line for each field of KubeProxyConfiguration v1alpha1: `iptables.masqueradeBit *int32`. */
export function fieldLines(types: string, struct = 'KubeProxyConfiguration', prefix = ''): readonly string[] {
  const body = new RegExp(`^type ${struct} struct \\{\\n(.*?)^\\}`, 'ms').exec(types)?.[1] ?? '';
  return body.split('\n').flatMap((line) => {
    if (line.startsWith('\tmetav1.TypeMeta ')) return ['apiVersion string', 'kind string'];
    const [, type = '', name] = /^\t\w+ +(\S+) +`json:"(\w+)/.exec(line) ?? [];
    if (name === undefined) return [];
    const isStruct = types.includes(`type ${type} struct {`);
    return isStruct ? fieldLines(types, type, `${prefix}${name}.`) : [`${prefix}${name} ${type}`];
  });
}

/** A line for each feature gate of kube-proxy, or of a library whose options it uses: `gate AllowServiceExternalIPs`. */
export function gateLines(asking: readonly string[], declaring: readonly string[]): readonly string[] {
  const names = [
    ...asking.flatMap((text) => [...text.matchAll(/FeatureGate\.Enabled\(\w+\.(\w+)\)/g)]),
    ...declaring.flatMap((text) => [...text.matchAll(/\bFeature = "(\w+)"/g)]),
  ].map(([, name]) => `gate ${name}`);
  return [...new Set(names)].toSorted();
}

/** Everything, from Go's module cache; undefined if a module is missing. */
export function linesOfSource(): readonly string[] | undefined {
  const modules = ['k8s.io/kube-proxy', 'k8s.io/kubernetes', 'k8s.io/component-base'].map(moduleFolder);
  const [kubeProxy, kubernetes, base] = modules;
  if (kubeProxy === undefined || kubernetes === undefined || base === undefined) return undefined;
  const types = readFileSync(join(kubeProxy, 'config/v1alpha1/types.go'), 'utf8');
  const sources = (folder: string, ...globs: readonly string[]): readonly string[] =>
    globs
      .flatMap((glob) => globSync(glob, { cwd: folder }))
      .filter((path) => !path.endsWith('_test.go'))
      .map((path) => readFileSync(join(folder, path), 'utf8'));
  return [
    ...fieldLines(types),
    ...gateLines(
      sources(kubernetes, 'pkg/proxy/**/*.go', 'cmd/kube-proxy/**/*.go'),
      sources(base, 'featuregate/*.go', 'logs/api/v1/*.go', 'metrics/features/*.go', 'zpages/features/*.go'),
    ),
  ];
}

if (process.argv[1] === import.meta.filename) {
  const lines = linesOfSource();
  if (lines === undefined)
    throw new Error('The modules are not in the module cache: run go mod download in test/parity');
  process.stdout.write(lines.map((line) => `${line}\n`).join(''));
}
