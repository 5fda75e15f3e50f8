import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { frontendLines, type NftState, printNftTable } from '@sluice/netfilter';
import { afterEach, describe, expect, test } from 'vitest';
import { limits } from '../../limits.ts';
import type { ProbeResult } from '../../ports/probes.ts';
import { EndpointChoice, listenedPorts, LocalhostPorts, Relays } from './localhost-ports.ts';
import { cartBundle } from '../../testing/nftables.fixture.ts';
import { scene, steppingClock } from '../../testing/scene.fixture.ts';

const table = 'table 4 address localhost-served localhost-listener';
type Frontend = Parameters<typeof frontendLines>[0];

const frontend = (more: Partial<Frontend>): readonly string[] =>
  frontendLines({ isClusterIP: false, outside: 'cluster', ranges: [], endpoints: [], local: [], ...more });
const stateOf = (frontends: Readonly<Record<string, Partial<Frontend>>>, settings = table): NftState => ({
  settings: [settings],
  frontends: new Map(Object.entries(frontends).map(([key, more]) => [key, frontend(more)])),
});

test('serves TCP node ports of IPv6 that have an endpoint, with policy Local one of the node', () => {
  const [near, far] = ['fd00::1 . 80', 'fd00::2 . 80'];
  const state = stateOf({
    ':: . tcp . 30001': { endpoints: [near, far] },
    ':: . tcp . 30002': { outside: 'local', endpoints: [near, far], local: [near], affinitySeconds: 60 },
    ':: . tcp . 30003': { outside: 'local', endpoints: [far] },
    ':: . tcp . 30004': {},
    ':: . tcp . 30005': { endpoints: [near, far], weights: new Map([[near, 2]]) },
    ':: . udp . 30006': { endpoints: [near] },
    '0.0.0.0 . tcp . 30007': { endpoints: ['10.0.0.1 . 80'] },
    'fd00:96::1 . tcp . 30008': { endpoints: [near] },
  });
  expect(listenedPorts(state)).toEqual([
    { port: 30_001, slots: [near, far], affinitySeconds: undefined },
    { port: 30_002, slots: [near], affinitySeconds: 60 },
    { port: 30_005, slots: [near, far, near], affinitySeconds: undefined },
  ]);
  const refused = stateOf({ ':: . tcp . 30001': { endpoints: [near] } }, 'table 4 address localhost-served');
  expect(listenedPorts(refused)).toEqual([]);
});

test('keeps an endpoint for as long as affinity says since its last use, and while it is there', () => {
  let nowMs = 0;
  let draw = 0;
  const port = { port: 30_001, slots: ['a', 'b', 'c'], affinitySeconds: 10 };
  const choice = new EndpointChoice(
    port,
    () => nowMs,
    () => draw,
  );
  const at = (ms: number, random: number): string => {
    [nowMs, draw] = [ms, random];
    return choice.next();
  };
  expect([at(0, 0.4), at(9_000, 0.9), at(19_000, 0.9), at(29_001, 0.9)]).toEqual(['b', 'b', 'b', 'c']);
  choice.follow({ ...port, slots: ['a', 'b'] });
  expect([at(30_000, 0), at(30_001, 0.9)]).toEqual(['a', 'a']);
  choice.follow({ ...port, affinitySeconds: 20 });
  expect(at(30_002, 0.9)).toBe('c');
});

const opened: { close(): unknown }[] = [];
afterEach(() => {
  for (const one of opened.splice(0)) one.close();
});

/** A server of the test on ::1. */
async function serve(
  onClient: (client: Socket) => void,
): Promise<{ readonly port: number; readonly clients: Set<Socket> }> {
  const clients = new Set<Socket>();
  const server: Server = createServer({ allowHalfOpen: true }, (client) => {
    clients.add(client);
    client.on('error', () => undefined).once('close', () => clients.delete(client));
    onClient(client);
  });
  await new Promise<void>((resolve) => server.listen(0, '::1', resolve));
  opened.push({ close: () => (server.close(), clients.forEach((one) => one.destroy())) });
  return { port: (server.address() as AddressInfo).port, clients };
}

const freePort = async (): Promise<number> => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '::1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
};

