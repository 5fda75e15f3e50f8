// @module-tag test
import { writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterEach, describe, expect, test } from 'vitest';
import { RegistryClient } from '../../packages/transport/src/registry/client.ts';
import { type KeyPair, makeAuthority } from '../cluster/certificates.fixture.ts';
import type { FakeRegistry, Nature } from './fake.fixture.ts';
import { type Ran, sluice } from '../../packages/sluice/src/in-process.fixture.ts';
import { filesOf } from './release.fixture.ts';
import { registryScene } from './scene.fixture.ts';

/** Registries that lie, redirect or request too much; none gets a password for another one, and none of their data are written. */

const { at, start, started, push, pull } = registryScene();
function password(host: string): void {
  const auth = Buffer.from('alice:s3cret').toString('base64');
  writeFileSync(at('docker/config.json'), JSON.stringify({ auths: { [host]: { auth } } }));
}
const basic = `Basic ${Buffer.from('alice:s3cret').toString('base64')}`;

test('an endless manifest is refused at its limit', async () => {
  const registry = await start({
    instead: ({ method, url }, response) => {
      if (method !== 'GET' || !url?.includes('/manifests/')) return false;
      const more = setInterval(() => response.write(Buffer.alloc(1 << 20)), 1);
      response.on('close', () => clearInterval(more));
      return true;
    },
  });
  const { stderr } = await pull(`${registry.host}/shop@sha256:${'0'.repeat(64)}`);
  expect(stderr).toContain('the response is larger than 4194304 bytes [REGISTRY_INVALID]');
});

describe('a registry that redirects', () => {
  test('is followed to its storage, which does not get its password', async () => {
    const storage = await start();
    const registry = await start({
      instead: (request, response) => {
        if (request.headers.authorization !== basic) return challenge(response, 'Basic realm="x"');
        if (request.method !== 'GET' || !request.url?.includes('/blobs/')) return false;
        response.writeHead(307, { location: `http://${storage.host}${request.url}` }).end();
        return true;
      },
    });
    password(registry.host);
    const { stdout } = await push(registry);
    for (const [digest, bytes] of registry.blobs) storage.blobs.set(digest, bytes);
    expect(await pull(stdout)).toMatchObject({ status: 0 });
    expect(filesOf(at('pulled'))).toEqual(filesOf(at('release')));
    expect(storage.seen.length).toBeGreaterThan(0);
    expect(storage.seen.filter((line) => line.includes('+auth'))).toEqual([]);
    expect(registry.seen.filter((line) => line.includes('+auth')).length).toBeGreaterThan(0);
  });

  test('in a loop is refused', async () => {
    const registry = await start({
      instead: ({ url }, response) => {
        response.writeHead(302, { location: url ?? '' }).end();
        return true;
      },
    });
    expect((await pull(`${registry.host}/shop@sha256:${'0'.repeat(64)}`)).stderr).toContain('redirect loop');
    expect(registry.seen).toHaveLength(6);
  });

  test.each([
    ['http://169.254.169.254/latest/meta-data', '169.254.169.254: it is a link-local address'],
    ['http://[fe80::1]/', 'fe80::1: it is a link-local address'],
    ['http://[::ffff:169.254.169.254]/', '::ffff:a9fe:a9fe: it is not a plain IPv4 or IPv6 address'],
    [
      'http://[64:ff9b::169.254.169.254]/',
      '64:ff9b::a9fe:a9fe: it leads to 169.254.169.254 (NAT64), a link-local address',
    ],
    ['http://0xa9fea9fe/', '169.254.169.254: it is a link-local address'],
    ['http://0.0.0.0/', '0.0.0.0: it is the unspecified address'],
  ])('to %s is not followed, and an upload is not sent there', async (location, says) => {
    for (const status of [307, 202]) {
      const registry = await start({
        instead: ({ method }, response) => {
          if (method !== (status === 202 ? 'POST' : 'GET')) return false;
          response.writeHead(status, { location }).end();
          return true;
        },
      });
      const reference = `${registry.host}/shop`;
      const ran =
        status === 202
          ? await sluice('push', at('release'), `${reference}:1`, '--plain-http')
          : await sluice('pull', `${reference}@sha256:${'0'.repeat(64)}`, '-o', at('pulled'), '--plain-http');
      expect(ran.status).toBe(2);
      expect(ran.stderr).toContain(`it leads to ${says} [REGISTRY_INVALID]`);
    }
  });

  const remote = new RegistryClient(
    { registry: 'registry.example.com', repository: 'shop' },
    { plainHttp: false, env: {} },
  );
  test.each([
    ['plain text', 'http://registry.example.com/x'],
    ['plain text on this machine', 'http://127.0.0.1:8080/x'],
    ['a file', 'file:///etc/passwd'],
    ['an address with a password', 'https://a:b@registry.example.com/x'],
    ['nothing that is an address', 'https://'],
  ])('from TLS to %s is not followed', (_title, to) => {
    expect(() => remote.next(to, remote.at('blobs/x'))).toThrow(
      'Cannot follow a redirect from https://registry.example.com',
    );
  });

  test('is reached over TLS unless it is on this machine or --plain-http is given', () => {
    const at5000 = (host: string, plainHttp: boolean): string =>
      new RegistryClient({ registry: `${host}:5000`, repository: 'x' }, { plainHttp, env: {} }).at('tags').protocol;
    expect([at5000('10.0.0.1', false), at5000('10.0.0.1', true), at5000('127.0.0.1', false)]).toEqual([
      'https:',
      'http:',
      'http:',
    ]);
  });
});

