import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { Agent, request, type RequestOptions } from 'node:https';
import { join } from 'node:path';
import * as library from '@kubernetes/client-node';
import { execa } from 'execa';
import { describe, expect, test, vi } from 'vitest';
import { type ApiObject, send, token } from '../../../../test/cluster/apiserver.fixture.ts';
import { node, serviceOf } from '../../../../test/cluster/objects.fixture.ts';
import { clusterLimits, watchLimits } from './limits.ts';
import {
  cluster,
  stop,
  at,
  kubeconfigOf,
  configOf,
  optionsOf,
  pause,
  endsWithin,
  program,
  core,
  countConnections,
  answerWatch,
  watchServices,
  lineOf,
  withCluster,
} from './library-cluster.fixture.ts';

withCluster();

// Each test under "does not" runs the client library and shows a limit, for which the module in its title has code. When a later
// version has no such limit, its test fails: then remove our code and the test.

describe('kubeconfig.ts: the client library does not', () => {
  const part = (name: string, config: ApiObject): string => {
    writeFileSync(at(name), JSON.stringify(config));
    return at(name);
  };
  test('merge files with entries of the same name', () => {
    const [first, second] = ['a', 'b'].map((name) =>
      part(name, { clusters: [{ name: 'c', cluster: { server: 's' } }] }),
    );
    vi.stubEnv('KUBECONFIG', `${first}:${second}`);
    expect(() => new library.KubeConfig().loadFromDefault()).toThrow('Duplicate cluster');
  });

  test('ignore missing files of KUBECONFIG', () => {
    vi.stubEnv('KUBECONFIG', `/nowhere:${part('a', { clusters: [] })}`);
    expect(() => new library.KubeConfig().loadFromDefault()).toThrow('ENOENT');
  });

  test('find a plugin beside the kubeconfig', () => {
    expect(configOf({ exec: { command: './plugin' } }).getCurrentUser()?.exec).toEqual({ command: './plugin' });
  });
});

