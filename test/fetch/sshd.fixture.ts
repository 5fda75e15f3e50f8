import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeKey } from '@sluice/testing';

const installed = '/usr/sbin/sshd';

/** Debian's sshd on loopback, in a mount namespace with a /run and users of its own. It lets root in by one key, for commands as they are. */
export class SshServer {
  readonly port: number;
  /** The private key that is let in, and the file with the server's key. */
  readonly key: string;
  readonly knownHosts: string;
  readonly #child: ChildProcess;

  private constructor(port: number, folder: string, child: ChildProcess) {
    this.port = port;
    this.key = join(folder, 'user');
    this.knownHosts = join(folder, 'known');
    this.#child = child;
  }

  /**
   * @param folder for its files, which the caller removes
   * @returns the server, or the reason why there is none
   */
  static async open(folder: string): Promise<SshServer | string> {
    if (process.getuid?.() !== 0) return 'sshd needs root here';
    const at = (name: string): string => join(folder, name);
    mkdirSync(folder, { recursive: true });
    const found = find(folder);
    if (found === undefined) return 'sshd is missing and apt cannot download it: apt-get install openssh-server';
    for (const name of ['host', 'user']) makeKey(at(name));
    const port = await freePort();
    const options = [
      `Port ${port}`,
      'ListenAddress 127.0.0.1',
      `HostKey ${at('host')}`,
      `AuthorizedKeysFile ${at('user.pub')}`,
      'PidFile none',
      'UsePAM no',
      'StrictModes no',
      'PasswordAuthentication no',
      'PermitRootLogin prohibit-password',
    ];
    writeFileSync(at('config'), `${options.join('\n')}\n`);
    const hostKey = readFileSync(at('host.pub'), 'utf8').split(' ').slice(0, 2).join(' ');
    writeFileSync(at('known'), `[127.0.0.1]:${port} ${hostKey}\n`);
    writeFileSync(
      at('passwd'),
      `${readFileSync('/etc/passwd', 'utf8')}sshd:x:999:65534::/run/sshd:/usr/sbin/nologin\n`,
    );
    const script = `mount -t tmpfs tmpfs /run && mkdir /run/sshd && mount --bind ${at('passwd')} /etc/passwd && exec ${found.program} -D -f ${at('config')}`;
    const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LD_LIBRARY_PATH: found.libraries };
    const child = spawn('/usr/bin/unshare', ['-m', '/bin/sh', '-c', script], { env, stdio: 'ignore' });
    const server = new SshServer(port, folder, child);
    for (let attempt = 0; attempt < 100; attempt++) {
      if (await answers(port)) return server;
      await sleep(100);
    }
    server.close();
    return `${found.program} did not answer within 10 s`;
  }

  close(): void {
    this.#child.kill('SIGKILL');
  }
}

/** Unpacks it if it is not installed: its package would start a service. */
function find(folder: string): { readonly program: string; readonly libraries: string } | undefined {
  if (existsSync(installed)) return { program: installed, libraries: '' };
  const [download, root] = [join(folder, 'download'), join(folder, 'root')];
  try {
    mkdirSync(download);
    execFileSync('apt-get', ['download', '-qq', 'openssh-server', 'libwrap0'], { cwd: download, stdio: 'ignore' });
    for (const deb of readdirSync(download))
      execFileSync('dpkg-deb', ['-x', join(download, deb), root], { stdio: 'ignore' });
    const folders = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((path) =>
      /(?:^|\/)lib\/[^/]+-linux-gnu$/.test(path),
    );
    return { program: join(root, installed), libraries: folders.map((path) => join(root, path)).join(':') };
  } catch {
    return undefined;
  }
}

async function answers(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    return await new Promise<boolean>((done) => {
      socket.on('data', () => done(true));
      socket.on('error', () => done(false));
    });
  } finally {
    socket.destroy();
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}
