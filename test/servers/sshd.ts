import { chmodSync, chownSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeKey } from '@sluice/testing';
import type { TestContext } from 'vitest';
import { needKernel } from '../netns/privileges.ts';
import { needProgram } from './debian.ts';
import { Server } from './server.ts';

/** The user and group of `git@`, who owns the repositories. */
const gitUser = 65_533;

/** A server of Git repositories over ssh. */
export interface GitSshServer {
  readonly server: Server;
  /** Its line for known_hosts. */
  readonly knownHost: string;
}

/**
 * Debian's sshd on loopback, for `git@` with one key and `git-shell` alone; skips the test by name where it cannot run. The accounts
 * that it needs are in a mount namespace of its own.
 * @param publicKey that may log in
 * @param repositories a folder of bare repositories; it gets another owner
 */
export async function startSshd(context: TestContext, publicKey: string, repositories: string): Promise<GitSshServer> {
  needKernel(context);
  const { path, env } = await needProgram(context, '/usr/sbin/sshd', ['openssh-server', 'libwrap0']);
  let hostKey = '';
  const server = await Server.start('sshd', (folder, port) => {
    chmodSync(folder, 0o755);
    makeKey(join(folder, 'host'));
    hostKey = readFileSync(join(folder, 'host.pub'), 'utf8').split(' ', 2).join(' ');
    writeFileSync(join(folder, 'authorized_keys'), publicKey);
    const accounts = `sshd:x:65532:65532::/run/sshd:/usr/sbin/nologin\ngit:x:${gitUser}:${gitUser}::${repositories}:/usr/bin/git-shell\n`;
    writeFileSync(join(folder, 'passwd'), `${readFileSync('/etc/passwd', 'utf8')}${accounts}`);
    for (const name of ['', ...readdirSync(repositories, { recursive: true, encoding: 'utf8' })])
      chownSync(join(repositories, name), gitUser, gitUser);
    const config = `ListenAddress 127.0.0.1:${port}
HostKey ${folder}/host
PidFile none
UsePAM no
PasswordAuthentication no
AllowUsers git
AuthorizedKeysFile ${folder}/authorized_keys
StrictModes no
`;
    writeFileSync(join(folder, 'config'), config);
    const script = `mount --bind ${folder}/passwd /etc/passwd; mount -t tmpfs tmpfs /run; mkdir -m 755 /run/sshd; exec ${path} -D -e -f ${folder}/config`;
    return { argv: ['unshare', '--mount', 'sh', '-ec', script], env };
  });
  return { server, knownHost: `[127.0.0.1]:${server.port} ${hostKey}` };
}
