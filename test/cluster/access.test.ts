import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createProxy, type Server } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { type AccessOptions, openAccess } from '../../packages/renderer/src/cluster/access.ts';
import { watchLimits } from '../../packages/renderer/src/cluster/limits.ts';
import { proxyFor } from '../../packages/transport/src/proxy.ts';
import { get } from '../../packages/renderer/src/cluster/request.ts';
import { takeSnapshot } from '../../packages/renderer/src/cluster/snapshot.ts';
import { Feed } from '../../packages/renderer/src/cluster/watch/feed.ts';
import { readStream } from '../../packages/renderer/src/cluster/watch/stream.ts';
import { type ApiObject, startApiServer, type TestApiServer, token } from './apiserver.fixture.ts';
import { node, serviceOf, slice } from './objects.fixture.ts';
import { until } from './program.fixture.ts';

let server: TestApiServer;
let dir: string;
const patience = { requestTimeoutMs: 2_000, backoffMs: 1, answerBytesMax: 100_000 };

beforeAll(async () => {
  server = await startApiServer();
  dir = mkdtempSync(join(tmpdir(), 'sluice-access-'));
});
afterAll(async () => {
  await server.close();
  rmSync(dir, { recursive: true });
});
beforeEach(() => {
  server.intercept = () => false;
  server.objects.clear();
  server.objects.set('services', [serviceOf('a', 1)]);
  server.objects.set('endpointslices', [slice]);
  server.objects.set('nodes', [node]);
});

/** The number of Services that a client with this access can list. */
async function seen(options: AccessOptions, env: NodeJS.ProcessEnv = {}): Promise<number | undefined> {
  const snapshot = await takeSnapshot(openAccess(options, env), { namespaces: [] }, { patience });
  return snapshot.parts.get('services')?.length;
}

const file = (name: string): string => join(server.dir, name);
function write(name: string, text: string): string {
  writeFileSync(file(name), text);
  return file(name);
}

/** A plugin that counts its runs in the file `runs`, and answers with `status`. */
function plugin(status: object): string {
  const credential = { apiVersion: 'client.authentication.k8s.io/v1', kind: 'ExecCredential', status };
  rmSync(file('runs'), { force: true });
  const path = write(
    'plugin',
    `#!/bin/sh\necho "$KUBERNETES_EXEC_INFO" >>${file('runs')}\nprintf '%s' '${JSON.stringify(credential)}'\n`,
  );
  chmodSync(path, 0o755);
  return path;
}
const exec = (command: string): ApiObject => ({
  exec: { apiVersion: 'client.authentication.k8s.io/v1', command, interactiveMode: 'Never' },
});
const runs = (): string[] => readFileSync(file('runs'), 'utf8').trim().split('\n');

