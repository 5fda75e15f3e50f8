import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const installed = '/usr/bin/docker-registry';

/** Debian's docker-registry on loopback, with a storage of its own. */
export class DebianRegistry {
  readonly host: string;
  readonly #child: ChildProcess;
  readonly #folder: string;

  private constructor(host: string, child: ChildProcess, folder: string) {
    this.host = host;
    this.#child = child;
    this.#folder = folder;
  }

  /**
   * @param htpasswd the accounts; without it access is open
   * @returns the registry, or the reason why there is none
   */
  static async open(htpasswd?: string): Promise<DebianRegistry | string> {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-docker-registry-'));
    const program = find(folder);
    if (program === undefined) {
      rmSync(folder, { recursive: true });
      return 'docker-registry is missing and apt cannot download it: apt-get install docker-registry';
    }
    const host = `127.0.0.1:${await freePort()}`;
    writeFileSync(join(folder, 'htpasswd'), htpasswd ?? '');
    const auth = htpasswd === undefined ? '' : `auth: { htpasswd: { realm: sluice, path: ${folder}/htpasswd } }\n`;
    const storage = `storage: { filesystem: { rootdirectory: ${folder}/storage } }`;
    const config = `version: 0.1\nlog: { level: error }\n${storage}\nhttp: { addr: "${host}" }\n${auth}`;
    writeFileSync(join(folder, 'config.yml'), config);
    const child = spawn(program, ['serve', join(folder, 'config.yml')], { stdio: 'ignore' });
    const registry = new DebianRegistry(host, child, folder);
    for (let attempt = 0; attempt < 100; attempt++) {
      if (await answers(host)) return registry;
      await sleep(100);
    }
    registry.close();
    return `${program} did not answer within 10 s`;
  }

  close(): void {
    this.#child.kill('SIGKILL');
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Unpacks it if it is not installed: its package would start a service. */
function find(folder: string): string | undefined {
  if (existsSync(installed)) return installed;
  try {
    mkdirSync(join(folder, 'download'));
    execFileSync('apt-get', ['download', '-qq', 'docker-registry'], { cwd: join(folder, 'download'), stdio: 'ignore' });
    const deb = join(folder, 'download', readdirSync(join(folder, 'download'))[0] as string);
    execFileSync('dpkg-deb', ['-x', deb, join(folder, 'root')], { stdio: 'ignore' });
    return join(folder, 'root', installed);
  } catch {
    return undefined;
  }
}

async function answers(host: string): Promise<boolean> {
  try {
    return (await fetch(`http://${host}/v2/`)).status < 500;
  } catch {
    return false;
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}