interface Heard {
  desired: NftState | undefined;
  failed: string | undefined;
  counted: readonly [number, number];
}

function listen(): { readonly ports: LocalhostPorts; readonly heard: Heard } {
  const heard: Heard = { desired: undefined, failed: undefined, counted: [0, 0] };
  const ports = new LocalhostPorts({
    journal: {
      undecided: undefined,
      get active() {
        return { state: heard.desired ? { nft: heard.desired } : {} };
      },
    },
    monotonicMs: () => performance.now(),
    failed: (why) => (heard.failed = why),
    counted: (...all) => (heard.counted = all),
  });
  opened.push(ports);
  return { ports, heard };
}

const to = (port: number, endpoint: number): NftState =>
  stateOf({ [`:: . tcp . ${port}`]: { endpoints: [`::1 . ${endpoint}`] } });

/** Sends a text, ends its own direction, and reads to the end. */
const ask = (port: number, text: string): Promise<string> =>
  new Promise((resolve) => {
    let answer = '';
    const socket = connect({ port, host: '::1', allowHalfOpen: true }, () => socket.end(text));
    socket.setEncoding('utf8').on('data', (part: string) => (answer += part));
    socket.on('end', () => resolve(answer)).on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''));
  });

test('passes both directions, each of which ends by itself', async () => {
  // Answers once the client has ended its direction.
  const server = await serve((client) => {
    let all = '';
    client.setEncoding('utf8').on('data', (part: string) => (all += part));
    client.on('end', () => client.end(`heard ${all}`));
  });
  const { ports, heard } = listen();
  const port = await freePort();
  expect(await ask(port, 'x')).toBe('ECONNREFUSED');
  heard.desired = to(port, server.port);
  await ports.refresh();
  expect(heard.counted).toEqual([1, 0]);
  expect(await ask(port, 'hello')).toBe('heard hello');
  await expect.poll(() => [ports.connections, server.clients.size]).toEqual([0, 0]);
});

test('takes other endpoints for new connections, and closes a port without ending its connections', async () => {
  const [one, two] = [await serve((client) => client.write('one')), await serve((client) => client.write('two'))];
  const { ports, heard } = listen();
  const port = await freePort();
  const open = (): Promise<[Socket, string]> =>
    new Promise((resolve) => {
      const socket = connect({ port, host: '::1' });
      opened.push({ close: () => socket.destroy() });
      socket.on('error', () => undefined).once('data', (part) => resolve([socket, String(part)]));
    });
  heard.desired = to(port, one.port);
  await ports.refresh();
  const [kept, answer] = await open();
  heard.desired = to(port, two.port);
  await ports.refresh();
  expect([answer, (await open())[1]]).toEqual(['one', 'two']);
  heard.desired = undefined;
  await ports.refresh();
  expect(await ask(port, '')).toBe('ECONNREFUSED');
  for (const client of one.clients) client.write('more');
  expect(String(await new Promise((resolve) => kept.once('data', resolve)))).toBe('more');
  expect(heard.counted).toEqual([0, 0]);
});

test('reads no faster than the other side takes it', async () => {
  let sent = 0;
  const server = await serve((client) => {
    const part = Buffer.alloc(64 * 1024);
    const more = (): void => {
      while (sent < 256 * 1024 * 1024 && client.write(part)) sent += part.length;
    };
    client.on('drain', more);
    more();
  });
  const { ports, heard } = listen();
  const port = await freePort();
  heard.desired = to(port, server.port);
  await ports.refresh();
  const slow = connect({ port, host: '::1' }).pause();
  opened.push({ close: () => slow.destroy() });
  let last = -1;
  // The buffers of the kernel fill, and then nothing moves.
  await expect
    .poll(() => [last, (last = sent)].every((one) => one === sent && one > 0), { interval: 300, timeout: 10_000 })
    .toBe(true);
  expect(sent).toBeLessThan(64 * 1024 * 1024);
  expect(process.memoryUsage().arrayBuffers).toBeLessThan(128 * 1024 * 1024);
});

