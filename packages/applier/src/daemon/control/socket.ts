import { chmodSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { parsedJson } from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import * as v from 'valibot';
import { CommandError } from '../../command-error.ts';
import { limits, serverTimes } from '../../limits.ts';
import { messageOf } from '../../message.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { StateError } from '../../state/state-error.ts';
import { type Control, type ControlRequest, controlPath, isTooLong, pathBytesMax, requestSchema } from './protocol.ts';

/** The answer to a refused request. */
export interface RefusedAnswer {
  readonly problems: readonly Problem[];
  readonly exitCode: number;
}

/**
 * The socket of `controlPath`, open while a process holds the lock of the state directory. The directory has mode 0700 and the socket 0600:
 * a user who can open it may do everything here anyway.
 */
export class ControlSocket {
  readonly #path: string;
  readonly #control: Control;
  readonly #failed: (why: string | undefined) => void;
  #server: Server | undefined;

  /** @param failed called with why it cannot be opened, or with undefined when it is open */
  constructor(state: string, control: Control, failed: (why: string | undefined) => void) {
    this.#path = controlPath(state);
    this.#control = control;
    this.#failed = failed;
  }

  /** Opens it unless it is open. */
  async refresh(): Promise<void> {
    try {
      this.#server ??= await listen(this.#path, (request, response) => void answer(request, response, this.#control));
      this.#failed(undefined);
    } catch (error) {
      this.#failed(`Cannot listen on ${this.#path}: ${messageOf(error)}`);
    }
  }

  /** Closes the socket; requests in progress are cut off. */
  close(): void {
    this.#server?.close();
    this.#server?.closeAllConnections();
    this.#server = undefined;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

async function listen(
  path: string,
  handler: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<Server> {
  if (isTooLong(path))
    throw new Error(`a socket path has at most ${pathBytesMax} bytes: use a shorter state directory`);
  // An existing socket is left over from a process that was killed: we hold the lock.
  rmSync(path, { force: true });
  const server = createServer(serverTimes, handler);
  server.maxConnections = limits.controlConnectionsMax;
  // Requests that a client sends ahead would all begin before any timer.
  server.maxRequestsPerSocket = 1;
  const { promise, resolve, reject } = Promise.withResolvers<Server>();
  server.on('error', reject);
  server.listen(path, () => resolve(server));
  await promise;
  chmodSync(path, 0o600);
  return server;
}

async function answer(request: IncomingMessage, response: ServerResponse, control: Control): Promise<void> {
  const send = (status: number, body: unknown): void => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`);
  };
  try {
    send(200, await carryOut(readControlRequest(await readBody(request)), control));
  } catch (error) {
    send(409, refusedAnswer(error));
  }
}

/** A request is of a kind that has its method: `requestSchema` says so. */
const carryOut = (request: ControlRequest, control: Control): Promise<unknown> =>
  (control[request.do] as (request: object) => Promise<unknown>)(request);

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > limits.controlRequestBytesMax) throw unknownRequest();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** @throws StateError for a text that is not a request of this version */
export function readControlRequest(text: string): ControlRequest {
  const parsed = v.safeParse(requestSchema, parsedJson(text));
  if (parsed.success) return parsed.output;
  throw unknownRequest();
}

const unknownRequest = (): StateError =>
  new StateError(
    'NODE_STATE_INVALID',
    'the running sluiced does not know this request',
    'Both must have the same version: run `systemctl restart sluiced`',
  );

function refusedAnswer(error: unknown): RefusedAnswer {
  if (error instanceof CommandError) return { problems: error.problems, exitCode: error.exitCode };
  if (error instanceof StateError) {
    const { code, message, hint } = error;
    return { problems: [refusal(code, message, hint)], exitCode: exitCodes.refused };
  }
  const message = `Cannot carry out the request: ${messageOf(error)}`;
  const hint = 'See the log of sluiced: journalctl -u sluiced';
  return { problems: [refusal('NODE_STATE_INVALID', message, hint)], exitCode: exitCodes.problem };
}
