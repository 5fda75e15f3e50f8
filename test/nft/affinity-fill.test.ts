// @module-tag test
import { node, withNode } from '../netns/node-of-test.ts';
import { printNftTable } from '@sluice/netfilter';
import { reaches } from '@sluice/testing';
import { expect, test } from 'vitest';
import { writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { until, webIn } from '../netns/sluiced-node.ts';

/** The real daemon beside a small map of clients of session affinity that fills up. */

withNode();

const size = 1024;

function put(): void {
  const files = new Map(webIn('nftables', 1, 2));
  files.set(
    'profiles/default/base/first.nft',
    printNftTable({ detector: 'address', masqueradeAll: false, affinityClients: size }),
  );
  for (const [path, text] of files)
    if (path.includes('/services/')) files.set(path, text.replaceAll('goto n${count}', 'goto s${count}t600'));
  writeBundle(`${node.directory}/rendered`, files);
}

const client = (at: number): string => `192.0.${at >> 8}.${at & 255} . 10.96.0.11 . 6 . 80 timeout 600s : 1:1`;

async function alarms(): Promise<Readonly<Record<string, string>>> {
  const text = await node.get();
  return text === undefined ? {} : (JSON.parse(text) as { alarms: Record<string, string> }).alarms;
}

test('a map that is filled by 80 % raises an alarm with its fill, which ends when clients are forgotten', {
  timeout: 200_000,
}, async () => {
  node.writeConfig('nft');
  put();
  expect(await node.apply()).toMatchObject({ exitCode: 0, stderr: '' });
  const clients = Array.from({ length: 900 }, (_, at) => client(at)).join(', ');
  await node.tool(['nft', '-f', '-'], `add element inet sluice aff4 { ${clients} }\n`);
  node.start();
  const alarm = await until('the alarm is raised', async () => (await alarms())['AFFINITY_NEARLY_FULL'], 20_000);
  expect(alarm).toMatch(/^900 of 1024 clients of session affinity are remembered in ipv4 \(87 %\)/);
  const metrics = (await node.get('/metrics')) ?? '';
  expect(metrics).toContain('sluice_affinity_clients{family="ipv4"} 900\n');
  expect(metrics).toContain('sluice_affinity_clients{family="ipv6"} 0\n');
  expect(metrics).toContain(`sluice_affinity_clients_max{family="ipv4"} ${size}\n`);
  if (!reaches('all')) return;
  await node.tool(['nft', 'flush', 'map', 'inet', 'sluice', 'aff4']);
  await until('the alarm ends', async () => (await alarms())['AFFINITY_NEARLY_FULL'] === undefined, 150_000);
  expect(await node.get('/metrics')).toContain('sluice_affinity_clients{family="ipv4"} 0\n');
});
