// The API server that all subjects follow: a real one where it is built, otherwise that of the tests with the real kube-proxy.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeAuthority } from '../../cluster/certificates.fixture.ts';
import { freePort } from '../../cluster/port.fixture.ts';
import { realApi } from '../../cluster/real-api.fixture.ts';
import { until } from '../../netns/until.ts';
import type { ApiServerPrograms } from '../../parity/binaries.ts';
import { type ListItem, namespaces } from './cluster.ts';

export interface Api {
  readonly kubeconfig: string;
  /** The content type of kube-proxy: its own default for a real API server. */
  readonly contentType: string;
  /** Replaces an existing object. */
  put(item: ListItem): Promise<void>;
  close(): Promise<void>;
}

/** The number of parallel requests while a cluster is loaded. */
const parallel = 32;
const startMs = 60_000;

/** @param address of this network namespace, where the server listens */
export const openApi = (
  programs: ApiServerPrograms | undefined,
  items: readonly ListItem[],
  address: string,
): Promise<Api> => (programs === undefined ? openOwn(items, address) : openReal(programs, items, address));

async function openReal(programs: ApiServerPrograms, items: readonly ListItem[], address: string): Promise<Api> {
  const api = await realApi(programs, address);
  const client = new ApiClient(api.admin);
  try {
    const spaces = namespaces.map((name) => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } }));
    await client.createAll(spaces);
    await client.createAll(items);
  } catch (error) {
    await api.close();
    throw error;
  }
  return {
    kubeconfig: api.admin,
    contentType: 'application/vnd.kubernetes.protobuf',
    put: (item) => client.send('PUT', `${folderOf(item)}/${item.metadata.name}`, item),
    close: async () => {
      client.close();
      await api.close();
    },
  };
}

async function openOwn(items: readonly ListItem[], address: string): Promise<Api> {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-parity-api-'));
  const notAfter = new Date(Date.now() + 24 * 3_600_000);
  const authority = makeAuthority('test-ca', notAfter);
  const { certificate, key } = authority.issue('server', notAfter, address.split('.').map(Number));
  writeFileSync(join(dir, 'ca.crt'), authority.certificate);
  writeFileSync(join(dir, 'server.crt'), certificate);
  writeFileSync(join(dir, 'server.key'), key, { mode: 0o600 });
  writeFileSync(join(dir, 'objects.json'), JSON.stringify(items));
  const port = await freePort(address);
  const server = `https://${address}:${port}`;
  const kubeconfig = join(dir, 'kubeconfig');
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server, 'certificate-authority': join(dir, 'ca.crt') } }],
    users: [{ name: 'u', user: { token: 'none' } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  };
  writeFileSync(kubeconfig, JSON.stringify(config));
  const program = join(import.meta.dirname, '../../parity/api-server.ts');
  const child = spawn(process.execPath, [program, join(dir, 'objects.json'), String(port), address, dir], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const client = new ApiClient(kubeconfig);
  await until('an answer of the API server', () => client.isThere('/api/v1/nodes'), startMs);
  return {
    kubeconfig,
    contentType: 'application/json',
    put: (item) => client.send('POST', '/change', [{ type: 'put', item }]),
    close: async () => {
      client.close();
      child.kill('SIGTERM');
      await new Promise((resolve) => child.once('exit', resolve));
      rmSync(dir, { recursive: true });
    },
  };
}

const plurals: Readonly<Record<string, string>> = {
  Namespace: '/api/v1/namespaces',
  Node: '/api/v1/nodes',
  Service: '/api/v1/namespaces/NS/services',
  EndpointSlice: '/apis/discovery.k8s.io/v1/namespaces/NS/endpointslices',
};

function folderOf({ kind, metadata: { namespace = '' } }: ListItem): string {
  const folder = plurals[kind];
  if (folder === undefined) throw new Error(`Cannot send a ${kind} to the API server`);
  return folder.replace('NS', namespace);
}

/** Over keep-alive connections, as the administrator of a kubeconfig. */
class ApiClient {
  readonly #url: URL;
  readonly #authorization: string;
  readonly #agent: Agent;

  constructor(kubeconfig: string) {
    const { clusters, users } = JSON.parse(readFileSync(kubeconfig, 'utf8')) as {
      readonly clusters: readonly { readonly cluster: { readonly server: string; 'certificate-authority': string } }[];
      readonly users: readonly { readonly user: { readonly token: string } }[];
    };
    const { server = '', 'certificate-authority': authority = '' } = clusters[0]?.cluster ?? {};
    this.#url = new URL(server);
    this.#authorization = `Bearer ${users[0]?.user.token}`;
    this.#agent = new Agent({ ca: readFileSync(authority), keepAlive: true, maxSockets: parallel });
  }

  /** @throws where the server refuses it */
  async send(method: string, path: string, body: object): Promise<void> {
    const { status, text } = await this.#ask(method, path, JSON.stringify(body));
    if (status >= 300) throw new Error(`Cannot ${method} ${path}: ${status} ${text.slice(0, 500)}`);
  }

  async createAll(items: readonly ListItem[]): Promise<void> {
    const left = items.values();
    const worker = async (): Promise<void> => {
      for (const item of left) await this.send('POST', folderOf(item), item);
    };
    await Promise.all(Array.from({ length: parallel }, worker));
  }

  isThere(path: string): Promise<boolean> {
    return this.#ask('GET', path).then(
      ({ status }) => status === 200,
      () => false,
    );
  }

  close(): void {
    this.#agent.destroy();
  }

  #ask(method: string, path: string, body?: string): Promise<{ readonly status: number; readonly text: string }> {
    const headers = { authorization: this.#authorization, 'content-type': 'application/json' };
    return new Promise((resolve, reject) => {
      const sent = request(new URL(path, this.#url), { method, headers, agent: this.#agent }, (response) => {
        let text = '';
        response.on('data', (chunk) => (text += String(chunk)));
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
        response.on('error', reject);
      });
      // The server closes a connection that was idle for some seconds, perhaps while a request is on its way.
      const isClosed = ({ code }: NodeJS.ErrnoException): boolean => sent.reusedSocket && code === 'ECONNRESET';
      sent.on('error', (error) => (isClosed(error) ? resolve(this.#ask(method, path, body)) : reject(error))).end(body);
    });
  }
}
