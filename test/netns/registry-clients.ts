import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import type { SluicedNode } from './sluiced-node.ts';
import { until } from './until.ts';

/** What answers at an image registry's `/v2/`: one manifest and its blob of 256 KiB, as a container runtime pulls them. */
const registry = (addresses: readonly string[]): string => `
  const { createServer } = require('node:http');
  const blob = Buffer.alloc(256 * 1024, 'layer');
  const answer = (asked, to) => {
    const path = new URL(asked.url, 'http://registry').pathname;
    const body = path.includes('/blobs/') ? blob : path.includes('/manifests/') ? Buffer.from('{"schemaVersion":2}') : Buffer.from('{}');
    to.writeHead(200, { 'Docker-Distribution-Api-Version': 'registry/2.0', 'Content-Length': body.length });
    to.end(asked.method === 'HEAD' ? undefined : body);
  };
  const options = { keepAliveTimeout: 0, requestTimeout: 0, headersTimeout: 0 };
  for (const address of ${JSON.stringify(addresses)}) createServer(options, answer).listen(8080, address, 1024);
`;

/** As long as containerd waits for a connection. A daemon on a machine with other work may do something else for seconds. */
const answersMs = 30_000;

/**
 * The clients at each address: connections that stay open and ask once in two seconds, opened again a second after they end: hundreds that
 * try at once would keep a busy machine from starting what they wait for; and four pulls at a time, each on a
 * connection of its own, in the form that containerd gives to a mirror of its `hosts.toml`.
 */
const clients = (file: string, staying: number): string => `
  const { Agent, request } = require('node:http');
  const { connect } = require('node:net');
  const { writeFileSync, renameSync } = require('node:fs');
  const count = {};
  const add = (counts, what) => { counts[what] = (counts[what] ?? 0) + 1; };
  function stay(host, mine) {
    let open = false, unanswered = 0, why = 'closed', timer;
    const socket = connect({ host, port: 31999 }, () => { ask(); timer = setInterval(ask, 2000); });
    const ask = () => {
      if (unanswered++ > ${answersMs / 2000}) return socket.destroy(Object.assign(new Error(), { code: 'no answer' }));
      socket.write('GET /v2/ HTTP/1.1\\r\\nHost: registry\\r\\n\\r\\n');
    };
    socket.on('data', () => { unanswered = 0; mine.answers++; if (!open) { open = true; mine.staying++; } });
    socket.on('error', ({ code }) => { why = code; });
    socket.on('close', () => {
      clearInterval(timer);
      if (open) { mine.staying--; add(mine.ended, why); }
      setTimeout(stay, 1000, host, mine);
    });
  }
  const fetch = (agent, host, method, path) => new Promise((resolve, reject) => {
    const headers = { Accept: 'application/vnd.oci.image.manifest.v1+json, */*' };
    const asked = request({ agent, host, port: 31999, method, path, headers, timeout: ${answersMs} }, (from) => {
      let bytes = 0;
      from.on('data', (part) => { bytes += part.length; });
      from.on('end', () => resolve(bytes)).on('error', reject);
    });
    asked.on('timeout', () => asked.destroy(Object.assign(new Error(), { code: 'no answer' }))).on('error', reject).end();
  });
  async function pull(host, mine) {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    try {
      await fetch(agent, host, 'HEAD', '/v2/pause/manifests/3.10?ns=registry.k8s.io');
      await fetch(agent, host, 'GET', '/v2/pause/manifests/sha256:1?ns=registry.k8s.io');
      const bytes = await fetch(agent, host, 'GET', '/v2/pause/blobs/sha256:2?ns=registry.k8s.io');
      if (bytes === 256 * 1024) mine.pulled++; else add(mine.lost, bytes + ' bytes');
    } catch (error) {
      add(mine.lost, error.code ?? error.message);
    }
    agent.destroy();
    setTimeout(pull, 20, host, mine);
  }
  for (const host of ['127.0.0.1', '::1']) {
    const mine = count[host] = { pulled: 0, lost: {}, staying: 0, answers: 0, ended: {} };
    for (let n = 0; n < ${staying}; n++) setTimeout(stay, n, host, mine);
    for (let n = 0; n < 4; n++) pull(host, mine);
  }
  setInterval(() => { writeFileSync('${file}.tmp', JSON.stringify(count)); renameSync('${file}.tmp', '${file}'); }, 100);
`;

/** Since the clients' start. */
export interface RegistryCount {
  readonly pulled: number;
  /** Pulls that failed, by their error. */
  readonly lost: Readonly<Record<string, number>>;
  /** Connections that stay open now. */
  readonly staying: number;
  readonly answers: number;
  /** Those that ended after they were open, by their error. */
  readonly ended: Readonly<Record<string, number>>;
}

/** A machine with other work: hundreds of connections and a daemon that starts. */
const waitsMs = 120_000;

type Counts = Readonly<Record<'127.0.0.1' | '::1', RegistryCount>>;

/** Clients of a registry at node port 31999 of localhost, in both families. They end with the node. */
export class RegistryClients {
  readonly #file: string;
  readonly #staying: number;

  private constructor(file: string, staying: number) {
    this.#file = file;
    this.#staying = staying;
  }

  /** @param staying connections that stay open, at each address */
  static start(node: SluicedNode, staying: number): RegistryClients {
    const file = `${node.directory}/pulls`;
    writeFileSync(`${file}.cjs`, clients(file, staying));
    node.startProgram([process.execPath, `${file}.cjs`]);
    return new RegistryClients(file, staying);
  }

  get counts(): Counts {
    return JSON.parse(readFileSync(this.#file, 'utf8')) as Counts;
  }

  /** Until every connection that stays is open. */
  async open(address: keyof Counts): Promise<void> {
    await until(
      `all connections to ${address} are open`,
      async () => {
        try {
          return this.counts[address].staying === this.#staying;
        } catch {
          return false;
        }
      },
      waitsMs,
    );
  }

  /** Until new connections were served, and each that stays was asked once more. @returns what was counted meanwhile is in `counts` */
  async goOn(address: keyof Counts): Promise<void> {
    const before = this.counts[address];
    await until(
      `${address} goes on`,
      async () => {
        const { pulled, answers, staying } = this.counts[address];
        return pulled >= before.pulled + 20 && answers >= before.answers + staying;
      },
      waitsMs,
    );
  }

  /** Until new connections fail. */
  async fail(address: keyof Counts): Promise<void> {
    const before = sum(this.counts[address].lost);
    await until(`${address} fails`, async () => sum(this.counts[address].lost) >= before + 50, waitsMs);
  }
}

export const sum = (counts: Readonly<Record<string, number>>): number =>
  Object.values(counts).reduce((all, one) => all + one, 0);

/** Starts the registry's pods. @param namespace which has their addresses @returns what ends them */
export function startRegistry(directory: string, addresses: readonly string[], namespace: string): () => boolean {
  const file = `${directory}/registry.cjs`;
  writeFileSync(file, registry(addresses));
  const child = spawn('ip', ['netns', 'exec', namespace, process.execPath, file], { stdio: 'ignore' });
  return () => child.kill('SIGKILL');
}
