// @module-tag test
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { receiptFile } from '@sluice/bundle';
import { programPath } from '@sluice/testing';
import { expect, test } from 'vitest';
import { sampleBundle, sampleNode } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { Fetcher } from '../../packages/applier/src/testing/fetch.fixture.ts';
import { archivePath, unpackReceipts } from '../../packages/transport/src/receipts/archive.ts';
import { sourceScene } from './scene.fixture.ts';

/** The real process, with a /run of its own. */

const { scene, fetched, config, writeConfig } = sourceScene();
const { publish, directory: release, scratch } = scene;
const whyNot =
  process.getuid?.() === 0 && spawnSync('/usr/bin/unshare', ['-m', '/bin/true']).status === 0
    ? ''
    : 'no mount namespace of its own: needs root';

const sluiced = (...args: readonly string[]): readonly string[] => [
  process.execPath,
  programPath('sluiced'),
  ...args,
  '-c',
  config,
];

test('follows the source at its interval, and at once when an operator asks', { timeout: 120_000 }, async (context) => {
  if (whyNot !== '') return context.skip(whyNot);
  writeConfig(`source: { dir: { path: ${release} }, directory: ${fetched}, intervalSeconds: 3600 }`);
  publish({ serial: 5 });
  // The shell holds the namespace; a line is a command in it.
  const shell = spawn('/usr/bin/unshare', ['-m', '/bin/sh', '-c', 'mount -t tmpfs tmpfs /run && exec /bin/sh'], {
    env: { PATH: '/usr/bin:/bin' },
    // All that it starts ends with it.
    detached: true,
  });
  let said = '';
  for (const stream of [shell.stdout, shell.stderr]) stream.on('data', (chunk: Buffer) => (said += String(chunk)));
  const run = (command: readonly string[] | string): void =>
    void shell.stdin.write(`${typeof command === 'string' ? command : command.join(' ')}\n`);
  const until = async (words: string): Promise<void> => {
    for (let n = 0; !said.includes(words); n++) {
      if (n > 300) throw new Error(`"${words}" was not said: ${said}`);
      await sleep(100);
    }
    said = '';
  };
  try {
    run(`${sluiced('fetch').join(' ')} & fetch=$!`);
    await until('placed a release');
    const taken = (): Promise<string> => new Fetcher(scene, { dir: { path: release } }).taken();
    expect(await taken()).toBe('serial 5');
    publish({ serial: 6, files: sampleBundle({ services: { 'shop/web': [7] } }) });
    run(`${sluiced('fetch', '--now').join(' ')}; echo "exit $?."`);
    await until('exit 0.');
    expect(await taken()).toBe('serial 6');
    // Another process may not write there at the same time.
    run(`${sluiced('fetch', '--once').join(' ')}; echo "exit $?."`);
    await until('exit 3.');
    publish({ serial: 4 });
    run(`${sluiced('fetch', '--now', '-o', 'json').join(' ')} >${scratch}/now.json; echo "exit $?."`);
    await until('exit 3.');
    const told = JSON.parse(readFileSync(join(scratch, 'now.json'), 'utf8')) as Record<string, unknown>;
    expect(told).toMatchObject({ kind: 'Fetch', outcome: 'refused', serial: 6, problem: { code: 'RELEASE_SERIAL' } });
    renameSync(release, `${release}.gone`);
    run(`${sluiced('fetch', '--now').join(' ')}; echo "exit $?."`);
    await until('exit 2.');
    renameSync(`${release}.gone`, release);
    expect(await taken()).toBe('serial 6');
    run('kill -9 $fetch; echo killed');
    await until('killed');
    run(`${sluiced('fetch', '--now', '--timeout', '1s').join(' ')}; echo "exit $?."`);
    await until('exit 2.');
  } finally {
    process.kill(-(shell.pid as number), 'SIGKILL');
  }
});

test('ends when it is asked to, also as the first process of a container', { timeout: 120_000 }, async (context) => {
  if (whyNot !== '') return context.skip(whyNot);
  writeConfig(`source: { dir: { path: ${release} }, directory: ${fetched}, intervalSeconds: 3600 }`);
  publish({ serial: 5 });
  const outside = spawn('/usr/bin/unshare', ['--pid', '--fork', '--kill-child', '--', ...sluiced('fetch')]);
  const ended = once(outside, 'exit');
  try {
    await once(outside.stderr, 'data');
    const first = Number(readFileSync(`/proc/${outside.pid}/task/${outside.pid}/children`, 'utf8'));
    process.kill(first, 'SIGTERM');
    expect(await Promise.race([ended, sleep(10_000)])).toEqual([0, null]);
  } finally {
    outside.kill('SIGKILL');
  }
});

test('ends at once without a source, and says so', () => {
  writeConfig('');
  const [file = '', ...args] = sluiced('fetch');
  const { status, stderr } = spawnSync(file, args, { encoding: 'utf8' });
  expect({ status, stderr }).toEqual({ status: 0, stderr: 'nothing to fetch: the config has no source\n' });
  expect(existsSync(fetched)).toBe(false);
});

test('refuses a directory of another user', (context) => {
  if (whyNot !== '') return context.skip(whyNot);
  writeConfig(`source: { dir: { path: ${release} }, directory: ${fetched} }`);
  mkdirSync(fetched);
  spawnSync('/bin/chown', ['65534', fetched]);
  const [file = '', ...args] = sluiced('fetch', '--once');
  const { status, stderr } = spawnSync(file, args, { encoding: 'utf8' });
  expect(status).toBe(3);
  expect(stderr).toContain('it belongs to user 65534');
});

test('sends receipts where the config says, and tells why it cannot, once the release is placed', () => {
  const [receipts, store] = [join(scratch, 'receipts'), join(scratch, 'store')];
  mkdirSync(receipts, { recursive: true });
  const name = receiptFile({ node: sampleNode, number: 7 });
  writeFileSync(join(receipts, `${name}.sig`), 'signature');
  writeFileSync(join(receipts, name), 'receipt');
  writeConfig(
    `source: { dir: { path: ${release} }, directory: ${fetched} }\nreceipts: { directory: ${receipts}, push: { dir: { path: ${store} } } }`,
  );
  publish({ serial: 5 });
  const [file = '', ...args] = sluiced('fetch', '--once');
  const fetchOnce = () => spawnSync(file, args, { encoding: 'utf8' });
  writeFileSync(store, 'a file');
  const failed = fetchOnce();
  expect(failed).toMatchObject({
    status: 0,
    stdout: expect.stringContaining('placed; release 5 is in place') as string,
  });
  expect(failed.stderr).toContain(`Cannot send receipts to ${store}: a part of the path is not a directory`);
  rmSync(store);
  expect(fetchOnce()).toMatchObject({ status: 0, stderr: '' });
  const archive = readFileSync(join(store, archivePath(sampleNode)));
  expect(unpackReceipts('sent', sampleNode, archive)).toEqual([{ number: 7, text: 'receipt', signature: 'signature' }]);
});
