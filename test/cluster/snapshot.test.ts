import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { openAccess } from '../../packages/renderer/src/cluster/access.ts';
import { listedKinds } from '../../packages/renderer/src/cluster/kinds.ts';
import { proxyFor } from '../../packages/renderer/src/cluster/proxy.ts';
import { printSnapshot, takeSnapshot } from '../../packages/renderer/src/cluster/snapshot.ts';
import { readInput } from '../../packages/renderer/src/commands/input.ts';
import { render } from '../../packages/renderer/src/render/render.ts';
import { type Item, send, startApiServer, type TestApiServer, token } from './apiserver.fixture.ts';

let server: TestApiServer;
let out: string;
const patience = { requestTimeoutMs: 300, backoffMs: 1, answerBytesMax: 100_000 };

const service = (name: string, host: number): Item => ({
  metadata: { name, namespace: 'shop', uid: 'u', resourceVersion: '3', managedFields: [], annotations: { other: 'x' } },
  spec: { clusterIP: `10.96.0.${host}`, clusterIPs: [`10.96.0.${host}`], ports: [{ port: 80, protocol: 'TCP' }] },
  status: { loadBalancer: {} },
});
const slice: Item = {
  metadata: { name: 'a-1', namespace: 'shop', labels: { 'kubernetes.io/service-name': 'a' } },
  addressType: 'IPv4',
  endpoints: [{ addresses: ['10.244.1.5'], conditions: { ready: true }, nodeName: 'node-a' }],
  ports: [{ name: '', port: 8080, protocol: 'TCP' }],
};
const node: Item = {
  metadata: { name: 'node-a', labels: {} },
  spec: { podCIDR: '10.244.1.0/24', podCIDRs: ['10.244.1.0/24'] },
  status: {
    addresses: [{ type: 'InternalIP', address: '192.0.2.1' }],
    capacity: { cpu: '4', memory: '1' },
    conditions: [{}],
  },
};

beforeAll(async () => {
  server = await startApiServer();
  out = mkdtempSync(join(tmpdir(), 'sluice-snapshot-'));
});
afterAll(async () => {
  await server.close();
  rmSync(out, { recursive: true });
});
beforeEach(() => {
  server.meddle = () => false;
  server.asked.length = 0;
  server.objects.clear();
  server.objects.set('services', [service('c', 3), service('a', 1), service('b', 2)]);
  server.objects.set('endpointslices', [slice]);
  server.objects.set('nodes', [node]);
});

const access = (user: Item = { token }, cluster?: Item) =>
  openAccess({ kubeconfig: server.kubeconfig(user, cluster) }, {});
const everything = { namespaces: [] };
const take = async (pageObjects = 2): Promise<string> =>
  printSnapshot(await takeSnapshot(access(), everything, { pageObjects, patience }));

test('the order and the pages in which a server lists change no byte', async () => {
  const before = await take(1);
  server.objects.set('services', [service('b', 2), service('c', 3), service('a', 1)]);
  expect(await take(500)).toBe(before);
  expect(before.match(/^ {2}name: [abc]$/gm)).toEqual(['  name: a', '  name: b', '  name: c']);
  expect(before).not.toMatch(/managedFields|uid|memory|conditions:\n +- \{\}|other/);
});

describe('a server that misbehaves once', () => {
  test.each<[string, (response: import('node:http').ServerResponse) => void]>([
    ['forgets the list between two pages', (response) => send(response, 410, {})],
    ['drops the connection', (response) => response.socket?.destroy()],
    ['drops it in the middle of an answer', (response) => response.write('{"kind":', () => response.socket?.destroy())],
    ['is overloaded', (response) => send(response, 503, {})],
    ['never answers', () => {}],
  ])('and %s is asked again', async (_title, misbehave) => {
    const calm = await take();
    let isFirst = true;
    server.meddle = (path, _request, response) => {
      if (!path.includes('continue') || !isFirst) return false;
      isFirst = false;
      misbehave(response);
      return true;
    };
    expect(await take()).toBe(calm);
    expect(isFirst).toBe(false);
  });
});

