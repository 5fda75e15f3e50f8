/**
 * Opens connections from given addresses and ports inside of a network namespace, in which every endpoint is an address of its own, and
 * prints which of these answered. It imports nothing from the workspace.
 *
 * Reads `{ flows: [{ from, port, to }], atOnce }` as JSON, and prints a list of addresses.
 */
import { createServer, connect } from 'node:net';
import { text } from 'node:stream/consumers';

interface Flow {
  readonly from: string;
  readonly port: number;
  readonly to: string;
}

const { flows, atOnce } = JSON.parse(await text(process.stdin)) as {
  readonly flows: readonly Flow[];
  readonly atOnce: number;
};

const answerMs = 10_000;

const server = createServer((socket) => {
  socket.on('error', () => {});
  socket.end((socket.localAddress ?? '').replace(/^::ffff:/, ''));
});
await new Promise<void>((resolve) => server.listen(8080, '::', 4096, resolve));

async function answerTo({ from, port, to }: Flow): Promise<string> {
  const socket = connect({ host: to, port: 80, localAddress: from, localPort: port });
  socket.setTimeout(answerMs, () => socket.destroy(new Error('no answer')));
  try {
    return await text(socket);
  } catch (error) {
    return `no answer from ${to} to ${from}: ${String(error)}`;
  }
}

const answers: string[] = [];
const next = flows.entries();
await Promise.all(
  Array.from({ length: atOnce }, async () => {
    for (const [at, flow] of next) answers[at] = await answerTo(flow);
  }),
);
process.stdout.write(JSON.stringify(answers));
process.exit(0);
