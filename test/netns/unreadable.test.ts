// @module-tag all
import { afterEach, beforeEach, expect, test } from 'vitest';
import { writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { SluicedNode, until, web } from './sluiced-node.ts';

/** A rule of nft in `table ip filter`, for which iptables has no form: `iptables-nft-save` prints nothing of the table. */

let node: SluicedNode;
beforeEach(needKernel);
beforeEach((context) => needBackend(context, 'nft'));
beforeEach(async () => {
  node = await SluicedNode.make();
  node.writeConfig('nft');
  writeBundle(`${node.directory}/rendered`, web(1, 2));
});
afterEach(() => node.remove());

const native = 'add rule ip filter INPUT ct state established accept\n';
const addRule = async (): Promise<string> =>
  node.tool(['nft', '-f', '-'], `add table ip filter\n${inputChain}${native}`);
const inputChain = 'add chain ip filter INPUT { type filter hook input priority 0; policy accept; }\n';
async function removeRule(): Promise<void> {
  const listed = await node.tool(['nft', '-a', 'list', 'chain', 'ip', 'filter', 'INPUT']);
  const handle = /ct state established.* # handle (\d+)/.exec(listed)?.[1] ?? '';
  await node.tool(['nft', 'delete', 'rule', 'ip', 'filter', 'INPUT', 'handle', handle]);
}
/** Both tables of IPv4 without counters and handles. */
const held = async (): Promise<string> =>
  node.tool(['nft', '-s', 'list', 'table', 'ip', 'filter']).then(async (filter) => {
    const nat = await node.tool(['nft', '-s', 'list', 'table', 'ip', 'nat']);
    return `${filter}\n${nat}`;
  });
const alarms = async (): Promise<Readonly<Record<string, string>>> =>
  (JSON.parse((await node.get()) ?? '{"alarms":{}}') as { readonly alarms: Record<string, string> }).alarms;

test('raises an alarm that names the table, repairs nat and adds no rule again and again', {
  timeout: 120_000,
}, async () => {
  node.start();
  await until(
    'the bundle is applied',
    async () => node.journal()?.open === null && node.journal()?.current?.number === 1,
  );
  await addRule();
  const before = await held();
  const alarm = await until('an alarm', async () => (await alarms())['KERNEL'], 30_000);
  expect(alarm).toContain('table ip filter');
  for (let times = 1; times <= 2; times++) {
    await node.tool(['iptables-nft', '-t', 'nat', '-F', 'SLUICE-SERVICES']);
    await until('nat is repaired', async () => (await held()) === before, 30_000);
  }
  expect(Object.keys(await alarms()), 'no loop').toEqual(['KERNEL']);
  await removeRule();
  await until('the alarm is cleared', async () => !('KERNEL' in (await alarms())), 60_000);
  expect(await held()).toBe(before.replace(/^.*ct state established.*\n/m, ''));
});

test('a boot loads the rules beside it', { timeout: 120_000 }, async () => {
  expect((await node.apply()).exitCode).toBe(0);
  const before = await node.rules('nft');
  await node.tool(['nft', 'flush', 'ruleset']);
  await addRule();
  expect(await node.sluiced('boot')).toMatchObject({
    exitCode: 0,
    stdout: expect.stringContaining('loaded generation 1'),
  });
  expect(await node.sluiced('boot'), 'the second one changes nothing').toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining('nft rules in table ip filter'),
  });
  expect((await node.sluiced('preflight')).stdout).toContain('nft rules in table ip filter');
  await removeRule();
  expect(await node.rules('nft')).toBe(before);
});