test.each(['client', 'endpoint'] as const)('a reset by the %s resets the other side', async (side) => {
  const server = await serve(() => undefined);
  const { ports, heard } = listen();
  const port = await freePort();
  heard.desired = to(port, server.port);
  await ports.refresh();
  const codes: (string | undefined)[] = [];
  const client = connect({ port, host: '::1' });
  client.on('error', ({ code }: NodeJS.ErrnoException) => codes.push(code));
  await expect.poll(() => server.clients.size).toBe(1);
  const [far] = server.clients;
  far?.on('error', ({ code }: NodeJS.ErrnoException) => codes.push(code));
  (side === 'client' ? client : far)?.resetAndDestroy();
  await expect.poll(() => codes).toEqual(['ECONNRESET']);
  await expect.poll(() => ports.connections).toBe(0);
});

test('resets a client whose endpoint refuses', async () => {
  const { ports, heard } = listen();
  const [port, nobody] = [await freePort(), await freePort()];
  heard.desired = to(port, nobody);
  await ports.refresh();
  expect(await ask(port, 'hello')).toBe('ECONNRESET');
  await expect.poll(() => ports.connections).toBe(0);
});

test('reports a port that another program has, and opens it once it is free', async () => {
  const server = await serve((client) => client.end('served'));
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, '::1', resolve));
  const { port } = other.address() as AddressInfo;
  const { ports, heard } = listen();
  heard.desired = to(port, server.port);
  await ports.refresh();
  expect(heard.failed).toContain(`Cannot listen on node port ${port} of ::1`);
  expect(heard.counted).toEqual([0, 1]);
  await new Promise((resolve) => other.close(resolve));
  await ports.refresh();
  expect([heard.failed, ...heard.counted]).toEqual([undefined, 1, 1]);
  expect(await ask(port, '')).toBe('served');
});

test('opens no port once it is closed, also while one is being opened', async () => {
  const server = await serve((client) => client.end('served'));
  const { ports, heard } = listen();
  const [one, two] = [await freePort(), await freePort()];
  const key = (port: number): string => `:: . tcp . ${port}`;
  const frontends = { endpoints: [`::1 . ${server.port}`] };
  heard.desired = stateOf({ [key(one)]: frontends, [key(two)]: frontends });
  const opening = ports.refresh();
  ports.close();
  await opening;
  expect([await ask(one, ''), await ask(two, '')]).toEqual(['ECONNREFUSED', 'ECONNREFUSED']);
  heard.desired = to(one, server.port);
  await ports.refresh();
  expect(await ask(one, '')).toBe('ECONNREFUSED');
});

test('follows a release on probation, and the state before it once that is rolled back', async () => {
  const server = await serve((client) => client.end('served'));
  const { ports, heard } = listen();
  const [kept, added] = [await freePort(), await freePort()];
  const active = to(kept, server.port);
  const asked = async (): Promise<readonly string[]> => [await ask(kept, ''), await ask(added, '')];
  for (const [desired, answers] of [
    [active, ['served', 'ECONNREFUSED']],
    [to(added, server.port), ['ECONNREFUSED', 'served']],
    [active, ['served', 'ECONNREFUSED']],
  ] as const) {
    heard.desired = desired;
    await ports.refresh();
    expect(await asked()).toEqual(answers);
  }
});

test('makes room for a new connection by ending the one that was silent longest', async () => {
  const server = await serve((client) => void client.on('data', () => client.write('.')));
  let nowMs = 0;
  const relays = new Relays(3, () => nowMs);
  const ended: string[] = [];
  const near = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (client) =>
    relays.open(client, '::1', server.port),
  );
  await new Promise<void>((resolve) => near.listen(0, '::1', resolve));
  opened.push({ close: () => (relays.close(), near.close()) });
  const { port } = near.address() as AddressInfo;
  const speak = (socket: Socket): Promise<unknown> =>
    new Promise((resolve) => (socket.once('data', resolve), socket.write('x')));
  const open = async (name: string): Promise<Socket> => {
    const socket = connect({ port, host: '::1' });
    opened.push({ close: () => socket.destroy() });
    socket.on('error', () => undefined).once('close', () => ended.push(name));
    await speak(socket);
    return socket;
  };
  const first = await open('first');
  await open('second');
  await open('third');
  nowMs = limits.relayNoticeMs;
  await speak(first);
  await open('fourth');
  await expect.poll(() => ended).toEqual(['second']);
  await open('fifth');
  await expect.poll(() => ended).toEqual(['second', 'third']);
  expect(relays.count).toBe(3);
});

