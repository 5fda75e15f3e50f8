import type { ChildProcess } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { SluicedNode, until } from './sluiced-node.ts';

/** A release on trial, and a sluiced that gives no sign of life: the kernel goes back by itself, told by what clients reach. */

const vip = '10.96.0.11';
const deadmanSeconds = 6;
/** What a busy machine may add. */
const slackSeconds = 4;

/**
 * Endpoint n of a sample bundle has the address 10.244.0.(n + 1). Endpoints 1 and 11 answer with 1, 2 and 12 with 2: two that are
 * replaced at once are a release, one would be an update of endpoints.
 */
const servers = `
  const { createServer } = require('node:http');
  for (const n of [1, 2, 11, 12]) createServer((_, to) => to.end(String(n % 10))).listen(8080, '10.244.0.' + (n + 1));
`;

let node: SluicedNode;
beforeEach(needKernel);
beforeEach(async () => {
  node = await SluicedNode.make();
});
afterEach(() => node.remove());

const who = async (): Promise<string> =>
  node.tool(['curl', '-s', '-m', '2', `http://${vip}/`]).catch((error: Error) => error.message);
const publish = (endpoints: readonly number[]): void =>
  writeBundle(`${node.directory}/rendered`, sampleBundle({ services: { 'shop/web': endpoints } }));
const put = (endpoint: number): void => publish([endpoint, endpoint + 10]);
const version = (): string | undefined => node.journal()?.current?.version;

/** Release 1 is confirmed and release 2 on trial, for longer than the test lasts. */
async function trial(backend: string, more = ''): Promise<ChildProcess> {
  const addresses = ['10.244.0.2', '10.244.0.3', '10.244.0.12', '10.244.0.13']
    .map((one) => `ip addr add ${one}/32 dev lo`)
    .join(' && ');
  await node.tool(['sh', '-c', `${addresses} && ip route add 10.96.0.0/12 dev lo`]);
  writeFileSync(`${node.directory}/servers.cjs`, servers);
  node.startProgram([process.execPath, `${node.directory}/servers.cjs`]);
  const probation = (seconds: number): string =>
    `probation: {seconds: ${seconds}, deadmanSeconds: ${deadmanSeconds}${more}}\nprobes: [{name: web, http: "http://${vip}/", attempts: 9}]\n`;
  node.writeConfig(backend, probation(0).replace(more, ''));
  put(1);
  expect(await node.apply()).toMatchObject({ exitCode: 0 });
  expect(await who()).toBe('1');
  node.writeConfig(backend, probation(300));
  put(2);
  const daemon = node.start();
  await until('clients reach the release on trial', async () => (await who()) === '2');
  return daemon;
}

/** A daemon that was stopped goes on, and must not turn the switch on again. @returns why it took the release back */
async function wakeUp(daemon: ChildProcess): Promise<string | undefined> {
  daemon.kill('SIGCONT');
  return until('the trial is over', async () => node.journal()?.history.at(-1)?.because);
}

/** @returns why the process that comes next took the release back; it leaves nothing of the trial */
async function startAgain(): Promise<string | undefined> {
  expect(await node.apply()).toMatchObject({ exitCode: 0 });
  expect(await node.tool(['ipset', 'list', '-n'])).toBe('');
  return node.journal()?.history.flatMap(({ because }) => because ?? [])[0];
}

/** A soak takes all four. */
const losses = [
  ['nft', 'SIGKILL'],
  ['legacy', 'SIGSTOP'],
  ['nft', 'SIGSTOP'],
  ['legacy', 'SIGKILL'],
] as const;

describe('a release on trial', { timeout: 60_000 }, () => {
  test.for(losses.slice(0, process.env['SLUICE_SOAK'] ? 4 : 2))(
    'on %s, %s of sluiced: the old rules serve again without it, and a restart says why',
    async ([backend, signal], context) => {
      needBackend(context, backend);
      const daemon = await trial(backend);
      const before = version();
      await sleep((deadmanSeconds + 2) * 1000);
      expect(await who(), 'it was renewed').toBe('2');
      daemon.kill(signal);
      const killedMs = performance.now();
      await until('the kernel goes back', async () => (await who()) === '1');
      expect(performance.now() - killedMs).toBeLessThan((deadmanSeconds + slackSeconds) * 1000);
      expect([version(), node.journal()?.open?.phase]).toEqual([before, 'open']);
      if (signal === 'SIGKILL') put(1);
      const because = signal === 'SIGSTOP' ? await wakeUp(daemon) : await startAgain();
      expect(because).toContain(
        signal === 'SIGSTOP'
          ? 'the trial expired'
          : 'the process ended in the middle of the change; the kernel goes by the old rules',
      );
      expect(await who()).toBe('1');
    },
  );

  test.for(['nft', 'legacy'] as const)(
    'on %s, an endpoint that comes meanwhile does not wait, and stays when the release is taken back',
    async (backend, context) => {
      needBackend(context, backend);
      await trial(backend);
      const led = async (): Promise<readonly string[]> => {
        const rules = await node.rules(backend);
        return [...new Set(rules.match(/(?<=--to-destination 10\.244\.0\.)\d+/g))].toSorted();
      };
      expect(await led(), 'both programs').toEqual(['12', '13', '2', '3']);
      publish([2, 1]);
      await until('it is in both programs', async () => (await led()).join() === '2,3');
      expect(node.journal()?.open?.phase).toBe('open');
      expect(['1', '2']).toContain(await who());
      expect(await node.sluiced('cancel')).toMatchObject({ exitCode: 0 });
      await until('it is taken back', async () => node.journal()?.open === null);
      expect(await led()).toEqual(['2', '3']);
      expect(['1', '2']).toContain(await who());
      expect(node.journal()?.current).toMatchObject({ number: 1, revision: 1 });
      expect(await node.tool(['ipset', 'list', '-n'])).toBe('');
    },
  );

  test('for some sources takes what the node itself sends too, so that its probes meet the release', async (context) => {
    needBackend(context, 'nft');
    await trial('nft', ', sources: [10.244.7.0/24]');
    expect(await node.sluiced('cancel')).toMatchObject({ exitCode: 0 });
    await until('it is taken back', async () => (await who()) === '1');
  });

  test('a person confirms it, in manual mode after good probes, or cancels it, and is heard at once', async (context) => {
    needBackend(context, 'nft');
    await trial('nft', ', confirm: manual');
    expect(await node.sluiced('extend', '200')).toMatchObject({ exitCode: 0 });
    expect(await node.sluiced('confirm')).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('confirm') });
    await until(
      'it is confirmed',
      async () => node.journal()?.history.at(-1)?.what === 'confirmed' && node.journal()?.open === null,
    );
    expect(await who()).toBe('2');
    expect(await node.sluiced('confirm')).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('none is on trial'),
    });
    put(1);
    await until('the next is on trial', async () => (await who()) === '1');
    expect(await node.sluiced('cancel')).toMatchObject({ exitCode: 0 });
    await until('it is taken back', async () => node.journal()?.history.at(-1)?.because === 'a person cancelled it');
    expect(await who()).toBe('2');
  });
});
