import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { cacheFolder } from '../parity/build.ts';

const debootstrap = '/usr/sbin/debootstrap';

/** The mirror of Debian's main section in this machine's apt configuration. */
function mirror(): { readonly uri: string; readonly suite: string } | undefined {
  const format = '$(CREATED_BY) $(COMPONENT) $(CODENAME) $(REPO_URI)';
  const { stdout } = execaSync('apt-get', ['indextargets', '--format', format], { reject: false });
  const found = /^Packages main ([a-z]+) (\S+)$/m.exec(stdout ?? '');
  return found === null ? undefined : { suite: found[1] as string, uri: found[2] as string };
}

/** The reason why no clean root can be made here; empty if it can. */
export function noRootBecause(): string {
  if (process.getuid?.() !== 0) return 'a clean root needs root';
  if (!existsSync(debootstrap)) return `${debootstrap} is missing: apt-get install debootstrap`;
  return mirror() === undefined ? 'apt knows no mirror of Debian: apt-get update' : '';
}

/** Fills a folder with a minimal Debian and the dependencies of our package, and more. @param release its name; by default that of this machine */
export function makeRoot(folder: string, more: readonly string[] = [], release?: string): void {
  const { suite: own, uri } = mirror() as { suite: string; uri: string };
  const suite = release ?? own;
  const include = ['iptables', 'ipset', 'openssh-client', ...more].join(',');
  execaSync(debootstrap, ['--variant=minbase', `--include=${include}`, suite, folder, uri]);
}

const cache = join(cacheFolder, 'debian');

/** The same, cached: a folder to copy from, not to change. It takes half a minute to make. */
export function rootOf(more: readonly string[]): string {
  const made = join(
    cache,
    createHash('sha256')
      .update(JSON.stringify([mirror(), more]))
      .digest('hex')
      .slice(0, 16),
  );
  if (existsSync(made)) return made;
  mkdirSync(cache, { recursive: true });
  const work = mkdtempSync(join(cache, 'new-'));
  try {
    makeRoot(join(work, 'root'), more);
    // Another process may have made the same root meanwhile.
    if (!existsSync(made)) renameSync(join(work, 'root'), made);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return made;
}
