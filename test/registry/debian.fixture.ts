import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../cluster/port.fixture.ts';
import { debianProgram } from '../servers/debian.ts';

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
    const program = await debianProgram('/usr/bin/docker-registry', ['docker-registry']);
    if ('lack' in program) return program.lack;
    const folder = mkdtempSync(join(tmpdir(), 'sluice-docker-registry-'));
    const host = `127.0.0.1:${await freePort()}`;
    writeFileSync(join(folder, 'htpasswd'), htpasswd ?? '');
    const auth = htpasswd === undefined ? '' : `auth: { htpasswd: { realm: sluice, path: ${folder}/htpasswd } }\n`;
    const storage = `storage: { filesystem: { rootdirectory: ${folder}/storage } }`;
    const config = `version: 0.1\nlog: { level: error }\n${storage}\nhttp: { addr: "${host}" }\n${auth}`;
    writeFileSync(join(folder, 'config.yml'), config);
    const child = spawn(program.path, ['serve', join(folder, 'config.yml')], { stdio: 'ignore' });
    const registry = new DebianRegistry(host, child, folder);
    for (let attempt = 0; attempt < 100; attempt++) {
      if (await answers(host)) return registry;
      await sleep(100);
    }
    registry.close();
    return `${program.path} did not answer within 10 s`;
  }

  close(): void {
    this.#child.kill('SIGKILL');
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

async function answers(host: string): Promise<boolean> {
  try {
    return (await fetch(`http://${host}/v2/`)).status < 500;
  } catch {
    return false;
  }
}
