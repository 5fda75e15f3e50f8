/**
 * Two UDP servers and a client that sends from a new port every 2 ms, all in the network namespace of a node: the answers show when
 * rules take effect. Arguments: the addresses of Services, with commas, and those of the servers. Prints one line of JSON for each
 * event (`WitnessEvent`). A line on its standard input is answered with the numbers of packets sent and lost since the last one. It
 * imports nothing from the workspace, to start at once. Times are those of the monotonic clock, which all processes share.
 */
import { createSocket } from 'node:dgram';
import { createInterface } from 'node:readline';

export type WitnessEvent =
  /** A packet sent at that time was the first that a Service answered. */
  | { readonly kind: 'answered'; readonly service: string; readonly at: number }
  /** A packet to the last of the Services, sent at that time, was the first with an answer of this server. */
  | { readonly kind: 'moved'; readonly to: string; readonly at: number }
  | { readonly kind: 'count'; readonly sent: number; readonly lost: number };

export const port = 8080;
const servicePort = 80;
const everyMs = 2;
/** Longer than any queue on one machine. */
const lostAfterMs = 1_000;

const now = (): number => Number(process.hrtime.bigint()) / 1e6;
const say = (event: WitnessEvent): void => void process.stdout.write(`${JSON.stringify(event)}\n`);

function main(services: readonly string[], servers: readonly string[]): void {
  for (const address of servers) serve(address);
  const subject = services.at(-1) ?? '';
  const silent = new Set(services);
  let count = { sent: 0, lost: 0 };
  let server = '';

  const ask = (service: string): void => {
    const at = now();
    const isCounted = !silent.has(service);
    const socket = createSocket('udp4');
    if (isCounted) count.sent++;
    const end = (isAnswered: boolean): void => {
      clearTimeout(timer);
      socket.close();
      if (!isAnswered && isCounted) count.lost++;
    };
    const timer = setTimeout(end, lostAfterMs, false);
    socket.once('error', () => end(false));
    socket.once('message', (text) => {
      end(true);
      if (silent.delete(service)) say({ kind: 'answered', service, at });
      if (service !== subject || String(text) === server) return;
      server = String(text);
      say({ kind: 'moved', to: server, at });
    });
    socket.send('?', servicePort, service);
  };

  createInterface({ input: process.stdin })
    .on('line', () => {
      say({ kind: 'count', ...count });
      count = { sent: 0, lost: 0 };
    })
    .on('close', () => process.exit(0));
  let turn = 0;
  let due = now();
  const tick = (): void => {
    ask(subject);
    const others = [...silent].filter((service) => service !== subject);
    const other = others[turn++ % Math.max(1, others.length)];
    if (other !== undefined) ask(other);
    due = Math.max(due + everyMs, now() - everyMs);
    setTimeout(tick, Math.max(0, due - now()));
  };
  tick();
}

function serve(address: string): void {
  const socket = createSocket('udp4');
  socket.on('message', (_text, peer) => socket.send(address, peer.port, peer.address));
  socket.bind(port, address);
}

if (import.meta.main) main((process.argv[2] ?? '').split(','), (process.argv[3] ?? '').split(','));
