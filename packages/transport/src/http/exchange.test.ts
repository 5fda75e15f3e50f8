import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { localKind } from './addresses.ts';
import { exchange } from './exchange.ts';
import { registryLimits } from './limits.ts';

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
  server = undefined;
});

async function serve(listener: RequestListener, host = 'localhost'): Promise<URL> {
  const made = createServer(listener);
  server = made;
  await new Promise<void>((listening) => made.listen(0, host, listening));
  return new URL(`http://${host}:${(made.address() as AddressInfo).port}/`);
}

const get = { method: 'GET', bytesMax: 1 << 20 } as const;

describe('a response that drips', () => {
  const limits = { ...registryLimits, answerTimeoutMs: 300, slowAfterMs: 300 };
  const drip = (write: () => void): void => void setInterval(write, 20).unref();

  test('in its body is ended, although data come all the time', async () => {
    const url = await serve((_request, response) => {
      response.writeHead(200);
      drip(() => void response.write('x'));
    });
    await expect(exchange(url, get, {}, limits)).rejects.toMatchObject({
      name: 'TooSlow',
      message: 'the response has less than 1024 bytes per second',
    });
  });

  test('in its headers is ended, too', async () => {
    const url = await serve(({ socket }) => {
      socket.write('HTTP/1.1 200 OK\r\n');
      drip(() => void socket.write('x: y\r\n'));
    });
    await expect(exchange(url, get, {}, limits)).rejects.toMatchObject({
      name: 'TooSlow',
      message: 'no response for 300 ms after the request',
    });
  });

  test('at more than the least rate is read to its end', async () => {
    let left = 40;
    const url = await serve((_request, response) => {
      const more = setInterval(() => {
        if (left-- > 0) return void response.write(Buffer.alloc(200));
        clearInterval(more);
        response.end();
      }, 20);
    });
    expect((await exchange(url, get, {}, limits)).body.length).toBe(8_000);
  });

  test('and no longer than the time of a whole transfer', async () => {
    const url = await serve((_request, response) => drip(() => void response.write(Buffer.alloc(1 << 10))));
    const short = { ...registryLimits, transferTimeoutMs: 200 };
    await expect(exchange(url, get, {}, short)).rejects.toThrow('aborted');
  });
});

describe('an address that is refused', () => {
  const asked: string[] = [];
  const listener: RequestListener = ({ url }, response) => {
    asked.push(url ?? '');
    response.end();
  };

  test('gets no connection, when a URL names it', async () => {
    const url = await serve(listener, '127.0.0.1');
    await expect(exchange(url, get, { refuses: localKind })).rejects.toThrow(
      'it leads to 127.0.0.1: it is a loopback address',
    );
    expect(asked).toEqual([]);
  });

  test('gets no connection, when a name resolves to it', async () => {
    const url = await serve(listener);
    await expect(exchange(url, get, { refuses: localKind })).rejects.toThrow(/^it leads to \S+: it is a loopback/);
    expect(asked).toEqual([]);
  });

  test('does not hinder a name that resolves to others', async () => {
    const url = await serve(listener);
    const addresses: string[] = [];
    const seen = { refuses: () => undefined, connected: (address: string) => void addresses.push(address) };
    expect((await exchange(url, get, seen)).status).toBe(200);
    expect(addresses.map(localKind)).toEqual(['it is a loopback address']);
  });
});

test.each([
  ['169.254.169.254', 'it is a link-local address'],
  ['fe80::1', 'it is a link-local address'],
  ['fe80::1%eth0', 'it is a link-local address'],
  ['127.1.2.3', 'it is a loopback address'],
  ['::1', 'it is a loopback address'],
  ['0.0.0.0', 'it is the unspecified address'],
  ['::ffff:169.254.169.254', 'it is not a plain IPv4 or IPv6 address'],
  ['64:ff9b::a9fe:a9fe', 'it leads to 169.254.169.254 (NAT64), a link-local address'],
  ['10.0.0.1', undefined],
  ['fd00::1', undefined],
  ['192.0.2.1', undefined],
])('a registry elsewhere may not send to %s: %s', (address, why) => {
  expect(localKind(address)).toBe(why);
});
