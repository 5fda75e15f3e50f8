import { existsSync } from 'node:fs';
import { execaSync } from 'execa';

const debootstrap = '/usr/sbin/debootstrap';

/** The mirror that apt uses here for Debian's main part. */
function mirror(): { readonly uri: string; readonly suite: string } | undefined {
  const format = '$(CREATED_BY) $(COMPONENT) $(CODENAME) $(REPO_URI)';
  const { stdout } = execaSync('apt-get', ['indextargets', '--format', format], { reject: false });
  const found = /^Packages main ([a-z]+) (\S+)$/m.exec(stdout ?? '');
  return found === null ? undefined : { suite: found[1] as string, uri: found[2] as string };
}

/** Why no clean root can be made here; empty when it can. */
export function noRootBecause(): string {
  if (process.getuid?.() !== 0) return 'a clean root needs root';
  if (!existsSync(debootstrap)) return `${debootstrap} is not here: apt-get install debootstrap`;
  return mirror() === undefined ? 'apt knows no mirror of Debian: apt-get update' : '';
}

/** Fills a folder with a minimal Debian and the packages that ours depends on. */
export function makeRoot(folder: string): void {
  const { suite, uri } = mirror() as { suite: string; uri: string };
  execaSync(debootstrap, ['--variant=minbase', '--include=iptables,ipset,openssh-client', suite, folder, uri]);
}
