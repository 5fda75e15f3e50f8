/** For programs that run on the machine of the API server: asks the nodes, each of which runs `asker.ts`. */
import { request } from 'node:http';

export const askerPort = 9790;

/** Milliseconds on a clock that all processes of the machine share. */
export const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;

export interface Question {
  readonly address: string;
  /** The name of the pod that shall answer; `any`: a connection shall be taken; `none`: not even that. */
  readonly wanted: string;
  /** The pause between two attempts. */
  readonly everyMs: number;
}

/** What the processes of a program use. */
export interface Used {
  readonly residentKb: number;
  /** Of a processor, since they were started. */
  readonly seconds: number;
}

/** A value for each node, by its name. */
export type ByNode<T> = Readonly<Record<string, T>>;

/** Sends to a node. Ends with the head of its answer. @returns the promise of the rest */
function send(host: string, method: string, body: string): Promise<{ readonly rest: Promise<unknown> }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ readonly rest: Promise<unknown> }>();
  const asked = request({ host, port: askerPort, method }, (response) => {
    const whole = Promise.withResolvers<unknown>();
    let text = '';
    response.setEncoding('utf8').on('data', (part: string) => (text += part));
    response.on('end', () => whole.resolve(JSON.parse(text)));
    response.on('error', whole.reject);
    resolve({ rest: whole.promise });
  });
  asked.on('error', reject);
  asked.end(body);
  return promise;
}

async function eachOf<T>(values: readonly (readonly [string, Promise<T>])[]): Promise<ByNode<T>> {
  return Object.fromEntries(await Promise.all(values.map(async ([name, value]) => [name, await value] as const)));
}

/** Ends once each node looks. @param addresses of the nodes. @returns when the Service first answered each, by `nowMs` */
export async function notice(
  addresses: ByNode<string>,
  question: Question,
): Promise<{ readonly times: Promise<ByNode<number>> }> {
  const sent = Object.entries(addresses).map(async ([name, host]) => {
    const { rest } = await send(host, 'POST', JSON.stringify(question));
    return [name, rest as Promise<number>] as const;
  });
  return { times: eachOf(await Promise.all(sent)) };
}

/** What the programs that serve Services use on each node. */
export function usedOn(addresses: ByNode<string>): Promise<ByNode<Readonly<Record<string, Used>>>> {
  const asked = async (host: string) => (await send(host, 'GET', '')).rest as Promise<Readonly<Record<string, Used>>>;
  return eachOf(Object.entries(addresses).map(([name, host]) => [name, asked(host)] as const));
}

/** Values of each node, as they come. */
export class Measured {
  readonly #values: Record<string, number[]> = {};

  /** @param sinceMs of all nodes, by `nowMs`. A packet may be faster than the API server's answer */
  add(times: ByNode<number>, sinceMs: number): void {
    for (const [node, atMs] of Object.entries(times))
      (this.#values[node] ??= []).push(Math.max(0, Math.round(atMs - sinceMs)));
  }

  get values(): ByNode<readonly number[]> {
    return this.#values;
  }
}