function challenge(response: ServerResponse, text: string): true {
  response.writeHead(401, { 'www-authenticate': text }).end();
  return true;
}

describe('a registry with a certificate', () => {
  // 0.0.0.0 leads to this machine but does not name it, so it counts as remote.
  const everywhere = [0, 0, 0, 0] as const;
  const until = new Date('2099-01-01T00:00:00Z');
  const authority = makeAuthority('an authority of our own', until);
  const trusted = getCACertificates('default');
  afterEach(() => setDefaultCACertificates(trusted));
  const pushTo = async (identity: KeyPair): Promise<Ran> => {
    const { port } = await start({ identity });
    return sluice('push', at('release'), `0.0.0.0:${port}/shop:1`);
  };

  test('that the system trusts is reached over TLS', async () => {
    setDefaultCACertificates([...trusted, authority.certificate]);
    expect(await pushTo(authority.issue('registry', until, everywhere))).toMatchObject({ status: 0 });
  });

  test.each([
    ['of an unknown authority', makeAuthority('unknown', until).issue('registry', until, everywhere), 'verify'],
    ['for another address', authority.issue('registry', until), 'not in the cert'],
    ['that has expired', authority.issue('registry', new Date('2001-01-01T00:00:00Z'), everywhere), 'expired'],
  ])('%s is refused', async (_title, identity, says) => {
    setDefaultCACertificates([...trusted, authority.certificate]);
    const { status, stderr } = await pushTo(identity);
    expect(status).toBe(2);
    expect(stderr).toContain(says);
    expect(stderr).toContain('[REGISTRY_UNREACHABLE]');
    expect(started.at(-1)?.seen).toEqual([]);
  });
});

describe('a registry that requires a token', () => {
  /** A token server that records its requests; every other request needs a token. */
  function tokens(asked: string[], give: (request: IncomingMessage) => string): Required<Nature>['instead'] {
    return (request, response) => {
      if (request.url?.startsWith('/token')) {
        asked.push(`${request.method} ${request.url} ${request.headers.authorization ?? 'anonymous'}`);
        response.writeHead(200).end(give(request));
        return true;
      }
      if (request.headers.authorization === 'Bearer t1') return false;
      const realm = `http://${request.headers.host}/token`;
      challenge(response, `Bearer realm="${realm}",service="r",scope="repository:shop:pull,push"`);
      return true;
    };
  }

  test('gets one for the password, once', async () => {
    const asked: string[] = [];
    const registry = await start({ instead: tokens(asked, () => '{"token":"t1"}') });
    password(registry.host);
    expect(await push(registry)).toMatchObject({ status: 0 });
    expect(asked).toEqual([`GET /token?service=r&scope=repository%3Ashop%3Apull%2Cpush ${basic}`]);
  });

  test('may issue anonymous tokens', async () => {
    const registry = await start({ instead: tokens([], () => '{"access_token":"t1"}') });
    expect(await push(registry)).toMatchObject({ status: 0 });
  });

  test('gets the refresh token of the docker config in the body, never in an address', async () => {
    const asked: string[] = [];
    const registry = await start({ instead: tokens(asked, () => '{"access_token":"t1"}') });
    writeFileSync(
      at('docker/config.json'),
      JSON.stringify({ auths: { [registry.host]: { identitytoken: 'r3fresh' } } }),
    );
    expect(await push(registry)).toMatchObject({ status: 0 });
    expect(asked).toEqual(['POST /token anonymous']);
  });

  test.each([
    ['that is refused', 'Bearer realm="REALM"', '{"token":"t2"}', 'answered 401'],
    ['that would break a header', 'Bearer realm="REALM"', '{"token":"a\\r\\nb"}', 'Cannot get a token from'],
    ['in another form', 'Bearer realm="REALM"', 'x', 'Cannot get a token from'],
    ['from an address without TLS', 'Bearer realm="http://auth.example.com/"', '', 'it is not an https URL'],
    ['from no address', 'Bearer realm="x"', '', 'it is not an https URL'],
    ['by an unknown scheme', 'Negotiate', '', 'answered 401'],
  ])('%s ends with words', async (_title, header, token, says) => {
    const registry = await start({
      instead: (request, response) => {
        if (request.url?.startsWith('/token')) response.end(token);
        else challenge(response, header.replace('REALM', `http://${request.headers.host}/token`));
        return true;
      },
    });
    password(registry.host);
    expect(await push(registry)).toMatchObject({ status: 2, stderr: expect.stringContaining(says) });
  });
});