/** A bundle with one node port of TCP, which ::1 serves; its endpoint is not there. */
function bundleWith(port: number): Map<string, string> {
  const lines = [
    '# shop/registry NodePort',
    `add element inet sluice svc6 { :: . tcp . ${port} : goto pn\${count} }`,
    `add element inet sluice always6 { :: . tcp . ${port} }`,
    `add element inet sluice none6 { :: . tcp . ${port} : goto refuse }`,
    `add element inet sluice tcp6 { :: . ${port} . \${slot} : fd00:10:244::1 . 8080 }`,
  ];
  const files = cartBundle([1], { 'shop/registry': lines.map((line) => `${line}\n`).join('') });
  const options = { detector: 'address', masqueradeAll: false, localhost: 'refused', localhostListener: true } as const;
  return files.set('profiles/default/base/first.nft', printNftTable(options));
}

/** Whether a program listens there. */
const isOpen = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ port, host: '::1' }, () => (resolve(true), socket.destroy()));
    socket.on('error', () => resolve(false));
  });

describe('a release with other node ports, on the fake kernel', () => {
  const probation = { seconds: 5, deadmanSeconds: 30, mode: 'auto', decisionSeconds: 60, sources: [] } as const;

  test.each([true, false])('is met on ::1 while it is on probation; confirmed: %s', async (isGood) => {
    const node = scene();
    opened.push({ close: () => node.end() });
    const [old, fresh] = [await freePort(), await freePort()];
    await (await node.start()).reconciler.put(bundleWith(old), true);
    const met: (readonly boolean[])[] = [];
    const openNow = async (): Promise<readonly boolean[]> => [await isOpen(old), await isOpen(fresh)];
    const once = async (): Promise<readonly ProbeResult[]> => {
      met.push(await openNow());
      return [{ name: 'web', healthy: isGood || met.length < 3, seen: '' }];
    };
    const probes = { policies: [{ name: 'web', failures: 1, window: 1 }], intervalMs: 1000, once, untilVerdict: once };
    let ports: LocalhostPorts | undefined;
    // As `run` does at each event.
    const report = (): void => void ports?.refresh();
    const { reconciler, journal } = await node.start({ probation }, { clock: steppingClock(), report, probes });
    ports = new LocalhostPorts({
      journal,
      monotonicMs: () => performance.now(),
      failed: () => undefined,
      counted: () => undefined,
    });
    opened.push(ports);
    await ports.refresh();
    expect(await openNow()).toEqual([true, false]);
    const ending = await reconciler.put(bundleWith(fresh), true);
    expect(ending.kind).toBe(isGood ? 'confirmed' : 'rolled-back');
    expect(met.length).toBeGreaterThan(1);
    expect(met.at(-1)).toEqual([false, true]);
    await expect.poll(openNow).toEqual([!isGood, isGood]);
  });

  test('gives way to the ports of before at the next start, where the daemon is killed on probation', async () => {
    const node = scene();
    opened.push({ close: () => node.end() });
    const [old, fresh] = [await freePort(), await freePort()];
    await (await node.start()).reconciler.put(bundleWith(old), true);
    const killed = (): never => {
      throw new Error('killed');
    };
    const probes = {
      policies: [{ name: 'web', failures: 1, window: 1 }],
      intervalMs: 1000,
      once: killed,
      untilVerdict: killed,
    };
    const { reconciler } = await node.start({ probation }, { clock: steppingClock(), probes });
    await expect(reconciler.put(bundleWith(fresh), true)).rejects.toThrow('killed');
    const { reconciler: next, journal } = await node.start();
    await next.recover();
    const ports = new LocalhostPorts({
      journal,
      monotonicMs: () => performance.now(),
      failed: () => undefined,
      counted: () => undefined,
    });
    opened.push(ports);
    await ports.refresh();
    expect([await isOpen(old), await isOpen(fresh)]).toEqual([true, false]);
  });
});
