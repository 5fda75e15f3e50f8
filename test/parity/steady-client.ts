import { readFileSync, writeFileSync } from 'node:fs';
import { until } from '../netns/until.ts';
import type { ClientsNode } from '../netns/clients.ts';

/** The Service that it asks, and its endpoints, which it runs itself: pods of `addPods`. */
export const steadyService = {
  address: '10.96.0.13',
  port: 53,
  targetPort: 5353,
  endpoints: ['10.244.0.2', '10.244.0.3'],
} as const;

/** Endpoints answer; a client in a pod that keeps its port, as resolvers do, asks every 200 ms and records what it gets. */
const program = (file: string): string => `
  const { createSocket } = require('node:dgram');
  const { writeFileSync, renameSync } = require('node:fs');
  const { address, port, targetPort, endpoints } = ${JSON.stringify(steadyService)};
  for (const endpoint of endpoints) {
    const server = createSocket('udp4');
    server.on('message', (_, from) => server.send(endpoint, from.port, from.address));
    server.bind(targetPort, endpoint);
  }
  const met = { answers: 0, longestSilenceMs: 0 };
  let last;
  const client = createSocket('udp4');
  client.on('error', () => {}).on('message', () => {
    const now = performance.now();
    met.longestSilenceMs = Math.max(met.longestSilenceMs, Math.round(now - (last ?? now)));
    met.answers++;
    last = now;
  });
  client.bind(4000, '10.244.0.4', () => setInterval(() => {
    client.send('who', port, address, () => {});
    writeFileSync('${file}.tmp', JSON.stringify(met));
    renameSync('${file}.tmp', '${file}');
  }, 200));
`;

/** A client of UDP with one port, and its endpoints. They end with the node. */
export class SteadyClient {
  readonly #file: string;

  private constructor(file: string) {
    this.#file = file;
  }

  static async start(node: ClientsNode): Promise<SteadyClient> {
    const file = `${node.directory}/steady`;
    writeFileSync(`${file}.cjs`, program(file));
    node.startProgram([process.execPath, `${file}.cjs`]);
    const client = new SteadyClient(file);
    await until('the client that keeps its port is served', async () => client.answers() > 0, 120_000);
    return client;
  }

  #met(): { readonly answers: number; readonly longestSilenceMs: number } {
    try {
      return JSON.parse(readFileSync(this.#file, 'utf8')) as { answers: number; longestSilenceMs: number };
    } catch {
      return { answers: 0, longestSilenceMs: 0 };
    }
  }

  answers(): number {
    return this.#met().answers;
  }

  /** Between two answers. */
  longestSilenceMs(): number {
    return this.#met().longestSilenceMs;
  }
}
