import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';

const module = import.meta.dirname;

/** The version of Kubernetes that go.mod pins. */
export const pinned = /k8s\.io\/kubernetes (v\S+)/.exec(readFileSync(join(module, 'go.mod'), 'utf8'))?.[1] ?? '';

/** Outside of the checkout, so that a clean checkout does not build it again. */
const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'sluice-parity');

/**
 * The real kube-proxy of the pinned version, built where it is not there yet: 4 minutes on two processors and 2 GB of modules.
 * @returns its path, or why it cannot be built
 */
export async function kubeProxy(): Promise<{ readonly path: string } | { readonly lack: string }> {
  const digest = createHash('sha256')
    .update(readFileSync(join(module, 'go.sum')))
    .digest('hex')
    .slice(0, 12);
  const path = join(cache, `kube-proxy-${pinned}-${digest}`);
  if (existsSync(path)) return { path };
  const go = ['/usr/local/go/bin/go', '/usr/lib/go/bin/go', '/usr/bin/go'].find((one) => existsSync(one));
  if (go === undefined) return { lack: `kube-proxy ${pinned} is not built, and Go is not installed` };
  mkdirSync(cache, { recursive: true });
  const part = `${path}.${process.pid}`;
  const version = `-X k8s.io/component-base/version.gitVersion=${pinned}`;
  const { failed, stderr, shortMessage } = await execa(
    go,
    ['build', '-trimpath', '-ldflags', `-s -w ${version}`, '-o', part, 'k8s.io/kubernetes/cmd/kube-proxy'],
    {
      cwd: module,
      env: { CGO_ENABLED: '0', GOFLAGS: '-mod=readonly -buildvcs=false' },
      reject: false,
      timeout: 1_500_000,
    },
  );
  if (failed)
    return { lack: `kube-proxy ${pinned} cannot be built: ${(stderr || shortMessage || '').split('\n').at(-1)}` };
  renameSync(part, path);
  return { path };
}