test('retries a registry that is busy for a moment', async () => {
  let busy = 2;
  const registry = await start({
    instead: (_request, response) => busy-- > 0 && (response.writeHead(503).end(), true),
  });
  expect(await push(registry)).toMatchObject({ status: 0 });
});

test('a registry that ends each first download of a blob is read to the end, without ranges, too', async () => {
  const cut = new Set<string>();
  const registry: FakeRegistry = await start({
    instead: ({ method, url = '' }, response) => {
      const bytes = registry.blobs.get(url.replace(/^.*\//, ''));
      if (method !== 'GET' || !url.includes('/blobs/') || bytes === undefined || cut.has(url)) return false;
      cut.add(url);
      response.writeHead(200, { 'content-length': bytes.length });
      response.write(bytes.subarray(0, 20), () => response.socket?.destroy());
      return true;
    },
  });
  const { stdout } = await push(registry);
  expect(await pull(stdout)).toMatchObject({ status: 0 });
  expect(filesOf(at('pulled'))).toEqual(filesOf(at('release')));
  expect(cut.size).toBeGreaterThan(4);
});

describe('an upload that fails is restarted', () => {
  type Meddling = (request: IncomingMessage, response: ServerResponse) => void;
  test.each<[title: string, meddle: Meddling]>([
    ['when the connection ends', (request) => void request.socket.destroy()],
    ['when the registry is busy', (_request, response) => void response.writeHead(503).end()],
    ['when the registry has lost it', (_request, response) => void response.writeHead(404).end()],
  ])('%s', async (_title, meddle) => {
    let broken = 0;
    const registry = await start({
      instead: (request, response) => {
        if (request.method !== 'PUT' || !request.url?.includes('/blobs/') || broken++ > 0) return false;
        meddle(request, response);
        return true;
      },
    });
    const { status, stdout } = await push(registry);
    expect(status).toBe(0);
    expect(registry.seen.filter((line) => line.startsWith('POST'))).toHaveLength(registry.blobs.size + 1);
    expect(await pull(stdout)).toMatchObject({ status: 0 });
    expect(filesOf(at('pulled'))).toEqual(filesOf(at('release')));
  });

  test('also when it cannot be opened at first', async () => {
    let busy = 1;
    const registry = await start({
      instead: ({ method }, response) => method === 'POST' && busy-- > 0 && (response.writeHead(503).end(), true),
    });
    expect(await push(registry)).toMatchObject({ status: 0 });
  });

  test('but not sent twice when only the answer was lost', async () => {
    let lost = 0;
    const registry = await start({
      instead: (request, response) => {
        if (request.method === 'PUT' && request.url?.includes('/blobs/') && lost++ === 0)
          response.end = () => (request.socket.destroy(), response);
        return false;
      },
    });
    expect(await push(registry)).toMatchObject({ status: 0 });
    expect(registry.seen.filter((line) => line.startsWith('HEAD'))).toHaveLength(registry.blobs.size + 1);
    expect(lost).toBe(registry.blobs.size);
  });

  test('and abandoned after three attempts, with the reason', async () => {
    const registry = await start({
      instead: ({ method }, response) => method === 'PUT' && (response.writeHead(500).end(), true),
    });
    expect(await push(registry)).toMatchObject({ status: 2, stderr: expect.stringContaining('answered 500') });
    expect(registry.seen.filter((line) => line.startsWith('PUT'))).toHaveLength(3);
  });
});

test('a refresh token is sent once, also to an address that fails: it may be good for one use', async () => {
  let asked = 0;
  const registry = await start({
    instead: (request, response) => {
      if (request.url?.startsWith('/token')) {
        asked++;
        response.writeHead(503).end();
      } else challenge(response, `Bearer realm="http://${request.headers.host}/token"`);
      return true;
    },
  });
  writeFileSync(at('docker/config.json'), JSON.stringify({ auths: { [registry.host]: { identitytoken: 'r3fresh' } } }));
  expect(await push(registry)).toMatchObject({ status: 2, stderr: expect.stringContaining('answered 503') });
  expect(asked).toBe(1);
});

test('messages of a registry cannot move the cursor', async () => {
  const output = '{"errors":[{"message":"\u001b[2Jgone"}]}';
  const registry = await start({ instead: (_request, response) => (response.writeHead(403).end(output), true) });
  const { stderr } = await pull(`${registry.host}/shop@sha256:${'0'.repeat(64)}`);
  expect(stderr).toContain('(?[2Jgone) [REGISTRY_ACCESS]');
});
