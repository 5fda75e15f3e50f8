import { get } from 'node:http';
import type { SluicedConfig } from '../../config.ts';
import { limits } from '../../limits.ts';
import { controlStatus } from './control-status.ts';

/**
 * The status of the daemon: by its control socket, else by its status port, where one of another state directory or version may answer.
 * @returns null when none answers
 */
export async function daemonStatus({ state, listen }: Pick<SluicedConfig, 'state' | 'listen'>): Promise<unknown> {
  const running = await controlStatus(state);
  return running ? running.report : askDaemon(listen);
}

/** The answer of the daemon's /status; null when there is none. */
export function askDaemon(listen: string): Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const request = get(`http://${listen}/status`, { agent: false, timeout: limits.statusReadMsMax }, (response) => {
    const chunks: Buffer[] = [];
    response.on('data', (chunk: Buffer) => chunks.push(chunk));
    response.on('end', () => {
      try {
        resolve(JSON.parse(Buffer.concat(chunks).toString('utf8')));
      } catch {
        resolve(null);
      }
    });
  });
  request.on('timeout', () => request.destroy());
  request.on('error', () => resolve(null));
  return promise;
}
