// @module-tag test
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { programPath } from '@sluice/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readConfig } from '../../packages/applier/src/config.ts';
import { writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { type CommandResult, SluicedNode, until, web } from './sluiced-node.ts';

/** The machine-readable output of `sluiced` on the real kernel: one document per command, and the log of the daemon. */

let node: SluicedNode;
let directory: string;

beforeEach(needKernel);
beforeEach(async (context) => {
  needBackend(context, 'nft');
  node = await SluicedNode.make();
  ({ directory } = node);
  // Receipts, too, stay in the directory of the test.
  node.writeConfig('nft', `receipts: {directory: ${directory}/receipts}\n`);
  writeBundle(`${directory}/rendered`, web(1, 2));
});
afterEach(() => node.remove());

/** The one document on standard output, and the exit code. */
async function answered(...args: readonly string[]): Promise<readonly [number | undefined, object]> {
  const { stdout, exitCode }: CommandResult = await node.sluiced(...args, '-o', 'json');
  return [exitCode, JSON.parse(stdout) as object];
}

const rendered = (): string => `${directory}/rendered`;
const version = expect.stringMatching(/^[0-9a-f]{16}$/) as string;

test('each command that changes the kernel prints its result as one document', async () => {
  expect(await answered('apply', rendered(), '--dry-run')).toEqual([
    1,
    expect.objectContaining({
      kind: 'Plan',
      steps: expect.arrayContaining([
        {
          kind: 'restore-table',
          what: expect.any(String) as string,
          text: expect.stringMatching(/^\*nat\n/) as string,
        },
      ]) as object[],
    }),
  ]);
  const confirmed = { kind: 'Outcome', outcome: 'confirmed', generation: 1, version, because: null, problems: [] };
  expect(await answered('apply', rendered())).toEqual([0, expect.objectContaining(confirmed)]);
  expect(await answered('apply', rendered(), '--dry-run')).toEqual([
    0,
    expect.objectContaining({ kind: 'Plan', steps: [], flip: null }),
  ]);
  expect(await answered('boot')).toEqual([
    0,
    expect.objectContaining({ kind: 'Boot', generation: 1, version, isOlder: false, isHeld: false }),
  ]);
  expect(await answered('status')).toEqual([0, expect.objectContaining({ kind: 'NodeStatus', generation: 1 })]);
  const made = `${directory}/init.yaml`;
  const words = ['init', made, '--node', 'node-a', '-o', 'json'];
  expect(JSON.parse(await node.tool([process.execPath, programPath('sluiced'), ...words]))).toMatchObject({
    kind: 'InitResult',
    file: made,
    node: 'node-a',
    backend: 'nft',
  });
  expect(readConfig(made, readFileSync(made, 'utf8'))).toMatchObject({
    node: 'node-a',
    signatures: { policy: 'required' },
  });
  expect(await answered('backend')).toEqual([0, expect.objectContaining({ kind: 'RuleStore', backend: 'nft' })]);
  expect(await answered('backend', 'nft')).toEqual([
    0,
    expect.objectContaining({ kind: 'RuleStoreMove', backend: 'nft', moved: false }),
  ]);
  expect(await answered('keygen')).toEqual([
    0,
    expect.objectContaining({
      kind: 'ReceiptKey',
      allowedReceipts: expect.stringContaining('sluice-receipt') as string,
    }),
  ]);
  expect(await answered('rollback', '0', '--remove-all-services', '--yes')).toEqual([
    0,
    expect.objectContaining({
      kind: 'Rollback',
      plan: expect.objectContaining({ to: expect.objectContaining({ generation: 0 }) as object }) as object,
      ending: { kind: 'done', unwritten: null },
    }),
  ]);
  expect(await node.apply()).toMatchObject({ exitCode: 0 });
  rmSync(`${directory}/state`, { recursive: true });
  expect(await answered('recover')).toEqual([
    0,
    expect.objectContaining({ kind: 'Recovery', generation: expect.any(Number) as number }),
  ]);
  const rules = await node.rules('nft');
  expect(await answered('cleanup', '--dry-run')).toEqual([
    1,
    expect.objectContaining({ kind: 'Cleanup', generation: expect.any(Number) as number, steps: null }),
  ]);
  expect(await node.rules('nft')).toBe(rules);
  expect(await answered('cleanup')).toEqual([
    0,
    expect.objectContaining({ kind: 'Cleanup', steps: expect.any(Number) as number }),
  ]);
  expect(await answered('cleanup', '--dry-run')).toEqual([0, expect.objectContaining({ generation: null })]);
  expect(await answered('history')).toEqual([0, expect.objectContaining({ kind: 'NodeHistory' })]);
});

test('a failing command prints the error with its code', async () => {
  const error = (code: string): object =>
    expect.objectContaining({ kind: 'Error', error: expect.objectContaining({ code }) as object }) as object;
  expect(await answered('confirm')).toEqual([2, error('NODE_STATE_INVALID')]);
  expect(await answered('apply', `${directory}/nowhere`)).toEqual([2, error('INPUT_UNREADABLE')]);
  expect(await answered('rollback', '0', '--yes')).toEqual([2, error('NODE_STATE_INVALID')]);
  const daemon = node.start();
  await until('the daemon has applied', async () => (await node.sluiced('history')).stdout.includes('generation 1'));
  // Each waits for the lock for a while.
  const locked = [3, error('NODE_LOCKED')];
  expect(await Promise.all([answered('apply', rendered()), answered('cleanup')])).toEqual([locked, locked]);
  await node.kill(daemon, 'SIGTERM');
});

test('the log of the daemon is JSON with levels by name, and signals change its level', async () => {
  const daemon = node.start('', '--log-format', 'json', '--log-level', 'warning');
  let text = '';
  daemon.stderr?.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const lines = (): readonly { readonly level: string; readonly msg: string; readonly phase?: string }[] =>
    text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as { level: string; msg: string });
  const hasLogged = (message: string): boolean => lines().some(({ msg }) => msg === message);
  await until('the daemon has applied', async () => (await node.sluiced('history')).stdout.includes('generation 1'));
  expect(lines().filter(({ level }) => level === 'info')).toEqual([]);
  expect(lines()).toContainEqual({
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string,
    level: 'warning',
    msg: 'signatures: {policy: none}: bundles are accepted from every user who can write them',
  });
  daemon.kill('SIGUSR1');
  await until('level info', async () => hasLogged('log level is info'));
  daemon.kill('SIGUSR1');
  await until('level debug', async () => hasLogged('log level is debug'));
  writeBundle(rendered(), web(1, 2, 3));
  await until('a phase', async () => lines().some(({ level, phase }) => level === 'debug' && phase !== undefined));
  daemon.kill('SIGUSR2');
  await until('level info again', async () => lines().filter(({ msg }) => msg === 'log level is info').length === 2);
  await node.kill(daemon, 'SIGTERM');
  expect(lines().at(-1)).toMatchObject({ level: 'info', msg: 'sluiced stopped; the rules stay in the kernel' });
});

test('a log that the journal reads has priorities, and a redirected one has none', async () => {
  // JOURNAL_STREAM as systemd.exec(5) describes it, for a file in place of the socket of the journal.
  const logged = async (redirected: string): Promise<string> => {
    const file = `${directory}/log`;
    const before = `: >${file}; export JOURNAL_STREAM=$(stat -c %d:%i ${file}); exec 2>${redirected};`;
    const read = (): string => (existsSync(redirected) ? readFileSync(redirected, 'utf8').trimEnd() : '');
    const daemon = node.start(before);
    await until('the daemon has applied', async () => /info: (confirmed|same)/.test(read()));
    await node.kill(daemon, 'SIGTERM');
    return read();
  };
  for (const line of (await logged(`${directory}/log`)).split('\n')) expect(line).toMatch(/^<[46]>(warning|info): /);
  for (const line of (await logged(`${directory}/other`)).split('\n'))
    expect(line).toMatch(/^\d{4}-\S+Z (warning|info): /);
});
