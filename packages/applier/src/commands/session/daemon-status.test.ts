// @module-tag quick
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { limits } from '../../limits.ts';
import { askDaemon } from './daemon-status.ts';

/** What is read of a server at the status port. */
async function answerOf(listener: RequestListener): Promise<unknown> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void (server.closeAllConnections(), server.close()));
  return askDaemon(`127.0.0.1:${(server.address() as AddressInfo).port}`);
}

test('reads a whole answer', async () => {
  expect(await answerOf((_request, response) => response.end('{"node": "a"}'))).toEqual({ node: 'a' });
});

test.for<[string, RequestListener]>([
  ['is no JSON', (_request, response) => response.end('<html>')],
  ['ends in the middle', (_request, response) => void (response.write('{'), setTimeout(() => response.destroy(), 50))],
  [
    'never ends',
    (_request, response) => {
      const more = (): void => {
        while (response.write(Buffer.alloc(1 << 16)));
      };
      response.on('drain', more);
      more();
    },
  ],
])('takes no answer that %s', async ([, listener]) => {
  expect(await answerOf(listener)).toBeNull();
});

test('waits no longer than its time for an answer that comes byte by byte', async () => {
  const { statusReadMsMax } = limits;
  Object.assign(limits, { statusReadMsMax: 200 });
  onTestFinished(() => void Object.assign(limits, { statusReadMsMax }));
  const slow: RequestListener = (_request, response) => {
    const drip = setInterval(() => response.write(' '), 20);
    response.on('close', () => clearInterval(drip));
  };
  expect(await answerOf(slow)).toBeNull();
});
