import { readFileSync, writeFileSync } from 'node:fs';
import { isInGuest } from '../in-guest.ts';
import { until } from './until.ts';

/** The node that clients run on. */
export interface ClientsNode {
  readonly directory: string;
  tool(command: readonly string[], input?: string): Promise<string>;
  startProgram(command: readonly string[]): { kill(signal: 'SIGUSR2'): unknown };
}

/** Between two connections of a client, and how long it waits for an answer: an emulated processor has little time left for them. */
const pace = isInGuest ? { pauseMs: 500, timeoutMs: 30_000 } : { pauseMs: 2, timeoutMs: 3_000 };

/** Every pod answers with its own address; four clients open a connection as soon as the last one has ended, and record the answers. */
const program = (file: string): string => `
  const { createServer, get } = require('node:http');
  const { writeFileSync, renameSync } = require('node:fs');
  createServer((asked, to) => to.end(asked.socket.localAddress.replace('::ffff:', ''))).listen(8080, '::');
  const met = {};
  const wanted = {
    '10.96.0.11': ['10.244.0.2', '10.244.0.3'], '10.96.0.12': ['10.244.0.4'],
    '[fd00:96::a]': ['fd00:10::1', 'fd00:10::2'], '[fd00:96::b]': ['fd00:10::3'],
  };
  const note = (vip, what) => { met[vip] ??= {}; met[vip][what] = (met[vip][what] ?? 0) + 1; };
  const ask = (vip) => {
    const again = () => setTimeout(ask, ${pace.pauseMs}, vip);
    const request = get('http://' + vip + '/', { agent: false, timeout: ${pace.timeoutMs} }, (from) => {
      let text = '';
      from.on('data', (part) => { text += part; });
      from.on('end', () => { note(vip, wanted[vip].includes(text) ? 'served' : 'misled to ' + text); again(); });
    });
    request.on('timeout', () => request.destroy(new Error('no answer')));
    let from = 'no address';
    request.on('socket', (socket) => socket.on('connect', () => { from = socket.localAddress; }));
    request.on('error', (error) => { note(vip, (error.code ?? error.message) + ' from ' + from); again(); });
  };
  process.on('SIGUSR2', () => { for (const vip of Object.keys(wanted)) ask(vip); });
  setInterval(() => { writeFileSync('${file}.tmp', JSON.stringify(met)); renameSync('${file}.tmp', '${file}'); }, 100);
`;

/** Gives the node three endpoints: number n has the addresses 10.244.0.(n + 1) and fd00:10::n; and routes to the Services. */
export async function addPods(node: ClientsNode): Promise<void> {
  const addresses = [1, 2, 3].flatMap((n) => [`10.244.0.${n + 1}/32 dev lo`, `fd00:10::${n}/128 dev lo nodad`]);
  const setUp = [
    ...addresses.map((one) => `ip addr add ${one}`),
    'ip route add 10.96.0.0/12 dev lo',
    'ip addr add fd00:1::1/64 dev lo nodad',
    'ip -6 route add fd00:96::/112 dev lo',
  ];
  await node.tool(['sh', '-c', setUp.join(' && ')]);
}

type Answers = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** New connections without a pause to shop/web and shop/cart, in both families. They end with the node. */
export class Clients {
  readonly #file: string;

  private constructor(file: string) {
    this.#file = file;
  }

  static async start(node: ClientsNode): Promise<Clients> {
    const file = `${node.directory}/met`;
    writeFileSync(`${file}.cjs`, program(file));
    const child = node.startProgram([process.execPath, `${file}.cjs`]);
    const clients = new Clients(file);
    await until('the clients run', async () => clients.#answers());
    child.kill('SIGUSR2');
    return clients;
  }

  #answers(): Answers | undefined {
    try {
      return JSON.parse(readFileSync(this.#file, 'utf8')) as Answers;
    } catch {
      return undefined;
    }
  }

  /** Connections that were not served by an endpoint of their Service, or a frontend without any connection. */
  lost(): readonly string[] {
    const answers = this.#answers() ?? {};
    const others = Object.entries(answers).flatMap(([vip, counts]) =>
      Object.entries(counts).flatMap(([what, count]) => (what === 'served' ? [] : [`${vip}: ${what}, ${count} times`])),
    );
    const missing = frontends.filter((vip) => (answers[vip]?.['served'] ?? 0) === 0);
    return [...others, ...missing.map((vip) => `${vip}: never served`)];
  }

  /** By frontend: what was answered, and how often. */
  answers(): Answers {
    return this.#answers() ?? {};
  }

  /** Waits until each frontend has answered a few times more: a connection that is lost until then is recorded. */
  async goOn(): Promise<void> {
    const before = this.answers();
    const of = (answers: Answers, vip: string): number => answers[vip]?.['served'] ?? 0;
    await until('each frontend answers', async () => {
      const answers = this.answers();
      return frontends.every((vip) => of(answers, vip) > 2 + of(before, vip));
    });
  }

  served(): number {
    return Object.values(this.#answers() ?? {}).reduce((sum, counts) => sum + (counts['served'] ?? 0), 0);
  }
}

const frontends = ['10.96.0.11', '10.96.0.12', '[fd00:96::a]', '[fd00:96::b]'];
