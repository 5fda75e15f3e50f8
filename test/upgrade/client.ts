/**
 * Sends the given requests in a loop, and records the answers. Runs in a machine of a test and imports nothing from the
 * workspace. `node client.ts FILE QUESTIONS`, where QUESTIONS is JSON.
 */
import { createSocket } from 'node:dgram';
import { renameSync, writeFileSync } from 'node:fs';
import { connect, isIPv6, type NetConnectOpts } from 'node:net';

export interface ClientQuestion {
  readonly name: string;
  /** `stay` is one TCP connection that is never closed. */
  readonly by: 'tcp' | 'udp' | 'stay';
  readonly to: string;
  readonly port: number;
  /** The source address; the kernel chooses when it is left out. */
  readonly from?: string;
}

/** Question → answer, or error → count. */
export type RecordedAnswers = Readonly<Record<string, Readonly<Record<string, number>>>>;

const answerMs = 3_000;
const pauseMs = 5;

function ask(questions: readonly ClientQuestion[], file: string): void {
  const answers: Record<string, Record<string, number>> = {};
  const note = ({ name }: ClientQuestion, what: string): void => {
    const own = (answers[name] ??= {});
    own[what] = (own[what] ?? 0) + 1;
  };
  for (const question of questions) {
    const { by } = question;
    if (by === 'stay') stay(question, note);
    else {
      const again = (what: string): void => {
        note(question, what);
        setTimeout(() => once[by](question, again), pauseMs);
      };
      once[by](question, again);
    }
  }
  setInterval(() => {
    writeFileSync(`${file}.tmp`, JSON.stringify(answers));
    renameSync(`${file}.tmp`, file);
  }, 50);
}

const optionsOf = ({ to, port, from }: ClientQuestion): NetConnectOpts => ({
  host: to,
  port,
  ...(from === undefined ? {} : { localAddress: from }),
});

const once = {
  tcp(question: ClientQuestion, end: (what: string) => void): void {
    const socket = connect(optionsOf(question), () => socket.write('who\n'));
    const timer = setTimeout(() => finish('no answer'), answerMs);
    const finish = (what: string): void => {
      clearTimeout(timer);
      if (!socket.destroyed) end(what);
      socket.destroy();
    };
    socket.on('data', (text) => finish(String(text).trim()));
    socket.on('error', (error: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      end(error.code ?? error.message);
    });
  },
  udp(question: ClientQuestion, end: (what: string) => void): void {
    const socket = createSocket(isIPv6(question.to) ? 'udp6' : 'udp4');
    const finish = (what: string): void => {
      clearTimeout(timer);
      socket.close();
      end(what);
    };
    const timer = setTimeout(() => finish('no answer'), answerMs);
    socket.once('error', (error: NodeJS.ErrnoException) => finish(error.code ?? error.message));
    socket.once('message', (text) => finish(String(text)));
    socket.connect(question.port, question.to, () => socket.send('who'));
  },
} as const;

function stay(question: ClientQuestion, note: (question: ClientQuestion, what: string) => void): void {
  const socket = connect(optionsOf(question));
  let asked = Date.now();
  const timer = setInterval(() => {
    if (Date.now() - asked > answerMs) {
      note(question, 'no answer');
      asked = Date.now();
    }
    socket.write('who\n');
  }, 20);
  socket.on('data', (text) => {
    asked = Date.now();
    for (const name of String(text).trim().split('\n')) note(question, name);
  });
  socket.on('error', (error: NodeJS.ErrnoException) => note(question, error.code ?? error.message));
  socket.on('close', () => {
    clearInterval(timer);
    note(question, 'closed');
  });
}

// Tests import the types only.
if (import.meta.main) ask(JSON.parse(process.argv[3] ?? '[]') as ClientQuestion[], process.argv[2] ?? '');
