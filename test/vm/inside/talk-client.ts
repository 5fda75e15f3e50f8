// A client that keeps connections open and sends on them ten times a second: `node talk-client.ts ADDRESS PORT COUNT FILE`. Writes the
// peer of each connection, the number of its answers, and whether it is open, to FILE; resets all of them once FILE.end exists.
import { existsSync, renameSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';

/** A connection as the client sees it. */
export interface TalkRecord {
  /** The name that answers; empty before the first answer. */
  readonly with: string;
  readonly answers: number;
  readonly open: boolean;
}

const [, , address = '', port, count, file = ''] = process.argv;
const talks: { with: string; answers: number; open: boolean }[] = [];
const sockets = Array.from({ length: Number(count) }, (_, n) => {
  const talk = { with: '', answers: 0, open: true };
  talks[n] = talk;
  const socket = connect(Number(port), address);
  socket.setEncoding('utf8').on('data', (text) => {
    talk.with = String(text).slice(0, 1);
    talk.answers++;
  });
  socket.on('error', () => {}).on('close', () => (talk.open = false));
  return socket;
});

setInterval(() => {
  for (const socket of sockets) if (socket.writable) socket.write('x');
  writeFileSync(`${file}.new`, JSON.stringify(talks));
  renameSync(`${file}.new`, file);
  if (!existsSync(`${file}.end`)) return;
  for (const socket of sockets) socket.resetAndDestroy();
  process.exit();
}, 100);
