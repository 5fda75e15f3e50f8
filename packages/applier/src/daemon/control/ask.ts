import { request as httpRequest } from 'node:http';
import { parsedJson } from '@sluice/bundle';
import { CommandError, stateError } from '../../command-error.ts';
import { limits } from '../../limits.ts';
import { StateError } from '../../state/state-error.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { type Control, type ControlStatus, controlPath, isTooLong, requestKinds } from './protocol.ts';
import type { RefusedAnswer } from './socket.ts';

/**
 * Asks the process that holds a state directory for its status.
 * @returns undefined where none listens
 * @throws StateError without permission; CommandError when it does not answer
 */
export async function askStatus(state: string): Promise<ControlStatus | undefined> {
  const path = controlPath(state);
  if (isTooLong(path)) return undefined;
  try {
    return await post<ControlStatus>(path, { do: 'status' }, limits.statusReadMsMax);
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}

/** Connects to that process. @returns and throws as `askStatus` */
export async function connectToDaemon(state: string): Promise<Control | undefined> {
  if ((await askStatus(state)) === undefined) return undefined;
  const asks = requestKinds.map((kind) => {
    const ask = (request: object = {}): Promise<unknown> => post(controlPath(state), { do: kind, ...request });
    return [kind, ask] as const;
  });
  return Object.fromEntries(asks) as unknown as Control;
}

/** No socket, or a dead one of a process that was killed. */
const isAbsent = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ECONNREFUSED');

/** @throws CommandError with the problems of a refusal; the error of the socket where nothing listens */
async function post<T>(path: string, body: object, timeoutMs?: number): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  let isConnected = false;
  const request = httpRequest({ socketPath: path, path: '/', method: 'POST', agent: false }, (response) => {
    const chunks: Buffer[] = [];
    response.on('data', (chunk: Buffer) => chunks.push(chunk));
    response.on('error', () => reject(ended()));
    response.on('end', () => {
      const value = parsedJson(Buffer.concat(chunks).toString('utf8'));
      if (response.statusCode === 200 && value !== undefined) return resolve(value as T);
      const refused = value as RefusedAnswer | undefined;
      reject(refused?.problems ? new CommandError(refused.problems, refused.exitCode) : ended());
    });
  });
  request.on('socket', (socket) => socket.once('connect', () => (isConnected = true)));
  request.on('error', (error: Error & { readonly code?: string }) => {
    if (error instanceof CommandError) return reject(error);
    if (isConnected) return reject(ended());
    if (error.code !== 'EACCES' && error.code !== 'EPERM') return reject(error);
    reject(new StateError('NODE_STATE_INVALID', `${path} cannot be opened: ${error.message}`, 'Run it as root'));
  });
  if (timeoutMs !== undefined) request.setTimeout(timeoutMs, () => void request.destroy(silent(path, timeoutMs)));
  request.end(JSON.stringify(body));
  return promise;
}

const silent = (path: string, timeoutMs: number): CommandError =>
  stateError(
    `sluiced does not answer on ${path} within ${timeoutMs / 1000} s`,
    'Check its log (journalctl -u sluiced), or stop it and try again',
    exitCodes.refused,
  );

const ended = (): CommandError =>
  stateError(
    'Cannot tell the outcome: sluiced stopped before it answered',
    'Run `sluiced status` and `sluiced history` to see what was done',
    exitCodes.problem,
  );
