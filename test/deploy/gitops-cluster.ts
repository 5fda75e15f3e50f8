import { type ChildProcess, spawn } from 'node:child_process';
import { globSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { type Answer, askApi } from '../cluster/ask.fixture.ts';
import { until } from '../netns/until.ts';

export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

export interface ServiceSpec {
  readonly type: string;
  readonly ports: readonly { readonly port: number }[];
}

/** Files of a repository, path → text; undefined removes one. */
export type Changes = Readonly<Record<string, string | undefined>>;

export const servicesPath = '/api/v1/namespaces/shop/services';
export const waitMs = 120_000;

/** Writes objects to an API server as `kubectl apply --server-side` does. */
export class Administrator {
  readonly kubeconfig: string;

  constructor(kubeconfig: string) {
    this.kubeconfig = kubeconfig;
  }

  ask(method: string, path: string, body?: object, type?: string): Promise<Answer> {
    return askApi(this.kubeconfig, method, path, body, type);
  }

  /** @throws Error with the answer, if it was refused */
  async apply(text: string): Promise<void> {
    for (const document of parseAllDocuments(text)) {
      const object = document.toJS() as KubeObject;
      const path = `${pathOf(object)}?fieldManager=administrator`;
      // The server learns of a new kind some time after it has taken its definition.
      const isTaken = async (): Promise<boolean> => {
        const { status, object: answer } = await this.ask('PATCH', path, object, 'application/apply-patch+yaml');
        if (status >= 400 && status !== 404) throw new Error(JSON.stringify(answer));
        return status < 400;
      };
      await until(`${object.kind} ${object.metadata.name} is taken`, isTaken, waitMs);
    }
  }

  async service(name: string): Promise<ServiceSpec> {
    const { object } = await this.ask('GET', `${servicesPath}/${name}`);
    return (object as { readonly spec: ServiceSpec }).spec;
  }

  async portsOf(name: string): Promise<readonly number[]> {
    return (await this.service(name)).ports.map(({ port }) => port);
  }

  async namesIn(path: string): Promise<readonly string[]> {
    const { items } = (await this.ask('GET', path)).object as { readonly items: readonly KubeObject[] };
    return items.map(({ metadata }) => metadata.name).toSorted();
  }
}

/** The plural is the small name with an s: true of all kinds here but one. */
function pathOf({ apiVersion, kind, metadata: { name, namespace } }: KubeObject): string {
  const plural = `${kind.toLowerCase()}s`.replace(/rys$/, 'ries');
  const base = apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion}`;
  return [base, ...(namespace === undefined ? [] : ['namespaces', namespace]), plural, name].join('/');
}

/** Programs beside an API server, with a folder for what they write. */
export class Controllers {
  readonly dir = mkdtempSync(join(tmpdir(), 'sluice-controllers-'));
  readonly #children: ChildProcess[] = [];

  run(name: string, program: string, args: readonly string[], env: Readonly<Record<string, string>>): void {
    const log = openSync(join(this.dir, `${name}.log`), 'w');
    const all = { PATH: process.env['PATH'], HOME: this.dir, TMPDIR: this.dir, ...env };
    const child = spawn(program, args, { cwd: this.dir, env: all, stdio: ['ignore', log, log] });
    // A failed start shows in the log, and as a condition that never comes.
    child.on('error', () => {});
    this.#children.push(child);
  }

  /** The last lines that they wrote, for a test that fails. */
  get logs(): string {
    const lastOf = (name: string): string =>
      readFileSync(join(this.dir, name), 'utf8').split('\n').slice(-20).join('\n');
    return globSync('*.log', { cwd: this.dir })
      .map((name) => `${name}:\n${lastOf(name)}`)
      .join('\n');
  }

  async close(): Promise<void> {
    for (const child of this.#children) {
      if (child.pid === undefined || child.exitCode !== null) continue;
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await ended;
    }
    rmSync(this.dir, { recursive: true });
  }
}
