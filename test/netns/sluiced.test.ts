// @module-tag test
import { mkdirSync, rmSync, symlinkSync, renameSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { needKernel } from './privileges.ts';
import { childrenOf } from '../../packages/applier/src/testing/processes.fixture.ts';
import { SluicedNode, until, web } from './sluiced-node.ts';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';

/** The real program on the real kernel, in a network namespace with a /run of its own. */

/** shop/web has a health-check node port for a load balancer; these of its endpoints are on this node. */
function withHealthPort(
  files: ReadonlyMap<string, string>,
  port: number,
  endpoints: readonly number[] = [1],
): ReadonlyMap<string, string> {
  const [base, service] = ['profiles/default/base/first.iptables', 'profiles/default/services/shop/web.iptables'];
  const edit = (path: string, before: string, after: string): readonly [string, string] => [
    path,
    (files.get(path) ?? '').replace(before, after),
  ];
  const opens = `*filter\n-A KUBE-NODEPORTS -m comment --comment "shop/web health check node port" -m tcp -p tcp --dport ${port} -j ACCEPT\nCOMMIT\n`;
  const declared = endpoints.map((n) => `# endpoint 10.244.0.${n + 1}:8080 node-a\n`).join('');
  return new Map([
    ...files,
    edit(base, ':KUBE-FORWARD', ':KUBE-NODEPORTS - [0:0]\n:KUBE-FORWARD'),
    edit(service, '*nat', `${declared}${opens}*nat`),
  ]);
}

let node: SluicedNode;
let directory: string;

beforeEach(needKernel);
beforeEach(async () => {
  node = await SluicedNode.make();
  ({ directory } = node);
});
afterEach(() => node.remove());

describe('sluiced run', () => {
  /** The number of releases that were confirmed and are finished. */
  const generations = async (): Promise<number> => {
    const journal = node.journal();
    return journal?.open === null ? journal.history.filter(({ what }) => what === 'confirmed').length : 0;
  };

  test('applies a written bundle and a swapped link whose old target stays, and repairs drift; a vanished directory changes nothing', async () => {
    node.writeConfig('nft');
    const [first, second] = [`${directory}/one`, `${directory}/two`];
    writeBundle(first, web(1, 11));
    writeBundle(second, web(2, 12));
    symlinkSync(first, `${directory}/rendered`);
    const daemon = node.start();
    await until('the first bundle is applied', async () => (await generations()) === 1);
    symlinkSync(second, `${directory}/next`);
    renameSync(`${directory}/next`, `${directory}/rendered`);
    await until('the swapped bundle is applied', async () => (await generations()) === 2);
    const good = await node.rules('nft');
    await node.tool(['iptables-nft', '-t', 'nat', '-F']);
    await until('the rules are repaired', async () => (await node.rules('nft')) === good);
    rmSync(`${directory}/rendered`);
    const report = await until('the alarm is raised', async () => {
      const text = await node.get();
      return text?.includes('BUNDLE_ABSENT') ? text : undefined;
    });
    expect(JSON.parse(report)).toMatchObject({ healthy: true, generation: 2 });
    expect(await node.rules('nft')).toBe(good);
    expect(await node.get('/metrics')).toContain('sluice_outcomes_total{outcome="confirmed"} 2');
    mkdirSync(`${directory}/rendered`);
    writeBundle(`${directory}/rendered`, web(3, 13));
    await until('the replaced directory is applied', async () => (await generations()) === 3);
    const ended = new Promise((resolve) => daemon.once('exit', resolve));
    daemon.kill('SIGTERM');
    expect(await ended).toBe(0);
  });

  test('a load balancer reaches its health-check port also after a restart with an empty directory', {
    timeout: 60_000,
  }, async () => {
    node.writeConfig('nft');
    writeBundle(`${directory}/rendered`, withHealthPort(web(1), 31_999));
    const ask = async (): Promise<string | undefined> =>
      node.tool(['curl', '-s', '-m', '2', 'http://127.0.0.1:31999/']).catch(() => undefined);
    const daemon = node.start();
    await until('the port is open', async () => (await ask())?.includes('"localEndpoints": 1'));
    daemon.kill('SIGTERM');
    await new Promise((resolve) => daemon.once('exit', resolve));
    expect(await ask()).toBeUndefined();
    rmSync(`${directory}/rendered`, { recursive: true });
    node.start();
    await until('it reports the missing bundle', async () => (await node.get())?.includes('BUNDLE_ABSENT'));
    expect(await ask()).toContain('"localEndpoints": 1');
  });

  test('a health-check port counts endpoints that are added while their release is on probation, and while it waits', {
    timeout: 60_000,
  }, async () => {
    const fails = `exec: [/bin/sh, -c, "! iptables-nft-save -t nat | grep -q shop/bad"], attempts: 1`;
    node.writeConfig('nft', `probes:\n  - {name: bad, ${fails}}\nprobation: {seconds: 3}\nreleases: {perHour: 1}\n`);
    const write = (endpoints: readonly number[], more: Readonly<Record<string, readonly number[]>>): void => {
      const files = sampleBundle({ services: { 'shop/web': endpoints, 'shop/cart': [50], ...more } });
      writeBundle(`${directory}/rendered`, withHealthPort(files, 31_999, endpoints));
    };
    const counts = async (endpoints: number): Promise<boolean> => {
      const output = await node.tool(['curl', '-s', '-m', '2', 'http://127.0.0.1:31999/']).catch(() => '');
      return output.includes(`"localEndpoints": ${endpoints},`);
    };
    write([1], {});
    node.start();
    await until('the first bundle is applied', async () => (await generations()) === 1 && counts(1));
    write([1, 2], { 'shop/new': [60] });
    await until('it is on probation', async () => node.journal()?.open !== null);
    // The port follows the journal within a moment.
    await until('its endpoint counts', async () => counts(2));
    write([1, 2, 3], { 'shop/new': [60] });
    await until('the endpoint of the release on probation counts', async () => counts(3));
    expect(node.journal()?.open).not.toBeNull();
    await until('the release is confirmed', async () => (await generations()) === 2);
    write([1, 2], { 'shop/new': [60], 'shop/bad': [70] });
    await until('the bad one is rolled back', async () => (await node.get())?.includes('BUNDLE_QUARANTINED'));
    expect(await counts(2)).toBe(true);
    write([1], { 'shop/new': [60], 'shop/bad': [70] });
    await until('the endpoint of the waiting release counts', async () => counts(1));
    expect(await generations()).toBe(2);
  });

  test('applies and repairs rules while another program holds the status port, which is opened later', {
    timeout: 60_000,
  }, async () => {
    node.writeConfig('nft');
    writeBundle(`${directory}/rendered`, web(1, 11));
    const listener = `require('node:net').createServer((one) => one.destroy()).listen(10276, '127.0.0.1')`;
    const other = node.startProgram([process.execPath, '-e', listener]);
    const taken = (): Promise<string> => node.tool(['ss', '-Htln', 'sport = :10276']);
    await until('the port is taken', async () => (await taken()).includes('10276'));
    node.start();
    await until('the bundle is applied', async () => (await generations()) === 1);
    const good = await node.rules('nft');
    await node.tool(['iptables-nft', '-t', 'nat', '-F']);
    await until('the rules are repaired', async () => (await node.rules('nft')) === good);
    expect(await node.get()).toBeUndefined();
    await node.kill(other);
    const report = await until('the port is open', async () => node.get());
    expect(JSON.parse(report)).toMatchObject({ healthy: true, alarms: {} });
  });

  test('a small process starts the tools of its changes, which are no drift', { timeout: 60_000 }, async () => {
    node.writeConfig('nft');
    writeBundle(`${directory}/rendered`, web(1, 11));
    const daemon = node.start();
    const shells = (): readonly number[] => childrenOf(daemon.pid ?? 0, 'read -r out in');
    await until('the first bundle is applied', async () => (await generations()) === 1);
    const [shell] = await until('it runs', async () => (shells().length > 0 ? shells() : undefined));
    writeBundle(`${directory}/rendered`, web(1, 12));
    await until('the update is applied', async () => (await node.rules('nft')).includes('10.244.0.13:8080'));
    expect(shells()).toEqual([shell]);
    expect(JSON.parse((await node.get()) ?? '')).toMatchObject({ lastRepair: null, alarms: {} });
    daemon.kill('SIGTERM');
    await new Promise((resolve) => daemon.once('exit', resolve));
    await until('it has ended', async () => shells().length === 0);
  });

  test('refuses a second daemon while the first holds the lock', { timeout: 60_000 }, async () => {
    node.writeConfig('nft');
    writeBundle(`${directory}/rendered`, web(1));
    node.start();
    await until('the first bundle is applied', async () => (await generations()) === 1);
    const second = await node.sluiced('apply', `${directory}/rendered`);
    expect(second).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('NODE_LOCKED') });
  });
});

test('preflight checks the named directory; problems come first, each line ends with a hint', async () => {
  node.writeConfig('nft');
  const other = `${directory}/other`;
  writeBundle(other, web(1));
  const good = await node.sluiced('preflight', other, '--verbose');
  expect(good).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('bundle (this node can run it)') });
  for (const line of good.stdout.split('\n')) expect(line).toMatch(/^(ok {2}|note) {2}.+\): \S.+$/);
  expect(good.stdout, 'no Service has it').not.toContain('address ::1');
  rmSync(`${other}/cluster.yaml`);
  const bad = await node.sluiced('preflight', other);
  expect(bad).toMatchObject({ exitCode: 3, stdout: expect.stringMatching(/^FAIL {2}bundle .*render it again/) });
  expect(bad.stdout).toMatch(/\nok {4}\d+ more: nothing to do \(--verbose lists them\)$/);
  const output = JSON.parse((await node.sluiced('preflight', other, '-o', 'json')).stdout) as object;
  expect(output).toMatchObject({ kind: 'Preflight', node: 'node-a', ready: false });
  expect((output as { readonly findings: readonly object[] }).findings[0]).toMatchObject({ level: 'bad' });
});
