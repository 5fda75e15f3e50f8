import { writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { beforeEach, describe, expect, test } from 'vitest';
import { descriptorOf } from '../../packages/transport/src/registry/artifact.ts';
import { readManifestBytes, pushBlob } from '../../packages/transport/src/registry/blobs.ts';
import { RegistryClient } from '../../packages/transport/src/registry/client.ts';
import { referrersOf } from '../../packages/transport/src/registry/referrers.ts';
import type { FakeRegistry } from './fake.fixture.ts';
import { registryScene } from './scene.fixture.ts';

/** A server that a registry redirects to may require credentials, and name an address for tokens: it gets none, and no request goes there. */

const { at, start } = registryScene();
let thief: FakeRegistry;
let storage: FakeRegistry;
beforeEach(async () => {
  thief = await start({ instead: (_request, response) => (response.end('{"token":"t"}'), true) });
  storage = await start({
    instead: (_request, response) => challenge(response, `Bearer realm="http://${thief.host}/token"`),
  });
});

function challenge(response: ServerResponse, text: string): true {
  response.writeHead(401, { 'www-authenticate': text }).end();
  return true;
}

function clientOf({ host }: FakeRegistry): RegistryClient {
  const env = { DOCKER_CONFIG: at('docker'), PATH: '' };
  return new RegistryClient({ registry: host, repository: 'shop' }, { plainHttp: false, env });
}

const digest = `sha256:${'a'.repeat(64)}`;
const blob = Buffer.from('a layer');
const pages = { 'content-type': 'application/vnd.oci.image.index.v1+json' };
const redirects: readonly [
  route: string,
  lead: (response: ServerResponse, to: string) => void,
  ask: (client: RegistryClient) => Promise<unknown>,
][] = [
  [
    'by a redirect',
    (response, to) => void response.writeHead(307, { location: to }).end(),
    (client) => readManifestBytes(client, digest),
  ],
  [
    'by the place of an upload',
    (response, to) => void response.writeHead(202, { location: to }).end(),
    (client) => pushBlob(client, descriptorOf('x', blob), blob),
  ],
  [
    'by the next page of a list',
    (response, to) => void response.writeHead(200, { ...pages, link: `<${to}>; rel="next"` }).end('{"manifests":[]}'),
    (client) => referrersOf(client, digest),
  ],
];
const entries: readonly [what: string, entry: object][] = [
  ['a password', { auth: Buffer.from('alice:s3cret').toString('base64') }],
  ['an identity token', { identitytoken: 'r3fresh' }],
];

describe.each(redirects)('a storage to which a registry redirects %s', (_route, lead, ask) => {
  test.each(entries)('gets %s neither itself nor for an address of its choice', async (_what, entry) => {
    const registry = await start({
      instead: ({ method }, response) => {
        if (method === 'HEAD') response.writeHead(404).end();
        else lead(response, `http://${storage.host}/there`);
        return true;
      },
    });
    const auths = Object.fromEntries([registry, storage, thief].map(({ host }) => [host, entry]));
    writeFileSync(at('docker/config.json'), JSON.stringify({ auths }));
    await expect(ask(clientOf(registry))).rejects.toThrow(
      `the server redirected to ${storage.host}, which answered 401`,
    );
    expect(storage.seen).toHaveLength(1);
    expect(storage.seen.filter((line) => line.includes('+auth'))).toEqual([]);
    expect(thief.seen).toEqual([]);
  });
});

test('a registry gets its credentials after redirects to another host and back', async () => {
  let asked = 0;
  const registry: FakeRegistry = await start({
    instead: ({ headers, url }, response) => {
      if (url !== '/back') response.writeHead(307, { location: `http://${other.host}/` }).end();
      else if (headers.authorization === undefined) challenge(response, 'Basic realm="x"');
      else response.writeHead(404).end(String(asked++));
      return true;
    },
  });
  const other = await start({
    instead: (_request, response) => {
      response.writeHead(307, { location: `http://${registry.host}/back` }).end();
      return true;
    },
  });
  const auth = Buffer.from('alice:s3cret').toString('base64');
  writeFileSync(at('docker/config.json'), JSON.stringify({ auths: { [registry.host]: { auth } } }));
  await expect(readManifestBytes(clientOf(registry), digest)).rejects.toThrow(`${registry.host} answered 404`);
  expect(asked).toBe(1);
  expect(other.seen.filter((line) => line.includes('+auth'))).toEqual([]);
});
