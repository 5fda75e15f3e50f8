import { globSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestApi } from '../cluster/api.fixture.ts';
import { freePort } from '../cluster/port.fixture.ts';
import { realApi } from '../cluster/real-api.fixture.ts';
import { until } from '../netns/until.ts';
import type { ApiServerPrograms } from '../parity/binaries.ts';
import { Administrator, type Changes, Controllers, waitMs } from './gitops-cluster.ts';
import { Repository } from './gitops-repository.ts';

export interface FluxPrograms {
  readonly source: string;
  readonly kustomize: string;
}

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

interface FluxObject {
  readonly status?: {
    readonly conditions: readonly Condition[];
    readonly artifact?: { readonly revision: string };
    readonly lastHandledReconcileAt?: string;
    readonly lastAttemptedRevision?: string;
  };
}

/** The file of the page, whose repository is replaced as it says. */
export const fluxFile = join(import.meta.dirname, '../../integrations/flux/services.yaml');
const placeholder = 'https://git.example.com/shop/rules.git';
const [sources, kustomizations] = [
  '/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories/rules',
  '/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/services',
];

/** A real API server with Flux, our objects for it, and a repository that it reads. */
export class FluxCluster {
  readonly controllers = new Controllers();
  /** Where the source-controller keeps what it fetched. */
  readonly artifacts = join(this.controllers.dir, 'artifacts');
  readonly admin: Administrator;
  readonly #api: TestApi;
  readonly #repository: Repository;
  #requests = 0;

  private constructor(api: TestApi, repository: Repository) {
    this.#api = api;
    this.#repository = repository;
    this.admin = new Administrator(api.admin);
  }

  /** @param modules the folders of both modules, for the kinds that they define */
  static async start(
    programs: ApiServerPrograms,
    flux: FluxPrograms,
    modules: readonly string[],
    files: Readonly<Record<string, string>>,
  ): Promise<FluxCluster> {
    const cluster = new FluxCluster(await realApi(programs), await Repository.open(files));
    const { admin } = cluster;
    for (const name of ['shop', 'flux-system'])
      await admin.apply(JSON.stringify({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } }));
    for (const file of modules.flatMap((one) => globSync(join(one, 'config/crd/bases/*.yaml'))))
      await admin.apply(readFileSync(file, 'utf8'));
    await admin.apply(readFileSync(fluxFile, 'utf8').replaceAll(placeholder, cluster.#repository.url));
    await cluster.#run(flux);
    return cluster;
  }

  /** With the rights of an administrator, as `flux install` gives them. */
  async #run({ source, kustomize }: FluxPrograms): Promise<void> {
    const storage = `127.0.0.1:${await freePort()}`;
    mkdirSync(this.artifacts);
    const env = { KUBECONFIG: this.admin.kubeconfig, RUNTIME_NAMESPACE: 'flux-system' };
    const common = ['--metrics-addr', '0', '--health-addr', '0'];
    const served = ['--storage-path', this.artifacts, '--storage-addr', storage, '--storage-adv-addr', storage];
    this.controllers.run('source', source, [...common, ...served], env);
    this.controllers.run('kustomize', kustomize, common, env);
  }

  /** Commits, and waits until Flux has fetched it. */
  async push(changes: Changes): Promise<string> {
    const commit = this.#repository.commit(changes);
    await this.#request(sources);
    const isFetched = async (): Promise<boolean> =>
      (await this.#get(sources)).status?.artifact?.revision === `main@sha1:${commit}`;
    await this.#until('the repository is fetched', isFetched);
    return commit;
  }

  /** Commits, and waits until Flux has tried it. */
  async sync(changes: Changes): Promise<{ readonly commit: string; readonly ready: Condition }> {
    const commit = await this.push(changes);
    const request = await this.#request(kustomizations);
    const isTried = async (): Promise<boolean> => {
      const { lastHandledReconcileAt, lastAttemptedRevision } = (await this.#get(kustomizations)).status ?? {};
      const isBegun = lastHandledReconcileAt === request && lastAttemptedRevision === `main@sha1:${commit}`;
      return isBegun && (await this.ready()).status !== 'Unknown';
    };
    await this.#until('the commit is tried', isTried);
    return { commit, ready: await this.ready() };
  }

  async ready(): Promise<Condition> {
    const { status } = await this.#get(kustomizations);
    return status!.conditions.find(({ type }) => type === 'Ready')!;
  }

  async close(): Promise<void> {
    await this.controllers.close();
    this.#repository.close();
    await this.#api.close();
  }

  /** As `flux reconcile` does. */
  async #request(path: string): Promise<string> {
    const requestedAt = String(++this.#requests);
    const body = { metadata: { annotations: { 'reconcile.fluxcd.io/requestedAt': requestedAt } } };
    await this.admin.ask('PATCH', path, body, 'application/merge-patch+json');
    return requestedAt;
  }

  async #get<T = FluxObject>(path: string): Promise<T> {
    return (await this.admin.ask('GET', path)).object as T;
  }

  async #until(what: string, look: () => Promise<boolean>): Promise<void> {
    await until(what, look, waitMs).catch(async (error: Error) => {
      const conditions = JSON.stringify([await this.#get(sources), await this.#get(kustomizations)].map(statusOf));
      throw new Error(`${error.message}\n${conditions}\n${this.controllers.logs}`);
    });
  }
}

const statusOf = ({ status }: FluxObject): unknown => status;
