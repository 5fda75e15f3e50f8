// @module-tag test
import { node, withNode } from './node-of-test.ts';
import { rmSync, writeFileSync } from 'node:fs';
import { printNftTable } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { cartBundle } from '../../packages/applier/src/testing/nftables.fixture.ts';
import { until } from './sluiced-node.ts';

/** Node ports on ::1 in mode nftables: a listener of the daemon, on the real kernel. */

withNode();

const pods = `
  const { createServer } = require('node:http');
  for (const address of ['fd00:10:244::1', 'fd00:10:244::2'])
    createServer((_, to) => to.end(address)).listen(8080, address);
`;

/** A registry at node port 31999 with one pod, and port 31998 without any. */
function publish(pod: number): void {
  const lines = [
    '# shop/registry NodePort',
    'add element inet sluice svc6 { :: . tcp . 31999 : goto pn${count} }',
    'add element inet sluice always6 { :: . tcp . 31999, :: . tcp . 31998, :: . udp . 31999 }',
    'add element inet sluice none6 { :: . tcp . 31998 : goto refuse, :: . udp . 31999 : goto refuse }',
    `add element inet sluice tcp6 { :: . 31999 . \${slot} : fd00:10:244::${pod} . 8080 }`,
  ];
  const files = cartBundle([1], { 'shop/registry': lines.map((line) => `${line}\n`).join('') });
  const options = { detector: 'address', masqueradeAll: false, localhost: 'refused', localhostListener: true } as const;
  files.set('profiles/default/base/first.nft', printNftTable(options));
  rmSync(`${node.directory}/rendered`, { recursive: true, force: true });
  writeBundle(`${node.directory}/rendered`, files);
}

const ask = (port = 31_999): Promise<string> =>
  node.tool(['sh', '-c', `curl -s -m 5 'http://[::1]:${port}/' || echo "exit $?"`]);
const refused = 'exit 7';
const answers = (pod: number) => async (): Promise<boolean> => (await ask()) === `fd00:10:244::${pod}`;

test('is served while the daemon runs, follows its endpoints, and comes back with it', {
  timeout: 120_000,
}, async () => {
  writeFileSync(`${node.directory}/pods.cjs`, pods);
  await node.tool(['sh', '-c', 'for n in 1 2; do ip addr add fd00:10:244::$n/128 dev lo nodad; done']);
  node.startProgram([process.execPath, `${node.directory}/pods.cjs`]);
  node.writeConfig('auto', 'listen: 127.0.0.1:10276\n');
  publish(1);
  const first = node.start();
  await until('the port is served', answers(1));
  expect(await ask(31_998)).toBe(refused);
  expect(await node.get('/metrics')).toMatch(/^sluice_localhost_listeners 1$/m);
  publish(2);
  await until('the new endpoint is served', answers(2));
  await node.kill(first);
  expect(await ask()).toBe(refused);
  node.start();
  await until('the port is served again', answers(2));
});
