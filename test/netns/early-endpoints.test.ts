// @module-tag test
import { writeFileSync } from 'node:fs';
import { atTier } from '@sluice/testing';
import { describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { dataPlanes, until } from './sluiced-node.ts';
import { reached } from './sluiced-probation.ts';

/** Endpoints that break a probe, on the real kernel: with a release, and alone. Endpoint 1 answers, endpoint 9 is dead. */

withNode();

type EndpointsByService = Readonly<Record<string, readonly number[]>>;
const old: EndpointsByService = { 'shop/web': [1] };

const [nft, legacy, ...flat] = dataPlanes.filter(({ mode }) => mode === 'iptables');
const nftables = dataPlanes.filter(({ mode }) => mode === 'nftables');
const chosen = [nft, ...nftables, legacy, ...flat].flatMap((one) => one ?? []);

describe.each(oneInTurn(chosen.slice(0, atTier({ quick: 3, all: 5 })), 'early endpoints'))(
  'on $backend, layout $layout, mode $mode',
  ({ backend, layout, mode }) => {
    const publish = (services: EndpointsByService): void =>
      writeBundle(`${node.directory}/rendered`, sampleBundle({ services, mode }));
    /** The name of shop/web in messages: the table of mode nftables knows addresses. */
    const web = mode === 'nftables' ? '10.96.0.11:80/TCP' : 'shop/web';
    const start = async (): Promise<void> => {
      await node.tool(['sh', '-c', 'ip addr add 10.244.0.2/32 dev lo && ip route add 10.96.0.0/12 dev lo']);
      const server = `require('node:http').createServer((_, to) => to.end('1')).listen(8080, '10.244.0.2')`;
      writeFileSync(`${node.directory}/server.cjs`, server);
      node.startProgram([process.execPath, `${node.directory}/server.cjs`]);
      const probe =
        'probes: [{name: web, http: "http://10.96.0.11/", attempts: 2, intervalSeconds: 1, timeoutSeconds: 1}]';
      publish(old);
      node.writeConfig(backend, `layout: ${layout}\n`);
      expect(await node.apply()).toMatchObject({ exitCode: 0 });
      expect(await reached(node)).toBe('1');
      node.writeConfig(backend, `layout: ${layout}\nprobation: {seconds: 2}\n${probe}\n`);
    };

    test('rolls back a release whose new endpoint breaks a probe, and its endpoints', async (context) => {
      needBackend(context, backend);
      await start();
      publish({ 'shop/web': [9], 'shop/new': [1] });
      const result = await node.apply();
      expect(result).toMatchObject({
        exitCode: 4,
        stdout: expect.stringContaining(
          `old endpoints restored, for the newest ones fail web, too: ${web} (10.244.0.10:8080 removed`,
        ),
      });
      expect(await reached(node)).toBe('1');
      expect(await node.sluiced('history')).toMatchObject({ stdout: expect.stringContaining('rolled-back') });
    });

    test('an endpoint update that breaks a probe raises an alarm until the probe passes again', async (context) => {
      needBackend(context, backend);
      await start();
      node.start();
      const status = async (): Promise<string> => (await node.sluiced('status')).stdout;
      await until('the daemon is healthy', async () => (await status()).includes('daemon      healthy'));
      publish({ 'shop/web': [9] });
      await until('an alarm names the Service and its endpoints', async () =>
        /PROBE_FAILED_AFTER_UPDATE: web .*$/m
          .exec(await status())?.[0]
          .includes(`${web} (10.244.0.2:8080 removed, 10.244.0.10:8080 added)`),
      );
      publish(old);
      await until('the alarm is cleared', async () => !(await status()).includes('PROBE_FAILED_AFTER_UPDATE'));
      expect(await reached(node)).toBe('1');
    });
  },
);