describe('credentials', () => {
  test.each<[string, () => ApiObject]>([
    ['a token', () => ({ token })],
    ['a token file with a trailing newline', () => ({ tokenFile: write('token', `${token}\n`) })],
    ['a token file beside the kubeconfig', () => (write('token', token), { tokenFile: 'token' })],
    ['a client certificate', () => ({ 'client-certificate': file('client.crt'), 'client-key': file('client.key') })],
    [
      'a client certificate inside the kubeconfig',
      () => ({
        'client-certificate-data': readFileSync(file('client.crt')).toString('base64'),
        'client-key-data': readFileSync(file('client.key')).toString('base64'),
      }),
    ],
    ['an exec plugin with a token', () => exec(plugin({ token }))],
    ['an exec plugin beside the kubeconfig', () => (plugin({ token }), exec('./plugin'))],
    [
      'an exec plugin with a client certificate',
      () =>
        exec(
          plugin({
            clientCertificateData: readFileSync(file('client.crt'), 'utf8'),
            clientKeyData: readFileSync(file('client.key'), 'utf8'),
          }),
        ),
    ],
  ])('accepts %s', async (_title, user) => {
    expect(await seen({ kubeconfig: server.kubeconfig(user()) })).toBe(1);
  });

  test('runs a plugin once for many requests, with the version of its answer', async () => {
    await seen({ kubeconfig: server.kubeconfig(exec(plugin({ token }))) });
    expect(runs()).toHaveLength(1);
    expect(JSON.parse(runs()[0] ?? '')).toMatchObject({ apiVersion: 'client.authentication.k8s.io/v1' });
  });

  test('runs a plugin again, once, when the server rejects its token', async () => {
    const kubeconfig = server.kubeconfig(exec(plugin({ token: 'old' })));
    await expect(seen({ kubeconfig })).rejects.toMatchObject({ problem: { code: 'CLUSTER_ACCESS' } });
    expect(runs()).toHaveLength(2);
  });

  /** A program that never ends, and whose child keeps its output open. */
  function hanging(): string {
    chmodSync(write('hanging', `#!/bin/sh\nsleep 100 & echo $! >>${file('children')}\nwait\n`), 0o755);
    return server.kubeconfig(exec(file('hanging')));
  }

  test('reports a plugin that hangs after a time-out, and no request waits for it', async () => {
    const access = openAccess({ kubeconfig: hanging() }, {});
    const asked = takeSnapshot(access, { namespaces: [] }, { patience: { ...patience, credentialTimeoutMs: 100 } });
    await expect(asked).rejects.toMatchObject({
      problem: { code: 'CLUSTER_ACCESS', message: expect.stringContaining('timeout after 0.1 s') },
    });
  });

  test('a plugin that hangs does not delay a stop', async () => {
    const stop = new AbortController();
    const asked = openAccess({ kubeconfig: hanging() }, {}).options({ signal: stop.signal });
    setTimeout(() => stop.abort(), 50);
    await expect(asked).rejects.toMatchObject({ problem: { code: 'CLUSTER_ACCESS' } });
  });

  test('a watch reports a plugin that hangs, and ends at the signal', async () => {
    const away: string[] = [];
    const listener = {
      changed: () => {},
      current: () => {},
      away: (_kind: unknown, why: string) => away.push(why),
      notWatched: () => {},
    };
    const bounds = { ...watchLimits, credentialTimeoutMs: 50 };
    const stop = new AbortController();
    const running = new Feed(openAccess({ kubeconfig: hanging() }, {}), listener, bounds).run(stop.signal);
    await until(() => away.length > 1);
    stop.abort();
    await running;
    const isGone = (pid: string): boolean =>
      !/^State:\s+[^Z]/m.test(existsSync(`/proc/${pid}`) ? readFileSync(`/proc/${pid}/status`, 'utf8') : '');
    const children = readFileSync(file('children'), 'utf8').trim().split('\n');
    await until(() => children.every(isGone));
    expect(away[0]).toMatch(/Cannot get credentials .* after 0.05 s/);
  });

  test('the message has the output of a plugin; an answer without credentials is invalid', async () => {
    chmodSync(write('failing', '#!/bin/sh\necho no session >&2\nexit 1\n'), 0o755);
    chmodSync(write('empty', '#!/bin/sh\necho {}\n'), 0o755);
    for (const [name, why] of [
      ['failing', 'no session'],
      ['empty', 'did not print an ExecCredential'],
      ['absent', 'ENOENT'],
    ] as const) {
      const asked = seen({ kubeconfig: server.kubeconfig(exec(file(name))) });
      await expect(asked).rejects.toMatchObject({ problem: { message: expect.stringContaining(why) } });
    }
  });

  test('runs a plugin again after its credentials expired', async () => {
    const kubeconfig = server.kubeconfig(exec(plugin({ token, expirationTimestamp: '2020-01-01T00:00:00Z' })));
    await seen({ kubeconfig });
    expect(runs().length).toBeGreaterThan(1);
  });

  test('uses the account of the pod without a kubeconfig', async () => {
    const account = join(dir, 'pod/var/run/secrets/kubernetes.io/serviceaccount');
    mkdirSync(account, { recursive: true });
    writeFileSync(join(account, 'token'), token);
    writeFileSync(join(account, 'ca.crt'), readFileSync(file('ca.crt')));
    const { hostname, port } = new URL(server.url);
    vi.stubEnv('KUBERNETES_SERVICE_HOST', hostname);
    vi.stubEnv('KUBERNETES_SERVICE_PORT', port);
    expect(await seen({ root: join(dir, 'pod') }, { HOME: dir })).toBe(1);
    vi.unstubAllEnvs();
  });
});