test.each<[string, number | string, RegExp, RegExp]>([
  ['without the right', 403, /no right to/, /resources: \["endpointslices"\], verbs: \["list"\]/],
  ['whose credentials are refused', 401, /credentials/, /Log in/],
  ['who meets a login page', '<html>', /no EndpointSliceList/, /proxy/],
  ['who gets an endless answer', 'x'.repeat(200_000), /more than 100000 bytes/, /pages/],
  ['of a server that stays broken', 500, /answered 500/, /network/],
])('a reader %s is told so', async (_title, answer, message, hint) => {
  server.meddle = (path, _request, response) => {
    if (!path.includes('endpointslices')) return false;
    if (typeof answer === 'number') send(response, answer, {});
    else response.end(answer);
    return true;
  };
  await expect(take()).rejects.toMatchObject({
    problem: { message: expect.stringMatching(message), hint: expect.stringMatching(hint) },
  });
});

describe('credentials', () => {
  const file = (name: string): string => join(server.dir, name);
  test.each<[string, () => Item]>([
    ['a token', () => ({ token })],
    ['a token file', () => (writeFileSync(file('token'), token), { tokenFile: file('token') })],
    ['a client certificate', () => ({ 'client-certificate': file('client.crt'), 'client-key': file('client.key') })],
    [
      'an exec plugin',
      () => ({
        exec: {
          apiVersion: 'client.authentication.k8s.io/v1',
          command: '/bin/echo',
          args: [
            JSON.stringify({
              apiVersion: 'client.authentication.k8s.io/v1',
              kind: 'ExecCredential',
              status: { token },
            }),
          ],
          interactiveMode: 'Never',
        },
      }),
    ],
  ])('%s is taken', async (_title, user) => {
    const snapshot = await takeSnapshot(access(user()), everything, { patience });
    expect(snapshot.parts.get('services')).toHaveLength(3);
  });
});

test('a certificate of an unknown authority is refused at once, and taken with a warning where the kubeconfig says so', async () => {
  await expect(takeSnapshot(access({ token }, {}), everything, { patience })).rejects.toThrow(/certificate/);
  const lax = access({ token }, { 'insecure-skip-tls-verify': true });
  expect(lax.warnings).toEqual([expect.stringContaining('kubeconfig says insecure-skip-tls-verify')]);
  await expect(takeSnapshot(lax, everything, { patience })).resolves.toBeDefined();
});

test('an expired certificate is refused', async () => {
  const expired = await startApiServer('expired');
  const way = openAccess({ kubeconfig: expired.kubeconfig({ token }) }, {});
  await expect(takeSnapshot(way, everything, { patience })).rejects.toThrow(/expired/);
  await expired.close();
});

test('rendering the cluster gives the bytes of rendering its snapshot', async () => {
  const kubeconfig = server.kubeconfig({ token });
  const file = join(out, 'snapshot.yaml');
  writeFileSync(file, await take());
  const direct = await readInput({ fromCluster: true, kubeconfig, output: join(out, 'rendered') });
  const stored = await readInput({ filename: [file], output: join(out, 'rendered') });
  expect(direct.problems).toEqual([]);
  expect(direct.input).toMatchObject({ allocate: false, snapshot: true });
  expect(render(direct.input).files).toEqual(render(stored.input).files);
  expect(render(direct.input).files.size).toBeGreaterThan(5);
});

test('a snapshot of some namespaces does not count as complete', async () => {
  const snapshot = await takeSnapshot(access(), { namespaces: ['shop'] }, { patience });
  const file = join(out, 'partial.yaml');
  writeFileSync(file, printSnapshot(snapshot));
  expect(server.asked).toContainEqual(expect.stringMatching(/namespaces\/shop\/services\?/));
  expect((await readInput({ filename: [file] })).input.snapshot).toBe(false);
});

test('the shipped role grants what the code lists', () => {
  const text = readFileSync(join(import.meta.dirname, '../../deploy/clusterrole.yaml'), 'utf8').split(
    '---',
  )[0] as string;
  const rules = (parse(text) as { rules: { apiGroups: string[]; resources: string[]; verbs: string[] }[] }).rules;
  const granted = rules.flatMap((rule) =>
    rule.resources.map((name) => `${rule.apiGroups[0]}/${name} ${rule.verbs.join()}`),
  );
  const needed = Object.values(listedKinds).map(({ group, resource }) => `${group}/${resource} list,watch`);
  expect(granted.toSorted()).toEqual(needed.toSorted());
});

test.each([
  ['api.example.com', {}, undefined],
  ['api.example.com', { HTTPS_PROXY: 'http://p:1' }, 'http://p:1'],
  ['api.example.com', { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'x,.example.com' }, undefined],
])('%s with %o is asked through %s', (host, env, proxy) => expect(proxyFor(host, env)).toBe(proxy));
