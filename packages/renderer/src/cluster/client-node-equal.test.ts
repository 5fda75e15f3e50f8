import { readFileSync } from 'node:fs';
import { describe, expect, test, vi } from 'vitest';
import { type ApiObject, token } from '../../../../test/cluster/apiserver.fixture.ts';
import { serviceOf } from '../../../../test/cluster/objects.fixture.ts';
import { openAccess } from './access.ts';
import { listByLibrary } from './client-node.fixture.ts';
import { listedKinds } from './kinds.ts';
import { list } from './list.ts';
import { readStream } from './watch/stream.ts';
import {
  cluster,
  at,
  kubeconfigOf,
  configOf,
  optionsOf,
  watchServices,
  withCluster,
} from './library-cluster.fixture.ts';

withCluster();

describe('both, with the same kubeconfig,', () => {
  test.each<[string, () => ApiObject, ApiObject?]>([
    ['a token', () => ({ token })],
    ['certificate files', () => ({ 'client-certificate': at('client.crt'), 'client-key': at('client.key') })],
    [
      'certificates inside',
      () => ({
        'client-certificate-data': readFileSync(at('client.crt')).toString('base64'),
        'client-key-data': readFileSync(at('client.key')).toString('base64'),
      }),
    ],
    ['a password', () => ({ username: 'u', password: 'p' })],
    ['another user', () => ({ token, as: 'someone' })],
    ['a TLS server name', () => ({ token }), { 'tls-server-name': 'api.test' }],
    ['no check of the certificate', () => ({ token }), { 'insecure-skip-tls-verify': true }],
    ['a SOCKS proxy', () => ({ token }), { 'proxy-url': 'socks5://127.0.0.1:1' }],
  ])('send requests with equal options: %s', async (_title, user, of) => {
    const { agent: _own, ...own } = await openAccess({ kubeconfig: kubeconfigOf(user(), of) }, {}).options();
    const { agent: _agent, ...theirs } = await optionsOf(configOf(user(), of));
    expect(own).toEqual({ rejectUnauthorized: true, ...theirs });
  });

  test.each([1, 2, 500])('list equal objects, %i in a page', async (pageObjects) => {
    const kubeconfig = kubeconfigOf();
    const own = await list(openAccess({ kubeconfig }, {}), listedKinds.Service, { pageObjects });
    expect(own?.items).toEqual(await listByLibrary(kubeconfig, 'Service', pageObjects));
    expect(own?.items).toHaveLength(5);
  });

  test('see equal events', async () => {
    const own: string[] = [];
    const reader = { onOpen: () => {}, onLine: (line: string) => void own.push(summaryOf(line)) };
    const bounds = { requestTimeoutMs: 5_000, silenceMs: 5_000, lineBytesMax: 100_000 };
    const ended = new AbortController();
    const access = openAccess({ kubeconfig: kubeconfigOf() }, {});
    const reading = readStream(access, '/api/v1/services?watch=1', reader, bounds, ended.signal);
    const { events } = await watchServices();
    await vi.waitFor(() => expect(cluster.watching).toBe(2));
    cluster.put('services', serviceOf('s6', 6));
    cluster.put('services', serviceOf('s6', 7));
    cluster.remove('services', 's1');
    cluster.bookmark();
    await vi.waitFor(() => expect(own.filter((event) => event === 'BOOKMARK')).toHaveLength(1));
    await vi.waitFor(() => expect(events).toEqual(own));
    expect(own.slice(-4)).toEqual(['ADDED s6', 'MODIFIED s6', 'DELETED s1', 'BOOKMARK']);
    ended.abort();
    await reading;
  });

  const summaryOf = (line: string): string => {
    const { type, object } = JSON.parse(line) as { type: string; object: { metadata?: { name?: string } } };
    return `${type} ${object.metadata?.name ?? ''}`.trim();
  };
});
