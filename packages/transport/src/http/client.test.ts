import { createHash, randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import type { HttpOptions } from './client.ts';
import { WebClient } from './web.ts';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

async function serve(answer: Answer): Promise<string> {
  const server = createServer(answer);
  servers.push(server);
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const content = randomBytes(200_000);
const digest = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

async function get(url: string, options: HttpOptions = {}, path = 'file'): Promise<Buffer> {
  const client = new WebClient(url, options);
  try {
    const request = { method: 'GET', bytesMax: 1 << 20 } as const;
    return (await client.ask('fetch the file', client.at(path), request, [200])).body;
  } finally {
    client.close();
  }
}

/** Sends the start of the content, then ends the connection. */
function cutAt(response: ServerResponse, from: number, to: number): void {
  response.write(content.subarray(from, to), () => response.socket?.destroy());
}

/** Cuts the first response after 100,000 bytes; `rest` answers the following ones. @returns the requested ranges */
async function interrupted(
  rest: Answer,
  headers: Record<string, string> = {},
): Promise<[url: string, asked: string[]]> {
  const asked: string[] = [];
  const url = await serve((request, response) => {
    asked.push(`${request.headers.range ?? 'all'} ${String(request.headers['if-range'] ?? '')}`.trim());
    if (asked.length > 1) return rest(request, response);
    response.writeHead(200, { 'content-length': content.length, ...headers });
    cutAt(response, 0, 100_000);
  });
  return [url, asked];
}

const range = (from: number): string => `bytes ${from}-${content.length - 1}/${content.length}`;
const startOf = (request: IncomingMessage): number => Number(/\d+/.exec(request.headers.range ?? '0')?.[0]);

describe('a download that was interrupted', () => {
  test('goes on where it ended, with the strong ETag of its start', async () => {
    const [url, asked] = await interrupted(
      (request, response) => {
        const from = startOf(request);
        response.writeHead(206, { 'content-range': range(from), etag: '"one"' }).end(content.subarray(from));
      },
      { etag: '"one"' },
    );
    expect(digest(await get(url))).toBe(digest(content));
    expect(asked).toHaveLength(2);
    expect(asked[1]).toMatch(/^bytes=[1-9]\d{4,5}- "one"$/);
  });

  test('names no weak ETag, which does not say that bytes are the same', async () => {
    const [url, asked] = await interrupted((_request, response) => response.end(content), { etag: 'W/"one"' });
    expect(digest(await get(url))).toBe(digest(content));
    expect(asked[1]).toMatch(/^bytes=\d+-$/);
  });

  test.each<[title: string, answer: Answer]>([
    ['everything (200)', (_request, response) => void response.end(content)],
    [
      'another part',
      (request, response) =>
        request.headers.range === undefined
          ? void response.end(content)
          : void response.writeHead(206, { 'content-range': range(7) }).end(content.subarray(7)),
    ],
    [
      'a part without its place',
      (request, response) =>
        void (request.headers.range === undefined ? response : response.writeHead(206)).end(content),
    ],
    [
      'a part of another version',
      (request, response) => {
        const from = startOf(request);
        if (request.headers.range === undefined) return void response.end(content);
        response
          .writeHead(206, { 'content-range': range(from), etag: '"two"' })
          .end(Buffer.alloc(content.length - from));
      },
    ],
    [
      'that there is no such part (416)',
      (request, response) =>
        void (request.headers.range === undefined ? response : response.writeHead(416)).end(content),
    ],
  ])('is whole although the server then sends %s', async (_title, answer) => {
    const before = digest(content);
    const [url] = await interrupted((request, response) => answer(request, response), { etag: '"one"' });
    expect(digest(await get(url))).toBe(before);
  });

  test('again and again is whole after any number of parts, as long as each has much', async () => {
    let requests = 0;
    const url = await serve((request, response) => {
      requests++;
      const from = startOf(request);
      if (from === 0) response.writeHead(200, { 'content-length': content.length });
      else response.writeHead(206, { 'content-range': range(from) });
      if (content.length - from <= 30_000) response.end(content.subarray(from));
      else cutAt(response, from, from + 70_000);
    });
    expect(digest(await get(url))).toBe(digest(content));
    expect(requests).toBeGreaterThanOrEqual(3);
  });

  test('ends after three attempts that bring nearly nothing', async () => {
    let requests = 0;
    const url = await serve((request, response) => {
      requests++;
      const from = startOf(request);
      response.writeHead(
        from === 0 ? 200 : 206,
        from === 0 ? { 'content-length': 1000 } : { 'content-range': range(from) },
      );
      cutAt(response, from, from + 10);
    });
    await expect(get(url)).rejects.toMatchObject({ problem: { code: 'REGISTRY_UNREACHABLE' } });
    expect(requests).toBe(3);
  });

  test('ends, too, where a server alternates between much and little from the start', async () => {
    let requests = 0;
    const url = await serve((_request, response) => {
      response.writeHead(200, { 'content-length': content.length });
      cutAt(response, 0, requests++ % 2 === 0 ? 150_000 : 10);
    });
    await expect(get(url)).rejects.toMatchObject({ problem: { code: 'REGISTRY_UNREACHABLE' } });
    expect(requests).toBeLessThanOrEqual(6);
  });

  test('never exceeds its limit, in parts that are each below it', async () => {
    const url = await serve((request, response) => {
      const from = startOf(request);
      if (from === 0) response.writeHead(200, { 'content-length': 4 << 20 });
      else response.writeHead(206, { 'content-range': `bytes ${from}-${(4 << 20) - 1}/*` });
      response.write(Buffer.alloc(700_000), () => response.socket?.destroy());
    });
    await expect(get(url)).rejects.toMatchObject({
      problem: { code: 'REGISTRY_INVALID', message: expect.stringContaining('larger than 1048576 bytes') },
    });
  });
});

describe('the bounds of a client', () => {
  const endless: Answer = (_request, response) => {
    const more = setInterval(() => response.write(Buffer.alloc(10_000)), 5);
    response.on('close', () => clearInterval(more));
  };

  test('bytes per second: 60,000 bytes at 40,000 bytes per second take a second and more', async () => {
    const url = await serve((_request, response) => {
      for (let n = 0; n < 6; n++) setTimeout(() => response.write(Buffer.alloc(10_000)), n * 10);
      setTimeout(() => response.end(), 80);
    });
    const startMs = performance.now();
    expect((await get(url, { bytesPerSecondMax: 40_000 })).length).toBe(60_000);
    expect(performance.now() - startMs).toBeGreaterThan(1_000);
  });

  test('bytes of all responses together', async () => {
    const url = await serve((_request, response) => void response.end(Buffer.alloc(60_000)));
    const client = new WebClient(url, { bytesMax: 100_000 });
    const ask = () => client.ask('fetch', client.at('x'), { method: 'GET', bytesMax: 60_000 }, [200]);
    expect((await ask()).body.length).toBe(60_000);
    expect(client.bytes).toBe(60_000);
    await expect(ask()).rejects.toMatchObject({
      problem: { code: 'REGISTRY_INVALID', message: expect.stringContaining('more than 100000 bytes together') },
    });
    client.close();
  });

  test('time, also while it waits for the next attempt', async () => {
    const url = await serve(endless);
    const late = { problem: { message: expect.stringContaining('it took longer than 0.2 s') } };
    await expect(get(url, { secondsMax: 0.2 })).rejects.toMatchObject(late);
    const busy = await serve((_request, response) => void response.writeHead(503).end());
    await expect(get(busy, { secondsMax: 0.2 })).rejects.toMatchObject(late);
  });

  test('a signal of the caller', async () => {
    const url = await serve(endless);
    await expect(get(url, { signal: AbortSignal.timeout(100) })).rejects.toThrow('cancelled');
  });
});

describe('credentials of a web server', () => {
  const alice = { kind: 'password', user: 'alice', password: 's3cret' } as const;
  /** What each request had. */
  const recording =
    (seen: string[], answer: Answer): Answer =>
    (request, response) => {
      seen.push(request.headers.authorization ?? 'none');
      answer(request, response);
    };

  test('are sent with each request, and not to a server that it redirects to', async () => {
    const own: string[] = [];
    const others: string[] = [];
    const other = await serve(recording(others, (_request, response) => void response.end('there')));
    const url = await serve(
      recording(own, (_request, response) => void response.writeHead(307, { location: `${other}/x` }).end()),
    );
    expect(String(await get(url, { credentials: () => alice }))).toBe('there');
    expect(own).toEqual([`Basic ${Buffer.from('alice:s3cret').toString('base64')}`]);
    expect(others).toEqual(['none']);
  });

  test('are asked for again when a token has expired, once', async () => {
    const tokens = ['old', 'new'];
    const seen: string[] = [];
    const url = await serve(
      recording(
        seen,
        ({ headers }, response) => void response.writeHead(headers.authorization === 'Bearer new' ? 200 : 401).end('x'),
      ),
    );
    const credentials = async () => ({ kind: 'token', token: tokens.shift() ?? 'new' }) as const;
    expect(String(await get(url, { credentials }))).toBe('x');
    expect(seen).toEqual(['Bearer old', 'Bearer new']);
    const wrong = { kind: 'token', token: 'wrong' } as const;
    await expect(get(url, { credentials: () => wrong })).rejects.toMatchObject({
      problem: { code: 'REGISTRY_ACCESS' },
    });
    expect(seen.slice(2)).toEqual(['Bearer wrong']);
  });

  test('are in no URL', () => {
    expect(() => new WebClient('https://alice:s3cret@example.com/', {})).toThrow(
      'Cannot use "https://…@example.com/": it is not a permitted URL',
    );
  });
});

test.each(['http://example.com/x', 'file:///etc/passwd', 'ftp://127.0.0.1/', 'https://example.com/?a', 'x'])(
  '%s is not a permitted URL of a web server',
  (url) => {
    expect(() => new WebClient(url, {})).toThrow('it is not a permitted URL');
  },
);

test.each([
  ['a file', 'file:///etc/passwd', 'it is not a permitted URL'],
  ['another scheme', 'ftp://example.com/x', 'it is not a permitted URL'],
  ['a host with a password', 'http://a:b@127.0.0.1/x', 'it is not a permitted URL'],
  ['a metadata service', 'http://169.254.169.254/x', 'not a permitted URL'],
  ['itself without end', '', 'redirect loop'],
])('a redirect of a web server to %s is refused', async (_title, location, says) => {
  const url = await serve((request, response) => {
    response.writeHead(302, { location: location === '' ? (request.url ?? '/') : location }).end();
  });
  await expect(get(url)).rejects.toThrow(says);
});

test('a server that answers 500 first is asked again', async () => {
  let requests = 0;
  const url = await serve((_request, response) => void response.writeHead(requests++ === 0 ? 500 : 200).end('x'));
  expect(String(await get(url))).toBe('x');
});

describe('a proxy', () => {
  test('of the options is used, also without TLS', async () => {
    const seen: string[] = [];
    const url = await serve((_request, response) => void response.end('x'));
    const proxy = await serve((request, response) => {
      seen.push(request.url ?? '');
      const { port, pathname } = new URL(request.url ?? '');
      const socket = connect(Number(port), '127.0.0.1', () =>
        socket.write(`GET ${pathname} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`),
      );
      socket.on('data', (bytes) => void (String(bytes).includes('200 OK') && response.end('by the proxy')));
    });
    expect(String(await get(url, { proxy }))).toBe('by the proxy');
    expect(seen).toEqual([`${url}/file`]);
  });

  test('that is none of HTTP is refused', async () => {
    await expect(get('http://127.0.0.1:1', { proxy: 'socks5://127.0.0.1:1' })).rejects.toThrow(
      'its proxy is not an http or https URL',
    );
  });
});

test('one connection serves many requests', async () => {
  let connections = 0;
  const url = await serve((_request, response) => void response.end('x'));
  servers[0]?.on('connection', () => connections++);
  const client = new WebClient(url, {});
  for (let n = 0; n < 5; n++) await client.ask('fetch', client.at('x'), { method: 'GET', bytesMax: 9 }, [200]);
  client.close();
  expect(connections).toBe(1);
});
