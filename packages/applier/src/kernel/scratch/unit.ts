import { KernelError, RehearsalError } from '../../ports/failure.ts';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { limits } from '../../limits.ts';
import { type RehearsalAnswer, readAnswer } from './answer.ts';
import type { RehearsalLoad } from './load.ts';
import { printRequest } from './request.ts';

/** Where systemd listens for rehearsals (sluiced-rehearse.socket). */
export const rehearsalSocket = '/run/sluice/rehearse.sock';

const lookThere =
  "Check `systemctl status sluiced-rehearse.socket` and `journalctl -u 'sluiced-rehearse@*'`. Nothing was changed; sluiced retries automatically, or at once with `systemctl reload sluiced.service`";

/**
 * Rehearses rules in the process behind a socket, which has its own network namespace.
 * @param mostMs timeout for the whole rehearsal
 * @throws KernelError when the kernel refuses them
 * @throws RehearsalError when the server is missing, ends, hangs, gives no valid answer, or fails
 */
export async function rehearseInUnit(
  path: string,
  load: RehearsalLoad,
  mostMs: number = limits.rehearsalMs,
): Promise<void> {
  const socket = connect({ path });
  const timer = setTimeout(() => socket.destroy(late(path, mostMs)), mostMs);
  try {
    // The listener is registered before anything can end.
    const answer = answerOf(socket, path);
    answer.catch(() => {});
    await send(socket, load);
    judge(await answer, path);
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}

/** Writes the request at the pace of the server. `answerOf` reports a server that ended. */
async function send(socket: Socket, load: RehearsalLoad): Promise<void> {
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

/** Everything that the server sends, which is one line. */
async function answerOf(socket: Socket, path: string): Promise<RehearsalAnswer> {
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

function judge(answer: RehearsalAnswer, path: string): void {
  switch (answer.answer) {
    case 'good':
      return;
    case 'refused':
      throw new KernelError(`${toolFor[answer.part]} in a scratch namespace`, answer.why, 'refused');
    case 'invalid':
      throw new RehearsalError(
        `the process behind ${path} does not understand the request: ${answer.why}`,
        sameVersion,
      );
    case 'failed':
      throw new RehearsalError(`the process behind ${path} failed: ${answer.why}`, lookThere);
  }
}

const sameVersion =
  'Both ends must have the same version: after an upgrade run `systemctl daemon-reload` and `systemctl try-restart sluiced.service`';

const toolFor = {
  sets: 'ipset',
  servers: 'ipvsadm',
  ipv4: 'iptables-restore',
  ipv6: 'ip6tables-restore',
  nft: 'nft -f',
} as const;

function late(path: string, ms: number): RehearsalError {
  return new RehearsalError(`the process behind ${path} did not answer within ${ms / 1000} s`, lookThere);
}

function rubbish(path: string): RehearsalError {
  return new RehearsalError(`${path} sent no valid answer`, lookThere);
}

function gone(path: string, error: NodeJS.ErrnoException | undefined, text: string): RehearsalError {
  if (error?.code === 'ENOENT') return new RehearsalError(`${path} does not exist`, lookThere);
  if (error?.code === 'ECONNREFUSED') return new RehearsalError(`no process listens at ${path}`, lookThere);
  const how = error === undefined || text !== '' ? '' : ` (${error.code ?? error.message})`;
  return new RehearsalError(`the process behind ${path} ended without an answer${how}`, lookThere);
}