test('tools/bundle.ts leaves out only what methods need that access.ts does not call', () => {
  const leftOut = /createConfiguration|ServerConfiguration|Undici|setHeaderMiddleware|createDispatcher\(/;
  const { constructor: _class, ...methods } = Object.getOwnPropertyDescriptors(library.KubeConfig.prototype);
  const missing = Object.keys(methods).filter((name) =>
    leftOut.test(String((methods as PropertyDescriptorMap)[name]?.value)),
  );
  expect(missing).toEqual(['applySecurityAuthentication', 'makeApiClient', 'createDispatcher']);
  const source = readFileSync(join(import.meta.dirname, 'access.ts'), 'utf8');
  expect(missing.filter((name) => source.includes(name))).toEqual([]);
});

describe('access.ts: the client library does not', () => {
  test('read the token file of a user', async () => {
    writeFileSync(at('token'), token);
    expect((await optionsOf(configOf({ tokenFile: at('token') }))).headers).toEqual({});
  });

  test('trim a token file', async () => {
    writeFileSync(at('token'), `${token}\n`);
    const config = configOf();
    config.users = [{ name: 'u', authProvider: { name: 'tokenFile', config: { tokenFile: at('token') } } }];
    expect((await optionsOf(config)).headers).toEqual({ Authorization: `Bearer ${token}\n` });
  });

  test('trust the authority of a cluster without a user', async () => {
    const config = configOf();
    config.contexts = config.contexts.map(({ name, cluster: of }) => ({ name, cluster: of, user: '' }));
    expect(await optionsOf(config)).not.toHaveProperty('ca');
  });

  test('check the certificate against the environment', async () => {
    expect((await optionsOf(configOf())).rejectUnauthorized).toBeUndefined();
  });

  test('ask a user again whose credentials the server refused', async () => {
    const config = configOf(await program('plugin', `echo run >>${at('runs')}; printf '{"status":{"token":"old"}}'`));
    for (let n = 0; n < 3; n++) await expect(core(config).listNode()).rejects.toMatchObject({ code: 401 });
    expect(readFileSync(at('runs'), 'utf8')).toBe('run\n');
  });
});

describe('plugin.ts: the client library does not', () => {
  test('end a plugin that hangs', async () => {
    const asked = optionsOf(configOf(await program('hanging', `echo $$ >${at('pid')}; exec sleep 100`)));
    expect(await endsWithin(1_000, asked)).toBe(false);
    process.kill(Number(readFileSync(at('pid'), 'utf8')), 'SIGKILL');
    await expect(asked).rejects.toBeInstanceOf(Error);
  });

  test('bound the output of a plugin', async () => {
    const many = `printf '{"status":{"token":"t","more":"'; head -c 2000000 /dev/zero | tr '\\0' x; printf '"}}'`;
    expect((await optionsOf(configOf(await program('endless', many)))).headers).toEqual({ Authorization: 'Bearer t' });
  });

  test('give a plugin the version of its answer', async () => {
    const plugin = await program('told', `printf '{"status":{"token":"is:%s"}}' "$KUBERNETES_EXEC_INFO"`);
    expect((await optionsOf(configOf(plugin))).headers).toEqual({ Authorization: 'Bearer is:' });
  });

  test('close the input of a plugin, which may wait for it', async () => {
    const asked = optionsOf(configOf(await program('reading', `echo $$ >${at('pid')}; exec cat`)));
    expect(await endsWithin(1_000, asked)).toBe(false);
    process.kill(Number(readFileSync(at('pid'), 'utf8')), 'SIGKILL');
    await expect(asked).rejects.toBeInstanceOf(Error);
  });
});

describe('proxy.ts: the client library does not', () => {
  test('read HTTPS_PROXY', async () => {
    vi.stubEnv('HTTPS_PROXY', 'http://127.0.0.1:1');
    await expect(core(configOf()).listNode()).resolves.toMatchObject({ items: [{}] });
  });

  test('keep connections: neither its agents for node:https nor those of its API', async () => {
    const count = countConnections();
    const config = configOf();
    for (let n = 0; n < 3; n++) await core(config).listNode();
    expect(count()).toBe(3);
    for (let n = 0; n < 3; n++) await getOnce(await optionsOf(config));
    expect(count()).toBe(6);
  });

  test('take a renewed certificate: its agent keeps the first one', async () => {
    for (const end of ['crt', 'key']) copyFileSync(at(`client.${end}`), at(`own.${end}`));
    const config = configOf({ 'client-certificate': at('own.crt'), 'client-key': at('own.key') });
    const first = await optionsOf(config);
    for (const end of ['crt', 'key']) copyFileSync(at(`server.${end}`), at(`own.${end}`));
    const { agent, cert } = await optionsOf(config);
    expect(cert).not.toEqual(first.cert);
    expect((agent as Agent).options.cert).toEqual(first.cert);
  });

  // Node reads NO_PROXY itself, but kubectl also takes networks, such as the Service CIDR.
  test('have help from Node: its NO_PROXY has no networks', async () => {
    const proxyEnv = { HTTPS_PROXY: 'http://127.0.0.1:1', NO_PROXY: '127.0.0.0/8' };
    const agent = new Agent({ proxyEnv });
    await expect(getOnce({ ...(await optionsOf(configOf())), agent })).rejects.toThrow('ECONNREFUSED');
  });

  function getOnce(options: RequestOptions): Promise<number | undefined> {
    return new Promise((resolve, reject) => {
      const asked = request(`${cluster.server.url}/api/v1/nodes`, options, (response) => {
        response.resume().on('end', () => resolve(response.statusCode));
      });
      asked.on('error', reject).end();
    });
  }
});

describe('request.ts: the client library does not', () => {
  test('end a request without an answer', async () => {
    cluster.server.intercept = () => true;
    expect(await endsWithin(2_000, core(configOf()).listNode())).toBe(false);
  });

  test('bound an answer', async () => {
    const large = { ...node, extra: 'x'.repeat(clusterLimits.answerBytesMax) };
    cluster.server.objects.set('nodes', [large]);
    await expect(core(configOf()).listNode()).resolves.toMatchObject({ items: [{}] });
  }, 30_000);

  test.each([429, 503])('retry after %i', async (status) => {
    cluster.server.intercept = (_path, _request, response) => {
      response.setHeader('retry-after', '0');
      send(response, status, {});
      return true;
    };
    await expect(core(configOf()).listNode()).rejects.toMatchObject({ code: status });
    expect(cluster.server.asked).toHaveLength(1);
  });
});

describe('list.ts: the client library does not', () => {
  test('follow the pages of a list', async () => {
    const { items, metadata } = await core(configOf()).listServiceForAllNamespaces({ limit: 2 });
    expect([items.length, metadata]).toEqual([2, expect.objectContaining({ _continue: '2' })]);
  });

  test('start again when a list expired', async () => {
    cluster.server.intercept = (_path, _request, response) => {
      send(response, 410, {});
      return true;
    };
    const asked = core(configOf()).listServiceForAllNamespaces({ limit: 2, _continue: '2' });
    await expect(asked).rejects.toMatchObject({ code: 410 });
    expect(cluster.server.asked).toHaveLength(1);
  });

  test('keep fields that it does not know, or times as they are', async () => {
    const creationTimestamp = '2026-01-02T03:04:05Z';
    const item = { metadata: { name: 'later', creationTimestamp }, spec: { podCIDR: '10.0.0.0/24', later: 'x' } };
    cluster.server.objects.set('nodes', [item]);
    const { items } = await core(configOf()).listNode();
    expect(JSON.parse(JSON.stringify(items))).toMatchObject([
      { metadata: { creationTimestamp: '2026-01-02T03:04:05.000Z' }, spec: { podCIDR: '10.0.0.0/24' } },
    ]);
    expect(items[0]?.spec).not.toHaveProperty('later');
  });

  test('refuse an answer that is not a list', async () => {
    cluster.server.intercept = (_path, _request, response) => {
      send(response, 200, { kind: 'LoginPage' });
      return true;
    };
    await expect(core(configOf()).listNode()).resolves.toMatchObject({ kind: 'LoginPage' });
  });
});

describe('watch/stream.ts: the client library does not', () => {
  test('report a line that is not an event', async () => {
    answerWatch((response) => void response.write(`hello\n${lineOf('ADDED', 'a')}`));
    const seen = await watchServices();
    await vi.waitFor(() => expect(seen).toEqual({ events: ['ADDED a'], ends: [] }));
  });

  test('bound an event', async () => {
    answerWatch((response) => void response.write(lineOf('ADDED', 'x'.repeat(watchLimits.lineBytesMax))));
    const seen = await watchServices();
    await vi.waitFor(() => expect(seen.events).toHaveLength(1), { timeout: 20_000 });
    expect(seen.ends).toEqual([]);
  }, 30_000);

  test('report a truncated event', async () => {
    answerWatch((response) => void response.end(`${lineOf('ADDED', 'a')}{"type":"DELETED","object":`));
    const seen = await watchServices();
    await vi.waitFor(() => expect(seen).toEqual({ events: ['ADDED a'], ends: [null] }));
  });

  test('report an error of its user, who would lose events', async () => {
    answerWatch((response) => void response.write(`${lineOf('ADDED', 'a')}${lineOf('ADDED', 'b')}`));
    const seen = await watchServices(configOf(), () => {
      throw new Error('of the user');
    });
    await vi.waitFor(() => expect(seen).toEqual({ events: ['ADDED a', 'ADDED b'], ends: [] }));
  });

  test('tell apart a connection that is not answered and a stream that is silent', () => {
    expect(Object.entries(new library.Watch(configOf())).filter(([key]) => key !== 'config')).toEqual([
      ['requestTimeoutMs', 30_000],
    ]);
  });
});

describe('watch/reflector.ts: the client library does not', () => {
  async function inform(): Promise<{
    informer: library.Informer<library.V1Service> & library.ObjectCache<library.V1Service>;
    errors: unknown[];
  }> {
    const config = configOf();
    const informer = library.makeInformer(config, '/api/v1/services', () => core(config).listServiceForAllNamespaces());
    const errors: unknown[] = [];
    informer.on('error', (error) => errors.push(error));
    stop.push({ abort: () => void informer.stop() } as AbortController);
    await informer.start();
    return { informer, errors };
  }

  test('resume a watch after a lost connection', async () => {
    const { errors } = await inform();
    await vi.waitFor(() => expect(cluster.watching).toBe(1));
    cluster.drop();
    await vi.waitFor(() => expect(errors).toHaveLength(1));
    await pause(3_000);
    expect(cluster.watching).toBe(0);
  });

  test('ask for bookmarks', async () => {
    await inform();
    await vi.waitFor(() => expect(cluster.watching).toBe(1));
    expect(cluster.server.asked.filter((path) => path.includes('watch=')).join()).not.toContain('allowWatchBookmarks');
  });

  test('survive an answer that is not a stream of events', async () => {
    answerWatch((response) => void response.end('{"kind":"LoginPage"}\n'));
    const script = `
      import { CoreV1Api, KubeConfig, makeInformer } from '@kubernetes/client-node';
      const config = new KubeConfig();
      config.loadFromFile(${JSON.stringify(kubeconfigOf())});
      const api = config.makeApiClient(CoreV1Api);
      await makeInformer(config, '/api/v1/services', () => api.listServiceForAllNamespaces()).start();`;
    const args = ['--input-type=module', '--eval', script];
    const ended = execa(process.execPath, args, { cwd: import.meta.dirname, reject: false, timeout: 20_000 });
    expect(await ended).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('TypeError') as string });
  }, 30_000);

  test('keep only needed fields', async () => {
    const managedFields = [{ manager: 'kubelet' }];
    cluster.put('services', { ...serviceOf('big', 9), metadata: { name: 'big', namespace: 'shop', managedFields } });
    const { informer } = await inform();
    expect(informer.get('big', 'shop')?.metadata?.managedFields).toHaveLength(1);
  });
});

test('watch/lease.ts: the client library has no leader election', () => {
  expect(Object.keys(library).filter((name) => /leaderelect/i.test(name))).toEqual([]);
});
