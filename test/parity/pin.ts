/**
 * Pins a version of Kubernetes: `node test/parity/pin.ts 1.37.2 [PACKAGE …]` writes `versions/1.37/go.mod` and `go.sum`, with the
 * dependencies of kube-proxy and the further packages. A release before its time is pinned as `1.38.0-beta.0` or `1.38.0-rc.1`; the
 * next one takes its place. Needs Go and its module proxy, which also has the Go that a newer Kubernetes asks for.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findGo, goEnv } from './build.ts';
import { isVersion, moduleFor } from './pinned-module.ts';

const [version = '', ...packages] = process.argv.slice(2);
const go = findGo();
if (!isVersion(version) || go === undefined)
  throw new Error('Usage: pin.ts 1.MINOR.PATCH[-beta.N|-rc.N] [PACKAGE …], with Go');

const dir = join(import.meta.dirname, 'versions', version.split('.').slice(0, 2).join('.'));
mkdirSync(dir, { recursive: true });
for (const file of ['go.mod', 'go.sum']) rmSync(join(dir, file), { force: true });
const run = (...args: readonly string[]): string =>
  execFileSync(go, args, { cwd: dir, encoding: 'utf8', env: { ...process.env, ...goEnv } });

writeFileSync(join(dir, 'go.mod'), 'module sluice.dev/parity\n');
const { GoMod } = JSON.parse(run('mod', 'download', '-json', `k8s.io/kubernetes@v${version}`)) as { GoMod: string };
writeFileSync(join(dir, 'go.mod'), moduleFor(version, readFileSync(GoMod, 'utf8'), packages));
// Not `go get`, which takes the newest dependencies of Kubernetes instead of those of its release. With `-e`, as it also asks for what
// only tests of its packages need, which the module proxy need not have: the build says what is really missing.
run('mod', 'tidy', '-e');
