// Runs on a node of the rig: connects to Services all the time, and counts answers in a file. ADDRESS: a new connection as soon as the last
// one has ended. kept:ADDRESS: one connection that asks again and again.
import { renameSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { ask } from './api.ts';

/** What became of the connections to an address. */
export interface Met {
  served: number;
  /** Answers of each pod. */
  readonly pods: Record<string, number>;
  /** By the code of the error. */
  readonly lost: Record<string, number>;
}

const [file = '', ...targets] = process.argv.slice(2);
const met: Record<string, Met> = {};
/** At once, to each address. */
const clients = 2;
const patienceMs = 3_000;

const count = (counts: Record<string, number>, key: string): void => void (counts[key] = (counts[key] ?? 0) + 1);

async function visit(address: string, one: Met): Promise<void> {
  const answer = await ask(address, patienceMs);
  if ('pod' in answer) {
    one.served++;
    count(one.pods, answer.pod);
  } else count(one.lost, answer.lost);
  setTimeout(() => void visit(address, one), 10);
}

/** Opens a connection, and another one once it has ended, which is counted as lost. */
function keep(address: string, one: Met): void {
  const socket = connect({ host: address, port: 80 });
  let lost = 'closed';
  const put = (): void => void socket.write('GET /hostname HTTP/1.1\r\nHost: service\r\n\r\n');
  socket.setTimeout(patienceMs, () => socket.destroy(new Error('no answer')));
  socket.on('connect', put).on('data', () => {
    one.served++;
    setTimeout(put, 50);
  });
  socket.on('error', (error: NodeJS.ErrnoException) => (lost = error.code ?? error.message));
  socket.on('close', () => {
    count(one.lost, lost);
    setTimeout(() => keep(address, one), 100);
  });
}

for (const target of targets) {
  const one: Met = { served: 0, pods: {}, lost: {} };
  met[target] = one;
  if (target.startsWith('kept:')) keep(target.slice('kept:'.length), one);
  else for (let client = 0; client < clients; client++) void visit(target, one);
}
setInterval(() => {
  writeFileSync(`${file}.part`, JSON.stringify(met));
  renameSync(`${file}.part`, file);
}, 100);
