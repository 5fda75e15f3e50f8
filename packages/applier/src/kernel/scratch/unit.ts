import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { limits } from '../../limits.ts';
import { KernelError, RehearsalError } from '../../rollout/ports.ts';
import { type Answer, readAnswer } from './answer.ts';
import type { Load } from './load.ts';
import { printRequest } from './request.ts';

/** Where systemd listens for rehearsals (sluiced-rehearse.socket). */
export const rehearsalSocket = '/run/sluice/rehearse.sock';

const lookThere =
  "Look at `systemctl status sluiced-rehearse.socket` and `journalctl -u 'sluiced-rehearse@*'`; nothing was touched, and it is tried again by itself, or at once with `systemctl reload sluiced.service`";

/**
 * Has rules loaded by the process behind a socket, which lives in a network namespace of its own.
 * @param mostMs how long the whole may take
 * @throws KernelError when they are not taken
 * @throws RehearsalError when nobody is there, the far end ends, hangs or says what is no answer, or could not do it
 */
export async function rehearseInUnit(path: string, load: Load, mostMs: number = limits.rehearsalMs): Promise<void> {
  const socket = connect({ path });
  const timer = setTimeout(() => socket.destroy(late(path, mostMs)), mostMs);
  try {
    // The listener is there before anything can end.
    const answer = answerOf(socket, path);
    answer.catch(() => {});
    await send(socket, load);
    judge(await answer, path);
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}

/** Writes the request as the far end takes it. A far end that has gone is told of by `answerOf`. */
async function send(socket: Socket, load: Load): Promise<void> {
  for (const piece of printRequest(load)) {
    if (socket.destroyed) return;
    if (socket.write(piece)) continue;
    const ended = new AbortController();
    await Promise.race(
      ['drain', 'close'].map((event) => once(socket, event, { signal: ended.signal }).catch(() => {})),
    );
    ended.abort();
  }
  socket.end();
}

/** Everything that the far end says, which is one line. */
async function answerOf(socket: Socket, path: string): Promise<Answer> {
  let text = '';
  socket.setEncoding('latin1').on('data', (piece: string) => {
    text += piece;
    if (text.length > limits.rehearsalAnswerBytesMax) socket.destroy(rubbish(path));
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  socket.on('error', (error) => reject(error instanceof RehearsalError ? error : gone(path, error, text)));
  socket.once('close', () => resolve());
  await promise;
  if (text === '') throw gone(path, undefined, text);
  const answer = readAnswer(text);
  if (!answer) throw rubbish(path);
  return answer;
}

function judge(answer: Answer, path: string): void {
  switch (answer.answer) {
    case 'good':
      return;
    case 'refused':
      throw new KernelError(`${toolFor[answer.part]} in a scratch namespace`, answer.why);
    case 'invalid':
      throw new RehearsalError(
        `the process behind ${path} does not understand the request: ${answer.why}`,
        sameVersion,
      );
    case 'failed':
      throw new RehearsalError(`the process behind ${path} could not do it: ${answer.why}`, lookThere);
  }
}

const sameVersion =
  'Both ends are one program: `systemctl daemon-reload` and `systemctl try-restart sluiced.service` after an upgrade make them the same';

const toolFor = { sets: 'ipset', servers: 'ipvsadm', ipv4: 'iptables-restore', ipv6: 'ip6tables-restore' } as const;

function late(path: string, ms: number): RehearsalError {
  return new RehearsalError(`the process behind ${path} did not answer within ${ms / 1000} s`, lookThere);
}

function rubbish(path: string): RehearsalError {
  return new RehearsalError(`what came from ${path} is no answer`, lookThere);
}

function gone(path: string, error: NodeJS.ErrnoException | undefined, text: string): RehearsalError {
  if (error?.code === 'ENOENT') return new RehearsalError(`${path} is not there`, lookThere);
  if (error?.code === 'ECONNREFUSED') return new RehearsalError(`nobody listens at ${path}`, lookThere);
  const how = error === undefined || text !== '' ? '' : ` (${error.code ?? error.message})`;
  return new RehearsalError(`the process behind ${path} ended without an answer${how}`, lookThere);
}
