import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { GuestReply, GuestRequest } from './protocol.ts';

type WithoutId<T> = T extends unknown ? Omit<T, 'id'> : never;

/** The margin of an answer beyond its program's time-out: the guest is slow, and the output has to be transferred. */
const answerMarginMs = 60_000;

/** Requests to the guest's agent and its replies, over a socket. */
export class GuestTalk {
  readonly #socket: Duplex;
  readonly #waiting = new Map<number, PromiseWithResolvers<GuestReply>>();
  readonly #ready = Promise.withResolvers<void>();
  /** The error after which no request is possible. */
  #over: Error | undefined;
  #next = 1;

  private constructor(socket: Duplex) {
    this.#socket = socket;
    this.#ready.promise.catch(() => {});
    createInterface({ input: socket }).on('line', (line) => this.#hear(line));
    socket.on('error', () => {});
    socket.on('close', () => this.#end(new Error('the guest has ended')));
  }

  /**
   * Waits for the first message of the guest's agent.
   * @param socket the machine's end of the line to it
   * @param signal aborts the wait
   */
  static async open(socket: Duplex, signal: AbortSignal): Promise<GuestTalk> {
    const talk = new GuestTalk(socket);
    const stop = (): void => talk.close();
    signal.addEventListener('abort', stop, { once: true });
    await talk.#ready.promise.finally(() => signal.removeEventListener('abort', stop));
    return talk;
  }

  /** @throws when the agent reports an error, when it does not answer in time, and when the guest has ended */
  async ask(request: WithoutId<GuestRequest>): Promise<GuestReply> {
    if (this.#over) throw this.#over;
    const id = this.#next++;
    const reply = Promise.withResolvers<GuestReply>();
    this.#waiting.set(id, reply);
    const ms = answerMarginMs + ('timeoutMs' in request ? request.timeoutMs : 0);
    const timer = setTimeout(() => this.#end(new Error(`the guest has not answered for ${ms} ms`)), ms);
    this.#socket.write(`${JSON.stringify({ id, ...request })}\n`);
    const answer = await reply.promise.finally(() => clearTimeout(timer));
    if ('error' in answer) throw new Error(answer.error);
    return answer;
  }

  close(): void {
    this.#socket.destroy();
  }

  #hear(line: string): void {
    const reply = parse(line);
    if (reply === undefined) return this.#end(new Error(`invalid message from the guest: ${line.slice(0, 200)}`));
    if ('ready' in reply) return this.#ready.resolve();
    this.#waiting.get(reply.id)?.resolve(reply);
    this.#waiting.delete(reply.id);
  }

  #end(error: Error): void {
    this.#over ??= error;
    this.#ready.reject(this.#over);
    for (const { reject } of this.#waiting.values()) reject(this.#over);
    this.#waiting.clear();
    this.#socket.destroy();
  }
}

function parse(line: string): GuestReply | undefined {
  try {
    return JSON.parse(line) as GuestReply;
  } catch {
    return undefined;
  }
}

/** Connects to the socket of an emulator, once it is there. */
export async function connected(path: string, signal: AbortSignal): Promise<Duplex> {
  for (;;) {
    signal.throwIfAborted();
    const attempt = connect(path);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    attempt.once('connect', () => resolve(true)).once('error', () => resolve(false));
    if (await promise) return attempt;
    await sleep(50);
  }
}
