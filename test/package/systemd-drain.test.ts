// @module-tag all
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { expect, onTestFinished, test } from 'vitest';
import { balancer, type BalancerSight } from '../netns/balancer.ts';
import { until } from './machine.fixture.ts';
import { bootNode, configOf, install, noNodeBecause, untilActive } from './node.fixture.ts';

/** Pods that outlive the units, as a container's scope does, which systemd stops behind all of them. */
const pods = `require('node:http').createServer((_, answer) => answer.end('pod')).listen(8080, '0.0.0.0')`;

test('a node that is shut down by plan loses no connection of a balancer that follows its health port', {
  timeout: 180_000,
}, async (context) => {
  if (noNodeBecause) return context.skip(noNodeBecause);
  const shutdown = { drain: '{shutdownSeconds: 5}', healthzBindAddress: '127.0.0.1:10256' };
  await using machine = await bootNode('nft', {
    'etc/sluice/sluiced.yaml': configOf('nft', shutdown),
    'etc/systemd/system/pod.socket': '[Socket]\nListenStream=127.0.0.1:1\nAccept=yes\n',
  });
  const folder = mkdtempSync(join(tmpdir(), 'sluice-balancer-'));
  const [sight, program] = [join(folder, 'seen.json'), join(folder, 'balancer.cjs')];
  const seen = (): BalancerSight => JSON.parse(readFileSync(sight, 'utf8')) as BalancerSight;
  writeFileSync(sight, JSON.stringify({ isIn: false, sent: 0 }));
  writeFileSync(program, balancer(sight));
  const started = [
    execa(...machine.inNetwork(process.execPath, '-e', pods), { reject: false }),
    execa(...machine.inNetwork(process.execPath, program), { reject: false }),
  ] as const;
  onTestFinished(async () => {
    for (const one of started) one.kill('SIGKILL');
    await Promise.all(started);
    rmSync(folder, { recursive: true });
  });
  await install(machine);
  await untilActive(machine, 1);
  await until('the balancer sends to the node', async () => seen().sent > 50);
  const before = seen();
  await machine.powerOff();
  started[0].kill('SIGKILL');
  await until('requests on the old connection fail', async () => seen().cut > 5);
  const { isIn, sent, lost, kept } = seen();
  console.log(
    `A shutdown with shutdownSeconds 5: ${sent} connections, ${lost} lost; ${kept - before.kept} requests more on one from before`,
  );
  expect({ isIn, lost }).toEqual({ isIn: false, lost: 0 });
  // The drain lasts 5 s, and the connection asks every 100 ms.
  expect(kept - before.kept).toBeGreaterThan(20);
});
