import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sluice } from './repository.ts';

const script = join(import.meta.dirname, '..', '..', 'integrations', 'kubectl-diff');
const kubectl = ['/usr/bin/kubectl', '/usr/local/bin/kubectl'].find((path) => existsSync(path));

const service = (name: string, address: string, port: number): object => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace: 'shop' },
  spec: { type: 'ClusterIP', clusterIP: address, ports: [{ name: 'http', port, targetPort: 8080, protocol: 'TCP' }] },
});
const live = service('web', '10.96.0.30', 80);
const changed = service('web', '10.96.0.30', 8081);
const added = service('next', '10.96.0.31', 80);

const config = `apiVersion: sluice.dev/v1alpha1
kind: SluiceConfig
nodes:
  - { name: node-a, addresses: [192.0.2.11], podCIDRs: [10.244.1.0/24] }
profiles:
  - { name: default, clusterCIDR: 10.244.0.0/16 }
`;

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-kubectl-'));
  writeFileSync(join(dir, 'sluice.yaml'), config);
});
afterEach(() => rmSync(dir, { recursive: true }));

const env = () => ({ HOME: dir, SLUICE: sluice, SLUICE_CONFIG: join(dir, 'sluice.yaml') });
const summary = '1 Service added, 1 Service changes, no port loses its last endpoint';

test.each([
  { title: 'two directories that differ', fresh: [changed, added], exit: 1, last: summary },
  { title: 'two that are the same', fresh: [live], exit: 0, last: 'Nothing changes' },
  { title: 'options that kubectl appends', fresh: [live], words: ['--raw'], exit: 0, last: '' },
])('kubectl-diff accepts $title', { timeout: 30_000 }, async ({ fresh, words = [], exit, last }) => {
  for (const [side, objects] of [['LIVE-1', [live]] as const, ['MERGED-2', fresh] as const]) {
    mkdirSync(join(dir, side));
    for (const [at, object] of objects.entries())
      writeFileSync(join(dir, side, `v1.Service.${at}`), JSON.stringify(object));
  }
  const ran = await execa(script, ['LIVE-1', 'MERGED-2', ...words], { cwd: dir, env: env(), reject: false });
  expect({ exit: ran.exitCode, last: ran.stdout.split('\n').at(-1) }).toEqual({ exit, last });
});

/** The parts of an API server that `kubectl diff` uses: the discovery, one Service, and the result of a dry run. */
function apiServer(): Server {
  const services = {
    name: 'services',
    singularName: 'service',
    namespaced: true,
    kind: 'Service',
    verbs: ['get', 'patch', 'create'],
  };
  const found: Readonly<Record<string, object>> = {
    'GET /api': { kind: 'APIVersions', versions: ['v1'], serverAddressByClientCIDRs: [] },
    'GET /apis': { kind: 'APIGroupList', apiVersion: 'v1', groups: [] },
    'GET /api/v1': { kind: 'APIResourceList', apiVersion: 'v1', groupVersion: 'v1', resources: [services] },
    'GET /api/v1/namespaces/shop/services/web': live,
    'PATCH /api/v1/namespaces/shop/services/web': changed,
    'POST /api/v1/namespaces/shop/services': added,
  };
  const status = { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'NotFound', code: 404 };
  return createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://api');
    const isDry = request.method === 'GET' || searchParams.get('dryRun') === 'All';
    const body = isDry ? found[`${request.method} ${pathname}`] : undefined;
    response.writeHead(body === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body ?? status));
  });
}

test.skipIf(kubectl === undefined)(
  '(needs kubectl) kubectl diff shows the changes to traffic',
  { timeout: 60_000 },
  async () => {
    const server = apiServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    try {
      const { port } = server.address() as AddressInfo;
      writeFileSync(join(dir, 'change.json'), [changed, added].map((object) => JSON.stringify(object)).join('\n'));
      const args = ['--server', `http://127.0.0.1:${port}`, 'diff', '-f', 'change.json'];
      const variables = { ...env(), KUBECONFIG: '/dev/null', KUBECTL_EXTERNAL_DIFF: script };
      const ran = await execa(kubectl ?? '', args, { cwd: dir, env: variables, reject: false, timeout: 50_000 });
      expect(ran.stdout.split('\n').at(-1)).toBe(summary);
      expect(ran.exitCode).toBe(1);
    } finally {
      server.close();
    }
  },
);
