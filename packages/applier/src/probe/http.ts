import { get as getPlain, type IncomingMessage } from 'node:http';
import { limits } from '../limits.ts';
import { withExcerpt } from './excerpt.ts';
import type { ProbeAnswer } from './answer.ts';

/** Healthy: a status from 200 to 399, as for the kubelet. Redirects are not followed; other answers are reported with their body. */
export function tryHttp(url: string, timeoutMs: number): Promise<ProbeAnswer> {
  const { promise, resolve } = Promise.withResolvers<ProbeAnswer>();
  const get = url.startsWith('https:') ? secureGet() : getPlain;
  const request = get(url, { agent: false, headers: { 'user-agent': 'sluiced', connection: 'close' } }, (response) => {
    const status = response.statusCode ?? 0;
    if (status >= 200 && status < 400) {
      response.destroy();
      return resolve({ healthy: true, seen: `status ${status}` });
    }
    readSome(response, (body) => resolve({ healthy: false, seen: withExcerpt(`status ${status}`, body) }));
  });
  const timer = setTimeout(() => request.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  request.on('error', (error) => resolve({ healthy: false, seen: error.message }));
  request.on('close', () => clearTimeout(timer));
  return promise;
}

/** Loaded by the first probe that needs it: importing it parses all certificates that Node trusts, 3 MB of memory on each node. */
const secureGet = (): typeof getPlain => process.getBuiltinModule('node:https').get;

/** Reads the beginning of a body. The timeout of the request ends an endless one. */
function readSome(response: IncomingMessage, done: (text: string) => void): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  const finish = (): void => {
    done(Buffer.concat(chunks).toString('utf8'));
    response.destroy();
  };
  response.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= limits.probeBodyBytesMax) finish();
  });
  response.on('end', finish);
  response.on('error', finish);
}
