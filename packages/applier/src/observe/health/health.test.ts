import { get } from 'node:http';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { limits } from '../../limits.ts';
import { sampleBundle, sampleNode } from '../../testing/bundle.fixture.ts';
import { declaredHealth, HealthReader } from './declared.ts';
import { HealthPorts } from './ports.ts';

const path = 'profiles/default/services/shop/web.iptables';
/** A bundle with one Service whose comment block has these lines, and a rule for its port. */
const bundle = (...lines: readonly string[]): ReadonlyMap<string, string> => bundleOf(lines, opening(32_000));
const bundleOf = (lines: readonly string[], rule: string): ReadonlyMap<string, string> =>
  new Map([
    ...sampleBundle(),
    [path, `# shop/web LoadBalancer\n${lines.map((line) => `# ${line}\n`).join('')}*filter\n${rule}COMMIT\n`],
  ]);
const opening = (port: number): string =>
  `-A KUBE-NODEPORTS -m comment --comment "shop/web:http health check node port" -m tcp -p tcp --dport ${port} -j ACCEPT\n`;
const local = ['externalTrafficPolicy Local', 'health-check node port 32000'];

describe('what a bundle declares', () => {
  test.each([
    ['a local endpoint counts', [...local, 'endpoint http 10.244.1.5:8080 node-a zone-a'], 1],
    ['one of another node does not', [...local, 'endpoint http 10.244.1.5:8080 node-b'], 0],
    ['one that is not ready does not', [...local, 'endpoint http 10.244.1.5:8080 node-a - not ready'], 0],
    [
      'one that ends does not, though it serves',
      [...local, 'endpoint http 10.244.1.5:8080 node-a zone-a terminating'],
      0,
    ],
    [
      'nor one that ends and does not serve',
      [...local, 'endpoint 10.244.1.5:8080 node-a not ready terminating, not serving'],
      0,
    ],
    [
      'one address with two ports counts once',
      [...local, 'endpoint a 10.244.1.5:80 node-a', 'endpoint b 10.244.1.5:81 node-a'],
      1,
    ],
    [
      'both families count',
      [...local, 'endpoint 10.244.1.5:80 node-a', 'endpoint [fd00::5]:80 node-a, for zones a,b'],
      2,
    ],
  ])('%s', (_title, lines, localEndpoints) => {
    expect(declaredHealth(bundle(...lines), sampleNode).services).toEqual([
      { namespace: 'shop', name: 'web', port: 32000, localEndpoints },
    ]);
  });

  test.each([
    ['a Service that only says that it has a port has none', local, ''],
    ['a port beyond 65535 is none', local, opening(70_000)],
    ['a port that is let in elsewhere is none', local, opening(32_000).replace('KUBE-NODEPORTS', 'KUBE-FIREWALL')],
  ])('%s', (_title, lines, rule) => {
    expect(declaredHealth(bundleOf(lines, rule), sampleNode).services).toEqual([]);
  });

  test('reads the port from the set in mode ipvs', () => {
    const files = new Map([
      ...sampleBundle(),
      [path.replace('.iptables', '.ipset'), '# endpoint 10.244.1.5:80 node-a\nadd KUBE-HEALTH-CHECK-NODE-PORT 32000\n'],
    ]);
    expect(declaredHealth(files, sampleNode).services).toMatchObject([{ port: 32_000, localEndpoints: 1 }]);
  });

  test.each(['4', '6'])('reads the port from set health%s in mode nftables', (suffix) => {
    const lines = `# endpoint 10.244.1.5:80 node-a\nadd element inet sluice health${suffix} { 32000 }\n`;
    const files = new Map([...sampleBundle({ mode: 'nftables' }), [path.replace('.iptables', '.nft'), lines]]);
    expect(declaredHealth(files, sampleNode).services).toMatchObject([{ port: 32_000, localEndpoints: 1 }]);
  });

  test("listens on the node's own address where the profile names it", () => {
    const edit = (text: string | undefined, from: string, to: string): string => (text ?? '').replace(from, to);
    const [profile, node] = ['profiles/default/profile.yaml', `nodes/${sampleNode}/node.yaml`];
    const files = sampleBundle();
    files.set(profile, edit(files.get(profile), 'Addresses: []', 'Addresses: [127.0.0.0/8, primary]'));
    files.set(node, edit(files.get(node), 'values: {}', 'values: { ipv4: { address: 192.0.2.11 } }'));
    expect(declaredHealth(files, sampleNode).nodePortAddresses).toEqual(['127.0.0.0/8', '192.0.2.11/32']);
  });

  test.each([
    ['nftables', "the node's own address", ['192.0.2.11/32']],
    ['iptables', 'every address', []],
    ['ipvs', 'every address', []],
  ] as const)('listens in mode %s, where the profile names no network, on %s', (mode, _where, networks) => {
    const files = sampleBundle({ mode });
    const node = `nodes/${sampleNode}/node.yaml`;
    const own = (files.get(node) ?? '').replace('values: {}', 'values: { ipv4: { address: 192.0.2.11 } }');
    expect(declaredHealth(new Map([...files, [node, own]]), sampleNode).nodePortAddresses).toEqual(networks);
    const unknown = own.replace(/values:.*/, 'values: {}');
    expect(declaredHealth(new Map([...files, [node, unknown]]), sampleNode).nodePortAddresses).toEqual([]);
  });

  test.each([
    ['iptables', 'profiles/default/base/last.iptables', '-A KUBE-SERVICES -d ${node.address} -j KUBE-NODEPORTS\n'],
    ['ipvs', 'profiles/default/services/shop/web.ipvs', '-A -t ${node.address}:30080 -s rr\n'],
  ] as const)("listens in mode %s on the node's own address where its rules name that alone", (mode, at, rule) => {
    const port = mode === 'ipvs' ? 'add KUBE-HEALTH-CHECK-NODE-PORT 32000\n' : opening(32_000);
    const service = path.replace('.iptables', mode === 'ipvs' ? '.ipset' : '.iptables');
    const node = `nodes/${sampleNode}/node.yaml`;
    const files = sampleBundle({ mode, families: ['ipv4', 'ipv6'] }).set(service, port);
    files.set(node, (files.get(node) ?? '').replace('values: {}', 'values: { ipv4: { address: 192.0.2.11 } }'));
    const reader = new HealthReader(sampleNode);
    expect(reader.read(files).nodePortAddresses).toEqual([]);
    const own = mode === 'ipvs' ? ['192.0.2.11/32'] : ['192.0.2.11/32', '::/0'];
    expect(reader.read(new Map([...files, [at, rule]])).nodePortAddresses).toEqual(own);
    expect(reader.read(files).nodePortAddresses, 'the next bundle').toEqual([]);
  });

  test('listens on every address of a family of which the profile names no network', () => {
    const files = sampleBundle({ families: ['ipv4', 'ipv6'] });
    const profile = 'profiles/default/profile.yaml';
    files.set(profile, (files.get(profile) ?? '').replace('Addresses: []', 'Addresses: [192.0.2.0/24]'));
    expect(declaredHealth(files, sampleNode).nodePortAddresses).toEqual(['192.0.2.0/24', '::/0']);
  });

  test('gives the same result for a bundle, whatever was read before', () => {
    const reader = new HealthReader(sampleNode);
    const endpoint = 'endpoint http 10.244.1.5:8080 node-a';
    const other = new Map([...bundle(...local, endpoint), ['nodes/node-a/node.yaml', 'profile: [']]);
    const bundles = [bundle(...local), bundle(...local, endpoint), other, sampleBundle(), bundle(...local, endpoint)];
    for (const files of bundles) expect(reader.read(files)).toEqual(declaredHealth(files, sampleNode));
    expect(bundles.map((files) => declaredHealth(files, sampleNode).services.length)).toEqual([1, 1, 0, 0, 1]);
  });

  test('declares none for a node that is not in the bundle', () => {
    expect(declaredHealth(bundle(...local), 'other').services).toEqual([]);
  });
});

describe('the ports', () => {
  let ports: HealthPorts | undefined;
  afterEach(() => ports?.close());

  interface Heard {
    readonly status: number | undefined;
    readonly headers: Record<string, unknown>;
    readonly body: string;
  }
  const ask = (port: number, host = '127.0.0.1'): Promise<Heard | string> =>
    new Promise((resolve) => {
      get({ host, port, agent: false }, (response) => {
        let body = '';
        response.on('data', (chunk) => (body += String(chunk)));
        response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body }));
      }).on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''));
    });
  const freePort = (): Promise<number> =>
    new Promise((resolve) => {
      const server = createServer().listen(0, '127.0.0.1', () => {
        const { port } = server.address() as AddressInfo;
        server.close(() => resolve(port));
      });
    });
  const one = (port: number, localEndpoints: number) => ({
    services: [{ namespace: 'shop', name: 'web', port, localEndpoints }],
    nodePortAddresses: ['127.0.0.0/8'],
  });
  let healthy: boolean;
  let failed: string | undefined;
  beforeEach(() => {
    healthy = true;
  });
  const start = (): HealthPorts =>
    (ports = new HealthPorts({
      healthy: () => healthy,
      answers: () => undefined,
      addresses: () => ['127.0.0.1', '::1'],
      failed: (why) => (failed = why),
    }));

  test.each([
    ['an endpoint and healthy rules are 200', 2, true, 200],
    ['no endpoint is 503', 0, true, 503],
    ['rules that are not kept right are 503', 2, false, 503],
  ])('%s, with the body and headers of kube-proxy', async (_title, count, isHealthy, status) => {
    healthy = isHealthy;
    const port = await freePort();
    await start().follow(one(port, count));
    expect(await ask(port)).toMatchObject({
      status,
      headers: {
        'content-type': 'application/json',
        'x-content-type-options': 'nosniff',
        'x-load-balancing-endpoint-weight': String(count),
      },
      body: `{\n\t"service": {\n\t\t"namespace": "shop",\n\t\t"name": "web"\n\t},\n\t"localEndpoints": ${count},\n\t"serviceProxyHealthy": ${isHealthy}\n}`,
    });
  });

  test('opens a port exactly while the bundle has its Service', async () => {
    const port = await freePort();
    await start().follow(one(port, 1));
    expect(await ask(port)).toMatchObject({ status: 200 });
    await ports?.follow({ services: [], nodePortAddresses: [] });
    expect(await ask(port)).toBe('ECONNREFUSED');
  });

  test.each([
    ['all of IPv6, and some addresses of IPv4', ['192.0.2.0/24', '::/0'], 'ECONNREFUSED', 200],
    ['some addresses of IPv4', ['127.0.0.0/8'], 200, 'ECONNREFUSED'],
    ['all of IPv4', ['0.0.0.0/0', '127.0.0.0/8'], 200, 'ECONNREFUSED'],
    ['both families', ['0.0.0.0/0', '::/0'], 200, 200],
    ['every address', [], 200, 200],
  ])('is open on %s', async (_title, nodePortAddresses, ipv4, ipv6) => {
    const port = await freePort();
    await start().follow({ ...one(port, 1), nodePortAddresses });
    const answers = [await ask(port), await ask(port, '::1')];
    expect(answers.map((each) => (typeof each === 'string' ? each : each.status))).toEqual([ipv4, ipv6]);
  });

  test('accepts a new connection by closing the one that was silent longest', async () => {
    const [port, other] = [await freePort(), await freePort()];
    const services = [port, other].map((each) => ({ namespace: 'shop', name: 'web', port: each, localEndpoints: 1 }));
    await start().follow({ services, nodePortAddresses: ['127.0.0.0/8'] });
    const idle: Socket[] = [];
    const ended: number[] = [];
    for (let n = 0; n < limits.healthConnectionsMax; n++) {
      const socket = connect(n % 2 === 0 ? port : other, '127.0.0.1');
      // One that has asked and stays is as silent as the rest.
      if (n === 1) socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
      socket.on('error', () => undefined).on('close', () => ended.push(n));
      await new Promise((resolve) => (n === 1 ? socket.once('data', resolve) : socket.once('connect', resolve)));
      idle.push(socket.resume());
    }
    // Connected is not yet accepted.
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(ended).toEqual([]);
    for (const each of [port, other, port]) expect(await ask(each)).toMatchObject({ status: 200 });
    await expect.poll(() => ended).toEqual([0]);
    const [more, last] = [connect(other, '127.0.0.1'), connect(port, '127.0.0.1')];
    await expect.poll(() => ended).toEqual([0, 1]);
    for (const socket of [...idle, more, last]) socket.destroy();
  });

  test('reports a port that is in use, and opens it once it is free', async () => {
    const other = createServer();
    const port = await freePort();
    await new Promise<void>((resolve) => other.listen(port, '127.0.0.1', resolve));
    await start().follow(one(port, 1));
    expect(failed).toContain(`health-check node port ${port}`);
    await new Promise((resolve) => other.close(resolve));
    await ports?.refresh();
    expect([failed, await ask(port)]).toMatchObject([undefined, { status: 200 }]);
  });
});
