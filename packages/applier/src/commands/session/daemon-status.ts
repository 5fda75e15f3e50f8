import { get } from 'node:http';
import { parsedJson } from '@sluice/bundle';
import { CommandError } from '../../command-error.ts';
import type { SluicedConfig } from '../../config.ts';
import { askStatus } from '../../daemon/control/ask.ts';
import type { ControlStatus } from '../../daemon/control/protocol.ts';
import { limits } from '../../limits.ts';

/** The status of the running process; undefined where none runs or it hangs: then only disk and kernel are shown. */
export async function controlStatus(state: string): Promise<ControlStatus | undefined> {
  try {
    return await askStatus(state);
  } catch (error) {
    if (error instanceof CommandError) return undefined;
    throw error;
  }
}

/**
 * The status of the daemon: by its control socket, else by its status port, where one of another state directory or version may answer.
 * @returns null when none answers
 */
export async function daemonStatus({ state, listen }: Pick<SluicedConfig, 'state' | 'listen'>): Promise<unknown> {
  const running = await controlStatus(state);
  return running ? running.report : askDaemon(listen);
}

/**
 * The answer of the daemon's /status; null when there is none. While no daemon runs another program may hold the port, so an answer is
 * bounded in size and in time.
 */
export function askDaemon(listen: string): Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const signal = AbortSignal.timeout(limits.statusReadMsMax);
  const request = get(`http://${listen}/status`, { agent: false, signal }, (response) => {
    const chunks: Buffer[] = [];
    let length = 0;
    response.on('data', (chunk: Buffer) => {
      length += chunk.length;
      if (length > limits.statusBytesMax) request.destroy();
      else chunks.push(chunk);
    });
    response.on('error', () => resolve(null));
    response.on('close', () => resolve(null));
    response.on('end', () => resolve(parsedJson(Buffer.concat(chunks).toString('utf8')) ?? null));
  });
  request.on('error', () => resolve(null));
  return promise;
}
