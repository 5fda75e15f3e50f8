/**
 * The process that acts for one network namespace: it serves and connects on command. Started by `cluster-host.ts` inside the namespace;
 * it must import nothing from the workspace, so that a cluster of ten is up in a second.
 *
 * Reads one JSON request per line (`AgentRequest`), answers one JSON line each (`AgentResponse`) in any order.
 * Ends with its standard input, and the namespace with it: however the test ends, nothing is left behind.
 */
import { createSocket } from 'node:dgram';
import { writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { isIPv6 } from 'node:net';
import { createInterface } from 'node:readline';

export type Protocol = 'tcp' | 'udp';

/** What to open: a new connection each time, so that no old conntrack entry answers for the rules. */
export interface Connect {
  readonly protocol: Protocol;
  readonly to: string;
  readonly port: number;
  /** The source address; the kernel chooses when absent. */
  readonly from?: string;
  readonly timeoutMs: number;
}

/** What answered and which address it saw, or how the connection failed. Only TCP over IPv4 tells an unreachable address from a time-out. */
export type Reply =
  | { readonly kind: 'answer'; readonly answer: string; readonly seenAs: string }
  | { readonly kind: 'refused' | 'timeout' | 'unreachable' };

export type AgentRequest =
  | { readonly do: 'sysctl'; readonly values: Readonly<Record<string, string>> }
  | { readonly do: 'serve'; readonly name: string; readonly protocol: Protocol; readonly port: number }
  | ({ readonly do: 'connect' } & Connect);

export type AgentResponse =
  | { readonly id: number; readonly result: Reply | null }
  | { readonly id: number; readonly error: string };

const plain = (address: string | undefined): string => (address ?? '').replace(/^::ffff:/, '');

/** Real HTTP: the body names the pod and the peer. */
function serveTcp(name: string, port: number): Promise<void> {
  const server = createServer((req, res) => {
    res.setHeader('connection', 'close');
    res.end(JSON.stringify({ answer: name, seenAs: plain(req.socket.remoteAddress) }));
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject).listen(port, '::', resolve);
  });
}

function serveUdp(name: string, port: number): Promise<void> {
  const socket = createSocket({ type: 'udp6', ipv6Only: false });
  socket.on('message', (_message, peer) => {
    socket.send(JSON.stringify({ answer: name, seenAs: plain(peer.address) }), peer.port, peer.address);
  });
  return new Promise((resolve, reject) => {
    socket.once('error', reject).bind(port, '::', resolve);
  });
}

const failures: ReadonlyMap<string, Exclude<Reply['kind'], 'answer'>> = new Map([
  ['ECONNREFUSED', 'refused'],
  ['ECONNRESET', 'refused'],
  // A DROP in the OUTPUT chain tells the sender of a datagram: sendmsg returns EPERM.
  ['EPERM', 'timeout'],
  ['ETIMEDOUT', 'timeout'],
  ['EHOSTUNREACH', 'unreachable'],
  ['ENETUNREACH', 'unreachable'],
]);

/** A refused or lost packet as a value; throws an error that no rule can cause. */
function failure(error: NodeJS.ErrnoException): Reply {
  const kind = failures.get(error.code ?? '');
  if (kind === undefined) throw error;
  return { kind };
}

const answer = (body: string): Reply => ({
  kind: 'answer',
  ...(JSON.parse(body) as { answer: string; seenAs: string }),
});

function connectTcp(target: Connect): Promise<Reply> {
  const done = Promise.withResolvers<Reply>();
  const local = target.from === undefined ? {} : { localAddress: target.from };
  const req = request({ host: target.to, port: target.port, agent: false, ...local }, (res) => {
    let body = '';
    res.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
    res.on('end', () => done.resolve(answer(body)));
  });
  // Not `req.setTimeout`: that one counts from the established connection.
  const timer = setTimeout(() => done.resolve({ kind: 'timeout' }), target.timeoutMs);
  req.on('error', (error) => reconcile(error, done.resolve, done.reject)).end();
  return done.promise.finally(() => {
    clearTimeout(timer);
    req.destroy();
  });
}

/**
 * Ports for UDP, one after the other, above those of nodes: a free one that the kernel draws has been in use after some hundred requests, and the
 * entry of then would lead the packet, past the rules of now.
 */
const udpPorts = { first: 33_000, last: 60_999, next: 33_000 };

function nextUdpPort(): number {
  const port = udpPorts.next;
  udpPorts.next = port === udpPorts.last ? udpPorts.first : port + 1;
  return port;
}

function connectUdp(target: Connect): Promise<Reply> {
  const socket = createSocket(isIPv6(target.to) ? 'udp6' : 'udp4');
  const done = Promise.withResolvers<Reply>();
  const timer = setTimeout(() => done.resolve({ kind: 'timeout' }), target.timeoutMs);
  socket.on('error', (error) => reconcile(error, done.resolve, done.reject));
  socket.on('message', (body) => done.resolve(answer(body.toString())));
  socket.bind(nextUdpPort(), target.from, () => {
    // Only a connected socket receives ICMP errors.
    socket.connect(target.port, target.to, () => {
      socket.send('who are you?', (error) => {
        if (error) reconcile(error, done.resolve, done.reject);
      });
    });
  });
  return done.promise.finally(() => {
    clearTimeout(timer);
    socket.close();
  });
}

function reconcile(error: Error, resolve: (reply: Reply) => void, reject: (error: unknown) => void): void {
  try {
    resolve(failure(error));
  } catch (unexpected) {
    reject(unexpected);
  }
}

async function perform(command: AgentRequest): Promise<Reply | null> {
  if (command.do === 'connect') return command.protocol === 'tcp' ? connectTcp(command) : connectUdp(command);
  if (command.do === 'serve') {
    await (command.protocol === 'tcp' ? serveTcp : serveUdp)(command.name, command.port);
  } else {
    for (const [key, value] of Object.entries(command.values)) writeFileSync(`/proc/sys/${key}`, value);
  }
  return null;
}

const say = (response: AgentResponse): boolean => process.stdout.write(`${JSON.stringify(response)}\n`);

function listen(): void {
  createInterface({ input: process.stdin })
    .on('line', (line) => {
      const { id, ...command } = JSON.parse(line) as AgentRequest & { id: number };
      perform(command).then(
        (result) => say({ id, result }),
        (error: unknown) => say({ id, error: String(error) }),
      );
    })
    .on('close', () => process.exit(0));
  say({ id: 0, result: null });
}

// Other modules import the types only.
if (import.meta.main) listen();
