/**
 * Pins a version of Kubernetes: `node test/parity/pin.ts 1.37.2 [PACKAGE …]` writes `versions/1.37/go.mod` and `go.sum`, with the
 * dependencies of kube-proxy and the further packages. Needs Go and its module proxy.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findGo } from './build.ts';

const [version = '', ...packages] = process.argv.slice(2);
const go = findGo();
if (!/^1\.\d+\.\d+$/.test(version) || go === undefined)
  throw new Error('Usage: pin.ts 1.MINOR.PATCH [PACKAGE …], with Go');

const dir = join(import.meta.dirname, 'versions', version.split('.').slice(0, 2).join('.'));
mkdirSync(dir, { recursive: true });
for (const file of ['go.mod', 'go.sum']) rmSync(join(dir, file), { force: true });
const run = (...args: readonly string[]): string =>
  execFileSync(go, args, { cwd: dir, encoding: 'utf8', env: { ...process.env, GOWORK: 'off', CGO_ENABLED: '0' } });

writeFileSync(join(dir, 'go.mod'), 'module sluice.dev/parity\n');
const { GoMod } = JSON.parse(run('mod', 'download', '-json', `k8s.io/kubernetes@v${version}`)) as { GoMod: string };
writeFileSync(join(dir, 'go.mod'), moduleFor(readFileSync(GoMod, 'utf8')));
// Not `go get`, which takes the newest dependencies of Kubernetes instead of those of its release.
run('mod', 'tidy');

/**
 * Kubernetes replaces its own parts by folders of its repository, which are modules with other version numbers outside of it. Its language
 * version determines the behaviour of the programs (GODEBUG), so it stays.
 */
function moduleFor(theirs: string): string {
  const parts = [...theirs.matchAll(/(k8s\.io\/\S+) => \.\/staging\//g)].map(([, path]) => path);
  const replaced = parts.map((path) => `\t${path} => ${path} v0.${version.slice(2)}`).join('\n');
  const language = /^go (\d+\.\d+)/m.exec(theirs)?.[1];
  return `module sluice.dev/parity

go 1.24.0

godebug default=go${language}

require k8s.io/kubernetes v${version}

tool (
${['k8s.io/kubernetes/cmd/kube-proxy', ...packages].map((path) => `\t${path}`).join('\n')}
)

replace (
${replaced}
)
`;
}
