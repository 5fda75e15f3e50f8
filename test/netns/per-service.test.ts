// @module-tag test
import { node, withNode } from './node-of-test.ts';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { nftBundle } from '../../packages/bundle/src/virtual/nft.fixture.ts';
import { writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { serviceText } from '../../packages/applier/src/testing/partial.fixture.ts';
import { until as untilSoon } from './sluiced-node.ts';

/**
 * `probation.perService` on the real kernel: a release changes 100 Services, and one of them is bad. Clients connect to all of them all
 * the time, from a port of their own for each connection.
 */

withNode();

const until: typeof untilSoon = (what, look) => untilSoon(what, look, 60_000);

const count = 100;
const bad = 7;
const numbers = Array.from({ length: count }, (_, n) => n);
const address = (n: number): string => `10.96.1.${n}`;
/** Release r has two pods for each Service; those of a bad one are nowhere. */
const pods = (r: number, n: number): readonly [string, string] =>
  r > 1 && n === bad ? [`10.244.99.${n}`, `10.244.98.${n}`] : [`10.244.${r}.${n}`, `10.244.${r + 10}.${n}`];

/** Pods that answer with their release: at once on TCP, to each datagram on UDP. */
const servers = `
  const { createServer } = require('node:net');
  const { createSocket } = require('node:dgram');
  for (const [address, answer] of JSON.parse(process.argv[2])) {
    createServer((socket) => { socket.on('error', () => {}); socket.end(answer); }).listen(8080, address);
    const udp = createSocket('udp4');
    udp.on('message', (_, from) => udp.send(answer, from.port, from.address));
    udp.bind(8080, address);
  }
`;

/**
 * Clients: one line for each connection, with the time when it began and ended, its Service and its answer. Connections to the bad Service
 * begin every 5 ms, none of them waits for another, and none has the port of another: an unanswered one keeps it.
 */
const clients = `
  const { connect } = require('node:net');
  const { createSocket } = require('node:dgram');
  const { appendFileSync } = require('node:fs');
  const [file, addresses, bad] = JSON.parse(process.argv[2]);
  let lines = '';
  setInterval(() => { appendFileSync(file, lines); lines = ''; }, 50);
  const tell = (kind, n, began, answer) => { lines += JSON.stringify({ kind, n, began, ended: Date.now(), answer }) + '\\n'; };
  const tcp = (n, then) => {
    const began = Date.now();
    let answer = '';
    const socket = connect({ host: addresses[n], port: 80 });
    socket.setEncoding('utf8');
    socket.setTimeout(8000, () => socket.destroy(new Error('timeout')));
    socket.on('data', (text) => { answer += text; });
    socket.on('error', (error) => { answer = error.code ?? error.message; });
    socket.on('close', () => { tell('tcp', n, began, answer); then(); });
  };
  const udp = (n) => {
    const began = Date.now();
    const socket = createSocket('udp4');
    const late = setTimeout(() => { tell('udp', n, began, 'nothing'); socket.close(); }, 3500);
    socket.on('error', () => {});
    socket.on('message', (text) => { clearTimeout(late); tell('udp', n, began, String(text)); socket.close(); });
    socket.send('who', 80, addresses[n]);
  };
  const again = (n) => tcp(n, () => setTimeout(() => again(n), 200));
  for (const n of addresses.keys()) if (n !== bad) setTimeout(() => again(n), n * 2);
  setInterval(() => { tcp(bad, () => {}); udp(bad); }, 5);
`;

interface Connection {
  readonly kind: 'tcp' | 'udp';
  readonly n: number;
  /** Milliseconds since 1970. */
  readonly began: number;
  readonly ended: number;
  readonly answer: string;
}

/** A bundle of release r, where single Services may be of another one. */
function bundle(
  r: number,
  others: Readonly<Record<number, readonly [string, string]>> = {},
): ReadonlyMap<string, string> {
  const text = (n: number): string => {
    const own = others[n] ?? pods(r, n);
    const lines = serviceText(address(n), []).split('\n').filter(Boolean);
    const udp = lines
      .filter((line) => !line.includes('cluster4'))
      .map((line) => line.replace(' . tcp . ', ' . udp . '));
    const endpoints = ['tcp4', 'udp4'].flatMap((map) =>
      own.map((pod) => `add element inet sluice ${map} { ${address(n)} . 80 . \${slot} : ${pod} . 8080 }`),
    );
    return [...lines, ...udp, ...endpoints].map((line) => `${line}\n`).join('');
  };
  return nftBundle(Object.fromEntries(numbers.map((n) => [`shop/s${n}`, text(n)])));
}

function publish(files: ReadonlyMap<string, string>): void {
  rmSync(`${node.directory}/rendered`, { recursive: true, force: true });
  writeBundle(`${node.directory}/rendered`, files);
}

const probes = [3, bad, 50]
  .map(
    (n) =>
      `{name: s${n}, service: shop/s${n}, tcp: "${address(n)}:80", attempts: 2, intervalSeconds: 0.2, timeoutSeconds: 0.4}`,
  )
  .join(', ');
const config = `probation: {seconds: 4, deadmanSeconds: 15, perService: true}\nprobes: [${probes}]\n`;

const connections = (file: string): readonly Connection[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Connection);

/** Pods on this node, and routes to Services and to the pods that are nowhere. */
async function setUp(): Promise<void> {
  const all = [1, 2, 3].flatMap((r) => numbers.flatMap((n) => pods(r, n).map((pod) => [pod, String(r)] as const)));
  const own = all.filter(([pod]) => !/^10\.244\.9[89]\./.test(pod));
  const batch = [
    ...own.map(([pod]) => `addr add ${pod}/32 dev lo`),
    'route add 10.96.0.0/12 dev lo',
    // A packet to these is dropped by its own node: no answer, and no error either.
    'link add gone type veth peer name far',
    'link set far up',
    'link set gone up',
    'route add 10.244.98.0/23 dev gone',
    'neigh add 10.244.98.7 lladdr 02:00:00:00:00:01 dev gone',
    'neigh add 10.244.99.7 lladdr 02:00:00:00:00:01 dev gone',
  ];
  await node.tool(['ip', '-batch', '-'], `${batch.join('\n')}\n`);
  writeFileSync(`${node.directory}/servers.cjs`, servers);
  writeFileSync(`${node.directory}/clients.cjs`, clients);
  node.startProgram([process.execPath, `${node.directory}/servers.cjs`, JSON.stringify(own)]);
}

/** What a client reaches, by Service. */
async function reached(numbersAsked: readonly number[]): Promise<readonly string[]> {
  return Promise.all(
    numbersAsked.map((n) =>
      node.tool(['bash', '-c', `cat < /dev/tcp/${address(n)}/80`]).catch((error: Error) => error.message),
    ),
  );
}

const receipts = (): readonly { readonly outcome: string; readonly because: string | null }[] =>
  readdirSync(`${node.directory}/receipts`)
    .filter((name) => name.endsWith('.json'))
    .toSorted()
    .map((name) => JSON.parse(readFileSync(`${node.directory}/receipts/${name}`, 'utf8')) as never);

describe('one of 100 changed Services is bad', { timeout: 300_000 }, () => {
  test('the others keep the release, it serves as before, and none of its packets is lost after the decision', async () => {
    const receiptConfig = `receipts: {directory: ${node.directory}/receipts}\n`;
    await setUp();
    node.writeConfig('auto', receiptConfig);
    expect((await node.sluiced('keygen')).exitCode).toBe(0);
    publish(bundle(1));
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    expect(await reached([0, bad, 99])).toEqual(['1', '1', '1']);
    const file = `${node.directory}/connections`;
    writeFileSync(file, '');
    node.startProgram([
      process.execPath,
      `${node.directory}/clients.cjs`,
      JSON.stringify([file, numbers.map(address), bad]),
    ]);
    await until('every Service has answered', async () => new Set(connections(file).map(({ n }) => n)).size === count);
    node.writeConfig('auto', `${config}${receiptConfig}`);
    publish(bundle(2));
    const daemon = node.start('', '--log-format', 'json', '--log-level', 'debug');
    let log = '';
    daemon.stderr?.on('data', (text: Buffer) => (log += text.toString()));
    await until(
      'the partial release is confirmed',
      async () => node.journal()?.current?.partial !== undefined || undefined,
    );
    await sleep(2_000);
    const [told = ''] = log.split('services-rolled-back');
    expect(told).not.toBe(log);
    // The last step before that: the one after the transaction which removes the Service from the overlay.
    const decided = [...told.matchAll(/"time":"([^"]+)"[^\n]*"msg":"step"/g)].at(-1)?.[1] ?? '';
    const decidedMs = Date.parse(decided);
    const all = connections(file);
    const ofBad = all.filter(({ n }) => n === bad);
    // The clients met the release: for as long as its probe took, the bad Service did not answer.
    const lostBefore = ofBad.filter(
      ({ began, kind, answer }) => kind === 'udp' && began < decidedMs && answer === 'nothing',
    );
    expect(lostBefore.length).toBeGreaterThan(10);
    const after = ofBad.filter(({ began }) => began >= decidedMs);
    expect(after.length).toBeGreaterThan(300);
    expect(after.filter(({ answer }) => answer !== '1')).toEqual([]);
    // Clients that were connecting meet the old rules with their next packet.
    const waiting = ofBad.filter(({ kind, began, ended }) => kind === 'tcp' && began < decidedMs && ended > decidedMs);
    expect(waiting.length).toBeGreaterThan(10);
    expect(waiting.filter(({ answer }) => answer !== '1')).toEqual([]);
    // The others: no connection is lost at any time, and each keeps the release from its switch on.
    const others = all.filter(({ n }) => n !== bad);
    expect(others.filter(({ answer }) => answer !== '1' && answer !== '2')).toEqual([]);
    expect(others.filter(({ began, answer }) => began >= decidedMs && answer !== '2')).toEqual([]);
    expect(new Set(others.filter(({ answer }) => answer === '2').map(({ n }) => n)).size).toBe(count - 1);
  });

  test('status, history and receipts tell it; a boot, an endpoint update, a later release and a rollback go on from it', async () => {
    const settings = `${config}receipts: {directory: ${node.directory}/receipts}\n`;
    await setUp();
    node.writeConfig('auto', settings);
    expect((await node.sluiced('keygen')).exitCode).toBe(0);
    publish(bundle(1));
    node.writeConfig('auto', `receipts: {directory: ${node.directory}/receipts}\n`);
    expect((await node.apply()).exitCode).toBe(0);
    node.writeConfig('auto', settings);
    publish(bundle(2));
    expect(await node.apply()).toMatchObject({ exitCode: 1, stdout: expect.stringContaining(`without shop/s${bad}`) });
    expect(await reached([0, bad, 99])).toEqual(['2', '1', '2']);
    expect(receipts().map(({ outcome }) => outcome)).toEqual(['confirmed', 'partial']);
    expect(receipts().at(-1)?.because).toContain(`without shop/s${bad}: health failed: s${bad}`);
    expect(await node.sluiced('status')).toMatchObject({
      exitCode: 1,
      stdout: expect.stringMatching(
        new RegExp(`partial     version \\w+ without shop/s${bad}, .*\\n(?:.*\\n)*quarantined shop/s${bad} `),
      ),
    });
    expect((await node.sluiced('history')).stdout).toMatch(
      new RegExp(`  partial      generation 2 .*without shop/s${bad}`),
    );
    // A boot.
    await node.tool(['nft', 'delete', 'table', 'inet', 'sluice']);
    expect(await node.sluiced('boot')).toMatchObject({ exitCode: 0 });
    expect(await reached([0, bad, 99])).toEqual(['2', '1', '2']);
    // An endpoint update of the release in the directory: one of two endpoints of another Service.
    publish(bundle(2, { 0: ['10.244.2.0', '10.244.13.0'] }));
    expect(await node.apply('--dry-run')).toMatchObject({ exitCode: 1 });
    const daemon = node.start();
    await until('the update is in', async () => (await node.frontends()).includes('10.244.13.0') || undefined);
    expect(await reached([bad])).toEqual(['1']);
    expect(node.journal()?.current).toMatchObject({ number: 2, partial: { services: [`shop/s${bad}`] } });
    // A later release with the same version of the Service: it stays as before.
    publish(bundle(3, { [bad]: pods(2, bad) }));
    await until(
      'the later release is confirmed',
      async () => (node.journal()?.current?.number ?? 0) === 3 || undefined,
    );
    expect(await reached([0, bad, 99])).toEqual(['3', '1', '3']);
    const status = JSON.parse((await node.get('/status')) ?? '{}') as { readonly alarms: Record<string, string> };
    expect(status.alarms['RELEASE_PARTIAL']).toContain(`without shop/s${bad}`);
    expect(await node.get('/metrics')).toMatch(/^sluice_services_left_out 1$/m);
    // The Service is tried again when an operator says so, and fails again.
    expect(await node.sluiced('quarantine', '--lift', `shop/s${bad}`)).toMatchObject({ exitCode: 0 });
    await until(
      'it was tried again',
      async () =>
        node
          .journal()
          ?.history.some(
            ({ what, because }) => what === 'rolled-back' && because?.includes('every changed Service fails'),
          ) || undefined,
    );
    expect(await reached([0, bad])).toEqual(['3', '1']);
    await node.kill(daemon, 'SIGTERM');
    expect(await node.sluiced('rollback', '1', '--endpoints', 'old', '--yes')).toMatchObject({ exitCode: 0 });
    expect(await reached([0, bad, 99])).toEqual(['1', '1', '1']);
  });
});