describe('kubeconfigs', () => {
  const part = (name: string, config: ApiObject): string => write(name, JSON.stringify(config));
  test('merges the files of KUBECONFIG: the first entry of a name counts, and missing files are ignored', async () => {
    const first = part('first', {
      users: [{ name: 'u', user: { token } }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    });
    const second = part('second', {
      clusters: [{ name: 'c', cluster: { server: server.url, 'certificate-authority': 'ca.crt' } }],
      users: [{ name: 'u', user: { token: 'another' } }],
    });
    expect(await seen({}, { KUBECONFIG: `${first}:/nowhere:${second}` })).toBe(1);
  });

  test.each<[string, () => string, AccessOptions, RegExp]>([
    ['a missing file', () => '/nowhere', {}, /Cannot read the kubeconfig \/nowhere: no such file or directory/],
    ['invalid YAML', () => write('bad', '{'), {}, /Cannot read the kubeconfig .*bad/],
    ['an unknown context', () => server.kubeconfig({ token }), { context: 'y' }, /context "y"/],
    ['no current context', () => part('none', { clusters: [], users: [], contexts: [] }), {}, /a current context/],
    [
      'a cluster without https',
      () => server.kubeconfig({ token }, { server: 'http://127.0.0.1:1' }),
      {},
      /which is not an https address/,
    ],
  ])('reports %s', (_title, kubeconfig, options, message) => {
    expect(() => openAccess({ ...options, kubeconfig: kubeconfig() }, {})).toThrow(
      expect.objectContaining({
        message: expect.stringMatching(message),
        problem: expect.objectContaining({ code: 'CLUSTER_ACCESS' }),
      }),
    );
  });

  test('without any kubeconfig, the message lists the places that were searched', () => {
    expect(() => openAccess({ root: dir }, { HOME: dir })).toThrow(
      /\.kube\/config does not exist, KUBECONFIG is not set/,
    );
  });
});

describe('trust', () => {
  test('refuses a certificate of an unknown authority at once, and accepts it with a warning where the kubeconfig says so', async () => {
    const strict = server.kubeconfig({ token }, {});
    await expect(seen({ kubeconfig: strict })).rejects.toMatchObject({ problem: { code: 'CLUSTER_UNTRUSTED' } });
    const lax = openAccess({ kubeconfig: server.kubeconfig({ token }, { 'insecure-skip-tls-verify': true }) }, {});
    expect(lax.warnings).toEqual([expect.stringContaining('kubeconfig sets insecure-skip-tls-verify')]);
    await expect(takeSnapshot(lax, { namespaces: [] }, { patience })).resolves.toBeDefined();
  });

  test('refuses an expired certificate', async () => {
    const expired = await startApiServer('expired');
    const kubeconfig = expired.kubeconfig({ token });
    await expect(seen({ kubeconfig })).rejects.toMatchObject({
      problem: { code: 'CLUSTER_UNTRUSTED', message: expect.stringContaining('expired') },
    });
    await expired.close();
  });
});

describe('a proxy', () => {
  let proxy: Server;
  let asked: string[];
  beforeAll(async () => {
    proxy = createProxy();
    proxy.on('connect', (request, client) => {
      asked.push(request.url ?? '');
      const [, port] = (request.url ?? '').split(':');
      const upstream = connect(Number(port), '127.0.0.1', () => {
        client.write('HTTP/1.1 200 Connection established\r\n\r\n');
        upstream.pipe(client).pipe(upstream);
      });
      for (const socket of [client, upstream]) socket.on('error', () => {});
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  });
  beforeEach(() => {
    asked = [];
  });
  afterAll(() => {
    proxy.closeAllConnections();
    proxy.close();
  });

  const url = (): string => `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const ca = (): ApiObject => ({ 'certificate-authority': file('ca.crt') });
  /** The server under a name that only the proxy knows. */
  const away = (): ApiObject => ({
    server: `https://api.test:${new URL(server.url).port}`,
    'insecure-skip-tls-verify': true,
  });
  test.each<[string, () => ApiObject, () => NodeJS.ProcessEnv, string[]]>([
    ['of the environment is used', away, () => ({ HTTPS_PROXY: url() }), ['api.test']],
    ['of the kubeconfig is used', () => ({ ...ca(), 'proxy-url': url() }), () => ({}), ['127.0.0.1']],
    ['of the environment is not used for this machine', ca, () => ({ HTTPS_PROXY: url() }), []],
  ])('%s', async (_title, cluster, env, hosts) => {
    expect(await seen({ kubeconfig: server.kubeconfig({ token }, cluster()) }, env())).toBe(1);
    expect(asked).toEqual(hosts.map((host) => `${host}:${new URL(server.url).port}`));
  });

  test('that accepts connections and opens no tunnel meets the time-out for answers', async () => {
    const held = new Set<Socket>();
    const mute = createServer((socket) => {
      held.add(socket.on('error', () => {}).on('close', () => held.delete(socket)));
      socket.resume();
    });
    await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
    const by = `http://127.0.0.1:${(mute.address() as AddressInfo).port}`;
    const access = openAccess({ kubeconfig: server.kubeconfig({ token }, { ...ca(), 'proxy-url': by }) }, {});
    const bounds = { ...patience, requestTimeoutMs: 100, silenceMs: 60_000, lineBytesMax: 1_000 };
    await expect(get(access, '/api/v1/services', bounds)).rejects.toMatchObject({
      problem: { code: 'CLUSTER_UNREACHABLE', message: expect.stringContaining('no response within 0.1 s') },
    });
    const reader = { onOpen: () => {}, onLine: () => {} };
    const lost = { kind: 'lost', why: 'no response within 0.1 s' };
    expect(await readStream(access, '/x?watch=1', reader, bounds, new AbortController().signal)).toMatchObject(lost);
    await until(() => held.size === 0);
    const stop = new AbortController();
    const patient = readStream(access, '/x?watch=1', reader, { ...bounds, requestTimeoutMs: 60_000 }, stop.signal);
    await until(() => held.size > 0);
    stop.abort();
    expect(await patient).toMatchObject({ kind: 'lost' });
    for (const socket of held) socket.destroy();
    mute.close();
  });

  test('carries a stream that is silent for longer than the time-out for answers', async () => {
    let say = (): void => {};
    server.intercept = (_path, _request, response) => {
      response.writeHead(200).flushHeaders();
      say = () => void response.end('{"type":"BOOKMARK"}\n');
      return true;
    };
    const access = openAccess({ kubeconfig: server.kubeconfig({ token }, { ...ca(), 'proxy-url': url() }) }, {});
    const bounds = { requestTimeoutMs: 500, silenceMs: 60_000, lineBytesMax: 1_000 };
    const lines: string[] = [];
    const reader = {
      onOpen: () => void setTimeout(() => say(), 1_200),
      onLine: (line: string) => void lines.push(line),
    };
    const end = await readStream(access, '/x?watch=1', reader, bounds, new AbortController().signal);
    expect([end, lines]).toEqual([{ kind: 'ended' }, ['{"type":"BOOKMARK"}']]);
  });

  test('does not see requests: the certificate of the server is still checked', async () => {
    const kubeconfig = server.kubeconfig({ token }, { 'proxy-url': url() });
    await expect(seen({ kubeconfig })).rejects.toMatchObject({ problem: { code: 'CLUSTER_UNTRUSTED' } });
  });
});

test.each([
  ['api.example.com', {}, undefined],
  ['api.example.com', { HTTPS_PROXY: 'http://p:1' }, 'http://p:1'],
  ['api.example.com', { https_proxy: 'http://p:1' }, 'http://p:1'],
  ['api.example.com', { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'x,.example.com' }, undefined],
  ['api.example.org', { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'x,.example.com' }, 'http://p:1'],
  ['api.example.com', { HTTPS_PROXY: 'http://p:1', NO_PROXY: '*' }, undefined],
  ['10.96.0.1', { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'localhost, 10.96.0.0/12' }, undefined],
  ['10.112.0.1', { HTTPS_PROXY: 'http://p:1', NO_PROXY: '10.96.0.0/12' }, 'http://p:1'],
  ['[fd00::1]', { HTTPS_PROXY: 'http://p:1', NO_PROXY: '10.96.0.0/12,fd00::/108' }, undefined],
  ['10.96.0.1', { HTTPS_PROXY: 'http://p:1', NO_PROXY: '10.96.0.0/33,fd00::/8,10.96.0.0/x' }, 'http://p:1'],
  ['api.example.com', { HTTPS_PROXY: 'http://p:1', NO_PROXY: '*.example.com' }, undefined],
  ['localhost', { HTTPS_PROXY: 'http://p:1' }, undefined],
  ['127.1.2.3', { HTTPS_PROXY: 'http://p:1' }, undefined],
  ['[::1]', { HTTPS_PROXY: 'http://p:1' }, undefined],
  ['api.example.com', { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'API.example.com:6443' }, undefined],
  ['api.example.com', { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'api.example.com:443' }, 'http://p:1'],
  ['example.com', { HTTPS_PROXY: 'http://p:1', NO_PROXY: '.example.com' }, 'http://p:1'],
  ['10.96.0.1', { HTTPS_PROXY: 'http://p:1', NO_PROXY: '10.96.0.1:6443' }, undefined],
  ['10.96.0.1', { HTTPS_PROXY: 'http://p:1', NO_PROXY: '10.96.0.1:443' }, 'http://p:1'],
  ['[fd00::1]', { HTTPS_PROXY: 'http://p:1', NO_PROXY: '[fd00:0::1]:6443' }, undefined],
  ['[fd00::1]', { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'fd00:0::1' }, undefined],
  ['api.example.com', { HTTPS_PROXY: 'http://p:1', NO_PROXY: ',:,:6443,/,[' }, 'http://p:1'],
])('reaches %s with %o through %s', (host, env, proxy) => expect(proxyFor(host, env, '6443')).toBe(proxy));

test('the default port is that of HTTPS', () => {
  expect(proxyFor('example.com', { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'example.com:443' })).toBeUndefined();
});
